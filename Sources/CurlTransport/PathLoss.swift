/// Decides whether the way to a server loses packets for another reason than a full queue. Pure: the loop tells it the counts.
///
/// A sender that fills the queue before the line loses packets as well, and is to slow down then. It sees round trips that are
/// longer than the shortest one by what the queue holds. A packet that is lost while the queue is empty was lost by the line. A
/// short queue is empty now and then although it is what loses packets, so most losses have to be of that kind.
struct PathLoss {
  /// About one lost packet of 2,000: with fewer, twelve streams of `cubic` fill 100 Mbit/s at 100 ms.
  static let shareMin = 0.0005
  /// Fewer may be chance.
  static let lossesMin: UInt64 = 5
  /// What was seen long ago counts less and less: all counts are halved beyond this.
  static let segmentsMax: UInt64 = 20_000
  /// A queue counts as empty while the round trip is at most this much longer than the shortest one: a part of it, and what
  /// timers and acknowledgements add.
  static let queueShareMax = 0.05
  static let queueTimeMax: Duration = .milliseconds(2)

  private var segments: UInt64 = 0
  private var losses: UInt64 = 0
  /// Of these, while the queue was empty.
  private var lossesOfLine: UInt64 = 0
  /// It stays so until the network changes: under `bbr` the loss does not go away.
  private(set) var isLossy = false

  /// What one connection has counted since the last look at it. True when the way has just turned out to lose packets.
  mutating func add(from before: SocketCounts, to now: SocketCounts) -> Bool {
    segments += UInt64(now.segments &- before.segments)
    let queued = now.roundTrip - now.roundTripLeast
    if now.lost > before.lost {
      losses += UInt64(now.lost - before.lost)
      let isQueueEmpty = queued <= now.roundTripLeast * Self.queueShareMax + Self.queueTimeMax
      if isQueueEmpty { lossesOfLine += UInt64(now.lost - before.lost) }
    }
    let wasLossy = isLossy
    isLossy =
      isLossy
      || lossesOfLine >= Self.lossesMin && 2 * lossesOfLine >= losses
        && Double(lossesOfLine) >= Self.shareMin * Double(segments)
    while segments > Self.segmentsMax {
      segments /= 2
      losses /= 2
      lossesOfLine /= 2
    }
    return isLossy && !wasLossy
  }
}
