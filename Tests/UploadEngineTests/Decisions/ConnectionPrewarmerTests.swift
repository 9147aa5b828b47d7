import FileModel
import Testing
import TransferModel

@testable import UploadEngine

/// What is prepared for files while they are written: each rule by itself.
@Suite struct ConnectionPrewarmerTests {
  private typealias Event = ConnectionPrewarmer.Event
  private typealias Action = ConnectionPrewarmer.Action

  private static let stages = ConnectionStages(
    names: .milliseconds(3), connect: .milliseconds(100), tls: .milliseconds(101), answer: .milliseconds(102))

  /// A prewarmer with its surroundings at a time.
  private struct Bench {
    var prewarmer = ConnectionPrewarmer()
    var surroundings = ConnectionPrewarmer.Surroundings(
      wanted: 1, hasOpenFiles: true, hasHeldFiles: false, maySend: true, isProbe: false, isPathInDoubt: false)
    var now = MonotonicTime(nanoseconds: 0)

    mutating func handle(_ event: Event) -> [Action] { prewarmer.handle(event, in: surroundings, at: now) }

    mutating func answer(stages: ConnectionStages? = nil, offers: [AlternativeService]? = nil) -> [Action] {
      var connection = HTTPConnectionMetrics()
      (connection.stages, connection.alternatives) = (stages, offers)
      return handle(.answered(connection))
    }
  }

  @Test func atTheBeginning_namesAreAskedFor_andNothingIsSent() {
    var bench = Bench()
    let actions = bench.handle(.began)
    #expect(actions == [.askForNames] && !bench.prewarmer.isKeeping)
  }

  @Test func theFirstWriter_hasOneConnectionProven_andKept() {
    var bench = Bench()
    let first = bench.handle(.opened)
    let second = bench.handle(.opened)
    #expect(first == [.keepAlive(at: bench.now + .seconds(15)), .prove(1)] && second == [])
  }

  @Test func untilOneIsProven_noOthersFollow() {
    var bench = Bench()
    _ = bench.handle(.opened)
    bench.surroundings.wanted = 12
    let before = bench.handle(.changed)
    let after = bench.answer()
    let later = bench.answer()
    #expect(before == [] && after == [.prove(12)] && later == [], "the first answer alone brings others")
  }

  @Test func asTheFileGrows_thereAreAsManyAsItWouldUse() {
    var bench = Bench()
    _ = bench.handle(.opened)
    _ = bench.answer()
    let proven = [1, 3, 2, 3, 5].map { wanted in
      bench.surroundings.wanted = wanted
      return bench.handle(.changed)
    }
    let expected: [[Action]] = [[], [.prove(3)], [], [], [.prove(5)]]
    #expect(proven == expected, "those that there are take part, and are not opened twice")
  }

  @Test func allAreUsedAgain_every15Seconds_whileAFileIsOpen() {
    var bench = Bench()
    bench.surroundings.wanted = 4
    _ = bench.handle(.opened)
    _ = bench.answer()
    bench.now = bench.now + .seconds(15)
    let due = bench.handle(.keepAliveDue)
    #expect(due == [.prove(4), .keepAlive(at: bench.now + .seconds(15))])
    bench.surroundings.hasOpenFiles = false
    let over = bench.handle(.keepAliveDue)
    #expect(over == [] && !bench.prewarmer.isKeeping)
    bench.surroundings.hasOpenFiles = true
    let again = bench.handle(.opened)
    #expect(again == [.keepAlive(at: bench.now + .seconds(15)), .prove(4)])
  }

  @Test func heldFiles_waitForTheFirstAnswer() {
    var bench = Bench()
    _ = bench.handle(.opened)
    (bench.surroundings.hasOpenFiles, bench.surroundings.hasHeldFiles) = (false, true)
    let unanswered = bench.handle(.keepAliveDue)
    _ = bench.answer()
    let answered = bench.handle(.keepAliveDue)
    #expect(unanswered == [.prove(1), .keepAlive(at: bench.now + .seconds(15))] && answered == [])
  }

  @Test func whereNothingMayBeSent_itWaits() {
    var bench = Bench()
    bench.surroundings.maySend = false
    let closed = bench.handle(.opened)
    bench.surroundings.maySend = true
    let open = bench.handle(.changed)
    #expect(closed == [.keepAlive(at: bench.now + .seconds(15))] && open == [.prove(1)])
  }

