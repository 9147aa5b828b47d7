import ChunkProtocol
import Integrity
import NIOCore
import ReceiverCore

/// A member of a run while it arrives: its bytes in the buffers in which they came, and the digests of a plain one.
struct ArrivingChunk: ~Copyable {
  private static let hashBlockBytes = 128 << 10

  let member: RunIntake.Member
  private var plain: ReceivedBody
  private var encoded: [UInt8] = []
  private var hasher = ChunkHasher(blockBytes: ArrivingChunk.hashBlockBytes)

  init(_ member: RunIntake.Member) {
    self.member = member
    plain = ReceivedBody(expectedBytes: member.body?.encoding == .identity ? member.body?.plainBytes ?? 0 : 0)
    if let body = member.body, body.encoding != .identity { encoded.reserveCapacity(body.sentBytesMax) }
  }

  /// Bytes of a member that is refused already are thrown away.
  mutating func append(_ piece: ByteBuffer) {
    switch member.body?.encoding {
    case .identity?:
      piece.withUnsafeReadableBytes { hasher.update($0) }
      plain.append(piece)
    case .lz4?, .zstd?: encoded.append(contentsOf: piece.readableBytesView)
    case nil: break
    }
  }

  struct Complete: Sendable {
    var member: RunIntake.Member
    var plain: any BodyBytes = [UInt8]()
    var sentBytes = 0
    /// The digests of the plain bytes; nil where nothing was kept.
    var arrived: Result<ChunkChecksums, Refusal>?
  }

  /// Ends the chunk. Decoding takes the processor for long, and is done by the driver.
  consuming func finish(_ driver: ReceiverDriver) async -> Complete {
    var complete = Complete(member: member)
    guard let admitted = member.body else { return complete }
    switch admitted.encoding {
    case .identity:
      complete.plain = plain
      complete.sentBytes = plain.byteCount
      let bytes = UInt32(clamping: plain.byteCount)
      let digests = hasher.finalize()
      complete.arrived = .success(
        ChunkChecksums(sha256: digests.sha256, crc32c: digests.crc32c, sizeBytes: bytes))
    case .lz4, .zstd:
      let sent = encoded
      complete.sentBytes = sent.count
      do throws(Refusal) {
        let (plain, facts) = try await driver.compute { () throws(Refusal) in try admitted.take(sent) }
        complete.plain = plain
        complete.arrived = .success(facts)
      } catch {
        complete.arrived = .failure(error)
      }
    }
    return complete
  }
}
