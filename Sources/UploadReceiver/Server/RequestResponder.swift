import ChunkProtocol
import HTTPTypes
import HummingbirdCore
import Integrity
import Logging
import NIOCore

/// Answers requests: reads what they say, asks the driver, and says what came of it. Knows HTTP and the protocol's wire
/// format; every rule is the core's.
struct RequestResponder: Sendable {
  /// The connection ends after the answer.
  struct EndConnection: Error {}

  let driver: ReceiverDriver
  let credentials: CredentialTable
  let budget: ByteBudget
  let statistics: ReceiverStatistics
  let capabilities: Capabilities
  let logger: Logger

  /// A request being answered.
  struct Exchange {
    var target: String
    var head: HTTPRequest
    var reader: RequestBodyReader
    /// For the count of connections.
    var connection: UInt64?
    var wantsContinue: Bool

    func field(_ name: String) -> String? {
      HTTPField.Name(name).flatMap { head.headerFields[$0] }
    }
  }

  func respond(_ request: Request, _ writer: consuming ResponseWriter, _ channel: any Channel) async throws {
    statistics.requestBegan()
    var exchange = Exchange(
      target: request.head.path ?? "", head: request.head, reader: RequestBodyReader(request.body),
      connection: statistics.connectionNumber(of: channel), wantsContinue: false)
    exchange.wantsContinue = exchange.field("Expect")?.lowercased() == "100-continue"
    let answer = await answer(&exchange, writer)
    if answer.status >= 400 {
      statistics.requestRefused()
      logger.debug("\(request.method.rawValue) \(exchange.target.debugDescription): \(answer.status)")
    }
    try await writer.write(response: answer.head, body: request.method == .head ? ResponseBody() : answer.responseBody)
    // A client that still waits for its 100 sends no body; one that sends too much is cut off.
    if exchange.wantsContinue { throw EndConnection() }
    guard try await exchange.reader.drain() else { throw EndConnection() }
  }

  private func answer(_ exchange: inout Exchange, _ writer: borrowing ResponseWriter) async -> Answer {
    do throws(Refusal) {
      return try await route(&exchange, writer)
    } catch {
      return .refused(error)
    }
  }

  private func route(_ exchange: inout Exchange, _ writer: borrowing ResponseWriter) async throws(Refusal) -> Answer {
    guard let path = ProtocolPath(target: exchange.target) else {
      return .problem(Problem(.notFound, detail: "there is no such resource"))
    }
    let method = exchange.head.method
    switch (path, method) {
    case (.root, .head): return .noContent
    case (.metrics, .get): return metrics
    default: break
    }
    guard let credential = credentials.credential(authorization: exchange.field(HeaderName.authorization)) else {
      return .problem(Problem(.unauthorized, detail: "send a token that this receiver knows: Authorization: Bearer …"))
    }
    switch (path, method) {
    case (.capabilities, .get): return .json(capabilities)
    case (.stats, .get): return .json(statistics.response)
    case (.uploads, .post): return try await openSession(&exchange, credential, writer)
    case (.upload(let id), .get): return try await query(exchange, credential, SessionID(id))
    case (.upload(let id), .delete): return try await abort(credential, SessionID(id))
    case (.commit(let id), .post): return try await commit(&exchange, credential, SessionID(id), writer)
    case (.chunk(let id, let index), .put):
      return try await putChunk(&exchange, credential, SessionID(id), index, writer)
    case (.file(let name), .put): return try await putFile(&exchange, credential, name, writer)
    default: return RequestResponder.methodNotAllowed(path)
    }
  }

  private static func methodNotAllowed(_ path: ProtocolPath) -> Answer {
    let methods =
      switch path {
      case .root: "HEAD"
      case .capabilities, .stats, .metrics: "GET"
      case .uploads, .commit: "POST"
      case .upload: "GET, DELETE"
      case .chunk, .file: "PUT"
      }
    var answer = Answer.problem(Problem(.methodNotAllowed, detail: "here there is only \(methods)"))
    answer.allow = methods
    return answer
  }

  private var metrics: Answer {
    Answer(
      status: 200, contentType: "text/plain; version=0.0.4",
      body: Array(
        statistics.metrics(freeBytes: driver.freeBytes, budgetFreeBytes: budget.freeBytes).utf8))
  }

