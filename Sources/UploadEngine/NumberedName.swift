/// Names with a number before the extension of their last component, as servers give them where a name is taken: `a-2.mov`.
package enum NumberedName {
  private static let slash = UInt8(ascii: "/")
  private static let dot = UInt8(ascii: ".")
  private static let dash = UInt8(ascii: "-")

  /// The name of which it would be the number; nil where it has none.
  package static func unnumbered(_ name: String) -> String? {
    let bytes = Array(name.utf8)
    let stem = stemEnd(of: bytes)
    let digits = bytes[..<stem].reversed().prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }.count
    let start = stem - digits
    guard (1...9).contains(digits), bytes[start] != UInt8(ascii: "0"), start > 0, bytes[start - 1] == dash else {
      return nil
    }
    return String(decoding: bytes[..<(start - 1)] + bytes[stem...], as: UTF8.self)
  }

  /// What the second file of a name is called.
  static func second(of name: String) -> String {
    let bytes = Array(name.utf8)
    let stem = stemEnd(of: bytes)
    return String(decoding: bytes[..<stem] + Array("-2".utf8) + bytes[stem...], as: UTF8.self)
  }

  /// Where the extension begins. A dot at the beginning is no extension's.
  private static func stemEnd(of bytes: [UInt8]) -> Int {
    let last = bytes[(bytes.lastIndex(of: slash).map { $0 + 1 } ?? 0)...]
    return last.lastIndex(of: dot).flatMap { end in last[..<end].contains { $0 != dot } ? end : nil } ?? bytes.endIndex
  }
}
