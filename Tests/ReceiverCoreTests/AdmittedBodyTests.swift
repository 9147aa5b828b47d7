import ChunkProtocol
import Integrity
import Promises
import ReceiverCore
import Testing

@Suite struct AdmittedBodyTests {
  private func admitted(
    _ plainBytes: UInt32, _ encoding: ChunkEncoding, contentLength: UInt64? = nil, sent: [UInt8]? = nil
  ) throws -> AdmittedBody {
    let announced = AnnouncedBytes(
      facts: ChunkChecksums(sha256: sha256([]), crc32c: 0, sizeBytes: plainBytes), mac: nil,
      contentLength: contentLength, encoding: encoding, sentSHA256: sent.map { sha256($0) })
    let coreRequest = CoreRequest.chunk(CredentialID("c"), SessionID("s"), index: 0, announced)
    guard case .readBody(let body) = coreRequest.outcome(of: .bodyAdmitted) else {
      throw Refusal(.storeFailed, "no body")
    }
    return body
  }

  private func compressed(_ plain: [UInt8]) throws -> [UInt8] {
    var block = [UInt8](repeating: 0, count: LZ4.compressedBytesMax(plain.count))
    let count = plain.withUnsafeBytes { plain in block.withUnsafeMutableBytes { LZ4.compress(plain, into: $0) } }
    return Array(block[..<(try #require(count))])
  }

  @Test(.promises("P83")) func memory_isThatOfBothFormsAndNeverMore() throws {
    #expect(try admitted(1000, .identity).memoryBytes == 1000)
    #expect(try admitted(1000, .identity, contentLength: 1000).memoryBytes == 1000)
    #expect(try admitted(1000, .lz4).memoryBytes == 2000)
    #expect(try admitted(1000, .lz4, contentLength: 100).memoryBytes == 1100)
    #expect(try admitted(1000, .lz4, contentLength: .max).memoryBytes == 2000)
    #expect(try admitted(.max, .lz4, contentLength: .max).memoryBytes == 2 * Int(UInt32.max))
    #expect(try admitted(1000, .zstd(.none), contentLength: 100).memoryBytes == 1100)
    #expect(try admitted(1000, Self.filtered, contentLength: 100).memoryBytes == 2100)
    #expect(try admitted(4 << 20, Self.filtered).memoryBytes == 8 << 20 + 256 << 10)
  }

  private static let filtered = ChunkEncoding.zstd(RecordFilter(stride: 2, difference: 2) ?? .none)

  /// The 16-bit numbers from 0 to 99, as docs/protocol.md has them.
  private static let frame: [UInt8] = [
    0x28, 0xB5, 0x2F, 0xFD, 0x20, 200, 0x08, 0, 0, 0, 0x1A, 0x03, 0, 1, 0x23, 0x03, 0, 0,
  ]

  @Test(.promises("P114", "P115")) func frame_becomesItsPlainBytes() throws {
    let plain = [UInt8](0..<100).flatMap { [$0, 0] as [UInt8] }
    let taken = try admitted(200, Self.filtered, contentLength: 18, sent: Self.frame).take(Self.frame)
    #expect(taken.plain == plain && taken.facts == ChunkChecksums(of: plain))
    let unfiltered = try admitted(200, .zstd(.none)).take(Self.frame)
    #expect(unfiltered.plain == [0] + [UInt8](repeating: 1, count: 99) + [UInt8](repeating: 0, count: 100))
    for wrong in [Self.frame.dropLast(), Self.frame + [0], []] {
      let refusal = #expect(throws: Refusal.self) { try admitted(200, Self.filtered).take(Array(wrong)) }
      #expect(refusal?.kind == .digestMismatch(field: "X-Chunk-Encoding"))
    }
    for size: UInt32 in [18, 199, 201, 1 << 20] {
      #expect(throws: Refusal.self, "announced as \(size)") { try admitted(size, Self.filtered).take(Self.frame) }
    }
  }

  /// Runs of 128 KiB, of four bytes each: the most that a frame can make of its bytes.
  private static func runs(_ count: Int) -> [UInt8] {
    let heads = (0..<count).flatMap { run -> [UInt8] in
      let head = (128 << 10) << 3 | 1 << 1 | (run == count - 1 ? 1 : 0)
      return [UInt8(head & 0xFF), UInt8(head >> 8 & 0xFF), UInt8(head >> 16), 9]
    }
    // A window of 128 KiB, and no content size.
    return [0x28, 0xB5, 0x2F, 0xFD, 0, 7 << 3] + heads
  }

  @Test(.promises("P83", "P116")) func frameThatBecomes30000TimesAsLong_takesTheMemoryOfWhatItAnnounces() throws {
    let (frame, plainBytes) = (Self.runs(256), 32 << 20)
    #expect(plainBytes / frame.count > 30_000)
    let body = try admitted(UInt32(plainBytes), .zstd(.none), contentLength: UInt64(frame.count), sent: frame)
    #expect(body.memoryBytes == plainBytes + frame.count)
    #expect(try body.take(frame).plain == [UInt8](repeating: 9, count: plainBytes))
    // One run more, or less announced for it: nothing is written beyond what was.
    for (other, announced) in [(Self.runs(257), plainBytes), (frame, 128 << 10), (frame, frame.count)] {
      let refusal = #expect(throws: Refusal.self) {
        try admitted(UInt32(announced), .zstd(.none), contentLength: UInt64(other.count)).take(other)
      }
      #expect(refusal?.kind == .digestMismatch(field: "X-Chunk-Encoding"))
    }
  }

  @Test func block_becomesItsPlainBytes() throws {
    let plain = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 / 1000) }
    let block = try compressed(plain)
    let taken = try admitted(100_000, .lz4, contentLength: UInt64(block.count), sent: block).take(block)
    #expect(taken.plain == plain && taken.facts == ChunkChecksums(of: plain))
  }

