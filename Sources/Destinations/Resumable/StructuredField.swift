import UploadEngine

/// Values of structured fields (RFC 9651), as far as anybody here asks for them. Whatever is wrong with a field, all of it
/// counts as not there.
enum StructuredField {
  /// A value, without its parameters.
  enum Value: Hashable {
    case integer(Int64)
    case boolean(Bool)
    /// A decimal, a string, a token, bytes, a date or a list: nothing that is asked for.
    case other
  }

  /// A longer field is not looked at.
  static let bytesMax = 4096

  /// A field that is one item.
  static func item(_ text: String) -> Value? {
    var parser = Parser(text)
    parser.skipBlanks()
    guard let value = parser.item(), parser.isAtEnd else { return nil }
    return value
  }

  /// A field that is a dictionary; of a key that is there twice, the last value.
  static func dictionary(_ text: String) -> [String: Value]? {
    var parser = Parser(text)
    return parser.dictionary()
  }

  private struct Parser {
    private var rest: ArraySlice<UInt8>
    private var isUsable = true

    init(_ text: String) {
      rest = Array(text.utf8)[...]
      if rest.count > StructuredField.bytesMax || rest.contains(where: { $0 > 0x7e || $0 < 0x20 && $0 != 0x09 }) {
        isUsable = false
      }
      while rest.last == UInt8(ascii: " ") { rest.removeLast() }
    }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func skipBlanks() { rest = rest.drop { $0 == UInt8(ascii: " ") } }

    private mutating func skipOptionalWhitespace() {
      rest = rest.drop { $0 == UInt8(ascii: " ") || $0 == 0x09 }
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
      guard let first = rest.first, UInt32(first) == character.value else { return false }
      rest.removeFirst()
      return true
    }

    mutating func dictionary() -> [String: Value]? {
      guard isUsable else { return nil }
      var members: [String: Value] = [:]
      skipBlanks()
      while !isAtEnd {
        guard let key = key(), let value = memberValue() else { return nil }
        members[key] = value
        skipOptionalWhitespace()
        if isAtEnd { return members }
        guard take(",") else { return nil }
        skipOptionalWhitespace()
        // A comma with nothing behind it.
        if isAtEnd { return nil }
      }
      return members
    }

    private mutating func memberValue() -> Value? {
      guard take("=") else { return parameters() ? .boolean(true) : nil }
      guard rest.first == UInt8(ascii: "(") else { return item() }
      return innerList()
    }

    private mutating func innerList() -> Value? {
      guard take("(") else { return nil }
      while !isAtEnd {
        skipBlanks()
        if take(")") { return parameters() ? .other : nil }
        guard item() != nil, rest.first == UInt8(ascii: " ") || rest.first == UInt8(ascii: ")") else { return nil }
      }
      return nil
    }

    mutating func item() -> Value? {
      guard isUsable, let value = bareItem(), parameters() else { return nil }
      return value
    }

    private mutating func parameters() -> Bool {
      while take(";") {
        skipBlanks()
        guard key() != nil else { return false }
        if take("="), bareItem() == nil { return false }
      }
      return true
    }

    private mutating func key() -> String? {
      guard let first = rest.first, Self.isLowercase(first) || first == UInt8(ascii: "*") else { return nil }
      let name = takeAll { Self.isLowercase($0) || Self.isDigit($0) || "_-.*".utf8.contains($0) }
      return String(decoding: name, as: UTF8.self)
    }

    private mutating func bareItem() -> Value? {
      guard let first = rest.first else { return nil }
      if first == UInt8(ascii: "-") || Self.isDigit(first) { return number() }
      if first == UInt8(ascii: "*") || Self.isLetter(first) {
        _ = takeAll { Self.isDigit($0) || Self.isLetter($0) || "!#$%&'*+-.^_`|~:/".utf8.contains($0) }
        return .other
      }
      if first == UInt8(ascii: "\"") { return string() ? .other : nil }
      if first == UInt8(ascii: ":") { return bytes() ? .other : nil }
      rest.removeFirst()
      switch first {
      case UInt8(ascii: "?"):
        if take("1") { return .boolean(true) }
        return take("0") ? .boolean(false) : nil
      case UInt8(ascii: "@"):
        guard case .integer? = number() else { return nil }
        return .other
      case UInt8(ascii: "%"): return string() ? .other : nil
      default: return nil
      }
    }

    /// At most 15 digits, or 12 and 3 behind a point.
    private mutating func number() -> Value? {
      let isNegative = take("-")
      let digits = takeAll(Self.isDigit)
      guard !digits.isEmpty, digits.count <= 15 else { return nil }
      if take(".") {
        let decimals = takeAll(Self.isDigit)
        return digits.count <= 12 && (1...3).contains(decimals.count) ? .other : nil
      }
      let magnitude = digits.reduce(Int64(0)) { $0 * 10 + Int64($1 - UInt8(ascii: "0")) }
      return .integer(isNegative ? -magnitude : magnitude)
    }

    private mutating func string() -> Bool {
      guard take("\"") else { return false }
      while let character = rest.popFirst() {
        switch character {
        case UInt8(ascii: "\""): return true
        case UInt8(ascii: "\\"):
          guard let escaped = rest.popFirst(), "\"\\".utf8.contains(escaped) else { return false }
        case 0x09: return false
        default: continue
        }
      }
      return false
    }

    private mutating func bytes() -> Bool {
      guard take(":") else { return false }
      _ = takeAll { Self.isDigit($0) || Self.isLetter($0) || "+/=".utf8.contains($0) }
      return take(":")
    }

    private mutating func takeAll(_ isWanted: (UInt8) -> Bool) -> ArraySlice<UInt8> {
      let taken = rest.prefix(while: isWanted)
      rest = rest[taken.endIndex...]
      return taken
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
    private static func isLowercase(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) }
    private static func isLetter(_ byte: UInt8) -> Bool {
      isLowercase(byte) || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
    }
  }
}

extension HTTPResponse {
  /// A structured field; its lines count as one.
  func structured(_ lowercasedName: String) -> String? {
    let lines = headers.filter { $0.name == lowercasedName }.map(\.value)
    return lines.isEmpty ? nil : lines.joined(separator: ", ")
  }

  /// A field that is an integer and not negative; nil for anything else.
  func structuredNumber(_ lowercasedName: String) -> UInt64? {
    guard case .integer(let value)? = structured(lowercasedName).flatMap(StructuredField.item) else { return nil }
    return UInt64(exactly: value)
  }

  /// A field that is yes or no; nil for anything else.
  func structuredFlag(_ lowercasedName: String) -> Bool? {
    guard case .boolean(let value)? = structured(lowercasedName).flatMap(StructuredField.item) else { return nil }
    return value
  }
}
