/// Which part of a file's content a mutation concerns.
package enum ContentExtent: Hashable, Sendable {
  /// Bytes are written here.
  case bytes(Range<UInt64>)
  /// Bytes are taken away or made zero here, or blocks are reserved: nothing is written.
  case blocks(Range<UInt64>)
  /// The file gets this size.
  case size(UInt64)

  /// Bytes that a file of this size has become others, as opposed to some that come after them, or go.
  package func changesBytes(ofSize sizeBytes: UInt64) -> Bool {
    switch self {
    case .bytes(let range), .blocks(let range): range.lowerBound < sizeBytes
    case .size: false
    }
  }
}

/// One mutation, from before its system call until after it.
package struct ContentMutation: Hashable, Sendable {
  package let extent: ContentExtent
  /// The epoch that it began; no two mutations of a file have the same.
  package let epoch: UInt64

  /// One of which nothing is known but that it was in progress before the file had a subscriber.
  package static let unseen = ContentMutation(.blocks(0..<0), epoch: 0)

  package init(_ extent: ContentExtent, epoch: UInt64) {
    self.extent = extent
    self.epoch = epoch
  }
}

/// What the writers of an open file do to its chunks: when each was last touched, how much of it has been written, and
/// whether something is writing to it now. By this an uploader sends chunks of a file that is still growing.
///
/// A pure value; the filesystem keeps it under the file's lock, and a simulation of writers keeps the same rules by using
/// it. A chunk that was quiet at the start, and whose epoch is the same before and after it was read, has not changed in
/// between: each mutation gives its epoch to the chunks that it touches, before its system call.
package struct ChunkActivity: Hashable, Sendable {
  private struct Chunk: Hashable, Sendable {
    var epoch: UInt64
    /// Bytes written, each as often as it was: a chunk that is rewritten in parts may look full too early, which costs a
    /// second sending and never a wrong byte.
    var writtenBytes: UInt32 = 0
    var inFlight: UInt16 = 0
    var isNews = false
    /// It is in ``ChunkActivity/unsettled``, once: a system call may hang while others write.
    var isUnsettled = false
  }

  /// Beyond this many chunks a file is not followed: 16 MiB of memory, and 256 GiB of chunks of the least size.
  package static let countMax = 1 << 20

  package let chunkBytes: Int
  private var chunks: [Chunk] = []
  private var news: [Int] = []
  /// Reported as not quiet though nothing writes to them: they are news again once the size stands still.
  private var unsettled: [Int] = []
  /// How far the file has been written.
  private var writtenEndBytes: UInt64
  /// Mutations with this epoch or an earlier one were in progress when this began: what they touch is not known.
  private let startEpoch: UInt64
  private var unknownInFlight: Int
  private var resizesInFlight = 0
  private var lastEpoch: UInt64
  private var isFirstReport = true
  /// It was made empty since the last report: what was before says nothing of what is written now.
  private var wasEmptied = false
  /// A chunk beyond ``countMax`` was touched: nothing can be said any more.
  private var isLost = false

  /// Begins to follow a file as it is. `written` are the parts that hold data, in their order: a file may be longer than
  /// what has been written of it.
  package init(chunkBytes: Int, written: [Range<UInt64>], epoch: UInt64, mutationsInFlight: Int) {
    self.chunkBytes = max(1, min(chunkBytes, Int(UInt32.max)))
    startEpoch = epoch
    lastEpoch = epoch
    unknownInFlight = mutationsInFlight
    writtenEndBytes = 0
    for range in written { cover(range, UInt64(range.count)) }
  }

  /// Before a mutation's system call.
  package mutating func begin(_ mutation: ContentMutation) {
    lastEpoch = mutation.epoch
    switch mutation.extent {
    case .size(let bytes):
      resizesInFlight += 1
      for index in indices(from: bytes) { touch(index, mutation.epoch) }
    case .bytes(let range), .blocks(let range):
      for index in indices(of: range) {
        touch(index, mutation.epoch)
        chunks[index].inFlight += 1
      }
    }
  }

  /// After a mutation's system call; `writtenBytes` is nil when it failed.
  package mutating func end(_ mutation: ContentMutation, writtenBytes: UInt64?) {
    guard mutation.epoch > startEpoch else {
      unknownInFlight -= 1
      // Part of it may have been there at the start already, and counts twice.
      if case .bytes(let range) = mutation.extent { cover(range, writtenBytes) }
      if unknownInFlight == 0 { noteAll() }
      return
    }
    switch mutation.extent {
    case .size(let bytes):
      resizesInFlight -= 1
      if writtenBytes != nil { cut(at: bytes) }
      if resizesInFlight == 0 { settle() }
    case .blocks(let range): leave(range)
    case .bytes(let range):
      leave(range)
      cover(range, writtenBytes)
    }
  }

  /// What has changed since the last report; nil when the file can no longer be followed.
  package mutating func takeReport(of file: FileID, sizeBytes: UInt64) -> GrowthReport? {
    guard !isLost else { return nil }
    var report = GrowthReport(
      file: file, chunkBytes: chunkBytes, epoch: lastEpoch, sizeBytes: sizeBytes, writtenEndBytes: writtenEndBytes,
      isFirst: isFirstReport, wasEmptied: wasEmptied)
    report.changes.reserveCapacity(news.count)
    for index in news {
      chunks[index].isNews = false
      let chunk = chunks[index]
      if chunk.inFlight == 0, !isQuiet(chunk), !chunk.isUnsettled {
        chunks[index].isUnsettled = true
        unsettled.append(index)
      }
      report.changes.append(
        ChunkChange(
          index: index, epoch: chunk.epoch, isCovered: Int(chunk.writtenBytes) >= chunkBytes,
          isQuiet: isQuiet(chunk)))
    }
    news.removeAll(keepingCapacity: true)
    isFirstReport = false
    wasEmptied = false
    return report
  }

  /// The epoch of the last mutation that touched the chunk at an offset; nil while one is in progress, or when it is not
  /// known.
  package func stableEpoch(at offset: UInt64) -> UInt64? {
    let index = offset / UInt64(chunkBytes)
    guard !isLost, index < UInt64(chunks.count), isQuiet(chunks[Int(index)]) else { return nil }
    return chunks[Int(index)].epoch
  }

  private func isQuiet(_ chunk: Chunk) -> Bool {
    chunk.inFlight == 0 && resizesInFlight == 0 && unknownInFlight == 0
  }

  private mutating func leave(_ range: Range<UInt64>) {
    for index in indices(of: range) {
      if chunks[index].inFlight > 0 { chunks[index].inFlight -= 1 }
      note(index)
    }
  }

  /// The first bytes of a range were written.
  private mutating func cover(_ range: Range<UInt64>, _ writtenBytes: UInt64?) {
    let written = range.lowerBound..<(range.lowerBound + min(writtenBytes ?? 0, UInt64(range.count)))
    for index in indices(of: written) {
      let start = UInt64(index) * UInt64(chunkBytes)
      let overlap = written.clamped(to: start..<(start + UInt64(chunkBytes)))
      let (sum, isOver) = chunks[index].writtenBytes.addingReportingOverflow(UInt32(overlap.count))
      chunks[index].writtenBytes = isOver ? .max : sum
      note(index)
    }
    if !written.isEmpty { writtenEndBytes = max(writtenEndBytes, written.upperBound) }
  }

  /// What lay beyond the new end is gone; should the file grow again, it is not written there.
  private mutating func cut(at sizeBytes: UInt64) {
    writtenEndBytes = min(writtenEndBytes, sizeBytes)
    if sizeBytes == 0 { wasEmptied = true }
    for index in indices(from: sizeBytes) {
      let start = UInt64(index) * UInt64(chunkBytes)
      let left = sizeBytes > start ? UInt32(min(sizeBytes - start, UInt64(chunkBytes))) : 0
      chunks[index].writtenBytes = min(chunks[index].writtenBytes, left)
    }
  }

  private mutating func touch(_ index: Int, _ epoch: UInt64) {
    chunks[index].epoch = epoch
    note(index)
  }

  private mutating func note(_ index: Int) {
    guard !chunks[index].isNews else { return }
    chunks[index].isNews = true
    news.append(index)
  }

  private mutating func noteAll() {
    settle()
    for index in chunks.indices { note(index) }
  }

  /// The size stands still. What was not reported meanwhile is what it was before: a recorder may make its file longer thirty times a second.
  private mutating func settle() {
    for index in unsettled {
      chunks[index].isUnsettled = false
      note(index)
    }
    unsettled.removeAll(keepingCapacity: true)
  }

  private func indices(from offset: UInt64) -> Range<Int> {
    let first = min(offset / UInt64(chunkBytes), UInt64(chunks.count))
    return Int(first)..<chunks.count
  }

  /// The chunks of a range; they exist from now on.
  private mutating func indices(of range: Range<UInt64>) -> Range<Int> {
    guard !range.isEmpty else { return 0..<0 }
    let end = Self.chunkCount(of: range.upperBound, chunkBytes)
    guard !isLost, end <= UInt64(Self.countMax) else {
      isLost = true
      return 0..<0
    }
    while chunks.count < Int(end) { chunks.append(Chunk(epoch: startEpoch)) }
    return Int(range.lowerBound / UInt64(chunkBytes))..<Int(end)
  }

  private static func chunkCount(of bytes: UInt64, _ chunkBytes: Int) -> UInt64 {
    bytes / UInt64(chunkBytes) + (bytes % UInt64(chunkBytes) == 0 ? 0 : 1)
  }
}

