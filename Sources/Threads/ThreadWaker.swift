import CLinux

/// Wakes one thread, without a lock: a thread that rings may be preempted at any point, and no other one waits for that.
///
/// - Note: `@unchecked Sendable` is sound because its words are reached by atomic operations alone, and live at a fixed address until
///   `deinit`.
public final class ThreadWaker: @unchecked Sendable {
  private let waker: UnsafeMutablePointer<uploadfs_bell>

  /// A bell that has not rung.
  public init() {
    waker = .allocate(capacity: 1)
    waker.initialize(to: uploadfs_bell(has_rung: 0, is_awaited: 0))
  }

  deinit { waker.deallocate() }

  /// Wakes the thread that waits, or is about to. What was written before is seen by it.
  public func ring() { uploadfs_ring(waker) }

  /// Waits until it has rung since the last wait. Only one thread waits.
  public func wait() { _ = uploadfs_await_ring(waker, -1) }

  /// Waits until it has rung, or until this instant of the monotonic clock.
  public func wait(untilNanoseconds deadline: Int64) { _ = uploadfs_await_ring(waker, max(0, deadline)) }
}
