import CLinux
import Glibc
import ReceiverCore
import Synchronization

/// What is brought to the disk.
enum SyncSubject: Hashable, Sendable {
  case data
  case sessionJournal
  case sessionFolder
  case sessionsFolder
  case publishedFolder
  case incomingFolder
  case receiptJournal
  case receiptsFolder
  case spools
}

/// Is told before each sync; tests note the order, and let one fail.
typealias BeforeSync = @Sendable (SyncSubject) throws(StoreFailure) -> Void

/// Knows of folders that nothing has changed since they were synced, so that the way to a published file costs syncs only
/// where it is new. The maker of a folder may not have synced it yet, or may have died before: so every folder on the way
/// is synced once, and again when it has changed.
final class SyncedFolders: Sendable {
  private struct Change: Hashable, Sendable {
    var seconds: Int
    var nanoseconds: Int
  }

  private static let countMax = 10_000
  /// The kernel's timestamps move in steps: two changes within one step look like one.
  private static let timestampSeconds = 1

  private let changes = Mutex<[UInt64: Change]>([:])

  /// Returns when everything that the folder holds now is on the disk.
  func sync(_ folder: FileDescriptor, _ beforeSync: BeforeSync) throws(StoreFailure) {
    let status = try folder.status()
    let change = Change(seconds: status.st_ctim.tv_sec, nanoseconds: status.st_ctim.tv_nsec)
    let inode = UInt64(status.st_ino)
    if changes.withLock({ $0[inode] == change }) { return }
    try beforeSync(.publishedFolder)
    try folder.sync()
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    guard now.tv_sec - change.seconds > SyncedFolders.timestampSeconds else { return }
    changes.withLock { changes in
      if changes.count >= SyncedFolders.countMax { changes = [:] }
      changes[inode] = change
    }
  }
}
