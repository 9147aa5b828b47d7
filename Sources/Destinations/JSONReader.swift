import ChunkProtocol
import Lookup

/// What is left of a JSON document (RFC 8259) that a server has sent. Each byte is read once: `JSONDecoder` takes a time that grows with
/// the third power of the depth, minutes for 64 KiB, and answers are read on the thread that serves all destinations.
struct JSONReader {
  private var rest: ArraySlice<UInt8>

  /// So many values may lie in one another.
  static let depthMax = 32

  /// The value of a document; nil for anything that is no JSON, or is nested deeper than anything that an upload is answered with.
  static func value(of document: [UInt8]) -> JSONValue? {
    var reader = JSONReader(rest: document[...])
    // The mark of UTF-8, which some servers put first.
    if reader.rest.starts(with: [0xef, 0xbb, 0xbf]) { reader.rest = reader.rest.dropFirst(3) }
    guard let value = reader.value(depth: 0), reader.nextByte == nil else { return nil }
    return value
  }

  private mutating func value(depth: Int) -> JSONValue? {
    guard depth < Self.depthMax, let first = nextByte else { return nil }
    switch first {
    case UInt8(ascii: "{"): return object(depth: depth)
    case UInt8(ascii: "["): return array(depth: depth)
    case UInt8(ascii: "\""): return text().map { .string($0) }
    case UInt8(ascii: "t"): return take("true") ? .bool(true) : nil
    case UInt8(ascii: "f"): return take("false") ? .bool(false) : nil
    case UInt8(ascii: "n"): return take("null") ? .null : nil
    default: return number()
    }
  }

  private mutating func object(depth: Int) -> JSONValue? {
    var members: LookupTable<String, JSONValue> = [:]
    rest = rest.dropFirst()
    while let next = nextByte {
      if next == UInt8(ascii: "}") {
        rest = rest.dropFirst()
        return .object(members)
      }
      guard next == UInt8(ascii: "\""), let name = text(), take(":"), let value = value(depth: depth + 1),
        endsElement(UInt8(ascii: "}"))
      else { return nil }
      // To find a long name in a table takes a time that grows with the square of the marks that stand on one letter of it. No name
      // that is looked for has any.
      guard name.utf8.count <= ProtocolLimits.jsonNameBytesMax else { continue }
      // Of several with one name the first.
      if members[name] == nil { members[name] = value }
    }
    return nil
  }

  private mutating func array(depth: Int) -> JSONValue? {
    var elements: [JSONValue] = []
    rest = rest.dropFirst()
    while let next = nextByte {
      if next == UInt8(ascii: "]") {
        rest = rest.dropFirst()
        return .array(elements)
      }
      guard let element = value(depth: depth + 1), endsElement(UInt8(ascii: "]")) else { return nil }
      elements.append(element)
    }
    return nil
  }

  /// A comma follows, which is taken, or the end of what the element is in. (One comma too many is let pass, behind the last element.)
  private mutating func endsElement(_ end: UInt8) -> Bool { take(",") || nextByte == end }

  /// The byte behind blanks, which are taken; nil at the end.
  private var nextByte: UInt8? {
    mutating get {
      rest = rest.drop { $0 == 0x20 || $0 == 0x09 || $0 == 0x0a || $0 == 0x0d }
      return rest.first
    }
  }

  private mutating func take(_ word: StaticString) -> Bool {
    guard nextByte != nil, word.withUTF8Buffer({ rest.starts(with: $0) }) else { return false }
    rest = rest.dropFirst(word.utf8CodeUnitCount)
    return true
  }

  /// A number, as an integer where it is one of 64 bits; nil for one that no `Double` is near.
  private mutating func number() -> JSONValue? {
    let raw = rest.prefix { byte in
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."),
        UInt8(ascii: "e"), UInt8(ascii: "E"):
        true
      default: false
      }
    }
    guard Self.isNumber(raw) else { return nil }
    rest = rest[raw.endIndex...]
    let digits = String(decoding: raw, as: UTF8.self)
    if let integer = Int64(digits) { return .integer(integer) }
    guard let number = Double(digits), number.isFinite else { return nil }
    // A larger one says another integer than its digits do.
    return number.magnitude <= 0x1p53 ? Int64(exactly: number).map { .integer($0) } ?? .number(number) : .number(number)
  }

  /// `-`, digits without a zero before others, a fraction, an exponent.
  private static func isNumber(_ raw: ArraySlice<UInt8>) -> Bool {
    func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
    func isSign(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "-") || byte == UInt8(ascii: "+") }
    var left = raw.first == UInt8(ascii: "-") ? raw.dropFirst() : raw
    let whole = left.prefix(while: isDigit)
    guard !whole.isEmpty, whole.count == 1 || whole.first != UInt8(ascii: "0") else { return false }
    left = left[whole.endIndex...]
    if left.first == UInt8(ascii: ".") {
      let fraction = left.dropFirst().prefix(while: isDigit)
      guard !fraction.isEmpty else { return false }
      left = left[fraction.endIndex...]
    }
    if let mark = left.first, mark == UInt8(ascii: "e") || mark == UInt8(ascii: "E") {
      left = left.dropFirst()
      if let sign = left.first, isSign(sign) { left = left.dropFirst() }
      guard !left.isEmpty, left.allSatisfy(isDigit) else { return false }
      return true
    }
    return left.isEmpty
  }

  /// A text behind its quotation mark, with that and the one that ends it.
  private mutating func text() -> String? {
    rest = rest.dropFirst()
    var bytes: [UInt8] = []
    while true {
      let plain = rest.prefix { $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
      bytes += plain
      rest = rest[plain.endIndex...]
      switch rest.popFirst() {
      case UInt8(ascii: "\"")?:
        return String(validating: bytes, as: UTF8.self).flatMap { MarkRuns.areBounded(in: $0) ? $0 : nil }
      case UInt8(ascii: "\\")?:
        guard let character = escaped() else { return nil }
        bytes += Array(String(character).utf8)
      default: return nil
      }
    }
  }

  /// What stands behind a backslash.
  private mutating func escaped() -> UnicodeScalar? {
    switch rest.popFirst() {
    case UInt8(ascii: "\"")?: return "\""
    case UInt8(ascii: "\\")?: return "\\"
    case UInt8(ascii: "/")?: return "/"
    case UInt8(ascii: "b")?: return "\u{8}"
    case UInt8(ascii: "f")?: return "\u{c}"
    case UInt8(ascii: "n")?: return "\n"
    case UInt8(ascii: "r")?: return "\r"
    case UInt8(ascii: "t")?: return "\t"
    case UInt8(ascii: "u")?:
      guard let unit = codeUnit() else { return nil }
      guard (0xd800..<0xdc00).contains(unit) else { return UnicodeScalar(unit) }
      // The first of a pair.
      guard rest.popFirst() == UInt8(ascii: "\\"), rest.popFirst() == UInt8(ascii: "u"), let second = codeUnit(),
        (0xdc00..<0xe000).contains(second)
      else { return nil }
      return UnicodeScalar(0x10000 + (unit - 0xd800) << 10 + (second - 0xdc00))
    default: return nil
    }
  }

  /// Four hexadecimal digits.
  private mutating func codeUnit() -> UInt32? {
    var unit: UInt32 = 0
    for _ in 0..<4 {
      guard let byte = rest.popFirst(), let digit = Character(UnicodeScalar(byte)).hexDigitValue else { return nil }
      unit = unit << 4 | UInt32(digit)
    }
    return unit
  }
}
