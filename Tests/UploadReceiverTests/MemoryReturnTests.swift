import ReceiverCore
import Testing

@testable import UploadReceiver

/// When memory goes back to the system: after a burst the receiver kept all that it had ever used.
@Suite struct MemoryReturnTests {
  private let budget = ByteBudget(bytes: 64 << 20, clock: ReceiverClock())
  private let statistics = ReceiverStatistics(clock: ReceiverClock())

  private func body(of bytes: Int) async throws -> BodyLease {
    try #require(await budget.take(bytes, of: CredentialID("one")))
  }

  @Test func whatBodiesHeld_isReturnedOnceNoneHoldsAny() async throws {
    let memory = MemoryReturn(budget, statistics)
    #expect(!memory.isWorthwhile())
    let first = try await body(of: 8 << 20)
    let second = try await body(of: 1)
    budget.give(of: first)
    // Meanwhile the next bodies would take it at once.
    #expect(!memory.isWorthwhile())
    budget.give(of: second)
    #expect(memory.isWorthwhile())
    #expect(!memory.isWorthwhile())
  }

  @Test func little_isNotWorthIt_untilItIsMuch() async throws {
    let memory = MemoryReturn(budget, statistics)
    for count in 1...8 {
      budget.give(of: try await body(of: 1 << 20))
      #expect(memory.isWorthwhile() == (count == 8))
    }
  }

  @Test func whatConnectionsHeld_isReturnedAfterSixteen() {
    let memory = MemoryReturn(budget, statistics)
    // Objects that live at once have different names.
    let connections = (0..<40).map { _ in Connection() }
    for connection in connections { statistics.connectionOpened(ObjectIdentifier(connection)) }
    #expect(!memory.isWorthwhile())
    for (number, connection) in connections.enumerated() {
      statistics.connectionClosed(ObjectIdentifier(connection))
      #expect(memory.isWorthwhile() == (number == 15 || number == 31))
    }
  }

  private final class Connection {}
}
