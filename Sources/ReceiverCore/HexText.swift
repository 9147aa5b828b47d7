import Integrity

/// Bytes that are hexadecimal text in JSON: an array would be 32 numbers, each coded by itself, for every digest of every
/// receipt.
@propertyWrapper
public struct HexText: Hashable, Sendable, Codable {
  /// The bytes.
  public var wrappedValue: [UInt8]

  /// Wraps the bytes.
  public init(wrappedValue: [UInt8]) { self.wrappedValue = wrappedValue }

  /// Reads text, or the array that earlier journals hold.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if let text = try? container.decode(String.self) {
      guard let bytes = Hex.decode(text) else {
        throw DecodingError.dataCorruptedError(in: container, debugDescription: "not hexadecimal")
      }
      wrappedValue = bytes
    } else {
      wrappedValue = try container.decode([UInt8].self)
    }
  }

  /// Writes text.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(Hex.encode(wrappedValue))
  }
}
