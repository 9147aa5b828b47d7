import Testing
import TransferModel

@testable import UploadEngine

@Suite struct FailureStreakTests {
  private let start = MonotonicTime(nanoseconds: 0)

  /// Requests that were in flight when a round failed belong to that round.
  @Test func requestsInFlightTogether_areOneRound() {
    var failures = FailureStreak()
    #expect(failures.isAnotherRound(sentAt: start))
    failures.roundFailed(at: start + .seconds(5))
    #expect(!failures.isAnotherRound(sentAt: start + .seconds(5)))
    #expect(failures.isAnotherRound(sentAt: start + .seconds(6)))
    #expect(failures.rounds == 1)
  }

  /// Another content has its own rounds, and its pauses go on from those of the one before; progress and a delivery end them.
  @Test func pausesGrowOverContents_untilSomethingMoves() {
    var failures = FailureStreak()
    failures.roundFailed(at: start)
    failures.paused(for: .seconds(4))
    failures.contentChanged()
    #expect(failures.rounds == 0 && failures.latestAt == nil && failures.drawnPause == .seconds(4))
    failures.roundFailed(at: start)
    failures.published()
    #expect(failures.rounds == 0 && failures.drawnPause == .seconds(4))
    failures.refused(acknowledgedBytes: 5)
    failures.published()
    #expect(failures.isRefused)
    failures.ended()
    #expect(failures.drawnPause == nil && failures.latestAt == start && !failures.isRefused)
    failures.progressed(acknowledgedBytes: 0)
    #expect(failures == FailureStreak())
  }

  /// What is refused at its end is sent up to there each time: without an end, had that counted as progress.
  @Test func aRefusal_isRememberedUntilMoreThanThenHasArrived() {
    var failures = FailureStreak()
    failures.refused(acknowledgedBytes: 4000)
    failures.roundFailed(at: start)
    failures.progressed(acknowledgedBytes: 4000)
    #expect(failures.isRefused && failures.rounds == 0)
    failures.progressed(acknowledgedBytes: 4001)
    #expect(failures == FailureStreak())
  }
}
