import FileModel
import Integrity
import Promises
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct InterruptedFilesTests {
  private static let all: [Interruption] = [
    .writeRefused(limitBytes: 10), .writeFailed(errno: 28), .writerKilled(signal: 9), .mountDied,
  ]

  private static func harness(_ rules: [String] = [], catalog: [CatalogEntry] = []) throws -> ScheduleHarness {
    var limits = ScheduleHarness.standardLimits
    limits.rules = FileRules(rules: try rules.map { text throws(FileRuleProblem) in try FileRule(text) })
    return ScheduleHarness(limits: limits, catalog: catalog)
  }

  private static func file(_ interruption: Interruption?, size: UInt64 = 3500) -> ImaginaryFile {
    var file = ImaginaryFile(1, "a.mov", size: size, epoch: 2)
    file.snapshot.interruption = interruption
    return file
  }

  @Test(arguments: all, [10, 3500] as [UInt64])
  func interruptedFile_isKeptBack_untilAUserAsks(why: Interruption, size: UInt64) throws {
    var harness = try Self.harness()
    harness.handle(.scanEnded)
    let file = Self.file(why, size: size)
    harness.write(file)
    harness.advance(by: .seconds(100))
    #expect(harness.state(file.id) == .interrupted)
    #expect(harness.status(file.id)?.lastFailure?.code == why.code && harness.status(file.id)?.reason != nil)
    #expect(harness.reads.isEmpty && !harness.sent.contains { $0.order.carriesChunk || $0.order.isCommit })
    #expect(harness.schedule.isIdle, "no call waits for it")
    #expect(harness.schedule.summary(at: harness.now).failedPaths == [RelativePath("a.mov")])
    harness.apply { $0.retry(file.id, at: $1) }
    #expect(harness.state(file.id) == .interrupted, "nothing has failed")
    harness.apply { $0.publish(file.id, at: $1) }
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.status(file.id)?.lastFailure == nil)
    let accepted = SpoolOrder.accept(EvictionCandidate(file.snapshot), file.snapshot.interruption)
    #expect(harness.schedule.takeSpoolOrders() == [accepted], "its mark in the spool has to go")
  }

  /// Regression, found by the simulation (spool-power, seed 48100014189): what a power cut had left took the place of what had been published.
  @Test(.promises("S77g"), arguments: all + [.notOnDisk]) func aWordOfBeforeAPowerCut_isNotOfWhatThatHasLeft(
    why: Interruption
  ) throws {
    var harness = try Self.harness()
    harness.handle(.scanEnded)
    let file = Self.file(why)
    harness.write(file)
    harness.apply { $0.publish(file.id, at: $1) }
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    for found in [why, .notOnDisk] {
      var left = file
      (left.snapshot.interruption, left.snapshot.epoch) = (found, 0)
      var next = try Self.harness(catalog: [entry])
      next.handle(.found(left.snapshot))
      next.handle(.scanEnded)
      next.succeed()
      #expect(next.state(file.id) == (found == why ? .complete : .interrupted))
      if found != why { #expect(next.sent.isEmpty && next.reads.isEmpty) }
    }
  }

  /// Regression, found by the simulation (waiting, seed 3100288648): the spool hears within a second that a user wants the file as it
  /// is. What it said before that made the file an interrupted one again, and it stayed so.
  @Test(arguments: all) func whatIsWantedAsItIs_staysSo_whateverTheSpoolSaysOfItMeanwhile(why: Interruption) throws {
    var harness = try Self.harness()
    harness.handle(.scanEnded)
    var file = Self.file(why)
    harness.write(file)
    harness.apply { $0.publish(file.id, at: $1) }
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    harness.write(file)
    file.snapshot.names = [RelativePath("b.mov")]
    harness.handle(.namesChanged(file.snapshot))
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.status(file.id)?.path == RelativePath("b.mov"))
    // What has happened to it since is another matter.
    file.snapshot.interruption = .lostInWriteBack(errno: 5, 0..<10)
    file.snapshot.names = [RelativePath("c.mov")]
    harness.handle(.namesChanged(file.snapshot))
    #expect(harness.state(file.id) == .interrupted)
  }

  @Test(.promises("S39b"), arguments: all) func interruptedFile_isKeptBackAfterARestart(why: Interruption) throws {
    var harness = try Self.harness()
    harness.handle(.scanEnded)
    harness.write(Self.file(why))
    let entry = try #require(harness.schedule.catalogEntry(of: Self.file(why).id))
    // The spool's filesystem may keep no marks.
    for found in [why, nil] {
      var restarted = try Self.harness(catalog: [entry])
      restarted.handle(Self.file(found).found)
      restarted.handle(.scanEnded)
      #expect(restarted.state(entry.id) == .interrupted && restarted.status(entry.id)?.lastFailure?.code == why.code)
      #expect(restarted.reads.isEmpty && restarted.sent.isEmpty)
      restarted.apply { $0.retryAll(at: $1) }
      restarted.succeed()
      #expect(restarted.state(entry.id) == .complete)
    }
  }

  /// Regression: a rule published the zeros that a power cut had left, or removed what had been closed.
  @Test(
    .promises("S40c", "S41f"), arguments: [.notOnDisk, .lostInWriteBack(errno: 5, 0..<4096)] as [Interruption],
    ["publish", "discard"])
  func whatADiskMayHaveLost_isHeld_whateverTheRuleSays(why: Interruption, rule: String) throws {
    var harness = try Self.harness(["*.mov interrupted=\(rule)"])
    let file = Self.file(why)
    harness.handle(file.found)
    harness.handle(.scanEnded)
    harness.advance(by: .seconds(100))
    #expect(harness.state(file.id) == .interrupted && harness.status(file.id)?.lastFailure?.code == "not-on-disk")
    #expect(harness.schedule.takeSpoolOrders().isEmpty && harness.schedule.isIdle)
    #expect(harness.reads.isEmpty && harness.sent.isEmpty)
    harness.apply { $0.publish(file.id, at: $1) }
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// Regression: the record was dropped, and all of it was sent again once a user wanted it.
  @Test func interruptedFile_keepsItsSessionOverRestarts() throws {
    var harness = try Self.harness()
    harness.handle(.scanEnded)
    let file = Self.file(.mountDied)
    harness.write(file)
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    let record = ResumeRecord(
      fileID: file.id, sessionID: "s", nonce: Array(repeating: 1, count: 32), chunkBytes: ScheduleHarness.chunkBytes,
      epochRevision: 1, path: file.snapshot.names[0], sizeBytes: file.snapshot.sizeBytes,
      openedAtSeconds: 1_699_999_000, expiresAtSeconds: nil, acknowledged: [])
    var restarted = ScheduleHarness(catalog: [entry], records: [record])
    restarted.handle(file.found)
    restarted.handle(.scanEnded)
    #expect(restarted.state(file.id) == .interrupted && !restarted.others.contains(.removeResume(file.id)))
    restarted.apply { $0.retryAll(at: $1) }
    #expect(restarted.sent.contains { $0.order.isQuery })
  }

  /// Regression, found by the simulation (comebacks, seed 49000026642): a power cut brought back a content together with the record of the session
  /// that had published it. A later one had replaced that, of which nothing was left here; the file counted as delivered.
  @Test(.promises("S77g"), arguments: [nil, .notOnDisk, .unproven] as [Interruption?])
  func whatAnEarlierSessionHasPublished_isNoDeliveryOfWhatAPowerCutHasLeft(why: Interruption?) throws {
    var harness = try Self.harness()
    harness.handle(.scanEnded)
    harness.beginSending(Self.file(nil))
    let file = Self.file(why)
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    let record = try #require(harness.schedule.resumeSnapshot(of: file.id, since: nil)?.record)
    while harness.answer(.chunkStored, where: { $0.isChunk }) != nil {}
    let commit = try #require(harness.commits.first)
    let receipt = ScheduleHarness.receipt(
      commit.path, commit.sizeBytes, root: Hex.encode(commit.merkleRoot), tip: Hex.encode(commit.chainTip))
    var restarted = ScheduleHarness(catalog: [entry], records: [record])
    restarted.handle(file.found)
    restarted.handle(.scanEnded)
    if why != nil { restarted.apply { $0.publish(file.id, at: $1) } }
    restarted.answerReads()
    restarted.answer(.published(receipt)) { $0.isQuery }
    restarted.answerReads()
    restarted.advance(by: .seconds(60))
    #expect(restarted.sent.contains { $0.order.isOpenSession } == (why != nil))
    restarted.succeed()
    #expect(restarted.state(file.id) == .complete)
  }

  /// Regression (seed 2000001949): an interrupted file was written anew, and the machine died before the catalog had heard of
  /// it. Where times are coarse, the old entry looked like the new content, which was then held as interrupted.
  @Test(arguments: [true, false]) func whatTheCatalogSaysOfAnEarlierContent_isForgottenBeforeItChanges(isKnown: Bool)
    throws
  {
    var harness = try Self.harness()
    harness.handle(.scanEnded)
    harness.write(Self.file(.mountDied))
    let entry = try #require(harness.schedule.catalogEntry(of: Self.file(nil).id))
    var restarted = try Self.harness(catalog: [entry])
    if isKnown { restarted.handle(Self.file(.mountDied).found) }
    var mustRecord = false
    restarted.apply { schedule, _ in mustRecord = schedule.contentWillChange(entry.id) }
    #expect(mustRecord)
    if isKnown { #expect(restarted.schedule.catalogEntry(of: entry.id)?.state == .pending) }
    // As the catalog has it from then on.
    var pending = entry
    pending.state = .pending
    var again = try Self.harness(catalog: [pending])
    again.handle(Self.file(nil).found)
    again.handle(.scanEnded)
    again.succeed()
    #expect(again.state(entry.id) == .complete)
  }

  /// Regression: the reason of a failed write stayed in the catalog of a file that was made good.
  @Test func aFailureThatWasMadeGood_isNoneAfterARestart() throws {
    var harness = try Self.harness()
    harness.handle(.scanEnded)
    let file = Self.file(nil)
    harness.handle(file.opened)
    harness.handle(.writeFailed(file.id, .changeRefused))
    harness.handle(file.settled)
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    var restarted = try Self.harness(catalog: [entry])
    restarted.handle(file.found)
    restarted.handle(.scanEnded)
    restarted.succeed()
    #expect(restarted.state(file.id) == .complete)
  }

  @Test func markedFileThatWasDelivered_isDelivered() throws {
    var harness = try Self.harness()
    harness.handle(.scanEnded)
    harness.write(Self.file(nil))
    harness.succeed()
    let entry = try #require(harness.schedule.catalogEntry(of: Self.file(nil).id))
    var restarted = try Self.harness(catalog: [entry])
    restarted.handle(Self.file(.writerKilled(signal: 9)).found)
    #expect(restarted.state(entry.id) == .complete)
  }

  @Test func fileFoundWithAMark_isInterrupted() throws {
    var harness = try Self.harness()
    let file = Self.file(.mountDied)
    harness.handle(file.found)
    harness.handle(.scanEnded)
    #expect(harness.state(file.id) == .interrupted && harness.sent.isEmpty)
    // A program opens it and changes nothing.
    harness.handle(file.opened)
    harness.handle(file.settled)
    #expect(harness.state(file.id) == .interrupted)
  }

  @Test(.promises("S39f")) func laterRevisionThatIsWhole_isDelivered() throws {
    var harness = try Self.harness()
    harness.handle(.scanEnded)
    harness.write(Self.file(.writerKilled(signal: 9)))
    var whole = Self.file(nil)
    whole.snapshot.epoch = 5
    harness.handle(whole.opened)
    harness.handle(whole.changed)
    harness.handle(whole.settled)
    harness.succeed()
    #expect(harness.state(whole.id) == .complete)
  }

  @Test(.promises("S41c")) func failedWriteThatWasMadeGood_leavesNothing() throws {
    var harness = try Self.harness()
    harness.handle(.scanEnded)
    let file = Self.file(nil)
    harness.handle(file.opened)
    harness.handle(.writeFailed(file.id, .writeFailed(errno: 28)))
    #expect(harness.status(file.id)?.lastFailure?.code == "write-failed", "people see it at once")
    harness.handle(file.settled)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// Regression, found by the simulation (waiting, seed 5100001041): a write that failed took the place of what a file had failed for,
  /// and a start took the whole file for an unfinished one.
  @Test(.promises("S41m")) func failedWriteThatChangesNothing_leavesWhatTheFileFailedFor() throws {
    var harness = try Self.harness()
    harness.handle(.scanEnded)
    let file = Self.file(nil)
    harness.write(file)
    harness.answer(.refused(StepFailure(.nameRefused, "no"))) { $0.isOpenSession }
    #expect(harness.status(file.id)?.lastFailure?.code == "name-refused")
    harness.handle(file.opened)
    harness.handle(.writeFailed(file.id, .writeFailed(errno: 5)))
    #expect(harness.status(file.id)?.lastFailure?.code == "write-failed", "people see it at once")
    #expect(harness.schedule.catalogEntry(of: file.id)?.failureCode == "name-refused")
    harness.handle(file.settled)
    #expect(harness.state(file.id) == .failed)
    #expect(harness.status(file.id)?.lastFailure?.code == "name-refused")
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    var restarted = try Self.harness(catalog: [entry])
    restarted.handle(file.found)
    restarted.handle(.scanEnded)
    #expect(restarted.state(file.id) != .interrupted)
  }

  @Test(.promises("S39c")) func publishPolicy_deliversIt() throws {
    var harness = try Self.harness(["*.mov interrupted=publish"])
    harness.handle(.scanEnded)
    harness.write(Self.file(.mountDied))
    harness.succeed()
    #expect(harness.state(Self.file(nil).id) == .complete)
  }

  @Test(.promises("S39d")) func discardPolicy_removesItAndNothingElse() throws {
    var harness = try Self.harness(["*.mov interrupted=discard"])
    harness.handle(.scanEnded)
    let whole = ImaginaryFile(2, "whole.mov", size: 10)
    harness.write(whole)
    let file = Self.file(.writerKilled(signal: 11))
    harness.write(file)
    #expect(harness.schedule.takeSpoolOrders() == [.discard(EvictionCandidate(file.snapshot))])
    #expect(harness.schedule.takeSpoolOrders().isEmpty)
    let candidate = EvictionCandidate(file.snapshot)
    var former = candidate
    former.epoch = 1
    harness.apply { schedule, _ in schedule.notDiscarded(candidate) }
    harness.apply { schedule, _ in schedule.notDiscarded(former) }
    #expect(harness.schedule.takeSpoolOrders() == [.discard(candidate)], "a program was reading it")
    harness.handle(.evicted(file.id))
    #expect(harness.state(file.id) == .cancelled && harness.status(file.id)?.isLocal == false)
    // Regression: its status advised to write it anew, or to publish it.
    let status = try #require(harness.status(file.id))
    #expect(status.lastFailure == nil && status.reason?.contains("a rule removes") == true)
    #expect(harness.schedule.catalogEntry(of: file.id) == nil)
    harness.succeed()
    #expect(harness.state(whole.id) == .complete)
  }

  @Test("Regression: a removed file was said to be kept in the spool, and counted as cancelled", .promises("S39d"))
  func aRemovedFile_isNoLongerInNeedOfAnything() throws {
    var harness = try Self.harness([])
    harness.handle(.scanEnded)
    let file = Self.file(.writerKilled(signal: 9))
    harness.write(file)
    #expect(harness.status(file.id)?.lastFailure?.code == "writer-killed")
    harness.handle(.removed(file.id))
    let status = try #require(harness.status(file.id))
    #expect(status.lastFailure == nil && status.reason == "The file was removed before it was delivered.")
    var counts: [FileStatus.State: Int] = [:]
    harness.apply { schedule, now in counts = schedule.summary(at: now).filesByState }
    #expect(counts[.cancelled] == 0 && counts[.interrupted] == 0)
  }

  /// Regression: a file that was to be discarded under one name would have been under a name by which it is kept, and one
  /// whose name the filesystem knew first would have been asked for under the old name for ever.
  @Test(.promises("S39b", "S39d")) func whatIsToBeDiscarded_isUnderTheNamesThatItHas() throws {
    var harness = try Self.harness(["*.mov interrupted=discard"])
    harness.handle(.scanEnded)
    var file = Self.file(.mountDied)
    harness.write(file)
    let former = EvictionCandidate(file.snapshot)
    file.snapshot.names = [RelativePath("other.mov")]
    harness.handle(.namesChanged(file.snapshot))
    _ = harness.schedule.takeSpoolOrders()
    harness.apply { schedule, _ in schedule.notDiscarded(former) }
    #expect(harness.schedule.takeSpoolOrders() == [.discard(EvictionCandidate(file.snapshot))])
    file.snapshot.names = [RelativePath("kept.raw")]
    harness.handle(.namesChanged(file.snapshot))
    harness.apply { schedule, _ in schedule.notDiscarded(former) }
    #expect(harness.schedule.takeSpoolOrders().isEmpty && harness.state(file.id) == .interrupted)
  }

  /// Regression: `wait` named a file as kept in the spool that the rule removed in the same second.
  @Test(.promises("S39d")) func whatIsToBeDiscarded_needsNoUser() throws {
    var harness = try Self.harness(["*.mov interrupted=discard"])
    harness.handle(.scanEnded)
    var file = Self.file(.mountDied)
    harness.write(file)
    let summary = harness.schedule.summary(at: harness.now)
    #expect(harness.state(file.id) == .interrupted)
    #expect(summary.undeliveredCount == 0 && summary.failedPaths == [])
    file.snapshot.names = [RelativePath("kept.raw")]
    harness.handle(.namesChanged(file.snapshot))
    #expect(harness.schedule.summary(at: harness.now).failedPaths == [RelativePath("kept.raw")])
  }

  @Test func newNameWithAnotherPolicy_decidesAnew() throws {
    var harness = try Self.harness(["keep.mov interrupted=publish"])
    harness.handle(.scanEnded)
    var file = Self.file(.mountDied)
    harness.write(file)
    file.snapshot.names = [RelativePath("keep.mov")]
    harness.handle(.namesChanged(file.snapshot))
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func temporaryNameOfADeadWriter_isInterruptedAlsoUnderItsFinalName() throws {
    var harness = try Self.harness()
    harness.handle(.scanEnded)
    var file = Self.file(.writerKilled(signal: 15))
    file.snapshot.names = [RelativePath("a.mov.part")]
    harness.write(file)
    #expect(harness.state(file.id) == .interrupted)
    file.snapshot.names = [RelativePath("a.mov")]
    harness.handle(.namesChanged(file.snapshot))
    #expect(harness.state(file.id) == .interrupted && harness.reads.isEmpty)
  }
}

/// A spool's disk that does not take what was written (docs/semantics.md, S41d).
@Suite struct RefusedByDiskTests {
  private static let errno: Int32 = 5

  private func file(_ id: UInt64, _ name: String, size: UInt64 = 3500) -> ImaginaryFile {
    ImaginaryFile(id, name, size: size, epoch: 2)
  }

  private func refused(_ file: ImaginaryFile, _ interruption: Interruption?) -> FileSnapshot {
    var snapshot = file.snapshot
    snapshot.interruption = interruption
    snapshot.diskErrno = Self.errno
    return snapshot
  }

  @Test func fileThatItsDiskRefuses_waits_andGoesOnWhenItIsKnownToBeWhole() throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let file = file(1, "a.mov")
    harness.write(file)
    harness.handle(.unsettled(refused(file, .spoolFailing(errno: Self.errno))))
    #expect(harness.state(file.id) == .interrupted)
    #expect(harness.status(file.id)?.lastFailure?.code == "spool-failing")
    harness.apply { $0.publish(file.id, at: $1) }
    #expect(harness.state(file.id) == .interrupted, "it is unknown what would be published")
    // All of it is in memory.
    harness.handle(.settled(refused(file, nil)))
    #expect(harness.state(file.id) != .interrupted)
    #expect(harness.status(file.id)?.lastFailure?.code == "spool-failing", "still said")
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.schedule.totals.filesRefusedByDisk == 1)
    harness.handle(.settled(file.snapshot))
    #expect(harness.status(file.id)?.lastFailure == nil && harness.state(file.id) == .complete)
  }

  @Test(arguments: [true, false]) func whatIsInMemoryAlone_goesFirst(isKnownAtOnce: Bool) {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let files = (1...20).map { file(UInt64($0), "f\($0)", size: 8000) }
    for file in files { harness.handle(.settled(file.snapshot)) }
    let last = files[19]
    if !isKnownAtOnce { harness.handle(.unsettled(refused(last, .spoolFailing(errno: Self.errno)))) }
    harness.handle(.settled(refused(last, nil)))
    #expect(!harness.reads.contains { $0.file == last.id }, "others are at it")
    var completed = 0
    while harness.state(last.id) != .complete, completed < 20 {
      harness.answerReads()
      guard let sent = harness.sent.first else { break }
      harness.answer(ScheduleHarness.success(of: sent.order)) { _ in true }
      harness.record()
      completed = files.count { harness.state($0.id) == .complete }
    }
    #expect(harness.state(last.id) == .complete && completed < 10, "after \(completed) files")
  }

  @Test func whatIsLost_isHeld_andWhatIsDeliveredStaysDelivered() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let (lost, delivered) = (file(1, "a.mov"), file(2, "b.mov"))
    harness.write(delivered)
    harness.succeed()
    harness.handle(.unsettled(refused(delivered, .lostInWriteBack(errno: Self.errno, 0..<4096))))
    #expect(harness.state(delivered.id) == .complete)
    harness.beginSending(lost)
    harness.answerChunk(0, .chunkStored)
    harness.handle(.unsettled(refused(lost, .lostInWriteBack(errno: Self.errno, 0..<4096))))
    harness.advance(by: .seconds(100))
    #expect(harness.state(lost.id) == .interrupted && harness.status(lost.id)?.lastFailure?.code == "not-on-disk")
    #expect(!harness.sent.contains { $0.order.isCommit })
    harness.apply { $0.publish(lost.id, at: $1) }
    harness.succeed()
    #expect(harness.state(lost.id) == .complete)
  }
}
