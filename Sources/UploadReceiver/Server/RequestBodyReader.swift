import HummingbirdCore
import Integrity
import NIOCore
import ReceiverCore

/// Reads one request's body, in the pieces in which it arrives.
struct RequestBodyReader {
  /// The most that is read and thrown away so that the connection can go on after a refusal.
  static let drainedBytesMax = 48 << 20
  /// The same for a client that the receiver does not know.
  static let strangerBytesMax = 64 << 10
  private static let hashBlockBytes = 128 << 10

  private var iterator: RequestBody.AsyncIterator
  private var isAtEnd = false
  /// The memory that the body has been granted.
  var lease: BodyLease?

  init(_ body: RequestBody) {
    iterator = body.makeAsyncIterator()
  }

  private mutating func next() async throws -> ByteBuffer? {
    guard !isAtEnd else { return nil }
    let piece = try await iterator.next()
    if let piece { lease?.note(arrivedBytes: piece.readableBytes) } else { isAtEnd = true }
    return piece
  }

  /// The next piece of the body; nil at its end.
  mutating func nextPiece() async throws(Refusal) -> ByteBuffer? {
    do {
      return try await next()
    } catch {
      throw RequestBodyReader.refusal(for: error)
    }
  }

  /// A plain body, with its digests. One that ends early is handed out as it is; one that goes on is refused.
  mutating func collectPlain(
    _ admitted: AdmittedBody
  ) async throws(Refusal) -> (body: ReceivedBody, facts: ChunkChecksums) {
    var body = ReceivedBody(expectedBytes: admitted.plainBytes)
    var hasher = ChunkHasher(blockBytes: RequestBodyReader.hashBlockBytes)
    do {
      while let piece = try await next() {
        try admitted.check(arrivedBytes: body.byteCount + piece.readableBytes)
        piece.withUnsafeReadableBytes { hasher.update($0) }
        body.append(piece)
      }
    } catch {
      throw RequestBodyReader.refusal(for: error)
    }
    let digests = hasher.finalize()
    let facts = ChunkChecksums(
      sha256: digests.sha256, crc32c: digests.crc32c, sizeBytes: UInt32(clamping: body.byteCount))
    return (body, facts)
  }

  /// An encoded body as it was sent, in memory that is asked for once.
  mutating func collectEncoded(_ admitted: AdmittedBody) async throws(Refusal) -> [UInt8] {
    try await collect(expectedBytes: admitted.sentBytesMax) { (count) throws(Refusal) in
      try admitted.check(arrivedBytes: count)
    }
  }

  /// A bundle, with its members' digests.
  mutating func collect(_ bundle: inout BundleIntake) async throws(Refusal) {
    do {
      while let piece = try await next() {
        let result: Result<Void, Refusal> = piece.withUnsafeReadableBytes { bytes in
          Result { () throws(Refusal) in try bundle.take(bytes) }
        }
        try result.get()
      }
    } catch {
      throw RequestBodyReader.refusal(for: error)
    }
    try bundle.finish()
  }

  /// A small body.
  mutating func collectJSON(limit: Int) async throws(Refusal) -> [UInt8] {
    try await collect(expectedBytes: 0) { (count) throws(Refusal) in
      guard count <= limit else {
        throw Refusal(.tooLarge(limitBytes: UInt64(limit)), "such bodies have at most \(limit) bytes")
      }
    }
  }

  private mutating func collect(
    expectedBytes: Int, check: (Int) throws(Refusal) -> Void
  ) async throws(Refusal) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(expectedBytes)
    do {
      while let piece = try await next() {
        try check(bytes.count + piece.readableBytes)
        bytes.append(contentsOf: piece.readableBytesView)
      }
    } catch {
      throw RequestBodyReader.refusal(for: error)
    }
    return bytes
  }

  /// Reads what is left; false when that is too much, and the connection should be closed.
  mutating func drain(atMost bytesMax: Int) async throws -> Bool {
    var drained = 0
    while let piece = try await next() {
      drained += piece.readableBytes
      if drained > bytesMax { return false }
    }
    return true
  }

  private static func refusal(for error: any Error) -> Refusal {
    switch error {
    case let refusal as Refusal: refusal
    case is BodyTimeout: .bodyTooSlow
    case is BodyRevoked: .noBodyMemory
    default: .bodyBrokeOff
    }
  }
}
