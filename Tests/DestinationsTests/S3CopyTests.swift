import FileModel
import Integrity
import Promises
import Testing
import TransferModel

@testable import Destinations

/// Parts that the server copies out of what was published before (UploadPartCopy).
@Suite struct S3CopyTests {
  private static let part = Array("123456789".utf8)
  private static let tag = "\"25f9e794323b453885f5181f1b624d0b\""
  private static let nextNonce = [UInt8](repeating: 7, count: 32)
  private static let session = SessionIdentity(id: S3Fixture.session.id, nonce: nextNonce)
  private let destination: S3Destination

  /// A content of two parts and a short one is published.
  init() throws {
    destination = try S3Fixture.destination()
    publish(SessionIdentity(id: S3Fixture.session.id, nonce: Fixture.nonce), [Self.part, Self.part, [1]])
  }

  private func publish(_ session: SessionIdentity, _ parts: [[UInt8]], of file: FileID = Fixture.fileID) {
    let commit = SessionCommit(
      session: session, sizeBytes: UInt64(parts.joined().count), chunkCount: parts.count, merkleRoot: sha256([1]),
      chainTip: sha256([2]), path: RelativePath("a.mov"), modifiedNanoseconds: 0, mode: 0o644,
      chunks: parts.map { CommittedChunk(digest: Fixture.digest($0), token: Self.tag) }, fileID: file,
      chunkBytes: parts[0].count)
    _ = destination.outcome(of: .commit(commit), response: S3Fixture.published())
  }

  private func begin(chunkBytes: Int = part.count, takesBase: Bool = true) {
    var opening = Fixture.opening(path: "a.mov")
    (opening.nonce, opening.chunkBytes, opening.takesBase) = (Self.nextNonce, chunkBytes, takesBase)
    _ = destination.request(for: .openSession(opening))
  }

  private func sending(_ index: Int, _ content: [UInt8] = part) -> ChunkSending {
    var sending = S3Fixture.sending(index, content, of: Self.session)
    sending.copied = destination.source(of: sending)
    return sending
  }

  private static func copied(_ tag: String = tag, more: String = "") -> HTTPResponse {
    let quoted = tag.replacing("\"", with: "&quot;")
    return Fixture.answer(200, text: "<CopyPartResult><ETag>\(quoted)</ETag>\(more)</CopyPartResult>")
  }

