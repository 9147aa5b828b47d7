import Lookup
import TransferModel

/// Names one read of a chunk into a buffer; the driver keeps the buffer under this number until the read is released.
public struct ReadID: Hashable, Sendable {
  /// The number, never reused within a process.
  public let value: UInt64

  /// Names the read with this number.
  public init(_ value: UInt64) { self.value = value }
}

/// The state of each chunk of one content of one file. Pure bookkeeping: it decides nothing.
///
/// A class, because a file of 100 GB has 25,000 chunks and a value would be copied at each event. `@unchecked Sendable`
/// is sound because it is only reachable through the one ``FileUpload`` that made it, inside the one ``UploadSchedule``,
/// which its driver keeps under one lock.
final class ChunkTransfer: @unchecked Sendable {
  /// A chunk goes from `pending` to `done`; every failure takes it back to `pending`, most of them after a rest.
  enum State: Hashable, Sendable {
    /// Of a file that is being written: its bytes are expected to change. Becomes `pending` when they no longer are, or
    /// when the file is complete.
    case unsealed
    /// To be read. Becomes `reading` when a buffer is free.
    case pending
    /// Failed, and read again at this time. Becomes `pending`.
    case resting(until: MonotonicTime)
    /// A worker reads and hashes it. Becomes `read`, or `done` when the server already holds the same bytes, or
    /// `pending` when the file changed meanwhile.
    case reading(ReadID)
    /// The chunk lies in a hole of the spool's file: its bytes are known to be zeros, and are in no buffer. Becomes
    /// `sendingHole`, or `pending` where the server has zeros sent.
    case hole(ChunkDigest)
    /// A request with this zero range is in flight. Becomes `done` at the acknowledgement, `hole` at a failure.
    case sendingHole(HTTPRequestID, ChunkDigest)
    /// The chunk's bytes wait in a buffer for a free request.
    case read(ReadID, ChunkDigest)
    /// In flight. Becomes `done` at the acknowledgement, `resting` or `pending` at a failure.
    case sending(HTTPRequestID, ReadID, ChunkDigest)
    /// A whole file in flight that is read while it is sent. Becomes `pending` at a failure.
    case streaming(HTTPRequestID)
    /// The server holds exactly these bytes. Becomes `pending` when the server denies it.
    case done(ChunkDigest)

    /// What is known of its bytes.
    var digest: ChunkDigest? {
      switch self {
      case .unsealed, .pending, .resting, .reading, .streaming: nil
      case .read(_, let digest), .sending(_, _, let digest), .done(let digest), .hole(let digest),
        .sendingHole(_, let digest):
        digest
      }
    }
  }

  /// Failures of one chunk since it was last acknowledged.
  struct Retry: Hashable, Sendable {
    var attempts = 0
    var previousDelay: Duration?
  }

  /// Whether the file was searched for holes.
  enum HoleSearch: Hashable, Sendable {
    case wanted
    case underWay
    case done
  }

  private(set) var plan: ChunkPlan
  private(set) var states: [State]
  private(set) var doneCount = 0
  private(set) var doneBytes: UInt64 = 0
  private(set) var sendingCount = 0
  private(set) var readingCount = 0
  /// Chunks in state `read`, in the order in which their bytes arrived.
  private(set) var readIndices: [Int] = []
  /// Chunks that have failed and are not acknowledged yet; few, because a failing file pauses.
  var retries: LookupTable<Int, Retry> = [:]
  /// How often chunks were sent again because they hung at the file's end.
  var timesHung: LookupTable<Int, Int> = [:]
  /// Chunks in state `resting`.
  private(set) var restingIndices: LookupSet<Int> = []
  /// Chunks in state `hole`, and how many are in state `sendingHole`.
  private(set) var holes = IndexRanges()
  private(set) var sendingHoleCount = 0
  var holeSearch = HoleSearch.wanted
  /// Requests with holes that were refused.
  var holeFailures = 0
  /// A commit found chunks missing that were still in flight: the next one waits until all are acknowledged.
  var commitsOnlyWhenDone = false
  /// No chunk below this is pending.
  private var cursor = 0
  /// No chunk below this is pending that the server has nothing of. This only orders the chunks: one that is passed
  /// over is found by ``cursor``.
  private var lackedCursor = 0
  private var proof: CommitProof?
  /// What compression has saved of each chunk when it was sent last; as long as the last one of which it saved anything.
  private var savings: [UInt32] = []
  /// Of the chunks that are done.
  private(set) var savedBytes: UInt64 = 0
  /// The parts of the file that may be given up in the spool.
  var releasable = ReleasableChunks()

