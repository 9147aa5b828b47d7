import ChunkProtocol
import Lookup
import OrderedCollections

/// One session as the core sees it.
struct UploadSession: Sendable {
  /// Where a session is in its life.
  enum Phase: Sendable {
    /// The store is making it. Exits: open; gone, when the store fails. Waiters are answered then.
    case creating(waiters: [RequestID])
    /// Found at the start, its chunks not yet believed. Exits: open, once the store has hashed them. Requests that touch
    /// it wait here.
    case recovered(parked: [ParkedEvent], isVerifying: Bool)
    /// Takes chunks. Exits: committing, gone.
    case open
    /// A commit waits for the last chunks, or for the verdict on all of them. Takes chunks. Exits: publishing; open,
    /// when the commit is refused; gone.
    case committing(PendingCommit)
    /// The store is publishing. Takes nothing. Exits: published; open, when the store fails. Where the file has its name
    /// and the disk failed after that, it stays, and the next commit has the store go on.
    case publishing(PendingCommit, PublicationReceipt)
    /// Done; kept so that the same commit gets the same receipt. Exit: gone.
    case published(PublicationReceipt)
  }

  /// A request that waits until the session is verified.
  struct ParkedEvent: Sendable {
    var request: RequestID
    var event: CoreEvent
    var deadline: Milliseconds
  }

  /// A commit in progress.
  struct PendingCommit: Sendable {
    var facts: CommitParameters
    var receiptID: String
    /// The requests that get the receipt.
    var waiters: [RequestID]
    /// When it is refused, whatever is still on its way.
    var deadline: Milliseconds
    /// When it is refused although nothing is on its way.
    var graceDeadline: Milliseconds
    /// The state whose verdict is being computed.
    var checking: UInt64?
    /// The last state that did not match, so that it isn't computed again.
    var mismatched: UInt64?
    /// The store has given the file its name and could not bring that to the disk.
    var isRenamed = false
    /// The request that set it going again after that.
    var resumedBy = RequestID(0)
    /// What did not match then.
    var verdict = CommitVerdict.match

    func isSame(as facts: CommitParameters) -> Bool { self.facts.isSame(as: facts) }

    /// It waits for chunks, and the client wants something else by now: the file has got another name. Once the verdict
    /// is being computed it may be published any moment, and the verdict is on these facts.
    func isReplaceable(by facts: CommitParameters) -> Bool { checking == nil && !isSame(as: facts) }
  }

  /// The requests that want to write one chunk, the running one first: two writes to one place never overlap, or the
  /// journal could tell of bytes that the other one wrote.
  struct WriteQueue: Sendable {
    var running: RequestID
    var waiting: [RequestID] = []
  }

  /// Nothing of it is in flight, and no client has reason to rely on what it holds.
  var isIdle: Bool {
    guard !mayHoldOnlyCopy, !isArriving, !isBeingWritten else { return false }
    switch phase {
    case .open: return true
    case .recovered(let parked, let isVerifying): return parked.isEmpty && !isVerifying
    case .creating, .committing, .publishing, .published: return false
    }
  }

  /// What the store is doing with its files: writes of chunks, syncs, a verification.
  var storeWorkCount: Int {
    let work = writing.count + zeroing.count + securingCount
    if case .recovered(_, true) = phase { return work + 1 }
    return work
  }

