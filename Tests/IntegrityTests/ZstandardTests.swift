import Promises
import SeededRandom
import Testing

@testable import Integrity

@Suite struct ZstandardTests {
  /// The 16-bit numbers from 0 to 99, `stride=2;difference=2`: a raw block and two runs (docs/protocol.md).
  private static let frame: [UInt8] = [
    0x28, 0xB5, 0x2F, 0xFD, 0x20, 200, 0x08, 0, 0, 0, 0x1A, 0x03, 0, 1, 0x23, 0x03, 0, 0,
  ]
  private static let framed = [0] + [UInt8](repeating: 1, count: 99) + [UInt8](repeating: 0, count: 100)

  private static func compressed(_ plain: [UInt8], level: Int = 3, room: Int? = nil) throws -> [UInt8]? {
    let compressor = try #require(ZstandardCompressor())
    var output = [UInt8](repeating: 0, count: room ?? plain.count + 100)
    let count = plain.withUnsafeBytes { source in
      output.withUnsafeMutableBytes { compressor.compress(source, level: level, into: $0) }
    }
    return count.map { Array(output.prefix($0)) }
  }

  private static func plain(of frame: [UInt8], byteCount: Int, _ filter: RecordFilter = .none) -> [UInt8]? {
    var output = [UInt8](repeating: 0, count: byteCount)
    let isWhole = frame.withUnsafeBytes { source in
      output.withUnsafeMutableBytes { Zstandard.decompress(source, undoing: filter, into: $0) }
    }
    return isWhole ? output : nil
  }

  @Test(.promises("P114"), arguments: [-1, 1, 3, 6]) func whatWasCompressedComesBackAndIsShorter(level: Int) throws {
    for count in [1, 100, 5000, 100_000, 3 << 20] {
      let plain = (0..<count).map { UInt8($0 / 700 % 251) }
      let frame = try #require(try Self.compressed(plain, level: level))
      #expect(count < 1000 || frame.count < plain.count / 10)
      #expect(Self.plain(of: frame, byteCount: count) == plain, "\(count) bytes")
    }
  }

  @Test(.promises("P114", "P115")) func aFrameWrittenByHandIsDecoded() throws {
    #expect(Self.plain(of: Self.frame, byteCount: 200) == Self.framed)
    let filter = try #require(RecordFilter(stride: 2, difference: 2))
    #expect(Self.plain(of: Self.frame, byteCount: 200, filter) == [UInt8](0..<100).flatMap { [$0, 0] as [UInt8] })
  }

  @Test(.promises("P114")) func anotherLengthThanAnnouncedIsRefused() throws {
    let plain = [UInt8](repeating: 7, count: 5000)
    let frame = try #require(try Self.compressed(plain))
    for wrong in [0, 1, 4999, 5001, 1 << 20] { #expect(Self.plain(of: frame, byteCount: wrong) == nil, "\(wrong)") }
    #expect(Self.plain(of: frame, byteCount: 5000) == plain)
  }

  @Test(.promises("P114")) func aFrameThatNamesNoLengthHasToHaveTheAnnouncedOne() {
    // A window of 1 KiB and no content size, and a run.
    let frame: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD, 0, 0, 0x23, 0x03, 0, 9]
    #expect(Self.plain(of: frame, byteCount: 100) == [UInt8](repeating: 9, count: 100))
    #expect(Self.plain(of: frame, byteCount: 99) == nil)
    #expect(Self.plain(of: frame, byteCount: 101) == nil)
  }

