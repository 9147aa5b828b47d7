import SeededRandom
import Testing

@testable import FileModel

@Suite struct ChunkActivityTests {
  private static let file = FileID(high: 1, low: 2)

  /// A file of which the tests change pieces.
  private struct Writer {
    var activity: ChunkActivity
    var epoch: UInt64 = 7

    init(sizeBytes: UInt64 = 0, mutationsInFlight: Int = 0) {
      activity = ChunkActivity(
        chunkBytes: 100, written: sizeBytes == 0 ? [] : [0..<sizeBytes], epoch: 7, mutationsInFlight: mutationsInFlight)
    }

    mutating func begin(_ extent: ContentExtent) -> ContentMutation {
      epoch += 1
      let mutation = ContentMutation(extent, epoch: epoch)
      activity.begin(mutation)
      return mutation
    }

    mutating func write(_ range: Range<UInt64>) {
      let mutation = begin(.bytes(range))
      activity.end(mutation, writtenBytes: range.upperBound - range.lowerBound)
    }

    mutating func resize(_ sizeBytes: UInt64) {
      let mutation = begin(.size(sizeBytes))
      activity.end(mutation, writtenBytes: 0)
    }

    mutating func report() throws -> GrowthReport {
      let report = activity.takeReport(of: ChunkActivityTests.file, sizeBytes: 0)
      return try #require(report)
    }

    mutating func covered() throws -> [Int] {
      try report().changes.filter(\.isCovered).map(\.index).sorted()
    }
  }

  @Test func whatLaysThereCountsAsWrittenButNotTheRestOfTheLastChunk() throws {
    var writer = Writer(sizeBytes: 250)
    let report = try writer.report()
    #expect(report.isFirst)
    #expect(report.writtenEndBytes == 250)
    #expect(report.changes.map(\.index) == [0, 1, 2])
    #expect(report.changes.map(\.isCovered) == [true, true, false])
    #expect(report.changes.allSatisfy { $0.isQuiet && $0.epoch == 7 })
    let next = try writer.report()
    #expect(next.changes.isEmpty)
  }

  @Test func aChunkIsCoveredOnceAllOfItWasWritten() throws {
    var writer = Writer()
    writer.write(0..<60)
    var covered = try writer.covered()
    #expect(covered == [])
    writer.write(60..<130)
    covered = try writer.covered()
    #expect(covered == [0])
    writer.write(130..<300)
    covered = try writer.covered()
    #expect(covered == [1, 2])
  }

  @Test func aChunkIsNotQuietWhileSomethingWritesToIt() throws {
    var writer = Writer()
    writer.write(0..<300)
    #expect(writer.activity.stableEpoch(at: 120) == 8)
    let mutation = writer.begin(.bytes(150..<160))
    #expect(writer.activity.stableEpoch(at: 100) == nil)
    #expect(writer.activity.stableEpoch(at: 0) == 8)
    let during = try writer.report()
    #expect(during.changes.filter { !$0.isQuiet }.map(\.index) == [1])
    writer.activity.end(mutation, writtenBytes: 10)
    #expect(writer.activity.stableEpoch(at: 100) == 9)
    let after = try writer.report()
    #expect(after.changes == [ChunkChange(index: 1, epoch: 9, isCovered: true, isQuiet: true)])
  }

  @Test func aWriteThatFailsTouchesAndCoversNothing() throws {
    var writer = Writer()
    let mutation = writer.begin(.bytes(0..<100))
    writer.activity.end(mutation, writtenBytes: nil)
    let report = try writer.report()
    #expect(report.changes == [ChunkChange(index: 0, epoch: 8, isCovered: false, isQuiet: true)])
    #expect(report.writtenEndBytes == 0)
  }

  @Test func aPieceOfAWriteCoversThatPiece() throws {
    var writer = Writer()
    let mutation = writer.begin(.bytes(0..<200))
    writer.activity.end(mutation, writtenBytes: 150)
    let report = try writer.report()
    #expect(report.changes.map(\.isCovered) == [true, false])
    #expect(report.writtenEndBytes == 150)
  }

