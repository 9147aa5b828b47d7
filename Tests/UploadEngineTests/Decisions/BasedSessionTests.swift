import FileModel
import Integrity
import Lookup
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// Contents that begin with what the server has published of their file.
@Suite struct BasedSessionTests {
  private static let id = FileID(high: 0, low: 1)
  private static let chunkCount = 4

  private static func content(_ epoch: UInt64, isWrittenAnew: Bool = false) -> ImaginaryFile {
    var file = ImaginaryFile(1, "a.mov", size: UInt64(chunkCount * ScheduleHarness.chunkBytes), epoch: epoch)
    file.snapshot.isWrittenAnew = isWrittenAnew
    return file
  }

  /// Its first content is delivered, long ago.
  private static func delivered() -> ScheduleHarness {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.write(content(1))
    #expect(openings(harness).map(\.takesBase) == [false], "nothing of it is published")
    harness.succeed()
    #expect(harness.state(id) == .complete)
    harness.advance(by: .seconds(60))
    harness.succeed()
    return harness
  }

  private static func change(_ harness: inout ScheduleHarness, _ file: ImaginaryFile) {
    harness.handle(file.opened)
    harness.handle(file.changed)
    harness.handle(file.settled)
    harness.answerReads()
  }

  private static func openings(_ harness: ScheduleHarness) -> [SessionOpening] {
    harness.sent.compactMap { if case .openSession(let opening) = $0.order { opening } else { nil } }
  }

  private static func opened(_ harness: inout ScheduleHarness, isBased: Bool) {
    harness.answer(
      .sessionOpened(id: "s2", chunkBytes: ScheduleHarness.chunkBytes, expiresAtSeconds: nil, isBased: isBased)
    ) { $0.isOpenSession }
    harness.answerReads()
  }

  /// Regression: all of a file was sent again of which a part had changed.
  @Test(.promises("P121")) func whatIsTheSameAtTheServer_isNotSent() {
    var harness = Self.delivered()
    Self.change(&harness, Self.content(2))
    #expect(Self.openings(harness).map(\.takesBase) == [true])
    Self.opened(&harness, isBased: true)
    #expect(harness.chunkRequests.isEmpty, "first it is asked what it holds")
    // Chunk 1 is another one by now; the last one, which was not whole, it does not hold.
    var digests: LookupTable<Int, Digest32> = [:]
    for index in [0, 2] {
      digests[index] =
        ScheduleHarness.digest(
          file: Self.id, epoch: 2, offset: UInt64(index * ScheduleHarness.chunkBytes)
        ).sha256
    }
    digests[1] = sha256([1])
    harness.answer(.held(digests: digests, chunkBytes: ScheduleHarness.chunkBytes)) { $0.isQuerySession }
    harness.answerReads()
    #expect(harness.chunkRequests.map(\.index).sorted() == [1, 3])
    harness.succeed()
    #expect(harness.state(Self.id) == .complete)
    #expect(harness.status(Self.id)?.chunks.reused == 2)
  }

  @Test(.promises("P121")) func withoutBase_allOfItIsSent() {
    var harness = Self.delivered()
    Self.change(&harness, Self.content(2))
    Self.opened(&harness, isBased: false)
    #expect(harness.chunkRequests.map(\.index).sorted() == [0, 1, 2, 3])
  }

  /// The server would copy and read what is of no use.
  @Test(.promises("P121")) func aFileThatIsWrittenAnew_beginsWithNothing() {
    var harness = Self.delivered()
    Self.change(&harness, Self.content(2, isWrittenAnew: true))
    #expect(Self.openings(harness).map(\.takesBase) == [false])
  }

  /// One that is open for a while is followed; what was in it goes early, unless the server has it.
  @Test(.promises("P121")) func aFileThatIsOpen_beginsSo_too() {
    var harness = Self.delivered()
    harness.handle(Self.content(2).opened)
    harness.handle(Self.content(2).changed)
    harness.advance(by: harness.schedule.limits.sessionOpenDelay)
    #expect(Self.openings(harness).map(\.takesBase) == [true])
    #expect(Self.openings(harness).map(\.sizeBytes) == [nil])
  }

  /// Parts are copied only where they lie as they did: the next content has chunks of the length of the one before, whatever the settings and
  /// the line say by now. What is copied was not sent.
  @Test(.promises("DE151"), arguments: [true, false])
  func whereTheServerCopies_chunksStayAsLong_andCountAsReused(copies: Bool) {
    let half = ScheduleHarness.chunkBytes / 2
    var harness = ScheduleHarness { $0.copiesChunks = copies }
    harness.handle(.scanEnded)
    harness.write(Self.content(1))
    harness.answer(.sessionOpened(id: "s1", chunkBytes: half, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    harness.succeed()
    harness.advance(by: .seconds(60))
    Self.change(&harness, Self.content(2))
    let chunkBytes = copies ? half : ScheduleHarness.chunkBytes
    #expect(Self.openings(harness).map(\.chunkBytes) == [chunkBytes])
    harness.answer(.sessionOpened(id: "s2", chunkBytes: chunkBytes, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    let before = harness.schedule.totals.acknowledgedBytes
    harness.answerChunk(0, .chunkStoredAs(token: "t", isCopied: copies))
    #expect(harness.schedule.totals.acknowledgedBytes - before == (copies ? 0 : UInt64(chunkBytes)))
    #expect(harness.status(Self.id)?.chunks.reused == (copies ? 1 : 0))
    harness.succeed()
    #expect(harness.state(Self.id) == .complete)
  }

  /// What went in one request lies in no chunk, however long it was.
  @Test(.promises("DE151")) func theLengthOfAWholeFile_isNoLengthOfChunks() {
    var harness = ScheduleHarness { $0.copiesChunks = true }
    harness.handle(.scanEnded)
    harness.write(ImaginaryFile(1, "a.mov", size: 900))
    harness.succeed()
    #expect(harness.state(Self.id) == .complete)
    harness.advance(by: .seconds(60))
    Self.change(&harness, Self.content(2))
    #expect(Self.openings(harness).map(\.chunkBytes) == [ScheduleHarness.chunkBytes])
  }

  /// A recording that is gone on with may become as large as any: short parts would have it begun anew.
  @Test(.promises("DE151")) func whereTheChunksOfBefore_mayBecomeTooMany_theyAreLonger() {
    let half = ScheduleHarness.chunkBytes / 2
    var harness = ScheduleHarness { abilities in
      abilities.copiesChunks = true
      abilities.chunkCountMax = 12
    }
    harness.handle(.scanEnded)
    harness.write(Self.content(1))
    harness.answer(.sessionOpened(id: "s1", chunkBytes: half, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    harness.succeed()
    harness.advance(by: .seconds(60))
    harness.handle(Self.content(2).opened)
    harness.handle(Self.content(2).changed)
    harness.advance(by: harness.schedule.limits.sessionOpenDelay)
    #expect(Self.openings(harness).map(\.chunkBytes) == [ScheduleHarness.chunkBytes])
  }
}
