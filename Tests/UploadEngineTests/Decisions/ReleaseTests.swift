import FileModel
import Integrity
import Lookup
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// What is given up in the spool while a file is being written. Chunks have 1000 bytes.
@Suite struct ReleaseTests {
  private static var limits: UploadLimits {
    var limits = ScheduleHarness.standardLimits
    limits.rules.defaults.whenFull = .release
    return limits
  }

  /// Chunks 1 to 5 of a file that is being written are acknowledged.
  private func recorded(_ limits: UploadLimits = limits) -> Recording {
    var recording = Recording(limits: limits)
    recording.write(0..<7500)
    #expect(recording.send() == [1, 2, 3, 4, 5])
    return recording
  }

  @Test(.promises("S70b")) func nothingIsGivenUpBeforeTheServersDiskAndTheRecordHaveIt() {
    var recording = recorded()
    #expect(recording.candidates() == [])
    #expect(recording.harness.sent.contains { $0.order.isSecuring })
    recording.secure([1, 2, 3])
    #expect(recording.candidates() == [], "the record does not know of them yet")
    recording.saveRecord()
    #expect(recording.candidates() == [1, 2, 3])
    #expect(recording.candidates() == [], "nothing is named twice")
  }

  @Test(.promises("S70b", "P36")) func aServerThatDoesNotSayThatItIsOnItsDiskReleasesNothing() {
    var recording = recorded()
    _ = recording.candidates()
    recording.harness.answer(.held(digests: recording.digests([1, 2, 3]))) { $0.isSecuring }
    recording.saveRecord()
    #expect(recording.candidates() == [])
    #expect(!recording.harness.sent.contains { $0.order.isSecuring }, "not again at once")
    recording.harness.advance(by: .seconds(2))
    #expect(recording.candidates() == [])
    #expect(recording.harness.sent.contains { $0.order.isSecuring })
  }

  @Test("Regression: a server that refused was asked each second, and nothing said why", .promises("S70b"))
  func aServerThatRefusesIsAskedAfterGrowingPauses_andThatIsSaid() {
    var recording = recorded()
    let refusal = StepFailure(.insufficientStorage, "The quota is used up.")
    _ = recording.candidates()
    var pauses: [Int] = []
    for _ in 0..<8 {
      recording.harness.answer(.refused(refusal)) { $0.isSecuring }
      let status = recording.harness.status(recording.file.id)
      #expect(status?.lastFailure?.message.contains("The quota is used up.") == true)
      var seconds = 0
      while !recording.harness.sent.contains(where: { $0.order.isSecuring }), seconds < 100 {
        recording.harness.advance(by: .seconds(1))
        _ = recording.candidates()
        seconds += 1
      }
      pauses.append(seconds)
    }
    #expect(pauses == [1, 2, 4, 8, 16, 32, 60, 60])
    recording.secure([1, 2, 3])
    #expect(recording.harness.status(recording.file.id)?.lastFailure == nil)
    recording.saveRecord()
    #expect(recording.candidates() == [1, 2, 3])
  }

  /// Regression: its parts were given up, went with the session once one of the names was published, and the other one failed for good.
  @Test(.promises("S70b")) func ofAFileWithTwoNamesNothingIsGivenUp() {
    var recording = recorded()
    _ = recording.candidates()
    recording.secure([1, 2, 3])
    recording.saveRecord()
    let names = recording.file.snapshot.names
    recording.file.snapshot.names = names + [RelativePath("second.mov")]
    recording.harness.handle(.namesChanged(recording.file.snapshot))
    #expect(recording.candidates() == [] && !recording.harness.schedule.mayRelease)
    recording.file.snapshot.names = names
    recording.harness.handle(.namesChanged(recording.file.snapshot))
    #expect(recording.candidates() == [1, 2, 3])
  }

  @Test(.promises("S70b")) func whatWasWrittenAgainStays() {
    var recording = recorded()
    _ = recording.candidates()
    recording.write(2100..<2200)
    recording.wait()
    recording.secure([1, 2, 3])
    recording.saveRecord()
    #expect(recording.candidates() == [1, 3])
  }

