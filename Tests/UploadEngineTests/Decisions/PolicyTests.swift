import FileModel
import Promises
import SeededRandom
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct RetryPolicyTests {
  @Test func delays_areDecorrelatedJitter_betweenBaseAndThreeTimesThePrevious() {
    let policy = RetryPolicy()
    var random: any RandomNumberGenerator & Sendable = SplitMix(seed: 1)
    #expect(policy.delay(after: nil, retryAfter: nil, using: &random) == .milliseconds(500))
    var previous: Duration?
    for _ in 0..<1000 {
      let delay = policy.delay(after: previous, retryAfter: nil, using: &random)
      #expect(delay >= .milliseconds(500))
      #expect(delay <= .seconds(15))
      if let previous { #expect(delay <= max(.milliseconds(500), previous * 3)) }
      previous = delay
    }
  }

  /// Regression (seed 8500026319): pauses are drawn from a range that grows, and stayed short twenty times by chance.
  @Test func whereEachTryCostsBytes_pausesGrow_whateverIsDrawn() {
    let policy = RetryPolicy()
    var lowest: any RandomNumberGenerator & Sendable = LowestDraws()
    var previous: Duration?
    var pauses: [Duration] = []
    for _ in 0..<10 {
      let pause = policy.delay(after: previous, retryAfter: nil, grows: true, using: &lowest)
      pauses.append(pause)
      previous = pause
    }
    #expect(zip(pauses, pauses.dropFirst()).allSatisfy { $1 >= min($0 / 2 * 3, .milliseconds(7500)) }, "\(pauses)")
    #expect(pauses[0] == .milliseconds(500) && pauses[9] >= .milliseconds(7500) && pauses[9] < .milliseconds(7600))
    #expect(policy.delay(after: .seconds(3), retryAfter: nil, using: &lowest) < .milliseconds(501))
  }

  @Test(.promises("P94")) func retryAfter_isNeverUndercut_norBelievedWithoutBound() {
    let policy = RetryPolicy()
    var random: any RandomNumberGenerator & Sendable = SplitMix(seed: 1)
    #expect(policy.delay(after: nil, retryAfter: .seconds(40), using: &random) == .seconds(40))
    #expect(policy.delay(after: nil, retryAfter: .seconds(1 << 40), using: &random) == .seconds(3600))
  }

  @Test("Regression: pauses, tries and watchdogs could not be set")
  func whatAnExpertSets_holds() {
    var limits = ScheduleHarness.standardLimits
    limits.timing.retryDelay = .seconds(2)
    limits.timing.retryDelayMax = .seconds(3)
    limits.timing.filePauseMax = .seconds(40)
    limits.timing.chunkTries = 2
    limits.timing.fileWatchdog = .seconds(15)
    limits.timing.globalWatchdog = .seconds(100)
    limits.timing.prefetch = 1
    limits.buffers = 20
    var random: any RandomNumberGenerator & Sendable = SplitMix(seed: 1)
    let policy = RetryPolicy(limits.timing)
    for _ in 0..<100 {
      #expect(
        (Duration.seconds(2)...(.seconds(3))).contains(
          policy.delay(after: .seconds(60), retryAfter: nil, using: &random)))
    }
    #expect(policy.verdict(on: .digestMismatch, attempts: 2) == .fail && policy.fileDelayMax == .seconds(40))
    #expect(
      PrefetchPipeline(limits: limits, destinationParallelism: 12, memory: .full).bufferBytes == 13 * limits.bufferBytes
    )
    var watchdog = TripleWatchdog(limits.timing)
    let file = FileID(high: 0, low: 1)
    watchdog.started(HTTPRequestID(1), of: file, patience: .seconds(10), at: MonotonicTime(nanoseconds: 0))
    #expect(watchdog.alarms(at: MonotonicTime(nanoseconds: 14_000_000_000)) == [.chunk(HTTPRequestID(1))])
    #expect(watchdog.alarms(at: MonotonicTime(nanoseconds: 15_000_000_000)) == [.session(file)])
    #expect(watchdog.patience(bytes: 1, bytesPerSecond: 1e6, streams: 1, attempts: 9) == .seconds(15))
  }

  @Test func verdicts() {
    let policy = RetryPolicy()
    for kind: StepFailure.Kind in [
      .unauthorized, .forbidden, .tooLarge(limitBytes: 1), .tagMismatch, .nameRefused, .badRequest,
    ] {
      #expect(policy.verdict(on: kind, attempts: 1) == .fail)
    }
    #expect([1, 2, 3].map { policy.verdict(on: .addressRefused, attempts: $0) } == [.retryStep, .retryStep, .fail])
    var proven = policy
    proven.addressIsProven = true
    #expect(proven.verdict(on: .addressRefused, attempts: 1000) == .waitOut)
    #expect(policy.verdict(on: .digestMismatch, attempts: 6) == .retryStep)
    #expect(policy.verdict(on: .digestMismatch, attempts: 7) == .fail)
    #expect(policy.verdict(on: .insufficientStorage, attempts: 100) == .waitForRoom)
    #expect(policy.verdict(on: .transport(.connectFailed), attempts: 100) == .pauseDestination)
    #expect(policy.verdict(on: .transport(.cancelled), attempts: 1) == .ignore)
    #expect(policy.verdict(on: .sessionGone, attempts: 1) == .startNewSession)
    #expect(policy.verdict(on: .sessionDamaged, attempts: 1) == .startNewSession)
    #expect(policy.verdict(on: .notReplaceable, attempts: 1) == .startNewSession)
    var page = TransportError(.answeredEarly, "")
    #expect(StepFailure(page).kind.canEndFile)
    page.answerIsHTML = true
    #expect(!StepFailure(page).kind.canEndFile, "DE103")
    #expect(policy.verdict(on: .nameTaken, attempts: 1) == .startNewSession && StepFailure.Kind.nameTaken.canEndFile)
  }
}

