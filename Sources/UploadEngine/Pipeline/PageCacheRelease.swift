import CLinux
import FileModel
import Glibc
import OrderedCollections
import Synchronization

/// Acknowledged bytes of a capture, which need not stay in the page cache.
struct CacheTrace: Hashable, Sendable {
  var file: FileID
  var range: Range<UInt64>
  /// The capture is large. One that is still written, and is not, may become so.
  var isOfLargeFile = true
}

/// Drops acknowledged bytes of large files from the page cache, so that a long capture does not push out what
/// the machine works with.
///
/// The kernel keeps dirty pages whatever it is advised. So writing back is begun at the acknowledgement, which does not
/// wait, and the advice is given at once and each second from then on, for ``repeatedSeconds``: a disk that has more to do takes its time,
/// and what is dirty for half a minute comes before all else there.
/// Where other destinations read the file as well, that begins after ``sharedSeconds``: those that keep up have read by then, and one that
/// lags reads from the disk anyway. On tmpfs the pages are the file, and stay.
final class PageCacheRelease: Sendable {
  private struct Pending {
    var file: any ReadableFile
    /// By the second of their acknowledgement, the latest one first.
    var generations: [[Range<UInt64>]]

    var isEmpty: Bool { generations.allSatisfy(\.isEmpty) }
  }

  private struct State {
    var pending: OrderedDictionary<FileID, Pending> = [:]
    /// Of files that are still written and are not large yet.
    var early: OrderedDictionary<FileID, [Range<UInt64>]> = [:]
  }

  static let sharedSeconds = 10
  static let repeatedSeconds = 60
  /// Files that are remembered beyond the first advice. They are open meanwhile.
  private static let filesMax = 16
  /// Files that may become large; beyond it the longest known keeps what is in the page cache of it by now.
  private static let earlyFilesMax = 256
  /// Chunks come back nearly in order, so that their ranges join.
  private static let rangesMax = 64
  /// The kernel keeps neighbouring pages together in pieces of up to this size, and drops none of a piece that is advised in
  /// part.
  private static let pieceBytes: UInt64 = 2 << 20

  private let isShared: Bool
  private let state = Mutex(State())

  /// - Parameter isShared: Other destinations read the same files.
  init(isShared: Bool) {
    self.isShared = isShared
  }

  /// Ranges of this age are the first that ``releaseAgain()`` drops.
  private var firstSecond: Int { isShared ? Self.sharedSeconds : 1 }

  /// Opens the file only where there is something to do.
  func release(_ trace: CacheTrace, _ open: () throws(FileContentsError) -> any ReadableFile) throws(FileContentsError)
  {
    guard !trace.range.isEmpty else { return }
    guard trace.isOfLargeFile else { return remember(trace) }
    let file = try open()
    guard let descriptor = file.descriptor else { return }
    let early = state.withLock { $0.early.removeValue(forKey: trace.file) } ?? []
    let ranges = early + [trace.range]
    for range in ranges {
      // Advice: where it is refused the pages stay, and an error of the disk is heard of by the file's own sync.
      _ = uploadfs_begin_writeback(
        descriptor, off_t(clamping: range.lowerBound), off_t(clamping: range.upperBound - range.lowerBound))
    }
    if !isShared { Self.drop(ranges, of: file) }
    // A file that is replaced by a newer opening of it is closed at this function's end, not under the lock.
    let (hasPlace, _) = state.withLock { state -> (Bool, (any ReadableFile)?) in
      guard state.pending[trace.file] != nil || state.pending.count < Self.filesMax else { return (false, nil) }
      let nothing = Array(repeating: [Range<UInt64>](), count: firstSecond + Self.repeatedSeconds)
      var entry = state.pending[trace.file] ?? Pending(file: file, generations: nothing)
      let previous = entry.file
      entry.file = file
      for range in ranges { Self.insert(range, into: &entry.generations[0]) }
      state.pending[trace.file] = entry
      return (true, previous)
    }
    // A destination that reads them later reads from the disk.
    if isShared, !hasPlace { Self.drop(ranges, of: file) }
  }

  private func remember(_ trace: CacheTrace) {
    state.withLock { state in
      Self.insert(trace.range, into: &state.early[trace.file, default: []])
      if state.early.count > Self.earlyFilesMax { state.early.removeFirst() }
    }
  }

  /// The file is gone, and its pages with it.
  func forget(_ id: FileID) {
    // Closed at this function's end, not under the lock.
    _ = state.withLock { state in
      state.early[id] = nil
      return state.pending.removeValue(forKey: id)?.file
    }
  }

  /// A second has passed.
  func releaseAgain() {
    let due = state.withLock { state -> [(file: any ReadableFile, ranges: [Range<UInt64>])] in
      let due = state.pending.values.map { entry in
        (file: entry.file, ranges: entry.generations.dropFirst(firstSecond - 1).flatMap(\.self))
      }
      state.pending = state.pending.compactMapValues { entry in
        var entry = entry
        entry.generations.removeLast()
        entry.generations.insert([], at: 0)
        return entry.isEmpty ? nil : entry
      }
      return due
    }
    for (file, ranges) in due where !ranges.isEmpty { Self.drop(ranges, of: file) }
  }

  /// What the disk has refused is nowhere but in these pages, and what a server holds of it is a part.
  private static func drop(_ ranges: [Range<UInt64>], of file: any ReadableFile) {
    guard let descriptor = file.descriptor, file.mayDropPageCache() else { return }
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
