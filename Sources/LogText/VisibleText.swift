/// Text of others, as names of files and words of servers are, as it can stand in one line of a log, a table or a message.
public enum VisibleText {
  /// Longer ones are cut.
  public static let scalarsMax = 4096

  /// The text with escapes (`\n`, `\u{1b}`) for what moves a cursor, ends a line, turns its direction or cannot be
  /// seen. Too long a text is cut. A backslash stays as it is.
  public static func line(_ text: String) -> String {
    let scalars = text.unicodeScalars
    guard scalars.count > scalarsMax || scalars.contains(where: isHidden) else { return text }
    var line = ""
    for scalar in scalars.prefix(scalarsMax) {
      switch scalar {
      case "\n": line += "\\n"
      case "\r": line += "\\r"
      case "\t": line += "\\t"
      case _ where isHidden(scalar): line += "\\u{\(String(scalar.value, radix: 16))}"
      default: line.unicodeScalars.append(scalar)
      }
    }
    return scalars.count > scalarsMax ? line + "…" : line
  }

  /// Control characters, line and paragraph separators (Unicode's Zl and Zp), and its marks of direction (UAX #9), which show
  /// the rest of a line in another order.
  package static func isHidden(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0..<0x20, 0x7f...0x9f, 0x2028...0x202e, 0x2066...0x2069, 0x200e, 0x200f, 0x061c, 0xfeff: true
    default: false
    }
  }
}
