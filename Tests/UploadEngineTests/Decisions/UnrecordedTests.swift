import FileModel
import Promises
import Testing

@testable import UploadEngine

/// What is delivered, and the spool's disk does not take the record of that.
@Suite struct UnrecordedTests {
  private func delivered() -> (harness: ScheduleHarness, file: ImaginaryFile) {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: 300)
    harness.handle(file.settled)
    harness.answerReads()
    harness.answer(ScheduleHarness.success(of: harness.sent[0].order)) { _ in true }
    return (harness, file)
  }

  /// Regression: it stayed `uploading` at 100 % for ever, and nothing came to an end.
  @Test(.promises("S45h")) func whatCannotBeRecorded_isNamedAfterTenSeconds_andCompleteOnceItIs() throws {
    var (harness, file) = delivered()
    #expect(harness.state(file.id) == .uploading)
    for _ in 0..<9 {
      harness.apply { $0.recordingFails("the disk is read-only", at: $1) }
      harness.advance(by: .seconds(1))
    }
    #expect(harness.state(file.id) == .uploading && !harness.schedule.isIdle)
    #expect(harness.schedule.summary(at: harness.now).lastFailure?.code == "not-recorded")
    harness.advance(by: .seconds(2))
    let summary = harness.schedule.summary(at: harness.now)
    #expect(harness.state(file.id) == .failed && harness.schedule.isIdle && summary.undeliveredCount == 1)
    #expect(harness.schedule.status(of: file.id, publishedName: { $0.displayText }, at: harness.now)?.receipt == nil)
    // Not sent anew, and recorded as what it is.
    #expect(harness.schedule.retry(file.id, at: harness.now) == .obeyed && harness.sent.isEmpty)
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    #expect(entry.state == .complete && entry.failureCode == nil)
    harness.record()
    #expect(harness.state(file.id) == .complete && harness.schedule.summary(at: harness.now).lastFailure == nil)
  }

  @Test(.promises("S45h")) func aRecordThatIsTaken_beginsTheTenSecondsAnew() {
    var (harness, file) = delivered()
    harness.apply { $0.recordingFails("once", at: $1) }
    harness.advance(by: .seconds(6))
    harness.apply { $0.recorded([], at: $1) }
    harness.apply { $0.recordingFails("again", at: $1) }
    harness.advance(by: .seconds(6))
    #expect(harness.state(file.id) == .uploading)
    harness.advance(by: .seconds(5))
    #expect(harness.state(file.id) == .failed)
  }
}
