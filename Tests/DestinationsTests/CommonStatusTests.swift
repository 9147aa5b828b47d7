import Promises
import Testing
import TransferModel

@testable import Destinations

/// Each protocol has a table of its own, and what is no protocol's own means the same in all of them.
@Suite struct CommonStatusTests {
  private static let headers = [HTTPHeader("retry-after", "7"), HTTPHeader("location", "https://login.example.org/")]

  /// What each destination makes of a status with the mark of its protocol and no other word of it; at S3, whose errors have names, of an
  /// unknown one.
  private func failures(_ status: Int) throws -> [(destination: String, failure: StepFailure)] {
    let answer = Fixture.answer(status, headers: Self.headers)
    let tus = TusAnswer(response: Self.marked(status, "tus-resumable", "1.0.0"), address: "h")
    let draft = ResumableAnswer(
      response: Self.marked(status, "upload-draft-interop-version", "8"), server: "The server at h")
    let s3 = S3Answer(S3Fixture.error(status, "Odd", headers: Self.headers))
    let form = try #require(FormAnswer(answer).failure(at: "h", sizeBytes: 1, digestField: "sha"))
    let unknown = Fixture.answer(status, text: #"{"type":"urn:uploadfs:problem:odd"}"#, headers: Self.headers)
    let receiver = ChunkProtocolAnswer(unknown, endpoint: try EndpointURL(Fixture.base, allowPlainHTTP: false))
    return [
      ("tus", tus.failure()), ("tus, at its creation", tus.failureOfCreation(limitBytes: nil)),
      ("draft", draft.failure()),
      ("S3", s3.failure(at: "h", region: "r", renewsCredentials: false)), ("form", form),
      ("receiver", receiver.failure(of: .wholeFile(Fixture.wholeFile()))),
      ("receiver, in a session", receiver.failure(of: .chunk(Fixture.chunk()))),
    ]
  }

  private static func marked(_ status: Int, _ field: String, _ value: String) -> HTTPResponse {
    Fixture.answer(status, headers: headers + [HTTPHeader(field, value)])
  }

  /// Regression: the address of an upload stood in status and log, where a server led on from it.
  @Test(
    .promises("SE6"),
    arguments: [
      ("https://up.example.org/files/1?sig=x", " to https://up.example.org/files/…"), ("/files/1", " to /files/…"),
      ("/login?token=x", " to /login…"), ("https://login.example.org/", " to https://login.example.org/"),
      ("login", " to login"), ("//h/a/b", " to //h/a/…"), ("a/b", " to a/…"), ("", " to "), ("?", " to …"),
      ("/files/\u{301}secret", " to /files/…"), ("https://h/files/\u{301}secret?\u{301}x", " to https://h/files/…"),
    ])
  func whereItLeads_isSaidWithoutWhatGivesRights(location: String, said: String) {
    #expect(CommonStatus.place(of: Fixture.answer(307, headers: [HTTPHeader("location", location)])) == said)
  }

  /// Regression: a firewall's 403 in JSON or plain text failed each file at once, as the receiver's or the server's word.
  @Test(.promises("DE145", "P95"), arguments: [400, 402, 403, 404, 405, 410, 411, 414, 415, 418, 422, 431, 451])
  func aRefusalWithoutTheProtocolsMark_endsNoFile(status: Int) throws {
    for text in ["", "blocked", #"{"message":"blocked"}"#, #"{"type":"about:blank","title":"blocked"}"#] {
      let answer = Fixture.answer(status, text: text, headers: Self.headers)
      let tus = TusAnswer(response: answer, address: "h")
      let draft = ResumableAnswer(response: answer, server: "The server at h")
      let receiver = ChunkProtocolAnswer(answer, endpoint: try EndpointURL(Fixture.base, allowPlainHTTP: false))
      let failures = [
        tus.failure(), tus.failureOfCreation(limitBytes: nil), draft.failure(),
        draft.failureOfCreation(limitBytes: nil),
        receiver.failure(of: .wholeFile(Fixture.wholeFile())), receiver.failure(of: .chunk(Fixture.chunk())),
        receiver.failure(of: .openSession(Fixture.opening())), receiver.failure(of: .commit(Fixture.commit())),
      ]
      for failure in failures {
        #expect(failure.kind == .serverError && failure.retryAfter == .seconds(7), "\(failure)")
        #expect(failure.message.contains("or something in its place did"), "\(failure)")
        #expect(failure.message.contains("“blocked”") == !text.isEmpty, "\(failure)")
      }
    }
    let s3 = S3Answer(Fixture.answer(status, text: "blocked", headers: Self.headers))
    #expect(s3.failure(at: "h", region: "r", renewsCredentials: false).kind == .misdirected)
  }

  /// The same refusals are final where the destination itself says them.
  @Test(.promises("DE145"), arguments: [400, 403, 422]) func aRefusalWithTheMark_isFinal(status: Int) throws {
    for (destination, failure) in try failures(status) {
      #expect(failure.kind == (status == 403 ? .forbidden : .badRequest), "\(destination)")
    }
    let document = Fixture.answer(
      status, text: #"{"title":"no"}"#, headers: [HTTPHeader("content-type", "application/problem+json")])
    let draft = ResumableAnswer(response: document, server: "The server at h").failure()
    #expect(draft.kind == (status == 403 ? .forbidden : .badRequest))
  }

  /// Regression: a proxy's 407 was a bad request of tus, the draft and S3.
  @Test(
    .promises("DE103"),
    arguments: [
      (301, StepFailure.Kind.misdirected), (302, .misdirected), (307, .misdirected), (401, .unauthorized),
      (403, .forbidden), (407, .unauthorized), (408, .transport(.timedOut)), (425, .tooEarly), (429, .busy),
      (503, .busy), (507, .insufficientStorage), (511, .serverError),
    ])
  func aStatusThatIsNoProtocolsOwn_meansTheSameOfAll(status: Int, kind: StepFailure.Kind) throws {
    for (destination, failure) in try failures(status) {
      #expect(failure.kind == kind, "\(destination)")
      #expect(failure.retryAfter == .seconds(7), "\(destination)")
      if status == 407 { #expect(failure.message.contains("a proxy on the way asks for a password"), "\(destination)") }
      if status < 400 { #expect(failure.message.contains("to https://login.example.org/"), "\(destination)") }
    }
  }

  /// Regression: at S3 and forms 502 and 504 were said of the file, and ten of them ended it.
  @Test(.promises("DE144"), arguments: [502, 504, 520, 522, 524, 527, 530])
  func aGateway_saysNothingOfAFile(status: Int) throws {
    for (destination, failure) in try failures(status) {
      #expect(failure.kind == (destination == "form" ? .misdirected : .serverError), "\(destination)")
      #expect(failure.retryAfter == .seconds(7), "\(destination)")
      #expect(failure.message.contains("what is behind it does not answer"), "\(destination)")
    }
  }
}
