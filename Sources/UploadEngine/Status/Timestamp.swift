/// Times for people and programs alike (RFC 3339).
package enum Timestamp {
  private static let yearZero: Int64 = -62_167_219_200_000
  private static let endOfYear9999: Int64 = 253_402_300_799_999

  /// `2026-02-28T23:59:59.999Z`. Times outside of the years 0 to 9999, which the format does not have, are shown as the
  /// nearest one that it has.
  package static func text(millisecondsSince1970 milliseconds: Int64) -> String {
    let time = min(max(milliseconds, yearZero), endOfYear9999)
    let (days, inDay) = floorDivide(time, by: 86_400_000)
    let date = civilDate(daysSince1970: days)
    let clock = [inDay / 3_600_000, inDay / 60_000 % 60, inDay / 1000 % 60].map { padded($0, 2) }.joined(separator: ":")
    return
      "\(padded(date.year, 4))-\(padded(date.month, 2))-\(padded(date.day, 2))T\(clock).\(padded(inDay % 1000, 3))Z"
  }

  /// The Gregorian date of a day. Years are taken to start in March, so that the leap day is the last of its year; 400
  /// such years always have 146,097 days.
  private static func civilDate(daysSince1970 days: Int64) -> (year: Int64, month: Int64, day: Int64) {
    // 0000-03-01 is 719,468 days before 1970-01-01.
    let (era, dayOfEra) = floorDivide(days + 719_468, by: 146_097)
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    return (year, month, dayOfYear - (153 * monthFromMarch + 2) / 5 + 1)
  }

  private static func floorDivide(_ value: Int64, by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
    let (quotient, remainder) = value.quotientAndRemainder(dividingBy: divisor)
    return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
  }

  private static func padded(_ number: Int64, _ width: Int) -> String {
    let digits = "\(number)"
    return String(repeating: "0", count: max(0, width - digits.count)) + digits
  }
}
