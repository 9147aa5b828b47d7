public import ChunkProtocol
import Integrity

/// What is to be done about a request.
public enum RequestPlan: Sendable {
  /// It is answered already.
  case answer(Answer)
  /// It asks for the counts of `GET /v1/stats`, which are not the core's: those of a credential, or of all.
  case counts(of: CredentialID?)
  /// It asks for the counts of `GET /metrics`.
  case metrics
  /// Its body is JSON of at most so many bytes; read it and ask for the plan again.
  case readJSON(bytesMax: Int)
  /// Its body is a bundle; give it to the intake as it arrives, ask the core what its members ask, and answer with
  /// ``Answer/bundle(_:)``.
  case readBundle(BundleIntake)
  /// Its body is a run of chunks; ask the core whether the session takes it, give it to the intake as it arrives, ask the
  /// core what each member asks as soon as it is complete, and answer with ``Answer/bundle(_:)``.
  case readRun(RunIntake)
  case ask(CoreRequest)
}

/// What requests mean. Pure: the receiver and a simulation give it the same requests and get the same plans.
///
/// The way of a request: ``plan(_:json:)``, with the JSON body where it is wanted; ``CoreRequest/event(_:freshID:freeBytes:)``
/// to the core; the core's reply to ``CoreRequest/outcome(of:)``, which is the answer or wants a body; that body's
/// ``CoreRequest/bodyArrived(_:_:)`` or ``CoreRequest/bodyFailed(_:_:)`` to the core, and its reply to the outcome again.
public struct RequestTranslation: Sendable {
  private let credentials: CredentialTable
  private let isShared: Bool
  private let operatorToken: OperatorToken?
  private let capabilities: Capabilities

  /// Translates for a receiver with these credentials and limits. The operator's token asks for the counts of all; without
  /// one they are of every client where there is a single credential, and of none where there are several.
  public init(credentials: [Credential], operatorToken: String? = nil, limits: CoreLimits) {
    self.credentials = CredentialTable(credentials)
    isShared = credentials.count > 1
    self.operatorToken = operatorToken.map { OperatorToken($0) }
    capabilities = Capabilities(
      chunkBytesMin: limits.chunkBytesMin, chunkBytesMax: limits.chunkBytesMax, fileBytesMax: limits.fileBytesMax,
      concurrentChunks: 12, wholeFileBytesMax: limits.chunkBytesMax)
  }

  /// What is to be done; `json` is the body, once it was asked for.
  public func plan(_ request: WireRequest, json: [UInt8]? = nil) -> RequestPlan {
    do throws(Refusal) {
      return try route(request, json)
    } catch {
      return .answer(.refused(error))
    }
  }

  private func route(_ request: WireRequest, _ json: [UInt8]?) throws(Refusal) -> RequestPlan {
    guard let path = ProtocolPath(target: request.target) else { return try routeUnknown(request) }
    switch (path, request.method) {
    case (.root, "HEAD"): return .answer(.noContent.withAbilities)
    case (.metrics, "GET") where operatorToken == nil && !isShared: return .metrics
    default: break
    }
    let authorization = request.field(HeaderName.authorization)
    if let operatorToken, operatorToken.isIn(authorization: authorization) {
      return RequestTranslation.planOfOperator(path, request.method)
    }
    guard let credential = credentials.credential(authorization: authorization) else {
      return .answer(
        .problem(Problem(.unauthorized, detail: "send a token that this receiver knows: Authorization: Bearer …")))
    }
    switch (path, request.method) {
    case (.metrics, "GET"):
      return .answer(
        .problem(
          Problem(
            .forbidden,
            detail: "these counts are of all who use this receiver, and its operator's: see --operator-token-file")))
    case (.capabilities, "GET"): return .answer(.json(capabilities).withAbilities)
    case (.stats, "GET"): return .counts(of: isShared ? credential : nil)
    case (.uploads, "POST"): return try openSession(request, credential, json)
    case (.upload(let id), "GET"):
      return .ask(
        .query(
          credential, SessionID(id), withDigests: ProtocolPath.wantsDigests(target: request.target),
          isDurable: ProtocolPath.wantsDurability(target: request.target)))
    case (.upload(let id), "DELETE"): return .ask(.abort(credential, SessionID(id)))
    case (.commit(let id), "POST"): return try commit(credential, SessionID(id), json)
    case (.chunks(let id), "POST"):
      return try several(request, .run) { _ in .readRun(RunIntake(of: credential, into: SessionID(id), self)) }
    case (.zeros(let id), "POST"): return try zeros(credential, SessionID(id), json)
    case (.chunk(let id, let index), "PUT"):
      return .ask(.chunk(credential, SessionID(id), index: index, try announced(request)))
    case (.file(let name), "PUT"): return .ask(try wholeFile(request, credential, name))
    case (.files, "POST"):
      return try several(request, .files) { (length) throws(Refusal) in
        .readBundle(BundleIntake(contentLength: length, try frame(request, length), of: credential, self))
      }
    default: return .answer(RequestTranslation.methodNotAllowed(path))
    }
  }

