import ChunkProtocol
import HTTPTypes
import HummingbirdCore
import Integrity
import Logging
import NIOCore
import ReceiverCore

/// Answers requests: reads them, asks the core what the translation makes of them, and sends what comes of it. What is
/// here waits, reads or counts; every rule is the translation's or the core's.
struct RequestResponder: Sendable {
  /// The connection ends after the answer.
  struct EndConnection: Error {}

  let driver: ReceiverDriver
  var translation: RequestTranslation
  let budget: ByteBudget
  let statistics: ReceiverStatistics
  let logger: Logger
  let users: UserNumbers
  var certificates: CertificateLife
  /// Random, from its start to its end; nil where the system had no random bytes.
  let instance: String?

  /// A request being answered.
  struct Exchange {
    var request: WireRequest
    var reader: RequestBodyReader
    /// The connection, or the stream of HTTP/2.
    var channel: any Channel
    /// For the count of connections.
    var connection: UInt64?
    var wantsContinue: Bool
    /// Whose request it is, once that is known.
    var user: CredentialID?
  }

  func respond(_ request: Request, _ writer: consuming ResponseWriter, _ channel: any Channel) async throws {
    statistics.requestBegan()
    let head = request.head
    let wire = WireRequest(method: head.method.rawValue, target: head.path ?? "") { name in
      FieldNames.name(name).flatMap { head.headerFields[$0] }
    }
    var exchange = Exchange(
      request: wire, reader: RequestBodyReader(request.body), channel: channel,
      connection: statistics.connectionNumber(of: channel),
      wantsContinue: wire.field("Expect")?.lowercased() == "100-continue")
    let spoolKnown = hear(wire)
    var answer = await answer(&exchange, writer)
    answer.spoolKnown = spoolKnown
    answer.instance = instance
    if answer.status >= 400 {
      statistics.requestRefused()
      logger.debug(
        "\(wire.method) \(wire.target.debugDescription): \(answer.status)", metadata: users.metadata(of: exchange.user))
    }
    try await writer.write(response: answer.head, body: request.method == .head ? ResponseBody() : answer.responseBody)
    // A client that still waits for its 100 sends no body; one that sends too much is cut off.
    if exchange.wantsContinue { throw EndConnection() }
    let restMax =
      translation.isKnown(wire) ? RequestBodyReader.drainedBytesMax : RequestBodyReader.strangerBytesMax
    guard try await exchange.reader.drain(atMost: restMax) else { throw EndConnection() }
  }

  /// Takes note of which spool asks; what it is told with the answer.
  private func hear(_ request: WireRequest) -> KnownSpoolStart? {
    guard let (start, credential) = translation.spool(request), let notice = driver.hear(start, of: credential) else {
      return nil
    }
    statistics.spoolTold()
    if notice.isFirst {
      logger.warning(
        "the spool \(Hex.encode(start.spool)) is in its start \(start.count), and start \(notice.known.count) of it is known: it was restored from a backup, or runs twice. It was told so",
        metadata: users.metadata(of: credential))
    }
    return notice.known
  }

  private func answer(_ exchange: inout Exchange, _ writer: borrowing ResponseWriter) async -> Answer {
    var plan = translation.plan(exchange.request)
    if case .readJSON(let bytesMax) = plan {
      await inviteBody(&exchange, writer)
      do throws(Refusal) {
        plan = translation.plan(exchange.request, json: try await exchange.reader.collectJSON(limit: bytesMax))
      } catch {
        return .refused(error)
      }
    }
    exchange.user = plan.credential
    if let owner = plan.credential { statistics.requestRecognised(of: owner, on: exchange.channel) }
    switch plan {
    case .answer(let answer): return answer
    case .counts(let owner): return .json(statistics.response(of: owner))
    case .metrics: return metrics
    case .readBundle(let bundle): return await answer(bundle, &exchange, writer)
    case .readRun(let run): return await answer(run, &exchange, writer)
    case .ask(let coreRequest): return await ask(coreRequest, &exchange, writer)
    case .readJSON: return .refused(Refusal(.storeFailed, "the receiver contradicts itself"))
    }
  }

