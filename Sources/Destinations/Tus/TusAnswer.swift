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

  private static let messageBytesMax = 200

  /// What went wrong, for decisions and for people.
  func failure(limitBytes: UInt64? = nil) -> StepFailure {
    let said = "The tus server at \(address) answered \(response.status)\(message)"
    let retryAfter = RetryAfter.duration(of: response)
    switch response.status {
    case 401: return StepFailure(.unauthorized, "\(said): check the token.")
    case 403: return StepFailure(.forbidden, "\(said): the token may not do this.")
    case 404, 410, 405:
      return StepFailure(.badRequest, "\(said): no uploads are taken at this address; check --to, and its last slash.")
    case 408: return StepFailure(.transport(.timedOut), "\(said).", retryAfter: retryAfter)
    case 409: return StepFailure(.conflict, "\(said): it holds another part of the file.", retryAfter: retryAfter)
    case 412:
      return StepFailure(.badRequest, "\(said): it does not speak tus \(TusDestination.version).")
    case 413:
      let limit = response.header("tus-max-size").flatMap { UInt64($0) } ?? limitBytes
      return StepFailure(
        .tooLarge(limitBytes: limit),
        "\(said): the file, or one request, is larger than it takes; a smaller --chunk-size may help.")
    case 423: return StepFailure(.conflict, "\(said): another request holds the upload.", retryAfter: retryAfter)
    case 425: return StepFailure(.tooEarly, "\(said).")
    case 429, 503: return StepFailure(.busy, "\(said): it asks for a pause.", retryAfter: retryAfter)
    case 460: return StepFailure(.digestMismatch, "\(said): the bytes were damaged on the way.")
    case 502, 504:
      return StepFailure(.serverError, "\(said): what is behind it does not answer.", retryAfter: retryAfter)
    case 507: return StepFailure(.insufficientStorage, "\(said): its storage is full.", retryAfter: retryAfter)
    // Servers answer 500 for a lock that they did not get, and for a connection that broke: nothing else is to wait.
    case 500...599: return StepFailure(.unexpectedAnswer, "\(said).", retryAfter: retryAfter)
    case 400..<500: return StepFailure(.badRequest, "\(said).")
    default: return StepFailure(.unexpectedAnswer, "\(said), which is not expected.")
    }
  }

  /// The first words of a body that is text; nothing of it may move a terminal's cursor.
  private var message: String {
    guard let type = response.header("content-type"),
      type.hasPrefix("text/plain") || type.hasPrefix("application/json"),
      !response.body.isEmpty
    else { return "" }
    let text = String(decoding: response.body.prefix(Self.messageBytesMax), as: UTF8.self)
    let clean = String(text.unicodeScalars.map { $0.value >= 0x20 && $0.value != 0x7f ? Character($0) : " " })
    return " (“\(clean)”)"
  }
}
