/// A SHA-256 digest as a value without an allocation: a session of a large file holds hundreds of thousands.
public struct Digest32: Hashable, Sendable {
  private var words: (UInt64, UInt64, UInt64, UInt64)

  /// The digest of exactly 32 bytes; nil for any other count.
  public init?(_ bytes: some Collection<UInt8>) {
    guard bytes.count == 32 else { return nil }
    var iterator = bytes.makeIterator()
    func next() -> UInt64 {
      var word: UInt64 = 0
      for _ in 0..<8 { word = word << 8 | UInt64(iterator.next() ?? 0) }
      return word
    }
    words = (next(), next(), next(), next())
  }

  /// The 32 bytes.
  public var bytes: [UInt8] {
    var output: [UInt8] = []
    output.reserveCapacity(32)
    for word in [words.0, words.1, words.2, words.3] {
      withUnsafeBytes(of: word.bigEndian) { output.append(contentsOf: $0) }
    }
    return output
  }

  /// Whether all 32 bytes are the same.
  public static func == (left: Digest32, right: Digest32) -> Bool {
    left.words == right.words
  }

  /// Feeds the words to the hasher.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(words.0)
    hasher.combine(words.1)
    hasher.combine(words.2)
    hasher.combine(words.3)
  }
}
