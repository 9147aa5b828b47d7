import Glibc
import Threads
public import TransferModel

/// Where the engine's driver gets the time from; a simulation brings its own.
public protocol EngineClock: Sendable {
  /// All clocks, read together.
  func now() -> ClockReading
}

/// The machine's clocks.
public struct SystemClock: EngineClock {
  /// The machine's clocks.
  public init() {}

  /// CLOCK_MONOTONIC and CLOCK_REALTIME, and by how much CLOCK_BOOTTIME is ahead of the first.
  public func now() -> ClockReading {
    let monotonic = monotonicNanoseconds()
    return ClockReading(
      monotonic: MonotonicTime(nanoseconds: monotonic), wallMilliseconds: Self.nanoseconds(CLOCK_REALTIME) / 1_000_000,
      asleep: .nanoseconds(Self.nanoseconds(CLOCK_BOOTTIME) - monotonic))
  }

  private static func nanoseconds(_ clock: clockid_t) -> Int64 {
    var time = timespec()
    clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }
}
