public import FileModel
public import Integrity
public import TransferModel

/// Whose a session is: the same server and user, as far as that can be told from here.
public struct SessionOwner: Sendable, Hashable {
  /// The destination's address, without credentials.
  public var address: String
  /// Tells one credential from another and says nothing else about it; nil without one, or where it changes by itself.
  public var credentialMark: String?

  /// A user at an address.
  public init(address: String, credentialMark: String?) {
    self.address = address
    self.credentialMark = credentialMark
  }
}

/// What is needed to resume an upload after a restart.
public struct ResumeRecord: Sendable, Hashable {
  /// A chunk that the server has acknowledged.
  public struct AcknowledgedChunk: Sendable, Hashable {
    /// Its position.
    public var index: Int
    /// What was acknowledged.
    public var digest: ChunkDigest
    /// The name by which the server knows it, where it gives one.
    public var token: String?

    /// A chunk and its digests.
    public init(index: Int, digest: ChunkDigest, token: String? = nil) {
      self.index = index
      self.digest = digest
      self.token = token
    }
  }

  /// The file.
  public var fileID: FileID
  /// The server's id of the session.
  public var sessionID: String
  /// The session's nonce.
  public var nonce: [UInt8]
  /// Fixed for the session.
  public var chunkBytes: Int
  /// The revision of the file that is being uploaded.
  public var epochRevision: UInt64
  /// The file's name when the record was written; a hint.
  public var path: RelativePath
  /// The file's size when the record was written; a hint.
  public var sizeBytes: UInt64
  /// When the session was opened, seconds since 1970.
  public var openedAtSeconds: Int64
  /// When the server forgets the session, seconds since 1970; nil when it did not say.
  public var expiresAtSeconds: Int64?
  /// Whose the session is; nil in records of earlier versions.
  public var owner: SessionOwner?
  /// What need not be sent again, as far as the server still has it and the spool still holds the same bytes; ascending.
  public var acknowledged: [AcknowledgedChunk]
  /// The Merkle tree over ``acknowledged``.
  public var merkle: MerkleAccumulator
  /// Tip of the commitment chain over the first ``contiguousCount`` chunks; nil when it was not kept.
  public var chainTip: Digest32?
  /// Chunks from the first on without a gap.
  public var contiguousCount: Int
  /// What was known of the link's speed; nil when nothing was.
  public var estimator: SpeedEstimate.State?

  /// Collects the state of an upload.
  public init(
    fileID: FileID, sessionID: String, nonce: [UInt8], chunkBytes: Int, epochRevision: UInt64, path: RelativePath,
    sizeBytes: UInt64, openedAtSeconds: Int64, expiresAtSeconds: Int64?, owner: SessionOwner? = nil,
    acknowledged: [AcknowledgedChunk],
    merkle: MerkleAccumulator = MerkleAccumulator(), chainTip: Digest32? = nil, contiguousCount: Int = 0,
    estimator: SpeedEstimate.State? = nil
  ) {
    self.fileID = fileID
    self.sessionID = sessionID
    self.nonce = nonce
    self.chunkBytes = chunkBytes
    self.epochRevision = epochRevision
    self.path = path
    self.sizeBytes = sizeBytes
    self.openedAtSeconds = openedAtSeconds
    self.expiresAtSeconds = expiresAtSeconds
    self.owner = owner
    self.acknowledged = acknowledged
    self.merkle = merkle
    self.chainTip = chainTip
    self.contiguousCount = contiguousCount
    self.estimator = estimator
  }

  /// Bytes from the file's start on that are acknowledged without a gap.
  public var offsetBytes: UInt64 {
    let (bytes, isTooLarge) = UInt64(clamping: contiguousCount).multipliedReportingOverflow(
      by: UInt64(clamping: chunkBytes))
    return isTooLarge ? sizeBytes : min(bytes, sizeBytes)
  }
}

/// An upload's state at one moment: whole, or as what has changed since an earlier one that is on disk.
///
/// A file of 100 GB has 25,000 chunks; to write all of them at every tenth would cost more than the rest of the storage
/// together.
public struct ResumeSnapshot: Sendable, Hashable {
  /// Names a moment in the life of a session's record.
  public struct Mark: Sendable, Hashable {
    /// The session.
    public var sessionID: String
    /// Changes that had happened.
    public var changeCount: UInt64

    /// A moment.
    public init(sessionID: String, changeCount: UInt64) {
      self.sessionID = sessionID
      self.changeCount = changeCount
    }
  }

  /// A chunk that was acknowledged; or with nil, one that turned out not to be stored.
  public struct Change: Sendable, Hashable {
    /// Its position.
    public var index: Int
    /// What is acknowledged now.
    public var digest: ChunkDigest?
    /// The name by which the server knows it, where it gives one.
    public var token: String?

    /// A chunk and what is acknowledged of it now.
    public init(index: Int, digest: ChunkDigest?, token: String? = nil) {
      self.index = index
      self.digest = digest
      self.token = token
    }
  }

  /// The state; ``ResumeRecord/acknowledged`` is empty where ``changes`` has what is new.
  public var record: ResumeRecord
  /// What has changed since the mark that was asked for; nil when the record is whole.
  public var changes: [Change]?
  /// This moment.
  public var mark: Mark

  /// A state at a moment.
  public init(record: ResumeRecord, changes: [Change]?, mark: Mark) {
    self.record = record
    self.changes = changes
    self.mark = mark
  }
}
