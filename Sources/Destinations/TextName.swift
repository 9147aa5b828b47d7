import ChunkProtocol
import FileModel

/// Names as text, for servers that take no bytes (spec H13): one encoding, by which no two paths become one.
///
/// A part of a path is as it is where it is UTF-8 without control characters, and without what a protocol has no way to say. Any other is
/// encoded as docs/protocol.md has it, with `%XX`; so is one that looks as if it were: with a `%` before two hexadecimal digits, or before
/// `~`, by which shortened names are known; and one that a template has made longer than a server's filesystem takes, which is shortened.
struct TextName {
  /// As other names have it.
  static let usual = TextName(unsaid: [])
  /// What ends a quoted name, and what readers of forms take for an escape.
  static let quoted = TextName(unsaid: [UInt8(ascii: "\""), UInt8(ascii: "\\")])

  private static let percent = UInt8(ascii: "%")

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
    let bytes = PublishedName.encode(Array(component)).utf8.flatMap { byte -> [UInt8] in
      unsaid.contains(byte) ? Array("%\(String(byte, radix: 16, uppercase: true))".utf8) : [byte]
    }
    return String(decoding: bytes, as: UTF8.self)
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
