import Synchronization

/// Says when memory that bodies and connections have used should go back to the system: the allocator keeps it otherwise.
/// That takes a moment, so it is done when no body is in memory, and when there was enough to make it worthwhile.
final class MemoryReturn: Sendable {
  private static let bodyBytesMin = 8 << 20
  private static let connectionsMin = 16

  private struct State {
    var bodyBytes = 0
    var closedConnections = 0
  }

  private let budget: ByteBudget
  private let statistics: ReceiverStatistics
  private let state = Mutex(State())

  init(_ budget: ByteBudget, _ statistics: ReceiverStatistics) {
    self.budget = budget
    self.statistics = statistics
  }

  /// Whether it should be done now; counts from here again if so.
  func isWorthwhile() -> Bool {
    let closed = statistics.closedConnections
    return state.withLock { state in
      state.bodyBytes += budget.takeGivenBytes()
      guard
        budget.isUnused,
        state.bodyBytes >= MemoryReturn.bodyBytesMin
          || closed - state.closedConnections >= MemoryReturn.connectionsMin
      else { return false }
      state = State(closedConnections: closed)
      return true
    }
  }
}
