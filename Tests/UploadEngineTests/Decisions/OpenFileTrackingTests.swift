import FileModel
import Testing
import TransferModel

@testable import UploadEngine

/// Open files: whose size is asked for, and whose turn to send early it is.
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
