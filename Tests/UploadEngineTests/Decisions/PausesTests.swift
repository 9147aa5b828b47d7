import FileModel
import Lookup
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct RunningTimeTests {
  private func clocks(_ monotonic: Double, asleep: Double = 0) -> ClockReading {
    ClockReading(
      monotonic: MonotonicTime(nanoseconds: Int64((monotonic * 1e9).rounded())),
      wallMilliseconds: Int64((monotonic + asleep) * 1000),
      asleep: .seconds(asleep))
  }

  private func time(_ seconds: Double) -> MonotonicTime { MonotonicTime(nanoseconds: Int64((seconds * 1e9).rounded())) }

  /// Regression: a hundred seconds in the freezer counted as time without progress.
  @Test func timeInWhichTheProgramDidNotRun_doesNotCount() {
    var running = RunningTime()
    #expect(running.read(clocks(10), wantedAt: nil).now.monotonic == time(10))
    // It was to do something at 10.4, and did so a hundred seconds later.
    let (now, pause) = running.read(clocks(110.4), wantedAt: time(10.4))
    #expect(now.monotonic == time(10.4) && pause == .seconds(100))
    #expect(running.read(clocks(111.4), wantedAt: time(20)).now.monotonic == time(11.4))
    #expect(running.shown(clocks(112.4)).monotonic == time(12.4))
    #expect(running.clock(at: time(20)) == time(120))
    // What people are shown is their clock's.
    #expect(running.shown(clocks(112.4)).wallMilliseconds == clocks(112.4).wallMilliseconds)
  }

  @Test func timeInWhichNothingWasToBeDone_counts() {
    var running = RunningTime()
    _ = running.read(clocks(10), wantedAt: nil)
    let idle = running.read(clocks(1000), wantedAt: nil)
    #expect(idle.now.monotonic == time(1000) && idle.pause == nil)
    let inTime = running.read(clocks(5000), wantedAt: time(4996))
    #expect(inTime.now.monotonic == time(5000) && inTime.pause == nil, "a busy machine is late as well")
    let unwanted = running.read(clocks(6000), wantedAt: time(7000))
    #expect(unwanted.now.monotonic == time(6000) && unwanted.pause == nil)
  }

  /// Others are heard while what is due waits: the program runs.
  @Test func lateDeadlineOfAProgramThatRuns_isNoPause() {
    var running = RunningTime()
    for second in 10...60 as ClosedRange<Int> {
      let (now, pause) = running.read(clocks(Double(second)), wantedAt: time(11))
      #expect(now.monotonic == time(Double(second)) && pause == nil)
    }
  }

  /// Regression: the monotonic clock stands while the machine sleeps, and nothing said that connections were dead.
  @Test func sleepOfTheMachine_isAPause_andTakesNoTime() {
    var running = RunningTime()
    _ = running.read(clocks(10, asleep: 500), wantedAt: nil)
    #expect(running.read(clocks(11, asleep: 502), wantedAt: nil).pause == nil)
    let (now, pause) = running.read(clocks(12, asleep: 4102), wantedAt: time(12))
    #expect(now.monotonic == time(12) && pause == .seconds(3600))
    #expect(running.read(clocks(13, asleep: 4102), wantedAt: time(13)).pause == nil)
  }
}

@Suite struct PausesTests {
  private let file = ImaginaryFile(1, "a.mov", size: 3500)

  private func renews(_ harness: ScheduleHarness) -> Int { harness.others.count { $0 == .renewConnections } }

