/// The time that counts: that in which this program runs. Nothing moves, and nothing rests, while the machine sleeps (the monotonic clock
/// stands) or the program is stopped, frozen or without a processor (it goes on, and deadlines are met late).
package struct RunningTime: Sendable {
  /// What the monotonic clock has counted without the program.
  private var lost: Duration = .zero
  /// As the clocks were last read.
  private var latest: ClockReading?

  package init() {}

  /// The time at which something happens, and how long nothing was done before it, where that is worth a word.
  /// `wantedAt`: when something was to be done, in this time; nil where nothing was.
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

  /// The same for what changes nothing.
  func shown(_ clocks: ClockReading) -> ClockReading {
    var now = clocks
    now.monotonic = MonotonicTime(nanoseconds: clocks.monotonic.nanoseconds - lost.wholeNanoseconds)
    return now
  }

  /// What the monotonic clock will show at a point of this time, if the program runs until then.
  func clock(at time: MonotonicTime) -> MonotonicTime { time + lost }
}