  @Test(.promises("P85")) func everyCutAndEveryOtherSize_isRefused() throws {
    let plain = [UInt8](repeating: 7, count: 300) + Array(0..<100)
    let block = try compressed(plain)
    for cut in 0..<block.count {
      #expect(throws: Refusal.self, "cut at \(cut)") { try admitted(400, .lz4).take(Array(block[..<cut])) }
    }
    for size: UInt32 in [200, 399, 401, 100_000] {
      #expect(throws: Refusal.self, "announced as \(size)") { try admitted(size, .lz4).take(block) }
    }
    #expect(try admitted(400, .lz4).take(block).plain == plain)
  }

  @Test(.promises("P84"), arguments: [ChunkEncoding.identity, .lz4, .zstd(.none)])
  func moreThanAnnounced_isRefusedAsSoonAsItArrives(encoding: ChunkEncoding) throws {
    let body = try admitted(400, encoding)
    try body.check(arrivedBytes: 400)
    #expect(throws: Refusal.self) { try body.check(arrivedBytes: 401) }
    let shorter = try admitted(400, .lz4, contentLength: 100)
    try shorter.check(arrivedBytes: 100)
    #expect(throws: Refusal.self) { try shorter.check(arrivedBytes: 101) }
  }

  @Test func flippedBits_neverGiveOtherBytesUnnoticed() throws {
    let plain = [UInt8](repeating: 7, count: 300) + Array(0..<100)
    let block = try compressed(plain)
    for position in 0..<block.count * 8 {
      var damaged = block
      damaged[position / 8] ^= 1 << (position % 8)
      // Whatever comes of it has the announced size, and digests that the core compares.
      if let taken = try? admitted(400, .lz4).take(damaged) {
        #expect(taken.plain.count == 400, "bit \(position)")
        #expect(taken.plain == plain || taken.facts != ChunkChecksums(of: plain), "bit \(position)")
      }
    }
  }
}
