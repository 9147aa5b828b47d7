import FileModel
import Lookup
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct StreamPlanTests {
  private func time(_ milliseconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: milliseconds * 1_000_000) }

  @Test func tiers_areThoseOfTheTable() {
    let table: [(Double?, SpeedTier, Int, Int)] = [
      (nil, .unknown, 12, 4 << 20), (2.9, .slow, 4, 1 << 20), (3, .normal, 8, 4 << 20), (29, .normal, 8, 4 << 20),
      (30, .fast, 12, 16 << 20), (200, .fast, 12, 16 << 20), (201, .ultrafast, 12, 32 << 20),
    ]
    for (megabits, tier, streams, chunkBytes) in table {
      let found = SpeedTier(bytesPerSecond: megabits.map { $0 * 1_000_000 / 8 })
      #expect(found == tier && found.parallelChunks == streams && found.chunkBytes == chunkBytes, "\(tier)")
    }
  }

  @Test func chunkSize_isBoundByBuffers_andGivesEveryStreamAChunk() {
    let mebibyte = 1 << 20
    func size(_ tier: SpeedTier, _ file: Int?, _ buffer: Int) -> Int {
      tier.chunkBytes(
        forFileOf: file.map { UInt64($0 * mebibyte) }, streams: tier.parallelChunks, bufferBytes: buffer * mebibyte)
    }
    #expect(size(.ultrafast, 10_000, 4) == 4 * mebibyte)
    #expect(size(.ultrafast, 10_000, 32) == 32 * mebibyte)
    #expect(size(.fast, nil, 16) == 16 * mebibyte)
    #expect(size(.unknown, 24, 4) == 2 * mebibyte)
    #expect(size(.unknown, 6, 4) == mebibyte, "not shorter than a slow link's")
    #expect(size(.slow, 10_000, 4) == mebibyte)
    #expect(SpeedTier.unknown.chunkBytes(forFileOf: .max, streams: 0, bufferBytes: 0) == 1)
  }

  @Test func streams_startTenMillisecondsApart_theFirstAtOnce_twelveWithin120() throws {
    var plan = StreamPlan()
    var now = time(1000)
    for stream in 0..<12 {
      let next = plan.nextStart(inFlight: stream, limit: 12, at: now)
      let start = try #require(next)
      #expect(start - now == (stream == 0 ? .zero : .milliseconds(10)))
      now = start
      plan.started(inFlight: stream + 1, at: now)
    }
    #expect(now - time(1000) <= .milliseconds(120))
    #expect(plan.nextStart(inFlight: 12, limit: 12, at: now) == nil)
    plan.ended(inFlight: 11, at: now)
    #expect(plan.nextStart(inFlight: 11, limit: 12, at: now) == now, "a stream that is open goes on at once")
  }

  @Test func warmStreams_startAtOnce_coldOnesAfterALongPauseDoNot() {
    var plan = StreamPlan()
    plan.warmed(3, at: time(0))
    for stream in 0..<3 {
      #expect(plan.nextStart(inFlight: stream, limit: 12, at: time(100)) == time(100))
      plan.started(inFlight: stream + 1, at: time(100))
    }
    plan.started(inFlight: 4, at: time(110))
    #expect(plan.nextStart(inFlight: 4, limit: 12, at: time(111)) == time(120))
    plan.ended(inFlight: 0, at: time(200))
    #expect(plan.nextStart(inFlight: 1, limit: 12, at: time(10_000)) == time(10_000))
    _ = plan.nextStart(inFlight: 0, limit: 12, at: time(20_000))
    plan.started(inFlight: 1, at: time(20_000))
    #expect(plan.nextStart(inFlight: 1, limit: 12, at: time(20_001)) == time(20_010))
  }

  @Test func streams_followTheTier_neverBelowTwo_andStallsHalveThem() {
    var plan = StreamPlan()
    plan.adjust(to: 100_000, at: time(0))
    #expect(plan.streams == 4)
    plan.adjust(to: 50_000_000, at: time(1500))
    #expect(plan.streams == 12)
    for stall in 0..<20 { plan.stalled(at: time(2000 + Int64(stall) * 2000)) }
    #expect(plan.streams == StreamPlan.streamsMin)
    plan.adjust(to: 50_000_000, at: time(50_000))
    #expect(plan.streams == 2)
    for minute in 1..<6 { plan.adjust(to: 50_000_000, at: time(50_000 + Int64(minute) * 60_000)) }
    #expect(plan.streams == 12, "a stall is not remembered for ever")
  }

  /// Regression: the bound rose once at the first look after a rest, so that a file which came a minute later began with two streams.
  @Test func aStall_isForgottenInTimeAndNotInLooks() {
    var plan = StreamPlan()
    plan.adjust(to: 50_000_000, at: time(0))
    for stall in 0..<20 { plan.stalled(at: time(2000 + Int64(stall) * 2000)) }
    #expect(plan.streams == StreamPlan.streamsMin)
    _ = plan.nextStart(inFlight: 0, limit: 12, at: time(69_999))
    #expect(plan.streams == 2)
    _ = plan.nextStart(inFlight: 0, limit: 12, at: time(100_000))
    #expect(plan.streams == 8, "before the first request goes out")
    _ = plan.nextStart(inFlight: 0, limit: 12, at: time(130_000))
    #expect(plan.streams == 12)
  }

  /// A server that throttles each connection looks like a slow link; fewer connections would make it slower still.
  @Test func linkThatIsBoundByItsConnections_getsItsStreamsBack() {
    var plan = StreamPlan()
    plan.adjust(to: 2_000_000, at: time(0))
    #expect(plan.streams == 8)
    plan.adjust(to: 1_300_000, at: time(1500))
    #expect(plan.streams == 12)
    plan.adjust(to: 300_000, at: time(3000))
    #expect(plan.streams == 12)
  }

  // MARK: - In the schedule

  @Test func schedule_rampsUp_andFollowsTheTier() {
    var limits = ScheduleHarness.standardLimits
    limits.chunkBytes = 1 << 20
    limits.bufferBytes = 1 << 20
    limits.rampDelay = .milliseconds(10)
    var harness = ScheduleHarness(limits: limits, wholeFileBytesMax: 1000)
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: 200 << 20)
    harness.write(file)
    harness.answer(.warmed) { $0.isPrewarm }
    harness.answer(.sessionOpened(id: "s", chunkBytes: 1 << 20, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    let start = harness.now.monotonic
    #expect(harness.chunkRequests.count == 1)
    for stream in 2...12 {
      harness.advance(by: .milliseconds(10))
      #expect(harness.chunkRequests.count == stream)
    }
    #expect(harness.now.monotonic - start <= .milliseconds(120))
    // 1 MiB each four seconds: a slow link.
    for _ in 0..<20 {
      for _ in 0..<4 { harness.advance(by: .seconds(1)) }
      for request in harness.sent where request.order.isChunk {
        harness.apply { $0.progressed([request.id: UInt64(truncatingIfNeeded: $1.monotonic.nanoseconds)], at: $1) }
      }
      harness.answer(.chunkStored) { $0.isChunk }
      harness.answerReads()
    }
    #expect(harness.status(file.id)?.tier == "slow")
    #expect(harness.chunkRequests.count == 4)
    #expect(harness.cancelled.isEmpty, "what is slow and moves is left alone")
    #expect(harness.status(file.id)?.chunks.retried == 0)
    #expect(harness.schedule.resumeSnapshot(of: file.id, since: nil)?.record.estimator?.sampleCount ?? 0 >= 3)
  }
}
