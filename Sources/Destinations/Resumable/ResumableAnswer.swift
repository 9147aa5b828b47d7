import ChunkProtocol
import TransferModel

/// What a response says of an upload.
struct ResumableAnswer {
  /// What the draft has names for (RFC 9457, `type`).
  enum Problem: String, CaseIterable {
    case mismatchingOffset = "mismatching-upload-offset"
    case completed = "completed-upload"
    case inconsistentLength = "inconsistent-upload-length"
    /// Of draft-ietf-httpapi-digest-fields-problem-types: the bytes are others than those whose digest came with them.
    case mismatchingDigest = "digest-mismatching-value"
  }

  let response: HTTPResponse
  let server: String

  var isSuccess: Bool { (200..<300).contains(response.status) && !response.isForeignPage }
  /// How far the upload goes.
  var offset: UInt64? { response.structuredNumber("upload-offset") }
  /// Whether the upload is complete; nil when it does not say.
  var isComplete: Bool? { response.structuredFlag("upload-complete") }
  /// It says that the upload is complete, and that it is not as long as it is to be: nothing is known then. Where it does not say how
  /// far the upload goes, that is `end`.
  func contradictsItself(lengthBytes: UInt64, end: UInt64? = nil) -> Bool {
    guard isComplete == true else { return false }
    if let length = response.structuredNumber("upload-length"), length != lengthBytes { return true }
    return (offset ?? end).map { $0 != lengthBytes } ?? false
  }
  var limits: ResumableLimits? { ResumableLimits(response) }
  /// The server itself says that the upload is not there.
  var isGone: Bool { saysNotThere && isOfServer }
  /// It says that an upload is not there, and not by whom that is said.
  var isUnattested: Bool { saysNotThere && !isOfServer }
  var saysNotThere: Bool { [404, 410].contains(response.status) && !response.isForeignPage }
  /// It has a field of the draft, or is a problem document, by which the draft's servers refuse.
  var isOfServer: Bool {
    isProblemDocument || Self.marks.contains { response.header($0) != nil }
  }
  /// The same as the server's own word.
  var attested: HTTPResponse {
    var response = response
    response.headers.append(HTTPHeader(Self.versionField, "\(ResumableDestination.interopVersion)"))
    return response
  }
  private var isProblemDocument: Bool {
    response.header("content-type")?.hasPrefix("application/problem+json") == true
  }

  private static let versionField = "upload-draft-interop-version"
  private static let marks = [versionField, "upload-offset", "upload-complete", "upload-limit"]

  var problem: Problem? {
    guard isProblemDocument,
      response.body.count <= Self.problemBytesMax,
      case .string(let type)? = JSONReader.value(of: response.body)?["type"],
      type.hasPrefix(Self.problemTypes)
    else { return nil }
    return Problem(rawValue: String(type.dropFirst(Self.problemTypes.count)))
  }

  private static let problemTypes = "https://iana.org/assignments/http-problem-types#"
  private static let problemBytesMax = 16 << 10

  /// The upload is not as a request took it to be: how it is can be asked.
  var isOfAnotherState: Bool { response.status == 409 || problem.map { $0 != .mismatchingDigest } ?? false }

  /// The answer is about what was made of the whole file, and is none that an upload goes on after.
  var refusesContent: Bool { !isSuccess && isComplete == true && !isOfAnotherState }

  /// What a success means that does not say how far an upload goes, where that was asked.
  var failureWithoutOffset: StepFailure {
    isOfServer ? StepFailure(.unexpectedAnswer, "\(server) does not say how far an upload goes.") : refused.failure
  }

  /// What went wrong with the creation of an upload, which the server has said that it takes.
  func failureOfCreation(limitBytes: UInt64?) -> StepFailure {
    refused.failureOfCreation ?? failure(limitBytes: limitBytes)
  }

  /// What went wrong with the question for what the server takes, of which nothing is known yet.
  func failureOfDiscovery() -> StepFailure {
    refused.failureOfDiscovery ?? failure()
  }

  private var refused: RefusedAnswer { RefusedAnswer(server: server, response: response, isOfServer: isOfServer) }

  /// What went wrong, for decisions and for people.
  func failure(limitBytes: UInt64? = nil) -> StepFailure {
    if refusesContent {
      return StepFailure(
        .badRequest,
        "\(refused.said): it has all of the file, and did not take it. Its log says more; then use `uploadfs-mount retry`."
      )
    }
    if problem == .mismatchingDigest {
      return StepFailure(.digestMismatch, "\(refused.said): the bytes were damaged on the way.")
    }
    guard response.status == 413 else { return refused.failure }
    guard limits != nil || isProblemDocument else { return refused.requestTooLarge }
    return refused.tooLarge(limitBytes: limits?.sizeBytesMax ?? limitBytes)
  }
}