  /// A request of a user or of the operator. What others send costs as little as it can, whatever it is answered.
  public func isKnown(_ request: WireRequest) -> Bool {
    let authorization = request.field(HeaderName.authorization)
    return operatorToken?.isIn(authorization: authorization) == true
      || credentials.credential(authorization: authorization) != nil
  }

  /// Which spool asks, and for whom, where the request says so in a way that is understood, and may ask.
  public func spool(_ request: WireRequest) -> (start: SpoolStart, credential: CredentialID)? {
    guard let text = request.field(HeaderName.spool), let start = SpoolStart(headerValue: text),
      let credential = credentials.credential(authorization: request.field(HeaderName.authorization))
    else { return nil }
    return (start, credential)
  }

  /// There is no such resource; but a name that cannot be decoded is a name, and a bad one.
  private func routeUnknown(_ request: WireRequest) throws(Refusal) -> RequestPlan {
    guard ProtocolPath.isFile(target: request.target), request.method == "PUT",
      credentials.credential(authorization: request.field(HeaderName.authorization)) != nil
    else { return .answer(RequestTranslation.notFound) }
    throw RequestTranslation.undecodable
  }

  private static let undecodable = Refusal(.nameRefused, "the name is no UTF-8, or its %-signs are wrong")

  private static func planOfOperator(_ path: ProtocolPath, _ method: String) -> RequestPlan {
    switch (path, method) {
    case (.metrics, "GET"): .metrics
    case (.stats, "GET"): .counts(of: nil)
    case (.metrics, _), (.stats, _): .answer(methodNotAllowed(path))
    default:
      .answer(.problem(Problem(.forbidden, detail: "the operator's token asks for counts and for nothing else")))
    }
  }

  private func wholeFile(
    _ request: WireRequest, _ credential: CredentialID, _ name: String
  ) throws(Refusal) -> CoreRequest {
    let announced = try announced(request)
    let headers = try read(request) { (value) throws(HeaderViolation) in try FileHeaders(reading: value) }
    return .wholeFile(credential, name: name, headers, announced)
  }

  /// The bounds of a bundle or a run as a whole; those of its members are the intake's. `plan` is told the body's length.
  private func several(
    _ request: WireRequest, _ bounds: BundleBounds, _ plan: (Int) throws(Refusal) -> RequestPlan
  ) throws(Refusal) -> RequestPlan {
    guard request.field(HeaderName.contentType)?.lowercased() == MediaType.bundle else {
      return .answer(
        .problem(
          Problem(
            .badRequest, detail: "here there is only \(MediaType.bundle)", status: 415, field: HeaderName.contentType)))
    }
    guard let length = request.field(HeaderName.contentLength).flatMap({ DecimalText.unsigned($0) }) else {
      return .answer(
        .problem(
          Problem(.badRequest, detail: "the body's length must be stated", status: 411, field: HeaderName.contentLength)
        ))
    }
    guard length <= UInt64(bounds.contentBytesMax) else { throw Refusal(.tooManyBytes, bounds) }
    return try plan(Int(length))
  }