  @Test(.promises("P116")) func aWindowBeyondTheBound_aDictionary_andOtherFrames_areRefused() {
    func withHeader(_ header: [UInt8]) -> [UInt8] { [0x28, 0xB5, 0x2F, 0xFD] + header + [0x23, 0x03, 0, 9] }
    let hundred = [UInt8](repeating: 9, count: 100)
    #expect(Self.plain(of: withHeader([0, 13 << 3]), byteCount: 100) == hundred, "8 MiB")
    #expect(Self.plain(of: withHeader([0, 13 << 3 | 1]), byteCount: 100) == nil, "9 MiB")
    #expect(Self.plain(of: withHeader([0, 0xFF]), byteCount: 100) == nil)
    #expect(Self.plain(of: withHeader([0x08, 0]), byteCount: 100) == nil, "the reserved bit")
    #expect(Self.plain(of: withHeader([0x01, 0, 0]), byteCount: 100) == nil, "a dictionary, if only number 0")
    let frame = withHeader([0x20, 100])
    #expect(Self.plain(of: frame, byteCount: 100) == hundred)
    #expect(Self.plain(of: frame + [0], byteCount: 100) == nil, "a byte behind it")
    let skippable: [UInt8] = [0x50, 0x2A, 0x4D, 0x18, 1, 0, 0, 0, 0]
    #expect(Self.plain(of: frame + skippable, byteCount: 100) == nil, "a skippable frame behind it")
    #expect(Self.plain(of: skippable + frame, byteCount: 100) == nil, "a skippable frame before it")
    #expect(Self.plain(of: frame + frame, byteCount: 200) == nil, "two frames")
    #expect(Self.plain(of: [], byteCount: 0) == nil)
  }

  /// Each block may cost a receiver two tables, whatever it brings.
  @Test(.promises("P116")) func moreBlocksThanTheBytesAreWorth_areRefused() {
    func frame(emptyBlocks: Int) -> [UInt8] {
      [0x28, 0xB5, 0x2F, 0xFD, 0x60, 0x00, 0x03] + [UInt8](repeating: 0, count: 3 * emptyBlocks) + [0x03, 0x20, 0, 9]
    }
    // 1024 bytes: two blocks for them, and eight.
    #expect(Self.plain(of: frame(emptyBlocks: 9), byteCount: 1024) == [UInt8](repeating: 9, count: 1024))
    #expect(Self.plain(of: frame(emptyBlocks: 10), byteCount: 1024) == nil)
  }

  @Test(.promises("P116")) func aDamagedFrameIsRefusedOrChangesTheBytes() throws {
    let plain = (0..<4096).map { UInt8($0 * $0 % 253) }
    let frame = try #require(try Self.compressed(plain))
    for position in frame.indices {
      var damaged = frame
      damaged[position] ^= 0xFF
      #expect(Self.plain(of: damaged, byteCount: plain.count) != plain, "at \(position)")
    }
    for length in 0..<frame.count {
      #expect(Self.plain(of: Array(frame.prefix(length)), byteCount: plain.count) == nil, "cut at \(length)")
    }
  }

  @Test func aCompressorGoesOnAfterWhatDidNotFit() throws {
    let compressor = try #require(ZstandardCompressor())
    var generator = SplitMix(seed: 1)
    let noise = (0..<100_000).map { _ in UInt8.random(in: 0...255, using: &generator) }
    let text = (0..<100_000).map { UInt8($0 / 7 % 23) }
    var target = [UInt8](repeating: 0, count: 50_000)
    func compress(_ plain: [UInt8]) -> Int? {
      plain.withUnsafeBytes { source in
        target.withUnsafeMutableBytes { compressor.compress(source, level: 3, into: $0) }
      }
    }
    #expect(compress(noise) == nil)
    let count = try #require(compress(text))
    #expect(Self.plain(of: Array(target[..<count]), byteCount: text.count) == text)
  }

  /// What a client makes is what a receiver takes, for every length that a chunk may have.
  @Test(.promises("P114", "P116")) func theLongestChunk_hasAWindowThatIsTaken() throws {
    let plain = (0..<(32 << 20)).map { UInt8(truncatingIfNeeded: $0 >> 12) }
    let frame = try #require(try Self.compressed(plain, level: 6))
    #expect(Self.plain(of: frame, byteCount: plain.count) == plain)
  }
}
