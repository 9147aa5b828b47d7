import CLinux
import Glibc

/// A system call's failure.
struct SystemError: Error {
  var code: Int32

  /// The failure that errno tells of.
  static var last: SystemError { SystemError(code: errno) }
}

/// Reads small files to their end.
enum WholeFile {
  /// The bytes of the file at a path; a larger one than `bytesMax` is refused with EFBIG.
  static func read(_ path: String, bytesMax: Int) throws(SystemError) -> [UInt8] {
    try read(path.utf8CString.map { $0 }, bytesMax: bytesMax)
  }

  /// The same at a path whose bytes may be no text; a zero ends it.
  static func read(_ path: [CChar], bytesMax: Int) throws(SystemError) -> [UInt8] {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError.last }
    defer { close(descriptor) }
    return try read(descriptor, bytesMax: bytesMax)
  }

  /// The bytes of a file of settings. A pipe would keep the command until something is written into it, and a device may have no end: neither
  /// is read (EINVAL).
  static func readSettings(_ path: String, bytesMax: Int) throws(SystemError) -> [UInt8] {
    let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError.last }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw SystemError.last }
    guard status.st_mode & S_IFMT != S_IFDIR else { throw SystemError(code: EISDIR) }
    guard status.st_mode & S_IFMT == S_IFREG else { throw SystemError(code: EINVAL) }
    return try read(descriptor, bytesMax: bytesMax)
  }

  /// The bytes from a descriptor's position to the end.
  static func read(_ descriptor: Int32, bytesMax: Int) throws(SystemError) -> [UInt8] {
    var bytes: [UInt8] = []
    var block = [UInt8](repeating: 0, count: 64 << 10)
    while true {
      let count = uploadfs_read_all(descriptor, &block, block.count)
      let code = errno
      guard count == block.count || code == 0 else { throw SystemError(code: code) }
      bytes += block[..<count]
      guard bytes.count <= bytesMax else { throw SystemError(code: EFBIG) }
      guard count == block.count else { return bytes }
    }
  }
}