  /// Clients that asked to be told before they send a body are told now.
  private func inviteBody(_ exchange: inout Exchange, _ writer: borrowing ResponseWriter) async {
    guard exchange.wantsContinue else { return }
    exchange.wantsContinue = false
    // A connection that is gone shows itself when the body is read.
    try? await writer.writeInformationalHead(HTTPResponse(status: .continue))
  }

  private func readJSON<Value: Decodable>(
    _ type: Value.Type, _ exchange: inout Exchange, _ writer: borrowing ResponseWriter
  ) async throws(Refusal) -> Value {
    await inviteBody(&exchange, writer)
    let bytes = try await exchange.reader.collectJSON(limit: ProtocolLimits.jsonBodyBytesMax)
    do throws(WireJSONError) {
      return try WireJSON.decode(type, from: bytes)
    } catch {
      throw Refusal(.badRequest(field: error.field), "the JSON body cannot be used: \(error)")
    }
  }
}

// MARK: Sessions

extension RequestResponder {
  private func openSession(
    _ exchange: inout Exchange, _ credential: CredentialID, _ writer: borrowing ResponseWriter
  ) async throws(Refusal) -> Answer {
    let key = try idempotencyKey(exchange)
    let asked = try await readJSON(SessionRequest.self, &exchange, writer)
    guard let nonce = asked.nonceBytes else {
      throw Refusal(.badRequest(field: "nonce"), "the nonce must be 64 hexadecimal digits")
    }
    try check(mode: asked.mode)
    for (field, text) in [("file_id", asked.fileID), ("content_type", asked.contentType ?? "")]
    where text.utf8.count > ProtocolLimits.shortTextBytesMax {
      throw Refusal(.badRequest(field: field), "must have at most \(ProtocolLimits.shortTextBytesMax) bytes")
    }
    let request = SessionOpeningRequest(
      credential: credential, idempotencyKey: key.text,
      opening: OpeningFacts(
        name: asked.name, sizeBytes: asked.sizeBytes, chunkBytes: asked.chunkBytes, nonce: nonce,
        modifiedNanoseconds: asked.modifiedNanoseconds, mode: asked.mode, fileID: asked.fileID,
        revision: asked.revision, contentType: asked.contentType),
      candidateID: SessionID(RequestResponder.randomID()), freeBytes: driver.freeBytes)
    switch await driver.ask(driver.makeRequestID(), { .openSession($0, request) }) {
    case .sessionOpened(let facts, let isNew, let expiresAt):
      statistics.uploadRequested(facts.id, name: facts.opening.name)
      return .json(
        SessionResponse(
          id: facts.id, chunkBytes: facts.opening.chunkBytes, expiresAtSeconds: expiresAt / 1000),
        status: isNew ? 201 : 200)
    case let other: throw RequestResponder.refusal(other)
    }
  }

  private func check(mode: UInt32) throws(Refusal) {
    guard mode <= 0o7777 else { throw Refusal(.badRequest(field: "mode"), "permission bits are at most 4095") }
  }

  private func query(
    _ exchange: Exchange, _ credential: CredentialID, _ id: SessionID
  ) async throws(Refusal) -> Answer {
    switch await driver.ask(driver.makeRequestID(), { .querySession($0, credential, id) }) {
    case .held(let held):
      statistics.uploadRequested(id.text, name: held.facts.opening.name)
      return .json(HeldResponse(held, withDigests: ProtocolPath.wantsDigests(target: exchange.target)))
    case let other: throw RequestResponder.refusal(other)
    }
  }

  private func abort(_ credential: CredentialID, _ id: SessionID) async throws(Refusal) -> Answer {
    switch await driver.ask(driver.makeRequestID(), { .abort($0, credential, id) }) {
    case .ended: return .noContent
    case let other: throw RequestResponder.refusal(other)
    }
  }

  private func commit(
    _ exchange: inout Exchange, _ credential: CredentialID, _ id: SessionID, _ writer: borrowing ResponseWriter
  ) async throws(Refusal) -> Answer {
    let asked = try await readJSON(CommitRequest.self, &exchange, writer)
    guard let root = RequestResponder.digest(asked.merkleRoot) else {
      throw Refusal(.badRequest(field: "merkle_root"), "the Merkle root must be 64 hexadecimal digits")
    }
    guard let tip = RequestResponder.digest(asked.chainTip) else {
      throw Refusal(.badRequest(field: "chain_tip"), "the chain tip must be 64 hexadecimal digits")
    }
    try check(mode: asked.mode)
    let facts = CommitFacts(
      name: asked.name, sizeBytes: asked.sizeBytes, chunkCount: asked.chunkCount, merkleRoot: root, chainTip: tip,
      modifiedNanoseconds: asked.modifiedNanoseconds, mode: asked.mode, ifExists: asked.ifExists)
    let receiptID = RequestResponder.randomID()
    switch await driver.ask(driver.makeRequestID(), { .commit($0, credential, id, facts, receiptID: receiptID) }) {
    case .receipt(let receipt):
      statistics.uploadRequested(id.text, name: receipt.name)
      // Two requests for one commit get the same receipt; the file is counted once.
      if receipt.id == receiptID { published(receipt) }
      return .receipt(receipt, status: 200)
    case let other: throw RequestResponder.refusal(other)
    }
  }

