import FileModel
import Integrity
import Lookup
import ProtocolReference
import Synchronization
import TransferModel

@testable import UploadEngine

/// A receiver in memory that keeps the rules of docs/protocol.md: it refuses wrong digests, unknown sessions and wrong
/// proofs, all judged without the engine's own code.
final class MemoryServer: Sendable {
  struct Session: Sendable {
    let chunkBytes: Int
    var chunks: [Int: [UInt8]] = [:]
  }

  struct State: Sendable {
    var steps: [DestinationStep] = []
    var sessions: [String: Session] = [:]
    var sessionsOpened = 0
    var published: [String: [UInt8]] = [:]
    var chunkRequests = 0
    /// What was refused as damaged or wrongly proved: an honest client has none.
    var mismatches: [String] = []
    var isRefusing: StepFailure?
    var wantsNewConnections = false
    /// When each answer came, as the destination was told.
    var answeredAt: [Int64?] = []
  }
  let state = Mutex(State())

  func keep(_ step: DestinationStep) -> Int {
    state.withLock {
      $0.steps.append(step)
      return $0.steps.count - 1
    }
  }

  func outcome(of step: DestinationStep) -> StepOutcome {
    state.withLock { state in
      if let failure = state.isRefusing { return .refused(failure) }
      switch step {
      case .prewarm: return .warmed
      case .openSession(let opening):
        let id = "session-\(state.sessionsOpened)"
        state.sessionsOpened += 1
        state.sessions[id] = Session(chunkBytes: opening.chunkBytes)
        return .sessionOpened(id: id, chunkBytes: opening.chunkBytes, expiresAtSeconds: nil)
      case .querySession(let session), .secureSession(let session):
        guard let held = state.sessions[session.id]?.chunks else { return Self.gone }
        return .held(
          digests: LookupTable(
            held.compactMap { index, bytes in Digest32(ProtocolReference.sha256(bytes)).map { (index, $0) } }))
      case .chunk(let chunk): return store(chunk, &state)
      case .commit(let commit): return publish(commit, &state)
      case .abort(let session):
        state.sessions[session.id] = nil
        return .ended
      case .wholeFile(let whole):
        let bytes = whole.body.map { Array($0.bytes) } ?? []
        guard Self.isDigest(whole.digest, of: bytes) else { return Self.mismatch("digest of \(whole.path)", &state) }
        return publish(whole.path, bytes.isEmpty ? [] : [bytes], sessionID: "", &state)
      case .bundle, .run, .zeros: return .refused(StepFailure(.badRequest, "it was not offered"))
      }
    }
  }

  private static let gone = StepOutcome.refused(StepFailure(.sessionGone, "gone"))

  private static func mismatch(_ what: String, _ state: inout State) -> StepOutcome {
    state.mismatches.append(what)
    return .refused(StepFailure(.digestMismatch, "damaged: \(what)"))
  }

  private static func isDigest(_ digest: ChunkDigest, of bytes: [UInt8]) -> Bool {
    digest.sha256.bytes == ProtocolReference.sha256(bytes) && digest.crc32c == ProtocolReference.crc32c(bytes)
  }

  private func store(_ chunk: ChunkSending, _ state: inout State) -> StepOutcome {
    state.chunkRequests += 1
    let bytes = Array(chunk.body.bytes)
    guard let session = state.sessions[chunk.session.id] else { return Self.gone }
    guard Self.isDigest(chunk.digest, of: bytes) else { return Self.mismatch("digest of chunk \(chunk.index)", &state) }
    guard bytes.count <= session.chunkBytes, bytes.count == chunk.plainBytes else {
      return .refused(StepFailure(.badRequest, "chunk \(chunk.index) has \(bytes.count) bytes"))
    }
    state.sessions[chunk.session.id]?.chunks[chunk.index] = bytes
    return .chunkStored
  }

  private func publish(_ commit: SessionCommit, _ state: inout State) -> StepOutcome {
    guard let session = state.sessions[commit.session.id] else { return Self.gone }
    let size = Int(commit.sizeBytes)
    guard commit.chunkCount == (size + session.chunkBytes - 1) / session.chunkBytes else {
      return .refused(StepFailure(.badRequest, "\(commit.chunkCount) chunks for \(size) bytes"))
    }
    let missing = (0..<commit.chunkCount).filter { index in
      session.chunks[index]?.count != min(session.chunkBytes, size - index * session.chunkBytes)
    }
    guard missing.isEmpty else { return .incomplete(missing: missing) }
    let chunks = (0..<commit.chunkCount).compactMap { session.chunks[$0] }
    let digests = chunks.map(ProtocolReference.sha256)
    guard commit.merkleRoot.bytes == ProtocolReference.merkleRoot(digests) else {
      return Self.mismatch("Merkle root of \(commit.path)", &state)
    }
    guard commit.chainTip.bytes == ProtocolReference.chainTip(sessionID: commit.session.id, digests) else {
      return Self.mismatch("chain tip of \(commit.path)", &state)
    }
    state.sessions[commit.session.id] = nil
    return publish(commit.path, chunks, sessionID: commit.session.id, &state)
  }

  private func publish(
    _ path: RelativePath, _ chunks: [[UInt8]], sessionID: String, _ state: inout State
  ) -> StepOutcome {
    let digests = chunks.map(ProtocolReference.sha256)
    state.published[path.displayText] = chunks.flatMap { $0 }
    return .published(
      Receipt(
        id: "r\(state.published.count)", name: path.displayText, sizeBytes: UInt64(chunks.reduce(0) { $0 + $1.count }),
        merkleRoot: ProtocolReference.hex(ProtocolReference.merkleRoot(digests)),
        chainTip: ProtocolReference.hex(ProtocolReference.chainTip(sessionID: sessionID, digests)),
        publishedAtMilliseconds: 0))
  }
}
