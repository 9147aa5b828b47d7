import LogText

/// What a server says, as it can stand in a message: one line that moves no cursor and fills no log. In it, what ``VisibleText`` hides is a
/// blank, since escapes would be read as the server's words.
package enum PrintableText {
  private static let scalarsMax = 200
  /// Stands where a text was cut: a credential may have begun before it, of which ``CredentialMask`` then finds the rest.
  package static let cutMark: Character = "…"

  /// The beginning of a text, with blanks for what cannot be seen. Counts scalars: one character can hold
  /// any number of them.
  package static func beginning(of text: String) -> String {
    let shown = text.unicodeScalars.prefix(scalarsMax)
    let isCut = shown.endIndex != text.unicodeScalars.endIndex
    return String(shown.map { VisibleText.isHidden($0) ? " " : Character($0) }) + (isCut ? String(cutMark) : "")
  }

  /// The first bytes of a text.
  package static func text(_ bytes: [UInt8], bytesMax: Int) -> String {
    let text = String(decoding: bytes.prefix(bytesMax), as: UTF8.self)
    return bytes.count > bytesMax ? text + String(cutMark) : text
  }
}
