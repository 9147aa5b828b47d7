import FileModel
import Integrity
import Lookup
import Promises
import Testing
import TransferModel

@testable import Destinations

@Suite struct S3OutcomeTests {
  private let destination: S3Destination
  private let query = DestinationStep.querySession(S3Fixture.session)

  init() throws { destination = try S3Fixture.destination() }

  private func afterwards(_ step: DestinationStep, _ responses: HTTPResponse...) -> HTTPRequest? {
    destination.followUp(of: step, after: responses, at: .first)
  }

  private func receipt(id: String) -> Receipt {
    let commit = S3Fixture.commit()
    return Receipt(
      id: id, name: "day 1/a.mov", sizeBytes: commit.sizeBytes, merkleRoot: Hex.encode(commit.merkleRoot),
      chainTip: Hex.encode(commit.chainTip), publishedAtMilliseconds: S3Fixture.now * 1000)
  }

  // MARK: - Sessions

  @Test func opening_givesASessionThatNamesKeyAndUpload() throws {
    let answer = Fixture.answer(
      200,
      text:
        "<InitiateMultipartUploadResult><Bucket>b</Bucket><UploadId>2~x+/=</UploadId></InitiateMultipartUploadResult>",
      headers: [HTTPHeader("x-amz-abort-date", "Sun, 06 Nov 1994 08:49:37 GMT")])
    let outcome = destination.outcome(of: .openSession(Fixture.opening(path: "ä?.mov")), response: answer)
    guard case .sessionOpened(let id, let chunkBytes, let expires, let encodings, _, _) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(chunkBytes == Fixture.opening().chunkBytes)
    #expect(expires == 784_111_777)
    #expect(encodings == [.identity])
    #expect(S3Upload(sessionID: id) == S3Upload(key: "day 1/ä?.mov", uploadID: "2~x+/="))
  }

  @Test(arguments: ["", "<Error/>", "<InitiateMultipartUploadResult/>", "<a><UploadId>x</UploadId></a>"])
  func openingThatNamesNoUpload_isUnexpected(text: String) {
    let outcome = destination.outcome(
      of: .openSession(Fixture.opening()), response: Fixture.answer(200, text: text))
    #expect(outcome.failure?.kind == .unexpectedAnswer)
  }

