import Glibc
import Synchronization

/// One line about what is going on: rewritten in place on a terminal, at most once a second; a new line every few
/// seconds elsewhere, so that a log stays readable.
struct ProgressLine {
  private let isTerminal = isatty(STDERR_FILENO) == 1
  private var shownAt: ContinuousClock.Instant?
  private var isShowing: Bool {
    get { Self.isOnTerminal.load(ordering: .relaxed) }
    set { Self.isOnTerminal.store(newValue, ordering: .relaxed) }
  }

  /// A text stands in the terminal's last line, and has not ended it. Of the process: it has one terminal.
  private static let isOnTerminal = Atomic<Bool>(false)

  /// Makes room for a line of the log; the next text comes below it.
  static func giveWay() {
    if isOnTerminal.exchange(false, ordering: .relaxed) { StandardError.write("\r\u{1b}[K") }
  }

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
    // Carriage return to the line's start, ESC [K to clear what an earlier, longer text left behind it.
    StandardError.write(isTerminal ? "\r\u{1b}[K\(Self.cut(text, toColumns: columns))" : "\(text)\n")
    isShowing = isTerminal
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
  mutating func finish() {
    if isShowing { StandardError.write("\n") }
    isShowing = false
  }
}
