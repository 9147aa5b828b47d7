import Glibc

/// What stands at a path of the virtual tree.
public enum VirtualNode: Hashable, Sendable {
  case directory
  case file(sizeBytes: Int)
  case link(target: [UInt8])
}

/// One line of a listing of the virtual tree.
public struct VirtualEntry: Hashable, Sendable {
  /// The entry's name: raw bytes, may be longer than 255 (a capture's name with `.json` behind it).
  public var name: [UInt8]
  /// What it is.
  public var node: VirtualNode

  /// One line of a listing.
  public init(name: [UInt8], node: VirtualNode) {
    self.name = name
    self.node = node
  }
}

/// What something of the virtual tree is about: a user who may reach that may see it.
public enum VirtualSubject: Hashable, Sendable {
  /// A captured file. `last` is who could reach it when it was last there.
  case file(FileID, last: FileOwnership?)
  /// A folder of captures; the root for the mount as a whole.
  case folder(RelativePath)
  /// Every captured file, wherever it stands: only the user who has mounted it may see that, or enter the folder of it.
  case everyFile
}

/// Whose a file is, and what its mode lets others do.
public struct FileOwnership: Hashable, Sendable {
  /// The user.
  public var user: UInt32
  /// The group.
  public var group: UInt32
  /// Permission bits (07777).
  public var mode: UInt32

  /// Collects them.
  public init(user: UInt32, group: UInt32, mode: UInt32) {
    self.user = user
    self.group = group
    self.mode = mode
  }
}

/// The generated files that the mount shows: `status/…` and `.uploadfs/…`.
///
/// Called on filesystem threads: answers come from memory, at once. Paths are relative to the mount's root and start
/// with one of ``topLevelNames``.
public protocol VirtualTree: Sendable {
  /// Names in the mount's root that belong to this tree; captures cannot take them.
  var topLevelNames: [[UInt8]] { get }
  /// What the path is about; nil for what is about nothing that could be hidden.
  func subject(of path: RelativePath) -> VirtualSubject?
  /// What stands at the path; nil when nothing does.
  func node(at path: RelativePath) -> VirtualNode?
  /// The entries of a directory in a stable order; empty for anything else.
  func entries(of directory: RelativePath) -> [VirtualEntry]
  /// Something is said of captures that are, or were, below a folder. Never waits.
  func hasDocuments(below folder: RelativePath) -> Bool
  /// A consistent copy of a file's bytes; nil when there is no such file.
  func contents(of path: RelativePath) -> [UInt8]?
  /// A number that differs whenever ``contents(of:)`` may differ; for poll(2).
  func version(of path: RelativePath) -> UInt64
  /// Commands can be written to the document at the path, by users who can write what it is about.
  func isWritable(_ path: RelativePath) -> Bool
  /// Takes what one call writes to a document. What it asks for is durable on return.
  func write(_ bytes: [UInt8], to path: RelativePath) throws(VirtualWriteRefusal)
  /// Registers the one observer that is told, at most every 33 ms, that some version has changed. It is called on a
  /// thread of the tree's owner that holds no lock.
  func observeChanges(_ observer: @escaping @Sendable () -> Void)
}

extension VirtualTree {
  /// Nothing is.
  public func hasDocuments(below folder: RelativePath) -> Bool { false }
  /// Nothing can be written.
  public func isWritable(_ path: RelativePath) -> Bool { false }
  /// Nothing can be written.
  public func write(_ bytes: [UInt8], to path: RelativePath) throws(VirtualWriteRefusal) {
    throw VirtualWriteRefusal(errno: EROFS)
  }
}

/// Why something was not taken that was written to a document.
public struct VirtualWriteRefusal: Error, Hashable, Sendable {
  /// A positive errno.
  public var errno: Int32

  /// A refusal with an errno.
  public init(errno: Int32) {
    self.errno = errno
  }
}
