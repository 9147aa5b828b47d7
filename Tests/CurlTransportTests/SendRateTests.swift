import Testing
import TransferModel

@testable import CurlTransport

@Suite struct SendRateTests {
  private let start = ContinuousClock.now

  /// What goes out in so many seconds when transfers take all that they are given, as often as they may.
  private func sent(_ bucket: inout RateBucket, seconds: Double, from start: ContinuousClock.Instant) -> Double {
    var now = start
    var bytes = 0
    while now < start + .seconds(seconds) {
      while case let taken = bucket.take(upTo: 128 << 10, at: now), taken > 0 { bytes += taken }
      now += max(.microseconds(100), bucket.pause(at: now))
    }
    return Double(bytes) * RateBucket.wireShare
  }

  @Test(arguments: [4_000, 125_000, 2_500_000, 125_000_000] as [UInt64])
  func tenSecondsCarryWhatTheBoundSays(bytesPerSecond: UInt64) {
    var bucket = RateBucket(at: start)
    bucket.change(to: bytesPerSecond, at: start)
    let expected = Double(bytesPerSecond) * 10
    #expect(abs(sent(&bucket, seconds: 10, from: start) / expected - 1) < 0.05)
  }

  /// Otherwise a line that was idle for an hour would get an hour's bytes at once.
  @Test func aPause_leavesATenthOfASecond() {
    var bucket = RateBucket(at: start)
    bucket.change(to: 1_000_000, at: start)
    let later = start + .seconds(3600)
    #expect(abs(sent(&bucket, seconds: 1, from: later) / 1_000_000 - 1) < 0.15)
  }

  @Test func aBoundThatChanges_holdsFromThenOn() {
    var bucket = RateBucket(at: start)
    bucket.change(to: 1_000_000, at: start)
    _ = sent(&bucket, seconds: 5, from: start)
    bucket.change(to: 100_000, at: start + .seconds(5))
    #expect(abs(sent(&bucket, seconds: 10, from: start + .seconds(5)) / 1_000_000 - 1) < 0.07)
    bucket.change(to: nil, at: start + .seconds(15))
    #expect(bucket.take(upTo: 1 << 30, at: start + .seconds(15)) == 1 << 30 && bucket.pause(at: start) == .zero)
  }

  /// What libcurl was given and did not read goes to the next one; what goes around a body counts.
  @Test func whatIsGivenBackOrSpentBeside_counts() {
    var bucket = RateBucket(at: start)
    bucket.change(to: 1_000_000, at: start)
    let taken = bucket.take(upTo: 1 << 20, at: start)
    #expect(taken == 20_000 && bucket.pause(at: start) > .milliseconds(20))
    bucket.spend(-taken)
    #expect(bucket.pause(at: start) == .zero)
    bucket.spend(1_000_000)
    #expect(bucket.pause(at: start) == .seconds(1))
  }

  /// libcurl asks those that may go on in an order of its own: the first of them had everything.
  @Test func transfersTakeTurns() {
    let turns = SendTurns(SendRate(RateTimetable(bytesPerSecond: 500_000)))
    let ids = (1...3).map { HTTPRequestID(UInt64($0)) }
    var taken: [HTTPRequestID: Int] = [:]
    // What went out before leaves nothing for a while.
    turns.spend(150_000)
    for id in ids { taken[id, default: 0] += turns.take(upTo: 128 << 10, for: id) }
    var order: [HTTPRequestID] = []
    while order.count < 9 {
      guard let next = turns.next() else { continue }
      order.append(next)
      // It asks until it gets nothing; the others are asked as well.
      for id in [next, next] + ids { taken[id, default: 0] += turns.take(upTo: 128 << 10, for: id) }
    }
    #expect(order == ids + ids + ids)
    #expect(taken.values.allSatisfy { $0 == 30_000 })
    for id in ids { turns.leave(id) }
    #expect(turns.next() == nil && turns.pause == nil)
  }

  @Test func theTimeOfDayDecides() {
    let table = RateTimetable(
      bytesPerSecond: 5,
      windows: [
        .init(startMinute: 480, endMinute: 1080, bytesPerSecond: 1),
        .init(startMinute: 1320, endMinute: 360, bytesPerSecond: nil),
        .init(startMinute: 0, endMinute: 1440, bytesPerSecond: 2),
      ])
    let minutes = [0, 359, 360, 479, 480, 1079, 1080, 1319, 1320, 1439]
    #expect(minutes.map { table.bytesPerSecond(atMinute: $0) } == [nil, nil, 2, 2, 1, 1, 2, 2, nil, nil])
    #expect(RateTimetable(bytesPerSecond: 5).bytesPerSecond(atMinute: 3) == 5)
    #expect(!RateTimetable(windows: [.init(startMinute: 1, endMinute: 2, bytesPerSecond: nil)]).isBound)
  }

  /// Regression: a request ended by its time limit, which was set for what the line carries, while it waited for its turns.
  @Test func aBodyHasTheTimeThatTheLowestBoundGivesIt() {
    let rate = SendRate(
      RateTimetable(
        bytesPerSecond: 1_000_000, windows: [.init(startMinute: 0, endMinute: 1, bytesPerSecond: 4_000)]))
    #expect(rate.longestTime(ofBody: 256 << 10, among: 12) > .seconds(786))
    #expect(SendRate(RateTimetable()).longestTime(ofBody: 256 << 10, among: 12) == .zero)
  }
}