  private var metrics: Answer {
    Answer(
      status: 200, contentType: "text/plain; version=0.0.4",
      body: statistics.metrics(
        freeBytes: driver.freeBytes, foldersAway: driver.foldersAway, sessionsQuarantined: driver.quarantinedCount,
        filesNumbered: driver.numberedCount, budgetFreeBytes: budget.freeBytes, certificateEndsAt: certificates.endsAt))
  }

  /// Memory for a body; when others need it more, the body ends with an error.
  func takeMemory(_ bytes: Int, of owner: CredentialID, _ channel: any Channel) async -> BodyLease? {
    await budget.take(bytes, of: owner) { lease in
      channel.eventLoop.execute {
        // The requests of a connection run on its loop: this one has not been followed by another.
        if lease.isReading { channel.pipeline.fireUserInboundEventTriggered(BodyRevoked()) }
      }
    }
  }

  /// Clients that asked to be told before they send a body are told now.
  func inviteBody(_ exchange: inout Exchange, _ writer: borrowing ResponseWriter) async {
    guard exchange.wantsContinue else { return }
    exchange.wantsContinue = false
    // A connection that is gone shows itself when the body is read.
    try? await writer.writeInformationalHead(HTTPResponse(status: .continue))
  }
}

// MARK: Bundles

extension RequestResponder {
  private func answer(
    _ bundle: BundleIntake, _ exchange: inout Exchange, _ writer: borrowing ResponseWriter
  ) async -> Answer {
    guard let lease = await takeMemory(bundle.memoryBytes, of: bundle.credential, exchange.channel) else {
      return .refused(.noBodyMemory)
    }
    defer { budget.give(of: lease) }
    exchange.reader.lease = lease
    await inviteBody(&exchange, writer)
    var bundle = bundle
    let memoryBytes = bundle.memoryBytes
    do throws(Refusal) {
      defer { lease.endReading() }
      try await exchange.reader.collect(&bundle)
      lease.endReading()
      statistics.bundleReceived(of: bundle.credential)
      if bundle.hasEncoded { bundle = try await decode(bundle) }
      // The disk may take its time; others need not wait for what turned out not to be needed.
      budget.give(max(0, memoryBytes - bundle.bodyBytes), of: lease)
      return .bundle(try await answers(to: bundle.members, of: bundle.credential))
    } catch {
      return .refused(error)
    }
  }

  private func decode(_ bundle: consuming BundleIntake) async throws(Refusal) -> BundleIntake {
    let encoded = bundle
    return try await driver.compute { () throws(Refusal) in
      var decoded = encoded
      try decoded.decode()
      return decoded
    }
  }

  /// The members' answers in their order: those that the translation has given, and those that the core gives together.
  private func answers(
    to members: [BundleIntake.Member], of owner: CredentialID
  ) async throws(Refusal) -> [Answer] {
    guard let names = FreshNames(count: members.count) else {
      throw Refusal(.storeFailed, "the receiver has no random bytes")
    }
    let freeBytes = driver.freeBytes
    var requests: [ReceiverDriver.CompleteRequest] = []
    for (member, name) in zip(members, names.texts) {
      guard case .ask(let coreRequest) = member.plan else { continue }
      let request = driver.makeRequestID()
      var body: [UInt8] = []
      if case .plain(let bytes, _) = member.body { body = bytes }
      statistics.fileReceived(of: coreRequest.credential, bytes: body.count)
      requests.append(
        ReceiverDriver.CompleteRequest(
          request: request, begin: coreRequest.event(request, freshID: name, freeBytes: freeBytes),
          next: member.next(coreRequest, request), body: body))
    }
    var replies = await driver.askTogether(requests).makeIterator()
    var answers: [Answer] = []
    var published: [UInt64] = []
    for (member, name) in zip(members, names.texts) {
      switch member.plan {
      case .answer(let answer): answers.append(answer)
      case .ask(let coreRequest):
        guard let reply = replies.next() else { continue }
        note(reply, to: coreRequest, freshID: name, level: .debug)
        if case .receipt(let receipt) = reply, receipt.id == name { published.append(receipt.sizeBytes) }
        if case .answer(let answer) = coreRequest.outcome(of: reply) { answers.append(answer) }
      }
    }
    guard answers.count == members.count else { throw Refusal(.storeFailed, "the receiver contradicts itself") }
    if !published.isEmpty {
      logger.info(
        "published \(published.count) files of a bundle, \(published.reduce(0, &+)) bytes",
        metadata: users.metadata(of: owner))
    }
    return answers
  }
}

