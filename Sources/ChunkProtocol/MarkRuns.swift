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
        let escape = rest.prefix(6)
        let digits = escape.dropFirst(2).map { Character(Unicode.Scalar($0)) }
        let unit =
          escape.count == 6 && escape.dropFirst().first == UInt8(ascii: "u") ? UInt32(String(digits), radix: 16) : nil
        scalar = unit.flatMap(Unicode.Scalar.init)
        rest = rest.dropFirst(unit == nil ? 2 : 6)
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

  private static func isMark(_ scalar: Unicode.Scalar) -> Bool {
    scalar.value >= 0x300 && scalar.properties.canonicalCombiningClass != .notReordered
  }
}
