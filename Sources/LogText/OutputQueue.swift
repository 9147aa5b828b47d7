/// What goes to one place that may take nothing for long, as a terminal that is stopped (Ctrl-S): in order, and said where something is
/// missing. Pure.
///
/// How much may be in it is ``OutputChannel``'s.
struct OutputQueue: Sendable {
  private enum Piece: Sendable {
    case text([UInt8])
    /// So many texts would stand here.
    case missing(Int)
    /// The text of how far things are is complete, and its line with it.
    case endOfProgress
  }

  private let form: OutputForm
  /// The first one is on its way.
  private var pieces: [Piece] = []
  /// Only the last of them is of interest.
  private var progress: [UInt8]?
  /// What is being written.
  private var current: ArraySlice<UInt8> = []
  /// What the current one took of the channel's bound.
  private var currentCost = 0
  /// A text of how far things are stands in the terminal's last line, and has not ended it.
  private var isShowing = false

  init(_ form: OutputForm) { self.form = form }

  /// Nothing is left to write.
  var isEmpty: Bool { current.isEmpty && pieces.isEmpty && progress == nil }

  /// A text, which stays in the order.
  mutating func put(_ text: [UInt8]) { pieces.append(.text(text)) }

  /// So many were left out behind all that are there.
  mutating func missed(_ count: Int) {
    if form != .datagrams { pieces.append(.missing(count)) }
  }

  /// How far things are, in the place of what was to be said of it before.
  mutating func show(_ text: [UInt8]) { progress = text }

  /// What has been shown stays.
  mutating func endShowing() {
    progress = nil
    if form == .terminal { pieces.append(.endOfProgress) }
  }

  /// What is to be written next: all that is left of one text.
  mutating func next() -> ArraySlice<UInt8>? {
    while current.isEmpty, !pieces.isEmpty { begin(pieces.removeFirst()) }
    if current.isEmpty, let progress { begin(progress: progress) }
    return current.isEmpty ? nil : current
  }

  /// So much of it is written; how much room that makes.
  mutating func wrote(_ count: Int) -> Int {
    current = current.dropFirst(count)
    return current.isEmpty ? release() : 0
  }

  /// It cannot be written at all; how much room that makes.
  mutating func discard() -> Int {
    current = []
    return release()
  }

  /// What a text takes of the bound: many short ones need memory as well.
  static func cost(of text: [UInt8]) -> Int { text.count + 64 }

  private mutating func release() -> Int {
    defer { currentCost = 0 }
    return currentCost
  }

  private mutating func begin(_ piece: Piece) {
    switch piece {
    case .text(let text):
      current = (lineStart + text)[...]
      currentCost = Self.cost(of: text)
      isShowing = false
    case .missing(let count):
      let what = count == 1 ? "1 message is" : "\(count) messages are"
      current = (lineStart + Array("uploadfs: \(what) missing here: what was said before was not read\n".utf8))[...]
      isShowing = false
    case .endOfProgress:
      if isShowing { current = [UInt8(ascii: "\n")] }
      isShowing = false
    }
  }

  private mutating func begin(progress text: [UInt8]) {
    progress = nil
    switch form {
    case .terminal:
      current = (Self.clearLine + text)[...]
      isShowing = true
    case .lines: current = (text + [UInt8(ascii: "\n")])[...]
    case .datagrams: current = text[...]
    }
  }

  /// Makes room where a text of how far things are stands; the next one comes below.
  private var lineStart: [UInt8] { isShowing ? Self.clearLine : [] }

  /// Carriage return to the line's start, ESC [K to clear what an earlier, longer text left behind it.
  private static let clearLine = Array("\r\u{1b}[K".utf8)
}

/// What a place makes of texts.
public enum OutputForm: Sendable {
  /// How far things are is rewritten in its last line.
  case terminal
  /// Each text of how far things are is a line of its own.
  case lines
  /// Each text is one message. One that is left out is not spoken of.
  case datagrams
}
