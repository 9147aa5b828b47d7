import CLinux
import Glibc

/// The disk effects of replacing a file, so that a test can let any one of them fail.
struct FileEffects: Sendable {
  /// Writes all of the bytes; may have written some when it fails.
  var write: @Sendable (_ descriptor: Int32, _ bytes: [UInt8]) throws(StorageError) -> Void
  /// Makes a file's or a folder's content durable.
  var sync: @Sendable (_ descriptor: Int32) throws(StorageError) -> Void
  /// Replaces `to` by `from`.
  var rename: @Sendable (_ from: String, _ to: String) throws(StorageError) -> Void

  /// The system's own.
  static let system = FileEffects(
    write: { (descriptor, bytes) throws(StorageError) in
      guard uploadfs_write_all(descriptor, bytes, bytes.count) == bytes.count else {
        throw .system(errno, cannot: "write a file of the spool's state")
      }
    },
    sync: { (descriptor) throws(StorageError) in
      guard fsync(descriptor) == 0 else { throw .system(errno, cannot: "make the spool's state durable") }
    },
    rename: { (from, to) throws(StorageError) in
      guard Glibc.rename(from, to) == 0 else { throw .system(errno, cannot: "replace \(quoted(to))") }
    })
}

/// Files that are replaced as a whole: after a crash or a failure at any point there is either the old content or the
/// new one.
enum AtomicFile {
  /// What the temporary files' names end with; one that is found at the start is from a crash and of no use.
  static let temporarySuffix = ".tmp"

  /// Writes a temporary file beside `path`, makes it durable, renames it over `path`, and makes the folder durable. One
  /// caller at a time for each path.
  static func replace(_ path: String, with bytes: [UInt8], effects: FileEffects) throws(StorageError) {
    let temporary = path + temporarySuffix
    do {
      try create(temporary, bytes, effects)
      try effects.rename(temporary, path)
    } catch {
      // One that stays is replaced the next time.
      unlink(temporary)
      throw error
    }
    try syncFolder(of: path, effects)
  }

  /// The same for a temporary file that another writer has made: makes it durable, renames it, and makes the folder durable.
  static func adopt(_ temporary: String, as path: String, effects: FileEffects) throws(StorageError) {
    let descriptor = open(temporary, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { throw .system(errno, cannot: "open \(quoted(temporary))") }
    defer { close(descriptor) }
    try effects.sync(descriptor)
    try effects.rename(temporary, path)
    try syncFolder(of: path, effects)
  }

  /// Makes `bytes` durable at the end of a file of `byteCount` bytes; refuses one of any other length, which another program
  /// must have written. After a failure the file may end with some of the bytes.
  static func append(
    _ bytes: [UInt8], to path: String, of byteCount: Int, effects: FileEffects
  ) throws(StorageError) {
    let descriptor = open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { throw .system(errno, cannot: "open \(quoted(path))") }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw .system(errno, cannot: "examine \(quoted(path))") }
    guard status.st_mode & S_IFMT == S_IFREG, status.st_size == byteCount else {
      throw StorageError(.damaged, "\(quoted(path)) is not as it was left: it has \(status.st_size) bytes")
    }
    try effects.write(descriptor, bytes)
    try effects.sync(descriptor)
  }

  private static func create(_ path: String, _ bytes: [UInt8], _ effects: FileEffects) throws(StorageError) {
    // A leftover could be a link to somewhere else, or readable by others.
    unlink(path)
    let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw .system(errno, cannot: "create \(quoted(path))") }
    defer { close(descriptor) }
    try effects.write(descriptor, bytes)
    try effects.sync(descriptor)
  }

  private static func syncFolder(of path: String, _ effects: FileEffects) throws(StorageError) {
    let folder = path.unicodeScalars.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
    let descriptor = open(folder.isEmpty ? "/" : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .system(errno, cannot: "open the folder \(quoted(folder))") }
    defer { close(descriptor) }
    try effects.sync(descriptor)
  }

  /// A whole regular file of at most `bytesMax`; nil when there is none.
  static func read(_ path: String, bytesMax: Int) throws(StorageError) -> [UInt8]? {
    let descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else {
      let code = errno
      if code == ENOENT { return nil }
      // A link may lead to what others can change.
      if code == ELOOP { throw StorageError(.damaged, "\(quoted(path)) is no plain file") }
      throw .system(code, cannot: "open \(quoted(path))")
    }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw .system(errno, cannot: "examine \(quoted(path))") }
    guard status.st_mode & S_IFMT == S_IFREG else { throw StorageError(.damaged, "\(quoted(path)) is no plain file") }
    guard status.st_size <= bytesMax else {
      throw StorageError(.damaged, "\(quoted(path)) has \(status.st_size) bytes, which is more than it can have")
    }
    return try readAll(descriptor, byteCount: Int(status.st_size), path)
  }

  private static func readAll(_ descriptor: Int32, byteCount: Int, _ path: String) throws(StorageError) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: byteCount)
    let count = uploadfs_read_all(descriptor, &bytes, byteCount)
    let code = errno
    guard count == byteCount || code == 0 else { throw .system(code, cannot: "read \(quoted(path))") }
    bytes.removeLast(byteCount - count)
    return bytes
  }

  /// The names in a folder, without `.` and `..`, in byte order.
  static func names(in folder: String) throws(StorageError) -> [String] {
    guard let stream = opendir(folder) else { throw .system(errno, cannot: "list the folder \(quoted(folder))") }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = uploadfs_next_child(stream) { names.append(String(cString: uploadfs_entry_name(entry))) }
    // Half of a folder is not the folder.
    guard errno == 0 else { throw .system(errno, cannot: "list the folder \(quoted(folder))") }
    return names.sorted()
  }
}
