import CLinux
import Glibc

/// The time for which a spool's filesystem keeps what was written and is not on its disk yet: from the mount of that
/// filesystem to its end or the machine's.
struct SpoolInstance: Hashable, Sendable {
  /// Nil when it cannot be told from others: before Linux 6.8 the numbers of mounts are used again.
  let name: String?

  init(name: String?) {
    self.name = name
  }

  /// The one in which a folder is looked at. The same disk mounted twice at a time looks like two, which costs nothing but
  /// a question.
  init(of folder: FileDescriptor) {
    let mount = uploadfs_unique_mount_id(folder.number)
    var boot = [CChar](repeating: 0, count: 64)
    let file = uploadfs_openat(AT_FDCWD, "/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC, 0)
    guard mount != 0, file >= 0 else {
      if file >= 0 { close(file) }
      name = nil
      return
    }
    // The first part of the identity: a whole one would not fit into an inode of ext4 beside the attribute's name.
    let count = read(file, &boot, 8)
    close(file)
    name =
      count == 8
      ? String(decoding: boot.prefix(8).map { UInt8(bitPattern: $0) }, as: UTF8.self) + "." + String(mount, radix: 16)
      : nil
  }
}
