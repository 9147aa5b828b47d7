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
  /// What to do when the name is taken, for receivers that know of no owners.
  public var ifExists: IfExists
  /// ``NameOwnership/ifTaken``; nil from older clients.
  public var ifTaken: IfTaken?
  /// ``NameOwnership/replaces``
  public var replaces: [PublicationClaim]?
  /// ``NameOwnership/publishedAs``
  public var publishedAs: String?
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
    case ifTaken = "if_taken"
    case replaces
    case publishedAs = "published_as"
    case modifiedNanoseconds = "modified_ns"
    case mode
  }

  /// Collects what a commit states.
  public init(
    sizeBytes: UInt64, chunkCount: UInt32, merkleRoot: String, chainTip: String, name: String, ifExists: IfExists,
    ownership: NameOwnership? = nil, modifiedNanoseconds: Int64, mode: UInt32
  ) {
    ifTaken = ownership?.ifTaken
    replaces = ownership.flatMap { $0.replaces.isEmpty ? nil : $0.replaces }
    publishedAs = ownership?.publishedAs
    self.sizeBytes = sizeBytes
    self.chunkCount = chunkCount
    self.merkleRoot = merkleRoot
    self.chainTip = chainTip
    self.name = name
    self.ifExists = ifExists
    self.modifiedNanoseconds = modifiedNanoseconds
    self.mode = mode
  }

  /// Whose the name may be; nil from older clients.
  public var ownership: NameOwnership? {
    ifTaken.map { NameOwnership(ifTaken: $0, replaces: replaces ?? [], publishedAs: publishedAs) }
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
  /// The name under which the file lies at the receiver, where something was in the way of its own.
  public var publishedAs: String?
  /// The client's identity of the file, where the client gave one.
  public var fileID: String?
  /// Whose the file was in whose place it was put, in words, where that was another's.
  public var replaced: String?

  enum CodingKeys: String, CodingKey {
    case id
    case name
    case fileID = "file_id"
    case publishedAs = "published_as"
    case replaced
    case sizeBytes = "size"
    case merkleRoot = "merkle_root"
    case chainTip = "chain_tip"
    case publishedAtMilliseconds = "published_at_ms"
  }

  /// A receipt for a publication.
  public init(
    id: String, name: String, sizeBytes: UInt64, merkleRoot: String, chainTip: String, publishedAtMilliseconds: Int64,
    publishedAs: String? = nil, fileID: String? = nil, replaced: String? = nil
  ) {
    self.publishedAs = publishedAs
    self.replaced = replaced
    self.fileID = fileID
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
      if let fileID { json.member("file_id", fileID) }
      json.member("id", id)
      json.member("merkle_root", merkleRoot)
      json.member("name", name)
      if let publishedAs { json.member("published_as", publishedAs) }
      json.member("published_at_ms", publishedAtMilliseconds)
      if let replaced { json.member("replaced", replaced) }
      json.member("size", sizeBytes)
    }
  }
}

extension ReceiptBody {
  /// The receipt that these bytes are, if they are written as ``write(to:)`` does and no text needs an escape. Nil for
  /// anything else, which may be a receipt all the same: a decoder knows.
  init?(plainlyWritten bytes: UnsafeRawBufferPointer) {
    var rest = PlainJSON(rest: bytes)
    guard rest.take("{\"chain_tip\":\""), let chainTip = rest.takeText() else { return nil }
    var fileID: String?
    if rest.take(",\"file_id\":\"") {
      fileID = rest.takeText()
      guard fileID != nil else { return nil }
    }
    guard rest.take(",\"id\":\""), let id = rest.takeText(), rest.take(",\"merkle_root\":\""),
      let merkleRoot = rest.takeText(),
      rest.take(",\"name\":\""), let name = rest.takeText(), rest.take(",\"published_at_ms\":"),
      let publishedAt = rest.takeDigits().flatMap({ DecimalText.signed($0) }), rest.take(",\"size\":"),
      let size = rest.takeDigits().flatMap({ DecimalText.unsigned($0) }), rest.take("}"), rest.rest.isEmpty
    else { return nil }
    self.init(
      id: id, name: name, sizeBytes: size, merkleRoot: merkleRoot, chainTip: chainTip,
      publishedAtMilliseconds: publishedAt, fileID: fileID)
  }
}

extension WireJSON {
  /// Reads a receipt: of many small files there are as many, and most of them need no decoder.
  public static func decode(_ type: ReceiptBody.Type, from bytes: [UInt8]) throws(WireJSONError) -> ReceiptBody {
    if let receipt = bytes.withUnsafeBytes({ ReceiptBody(plainlyWritten: $0) }) { return receipt }
    return try decodeAny(type, from: bytes)
  }

  private static func decodeAny<Value: Decodable>(
    _ type: Value.Type, from bytes: [UInt8]
  ) throws(WireJSONError) -> Value {
    try decode(type, from: bytes)
  }
}

/// The rest of a text that is read from its start.
private struct PlainJSON {
  var rest: UnsafeRawBufferPointer

  mutating func take(_ text: StaticString) -> Bool {
    text.withUTF8Buffer { expected in
      guard rest.count >= expected.count, rest.prefix(expected.count).elementsEqual(expected) else { return false }
      rest = UnsafeRawBufferPointer(rebasing: rest[expected.count...])
      return true
    }
  }

  /// A text up to its closing quote, which is taken, too.
  mutating func takeText() -> String? {
    let quote = UInt8(ascii: "\"")
    guard let end = rest.firstIndex(where: { $0 == quote || $0 == UInt8(ascii: "\\") || $0 < 0x20 }),
      rest[end] == quote,
      let text = String(validating: rest[..<end], as: UTF8.self)
    else { return nil }
    rest = UnsafeRawBufferPointer(rebasing: rest[(end + 1)...])
    return text
  }

  mutating func takeDigits() -> String? {
    let digits = rest.prefix { (0x30...0x39).contains($0) || $0 == UInt8(ascii: "-") }
    guard digits.count <= 20 else { return nil }
    rest = UnsafeRawBufferPointer(rebasing: rest[digits.endIndex...])
    return String(decoding: digits, as: UTF8.self)
  }
}
