import MountConfiguration
import MountStatus
import UploadEngine

/// The folder that holds captures, as far as it concerns the start of a mount.
enum Spool {
  /// What `.uploadfs/summary.json` says of it, by what is free on its disk; nil where that does not say so.
  static func facts(
    at path: String, freeBytes: UInt64?, reserveBytes: UInt64, captures: Int, trouble: FileStatus.Failure?,
    renewal: SpoolIdentity.Renewal?
  ) -> SpoolStatus {
    let free = freeBytes ?? 0
    return SpoolStatus(
      path: path, captures: captures, freeBytes: free > reserveBytes ? free - reserveBytes : 0,
      reserveBytes: reserveBytes, trouble: trouble, renewal: renewal)
  }
}
