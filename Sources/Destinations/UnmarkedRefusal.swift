import TransferModel

/// An answer without the mark of the destination's protocol that is no answer to what was asked: a proxy, an application firewall or a
/// login may have said it in the server's place, and may say otherwise later. It is said of no file, and ends none.
extension StepFailure {
  /// What the answer means; nil for statuses that mean the same from a proxy as from the server. `said` names the address and the
  /// status, without a full stop.
  static func unmarked(_ response: HTTPResponse, _ said: String) -> StepFailure? {
    guard response.isExplainedByItsMarkAlone else { return nil }
    return StepFailure(
      .serverError,
      "\(said), or something in its place did: the answer lacks the mark of the protocol. It is asked again; check --to, the "
        + "credentials, and what lies between.", retryAfter: RetryAfter.duration(of: response))
  }
}

extension HTTPResponse {
  /// The status alone does not tell which server or proxy has said it, nor for which reason.
  var isExplainedByItsMarkAlone: Bool {
    switch status {
    // About the credentials, a conflict, a condition, the length of a request, or when to come again.
    case 401, 407, 408, 409, 412, 413, 423, 425, 429: false
    // That of a checksum is of tus alone.
    case 460: false
    case 200..<300, 400..<500: true
    default: false
    }
  }
}
