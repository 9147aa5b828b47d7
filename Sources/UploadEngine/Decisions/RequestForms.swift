import Lookup
import TransferModel

/// The request forms that the destination's answers allow: several chunks, named zeros, compressed, compressed
/// together. A later answer replaces an earlier one. An answer that names some forms excludes those that it does not
/// name.
struct RequestForms: Sendable {
  /// The bound of a form, as far as it is known.
  enum Bound: Hashable, Sendable {
    /// The destination has not reported it yet.
    case unknown
    case none
    /// At most so much of the form in one request.
    case upTo(Int)

    fileprivate init(_ most: Int) { self = most > 0 ? .upTo(most) : .none }
  }

  /// Several chunks of one session in one request, in plain bytes.
  private(set) var runs = Bound.unknown
  /// Chunks of zeros that are only named, in ranges.
  private(set) var zeros = Bound.unknown
  /// Small files that are compressed together.
  var sharedFrames = SharedFrames()
  private var offeredEncodings: LookupSet<OfferedEncoding> = [.identity]
  /// A Zstandard frame was refused, whatever is offered: of several receivers at one address some may be older.
  private var zstdIsRefused = false
  private var runFailures = RunFailures()

  /// The encodings of bodies; plain ones only until the receiver has reported more.
  var encodings: LookupSet<OfferedEncoding> {
    guard zstdIsRefused else { return offeredEncodings }
    var left = offeredEncodings
    left.remove(.zstd)
    return left
  }

  /// Runs have not failed lately.
  func mayFormRuns(at now: MonotonicTime) -> Bool { runFailures.notBefore.map { $0 <= now } ?? true }

  mutating func learn(_ offers: DestinationOffers) {
    if let encodings = offers.encodings { offeredEncodings = encodings }
    let speaksOfForms = offers.encodings != nil || offers.filesPerRequest != nil
    if let bytes = offers.runBytesMax { runs = Bound(bytes) } else if speaksOfForms { runs = .none }
    if let ranges = offers.zeroRangesMax { zeros = Bound(ranges) } else if speaksOfForms { zeros = .none }
    if let isOffered = offers.takesSharedFrames {
      sharedFrames.isOffered = isOffered
    } else if speaksOfForms {
      sharedFrames.isOffered = false
    }
  }

  mutating func learn(_ outcome: StepOutcome) {
    switch outcome {
    case .sessionOpened(_, _, _, let encodings, _, _), .held(_, _, _, let encodings, _, _):
      offeredEncodings = encodings
    case .refused(let failure) where failure.kind == .encodingRefused: zstdIsRefused = true
    case .each(let outcomes): for outcome in outcomes { learn(outcome) }
    case .warmed, .stillThere, .chunkStored, .chunkStoredAs, .published, .incomplete, .ended, .refused: break
    }
  }

  /// Some chunks of a run have arrived.
  mutating func runSucceeded() { runFailures = RunFailures() }

  /// A run has failed as a whole. Runs that were sent before the latest such failure count together with it, as one.
  mutating func runFailed(_ kind: StepFailure.Kind, sentAt: MonotonicTime, at now: MonotonicTime) {
    guard kind.refusesBundle || kind.leavesOpenWhatBecameOfIt, runFailures.latest.map({ sentAt > $0 }) ?? true else {
      return
    }
    runFailures.note(refusesRuns: kind.refusesBundle, at: now)
  }

  /// Runs that failed as a whole, in a row: a proxy on the path may take single chunks only.
  private struct RunFailures: Hashable, Sendable {
    private var count = 0
    private(set) var latest: MonotonicTime?
    private(set) var notBefore: MonotonicTime?

    /// How long chunks go one by one after a run that failed as a whole; twice as long after each further one.
    private static let restMin: Duration = .seconds(30)
    private static let restMax: Duration = .seconds(3600)

    /// A connection may break once; what the server, or a proxy, answers to the request counts the first time.
    mutating func note(refusesRuns: Bool, at now: MonotonicTime) {
      latest = now
      count += 1
      let rests = refusesRuns ? count : count - 1
      guard rests > 0 else { return }
      notBefore = now + min(Self.restMax, Self.restMin * (1 << min(rests - 1, 8)))
    }
  }

  /// Whether small files are compressed together.
  struct SharedFrames: Hashable, Sendable {
    /// The most requests without a shared frame after attempts that gained nothing.
    private static let restMax = 64

    /// The receiver decodes shared frames.
    fileprivate(set) var isOffered = false
    private var rest = 0
    private var requestsLeft = 0

    /// The next request tries a shared frame.
    var isDue: Bool { requestsLeft == 0 }

    /// Whether the request that goes out now tries a shared frame.
    mutating func isTried() -> Bool {
      guard !isDue else { return true }
      requestsLeft -= 1
      return false
    }

    /// The result of one attempt.
    mutating func tried(_ frame: SharedFrame) {
      rest = frame.isShorter ? 0 : min(max(1, 2 * rest), Self.restMax)
      requestsLeft = rest
    }
  }
}
