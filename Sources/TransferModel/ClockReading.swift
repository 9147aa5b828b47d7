/// A point of the monotonic clock, in nanoseconds from an arbitrary origin.
public struct MonotonicTime: Hashable, Sendable, Comparable {
  /// Nanoseconds from the clock's origin.
  public let nanoseconds: Int64

  /// The point this many nanoseconds after the origin.
  public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  /// A later point; far beyond the clock's range it is the last one.
  public static func + (time: MonotonicTime, duration: Duration) -> MonotonicTime {
    let (sum, overflow) = time.nanoseconds.addingReportingOverflow(duration.wholeNanoseconds)
    return MonotonicTime(nanoseconds: overflow ? .max : sum)
  }

  /// The time between two points.
  public static func - (later: MonotonicTime, earlier: MonotonicTime) -> Duration {
    .nanoseconds(later.nanoseconds &- earlier.nanoseconds)
  }

  /// Clock order.
  public static func < (left: MonotonicTime, right: MonotonicTime) -> Bool { left.nanoseconds < right.nanoseconds }
}

/// One instant on both clocks. Decisions use the monotonic one; the wall clock, which may jump, is only ever shown to
/// people or compared with a server's dates.
public struct ClockReading: Hashable, Sendable {
  /// For decisions.
  public var monotonic: MonotonicTime
  /// Milliseconds since 1970, for people.
  public var wallMilliseconds: Int64
  /// How long the machine has slept since its start: the monotonic clock stops meanwhile.
  public var asleep: Duration

  /// One instant, read from the clocks together.
  public init(monotonic: MonotonicTime, wallMilliseconds: Int64, asleep: Duration = .zero) {
    self.monotonic = monotonic
    self.wallMilliseconds = wallMilliseconds
    self.asleep = asleep
  }

  /// The wall time at another monotonic point, provided that the wall clock does not jump in between.
  package func wallMilliseconds(at time: MonotonicTime) -> Int64 {
    wallMilliseconds &+ (time - monotonic).wholeNanoseconds / 1_000_000
  }
}

extension Duration {
  /// The duration in nanoseconds, clamped to what 64 bits hold (292 years).
  package var wholeNanoseconds: Int64 {
    let (seconds, attoseconds) = components
    let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    if overflow { return seconds < 0 ? .min : .max }
    let (sum, overflowed) = scaled.addingReportingOverflow(attoseconds / 1_000_000_000)
    return overflowed ? (seconds < 0 ? .min : .max) : sum
  }

  /// The duration in seconds.
  package var seconds: Double { Double(wholeNanoseconds) / 1e9 }
}