  /// The frame that a bundle of this length comes as; nil where it comes as it is.
  private func frame(_ request: WireRequest, _ contentLength: Int) throws(Refusal) -> AdmittedBody? {
    guard let text = request.field(HeaderName.chunkEncoding) else { return nil }
    switch ChunkEncoding(headerValue: text) {
    case .identity?: return nil
    case .zstd(.none)?: break
    case .lz4?, .zstd?, nil:
      throw Refusal(
        .badRequest(field: HeaderName.chunkEncoding),
        "a bundle comes as it is, or as one Zstandard frame without a filter")
    }
    guard let plain = request.field(HeaderName.chunkSize).flatMap({ DecimalText.unsigned($0) }), plain > 0 else {
      throw Refusal(
        .badRequest(field: HeaderName.chunkSize),
        "\(HeaderName.chunkSize) must be the length of the bundle in the frame")
    }
    guard plain <= UInt64(BundleBounds.files.contentBytesMax) else { throw Refusal(.tooManyBytes, .files) }
    let frame = AdmittedBody(frameOf: Int(plain), contentLength: contentLength)
    guard contentLength <= Int(plain) else { throw .encodedTooLong(plainBytes: Int(plain)) }
    return frame
  }

  /// What is to be done about a member of a run into this session: as about the same request alone.
  func plan(_ member: BundleMemberHead, of credential: CredentialID, into session: SessionID) -> MemberPlan {
    do throws(Refusal) {
      guard case .chunk(session.text, let index)? = ProtocolPath(target: member.target) else {
        throw Refusal(.badRequest(field: "target"), "the members of a run are chunks of the session that it is sent to")
      }
      return .ask(
        .chunk(
          credential, session, index: index,
          try announced(WireRequest(method: "PUT", target: member.target, fields: member.fields))))
    } catch {
      return .answer(.refused(error))
    }
  }

  /// What is to be done about a member of a bundle: as about the same request alone.
  func plan(_ member: BundleMemberHead, of credential: CredentialID) -> MemberPlan {
    guard case .file(let name)? = ProtocolPath(target: member.target) else {
      let isFile = ProtocolPath.isFile(target: member.target)
      return .answer(isFile ? .refused(RequestTranslation.undecodable) : RequestTranslation.notFound)
    }
    do throws(Refusal) {
      return .ask(
        try wholeFile(WireRequest(method: "PUT", target: member.target, fields: member.fields), credential, name))
    } catch {
      return .answer(.refused(error))
    }
  }

  private static var notFound: Answer { .problem(Problem(.notFound, detail: "there is no such resource")) }

  private static func methodNotAllowed(_ path: ProtocolPath) -> Answer {
    let methods =
      switch path {
      case .root: "HEAD"
      case .capabilities, .stats, .metrics: "GET"
      case .uploads, .commit, .chunks, .zeros, .files: "POST"
      case .upload: "GET, DELETE"
      case .chunk, .file: "PUT"
      }
    var answer = Answer.problem(Problem(.methodNotAllowed, detail: "here there is only \(methods)"))
    answer.allow = methods
    return answer
  }

  private func openSession(
    _ request: WireRequest, _ credential: CredentialID, _ json: [UInt8]?
  ) throws(Refusal) -> RequestPlan {
    let key = try read(request) { (value) throws(HeaderViolation) in try HeaderReading.idempotencyKey(value) }
    guard let json else { return .readJSON(bytesMax: ProtocolLimits.jsonBodyBytesMax) }
    let asked = try decode(SessionRequest.self, json)
    guard let nonce = asked.nonceBytes else {
      throw Refusal(.badRequest(field: "nonce"), "the nonce must be 64 hexadecimal digits")
    }
    try check(mode: asked.mode)
    for (field, text) in [("file_id", asked.fileID), ("content_type", asked.contentType ?? "")]
    where text.utf8.count > ProtocolLimits.shortTextBytesMax {
      throw Refusal(.badRequest(field: field), "must have at most \(ProtocolLimits.shortTextBytesMax) bytes")
    }
    return .ask(
      .openSession(
        credential, idempotencyKey: key.text,
        SessionParameters(
          name: asked.name, sizeBytes: asked.sizeBytes, chunkBytes: asked.chunkBytes, nonce: nonce,
          modifiedNanoseconds: asked.modifiedNanoseconds, mode: asked.mode, fileID: asked.fileID,
          revision: asked.revision, contentType: asked.contentType,
          takesBase: asked.takesBase == true ? true : nil)))
  }

