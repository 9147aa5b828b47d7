/// The body of `POST /v1/uploads/{id}/commit`.
public struct CommitRequest: Hashable, Sendable, Codable {
  /// The file's size.
  public var sizeBytes: UInt64
  /// The number of chunks: the size divided by the chunk size, rounded up; 0 for an empty file.
  public var chunkCount: UInt32
  /// Root of the Merkle tree over the chunk digests, 64 hexadecimal digits.
  public var merkleRoot: String
  /// Tip of the commitment chain over all chunk digests, 64 hexadecimal digits.
  public var chainTip: String
  /// The name to publish under.
  public var name: String
  /// What to do when the name is taken.
  public var ifExists: IfExists
  /// Last change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Permission bits.
  public var mode: UInt32

  enum CodingKeys: String, CodingKey {
    case sizeBytes = "size"
    case chunkCount = "chunk_count"
    case merkleRoot = "merkle_root"
    case chainTip = "chain_tip"
    case name
    case ifExists = "if_exists"
    case modifiedNanoseconds = "modified_ns"
    case mode
  }

  /// Collects what a commit states.
  public init(
    sizeBytes: UInt64, chunkCount: UInt32, merkleRoot: String, chainTip: String, name: String, ifExists: IfExists,
    modifiedNanoseconds: Int64, mode: UInt32
  ) {
    self.sizeBytes = sizeBytes
    self.chunkCount = chunkCount
    self.merkleRoot = merkleRoot
    self.chainTip = chainTip
    self.name = name
    self.ifExists = ifExists
    self.modifiedNanoseconds = modifiedNanoseconds
    self.mode = mode
  }
}

/// Proof of publication: the answer to a commit and to a whole-file request.
public struct ReceiptBody: Hashable, Sendable, Codable {
  /// The receiver's id of this publication.
  public var id: String
  /// The name under which the file was published.
  public var name: String
  /// The published size.
  public var sizeBytes: UInt64
  /// Root of the Merkle tree over the chunk digests, 64 hexadecimal digits.
  public var merkleRoot: String
  /// Tip of the commitment chain, 64 hexadecimal digits.
  public var chainTip: String
  /// When it was published, milliseconds since 1970.
  public var publishedAtMilliseconds: Int64

  enum CodingKeys: String, CodingKey {
    case id
    case name
    case sizeBytes = "size"
    case merkleRoot = "merkle_root"
    case chainTip = "chain_tip"
    case publishedAtMilliseconds = "published_at_ms"
  }

  /// A receipt for a publication.
  public init(
    id: String, name: String, sizeBytes: UInt64, merkleRoot: String, chainTip: String, publishedAtMilliseconds: Int64
  ) {
    self.id = id
    self.name = name
    self.sizeBytes = sizeBytes
    self.merkleRoot = merkleRoot
    self.chainTip = chainTip
    self.publishedAtMilliseconds = publishedAtMilliseconds
  }
}

extension ReceiptBody: JSONWritable {
  /// Writes the receipt.
  public func write(to json: inout JSONText) {
    json.object { json in
      json.member("chain_tip", chainTip)
      json.member("id", id)
      json.member("merkle_root", merkleRoot)
      json.member("name", name)
      json.member("published_at_ms", publishedAtMilliseconds)
      json.member("size", sizeBytes)
    }
  }
}
