import ChunkProtocol
import TransferModel

/// An answer that is no success: its problem document, where there is one, and what follows from it.
///
/// The problem's type decides, because it tells apart what one status does not. An answer without one of the protocol comes from
/// something between the two sides: only a status that means the same of all decides then.
struct ChunkProtocolAnswer {
  let status: Int
  let problem: Problem?
  private let endpoint: EndpointURL
  private let response: HTTPResponse
  /// What it means where it is a page in the receiver's place.
  private let page: StepFailure?
  /// Nothing was sent that says who uploads.
  private let isAnonymous: Bool

  init(_ response: HTTPResponse, endpoint: EndpointURL, isAnonymous: Bool = false) {
    self.isAnonymous = isAnonymous
    status = response.status
    self.endpoint = endpoint
    self.response = response
    page = .page(response, at: "the receiver at \(endpoint.text)")
    problem =
      response.body.count <= ProtocolLimits.jsonBodyBytesMax
      ? try? WireJSON.decode(Problem.self, from: response.body) : nil
  }

  private var retryAfter: Duration? { RetryAfter.duration(of: response) }

  /// The type, as far as it belongs to a failure at all.
  var type: ProblemType? { (400..<600).contains(status) ? problem?.knownType : nil }

  func failure(of step: DestinationStep) -> StepFailure {
    guard let type else { return page ?? failureByStatus(step) }
    let failure = failure(type, step)
    return StepFailure(failure.kind, failure.message, retryAfter: retryAfter)
  }

  private func failure(_ type: ProblemType, _ step: DestinationStep) -> StepFailure {
    switch type {
    case .unauthorized where isAnonymous:
      StepFailure(
        .unauthorized,
        "The receiver at \(endpoint.text) wants a token, and none was given. Give it with --token-file or --token-command."
      )
    case .unauthorized:
      StepFailure(
        .unauthorized,
        "The receiver at \(endpoint.text) refused the token. Check --token-file or --token-command. A file that was put right is "
          + "read again with the next request; what has failed goes on with “uploadfs-mount retry”.")
    case .forbidden:
      StepFailure(
        .forbidden, "The receiver at \(endpoint.text) does not allow this token to do this\(because). Ask its operator."
      )
    case .notFound, .sessionExpired: gone(step)
    case .sessionDamaged: damaged(step)
    case .badRequest where problem?.field == HeaderName.chunkEncoding:
      StepFailure(
        .encodingRefused,
        "The receiver at \(endpoint.text) does not decode what it said it would\(because). It may be an older one now; the bytes are sent "
          + "in another way.")
    case .methodNotAllowed, .badRequest, .idempotencyMismatch:
      StepFailure(
        .badRequest,
        "The receiver at \(endpoint.text) does not understand the request\(because). Do both sides have the same version?"
      )
    case .timeout:
      StepFailure(
        .transport(.timedOut), "The receiver at \(endpoint.text) waited in vain for the rest of the request.")
    case .conflict: isStillRunning(step) ? stillRunning : conflict
    case .incomplete: conflict
    case .exists:
      StepFailure(
        .nameRefused,
        "The receiver at \(endpoint.text) has a file of this name, and does not replace it\(because). Rename the file, and it is "
          + "tried again."
      )
    case .tooLarge: tooLarge(step)
    case .digestMismatch:
      StepFailure(
        .digestMismatch,
        "The bytes that reached the receiver at \(endpoint.text) are not those that were sent; they were damaged on the way."
      )
    case .tagMismatch:
      StepFailure(
        .tagMismatch,
        "The receiver at \(endpoint.text) found a wrong tag: something on the way changes the data, or both sides hold "
          + "different tokens. Check --token-file or --token-command, and what lies between.")
    case .nameRefused:
      StepFailure(
        .nameRefused,
        "The receiver at \(endpoint.text) does not accept the name\(because). Rename the file, and it is tried again.")
    case .tooEarly: StepFailure(.tooEarly, "The receiver at \(endpoint.text) wants the request again.")
    case .busy: busy
    case .insufficientStorage:
      StepFailure(
        .insufficientStorage,
        "The disk of the receiver at \(endpoint.text) is full. Make room there; the upload goes on by itself.")
    case .quotaExceeded:
      StepFailure(
        .insufficientStorage,
        "The quota at \(endpoint.text) is used up. Make room or ask for more; the upload goes on by itself.")
    case .internalError: serverError
    }
  }

  /// A problem of the protocol, if not one of those that are known here. What only opens a connection has no body to say it in.
  private func isOfReceiver(_ step: DestinationStep) -> Bool {
    if case .prewarm = step { return true }
    return problem?.type.hasPrefix(Self.problemTypes) == true
  }

  private static let problemTypes = "urn:uploadfs:problem:"

  private func failureByStatus(_ step: DestinationStep) -> StepFailure {
    if (400..<500).contains(status), !isOfReceiver(step),
      let unmarked = StepFailure.unmarked(
        response, "The receiver at \(endpoint.text) answered \(status)\(ServerErrorText(response).quoted)")
    {
      return unmarked
    }
    if let common = CommonStatus(status) {
      return common.failure(
        response, "The server at \(endpoint.text) answered \(status)", own: ownWords(for: common, step))
    }
    let failure =
      switch status {
      case 404, 410: notThere(step)
      case 409: conflict
      case 413: tooLarge(step)
      case 400, 405, 411, 414, 415, 422, 431: self.failure(.badRequest, step)
      case 500..<600: serverError
      default:
        StepFailure(
          .unexpectedAnswer,
          "The server at \(endpoint.text) gave an answer that does not belong to the request (\(status))."
            + " Check that an uploadfs receiver answers there.")
      }
    return StepFailure(failure.kind, failure.message, retryAfter: retryAfter)
  }

