import Integrity
import TransferModel

/// Takes texts out of what a server says, also where they stand at its end and were cut.
struct TextMask {
  /// What is taken out.
  struct Secret: Hashable {
    var bytes: [UInt8]
    /// A beginning that is shorter is none of it, where a text was cut behind it.
    var beginningBytesMin: Int
  }

  /// Longest first: a longer one may hold a shorter one.
  private let secrets: [Secret]
  private let replacement: String

  init(_ secrets: [Secret], replacement: String) {
    self.secrets = secrets.sorted { $0.bytes.count > $1.bytes.count }
    self.replacement = replacement
  }

  /// As it is, and as it stands in an address, in JSON and in a page: always as many forms, in the same order.
  static func forms(of secret: String) -> [String] {
    let isPlain = { (character: Character) in character.isASCII && (character.isLetter || character.isNumber) }
    let isUsual = { (character: Character) in isPlain(character) || "-._~".contains(character) }
    let escaped = { (escape: (UInt8) -> String) in
      secret.map { isUsual($0) ? String($0) : $0.utf8.map(escape).joined() }.joined()
    }
    let percent = escaped { "%" + Hex.encode([$0]).uppercased() }
    return [
      secret, percent, escaped { "%" + Hex.encode([$0]) }, secret.replacing("/", with: "\\/"),
      escaped { "&#\($0);" }, escaped { "&#x" + Hex.encode([$0]) + ";" },
      escaped { "&#x" + Hex.encode([$0]).uppercased() + ";" },
    ]
  }

  /// The text without them. Bytes are compared: what a server puts behind a credential can make its last character another one.
  func hide(in text: String) -> String {
    let bytes = Array(text.utf8)
    let mark = Array(String(PrintableText.cutMark).utf8)
    // It is asked for each delivery, and next to no answer has any of it.
    guard ([mark] + secrets.map(\.bytes)).contains(where: { bytes.firstOccurrence(of: $0) != nil }) else { return text }
    let hidden = secrets.reduce(bytes) { Array($0.parts(between: $1.bytes).joined(separator: replacement.utf8)) }
    // Messages hold what a server said only to a certain length, which may end within one.
    let parts = hidden.parts(between: mark)
    let whole = parts.dropLast().map(withoutBeginning) + parts.suffix(1).map { Array($0) }
    return String(decoding: Array(whole.joined(separator: mark)), as: UTF8.self)
  }

  /// What was cut within a secret ends with the beginning of it.
  private func withoutBeginning(atEndOf text: ArraySlice<UInt8>) -> [UInt8] {
    for secret in secrets where secret.bytes.count > secret.beginningBytesMin {
      for count in stride(from: secret.bytes.count - 1, through: secret.beginningBytesMin, by: -1)
      where text.suffix(count).elementsEqual(secret.bytes.prefix(count)) {
        return Array(text.dropLast(count)) + replacement.utf8
      }
    }
    return Array(text)
  }
}

extension [UInt8] {
  /// Where some bytes begin in these, from an offset on.
  fileprivate func firstOccurrence(of part: [UInt8], from start: Int = 0) -> Int? {
    self[start...].indices.first { self[$0] == part.first && self[$0...].starts(with: part) }
  }

  /// What stands before, between and behind the places where `mark` is; at least one.
  fileprivate func parts(between mark: [UInt8]) -> [ArraySlice<UInt8>] {
    var (parts, start) = ([ArraySlice<UInt8>](), 0)
    while let end = firstOccurrence(of: mark, from: start) {
      parts.append(self[start..<end])
      start = end + mark.count
    }
    return parts + [self[start...]]
  }
}
