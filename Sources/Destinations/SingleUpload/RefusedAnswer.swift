import TransferModel

/// What a refusal means wherever uploads are appended to; what is a protocol's own is checked before.
struct RefusedAnswer {
  /// Who answered, as in “The tus server at …”.
  let server: String
  let response: HTTPResponse
  /// It has the mark of the protocol.
  let isOfServer: Bool

  /// What it said, without an end.
  var said: String { "\(server) answered \(response.status)\(ServerErrorText(response).quoted)" }
  var retryAfter: Duration? { RetryAfter.duration(of: response) }

  /// What went wrong, for decisions and for people.
  var failure: StepFailure {
    if let page = StepFailure.page(response, at: server) { return page }
    if !isOfServer, let unmarked = StepFailure.unmarked(response, said) { return unmarked }
    if let common = CommonStatus(response.status) { return common.failure(response, said) }
    switch response.status {
    case 404, 410, 405: return StepFailure(.badRequest, takesNoUploads)
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
    guard [404, 405, 410].contains(response.status), StepFailure.page(response, at: server) == nil else { return nil }
    return StepFailure(.addressRefused, takesNoUploads, retryAfter: retryAfter)
  }

  private var takesNoUploads: String {
    "\(said): no uploads are taken at this address; check --to, and its last slash."
  }

  /// What went wrong with the creation of an upload, where the server itself says that nothing is there now, and has said before
  /// that it takes uploads at this address: that may pass.
  var failureOfCreation: StepFailure? {
    guard isOfServer, [404, 405, 410].contains(response.status), StepFailure.page(response, at: server) == nil else {
      return nil
    }
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

extension HTTPResponse {
  /// True when a refused DELETE of an upload is final: it is not sent again, and the upload counts as ended here.
  ///
  /// 405 and 501 mean that uploads cannot be deleted at this address; the upload stays at the server until it expires. They
  /// count from a proxy as well, which would refuse the next DELETE likewise, but not from a web page. Any other 4xx counts
  /// only with the mark of the protocol (`isOfServer`), because a proxy does not know the upload. Never final are
  /// credentials that can be renewed (401, 407), another request that holds the upload (409, 423), and answers that ask for
  /// another attempt (408, 425, 429).
  func refusesForGood(toEndAsServer isOfServer: Bool) -> Bool {
    if status == 405 || status == 501 { return !isForeignPage }
    return isOfServer && (400..<500).contains(status) && ![401, 407, 408, 409, 423, 425, 429].contains(status)
  }
}
