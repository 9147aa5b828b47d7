import Integrity

/// Percent-encoding (RFC 3986), in the one form that is both sent and signed: unreserved characters stay, and everything else becomes %XX.
public enum PercentCoding {
  private static let digits = Array("0123456789ABCDEF".utf8)

  /// The text in that form; `/` stays as well where it separates the parts of a path.
  public static func encode(_ text: String, keepsSlashes: Bool = false) -> String {
    encode(text.utf8, keepsSlashes: keepsSlashes)
  }

  /// Likewise of bytes.
  public static func encode(_ bytes: some Collection<UInt8>, keepsSlashes: Bool = false) -> String {
    var encoded: [UInt8] = []
    encoded.reserveCapacity(bytes.count)
    for byte in bytes {
      switch byte {
      case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        encoded.append(byte)
      case UInt8(ascii: "/") where keepsSlashes: encoded.append(byte)
      default: encoded += escape(byte)
      }
    }
    return String(decoding: encoded, as: UTF8.self)
  }

  /// A byte as %XX.
  public static func escape(_ byte: UInt8) -> [UInt8] {
    [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 0xf)]]
  }

  /// The text behind a percent-encoding; nil when a `%` is not followed by two digits or the bytes are no UTF-8.
  public static func decode(_ text: some StringProtocol) -> String? {
    guard let bytes = bytes(of: text) else { return nil }
    return String(validating: bytes, as: UTF8.self)
  }

  /// The bytes behind a percent-encoding; nil when a `%` is not followed by two digits.
  static func bytes(of text: some StringProtocol) -> [UInt8]? {
    var output: [UInt8] = []
    var rest = text.utf8.makeIterator()
    while let byte = rest.next() {
      guard byte == UInt8(ascii: "%") else {
        output.append(byte)
        continue
      }
      guard let high = rest.next().flatMap(Hex.value), let low = rest.next().flatMap(Hex.value) else { return nil }
      output.append(high << 4 | low)
    }
    return output
  }
}
