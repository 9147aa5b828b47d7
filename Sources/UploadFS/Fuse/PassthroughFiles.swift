import CFuse
import Glibc
import Synchronization

/// Files of the spool that the kernel reads and writes by itself, as a mount's connection knows them.
final class PassthroughFiles: BackingFiles {
  /// The connection's descriptor, which lives as long as the mount.
  private let connection: Int32
  /// The kernel will take no file of this spool: this daemon may not give it any (EPERM), or the spool lies on an overlay
  /// (ELOOP), or cannot be used so at all.
  private let isRefused = Atomic<Bool>(false)

  init(connection: Int32) {
    self.connection = connection
  }

  func openBacking(_ descriptor: FileDescriptor) -> BackingID? {
    if isRefused.load(ordering: .relaxed) { return nil }
    let number = uploadfs_backing_open(connection, descriptor.number)
    if number > 0 { return BackingID(rawValue: number) }
    if [-EPERM, -ELOOP, -EOPNOTSUPP, -ENOTTY, -EINVAL].contains(number) { isRefused.store(true, ordering: .relaxed) }
    return nil
  }

  func closeBacking(_ id: BackingID) {
    uploadfs_backing_close(connection, id.rawValue)
  }
}
