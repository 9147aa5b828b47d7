/// Numbers in header fields and paths: decimal digits and nothing else, no sign, no leading zero, so that one number
/// has one text.
public enum DecimalText {
  /// The number; nil for anything else, also for one that does not fit.
  public static func unsigned<Number: FixedWidthInteger & UnsignedInteger>(
    _ text: some StringProtocol, as type: Number.Type = UInt64.self
  ) -> Number? {
    let digits = text.utf8
    guard let first = digits.first, digits.count <= 20, digits.allSatisfy({ (0x30...0x39).contains($0) }),
      digits.count == 1 || first != UInt8(ascii: "0")
    else { return nil }
    return Number(text)
  }

  /// The number, which may have a minus sign; nil for anything else.
  public static func signed(_ text: some StringProtocol) -> Int64? {
    let digits = text.utf8.first == UInt8(ascii: "-") ? text.dropFirst() : text[...]
    guard unsigned(digits) != nil else { return nil }
    return Int64(text)
  }
}
