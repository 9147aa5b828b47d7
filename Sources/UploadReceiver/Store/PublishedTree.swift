import ReceiverCore
import CLinux
import ChunkProtocol
import Glibc

/// The tree below a credential's root. Reaches files only through directories that it opened itself, one component
/// after the other and never through a symbolic link, so that no name leads out of the root.
struct PublishedTree: Sendable {
  let folder: ConfiguredFolder
  let names: PublishedNames
  let beforeSync: BeforeSync
  private let syncedFolders = SyncedFolders()

  var root: FileDescriptor { folder.descriptor }

  init(_ folder: ConfiguredFolder, names: PublishedNames, beforeSync: @escaping BeforeSync) {
    self.folder = folder
    self.names = names
    self.beforeSync = beforeSync
  }

  /// A folder of published files.
  struct Folder {
    var directory: FileDescriptor
    var identity: FolderIdentity
    var path: String
    /// The directories above it, the root first.
    var ancestors: [FileDescriptor]
    /// The path is the one that was asked for.
    var isOwn = true
  }

  /// What is appended to a name in whose place a file lies: published files are never deleted for others. `%~` comes from no
  /// path of a client.
  private static let besideFile = "%~folder"

  /// How often a place is looked for again that others have taken, or whose folder they have taken away, before a file lies there.
  static let placesMax = 20

  /// The name in two parts; the folder's is empty for the root itself.
  static func split(_ name: String) throws(StoreFailure) -> (folder: Substring, lastComponent: Substring) {
    guard PublishedName.validate(name) == nil else { throw .nameUnreachable("the name is not acceptable") }
    guard let slash = name.utf8.lastIndex(of: UInt8(ascii: "/")) else { return ("", name[...]) }
    return (name[..<slash], name[name.utf8.index(after: slash)...])
  }

  /// Whether there is no folder of that name, afterwards. One that holds nothing but empty folders is removed.
  static func removeEmptyFolder(_ name: String, in parent: FileDescriptor) throws(StoreFailure) -> Bool {
    try removeEmptyFolder(EntryName(name), in: parent)
  }

  private static func removeEmptyFolder(
    _ name: EntryName, in parent: FileDescriptor
  ) throws(StoreFailure) -> Bool {
    guard let present = try folder(name, in: parent) else { return true }
    let entries = try DirectoryListing.entries(in: present)
    guard entries.count <= emptyFoldersMax else { return false }
    for inner in entries {
      guard try folder(inner, in: present) != nil, try removeEmptyFolder(inner, in: present) else { return false }
    }
    return unlinkat(parent.raw, name.characters, AT_REMOVEDIR) == 0
  }

  /// Of one folder; more are left alone.
  private static let emptyFoldersMax = 100

  /// Opens a directory, making what is missing.
  func makeFolder(_ path: Substring) throws(StoreFailure) -> Folder {
    var folder = Folder(directory: root, identity: try FolderIdentity(root), path: "", ancestors: [])
    for component in PublishedName.components(of: path) {
      let isFile = try PublishedTree.isFile(component, in: folder.directory)
      let name = isFile ? component + PublishedTree.besideFile : component
      let parent = folder.directory
      folder.ancestors.append(parent)
      folder.directory = try PublishedTree.makeDirectory(name, in: parent)
      folder.path += folder.path.isEmpty ? name : "/\(name)"
      if isFile { folder.isOwn = false }
    }
    folder.identity = try FolderIdentity(folder.directory)
    return folder
  }

  private static func isFile(_ component: String, in parent: FileDescriptor) throws(StoreFailure) -> Bool {
    try FileDescriptor.statusIfPresent(component, in: parent).map { $0.st_mode & S_IFMT == S_IFREG } ?? false
  }

