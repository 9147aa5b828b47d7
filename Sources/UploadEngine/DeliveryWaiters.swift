package import FileModel
import Lookup
import Synchronization

/// Who waits for the delivery of which file. They are called with no lock held, each once.
package final class DeliveryWaiters: Sendable {
  private struct Waiter {
    var wait: DeliveryWait
    var epoch: UInt64
    var whenKnown: @Sendable (DeliveryOutcome) -> Void
  }

  private struct State {
    var waiters: LookupTable<FileID, [Waiter]> = [:]
    var lastNumber: UInt64 = 0
  }

  private let state = Mutex(State())

  /// No call waits.
  package init() {}

  package func add(
    _ id: FileID, epoch: UInt64, _ whenKnown: @escaping @Sendable (DeliveryOutcome) -> Void
  ) -> DeliveryWait {
    state.withLock { state in
      state.lastNumber += 1
      let wait = DeliveryWait(number: state.lastNumber)
      state.waiters[id, default: []].append(Waiter(wait: wait, epoch: epoch, whenKnown: whenKnown))
      return wait
    }
  }

  package func remove(_ wait: DeliveryWait, for id: FileID) {
    state.withLock { state in
      state.waiters[id]?.removeAll { $0.wait == wait }
      if state.waiters[id]?.isEmpty == true { state.waiters[id] = nil }
    }
  }

  /// Files for which a call waits, in an order.
  package var awaitedFiles: [FileID] { state.withLock { $0.waiters.sorted().map(\.key) } }

  package func isAwaited(_ id: FileID) -> Bool { state.withLock { $0.waiters[id] != nil } }

  /// Calls those that wait for this epoch or an earlier one.
  package func tell(_ id: FileID, upTo epoch: UInt64, _ outcome: DeliveryOutcome) {
    let told = state.withLock { state -> [Waiter] in
      let waiting = state.waiters[id] ?? []
      let rest = waiting.filter { $0.epoch > epoch }
      state.waiters[id] = rest.isEmpty ? nil : rest
      return waiting.filter { $0.epoch <= epoch }
    }
    for waiter in told { waiter.whenKnown(outcome) }
  }

  /// Nothing is delivered any more.
  package func endAll() {
    let all = state.withLock { state -> [Waiter] in
      defer { state.waiters = [:] }
      return state.waiters.sorted().flatMap(\.value)
    }
    for waiter in all { waiter.whenKnown(.failed) }
  }
}
