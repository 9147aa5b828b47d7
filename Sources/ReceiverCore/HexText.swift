public import Integrity

/// A digest that is hexadecimal text in JSON: an array would be 32 numbers, each coded by itself, for every digest of every
/// receipt.
@propertyWrapper
public struct HexText: Hashable, Sendable, Codable {
  /// The digest.
  public var wrappedValue: Digest32

  /// Wraps the digest.
  public init(wrappedValue: Digest32) { self.wrappedValue = wrappedValue }

  /// Reads text, or the array that earlier journals hold.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    let digest =
      if let text = try? container.decode(String.self) {
        Digest32(hex: text)
      } else {
        Digest32(try container.decode([UInt8].self))
      }
    guard let digest else {
      throw DecodingError.dataCorruptedError(in: container, debugDescription: "not 32 bytes")
    }
    wrappedValue = digest
  }

  /// Writes text.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(Hex.encode(wrappedValue))
  }
}
