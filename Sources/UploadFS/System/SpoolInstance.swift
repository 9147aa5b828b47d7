import CLinux
import Glibc

/// The time for which a spool's filesystem keeps what was written and is not on its disk yet: from the mount of that
/// filesystem to its end or the machine's.
struct SpoolInstance: Hashable, Sendable {
  /// Nil when it cannot be told from others.
  let name: String?
  /// The name that a version before would have given to it.
  let earlierName: String?

  init(name: String?, earlierName: String? = nil) {
    self.name = name
    self.earlierName = earlierName
  }

  /// The one in which a folder is seen: the start of the machine, and what tells this filesystem from others that were mounted
  /// since. A daemon that is started anew may see it through another mount, as services do that have a mount namespace of their
  /// own. Where the kernel does not number filesystems the mount has to do: the same disk mounted twice at a time looks like two then.
  init(of folder: FileDescriptor) {
    guard let boot = Self.boot() else {
      self.init(name: nil)
      return
    }
    let (filesystem, mount) = (uploadfs_superblock_number(folder.number), uploadfs_unique_mount_id(folder.number))
    // Before Linux 6.8 the numbers of mounts are used again.
    let byMount = mount == 0 ? nil : boot + "." + String(mount, radix: 16)
    self.init(name: filesystem == 0 ? byMount : boot + ".s" + String(filesystem, radix: 16), earlierName: byMount)
  }

  /// A mark was left in this very instance, by this version or by one before.
  func isThat(of mark: SpoolInstance) -> Bool {
    guard let known = mark.name else { return false }
    return known == name || known == earlierName
  }

  /// The first part of its identity: a whole one would not fit into an inode of ext4 beside the attribute's name.
  private static func boot() -> String? {
    let file = uploadfs_openat(AT_FDCWD, "/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC, 0)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: 8)
    return read(file, &bytes, 8) == 8 ? String(decoding: bytes, as: UTF8.self) : nil
  }
}
