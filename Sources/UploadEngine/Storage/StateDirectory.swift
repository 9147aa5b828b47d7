public import FileModel
import Glibc
import Synchronization

/// `<spool>/.state`: where the engine keeps what it must not forget, and the lock that keeps a second mount away.
public final class StateDirectory: Sendable {
  /// Where the engine of one destination keeps its part.
  public struct Place: Hashable, Sendable {
    let path: String
    /// The catalog's database.
    public var catalogPath: String { path + "/catalog.sqlite" }
    /// The folder of the resume records.
    public var resumeDirectory: String { path + "/resume" }
  }

  /// The folder itself.
  public let path: String
  /// Which names templates have given, the same for every destination.
  public var namesPath: String { path + "/names.sqlite" }
  /// Which spool this is, and how often it was started.
  var spoolPath: String { path + "/spool" }
  /// The key that resume records are encrypted with.
  public var masterKeyFile: String { path + "/master.key" }

  /// Held open for as long as the spool is ours; the kernel frees the lock when the process ends, however it ends.
  private let lockDescriptor: Mutex<Int32>

  /// The place of a destination's engine, which is made where it is missing. The main one's is the folder itself, so that a
  /// spool in which there was only one stays what it was.
  public func place(of destination: DestinationName) throws(StorageError) -> Place {
    var folder = path
    if destination != .main {
      for part in ["/destinations", "/\(destination)"] {
        folder += part
        try Self.makePrivateFolder(folder)
      }
    }
    let place = Place(path: folder)
    try Self.makePrivateFolder(place.resumeDirectory)
    return place
  }

  /// The catalogs that there are, also of destinations that nothing goes to at present.
  func catalogPaths() throws(StorageError) -> [String] {
    let destinations = path + "/destinations"
    let areFurther = access(destinations, F_OK) == 0 || errno != ENOENT
    let names = areFurther ? try AtomicFile.names(in: destinations) : []
    var paths: [String] = []
    for folder in [path] + names.map({ "\(destinations)/\($0)" }) {
      let catalogPath = Place(path: folder).catalogPath
      if access(catalogPath, F_OK) == 0 {
        paths.append(catalogPath)
      } else if errno != ENOENT, errno != ENOTDIR {
        throw .system(errno, cannot: "look for \(quoted(catalogPath))")
      }
    }
    return paths
  }

  /// Makes the folder where it is missing, makes sure that it is private, and locks it.
  ///
  /// - Throws: ``StorageError/Kind/inUse(pid:)`` when another mount uses this spool.
  public init(spool: String) throws(StorageError) {
    path = spool + "/.state"
    try Self.makePrivateFolder(path)
    lockDescriptor = Mutex(try Self.lock(path + "/lock", spool: spool))
  }

  deinit { unlock() }

  /// Lets another mount use the spool. Everything that works in the folder has been closed before.
  public func unlock() {
    lockDescriptor.withLock { descriptor in
      if descriptor >= 0 { close(descriptor) }
      descriptor = -1
    }
  }

  private static func makePrivateFolder(_ path: String) throws(StorageError) {
    if mkdir(path, 0o700) != 0, errno != EEXIST { throw .system(errno, cannot: "create the folder \(quoted(path))") }
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    guard descriptor >= 0 else {
      let code = errno
      if code == ENOTDIR || code == ELOOP {
        throw StorageError(.system(errno: code), "\(quoted(path)) is no folder: move it away, or choose another spool")
      }
      throw .system(code, cannot: "open the folder \(quoted(path))")
    }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw .system(errno, cannot: "examine \(quoted(path))") }
    guard status.st_uid == geteuid() else {
      throw StorageError(
        .system(errno: EPERM),
        "\(quoted(path)) belongs to user \(status.st_uid): mount as that user, or choose another spool")
    }
    // It holds the key and the names of captures.
    if status.st_mode & 0o077 != 0, fchmod(descriptor, 0o700) != 0 {
      throw .system(errno, cannot: "make \(quoted(path)) private")
    }
  }

  private static func lock(_ path: String, spool: String) throws(StorageError) -> Int32 {
    // Close-on-exec: a helper that the daemon starts (fusermount3, a hook) must not hold the spool after its end.
    let descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      let code = errno
      guard [ELOOP, EISDIR, ENXIO].contains(code) else { throw .system(code, cannot: "open \(quoted(path))") }
      throw StorageError(
        .system(errno: code), "\(quoted(path)) is no plain file: move it away, nothing is lost with it")
    }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      let code = errno
      let pid = heldBy(descriptor)
      close(descriptor)
      guard code == EWOULDBLOCK else { throw .system(code, cannot: "lock \(quoted(path))") }
      let owner = pid.map { "process \($0)" } ?? "another process"
      throw StorageError(
        .inUse(pid: pid), "the spool \(quoted(spool)) is in use by \(owner): unmount it first, or choose another spool")
    }
    let text = Array("\(getpid())\n".utf8)
    // Only for the message above, so it does not matter if it cannot be written.
    ftruncate(descriptor, 0)
    // Likewise.
    _ = pwrite(descriptor, text, text.count, 0)
    return descriptor
  }

  private static func heldBy(_ descriptor: Int32) -> Int32? {
    var bytes = [UInt8](repeating: 0, count: 16)
    let count = pread(descriptor, &bytes, bytes.count, 0)
    guard count > 0 else { return nil }
    return Int32(String(decoding: bytes.prefix(count).prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self))
  }
}