  @Test func whatIsLost_isOpenedAFewTimes_untilItIsLookedAt_andAProbeAlways() {
    var bench = Bench()
    _ = bench.handle(.opened)
    let beginnings = (0..<5).map { _ in
      _ = bench.handle(.lost)
      return bench.handle(.changed)
    }
    #expect(beginnings == [[.prove(1)], [.prove(1)], [.prove(1)], [], []])
    bench.surroundings.isProbe = true
    let probe = bench.handle(.changed)
    bench.surroundings.isProbe = false
    _ = bench.handle(.keepAliveDue)
    _ = bench.handle(.lost)
    let later = bench.handle(.changed)
    #expect(probe == [.prove(1)] && later == [.prove(1)])
  }

  @Test func aProbe_andATrialOfThePath_areOneRequest() {
    for isProbe in [true, false] {
      var bench = Bench()
      bench.surroundings.wanted = 12
      (bench.surroundings.isProbe, bench.surroundings.isPathInDoubt) = (isProbe, !isProbe)
      let actions = bench.handle(.changed)
      #expect(actions == [.prove(1)])
      guard !isProbe else { continue }
      bench.surroundings.isPathInDoubt = false
      let others = bench.answer()
      #expect(others == [.prove(12)])
    }
  }

  @Test func afterAPause_oneIsProvenAnew_unlessTheDestinationIsTried() {
    var bench = Bench()
    let idle = bench.handle(.resumed(isProbing: false))
    _ = bench.handle(.opened)
    let open = bench.handle(.resumed(isProbing: false))
    let tried = bench.handle(.resumed(isProbing: true))
    #expect(idle == [] && open == [.prove(1)] && tried == [])
  }

  @Test func afterAStandstill_othersMayFollowAtOnce() {
    var bench = Bench()
    _ = bench.handle(.opened)
    _ = bench.answer()
    bench.surroundings.wanted = 6
    _ = bench.handle(.stoodStill)
    let next = bench.handle(.changed)
    #expect(next == [.prove(6)])
  }

  @Test func theTimesAreThoseOfTheConnectionThatWasFirst() {
    var bench = Bench()
    _ = bench.handle(.opened)
    _ = bench.answer(stages: Self.stages)
    let other = ConnectionStages(names: .zero, connect: .seconds(1), tls: .seconds(1), answer: .seconds(1))
    _ = bench.answer(stages: other)
    #expect(bench.prewarmer.stages == Self.stages)
    _ = bench.handle(.keepAliveDue)
    _ = bench.answer()
    #expect(bench.prewarmer.stages == Self.stages, "it was there")
    _ = bench.handle(.lost)
    #expect(bench.prewarmer.stages == nil)
    _ = bench.answer(stages: other)
    #expect(bench.prewarmer.stages == other)
  }

  @Test func whatTheServerOffersBeside_isNoted_untilItsTimeIsOver_orItIsTakenBack() {
    var bench = Bench()
    let offer = AlternativeService("h3", port: 443, maxAge: .seconds(60))
    _ = bench.answer(offers: [offer])
    _ = bench.answer()
    #expect(bench.prewarmer.alternatives(at: bench.now) == [offer], "an answer without the field says nothing")
    #expect(bench.prewarmer.alternatives(at: bench.now + .seconds(60)) == [])
    _ = bench.answer(offers: [])
    #expect(bench.prewarmer.alternatives(at: bench.now) == [])
  }

  @Test func sessionsArePlannedByTime_theEarlierComerFirst() {
    func id(_ number: UInt64) -> FileID { FileID(high: 0, low: number) }
    var sessions = PlannedSessions()
    let plans: [(UInt64, Int64)] = [(1, 30), (2, 10), (3, 30), (4, 10)]
    let areNext = plans.map { sessions.plan(id($0.0), at: MonotonicTime(nanoseconds: $0.1)) }
    #expect(areNext == [true, true, false, false])
    #expect(sessions.plans.map(\.id) == [id(2), id(4), id(1), id(3)] && sessions.brokenInvariants == [])
    sessions.removeFirst(2)
    #expect(sessions.plans.map(\.id) == [id(1), id(3)] && sessions.first?.id == id(1))
  }
}
