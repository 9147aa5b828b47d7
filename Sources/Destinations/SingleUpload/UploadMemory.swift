import Integrity
import Lookup
import Synchronization
import TransferModel

/// What one run knows to be behind the acknowledged bytes of uploads that are appended to.
///
/// An upload that ends in the middle of a chunk can only be continued where it is known what was begun there: after a change of
/// the file, or by another run, it could be the beginning of other bytes.
final class UploadMemory: Sendable {
  /// What may be behind an offset of an upload that is acknowledged.
  private enum Begun: Hashable {
    case nothing
    /// The beginning of the bytes with this SHA-256.
    case bytes(Digest32)
    case unknown
  }

  private struct Upload {
    /// Everything before it is acknowledged.
    var offset: UInt64
    var begun = Begun.nothing
    /// What was acknowledged last, so that the same answers mean the same when they are checked again.
    var last: Bytes?
    /// The server has said where it ends, and has taken nothing since: a request that was sent before may still arrive.
    var isFound = false
    /// The attempt that is in progress asks how far the upload goes before it sends anything.
    var asksFirst = false
    /// What was sent behind the offset since.
    var sendings = Sendings()
  }

  /// How far the requests can have come that sent bytes behind an acknowledged offset.
  private struct Sendings {
    /// Those that may still be in flight, the latest ones.
    private var latest: [(from: UInt64, bytes: SentByteCounter)] = []
    /// Of those before.
    private var endMax: UInt64 = 0
    /// Of some it is not known.
    private var isUnknown = false

    private static let latestMax = 16

    /// Nil where it is not known.
    var end: UInt64? {
      var copy = self
      while !copy.latest.isEmpty { copy.foldFirst() }
      return copy.isUnknown ? nil : copy.endMax
    }

    /// Bytes go out from an offset on. A piece behind another one of one body has its counter.
    mutating func add(from offset: UInt64, _ bytes: SentByteCounter) {
      while latest.count >= Self.latestMax || latest.contains(where: { $0.bytes === bytes }) { foldFirst() }
      latest.append((offset, bytes))
    }

    private mutating func foldFirst() {
      let (from, bytes) = latest.removeFirst()
      guard let count = bytes.handedOverMax else { return isUnknown = true }
      endMax = max(endMax, from.addingReportingOverflow(count).partialValue)
    }
  }

  private struct Bytes: Hashable {
    var offset: UInt64
    var sha256: Digest32
  }

  /// Beyond it all is forgotten, and what ends in the middle of a chunk begins anew.
  private static let uploadsMax = 4096

  private let uploads = Mutex<LookupTable<String, Upload>>([:])

  /// The upload ends exactly here.
  func ends(_ upload: String, at offset: UInt64) {
    uploads.withLock {
      if $0.count >= Self.uploadsMax { $0 = [:] }
      $0[upload] = Upload(offset: offset, asksFirst: $0[upload]?.asksFirst ?? false)
    }
  }

  /// The server was asked, and says that the upload ends here.
  func isFound(_ upload: String, at offset: UInt64) {
    ends(upload, at: offset)
    uploads.withLock { $0[upload]?.isFound = true }
  }

  /// Where it ends is known by asking alone.
  func isFound(_ upload: String) -> Bool { uploads.withLock { $0[upload]?.isFound ?? false } }

  /// These bytes are acknowledged, and nothing is behind them.
  func holds(_ upload: String, from start: UInt64, to end: UInt64, sha256: Digest32) {
    ends(upload, at: end)
    uploads.withLock { $0[upload]?.last = Bytes(offset: start, sha256: sha256) }
  }

  /// These bytes are sent to this offset; a piece of them, from another one on.
  func begins(_ upload: String, at offset: UInt64, sha256: Digest32, from start: UInt64, _ bytes: SentByteCounter) {
    uploads.withLock {
      let known = $0[upload]
      let isKnown = known?.offset == offset && (known?.begun == .nothing || known?.begun == .bytes(sha256))
      var sendings = known?.offset == offset ? known?.sendings ?? Sendings() : Sendings()
      sendings.add(from: start, bytes)
      $0[upload] = Upload(
        offset: offset, begun: isKnown ? .bytes(sha256) : .unknown, isFound: known?.isFound ?? false,
        asksFirst: known?.asksFirst ?? false, sendings: sendings)
    }
  }

  /// False where the upload cannot go as far, whatever the server says: so many bytes have not left this process.
  func canReach(_ upload: String, to end: UInt64) -> Bool {
    uploads.withLock {
      guard let known = $0[upload], end > known.offset, let sent = known.sendings.end else { return true }
      return end <= max(sent, known.offset)
    }
  }

  /// What is behind the acknowledged bytes is not what was begun there.
  func hasOther(_ upload: String) { uploads.withLock { $0[upload]?.begun = .unknown } }

  /// Whatever is behind this offset is the beginning of these bytes.
  func hasOnly(_ upload: String, at offset: UInt64, sha256: Digest32) -> Bool {
    uploads.withLock {
      guard let known = $0[upload] else { return false }
      return known.offset == offset && known.begun == .bytes(sha256)
        || known.last == Bytes(offset: offset, sha256: sha256)
    }
  }

  /// An attempt begins to send bytes to this offset. True where something was sent there before and no answer came: that is
  /// asked about first.
  func beginsAttempt(at upload: String, offset: UInt64) -> Bool {
    uploads.withLock {
      guard let known = $0[upload] else { return false }
      let asksFirst = known.offset == offset && known.begun != .nothing
      $0[upload]?.asksFirst = asksFirst
      return asksFirst
    }
  }

  /// What the attempt that is in progress began with.
  func asksFirst(_ upload: String) -> Bool { uploads.withLock { $0[upload]?.asksFirst ?? false } }

  func forget(_ upload: String) {
    uploads.withLock { _ = $0.removeValue(forKey: upload) }
  }
}
