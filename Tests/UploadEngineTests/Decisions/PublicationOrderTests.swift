import FileModel
import Promises
import SeededRandom
import Testing
import TransferModel

@testable import UploadEngine

/// What is published under one name, at destinations that do not keep the order by themselves.
@Suite struct PublicationOrderTests {
  private static func harness() -> ScheduleHarness {
    var harness = ScheduleHarness(wholeFileBytesMax: 1000) { $0.ordersPublications = false }
    harness.handle(.scanEnded)
    return harness
  }

  private static var published: StepOutcome {
    .published(ScheduleHarness.receipt(RelativePath("a"), 0, root: "", tip: ""))
  }

  private static func wholeFiles(_ harness: ScheduleHarness) -> [FileID] {
    harness.sent.compactMap { if case .wholeFile(let whole) = $0.order { whole.file } else { nil } }
  }

  /// How the name comes to have another content while its first one is under way.
  enum Way: CaseIterable, Sendable { case removedAndMadeAnew, renamedOver, rewritten, cancelled }

  /// Regression: the first request was broken off when its file was removed or replaced, the second one sent, and the server
  /// published the first one last.
  @Test(.promises("S76c"), arguments: Way.allCases, [true, false])
  func theNextContentOfAName_waitsForTheOneThatIsOut(way: Way, isPublished: Bool) {
    var harness = Self.harness()
    let old = ImaginaryFile(1, "a", size: 500)
    harness.write(old)
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [old.id])
    let next = Self.replace(old, way, &harness)
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [old.id], "the second one waits")
    let refusal = StepOutcome.refused(StepFailure(.nameRefused, "no"))
    harness.answer(isPublished ? Self.published : refusal) { $0.isWholeFile }
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [next.id])
    harness.succeed()
    #expect(harness.state(next.id) == .complete)
  }

  private static func replace(_ old: ImaginaryFile, _ way: Way, _ harness: inout ScheduleHarness) -> ImaginaryFile {
    var next = ImaginaryFile(2, "a", size: 600)
    switch way {
    case .removedAndMadeAnew:
      harness.handle(.removed(old.id))
      harness.write(next)
    case .renamedOver:
      harness.write(ImaginaryFile(2, "a.tmp", size: 600))
      harness.handle(.removed(old.id))
      harness.handle(.namesChanged(next.snapshot))
    case .rewritten:
      next = ImaginaryFile(1, "a", size: 600, epoch: 2)
      harness.handle(next.opened)
      harness.handle(next.changed)
      harness.handle(next.settled)
    case .cancelled:
      harness.apply { $0.cancel(old.id, at: $1) }
      harness.write(next)
    }
    return next
  }

  /// Regression, found by the simulation (templates, seed 3100090792): a file came in another one's place, got its name from the
  /// template, and kept that when it was renamed. The first one's request, which was still under way, was the last one to publish.
  @Test(arguments: [nil, "a", "b"], [true, false])
  func whatATemplateCallsAlike_isWaitedForUnderAnotherNameAsWell(name: String?, isOrdered: Bool) {
    var harness = Self.harness()
    var abilities = harness.schedule.destination.abilities
    abilities.ordersPublications = isOrdered
    let names = [RelativePath("x/a"): "a", RelativePath("y/a"): name]
    harness.schedule = UploadSchedule(
      limits: ScheduleHarness.standardLimits, abilities: abilities, publishedName: { names[$1] ?? nil },
      random: SplitMix(seed: 7))
    harness.handle(.scanEnded)
    let old = ImaginaryFile(1, "x/a", size: 500)
    harness.write(old)
    harness.answerReads()
    harness.handle(.removed(old.id))
    var next = ImaginaryFile(2, "x/a", size: 600)
    harness.write(next)
    next.snapshot.names = [RelativePath("y/a")]
    harness.handle(.namesChanged(next.snapshot))
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == (name == "b" ? [old.id, next.id] : [old.id]))
    harness.answer(Self.published) { $0.isWholeFile }
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [next.id])
  }

  @Test func whatIsNotOutYet_isTakenBack() {
    var harness = Self.harness()
    let old = ImaginaryFile(1, "a", size: 500)
    harness.write(old)
    harness.answerReads()
    let request = harness.sent.first { $0.order.isWholeFile }?.id
    harness.handle(.removed(old.id))
    #expect(harness.others.contains { if case .cancelUnsent(request, bodyBytes: 500) = $0 { true } else { false } })
    #expect(!harness.others.contains { if case .cancel = $0 { true } else { false } })
  }

  @Test func aCommitThatIsOut_isWaitedFor() {
    var harness = Self.harness()
    let old = ImaginaryFile(1, "a", size: 2500)
    harness.beginSending(old)
    while harness.answer(.chunkStored, where: { $0.isChunk }) != nil {}
    #expect(harness.commits.count == 1)
    harness.handle(.removed(old.id))
    #expect(harness.cancelled.isEmpty)
    let next = ImaginaryFile(2, "a", size: 600)
    harness.write(next)
    harness.answerReads()
    #expect(Self.wholeFiles(harness).isEmpty)
    harness.answer(Self.published) { $0.isCommit }
    #expect(Self.wholeFiles(harness) == [next.id])
  }

  /// Its outcome is unknown: another content gives the server some time, the same one is tried again as ever.
  @Test(.promises("S76c"), arguments: [StepFailure.Kind.transport(.timedOut), .transport(.connectionLost)])
  func aRequestWithoutAnAnswer_holdsUpOtherContentsForAWhile(kind: StepFailure.Kind) {
    var harness = Self.harness()
    let old = ImaginaryFile(1, "a", size: 500)
    harness.write(old)
    harness.answerReads()
    harness.answer(.refused(StepFailure(kind, "lost"))) { $0.isWholeFile }
    harness.advance(by: .seconds(1))
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [old.id], "tried again")
    harness.answer(.refused(StepFailure(kind, "lost"))) { $0.isWholeFile }
    harness.handle(.removed(old.id))
    let next = ImaginaryFile(2, "a", size: 600)
    harness.write(next)
    let other = ImaginaryFile(3, "b", size: 600)
    harness.write(other)
    harness.answerReads()
    harness.advance(by: .seconds(18))
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [other.id], "no other file waits")
    harness.answer(Self.published) { $0.isWholeFile }
    harness.advance(by: .seconds(3))
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [next.id])
  }

  /// It was removed before nothing came back for it: its outcome is no longer asked for.
  @Test func aRemovedFileWithoutAnAnswer_holdsUpTheNextOfItsName() {
    var harness = Self.harness()
    let old = ImaginaryFile(1, "a", size: 500)
    harness.write(old)
    harness.answerReads()
    harness.handle(.removed(old.id))
    harness.answer(.refused(StepFailure(.transport(.timedOut), "lost"))) { $0.isWholeFile }
    let next = ImaginaryFile(2, "a", size: 600)
    harness.write(next)
    harness.answerReads()
    #expect(Self.wholeFiles(harness).isEmpty)
    harness.advance(by: .seconds(21))
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [next.id])
  }

  @Test func aRewrittenFile_doesNotBreakOffItsCommit() {
    var harness = Self.harness()
    let old = ImaginaryFile(1, "a", size: 2500)
    harness.beginSending(old)
    while harness.answer(.chunkStored, where: { $0.isChunk }) != nil {}
    #expect(harness.commits.count == 1)
    let next = ImaginaryFile(1, "a", size: 600, epoch: 2)
    harness.handle(next.opened)
    harness.handle(next.changed)
    harness.handle(next.settled)
    #expect(harness.cancelled.isEmpty)
  }

  /// Its last byte publishes an upload of a declared length.
  @Test func theLastChunkOfOneUpload_isWaitedFor() {
    var harness = ScheduleHarness {
      $0.ordersPublications = false
      $0.appendSequences = .one
      $0.needsChunks = true
      $0.replaceableChunks = false
      $0.unknownLength = false
      $0.bindsNameAtOpening = true
    }
    harness.handle(.scanEnded)
    let old = ImaginaryFile(1, "a", size: 1500)
    harness.beginSending(old)
    harness.answerChunk(0, .chunkStoredAs(token: "0"))
    harness.answerReads()
    #expect(harness.chunkRequests.map(\.index) == [1])
    harness.handle(.removed(old.id))
    #expect(!harness.others.contains { if case .cancel = $0 { true } else { false } })
    let next = ImaginaryFile(2, "a", size: 600)
    harness.write(next)
    harness.answerReads()
    #expect(Self.wholeFiles(harness).isEmpty)
    harness.answerChunk(1, .chunkStoredAs(token: "1"))
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [next.id])
  }

  /// Nor does it go out while something else may still be published under its name.
  @Test func theLastChunkOfOneUpload_waits() {
    var harness = ScheduleHarness {
      $0.ordersPublications = false
      $0.appendSequences = .one
      $0.needsChunks = true
      $0.replaceableChunks = false
      $0.unknownLength = false
      $0.bindsNameAtOpening = true
    }
    harness.handle(.scanEnded)
    let old = ImaginaryFile(1, "a", size: 500)
    harness.write(old)
    harness.answerReads()
    harness.handle(.removed(old.id))
    harness.beginSending(ImaginaryFile(2, "a", size: 1500))
    harness.answerChunk(0, .chunkStoredAs(token: "0"))
    harness.answerReads()
    #expect(harness.chunkRequests.isEmpty && harness.commits.isEmpty)
    harness.answer(Self.published) { $0.isWholeFile }
    #expect(harness.chunkRequests.map(\.index) == [1])
  }

  // MARK: - A receiver, which keeps the order in which requests reach it

  private static func receiver() -> ScheduleHarness {
    var harness = ScheduleHarness(wholeFileBytesMax: 1000)
    harness.handle(.scanEnded)
    return harness
  }

  @Test(.promises("S76c"), arguments: Way.allCases)
  func atAReceiver_whatIsOutIsWaitedFor(way: Way) {
    var harness = Self.receiver()
    let old = ImaginaryFile(1, "a", size: 500)
    harness.write(old)
    harness.answerReads()
    let next = Self.replace(old, way, &harness)
    harness.answerReads()
    #expect(!harness.others.contains { if case .cancel = $0 { true } else { false } })
    #expect(Self.wholeFiles(harness) == [old.id], "the second one waits")
    harness.answer(Self.published) { $0.isWholeFile }
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [next.id])
  }

  /// Regression: after connections were cut the receiver read the older of two contents last, and published it.
  @Test(
    .promises("S76c"),
    arguments: zip(
      [StepFailure.Kind.transport(.connectionLost), .transport(.timedOut), .transport(.stalled)], [2, 20, 20]))
  func atAReceiver_whatMayStillBeOnItsWayIsWaitedFor(kind: StepFailure.Kind, seconds: Int) {
    var harness = Self.receiver()
    let old = ImaginaryFile(1, "a", size: 500)
    harness.write(old)
    harness.answerReads()
    harness.answer(.refused(StepFailure(kind, "lost"))) { $0.isWholeFile }
    harness.advance(by: .seconds(1))
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [old.id], "the same content is tried again as ever")
    harness.answer(.refused(StepFailure(kind, "lost"))) { $0.isWholeFile }
    harness.handle(.removed(old.id))
    let next = ImaginaryFile(2, "a", size: 600)
    harness.write(next)
    harness.advance(by: .seconds(seconds) - .milliseconds(10))
    harness.answerReads()
    #expect(Self.wholeFiles(harness).isEmpty)
    harness.advance(by: .milliseconds(20))
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [next.id])
  }

  @Test func atAReceiver_aCommitThatIsNotWantedIsTakenBack_andMayStillBeOnItsWay() {
    var harness = Self.receiver()
    harness.beginSending(ImaginaryFile(1, "a", size: 2500))
    while harness.answer(.chunkStored, where: { $0.isChunk }) != nil {}
    #expect(harness.commits.count == 1)
    harness.handle(.removed(FileID(high: 0, low: 1)))
    harness.endCancelled()
    #expect(harness.commits.isEmpty)
    let next = ImaginaryFile(2, "a", size: 600)
    harness.write(next)
    harness.answerReads()
    #expect(Self.wholeFiles(harness).isEmpty)
    harness.advance(by: .seconds(2))
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [next.id])
  }

  // MARK: - Over a restart

  private static func restarted(isReceiver: Bool, _ catalog: [CatalogEntry] = []) -> ScheduleHarness {
    ScheduleHarness(wholeFileBytesMax: 1000, catalog: catalog) { $0.ordersPublications = isReceiver }
  }

  @Test(.promises("S76c"), arguments: [(true, 2), (false, 20)])
  func whatAnEarlierRunMayHaveSent_isWaitedFor(isReceiver: Bool, seconds: Int) {
    var harness = Self.restarted(isReceiver: isReceiver)
    let (rewritten, replaced, same) = (
      ImaginaryFile(1, "a", size: 500), ImaginaryFile(2, "b", size: 500), ImaginaryFile(3, "c", size: 500)
    )
    for file in [rewritten, replaced] {
      harness.handle(file.found)
    }
    harness.handle(.removed(replaced.id))
    let next = ImaginaryFile(1, "a", size: 500, epoch: 2)
    harness.handle(next.changed)
    harness.handle(next.settled)
    let other = ImaginaryFile(4, "b", size: 600)
    harness.write(other)
    harness.handle(same.found)
    harness.handle(.scanEnded)
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [same.id], "its content is that of the earlier run")
    harness.answer(Self.published) { $0.isWholeFile }
    harness.advance(by: .seconds(seconds) - .milliseconds(10))
    harness.answerReads()
    #expect(Self.wholeFiles(harness).isEmpty)
    harness.advance(by: .milliseconds(20))
    harness.answerReads()
    #expect(Set(Self.wholeFiles(harness)) == [rewritten.id, other.id])
  }

  @Test func whatIsGoneBeforeItIsFound_isWaitedForAsWell() {
    let old = ImaginaryFile(1, "a", size: 500)
    var harness = Self.restarted(
      isReceiver: false,
      [
        CatalogEntry(
          id: old.id, path: RelativePath("a"), inode: 1, sizeBytes: 500, modifiedNanoseconds: 5, revision: 1,
          state: .pending)
      ])
    harness.handle(.removed(old.id))
    let next = ImaginaryFile(2, "a", size: 600)
    harness.write(next)
    harness.answerReads()
    #expect(Self.wholeFiles(harness).isEmpty)
    harness.advance(by: .seconds(20))
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == [next.id])
  }
}
