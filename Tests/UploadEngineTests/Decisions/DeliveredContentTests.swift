import FileModel
import Integrity
import Lookup
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// What a start finds in the place of what was delivered.
@Suite struct DeliveredContentTests {
  private let file = ImaginaryFile(1, "a.mov", size: 3000)
  private let entry: CatalogEntry

  init() throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.write(file)
    harness.succeed()
    entry = try #require(harness.schedule.catalogEntry(of: file.id))
    #expect(entry.state == .complete && entry.receipt?.sizeBytes == 3000)
  }

  private func found(
    _ entry: CatalogEntry? = nil, _ change: (inout FileSnapshot) -> Void = { _ in }
  ) -> ScheduleHarness {
    var file = file
    change(&file.snapshot)
    var harness = ScheduleHarness(catalog: [entry ?? self.entry])
    harness.handle(file.found)
    harness.handle(.scanEnded)
    return harness
  }

  private func expectHeld(_ harness: ScheduleHarness) {
    #expect(harness.state(file.id) == .interrupted)
    #expect(harness.status(file.id)?.lastFailure?.code == "older-than-delivered")
    #expect(harness.sent.isEmpty && harness.reads.isEmpty && harness.buffers.isEmpty && harness.schedule.isIdle)
  }

  /// Regression: it was sent again.
  @Test(.promises("S80b"), arguments: [1, 9] as [Int64], [1, 2] as [UInt64])
  func theSameContentIsReadAndNotSent(modifiedNanoseconds: Int64, inode: UInt64) {
    var harness = found {
      ($0.modifiedNanoseconds, $0.inode) = (modifiedNanoseconds, inode)
    }
    #expect(harness.state(file.id) == .queued && !harness.schedule.isIdle)
    #expect(harness.schedule.catalogEntry(of: file.id) == entry, "the catalog says what was delivered")
    harness.answerReads()
    // Regression (lives): it counted as delivered at once; a kill came first, and the next start, with shorter chunks, sent it again.
    #expect(harness.state(file.id) != .complete && harness.schedule.isAwaitingRecord(of: file.id))
    harness.record()
    #expect(harness.state(file.id) == .complete && harness.sent.isEmpty && harness.buffers.isEmpty)
    #expect(!harness.others.contains { if case .report(.delivered) = $0 { true } else { false } })
    #expect(harness.schedule.catalogEntry(of: file.id)?.modifiedNanoseconds == modifiedNanoseconds)
    #expect(harness.schedule.catalogEntry(of: file.id)?.receipt == entry.receipt)
    #expect(harness.schedule.isIdle)
  }

  @Test(
    "Regression: of a lost catalog it was said that it was lost, and not of how many files it had known",
    arguments: [true, false])
  func aCatalogThatIsAnew_saysOfHowManyFilesItKnowsNothing(isAnew: Bool) {
    var files = [file, ImaginaryFile(2, "b.mov", size: 10), ImaginaryFile(3, "c.mov", size: 5000)]
    for index in files.indices { files[index].snapshot.wasFound = true }
    // Of this one an older copy of the catalog says that it was delivered, and it is compared.
    files[0].snapshot.modifiedNanoseconds = 9
    var harness = ScheduleHarness()
    harness.schedule.recover(RecoveredUploads(catalog: [entry], records: [], isCatalogAnew: isAnew))
    for file in files { harness.handle(file.found) }
    harness.write(ImaginaryFile(4, "of-this-run.mov", size: 10))
    harness.handle(.scanEnded)
    harness.handle(.scanEnded)
    #expect(harness.others.count { $0 == .report(.forgotten(2, compared: 1)) } == (isAnew ? 1 : 0))
  }

  /// What was delivered is known, and that the spool has it is not: see ``FileUpload/remainsCode``.
  @Test(
    .promises("S80f"),
    arguments: [.notOnDisk, .unproven, .lostInWriteBack(errno: 5, 0..<1), nil] as [Interruption?])
  func theCatalogSaysWhetherItsDeliveryIsKnownToBeHere(doubt: Interruption?) throws {
    let harness = found {
      ($0.modifiedNanoseconds, $0.inode, $0.interruption) = (9, 2, doubt)
    }
    let recorded = try #require(harness.schedule.catalogEntry(of: file.id))
    #expect(recorded.failureCode == (doubt == nil ? nil : FileUpload.remainsCode) && recorded.receipt == entry.receipt)
    var whole = ScheduleHarness(catalog: [recorded])
    whole.handle(file.found)
    whole.handle(.scanEnded)
    #expect(whole.state(file.id) == .complete && whole.schedule.catalogEntry(of: file.id) == entry)
  }

  @Test(
    "Regression, found by the simulation (bare-copies, seed 52700046956): of what a power cut had left of a delivered capture a second copy without attributes said that parts of it had been given up",
    .promises("S79j", "S80g"))
  func whatADiskHasLeftOfADelivery_isNotTakenForWhatLacksGivenUpParts() throws {
    // The first start in a copy finds the time that it had.
    let first = found { $0.interruption = .unproven }
    #expect(first.state(file.id) == .complete)
    var recorded = try #require(first.schedule.catalogEntry(of: file.id))
    #expect(recorded.doubt == .unproven && recorded.failureCode == FileUpload.diskRemainsCode)
    // The next ones, in copies without times, find another content.
    for _ in 0..<2 {
      var next = found(recorded) { ($0.modifiedNanoseconds, $0.interruption, $0.epoch) = (9, .unproven, 0) }
      next.answerReads()
      #expect(next.state(file.id) == .interrupted && next.status(file.id)?.lastFailure?.code == "unproven")
      recorded = try #require(next.schedule.catalogEntry(of: file.id))
      #expect(recorded.receipt == entry.receipt, "what was delivered stays known")
    }
  }

  /// Regression: it replaced what had been delivered since.
  @Test(
    .promises("S80a", "S80c"),
    arguments: [(3000, 1, 1), (3000, 9, 2), (2000, 1, 1), (2000, 9, 2)] as [(UInt64, Int64, UInt64)])
  func anotherContentThatIsOlderOrInAnotherFile_isHeld(of facts: (UInt64, Int64, UInt64)) {
    var harness = found {
      ($0.sizeBytes, $0.modifiedNanoseconds, $0.inode) = facts
      // What is read has other digests.
      $0.epoch = 0
    }
    harness.answerReads()
    expectHeld(harness)
    #expect(harness.schedule.catalogEntry(of: file.id) == entry, "the next start finds the same, or what was put right")
    var outcome = FileCommandOutcome.unknownFile
    harness.apply { outcome = $0.publish(file.id, at: $1) }
    #expect(outcome == .obeyed)
    #expect(harness.schedule.catalogEntry(of: file.id)?.state == .pending)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test(.promises("S80a"), arguments: [3000, 2000] as [UInt64])
  func aLaterContentOfTheSameFile_isARevision(sizeBytes: UInt64) {
    var harness = found {
      ($0.sizeBytes, $0.modifiedNanoseconds, $0.epoch) = (sizeBytes, 9, 0)
    }
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.schedule.catalogEntry(of: file.id)?.sizeBytes == sizeBytes)
  }

  @Test(
    "Regression, found by the simulation (spool-disk, seed 7800026785): a revision was published before the catalog took that it was one; the former content, put back then, counted as delivered",
    .promises("S80e"), arguments: [3000, 2000, 300] as [UInt64])
  func aRevision_goesOutOnceTheCatalogHasCeasedToSayWhatWasDelivered(sizeBytes: UInt64) throws {
    var harness = found {
      ($0.sizeBytes, $0.modifiedNanoseconds, $0.epoch) = (sizeBytes, 9, 0)
    }
    harness.answerReads()
    #expect(harness.sent.isEmpty && harness.buffers.isEmpty && harness.state(file.id) == .queued)
    let pending = try #require(harness.schedule.catalogEntry(of: file.id))
    #expect(pending.state == .pending && pending.receipt == nil && harness.schedule.isAwaitingRecord(of: file.id))
    for _ in 0..<12 {
      harness.apply { $0.recordingFails("the disk is read-only", at: $1) }
      #expect(harness.status(file.id)?.lastFailure?.code == "not-recorded")
      harness.advance(by: .seconds(1))
    }
    #expect(harness.state(file.id) == .failed && harness.schedule.isIdle && harness.sent.isEmpty)
    #expect(harness.schedule.catalogEntry(of: file.id)?.receipt == nil)
    harness.apply { $0.retry(file.id, at: $1) }
    #expect(harness.sent.isEmpty && !harness.schedule.isIdle)
    harness.record()
    #expect(harness.state(file.id) != .failed && harness.status(file.id)?.lastFailure == nil)
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.buffers.isEmpty)
  }

  @Test(.promises("S80b")) func whatWasEvictedAndIsPutBack_isDelivered() {
    var evicted = entry
    evicted.state = .evicted
    var harness = found(evicted) { $0.inode = 2 }
    #expect(harness.state(file.id) == .complete && harness.sent.isEmpty)
    #expect(harness.schedule.catalogEntry(of: file.id)?.state == .complete)
    // Not even its own inode number says that it is a revision: that was free.
    harness = found(evicted) { ($0.sizeBytes, $0.modifiedNanoseconds) = (2000, 9) }
    expectHeld(harness)
  }

  @Test(.promises("S80a")) func whatIsChangedWhileItIsCompared_isARevision() {
    var harness = found { $0.modifiedNanoseconds = 1 }
    var isToldFirst = false
    harness.apply { schedule, _ in isToldFirst = schedule.contentWillChange(file.id) }
    #expect(isToldFirst)
    #expect(harness.schedule.catalogEntry(of: file.id)?.receipt == nil)
    harness.handle(file.changed)
    harness.answerReads()
    harness.handle(file.settled)
    // Something of the earlier run may be under way.
    harness.advance(by: .seconds(30))
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.buffers.isEmpty)
  }

  @Test(.promises("S80a")) func whatIsToChangeAndStays_isCompared() {
    var harness = found { $0.modifiedNanoseconds = 1 }
    var isToldFirst = false
    harness.apply { schedule, _ in isToldFirst = schedule.contentWillChange(file.id) }
    #expect(isToldFirst)
    harness.apply { $0.contentStays(file.id, at: $1) }
    harness.answerReads()
    harness.record()
    #expect(harness.state(file.id) == .complete && harness.sent.isEmpty && harness.buffers.isEmpty)
  }

  /// Found by reading: the time came while the change was announced, and the file waited for ever.
  @Test(.promises("S80a")) func whatWaitsForItsDiskAndStays_isCompared() {
    var harness = found { $0.modifiedNanoseconds = 1 }
    #expect(!harness.reads.isEmpty)
    while !harness.reads.isEmpty {
      let read = harness.reads.removeFirst()
      harness.apply { $0.chunkRead(read.id, result: .failed(.system(errno: 5)), at: $1) }
    }
    harness.apply { schedule, _ in _ = schedule.contentWillChange(file.id) }
    harness.advance(by: .seconds(3600))
    harness.apply { $0.contentStays(file.id, at: $1) }
    harness.advance(by: .seconds(1))
    #expect(!harness.reads.isEmpty)
    harness.answerReads()
    harness.record()
    #expect(harness.state(file.id) == .complete && harness.sent.isEmpty && harness.buffers.isEmpty)
  }

  @Test(.promises("S80d")) func whatWasCancelled_staysSoInACopy() {
    var cancelled = entry
    (cancelled.state, cancelled.receipt, cancelled.failureCode) = (.failed, nil, FileUpload.cancelledCode)
    var harness = found(cancelled) { ($0.modifiedNanoseconds, $0.inode) = (9, 2) }
    #expect(harness.state(file.id) == .cancelled && harness.sent.isEmpty)
    harness = found(cancelled) { $0.modifiedNanoseconds = 9 }
    #expect(harness.state(file.id) != .cancelled, "the capture itself was changed by hand")
  }

  /// Regression (lives): the catalog knew a held capture by its former name, and a copy without attributes held what lay under that.
  @Test(.promises("S79c"), arguments: [true, false])
  func whatIsHeld_andRenamed_isKnownByItsNewName(isDelivered: Bool) throws {
    var file = file
    file.snapshot.sizeBytes = 2000
    if !isDelivered { file.snapshot.interruption = .mountDied }
    var harness = ScheduleHarness(catalog: isDelivered ? [entry] : [])
    harness.handle(file.found)
    harness.handle(.scanEnded)
    harness.record()
    #expect(harness.state(file.id) == .interrupted)
    file.snapshot.names = [RelativePath("b.mov")]
    harness.handle(.namesChanged(file.snapshot))
    #expect(harness.others.contains(.record(file.id)))
    let renamed = try #require(harness.schedule.catalogEntry(of: file.id))
    #expect(renamed.path == RelativePath("b.mov"))
    #expect(renamed.receipt == (isDelivered ? entry.receipt : nil), "what was delivered stays known")
  }

  /// Regression (lives): after a kill the catalog named a capture by a link that was gone.
  @Test(.promises("S79c")) func whatIsFoundUnderAnotherName_isKnownByThatFromThenOn() {
    let harness = found { $0.names = [RelativePath("b.mov")] }
    #expect(harness.others.contains(.record(file.id)))
    #expect(harness.schedule.catalogEntry(of: file.id)?.path == RelativePath("b.mov"))
    #expect(!found().others.contains(.record(file.id)), "an unchanged spool costs no write")
  }

  /// Regression (lives): a capture that was replaced just before a kill counted as delivered, and as what lay there, when it was put back.
  @Test(.promises("S80a")) func whatAnotherCaptureHasReplaced_isForgotten_alsoAfterAKill() {
    var later = ImaginaryFile(2, "a.mov", size: 10)
    for isThere in [true, false] {
      if !isThere { later.snapshot.names = [RelativePath("b.mov")] }
      var harness = ScheduleHarness(catalog: [entry])
      harness.handle(later.found)
      harness.handle(.scanEnded)
      #expect(harness.others.contains(.forget(file.id)) == isThere)
      #expect((harness.schedule.catalogEntry(of: file.id) == nil) == isThere)
    }
  }

  /// Regression (lives, 111): in a copy without attributes the rest of a recording whose parts had been given up stayed, with zeros for them.
  @Test(.promises("S70d"), arguments: [nil, .unproven] as [Interruption?])
  func whatWasLeftOfADeliveredFile_goes_alsoInACopyThatDoesNotSaySo(doubt: Interruption?) {
    var entry = entry
    entry.doubt = doubt
    // What is read has other digests.
    var harness = found(entry) { ($0.inode, $0.interruption, $0.epoch) = (99, .unproven, 0) }
    #expect(harness.reads.isEmpty == (doubt == nil))
    harness.answerReads()
    #expect(harness.state(file.id) == .complete && harness.sent.isEmpty && harness.schedule.isIdle)
    let orders = harness.schedule.takeSpoolOrders()
    #expect(orders.count == (doubt == nil ? 0 : 1), "what is whole stays")
    #expect(orders.allSatisfy { if case .discard = $0 { true } else { false } })
    #expect(harness.schedule.catalogEntry(of: file.id)?.receipt == entry.receipt)
  }

  /// Found by reading: nothing had been given up of it, and the second start in the copy removed it from the spool.
  @Test(.promises("S40l", "S79j")) func whatIsWholeInACopy_staysThere_alsoAfterTheSecondStart() {
    var entry = entry
    entry.doubt = .unproven
    var harness = found(entry) { ($0.inode, $0.interruption) = (99, .unproven) }
    harness.answerReads()
    harness.record()
    #expect(harness.state(file.id) == .complete && harness.sent.isEmpty && harness.schedule.isIdle)
    let orders = harness.schedule.takeSpoolOrders()
    #expect(orders.count == 1 && orders.allSatisfy { if case .accept = $0 { true } else { false } })
    #expect(harness.schedule.catalogEntry(of: file.id)?.doubt == nil)
  }

  /// Found by reading: where it was not known how long the chunks were, the second start removed a whole copy as what was left.
  @Test(.promises("S40l", "S79j")) func whatCannotBeComparedInACopy_staysThere_alsoAfterTheSecondStart() throws {
    var limits = ScheduleHarness.standardLimits
    limits.adaptsChunkBytes = true
    let sizeBytes = UInt64(UploadConstants.chunkBytesMin) + 1
    var entry = entry
    entry.sizeBytes = sizeBytes
    entry.receipt?.sizeBytes = sizeBytes
    entry.receipt?.chunkBytes = nil
    var copy = file
    (copy.snapshot.sizeBytes, copy.snapshot.inode, copy.snapshot.interruption) = (sizeBytes, 99, .unproven)
    for _ in 0..<2 {
      var harness = ScheduleHarness(limits: limits, catalog: [entry])
      harness.handle(copy.found)
      harness.handle(.scanEnded)
      harness.answerReads()
      harness.record()
      #expect(harness.sent.isEmpty && harness.schedule.isIdle)
      #expect(!harness.schedule.takeSpoolOrders().contains { if case .discard = $0 { true } else { false } })
      let known = try #require(harness.schedule.catalogEntry(of: file.id))
      #expect(known.receipt == entry.receipt, "it stays known")
      entry = known
    }
  }

  /// Found by reading: in a copy without times a capture of which the disk had not been known to have it lost its receipt, and `publish` of all
  /// that was held put zeros in the place of what had been delivered.
  @Test(.promises("S79j", "S80c"), arguments: [3000, 2000] as [UInt64], [false, true])
  func whatNothingProvesInACopy_isCompared_andItsDeliveryStaysKnown(sizeBytes: UInt64, isSame: Bool) {
    var harness = found {
      ($0.inode, $0.modifiedNanoseconds, $0.interruption, $0.sizeBytes) = (99, 77, .unproven, sizeBytes)
      $0.epoch = isSame ? 1 : 0
    }
    #expect(harness.reads.isEmpty == (sizeBytes != 3000))
    harness.answerReads()
    harness.record()
    #expect(harness.sent.isEmpty && harness.schedule.isIdle && harness.buffers.isEmpty)
    #expect(harness.schedule.catalogEntry(of: file.id)?.receipt == entry.receipt, "it stays known")
    #expect((harness.state(file.id) == .complete) == (isSame && sizeBytes == 3000))
    #expect(harness.state(file.id) != .failed)
  }

  private static let remains: [(doubt: Interruption, sizeBytes: UInt64)] = [
    (.unproven, 3000), (.unproven, 2000), (.notOnDisk, 3000), (.notOnDisk, 2000), (.notOnDisk, 0),
    (.lostInWriteBack(errno: 5, 0..<4096), 3000),
  ]

  /// Regression: `publish` of all that was held put what a power cut had left, as zeros, over the whole at the server, and after it, or after
  /// `cancel`, the delivery was not known any more.
  @Test(.promises("S40l", "S80g"), arguments: remains, [FileSettings.Interrupted.hold, .publish, .discard])
  func whatMayBeLeftOfADeliveredFile_isPublishedByNoWordAndNoRule(
    _ remains: (doubt: Interruption, sizeBytes: UInt64), _ rule: FileSettings.Interrupted
  ) {
    var limits = ScheduleHarness.standardLimits
    limits.rules.defaults.interrupted = rule
    var copy = file
    (copy.snapshot.modifiedNanoseconds, copy.snapshot.interruption) = (77, remains.doubt)
    // What is read has other digests.
    (copy.snapshot.sizeBytes, copy.snapshot.epoch) = (remains.sizeBytes, 0)
    var harness = ScheduleHarness(limits: limits, catalog: [entry])
    harness.handle(copy.found)
    harness.handle(.scanEnded)
    for word in [nil, .publish, .cancel, .retry, .resend, .publish] as [FileCommand?] {
      var outcome = FileCommandOutcome.doesNotApply
      if let word { harness.apply { outcome = $0.execute(word, file.id, at: $1) } }
      harness.answerReads()
      harness.succeed()
      #expect(outcome == .doesNotApply && harness.state(file.id) == .interrupted)
      var known = harness.schedule.catalogEntry(of: file.id)
      #expect(known?.failureCode == FileUpload.remainsCode)
      known?.failureCode = nil
      #expect(known == entry, "what was delivered stays known")
      #expect(harness.sent.isEmpty && harness.buffers.isEmpty && harness.schedule.takeSpoolOrders().isEmpty)
    }
    #expect(harness.schedule.isIdle)
    let status = harness.status(file.id)
    #expect(status?.lastFailure?.code == remains.doubt.code)
    #expect(status?.lastFailure?.message.contains("delivered as a.mov stays there") == true)
    #expect(status?.reason?.contains("Remove it") == true)
  }

  @Test(.promises("S80g")) func whatMayBeLeftOfADeliveredFile_andIsWrittenAnew_isDelivered() {
    var harness = found { ($0.sizeBytes, $0.epoch, $0.interruption) = (2000, 0, .notOnDisk) }
    #expect(harness.state(file.id) == .interrupted)
    var isToldFirst = false
    harness.apply { schedule, _ in isToldFirst = schedule.contentWillChange(file.id) }
    #expect(isToldFirst && harness.schedule.catalogEntry(of: file.id)?.receipt == nil)
    harness.record()
    harness.handle(file.changed)
    harness.handle(file.settled)
    // Something of the earlier run may be under way.
    harness.advance(by: .seconds(30))
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.buffers.isEmpty)
  }

  /// A power cut may take the time alone.
  @Test(.promises("S40l")) func whatThePowerCutHasLeftWhole_isKnownByItsContent() {
    var harness = found { ($0.modifiedNanoseconds, $0.interruption) = (77, .notOnDisk) }
    harness.answerReads()
    harness.record()
    #expect(harness.state(file.id) == .complete && harness.sent.isEmpty && harness.schedule.isIdle)
    let orders = harness.schedule.takeSpoolOrders()
    #expect(orders.count == 1 && orders.allSatisfy { if case .accept = $0 { true } else { false } })
    #expect(harness.schedule.catalogEntry(of: file.id)?.receipt == entry.receipt)
  }

  /// Regression (lives): of a spool that was copied without attributes nothing was delivered again to a server that had lost it: a word
  /// made of each delivered capture one that nothing proved.
  @Test(.promises("S77k"), arguments: [true, false], [true, false])
  func whatIsToBeDeliveredAgain_andMayBeRemains_isComparedBefore(isWhole: Bool, isKilled: Bool) throws {
    var harness = found { ($0.interruption, $0.epoch) = (.unproven, isWhole ? 1 : 0) }
    #expect(harness.state(file.id) == .complete)
    harness.apply { $0.resend(file.id, at: $1) }
    #expect(harness.schedule.catalogEntry(of: file.id)?.receipt == entry.receipt && harness.sent.isEmpty)
    if isKilled {
      let entry = try #require(harness.schedule.catalogEntry(of: file.id))
      harness = found(entry) { ($0.interruption, $0.epoch) = (.unproven, isWhole ? 1 : 0) }
    }
    harness.answerReads()
    #expect(harness.sent.isEmpty != isWhole)
    harness.succeed()
    #expect(harness.state(file.id) == (isWhole ? .complete : .interrupted))
    #expect(harness.schedule.catalogEntry(of: file.id)?.receipt != nil, "what was delivered stays known")
    #expect(harness.schedule.takeSpoolOrders().isEmpty != isWhole && harness.schedule.isIdle)
  }

  /// What was compared is clean, and the catalog has not heard it.
  @Test(.promises("S77k")) func whatIsToBeDeliveredAgain_isSo_alsoWhereItWasProvenJustBeforeAKill() {
    var entry = entry
    entry.failureCode = FileUpload.remainsToResendCode
    var harness = found(entry)
    harness.record()
    harness.answerReads()
    #expect(!harness.sent.isEmpty)
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.schedule.catalogEntry(of: file.id)?.failureCode == nil)
  }

  /// Found by reading: an empty one was compared without an end, and every other one waited for that.
  @Test(.promises("S79j"), arguments: [nil, .unproven] as [Interruption?])
  func anEmptyOne_lacksNothing(doubt: Interruption?) throws {
    let empty = ImaginaryFile(1, "a.mov", size: 0)
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.write(empty)
    harness.succeed()
    var entry = try #require(harness.schedule.catalogEntry(of: empty.id))
    entry.doubt = doubt
    var found = empty
    (found.snapshot.inode, found.snapshot.modifiedNanoseconds, found.snapshot.interruption) = (99, 77, .unproven)
    harness = ScheduleHarness(catalog: [entry])
    harness.handle(found.found)
    harness.handle(.scanEnded)
    harness.record()
    #expect(harness.state(empty.id) == .complete && harness.schedule.isIdle && harness.sent.isEmpty)
  }

  /// Found by reading: a name that was still to be published went with what was left.
  @Test(.promises("S72d")) func whatIsLeft_staysWhereItHasANameThatIsNotPublished() {
    var entry = entry
    entry.doubt = .unproven
    var harness = found(entry) {
      ($0.inode, $0.interruption, $0.epoch) = (99, .unproven, 0)
      $0.names.append(RelativePath("b.mov"))
    }
    harness.answerReads()
    #expect(harness.schedule.takeSpoolOrders().isEmpty && harness.sent.isEmpty && harness.schedule.isIdle)
    #expect(harness.state(file.id) == .interrupted)
  }

  /// Found by reading: a cancellation lost the receipt, and the same content was held after it.
  @Test(.promises("S80c")) func whatIsCompared_isNotCancelled() {
    var harness = found { $0.modifiedNanoseconds = 1 }
    var outcome = FileCommandOutcome.obeyed
    harness.apply { outcome = $0.cancel(file.id, at: $1) }
    #expect(outcome == .doesNotApply)
    harness.answerReads()
    harness.record()
    #expect(harness.state(file.id) == .complete)
  }

  /// Found by reading: a change that was announced while the last chunk was read, and did not come, left the file in no queue.
  @Test(.promises("S80b")) func whatIsComparedWhileAChangeIsAnnounced_isComparedAnew() {
    var harness = found { $0.modifiedNanoseconds = 1 }
    harness.apply { schedule, _ in _ = schedule.contentWillChange(file.id) }
    harness.answerReads()
    harness.apply { $0.contentStays(file.id, at: $1) }
    harness.answerReads()
    harness.record()
    #expect(harness.state(file.id) == .complete && harness.schedule.isIdle && harness.buffers.isEmpty)
  }

  /// Regression: a copy without times, too, had zeros for the parts, and a `publish` of all that was held put it in the place of what had
  /// been delivered.
  @Test(.promises("S72h")) func whatWasLeftOfADeliveredFile_isNotSent_alsoInACopyWithoutTimes() {
    var entry = entry
    entry.doubt = .unproven
    // What is read has other digests.
    var harness = found(entry) {
      ($0.inode, $0.modifiedNanoseconds, $0.interruption, $0.epoch) = (99, 77, .unproven, 0)
    }
    for word in [FileCommand.publish, .cancel, .retry, .publish] {
      harness.apply { $0.execute(word, file.id, at: $1) }
      harness.answerReads()
      harness.succeed()
      var known = harness.schedule.catalogEntry(of: file.id)
      known?.failureCode = nil
      #expect(known == entry, "the catalog says what was delivered")
      #expect(harness.sent.isEmpty && harness.schedule.takeSpoolOrders().isEmpty)
    }
    #expect(harness.state(file.id) == .failed)
    let failure = harness.status(file.id)?.lastFailure
    #expect(failure?.code == "released-part-lost" && failure?.message.contains("delivered as a.mov") == true)
  }

  /// Regression, found by the simulation (bare-copies, seed 8930008926): nothing had been given up of it, and it failed for parts that it had,
  /// and went out under no further name.
  @Test(.promises("S79j"), arguments: [false, true])
  func whatOnlyLookedLikeARest_isKnownByItsContent_andGoesToFurtherNames(isLinked: Bool) {
    var entry = entry
    entry.doubt = .unproven
    var harness = found(entry) {
      ($0.inode, $0.modifiedNanoseconds, $0.interruption) = (99, 77, .unproven)
      if isLinked { $0.names.append(RelativePath("b.mov")) }
    }
    #expect(harness.schedule.catalogEntry(of: file.id)?.doubt == .unproven, "a kill meanwhile changes nothing")
    harness.answerReads()
    harness.record()
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.schedule.isIdle && harness.buffers.isEmpty)
    let orders = harness.schedule.takeSpoolOrders()
    #expect(orders.count == 1 && orders.allSatisfy { if case .accept = $0 { true } else { false } }, "it is whole")
    let known = harness.schedule.catalogEntry(of: file.id)
    #expect(known?.doubt == nil && known?.publishedPaths.count == (isLinked ? 2 : 1))
  }

  /// Regression (lives): what had been delivered with longer chunks than those of the settings was held as another content.
  @Test(.promises("S80b")) func longerChunksThanThoseOfTheSettings_areCompared() {
    var entry = entry
    entry.receipt?.chunkBytes = 2 * ScheduleHarness.chunkBytes
    var harness = found(entry) { $0.modifiedNanoseconds = 1 }
    #expect(!harness.reads.isEmpty && harness.state(file.id) == .queued)
    harness.answerReads()
    expectHeld(harness)
  }
}
