import FileModel
public import TransferModel

/// Whether the destination takes the credentials, found out before there is a capture.
extension UploadSchedule {
  /// Asks once for a session that does not exist: without permission the answer is a refusal, and nothing is created.
  /// The answer does not show whether the destination is reachable: that is seen when something is to be sent.
  public mutating func tryCredentials(at now: ClockReading) {
    let request = makeRequestID()
    let endpoint = destination.endpoints.choose(at: now.monotonic)
    destination.credentialTrial.begin(with: request)
    actions.append(.send([RequestOrder(id: request, order: .querySession(.credentialTrial), endpoint: endpoint)]))
  }

  /// True for the answer to that request, which has no other use.
  mutating func noteCredentials(_ request: HTTPRequestID, _ outcome: StepOutcome, at now: ClockReading) -> Bool {
    guard destination.credentialTrial.end(request) else {
      if case .refused = outcome { return false }
      destination.credentialTrial.proved()
      return false
    }
    guard case .refused(let failure) = outcome, failure.kind == .unauthorized else { return true }
    let shown = FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now)
    destination.credentialTrial.refused(shown)
    actions.append(.report(.credentialsRefused(shown)))
    return true
  }
}
