import FileModel
import Promises
import Lookup
import Testing
import TransferModel

@testable import UploadEngine

/// Destinations whose sessions publish under the name that they were opened with, and whose commits name every chunk by
/// the token with which it was acknowledged. Chunks have 1000 bytes.
@Suite struct BoundSessionTests {
  private func harness(
    records: [ResumeRecord] = [], _ change: (inout DestinationAbilities) -> Void = { _ in }
  ) -> ScheduleHarness {
    ScheduleHarness(records: records) {
      $0.bindsNameAtOpening = true
      $0.commitListsChunks = true
      $0.needsChunks = true
      change(&$0)
    }
  }

  private func started(_ change: (inout DestinationAbilities) -> Void = { _ in }) -> ScheduleHarness {
    var harness = harness(change)
    harness.handle(.scanEnded)
    return harness
  }

  private func openedPaths(_ harness: ScheduleHarness) -> [String] {
    harness.sent.compactMap { if case .openSession(let opening) = $0.order { opening.path.displayText } else { nil } }
  }

  private func storeChunks(_ count: Int, _ harness: inout ScheduleHarness) {
    for index in 0..<count { harness.answerChunk(index, .chunkStoredAs(token: "t\(index)")) }
  }

  @Test func commit_namesEveryChunkByItsToken() throws {
    var harness = started()
    let file = ImaginaryFile(1, "a.mov", size: 2500)
    harness.beginSending(file)
    storeChunks(3, &harness)
    let commit = try #require(harness.commits.first)
    #expect(commit.chunks.map(\.token) == ["t0", "t1", "t2"])
    let digests: [ChunkDigest] = [0, 1000, 2000].map { ScheduleHarness.digest(file: file.id, epoch: 1, offset: $0) }
    #expect(commit.chunks.map(\.digest) == digests)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// The server names its chunks when it is asked, so nothing is sent again.
  @Test func chunkWithoutAToken_isAskedForBeforeTheCommit() {
    var harness = started()
    harness.beginSending(ImaginaryFile(1, "a.mov", size: 2000))
    harness.answerChunk(0, .chunkStoredAs(token: "t0"))
    harness.answerChunk(1, .chunkStored)
    #expect(harness.commits.isEmpty)
    let held = (0..<2).map {
      ScheduleHarness.digest(file: FileID(high: 0, low: 1), epoch: 1, offset: UInt64($0) * 1000).sha256
    }
    harness.answer(.held(digests: [0: held[0], 1: held[1]], tokens: [0: "t0", 1: "t1"])) { $0.isQuery }
    #expect(harness.commits.first?.chunks.map(\.token) == ["t0", "t1"])
    #expect(harness.chunkRequests.isEmpty)
  }

  @Test func restart_goesOnWithTheChunksThatTheServerNamesByTheSameTokens() {
    let file = ImaginaryFile(1, "a.mov", size: 4000, epoch: 0)
    let acknowledged = (0..<3).map { index in
      ResumeRecord.AcknowledgedChunk(
        index: index, digest: ScheduleHarness.digest(file: file.id, epoch: 0, offset: UInt64(index) * 1000),
        token: "t\(index)")
    }
    let record = ResumeRecord(
      fileID: file.id, sessionID: "s", nonce: [1], chunkBytes: 1000, epochRevision: 1, path: RelativePath("a.mov"),
      sizeBytes: 4000, openedAtSeconds: 1_699_999_000, expiresAtSeconds: nil, acknowledged: acknowledged)
    var harness = harness(records: [record])
    harness.handle(file.found)
    harness.handle(.scanEnded)
    // The server has lost chunk 1, and has another chunk 2 than we know.
    harness.answer(.held(digests: [:], tokens: [0: "t0", 2: "other"])) { $0.isQuery }
    harness.answerReads()
    #expect(harness.chunkRequests.map(\.index).sorted() == [1, 2, 3])
    for index in 1..<4 { harness.answerChunk(index, .chunkStoredAs(token: "n\(index)")) }
    #expect(harness.commits.first?.chunks.map(\.token) == ["t0", "n1", "n2", "n3"])
    #expect(harness.status(file.id)?.chunks.reused == 1)
  }

  @Test(.promises("DE5")) func anotherName_needsAnotherSession() {
    var harness = started()
    var file = ImaginaryFile(1, "a.mov", size: 2000)
    harness.beginSending(file)
    harness.answerChunk(0, .chunkStoredAs(token: "t0"))
    file.snapshot.names = [RelativePath("b.mov")]
    harness.handle(.namesChanged(file.snapshot))
    #expect(openedPaths(harness) == ["b.mov"])
    harness.answer(.chunkStoredAs(token: "late")) { $0.isChunk(1) }
    harness.answer(.sessionOpened(id: "s2", chunkBytes: 1000, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    storeChunks(2, &harness)
    #expect(harness.commits.map(\.session.id) == ["s2"])
    #expect(harness.commits.map(\.path) == [RelativePath("b.mov")])
    harness.advance(by: .seconds(6))
    #expect(harness.sent.contains { $0.order.isAbort }, "the first session is ended")
  }

  @Test func renameBeforeACommitThatFails_needsAnotherSession() {
    var harness = started()
    var file = ImaginaryFile(1, "a.mov", size: 2000)
    harness.beginSending(file)
    storeChunks(2, &harness)
    file.snapshot.names = [RelativePath("b.mov")]
    harness.handle(.namesChanged(file.snapshot))
    harness.answer(.refused(StepFailure(.serverError, "try again"))) { $0.isCommit }
    harness.advance(by: .seconds(20))
    while harness.answer(.warmed, where: { $0.isPrewarm }) != nil {}
    #expect(openedPaths(harness) == ["b.mov"])
    harness.answer(.sessionOpened(id: "s2", chunkBytes: 1000, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    storeChunks(2, &harness)
    #expect(harness.commits.map(\.path) == [RelativePath("b.mov")])
  }

  @Test(.promises("DE5")) func temporaryName_bindsTheNameThatItWillProbablyGet() {
    var harness = started()
    var file = ImaginaryFile(1, "take.mov.part", size: 5000)
    harness.write(file)
    #expect(openedPaths(harness) == ["take.mov"])
    harness.openSession()
    harness.answerReads()
    storeChunks(5, &harness)
    #expect(harness.commits.isEmpty)
    file.snapshot.names = [RelativePath("take.mov")]
    harness.handle(.namesChanged(file.snapshot))
    #expect(harness.commits.map(\.path) == [RelativePath("take.mov")])
  }

  @Test(.promises("S77g")) func temporaryName_thatIsPublishedAsItIs_getsASessionOfItsOwn() {
    var harness = started()
    let file = ImaginaryFile(1, "take.mov.part", size: 5000)
    harness.write(file)
    harness.openSession()
    harness.answerReads()
    storeChunks(5, &harness)
    harness.apply { $0.publish(file.id, at: $1) }
    #expect(openedPaths(harness) == ["take.mov.part"])
    harness.openSession()
    harness.answerReads()
    storeChunks(5, &harness)
    #expect(harness.commits.map(\.path) == [RelativePath("take.mov.part")])
  }

  /// A multipart upload for each of many small files would be begun only to be ended.
  @Test(.promises("DE29")) func openFile_getsASessionOnceItIsTooLargeForOneRequest() {
    var harness = started()
    var file = ImaginaryFile(1, "a.mov", size: 0)
    harness.handle(file.opened)
    harness.answer(.warmed) { $0.isPrewarm }
    harness.advance(by: .milliseconds(50))
    #expect(openedPaths(harness).isEmpty)
    file.snapshot.sizeBytes = 1001
    file.snapshot.writableOpens = 1
    harness.apply { $0.measured(file.snapshot, at: $1) }
    harness.advance(by: .milliseconds(50))
    #expect(openedPaths(harness) == ["a.mov"])
  }

  @Test func fileThatBecameEmpty_goesAsAWholeFile() {
    var harness = started()
    var file = ImaginaryFile(1, "a.mov", size: 2000)
    harness.beginSending(file)
    harness.answerChunk(0, .chunkStoredAs(token: "t0"))
    file.snapshot.epoch += 1
    file.snapshot.sizeBytes = 0
    harness.handle(file.changed)
    harness.handle(file.settled)
    harness.answer(.chunkStoredAs(token: "late")) { $0.isChunk }
    harness.advance(by: .milliseconds(50))
    #expect(harness.sent.contains { $0.order.isWholeFile })
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test(.promises("DE32")) func chunks_areAsLongAsTheDestinationWants_andAsFewAsItTakes() {
    var limits = ScheduleHarness.standardLimits
    limits.bufferBytes = 1 << 20
    var harness = ScheduleHarness(limits: limits) {
      $0.chunkBytesMin = 4000
      $0.chunkCountMax = 10
      $0.fileBytesMax = 5 << 20
    }
    harness.handle(.scanEnded)
    harness.write(ImaginaryFile(1, "small", size: 9000))
    harness.write(ImaginaryFile(2, "large", size: 2_000_000))
    let sizes = harness.sent.compactMap {
      if case .openSession(let opening) = $0.order { opening.chunkBytes } else { nil }
    }
    // 2,000,000 bytes in at most ten chunks, in steps of 64 KiB.
    #expect(sizes == [4000, 262_144])
  }
}
