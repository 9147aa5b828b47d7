/// Decides whether the way to a server loses packets for another reason than a full queue. Pure: the loop tells it the counts.
///
/// A sender that fills the queue before the line loses packets as well, and is to slow down then. It sees round trips that are
/// longer than the shortest one by what the queue holds. Where no queue is seen and packets are lost, the line loses them, and
/// loss is what limits the sender. A short queue is empty at most moments, so that counting begins anew with each one that is
/// seen: on 20 Mbit/s and 60 ms with a queue of 20 packets, bbr loses ten times as many packets as cubic and is slower.
struct PathLoss {
  /// About one lost packet of 2,000: with fewer, twelve streams of `cubic` fill 100 Mbit/s at 100 ms.
  static let shareMin = 0.0005
  /// Fewer may be chance.
  static let lossesMin: Int64 = 5
  /// What was seen long ago counts less and less: both counts are halved beyond this.
  static let segmentsMax: Int64 = 20_000
  /// A queue is seen where the round trip is longer than the shortest one by more than this: a part of it, and what timers and
  /// acknowledgements add.
  static let queueShareMin = 0.05
  static let queueTimeMin: Duration = .milliseconds(2)

  /// Since a queue was last seen.
  private var segments: Int64 = 0
  /// Below zero where losses turn out to be none that were counted before a queue was seen.
  private var losses: Int64 = 0
  /// It stays so until the network changes: under `bbr` the loss does not go away.
  private(set) var isLossy = false

  /// What one connection has counted since the last look at it. True when the way has just turned out to lose packets.
  mutating func add(from before: SocketCounts, to now: SocketCounts) -> Bool {
    guard !isLossy else { return false }
    let queued = now.roundTrip - now.roundTripLeast
    guard queued <= now.roundTripLeast * Self.queueShareMin + Self.queueTimeMin else {
      (segments, losses) = (0, 0)
      return false
    }
    segments += Int64(now.segments &- before.segments)
    losses += Int64(now.lost) - Int64(before.lost)
    isLossy = losses >= Self.lossesMin && Double(losses) >= Self.shareMin * Double(segments)
    while segments > Self.segmentsMax {
      segments /= 2
      losses /= 2
    }
    return isLossy
  }
}