  @Test(.promises("DE4")) func partThatTheServerDoesNotReplace_beginsTheUploadAnew() {
    let text = "<Error><Code>NotImplemented</Code><Message>part 2 has already been streamed</Message></Error>"
    let outcome = destination.outcome(of: .chunk(S3Fixture.sending()), response: Fixture.answer(501, text: text))
    #expect(outcome.failure?.kind == .notReplaceable)
    #expect(outcome.failure?.message.contains("begins anew") == true)
    // Of other requests it says that they are unknown there.
    #expect(
      destination.outcome(of: query, response: Fixture.answer(501, text: text)).failure?.kind == .badRequest)
  }

  @Test func part_isKnownByItsTag() {
    let answer = Fixture.answer(200, headers: [HTTPHeader("etag", "\"abc-1\"")])
    #expect(
      destination.outcome(of: .chunk(S3Fixture.sending()), response: answer) == .chunkStoredAs(token: "\"abc-1\""))
    for tag in [nil, "", "a b", String(repeating: "x", count: 300)] {
      let answer = Fixture.answer(200, headers: tag.map { [HTTPHeader("etag", $0)] } ?? [])
      #expect(
        destination.outcome(of: .chunk(S3Fixture.sending()), response: answer).failure?.kind == .unexpectedAnswer)
    }
  }

  // MARK: - Lists of parts

  @Test func list_isAskedForPageByPage() throws {
    let first = S3Fixture.page(1...3, isTruncated: true, next: 3)
    let next = try #require(afterwards(query, first))
    #expect(next.url.hasSuffix("/day%201/a.mov?part-number-marker=3&uploadId=up%2Fload%2B1"))
    let second = S3Fixture.page(5...6)
    #expect(afterwards(query, first, second) == nil)
    #expect(
      destination.outcome(of: query, responses: [first, second])
        == .held(digests: [:], tokens: [0: "\"e1\"", 1: "\"e2\"", 2: "\"e3\"", 4: "\"e5\"", 5: "\"e6\""]))
  }

  /// Regression: to gofakes3, as in `rclone serve s3`, the marker is the first part of the next page. An upload of more
  /// than 1,000 parts could not be gone on with there, and its file waited for ever.
  @Test func list_isAskedForFromWhereTheServerSaysThatItGoesOn() throws {
    let first = S3Fixture.page(1...3, isTruncated: true, next: 4)
    let next = try #require(afterwards(query, first))
    #expect(next.url.hasSuffix("?part-number-marker=4&uploadId=up%2Fload%2B1"))
    #expect(
      destination.outcome(of: query, responses: [first, S3Fixture.page(4...5)])
        == .held(digests: [:], tokens: [0: "\"e1\"", 1: "\"e2\"", 2: "\"e3\"", 3: "\"e4\"", 4: "\"e5\""]))
    let unnamed = S3Fixture.page(1...3, isTruncated: true)
    #expect(try #require(afterwards(query, unnamed)).url.contains("part-number-marker=3&"))
  }

  @Test func list_givesTheDigestsThatTheServerKeeps() {
    let digest = sha256([7])
    let answer = Fixture.answer(
      200,
      text: "<ListPartsResult><Part><PartNumber>2</PartNumber><ETag>e</ETag><ChecksumSHA256>\(Base64.encode(digest))"
        + "</ChecksumSHA256></Part></ListPartsResult>")
    #expect(destination.outcome(of: query, responses: [answer]) == .held(digests: [1: digest], tokens: [1: "e"]))
  }

  @Test func listThatDoesNotGoOn_isAskedForOnce() {
    for page in [
      S3Fixture.page(1...3, isTruncated: true, next: 2),
      Fixture.answer(200, text: "<ListPartsResult><IsTruncated>true</IsTruncated></ListPartsResult>"),
      Fixture.answer(
        200, text: "<ListPartsResult><Part><PartNumber>0</PartNumber><ETag>e</ETag></Part></ListPartsResult>"),
      Fixture.answer(
        200, text: "<ListPartsResult><Part><PartNumber>10001</PartNumber><ETag>e</ETag></Part></ListPartsResult>"),
      Fixture.answer(200, text: "nonsense"),
    ] {
      #expect(afterwards(query, page) == nil)
      #expect(destination.outcome(of: query, responses: [page]).failure?.kind == .unexpectedAnswer)
    }
  }

  @Test func listOfAnUploadThatIsGone_beginsAnew() {
    #expect(
      destination.outcome(of: query, response: S3Fixture.error(404, "NoSuchUpload")).failure?.kind == .sessionGone)
  }

  // MARK: - Publication

  @Test(.promises("DE7")) func completion_givesTheReceipt() {
    let step = DestinationStep.commit(S3Fixture.commit())
    #expect(destination.outcome(of: step, response: S3Fixture.published()) == .published(receipt(id: "e-2")))
    let versioned = S3Fixture.published([HTTPHeader("x-amz-version-id", "v7")])
    #expect(destination.outcome(of: step, response: versioned) == .published(receipt(id: "v7")))
    // Nor is a version what fills a log, or moves a cursor.
    for nonsense in ["null", "", String(repeating: "v", count: 1025), "a\u{202e}b", "a b"] {
      let unversioned = S3Fixture.published([HTTPHeader("x-amz-version-id", nonsense)])
      #expect(destination.outcome(of: step, response: unversioned) == .published(receipt(id: "e-2")), "\(nonsense)")
    }
  }

  /// S3 sends its status before it knows how the completion ends.
  @Test(arguments: [
    ("InternalError", StepFailure.Kind.unexpectedAnswer), ("InvalidPart", .conflict), ("SlowDown", .busy),
    ("EntityTooSmall", .badRequest),
  ])
  func errorInA200_isAFailure(code: String, kind: StepFailure.Kind) {
    let step = DestinationStep.commit(S3Fixture.commit())
    #expect(destination.outcome(of: step, response: S3Fixture.error(200, code)).failure?.kind == kind)
    #expect(destination.outcome(of: step, response: Fixture.answer(200)).failure?.kind == .unexpectedAnswer)
  }

  /// The answer to the first try was lost: the upload is gone because it is published.
  @Test(.promises("DE37")) func completionAfterALostAnswer_findsItsOwnObject() throws {
    let step = DestinationStep.commit(S3Fixture.commit())
    let gone = S3Fixture.error(404, "NoSuchUpload")
    let look = try #require(afterwards(step, gone))
    #expect((look.method, look.url) == (.head, "https://s3.example.org:9000/captures/day%201/a.mov"))
    #expect(afterwards(step, gone, S3Fixture.object()) == nil)
    #expect(destination.outcome(of: step, responses: [gone, S3Fixture.object()]) == .published(receipt(id: "o-2")))
  }

  @Test(.promises("DE37")) func objectOfAnotherClient_isNotOurs() {
    let step = DestinationStep.commit(S3Fixture.commit())
    let gone = S3Fixture.error(404, "NoSuchUpload")
    for object in [S3Fixture.object(size: 9), S3Fixture.object(nonce: [1]), Fixture.answer(404), Fixture.answer(403)] {
      #expect(destination.outcome(of: step, responses: [gone, object]).failure?.kind == .sessionGone)
    }
  }

  @Test(.promises("DE26a")) func keyThatIsTaken_isRefused_unlessOurOwnEarlierTryTookIt() throws {
    let file = Fixture.wholeFile()
    let taken = S3Fixture.error(412, "PreconditionFailed")
    #expect(afterwards(.wholeFile(file), taken)?.method == .head)
    #expect(
      destination.outcome(of: .wholeFile(file), responses: [taken, S3Fixture.object(size: 3)]).failure?.kind
        == .nameRefused)
    guard
      case .published = destination.outcome(
        of: .wholeFile(file), responses: [taken, S3Fixture.object(size: 9, nonce: file.nonce)])
    else {
      Issue.record("not recognised")
      return
    }
  }

  @Test(.promises("DE7")) func wholeFile_givesTheReceipt() throws {
    let answer = Fixture.answer(
      200, headers: [HTTPHeader("etag", "\"w\""), HTTPHeader("date", "Sun, 06 Nov 1994 08:49:37 GMT")])
    guard case .published(let receipt) = destination.outcome(of: .wholeFile(Fixture.wholeFile()), response: answer)
    else {
      Issue.record("not published")
      return
    }
    #expect(receipt.id == "w" && receipt.sizeBytes == 9 && receipt.name == "day 1/a b/c.txt")
    #expect(receipt.publishedAtMilliseconds == 784_111_777_000)
  }

  // MARK: - Failures

  @Test(arguments: [
    (400, "RequestTimeout", StepFailure.Kind.transport(.timedOut)), (503, "SlowDown", .busy),
    (500, "InternalError", .unexpectedAnswer),
    (403, "AccessDenied", .forbidden), (403, "SignatureDoesNotMatch", .unauthorized),
    (403, "InvalidAccessKeyId", .unauthorized), (403, "RequestTimeTooSkewed", .busy),
    (404, "NoSuchBucket", .badRequest),
    (400, "ExpiredToken", .unauthorized), (400, "EntityTooLarge", .tooLarge(limitBytes: nil)),
    (400, "KeyTooLongError", .nameRefused), (400, "XAmzContentSHA256Mismatch", .digestMismatch),
    (400, "BadDigest", .digestMismatch), (507, "XMinioStorageFull", .insufficientStorage),
    (404, "NoSuchUpload", .sessionGone), (400, "InvalidPart", .conflict), (418, "Teapot", .badRequest),
    (501, "NotImplemented", .notReplaceable), (302, "Odd", .misdirected),
  ])
  func errors_haveTheirMeaning(status: Int, code: String, kind: StepFailure.Kind) {
    let failure = destination.outcome(
      of: .chunk(S3Fixture.sending()), response: S3Fixture.error(status, code)
    ).failure
    #expect(failure?.kind == kind)
    #expect(failure?.message.contains(code) == true)
    #expect(failure?.message.contains("\n") == false)
  }

  @Test(.promises("DE16")) func credentialsThatEndByThemselves_areAwaited() throws {
    let destination = try S3Fixture.destination(token: "t") { $0.renewsCredentials = true }
    let failure = destination.outcome(
      of: .chunk(S3Fixture.sending()), response: S3Fixture.error(400, "ExpiredToken")
    ).failure
    #expect(failure?.kind == .busy)
  }

  @Test(.promises("DE19")) func wrongRegion_isNamed() {
    for answer in [
      S3Fixture.error(301, "PermanentRedirect", headers: [HTTPHeader("x-amz-bucket-region", "eu-west-3")]),
      S3Fixture.error(400, "AuthorizationHeaderMalformed", more: "<Region>eu-west-3</Region>"),
    ] {
      let failure = destination.outcome(of: .chunk(S3Fixture.sending()), response: answer).failure
      #expect(failure?.kind == .badRequest)
      #expect(failure?.message.contains("--s3-region eu-west-3") == true)
    }
  }

  @Test(.promises("DE131")) func refusalsWithoutABody_goByTheirStatus() {
    for (status, kind) in [
      (503, StepFailure.Kind.busy), (401, .unauthorized), (507, .insufficientStorage), (408, .transport(.timedOut)),
      // Regression: S3 names what is wrong. Without that it is said by something in between, and ended a file.
      (400, .misdirected), (403, .misdirected), (404, .misdirected), (405, .misdirected), (410, .misdirected),
      (301, .misdirected), (302, .misdirected), (307, .misdirected), (308, .misdirected),
    ] {
      let answer = Fixture.answer(status, headers: [HTTPHeader("retry-after", "7")])
      #expect(destination.outcome(of: .chunk(S3Fixture.sending()), response: answer).failure?.kind == kind)
    }
    let busy = Fixture.answer(503, headers: [HTTPHeader("retry-after", "7")])
    #expect(destination.outcome(of: .chunk(S3Fixture.sending()), response: busy).failure?.retryAfter == .seconds(7))
  }

  @Test func warmingAndEnding_takeWhatSaysThatNothingIsThere() {
    for status in [200, 403, 404] {
      #expect(destination.outcome(of: .prewarm, response: Fixture.answer(status)) == .warmed)
    }
    #expect(destination.outcome(of: .prewarm, response: Fixture.answer(503)).failure?.kind == .busy)
    #expect(destination.outcome(of: .abort(S3Fixture.session), response: Fixture.answer(204)) == .ended)
    #expect(
      destination.outcome(of: .abort(S3Fixture.session), response: S3Fixture.error(404, "NoSuchUpload")) == .ended)
    #expect(destination.outcome(of: .abort(S3Fixture.session), response: Fixture.answer(404)) != .ended)
  }

  /// Regression: the login page of a network was a delivery, and one foreign error page ended a file.
  @Test(.promises("DE103"), arguments: [200, 201, 400, 403, 404, 405, 410, 451, 500, 501, 511])
  func aPageInTheServersPlace_saysNothingOfAFile(status: Int) {
    let page = Fixture.answer(
      status, text: "<!DOCTYPE html><html>Please log in", headers: [HTTPHeader("content-type", "text/html")])
    let tagged = HTTPResponse(
      status: status, headers: page.headers + [HTTPHeader("etag", "\"0123\"")], body: page.body)
    let steps: [DestinationStep] = [
      .openSession(Fixture.opening()), .chunk(S3Fixture.sending()), .commit(S3Fixture.commit()),
      .wholeFile(Fixture.wholeFile()), .querySession(S3Fixture.session),
    ]
    for step in steps {
      let failure = destination.outcome(of: step, response: tagged).failure
      #expect(failure?.kind == .serverError, "\(step)")
      #expect(failure?.message.contains("captive portal") == true)
    }
  }

  /// Regression: the answer to HEAD has no page in it, and a captive portal's was said to be the server's.
  @Test(.promises("DE103")) func aPortalThatAnswersALook_endsNoFile() throws {
    let portal = Fixture.answer(200, headers: [HTTPHeader("content-type", "text/html")])
    var numbered = Fixture.opening()
    numbered.right = NameRight(ifExists: .number)
    let opening = DestinationStep.openSession(numbered)
    #expect(destination.request(for: opening).method == .head)
    let failure = try #require(destination.outcome(of: opening, response: portal).failure)
    #expect(failure.kind == .misdirected && failure.message.contains("without a word of S3"))
    let answers = [S3Fixture.error(404, "NoSuchUpload"), portal]
    #expect(destination.outcome(of: .commit(S3Fixture.commit()), responses: answers).failure?.kind == .misdirected)
  }

  /// Regression: a gateway whose server was away for some minutes ended every file, whole ones and such in parts.
  @Test(.promises("DE144"), arguments: [502, 504, 522]) func aGateway_saysNothingOfAFile(status: Int) {
    let answers = [
      Fixture.answer(status), S3Fixture.error(status, "InternalError"),
      Fixture.answer(status, text: "<html>Bad Gateway</html>", headers: [HTTPHeader("content-type", "text/html")]),
    ]
    let steps: [DestinationStep] = [
      .openSession(Fixture.opening()), .chunk(S3Fixture.sending()), .commit(S3Fixture.commit()),
      .wholeFile(Fixture.wholeFile()), query,
    ]
    for (step, answer) in steps.flatMap({ step in answers.map { (step, $0) } }) {
      #expect(destination.outcome(of: step, response: answer).failure?.kind == .serverError, "\(step)")
    }
    // S3 itself fails single requests so.
    for answer in [Fixture.answer(500), S3Fixture.error(500, "InternalError")] {
      let failure = destination.outcome(of: .chunk(S3Fixture.sending()), response: answer).failure
      #expect(failure?.kind == .unexpectedAnswer)
    }
  }

  /// moto says so.
  @Test func xmlThatIsCalledHTML_isXML() {
    let headers = [HTTPHeader("content-type", "text/html; charset=utf-8")]
    guard
      case .published = destination.outcome(of: .commit(S3Fixture.commit()), response: S3Fixture.published(headers))
    else {
      Issue.record("not published")
      return
    }
    let refusal = destination.outcome(
      of: .chunk(S3Fixture.sending()), response: S3Fixture.error(403, "AccessDenied", headers: headers))
    #expect(refusal.failure?.kind == .forbidden)
  }

  /// Whatever a server answers, nothing traps and nothing is believed that was not said.
  @Test func nonsense_isNeverBelieved() {
    let bodies: [[UInt8]] = [[], [0], Array("<".utf8), Array("{}".utf8), Array("<Error></Error>".utf8), [0xff, 0xfe]]
    for step in Fixture.steps {
      for status in [-1, 0, 100, 200, 204, 299, 304, 400, 404, 409, 412, 500, 999] {
        for body in bodies {
          let answer = HTTPResponse(status: status, body: body)
          let responses = [answer, answer, answer]
          _ = destination.followUp(of: step, after: responses, at: .first)
          switch destination.outcome(of: step, responses: responses) {
          case .published, .stillThere, .chunkStored, .chunkStoredAs, .sessionOpened, .held, .incomplete, .each:
            Issue.record("\(step) was believed for \(status) \(body)")
          case .warmed, .ended, .refused: break
          }
        }
      }
    }
  }

  @Test(.promises("DE30", "DE38")) func abilities_sayWhatS3Can() {
    #expect(destination.abilities.bindsNameAtOpening && destination.abilities.commitListsChunks)
    #expect(!destination.abilities.commitWaitsForChunks)
    #expect(destination.abilities.chunkBytesLeast(forFileOf: 1) == 5 << 20)
    #expect(destination.abilities.chunkBytesLeast(forFileOf: 100_000_000_000) == 10_027_008)
    // A file of unknown size may become as large as any.
    #expect(destination.abilities.chunkBytesLeast(forFileOf: nil) == 10_027_008)
  }
}
