import Lookup

/// What is to be looked at, and when, earliest first.
///
/// A timer runs once at a time: one that runs is not started again, and runs no more once it has fired. Of deadlines there may be any number, also
/// ones that no longer matter; who is told of one looks whether it does.
struct Timers<Timer: Hashable & Sendable, Deadline: Sendable>: Sendable {
  enum Due: Sendable {
    case timer(Timer)
    case deadline(Deadline)
  }

  private var heap = MinimumHeap<MonotonicTime, Due>()
  private var running: LookupSet<Timer> = []

  /// The earliest time.
  var first: MonotonicTime? { heap.first?.key }

  /// It was started, and has not fired since.
  func isRunning(_ timer: Timer) -> Bool { running.contains(timer) }

  /// Has it fire at this time. Without effect while it runs, whatever time that was for.
  mutating func start(_ timer: Timer, at time: MonotonicTime) {
    guard running.insert(timer).inserted else { return }
    heap.insert(.timer(timer), at: time)
  }

  mutating func insert(_ deadline: Deadline, at time: MonotonicTime) { heap.insert(.deadline(deadline), at: time) }

  /// Takes what is earliest if its time has come.
  mutating func popDue(at now: MonotonicTime) -> Due? {
    guard let first = heap.first, first.key <= now else { return nil }
    heap.removeFirst()
    if case .timer(let timer) = first.value { running.remove(timer) }
    return first.value
  }
}
