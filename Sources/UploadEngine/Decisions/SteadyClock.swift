import TransferModel

/// The wall clock as it would have run on from its first reading. How long something is kept is counted by this clock,
/// so that setting the wall clock expires nothing early or late.
struct SteadyClock: Sendable {
  private var first: ClockReading?

  /// Milliseconds since 1970, had the clock not been set since the first reading.
  mutating func milliseconds(at now: ClockReading) -> Int64 {
    let first = first ?? now
    self.first = first
    let passed = (now.monotonic - first.monotonic) + (now.asleep - first.asleep)
    return first.wallMilliseconds &+ passed.wholeNanoseconds / 1_000_000
  }
}
