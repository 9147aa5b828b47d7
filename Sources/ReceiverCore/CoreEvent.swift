public import ChunkProtocol
public import Integrity

/// What happened. Everything that the core decides follows from these and from the time that comes with each.
public enum CoreEvent: Sendable {
  /// A client opens a session.
  case openSession(RequestID, SessionOpeningRequest)
  /// A run of chunks of a session begins to arrive; its chunks are events of their own.
  case beginRun(RequestID, CredentialID, SessionID)
  /// Nothing more of the run arrives.
  case endRun(RequestID)
  /// A chunk's header has arrived.
  case beginChunk(RequestID, ChunkHead)
  /// A chunk's body is complete in memory, and these are the digests of what arrived.
  case chunkArrived(RequestID, ChunkChecksums)
  /// A chunk's body did not arrive; the request is answered with the reason.
  case chunkFailed(RequestID, Refusal)
  /// A chunk lies in the data file and in the journal, or could not be put there.
  case chunkWritten(RequestID, StoreFailure?)
  /// A client names chunks that are zeros.
  case storeZeros(RequestID, ZerosHead)
  /// They lie in the data file as holes and in the journal, or could not be put there.
  case zerosWritten(RequestID, StoreFailure?)
  /// A client asks which chunks are stored.
  case querySession(RequestID, CredentialID, SessionID)
  /// A client asks what a session holds on the disk, where it outlives a power cut.
  case secureSession(RequestID, CredentialID, SessionID)
  /// What was written to the session before it was asked is on the disk, or could not be brought there.
  case sessionSecured(RequestID, SessionID, StoreFailure?)
  /// A client asks for publication.
  case commit(RequestID, CredentialID, SessionID, CommitParameters, receiptID: String)
  /// The digests were compared with the commit; the generation says which digests.
  case commitChecked(SessionID, generation: UInt64, CommitVerdict)
  /// The publication is done, or could not be done.
  case published(SessionID, Result<PublicationResult, StoreFailure>)
  /// A client gives the session up.
  case abort(RequestID, CredentialID, SessionID)
  /// The store has made the session's directory, and has or has not reserved the space; or it could not.
  case sessionCreated(SessionID, Result<SpaceReservation, StoreFailure>, published: PublishedContent? = nil)
  /// After a restart: the chunks whose bytes still have the digests of the journal.
  case sessionVerified(SessionID, Result<ChunkTable, StoreFailure>)
  /// A whole file's header has arrived.
  case beginWholeFile(RequestID, WholeFileHead)
  /// A whole file's body is complete in memory.
  case wholeFileArrived(RequestID, ChunkChecksums)
  /// A whole file's body did not arrive; the request is answered with the reason.
  case wholeFileFailed(RequestID, Refusal)
  /// A whole file is published, or could not be.
  case wholeFilePublished(RequestID, Result<PublicationResult, StoreFailure>)
  /// So much lies under a credential's root.
  case usageMeasured(CredentialID, bytes: UInt64)
  /// What the store found of sessions that are set aside.
  case rechecked([SessionID], Result<RecoveredState, StoreFailure>)
  /// The receiver's operator ends a session.
  case endByOperator(RequestID, SessionID)
  /// These may use the receiver from now on. Who is the same user as before has the same name.
  case credentialsChanged([CoreCredential])
  /// Time has passed.
  case tick
}

/// A request for a session.
public struct SessionOpeningRequest: Hashable, Sendable {
  /// Who asks.
  public var credential: CredentialID
  /// The client's key for this opening.
  public var idempotencyKey: String
  /// What for.
  public var opening: SessionParameters
  /// The name that the session gets if it is new; random.
  public var candidateID: SessionID
  /// What is free on the disk; nil where it does not say.
  public var freeBytes: UInt64?

  /// Collects a request.
  public init(
    credential: CredentialID, idempotencyKey: String, opening: SessionParameters, candidateID: SessionID,
    freeBytes: UInt64?
  ) {
    self.credential = credential
    self.idempotencyKey = idempotencyKey
    self.opening = opening
    self.candidateID = candidateID
    self.freeBytes = freeBytes
  }
}