// MARK: Asking

extension RequestResponder {
  private func ask(
    _ coreRequest: CoreRequest, _ exchange: inout Exchange, _ writer: borrowing ResponseWriter
  ) async -> Answer {
    let request = driver.makeRequestID()
    guard let freshID = FreshNames(count: 1)?.texts.first else {
      return .refused(Refusal(.storeFailed, "the receiver has no random bytes"))
    }
    let freeBytes = driver.freeBytes
    let reply = await driver.ask(request) { coreRequest.event($0, freshID: freshID, freeBytes: freeBytes) }
    note(reply, to: coreRequest, freshID: freshID)
    switch coreRequest.outcome(of: reply) {
    case .answer(let answer): return answer
    case .readBody(let body):
      let reply = await receive(body, of: request, coreRequest, &exchange, writer)
      note(reply, to: coreRequest, freshID: freshID)
      guard case .answer(let answer) = coreRequest.outcome(of: reply) else {
        return .refused(Refusal(.storeFailed, "the receiver contradicts itself"))
      }
      return answer
    }
  }

  private func receive(
    _ admitted: AdmittedBody, of request: RequestID, _ coreRequest: CoreRequest, _ exchange: inout Exchange,
    _ writer: borrowing ResponseWriter
  ) async -> Reply {
    guard case .chunk(_, let id, _, _) = coreRequest else {
      return await store(admitted, of: request, coreRequest, &exchange, writer)
    }
    statistics.chunkRequestBegan(id.text, of: coreRequest.credential, on: exchange.connection)
    let reply = await store(admitted, of: request, coreRequest, &exchange, writer)
    statistics.chunkAnswered(id.text, of: coreRequest.credential, wasHeld: reply.wasHeld)
    statistics.chunkRequestEnded(id.text, of: coreRequest.credential)
    return reply
  }

  private func store(
    _ admitted: AdmittedBody, of request: RequestID, _ coreRequest: CoreRequest, _ exchange: inout Exchange,
    _ writer: borrowing ResponseWriter
  ) async -> Reply {
    guard let lease = await takeMemory(admitted.memoryBytes, of: coreRequest.credential, exchange.channel) else {
      return await driver.ask(request) { coreRequest.bodyFailed($0, .noBodyMemory) }
    }
    defer { budget.give(of: lease) }
    exchange.reader.lease = lease
    await inviteBody(&exchange, writer)
    let arrived: Arrived
    do throws(Refusal) {
      defer { lease.endReading() }
      arrived = try await read(admitted, &exchange)
    } catch {
      return await driver.ask(request) { coreRequest.bodyFailed($0, error) }
    }
    if arrived.facts.sizeBytes == UInt32(clamping: admitted.plainBytes) {
      switch coreRequest {
      case .chunk(_, let id, _, _):
        statistics.chunkReceived(
          id.text, of: coreRequest.credential, bytes: admitted.plainBytes, encodedBytes: arrived.sentBytes)
      default: statistics.fileReceived(of: coreRequest.credential, bytes: admitted.plainBytes)
      }
    }
    return await driver.ask(request, { coreRequest.bodyArrived($0, arrived.facts) }, body: arrived.plain)
  }

  private struct Arrived {
    var plain: any BodyBytes
    var facts: ChunkChecksums
    var sentBytes: Int
  }

  private func read(_ admitted: AdmittedBody, _ exchange: inout Exchange) async throws(Refusal) -> Arrived {
    switch admitted.encoding {
    case .identity:
      let (plain, facts) = try await exchange.reader.collectPlain(admitted)
      return Arrived(plain: plain, facts: facts, sentBytes: plain.byteCount)
    case .lz4, .zstd:
      let sent = try await exchange.reader.collectEncoded(admitted)
      let (plain, facts) = try await driver.compute { () throws(Refusal) in try admitted.take(sent) }
      return Arrived(plain: plain, facts: facts, sentBytes: sent.count)
    }
  }

