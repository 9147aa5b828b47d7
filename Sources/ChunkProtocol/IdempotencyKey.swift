/// The text of an `Idempotency-Key`: 1 to 255 printable ASCII characters. In the header it is a quoted string
/// (RFC 9651). Each small file has one, so it is read without a parser of structured fields.
public struct IdempotencyKey: Hashable, Sendable {
  /// The text without quotes and escapes. MACs of whole files are bound to it.
  public let text: String

  /// A key of this text; nil when it is empty, too long or holds anything but printable ASCII.
  public init?(text: String) {
    let bytes = text.utf8
    guard !bytes.isEmpty, bytes.count <= ProtocolLimits.idempotencyKeyBytesMax,
      bytes.allSatisfy({ (0x20...0x7e).contains($0) })
    else { return nil }
    self.text = text
  }

  /// Reads a header's value; nil unless it is one quoted string and nothing else.
  public init?(headerValue: String) {
    let bytes = Array(headerValue.utf8)
    let quote = UInt8(ascii: "\"")
    guard bytes.count >= 2, bytes.first == quote, bytes.last == quote else { return nil }
    var text: [UInt8] = []
    var isEscaped = false
    for byte in bytes.dropFirst().dropLast() {
      switch (byte, isEscaped) {
      case (quote, true), (UInt8(ascii: "\\"), true):
        text.append(byte)
        isEscaped = false
      case (UInt8(ascii: "\\"), false): isEscaped = true
      case (quote, false), (_, true): return nil
      case (_, false): text.append(byte)
      }
    }
    guard !isEscaped else { return nil }
    self.init(text: String(decoding: text, as: UTF8.self))
  }

  /// The text as a header's value.
  public var headerValue: String {
    // A key of the client's own needs no escape, and each small file has one.
    let isPlain = !text.utf8.contains { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") }
    guard !isPlain else { return "\"\(text)\"" }
    var value = "\""
    for character in text.unicodeScalars {
      if character == "\"" || character == "\\" { value.unicodeScalars.append("\\") }
      value.unicodeScalars.append(character)
    }
    return value + "\""
  }
}