  private func ownWords(for common: CommonStatus, _ step: DestinationStep) -> String? {
    switch common {
    case .unauthorized: failure(.unauthorized, step).message
    case .forbidden: failure(.forbidden, step).message
    case .leadsElsewhere, .proxyWantsPassword, .gateway, .networkWantsLogin: nil
    case .timedOut: failure(.timeout, step).message
    case .tooEarly: failure(.tooEarly, step).message
    case .busy: busy.message
    case .full: failure(.insufficientStorage, step).message
    }
  }

  private var conflict: StepFailure {
    StepFailure(
      .conflict, "The receiver at \(endpoint.text) cannot do this at the moment\(because); it is tried again.")
  }

  /// A file in one request that the receiver is still busy with, for a request whose answer did not come: it is told when to ask
  /// again, which is no try that has failed.
  private func isStillRunning(_ step: DestinationStep) -> Bool {
    switch step {
    case .wholeFile, .bundle: retryAfter != nil
    case .prewarm, .openSession, .querySession, .secureSession, .chunk, .run, .zeros, .commit, .abort: false
    }
  }

  /// Said of one file: others go on.
  private var stillRunning: StepFailure {
    StepFailure(
      .tooEarly,
      "The receiver at \(endpoint.text) is still busy with an earlier request for this file (\(status)); it is asked again."
    )
  }

  private var busy: StepFailure {
    StepFailure(
      .busy, "The receiver at \(endpoint.text)\(orProxy) is busy (\(status)); it is asked again later.")
  }

  private var serverError: StepFailure {
    StepFailure(
      .serverError,
      "The receiver at \(endpoint.text)\(orProxy) failed (\(status)); the log there says why. It is tried again.")
  }

  /// HAProxy answers 503, and Apache 500, where they do not reach the receiver.
  private var orProxy: String { problem?.knownType == nil ? ", or a proxy that does not reach it," : "" }

  /// A session that is gone is opened again; where there is no session yet, the address is wrong.
  private func gone(_ step: DestinationStep) -> StepFailure {
    switch step {
    case .prewarm, .openSession, .wholeFile, .bundle:
      StepFailure(
        .unexpectedAnswer, "There is no uploadfs receiver at \(endpoint.text) (\(status)). Check the address.")
    case .querySession, .secureSession, .chunk, .run, .zeros, .commit, .abort:
      StepFailure(
        .sessionGone, "The upload session at \(endpoint.text) has ended; the file is sent again in a new one.")
    }
  }

  /// The receiver keeps what it has of it, and takes nothing more into it.
  private func damaged(_ step: DestinationStep) -> StepFailure {
    switch step {
    case .prewarm, .openSession, .wholeFile, .bundle: serverError
    case .querySession, .secureSession, .chunk, .run, .zeros, .commit, .abort:
      StepFailure(
        .sessionDamaged,
        "The upload session at \(endpoint.text) was damaged there; its log says how. The file is sent again in a new one."
      )
    }
  }

  /// An answer without a known type does not tell whether the session is gone, and the session may hold the only copy.
  private func notThere(_ step: DestinationStep) -> StepFailure {
    switch step {
    case .prewarm, .openSession, .wholeFile, .bundle: gone(step)
    case .querySession, .secureSession, .chunk, .run, .zeros, .commit, .abort:
      StepFailure(
        .unexpectedAnswer,
        "The receiver at \(endpoint.text) answered \(status)\(because); it is asked again. Do both sides have the same version?"
      )
    }
  }

  private func tooLarge(_ step: DestinationStep) -> StepFailure {
    let thing =
      switch step {
      case .chunk, .run, .zeros: "The chunk or the file"
      default: "The file"
      }
    guard problem?.knownType != nil else {
      return StepFailure(
        .requestTooLarge,
        "A request is longer than something before the receiver at \(endpoint.text) takes (413). Raise the limit there; it is "
          + "usually one of: \(RequestLimitAdvice.settings).")
    }
    guard let limit = problem?.limit else {
      return StepFailure(
        .tooLarge(limitBytes: nil),
        "\(thing) is larger than \(endpoint.text) takes (413). A proxy in front of the receiver may have a limit of its own."
      )
    }
    return StepFailure(
      .tooLarge(limitBytes: limit),
      "\(thing) is larger than the receiver at \(endpoint.text) takes: its limit is \(limit) bytes.")
  }

  /// The receiver's own words, short and without anything that could disturb a terminal or a log.
  private var because: String {
    guard let problem, problem.knownType != nil, let detail = problem.detail, !detail.isEmpty else {
      return " (\(status))"
    }
    let field = problem.field.map { PrintableText.beginning(of: $0) + ": " } ?? ""
    return " (\(status), \(field)\(PrintableText.beginning(of: detail)))"
  }
}
