import TransferModel

/// Decides whether a transfer has stalled (docs/design/scheduling.md#the-line). Pure: the loop tells it the time and the counts.
///
/// While anything moves to its server, it has not: transfers that share a slow line get their parts of it in bursts, and
/// one of them may rest for as long as one that has stalled. A connection that is dead while others are well is found by its missing
/// acknowledgements (TCP_USER_TIMEOUT), and by the watchdog of its request.
///
/// libcurl's own check (CURLOPT_LOW_SPEED_TIME) looks at an average over five seconds, so that a fast transfer that stops
/// dead is noticed only after ten; and it counts the time in which a server digests what it has received.
struct StallMeter {
  private let window: Duration
  private let bytesPerWindow: Double
  private let bodyByteCount: Int
  private let answer: Duration
  /// Since when, and from which count on, too little has moved.
  private var mark: (at: ContinuousClock.Instant, pathBytes: Int)?
  private var isWaiting = false
  private var lookedAt: ContinuousClock.Instant?

  /// It is called several times a second: after so long the machine slept, or the program did not run, and nothing could move.
  private static let pauseMin: Duration = .seconds(2)

  /// Nil when the limits ask for no such check.
  init?(_ limits: HTTPRequestLimits, bodyByteCount: Int) {
    guard limits.stall > .zero else { return nil }
    window = limits.stall
    bytesPerWindow = Double(limits.stallBytesPerSecond) * (limits.stall / .seconds(1))
    self.bodyByteCount = bodyByteCount
    answer = limits.answer
  }

  /// True when less than its limit has moved for as long as it may. Called now and then once the connection
  /// is established; how often decides how exact the answer is, not whether it is right.
  /// - Parameter pathBytes: What all transfers to its server have moved since some moment, in both directions.
  mutating func isStalled(
    at now: ContinuousClock.Instant, uploaded: Int, downloaded: Int, pathBytes: Int
  ) -> Bool {
    let wasWaiting = isWaiting
    isWaiting = uploaded >= bodyByteCount && downloaded == 0
    let hasPaused = lookedAt.map { now - $0 >= Self.pauseMin } ?? false
    lookedAt = now
    guard let mark, !hasPaused, isWaiting == wasWaiting, !hasMoved(pathBytes &- mark.pathBytes) else {
      mark = (now, pathBytes)
      return false
    }
    // Everything has arrived: the server may take its time to verify and store it.
    return mark.at.duration(to: now) >= (isWaiting ? max(window, answer) : window)
  }

  /// What follows is looked at as if it began now.
  mutating func restart() { mark = nil }

  private func hasMoved(_ bytes: Int) -> Bool { !isWaiting && Double(bytes) >= bytesPerWindow }
}
