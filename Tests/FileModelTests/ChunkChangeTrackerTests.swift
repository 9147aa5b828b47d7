import Testing

@testable import FileModel

@Suite struct ChunkChangeTrackerTests {
  private let file = FileID(high: 1, low: 2)
  private let first = SubscriberID(number: 0)
  private let second = SubscriberID(number: 1)
  private var chunks = ChunkChangeTracker()

  private mutating func report(for subscriber: SubscriberID, chunkBytes: Int, anew: Bool = false) throws
    -> GrowthReport
  {
    let report = chunks.takeReport(
      for: subscriber, of: file, chunkBytes: chunkBytes, anew: anew, sizeBytes: 0
    ) { ChunkActivity(chunkBytes: chunkBytes, written: [], epoch: 0, mutationsInFlight: 0) }
    return try #require(report)
  }

  private mutating func write(_ range: Range<UInt64>, epoch: UInt64) {
    let mutation = ContentMutation(.bytes(range), epoch: epoch)
    chunks.begin(mutation)
    chunks.end(mutation, writtenBytes: UInt64(range.count))
  }

  @Test mutating func eachFollower_hearsOfEveryChange_inChunksOfItsOwn() throws {
    _ = try report(for: first, chunkBytes: 100)
    _ = try report(for: second, chunkBytes: 250)
    write(100..<300, epoch: 1)
    let mine = try report(for: first, chunkBytes: 100)
    #expect(mine.changes.map(\.index).sorted() == [1, 2] && mine.subscriber == first)
    #expect(try report(for: first, chunkBytes: 100).changes.isEmpty, "it has heard of that")
    let theirs = try report(for: second, chunkBytes: 250)
    #expect(theirs.changes.map(\.index).sorted() == [0, 1] && theirs.subscriber == second)
    #expect(chunks.stableEpoch(for: first, at: 200) == 1)
    #expect(chunks.stableEpoch(for: SubscriberID(number: 2), at: 200) == nil)
  }

  @Test mutating func followersWithChunksOfTheSameLength_doNotTakeEachOthersNews() throws {
    _ = try report(for: first, chunkBytes: 100)
    _ = try report(for: second, chunkBytes: 100)
    write(0..<100, epoch: 1)
    #expect(try report(for: first, chunkBytes: 100).changes.count == 1)
    #expect(try report(for: second, chunkBytes: 100).changes.count == 1)
  }

  @Test mutating func theEnd_isReportedToEachFollower() throws {
    _ = try report(for: first, chunkBytes: 100)
    _ = try report(for: second, chunkBytes: 250)
    write(0..<100, epoch: 4)
    let reports = chunks.takeReports(of: file, sizeBytes: 100)
    #expect(reports.map(\.subscriber) == [first, second])
    #expect(reports.allSatisfy { $0.epoch == 4 && $0.changes.count == 1 })
  }

  @Test mutating func whoeverBeginsAnew_hearsThatItIsTheFirstReport() throws {
    #expect(try report(for: first, chunkBytes: 100).isFirst)
    #expect(try !report(for: first, chunkBytes: 100).isFirst)
    #expect(try report(for: first, chunkBytes: 100, anew: true).isFirst)
    #expect(try report(for: first, chunkBytes: 200).isFirst, "chunks of another length are other chunks")
  }

  @Test mutating func aChunkIsStill_forEachSubscriberOfItsLength() throws {
    _ = try report(for: first, chunkBytes: 100)
    write(0..<100, epoch: 4)
    #expect(chunks.isQuiet(at: 0, chunkBytes: 100, since: 4))
    #expect(!chunks.isQuiet(at: 0, chunkBytes: 100, since: 3))
    #expect(!chunks.isQuiet(at: 0, chunkBytes: 200, since: 4))
  }
}