@Suite struct ChunkPlanTests {
  @Test func chunks_coverTheFileExactly() {
    for size: UInt64 in [0, 1, 999, 1000, 1001, 123_456] {
      let plan = ChunkPlan(sizeBytes: size, chunkBytes: 1000)
      var covered: UInt64 = 0
      for index in 0..<plan.count {
        #expect(plan.offset(of: index) == covered)
        #expect(plan.byteCount(of: index) > 0)
        covered += UInt64(plan.byteCount(of: index))
      }
      #expect(covered == size)
      #expect(plan.byteCount(of: plan.count) == 0)
      #expect(plan.byteCount(of: -1) == 0)
    }
  }
}

@Suite struct TemporaryNameRuleTests {
  @Test(arguments: [
    "a.part", "a.mov.crdownload", "x.tmp", "X.TMP", "notes.txt~", ".scan.mov.Ab3dEf", ".notes.swp", ".notes.swpx",
    ".a.b.c.x1y2z3", "a.c.oAb3dE9", "a.o9zZ9z9", "film.mkv.aria2", "film.aria2__temp", "film.mkv.lftp-pget-status",
    "table.duckdb.wal", "ziAb3dEf",
    "XXq9Zr1a", "stPk3mno", "settings.json.A1B2C3", "notes.7XK2PQ",
    // Regression: what tools of photographs, music and measurements write for a moment was published, and stayed.
    "IMG_0001.JPG_exiftool_tmp", "song.flac.metadata_edit", "power.rrdk3Zf9Q", "tmpfileAb3dEf", "tmp_obj_7nQ2xZ",
    "tmp_pack_x1Y2z3", "tmp_idx_x1Y2z3",
  ])
  func recognised(_ name: String) { #expect(TemporaryNameRule.standard.matches(Array(name.utf8))) }

  @Test(arguments: [
    "a.mov", ".hidden", ".bashrc.backup", ".x.config", "part", ".part", "~", "a.parts", ".scan.mov.Ab3dE", ".Ab3dEf",
    "", "a.object1", "a.oldFile", "a.oTwenty", "a.o123456", "x.iPhone7", ".oAb3dE9", "a.oAb3dE9f",
    "zipper01", "stations", "st000001", "XX000001", "ziAb3dEf.mov", "zi", "roll.TAKE01", "roll.IMG001", "log.202401",
    "a.BACKUP", "Cargo.lock", "film.a1b2c3", "_exiftool_tmp", "power.rrd", "power.rrdBackup", "power.rrd202401",
    "power.rrdk3Zf9Q1", ".rrdk3Zf9Q", "tmpfile", "tmpfile000001", "tmpfileAb3dEf.jpg", "tmp_object_list",
    "tmp_obj_readme", "IMG_0001.t",
  ])
  func final(_ name: String) { #expect(!TemporaryNameRule.standard.matches(Array(name.utf8))) }

  @Test(
    arguments: [
      ("a.part", "a"), (".scan.mov.Ab3dEf", "scan.mov"), ("a.c.oAb3dE9", "a.c"), ("a.mov", nil),
      ("settings.json.A1B2C3", "settings.json"), ("film.mkv.aria2", "film.mkv"), ("ziAb3dEf", nil),
      ("a.jpg_exiftool_tmp", "a.jpg"), ("a.flac.metadata_edit", "a.flac"), ("power.rrdk3Zf9Q", "power.rrd"),
      ("tmpfileAb3dEf", nil), ("tmp_obj_7nQ2xZ", nil),
    ] as [(String, String?)])
  func finalName(_ name: String, _ final: String?) {
    let found = TemporaryNameRule.standard.finalName(of: Array(name.utf8))
    #expect(found.map { String(decoding: $0, as: UTF8.self) } == final)
  }

  /// Regression: what programs write for a moment was published.
  @Test(.promises("S62b"), arguments: ["work/.git/index.lock", "a.git/refs/heads/main.lock"])
  func locksOfGit_areTemporary_whereRepositoriesAre(path: String) {
    #expect(TemporaryNameRule.standard.matches(RelativePath(path)))
    #expect(!TemporaryNameRule.standard.matches(RelativePath("work/Cargo.lock")))
    #expect(!TemporaryNameRule.standard.matches(RelativePath("work/.git/.lock")))
  }

  @Test(.promises("S62b")) func patternsOfTheUser_areTemporaryByPathAndName() throws {
    var rule = TemporaryNameRule.standard
    rule.patterns = [try Glob("*.writing"), try Glob("incoming/**")]
    #expect(rule.matches(RelativePath("day/a.writing")) && rule.matches(RelativePath("incoming/a/b.mov")))
    #expect(rule.matches(RelativePath("day/a.part")))
    #expect(!rule.matches(RelativePath("day/b.mov")) && rule.finalName(of: Array("a.writing".utf8)) == nil)
  }
}

@Suite struct TimersTests {
  private static func at(_ nanoseconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: nanoseconds) }

  @Test func deadlines_comeInOrder_andNotBeforeTheirTime() {
    var timers = Timers<Never, Int>()
    var random = SplitMix(seed: 3)
    let times = (0..<200).map { _ in Int64(random.next() % 1000) }
    for (index, time) in times.enumerated() { timers.insert(index, at: Self.at(time)) }
    var popped: [Int64] = []
    for now in Int64(0)..<1000 {
      while case .deadline(let index) = timers.popDue(at: Self.at(now)) {
        #expect(times[index] <= now)
        popped.append(times[index])
      }
    }
    #expect(popped == times.sorted())
  }

  @Test func timer_runsOnceAtATime_andAgainOnceItHasFired() {
    var timers = Timers<Int, Never>()
    var fired: [Int] = []
    func fire(_ now: Int64) {
      while case .timer(let timer) = timers.popDue(at: Self.at(now)) { fired.append(timer) }
    }
    timers.start(1, at: Self.at(10))
    timers.start(1, at: Self.at(5))
    timers.start(2, at: Self.at(20))
    #expect(timers.first == Self.at(10) && timers.isRunning(1))
    fire(9)
    #expect(fired == [])
    fire(10)
    #expect(fired == [1] && !timers.isRunning(1) && timers.isRunning(2))
    timers.start(1, at: Self.at(15))
    fire(100)
    #expect(fired == [1, 1, 2] && timers.first == nil)
  }
}

@Suite struct RateMeterTests {
  private static func at(_ seconds: Double) -> MonotonicTime { MonotonicTime(nanoseconds: Int64(seconds * 1e9)) }

