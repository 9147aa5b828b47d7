import TransferModel

/// What a response of a tus server says of a failure. An upload that is gone is looked for before this is asked.
struct TusAnswer {
  let response: HTTPResponse
  let address: String

  var isSuccess: Bool { (200..<300).contains(response.status) && !response.isForeignPage }
  /// A success with the protocol's own header or offset: one without either may be of something in between.
  var isAttestedSuccess: Bool { isSuccess && (isOfServer || offset != nil) }
  /// How far the upload goes.
  var offset: UInt64? { response.header("upload-offset").flatMap { UInt64($0) } }
  /// The server itself says that the upload is not there. 403 as well: some servers do not tell what is not there from what is
  /// not ours. An answer without the protocol's own header comes from a proxy in between, and may be another one later.
  var isGone: Bool { saysNotThere && isOfServer }
  private var saysNotThere: Bool { [403, 404, 410].contains(response.status) && !response.isForeignPage }
  /// The server itself does not understand the request.
  var isNotUnderstood: Bool { response.status == 400 && isOfServer && !response.isForeignPage }
  /// It has the protocol's own header.
  var isOfServer: Bool { response.header("tus-resumable") != nil }
  /// It says that an upload is not there, and not by whom that is said.
  var isUnattested: Bool { [404, 410].contains(response.status) && saysNotThere && !isOfServer }
  /// The same as the server's own word.
  var attested: HTTPResponse {
    var response = response
    response.headers.append(HTTPHeader("tus-resumable", TusDestination.version))
    return response
  }

  private var refused: RefusedAnswer {
    RefusedAnswer(server: "The tus server at \(address)", response: response, isOfServer: isOfServer)
  }

  /// What a success means that does not say how far an upload goes, where that was asked.
  var failureWithoutOffset: StepFailure {
    guard isOfServer else { return refused.failure }
    return StepFailure(.unexpectedAnswer, "The tus server at \(address) does not say how far an upload goes.")
  }

  /// What went wrong with the creation of an upload, which the server has said that it takes.
  func failureOfCreation(limitBytes: UInt64?) -> StepFailure {
    refused.failureOfCreation ?? failure(limitBytes: limitBytes)
  }

  /// What went wrong with the question for what the server can do, of which nothing is known yet.
  func failureOfDiscovery() -> StepFailure {
    refused.failureOfDiscovery ?? failure()
  }

  /// What went wrong, for decisions and for people.
  func failure(limitBytes: UInt64? = nil) -> StepFailure {
    switch response.status {
    case 412:
      return StepFailure(.badRequest, "\(refused.said): it does not speak tus \(TusDestination.version).")
    case 413 where !isOfServer: return refused.requestTooLarge
    case 413:
      return refused.tooLarge(limitBytes: response.header("tus-max-size").flatMap { UInt64($0) } ?? limitBytes)
    case 460: return StepFailure(.digestMismatch, "\(refused.said): the bytes were damaged on the way.")
    default: return refused.failure
    }
  }
}
