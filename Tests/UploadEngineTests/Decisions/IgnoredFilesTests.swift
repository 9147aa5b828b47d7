import FileModel
import Promises
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct IgnoredFilesTests {
  private static func harness(_ rule: String = "*.log upload=never") throws -> ScheduleHarness {
    var limits = ScheduleHarness.standardLimits
    limits.rules = FileRules(rules: [try FileRule(rule)])
    limits.rules.asker = .main
    var harness = ScheduleHarness(limits: limits)
    harness.handle(.scanEnded)
    return harness
  }

  @Test(.promises("S38a"), arguments: [0, 400, 3500] as [UInt64]) func ignoredFile_isNeverSentNorWaitedFor(size: UInt64)
    throws
  {
    var harness = try Self.harness()
    let file = ImaginaryFile(1, "a.log", size: size)
    harness.handle(file.opened)
    harness.handle(file.changed)
    harness.advance(by: .seconds(1))
    #expect(harness.state(file.id) == .ignored)
    #expect(harness.schedule.isIdle, "no call waits for an ignored file, also while it is open")
    harness.handle(file.settled)
    harness.apply { $0.retryAll(at: $1) }
    harness.apply { $0.retry(file.id, at: $1) }
    #expect(harness.sent.isEmpty && harness.reads.isEmpty, "not even a connection is warmed")
    #expect(harness.state(file.id) == .ignored && harness.status(file.id)?.reason != nil)
    #expect(harness.schedule.catalogEntry(of: file.id)?.state == .pending)
  }

  @Test(.promises("S38a")) func ignoredFileOfAnEarlierRun_staysIgnored() throws {
    var harness = try Self.harness()
    let file = ImaginaryFile(1, "day/a.log", size: 3500)
    harness.handle(file.found)
    #expect(harness.state(file.id) == .ignored && harness.sent.isEmpty)
  }

  @Test(.promises("S38b"), arguments: [true, false]) func renamedToAnotherName_isDelivered(isOpen: Bool) throws {
    var harness = try Self.harness()
    var file = ImaginaryFile(1, "a.log", size: 3500)
    harness.handle(file.opened)
    harness.handle(file.changed)
    if !isOpen { harness.handle(file.settled) }
    file.snapshot.names = [RelativePath("a.mov")]
    harness.handle(.namesChanged(file.snapshot))
    #expect(harness.state(file.id) == (isOpen ? .writing : .uploading))
    if isOpen { harness.handle(file.settled) }
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// Regression: what one destination had was kept for good in the spool once it was renamed to go to another one alone.
  @Test(.promises("S75b"), arguments: [("a.txt", true), ("a.log", false)] as [(String, Bool)])
  func deliveredFile_thatGoesElsewhereUnderItsNewName_mayGo(name: String, mayGo: Bool) throws {
    var limits = ScheduleHarness.standardLimits
    limits.rules = FileRules(rules: [try FileRule("*.txt to=other"), try FileRule("*.log upload=never")])
    limits.rules.asker = .main
    var harness = ScheduleHarness(limits: limits)
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "a.mov", size: 400)
    harness.write(file)
    harness.succeed()
    file.snapshot.names = [RelativePath(name)]
    harness.handle(.namesChanged(file.snapshot))
    #expect(harness.state(file.id) == .complete && harness.sent.isEmpty)
    #expect(harness.schedule.mayLose(EvictionCandidate(file.snapshot)) == mayGo)
    #expect(harness.schedule.evictionCandidates(countMax: 1).isEmpty, "the other destination says when it may go")
  }

  /// Regression (lives, 474137425): a destination to which a file went no longer said that it was cancelled there, over restarts as well,
  /// and so the file was never delivered.
  @Test(.promises("S77f")) func cancelledFile_thatGoesElsewhereUnderItsNewName_isNoLongerOfThisDestination() throws {
    var harness = try Self.harness("*.txt to=other")
    // What goes elsewhere is no state of this destination's.
    harness.checksSums = false
    var file = ImaginaryFile(1, "a.mov", size: 400)
    harness.write(file)
    harness.apply { $0.cancel(file.id, at: $1) }
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    #expect(harness.state(file.id) == .cancelled && entry.failureCode == FileUpload.cancelledCode)
    file.snapshot.names = [RelativePath("a.txt")]
    harness.handle(.namesChanged(file.snapshot))
    var limits = ScheduleHarness.standardLimits
    limits.rules = harness.schedule.limits.rules
    var restarted = ScheduleHarness(limits: limits, catalog: [entry])
    restarted.checksSums = false
    // Also in a copy, where it has another inode.
    file.snapshot.inode = 99
    restarted.handle(file.found)
    restarted.handle(.scanEnded)
    for var run in [harness, restarted] {
      #expect(run.state(file.id) == .ignored && run.schedule.catalogEntry(of: file.id) == nil)
      let work = run.others.filter { [.record(file.id), .forgetEntry(file.id)].contains($0) }
      #expect(work.last == .forgetEntry(file.id), "the next start finds nothing of it")
      #expect(run.schedule.summary(at: run.now).undeliveredCount == 0)
    }
  }

  /// Regression (lives, 193477005): the catalog of a destination to which a delivered file went no longer said for good that it was being
  /// written, and a copy without attributes held it.
  @Test(.promises("S79c")) func deliveredFile_thatIsWrittenAgainWhereItGoesElsewhere_isForgottenHere() throws {
    var harness = try Self.harness("*.txt to=other")
    harness.checksSums = false
    var file = ImaginaryFile(1, "a.mov", size: 400)
    harness.write(file)
    harness.succeed()
    file.snapshot.names = [RelativePath("a.txt")]
    harness.handle(.namesChanged(file.snapshot))
    harness.record()
    var isToldFirst = false
    harness.apply { schedule, _ in isToldFirst = schedule.contentWillChange(file.id) }
    #expect(isToldFirst && harness.schedule.catalogEntry(of: file.id)?.doubt == .mountDied)
    file.snapshot.epoch = 2
    harness.handle(file.changed)
    harness.handle(file.settled)
    let work = harness.others.filter { [.record(file.id), .forgetEntry(file.id)].contains($0) }
    #expect(work.last == .forgetEntry(file.id) && harness.state(file.id) == .ignored && harness.sent.isEmpty)
  }

  /// Regression (lives, 863058768): a file that a user had published as it was at one destination was held at another one, to which it
  /// went under its next name.
  @Test(.promises("S77g")) func interruptedFile_thatWasAcceptedElsewhere_isDeliveredUnderItsNewName() throws {
    var harness = try Self.harness("*.txt to=other")
    harness.checksSums = false
    for isAccepted in [true, false] {
      var file = ImaginaryFile(isAccepted ? 1 : 2, "a.txt", size: 400)
      file.snapshot.interruption = .mountDied
      harness.handle(file.found)
      #expect(harness.state(file.id) == .ignored)
      file.snapshot.names = [RelativePath("a.mov")]
      if isAccepted { file.snapshot.interruption = nil }
      harness.handle(.namesChanged(file.snapshot))
      harness.succeed()
      #expect(harness.state(file.id) == (isAccepted ? .complete : .interrupted))
    }
  }

  @Test(.promises("S38c"), arguments: 0..<12) func renamedToAnIgnoredName_isGivenUpAtEveryStep(steps: Int) throws {
    var harness = try Self.harness()
    var file = ImaginaryFile(1, "a.mov", size: 3500)
    harness.handle(file.opened)
    harness.handle(file.changed)
    harness.advance(by: .milliseconds(20))
    if steps > 0 { harness.handle(file.settled) }
    for _ in 0..<steps {
      if let order = harness.sent.first?.order { harness.answer(ScheduleHarness.success(of: order)) { _ in true } }
      harness.answerReads()
    }
    let isPublished = harness.schedule.files[file.id]?.receipt != nil
    file.snapshot.names = [RelativePath("a.log")]
    harness.handle(.namesChanged(file.snapshot))
    harness.endCancelled()
    harness.succeed()
    harness.record()
    #expect(harness.sent.isEmpty && harness.buffers.isEmpty && harness.schedule.isIdle)
    #expect(harness.state(file.id) == (isPublished ? .complete : .ignored))
  }

  /// Regression: the file was held for a final name that it had, and a destination to which it no longer goes said so, too.
  @Test(.promises("S38c", "S76b"), arguments: ["*.log upload=never", "*.log to=archive"])
  func deliveredFile_thatGetsAnIgnoredNameWhileAnotherIsPublished_isDelivered(rule: String) throws {
    var harness = try Self.harness(rule)
    var file = ImaginaryFile(1, "a.mov", size: 3500)
    harness.write(file)
    harness.succeed()
    harness.record()
    #expect(harness.state(file.id) == .complete)
    for name in ["b.mov", "b.log"] {
      file.snapshot.names = [RelativePath(name)]
      harness.handle(.namesChanged(file.snapshot))
    }
    harness.endCancelled()
    harness.succeed()
    harness.record()
    #expect(harness.state(file.id) == .complete && harness.schedule.isIdle)
    #expect(harness.sent.isEmpty && harness.buffers.isEmpty)
  }

  /// Regression: a file that had failed, or was interrupted, went on as if a user had to see to it.
  @Test(.promises("S38a")) func failedOrInterruptedFile_thatGetsAnIgnoredName_isIgnored() throws {
    var harness = try Self.harness()
    var failed = ImaginaryFile(1, "a.mov", size: 400)
    harness.write(failed)
    harness.answerReads()
    harness.answer(.refused(StepFailure(.nameRefused, "no"))) { $0.carriesChunk }
    #expect(harness.state(failed.id) == .failed)
    var interrupted = ImaginaryFile(2, "b.mov", size: 3500)
    interrupted.snapshot.interruption = .mountDied
    harness.write(interrupted)
    #expect(harness.state(interrupted.id) == .interrupted)
    failed.snapshot.names = [RelativePath("a.log")]
    interrupted.snapshot.names = [RelativePath("b.log")]
    for file in [failed, interrupted] {
      harness.handle(.namesChanged(file.snapshot))
      #expect(harness.state(file.id) == .ignored)
    }
    #expect(harness.schedule.summary(at: harness.now).undeliveredCount == 0)
    failed.snapshot.names = [RelativePath("a.mov")]
    interrupted.snapshot.names = [RelativePath("b.mov")]
    for file in [failed, interrupted] { harness.handle(.namesChanged(file.snapshot)) }
    harness.succeed()
    #expect(harness.state(failed.id) == .complete && harness.state(interrupted.id) == .interrupted)
  }

  @Test(.promises("S38a")) func fileWithAnotherName_isDeliveredUnderThatOne() throws {
    var harness = try Self.harness()
    var file = ImaginaryFile(1, "a.log", size: 400)
    file.snapshot.names = [RelativePath("a.log"), RelativePath("a.mov")]
    harness.write(file)
    harness.succeed()
    #expect(harness.status(file.id)?.receipt?.name == "a.mov")
    #expect(harness.state(file.id) == .complete)
  }
}
