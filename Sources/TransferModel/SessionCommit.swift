public import FileModel
public import Integrity

/// What a commit states; the server checks all of it before it publishes.
public struct SessionCommit: Hashable, Sendable {
  /// The session.
  public var session: SessionIdentity
  /// The file's size.
  public var sizeBytes: UInt64
  /// The number of chunks; 0 for an empty file.
  public var chunkCount: Int
  /// Merkle root over the chunk digests (docs/protocol.md, P90).
  public var merkleRoot: Digest32
  /// Tip of the commitment chain (docs/protocol.md, P91).
  public var chainTip: Digest32
  /// The final name, resolved now and never earlier.
  public var path: RelativePath
  /// Last change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Permission bits.
  public var mode: UInt32
  /// Every chunk, in order; empty where the destination does not ask for them.
  public var chunks: [CommittedChunk]
  /// The file's identity; nil where the server does not ask for it.
  public var fileID: FileID?
  /// The size of every chunk but the last.
  public var chunkBytes: Int?
  /// Whose the name may be; nil where the destination does not compare.
  public var right: NameRight?

  /// Collects what a commit states.
  public init(
    session: SessionIdentity, sizeBytes: UInt64, chunkCount: Int, merkleRoot: Digest32, chainTip: Digest32,
    path: RelativePath, modifiedNanoseconds: Int64, mode: UInt32, chunks: [CommittedChunk] = [],
    fileID: FileID? = nil, chunkBytes: Int? = nil
  ) {
    self.chunkBytes = chunkBytes
    self.fileID = fileID
    self.chunks = chunks
    self.session = session
    self.sizeBytes = sizeBytes
    self.chunkCount = chunkCount
    self.merkleRoot = merkleRoot
    self.chainTip = chainTip
    self.path = path
    self.modifiedNanoseconds = modifiedNanoseconds
    self.mode = mode
  }
}

/// A chunk as a commit names it.
public struct CommittedChunk: Hashable, Sendable {
  /// Digests of its bytes.
  public var digest: ChunkDigest
  /// What the server acknowledged it with.
  public var token: String

  /// A chunk with its digests and its token.
  public init(digest: ChunkDigest, token: String) {
    self.digest = digest
    self.token = token
  }
}
