import TransferModel

/// How many chunk requests may be in flight: a ramp at the start, the tier of the link from then on
/// (docs/design/scheduling.md#the-line).
struct StreamPlan: Hashable, Sendable {
  /// With fewer streams a single broken one would stop everything.
  static let streamsMin = 2
  /// After a stall the number of streams is halved, and may double again after this long without one.
  private static let stallMemory: Duration = .seconds(30)

  private let rampDelay: Duration
  private(set) var tier = SpeedTier.unknown
  /// Streams that the link is to carry now. A change cancels nothing: it takes effect as chunks end.
  private(set) var streams = SpeedTier.unknown.parallelChunks
  /// Streams that were in use, or warmed, since the link was last idle for long: these start at once.
  private var opened = 0
  private var lastOpened: MonotonicTime?
  private var idleSince: MonotonicTime?
  private var stalledAt: MonotonicTime?
  private var stallBound = SpeedTier.unknown.parallelChunks
  /// Fewer streams have made this link slower: it is bound by its connections, not by itself.
  private var streamsNeeded = 0
  private var cut: Cut?

  private struct Cut: Hashable, Sendable {
    var streams: Int
    var bytesPerSecond: Double
  }

  init(rampDelay: Duration = UploadConstants.parallelRampUpDelay) { self.rampDelay = rampDelay }

  /// When one more request may go out beside those in flight; nil while there are as many as there may be.
  mutating func nextStart(inFlight: Int, limit: Int, at now: MonotonicTime) -> MonotonicTime? {
    if inFlight == 0 { forgetStalls(at: now) }
    guard inFlight < limit else { return nil }
    if let idleSince, inFlight == 0, now - idleSince >= UploadConstants.keepAliveInterval { opened = 0 }
    guard inFlight >= opened, opened > 0, let lastOpened else { return now }
    return max(now, lastOpened + rampDelay)
  }

  /// A request has gone out; so many are in flight now.
  mutating func started(inFlight: Int, at now: MonotonicTime) {
    idleSince = nil
    guard inFlight > opened else { return }
    opened = inFlight
    lastOpened = now
  }

  /// A request has ended; so many are in flight now.
  mutating func ended(inFlight: Int, at now: MonotonicTime) {
    if inFlight == 0 { idleSince = now }
  }

  /// So many connections are known to be warm.
  mutating func warmed(_ connections: Int, at now: MonotonicTime) {
    guard connections > opened else { return }
    opened = connections
    lastOpened = lastOpened ?? now
  }

  /// The connections are gone.
  mutating func connectionsLost() { opened = 0 }

  /// A chunk request was slower than a request may be: the link is shared by too many.
  mutating func stalled(at now: MonotonicTime) {
    defer { stalledAt = now }
    // Streams that stall together are one sign.
    if let stalledAt, now - stalledAt < UploadConstants.parallelismAdjustInterval { return }
    stallBound = max(Self.streamsMin, streams / 2)
    streams = min(streams, stallBound)
  }

  /// A file that comes long after a stall starts as if there had been none: `adjust` is called only while requests are in flight.
  private mutating func forgetStalls(at now: MonotonicTime) {
    while let stalledAt, now - stalledAt >= Self.stallMemory {
      stallBound = min(SpeedTier.unknown.parallelChunks, stallBound * 2)
      self.stalledAt = stallBound < SpeedTier.unknown.parallelChunks ? stalledAt + Self.stallMemory : nil
    }
    if wanted > streams {
      cut = nil
      streams = wanted
    }
  }

  private var wanted: Int { max(Self.streamsMin, min(max(tier.parallelChunks, streamsNeeded), stallBound)) }

  /// Adjusts the plan to the estimate.
  mutating func adjust(to bytesPerSecond: Double?, at now: MonotonicTime) {
    forgetStalls(at: now)
    tier = SpeedTier(bytesPerSecond: bytesPerSecond)
    if let cut, let bytesPerSecond, bytesPerSecond < 0.8 * cut.bytesPerSecond {
      streamsNeeded = cut.streams
      self.cut = nil
    }
    if wanted < streams, let bytesPerSecond, cut == nil { cut = Cut(streams: streams, bytesPerSecond: bytesPerSecond) }
    if wanted > streams { cut = nil }
    streams = wanted
  }
}
