import ChunkProtocol
import FileModel
import Integrity

/// Names as text, for servers that take no bytes (docs/destinations.md, DE146): one encoding, by which no two paths become one.
///
/// A part of a path is as it is where it is UTF-8 without control characters, and without what a protocol has no way to say. Any other is
/// encoded as docs/protocol.md has it, with `%XX`; so is one that looks as if it were: with a `%` before two hexadecimal digits, or before
/// `~`, by which shortened names are known; and one that a template, or its encoding, has made longer than a server's filesystem takes, which
/// is shortened.
struct TextName {
  /// As other names have it.
  static let usual = TextName(unsaid: [])
  /// What ends a quoted name, and what readers of forms take for an escape.
  static let quoted = TextName(unsaid: [UInt8(ascii: "\""), UInt8(ascii: "\\")])

  /// What some servers take for the end of a path also where it is percent-encoded (WsgiDAV, of the new name of a file).
  static let inAddress = TextName(unsaid: [UInt8(ascii: "#"), UInt8(ascii: ";"), UInt8(ascii: "?")])

  private static let percent = UInt8(ascii: "%")
  /// What is before a shortened name's hash, and occurs in no other encoding.
  private static let shortMark = Array("%~".utf8)
  private static let hashDigits = 16
  private static let extensionBytesMax = 24

  /// ASCII that is encoded as well.
  private let unsaid: [UInt8]

  /// For `published_name`, and for what a request says of the whole path.
  func of(_ path: RelativePath) -> String {
    path.components.map(of(component:)).joined(separator: "/")
  }

  /// Of the path's last part.
  func ofLastComponent(_ path: RelativePath) -> String { of(component: path.lastComponent) }

  private func of(component: ArraySlice<UInt8>) -> String {
    if let text = String(validating: component, as: UTF8.self), isPlain(component, text) { return text }
    let encoded = Array(PublishedName.encode(Array(component)).utf8)
    let whole = units(of: encoded[...]).flatMap { $0 }
    let isShort = whole.count <= ProtocolLimits.nameComponentBytesMax
    return String(decoding: isShort ? whole : shortened(encoded, of: component), as: UTF8.self)
  }

  /// As docs/protocol.md shortens a name (P77), by the length that it has with everything encoded. `encoded` may be shortened already.
  private func shortened(_ encoded: [UInt8], of component: ArraySlice<UInt8>) -> [UInt8] {
    let mark = encoded.indices.first { encoded[$0...].starts(with: Self.shortMark) }
    let end = encoded[(mark ?? encoded.endIndex)...]
    let hash: [UInt8] = Self.shortMark + Hex.encode(sha256(Array(component))).utf8.prefix(Self.hashDigits)
    let ext = mark == nil ? Self.nameExtension(of: encoded) : end.dropFirst(hash.count)
    let suffix = hash + units(of: ext).flatMap { $0 }
    var name: [UInt8] = []
    for unit in units(of: encoded[..<end.startIndex]) {
      guard name.count + unit.count + suffix.count <= ProtocolLimits.nameComponentBytesMax else { break }
      name += unit
    }
    return name + suffix
  }

  /// An encoded name in pieces that must not be torn apart, a character or one encoded byte, with what is unsaid encoded as well.
  private func units(of encoded: ArraySlice<UInt8>) -> [[UInt8]] {
    var units: [[UInt8]] = []
    var rest = encoded
    while let byte = rest.first {
      if unsaid.contains(byte) {
        units.append(PercentCoding.escape(byte))
        rest = rest.dropFirst()
      } else {
        let length = byte == Self.percent ? 3 : 1 + rest.dropFirst().prefix { $0 & 0xc0 == 0x80 }.count
        units.append(Array(rest.prefix(length)))
        rest = rest.dropFirst(length)
      }
    }
    return units
  }

  /// With its dot; empty where a shortened name keeps none.
  private static func nameExtension(of encoded: [UInt8]) -> ArraySlice<UInt8> {
    guard let dot = encoded.lastIndex(of: UInt8(ascii: ".")), dot > 0,
      (2...extensionBytesMax).contains(encoded.count - dot)
    else { return [] }
    return encoded[dot...]
  }

  private func isPlain(_ bytes: ArraySlice<UInt8>, _ text: String) -> Bool {
    guard bytes.count <= ProtocolLimits.nameComponentBytesMax else { return false }
    guard text.unicodeScalars.allSatisfy({ $0.value >= 0x20 && !(0x7f...0x9f).contains($0.value) }) else {
      return false
    }
    return bytes.indices.allSatisfy { index in
      guard bytes[index] == Self.percent else { return !unsaid.contains(bytes[index]) }
      return !isMark(bytes[(index + 1)...])
    }
  }

  /// What an encoding has behind its `%`.
  private func isMark(_ rest: ArraySlice<UInt8>) -> Bool {
    rest.first == UInt8(ascii: "~") || rest.count >= 2 && rest.prefix(2).allSatisfy(Self.isHexadecimal)
  }

  private static func isHexadecimal(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x46, 0x61...0x66: true
    default: false
    }
  }
}
