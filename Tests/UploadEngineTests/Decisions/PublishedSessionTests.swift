import FileModel
import Testing

@testable import UploadEngine

/// What the simulation found about files that are published already, without their last word having come.
@Suite struct PublishedSessionTests {
  /// A receipt for a content of which the client does not have the digests yet.
  private static let otherReceipt = ScheduleHarness.receipt(RelativePath("a.mov"), 3000, root: "00", tip: "00")

  /// The session is asked about after the chunks of a content have failed again and again.
  private func asking(_ file: ImaginaryFile) -> ScheduleHarness {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.beginSending(file)
    for _ in 0..<100 {
      if harness.sent.contains(where: { $0.order.isQuery }) { break }
      harness.answer(StepFailure.connection(.connectionLost)) { $0.isChunk }
      harness.answerReads()
      harness.advance(by: .seconds(60))
      harness.answerReads()
    }
    return harness
  }

  @Test func fileGoesOn_whenAQuestionFindsItsSessionPublished_whileChunksWaitInBuffers() {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = asking(file)
    harness.answer(.published(Self.otherReceipt)) { $0.isQuery }
    harness.answerReads()
    while harness.answer(.refused(StepFailure(.conflict, "published")), where: { $0.isChunk }) != nil {}
    for _ in 0..<5 {
      harness.advance(by: .seconds(60))
      harness.succeed()
    }
    #expect(harness.state(file.id) == .complete)
    #expect(harness.buffers.isEmpty)
  }

  @Test func deliveredFile_isComplete_whenItsSecondNameGoesAwayBeforeItIsPublished() {
    var file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.beginSending(file)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    let first = file.snapshot.names
    file.snapshot.names.append(RelativePath("b.mov"))
    harness.handle(.namesChanged(file.snapshot))
    #expect(harness.state(file.id) != .complete)
    file.snapshot.names = first
    harness.handle(.namesChanged(file.snapshot))
    harness.succeed()
    harness.record()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.schedule.isIdle && harness.buffers.isEmpty)
  }
}
