/// Byte strings of which it is remembered that they were put in, in a fixed number of bits (B. H. Bloom, “Space/Time Trade-offs in Hash
/// Coding with Allowable Errors”, 1970): one that was put in is always found, and of others a few are found as well, more of them
/// the fuller it is.
public struct BloomFilter: Sendable {
  private static let probes: UInt64 = 4

  private var words: [UInt64]
  private let mask: UInt64

  /// An empty one of so many bits, rounded up to a power of two; 20 bits for each string find one of some 1,000 others.
  public init(bitCount: Int) {
    let wordCount = max(1, (bitCount + 63) / 64)
    let rounded = wordCount == 1 ? 1 : 1 << (Int.bitWidth - (wordCount - 1).leadingZeroBitCount)
    words = Array(repeating: 0, count: rounded)
    mask = UInt64(rounded) * 64 - 1
  }

  /// Puts it in. False where it may have been in before.
  @discardableResult
  public mutating func insert(_ bytes: [UInt8]) -> Bool {
    var isNew = false
    let (first, step) = Self.hash(bytes)
    for probe in 0..<Self.probes {
      let bit = (first &+ probe &* step) & mask
      let (word, flag) = (Int(bit >> 6), 1 << (bit & 63) as UInt64)
      if words[word] & flag == 0 { isNew = true }
      words[word] |= flag
    }
    return isNew
  }

  /// False of what is not in it for certain.
  public func mayContain(_ bytes: [UInt8]) -> Bool {
    let (first, step) = Self.hash(bytes)
    return (0..<Self.probes).allSatisfy { probe in
      let bit = (first &+ probe &* step) & mask
      return words[Int(bit >> 6)] & (1 << (bit & 63)) != 0
    }
  }

  /// Two halves of one hash give all probes (A. Kirsch, M. Mitzenmacher, “Less Hashing, Same Performance”, 2006). FNV-1a, whose high bits
  /// depend little on the last bytes, and a finaliser (that of SplitMix64); the same in every process.
  private static func hash(_ bytes: [UInt8]) -> (first: UInt64, step: UInt64) {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    hash = (hash ^ hash >> 30) &* 0xbf58_476d_1ce4_e5b9
    hash = (hash ^ hash >> 27) &* 0x94d0_49bb_1331_11eb
    hash ^= hash >> 31
    return (hash, hash >> 32 | 1)
  }
}
