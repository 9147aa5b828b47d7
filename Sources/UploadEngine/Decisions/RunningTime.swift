package import TransferModel

/// The time that counts: that in which this program runs. Nothing moves, and nothing rests, while the machine sleeps,
/// when the monotonic clock stops. The same holds while the program is stopped, frozen or without a processor, when the
/// clock runs on and deadlines are handled late.
package struct RunningTime: Sendable {
  /// The time that the monotonic clock has counted without the program.
  private var lost: Duration = .zero
  /// The latest reading of the clocks.
  private var latest: ClockReading?

  package init() {}

  /// The time at which something happens, and how long nothing was done before it, where that is worth reporting.
  /// `wantedAt`: the earliest deadline, in this time; nil where there is none.
  package mutating func read(_ clocks: ClockReading, wantedAt: MonotonicTime?) -> (now: ClockReading, pause: Duration?)
  {
    defer { latest = clocks }
    guard let latest else { return (shown(clocks), nil) }
    var pause = clocks.asleep - latest.asleep
    if let wantedAt {
      let late = clocks.monotonic - max(latest.monotonic, clock(at: wantedAt))
      if late >= UploadConstants.pauseMin {
        lost += late
        pause += late
      }
    }
    return (shown(clocks), pause >= UploadConstants.pauseMin ? pause : nil)
  }

  /// The same for a call that changes nothing.
  func shown(_ clocks: ClockReading) -> ClockReading {
    var now = clocks
    now.monotonic = MonotonicTime(nanoseconds: clocks.monotonic.nanoseconds - lost.wholeNanoseconds)
    return now
  }

  /// What the monotonic clock will show at a point of this time, if the program runs until then.
  func clock(at time: MonotonicTime) -> MonotonicTime { time + lost }
}