  private func published(_ receipt: ReceiptFacts) {
    statistics.filePublished()
    logger.info("published \(receipt.name.debugDescription), \(receipt.sizeBytes) bytes")
  }
}

// MARK: Bodies

extension RequestResponder {
  private func putChunk(
    _ exchange: inout Exchange, _ credential: CredentialID, _ id: SessionID, _ index: UInt32,
    _ writer: borrowing ResponseWriter
  ) async throws(Refusal) -> Answer {
    let head = ChunkHead(
      credential: credential, session: id, index: index, announced: try announced(exchange),
      freeBytes: driver.freeBytes)
    let request = driver.makeRequestID()
    guard case .bodyAdmitted(let size) = try await granted(driver.ask(request, { .beginChunk($0, head) })) else {
      throw Refusal(.storeFailed, "unexpected answer")
    }
    statistics.uploadRequested(id.text, name: "")
    statistics.chunkBegan(id.text, on: exchange.connection)
    var wasHeld: Bool?
    defer { statistics.chunkEnded(id.text, wasHeld: wasHeld) }

    guard await budget.take(Int(size)) else {
      throw await failed(request) { .chunkFailed($0, RequestResponder.noMemory) }
    }
    defer { budget.give(Int(size)) }
    await inviteBody(&exchange, writer)
    let arrived: (body: ReceivedBody, facts: ChunkFacts)
    do throws(Refusal) {
      arrived = try await exchange.reader.collect(Int(size))
    } catch {
      throw await failed(request) { .chunkFailed($0, error) }
    }
    if arrived.facts.sizeBytes == size { statistics.chunkReceived(id.text, bytes: Int(size)) }
    switch await driver.ask(request, { .chunkArrived($0, arrived.facts) }, body: arrived.body) {
    case .chunkStored(let isDuplicate):
      wasHeld = isDuplicate
      return Answer(status: isDuplicate ? 200 : 201)
    case let other: throw reported(RequestResponder.refusal(other), "chunk \(index) of upload \(id.text)")
    }
  }

  /// A wrong tag is worth a line even where every other refusal is the client's business.
  private func reported(_ refusal: Refusal, _ subject: String) -> Refusal {
    if refusal.kind == .tagMismatch {
      logger.warning("tampering, or a client with another credential: the tag of \(subject) is wrong")
    }
    return refusal
  }

  private func putFile(
    _ exchange: inout Exchange, _ credential: CredentialID, _ name: String, _ writer: borrowing ResponseWriter
  ) async throws(Refusal) -> Answer {
    let announced = try announced(exchange)
    let fields = try fileHeaders(exchange)
    let receiptID = RequestResponder.randomID()
    let head = WholeFileHead(
      credential: credential, idempotencyKey: fields.idempotencyKey.text, name: name, announced: announced,
      nonce: fields.nonce, modifiedNanoseconds: fields.modifiedNanoseconds, mode: fields.mode,
      ifExists: fields.ifExists, receiptID: receiptID, freeBytes: driver.freeBytes)
    let request = driver.makeRequestID()
    switch try await granted(driver.ask(request, { .beginWholeFile($0, head) })) {
    case .bodyAdmitted(let size):
      let receipt = try await receiveFile(&exchange, request, Int(size), writer)
      published(receipt)
      return .receipt(receipt, status: 201)
    case .receipt(let receipt): return .receipt(receipt, status: 201)
    default: throw Refusal(.storeFailed, "unexpected answer")
    }
  }

