import FileModel
import Integrity
import Lookup
import Promises
import RawStructuredFieldValues
import Testing
import TransferModel

@testable import Destinations

/// A destination of the IETF's draft, and answers of its servers.
enum ResumableFixture {
  static let content = Array("123456789".utf8)

  static func address() throws -> TusAddress {
    try TusAddress("tus+https://up.example.org:8443/files/", allowPlainHTTP: false)
  }

  static func destination(_ change: (inout TusOptions) -> Void = { _ in }) throws -> ResumableDestination {
    var options = TusOptions()
    change(&options)
    return try ResumableDestination(
      address: try address(), credential: .bearer(Fixture.token), options: options,
      secondsSince1970: { 1_700_000_000 })
  }

  static func discovery(_ limits: String? = nil) -> HTTPResponse {
    Fixture.answer(
      204,
      headers: [HTTPHeader("accept-patch", "text/plain, Application/Partial-Upload;x=1")]
        + (limits.map { [HTTPHeader("upload-limit", $0)] } ?? []))
  }

  static func created(_ location: String = "/files/u1", limits: String? = nil) -> HTTPResponse {
    Fixture.answer(
      201,
      headers: [HTTPHeader("location", location), HTTPHeader("upload-complete", "?0")]
        + (limits.map { [HTTPHeader("upload-limit", $0)] } ?? []))
  }

  /// Bytes were taken; how far the upload goes is not said.
  static let took = Fixture.answer(204, headers: [HTTPHeader("upload-complete", "?0")])

  static func at(_ offset: Int, isComplete: Bool = false, _ headers: [HTTPHeader] = []) -> HTTPResponse {
    Fixture.answer(
      204,
      headers: [HTTPHeader("upload-offset", "\(offset)"), HTTPHeader("upload-complete", isComplete ? "?1" : "?0")]
        + headers)
  }

  static func done(_ status: Int = 200) -> HTTPResponse {
    Fixture.answer(status, headers: [HTTPHeader("upload-complete", "?1")])
  }

  static func problem(_ status: Int, _ name: String, _ headers: [HTTPHeader] = []) -> HTTPResponse {
    Fixture.answer(
      status, text: #"{"type":"https:\/\/iana.org\/assignments\/http-problem-types#\#(name)","title":"x"}"#,
      headers: [HTTPHeader("content-type", "application/problem+json")] + headers)
  }

  /// The server itself refuses.
  static func refusal(_ status: Int) -> HTTPResponse {
    Fixture.answer(status, headers: [HTTPHeader("upload-draft-interop-version", "8")])
  }

  static func conflict(at offset: Int) -> HTTPResponse {
    problem(409, "mismatching-upload-offset", [HTTPHeader("upload-offset", "\(offset)")])
  }

  /// Sends a step as the engine does; what was asked, and what became of it.
  static func run(
    _ step: DestinationStep, _ destination: any Destination, _ answers: [HTTPResponse]
  ) -> (requests: [HTTPRequest], outcome: StepOutcome) {
    var requests = [destination.request(for: step, at: .first)]
    var responses: [HTTPResponse] = []
    for answer in answers {
      responses.append(answer)
      guard let next = destination.followUp(of: step, after: responses, at: .first) else { break }
      requests.append(next)
    }
    #expect(responses.count == answers.count && requests.count == answers.count, "other requests than answers")
    return (requests, destination.outcome(of: step, responses: responses))
  }

  /// A session of chunks of 9 bytes; the server is known.
  static func session(
    _ destination: ResumableDestination, length: UInt64? = nil, limits: String? = nil
  ) -> String {
    var opening = Fixture.opening(size: length)
    opening.chunkBytes = 9
    let (_, outcome) = run(.openSession(opening), destination, [discovery(limits), created()])
    guard case .sessionOpened(let id, 9, _, _, _, _) = outcome else {
      #expect(Bool(false), "\(outcome)")
      return ""
    }
    return id
  }

  static func chunk(_ index: Int, of session: String, _ content: [UInt8] = content, end: UInt64 = 0) -> DestinationStep
  {
    TusFixture.chunk(index, of: session, AppendPosition(sequenceBytes: end), content)
  }

  static func commit(_ session: String, size: UInt64) -> DestinationStep {
    TusFixture.commit([], session: session, size: size)
  }
}

private typealias Draft = ResumableFixture

@Suite struct ResumableTests {
  private let lost: TransportError = {
    var error = TransportError(.connectionLost, "the line broke")
    error.mayHaveArrived = true
    return error
  }()

  // MARK: - Discovery

