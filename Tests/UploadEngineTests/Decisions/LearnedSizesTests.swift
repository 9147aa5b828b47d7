import Testing
import TransferModel

@testable import UploadEngine

@Suite struct LearnedSizesTests {
  /// Each refusal halves what is sent, once for requests that were refused together, down to what is of use.
  @Test func refusedRequests_shortenTheNextOnes() {
    var sizes = LearnedSizes()
    #expect(sizes.refuseRequest(of: 4 << 20, least: 100_000) == .to(bytes: 2 << 20))
    #expect(sizes.refuseRequest(of: 4 << 20, least: 100_000) == .known)
    #expect(sizes.refuseRequest(of: 300_000, least: 100_000) == .to(bytes: 131_072))
    #expect(sizes.refuseRequest(of: 131_072, least: 100_000) == .to(bytes: 100_000))
    #expect(sizes.refuseRequest(of: 100_000, least: 100_000) == .useless)
    #expect(sizes.requestBytesMax == 100_000)
    sizes.forgetRequestBytesMax()
    #expect(sizes.requestBytesMax == .max)
  }

  /// What one request takes of a file only shrinks; of the largest file the latest answer counts.
  @Test func ofStatedLimits_theLatestCounts() {
    var sizes = LearnedSizes()
    sizes.learn(DestinationLimits(fileBytesMax: 100, wholeFileBytesMax: 50))
    sizes.learn(DestinationLimits(fileBytesMax: 200, wholeFileBytesMax: 80))
    #expect(sizes.fileBytesMax == 200 && sizes.wholeFileBytesMax == 50)
    sizes.learn(DestinationLimits())
    #expect(sizes.fileBytesMax == nil && sizes.wholeFileBytesMax == 50)
  }

  @Test func aBurstOfFiles_asksOnce() {
    var sizes = LearnedSizes()
    let start = MonotonicTime(nanoseconds: 0)
    #expect(sizes.ask(after: .seconds(10), at: start) == true)
    #expect(sizes.ask(after: .seconds(10), at: start + .seconds(9)) == false)
    #expect(sizes.ask(after: .seconds(10), at: start + .seconds(10)) == true)
    sizes.forgetFileBytesMax()
    #expect(sizes.ask(after: .seconds(10), at: start + .seconds(11)) == true)
  }
}
