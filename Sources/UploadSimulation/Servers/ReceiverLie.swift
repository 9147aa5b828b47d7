import ChunkProtocol
import OrderedCollections
import ReceiverCore
import TransferModel

/// What a receiver falsely answers again and again in the words of the chunk protocol until the faults end.
///
/// None of these lies claims that a file is published although it is not: that cannot be detected.
enum ReceiverLie: String, CaseIterable, TraceWord {
  /// Lists of stored chunks that are empty, fall, jump, name other bytes, or belong to another session.
  case holdsNothing, holdsLess, holdsOthers, holdsElse
  /// The session is not there, has expired or is damaged, now and then or always.
  case deniesSession, deniesSessions, expires, damages
  /// A proxy answers that nothing is there.
  case notFound, gone
  /// The state does not allow it, another request is in progress, there are too many, the disk is full, the receiver
  /// fails.
  case conflict, locked, busy, full, fails, broken
  /// The bytes or their tag are wrong, the bytes are too many, or the request is wrong.
  case damaged, tooLarge, badRequest
  /// Chunks are missing at each commit: all, or such that the file does not have.
  case lacksEverything, lacksNonsense
  /// Chunks are acknowledged that are not stored.
  case pretends
  /// A success that does not answer this request.
  case page, nonsense, empty
  /// A receipt with another digest, size, name or id.
  case otherReceipt
  /// Answers to a part of the members, to more of them, or in another order.
  case fewerMembers, moreMembers, otherMembers
  /// Sessions with other ids, chunk lengths and times.
  case otherSessions
  /// The announced abilities change with each answer, or are missing.
  case headers
  /// A completed request is answered late, or never, or denied.
  case late, silent, deniesTheEnd

  var word: String { rawValue }

  /// The kind of a request.
  enum Asked {
    case opening, coreRequest, chunk, run, zeros, commit, end, file, bundle, other

    init(_ request: ForeignRequest) {
      self =
        switch (request.method, ProtocolPath(target: request.wire.target)) {
        case ("POST", .uploads): .opening
        case ("GET", .upload): .coreRequest
        case ("DELETE", .upload): .end
        case (_, .chunk): .chunk
        case (_, .chunks): .run
        case (_, .zeros): .zeros
        case (_, .commit): .commit
        case (_, .file): .file
        case (_, .files): .bundle
        default: .other
        }
    }

    var carriesBytes: Bool { [.chunk, .run, .file, .bundle].contains(self) }
    var isOfSession: Bool { [.coreRequest, .chunk, .run, .zeros, .commit].contains(self) }
    var publishes: Bool { [.commit, .file, .bundle].contains(self) }
  }

  func strikes(_ asked: Asked, _ random: inout SeededGenerator) -> Bool {
    switch self {
    // A refused commit leads to the query.
    case .holdsNothing, .holdsLess, .holdsOthers, .holdsElse:
      asked == .coreRequest || asked == .commit && random.happens(0.5)
    case .deniesSession, .expires: asked.isOfSession && random.happens(0.25)
    case .deniesSessions, .damages: asked.isOfSession
    case .notFound, .gone, .conflict, .locked, .page, .nonsense, .empty, .badRequest:
      random.happens(asked.carriesBytes ? 0.7 : 0.2)
    case .busy, .full, .fails, .damaged, .tooLarge: asked.carriesBytes
    case .broken, .headers: true
    case .lacksEverything, .lacksNonsense: asked == .commit
    case .pretends: (asked == .chunk || asked == .zeros) && random.happens(0.5)
    case .otherReceipt: asked.publishes || asked == .coreRequest
    case .fewerMembers, .moreMembers, .otherMembers: asked == .run || asked == .bundle
    case .otherSessions: asked == .opening && random.happens(0.7)
    case .late, .silent: random.happens(asked.publishes ? 0.7 : 0.1)
    case .deniesTheEnd: asked.publishes && random.happens(0.7)
    }
  }

  /// The lie is told about a completed request.
  func isOfAnswer(_ asked: Asked) -> Bool {
    switch self {
    case .holdsNothing, .holdsLess, .holdsOthers, .holdsElse: asked == .coreRequest
    case .otherReceipt, .fewerMembers, .moreMembers, .otherMembers, .otherSessions, .headers, .late, .silent,
      .deniesTheEnd:
      true
    default: false
    }
  }

