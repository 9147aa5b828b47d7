import FileModel
import Testing
import TransferModel

@testable import UploadEngine

/// A rename is a retry where the name was what was wrong.
@Suite struct RenamedFilesTests {
  private func refused(_ kind: StepFailure.Kind) -> (ScheduleHarness, ImaginaryFile) {
    var harness = ScheduleHarness(wholeFileBytesMax: 0)
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a?.mov", size: 2000)
    harness.beginSending(file)
    for index in 0..<2 { harness.answerChunk(index, .chunkStored) }
    harness.answer(.refused(StepFailure(kind, "no"))) { $0.isCommit }
    #expect(harness.state(file.id) == .failed)
    return (harness, file)
  }

  /// Regression: the file stayed failed under its new name.
  @Test func aFileWhoseNameWasRefused_isTriedAtOnceUnderAnotherOne() {
    var (harness, file) = refused(.nameRefused)
    file.snapshot.names = [RelativePath("a.mov")]
    harness.handle(.namesChanged(file.snapshot))
    #expect(harness.state(file.id) != .failed && harness.status(file.id)?.lastFailure == nil)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func whatElseWasRefused_waitsForAPerson() {
    var (harness, file) = refused(.tooLarge(limitBytes: 1))
    file.snapshot.names = [RelativePath("a.mov")]
    harness.handle(.namesChanged(file.snapshot))
    #expect(harness.state(file.id) == .failed && !harness.sent.contains { $0.order.isCommit })
  }
}
