import Lookup
import TransferModel

/// Timers and deadlines, earliest first.
///
/// A timer runs once at a time: a running timer is not started again, and no longer runs once it has fired. There may
/// be any number of deadlines, also stale ones; the handler of a deadline checks whether it still applies.
struct Timers<Timer: Hashable & Sendable, Deadline: Sendable>: Sendable {
  enum Due: Sendable {
    case timer(Timer)
    case deadline(Deadline)
  }

  private var heap = MinimumHeap<MonotonicTime, Due>()
  private var running: LookupSet<Timer> = []

  /// The earliest time.
  var first: MonotonicTime? { heap.first?.key }

  /// The timer was started, and has not fired since.
  func isRunning(_ timer: Timer) -> Bool { running.contains(timer) }

  /// Starts the timer for this time. Without effect while it runs, whatever time that was for.
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
