import Threads

/// What the kernel has to be told outside of any request, kept for the one thread that tells it.
///
/// Telling waits for locks that the kernel holds during requests, so a handler only leaves a notice here. When the queue
/// is full the notice is dropped: the kernel then learns from the next request that the entry is stale.
final class NoticeQueue: Sendable {
  private struct State {
    var removed: [RemovedEntry] = []
    var unneeded: [RemovedEntry] = []
    var changed: [NodeID] = []
    var stale: Set<NodeID> = []
    var hasVirtualChange = false
    var nextCheck: Int64?
    var isClosed = false

    var isEmpty: Bool { removed.isEmpty && unneeded.isEmpty && changed.isEmpty && stale.isEmpty && !hasVirtualChange }
  }

  private let state = Monitor(State())
  /// Nanoseconds.
  private let now: @Sendable () -> Int64

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
  init(now: @escaping @Sendable () -> Int64 = { monotonicNanoseconds() }) {
    self.now = now
  }

  func entryRemoved(_ removed: RemovedEntry) {
    post { if $0.removed.count < Self.capacity { $0.removed.append(removed) } }
  }

  func entryIsUnneeded(_ entry: RemovedEntry) {
    post { if $0.unneeded.count < Self.capacity { $0.unneeded.append(entry) } }
  }

  func attributesChanged(of node: NodeID) {
    post { if $0.changed.count < Self.capacity { $0.changed.append(node) } }
  }

  func pagesBecameStale(of node: NodeID) {
    post { if $0.stale.count < Self.capacity { $0.stale.insert(node) } }
  }

  /// Whether ``next()`` comes back after a second at the latest, because something has to be checked.
  func checkEverySecond(_ looks: Bool) {
    let due = now() + Self.secondNanoseconds
    post { $0.nextCheck = looks ? $0.nextCheck ?? due : nil }
  }

  func virtualTreeChanged() {
    post { $0.hasVirtualChange = true }
  }

  /// Ends the thread that waits in ``next()``.
  func close() {
    post { $0.isClosed = true }
  }

  /// Waits for notices; nil once the queue is closed.
  func next() -> Batch? {
    state.wait { state in
      guard !state.isClosed else { return .done(nil) }
      let time = now()
      let looks = state.nextCheck.map { $0 <= time } ?? false
      guard looks || !state.isEmpty else { return state.nextCheck.map { .againBy(nanoseconds: $0) } ?? .again }
      let batch = Batch(
        removed: state.removed, unneeded: state.unneeded, changed: state.changed, stale: state.stale,
        hasVirtualChange: state.hasVirtualChange, isTimeToCheck: looks)
      state = State(nextCheck: looks ? time + Self.secondNanoseconds : state.nextCheck)
      return .done(batch)
    }
  }

  private static let secondNanoseconds: Int64 = 1_000_000_000

  private func post(_ change: (inout State) -> Void) {
    state.withLock { state, signal in
      change(&state)
      signal.signal()
    }
  }
}
