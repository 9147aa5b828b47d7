import FileModel
import Lookup
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct TripleWatchdogTests {
  private let file = FileID(high: 0, low: 1)
  private func time(_ seconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: seconds * 1_000_000_000) }

  @Test func patience_isTwiceTheExpectedTime_atLeastTenSeconds_thirtyWhenNothingIsKnown() {
    func patience(_ bytes: Int, _ rate: Double?, attempts: Int = 0) -> Duration {
      TripleWatchdog().patience(bytes: bytes, bytesPerSecond: rate, streams: 1, attempts: attempts)
    }
    #expect(patience(4_000_000, nil) == .seconds(30))
    #expect(patience(4_000_000, 1e9) == .seconds(10))
    #expect(patience(4_000_000, 100_000) == .seconds(80))
    #expect(patience(4_000_000, 1e9, attempts: 2) == .seconds(40))
    #expect(patience(4_000_000, nil, attempts: 2) == .seconds(60), "no longer than its file")
    #expect(patience(4_000_000, 100_000, attempts: 2) == .seconds(80))
    #expect(patience(.max, 1e-9, attempts: .max) == .seconds(3600))
    #expect(
      TripleWatchdog().patience(bytes: 1_000_000, bytesPerSecond: 100_000, streams: 4, attempts: 0) == .seconds(80))
  }

  @Test func chunk_isGivenUpWithoutProgress_andEveryByteResetsItsClock() {
    var watchdog = TripleWatchdog()
    let request = HTTPRequestID(1)
    watchdog.started(request, of: file, patience: .seconds(10), at: time(0))
    for second in 1...200 as ClosedRange<Int64> {
      watchdog.sent(UInt64(second), by: request, at: time(second))
      #expect(watchdog.alarms(at: time(second)).isEmpty)
    }
    watchdog.sent(200, by: request, at: time(209))
    #expect(watchdog.alarms(at: time(209)).isEmpty)
    #expect(watchdog.alarms(at: time(210)) == [.chunk(request)])
    #expect(watchdog.alarms(at: time(211)).isEmpty, "once")
  }

  /// Regression (seed 2000054551): sessions were asked for in vain for minutes; the first chunks after that were
  /// cancelled at once.
  @Test func timeWithoutABody_isNoTimeWithoutAnAcknowledgement() {
    var watchdog = TripleWatchdog()
    watchdog.started(HTTPRequestID(1), of: nil, patience: .seconds(30), at: time(0))
    watchdog.ended(HTTPRequestID(1), isAcknowledged: false, at: time(60))
    watchdog.started(HTTPRequestID(2), of: nil, patience: .seconds(30), at: time(350))
    #expect(watchdog.alarms(at: time(351)).isEmpty)
  }

  /// Every request begins, none is answered: each attempt sends the same bytes again and comes no further.
  @Test func lineThatSwallowsBytes_alarmsTheSessionAfter60Seconds_andAllAfter300() {
    var watchdog = TripleWatchdog()
    var sessionAlarms: [Int64] = []
    var globalAlarms: [Int64] = []
    for second in 0...700 as ClosedRange<Int64> {
      let request = HTTPRequestID(UInt64(second / 5))
      if second % 5 == 0 { watchdog.started(request, of: file, patience: .seconds(30), at: time(second)) }
      watchdog.sent(1000, by: request, at: time(second))
      if second % 5 == 4 { watchdog.ended(request, isAcknowledged: false, at: time(second)) }
      for alarm in watchdog.alarms(at: time(second)) {
        switch alarm {
        case .session(file): sessionAlarms.append(second)
        case .global: globalAlarms.append(second)
        default: break
        }
      }
    }
    #expect(sessionAlarms.first == 60)
    #expect(globalAlarms.first == 300)
    #expect(globalAlarms.count == 2)
  }

  @Test func acknowledgement_calmsAll_andADestinationThatIsGoneIsNotWatched() {
    var watchdog = TripleWatchdog()
    for second in stride(from: Int64(0), to: 1000, by: 50) {
      let request = HTTPRequestID(UInt64(second))
      watchdog.started(request, of: file, patience: .seconds(100), at: time(second))
      #expect(watchdog.alarms(at: time(second + 49)).isEmpty)
      watchdog.ended(request, isAcknowledged: true, at: time(second + 49))
    }
    #expect(!watchdog.isWatching)
    watchdog.started(HTTPRequestID(5), of: file, patience: .seconds(10), at: time(2000))
    watchdog.ended(HTTPRequestID(5), isAcknowledged: false, at: time(2001))
    watchdog.forgetAll()
    #expect(watchdog.alarms(at: time(9000)).isEmpty)
  }

  // MARK: - In the schedule

  private func sending() -> (ScheduleHarness, ImaginaryFile) {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    harness.beginSending(file)
    return (harness, file)
  }

  /// Regression (simulation, lying-tus 7400023676): the second request of a step counted from zero, and was ended as one that had stood still
  /// since the first.
  @Test func aStepWhoseNextRequestBegins_hasMoved() {
    var (harness, _) = sending()
    let request = harness.sent.first { $0.order.isChunk }
    for second in 1...45 as ClosedRange<UInt64> {
      harness.advance(by: .seconds(1))
      let isSecond = second > 25
      let body = SentBody(bytes: isSecond ? 0 : min(second, 4), of: 1000, answered: isSecond ? 1 : 0)
      if let request { harness.apply { $0.progressed([request.id: body], at: $1) } }
    }
    #expect(!harness.cancelled.contains { $0 == request?.id })
  }

  @Test func chunkThatDoesNotMove_isCancelled_andSentAgain() {
    var (harness, file) = sending()
    harness.answerChunk(0, .chunkStored)
    let moving = harness.sent.first { $0.order.isChunk(2) }
    let stuck = harness.sent.first { $0.order.isChunk(1) }
    for second in 1...45 as ClosedRange<UInt64> {
      harness.advance(by: .seconds(1))
      if let moving { harness.apply { $0.progressed([moving.id: second], at: $1) } }
    }
    #expect(harness.cancelled == [stuck?.id].compactMap { $0 })
    harness.answerChunk(1, StepFailure.connection(.cancelled))
    #expect(harness.status(file.id)?.lastFailure?.code == "timed-out")
    harness.advance(by: .seconds(1))
    harness.answerReads()
    #expect(harness.chunkRequests.contains { $0.index == 1 })
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func fileThatDoesNotMoveForAMinute_connectsAnew_asks_andGoesOn() {
    var (harness, file) = sending()
    harness.answerChunk(0, .chunkStored)
    for _ in 0..<70 { harness.advance(by: .seconds(1)) }
    #expect(Set(harness.cancelled).count == 2)
    #expect(harness.others.contains { if case .report(.stuck) = $0 { true } else { false } })
    while harness.answer(StepFailure.connection(.cancelled), where: { $0.isChunk }) != nil {}
    harness.advance(by: .seconds(1))
    let held: LookupTable = [0: ScheduleHarness.digest(file: file.id, epoch: 1, offset: 0).sha256]
    let query = harness.sent.first { $0.order.isQuery }
    #expect(query.map { harness.connectingAnew.contains($0.id) } == true)
    #expect(harness.answer(.held(digests: held)) { $0.isQuery } != nil)
    harness.answerReads()
    #expect(harness.chunkRequests.map(\.index).sorted() == [1, 2], "what the server has is not sent again")
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.buffers.isEmpty)
  }

  /// Regression (seed 5800012436): the time that the session before it had stood was the next one's as well, and what was just
  /// being sent was cancelled.
  @Test(arguments: [true, false]) func fileThatIsSentAnew_hasAMinuteOfItsOwn(isPublished: Bool) {
    var (harness, file) = sending()
    for _ in 0..<58 {
      while harness.answer(.refused(StepFailure(.conflict, "published")), where: { $0.isChunk }) != nil {}
      harness.advance(by: .seconds(1))
      harness.answerReads()
    }
    let receipt = ScheduleHarness.receipt(RelativePath("a.mov"), 3000, root: "00", tip: "00")
    let isAsked = harness.answer(isPublished ? .published(receipt) : .refused(StepFailure(.sessionGone, "gone"))) {
      $0.isQuery
    }
    #expect(isAsked != nil)
    // What was refused until then has set the file back: it pauses first.
    for _ in 0..<60 where harness.chunkRequests.isEmpty {
      harness.answerReads()
      harness.answer(.sessionOpened(id: "next", chunkBytes: 1000, expiresAtSeconds: nil)) { $0.isOpenSession }
      harness.answerReads()
      if harness.chunkRequests.isEmpty { harness.advance(by: .seconds(1)) }
    }
    #expect(!harness.chunkRequests.isEmpty)
    for _ in 0..<10 { harness.advance(by: .seconds(1)) }
    #expect(harness.cancelled.isEmpty)
    #expect(!harness.others.contains { if case .report(.stuck) = $0 { true } else { false } })
    // One that does not move is seen as before.
    for _ in 0..<60 { harness.advance(by: .seconds(1)) }
    #expect(harness.others.contains { if case .report(.stuck(file.id, _)) = $0 { true } else { false } })
    harness.endCancelled()
    harness.advance(by: .seconds(15))
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// Likewise of a file that is published before its last chunk is answered.
  @Test func fileThatWasPublished_hasAMinuteOfItsOwnForItsNextContent() {
    var harness = ScheduleHarness(commitWaitsForChunks: true)
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "a.mov", size: 3000)
    harness.beginSending(file)
    harness.answerChunk(0, .chunkStored)
    harness.answerChunk(1, .chunkStored)
    let published = harness.commits.first.map { ScheduleHarness.success(of: .commit($0)) }
    #expect(harness.answer(published ?? .ended) { $0.isCommit } != nil)
    harness.answerChunk(2, .refused(StepFailure(.conflict, "published")))
    harness.record()
    #expect(harness.state(file.id) == .complete)
    for _ in 0..<50 { harness.advance(by: .seconds(1)) }
    file.snapshot.epoch = 2
    harness.handle(file.changed)
    harness.beginSending(file)
    #expect(!harness.chunkRequests.isEmpty)
    for _ in 0..<20 { harness.advance(by: .seconds(1)) }
    #expect(harness.cancelled.isEmpty)
    #expect(!harness.others.contains { if case .report(.stuck) = $0 { true } else { false } })
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// What was acknowledged before the receiver was started again, and did not survive that.
  @Test func chunkThatIsGoneWhenTheServerIsAsked_isSentAgain() {
    var (harness, file) = sending()
    harness.answerChunk(0, .chunkStored)
    for _ in 0..<70 { harness.advance(by: .seconds(1)) }
    harness.endCancelled()
    harness.advance(by: .seconds(1))
    #expect(harness.answer(.held(digests: [:])) { $0.isQuery } != nil)
    harness.answerReads()
    #expect(harness.chunkRequests.map(\.index).sorted() == [0, 1, 2])
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// A line that lets questions through and swallows chunks. Regression: the second time the session, and with it all that
  /// the server held, was given up.
  @Test func nothingAcknowledgedFor300Seconds_connectsAllAnew_andAsks_howeverOften() {
    var (harness, file) = sending()
    harness.answerChunk(0, .chunkStored)
    let held: LookupTable = [0: ScheduleHarness.digest(file: file.id, epoch: 1, offset: 0).sha256]
    for second in 1...1300 {
      let before = Set(harness.sent.filter(\.order.isChunk).map(\.id)).subtracting(harness.cancelled)
      harness.advance(by: .seconds(1))
      #expect(!harness.sent.contains { $0.order.isOpenSession }, "after \(second) s")
      if second == 300 { #expect(!before.isEmpty && before.isSubset(of: harness.cancelled)) }
      harness.endCancelled()
      while harness.answer(.held(digests: held), where: \.isQuery) != nil {}
      harness.answerReads()
    }
    harness.endCancelled()
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.buffers.isEmpty)
  }
}
