import HeapModule
import TransferModel

/// Time that passes only from one event to the next, and all pending events.
///
/// Events of one instant happen in the order in which they were scheduled, so that a seed always gives the same run.
final class VirtualTime {
  private struct Event: Comparable {
    var time: Int64
    var sequence: UInt64
    var action: () -> Void

    static func < (left: Event, right: Event) -> Bool { (left.time, left.sequence) < (right.time, right.sequence) }
    static func == (left: Event, right: Event) -> Bool { left.sequence == right.sequence }
  }

  private static let wallStart: Int64 = 1_760_000_000_000_000_000
  private var events = Heap<Event>()
  private var nextSequence: UInt64 = 0
  /// Nanoseconds of the monotonic clock. Not 0, so that a missing time is not taken for the start.
  private(set) var nanoseconds: Int64 = 1_000_000_000
  /// How long both machines have slept: wall clocks continue, and nothing else does.
  private var sleptNanoseconds: Int64 = 0
  /// How far the wall clock of the capturing machine has been set wrong.
  var wallJump: Duration = .zero

  /// Both clocks of the capturing machine.
  var clockReading: ClockReading {
    ClockReading(
      monotonic: MonotonicTime(nanoseconds: nanoseconds), wallMilliseconds: wallNanoseconds / 1_000_000,
      asleep: .nanoseconds(sleptNanoseconds))
  }

  /// The capturing machine's wall clock.
  var wallNanoseconds: Int64 { Self.wallStart + nanoseconds + sleptNanoseconds + wallJump.nanoseconds }

  /// The receiver's wall clock in milliseconds; it is never set, but is three minutes late.
  var receiverMilliseconds: Int64 { (Self.wallStart + nanoseconds + sleptNanoseconds) / 1_000_000 - 180_000 }

  /// Nanoseconds since the start.
  var sinceStart: Int64 { nanoseconds - 1_000_000_000 }

  /// Since the start.
  var seconds: Double { Double(sinceStart) / 1e9 }

  func sleep(for duration: Duration) { sleptNanoseconds += duration.nanoseconds }

  func after(_ delay: Duration, _ action: @escaping () -> Void) {
    at(nanoseconds + max(0, delay.nanoseconds), action)
  }

  func at(_ time: Int64, _ action: @escaping () -> Void) {
    events.insert(Event(time: max(time, nanoseconds), sequence: nextSequence, action: action))
    nextSequence += 1
  }

  /// Runs the next event; false when there is none.
  func step() -> Bool {
    guard let first = events.popMin() else { return false }
    nanoseconds = first.time
    first.action()
    return true
  }

  /// Ends the simulation: the events are released.
  func end() { events = Heap() }
}
