import SeededRandom
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct SpeedEstimateTests {
  private func time(_ seconds: Double) -> MonotonicTime { MonotonicTime(nanoseconds: Int64(seconds * 1e9)) }

  private func fed(_ speeds: [Double], from estimate: SpeedEstimate = SpeedEstimate(), at start: Double = 0)
    -> SpeedEstimate
  {
    var estimate = estimate
    for (index, speed) in speeds.enumerated() {
      estimate.add(bytes: UInt64(speed), over: .seconds(1), at: time(start + Double(index + 1)))
    }
    return estimate
  }

  @Test func fewerThanThreeSamples_areNotTrusted() {
    #expect(SpeedEstimate().bytesPerSecond == nil)
    #expect(fed([1e6, 1e6]).bytesPerSecond == nil)
    #expect(fed([1e6, 1e6, 1e6]).bytesPerSecond == 1e6)
  }

  @Test func noisyLink_isEstimatedNearItsMean() throws {
    var random = SplitMix(seed: 11)
    let speeds = (0..<200).map { _ in Double.random(in: 0.7e6...1.3e6, using: &random) }
    let speed = try #require(fed(speeds).bytesPerSecond)
    #expect(abs(speed - 1e6) < 0.1e6)
  }

  @Test func oneOutlier_hardlyMovesTheEstimate_andAnotherLinkIsBelievedAfterThree() throws {
    let steady = fed(Array(repeating: 1e6, count: 20))
    let outlier = try #require(fed([100e6], from: steady, at: 20).bytesPerSecond)
    #expect(outlier < 3e6, "\(outlier)")
    let faster = try #require(fed([100e6, 100e6, 100e6, 100e6], from: steady, at: 20).bytesPerSecond)
    #expect(faster > 80e6, "\(faster)")
    let slower = try #require(fed(Array(repeating: 1e4, count: 15), from: steady, at: 20).bytesPerSecond)
    #expect(slower < 1e5, "\(slower)")
  }

  @Test func idleHour_changesTheCertainty_andNotTheSpeed() throws {
    let steady = fed(Array(repeating: 1e6, count: 20))
    let after = fed([1e6], from: steady, at: 3600)
    #expect(after.bytesPerSecond == 1e6)
    // What comes after it counts for more than it would have at once.
    let atOnce = try #require(fed([1.5e6], from: steady, at: 20).bytesPerSecond)
    let later = try #require(fed([1.5e6], from: steady, at: 3600).bytesPerSecond)
    #expect(later > atOnce)
  }

  @Test func nonsense_isNotMeasured() {
    var estimate = SpeedEstimate()
    estimate.add(bytes: 0, over: .seconds(1), at: time(1))
    estimate.add(bytes: 10, over: .zero, at: time(1))
    estimate.add(bytes: .max, over: .nanoseconds(1), at: time(1))
    estimate.add(bytes: 10, over: .seconds(-1), at: time(1))
    #expect(estimate.state.sampleCount == 0)
    for state in [
      SpeedEstimate.State(bytesPerSecond: .nan, variance: 1, sampleCount: 9),
      SpeedEstimate.State(bytesPerSecond: .infinity, variance: 1, sampleCount: 9),
      SpeedEstimate.State(bytesPerSecond: -1, variance: 1, sampleCount: 9),
      SpeedEstimate.State(bytesPerSecond: 1, variance: .nan, sampleCount: 9),
      SpeedEstimate.State(bytesPerSecond: 1, variance: 1, sampleCount: -9),
    ] {
      #expect(SpeedEstimate(state).state.sampleCount == 0, "\(state)")
    }
  }

  @Test func earlierRun_isRemembered_andGivesWayQuickly() throws {
    let remembered = SpeedEstimate(fed(Array(repeating: 1e6, count: 20)).state)
    #expect(remembered.bytesPerSecond == 1e6)
    let corrected = try #require(fed([2e6, 2e6], from: remembered).bytesPerSecond)
    #expect(corrected > 1.6e6, "\(corrected)")
  }

  // MARK: - Samples

  @Test func samples_countTheTimeInWhichTheLinkWasBusy_overAllStreams() throws {
    var sampler = SpeedSampler()
    let chunk = 1 << 20
    for _ in 0..<4 { sampler.sent(chunk, at: time(0.9)) }
    #expect(sampler.ended(chunk, isAcknowledged: true, at: time(1)) == nil, "the pipe was being filled")
    #expect(sampler.ended(chunk, isAcknowledged: true, at: time(1.1)) == nil, "too short")
    let first = sampler.ended(chunk, isAcknowledged: true, at: time(1.5))
    let sample = try #require(first)
    #expect(sample.0 == UInt64(2 * chunk) && sample.1 == .milliseconds(500))
    #expect(sampler.ended(chunk, isAcknowledged: false, at: time(2)) == nil)
    // Idle: the next interval starts anew.
    sampler.sent(chunk, at: time(99))
    sampler.sent(chunk, at: time(99))
    #expect(sampler.ended(chunk, isAcknowledged: true, at: time(100)) == nil)
    let second = sampler.ended(chunk, isAcknowledged: true, at: time(101))
    #expect(second?.1 == .seconds(1))
  }

  /// Regression: on a slow line requests are answered in bunches, and it was taken for a third of itself, or for eight times as much.
  @Test func requestsThatEndInBunches_areMeasuredByWhatHasArrived() {
    var sampler = SpeedSampler()
    let (rate, chunk) = (625_000.0, 256 << 10)
    var sent = [0.0, 0.1, 0.15, 0.2].map { $0 * Double(chunk) }
    for _ in sent { sampler.sent(chunk, at: time(0)) }
    var samples: [Double] = []
    for tick in 1...3000 {
      for stream in sent.indices {
        sent[stream] += rate / 100 / Double(sent.count)
        guard sent[stream] >= Double(chunk) else { continue }
        sent[stream] -= Double(chunk)
        let underWay = UInt64(sent.reduce(0, +))
        let sample = sampler.ended(chunk, isAcknowledged: true, underWay: underWay, at: time(Double(tick) / 100))
        sampler.sent(chunk, underWay: underWay, at: time(Double(tick) / 100))
        if let (bytes, interval) = sample { samples.append(Double(bytes) / interval.seconds) }
      }
    }
    #expect(samples.count > 10 && samples.allSatisfy { abs($0 / rate - 1) < 0.2 }, "\(samples)")
  }

  @Test func aRequestThatFails_takesWhatHadArrivedOfItAlong() {
    var sampler = SpeedSampler()
    let chunk = 1 << 20
    for _ in 0..<4 { sampler.sent(chunk, at: time(0.9)) }
    #expect(sampler.ended(chunk, isAcknowledged: true, underWay: 2_000_000, at: time(1)) == nil)
    #expect(sampler.ended(chunk, isAcknowledged: false, underWay: 1_000_000, at: time(2)) == nil)
    let sample = sampler.ended(chunk, isAcknowledged: true, underWay: 500_000, at: time(3))
    #expect(sample?.0 == UInt64(chunk) - 500_000 && sample?.1 == .seconds(1))
  }

  @Test(
    "Regression, found by the simulation (hangs, seed 43000101947): the time in which one request hung counted as what the line took for the next one, which was then waited for longer, and so on"
  )
  func timeInWhichARequestHangs_isNoMeasureOfTheLine() throws {
    var sampler = SpeedSampler()
    let chunk = 1 << 20
    // One of them is never answered.
    for _ in 0..<3 { sampler.sent(chunk, at: time(0)) }
    #expect(sampler.ended(chunk, isAcknowledged: true, at: time(0.5)) == nil)
    let first = sampler.ended(chunk, isAcknowledged: true, at: time(1))
    #expect(first?.1 == .milliseconds(500))
    for _ in 0..<2 { sampler.sent(chunk, underWay: 0, at: time(30)) }
    let next = sampler.ended(chunk, isAcknowledged: true, at: time(30.5))
    let sample = try #require(next)
    #expect(sample.0 == UInt64(chunk) && sample.1 == .milliseconds(500))
  }

  @Test func tinyFiles_sayNothingAboutTheLink() {
    var sampler = SpeedSampler()
    for second in 0..<100 {
      sampler.sent(1000, at: time(Double(second)))
      sampler.sent(1000, at: time(Double(second)))
      #expect(sampler.ended(1000, isAcknowledged: true, at: time(Double(second))) == nil)
    }
  }
}
