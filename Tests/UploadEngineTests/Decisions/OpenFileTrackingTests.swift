import FileModel
import Testing
import TransferModel

@testable import UploadEngine

/// Open files: whose size is asked for, which get a session, and whose turn to send early it is.
@Suite struct OpenFileTrackingTests {
  private func id(_ number: UInt64) -> FileID { FileID(high: 0, low: number) }
  private func time(_ nanoseconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: nanoseconds) }

  @Test func ofManyOpenFiles_eachIsMeasuredInItsTurn() {
    var tracking = OpenFileTracking()
    for number in 1...5 { tracking.opened(id(UInt64(number))) }
    let rounds = (0..<4).map { _ in tracking.takeFilesToMeasure(countMax: 2) }
    #expect(rounds == [[id(1), id(2)], [id(3), id(4)], [id(5)], [id(1), id(2)]])
    for number in 2...5 { tracking.closed(id(UInt64(number))) }
    let last = tracking.takeFilesToMeasure(countMax: 2)
    #expect(last == [id(1)], "and those that were closed meanwhile are left out")
  }

  @Test func sessionsArePlannedByTime_theEarlierComerFirst() {
    var tracking = OpenFileTracking()
    let areNext = [(1, 30), (2, 10), (3, 30), (4, 10)].map { tracking.plan(id($0.0), at: time($0.1)) }
    #expect(areNext == [true, true, false, false])
    #expect(tracking.planned.map(\.id) == [id(2), id(4), id(1), id(3)] && tracking.brokenInvariants == [])
    tracking.removeFirstPlanned(2)
    #expect(tracking.planned.map(\.id) == [id(1), id(3)])
  }

  @Test func earlyFilesTakeTurns() {
    var tracking = OpenFileTracking()
    for number in [1, 2, 3, 2] { tracking.joinEarly(id(UInt64(number))) }
    let turn = tracking.takeEarlyTurn(at: 1)
    #expect(turn == id(2) && tracking.early == [id(1), id(3), id(2)])
    tracking.leaveEarly { $0 == id(1) }
    #expect(tracking.early == [id(3), id(2)] && tracking.brokenInvariants == [])
  }

  @Test func whatDoesNotGrow_isLookedAtLessOften() {
    var tracking = OpenFileTracking()
    let interval = Duration.milliseconds(20)
    tracking.noteGrowth()
    let pauses = (0..<8).map { _ in tracking.takeGrowthPause(interval: interval) }
    #expect(pauses == [20, 40, 80, 160, 320, 640, 800, 800].map { .milliseconds($0) })
    tracking.noteGrowth()
    let pause = tracking.takeGrowthPause(interval: interval)
    #expect(pause == interval)
  }

  @Test func manyGrowingFiles_areLookedAtLessOften() {
    var tracking = OpenFileTracking()
    for number in 0..<64 { tracking.joinEarly(id(UInt64(number))) }
    tracking.noteGrowth()
    let pause = tracking.takeGrowthPause(interval: .milliseconds(20))
    #expect(pause == .milliseconds(80))
  }
}

@Suite struct WarmConnectionsTests {
  @Test func untilOneIsAnswered_noOthersFollow() {
    var warm = WarmConnections()
    #expect(warm.lacks(1))
    let hasBegun = warm.begin(1, isProbe: false)
    #expect(hasBegun && !warm.lacks(12))
    let isFirst = warm.answered()
    #expect(isFirst && warm.lacks(12))
    let haveBegun = warm.begin(12, isProbe: false)
    #expect(haveBegun && !warm.lacks(12))
    let isSecondFirst = warm.answered()
    #expect(!isSecondFirst, "the first answer alone brings others")
    warm.lose()
    #expect(warm.lacks(1) && warm.answers == 0)
  }

  @Test func betweenTwoLooks_theyAreBegunAFewTimes_andAProbeAlways() {
    var warm = WarmConnections()
    let beginnings = (0..<6).map { _ in
      defer { warm.lose() }
      return warm.begin(1, isProbe: false)
    }
    #expect(beginnings == [true, true, true, true, false, false])
    let asProbe = warm.begin(1, isProbe: true)
    warm.beginKeeping()
    let later = warm.begin(1, isProbe: false)
    #expect(asProbe && later)
  }
}

@Suite struct PathProofTests {
  @Test func othersWaitForATrial_untilItIsProvenOrHasTakenTooLong() {
    var path = PathProof()
    let sentAt = MonotonicTime(nanoseconds: 0)
    #expect(!path.isUnderWay(sentAt: sentAt, at: sentAt), "there was no pause")
    path.doubt()
    path.tryWith(HTTPRequestID(7))
    #expect(path.trial == HTTPRequestID(7) && path.isUnderWay(sentAt: sentAt, at: sentAt))
    #expect(!path.isUnderWay(sentAt: sentAt, at: sentAt + PathProof.trialTime))
    path.prove()
    #expect(!path.isUnderWay(sentAt: sentAt, at: sentAt) && !path.isInDoubt)
    // The next pause has a trial of its own.
    path.doubt()
    #expect(path.trial == nil)
  }
}