  private func receiveFile(
    _ exchange: inout Exchange, _ request: RequestID, _ size: Int, _ writer: borrowing ResponseWriter
  ) async throws(Refusal) -> ReceiptFacts {
    guard await budget.take(size) else {
      throw await failed(request) { .wholeFileFailed($0, RequestResponder.noMemory) }
    }
    defer { budget.give(size) }
    await inviteBody(&exchange, writer)
    let arrived: (body: ReceivedBody, facts: ChunkFacts)
    do throws(Refusal) {
      arrived = try await exchange.reader.collect(size)
    } catch {
      throw await failed(request) { .wholeFileFailed($0, error) }
    }
    if arrived.facts.sizeBytes == UInt32(clamping: size) { statistics.fileReceived(bytes: size) }
    switch await driver.ask(request, { .wholeFileArrived($0, arrived.facts) }, body: arrived.body) {
    case .receipt(let receipt): return receipt
    case let other: throw reported(RequestResponder.refusal(other), "a whole file")
    }
  }

  private static let noMemory = Refusal(.busy, "too many bodies are arriving at once; come back")

  /// Ends a request whose body will not come; the core's answer is the reason that it was given.
  private func failed(_ request: RequestID, _ event: (RequestID) -> CoreEvent) async -> Refusal {
    RequestResponder.refusal(await driver.ask(request, event))
  }

  private func granted(_ reply: Reply) throws(Refusal) -> Reply {
    if case .refused(let refusal) = reply { throw refusal }
    return reply
  }

  static func refusal(_ reply: Reply) -> Refusal {
    if case .refused(let refusal) = reply { refusal } else { Refusal(.storeFailed, "unexpected answer") }
  }

  static func randomID() -> String { Hex.encode(SecureRandom.bytes(16)) }

  static func digest(_ text: String) -> [UInt8]? {
    guard let bytes = Hex.decode(text), bytes.count == ProtocolLimits.digestBytes else { return nil }
    return bytes
  }
}

// MARK: Header fields

extension RequestResponder {
  private func announced(_ exchange: Exchange) throws(Refusal) -> AnnouncedBytes {
    let headers: ChunkHeaders
    do throws(HeaderViolation) {
      headers = try ChunkHeaders { exchange.field($0) }
    } catch {
      throw Refusal(error)
    }
    guard headers.encoding == .identity else {
      throw Refusal(.unsupportedCoding, "this receiver takes plain bodies only; see its capabilities")
    }
    if let digest = headers.contentSHA256, digest != headers.sha256 {
      throw Refusal(
        .digestMismatch(field: HeaderName.contentDigest), "Content-Digest and X-Chunk-SHA256 contradict each other")
    }
    guard let sha256 = Digest32(headers.sha256) else {
      throw Refusal(.badRequest(field: HeaderName.chunkSHA256), "must be 64 hexadecimal digits")
    }
    return AnnouncedBytes(
      facts: ChunkFacts(sha256: sha256, crc32c: headers.crc32c, sizeBytes: UInt32(clamping: headers.sizeBytes)),
      tag: headers.tag,
      contentLength: exchange.field("Content-Length").flatMap { UInt64($0) })
  }

  private func fileHeaders(_ exchange: Exchange) throws(Refusal) -> FileHeaders {
    do throws(HeaderViolation) {
      return try FileHeaders { exchange.field($0) }
    } catch {
      throw Refusal(error)
    }
  }

  private func idempotencyKey(_ exchange: Exchange) throws(Refusal) -> IdempotencyKey {
    do throws(HeaderViolation) {
      return try HeaderReading.idempotencyKey { exchange.field($0) }
    } catch {
      throw Refusal(error)
    }
  }
}

extension Refusal {
  /// A header field that is missing or unreadable.
  fileprivate init(_ violation: HeaderViolation) {
    self.init(.badRequest(field: violation.field), "\(violation.field) \(violation.reason)")
  }
}

extension HeldResponse {
  /// What is held, as it travels.
  init(_ held: HeldChunks, withDigests: Bool) {
    let facts = held.facts
    self.init(
      id: facts.id, state: held.receipt == nil ? .open : .committed, chunkBytes: facts.opening.chunkBytes,
      held: ChunkIndexRange.covering(held.chunks.keys.sorted()),
      digests: withDigests
        ? Dictionary(
          held.chunks.map { (String($0.key), Hex.encode($0.value.sha256.bytes)) },
          uniquingKeysWith: { first, _ in first })
        : nil,
      chainTip: Hex.encode(held.chainTip), expiresAtSeconds: held.expiresAt / 1000,
      receipt: held.receipt.map(ReceiptBody.init))
  }
}
