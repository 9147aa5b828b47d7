import Glibc

/// One line about what is going on: rewritten in place on a terminal, at most once a second; a new line every few
/// seconds elsewhere, so that a log stays readable.
struct ProgressLine {
  private let isTerminal = isatty(STDERR_FILENO) == 1
  private var shownAt: ContinuousClock.Instant?
  private var isShowing = false

  /// Shows the text if its time has come; the closure is not called otherwise.
  mutating func show(_ text: () -> String) {
    let now = ContinuousClock.now
    if let shownAt, now - shownAt < (isTerminal ? .seconds(1) : .seconds(5)) { return }
    shownAt = now
    let text = text()
    ServiceNotification.status(text)
    // Carriage return to the line's start, ESC [K to clear what an earlier, longer text left behind it.
    StandardError.write(isTerminal ? "\r\u{1b}[K\(text)" : "\(text)\n")
    isShowing = isTerminal
  }

  /// Ends a line that is being rewritten.
  mutating func finish() {
    if isShowing { StandardError.write("\n") }
    isShowing = false
  }
}