  init(plan: ChunkPlan) {
    self.plan = plan
    states = Array(repeating: .pending, count: plan.count)
  }

  /// A transfer of a file that is being written: nothing of it is sealed.
  init(growingBy chunkBytes: Int) {
    plan = ChunkPlan(sizeBytes: 0, chunkBytes: chunkBytes)
    states = []
  }

  var isDone: Bool { doneCount == states.count }

  /// Some of the content was read or sent.
  var hasBegun: Bool { doneCount + sendingCount + readingCount + readIndices.count > 0 }

  /// Of a file that is being written: some of it is at the server, and nothing is on its way there.
  var hasSentWhatWasSealed: Bool {
    doneCount > 0 && sendingCount + readingCount + readIndices.count + restingIndices.count == 0 && nextPending() == nil
  }

  /// Nothing of the content was read, sent or searched.
  var isUntouched: Bool { !hasBegun && holeSearch == .wanted }

  /// The size of the file that is being written has changed. Chunks beyond the end are to be unsealed by then.
  func resize(to sizeBytes: UInt64) {
    plan = ChunkPlan(sizeBytes: sizeBytes, chunkBytes: plan.chunkBytes)
    let count = plan.count
    if count < states.count { states.removeLast(states.count - count) }
    cursor = min(cursor, count)
    lackedCursor = min(lackedCursor, count)
    if count > states.count { states.append(contentsOf: repeatElement(.unsealed, count: count - states.count)) }
  }

  /// The file is complete: what was not sealed is to be read now.
  func sealAll() {
    for index in states.indices where states[index] == .unsealed { set(.pending, at: index) }
  }

  /// The next chunk to read; lowest index first.
  func nextPending() -> Int? {
    while cursor < states.count {
      if case .pending = states[cursor] { return cursor }
      cursor += 1
    }
    return nil
  }

  /// The next chunk to read of those that the server is known to have nothing of; lowest index first.
  func nextPending(lackedBy held: HeldChunks) -> Int? {
    while lackedCursor < states.count {
      if case .pending = states[lackedCursor], !held.hasAny(at: lackedCursor) { return lackedCursor }
      lackedCursor += 1
    }
    return nil
  }

  /// The server has reported anew what it holds.
  func heldHasChanged() { lackedCursor = min(lackedCursor, cursor) }

  /// The next chunk to read of those that are sent in sequence; nil while one of them is in flight, or rests.
  func nextPending(in sequence: Range<Int>) -> Int? {
    if sequence.upperBound >= states.count, sequence.lowerBound == 0 {
      let isBusy = readingCount + sendingCount + readIndices.count + restingIndices.count > 0
      return isBusy ? nil : nextPending()
    }
    for index in sequence.clamped(to: 0..<states.count) {
      switch states[index] {
      case .done: continue
      case .pending: return index
      case .unsealed, .resting, .reading, .hole, .sendingHole, .read, .sending, .streaming: return nil
      }
    }
    return nil
  }

  func set(_ state: State, at index: Int) {
    guard states.indices.contains(index) else { return }
    count(states[index], at: index, by: -1)
    states[index] = state
    count(state, at: index, by: 1)
    if case .pending = state {
      cursor = min(cursor, index)
      lackedCursor = min(lackedCursor, index)
    }
  }

