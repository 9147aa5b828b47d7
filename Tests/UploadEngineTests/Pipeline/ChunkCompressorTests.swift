import FileModel
import Integrity
import Promises
import SeededRandom
import Testing
import TransferModel

@testable import UploadEngine

/// Shorter bytes where the samples show more than a tenth of gain (docs/design/reading.md#compression).
@Suite struct ChunkCompressorTests {
  private static let chunkBytes = 1 << 20
  private let counters = PipelineCounters()

  private static func noise(_ count: Int) -> [UInt8] {
    var random = SplitMix(seed: 3)
    return [UInt8](count: count) { _ in UInt8(truncatingIfNeeded: random.next()) }
  }

  private static func text(_ count: Int) -> [UInt8] {
    [UInt8](count: count) { UInt8(truncatingIfNeeded: ($0 / 7) % 23) }
  }

  /// The bytes read as one chunk.
  private func read(
    _ bytes: [UInt8], compression: ChunkCompression = ChunkCompression(lz4: true), isBuffered: Bool = true
  ) throws -> ReadChunk {
    let spool = try SpoolFileFake(bytes)
    let bufferBytes = max(Self.chunkBytes, bytes.count)
    let pool = ChunkBufferPool(capacity: 1, bufferBytes: bufferBytes, counters: counters)
    var reader = ChunkReader(
      contents: spool, io: HybridIOEngine(contents: spool, method: .plain, counters: counters), counters: counters)
    let result = reader.read(
      ReadJob(
        id: 1, file: SpoolFileFake.id, epoch: 1, offset: 0, byteCount: bytes.count,
        buffer: isBuffered ? pool.acquire() : nil, compression: compression))
    guard case .success(let chunk) = result else { throw TestFailure(result: result) }
    #expect(chunk.byteCount == bytes.count)
    #expect(chunk.digest.sha256 == sha256(bytes), "digests are of the plain bytes")
    return chunk
  }

  private struct TestFailure: Error { var result: ReadResult }

  private func expectPlain(_ chunk: ReadChunk, _ bytes: [UInt8]) throws {
    #expect(chunk.encoding == .identity)
    #expect(try Array(#require(chunk.buffer).bytes) == bytes)
    #expect(counters.snapshot.chunksCompressed == 0)
    #expect(counters.snapshot.bytesSaved == 0)
  }

  @Test(arguments: [4096, 50_000, 1 << 20])
  func whatShrinksTravelsCompressed(count: Int) throws {
    let bytes = Self.text(count)
    let chunk = try read(bytes)
    #expect(chunk.encoding == .lz4)
    let body = try #require(chunk.buffer)
    var plain = [UInt8](repeating: 0, count: count)
    let isWhole = plain.withUnsafeMutableBytes { LZ4.decompress(body.bytes, into: $0) }
    #expect(isWhole && plain == bytes)
    #expect(counters.snapshot.chunksCompressed == 1)
    #expect(counters.snapshot.bytesSaved == UInt64(count - body.bytes.count))
  }

  @Test func whatIsCompressedAlready_costsTheSampleAndNoMemory() throws {
    let bytes = Self.noise(Self.chunkBytes)
    try expectPlain(read(bytes), bytes)
    #expect(counters.snapshot.blocksMapped == 1, "the buffer, and no room to compress into")
  }

  @Test(.promises("P82")) func aReceiverThatTakesNoLZ4_getsPlainBytes() throws {
    let bytes = Self.text(Self.chunkBytes)
    try expectPlain(read(bytes, compression: .none), bytes)
  }

  @Test func aFewPackets_areNotWorthIt() throws {
    let bytes = Self.text(4095)
    try expectPlain(read(bytes), bytes)
  }

  @Test func aHeaderThatShrinks_doesNotMislead() throws {
    let bytes = Self.text(200_000) + Self.noise(Self.chunkBytes - 200_000)
    try expectPlain(read(bytes), bytes)
    #expect(counters.snapshot.blocksMapped == 1)
  }

  /// The sample promises what the chunk does not keep: the bytes stay as they were.
  @Test func aSampleThatMisleads_changesNothing() throws {
    let middle = Self.chunkBytes / 2
    var bytes = Self.noise(Self.chunkBytes)
    bytes.replaceSubrange(middle..<(middle + 32_768), with: [UInt8](repeating: 0, count: 32_768))
    try expectPlain(read(bytes), bytes)
  }

  @Test func whatIsOnlyHashed_isNotCompressed() throws {
    let chunk = try read(Self.text(Self.chunkBytes), isBuffered: false)
    #expect(chunk.encoding == .identity && chunk.buffer == nil)
    #expect(counters.snapshot.chunksCompressed == 0)
  }