  /// `honest` is the answer to the completed request, if it was carried out; nil where there is never one.
  func answer(to asked: Asked, _ honest: HTTPResponse?, _ random: inout SeededGenerator) -> HTTPResponse? {
    switch self {
    case .holdsNothing, .holdsLess, .holdsOthers, .holdsElse:
      asked == .coreRequest ? honest.map { held(in: $0, &random) } : problem(.conflict)
    case .deniesSession, .deniesSessions: problem(.notFound)
    case .expires: problem(.sessionExpired)
    case .damages: problem(.sessionDamaged)
    case .notFound: HTTPResponse(status: 404)
    case .gone: HTTPResponse(status: 410)
    case .conflict: problem(.conflict)
    case .locked: HTTPResponse(status: 423)
    case .busy: busy(&random)
    case .full: problem(random.happens(0.5) ? .insufficientStorage : .quotaExceeded)
    case .fails: problem(.internalError)
    case .broken: HTTPResponse(status: 500)
    case .damaged: problem(random.happens(0.5) ? .digestMismatch : .tagMismatch)
    case .tooLarge: random.happens(0.5) ? problem(.tooLarge) : HTTPResponse(status: 413)
    case .badRequest: problem(random.happens(0.5) ? .badRequest : .idempotencyMismatch)
    case .lacksEverything: missing(Array(0..<64))
    case .lacksNonsense: missing([[], [-1], [1_000_000, 7_000_000]].randomElement(using: &random) ?? [])
    case .pretends: HTTPResponse(status: 201)
    case .page:
      HTTPResponse(
        status: 200, headers: [HTTPHeader("content-type", "text/html")], body: Array("<html>Sign in</html>".utf8))
    // Any success acknowledges a chunk.
    case .nonsense: HTTPResponse(status: 202, body: Array("{\"id\":[[[".utf8))
    case .empty: HTTPResponse(status: asked.carriesBytes ? 202 : 200)
    case .otherReceipt: honest.map { otherReceipt(in: $0, &random) }
    case .fewerMembers, .moreMembers, .otherMembers: honest.map { members(in: $0) }
    case .otherSessions: honest.map { otherSession(in: $0, &random) }
    case .headers: honest.map { otherHeaders(in: $0, &random) }
    case .late: honest
    case .silent: nil
    case .deniesTheEnd: HTTPResponse(status: [404, 410, 409, 502, 500].randomElement(using: &random) ?? 404)
    }
  }

  // MARK: Words

  private func problem(_ type: ProblemType) -> HTTPResponse {
    HTTPResponse(status: type.status, body: WireJSON.encode(Problem(type, detail: "a lie")))
  }

  private func missing(_ indices: [Int]) -> HTTPResponse {
    HTTPResponse(status: 409, body: WireJSON.encode(Problem(.incomplete, detail: "a lie", missing: indices)))
  }

  private func busy(_ random: inout SeededGenerator) -> HTTPResponse {
    let pause = ["0", "-5", "soon", "99999999", "Thu, 01 Jan 1970 00:00:00 GMT"].randomElement(using: &random) ?? "0"
    return HTTPResponse(
      status: random.happens(0.5) ? 429 : 503, headers: [HTTPHeader("retry-after", pause)],
      body: WireJSON.encode(Problem(.busy, detail: "a lie")))
  }

  // MARK: Answers that are changed

  private func held(in response: HTTPResponse, _ random: inout SeededGenerator) -> HTTPResponse {
    changed(response, HeldResponse.self) { answer in
      guard answer.state == .open else { return }
      let known = (answer.digests ?? [:]).sorted { $0.key < $1.key }
      switch self {
      case .holdsNothing: set(&answer, [:])
      case .holdsLess:
        set(
          &answer,
          OrderedDictionary(uniqueKeysWithValues: known.map { ($0.key, $0.value) }.filter { _ in random.happens(0.5) }))
      case .holdsOthers:
        let other = String(repeating: "ab", count: ProtocolLimits.digestBytes)
        var digests = OrderedDictionary(
          uniqueKeysWithValues: known.map { ($0.key, random.happens(0.5) ? other : $0.value) })
        digests[["3", "70", "190000"].randomElement(using: &random) ?? "3"] = other
        set(&answer, digests)
      default:
        if random.happens(0.5) {
          answer.id += "x"
        } else {
          answer.chunkBytes = random.happens(0.5) ? 0 : answer.chunkBytes * 2
        }
      }
    }
  }

