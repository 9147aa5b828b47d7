import FileModel
import Quantities
import TransferModel

extension SettingReader {
  /// The shortest chunk (256 KiB) takes a minute then.
  static let bytesPerSecondMin: UInt64 = 4_000

  /// What all uploads together may send, by the time of day: a rate, and windows with one each.
  func timetable(_ setting: Setting) throws(ConfigurationError) -> RateTimetable {
    var timetable = RateTimetable()
    var isGiven = false
    try list(setting) { text throws(FileRuleProblem) in
      let words = text.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: true)
      guard words.count == 2, let window = Self.window(words[0]) else {
        guard !isGiven else { throw FileRuleProblem("“\(text)”: there is one rate already that holds all day") }
        isGiven = true
        return timetable.bytesPerSecond = try Self.rate(text, in: text)
      }
      let rate = try Self.rate(String(words[1]), in: text)
      timetable.windows.append(.init(startMinute: window.start, endMinute: window.end, bytesPerSecond: rate))
    }
    return timetable
  }

  private static func rate(_ text: String, in whole: String) throws(FileRuleProblem) -> UInt64? {
    if text.lowercased() == "none" { return nil }
    guard let rate = Units.bytesPerSecond(text) else {
      throw FileRuleProblem(
        "“\(whole)” is no rate; use one such as 20Mbit/s, 2.5MB/s or none, and before it, for a part of the day, 08:00-18:00"
      )
    }
    guard rate >= bytesPerSecondMin else {
      throw FileRuleProblem("“\(whole)” is too slow for uploads; the least is \(bytesPerSecondMin * 8 / 1000)kbit/s")
    }
    return rate
  }

  /// The minutes of `08:00-18:00`; nil where it is none.
  private static func window(_ text: Substring) -> (start: Int, end: Int)? {
    let ends = text.split(separator: "-", omittingEmptySubsequences: false).map(minute)
    guard ends.count == 2, let start = ends[0], let end = ends[1], start != end else { return nil }
    return (start, end)
  }

  private static func minute(_ text: Substring) -> Int? {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 2, parts.allSatisfy({ (1...2).contains($0.utf8.count) }),
      let hour = UInt8(parts[0]), let minute = UInt8(parts[1]), hour < 24 && minute < 60 || hour == 24 && minute == 0
    else { return nil }
    return Int(hour) * 60 + Int(minute)
  }
}