  private static func makeDirectory(
    _ component: String, in parent: FileDescriptor
  ) throws(StoreFailure) -> FileDescriptor {
    if let present = try openDirectoryIfPresent(EntryName(component), in: parent) { return present }
    if mkdirat(parent.raw, component, 0o755) != 0, errno != EEXIST { throw failure("mkdir") }
    return try openDirectory(component, in: parent)
  }

  /// Returns when everything in the folder, and on the way to it, is on the disk.
  func sync(_ folder: Folder) throws(StoreFailure) {
    for ancestor in folder.ancestors { try syncedFolders.sync(ancestor, beforeSync) }
    try beforeSync(.publishedFolder)
    try folder.directory.sync()
  }

  /// Whether the name belongs to this very file. If so, everything on the way to it is on the disk afterwards: the crash may
  /// have come between the rename and that.
  func holds(_ receipt: PublicationReceipt, inode: UInt64) throws(StoreFailure) -> Bool {
    let name = receipt.publishedAs ?? receipt.name
    guard PublishedName.validate(name) == nil else { return false }
    var components = PublishedName.components(of: name)
    let last = components.removeLast()
    var directory = root
    var ancestors = [root]
    for component in components {
      guard let next = try PublishedTree.folder(component, in: directory) else { return false }
      directory = next
      ancestors.append(next)
    }
    guard let found = try FileDescriptor.statusIfPresent(last, in: directory), UInt64(found.st_ino) == inode,
      UInt64(clamping: found.st_size) == receipt.sizeBytes
    else { return false }
    for ancestor in ancestors {
      try beforeSync(.publishedFolder)
      try ancestor.sync()
    }
    return true
  }

  /// The bytes of all files below the root, whatever their names are; symbolic links are not followed.
  func usedBytes() throws(StoreFailure) -> UInt64 {
    var total: UInt64 = 0
    var pending = [root]
    while let directory = pending.popLast() {
      for name in try DirectoryListing.entries(in: directory) {
        guard let entry = try FileDescriptor.statusIfPresent(name, in: directory) else { continue }
        if entry.st_mode & S_IFMT == S_IFREG { total &+= UInt64(clamping: entry.st_size) }
        if entry.st_mode & S_IFMT == S_IFDIR, let child = try PublishedTree.folder(name, in: directory) {
          pending.append(child)
        }
      }
    }
    return total
  }

  private static let directoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW

  private static func openDirectoryIfPresent(
    _ component: EntryName, in parent: FileDescriptor
  ) throws(StoreFailure) -> FileDescriptor? {
    do throws(StoreFailure) {
      return try FileDescriptor.openIfPresent(component, in: parent, directoryFlags)
    } catch {
      throw failure("open")
    }
  }

  /// Nil where there is none of that name, or something else has it.
  static func folder(_ name: String, in parent: FileDescriptor) throws(StoreFailure) -> FileDescriptor? {
    try folder(EntryName(name), in: parent)
  }

  private static func folder(_ name: EntryName, in parent: FileDescriptor) throws(StoreFailure) -> FileDescriptor? {
    do throws(StoreFailure) {
      return try openDirectoryIfPresent(name, in: parent)
    } catch .nameUnreachable {
      return nil
    }
  }

  private static func openDirectory(
    _ component: String, in parent: FileDescriptor
  ) throws(StoreFailure) -> FileDescriptor {
    do throws(StoreFailure) {
      return try FileDescriptor.open(component, in: parent, directoryFlags)
    } catch {
      throw failure("open")
    }
  }

  static func failure(_ call: String) -> StoreFailure {
    switch errno {
    case ENOTDIR, ELOOP: .nameUnreachable("a part of the name is taken by something that is no folder")
    case EISDIR, EEXIST, ENOTEMPTY: .nameUnreachable("a folder has this name")
    case ENAMETOOLONG: .nameUnreachable("the name is too long for the receiver's disk")
    case EILSEQ, EINVAL: .nameUnreachable("the receiver's disk does not take this name")
    default: .last(call)
    }
  }
}