  /// Regression: what was given up meanwhile went with the session, and its writer went on with the rest.
  @Test(.promises("S70b")) func whatIsBeingPublishedStays() {
    var recording = recorded()
    _ = recording.candidates()
    recording.secure([1, 2, 3])
    recording.saveRecord()
    recording.harness.handle(recording.file.settled)
    recording.answerReads(released: [])
    while recording.harness.commits.isEmpty, let chunk = recording.harness.chunkRequests.first {
      recording.harness.answerChunk(chunk.index, .chunkStored)
      recording.answerReads(released: [])
    }
    #expect(!recording.harness.commits.isEmpty && recording.candidates() == [])
  }

  @Test(
    "Regression, found by the simulation (lost-states, seed 7800030630): parts of a delivered file were given up while it went out under a further name, and nothing on the spool file said where they were",
    .promises("S70b"))
  func whatIsDelivered_andGoesOutUnderAFurtherName_staysWhole() {
    var harness = ScheduleHarness(limits: Self.limits)
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "take.mov", size: 12_000)
    harness.write(file)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    file.snapshot.names = [RelativePath("final.mov")]
    harness.handle(.namesChanged(file.snapshot))
    harness.openSession()
    harness.answerReads()
    for index in 1...5 { harness.answerChunk(index, .chunkStored) }
    var candidates: [ReleaseCandidate] = []
    harness.apply { candidates = $0.releaseCandidates(bytesMax: .max, at: $1) }
    #expect(candidates.isEmpty && !harness.sent.contains { $0.order.isSecuring })
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func asManyBytesAsAreWanted() {
    var recording = recorded()
    _ = recording.candidates()
    recording.secure([1, 2, 3, 4, 5])
    recording.saveRecord()
    #expect(recording.candidates(bytesMax: 2500) == [1, 2])
    #expect(recording.candidates(bytesMax: 1) == [3])
  }

  @Test(.promises("S70a")) func withoutTheRuleNothingIsGivenUpOrAskedFor() {
    var recording = recorded(ScheduleHarness.standardLimits)
    #expect(recording.candidates() == [])
    #expect(!recording.harness.sent.contains { $0.order.isSecuring })
    #expect(!recording.harness.schedule.mayRelease)
  }

  /// Regression (lives): a disk that was full before the first chunk was acknowledged refused its writer at once.
  @Test(.promises("S70c")) func aWriterIsGivenAMoment_beforeItsSessionIsOpen_andWhileNothingCanBeReached() {
    for limits in [Self.limits, ScheduleHarness.standardLimits] {
      let releases = limits.rules.haveReleases
      var harness = ScheduleHarness(limits: limits)
      harness.handle(.scanEnded)
      #expect(!harness.schedule.mayFreeSpace, "nothing is being written")
      harness.handle(ImaginaryFile(1, "take.mov", size: 0).opened)
      #expect(harness.schedule.mayFreeSpace == releases)
      harness.answer(StepFailure.connection(.connectionLost)) { $0.isPrewarm }
      harness.advance(by: .milliseconds(20))
      #expect(harness.schedule.mayFreeSpace == releases)
    }
  }

  @Test(.promises("S70d", "S72a", "S79c")) func atTheCloseTheServersDigestsStandForWhatIsGone_andTheLocalRestGoes() {
    var recording = recorded()
    recording.giveUp([1, 2, 3, 4, 5])
    // The filesystem could not follow it to its end, so that everything is to be read.
    recording.write(7500..<7600)
    recording.harness.handle(recording.file.settled)
    #expect(recording.harness.reads.count > 3)
    recording.answerReads(released: [1, 2, 3, 4, 5])
    #expect(Set(recording.harness.chunkRequests.map(\.index)) == [0, 6, 7])
    recording.harness.succeed()
    #expect(recording.harness.state(recording.file.id) == .complete)
    let orders = recording.harness.schedule.takeSpoolOrders()
    let whole = EvictionCandidate(recording.file.snapshot)
    #expect(orders == [.discard(whole)])
    // A copy of the spool that takes no labels along would have zeros for it.
    #expect(recording.harness.schedule.catalogEntry(of: recording.file.id)?.doubt == .unproven)
  }

