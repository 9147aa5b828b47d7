package import FileModel
import Foundation
package import Synchronization

/// A sink that records what it is told and complains about what it must not be told.
package final class RecordingSink: FileEventSink {
  /// One call of the sink.
  package enum Record: Hashable, Sendable {
    case event(FileEvent)
    case willChange(FileID)
    case stays(FileID)
  }

  private struct State {
    var records: [Record] = []
    var candidates: [EvictionCandidate] = []
    var candidatesAskedFor = 0
    var candidatesHeldBack = 0
    var chunks: [ReleaseCandidate] = []
    var chunksAskedFor = 0
    var problems: [String] = []
    var refusesChanges = false
    var epochs: [FileID: UInt64] = [:]
    var gone: Set<FileID> = []
    /// Files whose next `changed` has been prepared by `contentWillChange`.
    var prepared: Set<FileID> = []
    /// Files that have an open revision or writer, as far as events tell.
    var unsettled: Set<FileID> = []
  }

  private let state = Mutex(State())
  private let hasMore = NSCondition()

  package init() {}

  package func handle(_ event: FileEvent) {
    record(event)
    hasMore.withLock { hasMore.broadcast() }
  }

  private func record(_ event: FileEvent) {
    state.withLock { state in
      state.records.append(.event(event))
      switch event {
      case .opened(let snapshot):
        Self.check(snapshot, &state, "opened")
        if snapshot.writableOpens < 1 { state.problems.append("opened without a writer: \(snapshot)") }
        state.unsettled.insert(snapshot.id)
      case .changed(let snapshot):
        Self.check(snapshot, &state, "changed")
        if state.prepared.remove(snapshot.id) == nil { state.problems.append("changed without contentWillChange") }
        if snapshot.mutationsInFlight < 1 { state.problems.append("changed without a mutation: \(snapshot)") }
        state.unsettled.insert(snapshot.id)
      case .grown(let report):
        if !state.unsettled.contains(report.file) { state.problems.append("grown without a writer: \(report)") }
      case .settled(let snapshot):
        Self.check(snapshot, &state, "settled")
        if !snapshot.isSettled { state.problems.append("settled while it is not: \(snapshot)") }
        state.unsettled.remove(snapshot.id)
      case .unsettled(let snapshot): Self.check(snapshot, &state, "unsettled")
      case .namesChanged(let snapshot): Self.check(snapshot, &state, "namesChanged")
      case .attributesChanged(let snapshot): Self.check(snapshot, &state, "attributesChanged")
      case .onDisk(let snapshot): Self.check(snapshot, &state, "onDisk")
      case .found(let snapshot):
        Self.check(snapshot, &state, "found")
        if !snapshot.isSettled { state.problems.append("found with a writer: \(snapshot)") }
      case .removed(let id), .vanished(let id), .evicted(let id):
        if !state.gone.insert(id).inserted { state.problems.append("gone twice: \(id)") }
      case .writeFailed, .scanFailing, .scanEnded: break
      }
    }
  }

  private static func check(_ snapshot: FileSnapshot, _ state: inout State, _ what: String) {
    if state.gone.contains(snapshot.id) { state.problems.append("\(what) after it was gone: \(snapshot)") }
    if snapshot.names.isEmpty { state.problems.append("\(what) without a name: \(snapshot)") }
    if let before = state.epochs[snapshot.id], snapshot.epoch < before {
      state.problems.append("\(what): epoch went back from \(before) to \(snapshot.epoch)")
    }
    state.epochs[snapshot.id] = snapshot.epoch
  }

  package func contentWillChange(_ id: FileID) -> Bool {
    state.withLock { state in
      guard !state.refusesChanges else { return false }
      state.records.append(.willChange(id))
      if !state.prepared.insert(id).inserted { state.problems.append("contentWillChange twice for one revision") }
      return true
    }
  }

  package func contentStays(_ id: FileID) {
    state.withLock { state in
      if state.prepared.remove(id) == nil { state.problems.append("contentStays without contentWillChange") }
      state.records.append(.stays(id))
    }
  }

  /// From now on it cannot, or can, make durable that a content changes.
  package func refuseChanges(_ refuses: Bool) { state.withLock { $0.refusesChanges = refuses } }

  package func evictionCandidates(countMax: Int) -> [EvictionCandidate] {
    state.withLock { state in
      state.candidatesAskedFor += 1
      let isHeldBack = state.candidatesAskedFor <= state.candidatesHeldBack
      return isHeldBack ? [] : Array(state.candidates.filter { !state.gone.contains($0.id) }.prefix(countMax))
    }
  }

  package func releaseCandidates(bytesMax: UInt64) -> [ReleaseCandidate] {
    state.withLock { state in
      state.chunksAskedFor += 1
      defer { state.chunks = [] }
      return state.chunks
    }
  }

  /// What is named once when chunks are asked for.
  package func offerChunks(_ candidates: [ReleaseCandidate]) { state.withLock { $0.chunks = candidates } }

  package var chunksAskedFor: Int { state.withLock { $0.chunksAskedFor } }

  /// What may go, from now on or after so many requests without an answer.
  package func offer(_ candidates: [EvictionCandidate], afterRequests count: Int = 0) {
    state.withLock { state in
      state.candidates = candidates
      state.candidatesAskedFor = 0
      state.candidatesHeldBack = count
    }
  }

  /// How often the filesystem has asked since the last offer.
  package var candidatesAskedFor: Int { state.withLock { $0.candidatesAskedFor } }

  /// What the sink says about deliveries under way.
  /// What the destinations of all files take; nil while nothing is known.
  package let limitBytes = Mutex<UInt64?>(nil)
  package func sizeLimit(of id: FileID) -> SizeLimit { limitBytes.withLock { $0 }.map { .bytes($0) } ?? .none }

  package let isDelivering = Atomic<Bool>(false)
  package var mayFreeSpace: Bool { isDelivering.load(ordering: .relaxed) }

  /// Calls that wait for a delivery.
  package let deliveries = HeldDeliveries()

  package func awaitDelivery(
    of id: FileID, epoch: UInt64, whenKnown: @escaping @Sendable (DeliveryOutcome) -> Void
  ) -> DeliveryWait {
    deliveries.keep(whenKnown)
  }

  package func endWaiting(_ wait: DeliveryWait, for id: FileID) { deliveries.end(wait) }

  package var records: [Record] { state.withLock { $0.records } }
  /// Waits for an event, 60 seconds at most: the kernel says that a file was closed after close(2) has returned.
  package func waits(until holds: ([Record]) -> Bool) -> Bool {
    let deadline = Date(timeIntervalSinceNow: 60)
    return hasMore.withLock {
      while !holds(records) {
        guard hasMore.wait(until: deadline) else { return holds(records) }
      }
      return true
    }
  }

  /// A file as it was when it was last complete under a name; waits until it is.
  package func settled(_ name: String) -> FileSnapshot? {
    func last(_ records: [Record]) -> FileSnapshot? {
      for case .event(.settled(let snapshot)) in records.reversed()
      where snapshot.names.contains(where: { $0.displayText == name }) { return snapshot }
      return nil
    }
    _ = waits { last($0) != nil }
    return last(records)
  }

  package var problems: [String] { state.withLock { $0.problems } }

  /// The names of the events so far, and forgets them; without `onDisk`, which comes when the flush has come round.
  package func takeNames() -> [String] {
    state.withLock { state in
      defer { state.records = [] }
      return state.records.compactMap { record in
        switch record {
        case .event(.onDisk): nil
        case .willChange: "willChange"
        case .stays: "stays"
        case .event(.opened): "opened"
        case .event(.changed): "changed"
        case .event(.grown): "grown"
        case .event(.settled): "settled"
        case .event(.unsettled): "unsettled"
        case .event(.namesChanged): "namesChanged"
        case .event(.attributesChanged): "attributesChanged"
        case .event(.removed): "removed"
        case .event(.vanished): "vanished"
        case .event(.evicted): "evicted"
        case .event(.found): "found"
        case .event(.writeFailed): "writeFailed"
        case .event(.scanFailing): "scanFailing"
        case .event(.scanEnded): "scanEnded"
        }
      }
    }
  }

  /// The snapshot of the last event that had one.
  package var lastSnapshot: FileSnapshot? {
    for case .event(let event) in records.reversed() {
      if let snapshot = event.snapshot { return snapshot }
    }
    return nil
  }

  /// What was last said of each file that is not gone.
  package var known: [FileID: FileSnapshot] {
    var known: [FileID: FileSnapshot] = [:]
    for case .event(let event) in records {
      switch event {
      case .removed(let id), .vanished(let id), .evicted(let id): known[id] = nil
      default: if let snapshot = event.snapshot { known[snapshot.id] = snapshot }
      }
    }
    return known
  }
}

extension FileEvent {
  fileprivate var snapshot: FileSnapshot? {
    switch self {
    case .opened(let snapshot), .changed(let snapshot), .settled(let snapshot), .unsettled(let snapshot),
      .namesChanged(let snapshot), .attributesChanged(let snapshot), .onDisk(let snapshot), .found(let snapshot):
      snapshot
    case .grown, .removed, .vanished, .evicted, .writeFailed, .scanFailing, .scanEnded: nil
    }
  }
}
