import ChunkProtocol
import Destinations
import FileModel
import Integrity
import Lookup
import Promises
import SeededRandom
import Testing
import TransferModel

/// Several whole files in one request: each says what it would say alone, and is answered for itself.
@Suite struct BundleTests {
  private let destination: ChunkProtocolDestination
  private let sendings = [
    Fixture.wholeFile(Array("123456789".utf8), path: "day 1/a%.txt"), Fixture.wholeFile([], path: "empty"),
    Fixture.wholeFile(Array(repeating: 7, count: 70_000), path: "c", mode: 0o600),
  ]

  init() throws { destination = try Fixture.destination() }

  private struct Member {
    var head: BundleMemberHead
    var body: [UInt8] = []
  }

  private func members(of content: [UInt8]) throws -> [Member] {
    var reader = BundleReader()
    var members: [Member] = []
    try content.withUnsafeBytes { bytes in
      var rest = bytes
      while let event = try reader.next(&rest) {
        switch event {
        case .head(let head, _): members.append(Member(head: head))
        case .body(let bytes): members[members.count - 1].body += Array(bytes)
        case .end: break
        }
      }
    }
    try reader.finish()
    return members
  }

  @Test(.promises("P62")) func eachMemberIsTheRequestThatWouldSendItAlone() throws {
    let request = destination.request(for: .bundle(sendings))
    #expect(request.method == .post)
    #expect(request.url == Fixture.base + "/v1/files")
    #expect(request.header("Content-Type") == MediaType.bundle)
    #expect(request.header("Authorization") == "Bearer \(Fixture.token)")
    let members = try members(of: request.content)
    #expect(members.count == sendings.count)
    for (member, sending) in zip(members, sendings) {
      let alone = destination.request(for: .wholeFile(sending))
      #expect(Fixture.base + member.head.target == alone.url)
      #expect(member.body == alone.content)
      for field in alone.headers where field.name != "Authorization" {
        #expect(member.head.fields.contains { $0.name == field.name && $0.value == field.value }, "\(field.name)")
      }
      #expect(!member.head.fields.contains { $0.name == "Authorization" }, "once is enough")
    }
  }

  // MARK: One frame