  /// The meter after bytes arrived, so many a second, each twentieth of a second.
  private func meter(after seconds: Int, _ rate: (Double) -> Double) -> RateMeter {
    var meter = RateMeter()
    for tick in 1...seconds * 20 {
      let now = Double(tick) / 20
      meter.add(Int(rate(now) / 20), at: Self.at(now))
    }
    return meter
  }

  @Test(arguments: [2, 5, 20, 100]) func steadyFlow_isMeasured_overTenSeconds(seconds: Int) {
    let meter = meter(after: seconds) { _ in 1_000_000 }
    let end = Double(seconds)
    #expect(abs(meter.rate(at: Self.at(end)) - 1_000_000) < 60_000)
    #expect((meter.steadyRate(at: Self.at(end)) != nil) == (seconds > 4))
    // It stops.
    #expect(abs(meter.rate(at: Self.at(end + 3)) - 1_000_000 * min(10, end) / min(10, end + 3)) < 300_000)
    #expect(meter.rate(at: Self.at(end + 11)) == 0 && meter.steadyRate(at: Self.at(end + 11)) == nil)
  }

  @Test func aRateThatChanges_tellsNoTime() {
    let growing = meter(after: 8) { $0 < 5 ? 100_000 : 1_000_000 }
    #expect(growing.steadyRate(at: Self.at(8)) == nil)
    #expect(growing.rate(at: Self.at(8)) > 100_000)
    let steady = meter(after: 30) { $0 < 5 ? 100_000 : 1_000_000 }
    #expect(abs((steady.steadyRate(at: Self.at(30)) ?? 0) - 1_000_000) < 60_000)
  }

