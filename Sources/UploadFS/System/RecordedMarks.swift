import FileModel

/// What the text of a ``MarkRecord`` says: a line `INODE MARK @IDENTITY .` for each change, of which the last one of an inode counts.
/// Lines of earlier versions have no identity; to these versions a line with one is a mark that they do not understand.
///
/// The point ends a line: one without it was cut off when the daemon or the machine ended, or by a full disk, before the change
/// that it was written for. Parsing never fails: a line that is not understood is counted and left out, and a mark that is not
/// understood is ``WriterStateXattr/unfinished``, the careful one.
struct RecordedMarks: Hashable, Sendable {
  private(set) var marks: [UInt64: WriterStateXattr] = [:]
  /// The captures that the marks are of, where that is known.
  private(set) var ids: [UInt64: FileID] = [:]
  /// Doubts of captures of which the inode numbers were recorded for others since, as in a spool that was moved.
  private var displaced: [FileID: WriterStateXattr] = [:]
  /// Lines of the text, whatever they say.
  private(set) var lineCount = 0
  /// Lines that are whole and name no inode.
  private(set) var unreadableLineCount = 0

  private static let noneText = "none"
  private static let forgottenText = "-"
  private static let idPrefix = " @"
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
    var text = content[content.index(after: blank)...]
    let id = Self.takeID(from: &text)
    if text == Self.forgottenText {
      (marks[inode], ids[inode]) = (nil, nil)
    } else {
      if let id, let known = ids[inode], known != id, let mark = marks[inode], mark.isDoubt { displaced[known] = mark }
      ids[inode] = id
      marks[inode] = text == Self.noneText ? WriterStateXattr.none : WriterStateXattr(String(text))
    }
  }

  private static func takeID(from text: inout Substring) -> FileID? {
    guard let word = text.split(separator: " ").last, word.hasPrefix("@"), let id = FileID(String(word.dropFirst())),
      text.hasSuffix(" \(word)")
    else { return nil }
    text = text.dropLast(word.count + 1)
    return id
  }

  /// Takes a change in and returns its line. A nil mark is forgotten: the file's attribute says what is known.
  mutating func set(_ mark: WriterStateXattr?, of inode: UInt64, as id: FileID? = nil) -> String {
    marks[inode] = mark
    ids[inode] = mark == nil ? nil : id
    lineCount += 1
    return Self.line(mark, of: inode, ids[inode])
  }

  /// The spool lies elsewhere, where its inode numbers are those of other files: what is known of captures, by their identities. Of two
  /// marks the doubt counts.
  mutating func takeByIdentity() -> [FileID: WriterStateXattr] {
    var known = displaced
    for (inode, mark) in marks.sorted(by: { $0.key < $1.key }) {
      guard let id = ids[inode], known[id]?.isDoubt != true else { continue }
      known[id] = mark
    }
    (marks, ids, displaced) = ([:], [:], [:])
    return known
  }

  /// The shortest text that says the same.
  var text: String {
    marks.sorted { $0.key < $1.key }.map { Self.line($0.value, of: $0.key, ids[$0.key]) }.joined()
  }

  private static func line(_ mark: WriterStateXattr?, of inode: UInt64, _ id: FileID?) -> String {
    let identity = id.map { "\(idPrefix)\($0)" } ?? ""
    return "\(inode) \(mark.map { $0.text ?? noneText } ?? forgottenText)\(identity)\(end)\n"
  }
}
