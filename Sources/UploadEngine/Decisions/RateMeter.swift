/// Bytes per second over the last few seconds, for people to read. No decision is taken from it.
struct RateMeter: Hashable, Sendable {
  private static let windowSeconds = 3.0
  private var bytesPerSecond = 0.0
  private var last: MonotonicTime?

  /// Bytes were acknowledged.
  mutating func add(_ bytes: Int, at now: MonotonicTime) {
    let elapsed = last.map { max(0, (now - $0).seconds) } ?? 0
    let kept = Self.kept(over: elapsed)
    bytesPerSecond = bytesPerSecond * kept + Double(bytes) / Self.windowSeconds
    last = now
  }

  /// The rate as seen now: it fades when nothing is added.
  func rate(at now: MonotonicTime) -> Double {
    guard let last else { return 0 }
    let rate = bytesPerSecond * Self.kept(over: max(0, (now - last).seconds))
    return rate < 1 ? 0 : rate
  }

  /// The weight of what was measured before `seconds`: e^(−t/window), from the compound form so that nothing but
  /// arithmetic is needed here.
  private static func kept(over seconds: Double) -> Double {
    guard seconds < windowSeconds * 20 else { return 0 }
    var factor = 1 - seconds / windowSeconds / 1024
    for _ in 0..<10 { factor *= factor }
    return max(0, factor)
  }
}
