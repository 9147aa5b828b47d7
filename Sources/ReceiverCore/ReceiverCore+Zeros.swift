public import ChunkProtocol
import Integrity
import Lookup
import OrderedCollections

/// Ranges of chunks that are zeros, as a client names them.
public struct ZerosHead: Hashable, Sendable {
  /// Who sends them.
  public var credential: CredentialID
  /// To which session.
  public var session: SessionID
  /// As they came; whether they are in order is not known yet.
  public var ranges: [ChunkIndexRange]
  /// Their MAC.
  public var mac: [UInt8]
  /// What is free on the disk; nil where it does not say.
  public var freeBytes: UInt64?

  /// Collects what was named.
  public init(
    credential: CredentialID, session: SessionID, ranges: [ChunkIndexRange], mac: [UInt8], freeBytes: UInt64?
  ) {
    self.credential = credential
    self.session = session
    self.ranges = ranges
    self.mac = mac
    self.freeBytes = freeBytes
  }
}

/// Chunks that are zeros: nothing of them travels, and they lie as holes. They count as stored, are replaced, committed and counted against a quota
/// as all others; of the disk they take nothing.
extension ReceiverCore {
  mutating func storeZeros(_ request: RequestID, _ head: ZerosHead) {
    guard let session = session(head.session, of: head.credential) else {
      return refuse(request, gone(head.session, of: head.credential))
    }
    guard !park(.storeZeros(request, head), request, session) else { return }
    guard admits(request, session) else { return }
    if let refusal = formRefusal(head, session) { return refuse(request, refusal) }
    let chunks = IndexRanges(
      head.ranges.flatMap { session.held.zeros.gaps(in: $0.first..<($0.last + 1)) })
    guard !chunks.isEmpty else { return reply(request, .chunkStored(wasHeld: true)) }
    // Two writes to one place never overlap. Which of them is the later one, the client alone knows.
    guard !session.isBeingWritten(in: chunks) else {
      return refuse(request, .underWay, "some of these chunks are being written; come back")
    }
    guard session.writesLeft >= chunks.count else { return refuse(request, .replacedTooOften) }
    let bytes = session.bytesBeyond(chunks)
    if let refusal = spaceRefusal(
      0, ofQuota: bytes - min(bytes, session.heldBeyond(in: chunks)), for: head.credential, freeBytes: head.freeBytes)
    {
      return refuse(request, refusal)
    }
    stages[request] = .zerosToWrite(head.session, chunks)
    sessions[head.session]?.releaseWritten(in: chunks)
    sessions[head.session]?.zeroing[request] = chunks
    sessions[head.session]?.inFlightBeyond &+= bytes
    sessions[head.session]?.writesLeft -= chunks.count
    sessions[head.session]?.lastChange = now
    effects.append(.writeZeros(request, head.session, chunks, chunkBytes: session.chunkBytes))
  }

  /// Why these are no ranges of this session, or not the client's.
  private func formRefusal(_ head: ZerosHead, _ session: UploadSession) -> Refusal? {
    guard let last = head.ranges.last else { return .zeroRanges("there is no range") }
    guard head.ranges.count <= ProtocolLimits.zeroRangesMax else {
      return .zeroRanges("there are more than \(ProtocolLimits.zeroRangesMax) ranges")
    }
    let areAscending = zip(head.ranges, head.ranges.dropFirst()).allSatisfy { $0.last < $1.first }
    guard areAscending, head.ranges.allSatisfy({ $0.first <= $0.last }) else {
      return .zeroRanges("the ranges overlap, or are not in ascending order")
    }
    let limit = fileBytesMax(chunkBytes: session.chunkBytes)
    let (end, isTooFar) = (UInt64(last.last) + 1).multipliedReportingOverflow(by: session.chunkBytes)
    guard !isTooFar, end <= limit else { return .fileTooLarge(limit) }
    let isMeant = session.macKeys.contains { key in
      let mac = ChunkMAC.zerosMAC(
        key: key, ranges: head.ranges.map { ($0.first, $0.last) }, chunkBytes: session.chunkBytes,
        chunkSHA256: session.zero.sha256, sessionID: head.session.text, nonce: session.facts.opening.nonce)
      return HMACSHA256.isEqual(head.mac, mac)
    }
    guard isMeant else {
      return Refusal(
        .tagMismatch,
        "the tag of the ranges is wrong: they were changed on the way, or the two sides hold different credentials")
    }
    return nil
  }

  mutating func zerosWritten(_ request: RequestID, _ failure: StoreFailure?) {
    guard case .zerosToWrite(let id, let chunks) = stages[request] else { return }
    stages[request] = nil
    guard let session = sessions[id], session.zeroing[request] != nil else {
      storeWorkEnded(ofGone: id)
      return refuse(request, .sessionGone)
    }
    sessions[id]?.zeroing.takeOut(request)
    sessions[id]?.inFlightBeyond -= min(session.inFlightBeyond, session.bytesBeyond(chunks))
    if let failure {
      refuse(request, failure.refusal)
      if ends(id, failure) { return }
    } else {
      sessions[id]?.holdZeros(chunks)
      reply(request, .chunkStored(wasHeld: false))
    }
    chunkRequestEnded(id)
  }
}

extension Refusal {
  fileprivate static func zeroRanges(_ detail: String) -> Refusal {
    Refusal(.badRequest(field: "ranges"), "\(detail): [first, last], ascending, without overlap")
  }

  static let replacedTooOften = Refusal(
    .tooManySessions, "the session's chunks were replaced too often; open a new one")
}
