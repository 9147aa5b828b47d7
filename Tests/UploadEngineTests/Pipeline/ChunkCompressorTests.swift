import FileModel
import Integrity
import Promises
import Testing

@testable import UploadEngine

/// LZ4 where the samples show more than a tenth of gain (spec C5).
@Suite struct ChunkCompressorTests {
  private static let chunkBytes = 1 << 20
  private let counters = PipelineCounters()

  private static func noise(_ count: Int) -> [UInt8] {
    var random = SplitMix64(state: 3)
    return [UInt8](count: count) { _ in UInt8(truncatingIfNeeded: random.next()) }
  }

  private static func text(_ count: Int) -> [UInt8] {
    [UInt8](count: count) { UInt8(truncatingIfNeeded: ($0 / 7) % 23) }
  }

  /// The bytes read as one chunk.
  private func read(_ bytes: [UInt8], mayCompress: Bool = true, isBuffered: Bool = true) throws -> ReadChunk {
    let spool = try SpoolFileFake(bytes)
    let pool = ChunkBufferPool(capacity: 1, bufferBytes: Self.chunkBytes, counters: counters)
    var reader = ChunkReader(
      contents: spool, io: HybridIOEngine(contents: spool, method: .plain, counters: counters), counters: counters)
    let result = reader.read(
      ReadJob(
        id: 1, file: SpoolFileFake.id, epoch: 1, offset: 0, byteCount: bytes.count,
        buffer: isBuffered ? pool.acquire() : nil, mayCompress: mayCompress))
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
    try expectPlain(read(bytes, mayCompress: false), bytes)
  }

  @Test func aFewPackets_areNotWorthIt() throws {
    let bytes = Self.text(4095)
    try expectPlain(read(bytes), bytes)
  }

  @Test func aHeaderThatShrinks_misleadsNobody() throws {
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

  @Test func theThresholdIsATenth() {
    #expect(ChunkCompressor.worthwhileBytes(of: 1000) == 899)
    #expect(ChunkCompressor.worthwhileBytes(of: 32_768) == 29_491)
  }
}
