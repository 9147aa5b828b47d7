/// A SHA-256 digest as a value without an allocation: a large file has hundreds of thousands.
public struct Digest32: Hashable, Sendable, CustomStringConvertible {
  /// The number of bytes.
  public static let byteCount = 32

  /// The bytes in their order in memory, whatever the machine's byte order is.
  private var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

  /// The digest of exactly 32 bytes; nil for any other count.
  public init?(_ bytes: some Collection<UInt8>) {
    guard bytes.count == Digest32.byteCount else { return nil }
    withUnsafeMutableBytes(of: &words) { $0.copyBytes(from: bytes) }
  }

  /// The digest of exactly 64 hexadecimal digits in either case; nil for any other text.
  public init?(hex text: String) {
    guard let bytes = Hex.decode(text) else { return nil }
    self.init(bytes)
  }

  /// The digest that `write` puts into 32 bytes.
  init(writing write: (UnsafeMutablePointer<UInt8>) -> Void) {
    withUnsafeMutableBytes(of: &words) { memory in
      if let start = memory.baseAddress { write(start.assumingMemoryBound(to: UInt8.self)) }
    }
  }

  /// The 32 bytes.
  public var bytes: [UInt8] { withUnsafeBytes { Array($0) } }

  /// 64 lower-case hexadecimal digits.
  public var description: String { Hex.encode(self) }

  /// Lends the 32 bytes for the duration of the call.
  public func withUnsafeBytes<Result, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try Swift.withUnsafeBytes(of: words, body)
  }

  /// Whether all 32 bytes are the same.
  public static func == (left: Digest32, right: Digest32) -> Bool { left.words == right.words }

  /// Feeds the words to the hasher.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(words.0)
    hasher.combine(words.1)
    hasher.combine(words.2)
    hasher.combine(words.3)
  }
}
