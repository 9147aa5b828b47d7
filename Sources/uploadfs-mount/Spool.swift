import Glibc
import MountConfiguration
import MountStatus

/// The folder that holds captures, as far as it concerns whoever starts a mount.
enum Spool {
  /// Makes the folder and those above it; what is there already is left as it is.
  static func make(_ path: String) throws(ToolFailure) {
    var prefix = ""
    for part in path.split(separator: "/", omittingEmptySubsequences: false) {
      prefix += prefix.isEmpty && !part.isEmpty ? String(part) : "/\(part)"
      // Only the user's own: captures are nobody else's business until somebody says so.
      if mkdir(prefix, 0o700) != 0, errno != EEXIST, errno != EISDIR {
        throw ToolFailure(.spoolUnusable, "the spool \(path) cannot be made: \(prefix): \(systemMessage(errno))")
      }
    }
  }

  /// What `.uploadfs/summary.json` says of it. Asks the local disk only.
  static func facts(of path: String, reserveBytes: UInt64, captures: Int) -> SpoolFacts {
    var numbers = statvfs()
    guard statvfs(path, &numbers) == 0 else {
      return SpoolFacts(captures: captures, freeBytes: 0, reserveBytes: reserveBytes)
    }
    let free = UInt64(numbers.f_bavail).multipliedReportingOverflow(by: UInt64(numbers.f_frsize)).partialValue
    return SpoolFacts(
      captures: captures, freeBytes: free > reserveBytes ? free - reserveBytes : 0, reserveBytes: reserveBytes)
  }
}
