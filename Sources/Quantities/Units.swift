/// Reads and writes numbers with units: `4MiB`, `205 MB`, `90s`.
public enum Units {
  private static let byteUnits: [(name: String, bytes: UInt64)] = [
    ("", 1), ("b", 1),
    ("kb", 1_000), ("mb", 1_000_000), ("gb", 1_000_000_000), ("tb", 1_000_000_000_000),
    ("kib", 1 << 10), ("mib", 1 << 20), ("gib", 1 << 30), ("tib", 1 << 40),
  ]

  private static let durationUnits: [(name: String, milliseconds: UInt64)] = [
    ("", 1_000), ("ms", 1), ("s", 1_000), ("m", 60_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000),
  ]

  /// Bytes; KB, MB, GB are powers of 1000, KiB, MiB, GiB powers of 1024, a bare number is bytes. Nil for anything else
  /// and for what does not fit.
  public static func bytes(_ text: String) -> UInt64? {
    scaled(text, by: byteUnits.map { ($0.name, $0.bytes) })
  }

  /// Bytes in a second, of `20Mbit/s` (kbit, Mbit and Gbit are powers of 1000) or of bytes as above, `2.5MB/s`. Nil for anything else: of a
  /// number without “/s”, or with a small b, it is not known what is meant.
  public static func bytesPerSecond(_ text: String) -> UInt64? {
    let text = text.filter { $0 != " " }
    guard text.lowercased().hasSuffix("/s") else { return nil }
    let amount = String(text.dropLast(2))
    let bits = [("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)] as [(String, UInt64)]
    if let bits = scaled(amount, by: bits) { return bits / 8 }
    return amount.last == "B" ? bytes(amount) : nil
  }

  /// A duration; ms, s, m, h, d, a bare number is seconds. Nil for anything else and for more than 100 years.
  public static func duration(_ text: String) -> Duration? {
    guard let milliseconds = scaled(text, by: durationUnits.map { ($0.name, $0.milliseconds) }),
      milliseconds <= 100 * 366 * 86_400_000
    else { return nil }
    return .milliseconds(Int64(milliseconds))
  }

  /// The shortest exact spelling of a byte count, for messages.
  public static func text(bytes: UInt64) -> String {
    let exact = byteUnits.filter { $0.bytes > 1 && bytes > 0 && bytes.isMultiple(of: $0.bytes) }
    guard let unit = exact.max(by: { $0.bytes < $1.bytes }) else { return "\(bytes) B" }
    let names = [
      "kb": "KB", "mb": "MB", "gb": "GB", "tb": "TB", "kib": "KiB", "mib": "MiB", "gib": "GiB", "tib": "TiB",
    ]
    return "\(bytes / unit.bytes) \(names[unit.name] ?? unit.name)"
  }

  /// The shortest exact spelling of a duration, as it can be given; whole milliseconds.
  public static func text(_ duration: Duration) -> String {
    let (seconds, attoseconds) = duration.components
    let milliseconds = UInt64(clamping: seconds) * 1000 + UInt64(clamping: attoseconds / 1_000_000_000_000_000)
    let names = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] as [(String, UInt64)]
    let unit = names.first { milliseconds > 0 && milliseconds.isMultiple(of: $0.1) } ?? ("ms", 1)
    return "\(milliseconds / unit.1)\(unit.0)"
  }

  /// `12`, `1.5` or `1_000` followed by a unit in any case; at most six decimals. Exact integer arithmetic, because a
  /// limit that is off by one rounding is a limit that was never set.
  private static func scaled(_ text: String, by units: [(String, UInt64)]) -> UInt64? {
    let text = text.filter { $0 != " " && $0 != "_" }
    let number = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
    let unitName = text.dropFirst(number.count).lowercased()
    guard let unit = units.first(where: { $0.0 == unitName })?.1 else { return nil }
    let parts = number.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count <= 2, let whole = UInt64(parts[0]) else { return nil }
    let (product, overflow) = whole.multipliedReportingOverflow(by: unit)
    guard !overflow else { return nil }
    guard parts.count == 2 else { return product }
    guard (1...6).contains(parts[1].count), let decimals = UInt64(parts[1]) else { return nil }
    let scale = (0..<parts[1].count).reduce(UInt64(1)) { power, _ in power * 10 }
    let (part, partOverflow) = decimals.multipliedReportingOverflow(by: unit)
    let (sum, sumOverflow) = product.addingReportingOverflow(part / scale)
    return partOverflow || sumOverflow ? nil : sum
  }
}
