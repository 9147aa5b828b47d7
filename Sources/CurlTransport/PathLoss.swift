/// Decides whether the way to a server loses packets for another reason than a full queue. Pure: the loop tells it the counts.
///
/// A sender that fills the queue before the line loses packets as well, and is to slow down then. It sees round trips that are
/// longer than the shortest one by what the queue holds. Where no queue is seen and packets are lost, the line loses them, and
/// loss is what limits the sender. So packets of a connection count that were sent between two looks at which none was seen. One look
/// with a longer round trip alone says little: acknowledgements that are delayed make that of a small window longer as well.
///
/// A queue of a few packets is not seen, and loses those of a burst. Whether it is one shows once `bbr` is used: on 20 Mbit/s and
/// 60 ms with a queue of 20 packets it loses ten times as many packets as `cubic` (29 %), and is slower. A line that loses
/// packets by itself goes on to lose the same part of them, or is at last filled: twelve connections with `bbr` overflow a queue of
/// half a round trip (15 % of the packets on 20 Mbit/s and 200 ms) and carry four times as much as before. So where far more is lost,
/// the trial is in vain only if a sender that backs off from each loss would carry half as much.
struct PathLoss {
  /// What becomes of the connections to the server.
  enum Verdict: Hashable {
    /// They get `bbr`.
    case tries
    /// They get the system's choice again, until the network changes.
    case goesBack
  }

  private enum State {
    case measuring
    /// `bbr` is used; before, this part of the packets was lost.
    case trying(lostBefore: Double)
    case helped
    case inVain
  }

  /// Segments after which a trial is judged.
  static let trialSegments: Int64 = 2_000
  /// It was in vain where more is lost than this, and than so many times what was lost before.
  static let trialLossMax = 0.06
  static let trialLossRatio = 1.5
  /// … and connections carry less than so many times what loss would leave them without `bbr`.
  static let trialGainMin = 2.0

  /// About one lost packet of 2,000: with fewer, twelve streams of `cubic` fill 100 Mbit/s at 100 ms.
  static let shareMin = 0.0005
  /// Fewer may be chance.
  static let lossesMin: Int64 = 5
  /// Of fewer segments the share is not known well enough to judge a trial by: a burst that a short queue has dropped is a fifth
  /// of the first ones.
  static let segmentsMin: Int64 = 500
  /// What was seen long ago counts less and less: both counts are halved beyond this.
  static let segmentsMax: Int64 = 20_000
  /// A queue is seen where the round trip is longer than the shortest one by more than this: a part of it, and what timers and
  /// acknowledgements add.
  static let queueShareMin = 0.05
  static let queueTimeMin: Duration = .milliseconds(2)

  /// Sent where no queue was seen; since the trial began, all.
  private var segments: Int64 = 0
  /// Below zero where losses turn out to be none that were counted before.
  private var losses: Int64 = 0
  /// In the trial, the segments that arrived in a round trip, each look's as often as it saw segments sent.
  private var segmentsPerRoundTrip = 0.0
  /// What was found out stays until the network changes: under `bbr` the loss of a line does not go away.
  private var state = State.measuring

  /// Connections have `bbr`, to try it or for good.
  var usesBBR: Bool {
    switch state {
    case .trying, .helped: true
    case .measuring, .inVain: false
    }
  }

  /// Connections may still have `bbr`, and are to have the system's choice.
  var hasGoneBack: Bool { if case .inVain = state { true } else { false } }

  /// What one connection has counted since the last look at it.
  mutating func add(from before: SocketCounts, to now: SocketCounts) -> Verdict? {
    switch state {
    case .measuring: return measure(from: before, to: now)
    case .trying(let lostBefore):
      count(from: before, to: now)
      segmentsPerRoundTrip += Double(now.segments &- before.segments) * now.segmentsPerRoundTrip
      guard segments >= Self.trialSegments else { return nil }
      let isInVain =
        lossShare > max(Self.trialLossMax, Self.trialLossRatio * lostBefore)
        && segmentsPerRoundTrip / Double(segments) < Self.trialGainMin * Self.windowOfLossBased(losing: lostBefore)
      state = isInVain ? .inVain : .helped
      return isInVain ? .goesBack : nil
    case .helped, .inVain: return nil
    }
  }

  private mutating func measure(from before: SocketCounts, to now: SocketCounts) -> Verdict? {
    // Where a queue was seen at the look before, what was lost since may have been lost in it.
    guard !seesQueue(before), !seesQueue(now) else { return nil }
    count(from: before, to: now)
    if segments >= Self.segmentsMin, losses >= Self.lossesMin, lossShare >= Self.shareMin {
      state = .trying(lostBefore: lossShare)
      (segments, losses) = (0, 0)
      return .tries
    }
    while segments > Self.segmentsMax {
      segments /= 2
      losses /= 2
    }
    return nil
  }

  private func seesQueue(_ counts: SocketCounts) -> Bool {
    counts.roundTrip - counts.roundTripLeast > counts.roundTripLeast * Self.queueShareMin + Self.queueTimeMin
  }

  /// Segments in flight, on average, of a sender that halves them with each loss and adds one in each round trip: √(3/2 ÷ loss)
  /// (Mathis and others, “The macroscopic behavior of the TCP congestion avoidance algorithm”, 1997). `cubic` has no more where windows
  /// are small.
  private static func windowOfLossBased(losing share: Double) -> Double {
    (1.5 / max(share, .leastNonzeroMagnitude)).squareRoot()
  }

  private var lossShare: Double { Double(losses) / Double(max(1, segments)) }

  private mutating func count(from before: SocketCounts, to now: SocketCounts) {
    segments += Int64(now.segments &- before.segments)
    losses += Int64(now.lost) - Int64(before.lost)
  }
}
