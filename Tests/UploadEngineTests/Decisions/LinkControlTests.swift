import Testing
import TransferModel

@testable import UploadEngine

/// One path to the destination by itself; what the schedule makes of it: RunsTests, SmallFilesTests and StragglerTests.
@Suite struct LinkControlTests {
  private static let bounds = LinkControl.Bounds(streamBytesLeast: 1000, flightBytesLeast: 1000)

  private static func at(_ milliseconds: Int64) -> MonotonicTime {
    MonotonicTime(nanoseconds: milliseconds * 1_000_000)
  }

  /// One request after the other, each of so many bytes and half a second; some of them could be saved.
  private static func link(carrying byteCount: Int, sent: Int, requests: Int64, isCarried: Bool = true) -> LinkControl {
    var link = LinkControl(bounds)
    // Two at a time: the line is never idle.
    link.began(byteCount, beside: .init(), at: at(0))
    for request in 1...requests {
      link.began(byteCount, beside: .init(), at: at(request * 500))
      let ended = LinkControl.Ended(byteCount: byteCount, sentBytes: sent, arrivedBytes: 0, isCarried: isCarried)
      link.ended(ended, beside: .init(), at: at(request * 500))
    }
    return link
  }

  @Test func ratesAreThoseOfTheFiles_andOfWhatTravelsInTheirPlace() throws {
    let link = Self.link(carrying: 4000, sent: 1000, requests: 10)
    let (now, files) = (Self.at(5000), try #require(link.bytesPerSecond))
    #expect(abs(files - 8000) < 100)
    #expect(abs(try #require(link.lineBytesPerSecond(at: now)) - 2000) < 50)
    #expect(try #require(link.expectedBytesPerSecond(at: now)) < 2100, "the next file may gain nothing")
    #expect(link.inFlight == 1 && link.carriedAt == now)
    #expect(link.measured?.sampleCount == 9)
  }

  /// What the server has copied, or refused, has not travelled.
  @Test func whatHasNotTravelled_saysNothing() {
    let link = Self.link(carrying: 4000, sent: 4000, requests: 10, isCarried: false)
    #expect(link.bytesPerSecond == nil && link.measured == nil && link.carriedAt == nil)
    #expect(link.shownBytesPerSecond(at: Self.at(5000)) == 0)
  }

  @Test func whatAnEarlierRunHasMeasured_counts() throws {
    var link = LinkControl(Self.bounds)
    #expect(link.tier == .unknown && link.twoSecondsBytes == nil)
    link.recall(.init(bytesPerSecond: 100_000, variance: 1, sampleCount: 5))
    link.adjust(at: Self.at(0))
    #expect(link.bytesPerSecond == 100_000 && link.tier == .slow && link.twoSecondsBytes == 200_000)
    #expect(link.streams == UploadConstants.slowTierChunks)
    #expect(link.lineBytesPerSecond(at: Self.at(0)) == nil, "it may have been another line")
  }

  /// On a line of which little is known two requests may go out, and as many more as it has shown to carry.
  @Test func roomFollowsWhatArrives() {
    var link = LinkControl(Self.bounds)
    for _ in 0..<StreamPlan.streamsMin {
      #expect(link.hasRoom(beside: 0, at: Self.at(0)))
      link.began(1000, beside: .init(), at: Self.at(0))
    }
    #expect(!link.hasRoom(beside: 0, at: Self.at(0)))
    #expect(link.hasRoom(beside: 1, at: Self.at(0)), "one of them waits for its answer")
    link.arrived(4000, at: Self.at(100))
    #expect(link.hasRoom(beside: 0, at: Self.at(100)))
    #expect(!link.hasRoom(beside: 0, at: Self.at(5000)), "that was long ago")
  }

  /// A long way to the server: others go out while answers are waited for.
  @Test func slowAnswers_leaveRoomForOtherRequests() {
    var link = LinkControl(Self.bounds)
    link.recall(.init(bytesPerSecond: 100_000, variance: 1, sampleCount: 5))
    #expect(link.requestsAwaited(at: Self.at(0)) == 0)
    link.answered(after: .seconds(3))
    link.answered(after: .seconds(2))
    link.answered(after: .seconds(9))
    #expect(link.requestsAwaited(at: Self.at(0)) > 0)
    let short = link.requestBytes(ofEachOf: 12, chunkBytes: 1000, at: Self.at(0))
    var near = LinkControl(Self.bounds)
    near.recall(.init(bytesPerSecond: 100_000, variance: 1, sampleCount: 5))
    #expect(short / near.requestBytes(ofEachOf: 12, chunkBytes: 1000, at: Self.at(0)) == 3)
  }

  /// As many bytes as arrive during an answer are those of more short files than long ones.
  @Test func ofShortFiles_moreWaitForTheirAnswers() {
    var awaited: [Int] = []
    for byteCount in [20_000, 5_000, 100] {
      var link = LinkControl(Self.bounds)
      link.recall(.init(bytesPerSecond: 100_000, variance: 1, sampleCount: 5))
      link.answered(after: .milliseconds(100))
      #expect(link.filesAwaited(at: Self.at(0)) == 0, "nothing is in flight")
      for _ in 0..<4 { link.began(byteCount, beside: .init(), at: Self.at(0)) }
      awaited.append(link.filesAwaited(at: Self.at(0)))
    }
    // 20,000 bytes in twice the time of an answer.
    #expect(awaited == [1, 4, 12])
    var near = LinkControl(Self.bounds)
    near.recall(.init(bytesPerSecond: 1e9, variance: 1, sampleCount: 5))
    near.answered(after: .milliseconds(4))
    near.began(100, beside: .init(), at: Self.at(0))
    #expect(near.filesAwaited(at: Self.at(0)) == 0)
  }

  /// Twelve that begin together do not wait for their answers together.
  @Test func onANewLine_eachRequestIsLongerThanTheOneBefore() {
    var link = LinkControl(Self.bounds)
    var lengths: [Int] = []
    for _ in 0..<4 {
      lengths.append(link.requestBytes(ofEachOf: 12, chunkBytes: 1000, at: Self.at(0)))
      link.began(1000, beside: .init(), at: Self.at(0))
    }
    #expect(lengths == [1000, 2000, 3000, 4000])
  }
}
