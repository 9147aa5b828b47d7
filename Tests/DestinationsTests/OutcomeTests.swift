import ChunkProtocol
import Destinations
import FileModel
import Integrity
import Lookup
import Promises
import Testing
import TransferModel

@Suite struct OutcomeTests {
  private let destination: ChunkProtocolDestination

  init() throws { destination = try Fixture.destination() }

  // MARK: - Successes

  @Test func prewarm_isWarmed() {
    #expect(destination.outcome(of: .prewarm, response: Fixture.answer(204)) == .warmed)
  }

  @Test(.promises("P17"), arguments: [200, 201])
  func opening_givesTheSession(status: Int) {
    let answer = Fixture.answer(status, SessionResponse(id: "abc", chunkBytes: 1 << 20, expiresAtSeconds: 77))
    #expect(
      destination.outcome(of: .openSession(Fixture.opening()), response: answer)
        == .sessionOpened(id: "abc", chunkBytes: 1 << 20, expiresAtSeconds: 77))
  }

  @Test(
    .promises("P18"),
    arguments: [
      (nil, [.identity]), ([], [.identity]), (["identity"], [.identity]), (["lz4"], [.identity, .lz4]),
      (["new", "", "LZ4", "identity", "lz4", "lz4"], [.identity, .lz4]), (["zstd"], [.identity, .zstd]),
      (["zstd;stride=4"], [.identity]),
    ] as [([String]?, LookupSet<OfferedEncoding>)])
  func encodings_thatAreNotKnown_areIgnored(listed: [String]?, understood: LookupSet<OfferedEncoding>) {
    let opened = destination.outcome(
      of: .openSession(Fixture.opening()),
      response: Fixture.answer(
        201, SessionResponse(id: "abc", chunkBytes: 1 << 20, expiresAtSeconds: 77, encodings: listed)))
    #expect(opened == .sessionOpened(id: "abc", chunkBytes: 1 << 20, expiresAtSeconds: 77, encodings: understood))
    let held = query(
      HeldResponse(
        id: "s-1_A", state: .open, chunkBytes: 1, held: [], digests: [:], chainTip: "", expiresAtSeconds: 5,
        encodings: listed))
    #expect(held == .held(digests: [:], chunkBytes: 1, expiresAtSeconds: 5, encodings: understood))
  }

  /// It was offered by another version of the receiver.
  @Test(.promises("P117")) func encodingThatIsRefused_isToldApart() {
    let problem = Problem(.badRequest, detail: "must be one of: identity, lz4", field: "X-Chunk-Encoding")
    let outcome = destination.outcome(of: .chunk(Fixture.chunk()), response: Fixture.answer(400, problem))
    #expect(outcome.failure?.kind == .encodingRefused)
    let other = Problem(.badRequest, detail: "is missing", field: "X-Chunk-Size")
    #expect(
      destination.outcome(of: .chunk(Fixture.chunk()), response: Fixture.answer(400, other)).failure?.kind
        == .badRequest)
  }

  @Test func encodings_thatAreNoList_areUnexpected() {
    let text = #"{"id":"abc","chunk_size":1,"expires_at":77,"encodings":"lz4"}"#
    let outcome = destination.outcome(
      of: .openSession(Fixture.opening()), response: Fixture.answer(201, text: text))
    #expect(outcome.failure?.kind == .unexpectedAnswer)
  }

  @Test(
    .promises("P17", "P96"),
    arguments: [
      SessionResponse(id: "", chunkBytes: 1, expiresAtSeconds: 1),
      SessionResponse(id: "../../x", chunkBytes: 1, expiresAtSeconds: 1),
      SessionResponse(id: "a b", chunkBytes: 1, expiresAtSeconds: 1),
      SessionResponse(id: "a\r\nX: y", chunkBytes: 1, expiresAtSeconds: 1),
      SessionResponse(id: "a", chunkBytes: 0, expiresAtSeconds: 1),
      SessionResponse(id: "a", chunkBytes: -1, expiresAtSeconds: 1),
      SessionResponse(id: "a", chunkBytes: (32 << 20) + 1, expiresAtSeconds: 1),
    ])
  func opening_withAnUnusableSession_isUnexpected(session: SessionResponse) {
    let outcome = destination.outcome(of: .openSession(Fixture.opening()), response: Fixture.answer(201, session))
    #expect(outcome.failure?.kind == .unexpectedAnswer)
  }

  @Test(.promises("P34")) func query_givesDigestsByIndex() {
    let outcome = query(
      HeldResponse(
        id: "s-1_A", state: .open, chunkBytes: 1, held: [.init(first: 0, last: 0), .init(first: 7, last: 7)],
        digests: ["0": Hex.encode(sha256([0])), "7": Hex.encode(sha256([7])).uppercased()],
        chainTip: "", expiresAtSeconds: 9))
    #expect(outcome == .held(digests: [0: sha256([0]), 7: sha256([7])], chunkBytes: 1, expiresAtSeconds: 9))
  }

  @Test func query_ofAnEmptySession_needsNoDigests() {
    let outcome = query(
      HeldResponse(id: "s-1_A", state: .open, chunkBytes: 1, held: [], digests: nil, chainTip: "", expiresAtSeconds: 0))
    #expect(outcome == .held(digests: [:], chunkBytes: 1, expiresAtSeconds: 0))
  }

  @Test(.promises("P34")) func query_ofACommittedSession_givesTheReceipt() {
    let outcome = query(
      HeldResponse(
        id: "s-1_A", state: .committed, chunkBytes: 1, held: [], digests: nil, chainTip: "", expiresAtSeconds: 0,
        receipt: Fixture.receipt()))
    #expect(outcome == .published(receipt()))
  }

  @Test(.promises("P96")) func query_withNonsense_isUnexpected() {
    let digest = Hex.encode(sha256([]))
    for digests in [["-1": digest], ["x": digest], ["01": digest], ["200000": digest], ["0": "ab"], ["0": ""]] {
      let outcome = query(
        HeldResponse(
          id: "s-1_A", state: .open, chunkBytes: 1, held: [], digests: digests, chainTip: "", expiresAtSeconds: 0))
      #expect(outcome.failure?.kind == .unexpectedAnswer, "\(digests)")
    }
    let others = [
      HeldResponse(
        id: "s-1_A", state: .open, chunkBytes: 0, held: [], digests: [:], chainTip: "", expiresAtSeconds: 0),
      HeldResponse(id: "x", state: .open, chunkBytes: 1, held: [], digests: [:], chainTip: "", expiresAtSeconds: 0),
      HeldResponse(
        id: "s-1_A", state: .open, chunkBytes: 1, held: [.init(first: 0, last: 0)], digests: nil, chainTip: "",
        expiresAtSeconds: 0),
      HeldResponse(
        id: "s-1_A", state: .committed, chunkBytes: 1, held: [], digests: [:], chainTip: "", expiresAtSeconds: 0),
    ]
    for body in others { #expect(query(body).failure?.kind == .unexpectedAnswer, "\(body)") }
  }

  @Test(arguments: [200, 201])
  func chunk_isStored(status: Int) {
    #expect(destination.outcome(of: .chunk(Fixture.chunk()), response: Fixture.answer(status)) == .chunkStored)
  }

  @Test(.promises("P45")) func commit_givesTheReceipt() {
    let outcome = destination.outcome(of: .commit(Fixture.commit()), response: Fixture.answer(200, Fixture.receipt()))
    #expect(outcome == .published(receipt()))
  }

  /// Older receivers do not say whose it is.
  @Test(.promises("P45")) func receiptSaysWhichCaptureItIsOf() {
    for said in [Fixture.fileID.description, nil, "another program's"] {
      var body = Fixture.receipt()
      body.fileID = said
      let outcome = destination.outcome(of: .commit(Fixture.commit()), response: Fixture.answer(200, body))
      guard case .published(let receipt) = outcome else {
        Issue.record("\(outcome)")
        continue
      }
      #expect(receipt.fileID == said.flatMap { FileID($0) })
    }
  }

  @Test(.promises("P97")) func receipt_forSomethingElse_isNotBelieved() {
    let changes: [(inout ReceiptBody) -> Void] = [
      { $0.sizeBytes += 1 }, { $0.name = "other" }, { $0.merkleRoot = Hex.encode(sha256([9])) },
      { $0.chainTip = Hex.encode(sha256([9])) }, { $0.merkleRoot = "" }, { $0.id = "a\u{1b}" }, { $0.id = "" },
      { $0.name = "a/../b" },
    ]
    for (position, change) in changes.enumerated() {
      var body = Fixture.receipt()
      change(&body)
      let outcome = destination.outcome(of: .commit(Fixture.commit()), response: Fixture.answer(200, body))
      #expect(outcome.failure?.kind == .unexpectedAnswer, "change \(position)")
    }
  }

  @Test(.promises("P75a")) func receipt_withAnotherSpellingOfTheName_isNotBelieved() {
    var commit = Fixture.commit()
    commit.path = RelativePath("e\u{301}.mov")
    var body = Fixture.receipt(commit)
    body.name = "\u{e9}.mov"
    #expect(body.name == "e\u{301}.mov")
    let outcome = destination.outcome(of: .commit(commit), response: Fixture.answer(200, body))
    #expect(outcome.failure?.kind == .unexpectedAnswer)
  }

  @Test(.promises("P56"), arguments: [Array("123456789".utf8), []])
  func wholeFile_givesTheReceiptOfItsOneChunk(content: [UInt8]) throws {
    let sending = Fixture.wholeFile(content)
    let request = destination.request(for: .wholeFile(sending))
    let key = try #require(request.header("Idempotency-Key").flatMap(IdempotencyKey.init(headerValue:)))
    var body = Fixture.receipt(name: "a b/c.txt", content, key: key.text)
    for status in [200, 201] {
      let outcome = destination.outcome(of: .wholeFile(sending), response: Fixture.answer(status, body))
      guard case .published(let receipt) = outcome else {
        Issue.record("\(outcome)")
        return
      }
      #expect(receipt.sizeBytes == UInt64(content.count))
    }
    let right = body
    let changes: [(inout ReceiptBody) -> Void] = [
      { $0.chainTip = Hex.encode(sha256([9])) }, { $0.merkleRoot = Hex.encode(sha256([9])) }, { $0.sizeBytes += 1 },
      { $0.name += "x" },
    ]
    for (position, change) in changes.enumerated() {
      body = right
      change(&body)
      let outcome = destination.outcome(of: .wholeFile(sending), response: Fixture.answer(201, body))
      #expect(outcome.failure?.kind == .unexpectedAnswer, "change \(position)")
    }
  }

  @Test(.promises("P81")) func compressedWholeFile_isReceiptedForItsPlainBytes() throws {
    let content = [UInt8](repeating: 0, count: 1000)
    var sending = Fixture.wholeFile(content)
    sending.encoding = .lz4
    sending.body = TestBytes([7, 7])
    let request = destination.request(for: .wholeFile(sending))
    let key = try #require(request.header("Idempotency-Key").flatMap(IdempotencyKey.init(headerValue:)))
    let body = Fixture.receipt(name: "a b/c.txt", content, key: key.text)
    let outcome = destination.outcome(of: .wholeFile(sending), response: Fixture.answer(201, body))
    #expect(outcome.failure == nil)
  }

  @Test(.promises("P53")) func abort_isEnded_whereTheReceiverSaysThatItDoesNotKnowTheSession() {
    let answers = [
      Fixture.answer(204), Fixture.answer(200), Fixture.answer(404, Problem(.notFound, detail: "")),
      Fixture.answer(410, Problem(.sessionExpired, detail: "")),
    ]
    for answer in answers {
      #expect(destination.outcome(of: .abort(Fixture.session), response: answer) == .ended, "\(answer.status)")
    }
    // Regression: a proxy whose receiver was away had ended it.
    for status in [404, 410] {
      let outcome = destination.outcome(of: .abort(Fixture.session), response: Fixture.answer(status))
      #expect(outcome != .ended && outcome.failure?.kind != .sessionGone)
    }
  }

  // MARK: - Refusals

  @Test(.promises("P41")) func incomplete_listsTheChunks() {
    let problem = Problem(.incomplete, detail: "", missing: [2, 0, 2, 3, -1, 99])
    #expect(
      destination.outcome(of: .commit(Fixture.commit()), response: Fixture.answer(409, problem))
        == .incomplete(missing: [0, 2]))
  }

  @Test(arguments: [nil, [], [3], [-1]] as [[Int]?])
  func incomplete_withoutAChunkOfThisFile_isUnexpected(missing: [Int]?) {
    let problem = Problem(.incomplete, detail: "", missing: missing)
    let outcome = destination.outcome(of: .commit(Fixture.commit()), response: Fixture.answer(409, problem))
    #expect(outcome.failure?.kind == .unexpectedAnswer)
  }

  @Test(.promises("P42")) func rootMismatch_atCommit_asksWhatIsHeld() {
    let problem = Problem(.digestMismatch, detail: "", field: "merkle_root")
    let outcome = destination.outcome(of: .commit(Fixture.commit()), response: Fixture.answer(422, problem))
    #expect(outcome.failure?.kind == .conflict)
  }

  @Test(
    .promises("P93"),
    arguments: [
      (ProblemType.unauthorized, StepFailure.Kind.unauthorized), (.forbidden, .forbidden), (.notFound, .sessionGone),
      (.sessionDamaged, .sessionDamaged), (.sessionExpired, .sessionGone), (.methodNotAllowed, .badRequest),
      (.timeout, .transport(.timedOut)),
      (.conflict, .conflict), (.idempotencyMismatch, .badRequest), (.exists, .nameRefused),
      (.tooLarge, .tooLarge(limitBytes: nil)), (.digestMismatch, .digestMismatch), (.tagMismatch, .tagMismatch),
      (.nameRefused, .nameRefused), (.badRequest, .badRequest), (.tooEarly, .tooEarly), (.busy, .busy),
      (.insufficientStorage, .insufficientStorage), (.quotaExceeded, .insufficientStorage),
      (.internalError, .serverError),
    ])
  func problem_decidesTheFailure(type: ProblemType, kind: StepFailure.Kind) {
    let answer = Fixture.answer(type.status, Problem(type, detail: "words"))
    let failure = destination.outcome(of: .chunk(Fixture.chunk()), response: answer).failure
    #expect(failure?.kind == kind)
    #expect(failure?.message.contains(Fixture.base) == true)
    #expect(failure?.message.contains("secret-token") == false)
  }

  @Test(
    .promises("P95"),
    arguments: [
      (301, StepFailure.Kind.misdirected), (304, .misdirected), (400, .serverError), (401, .unauthorized),
      (403, .serverError), (404, .serverError), (405, .serverError), (407, .unauthorized),
      (408, .transport(.timedOut)),
      (409, .conflict), (410, .serverError), (411, .serverError), (413, .requestTooLarge),
      (415, .serverError),
      (418, .serverError), (422, .serverError), (425, .tooEarly), (429, .busy), (431, .serverError),
      (500, .serverError), (502, .serverError), (503, .busy), (504, .serverError), (507, .insufficientStorage),
      (599, .serverError), (0, .unexpectedAnswer), (-1, .unexpectedAnswer), (100, .unexpectedAnswer),
      (202, .unexpectedAnswer), (600, .unexpectedAnswer), (Int.max, .unexpectedAnswer),
    ])
  func status_decidesWithoutAProblem(status: Int, kind: StepFailure.Kind) {
    for text in ["", "nginx", "{}", #"{"type":"https://example.org/x"}"#, "{\"type\":7}"] {
      let outcome = destination.outcome(of: .chunk(Fixture.chunk()), response: Fixture.answer(status, text: text))
      #expect(outcome.failure?.kind == kind, "\(text)")
    }
  }

  /// Found behind HAProxy and Apache: where they did not reach the receiver it was said to be busy, and its log was to say why.
  @Test(arguments: [500, 503]) func whatAProxyMayHaveSaid_isNotPutOnTheReceiverAlone(status: Int) {
    let problem = Problem(status == 503 ? .busy : .internalError, detail: "")
    let answers = [Fixture.answer(status, text: ""), Fixture.answer(status, problem)]
    let said = answers.map { destination.outcome(of: .prewarm, response: $0).failure?.message.contains("a proxy") }
    #expect(said == [true, false])
  }

  /// Regression: what a receiver calls its shortest chunk may be nonsense, and doctor ended in the middle of it.
  @Test(arguments: [(-5, -1), (-1, 4 << 20), (0, 4 << 20), (8 << 20, 4 << 20), (Int.min, Int.max)] as [(Int, Int)])
  func capabilitiesThatMakeNoSense_sayNothingOfChunks(least: Int, most: Int) throws {
    let capabilities = Capabilities(
      chunkBytesMin: least, chunkBytesMax: most, fileBytesMax: 7, concurrentChunks: -1, wholeFileBytesMax: -1)
    let limits = try #require(try Fixture.destination().limits(in: Fixture.answer(200, capabilities)))
    #expect(limits == DestinationLimits(fileBytesMax: 7, chunkBytes: nil, wholeFileBytesMax: 0))
  }

  /// The receiver is still at an earlier request for the same file: to ask again when it says so is no try that has failed. Regression: three
  /// files of which it said so held up all others, as if it had been said of the receiver.
  @Test(.promises("P58", "DE144")) func aFileThatTheReceiverIsStillAt_holdsUpNoOther() {
    let problem = Problem(.conflict, detail: "the first one is running")
    let whole = DestinationStep.wholeFile(Fixture.wholeFile())
    let later = [HTTPHeader("retry-after", "2")]
    for step in [whole, .bundle([Fixture.wholeFile()])] {
      let failure = destination.outcome(of: step, response: Fixture.answer(409, problem, headers: later)).failure
      #expect(failure?.retryAfter == .seconds(2) && failure?.message.contains("earlier request for this file") == true)
      #expect(failure?.kind == .tooEarly)
    }
    // A later request has published the name, for as long as no other one does.
    #expect(destination.outcome(of: whole, response: Fixture.answer(409, problem)).failure?.kind == .conflict)
    for step in [DestinationStep.chunk(Fixture.chunk()), .commit(Fixture.commit()), .openSession(Fixture.opening())] {
      let answer = Fixture.answer(409, problem, headers: later)
      #expect(destination.outcome(of: step, response: answer).failure?.kind == .conflict)
    }
    // Nor does something in between speak for it.
    #expect(
      destination.outcome(of: whole, response: Fixture.answer(409, text: "", headers: later)).failure?.kind == .conflict
    )
  }

  @Test func unknownPath_isNoReceiver_whereThereIsNoSessionYet() {
    for step in [DestinationStep.openSession(Fixture.opening()), .wholeFile(Fixture.wholeFile())] {
      let answer = Fixture.answer(404, Problem(.notFound, detail: ""))
      let failure = destination.outcome(of: step, response: answer).failure
      #expect(failure?.kind == .unexpectedAnswer)
      #expect(failure?.message.contains("Check the address") == true)
      // Regression: a proxy whose receiver is away for some minutes says so, and ten of these ended a file.
      #expect(destination.outcome(of: step, response: Fixture.answer(404)).failure?.kind == .serverError)
    }
    // What only opens a connection has no body to name a problem in.
    for (status, kind) in [(404, StepFailure.Kind.unexpectedAnswer), (403, .forbidden), (405, .badRequest)] {
      #expect(destination.outcome(of: .prewarm, response: Fixture.answer(status)).failure?.kind == kind)
    }
    for step in [DestinationStep.querySession(Fixture.session), .commit(Fixture.commit())] {
      for type in [ProblemType.notFound, .sessionExpired] {
        let answer = Fixture.answer(type.status, Problem(type, detail: ""))
        #expect(destination.outcome(of: step, response: answer).failure?.kind == .sessionGone)
      }
    }
  }

  /// Regression: a reverse proxy whose receiver is away answers so, and the session was given up.
  @Test(.promises("P95")) func aBare404_endsNoSession_andSaysWhoAnswered() {
    for step in [DestinationStep.querySession(Fixture.session), .chunk(Fixture.chunk()), .commit(Fixture.commit())] {
      for status in [404, 410] {
        let failure = destination.outcome(of: step, response: Fixture.answer(status)).failure
        #expect(failure?.kind == .serverError)
        #expect(failure?.message.contains("or something in its place did") == true)
        // One of a later version may say what is not known here.
        let unknown = Fixture.answer(status, text: #"{"type":"urn:uploadfs:problem:odd"}"#)
        #expect(destination.outcome(of: step, response: unknown).failure?.kind == .unexpectedAnswer)
      }
    }
  }

  /// Regression: a page with 200 was the word of the receiver that it holds a chunk, and one of 8 s with another status
  /// failed everything that was pending.
  @Test(.promises("DE103", "P96"), arguments: [200, 201, 204, 400, 403, 404, 405, 410, 451, 500, 511])
  func aPageInTheReceiversPlace_saysNothingOfAFile(status: Int) {
    let page = Fixture.answer(
      status, text: "<html><title>Sign in\n to WiFi</title>", headers: [HTTPHeader("content-type", "text/html")])
    let steps: [DestinationStep] = [
      .openSession(Fixture.opening()), .chunk(Fixture.chunk()), .commit(Fixture.commit()),
      .wholeFile(Fixture.wholeFile()),
    ]
    for step in steps {
      let failure = destination.outcome(of: step, response: page).failure
      #expect(failure?.kind == .serverError)
      #expect(failure?.message.contains("“Sign in to WiFi”") == true)
      #expect(failure?.message.contains("captive portal") == true)
    }
  }

  /// Regression: a server had 40 MB sent in chunks of one byte.
  @Test(.promises("P96"), arguments: [(1, UInt64?.none), (4096, 40 << 20), (256 << 10, 1 << 40), (1 << 20, 1 << 40)])
  func chunksThatTheProtocolDoesNotHave_areNotTaken(chunkBytes: Int, sizeBytes: UInt64?) {
    let answer = Fixture.answer(201, SessionResponse(id: "abc", chunkBytes: chunkBytes, expiresAtSeconds: 77))
    let outcome = destination.outcome(of: .openSession(Fixture.opening(size: sizeBytes)), response: answer)
    #expect(outcome.failure?.kind == .unexpectedAnswer)
  }

  @Test func limit_isToldInBytes() {
    let answer = Fixture.answer(413, Problem(.tooLarge, detail: "", limit: 4096))
    let failure = destination.outcome(of: .openSession(Fixture.opening()), response: answer).failure
    #expect(failure?.kind == .tooLarge(limitBytes: 4096))
    #expect(failure?.message.contains("4096 bytes") == true)
  }

  @Test func unauthorized_saysWhatToDo() {
    let failure = destination.outcome(of: .prewarm, response: Fixture.answer(401)).failure
    #expect(failure?.message.contains("Check --token-file or --token-command") == true)
  }

  @Test func detail_reachesPeopleWithoutControlCharacters() {
    let problem = Problem(
      .nameRefused, detail: "bad\u{1b}[2J\nname" + String(repeating: "x", count: 10_000), field: "n\u{7}")
    let failure = destination.outcome(of: .commit(Fixture.commit()), response: Fixture.answer(422, problem)).failure
    let message = failure?.message ?? ""
    #expect(message.contains("bad [2J name"))
    #expect(message.unicodeScalars.allSatisfy { $0.value >= 0x20 })
    #expect(message.utf8.count < 600)
  }

  @Test(
    .promises("P94"),
    arguments: [
      ("3", nil, Duration.seconds(3)), ("0", nil, .zero), ("999999999999999999999999", nil, .seconds(86_400)),
      ("-3", nil, nil), ("soon", nil, nil), ("", nil, nil), ("1.5", nil, nil),
      ("Sun, 06 Nov 1994 08:49:47 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", .seconds(10)),
      ("Thu, 29 Feb 2024 00:00:05 GMT", "Wed, 28 Feb 2024 23:59:55 GMT", .seconds(10)),
      ("Fri, 01 Mar 2024 00:00:05 GMT", "Thu, 29 Feb 2024 23:59:55 GMT", .seconds(10)),
      ("Thu, 01 Jan 2026 00:00:00 GMT", "Wed, 31 Dec 2025 23:59:00 GMT", .seconds(60)),
      ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 09:49:37 GMT", .zero),
      ("Sun, 06 Nov 9994 08:49:37 GMT", "Sun, 06 Nov 1994 09:49:37 GMT", .seconds(86_400)),
      ("Sun, 06 Nov 1994 08:49:37 GMT", nil, nil),
      ("Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", nil),
      ("Sun, 06 Nov 1994 99:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", nil),
    ] as [(String, String?, Duration?)])
  func retryAfter_isReadInBothForms(value: String, date: String?, expected: Duration?) {
    var headers = [HTTPHeader("retry-after", value)]
    if let date { headers.append(HTTPHeader("date", date)) }
    for answer in [
      Fixture.answer(503, text: "", headers: headers),
      Fixture.answer(503, Problem(.busy, detail: ""), headers: headers),
    ] {
      #expect(destination.outcome(of: .prewarm, response: answer).failure?.retryAfter == expected)
    }
  }

  /// Regression: a date counted for nothing where the answer had none of its own.
  @Test(
    .promises("P94"),
    arguments: [
      ("Sun, 06 Nov 1994 08:49:47 GMT", nil, 784_111_777, .seconds(10)),
      ("Sun, 06 Nov 1994 08:49:47 GMT", "soon", 784_111_777, .seconds(10)),
      ("Sun, 06 Nov 1994 08:49:47 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", 0, .seconds(10)),
      ("Sun, 06 Nov 1994 08:49:47 GMT", nil, 784_111_800, .zero),
      ("Sun, 06 Nov 1994 08:49:47 GMT", nil, 0, .seconds(86_400)), ("7", nil, 784_111_777, .seconds(7)),
    ] as [(String, String?, Int64, Duration)])
  func dateOfRetryAfter_isMeasuredByThisMachinesClock_whereTheAnswerHasNoDate(
    value: String, date: String?, receivedAt: Int64, expected: Duration
  ) {
    var headers = [HTTPHeader("retry-after", value)]
    if let date { headers.append(HTTPHeader("date", date)) }
    var answer = Fixture.answer(503, text: "", headers: headers)
    answer.receivedAtSeconds = receivedAt
    #expect(destination.outcome(of: .prewarm, response: answer).failure?.retryAfter == expected)
  }

  @Test func anyAnswerToAnyStep_isAnOutcome() {
    let seed: UInt64 = 1
    var generator = SeededGenerator(state: seed)
    let bodies = [
      WireJSON.encode(SessionResponse(id: "abc", chunkBytes: 1 << 20, expiresAtSeconds: 77)),
      WireJSON.encode(Fixture.receipt()),
      WireJSON.encode(Problem(.incomplete, detail: "d", missing: [1, .max, .min], limit: .max, field: "f")),
      WireJSON.encode(
        HeldResponse(
          id: "s-1_A", state: .open, chunkBytes: 1, held: [.init(first: 0, last: .max)], digests: ["0": ""],
          chainTip: "", expiresAtSeconds: 0, receipt: Fixture.receipt())),
      Array(#"{"id":9e99,"chunk_size":-9223372036854775808,"digests":[],"size":1e1000}"#.utf8),
      [], [0xff, 0xfe, 0x00], [UInt8](repeating: UInt8(ascii: "["), count: 50_000),
    ]
    for body in bodies {
      for step in Fixture.steps {
        for status in [200, 201, 204, 400, 409, 413, 422, 503] {
          var damaged = body
          if !damaged.isEmpty, Bool.random(using: &generator) {
            damaged[Int.random(in: 0..<damaged.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
          }
          // Returns; a trap would end the process.
          let outcome = destination.outcome(of: step, response: HTTPResponse(status: status, body: damaged))
          if status >= 400, let failure = outcome.failure { #expect(!failure.message.isEmpty, "seed \(seed)") }
        }
      }
    }
  }

  private func query(_ body: HeldResponse) -> StepOutcome {
    destination.outcome(of: .querySession(Fixture.session), response: Fixture.answer(200, body))
  }

  private func receipt() -> Receipt {
    Receipt(
      id: "r1", name: "a/b%0A.mov", sizeBytes: 10_000_000, merkleRoot: Hex.encode(sha256([1])),
      chainTip: Hex.encode(sha256([2])), publishedAtMilliseconds: 99)
  }
}

private struct SeededGenerator: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return state ^ (state >> 29)
  }
}
