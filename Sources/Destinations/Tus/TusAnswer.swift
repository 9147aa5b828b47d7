import UploadEngine

/// What a response of a tus server says of a failure. An upload that is gone is looked for before this is asked.
struct TusAnswer {
  let response: HTTPResponse
  let address: String

  var isSuccess: Bool { (200..<300).contains(response.status) }
  /// How far the upload goes.
  var offset: UInt64? { response.header("upload-offset").flatMap { UInt64($0) } }
  /// 403 as well: some servers do not tell what is not there from what is not ours.
  var isGone: Bool { [403, 404, 410].contains(response.status) }

  /// What went wrong, for decisions and for people.
  func failure(limitBytes: UInt64? = nil) -> StepFailure {
    let refused = RefusedAnswer(server: "The tus server at \(address)", response: response)
    switch response.status {
    case 412:
      return StepFailure(.badRequest, "\(refused.said): it does not speak tus \(TusDestination.version).")
    case 413:
      return refused.tooLarge(limitBytes: response.header("tus-max-size").flatMap { UInt64($0) } ?? limitBytes)
    case 460: return StepFailure(.digestMismatch, "\(refused.said): the bytes were damaged on the way.")
    default: return refused.failure
    }
  }
}
