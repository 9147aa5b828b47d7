import Integrity
import TransferModel

/// What compressing some bytes has saved.
struct CompressionSaving: Hashable, Sendable {
  /// How they travel.
  var encoding = ChunkEncoding.identity
  /// Bytes saved.
  var bytes = 0

  /// The bytes travel uncompressed.
  static let nothing = CompressionSaving()

  /// The saving of a file's part of a request whose files were compressed together.
  func joined(by frame: SharedFrame?, ofBytes plainBytes: Int) -> CompressionSaving {
    guard let frame, frame.isShorter, frame.plainBytes > 0, plainBytes > 0 else { return self }
    let sent = Double(plainBytes - min(bytes, plainBytes)) * Double(frame.sentBytes) / Double(frame.plainBytes)
    return CompressionSaving(
      encoding: encoding == .identity ? .zstd(.none) : encoding, bytes: plainBytes - min(plainBytes, Int(sent)))
  }
}
