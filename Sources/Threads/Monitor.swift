public import Glibc

/// A value behind a lock, with a condition to wait on: what `Synchronization.Mutex` lacks.
///
/// - Note: `@unchecked Sendable` is sound because `state` is reached through ``withLock(_:)`` only, with the lock held,
///   and the lock and the condition live at fixed addresses until `deinit`.
public final class Monitor<State>: @unchecked Sendable {
  @usableFromInline
  let mutex: UnsafeMutablePointer<pthread_mutex_t>
  @usableFromInline
  let condition: UnsafeMutablePointer<pthread_cond_t>
  @usableFromInline
  var state: State

  /// What a holder of the lock may do besides changing the state. Must not be kept beyond the call.
  public struct Signal {
    private let condition: UnsafeMutablePointer<pthread_cond_t>

    @usableFromInline
    init(condition: UnsafeMutablePointer<pthread_cond_t>) { self.condition = condition }

    /// Wakes one waiting thread.
    public func signal() {
      pthread_cond_signal(condition)
    }

    /// Wakes every waiting thread.
    public func broadcast() {
      pthread_cond_broadcast(condition)
    }
  }

  /// The state at first.
  public init(_ initial: State) {
    state = initial
    mutex = .allocate(capacity: 1)
    mutex.initialize(to: pthread_mutex_t())
    pthread_mutex_init(mutex, nil)
    condition = .allocate(capacity: 1)
    condition.initialize(to: pthread_cond_t())
    // Timed waits must not be moved by a step of the wall clock.
    var attributes = pthread_condattr_t()
    pthread_condattr_init(&attributes)
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    pthread_cond_init(condition, &attributes)
    pthread_condattr_destroy(&attributes)
  }

  deinit {
    pthread_cond_destroy(condition)
    condition.deallocate()
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
  }

  /// Wakes every waiting thread, without the lock: a thread that is woken while it is held sleeps at once again.
  public func broadcast() {
    pthread_cond_broadcast(condition)
  }

  /// Runs `body` with the lock held. Nothing foreign may be called in it.
  @inlinable
  public func withLock<Result, Failure: Error>(_ body: (inout State, Signal) throws(Failure) -> Result) throws(Failure)
    -> Result
  {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    return try body(&state, Signal(condition: condition))
  }

  /// What the state means for the wait.
  public enum WaitDecision<Result> {
    /// Look again after a signal (or for no reason).
    case again
    /// Look again after a signal, and at the latest at this instant of the monotonic clock.
    case againBy(nanoseconds: Int64)
    /// The wait is over.
    case done(Result)
  }

  /// Asks `decide` about the state, with the lock held, until the wait is over; in between, the lock is given up.
  ///
  /// Each call of `decide` is an access of its own. A wait *inside* an `inout` access would break Swift's law of exclusivity: while the
  /// lock is given up others change the state, and the optimiser, which may rely on no such change, goes on with what it
  /// has in registers. A release build then waits for ever.
  @inlinable
  public func wait<Result>(_ decide: (inout State) -> WaitDecision<Result>) -> Result {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    while true {
      switch decide(&state) {
      case .again:
        pthread_cond_wait(condition, mutex)
      case .againBy(let deadlineNanoseconds):
        var time = timespec()
        time.tv_sec = Int(deadlineNanoseconds / 1_000_000_000)
        time.tv_nsec = Int(deadlineNanoseconds % 1_000_000_000)
        pthread_cond_timedwait(condition, mutex, &time)
      case .done(let result):
        return result
      }
    }
  }
}

/// Now, on the clock that ``Monitor`` waits by.
public func monotonicNanoseconds() -> Int64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}
