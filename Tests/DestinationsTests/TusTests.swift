import FileModel
import Integrity
import Lookup
import Promises
import Testing
import TransferModel

@testable import Destinations

/// A tus destination, and what a server's answers make of a step.
enum TusFixture {
  static let everything = "creation,creation-with-upload,concatenation,checksum,termination,expiration"

  static func destination(
    _ address: String = "tus+https://up.example.org:8443/files/", _ change: (inout TusOptions) -> Void = { _ in }
  ) throws -> TusDestination {
    var options = TusOptions()
    change(&options)
    return try TusDestination(
      address: try TusAddress(address, allowPlainHTTP: false), credential: .bearer(Fixture.token), options: options,
      secondsSince1970: { 1_700_000_000 })
  }

  static func discovery(_ extensions: String = everything, _ headers: [HTTPHeader] = []) -> HTTPResponse {
    Fixture.answer(
      204,
      headers: [HTTPHeader("tus-version", "1.0.0,0.2.2"), HTTPHeader("tus-extension", extensions)] + headers)
  }

  /// What the server itself answers has its header.
  static func refusal(_ status: Int) -> HTTPResponse {
    Fixture.answer(status, headers: [HTTPHeader("tus-resumable", "1.0.0")])
  }

  static func created(_ location: String = "/files/u1", offset: Int? = nil, _ headers: [HTTPHeader] = [])
    -> HTTPResponse
  {
    Fixture.answer(
      201,
      headers: [HTTPHeader("location", location)] + (offset.map { [HTTPHeader("upload-offset", "\($0)")] } ?? [])
        + headers)
  }

  static func at(_ offset: Int, status: Int = 204, _ headers: [HTTPHeader] = []) -> HTTPResponse {
    Fixture.answer(status, headers: [HTTPHeader("upload-offset", "\(offset)")] + headers)
  }

  /// Sends a step as the engine does; what was asked, and what became of it.
  static func run(
    _ step: DestinationStep, _ destination: TusDestination, _ answers: [HTTPResponse]
  ) -> (requests: [HTTPRequest], outcome: StepOutcome) {
    var requests = [destination.request(for: step)]
    var responses: [HTTPResponse] = []
    for answer in answers {
      responses.append(answer)
      guard let next = destination.followUp(of: step, after: responses) else { break }
      requests.append(next)
    }
    #expect(responses.count == answers.count && requests.count == answers.count, "other requests than answers")
    return (requests, destination.outcome(of: step, responses: responses))
  }

  static let content = Array("123456789".utf8)

  static func chunk(
    _ index: Int, of session: String, _ position: AppendPosition = AppendPosition(), _ content: [UInt8] = content
  ) -> DestinationStep {
    .chunk(
      ChunkSending(
        session: SessionIdentity(id: session, nonce: Fixture.nonce), index: index, digest: Fixture.digest(content),
        body: TestBytes(content), position: position, sentBytes: SentByteCounter()))
  }

  static func commit(_ tokens: [String], session: String = "rows 00", size: UInt64) -> DestinationStep {
    .commit(
      SessionCommit(
        session: SessionIdentity(id: session, nonce: Fixture.nonce), sizeBytes: size, chunkCount: tokens.count,
        merkleRoot: sha256([1]), chainTip: sha256([2]), path: RelativePath("day 1/a.mov"),
        modifiedNanoseconds: 1_500_000_000,
        mode: 0o644, chunks: tokens.map { CommittedChunk(digest: Fixture.digest([1]), token: $0) }))
  }

  static func query(_ session: String) -> DestinationStep {
    .querySession(SessionIdentity(id: session, nonce: Fixture.nonce))
  }
}

@Suite struct TusTests {
  private let options = TusFixture.discovery()
  private let plain = TusFixture.discovery("creation")

  // MARK: - Discovery

