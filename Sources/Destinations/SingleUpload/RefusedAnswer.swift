import UploadEngine

/// What a refusal means wherever uploads are appended to; what is a protocol's own is looked at before.
struct RefusedAnswer {
  /// Who answered, as in “The tus server at …”.
  let server: String
  let response: HTTPResponse

  /// What it said, without an end.
  var said: String { "\(server) answered \(response.status)\(ServerWords(response).quoted)" }
  var retryAfter: Duration? { RetryAfter.duration(of: response) }

  /// What went wrong, for decisions and for people.
  var failure: StepFailure {
    if let page = StepFailure.page(response, at: server) { return page }
    if let common = CommonStatus(response.status) { return common.failure(response, said) }
    switch response.status {
    case 404, 410, 405:
      return StepFailure(.badRequest, "\(said): no uploads are taken at this address; check --to, and its last slash.")
    case 409: return StepFailure(.conflict, "\(said): it holds another part of the file.", retryAfter: retryAfter)
    case 423: return StepFailure(.conflict, "\(said): another request holds the upload.", retryAfter: retryAfter)
    // Servers answer 500 for a lock that they did not get, and for a connection that broke: nothing else is to wait.
    case 500...599: return StepFailure(.unexpectedAnswer, "\(said).", retryAfter: retryAfter)
    case 400..<500: return StepFailure(.badRequest, "\(said).")
    default: return StepFailure(.unexpectedAnswer, "\(said), which is not expected.")
    }
  }

  /// What went wrong with a question for what the server can do, of which nothing is known yet.
  var failureOfDiscovery: StepFailure? {
    guard [404, 405, 410].contains(response.status) else { return nil }
    var failure = failure
    if failure.kind == .badRequest { failure.kind = .addressRefused }
    return failure
  }

  /// What went wrong with the creation of an upload, at an address of which the server has said that uploads are taken there:
  /// that nothing is there now is said by something in between, or for a moment.
  var failureOfCreation: StepFailure? {
    guard [404, 405, 410].contains(response.status), StepFailure.page(response, at: server) == nil else { return nil }
    return StepFailure(
      .unexpectedAnswer,
      "\(said), and has said before that it takes uploads at this address; it is asked again. Check what lies between.",
      retryAfter: retryAfter)
  }

  /// 413; the limit where it is known.
  func tooLarge(limitBytes: UInt64?) -> StepFailure {
    StepFailure(
      .tooLarge(limitBytes: limitBytes),
      "\(said): the file, or one request, is larger than it takes; a smaller --chunk-size may help.")
  }

  /// 413 of something that knows nothing of the file: shorter requests may pass.
  var requestTooLarge: StepFailure {
    StepFailure(
      .requestTooLarge,
      "\(said), and does not say that it is the file: a request is longer than it, or a proxy before it, takes. Raise the "
        + "limit there; it is usually one of: \(RequestLimitAdvice.settings).")
  }
}
