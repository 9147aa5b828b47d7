import FileModel
import Integrity
import Promises
import ProtocolReference
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct CommitWithTailTests {
  private func sending(_ file: ImaginaryFile, waits: Bool = true) -> ScheduleHarness {
    var harness = ScheduleHarness(commitWaitsForChunks: waits)
    harness.handle(.scanEnded)
    harness.beginSending(file)
    return harness
  }

  private static func published(_ commit: SessionCommit) -> StepOutcome { ScheduleHarness.success(of: .commit(commit)) }

  @Test(.promises("P98")) func commit_goesOutBesideTheLastChunks_andNotBefore() throws {
    let file = ImaginaryFile(1, "a.mov", size: 20_000)
    var harness = sending(file)
    #expect(harness.commits.isEmpty, "chunks are still to be read")
    for index in 0..<7 {
      harness.answerChunk(index, .chunkStored)
      harness.answerReads()
    }
    #expect(harness.commits.isEmpty, "a chunk waits for a stream")
    harness.answerChunk(7, .chunkStored)
    let commit = try #require(harness.commits.first)
    #expect(harness.chunkRequests.count == 12)
    let digests = (0..<20).map { ScheduleHarness.digest(file: file.id, epoch: 1, offset: $0 * 1000).sha256.bytes }
    #expect(commit.merkleRoot.bytes == ProtocolReference.merkleRoot(digests) && commit.chunkCount == 20)
    #expect(commit.chainTip.bytes == ProtocolReference.chainTip(sessionID: "s", digests))
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func commit_waitsForEveryAcknowledgement_whereTheServerDoesNot() {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file, waits: false)
    harness.answerChunk(0, .chunkStored)
    harness.answerChunk(1, .chunkStored)
    #expect(harness.commits.isEmpty)
    harness.answerChunk(2, .chunkStored)
    #expect(harness.commits.count == 1)
  }

  @Test func answerBeforeTheTailsAcknowledgements_completesTheFile_andTheyNoLongerMatter() throws {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file)
    let commit = try #require(harness.commits.first)
    harness.answer(Self.published(commit)) { $0.isCommit }
    harness.record()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.schedule.totals.acknowledgedBytes == 3000)
    #expect(harness.buffers.count == 3, "the transport still reads from them")
    harness.answerChunk(0, .chunkStored)
    harness.answerChunk(1, StepFailure.connection(.connectionLost))
    harness.answerChunk(2, .refused(StepFailure(.sessionGone, "gone")))
    #expect(harness.state(file.id) == .complete)
    #expect(harness.schedule.totals.acknowledgedBytes == 3000)
    #expect(harness.buffers.isEmpty && harness.chunkRequests.isEmpty && harness.commits.isEmpty)
  }

  /// Regression (lying-words 53100081853): as long as the commit of a file that had failed was not answered, its status said that the server
  /// had all of it, and not why it had failed.
  @Test func whyAFileHasFailed_isSaid_whileItsCommitHasNoAnswer() {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file)
    harness.answerChunk(1, .refused(StepFailure(.nameRefused, "no")))
    #expect(harness.state(file.id) == .failed && harness.commits.count == 1)
    for _ in 0..<4 { harness.advance(by: .seconds(25)) }
    #expect(harness.status(file.id)?.lastFailure?.code == StepFailure.Kind.nameRefused.code)
  }

  @Test func tailChunkThatFails_isSentAgainAtOnce_whileTheCommitWaits() throws {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file)
    #expect(harness.commits.count == 1)
    harness.answerChunk(1, StepFailure.connection(.connectionLost))
    harness.answerReads()
    #expect(harness.chunkRequests.map(\.index).sorted() == [0, 1, 2])
    #expect(harness.commits.count == 1, "never two commits at once")
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.status(file.id)?.chunks.retried == 1)
  }

  @Test func commitThatFindsTheTailMissing_isRepeatedAfterIt_withoutAFailure() {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file)
    harness.answer(.incomplete(missing: [0, 2])) { $0.isCommit }
    #expect(harness.commits.isEmpty, "no loop of commits while chunks are on their way")
    #expect(harness.state(file.id) == .uploading)
    #expect(harness.status(file.id)?.lastFailure == nil)
    #expect(harness.chunkRequests.count == 3)
    harness.answerChunk(0, .chunkStored)
    harness.answerChunk(1, .chunkStored)
    #expect(harness.commits.isEmpty)
    harness.answerChunk(2, .chunkStored)
    #expect(harness.commits.count == 1)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.status(file.id)?.attempts == 0)
  }

  /// Regression: content that settled before an older one's receipt came kept a transfer without a session for ever.
  @Test func contentThatChangesBesideTheCommit_isDeliveredAfterIt_andNeverMixedIntoIt() throws {
    var file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file)
    let first = try #require(harness.commits.first)
    file.snapshot.epoch = 2
    harness.handle(file.changed)
    harness.handle(file.settled)
    harness.answerReads()
    for index in 0..<3 { harness.answerChunk(index, .chunkStored) }
    #expect(harness.chunkRequests.isEmpty, "the session belongs to the commit until it is answered")
    harness.answer(Self.published(first)) { $0.isCommit }
    #expect(harness.state(file.id) != .complete)
    #expect(harness.status(file.id)?.receipt == nil)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.status(file.id)?.receipt?.merkleRoot != Hex.encode(first.merkleRoot))
  }

  @Test func commitThatWaitsForAChunkOfAGoneContent_isEnded() throws {
    var file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file)
    let commit = try #require(harness.sent.first { $0.order.isCommit })
    file.snapshot.epoch = 2
    harness.handle(file.changed)
    #expect(harness.cancelled.isEmpty, "all its chunks are on their way")
    harness.answerChunk(1, StepFailure.connection(.connectionLost))
    #expect(harness.cancelled == [commit.id])
    harness.answer(StepFailure.connection(.cancelled)) { $0.isCommit }
    harness.handle(file.settled)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func chunkThatIsDeniedAfterItsAcknowledgement_isSentAgain() {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file)
    for index in 0..<3 { harness.answerChunk(index, .chunkStored) }
    harness.answer(.incomplete(missing: [1, 99, -4])) { $0.isCommit }
    harness.answerReads()
    #expect(harness.chunkRequests.map(\.index) == [1])
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// Regression (simulation, scenario proxy, seed 20): a commit of an old session was refused after the file had gone on in
  /// a new one, and chunks that the new one had acknowledged were sent again.
  @Test func refusedCommitOfAnOldSession_saysNothingAboutTheNewOne() throws {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file)
    harness.answerChunk(1, .refused(StepFailure(.sessionGone, "gone")))
    harness.answer(.sessionOpened(id: "t", chunkBytes: 1000, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    while harness.answer(.chunkStored, where: { $0.isChunk }) != nil {}
    #expect(harness.commits.count == 1, "never two at once")
    harness.answer(.incomplete(missing: [0, 2])) { $0.isCommit }
    #expect(harness.chunkRequests.isEmpty && harness.reads.isEmpty)
    #expect(harness.commits.map(\.session.id) == ["t"])
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// Regression: the commit went on waiting, and published the file under the name that it no longer had.
  @Test(.promises("S76a")) func renameWhileTheCommitWaitsForTheTail_publishesTheNewNameOnly() throws {
    var file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file)
    let commit = try #require(harness.sent.first { $0.order.isCommit })
    file.snapshot.names = [RelativePath("b.mov")]
    harness.handle(.namesChanged(file.snapshot))
    #expect(harness.others.contains(.cancel(commit.id)))
    harness.answer(StepFailure.connection(.cancelled)) { $0.isCommit }
    #expect(harness.commits.map(\.path) == [RelativePath("b.mov")])
    #expect(harness.chunkRequests.count == 3, "what is on its way goes on")
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.status(file.id)?.lastFailure == nil)
    #expect(harness.status(file.id)?.chunks.retried == 0)
  }

  @Test func renameOnceEveryChunkIsThere_leavesTheCommitAlone() {
    var file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file)
    for index in 0..<3 { harness.answerChunk(index, .chunkStored) }
    file.snapshot.names = [RelativePath("b.mov")]
    harness.handle(.namesChanged(file.snapshot))
    #expect(!harness.others.contains { if case .cancel = $0 { true } else { false } })
    harness.succeed()
    #expect(harness.schedule.catalogEntry(of: file.id)?.publishedPaths == [RelativePath("b.mov")])
  }

  /// Regression (simulation, scenario network, seed 190): a renamed file's commit waited for its tail, another file got the
  /// old name and was published under it, and then the older commit replaced it.
  @Test func nameThatIsBeingPublished_isNotPublishedForAnotherFileBeforeTheAnswer() throws {
    var first = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(first)
    let commit = try #require(harness.commits.first)
    first.snapshot.names = [RelativePath("b.mov")]
    harness.handle(.namesChanged(first.snapshot))
    let second = ImaginaryFile(2, "a.mov", size: 10)
    harness.write(second)
    harness.answerReads()
    #expect(!harness.sent.contains { $0.order.isWholeFile })
    harness.answer(Self.published(commit)) { $0.isCommit }
    #expect(harness.sent.contains { $0.order.isWholeFile })
    harness.succeed()
    #expect(harness.state(first.id) == .complete && harness.state(second.id) == .complete)
  }

  @Test func receiverThatDeniesForEver_isGivenUp_withAReason() {
    let file = ImaginaryFile(1, "a.mov", size: 1500)
    var harness = sending(file)
    var commits = 0
    while harness.state(file.id) != .failed, commits < 50 {
      harness.answerReads()
      if harness.answer(.chunkStored, where: { $0.isChunk }) != nil { continue }
      if harness.answer(.incomplete(missing: [0]), where: { $0.isCommit }) != nil {
        commits += 1
        continue
      }
      harness.advance(by: .seconds(1))
    }
    #expect(harness.status(file.id)?.lastFailure?.code == "incomplete")
    #expect(commits <= 2 * UploadConstants.chunkMaxRetries)
    #expect(harness.buffers.isEmpty)
  }

  /// Regression, found by the simulation (power, seed 23): the late answer to the commit of a session that was gone took the
  /// bytes of the small content that had followed for its own, and their buffer was never given back.
  @Test func lateRefusalOfAnEarlierCommit_leavesTheBufferOfASmallContentAlone() {
    var harness = ScheduleHarness(commitWaitsForChunks: true)
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "a.mov", size: 3000)
    harness.beginSending(file)
    #expect(harness.commits.count == 1)
    file.snapshot.epoch = 2
    file.snapshot.sizeBytes = 48
    harness.handle(file.changed)
    harness.handle(file.settled)
    let gone = StepOutcome.refused(StepFailure(.sessionGone, "gone"))
    while harness.answer(gone, where: { $0.isChunk }) != nil {}
    harness.answerReads()
    harness.answer(gone) { $0.isCommit }
    harness.advance(by: .seconds(60))
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.buffers.isEmpty)
  }

  /// Regression, found by the simulation (proxy, seed 20141): a late answer took the place of what a user has to act on.
  @Test func failedFile_keepsItsReason_whenItsCommitIsRefusedLater() {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file)
    harness.answerChunk(0, .refused(StepFailure(.nameRefused, "no")))
    harness.answer(.refused(StepFailure(.tooEarly, "early"))) { $0.isCommit }
    #expect(harness.state(file.id) == .failed)
    #expect(harness.status(file.id)?.lastFailure?.code == StepFailure.Kind.nameRefused.code)
  }

  /// Regression, found by the simulation (hasty, seed 2): it was taken for a commit that waits for chunks.
  @Test func smallContentOnItsWay_isNotCancelled_whenTheFileHasGrownAndChangesAgain() throws {
    var harness = ScheduleHarness(commitWaitsForChunks: true)
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "a.mov", size: 500)
    harness.handle(file.opened)
    harness.handle(file.settled)
    harness.answerReads()
    let small = try #require(harness.sent.first { $0.order.isWholeFile })
    for epoch in 2...3 as ClosedRange<UInt64> {
      file.snapshot.epoch = epoch
      file.snapshot.sizeBytes = 3000
      harness.handle(file.changed)
      if epoch == 2 { harness.handle(file.settled) }
    }
    #expect(!harness.others.contains(.cancel(small.id)))
  }
}