  @Test(.promises("P118")) func filesThatShareAFrame_areTheBundleInIt() throws {
    let plain = destination.request(for: .bundle(sendings))
    let request = destination.compressedTogether(plain)
    #expect(request.header("X-Chunk-Encoding") == "zstd")
    #expect(request.header("X-Chunk-Size") == String(plain.content.count))
    #expect(request.content.count < plain.content.count / 10)
    #expect(
      request.sharedFrame == SharedFrame(plainBytes: plain.content.count, sentBytes: request.content.count))
    #expect(request.url == plain.url && request.header("Content-Type") == MediaType.bundle)
    #expect(request.sentBytes === sendings[0].sentBytes)
    #expect(plain.sharedFrame == nil && plain.header("X-Chunk-Encoding") == nil)
    var decoded = [UInt8](repeating: 0, count: plain.content.count)
    let isWhole = request.content.withUnsafeBytes { frame in
      decoded.withUnsafeMutableBytes { Zstandard.decompress(frame, into: $0) }
    }
    #expect(isWhole && decoded == plain.content)
  }

  @Test func whatAFrameDoesNotShorten_goesAsItIs() throws {
    var random = SplitMix(seed: 1)
    let noise = (0..<2).map { number in
      Fixture.wholeFile(
        (0..<60_000).map { _ in UInt8.random(in: 0...255, using: &random) }, path: "noise \(number)")
    }
    let request = destination.compressedTogether(destination.request(for: .bundle(noise)))
    #expect(request.header("X-Chunk-Encoding") == nil && request.header("X-Chunk-Size") == nil)
    #expect(try members(of: request.content).map(\.body.count) == [60_000, 60_000])
    #expect(request.sharedFrame?.isShorter == false)
  }

  @Test(
    .promises("P14"),
    arguments: [
      ("identity, zstd", true), ("zstd", true), ("identity", false), ("", false), ("new, lz4", false),
    ])
  func offerOfFrames_isRead(text: String, isOffered: Bool) {
    let offers = destination.offers(in: Fixture.answer(200, headers: [HTTPHeader("x-bundle-encodings", text)]))
    #expect(offers.takesSharedFrames == isOffered)
  }

  @Test func theFirstCounterCountsForAll() {
    let request = destination.request(for: .bundle(sendings))
    #expect(request.sentBytes === sendings[0].sentBytes)
  }

  private func receipt(_ sending: WholeFileSending) -> ReceiptBody {
    let request = destination.request(for: .wholeFile(sending))
    let key = request.header("Idempotency-Key").flatMap(IdempotencyKey.init(headerValue:))?.text ?? ""
    return Fixture.receipt(
      name: PublishedName.encode(sending.path.bytes), sending.body.map { Array($0.bytes) } ?? [], key: key)
  }

  private func answer(_ answers: [BundleAnswer]) -> HTTPResponse {
    var body: [UInt8] = []
    for answer in answers { answer.append(to: &body) }
    return HTTPResponse(status: 200, body: body)
  }

  @Test(.promises("P65")) func eachMemberIsAnsweredForItself() throws {
    let problem = Problem(.nameRefused, detail: "no", field: "name")
    let response = answer([
      BundleAnswer(status: 201, fields: [], body: WireJSON.encode(receipt(sendings[0]))),
      BundleAnswer(status: 422, fields: [("Content-Type", MediaType.problem)], body: WireJSON.encode(problem)),
      BundleAnswer(status: 503, fields: [("Retry-After", "7")], body: []),
    ])
    guard case .each(let outcomes) = destination.outcome(of: .bundle(sendings), response: response) else {
      Issue.record("not answered one by one")
      return
    }
    guard case .published = outcomes[0] else {
      Issue.record("\(outcomes[0])")
      return
    }
    #expect(outcomes[1].failure?.kind == .nameRefused)
    #expect(outcomes[2].failure?.kind == .busy)
    #expect(outcomes[2].failure?.retryAfter == .seconds(7))
  }

  /// A receipt for another file is none, also when it stands in the right place of a wrong answer.
  @Test func receiptsInAnotherOrder_areNone() {
    let response = answer(
      [2, 1, 0].map { BundleAnswer(status: 201, fields: [], body: WireJSON.encode(receipt(sendings[$0]))) })
    guard case .each(let outcomes) = destination.outcome(of: .bundle(sendings), response: response) else {
      Issue.record("not answered one by one")
      return
    }
    #expect(outcomes[0].failure?.kind == .unexpectedAnswer)
    #expect(outcomes[1].failure == nil)
    #expect(outcomes[2].failure?.kind == .unexpectedAnswer)
  }

  @Test(arguments: ["", "HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\nshort", "nonsense", "{}"])
  func nonsense_isAnAnswerForNoRequest(text: String) {
    let outcome = destination.outcome(of: .bundle(sendings), response: Fixture.answer(200, text: text))
    #expect(outcome.failure?.kind == .unexpectedAnswer)
  }

  @Test func answersForOthersThanWereSent_areNone() {
    let one = BundleAnswer(status: 201, fields: [], body: WireJSON.encode(receipt(sendings[0])))
    let outcome = destination.outcome(of: .bundle(sendings), response: answer([one]))
    #expect(outcome.failure?.kind == .unexpectedAnswer)
  }

  @Test(.promises("P14")) func offers_areReadFromAnyAnswer() {
    let response = Fixture.answer(
      201, headers: [HTTPHeader("x-bundle-files-max", "64"), HTTPHeader("x-chunk-encodings", "identity, lz4, new")])
    let offers = destination.offers(in: response)
    #expect(offers.filesPerRequest == 64)
    #expect(offers.encodings == [.identity, .lz4])
    #expect(destination.offers(in: Fixture.answer(200)) == DestinationOffers())
  }

  @Test(arguments: [("0", 0), ("-1", nil), ("1e3", nil), ("70000", nil), ("9999", 64)])
  func anOfferIsReadWithCare(text: String, files: Int?) {
    let offers = destination.offers(in: Fixture.answer(200, headers: [HTTPHeader("x-bundle-files-max", text)]))
    #expect(offers.filesPerRequest == files)
  }
}
