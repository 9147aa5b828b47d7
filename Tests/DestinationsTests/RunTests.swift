import ChunkProtocol
import Destinations
import Integrity
import Promises
import Testing
import TransferModel

/// Several chunks in one request: each says what it would say alone, and is answered for itself.
@Suite struct RunTests {
  private let destination: ChunkProtocolDestination
  private let sendings = [
    Fixture.chunk(Array("123456789".utf8), index: 3), Fixture.compressedChunk([0, 0, 0, 0], body: [1, 2]),
    Fixture.chunk(Array(repeating: 7, count: 70_000), index: 5),
  ]

  init() throws { destination = try Fixture.destination() }

  @Test(.promises("P33b")) func eachMemberIsTheRequestThatWouldSendItAlone() throws {
    let request = destination.request(for: .run(sendings))
    #expect(request.method == .post)
    #expect(request.url == Fixture.base + "/v1/uploads/s-1_A/chunks")
    #expect(request.header("Content-Type") == MediaType.bundle)
    #expect(request.header("Authorization") == "Bearer \(Fixture.token)")
    var expected: [UInt8] = []
    for sending in sendings {
      let alone = destination.request(for: .chunk(sending))
      let head = BundleMemberHead(
        target: String(alone.url.dropFirst(Fixture.base.count)),
        fields: alone.headers.filter { $0.name != "Authorization" }.map { ($0.name, $0.value) })
      expected += head.encode(contentLength: alone.content.count) + alone.content
    }
    #expect(request.content == expected, "and nothing between them")
  }

  @Test func theFirstCounterCountsForAll_andTheLimitsAreThoseOfAllBytes() {
    let request = destination.request(for: .run(sendings))
    #expect(request.sentBytes === sendings[0].sentBytes)
    let chunk = Fixture.chunk([UInt8](repeating: 0, count: 1 << 20))
    let run = destination.request(for: .run([chunk, chunk, chunk, chunk])).limits
    let alone = destination.request(for: .chunk(Fixture.chunk([UInt8](repeating: 0, count: 4 << 20)))).limits
    #expect(run.total >= alone.total && run.stall == alone.stall)
    #expect(destination.request(for: .run([])).content.isEmpty)
  }

  private func answer(_ answers: [BundleAnswer]) -> HTTPResponse {
    var body: [UInt8] = []
    for answer in answers { answer.append(to: &body) }
    return HTTPResponse(status: 200, body: body)
  }

  private func stored(_ status: Int = 201) -> BundleAnswer { BundleAnswer(status: status, fields: [], body: []) }

  @Test(.promises("P33d", "P33e")) func eachMemberIsAnsweredForItself() {
    let problem = WireJSON.encode(Problem(.digestMismatch, detail: "no", field: "X-Chunk-SHA256"))
    let refused = BundleAnswer(status: 422, fields: [("Content-Type", MediaType.problem)], body: problem)
    let outcome = destination.outcome(of: .run(sendings), response: answer([stored(), refused, stored(200)]))
    guard case .each(let outcomes) = outcome, outcomes.count == 3 else {
      Issue.record("\(outcome)")
      return
    }
    #expect(outcomes[0] == .chunkStored && outcomes[2] == .chunkStored)
    #expect(outcomes[1].failure?.kind == .digestMismatch)
  }

  @Test func aRunHasMoreMembersThanABundle() {
    let many = (0..<128).map { Fixture.chunk(index: $0) }
    guard
      case .each(let outcomes) = destination.outcome(of: .run(many), response: answer(many.map { _ in stored() }))
    else {
      Issue.record("not answered one by one")
      return
    }
    #expect(outcomes.count == 128)
  }

  @Test(arguments: ["", "HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\nshort", "nonsense", "{}"])
  func nonsense_isAnAnswerForNoRequest(text: String) {
    let outcome = destination.outcome(of: .run(sendings), response: Fixture.answer(200, text: text))
    #expect(outcome.failure?.kind == .unexpectedAnswer)
    #expect(destination.outcome(of: .run(sendings), response: answer([stored()])).failure != nil)
  }

  /// What is said of the session or the receiver counts for all of them.
  @Test(
    .promises("P33g"), arguments: [ProblemType.sessionExpired, .conflict, .busy, .timeout, .tooLarge, .internalError])
  func aRefusalOfTheWhole_isThatOfAChunk(type: ProblemType) {
    let response = Fixture.answer(type.status, Problem(type, detail: "no"))
    #expect(
      destination.outcome(of: .run(sendings), response: response)
        == destination.outcome(of: .chunk(sendings[0]), response: response))
  }

  @Test(
    .promises("P14"),
    arguments: [
      ("33554432", 32 << 20), ("1048576", 1 << 20), ("0", 0), ("-1", nil), ("1e3", nil), ("99999999999", 32 << 20),
    ])
  func anOfferIsReadWithCare(text: String, bytes: Int?) {
    let offers = destination.offers(in: Fixture.answer(200, headers: [HTTPHeader("x-run-bytes-max", text)]))
    #expect(offers.runBytesMax == bytes)
  }
}