  @Test(.promises("S72c")) func aServerThatNoLongerHasItIsFinal_andNothingIsPublished() throws {
    var recording = recorded()
    recording.giveUp([1, 2, 3])
    recording.harness.handle(recording.file.settled)
    recording.answerReads(released: [1, 2, 3])
    recording.harness.answerChunk(0, .refused(StepFailure(.sessionGone, "gone")))
    recording.harness.openSession()
    recording.answerReads(released: [1, 2, 3])
    let status = try #require(recording.harness.status(recording.file.id))
    #expect(status.state == .failed && status.lastFailure?.code == "released-part-lost")
    #expect(recording.harness.commits.isEmpty)
  }

  private static let here = SessionOwner(address: "https://vault", credentialMark: "1")

  /// A file of eight chunks, of which 1 to 3 are at the server alone, found again after a restart.
  private func found(_ owner: SessionOwner?, by asker: SessionOwner?, chunkBytes: Int = 1000) -> (
    ScheduleHarness, ImaginaryFile
  ) {
    var file = ImaginaryFile(1, "take.mov", size: 8000, epoch: 0)
    file.snapshot.isPartlyReleased = true
    let digests = (0..<8).map { ScheduleHarness.digest(file: file.id, epoch: 0, offset: UInt64($0) * 1000) }
    let record = ResumeRecord(
      fileID: file.id, sessionID: "s", nonce: Array(repeating: 1, count: 32), chunkBytes: chunkBytes, epochRevision: 1,
      path: file.snapshot.names[0], sizeBytes: 8000, openedAtSeconds: 1, expiresAtSeconds: 2, owner: owner,
      acknowledged: digests.enumerated().map { .init(index: $0, digest: $1) })
    var limits = Self.limits
    limits.chunkBytes = 500
    var harness = ScheduleHarness(limits: limits, records: [record], owner: asker)
    harness.handle(file.found)
    harness.handle(.scanEnded)
    return (harness, file)
  }

  private func answerWithAll(_ harness: inout ScheduleHarness, _ file: ImaginaryFile) {
    answer(&harness, file)
    harness.succeed()
    harness.record()
  }

  /// The server says what it holds, and the spool what it no longer has. False when the server was not asked.
  @discardableResult
  private func answer(
    _ harness: inout ScheduleHarness, _ file: ImaginaryFile,
    but restore: (inout LookupTable<Int, Digest32>) -> Void = { _ in }
  ) -> Bool {
    var held = LookupTable(
      (0..<8).map { ($0, ScheduleHarness.digest(file: file.id, epoch: 0, offset: UInt64($0) * 1000).sha256) })
    restore(&held)
    let order = harness.answer(.held(digests: held, chunkBytes: 1000)) { $0.isQuery }
    while !harness.reads.isEmpty {
      let order = harness.reads.removeFirst()
      let isGone = (1...3).contains(Int(order.offset) / ScheduleHarness.chunkBytes)
      harness.apply {
        $0.chunkRead(order.id, result: isGone ? .failed(.released) : .success(ScheduleHarness.digest(order)), at: $1)
      }
    }
    return order != nil
  }

  /// Regression: restarted with another chunk size, by a clock that is years off.
  @Test(.promises("S72a", "S72e")) func afterARestart_theSessionIsGoneOnWith_inItsOwnChunkSize_howeverOldItLooks() {
    var (harness, file) = found(Self.here, by: Self.here)
    #expect(harness.sent.contains { $0.order.isQuery })
    #expect(!harness.others.contains(.removeResume(file.id)))
    answerWithAll(&harness, file)
    #expect(harness.state(file.id) == .complete)
  }

