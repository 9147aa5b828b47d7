import FileModel
import Lookup
import TransferModel

/// What is known of the chunks of a file that is being written, and which of them may be sent before it is
/// complete (docs/semantics.md, S60). Pure: reports come in with the time, indices go out.
///
/// A chunk is sealed once it is fully written, nothing is writing to it, the file has been written a little further,
/// and it has been unchanged for a moment. The first chunk, where many formats write their sizes last, waits until
/// everything else was sent and it has been unchanged for long; once it has changed after that, it waits for the end. A
/// sealed chunk that changes after all is sent again; a writer that comes back that far has a longer way to go from then on. A file that
/// keeps changing sealed chunks is left alone until it is complete.
///
/// A class, because a recording has tens of thousands of chunks and a value would be copied at each event. `@unchecked
/// Sendable` is sound for the same reason as with ``ChunkTransfer``.
final class FileGrowth: @unchecked Sendable {
  private struct Chunk {
    var epoch: UInt64 = 0
    var isCovered = false
    var isQuiet = false
    var since = MonotonicTime(nanoseconds: 0)
  }

  /// Chunks at the beginning in which formats write last.
  static let headChunks = 1
  /// Such a chunk has to be unchanged for so long: a recorder that keeps its sizes right writes them every second or so.
  static let headQuietTime: Duration = .seconds(5)
  /// What must have been written behind a sealed chunk, of at most a chunk: the boxes and blocks whose sizes a writer fills in behind
  /// their content are mostly shorter. Once one was longer, it is a chunk.
  static let guardBytesMin = 256 << 10
  /// A file is left alone once more of its sealed chunks than this, and than a twentieth of them, have changed.
  static let rewrittenMax = 2

  let chunkBytes: Int
  private let headChunks: Int
  /// One of the first chunks has changed after it was sealed.
  private var hasHeadChanged = false
  private var guardBytes: Int
  /// All changes up to this epoch were reported.
  private(set) var epoch: UInt64 = 0
  /// The file keeps rewriting what was sent.
  private(set) var isDemoted = false
  private var chunks: [Chunk] = []
  private var writtenEndBytes: UInt64 = 0
  /// Covered and quiet chunks that are not sealed.
  private var candidates: LookupSet<Int> = []
  private var sealedCount = 0
  private var rewrittenCount = 0

  /// `isAppended`: each chunk is appended to the one before it. Nothing goes before the first then, and one that changes has all of the
  /// upload begin anew.
  init(chunkBytes: Int, isAppended: Bool) {
    self.chunkBytes = chunkBytes
    headChunks = isAppended ? 0 : Self.headChunks
    guardBytes = isAppended ? chunkBytes : min(chunkBytes, Self.guardBytesMin)
  }

  /// Takes a report and returns the chunks whose bytes may have changed.
  func take(_ report: GrowthReport, at now: MonotonicTime) -> [Int] {
    epoch = report.epoch
    if report.wasEmptied {
      sealedCount = 0
      rewrittenCount = 0
    }
    writtenEndBytes = report.writtenEndBytes
    var touched: [Int] = []
    for change in report.changes where change.index >= 0 && change.index < ChunkActivity.countMax {
      while chunks.count <= change.index { chunks.append(Chunk()) }
      if report.isFirst || chunks[change.index].epoch != change.epoch { touched.append(change.index) }
      chunks[change.index] = Chunk(
        epoch: change.epoch, isCovered: change.isCovered, isQuiet: change.isQuiet, since: now)
      if change.isCovered, change.isQuiet {
        candidates.insert(change.index)
      } else {
        candidates.remove(change.index)
      }
    }
    return touched
  }

  /// The chunks that may be read now, in their order, each once; a read has to find the chunk at ``epoch(of:)``. `takesHead`: there is
  /// nothing else to send.
  func seal(quietFor quietTime: Duration, takesHead: Bool, at now: MonotonicTime) -> [Int] {
    guard !isDemoted else { return [] }
    let ready = candidates.filter { isSealed($0, quietFor: quietTime, takesHead: takesHead, at: now) }.sorted()
    candidates.subtract(ready)
    sealedCount += ready.count
    return ready
  }

  /// The last mutation of a chunk that was reported.
  func epoch(of index: Int) -> UInt64? {
    chunks.indices.contains(index) ? chunks[index].epoch : nil
  }

  /// A sealed chunk could not be read unchanged. It waits for its next report, or to be sealed again.
  func unseal(_ index: Int, at now: MonotonicTime) {
    guard chunks.indices.contains(index) else { return }
    sealedCount -= 1
    chunks[index].since = now
    if chunks[index].isCovered, chunks[index].isQuiet { candidates.insert(index) }
  }

  /// A sealed chunk has changed.
  func noteRewritten(_ index: Int) {
    // What is written there last is nothing that the writer keeps doing.
    guard index >= headChunks else { return hasHeadChanged = true }
    guard guardBytes == chunkBytes else { return guardBytes = chunkBytes }
    rewrittenCount += 1
    if rewrittenCount > max(Self.rewrittenMax, sealedCount / 20) { isDemoted = true }
  }

  private func isSealed(_ index: Int, quietFor quietTime: Duration, takesHead: Bool, at now: MonotonicTime) -> Bool {
    guard UInt64(index + 1) * UInt64(chunkBytes) + UInt64(guardBytes) <= writtenEndBytes else { return false }
    if index >= headChunks { return chunks[index].since + quietTime <= now }
    return takesHead && !hasHeadChanged && chunks[index].since + max(quietTime, Self.headQuietTime) <= now
  }
}
