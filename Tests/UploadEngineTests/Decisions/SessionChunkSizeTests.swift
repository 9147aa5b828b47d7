import FileModel
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct SessionChunkSizeTests {
  /// The session of an open file is asked for before its size is known; when that request is lost, the next one was for
  /// chunks of another size than those that were cut, and the receiver refused them for good (413).
  @Test func sessionThatIsAskedForAgain_takesTheChunksThatAreCut() throws {
    var limits = UploadLimits()
    limits.adaptsChunkBytes = true
    var harness = ScheduleHarness(limits: limits, wholeFileBytesMax: 1 << 20)
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: 9 << 20)
    harness.handle(file.opened)
    harness.answer(.warmed) { $0.isPrewarm }
    harness.advance(by: .milliseconds(20))
    harness.handle(file.settled)
    harness.answer(StepFailure.connection(.connectionLost)) { $0.isOpenSession }
    for _ in 0..<40 where !harness.sent.contains(where: { $0.order.isOpenSession }) {
      harness.advance(by: .seconds(1))
      harness.answer(.warmed) { $0.isPrewarm }
    }
    let openings = harness.sent.compactMap { request in
      if case .openSession(let opening) = request.order { opening } else { nil }
    }
    let opening = try #require(openings.first)
    #expect(harness.status(file.id)?.chunkBytes == opening.chunkBytes)
    #expect(harness.schedule.files[file.id]?.transfer?.plan.chunkBytes == opening.chunkBytes)
  }
}
