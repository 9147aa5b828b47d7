public import FileModel
public import Integrity

/// A file in one request.
public struct WholeFileSending: Sendable {
  /// The file's identity.
  public var fileID: FileID
  /// The epoch that is sent; with the file's identity and the path it makes the idempotency key.
  public var revision: UInt64
  /// Fresh for each upload of a file, the same for its retries.
  public var nonce: [UInt8]
  /// The final name.
  public var path: RelativePath
  /// Digests of the plain bytes.
  public var digest: ChunkDigest
  /// How many plain bytes there are.
  public var plainBytes: Int
  /// What `body` is.
  public var encoding: ChunkEncoding
  /// The file's bytes, as they travel; nil when it is empty, or streamed.
  public var body: (any PinnedBytes)?
  /// Its bytes when they are read while they are sent; `digest` says nothing then.
  public var stream: (any StreamedFile)?
  /// Last change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Permission bits.
  public var mode: UInt32
  /// Whose the name may be; nil where the destination does not compare.
  public var right: NameRight?
  /// The files of its request are compressed together.
  public var sharesFrame = false
  /// Counts what the network took.
  public var sentBytes: SentByteCounter

  /// A small file with its bytes.
  public init(
    fileID: FileID, revision: UInt64, nonce: [UInt8], path: RelativePath, digest: ChunkDigest,
    plainBytes: Int? = nil, encoding: ChunkEncoding = .identity, body: (any PinnedBytes)?,
    modifiedNanoseconds: Int64, mode: UInt32, sentBytes: SentByteCounter
  ) {
    self.plainBytes = plainBytes ?? body?.bytes.count ?? 0
    self.encoding = encoding
    self.fileID = fileID
    self.revision = revision
    self.nonce = nonce
    self.path = path
    self.digest = digest
    self.body = body
    self.modifiedNanoseconds = modifiedNanoseconds
    self.mode = mode
    self.sentBytes = sentBytes
  }
}

/// A file that is read while it is sent.
public protocol StreamedFile: StreamedBytes {
  /// Merkle root and tip of the commitment chain over its pieces; nil before all of it was sent.
  var proof: (merkleRoot: Digest32, chainTip: Digest32)? { get }
  /// Of all its bytes; nil before all of it was sent.
  var contentSHA256: Digest32? { get }
}
