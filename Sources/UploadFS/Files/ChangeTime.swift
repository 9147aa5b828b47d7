import CLinux
import Glibc

/// When a capture was last changed, as programs see it (`st_ctime`). Its label is the daemon's own, and moves the time of the spool's
/// file: programs that compare it would find the capture changed (tar(1), while they read it; git(1), each time).
///
/// Kept in memory: after a start the time of the spool's file is shown.
struct ChangeTime: Sendable {
  /// Nanoseconds since 1970 that the spool's file has since its last label, and that programs go on seeing as long as it has them.
  private var known: (inSpool: Int64, shown: Int64)?

  /// The daemon does something for itself. What a user does meanwhile is not told apart from it, and is said by ``changed()`` after.
  mutating func keep<Result, Failure: Error>(
    over file: FileDescriptor, _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let before = Self.time(of: file)
    let result = try body()
    let code = errno
    defer { errno = code }
    guard let before, let after = Self.time(of: file), after != before else { return result }
    known = (after, shown(before))
    return result
  }

  /// A user has changed the file, perhaps within the tick of the filesystem's clock in which a label was put (4 ms before Linux 6.13).
  mutating func changed() { known = nil }

  /// A status as programs see it.
  func shown(_ status: stat) -> stat {
    let inSpool = Self.nanoseconds(status)
    let time = shown(inSpool)
    guard time != inSpool else { return status }
    var status = status
    status.st_ctim = timespec(tv_sec: Int(time / 1_000_000_000), tv_nsec: Int(time % 1_000_000_000))
    return status
  }

  private func shown(_ time: Int64) -> Int64 {
    // Between the two lies what the spool's file had after an earlier label, as a status says that was read before this one.
    guard let known, time > known.shown, time <= known.inSpool else { return time }
    return known.shown
  }

  /// Nil where the disk does not say it: then it is shown as it is.
  private static func time(of file: FileDescriptor) -> Int64? {
    var status = stat()
    return fstat(file.number, &status) == 0 ? nanoseconds(status) : nil
  }

  private static func nanoseconds(_ status: stat) -> Int64 {
    Int64(status.st_ctim.tv_sec) &* 1_000_000_000 &+ Int64(status.st_ctim.tv_nsec)
  }
}
