import FileModel
import Lookup
import Promises
import Testing
import TransferModel

@testable import Destinations

/// Answers of servers that keep checksums, do not care for them, or refuse them.
@Suite struct S3ChecksumTests {
  private let destination: S3Destination
  private let opening = DestinationStep.openSession(Fixture.opening(path: "a.mov"))
  private let file = DestinationStep.wholeFile(Fixture.wholeFile())
  private static let field = "x-amz-checksum-crc32c"

  init() throws { destination = try S3Fixture.destination { $0.checksum = .auto } }

  private func begun(_ headers: [HTTPHeader] = []) -> HTTPResponse {
    Fixture.answer(
      200, text: "<InitiateMultipartUploadResult><UploadId>up/load+1</UploadId></InitiateMultipartUploadResult>",
      headers: headers)
  }

  private func next(_ step: DestinationStep, _ responses: HTTPResponse...) -> HTTPRequest? {
    destination.followUp(of: step, after: responses, at: .first)
  }

  private func session(_ responses: HTTPResponse...) -> String? {
    guard case .sessionOpened(let id, _, _, _, _, _) = destination.outcome(of: opening, responses: responses) else {
      return nil
    }
    return id
  }

  private var asksForUploads: Bool { destination.request(for: opening).header("x-amz-checksum-algorithm") != nil }
  private var sendsWithFiles: Bool { destination.request(for: file).header(Self.field) != nil }

  @Test(.promises("DE22")) func aServerThatSaysSo_getsOneWithEachPart() throws {
    #expect(destination.request(for: opening).header("x-amz-checksum-algorithm") == "CRC32C")
    let answer = begun([HTTPHeader("x-amz-checksum-algorithm", "CRC32C")])
    #expect(next(opening, answer) == nil)
    let id = try #require(session(answer))
    #expect(id == S3Fixture.session(with: .crc32c).id)
    let identity = SessionIdentity(id: id, nonce: Fixture.nonce)
    #expect(destination.request(for: .chunk(S3Fixture.sending(of: identity))).header(Self.field) == "4waSgw==")
    #expect(asksForUploads)
    // It has not said that it keeps them of objects.
    #expect(next(file, Fixture.answer(200, headers: [HTTPHeader("etag", "\"e\"")])) == nil)
    _ = destination.outcome(of: file, responses: [Fixture.answer(200, headers: [HTTPHeader("etag", "\"e\"")])])
    #expect(!sendsWithFiles && asksForUploads)
  }

  @Test(
    .promises("DE22"),
    arguments: [
      S3Fixture.error(501, "NotImplemented"), S3Fixture.error(400, "InvalidRequest"),
      S3Fixture.error(400, "InvalidArgument"), Fixture.answer(501), Fixture.answer(400),
    ])
  func aServerThatRefusesIt_isAskedWithout_atOnce(refusal: HTTPResponse) throws {
    _ = destination.request(for: opening)
    let again = try #require(next(opening, refusal))
    #expect(again.method == .post && again.url.hasSuffix("?uploads="))
    #expect(again.header("x-amz-checksum-algorithm") == nil)
    #expect(next(opening, refusal, begun()) == nil)
    #expect(session(refusal, begun()) == S3Fixture.session.id)
    #expect(!asksForUploads)
    #expect(destination.request(for: .chunk(S3Fixture.sending())).header(Self.field) == nil)

    #expect(sendsWithFiles)
    let put = try #require(next(file, refusal))
    #expect(put.method == .put && put.header(Self.field) == nil && put.content == Array("123456789".utf8))
    let stored = Fixture.answer(200, headers: [HTTPHeader("etag", "\"e\"")])
    #expect(next(file, refusal, stored) == nil)
    guard case .published = destination.outcome(of: file, responses: [refusal, stored]) else {
      Issue.record("not published")
      return
    }
    #expect(!sendsWithFiles)
  }

