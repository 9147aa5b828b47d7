/// Start line and header fields of an HTTP/1.1 message inside a bundle: ended by CRLF each, and an empty line at the end.
struct MessageHead {
  var startLine: String
  /// In the order in which they stand; names as they are written.
  var fields: [(name: String, value: String)]
  /// What `Content-Length` says.
  var contentLength: UInt64

  /// Reads a head with its empty line. The bytes come from the network; what HTTP leaves to readers (a lone line feed,
  /// folded fields, two lengths) is refused, because another reader might cut it elsewhere.
  init(_ bytes: UnsafeRawBufferPointer) throws(BundleViolation) {
    var lines = Lines(rest: bytes)
    guard let start = try lines.next() else { throw .malformed("a head has no first line") }
    startLine = String(decoding: start, as: UTF8.self)
    fields = []
    fields.reserveCapacity(16)
    var length: UInt64?
    while let line = try lines.next() {
      let field = try MessageHead.field(line)
      if field.name.isSameFieldName(as: HeaderName.transferEncoding) {
        throw .malformed("there is no Transfer-Encoding in a bundle")
      }
      if field.name.isSameFieldName(as: HeaderName.contentLength) {
        guard length == nil, let number = DecimalText.unsigned(field.value) else {
          throw .malformed("a Content-Length is no number, or is there twice")
        }
        length = number
      }
      fields.append(field)
    }
    guard let length else { throw .malformed("a Content-Length is missing") }
    contentLength = length
  }

  private static func field(_ line: UnsafeRawBufferPointer) throws(BundleViolation) -> (name: String, value: String) {
    guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > 0, line[..<colon].allSatisfy(isNameByte) else {
      throw .malformed("a header field has no name")
    }
    var value = line[(colon + 1)...]
    while let first = value.first, isSpace(first) { value.removeFirst() }
    while let last = value.last, isSpace(last) { value.removeLast() }
    return (String(decoding: line[..<colon], as: UTF8.self), String(decoding: value, as: UTF8.self))
  }

  private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

  /// RFC 9110's token.
  private static func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
      UInt8(ascii: "!"), UInt8(ascii: "#")...UInt8(ascii: "'"), UInt8(ascii: "*"), UInt8(ascii: "+"),
      UInt8(ascii: "^"), UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
      true
    default: false
    }
  }

  /// The lines up to the empty one.
  private struct Lines {
    var rest: UnsafeRawBufferPointer

    mutating func next() throws(BundleViolation) -> UnsafeRawBufferPointer? {
      var end = 0
      while end < rest.count, rest[end] >= 0x20 && rest[end] != 0x7f || rest[end] == 0x09 { end += 1 }
      guard end + 1 < rest.count, rest[end] == 0x0d, rest[end + 1] == 0x0a else {
        throw .malformed("a head holds a control character")
      }
      let line = UnsafeRawBufferPointer(rebasing: rest[..<end])
      rest = UnsafeRawBufferPointer(rebasing: rest[(end + 2)...])
      return line.isEmpty ? nil : line
    }
  }

  /// Writes a head with its empty line; of the fields everything but a length, which is the body's.
  static func append(
    startLine: String, fields: [(name: String, value: String)], contentLength: Int, to bytes: inout [UInt8]
  ) {
    append(startLine, to: &bytes)
    bytes += lineEnd
    for (name, value) in fields where !name.isSameFieldName(as: HeaderName.contentLength) {
      append(name, value, to: &bytes)
    }
    append(HeaderName.contentLength, String(contentLength), to: &bytes)
    bytes += lineEnd
  }

  private static let lineEnd: [UInt8] = [0x0d, 0x0a]

  private static func append(_ name: String, _ value: String, to bytes: inout [UInt8]) {
    append(name, to: &bytes)
    bytes.append(UInt8(ascii: ":"))
    bytes.append(0x20)
    append(value, to: &bytes)
    bytes += lineEnd
  }

  /// No text ends its line early, whatever its source.
  private static func append(_ text: String, to bytes: inout [UInt8]) {
    let start = bytes.count
    bytes.append(contentsOf: text.utf8)
    for index in start..<bytes.count where bytes[index] < 0x20 || bytes[index] == 0x7f {
      bytes[index] = UInt8(ascii: "?")
    }
  }
}

extension String {
  /// Whether two names of header fields are the same one: ASCII, without regard to case.
  public func isSameFieldName(as other: String) -> Bool {
    guard utf8.count == other.utf8.count else { return false }
    // Most are written in the case in which they are looked for.
    if self == other { return true }
    var (left, right) = (utf8.makeIterator(), other.utf8.makeIterator())
    while let one = left.next(), let another = right.next() {
      guard one == another || one.lowercasedASCII == another.lowercasedASCII else { return false }
    }
    return true
  }
}

extension UInt8 {
  fileprivate var lowercasedASCII: UInt8 { (0x41...0x5a).contains(self) ? self | 0x20 : self }
}