  @Test(.promises("DE151")) func aPartThatIsTheSame_isCopied_onCondition() throws {
    begin()
    let sending = sending(1)
    #expect(sending.copied == ChunkSource(name: "day 1/a.mov", entityTag: "\"e-2\"", token: Self.tag))
    let step = DestinationStep.chunk(sending)
    let request = destination.request(for: step)
    #expect(request.method == .put && request.url.contains("partNumber=2") && request.content.isEmpty)
    #expect(request.header("x-amz-copy-source") == "/captures/day%201/a.mov")
    #expect(request.header("x-amz-copy-source-range") == "bytes=9-17")
    #expect(request.header("x-amz-copy-source-if-match") == "\"e-2\"")
    #expect(request.header("authorization")?.contains("x-amz-copy-source;x-amz-copy-source-if-match") == true)
    #expect(destination.followUp(of: step, after: [Self.copied()], at: .first) == nil)
    #expect(
      destination.outcome(of: step, responses: [Self.copied()]) == .chunkStoredAs(token: Self.tag, isCopied: true))
  }

  /// Regression (moto): it ignores the condition, and another program's bytes would have been published in the place of the capture's.
  @Test(.promises("DE151")) func aCopyThatIsNotProven_isSent() throws {
    begin()
    let step = DestinationStep.chunk(sending(1))
    let other = Self.copied("\"00000000323b453885f5181f1b624d0b\"")
    let next = try #require(destination.followUp(of: step, after: [other], at: .first))
    #expect(next.content == Self.part)
    let stored = Fixture.answer(200, headers: [HTTPHeader("etag", "\"p\"")])
    #expect(destination.outcome(of: step, responses: [other, stored]) == .chunkStoredAs(token: "\"p\""))
    #expect(sending(0).copied == nil, "it is another object")
  }

  /// Where ETags say nothing, as with keys of the customer's, a checksum does.
  @Test(.promises("DE151")) func aCopy_isProvenByAChecksum_too() {
    begin()
    let step = DestinationStep.chunk(sending(1))
    let proven = Self.copied("\"c\"", more: "<ChecksumCRC32C>4waSgw==</ChecksumCRC32C>")
    #expect(destination.outcome(of: step, responses: [proven]) == .chunkStoredAs(token: "\"c\"", isCopied: true))
    let other = Self.copied("\"c\"", more: "<ChecksumCRC32C>AAAAAA==</ChecksumCRC32C>")
    #expect(destination.followUp(of: step, after: [other], at: .first) != nil)
  }

  @Test(.promises("DE151")) func aServerThatProvesNothing_isNotAskedForEver() {
    let stored = Fixture.answer(200, headers: [HTTPHeader("etag", "\"p\"")])
    for _ in 0..<S3PublishedParts.uselessMax {
      begin()
      let sending = sending(0)
      #expect(sending.copied != nil)
      _ = destination.outcome(of: .chunk(sending), responses: [Self.copied("\"c\""), stored])
      publish(Self.session, [Self.part, Self.part])
    }
    begin()
    #expect(sending(0).copied == nil)
  }

  /// Another content, another place, the short part at the end, another length, and an upload that is to begin with nothing.
  @Test(.promises("DE151")) func whatIsNotTheSame_isSent() {
    begin()
    #expect(sending(0, Array("12345678x".utf8)).copied == nil)
    #expect(sending(2).copied == nil && sending(2, [1]).copied == nil && sending(-1).copied == nil)
    #expect(sending(0, Array("12345678".utf8)).copied == nil)
    #expect(S3Fixture.sending(0, Self.part, of: SessionIdentity(id: "x", nonce: [1])).copied == nil)
    #expect(sending(0).copied != nil)
    begin(chunkBytes: 8)
    destination.publishedParts.ended(Self.session)
    begin(chunkBytes: 8)
    #expect(sending(0).copied == nil)
    begin(takesBase: false)
    #expect(sending(0).copied == nil)
  }

  /// An object that is of no use is not copied from again; a server that does not copy is not asked again.
  @Test(
    .promises("DE151"),
    arguments: [
      (S3Fixture.error(412, "PreconditionFailed"), true), (Fixture.answer(412), true), (Fixture.answer(403), true),
      (S3Fixture.error(404, "NoSuchKey"), true), (S3Fixture.error(400, "InvalidRange"), true),
      (S3Fixture.error(403, "AccessDenied"), true), (S3Fixture.error(200, "AccessDenied"), true),
      (S3Fixture.error(403, "InvalidObjectState"), true), (Fixture.answer(409), true),
      (S3Fixture.error(501, "NotImplemented"), false), (S3Fixture.error(200, "NotImplemented"), false),
      (Fixture.answer(405), false), (S3Fixture.error(411, "MissingContentLength"), false),
      (S3Fixture.error(400, "InvalidRequest"), false),
      // It has taken the empty body for the part.
      (Fixture.answer(200, headers: [HTTPHeader("etag", "\"d41d8cd98f00b204e9800998ecf8427e\"")]), false),
      (Fixture.answer(200, text: "<CopyPartResult></CopyPartResult>"), false),
    ])
  func whatCannotBeCopied_isSentAtOnce(_ refusal: HTTPResponse, isOfObject: Bool) throws {
    begin()
    let sending = sending(0)
    let step = DestinationStep.chunk(sending)
    let next = try #require(destination.followUp(of: step, after: [refusal], at: .first))
    #expect(next.content == Self.part && next.header("x-amz-copy-source") == nil)
    let stored = Fixture.answer(200, headers: [HTTPHeader("etag", "\"p\"")])
    #expect(destination.followUp(of: step, after: [refusal, stored], at: .first) == nil)
    #expect(destination.outcome(of: step, responses: [refusal, stored]) == .chunkStoredAs(token: "\"p\""))
    #expect(self.sending(1).copied == nil)
    publish(Self.session, [Self.part, Self.part])
    begin()
    #expect((self.sending(1).copied != nil) == isOfObject, "the next object is another one, the server the same")
  }

  /// What the copy said is known, although the part was lost after it.
  @Test(.promises("DE151")) func whatIsLostAfterACopy_isNotCopiedAgain() {
    begin()
    let step = DestinationStep.chunk(sending(0))
    let error = TransportError(.connectionLost, "lost")
    guard
      case .refused = destination.outcome(of: step, lost: error, after: [S3Fixture.error(501, "NotImplemented")])
    else {
      Issue.record("not refused")
      return
    }
    #expect(sending(1).copied == nil)
  }

  /// Regression: a server of which one copy failed each time had its file ended as failed, and the part's bytes were never tried.
  @Test(
    .promises("DE151"),
    arguments: [
      S3Fixture.error(503, "SlowDown"), S3Fixture.error(500, "InternalError"), S3Fixture.error(200, "InternalError"),
      Fixture.answer(504), Fixture.answer(429), nil,
    ])
  func aPartWhoseCopyFails_isSentTheNextTime(failure: HTTPResponse?) {
    begin()
    let sending = sending(0)
    let outcome: StepOutcome
    if let failure {
      #expect(destination.followUp(of: .chunk(sending), after: [failure], at: .first) == nil)
      outcome = destination.outcome(of: .chunk(sending), responses: [failure])
    } else {
      outcome = destination.outcome(of: .chunk(sending), lost: TransportError(.timedOut, "nothing"))
    }
    guard case .refused(let reason) = outcome else {
      Issue.record("not refused")
      return
    }
    #expect(reason.kind != .badRequest && reason.kind != .forbidden)
    #expect(self.sending(0).copied == nil && self.sending(1).copied != nil)
  }

  /// A server that never copies costs so much once, and not with each revision.
  @Test(.promises("DE151")) func whereCopiesFail_nothingIsCopiedInTheEnd() {
    for round in 0..<S3PublishedParts.failuresMax {
      begin()
      let sending = sending(0)
      #expect(sending.copied != nil, "\(round)")
      _ = destination.outcome(of: .chunk(sending), responses: [S3Fixture.error(500, "InternalError")])
    }
    begin()
    #expect(sending(0).copied == nil)
  }

  /// The server makes no checksums of copies, say, and wants some when it publishes: it was asked to publish the same again and again.
  @Test(.promises("DE151"), arguments: ["InvalidPart", "BadDigest", "InvalidRequest"])
  func whatIsNotPublishedForItsCopies_beginsAnewWithoutAny(code: String) {
    begin()
    _ = destination.outcome(of: .chunk(sending(0)), responses: [Self.copied()])
    let commit = DestinationStep.commit(S3Fixture.commit(of: Self.session))
    guard
      case .refused(let failure) = destination.outcome(of: commit, responses: [S3Fixture.error(400, code)])
    else {
      Issue.record("not refused")
      return
    }
    #expect(failure.kind == .sessionGone)
    begin()
    #expect(sending(0).copied == nil)
    guard case .refused(let other) = destination.outcome(of: commit, responses: [S3Fixture.error(400, code)]) else {
      Issue.record("not refused")
      return
    }
    #expect(other.kind != .sessionGone)
  }

  @Test func anUploadThatIsNotKnown_saysSo() {
    begin()
    let step = DestinationStep.chunk(sending(0))
    let gone = S3Fixture.error(404, "NoSuchUpload")
    #expect(destination.followUp(of: step, after: [gone], at: .first) == nil)
    guard case .refused(let failure) = destination.outcome(of: step, responses: [gone]) else {
      Issue.record("not refused")
      return
    }
    #expect(failure.kind == .sessionGone)
  }

  @Test func whatWasPublishedLongestAgo_isForgotten() {
    let many = Array(repeating: [UInt8(1)], count: S3PublishedParts.digestsMax - 2)
    publish(Self.session, many, of: FileID(high: 1, low: 1))
    begin()
    #expect(sending(0).copied == nil)
    publish(Self.session, many + many, of: FileID(high: 1, low: 2))
    publish(Self.session, [Self.part], of: Fixture.fileID)
    begin()
    #expect(sending(0).copied != nil)
  }
}
