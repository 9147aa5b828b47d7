import ReceiverCore
import NIOCore

/// A request's body in the buffers in which it arrived. Small pieces are copied together: a piece keeps the whole buffer
/// alive of which it is a part. A client that sends a few bytes at a time must not cost more memory than it was granted.
struct ReceivedBody: BodyBytes {
  private static let copiedBelow = 16 << 10
  private static let joinedBytes = 256 << 10

  private(set) var byteCount = 0
  private var pieces: [ByteBuffer] = []
  private var isLastJoined = false
  private let expectedBytes: Int

  /// An empty body that is to become this long.
  init(expectedBytes: Int) {
    self.expectedBytes = expectedBytes
  }

  mutating func append(_ piece: ByteBuffer) {
    byteCount += piece.readableBytes
    let isWorthKeeping =
      piece.readableBytes >= ReceivedBody.copiedBelow && piece.readableBytes * 2 >= piece.storageCapacity
    guard !isWorthKeeping else {
      pieces.append(piece)
      isLastJoined = false
      return
    }
    if !isLastJoined || pieces[pieces.count - 1].writableBytes < piece.readableBytes {
      let rest = expectedBytes - (byteCount - piece.readableBytes)
      pieces.append(
        ByteBufferAllocator().buffer(capacity: max(piece.readableBytes, min(rest, ReceivedBody.joinedBytes))))
      isLastJoined = true
    }
    pieces[pieces.count - 1].writeImmutableBuffer(piece)
  }

  func forEachPiece(_ body: (UnsafeRawBufferPointer) throws(StoreFailure) -> Void) throws(StoreFailure) {
    for piece in pieces {
      // withUnsafeReadableBytes cannot forward a typed error, so it is carried out as a value.
      let result: Result<Void, StoreFailure> = piece.withUnsafeReadableBytes { bytes in
        do throws(StoreFailure) { return .success(try body(bytes)) } catch { return .failure(error) }
      }
      try result.get()
    }
  }
}