  /// Regression: another token or address for one attempt. The record stays, the failure says what is needed, and with the
  /// right settings, or a retry, it goes on.
  @Test(
    .promises("S72e"),
    arguments: [
      (SessionOwner(address: "https://vault", credentialMark: "2"), "with another token"),
      (SessionOwner(address: "https://other", credentialMark: "1"), "--to https://vault"),
      (here, "no longer holds them"),
    ])
  func aServerThatDoesNotKnowTheSession_endsNothing(asker: SessionOwner, said: String) throws {
    var (harness, file) = found(Self.here, by: asker)
    harness.answer(.refused(StepFailure(.sessionGone, "gone"))) { $0.isQuery }
    var failure = try #require(harness.status(file.id)?.lastFailure)
    #expect(harness.state(file.id) == .failed && failure.message.contains(said))
    #expect(failure.code == (asker == Self.here ? "released-part-lost" : "released-part-away"))
    for _ in 0..<9 {
      harness.apply { $0.retry(file.id, at: $1) }
      harness.answer(.refused(StepFailure(.sessionGone, "gone"))) { $0.isQuery }
    }
    failure = try #require(harness.status(file.id)?.lastFailure)
    #expect(harness.state(file.id) == .failed && failure.message.contains(said), "also after many retries")
    #expect(!harness.others.contains(.removeResume(file.id)) && !harness.others.contains(.saveResume(file.id)))
    #expect(!harness.sent.contains { $0.order.isOpenSession || $0.order.isAbort })
    harness.apply { $0.retry(file.id, at: $1) }
    answerWithAll(&harness, file)
    #expect(harness.state(file.id) == .complete)
  }

  /// What a restored receiver has in the place of a part that was given up: nothing, or what the part was before it was written again.
  enum Restored: Sendable, CaseIterable { case without, older }

  /// The server is asked, and again after a retry: each time the file fails, and nothing is published, begun or ended.
  private func askTwice(
    _ harness: inout ScheduleHarness, _ file: ImaginaryFile, _ restored: Restored, _ start: Comment
  ) throws {
    for _ in 1...2 {
      let asked = answer(&harness, file) {
        $0[2] = restored == .older ? ScheduleHarness.digest(file: file.id, epoch: 9, offset: 2000).sha256 : nil
      }
      #expect(asked, start)
      let status = try #require(harness.status(file.id))
      #expect(status.state == .failed && status.lastFailure?.code == "released-part-lost")
      #expect(harness.commits.isEmpty && !harness.sent.contains { $0.order.isOpenSession || $0.order.isAbort })
      harness.apply { $0.retry(file.id, at: $1) }
    }
  }

  @Test(
    "Regression: a server that was restored from an older copy was not asked again at a retry, and at the second start its older part was taken for the file's",
    .promises("S72c", "S72e", "S72i"), arguments: Restored.allCases)
  func aRestoredServerThatHasLessOrOlderParts_endsAndPublishesNothing(restored: Restored) throws {
    var (harness, file) = found(Self.here, by: Self.here)
    var record = try #require(harness.schedule.resumeSnapshot(of: file.id, since: nil)?.record)
    file.snapshot.pointer = SessionPointer(
      chunkBytes: 1000, sessionID: record.sessionID, nonce: record.nonce, address: Self.here.address,
      credentialMark: Self.here.credentialMark)
    for start in 1...3 {
      harness = ScheduleHarness(limits: Self.limits, records: [record], owner: Self.here)
      harness.handle(file.found)
      harness.handle(.scanEnded)
      try askTwice(&harness, file, restored, "start \(start)")
      #expect(!harness.others.contains(.removeResume(file.id)))
      record = try #require(harness.schedule.resumeSnapshot(of: file.id, since: nil)?.record)
    }
    // The right copy of the server is restored.
    answerWithAll(&harness, file)
    #expect(harness.state(file.id) == .complete)
  }

