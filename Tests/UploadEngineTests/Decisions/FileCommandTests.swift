import FileModel
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// `retry`, `cancel` and `publish` of one file.
@Suite struct FileCommandTests {
  @Test(
    .promises("S77a", "S77b"),
    arguments: [
      ("retry", FileOrder(.retry)), ("resend", FileOrder(.resend)), ("cancel\n", FileOrder(.cancel)),
      ("\t publish \r\n", FileOrder(.publish)),
      ("retry main\n", FileOrder(.retry, destination: .main)), ("", nil), ("\n", nil), ("Retry", nil),
      ("retry\nretry\n", nil), ("retry a b", nil), ("retry A", nil), ("delete", nil), ("retry\u{0}", nil),
      (String(repeating: " ", count: 300) + "retry", nil),
    ])
  func ordersAreOneWord_andAName(text: String, order: FileOrder?) {
    #expect(FileOrder(Array(text.utf8)) == order)
    #expect(FileOrder([0xff] + Array(text.utf8)) == nil)
  }

  /// A file in each state, with what each word makes of it.
  private func outcomes(_ prepare: (inout ScheduleHarness) -> FileID) -> [FileCommandOutcome] {
    FileCommand.allCases.map { word in
      var harness = ScheduleHarness()
      harness.handle(.scanEnded)
      let id = prepare(&harness)
      let before = harness.state(id)
      var outcome = FileCommandOutcome.unknownFile
      harness.apply { outcome = $0.execute(word, id, at: $1) }
      if outcome != .obeyed { #expect(harness.state(id) == before, "what is refused changes nothing") }
      return outcome
    }
  }

  @Test(.promises("S77c", "S77e", "S77f", "S77g")) func eachStateHasItsWords() {
    var interrupted = ImaginaryFile(1, "a.mov", size: 10)
    interrupted.snapshot.interruption = .mountDied
    let file = ImaginaryFile(1, "a.mov", size: 10)
    let temporary = ImaginaryFile(1, "a.mov.part", size: 10)
    let no = FileCommandOutcome.doesNotApply
    #expect(outcomes { _ in file.id } == [.unknownFile, .unknownFile, .unknownFile, .unknownFile])
    #expect(
      outcomes { harness in
        harness.handle(file.opened)
        return file.id
      } == [.obeyed, .obeyed, .obeyed, no], "writing")
    #expect(
      outcomes { harness in
        harness.write(file)
        return file.id
      } == [.obeyed, .obeyed, .obeyed, no], "on its way")
    #expect(
      outcomes { harness in
        harness.write(file)
        harness.succeed()
        return file.id
      } == [.obeyed, .obeyed, no, no], "complete")
    #expect(
      outcomes { harness in
        harness.write(temporary)
        return temporary.id
      } == [no, no, .obeyed, .obeyed], "held")
    #expect(
      outcomes { harness in
        harness.write(interrupted)
        return interrupted.id
      } == [no, no, .obeyed, .obeyed], "interrupted")
    #expect(
      outcomes { harness in
        harness.write(file)
        harness.apply { $0.cancel(file.id, at: $1) }
        return file.id
      } == [.obeyed, .obeyed, .obeyed, no], "cancelled")
    #expect(
      outcomes { harness in
        harness.write(file)
        harness.handle(.removed(file.id))
        return file.id
      } == [.unknownFile, .unknownFile, .unknownFile, .unknownFile], "removed")
  }

  @Test(.promises("S77k"), arguments: [10, 3500] as [UInt64])
  func whatWasDelivered_isDeliveredAgain_onceAUserSaysSo_alsoAfterARestart(size: UInt64) throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: size)
    harness.write(file)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    harness.apply { $0.resend(file.id, at: $1) }
    #expect(harness.state(file.id) != .complete && harness.status(file.id)?.receipt == nil)
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    #expect(entry.state == .pending && entry.receipt == nil)
    var restarted = ScheduleHarness(catalog: [entry])
    restarted.handle(file.found)
    restarted.handle(.scanEnded)
    for var run in [harness, restarted] {
      run.succeed()
      #expect(run.state(file.id) == .complete && run.status(file.id)?.receipt?.name == "a.mov")
    }
  }

  @Test(
    "Regression, found by the simulation (ignored-names, seed 52800000028): what had got a temporary name after its delivery was published under that",
    .promises("S77k"), arguments: [10, 3500] as [UInt64])
  func whatHasOnlyANameThatIsNotPublishedByNow_isNotDeliveredAgain(size: UInt64) {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "a.mov", size: size)
    harness.write(file)
    harness.succeed()
    let sentCount = harness.sent.count
    file.snapshot.names = [RelativePath("a.mov.part")]
    harness.handle(.namesChanged(file.snapshot))
    var outcome = FileCommandOutcome.obeyed
    harness.apply { outcome = $0.resend(file.id, at: $1) }
    harness.succeed()
    #expect(outcome == .doesNotApply && harness.sent.count == sentCount)
    #expect(harness.state(file.id) == .complete && harness.status(file.id)?.receipt?.name == "a.mov")
  }

  @Test(.promises("S77g"), arguments: [10, 3500] as [UInt64])
  func aTemporaryName_isPublishedAsItIs_onceAUserSaysSo(size: UInt64) throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "a.mov.part", size: size)
    harness.write(file)
    harness.advance(by: .seconds(10))
    #expect(harness.state(file.id) == .held)
    harness.apply { $0.publish(file.id, at: $1) }
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    var restarted = ScheduleHarness(catalog: [entry])
    restarted.handle(file.found)
    restarted.handle(.scanEnded)
    func expectItIsPublished(_ run: inout ScheduleHarness) {
      #expect(run.state(file.id) != .held)
      run.succeed()
      #expect(run.state(file.id) == .complete && run.status(file.id)?.receipt?.name == "a.mov.part")
    }
    expectItIsPublished(&harness)
    // The wish is of this content and this name only.
    file.snapshot.epoch = 2
    harness.handle(file.opened)
    harness.handle(file.changed)
    harness.handle(file.settled)
    #expect(harness.state(file.id) == .held)
    var renamed = ScheduleHarness(catalog: [entry])
    renamed.handle(ImaginaryFile(1, "a.mov.part", size: size).found)
    renamed.handle(.namesChanged(ImaginaryFile(1, "b.part", size: size).snapshot))
    #expect(renamed.state(file.id) == .held)
    expectItIsPublished(&restarted)
  }

  /// The mark in the spool may come back with a power cut.
  @Test(.promises("S77c", "S77g")) func whatIsPublished_staysSo_whateverTheSpoolSaysAfterwards() throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "a.mov", size: 3500)
    file.snapshot.interruption = .mountDied
    harness.write(file)
    harness.apply { $0.publish(file.id, at: $1) }
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    var restarted = ScheduleHarness(catalog: [entry])
    restarted.handle(file.found)
    restarted.handle(.scanEnded)
    #expect(restarted.schedule.takeSpoolOrders() == [.accept(EvictionCandidate(file.snapshot), .mountDied)])
    restarted.succeed()
    #expect(restarted.state(file.id) == .complete)
    file.snapshot.modifiedNanoseconds += 1
    var changed = ScheduleHarness(catalog: [entry])
    changed.handle(file.found)
    changed.handle(.scanEnded)
    #expect(changed.state(file.id) == .interrupted, "another content was not asked for")
  }

  @Test(.promises("S77f")) func cancelledWhileItIsWritten_itStaysSo_overItsCloseAndARestart() throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "a.mov", size: 3500)
    harness.handle(file.opened)
    harness.apply { $0.cancel(file.id, at: $1) }
    let early = try #require(harness.schedule.catalogEntry(of: file.id))
    file.snapshot.sizeBytes = 5000
    file.snapshot.modifiedNanoseconds += 7
    var killed = ScheduleHarness(catalog: [early])
    killed.handle(file.found)
    killed.handle(.scanEnded)
    #expect(killed.state(file.id) == .cancelled, "the decision was durable before the close")
    harness.handle(file.settled)
    #expect(harness.state(file.id) == .cancelled)
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    var restarted = ScheduleHarness(catalog: [entry])
    restarted.handle(file.found)
    restarted.handle(.scanEnded)
    #expect(restarted.state(file.id) == .cancelled)
    // chmod(2) and touch(1) change no content.
    file.snapshot.modifiedNanoseconds += 7
    restarted.handle(.attributesChanged(file.snapshot))
    let later = try #require(restarted.schedule.catalogEntry(of: file.id))
    var again = ScheduleHarness(catalog: [later])
    again.handle(file.found)
    again.handle(.scanEnded)
    #expect(again.state(file.id) == .cancelled)
  }

  private static func isToBeRecorded(_ id: FileID, _ harness: inout ScheduleHarness) -> Bool {
    harness.schedule.contentWillChange(id)
  }

  /// Regression: a change that could not be recorded, and so was refused, had the file delivered.
  @Test(
    .promises("S34c", "S77f"), arguments: [FileStatus.State.cancelled, .failed, .interrupted, .complete], [true, false])
  func whatWasToChangeAndStays_isWhatItWas(_ state: FileStatus.State, isOpen: Bool) throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "a.mov", size: 3500)
    if state == .interrupted { file.snapshot.interruption = .mountDied }
    harness.write(file)
    switch state {
    case .cancelled: harness.apply { $0.cancel(file.id, at: $1) }
    case .failed: harness.answer(.refused(StepFailure(.nameRefused, "no"))) { $0.isOpenSession }
    case .complete: harness.succeed()
    default: break
    }
    harness.endCancelled()
    #expect(harness.state(file.id) == state)
    let before = try #require(harness.schedule.catalogEntry(of: file.id))
    func sent() -> Int { harness.sent.count { $0.order.carriesChunk || $0.order.isOpenSession } }
    let sentBefore = sent()
    for _ in 0..<2 {
      if isOpen { harness.handle(file.opened) }
      #expect(Self.isToBeRecorded(file.id, &harness), "each try is")
      #expect(harness.schedule.catalogEntry(of: file.id)?.state == .pending)
      harness.others = []
      harness.apply { $0.contentStays(file.id, at: $1) }
      #expect(
        harness.others.contains { if case .record = $0 { true } else { false } }, "the catalog may have been told")
      if isOpen { harness.handle(file.settled) }
      harness.record()
      #expect(harness.state(file.id) == state && harness.schedule.isIdle)
    }
    #expect(sent() == sentBefore)
    #expect(harness.schedule.catalogEntry(of: file.id)?.state == before.state)
    // What changes after all is another content.
    #expect(Self.isToBeRecorded(file.id, &harness))
    file.snapshot.epoch = 2
    file.snapshot.interruption = nil
    harness.handle(file.changed)
    harness.apply { $0.contentStays(file.id, at: $1) }
    harness.handle(file.settled)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// Regression: of an earlier run, and the scan had not come to it.
  @Test(.promises("S34c", "S77f")) func whatWasToChangeBeforeItWasFound_isWhatItWas() throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: 3500)
    harness.write(file)
    harness.apply { $0.cancel(file.id, at: $1) }
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    var restarted = ScheduleHarness(catalog: [entry])
    #expect(Self.isToBeRecorded(file.id, &restarted))
    restarted.apply { $0.contentStays(file.id, at: $1) }
    restarted.handle(file.found)
    restarted.handle(.scanEnded)
    #expect(restarted.state(file.id) == .cancelled)
    #expect(restarted.others.contains { if case .record(file.id) = $0 { true } else { false } })
  }

  @Test(.promises("S77h")) func whatIsCancelledOrInterrupted_isNamed_andNotWaitedFor() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let cancelled = ImaginaryFile(1, "a.mov", size: 10)
    var interrupted = ImaginaryFile(2, "b.mov", size: 10)
    interrupted.snapshot.interruption = .mountDied
    let removed = ImaginaryFile(3, "c.mov", size: 10)
    harness.write(cancelled)
    harness.write(interrupted)
    harness.write(removed)
    harness.handle(.removed(removed.id))
    harness.apply { $0.cancel(cancelled.id, at: $1) }
    let summary = harness.schedule.summary(at: harness.now)
    #expect(harness.schedule.isIdle && summary.undeliveredCount == 2)
    #expect(summary.failedPaths == [RelativePath("a.mov"), RelativePath("b.mov")])
    for file in [cancelled, interrupted] {
      #expect(harness.schedule.deliveryOutcome(of: file.id)?.outcome == .failed)
    }
  }

  @Test(.promises("S77e")) func aDestinationThatIsAway_isAskedAtOnce() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: 10)
    harness.write(file)
    for _ in 0..<6 {
      harness.answerReads()
      harness.answer(StepFailure.connection(.connectFailed)) { _ in true }
      harness.advance(by: .seconds(1))
    }
    #expect(harness.state(file.id) == .waiting)
    while harness.answer(StepFailure.connection(.connectFailed), where: { _ in true }) != nil {}
    harness.apply { $0.retry(file.id, at: $1) }
    harness.answerReads()
    #expect(!harness.sent.isEmpty)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }
}