  private func commit(_ credential: CredentialID, _ id: SessionID, _ json: [UInt8]?) throws(Refusal) -> RequestPlan {
    guard let json else { return .readJSON(bytesMax: ProtocolLimits.jsonBodyBytesMax) }
    let asked = try decode(CommitRequest.self, json)
    guard let root = Digest32(hex: asked.merkleRoot) else {
      throw Refusal(.badRequest(field: "merkle_root"), "the Merkle root must be 64 hexadecimal digits")
    }
    guard let tip = Digest32(hex: asked.chainTip) else {
      throw Refusal(.badRequest(field: "chain_tip"), "the chain tip must be 64 hexadecimal digits")
    }
    try check(mode: asked.mode)
    return .ask(
      .commit(
        credential, id,
        CommitParameters(
          name: asked.name, sizeBytes: asked.sizeBytes, chunkCount: asked.chunkCount, merkleRoot: root, chainTip: tip,
          modifiedNanoseconds: asked.modifiedNanoseconds, mode: asked.mode, ifExists: asked.ifExists,
          ownership: try ownership(asked))))
  }

  private func zeros(_ credential: CredentialID, _ id: SessionID, _ json: [UInt8]?) throws(Refusal) -> RequestPlan {
    guard let json else { return .readJSON(bytesMax: ProtocolLimits.jsonBodyBytesMax) }
    let asked = try decode(ZerosRequest.self, json)
    guard let mac = Digest32(hex: asked.mac) else {
      throw Refusal(.badRequest(field: "hmac"), "the tag must be 64 hexadecimal digits")
    }
    return .ask(.zeros(credential, id, asked.ranges, mac: mac.bytes))
  }

  private func ownership(_ asked: CommitRequest) throws(Refusal) -> NameOwnership? {
    guard asked.replaces?.count ?? 0 <= NameOwnership.replacesMax else {
      throw Refusal(.badRequest(field: "replaces"), "names more than \(NameOwnership.replacesMax) publications")
    }
    if let violation = asked.publishedAs.flatMap({ PublishedName.validate($0) }) {
      throw Refusal(.badRequest(field: "published_as"), violation.description)
    }
    return asked.ownership
  }

  private func announced(_ request: WireRequest) throws(Refusal) -> AnnouncedBytes {
    let headers = try read(request) { (value) throws(HeaderViolation) in try ChunkHeaders(reading: value) }
    if headers.encoding == .identity, let digest = headers.contentSHA256, digest != headers.sha256 {
      throw Refusal(
        .digestMismatch(field: HeaderName.contentDigest), "Content-Digest and X-Chunk-SHA256 contradict each other")
    }
    return AnnouncedBytes(
      facts: ChunkChecksums(
        sha256: headers.sha256, crc32c: headers.crc32c, sizeBytes: UInt32(clamping: headers.sizeBytes)),
      mac: headers.mac, contentLength: request.field("Content-Length").flatMap { UInt64($0) },
      encoding: headers.encoding,
      sentSHA256: headers.contentSHA256)
  }

  // MARK: Reading strictly

  private func read<Value>(
    _ request: WireRequest, _ reading: ((String) -> String?) throws(HeaderViolation) -> Value
  ) throws(Refusal) -> Value {
    do throws(HeaderViolation) {
      return try reading { request.field($0) }
    } catch {
      throw Refusal(.badRequest(field: error.field), "\(error.field) \(error.reason)")
    }
  }

  private func decode<Value: Decodable>(_ type: Value.Type, _ json: [UInt8]) throws(Refusal) -> Value {
    do throws(WireJSONError) {
      return try WireJSON.decode(type, from: json)
    } catch {
      throw Refusal(.badRequest(field: error.field), "the JSON body cannot be used: \(error)")
    }
  }

  private func check(mode: UInt32) throws(Refusal) {
    guard mode <= 0o7777 else { throw Refusal(.badRequest(field: "mode"), "permission bits are at most 4095") }
  }
}

extension RequestPlan {
  /// Whose request it is, where that is known.
  public var credential: CredentialID? {
    switch self {
    case .ask(let coreRequest): coreRequest.credential
    case .readBundle(let bundle): bundle.credential
    case .readRun(let run): run.credential
    case .counts(let credential): credential
    case .answer, .metrics, .readJSON: nil
    }
  }
}