  @Test(.promises("DE22")) func aServerThatOnlyIgnoresIt_isAskedAnew_andNothingIsLeft() throws {
    _ = destination.request(for: opening)
    let end = try #require(next(opening, begun()))
    #expect(end.method == .delete && end.url.hasSuffix("/day%201/a.mov?uploadId=up%2Fload%2B1"))
    let again = try #require(next(opening, begun(), Fixture.answer(204)))
    #expect(again.method == .post && again.header("x-amz-checksum-algorithm") == nil)
    #expect(next(opening, begun(), Fixture.answer(204), begun()) == nil)
    #expect(session(begun(), Fixture.answer(204), begun()) == S3Fixture.session.id)
    #expect(!asksForUploads)
  }

  @Test func aRefusalForAnotherReason_saysNothingOfChecksums() {
    _ = destination.request(for: opening)
    for refusal in [
      S3Fixture.error(403, "AccessDenied"), S3Fixture.error(503, "SlowDown"), S3Fixture.error(400, "ExpiredToken"),
    ] {
      #expect(next(opening, refusal) == nil && next(file, refusal) == nil)
    }
    let both = [S3Fixture.error(400, "InvalidRequest"), S3Fixture.error(400, "InvalidRequest")]
    #expect(destination.outcome(of: opening, responses: both).failure?.kind == .badRequest)
    #expect(asksForUploads)
  }

  @Test func aFileThatIsTakenWithAChecksum_mustShowTheRightOne() {
    for (value, isKept) in [("4waSgw==", true), ("AAAAAA==", false)] {
      let destination = try? S3Fixture.destination { $0.checksum = .auto }
      _ = destination?.request(for: file)
      let answer = Fixture.answer(200, headers: [HTTPHeader("etag", "\"e\""), HTTPHeader(Self.field, value)])
      _ = destination?.outcome(of: file, responses: [answer])
      #expect((destination?.request(for: file).header(Self.field) != nil) == isKept)
    }
  }

  @Test func aFileThatIsThereAfterTheSecondTry_isRecognised() throws {
    _ = destination.request(for: file)
    let refusal = S3Fixture.error(400, "InvalidRequest")
    let look = try #require(next(file, refusal, S3Fixture.error(412, "PreconditionFailed")))
    #expect(look.method == .head)
    let outcome = destination.outcome(
      of: file, responses: [refusal, S3Fixture.error(412, "PreconditionFailed"), S3Fixture.object(size: 9)])
    guard case .published = outcome else {
      Issue.record("\(outcome)")
      return
    }
  }

  @Test func anUploadWhosePartsAreRefusedForIt_beginsAnewWithout() {
    let session = S3Fixture.session(with: .crc32c)
    let refusal = S3Fixture.error(400, "InvalidRequest")
    for step in [DestinationStep.chunk(S3Fixture.sending(of: session)), .commit(S3Fixture.commit(of: session))] {
      #expect(destination.outcome(of: step, response: refusal).failure?.kind == .sessionGone)
    }
    #expect(!asksForUploads)
    #expect(destination.outcome(of: .chunk(S3Fixture.sending()), response: refusal).failure?.kind == .badRequest)
  }

  @Test(.promises("DE24")) func aSettingThatForcesIt_isObeyed() throws {
    let forced = try S3Fixture.destination { $0.checksum = .sha256 }
    _ = forced.request(for: opening)
    let refusal = S3Fixture.error(400, "InvalidRequest")
    #expect(forced.followUp(of: opening, after: [refusal], at: .first) == nil)
    #expect(forced.followUp(of: opening, after: [begun()], at: .first) == nil)
    guard case .sessionOpened(let id, _, _, _, _, _) = forced.outcome(of: opening, responses: [begun()]) else {
      Issue.record("not opened")
      return
    }
    #expect(id == S3Fixture.session(with: .sha256).id)
    #expect(
      forced.outcome(of: .chunk(S3Fixture.sending(of: S3Fixture.session(with: .sha256))), response: refusal)
        .failure?.kind == .badRequest)
  }

  @Test func inAList_anUploadHasNoChecksum() {
    #expect(destination.listedID(ofSession: S3Fixture.session(with: .crc32c).id) == S3Fixture.session.id)
    #expect(S3Upload(sessionID: S3Fixture.session.id + "?auto") == nil)
    #expect(S3Upload(sessionID: S3Fixture.session.id + "?md5") == nil)
  }
}
