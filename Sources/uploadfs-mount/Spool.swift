import Glibc
import MountConfiguration
import MountStatus
import UploadEngine

/// The folder that holds captures, as far as it concerns whoever starts a mount.
enum Spool {
  /// What `.uploadfs/summary.json` says of it. Asks the local disk only.
  static func facts(
    of path: String, reserveBytes: UInt64, captures: Int, trouble: FileStatus.Failure?
  ) -> SpoolFacts {
    let shown = RealPath.of(path) ?? path
    var numbers = statvfs()
    guard statvfs(path, &numbers) == 0 else {
      return SpoolFacts(path: shown, captures: captures, freeBytes: 0, reserveBytes: reserveBytes, trouble: trouble)
    }
    let free = UInt64(numbers.f_bavail).multipliedReportingOverflow(by: UInt64(numbers.f_frsize)).partialValue
    return SpoolFacts(
      path: shown, captures: captures, freeBytes: free > reserveBytes ? free - reserveBytes : 0,
      reserveBytes: reserveBytes, trouble: trouble)
  }
}
