import FileModel
import Testing
import TransferModel

@testable import UploadEngine

/// The schedule with two addresses of one receiver.
@Suite struct SeveralEndpointsTests {
  private let file = ImaginaryFile(1, "a.mov", size: 20_000)

  private func sending() -> ScheduleHarness {
    var harness = ScheduleHarness(endpointCount: 2)
    harness.handle(.scanEnded)
    harness.beginSending(file)
    return harness
  }

  private func addresses(_ harness: ScheduleHarness) -> Set<EndpointID> {
    Set(harness.sent.compactMap { harness.endpoints[$0.id] })
  }

  @Test func everything_goesToTheFirstAddress_whileItAnswers() {
    var harness = sending()
    #expect(addresses(harness) == [.first])
    harness.succeed()
    #expect(Set(harness.endpoints.values) == [.first])
    #expect(harness.state(file.id) == .complete)
  }

  @Test func failedAddress_isLeftAtOnce_andTheSessionGoesOn() {
    var harness = sending()
    for _ in harness.chunkRequests { harness.answer(StepFailure.connection(.connectFailed)) { $0.isChunk } }
    harness.answerReads()
    #expect(harness.state(file.id) == .uploading, "nothing waits: another address is there")
    #expect(harness.chunkRequests.count == 12)
    let chunks = harness.sent.filter { $0.order.isChunk }
    #expect(chunks.allSatisfy { harness.endpoints[$0.id] == EndpointID(1) })
    #expect(!harness.sent.contains { $0.order.isOpenSession })
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// Regression (seed 899301671): each connection that failed with the address had twelve made to the other one.
  @Test func connectionsThatFailTogether_areMadeAnewOnce() {
    var harness = ScheduleHarness(endpointCount: 2)
    harness.handle(.scanEnded)
    harness.handle(file.opened)
    let count = harness.sent.count { $0.order.isPrewarm }
    #expect(count > 1)
    for _ in 0..<count { harness.answer(StepFailure.connection(.connectFailed)) { $0.isPrewarm } }
    let again = harness.sent.filter { $0.order.isPrewarm }
    #expect(again.count == count && again.allSatisfy { harness.endpoints[$0.id] == EndpointID(1) })
  }

  @Test func bothAddressesAway_closeTheGate_andProbesTakeTurns() {
    var harness = sending()
    var probed: Set<EndpointID> = []
    for _ in 0..<40 {
      while let request = harness.sent.first {
        probed.insert(harness.endpoints[request.id] ?? .first)
        harness.answer(StepFailure.connection(.connectFailed)) { _ in true }
        harness.answerReads()
      }
      #expect(harness.state(file.id) == .waiting)
      harness.advance(by: .seconds(15))
    }
    #expect(probed == [.first, EndpointID(1)])
    harness.advance(by: .seconds(15))
    harness.succeed()
    harness.advance(by: .seconds(15))
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func busyReceiver_isBusyBehindAllItsAddresses() {
    var harness = sending()
    harness.answer(.refused(StepFailure(.busy, "busy", retryAfter: .seconds(40)))) { $0.isChunk }
    #expect(harness.state(file.id) == .waiting)
    let before = harness.endpoints.count
    harness.advance(by: .seconds(39))
    #expect(harness.endpoints.count == before)
  }
}
