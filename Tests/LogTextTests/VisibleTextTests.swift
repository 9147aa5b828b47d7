import Logging
import LogText
import Promises
import Synchronization
import Testing

/// What a handler was given.
private final class Kept: Sendable {
  let lines = Mutex<[String]>([])
}

private struct KeepingHandler: LogHandler {
  let kept: Kept
  var logLevel = Logger.Level.trace
  var metadata: Logger.Metadata = [:]
  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    let values = (event.metadata ?? [:]).merging(metadata) { one, _ in one }.sorted { $0.key < $1.key }
    kept.lines.withLock {
      $0.append("\(event.message) \(values.map { "\($0.key)=\($0.value)" }.joined(separator: " "))")
    }
  }
}

@Suite struct VisibleTextTests {
  @Test(arguments: [
    ("plain text, äöü 你好 🎬", "plain text, äöü 你好 🎬"), ("a\nb\r\tc", "a\\nb\\r\\tc"), ("\u{1b}[2J", "\\u{1b}[2J"),
    ("\u{9b}31m", "\\u{9b}31m"), ("evil\u{202e}vom.exe", "evil\\u{202e}vom.exe"), ("a\u{2028}b", "a\\u{2028}b"),
    ("a\\b", "a\\b"),
  ])
  func line_isVisible(text: String, expected: String) { #expect(VisibleText.line(text) == expected) }

  @Test func longLine_isCut() {
    let line = VisibleText.line(String(repeating: "x", count: 50_000))
    #expect(line.unicodeScalars.count == VisibleText.scalarsMax + 1 && line.hasSuffix("…"))
  }

  /// Regression: a name or a server's word with a line break forged a line of the log.
  @Test(.promises("SE13")) func event_isOneVisibleLine() {
    let kept = Kept()
    var logger = Logger(label: "test") { _ in EscapingLogHandler(KeepingHandler(kept: kept)) }
    logger.logLevel = .info
    logger[metadataKey: "spool"] = "/s\n"
    logger.error(
      "not delivered: \("no\nroom")",
      metadata: ["path": "a\n2026-01-01 info delivered", "all": ["x\u{1b}", .dictionary(["k": "\u{7f}"])]])
    logger.debug("nothing")
    kept.lines.withLock { lines in
      #expect(lines.count == 1 && lines.first?.contains("\n") == false && lines.first?.contains("\u{1b}") == false)
      #expect(lines.first?.hasPrefix("not delivered: no\\nroom") == true, "\(lines)")
    }
  }
}