  /// Regression: a long line begins slowly, and what was told in the middle of that was wrong by 30 %. The latest half
  /// counts: with the beginning an object of 2 MB over 1 Mbit/s and 600 ms was told to take a third longer than it
  /// took.
  @Test(arguments: [0.1, 0.3, 0.5, 0.7])
  func afterASlowBeginning_whatIsToldIsRight(_ share: Double) {
    for seconds in 10...20 {
      let meter = meter(after: seconds) { $0 < 4.5 ? share * 1_000_000 : 1_000_000 }
      guard let rate = meter.steadyRate(at: Self.at(Double(seconds))) else { continue }
      #expect(abs(1_000_000 / rate - 1) < 0.1, "\(rate) after \(seconds) s")
    }
    let meter = meter(after: 20) { $0 < 4.5 ? share * 1_000_000 : 1_000_000 }
    #expect(meter.steadyRate(at: Self.at(20)) != nil)
  }

  /// Regression: 3 MB at 1 Mbit/s went from 49 KB/s to 13.5 MB/s within seconds.
  @Test func aBurstIsSpreadOverWhatIsLookedBack() {
    var meter = meter(after: 20) { _ in 100_000 }
    meter.add(1_000_000, at: Self.at(20))
    #expect(meter.rate(at: Self.at(20.1)) < 250_000)
    // After a rest it begins anew.
    meter.add(50_000, at: Self.at(60))
    #expect(meter.rate(at: Self.at(60.5)) == 50_000)
  }
}

/// Numbers near the lower end of each range. (Zero itself is drawn again for ever.)
private struct LowestDraws: RandomNumberGenerator, Sendable {
  mutating func next() -> UInt64 { 1 << 40 }
}
