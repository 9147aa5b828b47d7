import CLinux
import Glibc

/// An open file of the spool, closed when its last user lets go of it.
///
/// A system call may still be running on it when its file is released by another thread; each user therefore holds a
/// reference, never the bare number.
///
/// The receiver has one of its own (UploadReceiver/Store): only the closing would be shared. This one's calls fail with an errno for the
/// kernel, and that one's with what the store says of a failure.
final class FileDescriptor: Sendable {
  /// The descriptor's number; valid as long as this object lives.
  let number: Int32
  /// Whether it was opened so that it can be written.
  let isWritable: Bool
  /// Whether it was opened so that it can be read.
  let isReadable: Bool
  private let whenClosed: (@Sendable () -> Void)?

  /// Takes ownership of an open descriptor. `whenClosed` is called once the system has it back.
  init(owning number: Int32, isReadable: Bool, isWritable: Bool, whenClosed: (@Sendable () -> Void)? = nil) {
    self.number = number
    self.isReadable = isReadable
    self.isWritable = isWritable
    self.whenClosed = whenClosed
  }

  deinit {
    close(number)
    whenClosed?()
  }

  /// What fstat(2) says of it.
  func status() throws(SystemError) -> stat {
    var status = stat()
    try check(fstat(number, &status))
    return status
  }

  /// chmod(2), which for a descriptor of this kind has no call of its own. A symbolic link has no mode that one could set.
  func setMode(_ mode: mode_t) throws(SystemError) {
    guard try status().st_mode & S_IFMT != S_IFLNK else { throw .notSupported }
    try check(chmod(reopenPath, mode & 0o7777))
  }

  /// A path that leads to the open file itself, also when it has no name any more.
  var reopenPath: [CChar] {
    "/proc/self/fd/\(number)".utf8CString.map { $0 }
  }
}
