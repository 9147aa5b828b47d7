import FileModel
import Integrity
import TransferModel

/// What the latest probes of the samples of a few files have found, and when the next probe is due. A probe that finds
/// the same doubles the bytes until the next one, up to ``UploadConstants/compressionSampleStride``. Where less is
/// gained than before, the next probe is due at once.
struct CompressionMemory: Sendable {
  /// What is known of a file.
  struct Known: Hashable, Sendable {
    /// The filter after which Zstandard leaves least.
    var filter: RecordFilter
    /// The shares that the samples gave.
    var shares: CompressionShares
  }

  private struct Entry: Sendable {
    var file: FileID
    var known: Known
    /// The share that the first compressed chunk gave.
    var share: Double?
    var interval: Int
    var bytesLeft: Int
  }

  /// Files that are read at the same time.
  private static let filesMax = 8

  private var entries: [Entry] = []

  /// What is known, and whether a probe is due.
  func known(of file: FileID) -> (latest: Known, isDue: Bool)? {
    entries.first { $0.file == file }.map { ($0.known, $0.bytesLeft <= 0) }
  }

  /// A probe of a chunk has found this.
  mutating func looked(at file: FileID, _ byteCount: Int, _ known: Known) {
    let before = entries.firstIndex { $0.file == file }.map { entries.remove(at: $0) }
    let isTheSame = before.map { $0.known.filter == known.filter } ?? false
    let interval = isTheSame ? 2 * (before?.interval ?? byteCount) : byteCount
    let bounded = max(1, min(interval, UploadConstants.compressionSampleStride))
    entries.insert(Entry(file: file, known: known, interval: bounded, bytesLeft: bounded), at: 0)
    if entries.count > Self.filesMax { entries.removeLast() }
  }

  /// A chunk was compressed by the method known to be best, and this part of it is left; nil where it was not tried.
  mutating func passed(_ file: FileID, _ byteCount: Int, share: Double?) {
    guard let index = entries.firstIndex(where: { $0.file == file }) else { return }
    entries[index].bytesLeft -= byteCount
    guard let share else { return }
    guard let first = entries[index].share else { return entries[index].share = share }
    if share > first + UploadConstants.compressionGainLoss { entries[index].bytesLeft = 0 }
  }

  /// A chunk did not keep what its samples promised: nothing is tried until the next probe.
  mutating func disappointed(by file: FileID, _ byteCount: Int) {
    guard let index = entries.firstIndex(where: { $0.file == file }) else { return }
    entries[index].known.shares = .nothing
    entries[index].interval = min(2 * entries[index].interval, UploadConstants.compressionSampleStride)
    entries[index].bytesLeft = entries[index].interval
  }
}
