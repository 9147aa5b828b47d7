import Glibc

/// What the kernel has to be told outside of any request, kept for the one thread that tells it.
///
/// Telling waits for locks that the kernel holds during requests, so a handler only leaves a notice here. When the queue
/// is full the notice is dropped: the kernel then learns from the next request that the entry is stale.
final class NoticeQueue: @unchecked Sendable {
  // Sound because everything below the lock is touched only while it is held, and the two C objects stay at one address
  // until nobody can reach this object any more.
  private let lock: UnsafeMutablePointer<pthread_mutex_t>
  private let arrival: UnsafeMutablePointer<pthread_cond_t>
  private var removed: [RemovedEntry] = []
  private var hasVirtualChange = false
  private var isClosed = false

  static let capacity = 4096

  /// An entry that the daemon itself took away.
  struct RemovedEntry: Hashable, Sendable {
    var entry: DirectoryEntry
    var node: NodeID
  }

  /// What has come in since the last time.
  struct Batch: Sendable {
    var removed: [RemovedEntry]
    var hasVirtualChange: Bool
  }

  init() {
    lock = .allocate(capacity: 1)
    arrival = .allocate(capacity: 1)
    pthread_mutex_init(lock, nil)
    pthread_cond_init(arrival, nil)
  }

  deinit {
    pthread_cond_destroy(arrival)
    pthread_mutex_destroy(lock)
    arrival.deallocate()
    lock.deallocate()
  }

  func entryRemoved(_ removed: RemovedEntry) {
    post { if self.removed.count < Self.capacity { self.removed.append(removed) } }
  }

  func virtualTreeChanged() {
    post { hasVirtualChange = true }
  }

  /// Ends the thread that waits in ``next()``.
  func close() {
    post { isClosed = true }
  }

  /// Waits for notices; nil once the queue is closed.
  func next() -> Batch? {
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    while removed.isEmpty, !hasVirtualChange, !isClosed { pthread_cond_wait(arrival, lock) }
    guard !isClosed else { return nil }
    defer {
      removed = []
      hasVirtualChange = false
    }
    return Batch(removed: removed, hasVirtualChange: hasVirtualChange)
  }

  private func post(_ change: () -> Void) {
    pthread_mutex_lock(lock)
    change()
    pthread_cond_signal(arrival)
    pthread_mutex_unlock(lock)
  }
}
