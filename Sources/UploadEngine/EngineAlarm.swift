/// Until when the engine's timer sleeps.
final class EngineAlarm: Sendable {
  private struct State {
    var deadline: MonotonicTime?
    var isStopping = false
  }

  private let state = Monitor(State())

  /// The next instant at which something is due; nil for never. Never waits.
  func set(_ deadline: MonotonicTime?) {
    state.withLock { alarm, signal in
      guard alarm.deadline != deadline else { return }
      // A timer that still sleeps until an earlier instant looks then when it is to wake next.
      let isSooner = (deadline?.nanoseconds ?? .max) < (alarm.deadline?.nanoseconds ?? .max)
      alarm.deadline = deadline
      if isSooner { signal.signal() }
    }
  }

  /// Waits until the deadline is there, which is then over; false when it is to end.
  func wait() -> Bool {
    state.wait { alarm -> Monitor<State>.Look<Bool> in
      if alarm.isStopping { return .done(false) }
      guard let deadline = alarm.deadline else { return .again }
      if deadline.nanoseconds > monotonicNanoseconds() { return .againBy(nanoseconds: deadline.nanoseconds) }
      alarm.deadline = nil
      return .done(true)
    }
  }

  func stop() {
    state.withLock { alarm, signal in
      alarm.isStopping = true
      signal.broadcast()
    }
  }
}
