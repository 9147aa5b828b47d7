/// What the text of a ``MarkRecord`` says: a line `INODE MARK .` for each change, of which the last one of an inode counts.
///
/// The point ends a line: one without it was cut off when the daemon or the machine ended, or by a full disk, before the change
/// that it was written for. Parsing never fails: a line that is not understood is counted and left out, and a mark that is not
/// understood is ``SpoolMark/writing``, the careful one.
struct RecordedMarks: Hashable, Sendable {
  private(set) var marks: [UInt64: SpoolMark] = [:]
  /// Lines of the text, whatever they say.
  private(set) var lineCount = 0
  /// Lines that are whole and name no inode.
  private(set) var unreadableLineCount = 0

  private static let noneText = "none"
  private static let forgottenText = "-"
  private static let end = " ."

  init() {}

  init(_ text: String) {
    for line in text.utf8.split(separator: UInt8(ascii: "\n")) {
      lineCount += 1
      take(String(Substring(line)))
    }
  }

  private mutating func take(_ line: String) {
    guard line.hasSuffix(Self.end) else { return }
    let content = line.dropLast(Self.end.count)
    guard let blank = content.firstIndex(of: " "), let inode = UInt64(content[..<blank]) else {
      unreadableLineCount += 1
      return
    }
    let text = content[content.index(after: blank)...]
    if text == Self.forgottenText {
      marks[inode] = nil
    } else {
      marks[inode] = text == Self.noneText ? SpoolMark.none : SpoolMark(String(text))
    }
  }

  /// Takes a change in and returns its line. A nil mark is forgotten: the file's attribute says what is known.
  mutating func set(_ mark: SpoolMark?, of inode: UInt64) -> String {
    marks[inode] = mark
    lineCount += 1
    return Self.line(mark, of: inode)
  }

  /// The shortest text that says the same.
  var text: String {
    marks.sorted { $0.key < $1.key }.map { Self.line($0.value, of: $0.key) }.joined()
  }

  private static func line(_ mark: SpoolMark?, of inode: UInt64) -> String {
    "\(inode) \(mark.map { $0.text ?? noneText } ?? forgottenText)\(end)\n"
  }
}
