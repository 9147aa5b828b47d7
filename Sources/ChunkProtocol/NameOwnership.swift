public import Integrity

/// What becomes of a file whose name another capture has at the receiver.
public enum IfTaken: String, Hashable, Sendable, Codable, CaseIterable {
  /// It gets the next number before its extension: `a-2.mov`.
  case number
  /// Nothing is published; the answer is ``ProblemType/exists``.
  case refuse
  /// Whatever has the name gives way.
  case replace
}

/// A publication as its receipt names it: which capture, and which bytes.
public struct PublicationClaim: Hashable, Sendable {
  /// The client's identity of the capture.
  public var fileID: String
  /// Root of the Merkle tree over the chunk digests.
  public var merkleRoot: Digest32
  /// The published size.
  public var sizeBytes: UInt64
  /// The size of the chunks that the tree is over; nil where it is not known, and a file that says nothing of itself cannot be compared.
  public var chunkBytes: UInt32?

  /// Names a publication.
  public init(fileID: String, merkleRoot: Digest32, sizeBytes: UInt64, chunkBytes: UInt32?) {
    self.fileID = fileID
    self.merkleRoot = merkleRoot
    self.sizeBytes = sizeBytes
    self.chunkBytes = chunkBytes
  }
}

/// Whose a name may be for a publication to take it. A request without this is an older client's, and goes by ``IfExists``; a
/// receiver that does not know it does so, too.
public struct NameOwnership: Hashable, Sendable {
  /// What becomes of the file where the name is none of `replaces`.
  public var ifTaken: IfTaken
  /// Publications of this client that may be replaced; the one that the request itself asks for is always among them.
  public var replaces: [PublicationClaim]
  /// The name under which the path was published last, where that is not the one that is asked for.
  public var publishedAs: String?

  /// Collects what a request says of its name.
  public init(ifTaken: IfTaken, replaces: [PublicationClaim] = [], publishedAs: String? = nil) {
    self.ifTaken = ifTaken
    self.replaces = replaces
    self.publishedAs = publishedAs
  }

  /// The most publications that a request names.
  public static let replacesMax = 8
}

extension NameOwnership {
  /// The header fields of a whole-file request, to be sent.
  public var fields: [(name: String, value: String)] {
    var fields = [(HeaderName.ifTaken, ifTaken.rawValue)]
    if !replaces.isEmpty {
      fields.append((HeaderName.replaces, replaces.map(\.headerValue).joined(separator: ", ")))
    }
    if let publishedAs {
      fields.append((HeaderName.publishedAs, PercentCoding.encode(publishedAs, keepsSlashes: true)))
    }
    return fields
  }

  /// Reads the fields; nil where there are none. `value` looks one up by its name, without regard to case.
  public init?(reading value: (String) -> String?) throws(HeaderViolation) {
    guard let ifTaken: IfTaken = try HeaderReading.word(HeaderName.ifTaken, value) else { return nil }
    self.init(ifTaken: ifTaken)
    if let text = value(HeaderName.replaces) {
      let claims = text.split(separator: ",", omittingEmptySubsequences: false)
      guard claims.count <= Self.replacesMax else {
        throw HeaderViolation(field: HeaderName.replaces, reason: "names more than \(Self.replacesMax) publications")
      }
      for claim in claims {
        guard let claim = PublicationClaim(headerValue: claim) else {
          throw HeaderViolation(
            field: HeaderName.replaces,
            reason: "must be a list of FILE-ID;MERKLE-ROOT;SIZE or FILE-ID;MERKLE-ROOT;SIZE;CHUNK-SIZE")
        }
        replaces.append(claim)
      }
    }
    if let text = value(HeaderName.publishedAs) {
      guard let name = PercentCoding.decode(text), PublishedName.validate(name) == nil else {
        throw HeaderViolation(field: HeaderName.publishedAs, reason: "must be a percent-encoded name")
      }
      publishedAs = name
    }
  }
}

extension PublicationClaim {
  fileprivate var headerValue: String {
    let known = "\(fileID);\(Hex.encode(merkleRoot));\(sizeBytes)"
    return chunkBytes.map { "\(known);\($0)" } ?? known
  }

  fileprivate init?(headerValue text: Substring) {
    let parts = text.drop { $0 == " " }.split(separator: ";", omittingEmptySubsequences: false)
    guard parts.count == 3 || parts.count == 4,
      let claim = PublicationClaim(
        fileID: String(parts[0]), merkleRoot: String(parts[1]), sizeBytes: DecimalText.unsigned(parts[2]))
    else { return nil }
    self = claim
    if parts.count == 4 {
      guard let bytes = DecimalText.unsigned(parts[3], as: UInt32.self), bytes > 0 else { return nil }
      chunkBytes = bytes
    }
  }

  private init?(fileID: String, merkleRoot: String, sizeBytes: UInt64?) {
    guard let sizeBytes, let root = Digest32(hex: merkleRoot), Self.isFileID(fileID) else { return nil }
    self.init(fileID: fileID, merkleRoot: root, sizeBytes: sizeBytes, chunkBytes: nil)
  }

  /// Printable ASCII without what separates the parts of the header field.
  private static func isFileID(_ text: String) -> Bool {
    let bytes = text.utf8
    return !bytes.isEmpty && bytes.count <= ProtocolLimits.shortTextBytesMax
      && bytes.allSatisfy { (0x21...0x7e).contains($0) && $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: ",") }
  }
}

extension PublicationClaim: Codable {
  private enum CodingKeys: String, CodingKey {
    case fileID = "file_id"
    case merkleRoot = "merkle_root"
    case sizeBytes = "size"
    case chunkBytes = "chunk_size"
  }

  /// Reads a claim of a commit's body.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    let claim = PublicationClaim(
      fileID: try container.decode(String.self, forKey: .fileID),
      merkleRoot: try container.decode(String.self, forKey: .merkleRoot),
      sizeBytes: try container.decode(UInt64.self, forKey: .sizeBytes))
    guard let claim else {
      throw DecodingError.dataCorruptedError(
        forKey: .merkleRoot, in: container,
        debugDescription: "a publication has a file_id and a Merkle root of 64 digits")
    }
    self = claim
    chunkBytes = try container.decodeIfPresent(UInt32.self, forKey: .chunkBytes)
    guard chunkBytes != 0 else {
      throw DecodingError.dataCorruptedError(
        forKey: .chunkBytes, in: container, debugDescription: "a chunk has at least one byte")
    }
  }

  /// Writes a claim of a commit's body.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(fileID, forKey: .fileID)
    try container.encode(Hex.encode(merkleRoot), forKey: .merkleRoot)
    try container.encode(sizeBytes, forKey: .sizeBytes)
    try container.encodeIfPresent(chunkBytes, forKey: .chunkBytes)
  }
}