  private func set(_ answer: inout HeldResponse, _ digests: OrderedDictionary<String, String>) {
    answer.digests = .init(uniqueKeysWithValues: digests.map { ($0.key, $0.value) })
    answer.held = ChunkIndexRange.covering(digests.compactMap { UInt32($0.key) }.sorted())
  }

  private func otherReceipt(in response: HTTPResponse, _ random: inout SeededGenerator) -> HTTPResponse {
    var body = response.body
    // The answer to a session's opening, or to each member's.
    if response.header("content-type") == MediaType.bundle {
      guard let known = try? BundleAnswer.read(body) else { return response }
      body = []
      for var member in known {
        let single = HTTPResponse(status: member.status, body: member.body)
        member.body = otherReceipt(in: single, &random).body
        member.append(to: &body)
      }
      return replaced(response, body)
    }
    let asked = changed(response, HeldResponse.self) { answer in
      answer.receipt.map { answer.receipt = other($0, &random) }
    }
    return changed(asked, ReceiptBody.self) { $0 = other($0, &random) }
  }

  private func other(_ receipt: ReceiptBody, _ random: inout SeededGenerator) -> ReceiptBody {
    var receipt = receipt
    switch Int.random(in: 0...4, using: &random) {
    case 0: receipt.merkleRoot = String(repeating: "ab", count: ProtocolLimits.digestBytes)
    case 1: receipt.sizeBytes &+= 1
    case 2: receipt.name += "x"
    case 3: receipt.chainTip = "none"
    default: receipt.id = "../other"
    }
    return receipt
  }

  private func members(in response: HTTPResponse) -> HTTPResponse {
    guard var known = try? BundleAnswer.read(response.body), let last = known.last else { return response }
    switch self {
    case .fewerMembers: known.removeLast()
    case .moreMembers: known.append(last)
    default: known.reverse()
    }
    var body: [UInt8] = []
    for member in known { member.append(to: &body) }
    return replaced(response, body)
  }

  private func otherSession(in response: HTTPResponse, _ random: inout SeededGenerator) -> HTTPResponse {
    changed(response, SessionResponse.self) { answer in
      switch Int.random(in: 0...4, using: &random) {
      case 0: answer.id = "../../etc"
      case 1: answer.id = "nobody-knows-it"
      case 2: answer.chunkBytes = [0, -1, 1, .max].randomElement(using: &random) ?? 0
      case 3: answer.expiresAtSeconds = [0, -1, .max].randomElement(using: &random) ?? 0
      default: answer.encodings = ["lz4", "unknown", ""]
      }
    }
  }

  private func otherHeaders(in response: HTTPResponse, _ random: inout SeededGenerator) -> HTTPResponse {
    let offers = [
      HeaderName.bundleFilesMax, HeaderName.runBytesMax, HeaderName.zeroRangesMax, HeaderName.chunkEncodings,
      HeaderName.bundleEncodings,
    ]
    var response = response
    response.headers.removeAll { header in offers.contains { $0.lowercased() == header.name } }
    for name in offers where random.happens(0.7) {
      let value = ["0", "1", "70", "99999999999999999999", "-1", "lz4, none", ""].randomElement(using: &random) ?? ""
      response.headers.append(HTTPHeader(name.lowercased(), value))
    }
    return response
  }

  private func changed<Body: Codable>(
    _ response: HTTPResponse, _ type: Body.Type, _ change: (inout Body) -> Void
  ) -> HTTPResponse {
    guard (200..<300).contains(response.status), var body = try? WireJSON.decode(type, from: response.body) else {
      return response
    }
    change(&body)
    return replaced(response, WireJSON.encode(body))
  }

  private func replaced(_ response: HTTPResponse, _ body: [UInt8]) -> HTTPResponse {
    var response = response
    response.body = body
    return response
  }
}
