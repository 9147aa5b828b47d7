/// Times as text, as rclone and s3fs keep them with what they upload.
enum DecimalTime {
  /// Seconds since 1970 with nine decimals.
  static func seconds(ofNanoseconds nanoseconds: Int64) -> String {
    let (seconds, rest) = nanoseconds.magnitude.quotientAndRemainder(dividingBy: 1_000_000_000)
    let decimals = String(rest)
    return (nanoseconds < 0 ? "-" : "") + "\(seconds)."
      + String(repeating: "0", count: 9 - decimals.utf8.count) + decimals
  }
}
