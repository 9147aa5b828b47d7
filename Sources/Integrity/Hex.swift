/// Bytes as hexadecimal digits.
public enum Hex {
  private static let digits = Array("0123456789abcdef".utf8)

  /// Two lower-case digits for each byte.
  public static func encode(_ bytes: [UInt8]) -> String {
    String(unsafeUninitializedCapacity: bytes.count * 2) { output in
      for (position, byte) in bytes.enumerated() {
        output[2 * position] = digits[Int(byte >> 4)]
        output[2 * position + 1] = digits[Int(byte & 0xf)]
      }
      return bytes.count * 2
    }
  }

  /// 64 lower-case digits.
  public static func encode(_ digest: Digest32) -> String { encode(digest.bytes) }

  /// The bytes of a text of digits in either case; nil for an odd count or anything else.
  public static func decode(_ text: String) -> [UInt8]? {
    let source = text.utf8
    guard source.count.isMultiple(of: 2) else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(source.count / 2)
    var high: UInt8?
    for character in source {
      guard let digit = value(of: character) else { return nil }
      if let first = high {
        bytes.append(first << 4 | digit)
        high = nil
      } else {
        high = digit
      }
    }
    return bytes
  }

  /// All digits of a number, which has two for each of its bytes.
  public static func encode(_ number: UInt32) -> String {
    withUnsafeBytes(of: number.bigEndian) { encode(Array($0)) }
  }

  /// What a digit in either case stands for; nil for anything else.
  public static func value(of character: UInt8) -> UInt8? {
    switch character {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): character - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