  /// Regression: LZ4 was used on every line, also on one that takes plain bytes sooner than a core compresses them.
  @Test(arguments: [false, true])
  func whatALineTakesSooner_isNotCompressed(zstd: Bool) throws {
    let bytes = Self.text(Self.chunkBytes)
    try expectPlain(
      read(bytes, compression: ChunkCompression(lz4: true, zstd: zstd, lineBytesPerSecond: 1e12)), bytes)
    #expect(counters.snapshot.blocksMapped == 1, "the buffer, and no room to compress into")
    let slow = try read(bytes, compression: ChunkCompression(lz4: true, lineBytesPerSecond: 1e6))
    #expect(slow.encoding == .lz4)
  }

  @Test func theThresholdIsATenth() {
    #expect(ChunkCompressor.worthwhileBytes(of: 1000) == 899)
    #expect(ChunkCompressor.worthwhileBytes(of: 32_768) == 29_491)
  }

  // MARK: Zstandard

  private static let zstd = ChunkCompression(lz4: true, zstd: true)

  /// Records of three floats, as a depth camera's points: neighbours differ in their low bytes.
  private static func points(_ count: Int) -> [UInt8] {
    var random = SplitMix(seed: 5)
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count + 12)
    var point = 0
    while bytes.count < count {
      let depth = 2 + Float(point % 640) / 5000 + Float(random.next() % 1000) / 200_000
      for value in [Float(point % 640 - 320) * depth / 500, Float(point / 640 - 240) * depth / 500, depth] {
        withUnsafeBytes(of: value.bitPattern.littleEndian) { bytes += $0 }
      }
      point += 1
    }
    return Array(bytes.prefix(count))
  }

  private func expectFrame(_ chunk: ReadChunk, _ bytes: [UInt8]) throws -> RecordFilter {
    guard case .zstd(let filter) = chunk.encoding else {
      Issue.record("\(chunk.encoding)")
      return .none
    }
    var plain = [UInt8](repeating: 0, count: bytes.count)
    let body = try #require(chunk.buffer)
    let isWhole = plain.withUnsafeMutableBytes { Zstandard.decompress(body.bytes, undoing: filter, into: $0) }
    #expect(isWhole && plain == bytes)
    #expect(counters.snapshot.bytesSaved == UInt64(bytes.count - body.bytes.count))
    #expect(counters.snapshot.bytesOfZstandard.plain == UInt64(bytes.count))
    #expect(counters.snapshot.bytesOfZstandard.sent == UInt64(body.bytes.count))
    #expect(counters.snapshot.bytesOfLZ4 == CompressedBytes())
    return filter
  }

  @Test func samplesOfTwelveBytes_areRearranged_andBecomeMuchShorter() throws {
    let bytes = Self.points(Self.chunkBytes)
    let chunk = try read(bytes, compression: Self.zstd)
    #expect(try expectFrame(chunk, bytes).stride.isMultiple(of: 12))
    #expect(try #require(chunk.buffer).bytes.count < bytes.count * 7 / 10)
  }

  /// Captures whose records are alike from one to the next.
  enum Records: CaseIterable {
    case mono, stereo, fourChannels, depths, colouredPoints

    /// What shortens them most; of floats alike in sign and exponent differences hardly gain.
    var filter: (stride: Int, difference: Int?) {
      switch self {
      case .mono: (2, 2)
      case .stereo: (4, 4)
      case .fourChannels: (8, 8)
      case .depths: (4, nil)
      case .colouredPoints: (15, 1)
      }
    }

    private static func triangle(_ time: Int, _ period: Int, _ height: Int) -> Int {
      abs(time % period - period / 2) * height * 2 / period
    }

    private static func bytes<Number: FixedWidthInteger>(of number: Number) -> [UInt8] {
      withUnsafeBytes(of: number.littleEndian) { Array($0) }
    }

    private static func audio(_ channels: Int, _ time: Int, _ random: inout SplitMix) -> [UInt8] {
      (0..<channels).flatMap { channel in
        let wave = triangle(time, 441 + 50 * channel, 18_000) + triangle(time, 97, 3000)
        return bytes(of: Int16(truncatingIfNeeded: wave + Int(random.next() % 4)))
      }
    }

    private static func depth(_ point: Int, _ random: inout SplitMix) -> Float {
      2 + Float(point % 640) / 5000 + Float(random.next() % 1000) / 200_000
    }

    private func record(_ number: Int, _ random: inout SplitMix) -> [UInt8] {
      switch self {
      case .mono: return Self.audio(1, number, &random)
      case .stereo: return Self.audio(2, number, &random)
      case .fourChannels: return Self.audio(4, number, &random)
      case .depths: return Self.bytes(of: Self.depth(number, &random).bitPattern)
      case .colouredPoints:
        let depth = Self.depth(number, &random)
        let point = [Float(number % 640 - 320) * depth / 500, Float(number / 640 - 240) * depth / 500, depth]
        let colour = [90, 110, 140].map { shade in
          UInt8(truncatingIfNeeded: shade + Self.triangle(number, 640, 60) + Int(random.next() % 4))
        }
        return point.flatMap { Self.bytes(of: $0.bitPattern) } + colour
      }
    }

    func bytes(_ count: Int) -> [UInt8] {
      var random = SplitMix(seed: 7)
      var bytes: [UInt8] = []
      bytes.reserveCapacity(count + 16)
      var number = 0
      while bytes.count < count {
        bytes += record(number, &random)
        number += 1
      }
      return Array(bytes.prefix(count))
    }
  }

  @Test(arguments: Records.allCases)
  func records_areTakenInTheirLength_withDifferencesWhereTheseGain(records: Records) throws {
    let bytes = records.bytes(256 << 10)
    let chunk = try read(bytes, compression: Self.zstd)
    let filter = try expectFrame(chunk, bytes)
    #expect(filter.stride == records.filter.stride)
    if let difference = records.filter.difference { #expect(filter.difference == difference) }
    #expect(try #require(chunk.buffer).bytes.count < bytes.count * 7 / 10)
  }

  /// Of a long chunk its middle says as little as its head.
  @Test func chunkOfSeveralStrides_isSampledInEach() throws {
    let stride = UploadConstants.compressionSampleStride
    let points = Self.points(1 << 20)
    var bytes: [UInt8] = []
    while bytes.count < 2 * stride + (1 << 20) { bytes += points }
    let middle = bytes.count / 2
    bytes.replaceSubrange(middle..<(middle + 65_536), with: Self.noise(65_536))
    let filter = try expectFrame(read(bytes, compression: Self.zstd), bytes)
    #expect(filter.stride.isMultiple(of: 12))
  }

  @Test func headerOfText_doesNotChooseForTheSamplesBehindIt() throws {
    let bytes = Self.text(100_000) + Self.points(Self.chunkBytes - 100_000)
    #expect(try expectFrame(read(bytes, compression: Self.zstd), bytes).stride.isMultiple(of: 12))
  }

  @Test func text_needsNoFilter() throws {
    let bytes = Self.text(Self.chunkBytes)
    _ = try expectFrame(read(bytes, compression: Self.zstd), bytes)
  }

  @Test func whatZstandardDoesNotShorten_travelsAsItIs() throws {
    for bytes in [Self.noise(Self.chunkBytes), Self.text(4095)] {
      try expectPlain(read(bytes, compression: Self.zstd), bytes)
    }
  }

  /// The filter that was applied for nothing is undone.
  @Test func aSampleThatMisleadsZstandard_changesNothing() throws {
    let middle = Self.chunkBytes / 2
    var bytes = Self.noise(Self.chunkBytes)
    bytes.replaceSubrange(middle..<(middle + 32_768), with: Self.points(32_768))
    try expectPlain(read(bytes, compression: Self.zstd), bytes)
  }

  /// One worker, one file: first text, then points.
  @Test func whenTheGainFalls_theFilterIsChosenAgain() throws {
    let parts = [Self.text(Self.chunkBytes), Self.points(Self.chunkBytes), Self.noise(Self.chunkBytes)]
    let spool = try SpoolFileFake(parts.flatMap { $0 })
    let pool = ChunkBufferPool(capacity: 3, bufferBytes: Self.chunkBytes, counters: counters)
    var reader = ChunkReader(
      contents: spool, io: HybridIOEngine(contents: spool, method: .plain, counters: counters), counters: counters)
    var encodings: [ChunkEncoding] = []
    for part in parts.indices {
      let result = reader.read(
        ReadJob(
          id: UInt64(part), file: SpoolFileFake.id, epoch: 1, offset: UInt64(part * Self.chunkBytes),
          byteCount: Self.chunkBytes, buffer: pool.acquire(), compression: Self.zstd))
      guard case .success(let chunk) = result else { throw TestFailure(result: result) }
      encodings.append(chunk.encoding)
    }
    guard case .zstd(let points) = encodings[1] else {
      Issue.record("\(encodings)")
      return
    }
    #expect(encodings[0] != encodings[1] && points.stride.isMultiple(of: 12) && encodings[2] == .identity)
  }

  /// The line is so fast that a look would cost more than it takes for the bytes.
  @Test func whereALookIsNotWorthIt_LZ4IsUsedWhereItKeepsUp() throws {
    let line = ChunkCompression(lz4: true, zstd: true, lineBytesPerSecond: 60e6)
    let chunk = try read(Self.text(Self.chunkBytes), compression: line)
    #expect(chunk.encoding == .lz4)
    #expect(chunk.savedBytes == Int(counters.snapshot.bytesSaved))
    let other = ChunkCompressorTests()
    let points = Self.points(Self.chunkBytes)
    try other.expectPlain(other.read(points, compression: line), points)
  }

  @Test func slowLine_getsZstandard() throws {
    let line = ChunkCompression(lz4: true, zstd: true, lineBytesPerSecond: 600_000)
    let bytes = Self.points(Self.chunkBytes)
    #expect(try expectFrame(read(bytes, compression: line), bytes).stride.isMultiple(of: 12))
  }
}
