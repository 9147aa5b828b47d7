import FileModel
import Integrity
import OrderedCollections
import Synchronization
import TransferModel

/// A complete file that is read, piece by piece, while one request sends it.
///
/// Each piece is only given away once it was read and the file was found to be of the wanted epoch behind it. So when the last
/// piece goes out, all of them are of that epoch, and a request whose file changes meanwhile is broken off before its end:
/// a server that is sent a length never sees such a request as complete.
///
/// The transport's thread asks, the read workers answer. What it holds in memory is bounded by its window.
final class FileStream: StreamedFile {
  /// Where its bytes come from, and the memory that they come into.
  struct Source: Sendable {
    /// A free buffer of at least a piece's length; nil when there is none.
    var acquire: @Sendable () -> ChunkBuffer?
    /// False when the workers take no more.
    var submit: @Sendable (ReadJob) -> Bool
    /// These bytes are no longer needed in the page cache.
    var letGo: @Sendable (Range<UInt64>) -> Void
  }

  private struct Piece {
    var range: Range<UInt64>
    var buffer: ChunkBuffer
    var digest: ChunkDigest
    var leavesNoTrace: Bool
  }

  private struct State {
    var window: StreamWindow
    var proof: CommitProof
    var pieces: OrderedDictionary<Int, Piece> = [:]
    /// Counts the requests that have begun to send it: what was read for an earlier one is not used.
    var attempt: UInt64 = 0
    var failure: String?
    var isEnded = false
    /// Set while a reader waits for the next piece.
    var whenReady: (@Sendable () -> Void)?
    var isAwaited = false
    var sending: Piece?
  }

  /// A SHA-256 over the pieces as they go out, one after the other.
  private struct ContentDigest: ~Copyable {
    private var hasher: SHA256Hasher? = SHA256Hasher()
    private var sha256: Digest32?

    mutating func add(_ bytes: UnsafeRawBufferPointer) { hasher?.update(bytes) }

    mutating func finished() -> Digest32? {
      if let hasher = hasher.take() { sha256 = hasher.finalize() }
      return sha256
    }
  }

  /// Pieces in memory at most: one is sent, the next are read or ready.
  static let depth = 4
  static let pieceBytes = 1 << 20

  let byteCount: Int
  private let file: FileID
  private let epoch: UInt64
  private let sessionID: String
  private let source: Source
  private let state: Mutex<State>
  private let content = Mutex(ContentDigest())

  /// A stream of a file's content at an epoch. `nonce` is what its proof is bound to.
  init(file: FileID, epoch: UInt64, sizeBytes: UInt64, nonce: [UInt8], source: Source) {
    self.file = file
    self.epoch = epoch
    self.source = source
    byteCount = Int(clamping: sizeBytes)
    sessionID = Hex.encode(nonce)
    state = Mutex(
      State(
        window: StreamWindow(
          plan: ChunkPlan(sizeBytes: sizeBytes, chunkBytes: Self.pieceBytes), depth: Self.depth),
        proof: CommitProof(sessionID: sessionID)))
  }

  /// What was sent; nil before all of it was.
  var proof: (merkleRoot: Digest32, chainTip: Digest32)? {
    state.withLock { $0.window.isDone ? ($0.proof.merkleRoot, $0.proof.chainTip) : nil }
  }

  var contentSHA256: Digest32? {
    state.withLock { $0.window.isDone } ? content.withLock { $0.finished() } : nil
  }

  func begin(whenReady: @escaping @Sendable () -> Void) {
    // What falls out is released at this function's end, not under the lock.
    let dropped = state.withLock { state -> [Piece] in
      let dropped = Array(state.pieces.values) + (state.sending.map { [$0] } ?? [])
      state.window = StreamWindow(plan: state.window.plan, depth: state.window.depth)
      state.proof = CommitProof(sessionID: sessionID)
      state.pieces = [:]
      state.sending = nil
      state.attempt += 1
      state.failure = nil
      state.isEnded = false
      state.isAwaited = false
      state.whenReady = whenReady
      return dropped
    }
    withExtendedLifetime(dropped) {}
    content.withLock { $0 = ContentDigest() }
    readAhead()
  }

  func next() -> StreamedBytesSupply {
    let (supply, sent) = state.withLock { state -> (StreamedBytesSupply, Piece?) in
      let sent = state.sending.take()
      state.window.sent()
      if let failure = state.failure { return (.failed(failure), sent) }
      guard let index = state.window.takeReady(), let piece = state.pieces.removeValue(forKey: index) else {
        state.isAwaited = true
        return (.later, sent)
      }
      state.proof.append(piece.digest)
      state.sending = piece
      return (.bytes(piece.buffer), sent)
    }
    if case .bytes(let piece) = supply { content.withLock { $0.add(piece.bytes) } }
    if let sent, sent.leavesNoTrace { source.letGo(sent.range) }
    readAhead()
    return supply
  }

  func end() {
    _ = state.withLock { state -> [Piece] in
      let dropped = Array(state.pieces.values) + (state.sending.map { [$0] } ?? [])
      state.pieces = [:]
      state.sending = nil
      state.isEnded = true
      state.isAwaited = false
      state.whenReady = nil
      return dropped
    }
  }

  /// A worker has read a piece, or could not.
  func readEnded(_ job: ReadJob, _ result: ReadResult) {
    let wake = state.withLock { state -> (@Sendable () -> Void)? in
      guard job.id == state.attempt, !state.isEnded else { return nil }
      switch result {
      case .success(let chunk):
        guard let buffer = chunk.buffer else { return nil }
        let index = Int(clamping: job.offset / UInt64(Self.pieceBytes))
        state.pieces[index] = Piece(
          range: job.offset..<(job.offset + UInt64(job.byteCount)), buffer: buffer, digest: chunk.digest,
          leavesNoTrace: chunk.leavesNoTrace)
        state.window.becameReady(index)
        guard index == state.window.nextToSend else { return nil }
      case .changed: state.failure = "The file changed while it was sent, so the request was broken off before its end."
      case .failed(let error):
        state.failure = "The spool's copy cannot be read now: \(error.explanation)."
      }
      defer { state.isAwaited = false }
      return state.isAwaited ? state.whenReady : nil
    }
    wake?()
  }

  /// Only on the transport's thread, one call at a time.
  private func readAhead() {
    while let (attempt, offset, byteCount) = takeRead() {
      guard let buffer = source.acquire() else { return putBackRead() }
      var job = ReadJob(
        id: attempt, file: file, epoch: epoch, offset: offset, byteCount: byteCount, buffer: buffer)
      job.stream = self
      // The queue has a place for each piece of each stream; if it had none, this request would fail and another follow.
      guard source.submit(job) else { return readEnded(job, .failed(.system(errno: 0))) }
    }
  }

  private func takeRead() -> (attempt: UInt64, offset: UInt64, byteCount: Int)? {
    state.withLock { state in
      guard !state.isEnded, state.failure == nil, let index = state.window.takeRead() else { return nil }
      return (state.attempt, state.window.plan.offset(of: index), state.window.plan.byteCount(of: index))
    }
  }

  /// There was no memory for it. Buffers of a request that was broken off are on their way back; while this stream has
  /// one, it asks again with the next piece.
  private func putBackRead() {
    let wake = state.withLock { state -> (@Sendable () -> Void)? in
      state.window.putBackRead()
      guard state.window.isEmptyHanded else { return nil }
      state.failure = "There was no memory to read the file into."
      defer { state.isAwaited = false }
      return state.isAwaited ? state.whenReady : nil
    }
    wake?()
  }
}
