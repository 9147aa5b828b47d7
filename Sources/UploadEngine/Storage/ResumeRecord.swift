public import FileModel

/// What is needed to go on with an upload after a restart (spec D5).
public struct ResumeRecord: Sendable, Hashable {
  /// A chunk that the server has acknowledged.
  public struct AcknowledgedChunk: Sendable, Hashable {
    /// Its position.
    public var index: Int
    /// What was acknowledged.
    public var digest: ChunkDigest

    /// A chunk and its digests.
    public init(index: Int, digest: ChunkDigest) {
      self.index = index
      self.digest = digest
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
  /// What need not be sent again, as far as the server still has it and the spool still holds the same bytes.
  public var acknowledged: [AcknowledgedChunk]
  /// Tip of the commitment chain over the first ``contiguousCount`` chunks; empty when it was not kept.
  public var chainTip: [UInt8]
  /// Chunks from the first on without a gap.
  public var contiguousCount: Int

  /// Collects the state of an upload.
  public init(
    fileID: FileID, sessionID: String, nonce: [UInt8], chunkBytes: Int, epochRevision: UInt64, path: RelativePath,
    sizeBytes: UInt64, openedAtSeconds: Int64, expiresAtSeconds: Int64?, acknowledged: [AcknowledgedChunk],
    chainTip: [UInt8] = [], contiguousCount: Int = 0
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
    self.acknowledged = acknowledged
    self.chainTip = chainTip
    self.contiguousCount = contiguousCount
  }
}
