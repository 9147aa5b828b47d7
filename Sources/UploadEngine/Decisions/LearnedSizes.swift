import FileModel
import TransferModel

/// How large files and requests may be: what the destination has reported when asked, and what it, or a proxy before
/// it, has shown by refusing.
struct LearnedSizes: Sendable {
  /// What the refusal of a request for its length means for the next ones.
  enum Shortening: Hashable, Sendable {
    /// An earlier request has shown it already.
    case known
    /// From now on no request is longer.
    case to(bytes: Int)
    /// No shorter request is of use.
    case useless
  }

  /// The largest file that the destination takes, by its own report.
  private(set) var fileBytesMax: UInt64?
  /// The largest file that the destination takes in one request, as it has reported or shown. It only shrinks: what was
  /// refused once costs a file's bytes again.
  private(set) var wholeFileBytesMax = Int.max
  /// Longer requests are refused, as some have shown.
  private(set) var requestBytesMax = Int.max
  /// The number of small files in one request; one until the receiver has reported more.
  private(set) var filesPerRequest = 1
  private var askedAt: MonotonicTime?

  /// Requests are halved to multiples of this.
  private static let requestBytesStep = 64 << 10

  /// The destination's answer; the latest one counts.
  mutating func learn(_ stated: DestinationLimits) {
    fileBytesMax = stated.fileBytesMax
    if let bytes = stated.wholeFileBytesMax { refuseWholeFiles(longerThan: bytes) }
  }

  mutating func learn(filesPerRequest offered: Int, atMost most: Int) { filesPerRequest = max(1, min(offered, most)) }

  mutating func refuseWholeFiles(longerThan bytes: Int) { wholeFileBytesMax = min(wholeFileBytesMax, bytes) }

  /// A request of so many bytes was refused for its length; none is shorter than `least`.
  mutating func refuseRequest(of byteCount: Int, least: Int) -> Shortening {
    guard requestBytesMax >= byteCount else { return .known }
    guard byteCount > least else { return .useless }
    let half = byteCount / 2
    requestBytesMax = max(
      least, half >= Self.requestBytesStep ? half / Self.requestBytesStep * Self.requestBytesStep : half)
    return .to(bytes: requestBytesMax)
  }

  /// A proxy before the destination may have changed: the next request shows it.
  mutating func forgetRequestBytesMax() { requestBytesMax = .max }

  /// The destination may take more now: it is asked anew, and decides until then.
  mutating func forgetFileBytesMax() {
    fileBytesMax = nil
    askedAt = nil
  }

  /// True where the destination is to be asked, which has not happened for so long.
  mutating func ask(after rest: Duration, at now: MonotonicTime) -> Bool {
    guard askedAt.map({ now - $0 >= rest }) ?? true else { return false }
    askedAt = now
    return true
  }
}
