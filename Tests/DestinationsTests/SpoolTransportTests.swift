import ChunkProtocol
import Promises
import Synchronization
import Testing
import TransferModel

@testable import Destinations

/// A spool's start, and what it was told.
private final class FakePresence: SpoolPresence {
  struct Told: Hashable {
    var spool: [UInt8]
    var count: UInt64
    var server: String
  }

  let start: SpoolStartID?
  let heard = Mutex<[Told]>([])

  init(_ start: SpoolStartID?) { self.start = start }

  func told(ofSpool spool: [UInt8], knownCount: UInt64, by server: String) {
    heard.withLock { $0.append(Told(spool: spool, count: knownCount, server: server)) }
  }
}

/// Answers all of it in one way.
private final class OneAnswer: HTTPTransport {
  let seen = Mutex<[HTTPRequest]>([])
  let answer: HTTPResponse

  init(_ answer: HTTPResponse) { self.answer = answer }

  func start(_ requests: [PendingHTTPRequest]) {
    seen.withLock { $0 += requests.map(\.request) }
    for request in requests { request.onCompletion(.success(answer)) }
  }

  func cancel(_ id: HTTPRequestID, unsentBelow: UInt64) {}
}

private final class Counter: Sendable {
  let answers = Mutex(0)
}

@Suite struct SpoolTransportTests {
  private let spool = [UInt8](repeating: 7, count: 16)
  private let mark = [UInt8](repeating: 8, count: 16)
  private var start: SpoolStartID { SpoolStartID(spool: spool, count: 4, mark: mark) }

  private func send(_ request: HTTPRequest, over transport: SpoolTransport) -> Int {
    let counter = Counter()
    transport.start([
      PendingHTTPRequest(id: HTTPRequestID(1), request: request) { _ in counter.answers.withLock { $0 += 1 } }
    ])
    return counter.answers.withLock { $0 }
  }

  @Test("Every request but those of chunks says which spool it comes from", .promises("P107")) func says() throws {
    let destination = try ChunkProtocolDestination(baseURL: "https://vault.example", credential: .bearer("t"))
    let server = OneAnswer(HTTPResponse(status: 204))
    let transport = SpoolTransport(server, identity: FakePresence(start), server: "https://vault.example")
    let steps: [DestinationStep] = [
      .prewarm, .openSession(Fixture.opening()), .querySession(Fixture.session), .commit(Fixture.commit()),
      .wholeFile(Fixture.wholeFile()), .abort(Fixture.session),
    ]
    for step in steps { #expect(send(destination.request(for: step), over: transport) == 1) }
    #expect(
      server.seen.withLock { $0.map { $0.header(HeaderName.spool) } }
        == steps.map { _ in SpoolStart(spool: spool, count: 4, mark: mark).headerValue })
    server.seen.withLock { $0 = [] }
    for step in [DestinationStep.chunk(Fixture.chunk()), .run([Fixture.chunk()])] {
      #expect(send(destination.request(for: step), over: transport) == 1)
    }
    #expect(server.seen.withLock { $0.map { $0.header(HeaderName.spool) } } == [nil, nil])
  }

  @Test("What a receiver knows of the spool is heard with any answer", .promises("P107")) func hears() {
    let known = KnownSpoolStart(spool: spool, count: 9).headerValue
    for (value, told) in [
      (known, [FakePresence.Told(spool: spool, count: 9, server: "s")]), ("nonsense", []), (nil, []),
    ] as [(String?, [FakePresence.Told])] {
      for status in [200, 404, 503] {
        let presence = FakePresence(start)
        let headers = value.map { [HTTPHeader("x-spool-known", $0)] } ?? []
        let transport = SpoolTransport(
          OneAnswer(HTTPResponse(status: status, headers: headers)), identity: presence, server: "s")
        #expect(send(HTTPRequest(.head, "https://vault.example/v1/"), over: transport) == 1)
        #expect(presence.heard.withLock { $0 } == told)
      }
    }
  }

  @Test("Of a start that was not counted nothing is said", .promises("S79h")) func nothing() {
    let server = OneAnswer(HTTPResponse(status: 204))
    let transport = SpoolTransport(server, identity: FakePresence(nil), server: "s")
    #expect(send(HTTPRequest(.head, "https://vault.example/v1/"), over: transport) == 1)
    #expect(server.seen.withLock { $0.map { $0.header(HeaderName.spool) } } == [nil])
  }
}
