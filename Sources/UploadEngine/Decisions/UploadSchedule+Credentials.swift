import FileModel

/// Whether the destination takes the credentials, found out before there is a capture.
extension UploadSchedule {
  /// Asks once for a session that there is not: who may not ask is told so, and nothing is made. It says nothing of whether the
  /// destination can be reached: that is seen when something is to be sent.
  public mutating func tryCredentials(at now: Moment) {
    let request = makeRequestID()
    let endpoint = endpoints.choose(at: now.monotonic)
    credentialTrial = request
    actions.append(.send([RequestOrder(id: request, order: .querySession(.credentialTrial), endpoint: endpoint)]))
  }

  /// True for the answer to that question, which is of no other use.
  mutating func noteCredentials(_ request: HTTPRequestID, _ outcome: StepOutcome, at now: Moment) -> Bool {
    guard request == credentialTrial else {
      if case .refused = outcome { return false }
      credentialFailure = nil
      return false
    }
    credentialTrial = nil
    guard case .refused(let failure) = outcome, failure.kind == .unauthorized else { return true }
    let shown = FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now)
    credentialFailure = shown
    actions.append(.report(.credentialsRefused(shown)))
    return true
  }
}
