import UploadEngine

/// Decides whether a transfer has stalled (spec E3). Pure: the loop tells it the time and the counts.
///
/// libcurl's own check (CURLOPT_LOW_SPEED_TIME) looks at an average over five seconds, so that a fast transfer that stops
/// dead is noticed only after ten; and it counts the time in which a server digests what it has received.
struct StallMeter {
  private let window: Duration
  private let bytesPerWindow: Double
  private let bodyByteCount: Int
  private let answer: Duration
  /// Since when, and from which count on, too little has moved.
  private var mark: (at: ContinuousClock.Instant, bytes: Int)?
  private var isWaiting = false

  /// Nil when the limits ask for no such check.
  init?(_ limits: HTTPRequestLimits, bodyByteCount: Int) {
    guard limits.stall > .zero else { return nil }
    window = limits.stall
    bytesPerWindow = Double(limits.stallBytesPerSecond) * (limits.stall / .seconds(1))
    self.bodyByteCount = bodyByteCount
    answer = limits.answer
  }

  /// True when the transfer has moved less than its limit for as long as it may. Called now and then once the connection
  /// is established; how often decides how exact the answer is, not whether it is right.
  mutating func isStalled(at now: ContinuousClock.Instant, uploaded: Int, downloaded: Int) -> Bool {
    let bytes = uploaded &+ downloaded
    let wasWaiting = isWaiting
    isWaiting = uploaded >= bodyByteCount && downloaded == 0
    guard let mark, isWaiting == wasWaiting, !hasMoved(bytes &- mark.bytes) else {
      mark = (now, bytes)
      return false
    }
    // Everything has been handed over: the server may take its time to verify and store it.
    return mark.at.duration(to: now) >= (isWaiting ? max(window, answer) : window)
  }

  private func hasMoved(_ bytes: Int) -> Bool { !isWaiting && Double(bytes) >= bytesPerWindow }
}
