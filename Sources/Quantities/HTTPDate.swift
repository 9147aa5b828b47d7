/// Dates of HTTP (RFC 9110, section 5.6.7), as `Sun, 06 Nov 1994 08:49:37 GMT`; the two obsolete forms are not read.
public enum HTTPDate {
  /// Seconds since 1970; nil for anything else.
  public static func seconds(_ text: String) -> Int64? {
    let parts = text.split(separator: " ", omittingEmptySubsequences: false)
    guard parts.count == 6, parts[5] == "GMT", parts[0].utf8.count == 4, parts[0].hasSuffix(","),
      let day = number(parts[1], digits: 2), let month = CivilDate.monthNames.firstIndex(of: String(parts[2])),
      let year = number(parts[3], digits: 4), (1...31).contains(day)
    else { return nil }
    let clock = parts[4].split(separator: ":", omittingEmptySubsequences: false)
    guard clock.count == 3, let hour = number(clock[0], digits: 2), let minute = number(clock[1], digits: 2),
      let second = number(clock[2], digits: 2), hour < 24, minute < 60, second <= 60
    else { return nil }
    let date = CivilDate(year: year, month: Int64(month) + 1, day: day)
    return CivilTime(date, hour: hour, minute: minute, second: second).secondsSince1970
  }

  /// The text of a second since 1970.
  public static func text(secondsSince1970 seconds: Int64) -> String {
    let time = CivilTime(secondsSince1970: seconds)
    let clock = [time.hour, time.minute, time.second].map { CivilTime.padded($0, 2) }.joined(separator: ":")
    let month = CivilDate.monthNames[Int(time.date.month) - 1]
    let date = "\(CivilTime.padded(time.date.day, 2)) \(month) \(CivilTime.padded(time.date.year, 4))"
    return "\(CivilDate.weekdayNames[time.date.weekday]), \(date) \(clock) GMT"
  }

  private static func number(_ text: Substring, digits: Int) -> Int64? {
    guard text.utf8.count == digits, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return Int64(text)
  }
}
