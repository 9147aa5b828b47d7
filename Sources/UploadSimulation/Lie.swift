import UploadEngine

/// What a destination says again and again although it is not so, until the faults end. The engine decides from what the
/// destination's code makes of the answers, so the lie stands there, whatever protocol it would come by.
enum Lie: CaseIterable {
  /// What was taken whole is gone when it is to be published.
  case forgetsAtTheEnd
  /// Now and then a session is gone that takes chunks.
  case forgetsInTheMiddle
  /// Each commit lacks all that was acknowledged.
  case lacksEverything
  /// Questions are answered, and bodies told to wait.
  case takesNoBodies
  /// Likewise, and what answers bodies fails.
  case failsAtBodies
  /// What is sent whole is answered by nonsense.
  case answersNonsense

  /// What the client hears in place of the truth; nil where that is told.
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