/// What has happened to the chunks of an open file since the last report.
public struct GrowthReport: Hashable, Sendable {
  /// The file.
  public var file: FileID
  /// The length of a chunk, by which ``ChunkChange/index`` counts.
  public var chunkBytes: Int
  /// The epoch up to which this report and those before it are complete.
  public var epoch: UInt64
  /// The file's size.
  public var sizeBytes: UInt64
  /// How far it has been written; less than the size where a program has reserved room.
  public var writtenEndBytes: UInt64
  /// Nothing that was reported before counts any more: this one names every chunk.
  public var isFirst: Bool
  /// It was made empty in between: its writer begins anew.
  public var wasEmptied: Bool
  /// Each chunk that was touched, once.
  public var changes: [ChunkChange] = []
  /// Who asked.
  public var subscriber = SubscriberID.only

  /// A report without changes.
  public init(
    file: FileID, chunkBytes: Int, epoch: UInt64, sizeBytes: UInt64, writtenEndBytes: UInt64, isFirst: Bool,
    wasEmptied: Bool = false
  ) {
    self.wasEmptied = wasEmptied
    self.file = file
    self.chunkBytes = chunkBytes
    self.epoch = epoch
    self.sizeBytes = sizeBytes
    self.writtenEndBytes = writtenEndBytes
    self.isFirst = isFirst
  }
}

/// Where one chunk of an open file stands.
public struct ChunkChange: Hashable, Sendable {
  /// Its place in the file, counted in chunks.
  public var index: Int
  /// The last mutation that touched it.
  public var epoch: UInt64
  /// As many bytes have been written to it as it has.
  public var isCovered: Bool
  /// No mutation of it is in progress.
  public var isQuiet: Bool

  /// Where a chunk stands.
  public init(index: Int, epoch: UInt64, isCovered: Bool, isQuiet: Bool) {
    self.index = index
    self.epoch = epoch
    self.isCovered = isCovered
    self.isQuiet = isQuiet
  }
}