  @Test(
    "Regression: with the upload's record lost, older bytes that a restored server has of a part were taken for the file's",
    .promises("S72i"), arguments: Restored.allCases)
  func withoutARecord_theLabelTellsOlderParts(restored: Restored) throws {
    var file = ImaginaryFile(1, "take.mov", size: 8000, epoch: 0)
    file.snapshot.isPartlyReleased = true
    file.snapshot.pointer = SessionPointer(
      chunkBytes: 1000, sessionID: "s", nonce: [1, 2, 3], address: Self.here.address,
      credentialMark: Self.here.credentialMark)
    var released = ReleasedChunks(chunkBytes: 1000)
    for index in 1...3 {
      let digest = ScheduleHarness.digest(file: file.id, epoch: 0, offset: UInt64(index) * 1000)
      #expect(released.insert(index, digest: digest.sha256.bytes) == true)
    }
    file.snapshot.released = released
    var records: [ResumeRecord] = []
    var harness = ScheduleHarness(limits: Self.limits, owner: Self.here)
    // At the second start there is a record, which was begun from the label alone.
    for start in 1...2 {
      harness = ScheduleHarness(limits: Self.limits, records: records, owner: Self.here)
      harness.handle(file.found)
      harness.handle(.scanEnded)
      try askTwice(&harness, file, restored, "start \(start)")
      records = harness.schedule.resumeSnapshot(of: file.id, since: nil).map { [$0.record] } ?? []
    }
    // The right copy of the server is restored.
    answerWithAll(&harness, file)
    #expect(harness.state(file.id) == .complete)
  }

  @Test(
    "Regression, found by the simulation (lost-states, seed 5700021005): what was published was said to be held no longer",
    .promises("S72h"), arguments: [true, false])
  func whatIsPublished_andCannotBeShownToBeWhatIsLeftHere_isNamed(hasRecord: Bool) throws {
    var (harness, file) = found(Self.here, by: Self.here)
    if !hasRecord {
      file.snapshot.pointer = SessionPointer(
        chunkBytes: 1000, sessionID: "s", nonce: [1], address: Self.here.address,
        credentialMark: Self.here.credentialMark)
      harness = ScheduleHarness(limits: Self.limits, owner: Self.here)
      harness.handle(file.found)
      harness.handle(.scanEnded)
    }
    let receipt = ScheduleHarness.receipt(RelativePath("take.mov"), 8000, root: "00", tip: "00")
    for _ in 0..<2 {
      harness.answer(.published(receipt)) { $0.isQuery }
      while !harness.reads.isEmpty {
        let order = harness.reads.removeFirst()
        let isGone = (1...3).contains(Int(order.offset) / ScheduleHarness.chunkBytes)
        harness.apply {
          $0.chunkRead(order.id, result: isGone ? .failed(.released) : .success(ScheduleHarness.digest(order)), at: $1)
        }
      }
      let failure = try #require(harness.status(file.id)?.lastFailure)
      #expect(harness.state(file.id) == .failed && failure.code == "released-part-lost")
      #expect(failure.message.contains("has published them as take.mov") && !failure.message.contains("no longer"))
      harness.apply { $0.retry(file.id, at: $1) }
    }
    #expect(!harness.others.contains(.removeResume(file.id)))
    #expect(!harness.sent.contains { $0.order.isOpenSession || $0.order.isAbort })
  }

  @Test(
    "Regression, found by the simulation (bare-copies, seed 6200001611): what was changed in the moment after its delivery lacked parts, and the catalog said nothing of that; a copy without labels published zeros",
    .promises("S79c"))
  func aFileThatLacksParts_isDoubtfulInTheCatalog_whenNoUploadHasThem() throws {
    var (harness, file) = found(Self.here, by: Self.here)
    #expect(harness.schedule.catalogEntry(of: file.id)?.pointer != nil)
    harness.answer(.published(ScheduleHarness.receipt(RelativePath("take.mov"), 9000, root: "00", tip: "00"))) {
      $0.isQuery
    }
    while !harness.reads.isEmpty {
      let order = harness.reads.removeFirst()
      harness.apply { $0.chunkRead(order.id, result: .success(ScheduleHarness.digest(order)), at: $1) }
    }
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    #expect(entry.failureCode == "released-part-lost")
    #expect(entry.pointer == nil && entry.doubt == .unproven)
  }

