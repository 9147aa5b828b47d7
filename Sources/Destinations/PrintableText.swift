/// What a server says, as it can stand in a message: one line that moves no cursor and fills no log.
enum PrintableText {
  private static let scalarsMax = 200

  /// The beginning of a text, with blanks for control characters. Counts scalars: one character can hold any number of them.
  static func beginning(of text: String) -> String {
    String(text.unicodeScalars.prefix(scalarsMax).map { isControl($0) ? " " : Character($0) })
  }

  private static func isControl(_ character: Unicode.Scalar) -> Bool {
    character.value < 0x20 || (0x7f...0x9f).contains(character.value)
  }
}