  @Test func abilities_followWhatTheServerAnnounces() throws {
    let destination = try TusFixture.destination()
    #expect(destination.abilities.appendSequences == .one && !destination.abilities.replaceableChunks)
    let offered = try #require(
      destination.offers(in: TusFixture.discovery("concatenation", [HTTPHeader("tus-max-size", "77")])).abilities)
    #expect(
      offered.appendSequences == .growing && offered.replaceableChunks && offered.commitListsChunks
        && offered.unknownLength)
    #expect(offered.fileBytesMax == 77)
    #expect(destination.offers(in: plain).abilities?.appendSequences == .one)
    for other in [
      TusFixture.at(5), TusFixture.created(), Fixture.answer(204),
      Fixture.answer(204, headers: [HTTPHeader("tus-resumable", "1.0.0")]),
    ] {
      #expect(destination.offers(in: other).abilities == nil)
    }
  }

  @Test(.promises("DE41")) func prewarming_asksWhatTheServerCanDo_withoutAVersion() throws {
    let destination = try TusFixture.destination()
    let (requests, outcome) = TusFixture.run(.prewarm, destination, [options])
    #expect(requests[0].method == .options && requests[0].url == "https://up.example.org:8443/files/")
    #expect(requests[0].header("tus-resumable") == nil)
    #expect(requests[0].header("authorization") == "Bearer \(Fixture.token)")
    #expect(outcome == .warmed)
  }

  @Test(
    .promises("DE41"),
    arguments: [
      (Fixture.answer(200), StepFailure.Kind.badRequest), (Fixture.answer(404), .addressRefused),
      (Fixture.answer(204, headers: [HTTPHeader("tus-version", "0.2.2")]), .badRequest),
      (Fixture.answer(401), .unauthorized),
      (Self.page(200), .serverError), (Self.page(404), .serverError), (Self.page(500), .serverError),
      (Fixture.answer(412), .badRequest), (Fixture.answer(503), .busy), (Fixture.answer(502), .serverError),
    ])
  func whatIsNoServerOfTus_isNamed(answer: HTTPResponse, kind: StepFailure.Kind) throws {
    let (_, outcome) = TusFixture.run(.openSession(Fixture.opening()), try TusFixture.destination(), [answer])
    #expect(outcome.failure?.kind == kind)
  }

  // MARK: - Sessions

  /// Regression: what a captive portal says ended a file.
  private static func page(_ status: Int) -> HTTPResponse {
    Fixture.answer(status, text: "<p>Sign in", headers: [HTTPHeader("content-type", "text/html")])
  }

  @Test func sessionWithPartialUploads_needsNoRequestOfItsOwn() throws {
    let (requests, outcome) = TusFixture.run(
      .openSession(Fixture.opening(size: nil)), try TusFixture.destination(), [options])
    #expect(requests.count == 1)
    guard case .sessionOpened(let id, 4_194_304, nil, _, _, _) = outcome else {
      return #expect(Bool(false), "\(outcome)")
    }
    #expect(TusSession(id) == .sequences)
  }

  /// Regression: to Swift an equals sign and a combining mark behind it are one character.
  @Test func anEntryOfMetadata_isCutAtBytes() throws {
    let entry = try TusMetadataEntry("folder=\u{301}x=\u{301}y")
    #expect(entry.key == "folder" && Array(entry.value.utf8) == Array("\u{301}x=\u{301}y".utf8))
  }

  @Test(.promises("DE50")) func sessionOfOneUpload_isCreatedWithLengthAndMetadata() throws {
    let entry = try TusMetadataEntry("objectName=x/{path}")
    let destination = try TusFixture.destination { $0.metadata = [entry] }
    let (requests, outcome) = TusFixture.run(
      .openSession(Fixture.opening()), destination,
      [plain, TusFixture.created(offset: nil, [HTTPHeader("upload-expires", "Sun, 06 Nov 1994 08:49:37 GMT")])])
    let request = try #require(requests.last)
    #expect(request.method == .post && request.header("upload-length") == "10000000")
    #expect(request.header("tus-resumable") == "1.0.0" && request.header("upload-concat") == nil)
    let metadata = try #require(request.header("upload-metadata")).split(separator: ",").map {
      $0.split(separator: " ")
    }
    let values = Dictionary(
      uniqueKeysWithValues: metadata.map {
        ($0[0], String(decoding: Base64.decode(String($0[1])) ?? [], as: UTF8.self))
      })
    #expect(
      values == [
        "filename": "scan%.mov", "filetype": values["filetype"], "relativePath": "day 1/scan%.mov",
        "mtime": "1700000000.000000001", "objectName": "x/day 1/scan%.mov",
      ])
    #expect(
      outcome
        == .sessionOpened(
          id: "one 4194304/10000000 /files/u1", chunkBytes: 4 << 20, expiresAtSeconds: 784_111_777))
  }

  @Test(.promises("DE49"), arguments: [99, 9_999_999, 10_000_000] as [UInt64])
  func aFileBeyondTheServersLimit_isRefusedBeforeItIsSent(limit: UInt64) throws {
    let (requests, outcome) = TusFixture.run(
      .openSession(Fixture.opening()), try TusFixture.destination(),
      [TusFixture.discovery(TusFixture.everything, [HTTPHeader("tus-max-size", "\(limit)")])])
    #expect(requests.count == 1)
    #expect((outcome.failure?.kind == .tooLarge(limitBytes: limit)) == (limit < 10_000_000))
  }

  @Test func locations_areResolved() throws {
    let address = try TusAddress("tus+https://up.example.org:8443/v1/files", allowPlainHTTP: false)
    let expected: [(String, String?)] = [
      ("/files/a", "/files/a"), ("https://up.example.org:8443/files/a?x=1", "/files/a?x=1"), ("a", "/v1/a"),
      ("HTTPS://UP.example.org:8443/a", "/a"), ("//up.example.org:8443/a", "/a"),
      // A server behind a front knows neither its scheme nor its port.
      ("http://up.example.org/files/a", "/files/a"), ("http://up.example.org:1080/files/a", "/files/a"),
      ("https://other.example.org/a?ticket=1", "https://other.example.org/a?ticket=1"),
      ("/files/a#b", "/files/a"),
      ("http://other.example.org/a", nil), ("ftp://up.example.org/a", nil), ("https://user:x@up.example.org/a", nil),
      ("", nil), ("/a b", nil), ("/a\u{7f}", nil), ("/" + String(repeating: "a", count: 4000), nil),
    ]
    for (location, upload) in expected { #expect(address.resolve(location) == upload, "\(location)") }
    #expect(address.url(of: "/files/a").url == "https://up.example.org:8443/files/a")
  }

  /// Regression: a Location that is no address was called one of another host, with a token that there was not.
  @Test func aLocationThatIsNoAddress_isCalledSo() throws {
    for location in ["/a b", "", "http://other.example.org/a"] {
      let (_, outcome) = TusFixture.run(
        .openSession(Fixture.opening()), try TusFixture.destination(),
        [TusFixture.discovery("creation"), TusFixture.created(location)])
      #expect(
        outcome.failure?.message.contains("Location") == true && outcome.failure?.message.contains("token") == false)
    }
  }

  @Test(.promises("DE40")) func anotherHost_doesNotGetOurToken() throws {
    let destination = try TusFixture.destination()
    let (requests, outcome) = TusFixture.run(
      .wholeFile(Fixture.wholeFile()), destination,
      [plain, TusFixture.created("https://other.example.org/t"), TusFixture.at(9)])
    #expect(requests[2].url == "https://other.example.org/t")
    #expect(requests[2].header("authorization") == nil)
    #expect(requests[1].header("authorization") != nil)
    guard case .published(let receipt) = outcome else { return #expect(Bool(false), "\(outcome)") }
    #expect(receipt.id == "https://other.example.org/t")
  }

  // MARK: - Small files

  @Test(.promises("DE44")) func smallFile_goesWithItsCreation_whereTheServerTakesThat() throws {
    let destination = try TusFixture.destination()
    let (requests, outcome) = TusFixture.run(
      .wholeFile(Fixture.wholeFile()), destination, [options, TusFixture.created(offset: 9)])
    #expect(requests[1].content == TusFixture.content)
    #expect(requests[1].header("content-type") == "application/offset+octet-stream")
    #expect(requests[1].header("upload-length") == "9")
    guard case .published(let receipt) = outcome else { return #expect(Bool(false), "\(outcome)") }
    #expect(
      receipt.id == "https://up.example.org:8443/files/u1" && receipt.name == "a b/c.txt" && receipt.sizeBytes == 9)
    // The server is known by now.
    #expect(destination.request(for: .wholeFile(Fixture.wholeFile())).method == .post)
  }

  @Test(.promises("DE44")) func smallFile_isAppendedElsewhere_andWhatWasNotTakenIsSentAgain() throws {
    let (requests, outcome) = TusFixture.run(
      .wholeFile(Fixture.wholeFile()), try TusFixture.destination(),
      [plain, TusFixture.created(), TusFixture.at(4), TusFixture.at(9)])
    #expect(requests.map(\.method) == [.options, .post, .patch, .patch])
    #expect(requests[1].content == [] && requests[2].content == TusFixture.content)
    #expect(requests[3].content == Array("56789".utf8) && requests[3].header("upload-offset") == "4")
    guard case .published = outcome else { return #expect(Bool(false), "\(outcome)") }
  }

  /// A server that announces it and takes nothing.
  @Test func aBodyThatWasNotTaken_isAppended() throws {
    let (requests, outcome) = TusFixture.run(
      .wholeFile(Fixture.wholeFile()), try TusFixture.destination(),
      [options, TusFixture.created(), TusFixture.at(9)])
    #expect(requests[2].method == .patch && requests[2].header("upload-offset") == "0")
    guard case .published = outcome else { return #expect(Bool(false), "\(outcome)") }
  }

  @Test func emptyFile_isThereWithItsCreation() throws {
    let (requests, outcome) = TusFixture.run(
      .wholeFile(Fixture.wholeFile([])), try TusFixture.destination(), [options, TusFixture.created()])
    #expect(requests[1].header("upload-length") == "0")
    guard case .published = outcome else { return #expect(Bool(false), "\(outcome)") }
  }

  // MARK: - Checksums

  @Test(
    .promises("DE45"),
    arguments: [
      ("sha1,md5,sha256", "sha256 FeKw08M4kei5aVFM2JqHSMEAG+CPZAHGQvpEGx8dI+U="),
      ("md5,sha1", "sha1 98O8HYCOBHMq32eZZczDTKeuNEE="), ("md5", nil),
    ])
  func checksum_isTheBestThatIsAnnounced(algorithms: String, expected: String?) throws {
    let server = TusFixture.discovery(TusFixture.everything, [HTTPHeader("tus-checksum-algorithm", algorithms)])
    let (requests, _) = TusFixture.run(
      .wholeFile(Fixture.wholeFile()), try TusFixture.destination(), [server, TusFixture.created(offset: 9)])
    let expected = expected.map { text in
      text.hasPrefix("sha256") ? "sha256 " + Base64.encode(Fixture.digest(TusFixture.content).sha256) : text
    }
    #expect(requests[1].header("upload-checksum") == expected)
  }

  @Test func theRestOfABody_hasItsOwnChecksum() throws {
    let server = TusFixture.discovery("creation,checksum", [HTTPHeader("tus-checksum-algorithm", "sha256")])
    let (requests, _) = TusFixture.run(
      .wholeFile(Fixture.wholeFile()), try TusFixture.destination(),
      [server, TusFixture.created(), TusFixture.at(4), TusFixture.at(9)])
    #expect(requests[3].header("upload-checksum") == "sha256 \(Base64.encode(sha256(Array("56789".utf8))))")
  }

  @Test(.promises("DE45")) func damage_isADigestMismatch() throws {
    let (_, outcome) = TusFixture.run(
      .wholeFile(Fixture.wholeFile()), try TusFixture.destination(), [options, Fixture.answer(460)])
    #expect(outcome.failure?.kind == .digestMismatch)
  }

  // MARK: - One upload

  private let one = "one 9 /files/u1"
  private let declared = "one 9/27 /files/u1"
  private let inDeclared = AppendPosition(sequenceBytes: 27)

  private func opened(_ answers: [HTTPResponse] = []) throws -> TusDestination {
    let destination = try TusFixture.destination()
    let (_, outcome) = TusFixture.run(
      .openSession(Fixture.opening()), destination, [plain, TusFixture.created()])
    #expect(outcome.failure == nil)
    return destination
  }

  @Test func chunk_isAppendedWhereItBelongs() throws {
    let (requests, outcome) = TusFixture.run(TusFixture.chunk(2, of: one), try opened(), [TusFixture.at(27)])
    #expect(requests[0].method == .patch && requests[0].url == "https://up.example.org:8443/files/u1")
    #expect(requests[0].header("upload-offset") == "18")
    #expect(outcome == .chunkStoredAs(token: "27"))
  }

  @Test(.promises("DE54")) func aLostAnswer_isFoundByAsking() throws {
    let destination = try opened()
    _ = destination.request(for: TusFixture.chunk(0, of: one))
    let (requests, outcome) = TusFixture.run(
      TusFixture.chunk(0, of: one), destination, [TusFixture.at(9, status: 200)])
    #expect(requests.map(\.method) == [.head])
    #expect(outcome == .chunkStoredAs(token: "9"))
  }

  /// Regression: a server that answered with 202 and nothing else was sent the same bytes 128 times within a second.
  @Test func aServerThatTakesNothing_isNotSentTheBytesAgainInOneStep() throws {
    let step = DestinationStep.wholeFile(Fixture.wholeFile())
    let (requests, outcome) = TusFixture.run(
      step, try TusFixture.destination(),
      [plain, TusFixture.created(), Fixture.answer(202), TusFixture.at(0, status: 200)])
    #expect(requests.count { $0.method == .patch } == 1)
    guard case .refused(let failure) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(failure.kind == .unexpectedAnswer && failure.message.contains("takes no bytes"), "\(failure)")
  }

  @Test func aServerThatTakesLittle_isNotSentTheRestForEver() throws {
    let content = [UInt8](repeating: 7, count: 1000)
    let step = DestinationStep.wholeFile(Fixture.wholeFile(content))
    let destination = try TusFixture.destination()
    var responses = [plain, TusFixture.created()]
    for taken in 1...200 {
      responses.append(TusFixture.at(taken))
      guard destination.followUp(of: step, after: responses) != nil else { break }
    }
    #expect(responses.count <= 2 + 6)
    guard case .refused(let failure) = destination.outcome(of: step, responses: responses) else {
      Issue.record("it goes on")
      return
    }
    #expect(failure.kind == .unexpectedAnswer && failure.message.contains("little"), "\(failure)")
  }

  /// Regression: the whole piece went out again at the old offset, and only its refusal made it ask.
  @Test func aChunkThatBrokeOff_goesOnWhereTheServerIs() throws {
    let destination = try opened()
    _ = destination.request(for: TusFixture.chunk(0, of: one))
    let (requests, outcome) = TusFixture.run(
      TusFixture.chunk(0, of: one), destination, [TusFixture.at(5, status: 200), TusFixture.at(9)])
    #expect(requests.map(\.method) == [.head, .patch])
    #expect(requests[1].content == Array("6789".utf8) && requests[1].header("upload-offset") == "5")
    #expect(outcome == .chunkStoredAs(token: "9"))
  }

  /// Regression: after a chunk that had broken off at its beginning the server said that all of it was there, and it was called
  /// delivered although it had never been sent.
  @Test(.promises("DE60b")) func whatWasNotSent_isNotThereWhateverTheServerSays() throws {
    for (said, isBelieved) in [(2, true), (3, false), (9, false)] {
      let destination = try opened()
      let sent = destination.request(for: TusFixture.chunk(0, of: one)).sentBytes
      sent?.handOver(2)
      let step = TusFixture.chunk(0, of: one)
      let question = destination.request(for: step)
      let answer = TusFixture.at(said, status: 200)
      let next = destination.followUp(of: step, after: [answer])
      #expect(question.method == .head)
      if isBelieved {
        #expect(next?.method == .patch && next?.header("upload-offset") == "2")
      } else {
        #expect(next == nil && destination.outcome(of: step, responses: [answer]).failure?.kind == .sessionGone)
      }
    }
  }

  @Test(.promises("DE60b")) func theAnswerToAPieceSaysNoMoreThanThat() throws {
    let destination = try opened()
    let (_, outcome) = TusFixture.run(
      TusFixture.chunk(0, of: one, AppendPosition(), Array("abcdefghi".utf8)), destination, [TusFixture.at(10)])
    #expect(outcome.failure?.kind == .sessionGone)
  }

  @Test(.promises("DE60a")) func theBeginningOfOtherBytes_isNeverContinued() throws {
    let destination = try opened()
    _ = destination.request(for: TusFixture.chunk(0, of: one, AppendPosition(), Array("abcdefghi".utf8)))
    for offset in [5, 9] {
      let (_, outcome) = TusFixture.run(
        TusFixture.chunk(0, of: one), destination, [TusFixture.at(offset, status: 200)])
      #expect(outcome.failure?.kind == .sessionGone)
    }
  }

  /// Another run may have sent other bytes.
  @Test(.promises("DE60a")) func theMiddleOfAChunkAfterARestart_isNotContinued() throws {
    let destination = try TusFixture.destination()
    let (_, held) = TusFixture.run(TusFixture.query(one), destination, [plain, TusFixture.at(14, status: 200)])
    #expect(held == .held(digests: [:], tokens: [0: "9"]))
    let (_, outcome) = TusFixture.run(
      TusFixture.chunk(1, of: one), destination, [Fixture.answer(409), TusFixture.at(14, status: 200)])
    #expect(outcome.failure?.kind == .sessionGone)
    // Where it ends with a chunk, it goes on.
    _ = TusFixture.run(TusFixture.query(one), destination, [plain, TusFixture.at(18, status: 200)])
    _ = destination.request(for: TusFixture.chunk(2, of: one))
    let (_, next) = TusFixture.run(
      TusFixture.chunk(2, of: one), destination,
      [TusFixture.at(20, status: 200), TusFixture.at(27)])
    #expect(next == .chunkStoredAs(token: "27"))
  }

  @Test(arguments: [
    (404, StepFailure.Kind.sessionGone), (410, .sessionGone), (403, .sessionGone), (423, .conflict),
    (500, .unexpectedAnswer),
    (460, .digestMismatch), (413, .tooLarge(limitBytes: nil)), (400, .badRequest), (401, .unauthorized), (429, .busy),
  ])
  func refusalsOfAChunk(status: Int, kind: StepFailure.Kind) throws {
    let (_, outcome) = TusFixture.run(
      TusFixture.chunk(0, of: declared, inDeclared), try opened(), [TusFixture.refusal(status)])
    #expect(outcome.failure?.kind == kind)
  }

  /// Regression: a proxy whose server is away answered 404, and the upload was begun anew with all of its bytes.
  @Test(arguments: [404, 410]) func whatIsNotTheServersOwnWord_endsNoUpload(status: Int) throws {
    let steps: [(DestinationStep, [HTTPResponse])] = [
      (TusFixture.chunk(0, of: declared, inDeclared), []), (TusFixture.query(one), [plain]),
      (TusFixture.commit(["20"], session: one, size: 20), []),
    ]
    for (step, before) in steps {
      let (requests, outcome) = TusFixture.run(
        step, try opened(), before + [Fixture.answer(status), Fixture.answer(404)])
      #expect(outcome.failure?.kind == .serverError)
      #expect(outcome.failure?.message.contains("or something in its place did") == true)
      #expect(requests.last?.method == .options)
      // tuspyserver refuses without the protocol's header, and is there.
      let (_, gone) = TusFixture.run(step, try opened(), before + [Fixture.answer(status), plain])
      #expect(gone.failure?.kind == .sessionGone)
    }
  }

  @Test func aServerThatIsBehindWhatItAcknowledged_begins_anew() throws {
    let (_, outcome) = TusFixture.run(
      TusFixture.chunk(2, of: one), try opened(), [Fixture.answer(409), TusFixture.at(9, status: 200)])
    #expect(outcome.failure?.kind == .sessionGone)
  }

  @Test func question_findsWholeChunks_andTheLastOne() throws {
    let destination = try TusFixture.destination()
    let (requests, held) = TusFixture.run(
      TusFixture.query(one), destination,
      [
        plain,
        TusFixture.at(
          20, status: 200,
          [HTTPHeader("upload-length", "20"), HTTPHeader("upload-expires", "Sun, 06 Nov 1994 08:49:37 GMT")]),
      ])
    #expect(requests[1].method == .head)
    #expect(held == .held(digests: [:], expiresAtSeconds: 784_111_777, tokens: [0: "9", 1: "18", 2: "20"]))
    for status in [403, 404, 410] {
      let (_, gone) = TusFixture.run(TusFixture.query(one), destination, [plain, TusFixture.refusal(status)])
      #expect(gone.failure?.kind == .sessionGone)
    }
    let (_, page) = TusFixture.run(TusFixture.query(one), destination, [plain, Fixture.answer(400)])
    #expect(page.failure?.kind != .sessionGone)
    let (_, locked) = TusFixture.run(TusFixture.query(one), destination, [plain, Fixture.answer(423)])
    #expect(locked.failure?.kind == .conflict)
    // A server that joins uploads by now takes another kind of session.
    let (_, other) = TusFixture.run(TusFixture.query(one), destination, [options])
    #expect(other.failure?.kind == .sessionGone)
  }

  /// Regression: a bit of the Location had flipped, and the file failed with each retry.
  @Test func anAddressThatTheServerDoesNotUnderstand_isGivenUp() throws {
    let destination = try opened()
    let step = TusFixture.chunk(0, of: declared, inDeclared)
    let (_, refused) = TusFixture.run(step, destination, [TusFixture.refusal(400)])
    #expect(refused.failure?.kind == .badRequest)
    let (requests, again) = TusFixture.run(step, destination, [TusFixture.refusal(400)])
    #expect(requests.map(\.method) == [.head] && again.failure?.kind == .sessionGone)
    let (_, asked) = TusFixture.run(TusFixture.query(one), destination, [plain, TusFixture.refusal(400)])
    #expect(asked.failure?.kind == .sessionGone)
  }

  /// Offsets that are no number, or none that a file has. (2^64 - 1: ``nonsense_neverTraps(session:)``.)
  @Test(arguments: ["", "-1", "1.5", "abc", "0x10", "５", "99999999999999999999", "9223372036854775807"])
  func anOffsetThatIsNone_isNotBelieved(value: String) throws {
    let answer = Fixture.answer(200, headers: [HTTPHeader("upload-offset", value), HTTPHeader("upload-length", "20")])
    let (_, held) = TusFixture.run(TusFixture.query(one), try TusFixture.destination(), [plain, answer])
    #expect(held.failure != nil)
    let (_, committed) = TusFixture.run(TusFixture.commit(["20"], session: one, size: 20), try opened(), [answer])
    #expect(committed.failure != nil)
  }

  @Test(.promises("DE54")) func commitOfOneUpload_seesThatItIsAllThere() throws {
    let step = TusFixture.commit(["20"], session: one, size: 20)
    let (requests, outcome) = TusFixture.run(
      step, try opened(), [TusFixture.at(20, status: 200, [HTTPHeader("upload-length", "20")])])
    #expect(requests[0].method == .head)
    guard case .published(let receipt) = outcome else { return #expect(Bool(false), "\(outcome)") }
    #expect(receipt.sizeBytes == 20 && receipt.name == "day 1/a.mov" && receipt.merkleRoot == Hex.encode(sha256([1])))
    let (_, short) = TusFixture.run(step, try opened(), [TusFixture.at(19, status: 200)])
    #expect(short.failure?.kind == .sessionGone)
  }

  /// Regression: the file was sent again and again, and failed (tussi-server 3.1).
  @Test(.promises("DE137"), arguments: [403, 404, 410]) func anUploadThatIsTakenAwayOnceItIsComplete_isDelivered(
    status: Int
  ) throws {
    let step = TusFixture.commit(["9", "18", "27"], session: declared, size: 27)
    var answers = [TusFixture.refusal(status)]
    if status != 403 { answers = [Fixture.answer(status), plain] }
    for answers in [[TusFixture.refusal(status)], answers] {
      guard case .published(let receipt) = TusFixture.run(step, try opened(), answers).outcome else {
        Issue.record("not published")
        return
      }
      #expect(receipt.sizeBytes == 27 && receipt.id.hasSuffix("/files/u1"))
    }
    // Of one that is to be told its length, or has another one, it is not known what became of it.
    for (session, size) in [(one, 27), (declared, 18)] as [(String, UInt64)] {
      let commit = TusFixture.commit(["9"], session: session, size: size)
      let (_, gone) = TusFixture.run(commit, try opened(), [TusFixture.refusal(status)])
      #expect(gone.failure?.kind == .sessionGone)
    }
    // What the server has less of than it acknowledged is not there.
    let (_, short) = TusFixture.run(step, try opened(), [TusFixture.at(18, status: 200)])
    #expect(short.failure?.kind == .sessionGone)
  }

  /// Regression: a file that was cut to what its upload held was called published, and the server waited for the rest.
  @Test(.promises("DE54")) func uploadThatHasAllOfACutFile_andWaitsForMore_isNotPublished() throws {
    let cut = TusFixture.commit(["9"], session: declared, size: 9)
    #expect(TusFixture.run(cut, try opened(), [TusFixture.at(9, status: 200)]).outcome.failure?.kind == .sessionGone)
    // The same, where the length was declared by an attempt whose answer was lost.
    for length in ["20", "a few"] {
      let waits = TusFixture.at(9, status: 200, [HTTPHeader("upload-length", length)])
      let (_, outcome) = TusFixture.run(TusFixture.commit(["9"], session: one, size: 9), try opened(), [waits])
      #expect(outcome.failure?.kind == .sessionGone)
    }
  }

  @Test func lengthThatWasDeclared_isThatOfTheFileOrTheUploadBeginsAnew() throws {
    let destination = try opened()
    _ = TusFixture.run(.prewarm, destination, [plain])
    #expect(
      destination.outcome(of: TusFixture.chunk(0, of: declared, AppendPosition(sequenceBytes: 31)), responses: [])
        .failure?.kind
        == .sessionGone)
    let (_, outcome) = TusFixture.run(
      TusFixture.chunk(0, of: declared, inDeclared), destination, [TusFixture.at(9)])
    #expect(outcome == .chunkStoredAs(token: "9"))
  }

  @Test(.promises("DE43")) func growingFile_isOneUploadWhoseLengthIsDeclaredLast() throws {
    let deferring = TusFixture.discovery("creation,creation-defer-length")
    let destination = try TusFixture.destination()
    #expect(destination.offers(in: deferring).abilities?.sendsWhileWriting == true)
    #expect(destination.offers(in: plain).abilities?.sendsWhileWriting == false)
    let (requests, opened) = TusFixture.run(
      .openSession(Fixture.opening(size: nil)), destination, [deferring, TusFixture.created("/files/g")])
    #expect(requests[1].header("upload-defer-length") == "1" && requests[1].header("upload-length") == nil)
    guard case .sessionOpened(let id, _, _, _, _, _) = opened else { return #expect(Bool(false), "\(opened)") }
    let commit = TusFixture.commit(["20"], session: id, size: 20)
    let open = TusFixture.at(20, status: 200, [HTTPHeader("upload-defer-length", "1")])
    let (ends, outcome) = TusFixture.run(commit, destination, [open, TusFixture.at(20)])
    #expect(ends[1].method == .patch && ends[1].header("upload-length") == "20" && ends[1].content == [])
    guard case .published = outcome else { return #expect(Bool(false), "\(outcome)") }
    // The answer to that was lost, and it is asked for.
    let complete = TusFixture.at(20, status: 200, [HTTPHeader("upload-length", "20")])
    guard case .published = TusFixture.run(commit, destination, [complete]).outcome else {
      return #expect(Bool(false), "what is complete is published")
    }
  }

  @Test(.promises("DE43")) func serverThatWantsTheLengthFirst_isBelieved() throws {
    let deferring = TusFixture.discovery("creation,creation-defer-length")
    let destination = try TusFixture.destination()
    _ = TusFixture.run(.prewarm, destination, [deferring])
    let refusal = Fixture.answer(400)
    #expect(destination.offers(in: refusal).abilities == nil)
    let (_, outcome) = TusFixture.run(TusFixture.chunk(0, of: one), destination, [refusal])
    #expect(outcome.failure?.kind == .sessionGone)
    #expect(destination.offers(in: refusal).abilities?.sendsWhileWriting == false)
    #expect(destination.offers(in: deferring).abilities?.sendsWhileWriting == false)
  }

  // MARK: - Partial uploads

  private func joining() throws -> TusDestination {
    let destination = try TusFixture.destination()
    _ = TusFixture.run(.prewarm, destination, [options])
    return destination
  }

  @Test(.promises("DE42")) func chunkOfItsOwn_isAPartialUpload() throws {
    let (requests, outcome) = TusFixture.run(
      TusFixture.chunk(3, of: "rows 00", AppendPosition(sequenceBytes: 9)), try joining(),
      [TusFixture.created("/files/p3", offset: 9)])
    #expect(requests[0].method == .post && requests[0].header("upload-concat") == "partial")
    #expect(requests[0].header("upload-length") == "9" && requests[0].header("upload-metadata") == nil)
    #expect(outcome == .chunkStoredAs(token: "/files/p3#9"))
  }

  @Test(.promises("DE52")) func appendSequence_isOnePartialUpload() throws {
    let destination = try joining()
    let (first, token) = TusFixture.run(
      TusFixture.chunk(48, of: "rows 00", AppendPosition(sequenceBytes: 20)), destination,
      [TusFixture.created("/files/p", offset: 9)])
    #expect(first[0].header("upload-length") == "20")
    #expect(token == .chunkStoredAs(token: "/files/p#20"))
    let (next, outcome) = TusFixture.run(
      TusFixture.chunk(49, of: "rows 00", AppendPosition(after: "/files/p#20", sequenceOffset: 9, sequenceBytes: 20)),
      destination,
      [TusFixture.at(18)])
    #expect(next[0].method == .patch && next[0].header("upload-offset") == "9")
    #expect(outcome == .chunkStoredAs(token: "/files/p#20"))
    let (_, lost) = TusFixture.run(
      TusFixture.chunk(
        50, of: "rows 00", AppendPosition(after: "/files/p#20", sequenceOffset: 18, sequenceBytes: 20), [1, 2]),
      destination, [TusFixture.refusal(404)])
    #expect(lost.failure?.kind == .sequenceLost)
  }

  @Test(.promises("DE60a")) func aSequenceThatWasBrokenOff_isContinuedOnlyWithItsOwnBytes() throws {
    let destination = try joining()
    let position = AppendPosition(after: "/files/p#20", sequenceOffset: 9, sequenceBytes: 20)
    _ = TusFixture.run(
      TusFixture.chunk(48, of: "rows 00", AppendPosition(sequenceBytes: 20)), destination,
      [TusFixture.created("/files/p", offset: 9)])
    _ = destination.request(for: TusFixture.chunk(49, of: "rows 00", position))
    let (_, outcome) = TusFixture.run(
      TusFixture.chunk(49, of: "rows 00", position), destination,
      [TusFixture.at(12, status: 200), TusFixture.at(18)])
    #expect(outcome == .chunkStoredAs(token: "/files/p#20"))
    let (_, unknown) = TusFixture.run(
      TusFixture.chunk(49, of: "rows 00", position), try joining(),
      [Fixture.answer(409), TusFixture.at(12, status: 200)])
    #expect(unknown.failure?.kind == .sequenceLost)
  }

  @Test(.promises("DE7", "DE42")) func commit_joinsThePartialUploadsInOrder() throws {
    let (requests, outcome) = TusFixture.run(
      TusFixture.commit(["/files/a#9", "/files/b#9", "https://o.example.org/c#2"], size: 20), try joining(),
      [TusFixture.created("/files/f")])
    #expect(requests[0].header("upload-concat") == "final;/files/a /files/b https://o.example.org/c")
    #expect(requests[0].header("upload-length") == nil && requests[0].header("upload-metadata") != nil)
    guard case .published(let receipt) = outcome else { return #expect(Bool(false), "\(outcome)") }
    #expect(receipt.id == "https://up.example.org:8443/files/f")
  }

  @Test func sequenceThatEndsElsewhereByNow_isSentAgainBeforeTheCommit() throws {
    let destination = try joining()
    let single = (0..<48).map { "/files/\($0)#9" }
    let step = TusFixture.commit(single + ["/files/p#36", "/files/p#36"], size: 48 * 9 + 12)
    #expect(destination.outcome(of: step, responses: []) == .incomplete(missing: [48, 49]))
    let mixed = TusFixture.commit(single + ["/files/p#12", "/files/q#12"], size: 48 * 9 + 12)
    #expect(destination.outcome(of: mixed, responses: []) == .incomplete(missing: [48, 49]))
  }

  @Test func refusedCommit_sendsOnlyAgainWhatIsGone() throws {
    let step = TusFixture.commit(["/files/a#9", "/files/b#9", "/files/c#2"], size: 20)
    let (requests, gone) = TusFixture.run(
      step, try joining(),
      [Fixture.answer(400), TusFixture.at(9, status: 200), TusFixture.refusal(404), TusFixture.refusal(410)])
    let ends: [String] = requests.suffix(3).map { String($0.url.suffix(2)) }
    #expect(ends == ["/a", "/b", "/c"])
    #expect(gone == .incomplete(missing: [1, 2]))
    let (_, misnamed) = TusFixture.run(
      step, try joining(),
      [
        TusFixture.refusal(400), TusFixture.at(9, status: 200), TusFixture.refusal(400),
        TusFixture.at(2, status: 200),
      ])
    #expect(misnamed == .incomplete(missing: [1]))
  }

  /// Regression: a server that lost the parts of each file was given parts for ever.
  @Test(.promises("DE133")) func partsThatAreGoneTwice_areFollowedBySingleUploads() throws {
    let destination = try joining()
    let answers = [Fixture.answer(400), TusFixture.refusal(404), TusFixture.refusal(410)]
    let first = TusFixture.commit(["/files/a#9", "/files/b#9"], size: 18)
    let (_, once) = TusFixture.run(first, destination, answers)
    #expect(once == .incomplete(missing: [0, 1]))
    // The answers of one attempt may be looked at again.
    _ = destination.outcome(of: first, responses: answers)
    #expect(
      destination.offers(in: TusFixture.discovery()).abilities?.appendSequences == .growing, "once may be an accident")
    let elsewhere = TusFixture.commit(["/files/x#9", "/files/y#9"], session: "rows 01", size: 18)
    _ = TusFixture.run(elsewhere, destination, answers)
    #expect(destination.offers(in: TusFixture.discovery()).abilities?.appendSequences == .growing, "of another file")
    let second = TusFixture.commit(["/files/c#9", "/files/d#9"], size: 18)
    let (_, twice) = TusFixture.run(second, destination, answers)
    #expect(twice.failure?.kind == .sessionGone || twice == .incomplete(missing: [0, 1]))
    let abilities = try #require(destination.offers(in: TusFixture.refusal(404)).abilities)
    #expect(abilities.appendSequences == .one && !abilities.commitListsChunks)
    let chunk = TusFixture.chunk(0, of: "rows 00", AppendPosition(sequenceBytes: 9))
    #expect(destination.outcome(of: chunk, responses: []).failure?.kind == .sessionGone)
    let (requests, _) = TusFixture.run(
      .openSession(Fixture.opening()), destination, [TusFixture.discovery(), TusFixture.created()])
    #expect(requests.last?.header("upload-concat") == nil && requests.last?.header("upload-length") != nil)
  }

  /// Regression: such a server published one part, repeated.
  @Test(.promises("DE133")) func partsOfOneAddress_areNeverJoined() throws {
    for other in ["/files/a#9", "https://up.example.org:8443/files/a#9"] {
      let destination = try joining()
      let step = TusFixture.commit(["/files/a#9", other, "/files/c#2"], size: 20)
      #expect(destination.request(for: step).header("upload-concat") == nil)
      #expect(destination.outcome(of: step, responses: []).failure?.kind == .sessionGone)
      #expect(destination.offers(in: TusFixture.discovery()).abilities?.appendSequences == .one)
    }
  }

  @Test func refusedCommit_ofWhatIsAllThereIsRefused() throws {
    let step = TusFixture.commit(["/files/a#9", "/files/b#9"], size: 18)
    let (_, refused) = TusFixture.run(
      step, try joining(), [TusFixture.refusal(400), TusFixture.at(9, status: 200), TusFixture.at(9, status: 200)])
    #expect(refused.failure?.kind == .badRequest)
    let (_, busy) = TusFixture.run(step, try joining(), [Fixture.answer(503)])
    #expect(busy.failure?.kind == .busy)
  }

  @Test(arguments: [400, 403, 404, 410]) func refusedCommit_bySomethingInBetween_failsNoFile(status: Int) throws {
    let step = TusFixture.commit(["/files/a#9", "/files/b#9"], size: 18)
    let present = [TusFixture.at(9, status: 200), TusFixture.at(9, status: 200)]
    let (_, unattested) = TusFixture.run(step, try joining(), [Fixture.answer(status)] + present)
    #expect(unattested.failure?.kind == .serverError)
    let (_, ownWord) = TusFixture.run(step, try joining(), [TusFixture.refusal(status)] + present)
    #expect(ownWord.failure?.kind == .badRequest)
  }

  // MARK: - Lost answers

  private static let unfinished = TusFixture.everything + ",creation-defer-length,concatenation-unfinished"
  private let three = ["/files/a#9", "/files/b#9", "/files/c#2"]

  private func latching(_ headers: [HTTPHeader] = []) throws -> TusDestination {
    let destination = try TusFixture.destination()
    _ = TusFixture.run(.prewarm, destination, [TusFixture.discovery(Self.unfinished, headers)])
    return destination
  }

  private func lost(mayHaveArrived: Bool = true, _ kind: TransportError.Kind = .connectionLost) -> TransportError {
    var error = TransportError(kind, "it broke")
    error.mayHaveArrived = mayHaveArrived
    return error
  }

  @Test(.promises("DE46")) func latch_completesWhatWasJoined() throws {
    let (requests, outcome) = TusFixture.run(
      TusFixture.commit(three, size: 20), try latching(),
      [TusFixture.created("/files/l"), TusFixture.created("/files/f"), TusFixture.at(0)])
    #expect(requests[0].header("upload-concat") == "partial" && requests[0].header("upload-defer-length") == "1")
    #expect(requests[1].header("upload-concat") == "final;/files/a /files/b /files/c /files/l")
    #expect(requests[1].isSentOnce && requests[1].header("upload-length") == nil)
    #expect(requests[2].method == .patch && requests[2].url.hasSuffix("/files/l"))
    #expect(requests[2].header("upload-length") == "0" && requests[2].header("upload-offset") == "0")
    guard case .published(let receipt) = outcome else { return #expect(Bool(false), "\(outcome)") }
    #expect(receipt.id == "https://up.example.org:8443/files/f")
  }

  /// A commit of which the last answer is lost.
  private func breakOff(_ destination: TusDestination, _ step: DestinationStep, _ answers: [HTTPResponse])
    -> StepOutcome
  {
    _ = destination.request(for: step)
    for count in 0..<answers.count {
      #expect(destination.followUp(of: step, after: Array(answers[...count])) != nil)
    }
    return destination.outcome(of: step, lost: lost())
  }

  @Test(.promises("DE55")) func lostCompletion_isLookedForAndNotRepeated() throws {
    let step = TusFixture.commit(three, size: 20)
    let begun = [TusFixture.created("/files/l"), TusFixture.created("/files/f")]
    let complete = try latching()
    #expect(breakOff(complete, step, begun).failure?.kind == .transport(.connectionLost))
    let (looks, found) = TusFixture.run(step, complete, [TusFixture.at(20, status: 200)])
    #expect(looks[0].method == .head && looks[0].url.hasSuffix("/files/f"))
    guard case .published(let receipt) = found else { return #expect(Bool(false), "\(found)") }
    #expect(receipt.id == "https://up.example.org:8443/files/f")

    let incomplete = try latching()
    _ = breakOff(incomplete, step, begun)
    let (requests, outcome) = TusFixture.run(step, incomplete, [Fixture.answer(200), TusFixture.at(0)])
    #expect(requests.map(\.method) == [.head, .patch] && requests[1].url.hasSuffix("/files/l"))
    guard case .published = outcome else { return #expect(Bool(false), "\(outcome)") }

    let stillJoining = try latching()
    _ = breakOff(stillJoining, step, begun)
    let (_, later) = TusFixture.run(step, stillJoining, [Fixture.answer(200), Fixture.answer(403)])
    #expect(later.failure?.kind == .tooEarly)
  }

  @Test(arguments: [403, 404, 409]) func completion_thatIsRefusedIsLookedFor(status: Int) throws {
    let step = TusFixture.commit(three, size: 20)
    let begun = [TusFixture.created("/files/l"), TusFixture.created("/files/f"), Fixture.answer(status)]
    let (requests, complete) = TusFixture.run(step, try latching(), begun + [TusFixture.at(20, status: 200)])
    #expect(requests[3].method == .head && requests[3].url.hasSuffix("/files/f"))
    guard case .published = complete else { return #expect(Bool(false), "\(complete)") }
    let (_, incomplete) = TusFixture.run(step, try latching(), begun + [Fixture.answer(200)])
    // How long it takes to join them ends no file.
    #expect(incomplete.failure?.kind == .tooEarly)
  }

  /// Regression: a success without a word of tus, as a proxy or a portal gives it, was a delivery.
  @Test(.promises("DE55")) func aSuccessWithoutAWordOfTus_isLookedInto() throws {
    let step = TusFixture.commit(three, size: 20)
    let begun = [TusFixture.created("/files/l"), TusFixture.created("/files/f"), Fixture.answer(202)]
    let (requests, outcome) = TusFixture.run(step, try latching(), begun + [TusFixture.at(0, status: 200)])
    #expect(requests[3].method == .head && outcome.failure?.kind == .tooEarly)
  }

  /// Regression: one 404 of something in between failed a file for good, although uploads were taken there before.
  @Test(arguments: [404, 405, 410]) func whatIsNotThereForAMoment_failsNoFile(status: Int) throws {
    let destination = try latching()
    // What a server may have lost it is asked for once more.
    let answers = status == 405 ? [Fixture.answer(status)] : [Fixture.answer(status), Fixture.answer(status)]
    let (_, asking) = TusFixture.run(
      TusFixture.query("rows 00"), try TusFixture.destination(), answers)
    let (_, opening) = TusFixture.run(.openSession(Fixture.opening()), destination, answers)
    let (_, first) = TusFixture.run(
      .openSession(Fixture.opening()), try TusFixture.destination(), [Fixture.answer(status)])
    #expect([asking, opening].allSatisfy { $0.failure?.kind == .serverError })
    let (_, ownWord) = TusFixture.run(.openSession(Fixture.opening()), destination, [TusFixture.refusal(status)])
    #expect(ownWord.failure?.kind == .unexpectedAnswer)
    #expect(first.failure?.kind == .addressRefused, "an address that was never right")
  }

  @Test(.promises("DE55")) func lostAddress_isNeverCompleted() throws {
    let step = TusFixture.commit(three, size: 20)
    let destination = try latching()
    let outcome = breakOff(destination, step, [TusFixture.created("/files/l")])
    #expect(outcome.failure?.kind == .transport(.connectionLost) && outcome.failure?.message == "it broke")
    let (requests, _) = TusFixture.run(
      step, destination, [TusFixture.created("/files/m"), TusFixture.created("/files/g"), TusFixture.at(0)])
    #expect(requests[1].header("upload-concat")?.hasSuffix(" /files/m") == true)
    #expect(requests[2].url.hasSuffix("/files/m"))
  }

  @Test func joinedUpload_ofAnotherContentOrThatIsGoneIsReplaced() throws {
    let begun = [TusFixture.created("/files/l"), TusFixture.created("/files/f")]
    let step = TusFixture.commit(three, size: 20)
    let changed = TusFixture.commit(["/files/a#9", "/files/d#9", "/files/c#2"], size: 20)
    let destination = try latching()
    _ = breakOff(destination, step, begun)
    #expect(destination.request(for: changed).header("upload-defer-length") == "1")
    let gone = try latching()
    _ = breakOff(gone, step, begun)
    let (requests, outcome) = TusFixture.run(
      step, gone,
      [TusFixture.refusal(404), TusFixture.created("/files/m"), TusFixture.created("/files/g"), TusFixture.at(0)])
    #expect(requests.map(\.method) == [.head, .post, .post, .patch])
    guard case .published(let receipt) = outcome else { return #expect(Bool(false), "\(outcome)") }
    #expect(receipt.id.hasSuffix("/files/g"))
  }

  @Test func joinedUpload_isEndedWithItsSession() throws {
    let destination = try latching()
    let step = TusFixture.commit(three, size: 20)
    _ = breakOff(destination, step, [TusFixture.created("/files/l"), TusFixture.created("/files/f")])
    let (requests, outcome) = TusFixture.run(
      .abort(SessionIdentity(id: "rows 00", nonce: [])), destination, [Fixture.answer(204)])
    #expect(requests[0].method == .delete && requests[0].url.hasSuffix("/files/f") && outcome == .ended)
  }

  @Test(.promises("DE46")) func latch_isLeftOutWhereItCannotBe() throws {
    let limited = try latching([HTTPHeader("tus-max-size", "1000")])
    let step = TusFixture.commit(three, size: 20)
    #expect(limited.request(for: step).header("upload-concat")?.hasPrefix("final;") == true)
    for refusals in [[Fixture.answer(400)], [TusFixture.created("/files/l"), Fixture.answer(400)]] {
      let (requests, outcome) = TusFixture.run(step, try latching(), refusals + [TusFixture.created("/files/f")])
      #expect(requests.last?.header("upload-concat") == "final;/files/a /files/b /files/c")
      guard case .published = outcome else { return #expect(Bool(false), "\(outcome)") }
    }
  }

  @Test(.promises("DE56", "DE57"), arguments: AmbiguousOutcomePolicy.allCases) func lostJoining_isUnclear(
    policy: AmbiguousOutcomePolicy
  ) throws {
    let destination = try TusFixture.destination { $0.unclear = policy }
    _ = TusFixture.run(.prewarm, destination, [options])
    let step = TusFixture.commit(three, size: 20)
    let request = destination.request(for: step)
    #expect(request.isSentOnce && request.opensConnection == (policy == .hold))
    let kind: StepFailure.Kind = policy == .hold ? .unclearEnd : .transport(.connectionLost)
    let outcome = destination.outcome(of: step, lost: lost())
    #expect(outcome.failure?.kind == kind && outcome.failure?.message.contains("--tus-unclear hold") == true)
    // Nothing has arrived, or the mount stops: that is clear.
    for error in [lost(mayHaveArrived: false), lost(.stopped)] {
      #expect(destination.outcome(of: step, lost: error).failure?.kind == .transport(error.kind))
    }
    // A gateway does not know either; with a pause that was asked for, nothing was done.
    let (_, gateway) = TusFixture.run(step, destination, [Fixture.answer(504)])
    #expect(gateway.failure?.kind == (policy == .hold ? .unclearEnd : .serverError))
    #expect(TusFixture.run(step, destination, [Fixture.answer(503)]).outcome.failure?.kind == .busy)
    // An answer that was lost later is that of a look.
    _ = destination.request(for: step)
    _ = destination.followUp(of: step, after: [Fixture.answer(400)])
    #expect(destination.outcome(of: step, lost: lost()).failure?.kind == .transport(.connectionLost))
  }

  /// Regression: Express answers “Cannot PATCH /files/…”, and a reader of the status or the log could go on with the upload.
  @Test(.promises("SE6"), arguments: Self.wordsOfServers)
  func wordsOfAServer_areSaidWithoutTheAddressOfAnUpload(upload: String, words: String, said: String) throws {
    let isJSON = words.hasPrefix("{")
    let answer = Fixture.answer(
      500, text: words,
      headers: [
        HTTPHeader("tus-resumable", "1.0.0"), HTTPHeader("content-type", isJSON ? "application/json" : "text/plain"),
      ])
    let session = TusSession.id(one: upload, chunkBytes: 9, lengthBytes: nil)
    let (_, outcome) = TusFixture.run(TusFixture.chunk(0, of: session), try TusFixture.destination(), [plain, answer])
    #expect(
      outcome.failure?.message
        == "The tus server at tus+https://up.example.org:8443/files/ answered 500 (“\(said)”).")
  }

  private static let id = "5a1c0de5f00dfeed5a1c0de5f00dfeed"
  /// Words are cut behind 200 characters.
  private static let pad = String(repeating: "word ", count: 36)
  /// An upload, what a server says, and what of it is said.
  private static let wordsOfServers: [(String, String, String)] = [
    ("/files/2", "Cannot PATCH /files/2", "Cannot PATCH [upload]"),
    ("/files/2", "no slot 2 in /files/", "no slot 2 in /files/"),
    ("/files/\(id)", "https://h/files/\(id)?a=1 is not there", "https://h[upload]?a=1 is not there"),
    ("/files/\(id)", "of \(id): nothing", "of [upload]: nothing"),
    ("/files/\(id)", #"{"error":"no \/files\/\#(id)"}"#, "no [upload]"),
    ("/files/\(id)", #"see \/files\/\#(id)"#, "see [upload]"),
    ("/files/\(id)", "log in at /login?next=%2Ffiles%2F\(id)", "log in at /login?next=[upload]"),
    ("/files/a%20long%20one", "no a long one in /files/a long one", "no a long one in [upload]"),
    ("/files/?key=\(id)", "no key \(id) in /files/", "no key [upload] in /files/"),
    ("https://s.example.net/x/\(id)", "Cannot PATCH /x/\(id)", "Cannot PATCH [upload]"),
    ("/files/\(id)", pad + "/files/\(id)", pad + "[upload]…"),
    ("/files/\(id)", pad + "/files/ and some more of it", pad + "/files/ and some mor…"),
  ]

  /// Regression: the server may have the file that it was sent in one request, and got it again every few seconds.
  @Test(.promises("DE144"), arguments: [502, 504]) func aGatewayBeforeAWholeFile_mayLeaveCopies(status: Int) throws {
    let destination = try TusFixture.destination()
    let whole = DestinationStep.wholeFile(Fixture.wholeFile())
    let (_, asking) = TusFixture.run(whole, destination, [Fixture.answer(status)])
    #expect(asking.failure?.kind == .serverError, "nothing was sent yet")
    let (_, sent) = TusFixture.run(whole, destination, [options, Fixture.answer(status)])
    #expect(sent.failure?.kind == .misdirected)
  }

  /// Regression: the answer to HEAD has no page in it, and a captive portal's ended the file as the server's.
  @Test(.promises("DE103")) func aPortalThatAnswersAQuestion_endsNoFile() throws {
    let portal = Fixture.answer(200, headers: [HTTPHeader("content-type", "text/html")])
    let own = Fixture.answer(200, headers: [HTTPHeader("tus-resumable", "1.0.0")])
    for (answer, kind) in [(portal, StepFailure.Kind.serverError), (own, .unexpectedAnswer)] {
      let (_, asked) = TusFixture.run(TusFixture.query(one), try TusFixture.destination(), [plain, answer])
      #expect(asked.failure?.kind == kind)
      let destination = try opened()
      _ = destination.request(for: TusFixture.chunk(0, of: one))
      let (requests, sent) = TusFixture.run(TusFixture.chunk(0, of: one), destination, [answer])
      #expect(requests.map(\.method) == [.head] && sent.failure?.kind == kind)
      let commit = TusFixture.commit(["20"], session: one, size: 20)
      #expect(TusFixture.run(commit, try opened(), [answer]).outcome.failure?.kind == kind)
    }
  }

  /// A network's login page is found before a file is sent.
  @Test(.promises("DE103")) func warming_isNotAnsweredByAPage() throws {
    let (_, outcome) = TusFixture.run(.prewarm, try TusFixture.destination(), [Self.page(200)])
    #expect(outcome.failure?.kind == .serverError)
  }

  @Test(.promises("DE57")) func lostWholeFile_isUnclear() throws {
    let destination = try TusFixture.destination { $0.unclear = .hold }
    _ = TusFixture.run(.prewarm, destination, [options])
    let step = DestinationStep.wholeFile(Fixture.wholeFile())
    let request = destination.request(for: step)
    #expect(request.isSentOnce && request.opensConnection)
    #expect(destination.outcome(of: step, lost: lost()).failure?.kind == .unclearEnd)
    #expect(
      destination.outcome(of: TusFixture.chunk(0, of: "rows 00", AppendPosition(sequenceBytes: 9)), lost: lost())
        .failure?.kind
        == .transport(.connectionLost))
  }

  // MARK: - Expiry

  @Test(.promises("DE47")) func sessionLastsAsLongAsTheLastAnswerSays() throws {
    let destination = try opened()
    // The server's clock is an hour behind the 1,700,000,000 of ours.
    let times = [
      HTTPHeader("date", "Tue, 14 Nov 2023 21:13:20 GMT"),
      HTTPHeader("upload-expires", "Tue, 14 Nov 2023 21:14:20 GMT"),
    ]
    let (_, outcome) = TusFixture.run(TusFixture.chunk(0, of: one), destination, [TusFixture.at(9, times)])
    #expect(outcome == .chunkStoredAs(token: "9", expiresAtSeconds: 1_700_000_060))
  }

  @Test func partialUploads_areStillThereForAll() throws {
    #expect(TusFixture.run(TusFixture.query("rows 00"), try TusFixture.destination(), [options]).outcome == .stillThere)
    #expect(
      TusFixture.run(TusFixture.query("rows 00"), try TusFixture.destination(), [plain]).outcome.failure?.kind
        == .sessionGone)
  }

  // MARK: - Ends

  @Test(.promises("DE48")) func abort_endsTheUpload() throws {
    for session in [one, "/files/u1#20"] {
      for status in [204, 404, 405, 410] {
        let step = DestinationStep.abort(SessionIdentity(id: session, nonce: []))
        let (requests, outcome) = TusFixture.run(
          step, try joining(), [Fixture.answer(status, headers: [HTTPHeader("tus-resumable", "1.0.0")])])
        #expect(requests[0].method == .delete && requests[0].url.hasSuffix("/files/u1"))
        #expect(outcome == .ended)
      }
      // Something in between knows nothing of it.
      let step = DestinationStep.abort(SessionIdentity(id: session, nonce: []))
      let silent = [Fixture.answer(404), Fixture.answer(404)]
      #expect(TusFixture.run(step, try joining(), silent).outcome != .ended)
    }
    let (_, locked) = TusFixture.run(
      .abort(SessionIdentity(id: one, nonce: [])), try joining(), [Fixture.answer(423)])
    #expect(locked.failure?.kind == .conflict)
  }

  @Test(arguments: [
    "", "one", "one x /a", "one 0 /a", "one 9/ /a", "one 9/x /a", "rows", "/files/u1", "/files/u1#x", "two 1 /a",
  ])
  func nonsense_neverTraps(session: String) throws {
    let destination = try joining()
    for status in [0, 100, 200, 201, 204, 301, 400, 404, 409, 460, 500, 999] {
      for headers in [[], [HTTPHeader("upload-offset", "18446744073709551615"), HTTPHeader("location", "://")]] {
        let answer = Fixture.answer(status, headers: headers)
        for step in [
          TusFixture.query(session), TusFixture.chunk(3, of: session),
          TusFixture.commit(["x", "#"], session: session, size: 20),
          .abort(SessionIdentity(id: session, nonce: [])),
        ] + Fixture.steps {
          _ = destination.request(for: step)
          for count in 0..<4 {
            _ = destination.followUp(of: step, after: Array(repeating: answer, count: count))
            _ = destination.outcome(of: step, responses: Array(repeating: answer, count: count))
          }
        }
      }
    }
  }
}