  @Test func shrinkingTouchesEverythingFromTheNewEndOn() throws {
    var writer = Writer(sizeBytes: 400)
    _ = try writer.report()
    writer.resize(150)
    let report = try writer.report()
    #expect(report.changes.filter { $0.epoch == 8 }.map(\.index).sorted() == [1, 2, 3])
    #expect(report.changes.map(\.index).sorted() == [1, 2, 3], "the one before the end is what it was")
    #expect(report.changes.filter(\.isCovered).isEmpty, "what lay beyond the end is not there any more")
    #expect(report.writtenEndBytes == 150)
  }

  /// Regression: all of a file that a program had made long before writing it counted as written.
  @Test func whatIsAHoleAtTheStartIsNotWritten() throws {
    var activity = ChunkActivity(chunkBytes: 100, written: [0..<150, 400..<500], epoch: 7, mutationsInFlight: 0)
    let taken = activity.takeReport(of: Self.file, sizeBytes: 1000)
    let report = try #require(taken)
    #expect(report.changes.filter(\.isCovered).map(\.index) == [0, 4])
    #expect(report.writtenEndBytes == 500)
    #expect(activity.stableEpoch(at: 200) == 7)
  }

  @Test func roomThatIsReservedIsNotWritten() throws {
    var writer = Writer()
    writer.resize(1000)
    let mutation = writer.begin(.blocks(0..<500))
    writer.activity.end(mutation, writtenBytes: nil)
    let report = try writer.report()
    #expect(report.writtenEndBytes == 0)
    #expect(report.changes.filter(\.isCovered).isEmpty)
  }

  @Test func nothingIsQuietWhileTheSizeChanges() throws {
    var writer = Writer(sizeBytes: 300)
    let mutation = writer.begin(.size(200))
    #expect(writer.activity.stableEpoch(at: 0) == nil)
    writer.activity.end(mutation, writtenBytes: 0)
    #expect(writer.activity.stableEpoch(at: 0) == 7)
  }

  /// Regression: each `ftruncate` of a growing file made all of its chunks news, which then waited for quiet anew: nothing was
  /// sent of a recorder that extends its file with each frame, and each call cost as much as the file has chunks.
  @Test func makingAFileLonger_isNoNewsOfItsChunks() throws {
    var writer = Writer(sizeBytes: 350)
    _ = try writer.report()
    writer.resize(1000)
    let longer = try writer.report()
    #expect(longer.changes.isEmpty && longer.writtenEndBytes == 350)
    #expect(writer.activity.stableEpoch(at: 0) == 7 && writer.activity.stableEpoch(at: 300) == 7)
  }

  @Test func whatWasReportedWhileTheSizeChanged_isReportedAgain() throws {
    var writer = Writer(sizeBytes: 300)
    _ = try writer.report()
    let (first, second) = (writer.begin(.size(500)), writer.begin(.size(600)))
    writer.write(0..<100)
    let during = try writer.report()
    #expect(during.changes.map(\.index) == [0] && !during.changes.contains(where: \.isQuiet))
    writer.activity.end(first, writtenBytes: 0)
    let still = try writer.report()
    #expect(still.changes.isEmpty)
    writer.activity.end(second, writtenBytes: 0)
    let after = try writer.report()
    #expect(after.changes == [ChunkChange(index: 0, epoch: 10, isCovered: true, isQuiet: true)])
  }

  /// A resize that hangs beside a writer: each look would have kept one more number for it.
  @Test func whatIsReportedTwiceWhileTheSizeChanges_isReportedOnceAfterwards() throws {
    var writer = Writer(sizeBytes: 300)
    _ = try writer.report()
    let resize = writer.begin(.size(500))
    for _ in 0..<3 {
      writer.write(0..<100)
      let during = try writer.report()
      #expect(during.changes.map(\.index) == [0])
    }
    writer.activity.end(resize, writtenBytes: 0)
    let after = try writer.report()
    #expect(after.changes.map(\.index) == [0] && after.changes.allSatisfy(\.isQuiet))
    let next = try writer.report()
    #expect(next.changes.isEmpty)
  }

