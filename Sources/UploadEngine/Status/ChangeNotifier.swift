import Threads

/// Tells one observer that something has changed: at once after a quiet time, and then at most once in an interval. A
/// thread of its own calls the observer, with no lock held.
final class ChangeNotifier: Sendable {
  private struct State {
    var observer: (@Sendable () -> Void)?
    var hasNews = false
    var isStopped = false
    var thread: WorkerThread?
  }

  private let state = Monitor(State())
  private let intervalNanoseconds: Int64

  init(interval: Duration) {
    let parts = interval.components
    intervalNanoseconds = parts.seconds * 1_000_000_000 + parts.attoseconds / 1_000_000_000
  }

  deinit { stop() }

  func observe(_ observer: @escaping @Sendable () -> Void) {
    let state = state
    let interval = intervalNanoseconds
    state.withLock { locked, signal in
      locked.observer = observer
      guard locked.thread == nil, !locked.isStopped else { return }
      // The thread holds the state and not this object, whose `deinit` ends it.
      locked.thread = WorkerThread("status", .answering) { Self.run(state, interval) }
    }
  }

  /// Notes that something has changed. Cheap; any thread.
  func note() {
    state.withLock { state, signal in
      guard !state.hasNews else { return }
      state.hasNews = true
      signal.signal()
    }
  }

  /// Ends the thread; the observer is not called after this has returned.
  func stop() {
    let thread = state.withLock { state, signal in
      state.isStopped = true
      signal.signal()
      return state.thread.take()
    }
    thread?.join()
  }

  private static func run(_ state: Monitor<State>, _ interval: Int64) {
    var nextCall: Int64 = 0
    while let observer = nextObserver(state, notBefore: nextCall) {
      observer()
      nextCall = monotonicNanoseconds() + interval
    }
  }

  /// Waits for news and for the interval's end; nil when it is over.
  private static func nextObserver(_ state: Monitor<State>, notBefore earliest: Int64) -> (@Sendable () -> Void)? {
    state.wait { state in
      if state.isStopped { return .done(nil) }
      guard state.hasNews else { return .again }
      if monotonicNanoseconds() < earliest { return .againBy(nanoseconds: earliest) }
      state.hasNews = false
      return .done(state.observer)
    }
  }
}
