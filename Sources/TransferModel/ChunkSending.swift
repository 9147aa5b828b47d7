public import Integrity

/// One chunk on its way.
public struct ChunkSending: Sendable {
  /// The session.
  public var session: SessionIdentity
  /// The chunk's position: it starts at index × the session's chunk size.
  public var index: Int
  /// Digests of the plain bytes.
  public var digest: ChunkDigest
  /// How many plain bytes there are.
  public var plainBytes: Int
  /// What `body` is.
  public var encoding: ChunkEncoding
  /// The chunk's bytes, as they travel.
  public var body: any PinnedBytes
  /// Where in its sequence it is.
  public var position: AppendPosition
  /// Counts what the network took.
  public var sentBytes: SentByteCounter
  /// Where the server has the same bytes, from which it is asked to copy them first; nil: they are sent.
  public var copied: ChunkSource?

  /// A chunk with its bytes; plain ones, unless said otherwise.
  public init(
    session: SessionIdentity, index: Int, digest: ChunkDigest, plainBytes: Int? = nil,
    encoding: ChunkEncoding = .identity, body: any PinnedBytes, position: AppendPosition = AppendPosition(),
    sentBytes: SentByteCounter
  ) {
    self.position = position
    self.plainBytes = plainBytes ?? body.bytes.count
    self.encoding = encoding
    self.session = session
    self.index = index
    self.digest = digest
    self.body = body
    self.sentBytes = sentBytes
  }
}

/// What is published and has a chunk's bytes at the chunk's place.
public struct ChunkSource: Hashable, Sendable {
  /// What it is called at the server.
  public var name: String
  /// By that the server tells whether it is still the same.
  public var entityTag: String
  /// What the server called the chunk when it was sent; nil where that says nothing of its bytes.
  public var token: String?

  /// Names it.
  public init(name: String, entityTag: String, token: String? = nil) {
    self.name = name
    self.entityTag = entityTag
    self.token = token
  }
}

/// SHA-256 and CRC32C of one chunk's plain bytes.
public struct ChunkDigest: Hashable, Sendable {
  /// Of the plain bytes.
  public var sha256: Digest32
  /// Castagnoli polynomial.
  public var crc32c: UInt32

  /// Of so many zeros.
  package init(ofZeros byteCount: Int) {
    let zeros = ZeroChunk(byteCount: byteCount)
    self.init(sha256: zeros.sha256, crc32c: zeros.crc32c)
  }

  /// The two digests of the same bytes.
  public init(sha256: Digest32, crc32c: UInt32) {
    self.sha256 = sha256
    self.crc32c = crc32c
  }
}

/// How a body's bytes travel. Digests, sizes and MACs are always of the plain bytes (docs/protocol.md, P81).
public enum ChunkEncoding: Hashable, Sendable {
  /// As they are.
  case identity
  /// One LZ4 block.
  case lz4
  /// One Zstandard frame of the filtered bytes.
  case zstd(RecordFilter)

  /// For people; as the chunk protocol has it.
  public var text: String {
    switch self {
    case .identity: "identity"
    case .lz4: "lz4"
    case .zstd(.none): "zstd"
    case .zstd(let filter):
      "zstd;stride=\(filter.stride)" + (filter.difference == 0 ? "" : ";difference=\(filter.difference)")
    }
  }
}

/// What a destination decodes.
public enum OfferedEncoding: Hashable, Sendable {
  /// ``ChunkEncoding/identity``
  case identity
  /// ``ChunkEncoding/lz4``
  case lz4
  /// ``ChunkEncoding/zstd(_:)`` with any filter.
  case zstd
}
