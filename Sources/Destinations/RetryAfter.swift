import UploadEngine

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

/// Dates of HTTP, as `Sun, 06 Nov 1994 08:49:37 GMT`; the two obsolete forms are not read.
public enum HTTPDate {
  /// Seconds since 1970; nil for anything else.
  public static func seconds(_ text: String) -> Int64? {
    let parts = text.split(separator: " ", omittingEmptySubsequences: false)
    guard parts.count == 6, parts[5] == "GMT", parts[0].utf8.count == 4, parts[0].hasSuffix(","),
      let day = number(parts[1], digits: 2), let month = months.firstIndex(of: String(parts[2])),
      let year = number(parts[3], digits: 4), (1...31).contains(day)
    else { return nil }
    let clock = parts[4].split(separator: ":", omittingEmptySubsequences: false)
    guard clock.count == 3, let hour = number(clock[0], digits: 2), let minute = number(clock[1], digits: 2),
      let second = number(clock[2], digits: 2), hour < 24, minute < 60, second <= 60
    else { return nil }
    return daysSince1970(year: year, month: Int64(month) + 1, day: day) * 86_400 + hour * 3600 + minute * 60 + second
  }

  private static let months = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  private static func number(_ text: Substring, digits: Int) -> Int64? {
    guard text.utf8.count == digits, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return Int64(text)
  }

  /// Gregorian calendar, counted in years that begin in March, so that the leap day comes last.
  static func daysSince1970(year: Int64, month: Int64, day: Int64) -> Int64 {
    let shifted = month > 2 ? year : year - 1
    let era = (shifted >= 0 ? shifted : shifted - 399) / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }
}
