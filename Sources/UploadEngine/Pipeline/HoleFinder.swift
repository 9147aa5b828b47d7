import CLinux
package import FileModel
import Glibc

/// Finds the chunks of a settled file that lie in holes of the spool's file.
///
/// A hole is what the file's reader gets zeros for, and so its content, unless the parts were given up or a power cut has taken them: a
/// file of which anything of that kind is known has no holes here. That nothing was written meanwhile is seen as when a chunk is read.
struct HoleFinder {
  let contents: any FileContents
  let io: HybridIOEngine

  /// Of a file in more pieces than this the rest is read: each costs two system calls.
  static let holesMax = 100_000

  /// ext2 to ext4, XFS, Btrfs, tmpfs and F2FS (statfs(2)): there a page that was written and is not on the disk yet is no hole, by
  /// lseek(2). OpenZFS before 2.2.2 called some such a hole (its issues 11900 and 15526), and FUSE asks a server that does not
  /// have it. Elsewhere all is read.
  private static let exactFilesystems: Set<UInt32> = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0xf2f5_2010]

  /// The chunks that lie wholly in holes, in ascending order. None where the file is not, or is no longer, what was asked for.
  func chunks(of order: HoleOrder) -> [Range<Int>] {
    guard let before = contents.snapshot(of: order.file), order.isTrusted(before) else { return [] }
    do throws(FileContentsError) {
      let file = try io.begin(order.file, isKept: true)
      defer { io.end(file, isLastChunk: false) }
      guard file.opened.inode == before.inode, file.opened.sizeBytes == before.sizeBytes,
        let descriptor = file.file.descriptor,
        Self.exactFilesystems.contains(uploadfs_filesystem_kind("/proc/self/fd/\(descriptor)"))
      else { return [] }
      let found = HoleFinder.chunks(in: descriptor, order)
      // After the look, as after a read.
      let kept = found.filter { chunks in
        !contents.isReleased(order.file, order.offset(of: chunks.lowerBound)..<order.offset(of: chunks.upperBound))
      }
      guard let after = contents.snapshot(of: order.file), order.isTrusted(after),
        try file.file.identity() == file.opened
      else { return [] }
      return kept
    } catch {
      // Its chunks are read, which says what is wrong with it.
      return []
    }
  }

  /// Positions of the description change, and nobody needs them: reads state theirs.
  private static func chunks(in descriptor: Int32, _ order: HoleOrder) -> [Range<Int>] {
    var chunks: [Range<Int>] = []
    var position: UInt64 = 0
    // Many holes may be shorter than a chunk.
    for _ in 0..<holesMax {
      guard position < order.sizeBytes else { break }
      let hole = lseek(descriptor, off_t(position), uploadfs_seek_hole)
      guard hole >= 0, UInt64(hole) < order.sizeBytes else { break }
      let data = lseek(descriptor, hole, uploadfs_seek_data)
      guard data > hole || data < 0 && errno == ENXIO else { break }
      let end = data < 0 ? order.sizeBytes : min(UInt64(data), order.sizeBytes)
      let size = UInt64(order.chunkBytes)
      let first = Int(clamping: (UInt64(hole) + size - 1) / size)
      let last = Int(clamping: end / size)
      if first < last { chunks.append(first..<last) }
      position = end
    }
    return chunks
  }
}

extension HoleOrder {
  func offset(of index: Int) -> UInt64 { UInt64(index) * UInt64(chunkBytes) }

  /// The file is what was asked for, is at rest, and lacks nothing.
  package func isTrusted(_ snapshot: FileSnapshot) -> Bool {
    snapshot.epoch == epoch && snapshot.sizeBytes == sizeBytes && snapshot.mutationsInFlight == 0
      && !snapshot.isPartlyReleased && snapshot.missing == nil && snapshot.interruption == nil && chunkBytes > 0
  }
}
