/// The query of a request, in the one form that is both sent and signed.
struct S3Query {
  /// Percent-encoded, sorted by name, `name=value` also where there is no value.
  let canonicalText: String

  init(_ items: [(name: String, value: String)] = []) {
    canonicalText =
      items.map { (PercentEncoding.encode($0.name), PercentEncoding.encode($0.value)) }
      .sorted { ($0.0, $0.1) < ($1.0, $1.1) }
      .map { "\($0.0)=\($0.1)" }
      .joined(separator: "&")
  }
}

/// Percent-encoding as S3 wants it: letters, digits and `-._~` stay, everything else becomes %XX.
enum PercentEncoding {
  private static let digits = Array("0123456789ABCDEF".utf8)

  static func encode(_ text: String, keepsSlashes: Bool = false) -> String {
    encode(text.utf8, keepsSlashes: keepsSlashes)
  }

  static func encode(_ bytes: some Collection<UInt8>, keepsSlashes: Bool = false) -> String {
    var encoded: [UInt8] = []
    encoded.reserveCapacity(bytes.count)
    for byte in bytes {
      switch byte {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        encoded.append(byte)
      case UInt8(ascii: "/") where keepsSlashes: encoded.append(byte)
      default: encoded += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 0xf)]]
      }
    }
    return String(decoding: encoded, as: UTF8.self)
  }

  /// The text behind its percent-encoding. Nil where a `%` is not followed by two hexadecimal digits, or where the decoded
  /// bytes are not valid UTF-8.
  static func decode(_ text: some StringProtocol) -> String? {
    var bytes: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      guard let high = rest.popFirst().flatMap(value), let low = rest.popFirst().flatMap(value) else { return nil }
      bytes.append(high << 4 | low)
    }
    return String(validating: bytes, as: UTF8.self)
  }

  private static func value(of digit: UInt8) -> UInt8? {
    Character(UnicodeScalar(digit)).hexDigitValue.map { UInt8($0) }
  }
}
