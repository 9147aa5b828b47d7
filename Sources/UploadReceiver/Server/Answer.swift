import ChunkProtocol
import HTTPTypes
import HummingbirdCore
import Integrity
import NIOCore

/// A response, before it is HTTP.
struct Answer: Sendable {
  var status: Int
  var contentType: String?
  var body: [UInt8] = []
  var retryAfterSeconds: Int?
  /// The methods that exist here, for an answer that another one does not.
  var allow: String?

  static let noContent = Answer(status: 204)

  static func json(_ value: some Encodable, status: Int = 200) -> Answer {
    Answer(status: status, contentType: MediaType.json, body: WireJSON.encode(value))
  }

  static func problem(_ problem: Problem, retryAfterSeconds: Int? = nil) -> Answer {
    Answer(
      status: problem.status ?? 500, contentType: MediaType.problem, body: WireJSON.encode(problem),
      retryAfterSeconds: retryAfterSeconds)
  }

  static func refused(_ refusal: Refusal) -> Answer {
    .problem(Problem(refusal), retryAfterSeconds: refusal.retryAfterSeconds)
  }

  static func receipt(_ receipt: ReceiptFacts, status: Int) -> Answer {
    .json(ReceiptBody(receipt), status: status)
  }

  /// The head; a response to HEAD has the same, and no body.
  var head: HTTPResponse {
    var fields = HTTPFields()
    if let contentType { fields[.contentType] = contentType }
    if let retryAfterSeconds { fields[.retryAfter] = String(retryAfterSeconds) }
    if let allow { fields[.allow] = allow }
    if status == 401 { fields[.wwwAuthenticate] = "Bearer" }
    if status != 204 { fields[.contentLength] = String(body.count) }
    fields[.cacheControl] = "no-store"
    return HTTPResponse(status: .init(code: status), headerFields: fields)
  }

  var responseBody: ResponseBody {
    body.isEmpty ? ResponseBody() : ResponseBody(byteBuffer: ByteBuffer(bytes: body))
  }
}

extension Refusal {
  /// When to come back, for those that may.
  var retryAfterSeconds: Int? {
    switch kind {
    case .busy, .underWay: 1
    case .tooManySessions: 30
    default: nil
    }
  }
}

extension Problem {
  /// The refusal as the client sees it.
  init(_ refusal: Refusal) {
    let detail = refusal.detail
    switch refusal.kind {
    case .badRequest(let field): self.init(.badRequest, detail: detail, field: field)
    case .unsupportedCoding:
      self.init(.badRequest, detail: detail, status: 415, field: HeaderName.chunkEncoding)
    case .sessionGone: self.init(.notFound, detail: detail)
    case .conflict, .underWay: self.init(.conflict, detail: detail)
    case .incomplete(let missing):
      self.init(
        .incomplete, detail: detail, missing: missing.prefix(ProtocolLimits.missingIndicesMax).map { Int($0) })
    case .nameExists: self.init(.exists, detail: detail)
    case .idempotencyMismatch: self.init(.idempotencyMismatch, detail: detail, field: HeaderName.idempotencyKey)
    case .tooLarge(let limit): self.init(.tooLarge, detail: detail, limit: limit)
    case .digestMismatch(let field): self.init(.digestMismatch, detail: detail, field: field)
    case .tagMismatch: self.init(.tagMismatch, detail: detail, field: HeaderName.chunkHMAC)
    case .nameRefused: self.init(.nameRefused, detail: detail, field: "name")
    case .bodyTimeout: self.init(.timeout, detail: detail)
    case .busy: self.init(.busy, detail: detail)
    case .tooManySessions: self.init(.busy, detail: detail, status: 429)
    case .insufficientStorage: self.init(.insufficientStorage, detail: detail)
    case .quotaExceeded: self.init(.quotaExceeded, detail: detail)
    case .storeFailed: self.init(.internalError, detail: detail)
    }
  }
}

extension ReceiptBody {
  /// The receipt as it travels.
  init(_ receipt: ReceiptFacts) {
    self.init(
      id: receipt.id, name: receipt.name, sizeBytes: receipt.sizeBytes, merkleRoot: Hex.encode(receipt.merkleRoot),
      chainTip: Hex.encode(receipt.chainTip), publishedAtMilliseconds: receipt.publishedAt)
  }
}
