public import ChunkProtocol
public import Integrity
public import Lookup

/// What is to be done. The driver runs effects in the order given, after it has let go of the core; what the store does
/// comes back as an event.
public enum CoreEffect: Sendable {
  /// Answer a request; each request gets exactly one answer at each of its stages.
  case reply(RequestID, Reply)
  /// Make the session's directory, data file and journal.
  case createSession(SessionRecord)
  /// Write the request's body at the offset, then record it.
  case writeChunk(RequestID, SessionID, index: UInt32, offset: UInt64, ChunkChecksums)
  /// Make these chunks zeros, without bytes where the disk can do that, then record them.
  case writeZeros(RequestID, SessionID, IndexRanges, chunkBytes: UInt64)
  /// Bring to the disk what was written to the session before.
  case secureSession(RequestID, SessionID)
  /// Read the session's data and compare it with the journal.
  case verifySession(SessionID, takesBase: Bool)
  /// Compute the commit's verdict; pure, but too long for the core's lock when a file has many chunks.
  case checkCommit(CommitCheck)
  /// Publish a session's data.
  case publish(SessionID, Publication)
  /// Delete the session's directory.
  case removeSession(SessionID)
  /// Delete it with whatever lies in it.
  case clearSession(SessionID)
  /// Write and publish the request's body.
  case publishWholeFile(RequestID, WholeFileRecord, Publication)
  /// Forget whole-file receipts older than this.
  case forgetReceipts(before: Milliseconds)
  /// Count what lies under a credential's root.
  case measureUsage(CredentialID)
  /// Check sessions again that are set aside.
  case recheck([SessionID])
  /// Something for the log.
  case note(CoreNote)
}

/// What becomes of sessions without a request of their clients, for the log, and whose they are where that is known.
public enum CoreNote: Sendable {
  /// It cannot be read, or is damaged, and is kept as it is.
  case quarantined(QuarantinedSession, of: CredentialID?)
  /// It can be read again.
  case goesOn(SessionID, of: CredentialID?)
  /// Its folder is gone.
  case gone(SessionID, of: CredentialID?)
  /// Its client has not touched it for so long.
  case expired(SessionRecord)
  /// It has made room for a new one.
  case displaced(SessionRecord)
  /// The operator has ended it.
  case ended(SessionID, of: CredentialID?)
}

/// An open session, for the operator.
public struct SessionListing: Sendable {
  /// The session's name.
  public var id: SessionID
  /// Whose it is; nil where that cannot be read.
  public var credential: CredentialID?
  /// The name of its file at its opening.
  public var name: String?
  /// The stated size.
  public var sizeBytes: UInt64?
  /// What it holds.
  public var heldBytes: UInt64 = 0
  /// Since its last change.
  public var age: Milliseconds = 0
  /// Its client may have given up its own copy.
  public var mayHoldOnlyCopy = false
  /// Why it cannot be continued.
  public var trouble: String?
}

/// Whether the disk space of a session's stated size is already its own.
public enum SpaceReservation: Hashable, Sendable {
  /// What is written up to the stated size takes no more of what is free.
  case reserved
  /// Every chunk takes of what is free.
  case none
}

/// The answer to a request, or to its first stage.
public enum Reply: Sendable {
  /// The session exists, and this is published of the same file; with that it may begin.
  case sessionOpened(
    SessionRecord, isNew: Bool, expiresAt: Milliseconds, published: PublishedContent? = nil, isBased: Bool = false)
  /// The body may be read.
  case bodyAdmitted
  /// The run may be read; no chunk is larger than this.
  case runAdmitted(chunkBytesMax: Int)
  /// The chunk is stored; `wasHeld` when it was there already.
  case chunkStored(wasHeld: Bool)
  case held(HeldChunks)
  /// Published.
  case receipt(PublicationReceipt)
  /// The session is gone, as asked.
  case ended
  /// Not granted.
  case refused(Refusal)
}

/// What a session holds.
public struct HeldChunks: Sendable {
  /// The session.
  public var facts: SessionRecord
  /// Its chunks.
  public var chunks: ChunkTable
  /// When it ends by itself.
  public var expiresAt: Milliseconds
  /// Its receipt, once it is published; the chunks are then forgotten.
  public var receipt: PublicationReceipt?
  /// All of it is on the disk.
  public var isDurable = false
  /// The tip, where it need not be computed.
  var knownChainTip: Digest32?

  /// The tip of the commitment chain over the chunks that are stored from the first one on without a gap.
  public var chainTip: Digest32 {
    if let tip = receipt?.chainTip ?? knownChainTip { return tip }
    var chain = CommitmentChain(sessionID: facts.id)
    var index: UInt32 = 0
    while let chunk = chunks[index] {
      chain.extend(with: chunk.sha256)
      index += 1
    }
    return chain.tip
  }
}

/// The digests of a complete file, and what the commit says that they add up to.
public struct CommitCheck: Sendable {
  /// The session.
  public var session: SessionID
  /// Which state of the session these digests are.
  public var generation: UInt64
  /// In index order.
  public var digests: [Digest32]
  /// What the commit states.
  public var merkleRoot: Digest32
  /// What the commit states.
  public var chainTip: Digest32

  /// Whether the digests make that root and that tip.
  public var verdict: CommitVerdict {
    var tree = MerkleTree()
    var chain = CommitmentChain(sessionID: session.text)
    for digest in digests {
      tree.append(digest)
      chain.extend(with: digest)
    }
    if tree.root != merkleRoot { return .otherRoot }
    return chain.tip == chainTip ? .match : .otherTip
  }
}

/// What a commit's check found.
public enum CommitVerdict: Hashable, Sendable {
  /// The stored chunks are the file that the commit describes.
  case match
  /// They have another Merkle root.
  case otherRoot
  /// They have another commitment chain.
  case otherTip
}

/// What is durable about a file that came in one request.
public struct WholeFileRecord: Hashable, Sendable, Codable {
  /// Whose it is.
  public var credential: String
  /// The client's key.
  public var idempotencyKey: String
  /// A digest of what two requests with this key must agree in.
  @HexText public var fingerprint: Digest32
}

extension WholeFileRecord: JSONWritable {
  /// Writes the record as journals hold it.
  public func write(to json: inout JSONText) {
    json.object { json in
      json.member("credential", credential)
      json.member("fingerprint", fingerprint)
      json.member("idempotencyKey", idempotencyKey)
    }
  }
}
