import FileModel
import Testing
import TransferModel

@testable import UploadEngine

/// What a change of links, addresses or routes does to uploads.
@Suite struct NetworkChangeTests {
  @Test func chunksWhoseWayHasGone_goAgainAtOnce_andNoneHasFailed() {
    let file = ImaginaryFile(1, "a.mov", size: 100_000)
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.beginSending(file)
    for round in 1...50 {
      let inFlight = harness.chunkRequests.map(\.index)
      #expect(!inFlight.isEmpty)
      harness.apply { $0.networkChanged(at: $1) }
      for index in inFlight { harness.answerChunk(index, StepFailure.connection(.pathLost)) }
      harness.answerReads()
      #expect(harness.chunkRequests.count == inFlight.count, "round \(round)")
      #expect(harness.status(file.id)?.lastFailure == nil && harness.state(file.id) == .uploading)
    }
    #expect(harness.others.count { $0 == .networkChanged } == 50)
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.bufferBytes.isEmpty)
  }

  @Test func lostWay_saysNothingOfTheAddressBehindIt() {
    #expect(StepFailure.Kind.transport(.pathLost).endpointVerdict == .nothing)
    #expect(StepFailure.Kind.transport(.connectionLost).endpointVerdict == .failed)
  }

  @Test func destinationThatWasOutOfReach_isTriedAtOnce() {
    let file = ImaginaryFile(1, "a.mov", size: 3500)
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.beginSending(file)
    // The pause grows.
    for _ in 0..<8 {
      while !harness.sent.isEmpty { harness.answer(StepFailure.connection(.connectFailed)) { _ in true } }
      harness.advance(by: .seconds(120))
      harness.answerReads()
    }
    while !harness.sent.isEmpty { harness.answer(StepFailure.connection(.connectFailed)) { _ in true } }
    #expect(harness.sent.isEmpty && !harness.schedule.destination.gate.isOpen)
    let closedAt = harness.now.monotonic
    let until = harness.schedule.destination.gate.closedUntil
    #expect(until.map { $0 > closedAt + .seconds(2) } == true)
    for _ in 0..<100 { harness.apply { $0.networkChanged(at: $1) } }
    #expect(harness.sent.isEmpty, "a second has to pass")
    #expect(harness.schedule.destination.gate.closedUntil == closedAt + .seconds(1))
    harness.advance(by: .seconds(1))
    harness.answerReads()
    #expect(harness.sent.count == 1)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }
}
