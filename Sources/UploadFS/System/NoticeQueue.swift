import CLinux
import Glibc

/// What the kernel has to be told outside of any request, kept for the one thread that tells it.
///
/// Telling waits for locks that the kernel holds during requests, so a handler only leaves a notice here. When the queue
/// is full the notice is dropped: the kernel then learns from the next request that the entry is stale.
final class NoticeQueue: @unchecked Sendable {
  // Sound because everything below the lock is touched only while it is held, and the two C objects stay at one address
  // until no thread can reach this object any more.
  private let lock: UnsafeMutablePointer<pthread_mutex_t>
  private let arrival: UnsafeMutablePointer<pthread_cond_t>
  private var removed: [RemovedEntry] = []
  private var unneeded: [RemovedEntry] = []
  private var changed: [NodeID] = []
  private var stale: Set<NodeID> = []
  private var hasVirtualChange = false
  private var nextCheck: timespec?
  private var isClosed = false
  private let now: @Sendable () -> timespec

  static let capacity = 4096

  /// An entry that the daemon itself took away, or that the kernel need not know.
  struct RemovedEntry: Hashable, Sendable {
    var entry: DirectoryEntry
    var node: NodeID
  }

  /// What has come in since the last time.
  struct Batch: Sendable {
    var removed: [RemovedEntry]
    /// What stands there still, and is to be looked up again when it is wanted.
    var unneeded: [RemovedEntry]
    /// Captures whose attributes are not what the kernel was told.
    var changed: [NodeID]
    /// Captures of which the kernel may hold pages that are not what was written.
    var stale: Set<NodeID>
    var hasVirtualChange: Bool
    var isTimeToCheck: Bool
  }

  /// `now` stands in for the monotonic clock in tests; waiting goes by the real one.
  init(now: @escaping @Sendable () -> timespec = { NoticeQueue.monotonicNow }) {
    self.now = now
    lock = .allocate(capacity: 1)
    arrival = .allocate(capacity: 1)
    pthread_mutex_init(lock, nil)
    var attributes = pthread_condattr_t()
    pthread_condattr_init(&attributes)
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    pthread_cond_init(arrival, &attributes)
    pthread_condattr_destroy(&attributes)
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

  func entryIsUnneeded(_ entry: RemovedEntry) {
    post { if unneeded.count < Self.capacity { unneeded.append(entry) } }
  }

  func attributesChanged(of node: NodeID) {
    post { if changed.count < Self.capacity { changed.append(node) } }
  }

  func pagesBecameStale(of node: NodeID) {
    post { if stale.count < Self.capacity { stale.insert(node) } }
  }

  /// Whether ``next()`` comes back after a second at the latest, because something has to be checked.
  func checkEverySecond(_ looks: Bool) {
    post { nextCheck = looks ? nextCheck ?? inOneSecond : nil }
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
    while removed.isEmpty, unneeded.isEmpty, changed.isEmpty, stale.isEmpty, !hasVirtualChange, !isClosed,
      !isTimeToCheck
    {
      if var due = nextCheck {
        pthread_cond_timedwait(arrival, lock, &due)
      } else {
        pthread_cond_wait(arrival, lock)
      }
    }
    guard !isClosed else { return nil }
    let looks = isTimeToCheck
    if looks { nextCheck = inOneSecond }
    defer {
      removed = []
      unneeded = []
      changed = []
      stale = []
      hasVirtualChange = false
    }
    return Batch(
      removed: removed, unneeded: unneeded, changed: changed, stale: stale, hasVirtualChange: hasVirtualChange,
      isTimeToCheck: looks)
  }

  fileprivate static var monotonicNow: timespec {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now
  }

  private var inOneSecond: timespec {
    let now = now()
    return timespec(tv_sec: now.tv_sec + 1, tv_nsec: now.tv_nsec)
  }

  private var isTimeToCheck: Bool {
    guard let nextCheck else { return false }
    let now = now()
    return (now.tv_sec, now.tv_nsec) >= (nextCheck.tv_sec, nextCheck.tv_nsec)
  }

  private func post(_ change: () -> Void) {
    pthread_mutex_lock(lock)
    change()
    pthread_cond_signal(arrival)
    pthread_mutex_unlock(lock)
  }
}