  @Test func nothingIsQuietUntilWritesOfBeforeHaveEnded() throws {
    var writer = Writer(sizeBytes: 300, mutationsInFlight: 2)
    #expect(writer.activity.stableEpoch(at: 0) == nil)
    writer.activity.end(ContentMutation(.bytes(0..<10), epoch: 6), writtenBytes: 10)
    #expect(writer.activity.stableEpoch(at: 0) == nil)
    _ = try writer.report()
    writer.activity.end(ContentMutation(.bytes(0..<10), epoch: 7), writtenBytes: 10)
    #expect(writer.activity.stableEpoch(at: 0) == 7)
    let report = try writer.report()
    #expect(report.changes.map(\.index).sorted() == [0, 1, 2], "all of them are news")
  }

  /// Regression: the chunk of a write that was under way at the start was never taken for written.
  @Test func aWriteOfBeforeCoversItsChunksOnceItHasEnded() throws {
    var activity = ChunkActivity(chunkBytes: 100, written: [0..<140], epoch: 7, mutationsInFlight: 1)
    activity.end(ContentMutation(.bytes(100..<300), epoch: 7), writtenBytes: 200)
    let taken = activity.takeReport(of: Self.file, sizeBytes: 300)
    let report = try #require(taken)
    #expect(report.changes.filter(\.isCovered).map(\.index).sorted() == [0, 1, 2])
    #expect(report.writtenEndBytes == 300)
  }

  @Test func aFileWithTooManyChunksIsNotFollowed() throws {
    var writer = Writer()
    writer.write(0..<100)
    let far = UInt64(ChunkActivity.countMax) * 100
    let mutation = writer.begin(.bytes(far..<far + 1))
    writer.activity.end(mutation, writtenBytes: 1)
    let report = writer.activity.takeReport(of: Self.file, sizeBytes: far)
    #expect(report == nil)
    #expect(writer.activity.stableEpoch(at: 0) == nil)
  }

  /// The rule on which everything rests: equal epochs, quiet before, mean that nothing touched the chunk in between.
  @Test(arguments: 0..<200 as Range<UInt64>) func equalEpochsMeanEqualBytes(seed: UInt64) throws {
    var random = SplitMix(seed: seed)
    var writer = Writer(sizeBytes: UInt64.random(in: 0...500, using: &random))
    var underWay: [ContentMutation] = []
    var reads: [(index: UInt64, epoch: UInt64)] = []
    for _ in 0..<300 {
      switch Int.random(in: 0..<6, using: &random) {
      case 0, 1:
        let start = UInt64.random(in: 0...900, using: &random)
        let extent: ContentExtent =
          Bool.random(using: &random) ? .bytes(start..<start + .random(in: 1...250, using: &random)) : .size(start)
        underWay.append(writer.begin(extent))
        // What was read of a chunk that is touched is not what it will be.
        for read in reads where extent.touches(read.index) {
          let now = writer.activity.stableEpoch(at: read.index * 100)
          #expect(now != read.epoch, "seed \(seed): chunk \(read.index) changes and looks the same")
        }
        reads.removeAll { extent.touches($0.index) }
      case 2, 3:
        guard !underWay.isEmpty else { continue }
        let mutation = underWay.remove(at: Int.random(in: 0..<underWay.count, using: &random))
        writer.activity.end(mutation, writtenBytes: Bool.random(using: &random) ? 250 : nil)
        #expect(!underWay.isEmpty || writer.activity.stableEpoch(at: 0) != nil || writer.epoch == 7)
      case 4: _ = writer.activity.takeReport(of: Self.file, sizeBytes: 0)
      default:
        let index = UInt64.random(in: 0..<12, using: &random)
        guard let epoch = writer.activity.stableEpoch(at: index * 100) else { continue }
        #expect(!underWay.contains { $0.extent.touches(index) }, "seed \(seed): chunk \(index) is being written")
        reads.append((index, epoch))
      }
    }
  }
}

extension ContentExtent {
  /// Of chunks of 100 bytes.
  fileprivate func touches(_ index: UInt64) -> Bool {
    switch self {
    case .size(let bytes): bytes < (index + 1) * 100
    case .bytes(let range), .blocks(let range): range.overlaps(index * 100..<(index + 1) * 100)
    }
  }
}