/// What is announced about a body before it arrives.
public struct AnnouncedBytes: Hashable, Sendable {
  /// The digests and the size in the header.
  public var facts: ChunkChecksums
  /// The MAC; nil when there is none.
  public var mac: [UInt8]?
  /// The body's length, where HTTP states one.
  public var contentLength: UInt64?
  /// How the body is coded; the facts are of the plain bytes.
  public var encoding: ChunkEncoding
  /// The digest of the body as sent, where one is given.
  public var sentSHA256: Digest32?

  /// What a header announces.
  public init(
    facts: ChunkChecksums, mac: [UInt8]?, contentLength: UInt64?, encoding: ChunkEncoding = .identity,
    sentSHA256: Digest32? = nil
  ) {
    self.facts = facts
    self.mac = mac
    self.contentLength = contentLength
    self.encoding = encoding
    self.sentSHA256 = sentSHA256
  }

  /// Why a body of the length that HTTP states cannot be the one that is announced; nil when it can.
  var lengthRefusal: Refusal? {
    guard let contentLength else { return nil }
    let size = UInt64(facts.sizeBytes)
    switch encoding {
    case .identity where contentLength != size:
      return Refusal(
        .badRequest(field: HeaderName.chunkSize), "the Content-Length is \(contentLength), but the size is \(size)")
    case .lz4 where contentLength > size, .zstd where contentLength > size:
      return .encodedTooLong(plainBytes: Int(size))
    default: return nil
    }
  }
}

/// A chunk's header.
public struct ChunkHead: Hashable, Sendable {
  /// Who sends it.
  public var credential: CredentialID
  /// To which session.
  public var session: SessionID
  /// Its position.
  public var index: UInt32
  /// What is announced.
  public var announced: AnnouncedBytes
  /// What is free on the disk; nil where it does not say.
  public var freeBytes: UInt64?

  /// Collects a header.
  public init(
    credential: CredentialID, session: SessionID, index: UInt32, announced: AnnouncedBytes, freeBytes: UInt64?
  ) {
    self.credential = credential
    self.session = session
    self.index = index
    self.announced = announced
    self.freeBytes = freeBytes
  }
}

/// A whole file's header.
public struct WholeFileHead: Hashable, Sendable {
  /// Who sends it.
  public var credential: CredentialID
  /// The client's key for this file and revision.
  public var idempotencyKey: String
  /// The name to publish it under.
  public var name: String
  /// What is announced.
  public var announced: AnnouncedBytes
  /// The MAC's nonce.
  public var nonce: [UInt8]
  /// Last change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Permission bits.
  public var mode: UInt32
  /// The client's identity of the file.
  public var fileID: String?
  /// What to do when something has the name already, where the client says nothing of owners.
  public var ifExists: IfExists
  /// Whose the name may be; nil from an older client.
  public var ownership: NameOwnership?
  /// The receipt's name, if there will be one; random.
  public var receiptID: String
  /// What is free on the disk; nil where it does not say.
  public var freeBytes: UInt64?

  /// Collects a header.
  public init(
    credential: CredentialID, idempotencyKey: String, name: String, announced: AnnouncedBytes, nonce: [UInt8],
    modifiedNanoseconds: Int64, mode: UInt32, fileID: String? = nil, ifExists: IfExists,
    ownership: NameOwnership? = nil, receiptID: String, freeBytes: UInt64?
  ) {
    self.ownership = ownership
    self.credential = credential
    self.fileID = fileID
    self.idempotencyKey = idempotencyKey
    self.name = name
    self.announced = announced
    self.nonce = nonce
    self.modifiedNanoseconds = modifiedNanoseconds
    self.mode = mode
    self.ifExists = ifExists
    self.receiptID = receiptID
    self.freeBytes = freeBytes
  }

  /// What two requests with one key must agree in: a digest, so that the journal can hold it. What becomes of a file that has the
  /// name counts only for an older client (``CommitParameters/isSame(as:)``); the request that such a client has left is continued.
  var fingerprint: Digest32 {
    let ifExists = ownership == nil ? ifExists : .replace
    let text = [
      name, String(announced.facts.sizeBytes), Hex.encode(announced.facts.sha256), String(modifiedNanoseconds),
      String(mode), ifExists.rawValue,
    ].joined(separator: "\u{0}")
    return sha256(Array(text.utf8))
  }
}
