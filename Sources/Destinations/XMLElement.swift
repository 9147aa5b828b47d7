/// An element of a small XML document, as S3 answers: elements, text and the five named entities. Attributes, comments and
/// namespaces are skipped; document types, which could make a document grow, and everything malformed are refused.
///
/// Not Foundation's parser: it is libxml2, a large C library for bytes that come from the network, and knows document types.
struct XMLElement {
  private(set) var name: String
  private(set) var text: String
  private(set) var children: [XMLElement]

  private static let depthMax = 16

  /// The document's root; nil for anything that is no such document.
  init?(_ document: [UInt8]) {
    var reader = Reader(bytes: document[...])
    guard reader.skipMisc(), let root = Self.element(&reader, depth: 0), reader.skipMisc(), reader.bytes.isEmpty else {
      return nil
    }
    self = root
  }

  private init(name: String) {
    self.name = name
    text = ""
    children = []
  }

  func child(_ name: String) -> XMLElement? { children.first { $0.name == name } }

  private static func element(_ reader: inout Reader, depth: Int) -> XMLElement? {
    guard depth < depthMax, reader.take("<"), let name = reader.takeName(), let isEmpty = reader.skipAttributes() else {
      return nil
    }
    var element = XMLElement(name: name)
    guard !isEmpty else { return element }
    while true {
      guard let text = reader.takeText() else { return nil }
      element.text += text
      if reader.take("</") {
        guard reader.takeName() == name, reader.skipBlanks(), reader.take(">") else { return nil }
        return element
      }
      if reader.bytes.starts(with: Array("<!--".utf8)) {
        guard reader.skipMisc() else { return nil }
        continue
      }
      guard let child = Self.element(&reader, depth: depth + 1) else { return nil }
      element.children.append(child)
    }
  }

  /// What is left of the document.
  private struct Reader {
    var bytes: ArraySlice<UInt8>

    mutating func take(_ text: StaticString) -> Bool {
      let isThere = text.withUTF8Buffer { bytes.starts(with: $0) }
      if isThere { bytes = bytes.dropFirst(text.utf8CodeUnitCount) }
      return isThere
    }

    /// Always true, for use in a chain of conditions.
    mutating func skipBlanks() -> Bool {
      bytes = bytes.drop { Self.isBlank($0) }
      return true
    }

    /// Blanks, comments and the declaration; false when one of them has no end.
    mutating func skipMisc() -> Bool {
      while true {
        _ = skipBlanks()
        if take("<!--") {
          guard skip(behind: "-->") else { return false }
        } else if take("<?") {
          guard skip(behind: "?>") else { return false }
        } else {
          return true
        }
      }
    }

    private mutating func skip(behind end: StaticString) -> Bool {
      while !bytes.isEmpty {
        if take(end) { return true }
        bytes = bytes.dropFirst()
      }
      return false
    }

    /// The name without its namespace's prefix.
    mutating func takeName() -> String? {
      let name = bytes.prefix { byte in
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
          UInt8(ascii: ":"):
          true
        default: false
        }
      }
      bytes = bytes[name.endIndex...]
      guard let local = name.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false).last, !local.isEmpty
      else { return nil }
      return String(decoding: local, as: UTF8.self)
    }

    /// Goes behind the tag's end; whether the element ended with it. Nil when the tag has no end.
    mutating func skipAttributes() -> Bool? {
      while let byte = bytes.popFirst() {
        switch byte {
        case UInt8(ascii: ">"): return false
        case UInt8(ascii: "/"): return take(">") ? true : nil
        case UInt8(ascii: "<"): return nil
        case UInt8(ascii: "\""), UInt8(ascii: "'"):
          guard let end = bytes.firstIndex(of: byte) else { return nil }
          bytes = bytes[(end + 1)...]
        default: break
        }
      }
      return nil
    }

    /// Text up to the next tag; nil when it is no UTF-8 or has an unknown entity, or when no tag follows.
    mutating func takeText() -> String? {
      let raw = bytes.prefix { $0 != UInt8(ascii: "<") }
      bytes = bytes[raw.endIndex...]
      guard !bytes.isEmpty, let text = String(validating: raw, as: UTF8.self) else { return nil }
      // By bytes: to Swift a mark and a combining character behind it are one character.
      var decoded = ""
      var rest = text.utf8[...]
      while let mark = rest.firstIndex(of: UInt8(ascii: "&")) {
        decoded += Substring(rest[..<mark])
        rest = rest[mark...].dropFirst()
        guard let end = rest.firstIndex(of: UInt8(ascii: ";")), let character = Self.entity(Substring(rest[..<end]))
        else {
          return nil
        }
        decoded.unicodeScalars.append(character)
        rest = rest[end...].dropFirst()
      }
      return decoded + Substring(rest)
    }

    private static func entity(_ name: Substring) -> UnicodeScalar? {
      switch name {
      case "amp": return "&"
      case "lt": return "<"
      case "gt": return ">"
      case "quot": return "\""
      case "apos": return "'"
      default:
        guard name.utf8.count <= 8, name.hasPrefix("#") else { return nil }
        let number = name.dropFirst()
        return (number.hasPrefix("x") ? UInt32(number.dropFirst(), radix: 16) : UInt32(number)).flatMap(
          UnicodeScalar.init)
      }
    }

    private static func isBlank(_ byte: UInt8) -> Bool {
      byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d
    }
  }

  /// Text that may stand between two tags.
  static func escape(_ text: String) -> String {
    text.unicodeScalars.reduce(into: "") { escaped, character in
      switch character {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      case "\"": escaped += "&quot;"
      default: escaped.unicodeScalars.append(character)
      }
    }
  }
}
