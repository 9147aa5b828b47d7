import CLinux
import FileModel
import Glibc
import OrderedCollections
import Synchronization

/// Drops acknowledged bytes of large files from the page cache (spec C1), so that a long capture does not push out what
/// the machine works with.
///
/// The kernel keeps dirty pages whatever it is advised. So writing back is begun at the acknowledgement, which does not
/// wait, and the advice is given twice: at once, and one to two seconds later. On tmpfs the pages are the file, and stay.
final class PageCacheRelease: Sendable {
  private struct Pending {
    var file: any ReadableFile
    var fresh: [Range<UInt64>] = []
    var aged: [Range<UInt64>] = []
  }

  /// Files that are remembered for the second time; beyond it only the first is tried. They are open meanwhile.
  private static let filesMax = 16
  /// Chunks come back nearly in order, so that their ranges join.
  private static let rangesMax = 64
  /// The kernel keeps neighbouring pages together in pieces of up to this size, and drops none of a piece that is advised in
  /// part.
  private static let pieceBytes: UInt64 = 2 << 20

  private let pending = Mutex<OrderedDictionary<FileID, Pending>>([:])

  func release(_ range: Range<UInt64>, of id: FileID, _ file: any ReadableFile) {
    guard let descriptor = file.descriptor, let offset = off_t(exactly: range.lowerBound),
      let length = off_t(exactly: range.upperBound - range.lowerBound), length > 0
    else { return }
    // Advice: where it is refused the pages stay, and an error of the disk is heard of by the file's own sync.
    _ = uploadfs_begin_writeback(descriptor, offset, length)
    Self.drop([range], of: file)
    // A file that is replaced by a newer opening of it is closed at this function's end, not under the lock.
    _ = pending.withLock { pending -> (any ReadableFile)? in
      guard pending[id] != nil || pending.count < Self.filesMax else { return nil }
      var entry = pending[id] ?? Pending(file: file)
      let previous = entry.file
      entry.file = file
      Self.insert(range, into: &entry.fresh)
      pending[id] = entry
      return previous
    }
  }

  /// The file is gone, and its pages with it.
  func forget(_ id: FileID) {
    // Closed at this function's end, not under the lock.
    _ = pending.withLock { $0.removeValue(forKey: id)?.file }
  }

  func releaseAgain() {
    let due = pending.withLock { pending -> [(file: any ReadableFile, ranges: [Range<UInt64>])] in
      let due = pending.values.map { (file: $0.file, ranges: $0.aged) }
      pending = pending.compactMapValues { entry in
        entry.fresh.isEmpty ? nil : Pending(file: entry.file, fresh: [], aged: entry.fresh)
      }
      return due
    }
    for (file, ranges) in due where !ranges.isEmpty { Self.drop(ranges, of: file) }
  }

  /// What the disk has refused is nowhere but in these pages, and what a server holds of it is a part.
  private static func drop(_ ranges: [Range<UInt64>], of file: any ReadableFile) {
    guard let descriptor = file.descriptor, file.mayForgetPages() else { return }
    for range in ranges { drop(range, descriptor) }
  }

  /// A piece on the border of two chunks goes with the second of them: the first has been read by then.
  private static func drop(_ range: Range<UInt64>, _ descriptor: Int32) {
    let start = range.lowerBound / pieceBytes * pieceBytes
    // Advice, which can be refused.
    _ = posix_fadvise(
      descriptor, off_t(clamping: start), off_t(clamping: range.upperBound - start), POSIX_FADV_DONTNEED)
  }

  private static func insert(_ range: Range<UInt64>, into ranges: inout [Range<UInt64>]) {
    var joined = range
    ranges.removeAll { other in
      guard other.lowerBound <= joined.upperBound, joined.lowerBound <= other.upperBound else { return false }
      joined = min(other.lowerBound, joined.lowerBound)..<max(other.upperBound, joined.upperBound)
      return true
    }
    ranges.append(joined)
    if ranges.count > rangesMax { ranges.removeFirst() }
  }
}
