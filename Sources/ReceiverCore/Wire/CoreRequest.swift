public import ChunkProtocol
import Integrity
import Lookup

/// What a request asks of the core.
public enum CoreRequest: Sendable {
  /// A session for a file.
  case openSession(CredentialID, idempotencyKey: String, SessionParameters)
  /// What a session holds.
  case query(CredentialID, SessionID, withDigests: Bool, isDurable: Bool)
  /// A session's publication.
  case commit(CredentialID, SessionID, CommitParameters)
  /// A session's end.
  case abort(CredentialID, SessionID)
  case chunk(CredentialID, SessionID, index: UInt32, AnnouncedBytes)
  /// Storing chunks that are zeros.
  case zeros(CredentialID, SessionID, [ChunkIndexRange], mac: [UInt8])
  /// Publishing a file that comes in one request.
  case wholeFile(CredentialID, name: String, FileHeaders, AnnouncedBytes)

  /// Who asks.
  public var credential: CredentialID {
    switch self {
    case .openSession(let credential, _, _), .query(let credential, _, _, _), .commit(let credential, _, _),
      .abort(let credential, _), .zeros(let credential, _, _, _), .chunk(let credential, _, _, _),
      .wholeFile(let credential, _, _, _):
      credential
    }
  }

  /// How it goes on after a reply of the core.
  public enum Outcome: Sendable {
    case answer(Answer)
    case readBody(AdmittedBody)
  }

  /// The question as an event. `freshID` is 32 random hexadecimal digits, the name of whatever session or receipt comes
  /// of it; `freeBytes` is what the disk has free, nil where it does not say.
  public func event(_ request: RequestID, freshID: String, freeBytes: UInt64?) -> CoreEvent {
    switch self {
    case .openSession(let credential, let key, let opening):
      .openSession(
        request,
        SessionOpeningRequest(
          credential: credential, idempotencyKey: key, opening: opening, candidateID: SessionID(freshID),
          freeBytes: freeBytes))
    case .query(let credential, let id, _, isDurable: false): .querySession(request, credential, id)
    case .query(let credential, let id, _, isDurable: true): .secureSession(request, credential, id)
    case .commit(let credential, let id, let facts): .commit(request, credential, id, facts, receiptID: freshID)
    case .abort(let credential, let id): .abort(request, credential, id)
    case .chunk(let credential, let id, let index, let announced):
      .beginChunk(
        request,
        ChunkHead(credential: credential, session: id, index: index, announced: announced, freeBytes: freeBytes))
    case .zeros(let credential, let id, let ranges, let mac):
      .storeZeros(
        request, ZerosHead(credential: credential, session: id, ranges: ranges, mac: mac, freeBytes: freeBytes))
    case .wholeFile(let credential, let name, let fields, let announced):
      .beginWholeFile(
        request,
        WholeFileHead(
          credential: credential, idempotencyKey: fields.idempotencyKey.text, name: name, announced: announced,
          nonce: fields.nonce, modifiedNanoseconds: fields.modifiedNanoseconds, mode: fields.mode,
          fileID: fields.fileID, ifExists: fields.ifExists, ownership: fields.ownership, receiptID: freshID,
          freeBytes: freeBytes))
    }
  }

  /// What a reply of the core means for the request.
  public func outcome(of reply: Reply) -> Outcome {
    switch (self, reply) {
    case (.chunk(_, _, _, let announced), .bodyAdmitted), (.wholeFile(_, _, _, let announced), .bodyAdmitted):
      .readBody(AdmittedBody(announced))
    default: .answer(answer(to: reply))
    }
  }

  private func answer(to reply: Reply) -> Answer {
    switch (self, reply) {
    case (.openSession, .sessionOpened(let facts, let isNew, let expiresAt, let published, let isBased)):
      .json(
        SessionResponse(
          id: facts.id, chunkBytes: facts.opening.chunkBytes, expiresAtSeconds: expiresAt / 1000,
          encodings: Capabilities.encodingsUnderstood, published: published,
          isBased: isBased ? true : nil),
        status: isNew ? 201 : 200
      ).withAbilities
    case (.query(_, _, let withDigests, _), .held(let held)):
      .json(HeldResponse(held, withDigests: withDigests)).withAbilities
    case (.commit, .receipt(let receipt)): .receipt(receipt, status: 200)
    case (.abort, .ended): .noContent
    case (.chunk, .chunkStored(let wasHeld)), (.zeros, .chunkStored(let wasHeld)): Answer(status: wasHeld ? 200 : 201)
    case (.wholeFile, .receipt(let receipt)): .receipt(receipt, status: 201).withAbilities
    case (_, .refused(let refusal)): .refused(refusal)
    default: .refused(Refusal(.storeFailed, "the receiver contradicts itself"))
    }
  }

  /// The body is complete, and these are the digests of its plain bytes.
  public func bodyArrived(_ request: RequestID, _ facts: ChunkChecksums) -> CoreEvent {
    if case .wholeFile = self { .wholeFileArrived(request, facts) } else { .chunkArrived(request, facts) }
  }

  /// The body will not come; the core answers with the reason.
  public func bodyFailed(_ request: RequestID, _ refusal: Refusal) -> CoreEvent {
    if case .wholeFile = self { .wholeFileFailed(request, refusal) } else { .chunkFailed(request, refusal) }
  }
}

extension HeldResponse {
  /// What is stored, as it travels.
  init(_ held: HeldChunks, withDigests: Bool) {
    let facts = held.facts
    self.init(
      id: facts.id, state: held.receipt == nil ? .open : .committed, chunkBytes: facts.opening.chunkBytes,
      held: held.chunks.keys.ranges.map { ChunkIndexRange(first: $0.lowerBound, last: $0.upperBound - 1) },
      digests: withDigests
        ? held.chunks.sorted().reduce(into: [:]) { $0[String($1.key)] = Hex.encode($1.value.sha256) } : nil,
      chainTip: Hex.encode(held.chainTip), expiresAtSeconds: held.expiresAt / 1000,
      receipt: held.receipt.map(ReceiptBody.init), encodings: Capabilities.encodingsUnderstood,
      isDurable: held.isDurable ? true : nil)
  }
}
