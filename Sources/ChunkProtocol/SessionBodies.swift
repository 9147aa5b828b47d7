import Integrity

/// The body of `POST /v1/uploads`.
public struct SessionRequest: Hashable, Sendable, Codable {
  /// The name at present; a hint, the commit names the file.
  public var name: String
  /// The size at present; nil (null or absent) while the file is being written. A hint, the commit states the size.
  public var sizeBytes: UInt64?
  /// The size of every chunk but the last.
  public var chunkBytes: Int
  /// Last change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Permission bits.
  public var mode: UInt32
  /// The media type, when it is known.
  public var contentType: String?
  /// The client's identity of the file.
  public var fileID: String
  /// The client's count of the file's contents.
  public var revision: UInt64
  /// The nonce that MACs are bound to: 64 hexadecimal digits.
  public var nonce: String
  /// The session is to begin with what is published of the file; nil means that it is not.
  public var takesBase: Bool?

  enum CodingKeys: String, CodingKey {
    case name
    case sizeBytes = "size"
    case chunkBytes = "chunk_size"
    case modifiedNanoseconds = "modified_ns"
    case mode
    case contentType = "content_type"
    case fileID = "file_id"
    case revision
    case nonce
    case takesBase = "base"
  }

  /// Collects what a session is opened with.
  public init(
    name: String, sizeBytes: UInt64?, chunkBytes: Int, modifiedNanoseconds: Int64, mode: UInt32,
    contentType: String?, fileID: String, revision: UInt64, nonce: String, takesBase: Bool? = nil
  ) {
    self.name = name
    self.sizeBytes = sizeBytes
    self.chunkBytes = chunkBytes
    self.modifiedNanoseconds = modifiedNanoseconds
    self.mode = mode
    self.contentType = contentType
    self.fileID = fileID
    self.revision = revision
    self.nonce = nonce
    self.takesBase = takesBase
  }

  /// The nonce's bytes; nil when it is not one.
  public var nonceBytes: [UInt8]? {
    guard let bytes = Hex.decode(nonce), bytes.count == ProtocolLimits.nonceBytes else { return nil }
    return bytes
  }
}

/// The answer to `POST /v1/uploads`.
public struct SessionResponse: Hashable, Sendable, Codable {
  /// The session's id: see ``ProtocolPath/isSessionID(_:)``.
  public var id: String
  /// The chunk size that holds for this session; at most the one that was asked for.
  public var chunkBytes: Int
  /// When the session ends by itself, seconds since 1970.
  public var expiresAtSeconds: Int64
  /// Values of ``HeaderName/chunkEncoding`` that are understood; only `identity` when absent. A reader ignores the ones
  /// that it does not know.
  public var encodings: [String]?
  /// What lies under the name and is a publication of the same file; nil where nothing does, or an earlier receiver answers.
  public var published: PublishedContent?
  /// The session begins with what is published; what it holds of that the client has to ask. Nil where it does not.
  public var isBased: Bool?

  enum CodingKeys: String, CodingKey {
    case id
    case chunkBytes = "chunk_size"
    case expiresAtSeconds = "expires_at"
    case encodings
    case published
    case isBased = "based"
  }

  /// Answers with a session.
  public init(
    id: String, chunkBytes: Int, expiresAtSeconds: Int64, encodings: [String]? = nil,
    published: PublishedContent? = nil, isBased: Bool? = nil
  ) {
    self.isBased = isBased
    self.id = id
    self.chunkBytes = chunkBytes
    self.expiresAtSeconds = expiresAtSeconds
    self.encodings = encodings
    self.published = published
  }

  /// Reads an answer. A session is of use whatever is said beside it: what is published is a hint, and nonsense there is none.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    id = try container.decode(String.self, forKey: .id)
    chunkBytes = try container.decode(Int.self, forKey: .chunkBytes)
    expiresAtSeconds = try container.decode(Int64.self, forKey: .expiresAtSeconds)
    encodings = try container.decodeIfPresent([String].self, forKey: .encodings)
    do {
      isBased = try container.decodeIfPresent(Bool.self, forKey: .isBased)
    } catch {
      isBased = nil
    }
    do {
      published = try container.decodeIfPresent(PublishedContent.self, forKey: .published)
    } catch {
      published = nil
    }
  }
}

