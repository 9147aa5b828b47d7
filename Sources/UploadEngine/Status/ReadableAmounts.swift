import LogText
/// Amounts as people read them.
package enum Readable {
  /// `1.5 GB`: powers of 1000, one decimal from KB on.
  package static func bytes(_ count: UInt64) -> String {
    guard count >= 1000 else { return "\(count) B" }
    var scaled = Double(count)
    var unit = "B"
    for next in ["KB", "MB", "GB", "TB", "PB"] where scaled >= 1000 {
      scaled /= 1000
      unit = next
    }
    return "\(tenths(scaled)) \(unit)"
  }

  /// `12.3 MB/s`.
  package static func rate(_ bytesPerSecond: Double) -> String {
    guard bytesPerSecond.isFinite, bytesPerSecond >= 0, bytesPerSecond < 1e18 else { return "?" }
    return "\(bytes(UInt64(bytesPerSecond)))/s"
  }

  /// `45 s`, `3 min`, `2.5 h`.
  package static func seconds(_ seconds: Double) -> String {
    guard seconds.isFinite, seconds >= 0 else { return "?" }
    if seconds < 90 { return "\(Int(seconds.rounded(.up))) s" }
    if seconds < 5400 { return "\(Int((seconds / 60).rounded())) min" }
    return "\(tenths(seconds / 3600)) h"
  }

  /// `1 file`, `3 files`.
  package static func count(_ count: Int, _ noun: String) -> String {
    "\(count) \(noun)\(count == 1 ? "" : "s")"
  }

  /// Text for a terminal: a file name may hold anything, an escape sequence included.
  package static func line(_ text: String) -> String { VisibleText.line(text) }

  private static func tenths(_ number: Double) -> String {
    let tenths = Int((number * 10).rounded())
    return "\(tenths / 10).\(tenths % 10)"
  }
}
