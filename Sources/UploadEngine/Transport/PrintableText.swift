/// What a server says, as it can stand in a message: one line that moves no cursor and fills no log.
package enum PrintableText {
  private static let scalarsMax = 200
  /// Stands where a text was cut: a credential may have begun before it, of which ``CredentialMask`` then finds the rest.
  package static let cutMark: Character = "…"

  /// The beginning of a text, with blanks for what moves the cursor or turns the direction. Counts scalars: one character can hold
  /// any number of them.
  package static func beginning(of text: String) -> String {
    let shown = text.unicodeScalars.prefix(scalarsMax)
    let isCut = shown.endIndex != text.unicodeScalars.endIndex
    return String(shown.map { movesCursor($0) ? " " : Character($0) }) + (isCut ? String(cutMark) : "")
  }

  /// The first bytes of a text.
  package static func text(_ bytes: [UInt8], bytesMax: Int) -> String {
    let text = String(decoding: bytes.prefix(bytesMax), as: UTF8.self)
    return bytes.count > bytesMax ? text + String(cutMark) : text
  }

  private static func movesCursor(_ character: Unicode.Scalar) -> Bool {
    switch character.properties.generalCategory {
    case .control, .lineSeparator, .paragraphSeparator: true
    // Marks of direction: U+202E shows what follows from right to left.
    case .format: character.properties.isBidiControl
    default: false
    }
  }
}
