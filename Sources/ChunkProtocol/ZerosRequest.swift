/// The body of `POST /v1/uploads/{id}/zeros`: chunks in which every byte is zero, and which therefore do not travel. Each has the
/// session's chunk size.
public struct ZerosRequest: Hashable, Sendable, Codable {
  /// Which chunks, ascending and without overlap.
  public var ranges: [ChunkIndexRange]
  /// The tag of these ranges: 64 hexadecimal digits.
  public var tag: String

  enum CodingKeys: String, CodingKey {
    case ranges
    case tag = "hmac"
  }

  /// Names chunks of zeros.
  public init(ranges: [ChunkIndexRange], tag: String) {
    self.ranges = ranges
    self.tag = tag
  }
}