  /// The request for a chunk that is done had this many bytes fewer than the chunk.
  func saved(_ bytes: Int, at index: Int) {
    guard states.indices.contains(index), case .done = states[index], bytes > 0 || index < savings.count else { return }
    if index >= savings.count { savings += repeatElement(0, count: index + 1 - savings.count) }
    savedBytes -= UInt64(savings[index])
    savings[index] = UInt32(clamping: bytes)
    savedBytes += UInt64(savings[index])
  }

  /// Nothing is left to read or to hand to the network: every chunk is acknowledged or in flight.
  var isOnItsWay: Bool { doneCount + sendingCount == states.count }

  /// The proof over all chunks; nil while a digest is unknown. A digest stays what it is, because a transfer is of one
  /// content.
  func proof(sessionID: String) -> CommitProof? {
    var proof = self.proof.take().flatMap { $0.sessionID == sessionID ? $0 : nil } ?? CommitProof(sessionID: sessionID)
    while proof.chunkCount < states.count, let digest = states[proof.chunkCount].digest { proof.append(digest) }
    self.proof = proof
    return proof.chunkCount == states.count ? proof : nil
  }

  /// What is known of a chunk's bytes; nil also beyond the end.
  func digest(of index: Int) -> ChunkDigest? { states.indices.contains(index) ? states[index].digest : nil }

  /// Takes a chunk back that the server turned out not to hold; false when it was not believed to hold it.
  func deny(_ index: Int) -> Bool {
    guard states.indices.contains(index), case .done = states[index] else { return false }
    set(.pending, at: index)
    // Where the chunk is a hole, the server is told once more.
    if holeSearch == .done { holeSearch = .wanted }
    return true
  }

  /// Every resting chunk may be read now.
  func endRests() {
    for index in restingIndices.sorted() { set(.pending, at: index) }
  }

  private func count(_ state: State, at index: Int, by step: Int) {
    switch state {
    case .unsealed, .pending: break
    case .resting: if step > 0 { restingIndices.insert(index) } else { restingIndices.remove(index) }
    case .reading: readingCount += step
    case .read:
      if step > 0 { readIndices.append(index) } else { readIndices.removeAll { $0 == index } }
    case .hole:
      let place = UInt32(clamping: index)
      if step > 0 { holes.insert(place..<(place + 1)) } else { holes.remove(place..<(place + 1)) }
    case .sendingHole:
      sendingHoleCount += step
      sendingCount += step
    case .sending, .streaming: sendingCount += step
    case .done:
      retries[index] = nil
      if step < 0 { releasable.forget(index) }
      doneCount += step
      let bytes = UInt64(plan.byteCount(of: index))
      doneBytes = step > 0 ? doneBytes + bytes : doneBytes - bytes
      if step < 0, index < savings.count {
        savedBytes -= UInt64(savings[index])
        savings[index] = 0
      }
    }
  }
}

/// Holes.
extension ChunkTransfer {
  /// The request names this chunk as zeros.
  func isSendingHole(_ request: HTTPRequestID, at index: Int) -> Bool {
    guard states.indices.contains(index), case .sendingHole(request, _) = states[index] else { return false }
    return true
  }

  /// Holes are read as all other chunks are.
  func readHoles() {
    for index in holes.sorted() { set(.pending, at: Int(index)) }
  }

  /// The first holes that no other request names, and the digest of each chunk.
  func nextHoles(
    rangesMax: Int, chunksMax: Int, besides busy: LookupSet<Int>
  ) -> (ranges: [Range<Int>], digest: ChunkDigest?) {
    var ranges: [Range<Int>] = []
    var left = chunksMax
    for hole in holes.ranges {
      for index in Int(hole.lowerBound)..<Int(hole.upperBound) where !busy.contains(index) {
        guard left > 0 else { break }
        if ranges.last?.upperBound == index {
          ranges[ranges.count - 1] = ranges[ranges.count - 1].lowerBound..<(index + 1)
        } else if ranges.count < rangesMax {
          ranges.append(index..<(index + 1))
        } else {
          left = 0
          continue
        }
        left -= 1
      }
      guard left > 0 else { break }
    }
    guard let first = ranges.first?.lowerBound, case .hole(let digest) = states[first] else { return ([], nil) }
    return (ranges, digest)
  }
}
