import TransferModel
import UploadEngine

/// What a destination falsely reports again and again until the faults end. The engine decides from the outcomes of the
/// destination's code, so the lie is told there, whatever the protocol.
enum Lie: CaseIterable {
  /// What was taken whole is gone when it is to be published.
  case forgetsAtTheEnd
  /// Now and then a session is gone that takes chunks.
  case forgetsInTheMiddle
  /// Each commit lacks all that was acknowledged.
  case lacksEverything
  /// Queries are answered, and bodies are deferred.
  case takesNoBodies
  /// The same, and a server error answers bodies.
  case failsAtBodies
  /// What is sent whole is answered by nonsense.
  case answersNonsense

  /// The outcome that replaces the true one; nil where the true one is reported.
  func outcome(of order: SendOrder, isInTheMiddle: () -> Bool) -> StepOutcome? {
    switch (self, order) {
    case (.forgetsAtTheEnd, .commit), (.forgetsAtTheEnd, .querySession): return gone
    case (.forgetsInTheMiddle, .chunk) where isInTheMiddle(): return gone
    case (.lacksEverything, .commit(let commit)):
      return commit.chunkCount > 0 ? .incomplete(missing: Array(0..<commit.chunkCount)) : nil
    case (.takesNoBodies, _) where order.isBody: return .refused(StepFailure(.busy, "come back later"))
    case (.failsAtBodies, _) where order.isBody: return .refused(StepFailure(.serverError, "what is behind it is down"))
    case (.answersNonsense, .wholeFile): return .refused(StepFailure(.unexpectedAnswer, "<html>welcome</html>"))
    default: return nil
    }
  }

  private var gone: StepOutcome { .refused(StepFailure(.sessionGone, "nobody knows it")) }
}
