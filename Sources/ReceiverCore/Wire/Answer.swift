public import ChunkProtocol
import Integrity

/// A response, before it is HTTP.
public struct Answer: Hashable, Sendable {
  /// The status code.
  public var status: Int
  /// The body's media type.
  public var contentType: String?
  /// The body; a response to HEAD has none.
  public var body: [UInt8] = []
  var retryAfterSeconds: Int?
  /// The methods that exist here, for an answer that another one does not.
  var allow: String?
  private var tellsAbilities = false
  /// Which receiver answers, where the answer tells what it takes.
  public var instance: String?
  /// What is said to a spool that is not in its last start, with whatever else is answered.
  public var spoolKnown: KnownSpoolStart?

  /// A response with a body, if there is one.
  public init(status: Int, contentType: String? = nil, body: [UInt8] = []) {
    self.status = status
    self.contentType = contentType
    self.body = body
  }

  static let noContent = Answer(status: 204)

  /// A value as JSON.
  public static func json(_ value: some Encodable, status: Int = 200) -> Answer {
    Answer(status: status, contentType: MediaType.json, body: WireJSON.encode(value))
  }

  static func problem(_ problem: Problem) -> Answer {
    Answer(status: problem.status ?? 500, contentType: MediaType.problem, body: WireJSON.encode(problem))
  }

  /// A refusal as a problem document.
  public static func refused(_ refusal: Refusal) -> Answer {
    var answer = problem(Problem(refusal))
    answer.retryAfterSeconds = refusal.retryAfterSeconds
    return answer
  }

  static func receipt(_ receipt: PublicationReceipt, status: Int) -> Answer {
    Answer(status: status, contentType: MediaType.json, body: WireJSON.encode(ReceiptBody(receipt)))
  }

  /// The answers to the members of a bundle or a run, in their order.
  public static func bundle(_ members: [Answer]) -> Answer {
    var body: [UInt8] = []
    body.reserveCapacity(members.count * 640)
    for member in members {
      BundleAnswer(status: member.status, fields: member.ownFields, body: member.body).append(to: &body)
    }
    return Answer(status: 200, contentType: MediaType.bundle, body: body)
  }

  /// The same, telling a client that has not asked what this receiver takes.
  var withAbilities: Answer {
    var answer = self
    answer.tellsAbilities = true
    return answer
  }

  private static let encodings = Capabilities.encodingsUnderstood.joined(separator: ", ")
  private static let bundleEncodings = Capabilities.bundleEncodingsUnderstood.joined(separator: ", ")

  /// The header fields; a response to HEAD has the same.
  public var fields: [(name: String, value: String)] {
    var fields = ownFields
    if status == 401 { fields.append(("WWW-Authenticate", "Bearer")) }
    if status != 204 { fields.append((HeaderName.contentLength, String(body.count))) }
    fields.append(("Cache-Control", "no-store"))
    if tellsAbilities {
      fields.append((HeaderName.bundleFilesMax, String(ProtocolLimits.bundleFilesMax)))
      fields.append((HeaderName.runBytesMax, String(ProtocolLimits.runBytesMax)))
      fields.append((HeaderName.zeroRangesMax, String(ProtocolLimits.zeroRangesMax)))
      fields.append((HeaderName.chunkEncodings, Answer.encodings))
      fields.append((HeaderName.bundleEncodings, Answer.bundleEncodings))
      if let instance { fields.append((HeaderName.instance, instance)) }
    }
    if let spoolKnown { fields.append((HeaderName.spoolKnown, spoolKnown.headerValue)) }
    return fields
  }

  /// Those that say something about this answer, wherever it is written.
  private var ownFields: [(name: String, value: String)] {
    var fields: [(name: String, value: String)] = []
    if let contentType { fields.append((HeaderName.contentType, contentType)) }
    if let retryAfterSeconds { fields.append((HeaderName.retryAfter, String(retryAfterSeconds))) }
    if let allow { fields.append(("Allow", allow)) }
    return fields
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
    case .sessionGone: self.init(.notFound, detail: detail)
    case .sessionExpired: self.init(.sessionExpired, detail: detail)
    case .sessionDamaged: self.init(.sessionDamaged, detail: detail)
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
  init(_ receipt: PublicationReceipt) {
    self.init(
      id: receipt.id, name: receipt.name, sizeBytes: receipt.sizeBytes, merkleRoot: Hex.encode(receipt.merkleRoot),
      chainTip: Hex.encode(receipt.chainTip), publishedAtMilliseconds: receipt.publishedAt,
      publishedAs: receipt.publishedAs, fileID: receipt.fileID, replaced: receipt.takenFrom)
  }
}
