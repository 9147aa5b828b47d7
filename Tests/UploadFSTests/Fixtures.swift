import CLinux
import FileModel
import FilesystemFixtures
import Glibc

@testable import UploadFS

/// A folder that goes away with the test.
final class TemporaryFolder: Sendable {
  let path: String

  init() throws {
    var template = Array("/tmp/uploadfs-tests-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw SystemError.last }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit {
    _ = uploadfs_run("rm", "-rf", path, nil)
  }
}

/// A filesystem over a spool of its own, used without a mount. Its writers pause without waiting.
final class Mounted {
  let folder: TemporaryFolder
  let sink = RecordingSink()
  let tree = SettableTree()
  let filesystem: Filesystem
  let caller = Caller(user: geteuid(), group: getegid())

  init(
    folder: TemporaryFolder? = nil, known: [UInt64: FileID] = [:], source: SpoolSpace.Source? = nil,
    instance: SpoolInstance? = nil,
    _ change: (inout FilesystemConfiguration) -> Void = { _ in },
    pause: @escaping BackoffPermits.Pause = { _ in },
    writeBackErrors: @escaping Filesystem.WriteBackErrors = { $0.takeWriteBackError() },
    isOpenForWriting: @escaping PassthroughStanding.OpenForWriting = { $0.isOpenForWriting() },
    quotas: @escaping PassthroughStanding.QuotaQuestion = { _ in .none },
    holeMaking: HoleMaking = .system,
    labelReading: @escaping SpoolLabel.Reading = { (place) throws(SystemError) in try SpoolLabel.read(at: place) }
  ) throws {
    self.folder = try folder ?? TemporaryFolder()
    var configuration = FilesystemConfiguration(
      mountPoint: self.folder.path + "/mount", spoolDirectory: self.folder.path + "/spool")
    configuration.reserveBytes = 0
    configuration.knownIdentities = KnownIdentities(known)
    change(&configuration)
    filesystem = try Filesystem(
      configuration: configuration, sink: sink, virtualTree: tree, spaceSource: source, instance: instance,
      pause: pause, writeBackErrors: writeBackErrors, isOpenForWriting: isOpenForWriting, quotas: quotas,
      holeMaking: holeMaking, labelReading: labelReading)
  }

  var captures: String { folder.path + "/spool/captures" }

  /// The node of a path, looked up component by component as the kernel does.
  func node(_ path: String) throws -> NodeID {
    var node = NodeID.root
    for component in path.split(separator: "/") {
      guard let found = try filesystem.lookup(DirectoryEntry(directory: node, name: EntryName(String(component))))
      else {
        throw SystemError.notFound
      }
      node = found.node
    }
    return node
  }

  func entry(_ path: String) throws -> DirectoryEntry {
    let parts = path.split(separator: "/").map(String.init)
    return DirectoryEntry(
      directory: try node(parts.dropLast().joined(separator: "/")), name: EntryName(parts.last ?? ""))
  }

  func create(_ path: String, flags: Int32 = O_WRONLY, mode: mode_t = 0o600) throws -> UInt64 {
    try filesystem.create(entry(path), mode: mode, flags: flags, caller: caller).opened.handle
  }

  func open(_ path: String, flags: Int32) throws -> UInt64 {
    try filesystem.open(node(path), flags: flags).handle
  }

  @discardableResult
  func write(_ handle: UInt64, at offset: Int64 = 0, _ bytes: [UInt8]) throws -> Int {
    try bytes.withUnsafeBytes { buffer throws in try filesystem.write(handle, at: offset, buffer) }
  }

  /// Makes a file with content and closes it.
  func make(_ path: String, _ bytes: [UInt8] = Array("content".utf8)) throws {
    let handle = try create(path)
    if !bytes.isEmpty { try write(handle, bytes) }
    filesystem.release(handle)
  }

  func makeDirectory(_ path: String) throws {
    _ = try filesystem.makeDirectory(entry(path), mode: 0o700, caller: caller)
  }

  func rename(_ old: String, _ new: String, flags: UInt32 = 0) throws {
    try filesystem.rename(entry(old), to: entry(new), flags: flags)
  }

  func read(_ handle: UInt64, at offset: Int64 = 0, count: Int = 1 << 16) throws -> [UInt8] {
    var buffer = [UInt8](repeating: 0, count: count)
    let done = try buffer.withUnsafeMutableBytes { bytes throws in
      try filesystem.read(handle, at: offset, into: bytes)
    }
    return Array(buffer.prefix(done))
  }

  /// The content of a file as an uploader reads it.
  func contents(of id: FileID, count: Int = 1 << 16) throws -> [UInt8] {
    var buffer = [UInt8](repeating: 0, count: count)
    let done = try buffer.withUnsafeMutableBytes { bytes throws in
      try filesystem.openForReading(id).read(at: 0, into: bytes)
    }
    return Array(buffer.prefix(done))
  }

  func listing(_ path: String) throws -> [String] {
    let number = try filesystem.openDirectory(node(path))
    defer { filesystem.release(number) }
    return try filesystem.withListing(of: filesystem.directoryHandle(number), from: 0) { listing, _ in
      (0..<listing.count).map { index in listing.withName(at: index) { String(cString: $0) } ?? "" }
    }.filter { $0 != "." && $0 != ".." }.sorted()
  }
}

/// The errno that an operation failed with; nil when it did not.
func failure(_ body: () throws -> Void) -> Int32? {
  do {
    try body()
    return nil
  } catch {
    return (error as? SystemError)?.code ?? -1
  }
}
