/// The wall clock as it would have gone on from its first reading. How long something is kept is counted by it, so that a clock that is set
/// makes nothing old, and keeps nothing for ever.
struct SteadyClock: Sendable {
  private var first: ClockReading?

  /// Milliseconds since 1970, had nothing but time moved the clock since the first reading.
  mutating func milliseconds(at now: ClockReading) -> Int64 {
    let first = first ?? now
    self.first = first
    let passed = (now.monotonic - first.monotonic) + (now.asleep - first.asleep)
    return first.wallMilliseconds &+ passed.wholeNanoseconds / 1_000_000
  }
}