  /// Regression: what was closed after waking went over connections that were dead.
  @Test func afterAPause_connectionsThatRestAreNotUsedAgain_beforeAnythingIsSent() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.handle(file.opened)
    harness.answer(.warmed) { $0.isPrewarm }
    #expect(renews(harness) == 0)
    harness.apply { schedule, now in
      schedule.resumed(after: .seconds(3600), at: now)
      schedule.handle(file.settled, at: now)
    }
    #expect(renews(harness) == 1)
    #expect(harness.others.contains(.report(.resumed(after: .seconds(3600)))))
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func idleMount_asksNothingAfterAPause() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.apply { $0.resumed(after: .seconds(3600), at: $1) }
    harness.apply { $0.woke(at: $1) }
    #expect(renews(harness) == 1 && harness.sent.isEmpty)
  }

  private func prewarms(_ harness: ScheduleHarness) -> Int { harness.sent.count { $0.order.isPrewarm } }

  /// Regression: as many connections as the open files would use were begun at once, over a network that may not be there yet.
  @Test func afterAPause_oneConnectionProvesThePath_beforeTheOthers() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let files = (1...12).map { ImaginaryFile($0, "\($0).mov", size: 3500) }
    for file in files { harness.handle(file.opened) }
    while harness.answer(.warmed, where: { $0.isPrewarm }) != nil {}
    harness.apply { $0.resumed(after: .seconds(3600), at: $1) }
    harness.apply { $0.woke(at: $1) }
    #expect(prewarms(harness) == 1)
    harness.handle(ImaginaryFile(13, "13.mov", size: 3500).opened)
    #expect(prewarms(harness) == 1, "what is opened meanwhile waits for its answer")
    harness.answer(.warmed) { $0.isPrewarm }
    #expect(prewarms(harness) == harness.schedule.limits.parallelChunks)
  }

  /// Files that were closed during a pause, read once it is over.
  private func closedInAPause(_ files: [ImaginaryFile]) -> ScheduleHarness {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    for file in files { harness.handle(file.opened) }
    while harness.answer(.warmed, where: { $0.isPrewarm }) != nil {}
    harness.apply { schedule, now in
      schedule.resumed(after: .seconds(3600), at: now)
      for file in files { schedule.handle(file.settled, at: now) }
    }
    harness.answerReads()
    return harness
  }

  /// Regression: all that had waited went out at once, over a network that may not be there yet.
  @Test func afterAPause_oneFileProvesThePath_beforeTheOthers() {
    let files = (1...6).map { ImaginaryFile($0, "\($0).raw", size: 3500) }
    var harness = closedInAPause(files)
    #expect(harness.sent.count == 1)
    harness.succeed()
    #expect(files.allSatisfy { harness.state($0.id) == .complete })
  }

  /// A server may take minutes to put the parts of a file together, and what its commit waits for may wait for this answer.
  @Test func afterAPause_commitHoldsNothingUp() throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.beginSending(file)
    while harness.answer(.chunkStored, where: { $0.isChunk }) != nil { harness.answerReads() }
    harness.apply { $0.resumed(after: .seconds(3600), at: $1) }
    // Its connection was closed on waking: it is the first request after the pause.
    harness.answer(StepFailure.connection(.cancelled)) { $0.isCommit }
    for _ in 1...40 where !harness.sent.contains(where: { $0.order.isCommit }) { harness.advance(by: .seconds(1)) }
    try #require(harness.sent.contains { $0.order.isCommit } && harness.schedule.destination.path.isInDoubt)
    harness.write(ImaginaryFile(2, "b.raw", size: 3500))
    harness.answerReads()
    #expect(harness.sent.contains { !$0.order.isCommit }, "another file goes out beside it")
  }

  /// No answer comes: what waits goes out once a connection would have been made.
  @Test func afterAPause_aRequestWithoutAnAnswerIsNotWaitedForLonger() throws {
    var harness = closedInAPause((1...4).map { ImaginaryFile($0, "\($0).raw", size: 3500) })
    let first = try #require(harness.sent.first)
    harness.advance(by: .seconds(5))
    #expect(harness.sent.count == 1)
    harness.advance(by: .seconds(1))
    #expect(harness.sent.count > 1 && harness.schedule.isUnderWay(first.id))
  }

  /// Recorders that open files meanwhile get their sessions once it is answered.
  @Test func afterAPause_sessionsOfOpenFilesWaitAsWell() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.handle(ImaginaryFile(1, "1.mov", size: 3500).opened)
    while harness.answer(.warmed, where: { $0.isPrewarm }) != nil {}
    harness.apply { $0.resumed(after: .seconds(3600), at: $1) }
    for number in 2...9 as ClosedRange<UInt64> {
      harness.handle(ImaginaryFile(number, "\(number).mov", size: 3500).opened)
    }
    harness.advance(by: .milliseconds(100))
    #expect(harness.sent.count == 1)
    harness.answer(.warmed) { $0.isPrewarm }
    harness.advance(by: .milliseconds(1))
    #expect(harness.sent.count { $0.order.isOpenSession } > 1)
  }

  /// A body may take hours: that a connection takes bytes of it is enough.
  @Test func afterAPause_bytesThatAConnectionTakesProveThePath() throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.handle(file.opened)
    while harness.answer(.warmed, where: { $0.isPrewarm }) != nil {}
    harness.beginSending(file)
    while harness.answer(StepFailure.connection(.cancelled), where: { $0.isChunk }) != nil {}
    harness.apply { $0.resumed(after: .seconds(3600), at: $1) }
    while harness.answer(StepFailure.connection(.cancelled), where: { $0.isPrewarm }) != nil {}
    harness.advance(by: .seconds(20))
    harness.answerReads()
    let first = try #require(harness.sent.first)
    #expect(harness.sent.count == 1 && harness.schedule.destination.path.isInDoubt)
    harness.apply { $0.progressed([first.id: 1], at: $1) }
    #expect(!harness.schedule.destination.path.isInDoubt && harness.sent.count > 1)
  }

  /// Anything that is answered proves it.
  @Test func afterAPause_anAnswerToAnythingElseProvesThePath() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.beginSending(file)
    for number in 2...13 as ClosedRange<UInt64> {
      harness.handle(ImaginaryFile(number, "\(number).mov", size: 3500).opened)
    }
    while harness.answer(.warmed, where: { $0.isPrewarm }) != nil {}
    harness.apply { $0.resumed(after: .seconds(3600), at: $1) }
    #expect(prewarms(harness) == 1 && harness.schedule.destination.path.isInDoubt)
    harness.answerChunk(0, .chunkStored)
    #expect(!harness.schedule.destination.path.isInDoubt)
    harness.answer(.warmed) { $0.isPrewarm }
    #expect(prewarms(harness) > 1)
  }

  /// The path is not there yet after waking: what is tried next is one request again.
  @Test func afterAPause_aPathThatIsNotThere_isTriedByOneRequestAtATime() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    for number in 1...12 as ClosedRange<UInt64> {
      harness.handle(ImaginaryFile(number, "\(number).mov", size: 3500).opened)
    }
    while harness.answer(.warmed, where: { $0.isPrewarm }) != nil {}
    harness.apply { $0.resumed(after: .seconds(3600), at: $1) }
    for _ in 1...20 {
      #expect(harness.sent.count <= 1)
      harness.answer(StepFailure.connection(.connectFailed)) { $0.isPrewarm }
      harness.advance(by: .seconds(20))
    }
    harness.answer(.warmed) { $0.isPrewarm }
    #expect(harness.schedule.destination.gate.isOpen && !harness.schedule.destination.path.isInDoubt)
  }

  /// A pause is no reason to wait on: one request finds out whether the destination is back.
  @Test func afterAPause_aDestinationThatWasNotToBeHad_isTriedAtOnce() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.write(file)
    while harness.answer(StepFailure.connection(.connectFailed), where: { _ in true }) != nil {}
    #expect(!harness.schedule.destination.gate.isOpen && harness.sent.isEmpty)
    harness.apply { $0.woke(at: $1) }
    #expect(harness.sent.isEmpty, "it rests")
    harness.apply { $0.resumed(after: .seconds(3600), at: $1) }
    harness.apply { $0.woke(at: $1) }
    #expect(harness.sent.count == 1)
    harness.succeed()
    harness.advance(by: .seconds(60))
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// Regression: tries went over other connections that had met the same, five seconds each.
  @Test func afterAStall_connectionsThatRestAreNotUsedAgain() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.beginSending(file)
    #expect(renews(harness) == 0)
    harness.answerChunk(0, StepFailure.connection(.stalled))
    #expect(renews(harness) == 1)
  }

  /// A chunk that does not move beside others that do says nothing of their connections.
  @Test(arguments: [true, false])
  func chunkThatIsGivenUp_castsDoubtOnConnections_onlyWhereNothingMoves(othersMove: Bool) {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.beginSending(file)
    let moving = harness.sent.first { $0.order.isChunk(1) }
    for second in 1...45 as ClosedRange<UInt64> {
      harness.advance(by: .seconds(1))
      if othersMove, let moving { harness.apply { $0.progressed([moving.id: second], at: $1) } }
    }
    #expect(!harness.cancelled.isEmpty)
    #expect((renews(harness) > 0) == !othersMove)
  }
}
