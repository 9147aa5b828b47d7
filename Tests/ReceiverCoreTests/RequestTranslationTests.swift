import ChunkProtocol
import Integrity
import Promises
import ReceiverCore
import Testing

/// The way of requests through translation and core, as a simulation goes it.
@Suite struct RequestTranslationTests {
  private static let token = "a-token"
  private let translation: RequestTranslation
  private let core = CoreHarness()

  init() {
    translation = RequestTranslation(credentials: [core.credential], limits: core.limits)
  }

  private func request(
    _ method: String, _ target: String, _ fields: [(name: String, value: String)] = [], token: String? = token
  ) -> WireRequest {
    WireRequest(
      method: method, target: target,
      fields: fields + (token.map { [(HeaderName.authorization, "Bearer \($0)")] } ?? []))
  }

  /// Sends a request with its body and says what it is answered.
  private func send(_ request: WireRequest, body: [UInt8] = []) -> Answer? {
    var plan = translation.plan(request)
    if case .readJSON = plan { plan = translation.plan(request, json: body) }
    if case .answer(let answer) = plan { return answer }
    guard case .ask(let coreRequest) = plan else { return nil }
    let id = core.makeRequest()
    core.send(coreRequest.event(id, freshID: "fresh-\(id.value)", freeBytes: 1_000_000))
    core.runEffects()
    while let reply = core.replies[id]?.last {
      switch coreRequest.outcome(of: reply) {
      case .answer(let answer): return answer
      case .readBody(let admitted):
        do throws(Refusal) {
          core.send(coreRequest.bodyArrived(id, try admitted.take(body).facts))
        } catch {
          core.send(coreRequest.bodyFailed(id, error))
        }
        core.runEffects()
      }
    }
    return nil
  }

