import FileModel
import Integrity
import Lookup
import Promises
import ProtocolReference
import Testing
import TransferModel

@testable import UploadEngine

/// What the simulation found about files that are published already, without their last word having come.
@Suite struct PublishedSessionTests {
  /// A receipt for a content of which the client does not have the digests yet.
  private static let otherReceipt = ScheduleHarness.receipt(RelativePath("a.mov"), 3000, root: "00", tip: "00")

  /// The session is asked about after the chunks of a content have failed again and again.
  private func asking(_ file: ImaginaryFile, hanging: Int = -1) -> ScheduleHarness {
    var harness = ScheduleHarness(commitWaitsForChunks: hanging >= 0)
    harness.handle(.scanEnded)
    harness.beginSending(file)
    for _ in 0..<100 {
      if harness.sent.contains(where: { $0.order.isQuery }) { break }
      harness.answer(StepFailure.connection(.connectionLost)) { $0.isChunk && !$0.isChunk(hanging) }
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

  /// Regression, found by the simulation (hangs, seed 43): its chunk was never sent, and the file stood still for ever.
  @Test func chunkThatHangsInAPublishedSession_isSentInTheNextOne() {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = asking(file, hanging: 2)
    harness.answer(.published(Self.otherReceipt)) { $0.isQuery }
    harness.answer(StepFailure.connection(.connectionLost)) { $0.isCommit }
    for _ in 0..<4 {
      harness.answerReads()
      harness.advance(by: .seconds(10))
    }
    harness.answer(.sessionOpened(id: "next", chunkBytes: 1000, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    for index in 0..<3 {
      #expect(harness.sent.contains { $0.order.isChunk(index) && $0.order.session?.id == "next" }, "chunk \(index)")
    }
  }

  /// Regression, found by the simulation (hasty, seed 3100289789): a file was published, the answer was lost, and for a moment its
  /// name was another file's, which was published there as well. Then it had its name again, and counted as delivered although the
  /// name showed the other file.
  @Test(arguments: [true, false]) func aPublicationUnderANameThatTheFileHasLost_countsNoMore(isPublished: Bool) throws {
    var file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.beginSending(file)
    while harness.answer(.chunkStored, where: { $0.isChunk }) != nil {}
    let commit = try #require(harness.commits.first)
    harness.answer(StepFailure.connection(.connectionLost)) { $0.isCommit }
    for name in ["b.mov", "a.mov"] {
      file.snapshot.names = [RelativePath(name)]
      harness.handle(.namesChanged(file.snapshot))
    }
    harness.advance(by: .seconds(60))
    harness.answerReads()
    #expect(harness.commits.isEmpty && harness.sent.contains { $0.order.isQuery }, "it is asked first")
    if isPublished {
      let receipt = ScheduleHarness.receipt(
        commit.path, 3000, root: Hex.encode(commit.merkleRoot), tip: Hex.encode(commit.chainTip))
      harness.answer(.published(receipt)) { $0.isQuery }
      harness.answerReads()
      #expect(harness.state(file.id) != .complete && harness.sent.contains { $0.order.isOpenSession })
    } else {
      var digests: LookupTable<Int, Digest32> = [:]
      for index in 0..<3 {
        digests[index] = ScheduleHarness.digest(file: file.id, epoch: 1, offset: UInt64(index) * 1000).sha256
      }
      harness.answer(.held(digests: digests)) { $0.isQuery }
      #expect(harness.commits.count == 1)
    }
    harness.succeed()
    harness.record()
    #expect(harness.state(file.id) == .complete)
  }

  /// Likewise for one that goes in one request: with its earlier key the server would answer what it did before.
  @Test(arguments: [true, false]) func aSmallFileThatHadAnotherName_isSentWithAnotherKey(isRenamed: Bool) throws {
    var file = ImaginaryFile(1, "a.mov", size: 100)
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.write(file)
    harness.answerReads()
    let first = try #require(harness.answer(StepFailure.connection(.connectionLost)) { $0.isWholeFile })
    if isRenamed {
      for name in ["b.mov", "a.mov"] {
        file.snapshot.names = [RelativePath(name)]
        harness.handle(.namesChanged(file.snapshot))
      }
    }
    harness.advance(by: .seconds(60))
    harness.answerReads()
    let next = try #require(harness.sent.first { $0.order.isWholeFile }?.order)
    guard case (.wholeFile(let one), .wholeFile(let other)) = (first, next) else { return }
    #expect((one.nonce == other.nonce) != isRenamed)
    #expect(one.path == other.path)
  }

  // MARK: Earlier contents that come back

  /// What the server has published of a file's chunks in session “s”.
  private func publication(of file: ImaginaryFile) -> Receipt {
    let digests = stride(from: 0, to: file.snapshot.sizeBytes, by: 1000).map {
      ScheduleHarness.digest(file: file.id, epoch: file.snapshot.epoch, offset: $0).sha256.bytes
    }
    return ScheduleHarness.receipt(
      file.snapshot.names[0], file.snapshot.sizeBytes,
      root: ProtocolReference.hex(ProtocolReference.merkleRoot(digests)),
      tip: ProtocolReference.hex(ProtocolReference.chainTip(sessionID: "s", digests)))
  }

  /// A start that finds a file, the record of its session “s”, and what the catalog says of it.
  private func found(
    _ file: ImaginaryFile, session: String?, doubt: Interruption?, modified: Int64 = 5
  ) -> ScheduleHarness {
    let entry = CatalogEntry(
      id: file.id, path: file.snapshot.names[0], inode: 1, sizeBytes: file.snapshot.sizeBytes,
      modifiedNanoseconds: modified, revision: 1, state: .pending, doubt: doubt, session: session)
    let record = ResumeRecord(
      fileID: file.id, sessionID: "s", nonce: [1], chunkBytes: 1000, epochRevision: 1, path: file.snapshot.names[0],
      sizeBytes: file.snapshot.sizeBytes, openedAtSeconds: 1, expiresAtSeconds: nil, acknowledged: [])
    var harness = ScheduleHarness(catalog: [entry], records: [record])
    harness.handle(file.found)
    harness.handle(.scanEnded)
    return harness
  }

  @Test(
    "Regression, found by the simulation (spool-power, seed 5700004624): a power cut took back the change of a delivered file, and its publication, with the end of its first upload's record; the first upload's publication counted, although the name showed the later content",
    .promises("S40n"),
    arguments: [
      ("", .mountDied, 5, false), ("other", .mountDied, 5, false), ("", nil, 6, false),
      // What the catalog knows of no change after.
      ("s", .mountDied, 5, true), ("s", nil, 6, true), ("", nil, 5, true),
      // Of a catalog that an earlier version has left.
      (nil, .mountDied, 5, true),
    ] as [(String?, Interruption?, Int64, Bool)])
  func anUploadOfAnEarlierContent_countsNoMore(session: String?, doubt: Interruption?, modified: Int64, counts: Bool) {
    let file = ImaginaryFile(1, "a.mov", size: 3000, epoch: 0)
    var harness = found(file, session: session, doubt: doubt, modified: modified)
    harness.answer(.published(publication(of: file))) { $0.isQuery }
    harness.answerReads()
    #expect(harness.sent.contains { $0.order.isOpenSession } == !counts)
    harness.record()
    #expect((harness.state(file.id) == .complete) == counts)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// Regression (random lives, 480469941 and 752702138): of what the server had published by itself it was not known how long the chunks
  /// were, so that a copy of it without its times was held.
  @Test(.promises("S80b")) func ofAnUploadThatWasPublished_theLengthOfItsChunksIsKnown() throws {
    let file = ImaginaryFile(1, "a.mov", size: 3000, epoch: 0)
    var harness = found(file, session: "s", doubt: nil, modified: 5)
    harness.answer(.published(publication(of: file))) { $0.isQuery }
    harness.answerReads()
    harness.record()
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    #expect(entry.state == .complete && entry.receipt?.chunkBytes == 1000)
    var copy = file
    (copy.snapshot.inode, copy.snapshot.modifiedNanoseconds) = (99, 9)
    var limits = ScheduleHarness.standardLimits
    limits.adaptsChunkBytes = true
    harness = ScheduleHarness(limits: limits, catalog: [entry])
    harness.handle(copy.found)
    harness.handle(.scanEnded)
    harness.answerReads()
    harness.record()
    #expect(harness.state(file.id) == .complete && harness.sent.isEmpty)
  }

  @Test(.promises("S40n")) func anUploadOfAnEarlierContent_thatWasNotPublished_isGoneOnWith_andCountsFromThenOn() {
    let file = ImaginaryFile(1, "a.mov", size: 3000, epoch: 0)
    var harness = found(file, session: "", doubt: .mountDied)
    #expect(harness.schedule.catalogEntry(of: file.id)?.session == "")
    harness.answer(.held(digests: [:])) { $0.isQuery }
    #expect(harness.others.contains(.record(file.id)))
    #expect(harness.schedule.catalogEntry(of: file.id)?.session == "s")
    harness.succeed()
    #expect(harness.state(file.id) == .complete && !harness.sent.contains { $0.order.isOpenSession })
  }

  /// A file of three chunks whose commit has been sent.
  private func committing() -> (harness: ScheduleHarness, file: ImaginaryFile) {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.beginSending(file)
    let isToBeTold = harness.schedule.contentWillChange(file.id)
    #expect(!isToBeTold, "nothing can have been published")
    #expect(harness.schedule.catalogEntry(of: file.id)?.session == "s")
    while harness.answer(.chunkStored, where: { $0.isChunk }) != nil {}
    #expect(harness.commits.count == 1 && harness.schedule.catalogEntry(of: file.id)?.session == "s")
    return (harness, file)
  }

  @Test(.promises("S40n")) func beforeAContentChanges_thatMayHaveBeenPublished_theCatalogForgetsItsSession() throws {
    var (harness, file) = committing()
    let isToBeTold = harness.schedule.contentWillChange(file.id)
    #expect(isToBeTold)
    var entry = try #require(harness.schedule.catalogEntry(of: file.id))
    #expect(entry.session == "" && entry.doubt == .mountDied, "what is written from now on says the same")
    file.snapshot.epoch = 2
    file.snapshot.modifiedNanoseconds = 6
    harness.handle(file.changed)
    #expect(harness.schedule.catalogEntry(of: file.id)?.session == "")
    harness.handle(file.settled)
    entry = try #require(harness.schedule.catalogEntry(of: file.id))
    #expect(entry.session == "" && entry.doubt == nil)
    // The answer is about the content before.
    harness.answer(ScheduleHarness.success(of: harness.sent.first { $0.order.isCommit }?.order ?? .prewarm)) {
      $0.isCommit
    }
    #expect(harness.schedule.catalogEntry(of: file.id)?.session == "")
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.schedule.catalogEntry(of: file.id)?.session == "")
  }

  @Test(.promises("S34a", "S40n")) func aReceiptThatComesWhileTheCatalogForgetsTheContent_isNoneOfTheNextOne() {
    var (harness, file) = committing()
    let commit = harness.commits[0]
    let isToBeTold = harness.schedule.contentWillChange(file.id)
    #expect(isToBeTold)
    harness.answer(
      .published(
        ScheduleHarness.receipt(
          commit.path, 3000, root: Hex.encode(commit.merkleRoot), tip: Hex.encode(commit.chainTip)))
    ) { $0.isCommit }
    #expect(harness.schedule.catalogEntry(of: file.id)?.receipt == nil)
    file.snapshot.epoch = 2
    harness.handle(file.changed)
    harness.handle(file.settled)
    harness.answerReads()
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test(.promises("S40n")) func aChangeThatDoesNotComeAbout_leavesTheSessionAsItWas() {
    var (harness, file) = committing()
    let isToBeTold = harness.schedule.contentWillChange(file.id)
    #expect(isToBeTold)
    harness.apply { $0.contentStays(file.id, at: $1) }
    #expect(harness.schedule.catalogEntry(of: file.id)?.session == "s")
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// Before the search has come to it as well.
  @Test(.promises("S40n"), arguments: ["s", nil, ""]) func aFileThatIsStillToBeFound_losesItsSession(session: String?) {
    let file = ImaginaryFile(1, "a.mov", size: 3000, epoch: 0)
    let entry = CatalogEntry(
      id: file.id, path: file.snapshot.names[0], inode: 1, sizeBytes: 3000, modifiedNanoseconds: 5, revision: 1,
      state: .pending, session: session)
    var harness = ScheduleHarness(catalog: [entry])
    let isToBeTold = harness.schedule.contentWillChange(file.id)
    #expect(isToBeTold == (session != ""))
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

extension SendOrder {
  /// The session that a chunk goes to.
  fileprivate var session: SessionIdentity? {
    if case .chunk(let one) = self { one.session } else { nil }
  }
}
