import Integrity
import Promises
import SeededRandom
import Testing

@Suite struct LZ4Tests {
  private static func compressed(_ plain: [UInt8]) -> [UInt8]? {
    var output = [UInt8](repeating: 0, count: LZ4.compressedBytesMax(plain.count))
    let count = plain.withUnsafeBytes { source in output.withUnsafeMutableBytes { LZ4.compress(source, into: $0) } }
    return count.map { Array(output.prefix($0)) }
  }

  private static func plain(of block: [UInt8], byteCount: Int) -> [UInt8]? {
    var output = [UInt8](repeating: 0, count: byteCount)
    let isWhole = block.withUnsafeBytes { source in
      output.withUnsafeMutableBytes { LZ4.decompress(source, into: $0) }
    }
    return isWhole ? output : nil
  }

  @Test(.promises("P80")) func whatWasCompressedComesBackAndIsShorter() throws {
    let plain = (0..<100_000).map { UInt8($0 / 700 % 251) }
    let block = try #require(Self.compressed(plain))
    #expect(block.count < plain.count / 10)
    #expect(Self.plain(of: block, byteCount: plain.count) == plain)
  }

  /// The block format's own example of a run: token 0x1F, one literal, offset 1, then the extra match length; the last
  /// five bytes are literals (lz4_Block_format.md of the LZ4 project).
  @Test(.promises("P80")) func aBlockWrittenByHandIsDecoded() {
    let block: [UInt8] = [0x1F, 0x61, 0x01, 0x00, 0x05, 0x50, 0x61, 0x61, 0x61, 0x61, 0x61]
    #expect(Self.plain(of: block, byteCount: 30) == [UInt8](repeating: 0x61, count: 30))
  }

  @Test(.promises("P80")) func anotherLengthThanAnnouncedIsRefused() throws {
    let block = try #require(Self.compressed([UInt8](repeating: 7, count: 5000)))
    for wrong in [0, 1, 4999, 5001, 1 << 20] { #expect(Self.plain(of: block, byteCount: wrong) == nil) }
  }

  @Test func aDamagedBlockIsRefusedOrChangesTheBytes() throws {
    let plain = (0..<4096).map { UInt8($0 * $0 % 253) }
    let block = try #require(Self.compressed(plain))
    for position in block.indices {
      var damaged = block
      damaged[position] ^= 0xFF
      #expect(Self.plain(of: damaged, byteCount: plain.count) != plain)
    }
    for length in 0..<block.count {
      #expect(Self.plain(of: Array(block.prefix(length)), byteCount: plain.count) == nil)
    }
  }

  @Test func whatDoesNotFitIsNotCompressed() {
    var generator = SplitMix(seed: 1)
    let plain = (0..<1000).map { _ in UInt8.random(in: 0...255, using: &generator) }
    var target = [UInt8](repeating: 0, count: 500)
    #expect(plain.withUnsafeBytes { source in target.withUnsafeMutableBytes { LZ4.compress(source, into: $0) } } == nil)
    #expect(LZ4.compressedBytesMax(-1) == 0 && LZ4.compressedBytesMax(Int.max) == 0)
  }
}
