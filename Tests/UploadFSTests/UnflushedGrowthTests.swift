import Testing

@testable import UploadFS

struct UnflushedGrowthTests {
  @Test func firstBytesAfterAFlush_areFlushedInTheirTurn() {
    var growth = UnflushedGrowth()
    #expect(growth.wrote(10) == .flush)
    #expect(growth.wrote(10) == .none, "the file waits already")
    growth.taken()
    #expect(growth.bytes == 0 && growth.wrote(1) == .flush)
  }

  @Test func manyBytes_areFlushedAtOnce() {
    var growth = UnflushedGrowth()
    #expect(growth.wrote(UnflushedGrowth.bytesMax - 1) == .flush)
    #expect(growth.wrote(1) == .flushAtOnce && growth.bytes == 0)
    #expect(growth.wrote(.max) == .flushAtOnce)
  }

  @Test func noBytes_areFlushedWhereNoneWait() {
    var growth = UnflushedGrowth()
    #expect(growth.wrote(0) == .flush)
    #expect(growth.wrote(1) == .flush && growth.wrote(0) == .none)
  }
}
