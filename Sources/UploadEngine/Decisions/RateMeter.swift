import TransferModel

/// Bytes per second over the last ten seconds, for people to read. No decision is taken from it.
struct RateMeter: Hashable, Sendable {
  private static let windowSeconds = 10
  /// A rate over less time says little: a line begins slowly.
  private static let steadySeconds = 4.0
  /// The latest half of the measurement may differ from all of it by this ratio. Beyond it the rate is still changing,
  /// and what is shown is wrong by as much.
  private static let steadyRatio = 1.2

  /// Bytes of each second, the latest one last.
  private var seconds: [Int] = []
  /// The latest of these seconds, since the clock's beginning.
  private var second: Int64 = 0
  /// When this run of bytes began.
  private var start: MonotonicTime?

  /// Bytes have arrived.
  mutating func add(_ bytes: Int, at now: MonotonicTime) {
    guard bytes > 0 else { return }
    advance(to: now)
    if start == nil { start = now }
    if seconds.isEmpty { seconds = [0] }
    seconds[seconds.count - 1] += bytes
  }

  /// The present rate; 0 where nothing has arrived within the window.
  func rate(at now: MonotonicTime) -> Double { rate(at: now, over: Double(Self.windowSeconds)) }

  /// The present rate, if the remaining time can be computed from it.
  func steadyRate(at now: MonotonicTime) -> Double? {
    guard let start else { return nil }
    let age = (now - start).seconds
    guard age >= Self.steadySeconds else { return nil }
    let measured = min(age, Double(Self.windowSeconds))
    let (whole, latest) = (rate(at: now, over: measured), rate(at: now, over: measured / 2))
    guard whole > 0, latest > 0, max(whole, latest) / min(whole, latest) <= Self.steadyRatio else { return nil }
    // The first half of a measurement is the slow start: over a long line that is a third less than what follows.
    return rate(at: now, over: min(age / 2, Double(Self.windowSeconds)))
  }

  private func rate(at now: MonotonicTime, over window: Double) -> Double {
    var meter = self
    meter.advance(to: now)
    guard let start = meter.start else { return 0 }
    let window = min(window, max((now - start).seconds, 1))
    // The current second counts for the part of it that has passed.
    let passed = Double(now.nanoseconds - meter.second * 1_000_000_000) / 1_000_000_000
    var (bytes, left) = (0.0, window)
    for (index, count) in meter.seconds.reversed().enumerated() {
      let length = index == 0 ? max(passed, 0.001) : 1
      bytes += Double(count) * min(1, left / length)
      left -= length
      if left <= 0 { break }
    }
    let rate = bytes / window
    return rate < 1 ? 0 : rate
  }

  private mutating func advance(to now: MonotonicTime) {
    let current = now.nanoseconds / 1_000_000_000
    let steps = current - second
    guard steps > 0 else { return }
    second = current
    guard !seconds.isEmpty else { return }
    // Nothing has arrived for so long that the next bytes begin a new run.
    guard steps <= Self.windowSeconds else { return self = RateMeter(second: current) }
    seconds += Array(repeating: 0, count: Int(steps))
    if seconds.count > Self.windowSeconds + 1 { seconds.removeFirst(seconds.count - Self.windowSeconds - 1) }
    if seconds.allSatisfy({ $0 == 0 }) { self = RateMeter(second: current) }
  }

  init() {}

  private init(second: Int64) { self.second = second }
}