  /// Its client has asked for its chunks to be on the disk, and may have given up its own copy of them; or it may have done so
  /// before a restart.
  var mayHoldOnlyCopy = false
  let facts: SessionRecord
  /// What lay under the name when it was opened, of the same file; nil after a restart.
  var published: PublishedContent?
  /// It begins with that.
  var isBased = false
  /// One for each token of its user.
  var macKeys: [[UInt8]]
  var phase: Phase
  /// Verified, written and journaled. A chunk that is being replaced is not among them.
  var held = ChunkTable()
  /// Of what is stored, the bytes that lie beyond the stated size.
  var heldBeyond: UInt64 = 0
  /// Of what is stored, and of what is on record and not believed yet.
  var heldBytes: UInt64 = 0
  var unverifiedBytes: UInt64 = 0
  /// Likewise of what is on record and not believed before it has been read: it takes its space all the same.
  var unverifiedBeyond: UInt64 = 0
  /// Of what is stored; nil once a chunk was taken back, and after a restart.
  var proof: HeldProof?
  var writing: LookupTable<UInt32, WriteQueue> = [:]
  /// Chunks that are being made zeros, by the requests that have named them.
  var zeroing: OrderedDictionary<RequestID, IndexRanges> = [:]
  /// Requests that wait for a sync of it.
  var securingCount = 0
  /// Requests whose header was accepted and that are not yet answered.
  var inFlightCount = 0
  /// Requests that carry several of its chunks and are arriving. A chunk whose turn has not come counts by its run.
  var runs: LookupSet<RequestID> = []
  var inFlightBeyond: UInt64 = 0
  var writesLeft: Int
  /// After a restart it is unknown, so it is not assumed.
  var reservation = SpaceReservation.none
  /// Its end is counted from here.
  var lastChange: Milliseconds
  /// Changes with every change of what is stored.
  var generation: UInt64 = 0

  init(facts: SessionRecord, macKeys: [[UInt8]], phase: Phase, writesLeft: Int, lastChange: Milliseconds) {
    self.facts = facts
    self.macKeys = macKeys
    self.phase = phase
    self.writesLeft = writesLeft
    self.lastChange = lastChange
    if case .creating = phase { proof = HeldProof(sessionID: facts.id) }
  }

  /// Chunks are on their way.
  var isArriving: Bool { inFlightCount > 0 || !runs.isEmpty }

  var chunkBytes: UInt64 { UInt64(facts.opening.chunkBytes) }

  /// What the session counts for in its credential's quota.
  var footprintBytes: UInt64 {
    (facts.opening.sizeBytes ?? 0) &+ heldBeyond &+ inFlightBeyond &+ unverifiedBeyond
  }

  /// How much of a chunk lies beyond the stated size, which is counted in any case.
  func bytesBeyond(_ index: UInt32, _ sizeBytes: UInt32) -> UInt64 {
    let start = UInt64(index).multipliedReportingOverflow(by: chunkBytes)
    guard !start.overflow else { return UInt64(sizeBytes) }
    let stated = facts.opening.sizeBytes ?? 0
    return stated > start.partialValue
      ? UInt64(sizeBytes) - min(UInt64(sizeBytes), stated - start.partialValue) : UInt64(sizeBytes)
  }

  /// What is being published must not change any more.
  var takesChunks: Bool {
    switch phase {
    case .open, .committing: true
    case .creating, .recovered, .publishing, .published: false
    }
  }

  var isPublished: Bool {
    if case .published = phase { true } else { false }
  }

  /// The number of chunks of a file; nil when it is too large to be counted.
  static func chunkCount(fileBytes: UInt64, chunkBytes: UInt64) -> UInt32? {
    guard chunkBytes > 0 else { return nil }
    let (quotient, remainder) = fileBytes.quotientAndRemainder(dividingBy: chunkBytes)
    return UInt32(exactly: quotient + (remainder > 0 ? 1 : 0))
  }

  /// The size of the chunk at an index, 0 beyond the end.
  static func chunkSize(at index: UInt32, fileBytes: UInt64, chunkBytes: UInt64) -> UInt64 {
    let (offset, isTooLarge) = UInt64(index).multipliedReportingOverflow(by: chunkBytes)
    guard !isTooLarge, offset < fileBytes else { return 0 }
    return min(chunkBytes, fileBytes - offset)
  }

  /// The indices that the commit lacks, or for which another size is stored.
  func missing(for commit: CommitParameters) -> [UInt32] {
    (0..<commit.chunkCount).filter { index in
      let expected = UploadSession.chunkSize(at: index, fileBytes: commit.sizeBytes, chunkBytes: chunkBytes)
      return held[index].map { UInt64($0.sizeBytes) } != expected
    }
  }

