public import FileModel
import Logging
import Lookup
import Synchronization
import SystemMemory
import Threads

/// What the filesystem reports, and what it asks.
extension UploadEngine {
  /// Takes one event of the filesystem.
  public func handle(_ event: FileEvent) {
    switch event {
    case .evicted(let id), .removed(let id): parts.withLock { $0.io }?.forget(id)
    default: break
    }
    if waitsForEarlierRuns(.reported(event)) { return }
    recall(event)
    guard let snapshot = event.found, state.withLock({ $0.schedule.mayComeAfterPublication(snapshot) }) else {
      return applyLoading(event) { $0.handle(event, at: $1) }
    }
    do throws(StorageError) {
      let former = try former(of: snapshot)
      applyLoading(event) { $0.handle(event, after: former, at: $1) }
    } catch {
      // As where the spool cannot say what the file is like: nothing of it goes out before that is known.
      logger.warning("\(error.message)", metadata: ["path": "\(snapshot.names.first?.displayText ?? "")"])
      metUnread.withLock { _ = $0.insert(snapshot.id) }
      applyLoading(event) { $0.handle(event.unread, at: $1) }
    }
  }

  /// Makes durable that an earlier receipt no longer covers the file.
  public func contentWillChange(_ id: FileID) -> Bool {
    // Whether the catalog has a receipt is not known yet; from now on it has none.
    let isEarly = waitsForEarlierRuns(.contentWillChange(id))
    var mustRecord = isEarly
    if !isEarly {
      applyLoading(id) { schedule, _ in mustRecord = schedule.contentWillChange(id) }
    }
    guard mustRecord || unrecorded.withLock({ $0.contains(id) }) else { return true }
    guard journal.markChanged(id) else {
      unrecorded.withLock { _ = $0.insert(id) }
      contentStays(id)
      return false
    }
    unrecorded.withLock { _ = $0.remove(id) }
    return true
  }

  /// What was said of the content that was to change holds again.
  public func contentStays(_ id: FileID) {
    if waitsForEarlierRuns(.contentStays(id)) { return }
    apply { $0.contentStays(id, at: $1) }
  }

  /// Links, addresses or routes of this machine have changed. Called on any thread; does not wait.
  public func networkChanged() { apply { $0.networkChanged(at: $1) } }

  /// Delivered files whose local copy may go, oldest first, at most so many, of those that memory holds.
  public func evictionCandidates(countMax: Int) -> [EvictionCandidate] {
    let candidates = state.withLock { $0.schedule.evictionCandidates(countMax: countMax) }
    if !candidates.isEmpty, isBeyondMemory { apply { $0.wantDelivered(olderThan: candidates, at: $1) } }
    return candidates
  }

  /// Has some of those come back that memory does not hold. True where some are on their way: they may have come by the time of the answer.
  public func loadCandidates() -> Bool {
    guard isBeyondMemory else { return false }
    var isLoading = false
    apply { schedule, now in
      schedule.wantDelivered(at: now)
      isLoading = schedule.memory.fit.isLoadingDelivered
    }
    return isLoading
  }

  /// What could be removed of those that memory does not hold.
  public var unloadedBytes: UInt64 { state.withLock { $0.schedule.unloadedDeliveredBytes } }

  /// Whether the local copy of a file may go as far as this engine is concerned.
  package func mayLose(_ candidate: EvictionCandidate) -> Bool {
    state.withLock { $0.early == nil && $0.schedule.mayLose(candidate) }
  }

  /// Whether a file in the spool may count as whole from now on as far as this engine is concerned.
  func mayCountAsWhole(_ id: FileID) -> Bool {
    state.withLock { $0.early == nil && $0.schedule.mayCountAsWhole(id) }
  }

  /// Chunks of files that are not delivered yet whose place on the disk may be given back.
  public func releaseCandidates(bytesMax: UInt64) -> [ReleaseCandidate] {
    var candidates: [ReleaseCandidate] = []
    apply { candidates = $0.releaseCandidates(bytesMax: bytesMax, at: $1) }
    return candidates
  }

  /// Whether a delivery is in flight whose end may let something be removed.
  public var mayFreeSpace: Bool { state.withLock { $0.early != nil || $0.schedule.mayFreeSpace } }

  /// How large a file may become to be delivered here.
  public func sizeLimit(of id: FileID) -> SizeLimit {
    state.withLock { $0.early == nil ? $0.schedule.sizeLimit(of: id) : .none }
  }

  /// Calls back when the epoch or a later one is delivered, or will not be by itself.
  public func awaitDelivery(
    of id: FileID, epoch: UInt64, whenKnown: @escaping @Sendable (DeliveryOutcome) -> Void
  ) -> DeliveryWait {
    // An engine that does not know the file yet must not say that it will not be delivered.
    waitWhileLoading()
    let wait = waiters.add(id, epoch: epoch, whenKnown)
    // It may have been known before.
    tellWaiters(of: id)
    return wait
  }

  /// The call waits no more.
  public func endWaiting(_ wait: DeliveryWait, for id: FileID) { waiters.remove(wait, for: id) }

  func tellWaiters(of id: FileID) {
    guard waiters.isAwaited(id) else { return }
    let known = state.withLock { state -> (epoch: UInt64, outcome: DeliveryOutcome)? in
      state.isStopped ? (.max, .failed) : state.schedule.deliveryOutcome(of: id)
    }
    if let known { waiters.tell(id, upTo: known.epoch, known.outcome) }
  }
}
