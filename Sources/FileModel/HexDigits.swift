/// Bytes as lower-case hexadecimal digits, for what stands in names and attributes: this module imports nothing, and so not the `Hex` of
/// Integrity, which reads digits in either case.
enum HexDigits {
  private static let digits = Array("0123456789abcdef".utf8)

  /// Two digits for each byte.
  static func of(_ bytes: some Collection<UInt8>) -> [UInt8] {
    var text: [UInt8] = []
    text.reserveCapacity(2 * bytes.count)
    for byte in bytes {
      text.append(digits[Int(byte >> 4)])
      text.append(digits[Int(byte & 0xf)])
    }
    return text
  }

  /// The bytes behind such digits; nil for an odd count or anything else.
  static func bytes(_ text: some Collection<UInt8>) -> [UInt8]? {
    guard text.count.isMultiple(of: 2) else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count / 2)
    var rest = text.makeIterator()
    while let first = rest.next(), let second = rest.next() {
      guard let high = digits.firstIndex(of: first), let low = digits.firstIndex(of: second) else { return nil }
      bytes.append(UInt8(high << 4 | low))
    }
    return bytes
  }
}
