/// The body of `POST /v1/uploads/{id}/zeros`: chunks in which every byte is zero, and which therefore do not travel. Each has the
/// session's chunk size.
public struct ZerosRequest: Hashable, Sendable, Codable {
  /// Which chunks, ascending and without overlap.
  public var ranges: [ChunkIndexRange]
  /// The MAC of these ranges: 64 hexadecimal digits.
  public var mac: String

  enum CodingKeys: String, CodingKey {
    case ranges
    case mac = "hmac"
  }

  /// Names chunks of zeros.
  public init(ranges: [ChunkIndexRange], mac: String) {
    self.ranges = ranges
    self.mac = mac
  }
}