  /// Regression: with the record lost, another session was opened, and the server was said to have lost what it held.
  @Test(.promises("S79d"), arguments: [true, false]) func withoutARecord_thePointerIsEnough(isOnFile: Bool) {
    var file = ImaginaryFile(1, "take.mov", size: 8000, epoch: 0)
    file.snapshot.isPartlyReleased = true
    let pointer = SessionPointer(
      chunkBytes: 1000, sessionID: "s", nonce: [1, 2, 3], address: Self.here.address,
      credentialMark: Self.here.credentialMark)
    var entry = CatalogEntry(
      id: file.id, path: file.snapshot.names[0], inode: 77, sizeBytes: 8000,
      modifiedNanoseconds: file.snapshot.modifiedNanoseconds, revision: 1, state: .pending)
    if isOnFile { file.snapshot.pointer = pointer } else { entry.pointer = pointer }
    var harness = ScheduleHarness(
      limits: Self.limits, catalog: isOnFile ? [] : [entry], records: [], owner: Self.here)
    harness.handle(file.found)
    harness.handle(.scanEnded)
    #expect(harness.reads.isEmpty, "the server is asked first")
    answerWithAll(&harness, file)
    #expect(harness.state(file.id) == .complete && !harness.sent.contains { $0.order.isOpenSession })
  }

  /// Regression (lives, 1064076410): with the state lost, an upload in longer chunks than those of the settings was not gone on with, and the
  /// failure asked for another --chunk-size.
  @Test(.promises("S72e", "S79d"), arguments: [1000, 3000, 8000]) func thePointersOwnChunks_areGoneOnWith(bytes: Int) {
    var file = ImaginaryFile(1, "take.mov", size: 8000, epoch: 0)
    file.snapshot.isPartlyReleased = true
    file.snapshot.pointer = SessionPointer(
      chunkBytes: bytes, sessionID: "s", nonce: [1, 2, 3], address: Self.here.address,
      credentialMark: Self.here.credentialMark)
    var harness = ScheduleHarness(limits: Self.limits, owner: Self.here)
    harness.handle(file.found)
    harness.handle(.scanEnded)
    harness.answer(.held(digests: [:], chunkBytes: bytes)) { $0.isQuery }
    #expect(harness.reads.first?.byteCount == bytes)
    harness.succeed()
    #expect(harness.state(file.id) == .complete && !harness.sent.contains { $0.order.isOpenSession })
  }

  /// Regression: after a week the one that has them was ended as left over. Nothing says where the parts are: no other
  /// upload takes the place of the one that has them, and no report says that they are gone.
  @Test(.promises("S79d", "S79e")) func withoutRecordAndPointer_nothingIsBegunInItsPlace() throws {
    var file = ImaginaryFile(1, "take.mov", size: 8000, epoch: 0)
    file.snapshot.isPartlyReleased = true
    var harness = ScheduleHarness(limits: Self.limits, owner: Self.here)
    harness.handle(file.found)
    harness.handle(.scanEnded)
    let failure = try #require(harness.status(file.id)?.lastFailure)
    #expect(failure.code == "released-part-lost" && failure.message.contains("may hold them still"))
    // Whatever else is left over after a week.
    harness.apply { $0.endSessions(["s"], at: $1) }
    #expect(harness.sent.isEmpty)
  }

  /// Regression: one start with an empty captures/, because its disk was not mounted, and the session was ended.
  @Test(.promises("S79e"), arguments: [true, false]) func sessionOfAFileThatIsNotThere_isKept(isInCatalog: Bool) {
    let file = ImaginaryFile(1, "take.mov", size: 8000, epoch: 0)
    var entry = CatalogEntry(
      id: file.id, path: file.snapshot.names[0], inode: file.snapshot.inode, sizeBytes: 8000, modifiedNanoseconds: 0,
      revision: 1, state: .pending)
    entry.pointer = SessionPointer(chunkBytes: 1000, sessionID: "s", nonce: [], address: "", credentialMark: nil)
    let record = ResumeRecord(
      fileID: file.id, sessionID: "s", nonce: [], chunkBytes: 1000, epochRevision: 1, path: file.snapshot.names[0],
      sizeBytes: 8000, openedAtSeconds: 1, expiresAtSeconds: nil, acknowledged: [])
    var harness = ScheduleHarness(
      limits: Self.limits, catalog: isInCatalog ? [entry] : [], records: [record], owner: Self.here)
    harness.handle(.scanEnded)
    harness.advance(by: .seconds(60))
    #expect(!harness.sent.contains { $0.order.isAbort })
    #expect(!harness.others.contains(.removeResume(file.id)) && !harness.others.contains(.forget(file.id)))
    #expect(harness.schedule.sessionsInUse.contains("s"), "it is not taken for an orphaned one")
  }

