import ChunkProtocol
import UploadEngine

/// What a response says of an upload.
struct ResumableAnswer {
  /// What the draft has names for (RFC 9457, `type`).
  enum Problem: String, CaseIterable {
    case mismatchingOffset = "mismatching-upload-offset"
    case completed = "completed-upload"
    case inconsistentLength = "inconsistent-upload-length"
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
  var isGone: Bool { [404, 410].contains(response.status) }

  /// The problem that it names.
  var problem: Problem? {
    guard response.header("content-type")?.hasPrefix("application/problem+json") == true,
      response.body.count <= Self.problemBytesMax,
      case .string(let type)? = (try? WireJSON.decode(JSONValue.self, from: response.body))?["type"],
      type.hasPrefix(Self.problemTypes)
    else { return nil }
    return Problem(rawValue: String(type.dropFirst(Self.problemTypes.count)))
  }

  private static let problemTypes = "https://iana.org/assignments/http-problem-types#"
  private static let problemBytesMax = 16 << 10

  /// The upload is not as a request took it to be: how it is can be asked.
  var isOfAnotherState: Bool { response.status == 409 || problem != nil }

  /// The answer is about what was made of the whole file, and is none that an upload goes on after.
  var refusesContent: Bool { !isSuccess && isComplete == true && !isOfAnotherState }

  /// What went wrong with the creation of an upload, which the server has said that it takes.
  func failureOfCreation(limitBytes: UInt64?) -> StepFailure {
    RefusedAnswer(server: server, response: response).failureOfCreation ?? failure(limitBytes: limitBytes)
  }

  /// What went wrong with the question for what the server takes, of which nothing is known yet.
  func failureOfDiscovery() -> StepFailure {
    RefusedAnswer(server: server, response: response).failureOfDiscovery ?? failure()
  }

  /// What went wrong, for decisions and for people.
  func failure(limitBytes: UInt64? = nil) -> StepFailure {
    let refused = RefusedAnswer(server: server, response: response)
    if refusesContent {
      return StepFailure(
        .badRequest,
        "\(refused.said): it has all of the file, and did not take it. Its log says more; then use `uploadfs-mount retry`."
      )
    }
    guard response.status == 413 else { return refused.failure }
    let isOfServer = limits != nil || response.header("content-type")?.hasPrefix("application/problem+json") == true
    guard isOfServer else { return refused.requestTooLarge }
    return refused.tooLarge(limitBytes: limits?.sizeBytesMax ?? limitBytes)
  }
}
