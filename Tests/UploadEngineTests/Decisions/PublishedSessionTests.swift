import FileModel
import Integrity
import Lookup
import Testing

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
      var digests: LookupTable<Int, [UInt8]> = [:]
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
    if case .chunk(let session, _, _, _, _) = self { session } else { nil }
  }
}
