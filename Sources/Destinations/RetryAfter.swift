import Quantities
import TransferModel

/// The `Retry-After` field (RFC 9110, section 10.2.3).
enum RetryAfter {
  /// No server is believed to mean more than this.
  static let secondsMax: Int64 = 86_400

  /// How long the server wants to be left alone; nil when it does not say, or not understandably.
  ///
  /// A date is measured from the response's own `Date`, because the two clocks need not agree; where it has none, from when it came by
  /// this machine's clock.
  static func duration(of response: HTTPResponse) -> Duration? {
    guard let text = response.header("retry-after") else { return nil }
    if !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
      return .seconds(min(Int64(text) ?? secondsMax, secondsMax))
    }
    guard let then = HTTPDate.seconds(text),
      let now = response.header("date").flatMap(HTTPDate.seconds) ?? response.receivedAtSeconds
    else { return nil }
    return .seconds(min(max(0, then - now), secondsMax))
  }
}
