import FileModel
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// Files of which the spool's disk cannot say what they are like, or has not kept what they held (docs/semantics.md, S40h).
@Suite struct UnreadableSpoolTests {
  private static let unreadable = Interruption.spoolUnreadable(errno: 5)
  private static let lost = Interruption.lostInWriteBack(errno: 5, 0..<10)

  private static func file(_ interruption: Interruption?, epoch: UInt64 = 1, name: String = "a.mov") -> ImaginaryFile {
    var file = ImaginaryFile(1, name, size: 3500, epoch: epoch)
    file.snapshot.interruption = interruption
    return file
  }

  /// What the spool says of a file whose attributes it could not read.
  private static func doubtful(_ name: String = "a.mov") -> ImaginaryFile {
    var file = file(unreadable, epoch: 0, name: name)
    (file.snapshot.sizeBytes, file.snapshot.modifiedNanoseconds) = (0, 0)
    return file
  }

  private static func entry(_ prepare: (inout ScheduleHarness) -> Void) throws -> CatalogEntry {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.write(file(nil))
    prepare(&harness)
    return try #require(harness.schedule.catalogEntry(of: file(nil).id))
  }

  /// Regression: `changed` says what is known before the change, and that stood for what was written by it.
  @Test(.promises("S41c")) func whatOneChangeMakesGood_isDelivered() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.write(Self.file(.writeFailed(errno: 5)))
    let rewritten = Self.file(.writeFailed(errno: 5), epoch: 2)
    harness.handle(rewritten.opened)
    harness.handle(rewritten.changed)
    harness.handle(Self.file(nil, epoch: 2).settled)
    harness.succeed()
    #expect(harness.state(rewritten.id) == .complete)
  }

  /// Regression: a file that was delivered from memory, and of which the disk has kept a part, was published under its next name
  /// as that part.
  @Test(.promises("S41f"), arguments: [false, true]) func deliveredFile_thatIsLostHere_isNotPublishedUnderAnotherName(
    isFoundAgain: Bool
  ) throws {
    let delivered = try Self.entry { $0.succeed() }
    var harness = ScheduleHarness(catalog: [delivered])
    var linked = Self.file(isFoundAgain ? .notOnDisk : Self.lost, epoch: 0)
    linked.snapshot.names.append(RelativePath("b.mov"))
    if isFoundAgain {
      harness.handle(linked.found)
      harness.handle(.scanEnded)
    } else {
      harness.handle(Self.file(nil, epoch: 0).found)
      harness.handle(.scanEnded)
      harness.handle(.unsettled(Self.file(Self.lost, epoch: 0).snapshot))
      #expect(harness.state(delivered.id) == .complete)
      harness.handle(.namesChanged(linked.snapshot))
    }
    #expect(harness.state(delivered.id) == .interrupted && harness.sent.isEmpty && harness.reads.isEmpty)
    #expect(harness.status(delivered.id)?.lastFailure?.code == "not-on-disk")
    harness.handle(.namesChanged(Self.file(Self.lost, epoch: 0).snapshot))
    harness.record()
    #expect(harness.state(delivered.id) == .complete, "under its old name it is delivered")
  }

  /// Regression: its entry was taken for that of another content: what was delivered went out again, and what no user wanted
  /// delivered did.
  @Test(.promises("S40h"), arguments: [FileStatus.State.complete, .cancelled])
  func fileThatCannotBeReadAtTheStart_staysWhatItWas(_ state: FileStatus.State) throws {
    let entry = try Self.entry { harness in
      if state == .complete { harness.succeed() } else { harness.apply { $0.cancel(Self.file(nil).id, at: $1) } }
    }
    var harness = ScheduleHarness(catalog: [entry])
    harness.handle(Self.doubtful().found)
    harness.handle(.scanEnded)
    #expect(harness.status(entry.id)?.lastFailure?.code == "spool-unreadable")
    #expect(harness.schedule.catalogEntry(of: entry.id) == entry, "for the next start")
    harness.handle(Self.file(nil, epoch: 0).settled)
    #expect(harness.state(entry.id) == state && harness.sent.isEmpty && harness.reads.isEmpty)
    // Another content is another matter.
    var changed = ScheduleHarness(catalog: [entry])
    changed.handle(Self.doubtful().found)
    changed.handle(.scanEnded)
    var other = Self.file(nil, epoch: 0)
    other.snapshot.sizeBytes = 100
    other.snapshot.modifiedNanoseconds += 1
    changed.handle(other.settled)
    changed.succeed()
    #expect(changed.state(entry.id) == .complete && changed.schedule.catalogEntry(of: entry.id) != entry)
  }

  /// Regression: the open said that the file can be read by now, and its close had nothing to end any more.
  @Test(.promises("S40h"), arguments: [unreadable, .spoolFailing(errno: 5)])
  func fileThatCouldNotBeRead_isDeliveredWhenItIsOpenedMeanwhile(_ interruption: Interruption) {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.write(Self.file(interruption))
    #expect(harness.status(Self.file(nil).id)?.lastFailure?.code == interruption.code)
    harness.handle(Self.file(nil).opened)
    harness.handle(Self.file(nil).settled)
    harness.succeed()
    #expect(harness.state(Self.file(nil).id) == .complete)
  }

  /// Regression: the catalog went on with the receipt of what was changed.
  @Test(.promises("S34a")) func changeOfAFileThatCannotBeReadAtTheStart_isRecorded() throws {
    let entry = try Self.entry { $0.succeed() }
    var harness = ScheduleHarness(catalog: [entry])
    harness.handle(Self.doubtful().found)
    var isToldFirst = false
    harness.apply { schedule, _ in isToldFirst = schedule.contentWillChange(entry.id) }
    #expect(isToldFirst && harness.schedule.catalogEntry(of: entry.id)?.receipt == nil)
  }

  /// Regression: a writer opened the file again, and a session was opened for it in the place of the one that had its parts.
  @Test(.promises("S71e")) func openFile_thatLacksParts_opensNoSessionWithoutItsRecord() {
    var harness = ScheduleHarness()
    harness.apply { schedule, _ in schedule.recover(RecoveredUploads(catalog: [], records: [], lacksRecords: true)) }
    harness.handle(.scanEnded)
    var file = Self.file(nil, epoch: 0)
    file.snapshot.isPartlyReleased = true
    harness.handle(file.opened)
    harness.advance(by: .seconds(5))
    harness.handle(file.settled)
    #expect(harness.status(file.id)?.lastFailure?.code == "record-unreadable")
    #expect(!harness.sent.contains { if case .openSession = $0.order { true } else { false } })
  }

  /// Regression: a session was opened for a file that is held back by its name, in the place of the one that had its parts.
  @Test(.promises("S71e")) func heldFile_thatLacksParts_opensNoSessionWithoutItsRecord() {
    var harness = ScheduleHarness()
    harness.apply { schedule, _ in schedule.recover(RecoveredUploads(catalog: [], records: [], lacksRecords: true)) }
    var file = Self.file(nil, epoch: 0, name: "a.mov.part")
    file.snapshot.isPartlyReleased = true
    harness.handle(file.found)
    harness.handle(.scanEnded)
    harness.advance(by: .seconds(5))
    #expect(harness.state(file.id) == .held)
    #expect(!harness.sent.contains { if case .openSession = $0.order { true } else { false } })
  }

  /// Regression (the sweep, 735921975): `wait` ended with exit code 18 for a file that was delivered a second later.
  @Test(.promises("S41d", "S40h"), arguments: [unreadable, .spoolFailing(errno: 5)])
  func fileWhoseDiskDoesNotSayWhatItHolds_isWaitedForForTenSeconds(_ interruption: Interruption) {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.write(Self.file(interruption))
    let id = Self.file(nil).id
    func outcome() -> DeliveryOutcome? { harness.schedule.deliveryOutcome(of: id)?.outcome }
    func undelivered() -> Int { harness.schedule.summary(at: harness.now).undeliveredCount }
    #expect(harness.state(id) == .interrupted && outcome() == nil && undelivered() == 0 && !harness.schedule.isIdle)
    harness.advance(by: .milliseconds(9_900))
    #expect(outcome() == nil && undelivered() == 0)
    harness.advance(by: .milliseconds(100))
    #expect(outcome() == .failed && undelivered() == 1 && harness.schedule.isIdle)
    // The same is said again, and is nothing new.
    harness.handle(.unsettled(Self.file(interruption).snapshot))
    #expect(outcome() == .failed)
    harness.handle(Self.file(nil).settled)
    #expect(outcome() == nil && undelivered() == 0)
    // Once more, after it could be read.
    harness.handle(.unsettled(Self.file(interruption).snapshot))
    #expect(outcome() == nil)
    harness.handle(Self.file(nil).settled)
    harness.succeed()
    #expect(outcome() == .delivered)
  }

  /// Regression (simulation, waiting 6800014143): one failed reading was taken for ten seconds of it, where the buffers were full of
  /// other files and nothing was tried again.
  @Test(.promises("S41n")) func fileThatIsNotReadAgain_isWaitedForOn() throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: 3500)
    harness.write(file)
    func outcome() -> DeliveryOutcome? { harness.schedule.deliveryOutcome(of: file.id)?.outcome }
    func refuse() throws {
      #expect(!harness.reads.isEmpty)
      while let read = harness.reads.popLast() {
        harness.apply { $0.chunkRead(read.id, result: .failed(.system(errno: 13)), at: $1) }
      }
    }
    try refuse()
    // Its next reading hangs.
    harness.advance(by: .seconds(11))
    #expect(outcome() == nil && !harness.schedule.isIdle)
    try refuse()
    #expect(outcome() == .failed && harness.schedule.isIdle)
  }

  /// No call waits for what is known to be missing.
  @Test(.promises("S41f")) func fileThatIsLost_isNotWaitedFor() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.write(Self.file(.spoolFailing(errno: 5)))
    harness.handle(.unsettled(Self.file(Self.lost).snapshot))
    #expect(harness.schedule.deliveryOutcome(of: Self.file(nil).id)?.outcome == .failed && harness.schedule.isIdle)
  }

  /// Regression: a file that was cancelled while its size was unknown was delivered after a restart.
  @Test(.promises("S40h")) func cancelledFile_whoseSizeIsNotKnown_staysCancelledOverARestart() throws {
    var harness = ScheduleHarness()
    harness.handle(Self.doubtful().found)
    harness.handle(.scanEnded)
    harness.apply { $0.cancel(Self.doubtful().id, at: $1) }
    let entry = try #require(harness.schedule.catalogEntry(of: Self.doubtful().id))
    var restarted = ScheduleHarness(catalog: [entry])
    restarted.handle(Self.file(nil, epoch: 0).found)
    restarted.handle(.scanEnded)
    #expect(restarted.state(entry.id) == .cancelled && restarted.sent.isEmpty)
  }

  /// What was said of a file that waits to be tried again.
  private func isSaidToWait(_ harness: ScheduleHarness) -> Bool {
    harness.others.contains { if case .report(.retrying) = $0 { true } else { false } }
  }

  /// Regression: each chunk and each name that was gone for a moment was a line of trouble. `isRenamed`: its name changes
  /// meanwhile, and it goes out under the new one.
  @Test(arguments: [false, true], [false, true])
  func chunkThatCannotBeReadOnce_isNoTrouble(isRenamed: Bool, isSmall: Bool) {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "a.mov", size: isSmall ? 500 : 3500)
    harness.write(file)
    harness.answer(.warmed) { $0.isPrewarm }
    harness.openSession()
    while let read = harness.reads.popLast() {
      harness.apply { $0.chunkRead(read.id, result: .failed(.system(errno: 2)), at: $1) }
    }
    #expect(harness.status(file.id)?.lastFailure?.code == "spool-unreadable" && !isSaidToWait(harness))
    if isRenamed {
      file.snapshot.names = [RelativePath("b.mov")]
      harness.handle(.namesChanged(file.snapshot))
    }
    for _ in 0..<100 where harness.state(file.id) != .complete {
      harness.advance(by: .milliseconds(100))
      harness.succeed()
    }
    let name = isRenamed ? "b.mov" : "a.mov"
    #expect(harness.state(file.id) == .complete && harness.status(file.id)?.receipt?.name == name)
    #expect(!isSaidToWait(harness))
  }

  /// The second time it is said, once.
  @Test func chunkThatStaysUnreadable_isSaidOnce() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: 3500)
    harness.write(file)
    harness.answer(.warmed) { $0.isPrewarm }
    harness.openSession()
    for _ in 0..<100 {
      while let read = harness.reads.popLast() {
        harness.apply { $0.chunkRead(read.id, result: .failed(.system(errno: 2)), at: $1) }
      }
      harness.advance(by: .milliseconds(100))
    }
    #expect(harness.others.count { if case .report(.retrying) = $0 { true } else { false } } == 1)
  }

  /// Regression: an ordinary user took the rights off a folder of the mount, and `unmount` and SIGTERM waited for ever for what lay
  /// in it.
  @Test(.promises("S41n"), arguments: [false, true])
  func fileThatCannotBeReadToBeSent_isWaitedForForTenSeconds(isStreamed: Bool) {
    var harness = ScheduleHarness { abilities in
      abilities.streamsWholeFiles = isStreamed
      abilities.unknownLength = !isStreamed
      abilities.replaceableChunks = !isStreamed
    }
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: isStreamed ? 1_000_000 : 3500)
    harness.write(file)
    let id = file.id
    func outcome() -> DeliveryOutcome? { harness.schedule.deliveryOutcome(of: id)?.outcome }
    func refuse() {
      while let read = harness.reads.popLast() {
        harness.apply { $0.chunkRead(read.id, result: .failed(.system(errno: 13)), at: $1) }
      }
      harness.answer(StepFailure.connection(.bodyUnavailable)) { $0.isWholeFile }
      if !isStreamed, harness.sent.contains(where: \.order.isOpenSession) { harness.openSession() }
    }
    refuse()
    for _ in 0..<99 {
      harness.advance(by: .milliseconds(100))
      refuse()
    }
    #expect(
      outcome() == nil && harness.schedule.summary(at: harness.now).undeliveredCount == 0 && !harness.schedule.isIdle)
    harness.advance(by: .milliseconds(100))
    var summary = harness.schedule.summary(at: harness.now)
    #expect(outcome() == .failed && summary.undeliveredCount == 1 && harness.schedule.isIdle)
    #expect(
      summary.failedPaths == [RelativePath("a.mov")] && summary.pendingBytes == 0
        && summary.oldestPendingSequence == nil)
    for _ in 0..<300 {
      harness.advance(by: .milliseconds(100))
      refuse()
    }
    #expect(harness.schedule.isIdle && harness.status(id)?.lastFailure?.code == "spool-unreadable")
    // It is tried on, and delivered once it can be read.
    for _ in 0..<200 where outcome() != .delivered {
      harness.advance(by: .milliseconds(100))
      harness.succeed()
    }
    summary = harness.schedule.summary(at: harness.now)
    #expect(outcome() == .delivered && summary.undeliveredCount == 0 && summary.failedPaths.isEmpty)
  }
}
