import CLinux

/// Wakes one thread, without a lock: who rings may be preempted at any point, and nobody waits for that.
///
/// - Note: `@unchecked Sendable` is sound because the word is reached by atomic operations alone, and lives at a fixed address until
///   `deinit`.
public final class Bell: @unchecked Sendable {
  private let word: UnsafeMutablePointer<UInt32>

  /// A bell that has not rung.
  public init() {
    word = .allocate(capacity: 1)
    word.initialize(to: 0)
  }

  deinit { word.deallocate() }

  /// Wakes the thread that waits, or is about to. What was written before is seen by it.
  public func ring() { uploadfs_ring(word) }

  /// Waits until it has rung since the last wait. Only one thread waits.
  public func wait() { _ = uploadfs_await_ring(word, -1) }

  /// Waits until it has rung, or until this instant of the monotonic clock.
  public func wait(untilNanoseconds deadline: Int64) { _ = uploadfs_await_ring(word, max(0, deadline)) }
}
