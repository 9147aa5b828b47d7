import Promises
import Testing
import UploadEngine

@testable import Destinations

/// Each protocol has a table of its own, and what is no protocol's own means the same in all of them.
@Suite struct CommonStatusTests {
  private static let headers = [HTTPHeader("retry-after", "7"), HTTPHeader("location", "https://login.example.org/")]

  /// What each destination makes of a status without a word of its protocol; at S3, whose errors have names, of an unknown one.
  private func failures(_ status: Int) throws -> [(destination: String, failure: StepFailure)] {
    let answer = Fixture.answer(status, headers: Self.headers)
    let tus = TusAnswer(response: answer, address: "h")
    let draft = ResumableAnswer(response: answer, server: "The server at h")
    let s3 = S3Answer(S3Fixture.error(status, "Odd", headers: Self.headers))
    let form = try #require(FormAnswer(answer).failure(at: "h", sizeBytes: 1, digestField: "sha"))
    let receiver = ChunkProtocolAnswer(answer, endpoint: try EndpointURL(Fixture.base, allowPlainHTTP: false))
    return [
      ("tus", tus.failure()), ("tus, at an upload", tus.failureOfUpload()), ("draft", draft.failure()),
      ("S3", s3.failure(at: "h", region: "r", renewsCredentials: false)), ("form", form),
      ("receiver", receiver.failure(of: .sendWholeFile(Fixture.wholeFile()))),
      ("receiver, in a session", receiver.failure(of: .sendChunk(Fixture.chunk()))),
    ]
  }

  /// Regression (DS41): a proxy's 407 was a bad request of tus, the draft and S3.
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

  /// Regression (E8): at S3 and forms 502 and 504 were said of the file, and ten of them ended it.
  @Test(.promises("DE144"), arguments: [502, 504, 520, 522, 524, 527, 530])
  func aGateway_saysNothingOfAFile(status: Int) throws {
    for (destination, failure) in try failures(status) {
      #expect(failure.kind == (destination == "form" ? .misdirected : .serverError), "\(destination)")
      #expect(failure.retryAfter == .seconds(7), "\(destination)")
      #expect(failure.message.contains("what is behind it does not answer"), "\(destination)")
    }
  }
}
