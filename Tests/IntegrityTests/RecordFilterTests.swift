import Integrity
import Promises
import SeededRandom
import Testing

@Suite struct RecordFilterTests {
  private static func applied(_ filter: RecordFilter, _ plain: [UInt8]) -> [UInt8] {
    var bytes = plain
    var scratch = [UInt8](repeating: 0xEE, count: min(plain.count, RecordFilter.blockBytes))
    bytes.withUnsafeMutableBytes { bytes in scratch.withUnsafeMutableBytes { filter.apply(to: bytes, scratch: $0) } }
    return bytes
  }

  private static func undone(_ filter: RecordFilter, _ plain: [UInt8]) -> [UInt8] {
    var bytes = plain
    var scratch = [UInt8](repeating: 0xEE, count: min(plain.count, RecordFilter.blockBytes))
    bytes.withUnsafeMutableBytes { bytes in scratch.withUnsafeMutableBytes { filter.undo(in: bytes, scratch: $0) } }
    return bytes
  }

  private static func filter(_ stride: Int, _ difference: Int = 0) throws -> RecordFilter {
    try #require(RecordFilter(stride: stride, difference: difference))
  }

  /// The filter word for word as docs/protocol.md has it, without any of its haste.
  private static func described(_ filter: RecordFilter, _ plain: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    for start in Swift.stride(from: 0, to: plain.count, by: 262_144) {
      let block = Array(plain[start..<min(plain.count, start + 262_144)])
      let count = block.count / filter.stride
      var records = (0..<count).map { Array(block[($0 * filter.stride)..<(($0 + 1) * filter.stride)]) }
      for record in records.indices.dropFirst().reversed() where filter.difference > 0 {
        for word in 0..<(filter.stride / filter.difference) {
          var borrow = 0
          for byte in (word * filter.difference)..<((word + 1) * filter.difference) {
            let value = Int(records[record][byte]) - Int(records[record - 1][byte]) - borrow
            borrow = value < 0 ? 1 : 0
            records[record][byte] = UInt8(truncatingIfNeeded: value)
          }
        }
      }
      for byte in 0..<filter.stride { result += records.map { $0[byte] } }
      result += block[(count * filter.stride)...]
    }
    return result
  }

  @Test(.promises("P115")) func theExampleOfTheDocument() throws {
    let plain = (0..<14).map { UInt8($0 * $0) }
    let expected: [UInt8] = [0, 16, 48, 1, 24, 56, 4, 32, 64, 9, 40, 72, 144, 169]
    #expect(Self.applied(try Self.filter(4, 2), plain) == expected)
    #expect(Self.undone(try Self.filter(4, 2), expected) == plain)
  }

  /// From the implementation in Tests/EndToEnd/test_filter_vectors.py; two blocks.
  @Test(
    .promises("P115"),
    arguments: [
      (2, 0, "0e4ffee8f25108060130d4dfa33bc7f9ec369597dcab4f2cac61829887db71e3"),
      (2, 2, "a0ecc201e4f31de3ed13758e287ee59d014d4e084bc76f41aa892e6e77c16e44"),
      (3, 1, "a84b9dd72758ab455b4dd591ac6491700d9cc3533c34061477a5d3a22072c846"),
      (12, 4, "80483a03cf37ac413516a0e76cbf869406037946d95791a43ba09bef0fefedb9"),
      (15, 4, "5c40f9777f4ab6f5c54932fbfc0ec70e544e40489846fdd18522e775f6e387e3"),
      (24, 8, "3e4a172acae5b200bfb084ac3c6ee60e68e27feb342df99e175f8eae628d7bb9"),
      (64, 8, "5f6d191f64f67f3ec36319eb92b14457092c8006c2ae1357b18dca1b16296f00"),
    ])
  func theVectorsOfTheDocument(stride: Int, difference: Int, digest: String) throws {
    let plain = (0..<300_000).map { UInt8(truncatingIfNeeded: ($0 * $0) >> 5) }
    let filtered = Self.applied(try Self.filter(stride, difference), plain)
    #expect(Hex.encode(sha256(filtered)) == digest)
    #expect(Self.undone(try Self.filter(stride, difference), filtered) == plain)
  }

  @Test(.promises("P115"), arguments: RecordFilter.strides)
  func whateverTheRecords_itIsWhatIsDescribedAndComesBack(stride: Int) throws {
    var random = SplitMix(seed: UInt64(stride))
    for difference in [0] + RecordFilter.wordLengths where difference <= stride {
      let filter = try Self.filter(stride, difference)
      for count in [0, 1, stride - 1, stride, stride + 1, 5 * stride + 3, 4096 + stride, 10_007] {
        let plain = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        let filtered = Self.applied(filter, plain)
        #expect(filtered == Self.described(filter, plain), "stride \(stride), difference \(difference), \(count) bytes")
        #expect(Self.undone(filter, filtered) == plain, "stride \(stride), difference \(difference), \(count) bytes")
      }
    }
  }

  @Test(.promises("P115"), arguments: [(12, 4), (15, 4), (2, 2), (7, 1), (64, 8), (3, 0)])
  func severalBlocks_areRearrangedEachForItself(stride: Int, difference: Int) throws {
    var random = SplitMix(seed: 1)
    let filter = try Self.filter(stride, difference)
    let plain = (0..<(2 * RecordFilter.blockBytes + 100)).map { _ in UInt8.random(in: 0...255, using: &random) }
    let filtered = Self.applied(filter, plain)
    #expect(filtered == Self.described(filter, plain))
    #expect(Self.undone(filter, filtered) == plain)
  }

  @Test func whatIsNoFilter_isNone() {
    for (stride, difference) in [(0, 0), (65, 0), (-1, 0), (4, 3), (4, 5), (4, 8), (8, -1), (1, 2), (64, 16)] {
      #expect(RecordFilter(stride: stride, difference: difference) == nil, "\(stride) \(difference)")
    }
    #expect(RecordFilter(stride: 1) == RecordFilter.none)
    #expect(Self.applied(.none, [1, 2, 3]) == [1, 2, 3])
  }
}