  @Test(
    "Regression: a session that was damaged at the receiver, which keeps it, failed the file whose parts it alone has",
    .promises("S72g"))
  func aDamagedSessionThatHasParts_isWaitedFor_andEndsNothing() throws {
    var (harness, file) = found(Self.here, by: Self.here)
    for tries in 1...20 {
      let asked = harness.answer(.refused(StepFailure(.sessionDamaged, "damaged"))) { $0.isQuery }
      #expect(asked != nil, "after \(tries) tries")
      let status = try #require(harness.status(file.id))
      #expect(status.state != .failed && status.lastFailure?.code == "session-damaged", "after \(tries) tries")
      #expect(status.lastFailure?.message.contains("no longer holds") == false)
      harness.advance(by: .seconds(20))
    }
    #expect(!harness.others.contains(.removeResume(file.id)))
    #expect(!harness.sent.contains { $0.order.isOpenSession || $0.order.isAbort })
    // Its operator has put it right.
    answerWithAll(&harness, file)
    #expect(harness.state(file.id) == .complete)
  }

  @Test(.promises("S72b")) func cancelledOverARestart_theSessionIsKept_andContinuedWhenAUserAsks() {
    var (harness, file) = found(Self.here, by: Self.here)
    harness.apply { $0.cancel(file.id, at: $1) }
    #expect(harness.state(file.id) == .cancelled)
    guard let entry = harness.schedule.catalogEntry(of: file.id),
      let record = harness.schedule.resumeSnapshot(of: file.id, since: nil)?.record
    else {
      Issue.record("nothing is kept")
      return
    }
    harness = ScheduleHarness(limits: Self.limits, catalog: [entry], records: [record], owner: Self.here)
    harness.handle(file.found)
    harness.handle(.scanEnded)
    #expect(harness.state(file.id) == .cancelled)
    #expect(!harness.others.contains(.removeResume(file.id)))
    harness.apply { $0.retry(file.id, at: $1) }
    answerWithAll(&harness, file)
    #expect(harness.state(file.id) == .complete)
  }

  @Test(.promises("S72b")) func cancelledOrIgnored_theSessionThatHoldsTheRestIsKept() {
    var recording = recorded()
    recording.giveUp([1, 2, 3])
    recording.harness.apply { $0.cancel(recording.file.id, at: $1) }
    recording.harness.advance(by: .seconds(10))
    #expect(!recording.harness.sent.contains { $0.order.isAbort })
    #expect(!recording.harness.others.contains(.removeResume(recording.file.id)))
    recording.harness.handle(.removed(recording.file.id))
    recording.harness.advance(by: .seconds(10))
    #expect(recording.harness.sent.contains { $0.order.isAbort }, "removed, it is not wanted any more")
  }

  @Test(.promises("S72d"), arguments: [true, false])
  func changedOrRenamedBeforeItsRestGoes_itFails_andWhatWasDeliveredStays(isRenamed: Bool) throws {
    var recording = recorded()
    recording.giveUp([1, 2, 3])
    recording.harness.handle(recording.file.settled)
    recording.answerReads(released: [1, 2, 3])
    recording.harness.succeed()
    #expect(recording.harness.state(recording.file.id) == .complete)
    let published = recording.harness.commits.count
    if isRenamed {
      recording.rename(to: "new.mov")
    } else {
      recording.write(0..<10)
      let id = recording.file.id
      recording.harness.apply { schedule, _ in _ = schedule.contentWillChange(id) }
      recording.harness.handle(recording.file.changed)
      recording.harness.handle(recording.file.settled)
    }
    for _ in 0..<3 {
      recording.answerReads(released: [1, 2, 3])
      recording.harness.advance(by: .seconds(1))
      recording.harness.openSession()
    }
    let status = try #require(recording.harness.status(recording.file.id))
    #expect(status.state == .failed && status.lastFailure?.code == "released-part-lost")
    #expect(recording.harness.commits.count == published, "nothing else is published")
  }

