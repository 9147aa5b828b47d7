import Glibc

/// Where the engine's driver gets the time from; a simulation brings its own.
public protocol EngineClock: Sendable {
  /// Both clocks, read together.
  func now() -> Moment
}

/// The machine's clocks.
public struct SystemClock: EngineClock {
  /// The machine's clocks.
  public init() {}

  /// CLOCK_MONOTONIC and CLOCK_REALTIME.
  public func now() -> Moment {
    Moment(
      monotonic: MonotonicTime(nanoseconds: monotonicNanoseconds()),
      wallMilliseconds: Self.nanoseconds(CLOCK_REALTIME) / 1_000_000)
  }

  private static func nanoseconds(_ clock: clockid_t) -> Int64 {
    var time = timespec()
    clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }
}
