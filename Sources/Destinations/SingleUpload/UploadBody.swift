import Integrity
import TransferModel

/// Bytes to be sent, or a piece of them.
struct UploadBody {
  /// All of them.
  let bytes: any PinnedBytes
  /// Of all of them.
  let sha256: Digest32
  let sentBytes: SentByteCounter
  /// What of them is meant.
  private(set) var range: Range<Int>

  init(_ bytes: any PinnedBytes, sha256: Digest32, sentBytes: SentByteCounter) {
    self.bytes = bytes
    self.sha256 = sha256
    self.sentBytes = sentBytes
    range = 0..<bytes.bytes.count
  }

  var count: Int { range.count }
  var isWhole: Bool { count == bytes.bytes.count }

  /// What begins there, and at most so much of it.
  func from(_ start: Int, bytesMax: Int = .max) -> UploadBody {
    var piece = self
    let start = min(max(0, start), bytes.bytes.count)
    piece.range = start..<(start + min(max(0, bytesMax), bytes.bytes.count - start))
    return piece
  }

  /// What is sent.
  var content: any PinnedBytes { isWhole ? bytes : PinnedPiece(of: bytes, range) }
}

/// A part of other bytes, which it keeps in memory.
private final class PinnedPiece: PinnedBytes {
  private let whole: any PinnedBytes
  private let range: Range<Int>

  init(of whole: any PinnedBytes, _ range: Range<Int>) {
    self.whole = whole
    self.range = range
  }

  var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: whole.bytes[range]) }
}