  @Test func prewarming_namesTheVersion_andLearnsTheLimits() throws {
    let destination = try Draft.destination()
    let server = Draft.discovery("max-size=77, min-append-size=3000000, x=(\"a\" 1.5);b, max-append-size=4000000")
    let (requests, outcome) = Draft.run(.prewarm, destination, [server])
    #expect(requests[0].method == .options && requests[0].url == "https://up.example.org:8443/files/")
    #expect(requests[0].header("upload-draft-interop-version") == "8")
    #expect(requests[0].header("authorization") == "Bearer \(Fixture.token)")
    #expect(outcome == .warmed)
    let offered = try #require(destination.offers(in: server).abilities)
    #expect(
      offered.appendSequences == .one && !offered.replaceableChunks && offered.unknownLength && offered.needsChunks)
    #expect(offered.fileBytesMax == 77 && offered.wholeFileBytesMax == 4_000_000 && offered.chunkBytesMin == 3_000_000)
    #expect(destination.offers(in: Draft.discovery("min-size=1")).abilities?.unknownLength == false)
    for other in [Draft.took, Draft.at(5), Draft.created(), Fixture.answer(204), Draft.done()] {
      #expect(destination.offers(in: other).abilities == nil)
    }
  }

  @Test(
    .promises("DE61"),
    arguments: [
      ([], StepFailure.Kind.badRequest), ([HTTPHeader("accept-patch", "application/*")], .badRequest),
      ([HTTPHeader("tus-version", "1.0.0")], .badRequest),
      ([HTTPHeader("upload-limit", "max-size=\"1\"")], .badRequest),
      ([HTTPHeader("upload-limit", "min-size=0"), HTTPHeader("upload-draft-interop-version", "6")], .badRequest),
    ])
  func whatDoesNotSpeakTheDraft_isNamed(headers: [HTTPHeader], kind: StepFailure.Kind) throws {
    let destination = try Draft.destination()
    for step in [DestinationStep.openSession(Fixture.opening()), .wholeFile(Fixture.wholeFile())] {
      let (_, outcome) = Draft.run(step, destination, [Fixture.answer(204, headers: headers)])
      #expect(outcome.failure?.kind == kind)
      let message = try #require(outcome.failure?.message)
      #expect(message.contains("interop version 8") && message.contains("--tus-protocol tus"))
      #expect(message.contains("but interop version 6") == headers.contains { $0.value == "6" })
    }
  }

  @Test(arguments: [(401, StepFailure.Kind.unauthorized), (403, .serverError), (503, .busy), (404, .addressRefused)])
  func aRefusalBeforeAnything_isWhatItIs(status: Int, kind: StepFailure.Kind) throws {
    let (_, outcome) = Draft.run(
      .openSession(Fixture.opening()), try Draft.destination(), [Fixture.answer(status)])
    #expect(outcome.failure?.kind == kind)
  }

  // MARK: - Sessions

  @Test(.promises("DE63", "DE65")) func session_isAnUploadWithoutBytes_thatSaysWhatItIs() throws {
    let (creation, opened) = Draft.run(
      .openSession(Fixture.opening(path: "day 1/ü\"%.mov")), try Draft.destination(),
      [Draft.discovery(), Draft.created("u1", limits: "max-age=60, max-append-size=1048577")])
    let request = try #require(creation.last)
    #expect(request.method == .post && request.content == [])
    #expect(request.header("upload-complete") == "?0" && request.header("upload-length") == "10000000")
    #expect(request.header("upload-draft-interop-version") == "8" && request.header("upload-offset") == nil)
    #expect(
      request.header("content-disposition")
        == #"inline; filename="___.mov"; filename*=UTF-8''%C3%BC%22%25.mov"#)
    #expect(request.header("slug") == "day%201/%C3%BC%22%25.mov")
    #expect(request.header("content-type") == "video/quicktime")
    #expect(
      opened
        == .sessionOpened(
          id: "ietf one 1048576/10000000 /files/u1", chunkBytes: 1 << 20, expiresAtSeconds: 1_700_000_060))
  }

  @Test(.promises("DE63")) func aGrowingFile_hasNoLengthYet() throws {
    let (requests, outcome) = Draft.run(
      .openSession(Fixture.opening(size: nil)), try Draft.destination(), [Draft.discovery(), Draft.created()])
    #expect(requests[1].header("upload-length") == nil)
    #expect(outcome == .sessionOpened(id: "ietf one 4194304 /files/u1", chunkBytes: 4 << 20, expiresAtSeconds: nil))
  }

  @Test(
    .promises("DE66"),
    arguments: [
      ("max-size=9999999", StepFailure.Kind.tooLarge(limitBytes: 9_999_999)), ("min-size=10000001", .badRequest),
      ("max-append-size=10000", .badRequest), ("min-append-size=5000000", .badRequest),
    ])
  func limitsThatNoUploadFits_areNamed_andTheUploadIsEnded(limits: String, kind: StepFailure.Kind) throws {
    let (requests, outcome) = Draft.run(
      .openSession(Fixture.opening()), try Draft.destination(),
      [Draft.discovery(), Draft.created(limits: limits), Fixture.answer(204)])
    #expect(requests.map(\.method) == [.options, .post, .delete])
    #expect(outcome.failure?.kind == kind)
  }

  @Test(.promises("DE66")) func aFileBeyondALimit_isRefusedBeforeItIsSent() throws {
    let (requests, outcome) = Draft.run(
      .openSession(Fixture.opening()), try Draft.destination(), [Draft.discovery("max-size=99")])
    #expect(requests.count == 1 && outcome.failure?.kind == .tooLarge(limitBytes: 99))
  }

  @Test(.promises("DE69")) func whatIsHeld_isToldByTheOffset() throws {
    let destination = try Draft.destination()
    let id = Draft.session(destination)
    let query = TusFixture.query(id)
    let (requests, outcome) = Draft.run(query, destination, [Draft.discovery(), Draft.at(22)])
    #expect(requests.map(\.method) == [.options, .head] && requests[1].url.hasSuffix("/files/u1"))
    #expect(outcome == .held(digests: [:], tokens: [0: "9", 1: "18"]))
    let (_, complete) = Draft.run(query, destination, [Draft.discovery(), Draft.at(22, isComplete: true)])
    #expect(complete == .held(digests: [:], tokens: [0: "9", 1: "18", 2: "22"]))
    for status in [404, 410] {
      let (_, outcome) = Draft.run(query, destination, [Draft.discovery(), Fixture.answer(status)])
      #expect(outcome.failure?.kind == .sessionGone)
    }
    let (_, foreign) = Draft.run(TusFixture.query("one 9 /files/u1"), destination, [Draft.discovery()])
    #expect(foreign.failure?.kind == .sessionGone)
  }

  @Test(arguments: ["", "-1", "1.5", "\"5\"", "?1", "99999999999999999999", "5, 6", "a", "５", "0x5", "5 6", ";", "5;"])
  func nonsenseInAField_countsAsNoField(value: String) throws {
    let destination = try Draft.destination()
    let id = Draft.session(destination)
    let answer = Fixture.answer(204, headers: [HTTPHeader("upload-offset", value)])
    let (_, outcome) = Draft.run(TusFixture.query(id), destination, [Draft.discovery(), answer])
    #expect(outcome.failure?.kind == .unexpectedAnswer)
  }

  @Test func aLocationThatIsNone_isNamed() throws {
    for location in ["/a b", "ftp://up.example.org/a"] {
      let (_, outcome) = Draft.run(
        .openSession(Fixture.opening()), try Draft.destination(), [Draft.discovery(), Draft.created(location)])
      #expect(outcome.failure?.kind == .badRequest)
    }
  }

  @Test func everyAnswerToEveryStep_hasAnOutcome() throws {
    let headers = [
      [], [HTTPHeader("upload-offset", "999999999999999")], [HTTPHeader("upload-complete", "?1")],
      [HTTPHeader("location", "//")], [HTTPHeader("upload-limit", "max-age=999999999999999, max-append-size=0")],
    ]
    for status in [0, 100, 200, 201, 204, 301, 307, 400, 404, 409, 410, 413, 500, 503, 999] {
      for field in headers {
        let destination = try Draft.destination()
        let id = Draft.session(destination)
        let identity = SessionIdentity(id: id, nonce: Fixture.nonce)
        let steps =
          Fixture.steps + [
            .querySession(identity), Draft.chunk(3, of: id), Draft.commit(id, size: .max), .abort(identity),
          ]
        for step in steps {
          var responses: [HTTPResponse] = []
          _ = destination.request(for: step)
          repeat {
            responses.append(Fixture.answer(status, headers: field))
          } while responses.count < 300 && destination.followUp(of: step, after: responses) != nil
          #expect(responses.count < 300, "\(step) goes on without end after \(status) \(field)")
          _ = destination.outcome(of: step, responses: responses)
        }
      }
    }
  }

  // MARK: - Chunks

  @Test(.promises("DE63")) func chunk_goesBehindTheOthers_andNeedsNoOffsetInTheAnswer() throws {
    let destination = try Draft.destination()
    let id = Draft.session(destination)
    let (requests, outcome) = Draft.run(Draft.chunk(2, of: id), destination, [Draft.took])
    #expect(requests[0].method == .patch && requests[0].content == Draft.content)
    #expect(requests[0].header("content-type") == "application/partial-upload")
    #expect(requests[0].header("upload-offset") == "18" && requests[0].header("upload-complete") == "?0")
    #expect(requests[0].header("upload-length") == nil)
    let digest = Base64.encode(sha256(Draft.content))
    #expect(requests[0].header("content-digest") == "sha-256=:\(digest):")
    #expect(outcome == .chunkStoredAs(token: "27"))
  }

  @Test func aConflict_isAskedAbout_andOnlyTheRestIsSent() throws {
    let destination = try Draft.destination()
    let id = Draft.session(destination)
    let (requests, outcome) = Draft.run(
      Draft.chunk(0, of: id), destination, [Draft.conflict(at: 4), Draft.at(4), Draft.took])
    #expect(requests.map(\.method) == [.patch, .head, .patch])
    #expect(requests[2].content == Array("56789".utf8) && requests[2].header("upload-offset") == "4")
    #expect(outcome == .chunkStoredAs(token: "9"))
  }

  /// Regression, found by the simulation (several, seed 8700018704): the server had said that the upload ends at its beginning, where an
  /// earlier run had begun another content; what that had sent was taken for the beginning of this one, and both were published together.
  @Test(.promises("DE69"), arguments: [4, 9]) func whatArrivedSinceItWasAsked_isNotOurs(offset: Int) throws {
    let destination = try Draft.destination()
    let id = Draft.session(destination)
    _ = Draft.run(.querySession(SessionIdentity(id: id, nonce: [])), destination, [Draft.discovery(), Draft.at(0)])
    let step = Draft.chunk(0, of: id)
    let (_, unasked) = Draft.run(step, destination, [Draft.conflict(at: offset), Fixture.answer(500)])
    #expect(unasked.failure != nil)
    // Nor is it when it is asked for again.
    let (again, gone) = Draft.run(step, destination, [Draft.at(offset), Fixture.answer(204)])
    #expect(again.map(\.method) == [.head, .delete] && gone.failure?.kind == .sessionGone)
    let another = try Draft.destination()
    let other = Draft.session(another)
    _ = Draft.run(.querySession(SessionIdentity(id: other, nonce: [])), another, [Draft.discovery(), Draft.at(0)])
    let (requests, outcome) = Draft.run(
      Draft.chunk(0, of: other), another, [Draft.conflict(at: offset), Draft.at(offset), Fixture.answer(204)])
    #expect(requests.map(\.method) == [.patch, .head, .delete] && outcome.failure?.kind == .sessionGone)
  }

  /// Regression: such an answer, by something in between, counted as an acknowledgement of all bytes.
  @Test func aSuccessWithoutAWordOfTheDraft_isAskedAbout() throws {
    for status in [200, 202, 204] {
      let destination = try Draft.destination()
      let id = Draft.session(destination)
      let (requests, outcome) = Draft.run(
        Draft.chunk(0, of: id), destination, [Fixture.answer(status), Draft.at(9)])
      #expect(requests.map(\.method) == [.patch, .head])
      #expect(outcome == .chunkStoredAs(token: "9"))
      let (others, refused) = Draft.run(
        Draft.chunk(1, of: id), destination, [Fixture.answer(status), Draft.at(9)])
      #expect(others.map(\.method) == [.patch, .head])
      #expect(refused.failure?.kind == .unexpectedAnswer)
    }
  }

  @Test(.promises("DE69")) func afterABrokenRequest_theOffsetIsAskedFirst() throws {
    let destination = try Draft.destination()
    let id = Draft.session(destination)
    let step = Draft.chunk(0, of: id)
    #expect(destination.request(for: step).method == .patch)
    #expect(destination.outcome(of: step, lost: lost).failure?.kind == .transport(.connectionLost))
    let (requests, outcome) = Draft.run(step, destination, [Draft.at(9)])
    #expect(requests.map(\.method) == [.head] && outcome == .chunkStoredAs(token: "9"))
  }

  /// Regression: the draft's server was believed as the tus server was.
  @Test(.promises("DE60b")) func whatWasNotSent_isNotThereWhateverTheServerSays() throws {
    for (said, methods) in [(2, [.head, .patch]), (3, [.head, .delete]), (9, [.head, .delete])]
      as [(Int, [HTTPRequest.Method])]
    {
      let destination = try Draft.destination()
      let id = Draft.session(destination)
      let step = Draft.chunk(0, of: id)
      destination.request(for: step).sentBytes?.handOver(2)
      let again = Draft.chunk(0, of: id)
      let (requests, _) = Draft.run(again, destination, [Draft.at(said), said == 2 ? Draft.took : Fixture.answer(204)])
      #expect(requests.map(\.method) == methods, "\(said)")
    }
  }

  @Test(.promises("DE69", "DE73"), arguments: [3, 30])
  func unprovenBytes_endTheUpload(offset: Int) throws {
    let destination = try Draft.destination()
    let id = Draft.session(destination)
    // An earlier run has begun something here.
    destination.memory.uploads.forget("/files/u1")
    let (requests, outcome) = Draft.run(
      Draft.chunk(0, of: id), destination, [Draft.conflict(at: offset), Draft.at(offset), Fixture.answer(204)])
    #expect(requests.last?.method == .delete && outcome.failure?.kind == .sessionGone)
  }

  @Test(arguments: ["completed-upload", "inconsistent-upload-length"])
  func anUploadThatTakesNothingMore_isAskedAbout_butNotForEver(problem: String) throws {
    let destination = try Draft.destination()
    let id = Draft.session(destination)
    var answers: [HTTPResponse] = []
    for _ in 0..<4 { answers += [Draft.problem(400, problem), Draft.at(0)] }
    let (requests, outcome) = Draft.run(Draft.chunk(0, of: id), destination, answers + [Draft.problem(400, problem)])
    #expect(requests.count == 9 && outcome.failure?.kind == .badRequest)
  }

  @Test(.promises("DE68")) func bytesThatWereDamagedOnTheWay_areNoMistakeOfTheFile() throws {
    let destination = try Draft.destination()
    let damaged = Draft.problem(400, "digest-mismatching-value")
    let (_, chunk) = Draft.run(Draft.chunk(0, of: Draft.session(destination)), destination, [damaged])
    #expect(chunk.failure?.kind == .digestMismatch)
    let (_, file) = Draft.run(.wholeFile(Fixture.wholeFile()), try Draft.destination(), [Draft.discovery(), damaged])
    #expect(file.failure?.kind == .digestMismatch)
  }

  @Test func anotherLength_needsAnotherUpload() throws {
    let destination = try Draft.destination()
    let id = Draft.session(destination, length: 27)
    let (_, same) = Draft.run(Draft.chunk(0, of: id, end: 27), destination, [Draft.took])
    #expect(same == .chunkStoredAs(token: "9"))
    #expect(destination.outcome(of: Draft.chunk(1, of: id, end: 28), responses: []).failure?.kind == .sessionGone)
  }

  /// Regression, found by the simulation (draft, seed 3100168638): the file was cut to the chunks that the upload held, so that
  /// nothing was left to send. The server refused to complete an upload of another length, and was asked to for ever.
  @Test func aFileThatWasCutToWhatTheUploadHolds_needsAnotherUpload() throws {
    let destination = try Draft.destination()
    let id = Draft.session(destination, length: 27)
    let (_, stored) = Draft.run(Draft.chunk(0, of: id, end: 27), destination, [Draft.took])
    #expect(stored == .chunkStoredAs(token: "9"))
    #expect(destination.outcome(of: Draft.commit(id, size: 9), responses: []).failure?.kind == .sessionGone)
  }

  @Test(.promises("DE67")) func aLimitThatOnlyARefusalTells_holdsForTheNextUpload() throws {
    let destination = try Draft.destination()
    let (_, opened) = Draft.run(
      .openSession(Fixture.opening(size: nil)), destination, [Draft.discovery(), Draft.created()])
    guard case .sessionOpened(let id, _, _, _, _, _) = opened else { return #expect(Bool(false), "\(opened)") }
    let content = [UInt8](repeating: 7, count: 1 << 20)
    let refusal = Fixture.answer(413, headers: [HTTPHeader("upload-limit", "max-append-size=100000")])
    let (_, outcome) = Draft.run(
      Draft.chunk(0, of: id, content), destination, [refusal, Fixture.answer(204)])
    #expect(outcome.failure?.kind == .sessionGone)
    let (_, next) = Draft.run(
      .openSession(Fixture.opening(size: nil)), destination, [Draft.discovery(), Draft.created("/files/u2")])
    #expect(next == .sessionOpened(id: "ietf one 98304 /files/u2", chunkBytes: 98_304, expiresAtSeconds: nil))
    let (_, bare) = Draft.run(Draft.chunk(0, of: id, content), destination, [Fixture.answer(413)])
    #expect(bare.failure?.kind == .requestTooLarge && bare.failure?.message.contains("client_max_body_size") == true)
  }

  // MARK: - Commits

  @Test(.promises("DE7", "DE63")) func commit_completesTheUpload() throws {
    let destination = try Draft.destination()
    let id = Draft.session(destination)
    let (requests, outcome) = Draft.run(Draft.commit(id, size: 27), destination, [Draft.done()])
    #expect(requests[0].method == .patch && requests[0].content == [] && requests[0].isSentOnce)
    #expect(requests[0].header("upload-offset") == "27" && requests[0].header("upload-complete") == "?1")
    guard case .published(let receipt) = outcome else { return #expect(Bool(false), "\(outcome)") }
    #expect(receipt.id == "https://up.example.org:8443/files/u1" && receipt.sizeBytes == 27)
    #expect(receipt.name == "day 1/a.mov")
  }

  @Test(.promises("DE71")) func aCommitWhoseAnswerWasLost_findsTheUploadComplete() throws {
    for refusal in [Draft.problem(400, "completed-upload"), Draft.conflict(at: 27), Draft.took] {
      let destination = try Draft.destination()
      let step = Draft.commit(Draft.session(destination), size: 27)
      let (requests, outcome) = Draft.run(step, destination, [refusal, Draft.at(27, isComplete: true)])
      #expect(requests.map(\.method) == [.patch, .head])
      guard case .published = outcome else { return #expect(Bool(false), "\(outcome)") }
    }
    let destination = try Draft.destination()
    let step = Draft.commit(Draft.session(destination), size: 27)
    let (_, outcome) = Draft.run(step, destination, [Draft.problem(410, "completed-upload")])
    guard case .published = outcome else { return #expect(Bool(false), "\(outcome)") }
  }

  /// Regression: `Upload-Complete: ?1` alone was the delivery, whatever the same answer said of the length.
  @Test(
    .promises("DE134"),
    arguments: [
      [HTTPHeader("upload-offset", "18")], [HTTPHeader("upload-offset", "28")], [HTTPHeader("upload-length", "28")],
      [HTTPHeader("upload-length", "27"), HTTPHeader("upload-offset", "0")],
    ])
  func anAnswerThatContradictsItself_isNoDelivery(fields: [HTTPHeader]) throws {
    let answer = Fixture.answer(200, headers: [HTTPHeader("upload-complete", "?1")] + fields)
    let destination = try Draft.destination()
    let step = Draft.commit(Draft.session(destination), size: 27)
    let (requests, again) = Draft.run(step, destination, [answer, answer])
    #expect(
      requests.map(\.method) == [.patch, .head] && [.sessionGone, .unexpectedAnswer].contains(again.failure?.kind))
    let (_, found) = Draft.run(step, destination, [answer, Draft.at(27, isComplete: true)])
    guard case .published = found else { return #expect(Bool(false), "\(found)") }
    let (_, small) = Draft.run(
      .wholeFile(Fixture.wholeFile()), try Draft.destination(), [Draft.discovery(), answer])
    #expect(small.failure?.kind == .unexpectedAnswer, "\(small)")
  }

  @Test(.promises("DE134")) func aChunkAfterWhichAnUploadIsCalledComplete_isAskedAbout() throws {
    let destination = try Draft.destination()
    let id = Draft.session(destination)
    let step = Draft.chunk(0, of: id, end: 27)
    let (requests, stored) = Draft.run(step, destination, [Draft.at(9, isComplete: true), Draft.at(9)])
    #expect(requests.map(\.method) == [.patch, .head] && stored == .chunkStoredAs(token: "9"))
    let other = try Draft.destination()
    let second = Draft.chunk(0, of: Draft.session(other), end: 27)
    let (_, outcome) = Draft.run(second, other, [Draft.done(), Draft.at(9, isComplete: true)])
    #expect(outcome.failure?.kind == .unexpectedAnswer)
  }

  /// It says that more is to come, and that all is there; or where it is and nothing else.
  @Test(.promises("DE134")) func aSmallFileThatWasTakenInPart_isNoDelivery() throws {
    for fields in [
      [HTTPHeader("upload-complete", "?0"), HTTPHeader("upload-offset", "9")],
      [HTTPHeader("location", "/files/u1"), HTTPHeader("upload-offset", "4")],
    ] {
      let (_, outcome) = Draft.run(
        .wholeFile(Fixture.wholeFile()), try Draft.destination(),
        [Draft.discovery(), Fixture.answer(201, headers: fields)])
      #expect(outcome.failure?.kind == .unexpectedAnswer, "\(fields)")
    }
  }

  @Test func aCommitOfWhatIsNotThere_beginsAnew() throws {
    let answers: [[HTTPResponse]] = [
      [Draft.refusal(404)], [Draft.refusal(410)], [Draft.conflict(at: 18), Draft.at(18)],
      [Draft.problem(400, "completed-upload"), Draft.at(28, isComplete: true)],
      [Draft.conflict(at: 18), Draft.refusal(404)],
      [Fixture.answer(404), Draft.discovery(), Fixture.answer(404)],
      [Draft.conflict(at: 18), Fixture.answer(410), Draft.discovery(), Fixture.answer(404)],
    ]
    for answers in answers {
      let destination = try Draft.destination()
      let (_, outcome) = Draft.run(Draft.commit(Draft.session(destination), size: 27), destination, answers)
      #expect(outcome.failure?.kind == .sessionGone)
    }
  }

  @Test(.promises("DE71"), arguments: [AmbiguousOutcomePolicy.retry, .hold])
  func anUploadThatIsGoneAfterALostAnswer_isUnclear(policy: AmbiguousOutcomePolicy) throws {
    let destination = try Draft.destination { $0.unclear = policy }
    let step = Draft.commit(Draft.session(destination), size: 27)
    _ = destination.request(for: step)
    #expect(destination.outcome(of: step, lost: lost).failure?.kind == .transport(.connectionLost))
    let gone = [Fixture.answer(404), Draft.discovery(), Fixture.answer(404)]
    let (_, outcome) = Draft.run(step, destination, gone)
    #expect(outcome.failure?.kind == (policy == .hold ? .unclearEnd : .sessionGone))
    #expect(outcome.failure?.message.contains("--tus-unclear hold") == true)
    // A user has checked the server.
    let (_, next) = Draft.run(step, destination, gone)
    #expect(next.failure?.kind == .sessionGone && next.failure?.message.contains("--tus-unclear hold") == false)
  }

  /// Regression: the engine asked for the upload after some failures, found it gone, and the file was sent again without a word.
  @Test(.promises("DE71"), arguments: [AmbiguousOutcomePolicy.retry, .hold])
  func anUploadThatIsFoundGoneByAQuestion_afterALostAnswer_isUnclear(policy: AmbiguousOutcomePolicy) throws {
    let destination = try Draft.destination { $0.unclear = policy }
    let id = Draft.session(destination)
    _ = destination.request(for: Draft.commit(id, size: 27))
    let gone = [Draft.discovery(), Fixture.answer(404)]
    let (_, outcome) = Draft.run(TusFixture.query(id), destination, gone)
    #expect(outcome.failure?.kind == (policy == .hold ? .unclearEnd : .sessionGone))
    #expect(outcome.failure?.message.contains("--tus-unclear hold") == true)
    let (_, next) = Draft.run(TusFixture.query(id), destination, gone)
    #expect(next.failure?.kind == .sessionGone && next.failure?.message.contains("--tus-unclear hold") == false)
  }

  /// Regression: one 404 of a proxy gave the upload up with all of its bytes, also where it was a page (DE103).
  @Test(.promises("DE69", "DE103"), arguments: [404, 410]) func whatIsNotTheServersOwnWord_endsNoUpload(status: Int)
    throws
  {
    let page = Fixture.answer(status, text: "<p>Not here", headers: [HTTPHeader("content-type", "text/html")])
    for step in [
      Draft.chunk(1, of: "ietf one 9/27 /files/u1", end: 27), Draft.commit("ietf one 9/27 /files/u1", size: 27),
    ] {
      let (_, foreign) = Draft.run(step, try Draft.destination(), [page])
      #expect(foreign.failure?.kind == .serverError)
      // Something in between answers everything so; or this request alone.
      for answers in [
        [Fixture.answer(status)], [Draft.discovery(), Draft.at(9)], [Draft.discovery(), Fixture.answer(503)],
      ] {
        let (requests, outcome) = Draft.run(step, try Draft.destination(), [Fixture.answer(status)] + answers)
        #expect(requests.dropFirst().map(\.method) == (answers.count == 1 ? [.options] : [.options, .head]))
        #expect(outcome.failure?.kind == .serverError)
        #expect(outcome.failure?.message.contains("or something in its place did") == true)
      }
      // A server that names nothing of the draft, and is there.
      let (_, gone) = Draft.run(
        step, try Draft.destination(), [Fixture.answer(status), Draft.discovery(), Fixture.answer(404)])
      #expect(gone.failure?.kind == .sessionGone)
      for ownWord in [Draft.refusal(status), Draft.problem(status, "x")] {
        #expect(Draft.run(step, try Draft.destination(), [ownWord]).outcome.failure?.kind == .sessionGone)
      }
    }
  }

  @Test(arguments: [404, 410]) func whatIsNotTheServersOwnWord_leavesASmallFilesUpload(status: Int) throws {
    let destination = try Draft.destination { $0.unclear = .hold }
    let step = DestinationStep.wholeFile(Fixture.wholeFile())
    let (_, away) = Draft.run(
      step, destination, [Draft.discovery(), Draft.created(), Fixture.answer(status), Fixture.answer(404)])
    #expect(away.failure?.kind == .serverError)
    let (requests, outcome) = Draft.run(step, destination, [Draft.at(0), Draft.done()])
    #expect(requests.map(\.method) == [.head, .patch] && requests[0].url.hasSuffix("/files/u1"))
    guard case .published = outcome else { return #expect(Bool(false), "\(outcome)") }
    let second = DestinationStep.wholeFile(Fixture.wholeFile(path: "b"))
    let (_, gone) = Draft.run(
      second, destination, [Draft.created("/files/u2"), Fixture.answer(status), Draft.discovery(), Fixture.answer(404)])
    #expect(gone.failure?.kind == .unexpectedAnswer, "a new upload is begun")
  }

  /// Regression: where a small file was gone on with by another attempt, any offset was believed.
  @Test(.promises("DE60b"), arguments: [2, 3, 9]) func whatWasNotSentOfASmallFile_isNotThere(said: Int) throws {
    let destination = try Draft.destination { $0.unclear = .hold }
    let (begun, _) = Draft.run(
      .wholeFile(Fixture.wholeFile()), destination, [Draft.discovery(), Draft.created(), Fixture.answer(503)])
    try #require(begun.map(\.method) == [.options, .post, .patch])
    begun[2].sentBytes?.handOver(2)
    let isThere = said == 2
    let (requests, outcome) = Draft.run(
      .wholeFile(Fixture.wholeFile()), destination, [Draft.at(said)] + (isThere ? [Draft.done()] : []))
    #expect(requests.map(\.method) == (isThere ? [.head, .patch] : [.head]))
    #expect(isThere || outcome.failure?.kind == .unexpectedAnswer, "a new upload is begun")
  }

  @Test(.promises("DE70"), arguments: [422, 500])
  func contentThatIsNotTaken_failsForGood_andItsUploadIsEnded(status: Int) throws {
    let destination = try Draft.destination()
    let step = Draft.commit(Draft.session(destination), size: 27)
    let (requests, outcome) = Draft.run(step, destination, [Draft.done(status), Fixture.answer(204)])
    #expect(requests.map(\.method) == [.patch, .delete] && outcome.failure?.kind == .badRequest)
    // What it holds would look like a file that was taken.
    _ = destination.request(for: step)
    #expect(destination.outcome(of: step, responses: []).failure?.kind == .sessionGone)
  }

  @Test(arguments: [
    (500, StepFailure.Kind.unexpectedAnswer), (503, .busy), (507, .insufficientStorage), (401, .unauthorized),
  ])
  func aRefusalThatIsNotAboutTheContent_isTriedAgain(status: Int, kind: StepFailure.Kind) throws {
    let destination = try Draft.destination()
    let (_, outcome) = Draft.run(
      Draft.commit(Draft.session(destination), size: 27), destination, [Fixture.answer(status)])
    #expect(outcome.failure?.kind == kind)
  }

  /// A request that completes nothing may not be so short.
  @Test(.promises("DE66")) func aShortLastChunk_completesTheUpload() throws {
    let destination = try Draft.destination()
    let id = Draft.session(destination, limits: "min-append-size=5")
    let (requests, outcome) = Draft.run(
      Draft.chunk(1, of: id, Array("abc".utf8), end: 12), destination, [Draft.done(201)])
    #expect(requests[0].header("upload-complete") == "?1" && requests[0].isSentOnce)
    #expect(outcome == .chunkStoredAs(token: "12"))
    // The server has forgotten it, as it may.
    let (_, committed) = Draft.run(Draft.commit(id, size: 12), destination, [Fixture.answer(404)])
    guard case .published = committed else { return #expect(Bool(false), "\(committed)") }
  }

  @Test func sessionThatIsGivenUp_isCancelled() throws {
    let destination = try Draft.destination()
    let step = DestinationStep.abort(SessionIdentity(id: Draft.session(destination), nonce: Fixture.nonce))
    let mark = [HTTPHeader("upload-draft-interop-version", "8")]
    let answers = [
      (204, true), (200, true), (404, true), (405, true), (401, false), (409, false), (503, false),
    ]
    for (status, isEnded) in answers {
      let (requests, outcome) = Draft.run(step, destination, [Fixture.answer(status, headers: mark)])
      #expect(requests[0].method == .delete && (outcome == .ended) == isEnded, "\(status)")
    }
    // Something in between knows nothing of it.
    #expect(Draft.run(step, destination, [Fixture.answer(404)]).outcome != .ended)
  }

  // MARK: - Small files

  @Test(.promises("DE64", "DE68")) func smallFile_isOneRequest_withItsDigests() throws {
    let destination = try Draft.destination()
    let (requests, outcome) = Draft.run(
      .wholeFile(Fixture.wholeFile()), destination, [Draft.discovery(), Draft.done()])
    let request = requests[1]
    #expect(request.method == .post && request.content == Draft.content)
    #expect(request.header("upload-complete") == "?1" && request.header("upload-length") == "9")
    let digest = "sha-256=:\(Base64.encode(sha256(Draft.content))):"
    #expect(request.header("repr-digest") == digest && request.header("content-digest") == digest)
    guard case .published(let receipt) = outcome else { return #expect(Bool(false), "\(outcome)") }
    #expect(receipt.id.hasPrefix("uploadfs-") && receipt.name == "a b/c.txt" && receipt.sizeBytes == 9)
    // The server is known by now, and its answer may have limits.
    let (second, again) = Draft.run(
      .wholeFile(Fixture.wholeFile([], path: "empty")), destination,
      [Fixture.answer(201, headers: [HTTPHeader("upload-limit", "max-size=5"), HTTPHeader("accept-patch", "*/*")])])
    #expect(second[0].content == [] && second[0].header("upload-complete") == "?1")
    guard case .published = again else { return #expect(Bool(false), "\(again)") }
  }

  /// Regression: a success without a word of the draft, as a proxy or a portal gives it, was a delivery.
  @Test(.promises("DE71")) func aSuccessWithoutAWordOfTheDraft_isNoDelivery() throws {
    for status in [200, 202] {
      let (_, outcome) = Draft.run(
        .wholeFile(Fixture.wholeFile()), try Draft.destination(), [Draft.discovery(), Fixture.answer(status)])
      #expect(outcome.failure?.kind == .unexpectedAnswer)
    }
  }

  /// Regression: one 404 of something in between failed a file for good, although uploads were taken there before.
  @Test(arguments: [404, 405, 410]) func whatIsNotThereForAMoment_failsNoFile(status: Int) throws {
    let destination = try Draft.destination()
    let whole = DestinationStep.wholeFile(Fixture.wholeFile())
    let (_, atOnce) = Draft.run(whole, destination, [Draft.discovery(), Fixture.answer(status)])
    let (_, opening) = Draft.run(
      .openSession(Fixture.opening()), destination, [Draft.discovery(), Fixture.answer(status)])
    let (_, asking) = Draft.run(.openSession(Fixture.opening()), destination, [Fixture.answer(status)])
    let (_, first) = Draft.run(.openSession(Fixture.opening()), try Draft.destination(), [Fixture.answer(status)])
    #expect([opening, asking].allSatisfy { $0.failure?.kind == .serverError })
    #expect(atOnce.failure?.kind == .misdirected, "it may have the file")
    let (_, ownWord) = Draft.run(
      .openSession(Fixture.opening()), destination, [Draft.discovery(), Draft.refusal(status)])
    #expect(ownWord.failure?.kind == .unexpectedAnswer)
    #expect(first.failure?.kind == .addressRefused, "an address that was never right")
  }

  /// Regression: what a server says of an upload named its address.
  @Test(.promises("SE6")) func wordsOfAServer_areSaidWithoutTheAddressOfAnUpload() throws {
    let destination = try Draft.destination()
    let session = Draft.session(destination)
    let answer = Fixture.answer(
      500, text: "Cannot PATCH /files/u1",
      headers: [HTTPHeader("upload-draft-interop-version", "8"), HTTPHeader("content-type", "text/plain")])
    let (_, outcome) = Draft.run(Draft.chunk(0, of: session, end: 9), destination, [answer])
    #expect(
      outcome.failure?.message
        == "The upload server at tus+https://up.example.org:8443/files/ answered 500 (“Cannot PATCH [upload]”).")
  }

  /// Regression: the server may have the file that it was sent in one request, and got it again every few seconds.
  @Test(.promises("DE144"), arguments: [502, 504]) func aGatewayBeforeASmallFile_mayLeaveCopies(status: Int) throws {
    let destination = try Draft.destination()
    let step = DestinationStep.wholeFile(Fixture.wholeFile())
    let (_, asking) = Draft.run(step, destination, [Fixture.answer(status)])
    #expect(asking.failure?.kind == .serverError, "nothing was sent yet")
    let (_, sent) = Draft.run(step, destination, [Draft.discovery(), Fixture.answer(status)])
    #expect(sent.failure?.kind == .misdirected)
  }

  /// Regression: the answer to HEAD has no page in it, and a captive portal's ended the file as the server's.
  @Test(.promises("DE103")) func aPortalThatAnswersAQuestion_endsNoFile() throws {
    let portal = Fixture.answer(200, headers: [HTTPHeader("content-type", "text/html")])
    for (answer, kind) in [(portal, StepFailure.Kind.serverError), (Draft.refusal(204), .unexpectedAnswer)] {
      let destination = try Draft.destination()
      let id = Draft.session(destination)
      let (_, asked) = Draft.run(TusFixture.query(id), destination, [Draft.discovery(), answer])
      #expect(asked.failure?.kind == kind)
      _ = destination.request(for: Draft.chunk(0, of: id))
      let (requests, sent) = Draft.run(Draft.chunk(0, of: id), destination, [answer])
      #expect(requests.map(\.method) == [.head] && sent.failure?.kind == kind)
      let (_, ended) = Draft.run(Draft.commit(id, size: 27), destination, [Draft.took, answer])
      #expect(ended.failure?.kind == kind)
    }
  }

  /// A network's login page is found before a file is sent.
  @Test(.promises("DE103")) func warming_isNotAnsweredByAPage() throws {
    let page = Fixture.answer(200, text: "<p>Sign in", headers: [HTTPHeader("content-type", "text/html")])
    #expect(Draft.run(.prewarm, try Draft.destination(), [page]).outcome.failure?.kind == .serverError)
  }

  @Test(.promises("DE71")) func aSmallFileWhoseAnswerIsLost_isUnclear() throws {
    let destination = try Draft.destination()
    let step = DestinationStep.wholeFile(Fixture.wholeFile())
    _ = destination.request(for: step)
    #expect(destination.outcome(of: step, lost: lost).failure?.message == "the line broke", "that was the question")
    _ = destination.followUp(of: step, after: [Draft.discovery()])
    let failure = try #require(destination.outcome(of: step, lost: lost).failure)
    #expect(failure.kind == .transport(.connectionLost) && failure.message.contains("twice"))
  }

  @Test(.promises("DE72")) func nothingIsUnclear_whereASmallFileHasAnAddressFirst() throws {
    let destination = try Draft.destination { $0.unclear = .hold }
    // Where a crash has not taken that address.
    #expect(destination.abilities.atMostOnceScope == .wholeFiles)
    #expect(try Draft.destination().abilities.atMostOnceScope == .nothing)
    let step = DestinationStep.wholeFile(Fixture.wholeFile())
    let (requests, outcome) = Draft.run(step, destination, [Draft.discovery(), Draft.created(), Draft.done()])
    #expect(requests.map(\.method) == [.options, .post, .patch])
    #expect(requests[1].content == [] && requests[1].header("upload-complete") == "?0")
    #expect(requests[2].content == Draft.content && requests[2].header("upload-complete") == "?1")
    guard case .published(let receipt) = outcome else { return #expect(Bool(false), "\(outcome)") }
    #expect(receipt.id == "https://up.example.org:8443/files/u1")

    // Another one: its last answer is lost.
    let second = DestinationStep.wholeFile(Fixture.wholeFile(path: "b"))
    _ = destination.request(for: second)
    _ = destination.followUp(of: second, after: [Draft.created("/files/u2")])
    #expect(destination.outcome(of: second, lost: lost).failure?.kind == .transport(.connectionLost))
    let (looks, found) = Draft.run(second, destination, [Draft.at(9, isComplete: true)])
    #expect(looks.map(\.method) == [.head] && looks[0].url.hasSuffix("/files/u2"))
    guard case .published = found else { return #expect(Bool(false), "\(found)") }
  }

  @Test func whatIsMissingOfASmallFile_isSent() throws {
    let destination = try Draft.destination { $0.unclear = .hold }
    let step = DestinationStep.wholeFile(Fixture.wholeFile())
    _ = destination.request(for: step)
    _ = destination.followUp(of: step, after: [Draft.discovery()])
    _ = destination.followUp(of: step, after: [Draft.discovery(), Draft.created()])
    let (requests, outcome) = Draft.run(step, destination, [Draft.at(4), Draft.took, Draft.done()])
    #expect(requests.map(\.method) == [.head, .patch, .patch])
    #expect(requests[1].content == Array("56789".utf8) && requests[1].header("upload-complete") == "?1")
    #expect(requests[2].content == [] && requests[2].header("upload-offset") == "9")
    guard case .published = outcome else { return #expect(Bool(false), "\(outcome)") }
  }

  @Test func aSmallFileThatIsGoneAfterALostAnswer_waitsForTheUser() throws {
    let destination = try Draft.destination { $0.unclear = .hold }
    let step = DestinationStep.wholeFile(Fixture.wholeFile())
    _ = destination.request(for: step)
    _ = destination.followUp(of: step, after: [Draft.discovery()])
    _ = destination.followUp(of: step, after: [Draft.discovery(), Draft.created()])
    let (_, outcome) = Draft.run(step, destination, [Fixture.answer(404), Draft.discovery(), Fixture.answer(404)])
    #expect(outcome.failure?.kind == .unclearEnd)
    let (requests, next) = Draft.run(step, destination, [Draft.created("/files/u2"), Draft.done()])
    #expect(requests.map(\.method) == [.post, .patch])
    guard case .published = next else { return #expect(Bool(false), "\(next)") }
  }

  @Test func aSmallFileThatDoesNotFitOneRequest_goesInSeveral() throws {
    let destination = try Draft.destination()
    let (requests, outcome) = Draft.run(
      .wholeFile(Fixture.wholeFile()), destination,
      [Draft.discovery("max-append-size=4"), Draft.created(), Draft.took, Draft.at(8), Draft.done(201)])
    #expect(requests.dropFirst(2).map { String(decoding: $0.content, as: UTF8.self) } == ["1234", "5678", "9"])
    #expect(requests.dropFirst(2).map { $0.header("upload-complete") } == ["?0", "?0", "?1"])
    #expect(requests.dropFirst(2).map { $0.header("upload-offset") } == ["0", "4", "8"])
    guard case .published = outcome else { return #expect(Bool(false), "\(outcome)") }
  }

  @Test func anotherHost_doesNotGetOurToken() throws {
    let destination = try Draft.destination { $0.unclear = .hold }
    let (requests, _) = Draft.run(
      .wholeFile(Fixture.wholeFile()), destination,
      [Draft.discovery(), Draft.created("https://other.example.org/t"), Draft.done()])
    #expect(requests[2].url == "https://other.example.org/t" && requests[2].header("authorization") == nil)
    let strict = try Draft.destination {
      $0.unclear = .hold
      $0.staysAtOrigin = true
    }
    let (_, outcome) = Draft.run(
      .wholeFile(Fixture.wholeFile()), strict,
      [Draft.discovery(), Draft.created("https://other.example.org/t")])
    #expect(outcome.failure?.kind == .badRequest)
  }
}

@Suite struct DiscoveringTests {
  private func destination() throws -> DiscoveringDestination {
    DiscoveringDestination(tus: try TusFixture.destination(), draft: try Draft.destination())
  }

  @Test(.promises("DE62")) func theDraftIsSpoken_whereItIsAnswered() throws {
    let destination = try destination()
    let (requests, outcome) = Draft.run(
      .openSession(Fixture.opening()), destination, [Draft.discovery(), Draft.created()])
    #expect(requests[0].header("upload-draft-interop-version") == "8")
    guard case .sessionOpened(let id, _, _, _, _, _) = outcome else { return #expect(Bool(false), "\(outcome)") }
    #expect(ResumableSession.isOne(id))
    #expect(destination.request(for: Draft.chunk(0, of: id, end: 10_000_000)).header("upload-complete") == "?0")
    #expect(destination.request(for: .wholeFile(Fixture.wholeFile())).header("upload-complete") == "?1")
    #expect(destination.offers(in: Draft.discovery()).abilities?.unknownLength == true)
  }

  @Test(.promises("DE62")) func tusIsSpokenElsewhere() throws {
    // Limits alone are announced by earlier drafts as well, and then the server's tus is better known.
    for more in [[], [HTTPHeader("upload-limit", "min-size=0")]] {
      let destination = try destination()
      let server = TusFixture.discovery(TusFixture.everything, more)
      let (requests, outcome) = Draft.run(
        .wholeFile(Fixture.wholeFile()), destination, [server, TusFixture.created(offset: 9)])
      #expect(requests[1].header("tus-resumable") == "1.0.0")
      guard case .published = outcome else { return #expect(Bool(false), "\(outcome)") }
      #expect(destination.request(for: .wholeFile(Fixture.wholeFile())).header("tus-resumable") == "1.0.0")
      #expect(destination.offers(in: server).abilities?.appendSequences == .growing)
    }
  }

  @Test func whatHasBegun_staysWithItsProtocol() throws {
    let destination = try destination()
    let (_, warmed) = Draft.run(.prewarm, destination, [TusFixture.discovery("creation")])
    #expect(warmed == .warmed)
    let session = "ietf one 9 /files/u1"
    let (requests, outcome) = Draft.run(TusFixture.query(session), destination, [Draft.discovery(), Draft.at(9)])
    #expect(requests[1].method == .head && outcome == .held(digests: [:], tokens: [0: "9"]))
    #expect(destination.request(for: TusFixture.query("one 9 /files/u1")).header("upload-draft-interop-version") == nil)
  }

  /// Regression: the first question about the credentials was tus's, and that one's refusal was not seen in the draft.
  @Test(.promises("DE109")) func theCredentialTrial_isOfTheProtocolThatIsSpoken() throws {
    let fresh = try destination()
    let trial = DestinationStep.querySession(.credentialTrial)
    let (requests, refused) = Draft.run(trial, fresh, [Fixture.answer(401)])
    #expect(requests[0].header("upload-draft-interop-version") == "8" && refused.failure?.kind == .unauthorized)
    let (asked, gone) = Draft.run(trial, fresh, [Draft.discovery()])
    #expect(asked.count == 1 && gone.failure?.kind == .sessionGone)
    _ = Draft.run(.prewarm, fresh, [TusFixture.discovery("creation")])
    #expect(fresh.request(for: trial).header("upload-draft-interop-version") == nil)
  }

  @Test func aServerThatDoesNotAnswer_isNoServerOfEither() throws {
    let destination = try destination()
    for (status, kind) in [(503, StepFailure.Kind.busy), (401, .unauthorized), (204, .badRequest)] {
      let (_, outcome) = Draft.run(.wholeFile(Fixture.wholeFile()), destination, [Fixture.answer(status)])
      #expect(outcome.failure?.kind == kind)
    }
  }
}

@Suite struct StructuredFieldTests {
  @Test(arguments: [
    ("5", RFC9651BareItem.integer(5)), (" -12 ", .integer(-12)), ("5;a;b=\"x\\\"\";c=?0", .integer(5)),
    ("?1", .bool(true)), ("?0;x", .bool(false)), ("1.250", .decimal(PseudoDecimal(mantissa: 1250, exponent: -3))),
    ("\"a, b\"", .string("a, b")),
    ("*tok/en:x", .token("*tok/en:x")), (":YWI=:", .undecodedByteSequence("YWI=")),
    ("@1659578233", .date(1_659_578_233)),
    ("999999999999999", .integer(999_999_999_999_999)),
  ])
  func items(text: String, value: RFC9651BareItem) { #expect(StructuredField.item(text) == value) }

  @Test(arguments: [
    "", " ", "5,", "5 6", "1000000000000000", "1.", "1.2345", "1234567890123.1", "-", "--1", "?", "?2", "?1 x", "\"a",
    "\"a\\b\"",
    ":YWI=", "(1 2)", "=5", "a=", ";a", "5;", "5;A", "é", "\"\u{7f}\"", "@1.5", "%\"a", "5\n", "\t5",
  ])
  func nonsense(text: String) { #expect(StructuredField.item(text) == nil) }

  @Test func dictionaries() {
    let one = RFC9651BareItem.integer(1)
    func item(_ value: RFC9651BareItem, _ parameters: OrderedMap<String, RFC9651BareItem> = [:]) -> ItemOrInnerList {
      .item(Item(bareItem: value, parameters: parameters))
    }
    let asked: OrderedMap<String, RFC9651BareItem> = ["q": .integer(2)]
    let list = InnerList(
      bareInnerList: [
        Item(bareItem: one, parameters: [:]), Item(bareItem: RFC9651BareItem.string("x"), parameters: [:]),
      ],
      parameters: asked)
    #expect(
      StructuredField.dictionary("a=1, b=(1 \"x\");q=2 ,c,d=?0;x, a=2,\te=1.5")
        == [
          "a": item(.integer(2)), "b": .innerList(list), "c": item(.bool(true)), "d": item(.bool(false), ["x": true]),
          "e": item(.decimal(PseudoDecimal(mantissa: 15, exponent: -1))),
        ])
    #expect(StructuredField.dictionary("") == [:])
    for text in ["a=1,", ",a", "a=1 b=2", "A=1", "a=(1", "a=(1(2))", "a==1", "a=1,,b", "1=a"] {
      #expect(StructuredField.dictionary(text) == nil, "\(text)")
    }
    #expect(StructuredField.dictionary(String(repeating: "a, ", count: 3000) + "a") == nil)
  }

  @Test func limits_areIgnoredTogether_whenOneIsOfAnotherType() {
    func limits(_ lines: String...) -> ResumableLimits? {
      ResumableLimits(Fixture.answer(200, headers: lines.map { HTTPHeader("upload-limit", $0) }))
    }
    let both = limits("max-size=5", "min-append-size=2;x, other=\"y\"")
    #expect(both?.sizeBytesMax == 5 && both?.requestBytesMin == 2 && both?.requestBytesMax == nil)
    for text in ["max-size=\"5\"", "max-size=5, max-age=1.5", "min-size", "max-append-size=-1", "max-size=5,"] {
      #expect(limits(text) == nil, "\(text)")
    }
    #expect(limits() == nil)
  }
}
