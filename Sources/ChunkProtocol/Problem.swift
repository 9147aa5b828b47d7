/// What went wrong at the receiver: the stable types of its problem details. The set is closed; docs/protocol.md says
/// what a client does about each.
public enum ProblemType: String, Hashable, Sendable, CaseIterable {
  /// The credential is missing, wrong or expired.
  case unauthorized = "urn:uploadfs:problem:unauthorized"
  /// The credential is known and may not do this.
  case forbidden = "urn:uploadfs:problem:forbidden"
  /// There is no such resource, or it belongs to another credential.
  case notFound = "urn:uploadfs:problem:not-found"
  /// The session existed and has ended.
  case sessionExpired = "urn:uploadfs:problem:session-expired"
  /// What the session has stored cannot be told any more. The receiver keeps it, and never publishes it.
  case sessionDamaged = "urn:uploadfs:problem:session-damaged"
  /// The method does not exist for this resource.
  case methodNotAllowed = "urn:uploadfs:problem:method-not-allowed"
  /// The body did not arrive in time.
  case timeout = "urn:uploadfs:problem:timeout"
  /// The state does not allow it, or another request for the same thing is in progress.
  case conflict = "urn:uploadfs:problem:conflict"
  /// The Idempotency-Key was used for another request.
  case idempotencyMismatch = "urn:uploadfs:problem:idempotency-mismatch"
  /// Chunks are missing, or too short for their place; `missing` lists them.
  case incomplete = "urn:uploadfs:problem:incomplete"
  /// A file of that name is published, and it was not to be replaced.
  case exists = "urn:uploadfs:problem:exists"
  /// File, chunk, body or name list is larger than allowed; `limit` says what is.
  case tooLarge = "urn:uploadfs:problem:too-large"
  /// The bytes, the Merkle root or the chain tip are not those that were announced; `field` says which.
  case digestMismatch = "urn:uploadfs:problem:digest-mismatch"
  case tagMismatch = "urn:uploadfs:problem:tag-mismatch"
  /// The name breaks a rule.
  case nameRefused = "urn:uploadfs:problem:name-refused"
  /// The request is malformed; `field` says where.
  case badRequest = "urn:uploadfs:problem:bad-request"
  /// Sent as TLS early data where that is not accepted.
  case tooEarly = "urn:uploadfs:problem:too-early"
  /// Too much at once; Retry-After says when to come back.
  case busy = "urn:uploadfs:problem:busy"
  /// The receiver's disk is full.
  case insufficientStorage = "urn:uploadfs:problem:insufficient-storage"
  /// The credential's quota is used up.
  case quotaExceeded = "urn:uploadfs:problem:quota-exceeded"
  /// The receiver failed.
  case internalError = "urn:uploadfs:problem:internal"

  /// The status that goes with the type. `badRequest` also goes with 411 and 415, `busy` also with 429.
  public var status: Int {
    switch self {
    case .badRequest: 400
    case .unauthorized: 401
    case .forbidden: 403
    case .notFound: 404
    case .methodNotAllowed: 405
    case .timeout: 408
    case .conflict, .incomplete, .exists: 409
    case .sessionExpired: 410
    case .tooLarge: 413
    case .idempotencyMismatch, .digestMismatch, .tagMismatch, .nameRefused: 422
    case .tooEarly: 425
    // A client that does not know the type tries again, and gives up nothing.
    case .internalError, .sessionDamaged: 500
    case .busy: 503
    case .insufficientStorage, .quotaExceeded: 507
    }
  }

  /// A short summary, the same for each occurrence.
  public var title: String {
    switch self {
    case .unauthorized: "The credential is missing or wrong"
    case .forbidden: "The credential may not do this"
    case .notFound: "There is no such resource"
    case .sessionExpired: "The upload session has ended"
    case .sessionDamaged: "The upload session is damaged"
    case .methodNotAllowed: "The method is not allowed here"
    case .timeout: "The request did not arrive in time"
    case .conflict: "The present state does not allow this"
    case .idempotencyMismatch: "The Idempotency-Key was used for another request"
    case .incomplete: "Chunks are missing"
    case .exists: "A file of this name exists"
    case .tooLarge: "Too large"
    case .digestMismatch: "A digest does not match"
    case .tagMismatch: "The tag does not match"
    case .nameRefused: "The name is not acceptable"
    case .badRequest: "The request is malformed"
    case .tooEarly: "Not accepted as early data"
    case .busy: "Busy"
    case .insufficientStorage: "The disk is full"
    case .quotaExceeded: "The quota is used up"
    case .internalError: "The receiver failed"
    }
  }
}

/// Problem details (RFC 9457).
public struct Problem: Hashable, Sendable, Codable {
  /// A ``ProblemType``'s URI, or another, from whatever stands between the two sides.
  public var type: String
  /// The type's summary.
  public var title: String?
  /// The response's status.
  public var status: Int?
  /// What happened this time.
  public var detail: String?
  /// For ``ProblemType/incomplete``: the indices, ascending, at most ``ProtocolLimits/missingIndicesMax``.
  public var missing: [Int]?
  /// For ``ProblemType/tooLarge``: the most that is taken, in bytes.
  public var limit: UInt64?
  /// The header field or JSON member that is wrong.
  public var field: String?

  enum CodingKeys: String, CodingKey { case type, title, status, detail, missing, limit, field }

  /// Describes one occurrence; `status` only where it differs from the type's.
  public init(
    _ type: ProblemType, detail: String, status: Int? = nil, missing: [Int]? = nil, limit: UInt64? = nil,
    field: String? = nil
  ) {
    self.type = type.rawValue
    self.title = type.title
    self.status = status ?? type.status
    self.detail = detail
    self.missing = missing
    self.limit = limit
    self.field = field
  }

  /// Reads a JSON object; members that are missing or of another type are ignored, as RFC 9457 asks.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    func read<Value: Decodable>(_ key: CodingKeys, as type: Value.Type = Value.self) -> Value? {
      (try? container.decodeIfPresent(type, forKey: key)) ?? nil
    }
    type = read(.type) ?? "about:blank"
    title = read(.title)
    status = read(.status)
    detail = read(.detail)
    missing = read(.missing)
    limit = read(.limit)
    field = read(.field)
  }

  /// The type, when it is one of the protocol's.
  public var knownType: ProblemType? { ProblemType(rawValue: type) }
}
