import Integrity
public import Lookup

/// The chunks of one session. Those that are zeros are kept as ranges, so that a file of holes costs the receiver no more than the client
/// has sent of it.
public struct ChunkTable: Hashable, Sendable {
  /// Those that came with their bytes.
  public private(set) var written: LookupTable<UInt32, ChunkChecksums> = [:]
  /// Those that came as zeros, each of the session's chunk size.
  public private(set) var zeros = IndexRanges()
  private var zero: ChunkChecksums?

  /// None.
  public init() {}

  /// How many there are.
  public var count: Int { written.count + zeros.count }

  /// There is none.
  public var isEmpty: Bool { written.isEmpty && zeros.isEmpty }

  /// What is known of a chunk; nil where there is none.
  public subscript(index: UInt32) -> ChunkChecksums? { written[index] ?? (zeros.contains(index) ? zero : nil) }

  /// The indices.
  public var keys: IndexRanges {
    var keys = IndexRanges(ascending: written.keys.sorted())
    for range in zeros.ranges { keys.insert(range) }
    return keys
  }

  /// All of them, lowest index first.
  public func sorted() -> [(key: UInt32, value: ChunkChecksums)] {
    keys.sorted().compactMap { index in self[index].map { (key: index, value: $0) } }
  }

  /// Puts a chunk in, in the place of one that is there.
  public mutating func insert(_ chunk: ChunkChecksums, at index: UInt32) {
    zeros.remove(index..<(index + 1))
    written[index] = chunk
  }

  /// Puts chunks of zeros in, in the place of those that are there.
  public mutating func insertZeros(_ range: Range<UInt32>, of zero: ChunkChecksums) {
    for index in writtenIndices(in: range) { written[index] = nil }
    zeros.insert(range)
    self.zero = zero
  }

  /// Takes a chunk out and returns what was known of it.
  @discardableResult
  public mutating func removeValue(forKey index: UInt32) -> ChunkChecksums? {
    let chunk = self[index]
    written[index] = nil
    zeros.remove(index..<(index + 1))
    return chunk
  }

  /// Takes chunks of zeros out.
  public mutating func removeZeros(_ range: Range<UInt32>) { zeros.remove(range) }

  /// Which chunks of a range came with their bytes.
  public func writtenIndices(in range: Range<UInt32>) -> [UInt32] {
    if range.count <= written.count { return range.filter { written[$0] != nil } }
    return written.keys.filter { range.contains($0) }.sorted()
  }

  /// Those that the other one has with the same bytes.
  public func intersection(_ other: ChunkTable) -> ChunkTable {
    var both = ChunkTable()
    both.written = written.filter { other.written[$0] == $1 }
    both.zeros = zeros.intersection(other.zeros)
    both.zero = zero
    return both
  }
}

extension ChunkTable: ExpressibleByDictionaryLiteral {
  /// The chunks of these pairs.
  public init(dictionaryLiteral elements: (UInt32, ChunkChecksums)...) {
    for (index, chunk) in elements { insert(chunk, at: index) }
  }
}

extension ChunkChecksums {
  /// The checksums of so many zeros.
  public static func zeros(_ byteCount: Int) -> ChunkChecksums {
    let zeros = ZeroChunk(byteCount: byteCount)
    return ChunkChecksums(sha256: zeros.sha256, crc32c: zeros.crc32c, sizeBytes: UInt32(clamping: byteCount))
  }
}