  /// Regression, found by the simulation (bare-copies, seed 8000002638): what was cut to nothing by one change, right after its delivery,
  /// failed for parts that it no longer had. What is said when the change begins is of the content before it.
  @Test(.promises("S72d"), arguments: [0, 900] as [UInt64])
  func cutByOneChangeToWhatIsHere_itIsDelivered(sizeBytes: UInt64) throws {
    var recording = recorded()
    recording.giveUp([1, 2, 3])
    recording.harness.handle(recording.file.settled)
    recording.answerReads(released: [1, 2, 3])
    recording.harness.succeed()
    var file = recording.file
    file.snapshot.epoch += 1
    file.snapshot.isPartlyReleased = true
    recording.harness.apply { schedule, _ in _ = schedule.contentWillChange(file.id) }
    recording.harness.handle(file.changed)
    file.snapshot.sizeBytes = sizeBytes
    file.snapshot.isPartlyReleased = false
    recording.harness.handle(file.settled)
    recording.harness.succeed()
    #expect(recording.harness.state(file.id) == .complete)
    #expect(recording.harness.status(file.id)?.lastFailure == nil)
  }

  /// Should the spool be copied without what stands on the file.
  @Test(.promises("S79c", "S79e")) func theCatalogKnowsWhichUploadMayHoldParts_beforeItIsAllThatThereIs() throws {
    var recording = recorded()
    let entry = try #require(recording.harness.schedule.catalogEntry(of: recording.file.id))
    #expect(entry.pointer?.chunkBytes == 1000 && entry.doubt == .mountDied && entry.state == .pending)
    let recorded = recording.harness.others.count { $0 == .record(recording.file.id) }
    recording.giveUp([1])
    #expect(recording.harness.others.count { $0 == .record(recording.file.id) } == recorded + 1)
  }

  @Test func statusSaysWhereItIs() {
    var recording = recorded()
    #expect(recording.harness.status(recording.file.id)?.reason == nil)
    recording.giveUp([1])
    #expect(recording.harness.status(recording.file.id)?.reason?.contains("server alone") == true)
  }
}

extension Recording {
  fileprivate mutating func candidates(bytesMax: UInt64 = .max) -> [Int] {
    var found: [ReleaseCandidate] = []
    harness.apply { found = $0.releaseCandidates(bytesMax: bytesMax, at: $1) }
    return found.flatMap { $0.chunks.map(\.index) }
  }

  fileprivate func digests(_ indices: [Int]) -> LookupTable<Int, Digest32> {
    let held = harness.schedule.files[file.id]?.session?.held.acknowledged ?? [:]
    return held.filter { index, _ in indices.contains(index) }.mapValues(\.sha256)
  }

  fileprivate mutating func secure(_ indices: [Int]) {
    let order = harness.answer(.held(digests: digests(indices), isDurable: true)) { $0.isSecuring }
    #expect(order != nil, "it was not asked")
  }

  /// The record is written as it is now.
  fileprivate mutating func saveRecord() {
    guard let mark = harness.schedule.resumeSnapshot(of: file.id, since: nil)?.mark else {
      Issue.record("there is no record to write")
      return
    }
    harness.apply { schedule, _ in schedule.resumeSaved(file.id, mark) }
  }

  fileprivate mutating func giveUp(_ indices: [Int]) {
    _ = candidates()
    secure(indices)
    saveRecord()
    #expect(candidates() == indices)
  }

  fileprivate mutating func answerReads(released: Set<Int>) {
    while !harness.reads.isEmpty {
      let order = harness.reads.removeFirst()
      let isGone = released.contains(Int(order.offset) / ScheduleHarness.chunkBytes)
      harness.apply {
        $0.chunkRead(order.id, result: isGone ? .failed(.released) : .success(ScheduleHarness.digest(order)), at: $1)
      }
    }
  }
}
