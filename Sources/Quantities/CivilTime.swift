/// A day of the Gregorian calendar.
public struct CivilDate: Hashable, Sendable {
  /// Years before 1 count down from 0.
  public let year: Int64
  /// From 1.
  public let month: Int64
  /// From 1.
  public let day: Int64

  /// As HTTP and OpenSSL write months; the first one is January.
  public static let monthNames = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]
  /// As HTTP writes days of the week.
  public static let weekdayNames = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]

  /// 0000-03-01 is so many days before 1970-01-01.
  private static let daysBefore1970: Int64 = 719_468

  /// A date by its numbers.
  public init(year: Int64, month: Int64, day: Int64) {
    self.year = year
    self.month = month
    self.day = day
  }

  /// The date of a day. Years are taken to start in March, so that the leap day is the last of its year; 400 such years always have
  /// 146,097 days.
  public init(daysSince1970 days: Int64) {
    let (era, dayOfEra) = floorDivide(days + Self.daysBefore1970, by: 146_097)
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
  }

  /// Of a day that the month does not have, the one as many days after its last.
  public var daysSince1970: Int64 {
    let (era, yearOfEra) = floorDivide(month > 2 ? year : year - 1, by: 400)
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - Self.daysBefore1970
  }

  /// 0 for a Sunday.
  public var weekday: Int { Int(floorDivide(daysSince1970 + 4, by: 7).remainder) }
}

/// A day and the time of day, in UTC.
public struct CivilTime: Hashable, Sendable {
  /// The day.
  public let date: CivilDate
  /// From 0.
  public let hour: Int64
  /// From 0.
  public let minute: Int64
  /// From 0; 60 for a leap second.
  public let second: Int64

  /// A time by its numbers.
  public init(_ date: CivilDate, hour: Int64, minute: Int64, second: Int64) {
    self.date = date
    self.hour = hour
    self.minute = minute
    self.second = second
  }

  /// The day and time of a second.
  public init(secondsSince1970 seconds: Int64) {
    let (days, inDay) = floorDivide(seconds, by: 86_400)
    self.init(
      CivilDate(daysSince1970: days), hour: inDay / 3600, minute: inDay / 60 % 60, second: inDay % 60)
  }

  /// A leap second is the one that follows it.
  public var secondsSince1970: Int64 { date.daysSince1970 * 86_400 + hour * 3600 + minute * 60 + second }

  /// At least so many digits.
  package static func padded(_ number: Int64, _ width: Int) -> String {
    let digits = "\(number)"
    return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
  }
}

/// Rounds down, and so leaves no negative remainder.
func floorDivide(_ value: Int64, by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
  let (quotient, remainder) = value.quotientAndRemainder(dividingBy: divisor)
  return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
}