  @Test("Regression: a user sees its own counts, and the operator those of all", .promises("P3", "P72", "SE8"))
  func counts_areTheCallersOwn() {
    func plan(_ target: String, _ token: String?, _ translation: RequestTranslation) -> String {
      switch translation.plan(request("GET", target, token: token)) {
      case .counts(nil): "all"
      case .counts(let owner?): owner == core.credential.id ? "own" : "another's"
      case .metrics: "metrics"
      case .answer(let answer): "\(answer.status)"
      default: "else"
      }
    }
    let several = RequestTranslation(credentials: [core.credential, core.other], limits: core.limits)
    let managed = RequestTranslation(
      credentials: [core.credential, core.other], operatorToken: "boss", limits: core.limits)
    let alone = RequestTranslation(credentials: [core.credential], operatorToken: "boss", limits: core.limits)
    let token = CoreHarness.token
    #expect(plan("/v1/stats", token, translation) == "all" && plan("/metrics", nil, translation) == "metrics")
    #expect(
      plan("/v1/stats", token, several) == "own" && plan("/v1/stats", CoreHarness.otherToken, several) == "another's")
    #expect(plan("/metrics", nil, several) == "401" && plan("/metrics", token, several) == "403")
    #expect(plan("/metrics", "boss", managed) == "metrics" && plan("/v1/stats", "boss", managed) == "all")
    #expect(plan("/v1/capabilities", "boss", managed) == "403" && plan("/metrics", token, managed) == "403")
    #expect(plan("/metrics", nil, alone) == "401" && plan("/v1/stats", token, alone) == "all")
  }

  private func open(key: String = "key") throws -> String {
    let body = SessionRequest(
      name: "scan.mov", sizeBytes: nil, chunkBytes: 4, modifiedNanoseconds: 0, mode: 0o644, contentType: nil,
      fileID: "f", revision: 1, nonce: Hex.encode([UInt8](repeating: 7, count: 32)))
    let answer = send(
      request("POST", "/v1/uploads", [(HeaderName.idempotencyKey, "\"\(key)\"")]), body: WireJSON.encode(body))
    #expect(answer?.status == 201)
    return try WireJSON.decode(SessionResponse.self, from: answer?.body ?? []).id
  }

  private func fields(_ bytes: [UInt8], index: UInt32, session: String) -> [(name: String, value: String)] {
    let facts = ChunkChecksums(of: bytes)
    return ChunkHeaders(
      sha256: facts.sha256, crc32c: facts.crc32c, sizeBytes: UInt64(bytes.count), encoding: .identity,
      mac: core.mac(bytes, index: index, session: session, token: Self.token), contentSHA256: nil
    ).fields
  }

  private func put(_ id: String, _ index: UInt32, _ bytes: [UInt8], sending body: [UInt8]? = nil) -> Answer? {
    send(
      request("PUT", "/v1/uploads/\(id)/chunks/\(index)", fields(bytes, index: index, session: id)),
      body: body ?? bytes)
  }

  private func problem(_ answer: Answer?) -> ProblemType? {
    (try? WireJSON.decode(Problem.self, from: answer?.body ?? []))?.knownType
  }

  @Test func fileInChunks_goesAllTheWay() throws {
    let file: [UInt8] = [1, 2, 3, 4, 5, 6]
    let id = try open()
    #expect(put(id, 0, [1, 2, 3, 4])?.status == 201)
    #expect(put(id, 0, [1, 2, 3, 4])?.status == 200)
    #expect(put(id, 1, [5, 6])?.status == 201)
    let held = try WireJSON.decode(
      HeldResponse.self, from: send(request("GET", "/v1/uploads/\(id)?digests=1"))?.body ?? [])
    #expect(held.held == [ChunkIndexRange(first: 0, last: 1)] && held.digests?.count == 2)
    let facts = CoreHarness.commitParameters(SessionID(id), file)
    let commit = CommitRequest(
      sizeBytes: 6, chunkCount: 2, merkleRoot: Hex.encode(facts.merkleRoot), chainTip: Hex.encode(facts.chainTip),
      name: "scan.mov", ifExists: .replace, modifiedNanoseconds: 0, mode: 0o644)
    let answer = send(request("POST", "/v1/uploads/\(id)/commit"), body: WireJSON.encode(commit))
    #expect(answer?.status == 200)
    let receipt = try WireJSON.decode(ReceiptBody.self, from: answer?.body ?? [])
    #expect(receipt.sizeBytes == 6 && receipt.fileID == "f")
    #expect(problem(send(request("DELETE", "/v1/uploads/\(id)"))) == .conflict)
  }

  @Test(.promises("P45", "P56")) func wholeFile_goesAllTheWay() throws {
    let bytes: [UInt8] = [1, 2, 3]
    let headers = FileHeaders(
      idempotencyKey: try #require(IdempotencyKey(text: "k")), nonce: [UInt8](repeating: 7, count: 32),
      modifiedNanoseconds: 0, mode: 0o644, fileID: "the file", ifExists: .replace)
    let sent = request("PUT", "/v1/files/a%20b", fields(bytes, index: 0, session: "k") + headers.fields)
    #expect(problem(send(sent, body: [1, 2])) == .badRequest)
    #expect(problem(send(sent, body: [1, 2, 3, 4])) == .badRequest)
    #expect(problem(send(sent, body: [1, 2, 4])) == .digestMismatch)
    let answer = send(sent, body: bytes)
    #expect(answer?.status == 201)
    #expect(try WireJSON.decode(ReceiptBody.self, from: answer?.body ?? []).fileID == "the file")
  }

  private static let ownership = NameOwnership(
    ifTaken: .refuse,
    replaces: [
      PublicationClaim(fileID: "f", merkleRoot: sha256([1]), sizeBytes: 3, chunkBytes: 4),
      PublicationClaim(fileID: "g", merkleRoot: sha256([2]), sizeBytes: 0, chunkBytes: nil),
    ], publishedAs: "a-2.mov")

  private func commit(_ id: String, _ change: (inout CommitRequest) -> Void = { _ in }) -> Answer? {
    let facts = CoreHarness.commitParameters(SessionID(id), [])
    var commit = CommitRequest(
      sizeBytes: 0, chunkCount: 0, merkleRoot: Hex.encode(facts.merkleRoot), chainTip: Hex.encode(facts.chainTip),
      name: "scan.mov", ifExists: .fail, ownership: Self.ownership, modifiedNanoseconds: 0, mode: 0o644)
    change(&commit)
    return send(request("POST", "/v1/uploads/\(id)/commit"), body: WireJSON.encode(commit))
  }

  @Test(.promises("P108")) func whoseANameMayBe_goesToTheStore() throws {
    #expect(commit(try open())?.status == 200)
    let headers = FileHeaders(
      idempotencyKey: try #require(IdempotencyKey(text: "k")), nonce: [UInt8](repeating: 7, count: 32),
      modifiedNanoseconds: 0, mode: 0o644, fileID: "the file", ifExists: .replace, ownership: Self.ownership)
    let sent = request("PUT", "/v1/files/a", fields([1], index: 0, session: "k") + headers.fields)
    #expect(send(sent, body: [1])?.status == 201)
    #expect(core.publications.map(\.ownership) == [Self.ownership, Self.ownership])
    #expect(core.publications.map(\.chunkBytes) == [4, 1])
  }

  @Test(.promises("P108")) func whoseANameMayBe_isReadStrictly() throws {
    let id = try open()
    let many = [PublicationClaim](repeating: Self.ownership.replaces[0], count: NameOwnership.replacesMax + 1)
    let refusals = [
      commit(id) { $0.replaces = many }, commit(id) { $0.publishedAs = "../a" }, commit(id) { $0.publishedAs = "" },
    ]
    for (answer, field) in zip(refusals, ["replaces", "published_as", "published_as"]) {
      let problem = try WireJSON.decode(Problem.self, from: answer?.body ?? [])
      #expect(answer?.status == 400 && problem.field == field)
    }
    #expect(commit(id) { $0.replaces = many.dropLast() }?.status == 200)
  }

  @Test(.promises("P3", "P12")) func credential_isAskedForBeforeAnythingElse() {
    for (method, target) in [
      ("GET", "/v1/capabilities"), ("GET", "/v1/stats"), ("POST", "/v1/uploads"), ("PUT", "/v1/files/x"),
      ("GET", "/v1/uploads/x"), ("PUT", "/v1/uploads/x/chunks/0"),
    ] {
      #expect(problem(send(request(method, target, token: nil))) == .unauthorized)
      #expect(problem(send(request(method, target, token: "wrong"))) == .unauthorized)
    }
    #expect(send(request("HEAD", "/v1/", token: nil))?.status == 204)
    #expect(problem(send(request("GET", "/elsewhere", token: nil))) == .notFound)
    #expect(problem(send(request("PATCH", "/v1/uploads"))) == .methodNotAllowed)
  }

  @Test func bodyThatIsNotWhatWasAnnounced_isRefused() throws {
    let id = try open()
    #expect(problem(put(id, 0, [1, 2, 3, 4], sending: [1, 2, 3])) == .badRequest)
    #expect(problem(put(id, 0, [1, 2, 3, 4], sending: [1, 2, 3, 4, 5])) == .badRequest)
    #expect(problem(put(id, 0, [1, 2, 3, 4], sending: [4, 3, 2, 1])) == .digestMismatch)
    #expect(core.heldIndices(SessionID(id)) == [])
  }

  @Test(.promises("P9")) func jsonThatCannotBeUsed_namesTheMember() {
    let opening = request("POST", "/v1/uploads", [(HeaderName.idempotencyKey, "\"k\"")])
    #expect(problem(send(opening, body: Array("{".utf8))) == .badRequest)
    let answer = send(opening, body: Array(#"{"name":"x"}"#.utf8))
    #expect(answer?.status == 400)
    #expect(problem(send(request("POST", "/v1/uploads"), body: [])) == .badRequest)
  }
}
