/// Bytes as base64 (RFC 4648, section 4, padded).
public enum Base64 {
  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
  private static let padding = UInt8(ascii: "=")

  /// The padded text.
  public static func encode(_ bytes: [UInt8]) -> String {
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count + 2) / 3 * 4)
    for start in stride(from: 0, to: bytes.count, by: 3) {
      let group = bytes[start..<min(start + 3, bytes.count)]
      var word: UInt32 = 0
      for byte in group { word = word << 8 | UInt32(byte) }
      word <<= UInt32(8 * (3 - group.count))
      for position in 0..<4 {
        let index = Int(word >> UInt32(18 - 6 * position)) & 0x3f
        text.append(position <= group.count ? alphabet[index] : padding)
      }
    }
    return String(decoding: text, as: UTF8.self)
  }

  /// 44 characters.
  public static func encode(_ digest: Digest32) -> String { encode(digest.bytes) }

  /// The bytes of a padded text; nil for anything that ``encode(_:)`` would not have written.
  public static func decode(_ text: String) -> [UInt8]? {
    let source = Array(text.utf8)
    guard source.count.isMultiple(of: 4) else { return nil }
    let digits = source.prefix { $0 != padding }
    let padded = source.count - digits.count
    guard padded <= 2, source[digits.count...].allSatisfy({ $0 == padding }) else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(source.count / 4 * 3)
    var word: UInt32 = 0
    var bits = 0
    for character in digits {
      guard let digit = value(of: character) else { return nil }
      word = (word << 6 | UInt32(digit)) & 0xffff
      bits += 6
      if bits >= 8 {
        bits -= 8
        bytes.append(UInt8(truncatingIfNeeded: word >> UInt32(bits)))
      }
    }
    // The bits left over must be zero, so that two texts never stand for the same bytes.
    guard word & ((1 << UInt32(bits)) - 1) == 0 else { return nil }
    return bytes
  }

  private static func value(of character: UInt8) -> UInt8? {
    switch character {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): character - UInt8(ascii: "A")
    case UInt8(ascii: "a")...UInt8(ascii: "z"): character - UInt8(ascii: "a") + 26
    case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0") + 52
    case UInt8(ascii: "+"): 62
    case UInt8(ascii: "/"): 63
    default: nil
    }
  }
}
