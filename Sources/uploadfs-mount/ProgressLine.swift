import Glibc
import LogText

/// One line about what is going on: rewritten in place on a terminal, at most once a second; a new line every few
/// seconds elsewhere, so that a log stays readable.
struct ProgressLine {
  private let isTerminal = isatty(STDERR_FILENO) == 1
  private var shownAt: ContinuousClock.Instant?

  /// How long until the next text may be shown.
  var pause: Duration {
    guard let shownAt else { return .zero }
    return max(.zero, shownAt + (isTerminal ? .seconds(1) : .seconds(5)) - ContinuousClock.now)
  }

  /// Shows the text if its time has come; the closure is not called otherwise.
  mutating func show(_ text: () -> String) {
    guard pause == .zero else { return }
    shownAt = ContinuousClock.now
    let text = text()
    ServiceNotification.status(text)
    Output.standardError.show(isTerminal ? Self.cut(text, toColumns: columns) : text)
  }

  /// Of the terminal; 0 where it does not say.
  private var columns: Int {
    var size = winsize()
    return ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0 ? Int(size.ws_col) : 0
  }

  /// What is longer than a line would leave its beginning behind each time.
  static func cut(_ text: String, toColumns columns: Int) -> String {
    guard columns > 1, text.count >= columns else { return text }
    return text.prefix(columns - 2) + "…"
  }

  /// Ends a line that is being rewritten.
  func finish() { Output.standardError.endShowing() }
}
