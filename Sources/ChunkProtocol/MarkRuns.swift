/// How many marks that stand on letters follow one another in a text.
///
/// To compare or to look up a text, Swift sorts each run of them, in a time that grows with the square of its length: a second for 60 KB, also
/// beside a word of six letters. Unicode's stream-safe texts have at most 30 (UAX #15); text that another program may have made to
/// cost time is bounded by this before it is compared with anything.
public enum MarkRuns {
  /// More than any language has, and so few that they cost nothing.
  public static let max = 256

  /// No run is longer.
  public static func areBounded(in text: String) -> Bool {
    var run = 0
    // Marks begin with U+0300.
    return text.utf8.allSatisfy { $0 < 0xcc }
      || text.unicodeScalars.allSatisfy { scalar in
        run = isMark(scalar) ? run + 1 : 0
        return run <= max
      }
  }

  /// Likewise of all texts of a JSON document in UTF-8, in which marks may be written as escapes.
  static func areBounded(inJSON bytes: [UInt8]) -> Bool {
    var run = 0
    var rest = bytes[...]
    var decoder = Unicode.UTF8.ForwardParser()
    while let first = rest.first {
      var scalar: Unicode.Scalar? = Unicode.Scalar(first)
      if first == UInt8(ascii: "\\") {
        let escaped = escapedScalar(at: rest)
        scalar = escaped.scalar
        rest = rest.dropFirst(escaped.length)
      } else if first < 0x80 {
        rest = rest.dropFirst()
      } else {
        var iterator = rest.makeIterator()
        guard case .valid(let encoded) = decoder.parseScalar(from: &iterator) else { return false }
        scalar = Unicode.UTF8.decode(encoded)
        rest = rest.dropFirst(encoded.count)
        decoder = Unicode.UTF8.ForwardParser()
      }
      run = scalar.map(isMark) == true ? run + 1 : 0
      guard run <= max else { return false }
    }
    return true
  }

  /// What is written as `\uXXXX`, beyond U+FFFF as two of them (RFC 8259, section 7); nil of half of such a pair, and of other escapes.
  private static func escapedScalar(at rest: ArraySlice<UInt8>) -> (scalar: Unicode.Scalar?, length: Int) {
    guard let unit = escapedUnit(at: rest) else { return (nil, 2) }
    guard UTF16.isLeadSurrogate(unit), let trail = escapedUnit(at: rest.dropFirst(6)), UTF16.isTrailSurrogate(trail)
    else { return (Unicode.Scalar(unit), 6) }
    return (Unicode.Scalar(0x10000 + (UInt32(unit) - 0xd800) << 10 + (UInt32(trail) - 0xdc00)), 12)
  }

  private static func escapedUnit(at rest: ArraySlice<UInt8>) -> UInt16? {
    let escape = rest.prefix(6)
    guard escape.count == 6, escape.starts(with: #"\u"#.utf8) else { return nil }
    return UInt16(String(decoding: escape.dropFirst(2), as: UTF8.self), radix: 16)
  }

  private static func isMark(_ scalar: Unicode.Scalar) -> Bool {
    scalar.value >= 0x300 && scalar.properties.canonicalCombiningClass != .notReordered
  }
}
