import CLinux
import Glibc

/// The inode numbers that programs see. The whole mount is one device to them, and two files of one device with one number are one
/// file: cp, mv and tar refuse or skip the second one as “the same file”. So where another filesystem is mounted inside the spool, or a
/// subvolume lies there, its files get numbers of their own.
struct ShownInodes: Sendable {
  /// That of the spool's root.
  let device: UInt64

  /// The number of a file. That of a file on the spool's own device is its own; the others lie behind those of the virtual files.
  func number(of key: SpoolKey) -> UInt64 {
    guard key.device != device else { return key.inode }
    // FNV-1a.
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for word in [key.device, key.inode] {
      for shift in stride(from: UInt64(0), to: 64, by: 8) {
        hash = (hash ^ (word >> shift & 0xff)) &* 0x100_0000_01b3
      }
    }
    return 1 << 57 | hash >> 8
  }

  /// A status as programs see it.
  func shown(_ status: stat) -> stat {
    var status = status
    status.st_ino = ino_t(number(of: status.key))
    return status
  }
}
