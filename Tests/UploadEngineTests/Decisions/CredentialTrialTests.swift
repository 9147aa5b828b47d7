import FileModel
import Lookup
import Testing
import TransferModel

@testable import UploadEngine

/// Credentials are tried once at the start.
@Suite struct CredentialTrialTests {
  private func tried(_ outcome: StepOutcome) -> ScheduleHarness {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.apply { $0.tryCredentials(at: $1) }
    #expect(harness.answer(outcome) { $0.isQuery } != nil)
    return harness
  }

  private func isSaid(_ harness: ScheduleHarness) -> Bool {
    harness.others.contains { if case .report(.credentialsRefused) = $0 { true } else { false } }
  }

  /// Regression: a wrong token was said only with the first capture.
  @Test func whoIsRefused_isToldBeforeTheFirstCapture_untilSomethingIsTaken() {
    var harness = tried(.refused(StepFailure(.unauthorized, "check the token")))
    #expect(isSaid(harness))
    let code = harness.schedule.summary(at: harness.now).lastFailure?.code
    #expect(code == "unauthorized")
    harness.write(ImaginaryFile(1, "a.mov", size: 10))
    harness.succeed()
    #expect(harness.state(ImaginaryFile(1, "a.mov", size: 10).id) == .complete)
    let shown = harness.schedule.summary(at: harness.now).lastFailure
    #expect(shown == nil)
  }

  @Test func otherAnswers_sayNothing() {
    for outcome in [
      StepOutcome.refused(StepFailure(.sessionGone, "no")), StepFailure.connection(.connectFailed), .held(digests: [:]),
      .refused(StepFailure(.busy, "no")),
    ] {
      var harness = tried(outcome)
      let shown = harness.schedule.summary(at: harness.now).lastFailure
      #expect(!isSaid(harness) && shown == nil)
      #expect(harness.schedule.destination.gate.isOpen && harness.sent.isEmpty)
    }
  }
}
