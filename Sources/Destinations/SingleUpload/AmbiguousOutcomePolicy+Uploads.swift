import TransferModel

extension AmbiguousOutcomePolicy {
  /// What follows from a failure that leaves open whether the server has the file.
  func failure(_ failure: StepFailure, at address: String) -> StepFailure {
    let what = "Everything was sent to \(address), and it is not known whether the file is there: \(failure.message)"
    switch self {
    case .retry:
      return StepFailure(
        failure.kind, "\(what). It is sent again, and may be there twice (--tus-unclear hold waits for you instead).",
        retryAfter: failure.retryAfter)
    case .hold:
      return StepFailure(
        .unclearEnd,
        "\(what). Look there, and then use `uploadfs-mount retry` or `uploadfs-mount cancel` (--tus-unclear hold).")
    }
  }
}

extension NextRequest {
  /// The same of a request that may have made a file at an address that the client does not learn: each try may leave one more file.
  var mayLeaveCopies: NextRequest {
    guard case .ended(.refused(var failure)) = self, failure.kind == .serverError else { return self }
    failure.kind = .misdirected
    return .ended(.refused(failure))
  }
}