  mutating func hold(_ chunk: ChunkChecksums, at index: UInt32) {
    release(index)
    held.insert(chunk, at: index)
    heldBytes &+= UInt64(chunk.sizeBytes)
    heldBeyond &+= bytesBeyond(index, chunk.sizeBytes)
    proof?.insert(chunk.sha256, at: index)
    generation &+= 1
  }

  /// What lies there is about to be overwritten and is believed no longer.
  mutating func release(_ index: UInt32) {
    guard let old = held.removeValue(forKey: index) else { return }
    heldBytes -= min(heldBytes, UInt64(old.sizeBytes))
    heldBeyond -= min(heldBeyond, bytesBeyond(index, old.sizeBytes))
    proof = nil
    generation &+= 1
  }
}

/// Chunks that are zeros.
extension UploadSession {
  /// What is known of each of them.
  var zero: ChunkChecksums { .zeros(facts.opening.chunkBytes) }

  /// The store writes something to it.
  var isBeingWritten: Bool { !writing.isEmpty || !zeroing.isEmpty }

  func isBeingZeroed(_ index: UInt32) -> Bool { zeroing.values.contains { $0.contains(index) } }

  /// The store writes one of these chunks.
  func isBeingWritten(in chunks: IndexRanges) -> Bool {
    zeroing.values.contains { $0.overlaps(chunks) } || writing.keys.contains { chunks.contains($0) }
  }

  /// Of which more is known than what a check of the disk has found.
  var knownAlready: IndexRanges {
    var known = IndexRanges(held.keys.ranges + writing.keys.sorted().map { $0..<($0 + 1) })
    for range in zeroing.values.flatMap(\.ranges) { known.insert(range) }
    return known
  }

  /// How much of whole chunks lies beyond the stated size, which is counted in any case.
  func bytesBeyond(_ chunks: IndexRanges) -> UInt64 {
    let stated = facts.opening.sizeBytes ?? 0
    return chunks.ranges.reduce(0) { bytes, range in
      let start = UInt64(range.lowerBound).multipliedReportingOverflow(by: chunkBytes)
      let end = UInt64(range.upperBound).multipliedReportingOverflow(by: chunkBytes)
      guard !start.overflow, !end.overflow else { return bytes }
      return bytes &+ end.partialValue - min(end.partialValue, max(start.partialValue, stated))
    }
  }

  /// How much of what came with its bytes there lies beyond the stated size.
  func heldBeyond(in chunks: IndexRanges) -> UInt64 {
    chunks.ranges.reduce(0) { bytes, range in
      held.writtenIndices(in: range).reduce(bytes) { bytes, index in
        bytes &+ (held[index].map { bytesBeyond(index, $0.sizeBytes) } ?? 0)
      }
    }
  }

  /// The proof of a file of holes would cost three hashes for each chunk, here; a commit computes it elsewhere.
  mutating func holdZeros(_ chunks: IndexRanges) {
    guard !chunks.isEmpty else { return }
    releaseWritten(in: chunks)
    for range in chunks.ranges { held.insertZeros(range, of: zero) }
    heldBytes &+= UInt64(chunks.count) &* chunkBytes
    heldBeyond &+= bytesBeyond(chunks)
    proof = nil
    generation &+= 1
  }

  /// What lies there with its bytes is about to be overwritten.
  mutating func releaseWritten(in chunks: IndexRanges) {
    for range in chunks.ranges {
      for index in held.writtenIndices(in: range) { release(index) }
    }
  }

  /// Nothing is believed from a chunk on.
  mutating func releaseAll(from first: UInt32) {
    for index in held.writtenIndices(in: first..<(.max)) { release(index) }
    let zeros = IndexRanges(held.zeros.parts(of: first..<(.max)))
    guard !zeros.isEmpty else { return }
    for range in zeros.ranges { held.removeZeros(range) }
    heldBytes -= min(heldBytes, UInt64(zeros.count) &* chunkBytes)
    heldBeyond -= min(heldBeyond, bytesBeyond(zeros))
    generation &+= 1
  }
}