/// Chunk indices from the first to the last, both included; `[first, last]` in JSON.
public struct ChunkIndexRange: Hashable, Sendable, Codable {
  /// The lowest index.
  public var first: UInt32
  /// The highest index, at least ``first``.
  public var last: UInt32

  /// A range of indices, the first at most the last.
  public init(first: UInt32, last: UInt32) {
    self.first = first
    self.last = last
  }

  /// Reads `[first, last]`.
  public init(from decoder: any Decoder) throws {
    var container = try decoder.unkeyedContainer()
    first = try container.decode(UInt32.self)
    last = try container.decode(UInt32.self)
    guard first <= last, container.isAtEnd else {
      throw DecodingError.dataCorruptedError(in: container, debugDescription: "a range is [first, last]")
    }
  }

  /// Writes `[first, last]`.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.unkeyedContainer()
    try container.encode(first)
    try container.encode(last)
  }

  /// The ranges that cover exactly these indices, which are given in ascending order.
  public static func covering(_ sortedIndices: some Sequence<UInt32>) -> [ChunkIndexRange] {
    var ranges: [ChunkIndexRange] = []
    for index in sortedIndices {
      if let range = ranges.last, range.last < .max, range.last + 1 == index {
        ranges[ranges.count - 1].last = index
      } else if ranges.last?.last != index {
        ranges.append(ChunkIndexRange(first: index, last: index))
      }
    }
    return ranges
  }
}

/// The answer to `GET /v1/uploads/{id}`: what the receiver holds.
public struct HeldResponse: Hashable, Sendable, Codable {
  /// Where a session stands.
  public enum State: String, Hashable, Sendable, Codable, CaseIterable {
    /// Chunks are taken.
    case open
    /// Published; ``HeldResponse/receipt`` is there, and chunks are no longer replaced.
    case committed
  }

  /// The session's id.
  public var id: String
  /// Where the session stands.
  public var state: State
  /// The session's chunk size.
  public var chunkBytes: Int
  /// Indices of the chunks that are stored, ascending and without overlap.
  public var held: [ChunkIndexRange]
  /// SHA-256 of each stored chunk (64 hexadecimal digits) by its index in decimal; only with `?digests=1`.
  public var digests: [String: String]?
  /// Tip of the commitment chain over the chunks 0, 1, … up to the first that is not stored; 64 hexadecimal digits.
  public var chainTip: String
  /// When the session ends by itself, seconds since 1970.
  public var expiresAtSeconds: Int64
  /// The receipt of a committed session.
  public var receipt: ReceiptBody?
  /// As in ``SessionResponse/encodings``: a continued session was opened by an earlier run.
  public var encodings: [String]?
  /// True when everything that is listed is on the server's disk; only with `?durable=1`.
  public var isDurable: Bool?

  enum CodingKeys: String, CodingKey {
    case id
    case state
    case chunkBytes = "chunk_size"
    case held
    case digests
    case chainTip = "chain_tip"
    case expiresAtSeconds = "expires_at"
    case receipt
    case encodings
    case isDurable = "durable"
  }

  /// States which chunks are stored.
  public init(
    id: String, state: State, chunkBytes: Int, held: [ChunkIndexRange], digests: [String: String]?,
    chainTip: String, expiresAtSeconds: Int64, receipt: ReceiptBody? = nil, encodings: [String]? = nil,
    isDurable: Bool? = nil
  ) {
    self.id = id
    self.state = state
    self.chunkBytes = chunkBytes
    self.held = held
    self.digests = digests
    self.chainTip = chainTip
    self.expiresAtSeconds = expiresAtSeconds
    self.receipt = receipt
    self.encodings = encodings
    self.isDurable = isDurable
  }
}
