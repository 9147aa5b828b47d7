import FileModel
import Promises
import Testing
import TransferModel

@testable import Destinations

/// What an S3 server does not know, ignores, or answers half.
@Suite struct S3RefusalTests {
  private static let steps: [DestinationStep] = [.commit(S3Fixture.commit()), .wholeFile(Fixture.wholeFile())]

  /// Regression: Ceph 16 ignores the condition of a completion, and an object was replaced that was to be kept.
  @Test(.promises("DE26a"), arguments: 0..<2) func aKeyThatIsTaken_isFoundBeforeAnythingIsSent(index: Int) throws {
    let step = Self.steps[index]
    let destination = try S3Fixture.destination { $0.ifExists = .refuse }
    #expect(destination.request(for: step).method == .head)
    let other = S3Fixture.object(size: 5, nonce: [1])
    #expect(destination.followUp(of: step, after: [other], at: .first) == nil)
    let failure = try #require(destination.outcome(of: step, responses: [other]).failure)
    #expect(failure.kind == .nameRefused && failure.message.contains("not to be replaced"))
    for free in [404, 403] {
      let sent = try #require(destination.followUp(of: step, after: [Fixture.answer(free)], at: .first))
      #expect(sent.method == (index == 0 ? .post : .put) && sent.header("if-none-match") == "*")
    }
    let away = destination.outcome(of: step, responses: [Fixture.answer(503)])
    #expect(
      away.failure?.kind == .busy && destination.followUp(of: step, after: [Fixture.answer(503)], at: .first) == nil)
  }

  @Test func whatThisSessionHasPublished_isFoundByTheLook() throws {
    let destination = try S3Fixture.destination { $0.ifExists = .refuse }
    guard case .published(let receipt) = destination.outcome(of: Self.steps[0], responses: [S3Fixture.object()]) else {
      Issue.record("not published")
      return
    }
    #expect(receipt.id == "o-2")
    guard
      case .published = destination.outcome(
        of: Self.steps[0], responses: [Fixture.answer(404), S3Fixture.published()])
    else {
      Issue.record("not published")
      return
    }
  }

  /// Regression: 501 was tried again without end, and MalformedXML said nothing.
  @Test(arguments: ["NotImplemented", "MalformedXML", "InvalidRequest", "InvalidArgument"])
  func whatTheServerDoesNotKnow_isOneFailure(code: String) throws {
    let destination = try S3Fixture.destination {
      ($0.checksum, $0.ifExists) = (.sha256, .refuse)
    }
    let answer = S3Fixture.error(code == "NotImplemented" ? 501 : 400, code)
    for (step, responses) in [
      (DestinationStep.openSession(Fixture.opening()), [answer]), (.chunk(S3Fixture.sending()), [answer]),
      (Self.steps[0], [Fixture.answer(404), answer]), (Self.steps[1], [Fixture.answer(404), answer]),
    ] {
      let failure = try #require(destination.outcome(of: step, responses: responses).failure)
      #expect(failure.kind == .badRequest, "\(step)")
      #expect(failure.message.contains("--s3-checksum sha256, --s3-if-exists refuse"), "\(failure.message)")
    }
  }

  /// Regression: Ceph 16 answers the first completion so, and it was repeated.
  @Test func aCompletionThatDoesNotNameTheObject_isLookedAt() throws {
    let destination = try S3Fixture.destination()
    let nameless = Fixture.answer(
      200, text: "<CompleteMultipartUploadResult><ETag></ETag></CompleteMultipartUploadResult>")
    #expect(destination.followUp(of: Self.steps[0], after: [nameless], at: .first)?.method == .head)
    guard
      case .published(let receipt) = destination.outcome(of: Self.steps[0], responses: [nameless, S3Fixture.object()])
    else {
      Issue.record("not published")
      return
    }
    #expect(receipt.id == "o-2")
    let none = destination.outcome(of: Self.steps[0], responses: [nameless, Fixture.answer(404)])
    #expect(none.failure?.kind == .unexpectedAnswer)
  }

  private static func completed(_ facts: String) -> HTTPResponse {
    Fixture.answer(
      200,
      text: "<CompleteMultipartUploadResult>\(facts)<ETag>&quot;e-2&quot;</ETag></CompleteMultipartUploadResult>")
  }

  /// Regression: an upload that was completed as another object counted as delivered.
  @Test(
    .promises("DE37"),
    arguments: ["<Bucket>captures</Bucket><Key>day 1/b.mov</Key>", "<Key>a.mov</Key>"])
  func aCompletionThatNamesAnotherObject_isLookedAt(facts: String) throws {
    let destination = try S3Fixture.destination()
    let answer = Self.completed(facts)
    let look = try #require(destination.followUp(of: Self.steps[0], after: [answer], at: .first))
    #expect((look.method, look.url) == (.head, "https://s3.example.org:9000/captures/day%201/a.mov"))
    for other in [Fixture.answer(404), S3Fixture.object(nonce: [1]), S3Fixture.object(size: 9)] {
      let failure = destination.outcome(of: Self.steps[0], responses: [answer, other]).failure
      #expect(failure?.kind == .unexpectedAnswer)
    }
    // A server that has keys behind a prefix of its own has it all the same.
    guard
      case .published(let receipt) = destination.outcome(of: Self.steps[0], responses: [answer, S3Fixture.object()])
    else {
      Issue.record("not published")
      return
    }
    #expect(receipt.id == "o-2")
  }

  @Test(
    arguments: [
      "", "<Key/>", "<Bucket>behind-an-alias</Bucket><Key>day 1/a.mov</Key>",
      "<Bucket></Bucket><Key> </Key>", "<Bucket>captures</Bucket><Key>day 1/a.mov</Key>",
      "<Key>/day 1/a.mov</Key>", "<Key>day%201/a.mov</Key>", "<Key>day%201%2Fa.mov</Key>", "<Key>day+1/a.mov</Key>",
      "<Key>captures/day 1/a.mov</Key>", "<Key>/captures/day%201/a.mov</Key>", "<Key>\n  day 1/a.mov\n</Key>",
    ])
  func aCompletionThatNamesTheObjectInItsOwnWay_isADelivery(facts: String) throws {
    let destination = try S3Fixture.destination()
    let answer = Self.completed(facts)
    #expect(destination.followUp(of: Self.steps[0], after: [answer], at: .first) == nil)
    guard case .published(let receipt) = destination.outcome(of: Self.steps[0], responses: [answer]) else {
      Issue.record("not published")
      return
    }
    #expect(receipt.id == "e-2")
  }
}
