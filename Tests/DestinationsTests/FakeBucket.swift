import ChunkProtocol
import FileModel
import Integrity
import TransferModel

@testable import Destinations

/// A bucket of which every request is noted, and which refuses what S3 has no meaning for.
final class FakeBucket {
  struct Object: Equatable {
    var bytes: Int
    var tag: String
    var facts: [HTTPHeader]
  }

  /// What becomes of a condition.
  enum Conditions {
    case kept
    case ignored
    case refused
    /// Ceph 16.
    case ignoredAtCompletion
  }

  var objects: [String: Object] = [:]
  /// Methods and keys, a condition before them.
  private(set) var requests: [String] = []
  /// What objects said of themselves that were replaced, and those in their place.
  private(set) var replacements: [(former: [HTTPHeader], latter: [HTTPHeader])] = []
  var conditions = Conditions.kept
  var mayLook = true
  /// What else happens once the next request has been answered.
  var meanwhile: (() -> Void)?
  private var uploads: [String: (key: String, facts: [HTTPHeader])] = [:]
  private var count = 0

  func put(_ key: String, bytes: Int = 3, facts: [HTTPHeader] = []) {
    count += 1
    if let former = objects[key] { replacements.append((former.facts, facts)) }
    objects[key] = Object(bytes: bytes, tag: "\"t\(count)\"", facts: facts)
  }

  /// Does a step as the engine does.
  /// `answersMax` requests are answered, and the next one does not reach it.
  func run(
    _ step: DestinationStep, at destination: S3Destination, losesAnswer: Bool = false, answersMax: Int = 200
  ) -> StepOutcome {
    requests = []
    var responses = [answer(destination.request(for: step))]
    while responses.count < 200, let next = destination.followUp(of: step, after: responses, at: .first) {
      guard responses.count < answersMax else {
        return destination.outcome(of: step, lost: TransportError(.connectFailed, "lost"), after: responses)
      }
      responses.append(answer(next))
    }
    guard !losesAnswer else { return destination.outcome(of: step, lost: TransportError(.connectionLost, "lost")) }
    return destination.outcome(of: step, responses: responses)
  }

  private func answer(_ request: HTTPRequest) -> HTTPResponse {
    defer {
      let next = meanwhile
      meanwhile = nil
      next?()
    }
    let target = request.url.split(separator: "/captures/", maxSplits: 1)[1]
    let parts = target.split(separator: "?", maxSplits: 1)
    let key = PercentCoding.decode(parts[0]) ?? ""
    let query = parts.count > 1 ? String(parts[1]) : ""
    let condition = ["if-none-match", "if-match"].first { request.header($0) != nil }
    requests.append([condition.map { "\($0) " } ?? "", request.method.rawValue, " ", key].joined())
    switch (request.method, query) {
    case (.head, ""): return look(key)
    case (.put, ""): return refusal(of: key, request, isCompletion: false) ?? published(key, request, facts(request))
    case (.post, "uploads="):
      guard condition == nil else { return S3Fixture.error(400, "InvalidRequest") }
      count += 1
      uploads["u\(count)"] = (key, facts(request))
      return Fixture.answer(
        200, text: "<InitiateMultipartUploadResult><UploadId>u\(count)</UploadId></InitiateMultipartUploadResult>")
    case (.post, _) where query.hasPrefix("uploadId="):
      guard let upload = uploads[String(query.dropFirst(9))], upload.key == key else {
        return S3Fixture.error(404, "NoSuchUpload")
      }
      if let refusal = refusal(of: key, request, isCompletion: true) { return refusal }
      uploads[String(query.dropFirst(9))] = nil
      put(key, bytes: 10_000_000, facts: upload.facts)
      return Fixture.answer(
        200,
        text: "<CompleteMultipartUploadResult><ETag>\(objects[key]?.tag ?? "")</ETag></CompleteMultipartUploadResult>")
    default:
      return S3Fixture.error(405, "MethodNotAllowed")
    }
  }

  private func look(_ key: String) -> HTTPResponse {
    guard mayLook else { return Fixture.answer(403) }
    guard let object = objects[key] else { return Fixture.answer(404) }
    return Fixture.answer(
      200, headers: [HTTPHeader("etag", object.tag), HTTPHeader("content-length", "\(object.bytes)")] + object.facts)
  }

  private func published(_ key: String, _ request: HTTPRequest, _ facts: [HTTPHeader]) -> HTTPResponse {
    put(key, bytes: request.content.count, facts: facts)
    return Fixture.answer(200, headers: [HTTPHeader("etag", objects[key]?.tag ?? "")])
  }

  private func refusal(of key: String, _ request: HTTPRequest, isCompletion: Bool) -> HTTPResponse? {
    let (free, tag) = (request.header("if-none-match"), request.header("if-match"))
    guard free != nil || tag != nil else { return nil }
    switch conditions {
    case .refused: return S3Fixture.error(501, "NotImplemented")
    case .ignored: return nil
    case .ignoredAtCompletion where isCompletion: return nil
    case .kept, .ignoredAtCompletion: break
    }
    guard free == nil || free == "*" else { return S3Fixture.error(400, "InvalidArgument") }
    if free != nil { return objects[key] == nil ? nil : S3Fixture.error(412, "PreconditionFailed") }
    guard let object = objects[key] else { return S3Fixture.error(404, "NoSuchKey") }
    return object.tag == tag ? nil : S3Fixture.error(412, "PreconditionFailed")
  }

  private func facts(_ request: HTTPRequest) -> [HTTPHeader] {
    request.headers.filter { $0.name.hasPrefix("x-amz-meta-uploadfs-") }
  }
}

extension EarlierPublication {
  /// As the engine notes it.
  static func of(_ sending: WholeFileSending) -> Self {
    Self(
      fileID: sending.fileID, merkleRoot: Hex.encode(sending.proof.merkleRoot),
      sizeBytes: UInt64(clamping: sending.plainBytes), chunkBytes: nil, nonce: sending.nonce)
  }

  static func of(_ commit: SessionCommit) -> Self {
    Self(
      fileID: commit.fileID ?? Fixture.fileID, merkleRoot: Hex.encode(commit.merkleRoot), sizeBytes: commit.sizeBytes,
      chunkBytes: nil, nonce: commit.session.nonce)
  }
}