  /// Counts and logs what a reply tells.
  func note(_ reply: Reply, to coreRequest: CoreRequest, freshID: String, level: Logger.Level = .info) {
    switch (coreRequest, reply) {
    case (.openSession, .sessionOpened(let facts, _, _, _, _)):
      statistics.uploadRequested(facts.id, of: coreRequest.credential, name: facts.opening.name)
    case (.query(_, let id, _, _), .held(let held)):
      statistics.uploadRequested(id.text, of: coreRequest.credential, name: held.facts.opening.name)
    case (.chunk(_, let id, _, _), .bodyAdmitted):
      statistics.uploadRequested(id.text, of: coreRequest.credential, name: "")
    case (.commit(_, let id, _), .receipt(let receipt)):
      statistics.uploadRequested(id.text, of: coreRequest.credential, name: receipt.name)
      notePublication(receipt, of: coreRequest.credential, freshID: freshID, upload: id.text)
    case (.wholeFile, .receipt(let receipt)):
      notePublication(receipt, of: coreRequest.credential, freshID: freshID, level: level)
    case (_, .refused(let refusal)) where refusal.kind == .tagMismatch:
      // Worth a line even where every other refusal is the client's business.
      logger.warning(
        "tampering, or a client with another credential: the tag of \(coreRequest.subject) is wrong",
        metadata: users.metadata(of: coreRequest.credential))
    default: break
    }
  }

  /// Two requests for one publication get the same receipt; the file is counted once, with the one that named it.
  private func notePublication(
    _ receipt: PublicationReceipt, of owner: CredentialID, freshID: String, upload: String? = nil,
    level: Logger.Level = .info
  ) {
    guard receipt.id == freshID else { return }
    statistics.filePublished(of: owner)
    let streams = upload.flatMap { statistics.streams(of: $0) }.map { peak in
      ", at most \(peak.count) chunk requests at once, first \(peak.after ?? 0) ms after the first one"
    }
    let place = receipt.publishedAs.map { " as \($0.debugDescription)" } ?? ""
    logger.log(
      level: level, "published \(receipt.name.debugDescription)\(place), \(receipt.sizeBytes) bytes\(streams ?? "")",
      metadata: users.metadata(of: owner))
  }
}

extension Reply {
  /// Whether the chunk was stored already; nil when it is not stored.
  var wasHeld: Bool? {
    if case .chunkStored(let wasHeld) = self { wasHeld } else { nil }
  }
}

extension CoreRequest {
  /// What it is about, for the log.
  fileprivate var subject: String {
    switch self {
    case .chunk(_, let id, let index, _): "chunk \(index) of upload \(id.text)"
    case .zeros(_, let id, _, _): "chunks of zeros of upload \(id.text)"
    default: "a whole file"
    }
  }
}

extension Answer {
  var head: HTTPResponse {
    var fields = HTTPFields()
    for (name, value) in self.fields {
      if let name = FieldNames.name(name) { fields[name] = value }
    }
    // Where a client looks whether the clocks agree; elsewhere a receipt has the time.
    if status == 204 { fields[.date] = ReceiverClock.httpDate }
    return HTTPResponse(status: .init(code: status), headerFields: fields)
  }

  fileprivate var responseBody: ResponseBody {
    body.isEmpty ? ResponseBody() : ResponseBody(byteBuffer: ByteBuffer(bytes: body))
  }
}

/// The protocol's names of header fields, checked and brought into their form once.
private enum FieldNames {
  private static let known = Dictionary(
    uniqueKeysWithValues: [
      HeaderName.authorization, HeaderName.chunkSHA256, HeaderName.chunkCRC32C, HeaderName.chunkSize,
      HeaderName.chunkEncoding, HeaderName.chunkHMAC, HeaderName.chunkNonce, HeaderName.contentDigest,
      HeaderName.idempotencyKey, HeaderName.fileModifiedNanoseconds, HeaderName.fileMode, HeaderName.fileID,
      HeaderName.ifExists, HeaderName.ifTaken, HeaderName.replaces, HeaderName.publishedAs, HeaderName.contentType,
      HeaderName.contentLength, HeaderName.bundleFilesMax, HeaderName.runBytesMax, HeaderName.zeroRangesMax,
      HeaderName.chunkEncodings, HeaderName.bundleEncodings, HeaderName.instance, HeaderName.spool,
      HeaderName.spoolKnown, "Cache-Control", "Expect",
    ].compactMap { text in HTTPField.Name(text).map { (text, $0) } })

  static func name(_ text: String) -> HTTPField.Name? { known[text] ?? HTTPField.Name(text) }
}
