import CLinux
import Glibc

/// What a file of the spool has no bytes for, where its filesystem says that exactly: its readers get zeros for it.
///
/// - Note: Each lseek(2) moves the position of the open file, which no read depends on: reads state theirs. The descriptor belongs to
///   the opening that this is made for, and is used no longer than that.
struct SpoolHoles: Sendable {
  /// ext2 to ext4, XFS, Btrfs, tmpfs and F2FS (statfs(2)): there a page that was written and is not on the disk yet is no hole, by
  /// lseek(2). OpenZFS before 2.2.2 called some such a hole (its issues 11900 and 15526), and FUSE asks a server that does not
  /// have it. Elsewhere all is read.
  private static let exactFilesystems: Set<UInt32> = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0xf2f5_2010]

  private let descriptor: Int32

  /// Nil where the filesystem does not say it exactly.
  init?(of descriptor: Int32) {
    guard Self.exactFilesystems.contains(uploadfs_filesystem_kind("/proc/self/fd/\(descriptor)")) else { return nil }
    self.descriptor = descriptor
  }

  /// The first hole from a position on, up to the next bytes or the file's end; nil where there is none before that.
  func next(from position: UInt64, sizeBytes: UInt64) -> Range<UInt64>? {
    guard let start = off_t(exactly: position) else { return nil }
    let hole = lseek(descriptor, start, uploadfs_seek_hole)
    guard hole >= 0, UInt64(hole) < sizeBytes else { return nil }
    let data = lseek(descriptor, hole, uploadfs_seek_data)
    guard data > hole || data < 0 && errno == ENXIO else { return nil }
    return UInt64(hole)..<(data < 0 ? sizeBytes : min(UInt64(data), sizeBytes))
  }

  /// Nothing of a range, which lies within the file, has bytes.
  func cover(_ range: Range<UInt64>) -> Bool {
    guard let start = off_t(exactly: range.lowerBound) else { return false }
    let data = lseek(descriptor, start, uploadfs_seek_data)
    return data < 0 ? errno == ENXIO : UInt64(data) >= range.upperBound
  }
}
