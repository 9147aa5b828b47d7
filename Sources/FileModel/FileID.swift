/// The identity of one captured file: 128 bits that belong to the inode, not to a name, and that no other file ever gets.
///
/// Names change (a tool writes `scan.part` and renames it), two names can share one inode, and a path can be reused by
/// another file; uploads, resume records and the catalog are therefore keyed by this.
public struct FileID: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The first 64 bits.
  public let high: UInt64
  /// The last 64 bits.
  public let low: UInt64

  /// An identity from its two halves, as read from the catalog or made by ``ordered(atNanosecondsSince1970:using:)``.
  public init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// A new identity. The generator comes from outside so that a simulation is reproducible.
  public static func random(using generator: inout some RandomNumberGenerator) -> FileID {
    FileID(high: generator.next(), low: generator.next())
  }

  /// A new identity that sorts by the time at which it was made: what is keyed by it then lies together on the disk for
  /// files that were written one after the other, and a database touches a few pages where random keys would touch one
  /// for each file. 64 random bits keep apart what the clock does not.
  public static func ordered(
    atNanosecondsSince1970 time: Int64, using generator: inout some RandomNumberGenerator
  ) -> FileID {
    FileID(high: UInt64(bitPattern: time), low: generator.next())
  }

  /// When it was made, by the clock of then, nanoseconds since 1970.
  public var madeAtNanoseconds: Int64 { Int64(bitPattern: high) }

  /// The order of the numbers, which is that of ``description``.
  public static func < (left: FileID, right: FileID) -> Bool { (left.high, left.low) < (right.high, right.low) }

  /// 32 lower-case hexadecimal digits.
  public var description: String {
    String(decoding: withUnsafeBytes(of: (high.bigEndian, low.bigEndian)) { HexDigits.of($0) }, as: UTF8.self)
  }

  /// Reads what ``description`` wrote; nil for anything else.
  public init?(_ text: String) {
    guard text.utf8.count == 32, let bytes = HexDigits.bytes(text.utf8) else { return nil }
    let (high, low) = (Self.word(bytes.prefix(8)), Self.word(bytes.suffix(8)))
    self.init(high: high, low: low)
  }

  private static func word(_ bytes: some Collection<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
}
