/// Times for people and programs alike (RFC 3339), as `2026-02-28T23:59:59.999Z`.
public enum Timestamp {
  private static let yearZero: Int64 = -62_167_219_200_000
  private static let endOfYear9999: Int64 = 253_402_300_799_999

  /// With milliseconds, in UTC. Times outside of the years 0 to 9999, which the format does not have, are shown as the nearest one that
  /// it has.
  public static func text(millisecondsSince1970 milliseconds: Int64) -> String {
    let (seconds, rest) = floorDivide(min(max(milliseconds, yearZero), endOfYear9999), by: 1000)
    let time = CivilTime(secondsSince1970: seconds)
    let clock = [time.hour, time.minute, time.second].map { CivilTime.padded($0, 2) }.joined(separator: ":")
    return "\(text(time.date))T\(clock).\(CivilTime.padded(rest, 3))Z"
  }

  /// `2026-02-28`.
  public static func text(_ date: CivilDate) -> String {
    "\(CivilTime.padded(date.year, 4))-\(CivilTime.padded(date.month, 2))-\(CivilTime.padded(date.day, 2))"
  }

  /// Whole seconds since 1970 of a time as others write it, `2026-11-22T01:02:03Z`, `…03.456Z` or `…03+01:00`; nil for anything else.
  public static func seconds(_ text: String) -> Int64? {
    let bytes = Array(text.utf8)
    let marks: [(Int, Character)] = [(4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":")]
    guard bytes.count >= 20, marks.allSatisfy({ bytes[$0.0] == $0.1.asciiValue }),
      let year = number(bytes[0..<4]), let month = number(bytes[5..<7]), let day = number(bytes[8..<10]),
      let hour = number(bytes[11..<13]), let minute = number(bytes[14..<16]), let second = number(bytes[17..<19]),
      (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60, second <= 60
    else { return nil }
    var rest = bytes[19...]
    if rest.first == UInt8(ascii: ".") { rest = rest.dropFirst().drop { (0x30...0x39).contains($0) } }
    guard let offset = offset(rest) else { return nil }
    let date = CivilDate(year: year, month: month, day: day)
    return CivilTime(date, hour: hour, minute: minute, second: second).secondsSince1970 - offset
  }

  private static func offset(_ text: ArraySlice<UInt8>) -> Int64? {
    guard text.count != 1 else { return text.first == UInt8(ascii: "Z") ? 0 : nil }
    let bytes = Array(text)
    guard bytes.count == 6, bytes[3] == UInt8(ascii: ":"), let hours = number(bytes[1..<3]),
      let minutes = number(bytes[4..<6]), hours < 24, minutes < 60
    else { return nil }
    switch bytes[0] {
    case UInt8(ascii: "+"): return hours * 3600 + minutes * 60
    case UInt8(ascii: "-"): return -(hours * 3600 + minutes * 60)
    default: return nil
    }
  }

  private static func number(_ digits: ArraySlice<UInt8>) -> Int64? {
    guard digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return digits.reduce(0) { $0 * 10 + Int64($1 - 0x30) }
  }
}
