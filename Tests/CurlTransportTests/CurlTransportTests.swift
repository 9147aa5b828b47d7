import Foundation
import Testing
import TransferModel

@testable import CurlTransport

/// Every test talks to a real HTTPS server of its own on loopback; see ``httpsTestServerProgram``. One after the other,
/// because starting a server blocks a thread of the pool that all tests share.
@Suite("CurlTransport", .serialized, .timeLimit(.minutes(2)))
struct CurlTransportTests {
  /// What `/echo` says about a request.
  struct Echo: Decodable {
    var method: String
    var bytes: Int
    var sha256: String
    var tls: String?
    var isResumed: Bool?
    var requestOnConnection: Int
    var headers: [[String]]

    func values(_ name: String) -> [String] { headers.filter { $0.first == name }.compactMap(\.last) }
  }

  /// Runs a test with a server and a transport, and ends both.
  func withServer(
    _ configure: (inout CurlTransportConfiguration) -> Void = { _ in },
    _ body: (HTTPSTestServer, CurlTransport) async throws -> Void
  ) async throws {
    let server = try HTTPSTestServer()
    defer { server.stop() }
    var configuration = CurlTransportConfiguration(caFile: server.caFile)
    configure(&configuration)
    let transport = try CurlTransport(configuration: configuration)
    defer { transport.stop() }
    try await body(server, transport)
  }

  /// Regression: after the machine had slept requests went over connections that were dead.
  @Test("What is sent after a renewal goes over a new connection")
  func renewsConnections() async throws {
    try await withServer { server, transport in
      var requests: [Int] = []
      for isRenewed in [false, false, true] {
        if isRenewed { transport.renewConnections() }
        let response = try await transport.send(HTTPRequest(.put, try server.url("/echo"), body: .bytes([1]))).get()
        requests.append(try JSONDecoder().decode(Echo.self, from: Data(response.body)).requestOnConnection)
      }
      #expect(requests == [1, 2, 1])
    }
  }

  // MARK: Requests and responses

  @Test("A pinned body arrives whole over TLS 1.3, with its headers and no others of its own invention")
  func putsPinnedBody() async throws {
    try await withServer { server, transport in
      let counter = SentByteCounter()
      let body = TestBody(count: 3_000_001)
      let request = HTTPRequest(
        .put, try server.url("/echo"), headers: [HTTPHeader("X-Chunk-Size", "3000001"), HTTPHeader("X-Empty", "")],
        body: .pinned(body), sentBytes: counter)
      let response = try await transport.send(request).get()
      #expect(response.status == 200)
      let echo = try JSONDecoder().decode(Echo.self, from: Data(response.body))
      #expect(echo.method == "PUT")
      #expect(echo.bytes == 3_000_001)
      #expect(echo.sha256 == sha256Hex(body))
      #expect(echo.tls == "TLSv1.3")
      #expect(echo.values("content-length") == ["3000001"])
      #expect(echo.values("x-chunk-size") == ["3000001"])
      #expect(echo.values("x-empty") == [""])
      #expect(echo.values("user-agent") == ["uploadfs"])
      for name in ["expect", "content-type", "transfer-encoding", "accept-encoding"] {
        #expect(echo.values(name) == [], "\(name) was sent")
      }
      #expect(counter.value == 3_000_001)
    }
  }

  @Test(
    "A new connection goes on from the TLS session of another one, while that is young enough",
    arguments: [true, false])
  func resumesYoungSessions(isYoung: Bool) async throws {
    try await withServer {
      if !isYoung { $0.tlsSessionMaxAge = .zero }
    } _: { server, transport in
      // Its answer is read, and with it the tickets; it ends its connection.
      let first = try await transport.send(
        HTTPRequest(.post, try server.url("/refuses-early-and-closes"), body: .bytes([1]))
      )
      .get()
      #expect(first.status == 507)
      let second = try await transport.send(HTTPRequest(.get, try server.url("/echo"))).get()
      let echo = try JSONDecoder().decode(Echo.self, from: Data(second.body))
      #expect(echo.requestOnConnection == 1)
      #expect(echo.isResumed == isYoung)
    }
  }

  @Test("Response fields keep their order and values; their names are in lower case")
  func collectsHeaders() async throws {
    try await withServer { server, transport in
      let response = try await transport.send(HTTPRequest(.get, try server.url("/echo"))).get()
      #expect(response.headers.filter { $0.name == "x-twice" }.map(\.value) == ["one", "two"])
      #expect(response.header("x-empty") == "")
      #expect(response.header("etag") == "\"mixed CASE\"")
      #expect(response.connection.protocolName == "HTTP/1.1")
      #expect(response.connection.timeToFirstByte > .zero)
      #expect(response.connection.totalTime >= response.connection.timeToFirstByte)
    }
  }

  @Test("Each method sends what it says", arguments: HTTPRequestCase.all)
  func methods(_ example: HTTPRequestCase) async throws {
    try await withServer { server, transport in
      let request = HTTPRequest(example.method, try server.url("/echo"), body: example.body)
      let response = try await transport.send(request).get()
      #expect(response.status == 200)
      guard example.method != .head else {
        #expect(response.body.isEmpty)
        return
      }
      let echo = try JSONDecoder().decode(Echo.self, from: Data(response.body))
      #expect(echo.method == example.method.rawValue)
      #expect(echo.bytes == example.byteCount)
      #expect(echo.values("transfer-encoding") == [])
    }
  }

  @Test("Interim responses leave no trace in the final one")
  func ignoresInterimResponses() async throws {
    try await withServer { server, transport in
      let response = try await transport.send(HTTPRequest(.post, try server.url("/interim"), body: .bytes([1]))).get()
      #expect(response.status == 201)
      #expect(response.headers.filter { $0.name == "x-stage" }.map(\.value) == ["final"])
      #expect(response.header("link") == nil)
      #expect(response.body == Array("made".utf8))
    }
  }

  @Test("A redirect is an answer, not an order")
  func doesNotFollowRedirects() async throws {
    try await withServer { server, transport in
      let response = try await transport.send(HTTPRequest(.get, try server.url("/redirect"))).get()
      #expect(response.status == 307)
    }
  }

  @Test("A header that would smuggle in another is refused before anything is sent")
  func refusesHeaderInjection() async throws {
    try await withServer { server, transport in
      let request = HTTPRequest(.get, try server.url("/echo"), headers: [HTTPHeader("X-Name", "a\r\nX-Evil: 1")])
      #expect(await transport.send(request).failureKind == .other)
    }
  }

  // MARK: Connections

  @Test("Twelve requests are in flight at once")
  func runsTwelveAtOnce() async throws {
    try await withServer { server, transport in
      let url = try server.url("/barrier?12")
      let body = TestBody(count: 300_000)
      let started = (0..<12).map { _ in StartedRequest(HTTPRequest(.put, url, body: .pinned(body)), with: transport) }
      for request in started {
        let response = try #require(await request.result).get()
        #expect(response.body == Array("12".utf8))
      }
    }
  }

  @Test("The second request finds the connection of the first")
  func reusesConnections() async throws {
    try await withServer { server, transport in
      let first = try await transport.send(HTTPRequest(.head, try server.url("/echo"))).get()
      let second = try await transport.send(
        HTTPRequest(.put, try server.url("/echo"), body: .pinned(TestBody(count: 100_000)))
      ).get()
      #expect(first.connection.isNewConnection)
      #expect(!second.connection.isNewConnection)
      let stages = try #require(first.connection.stages)
      #expect(stages.tls > .zero && stages.answer > .zero && second.connection.stages == nil)
      #expect(stages.names + stages.connect + stages.tls + stages.answer <= first.connection.totalTime)
      #expect(try JSONDecoder().decode(Echo.self, from: Data(second.body)).requestOnConnection == 2)
    }
  }

  /// The second request begins on a connection that is dead, so that libcurl goes back to the first piece.
  @Test("A body in pieces arrives as one, and again from the start over a new connection")
  func putsPieces() async throws {
    try await withServer { server, transport in
      let pieces: [HTTPRequest.Body.Piece] = [
        .bytes([]), .bytes(Array("first".utf8)), .pinned(TestBody(count: 300_001)), .bytes([]), .bytes([0, 1]),
        .pinned(TestBody(count: 1)), .pinned(TestBody(count: 700_000)), .bytes(Array("last".utf8)), .bytes([]),
      ]
      let counter = SentByteCounter()
      let request = HTTPRequest(.put, try server.url("/closes-reused"), body: .pieces(pieces), sentBytes: counter)
      let expected = sha256Hex(request.body.content)
      for _ in 0..<2 {
        let response = try await transport.send(request).get()
        #expect(String(decoding: response.body, as: UTF8.self) == expected)
      }
      #expect(counter.value == UInt64(request.body.byteCount))
    }
  }

  @Test("A kept-alive connection that turns out dead costs a new connection, not the request")
  func retriesDeadConnections() async throws {
    try await withServer { server, transport in
      let body = TestBody(count: 1 << 20)
      let request = HTTPRequest(.put, try server.url("/closes-reused"), body: .pinned(body))
      let first = try await transport.send(request).get()
      let second = try await transport.send(request).get()
      #expect(second.status == 200)
      #expect(second.connection.isNewConnection)
      #expect(second.body == first.body)
      #expect(String(decoding: second.body, as: UTF8.self) == sha256Hex(body))
    }
  }

  @Test("HTTP/2 that the server does not speak becomes HTTP/1.1")
  func fallsBackToHTTP1() async throws {
    try await withServer({
      $0.protocolChoice = .http2
      $0.http2Library = .any
    }) { server, transport in
      let response = try await transport.send(HTTPRequest(.get, try server.url("/echo"))).get()
      #expect(response.connection.protocolName == "HTTP/1.1")
    }
  }

  @Test("Under load a server is asked once whether it speaks HTTP/2, by a request that is answered in any case")
  func asksForHTTP2() async throws {
    try await withServer({
      $0.protocolChoice = .automatic
      $0.http2Library = .any
      $0.trialTimes = ProtocolTrial.Times(loaded: .milliseconds(500), window: .milliseconds(250))
    }) { server, transport in
      // Long ones: the server writes a line for each request, and waits once a pipe's worth of lines has not been read.
      let body = TestBody(count: 4 << 20)
      let request = HTTPRequest(.put, try server.url("/echo"), body: .pinned(body))
      let end = ContinuousClock.now + .seconds(60)
      func isAsked() -> Bool { transport.protocols.first?.standing.finding == .notOffered }
      try await withThrowingTaskGroup(of: Void.self) { tasks in
        for _ in 0..<2 * ProtocolTrial.loadMin {
          tasks.addTask {
            while !isAsked(), ContinuousClock.now < end {
              let response = try await transport.send(request).get()
              #expect(response.status == 200 && response.connection.protocolName == "HTTP/1.1")
            }
          }
        }
        try await tasks.waitForAll()
      }
      #expect(isAsked(), "\(transport.protocols)")
    }
  }

  @Test("With a libcurl whose HTTP/2 stalls nothing is tried")
  func triesNothingWithAnOldLibrary() throws {
    var configuration = CurlTransportConfiguration(protocolChoice: .automatic)
    #expect(configuration.triesHTTP2 == (configuration.hindranceOfHTTP2 == nil))
    configuration.http2Library = .any
    #expect(configuration.hindranceOfHTTP2 == nil && configuration.triesHTTP2)
    configuration.protocolChoice = .http1
    #expect(!configuration.triesHTTP2)
  }

  // MARK: Hosts and certificates

  @Test("An unknown host is named")
  func unknownHost() async throws {
    try await withServer { _, transport in
      // A label of more than 63 bytes has no address, whatever the name server of this machine says or does not say.
      let host = String(repeating: "a", count: 64) + ".invalid"
      let result = await transport.send(HTTPRequest(.get, "https://\(host)/"))
      #expect(result.failureKind == .unknownHost)
      #expect(result.failureMessage.contains(host))
    }
  }

  @Test("A refused port is a failed connection")
  func refusedPort() async throws {
    let port = try BoundPort()
    try await withServer { _, transport in
      let result = await transport.send(HTTPRequest(.get, "https://127.0.0.1:\(port.number)/"))
      #expect(result.failureKind == .connectFailed)
      #expect(result.failureMessage.contains("127.0.0.1"))
    }
  }

  @Test(
    "A certificate that is not acceptable says why",
    arguments: [("expired", "expired"), ("foreign", "issuer"), ("other-name", "name")])
  func refusesCertificate(port: String, reason: String) async throws {
    try await withServer { server, transport in
      let result = await transport.send(HTTPRequest(.get, try server.url("/echo", on: port)))
      #expect(result.failureKind == .certificateRefused)
      #expect(result.failureMessage.contains("127.0.0.1"))
      #expect(result.failureMessage.contains(reason), "\(result.failureMessage)")
    }
  }

  @Test("Without the CA file, its server's certificate is foreign")
  func refusesUnknownAuthority() async throws {
    try await withServer({ $0.caFile = nil }) { server, transport in
      let result = await transport.send(HTTPRequest(.get, try server.url("/echo")))
      #expect(result.failureKind == .certificateRefused)
    }
  }

  @Test("A server that only speaks TLS 1.2 is refused")
  func refusesTLS12() async throws {
    try await withServer { server, transport in
      let result = await transport.send(HTTPRequest(.get, try server.url("/echo", on: "tls12")))
      #expect(result.failureKind == .tlsFailed)
    }
  }

  @Test("Plain http is spoken only where it is allowed")
  func plainHTTP() async throws {
    try await withServer { server, transport in
      let result = await transport.send(HTTPRequest(.get, try server.url("/hold", on: "plain")))
      #expect(result.failureKind == .other)
      #expect(result.failureMessage.contains("plain http"))
    }
    try await withServer({ $0.allowPlainHTTP = true }) { server, transport in
      let response = try await transport.send(HTTPRequest(.get, try server.url("/interim", on: "plain"))).get()
      #expect(response.status == 201)
      #expect(await transport.send(HTTPRequest(.get, "ftp://127.0.0.1/")).failureKind == .other)
    }
  }

  // MARK: Failures in mid-request

  @Test("A transfer that does not move is stalled, long before its deadline")
  func stall() async throws {
    try await withServer { server, transport in
      // More than the sockets' buffers take, so that libcurl cannot believe it has sent everything.
      let request = HTTPRequest(
        .put, try server.url("/never-reads"), body: .pinned(TestBody(count: 32 << 20)),
        limits: HTTPRequestLimits(total: .seconds(60), stall: .seconds(1)))
      let result = await transport.send(request)
      #expect(result.failureKind == .stalled)
      #expect(result.failureMessage.contains("127.0.0.1"))
    }
  }

  @Test("A request that is not answered in time has timed out")
  func totalTimeout() async throws {
    try await withServer { server, transport in
      let request = HTTPRequest(
        .get, try server.url("/hold"), limits: HTTPRequestLimits(total: .milliseconds(300), stall: .seconds(30)))
      #expect(await transport.send(request).failureKind == .timedOut)
    }
  }

  @Test("A server that does not finish the handshake in time has timed out")
  func connectTimeout() async throws {
    let port = try BoundPort(listening: true)
    try await withServer { _, transport in
      let request = HTTPRequest(
        .get, "https://127.0.0.1:\(port.number)/", limits: HTTPRequestLimits(connect: .milliseconds(200)))
      #expect(await transport.send(request).failureKind == .timedOut)
    }
  }

  @Test("A connection that ends before the answer is whole is lost", arguments: ["body", "response"])
  func connectionLost(place: String) async throws {
    try await withServer { server, transport in
      let request = HTTPRequest(
        .put, try server.url("/closes-in-mid-\(place)"), body: .pinned(TestBody(count: 16 << 20)))
      let result = await transport.send(request)
      #expect(result.failureKind == .connectionLost, "\(result)")
      #expect(result.failureMessage.contains("127.0.0.1"))
    }
  }

  /// Regression: libcurl calls it an answer without a body, and its status counted with the fields that had come so far.
  @Test("An answer that ends in the middle of its head is none", arguments: [200, 201, 204, 404])
  func brokenHead(_ status: Int) async throws {
    try await withServer { server, transport in
      let url = try server.url("/closes-in-mid-head?\(status)")
      let result = await transport.send(HTTPRequest(.put, url, body: .pinned(TestBody(count: 1000))))
      #expect(result.failureKind == .connectionLost, "\(result)")
      #expect(result.failureMessage.contains("127.0.0.1"))
    }
  }

  @Test("A server that refuses before it has read the body is heard")
  func earlyRefusal() async throws {
    try await withServer { server, transport in
      let request = HTTPRequest(.put, try server.url("/refuses-early"), body: .pinned(TestBody(count: 32 << 20)))
      let response = try await transport.send(request).get()
      #expect(response.status == 413)
      #expect(response.header("content-type") == "application/problem+json")
      #expect(String(decoding: response.body, as: UTF8.self).contains("too large"))
    }
  }

  @Test("A server that refuses and slams the door is heard, or lost; nothing else")
  func earlyRefusalAndReset() async throws {
    try await withServer { server, transport in
      let url = try server.url("/refuses-early-and-closes")
      let result = await transport.send(HTTPRequest(.put, url, body: .pinned(TestBody(count: 4 << 20))))
      // Bytes that the server leaves unread make its kernel reset the connection, which can overtake the answer.
      switch result {
      case .success(let response): #expect(response.status == 507)
      case .failure(let error): #expect(error.kind == .connectionLost)
      }
    }
  }

  /// Regression: the answer counted, and a capture of which the server had 1,000 bytes was called delivered.
  @Test("A success before the body was sent is none", arguments: [200, 201, 204])
  func earlySuccess(_ status: Int) async throws {
    try await withServer { server, transport in
      let counter = SentByteCounter()
      let url = try server.url("/succeeds-early?\(status)")
      let result = await transport.send(
        HTTPRequest(.put, url, body: .pinned(TestBody(count: 28 << 20)), sentBytes: counter))
      // The server's end resets the connection, which can overtake its answer.
      #expect(result.failureKind == .answeredEarly || result.failureKind == .connectionLost, "\(result)")
      #expect(counter.value < 28 << 20)
    }
  }

  /// Regression: whether the person read which portal it was hung on who was faster.
  @Test("A page before the body was sent says what it is called")
  func earlyPage() async throws {
    try await withServer { server, transport in
      var request = HTTPRequest(.put, try server.url("/page-early"), body: .pinned(TestBody(count: 32 << 20)))
      request.asksBeforeBody = true
      guard case .failure(let error) = await transport.send(request) else {
        Issue.record("the page counts as an answer")
        return
      }
      #expect(error.kind == .answeredEarly && error.answerIsHTML)
      #expect(error.message.contains("a web page “Guest network” (200)"), "\(error)")
    }
  }

  @Test("A success before the body was sent is none, where the server then stays and reads no more")
  func earlySuccessOfAServerThatStays() async throws {
    try await withServer { server, transport in
      var request = HTTPRequest(
        .put, try server.url("/succeeds-early-and-stays?201"), body: .pinned(TestBody(count: 28 << 20)))
      request.limits.stall = .milliseconds(500)
      let result = await transport.send(request)
      #expect(result.failureKind == .stalled || result.failureKind == .answeredEarly, "\(result)")
    }
  }

  @Test("A server that says yes before it has read the body gets the whole body")
  func earlyAcceptance() async throws {
    try await withServer { server, transport in
      let request = HTTPRequest(.put, try server.url("/already-held"), body: .pinned(TestBody(count: 8 << 20)))
      let response = try await transport.send(request).get()
      #expect(response.status == 200)
      let next = try await transport.send(HTTPRequest(.get, try server.url("/echo"))).get()
      #expect(try JSONDecoder().decode(Echo.self, from: Data(next.body)).requestOnConnection == 2)
    }
  }

  @Test("A response at the limit is taken, a larger one is a violation", arguments: ["length", "chunked"])
  func responseTooLarge(_ how: String) async throws {
    try await withServer { server, transport in
      let limit = UploadConstants.responseBytesMax
      let largest = try await transport.send(HTTPRequest(.get, try server.url("/large?\(limit)"))).get()
      #expect(largest.body.count == limit)
      let path = how == "length" ? "/large?\(limit + 1)" : "/endless"
      let result = await transport.send(HTTPRequest(.get, try server.url(path)))
      #expect(result.failureKind == .protocolViolation)
      #expect(result.failureMessage.contains("16 MiB"))
    }
  }

  @Test("Header fields without end are a violation")
  func headersTooLarge() async throws {
    try await withServer { server, transport in
      let many = try await transport.send(HTTPRequest(.get, try server.url("/many-headers?50"))).get()
      #expect(many.headers.count == 51)
      let tooMany = await transport.send(HTTPRequest(.get, try server.url("/many-headers?200")))
      #expect(tooMany.failureKind == .protocolViolation)
    }
  }

  @Test("Regression: a header field of a megabyte was a lack of memory")
  func headerTooLong() async throws {
    try await withServer { server, transport in
      let result = await transport.send(HTTPRequest(.get, try server.url("/long-header?1000000")))
      #expect(result.failureKind == .protocolViolation && result.failureMessage.contains("header"), "\(result)")
    }
  }

  @Test("Regression: a server that is silent after the whole body was called slow")
  func silentAfterTheBody() async throws {
    try await withServer { server, transport in
      var limits = HTTPRequestLimits(total: .seconds(60), stall: .milliseconds(300))
      limits.answer = .milliseconds(300)
      let request = HTTPRequest(.put, try server.url("/hold"), body: .pinned(TestBody(count: 1000)), limits: limits)
      let result = await transport.send(request)
      #expect(result.failureKind == .stalled && result.failureMessage.contains("has not answered"), "\(result)")
    }
  }

  @Test("What is not HTTP is a violation")
  func nonsense() async throws {
    try await withServer { server, transport in
      let result = await transport.send(HTTPRequest(.get, try server.url("/nonsense")))
      #expect(result.failureKind == .protocolViolation)
    }
  }

  // MARK: Cancel, overload, stop

  @Test("A cancelled request ends at once and lets go of its body")
  func cancelInFlight() async throws {
    try await withServer { server, transport in
      weak var body: TestBody?
      let started: StartedRequest
      do {
        let strong = TestBody(count: 1000)
        body = strong
        started = StartedRequest(HTTPRequest(.put, try server.url("/hold"), body: .pinned(strong)), with: transport)
      }
      try server.waitForRequests(to: "/hold")
      #expect(body != nil)
      transport.cancel(started.id)
      #expect(await started.result?.failureKind == .cancelled)
      transport.cancel(started.id)
      transport.stop()
      #expect(body == nil)
    }
  }

  @Test("Regression: what had been sent whole a moment ago was cancelled as unsent, and its server took it")
  func cancelUnsent() async throws {
    try await withServer { server, transport in
      let url = try server.url("/hold")
      let started = (0..<2).map { _ in
        StartedRequest(HTTPRequest(.put, url, body: .pinned(TestBody(count: 1000))), with: transport)
      }
      try server.waitForRequests(2, to: "/hold")
      transport.cancel(started[0].id, unsentBelow: 1001)
      #expect(await started[0].result?.failureKind == .cancelled)
      transport.cancel(started[1].id, unsentBelow: 1000)
      try server.release()
      #expect(try #require(await started[1].result).get().status == 200)
    }
  }

  @Test("A full inbox refuses; what waits in it can be cancelled and is otherwise sent")
  func overload() async throws {
    try await withServer({
      $0.maxConnections = 1
      $0.inboxCapacity = 2
    }) { server, transport in
      let held = StartedRequest(HTTPRequest(.get, try server.url("/hold")), with: transport)
      try server.waitForRequests(to: "/hold")
      let waiting = (0..<2).map { _ in StartedRequest(echoRequest(server), with: transport) }
      let refused = StartedRequest(echoRequest(server), with: transport)
      #expect(await refused.result?.failureKind == .overloaded)
      transport.cancel(waiting[0].id)
      #expect(await waiting[0].result?.failureKind == .cancelled)
      try server.release()
      #expect(try #require(await held.result).get().status == 200)
      #expect(try #require(await waiting[1].result).get().status == 200)
      #expect(await transport.send(echoRequest(server)).failureKind == nil)
    }
  }

  @Test("Stopping fails everything in flight and waiting before it returns; later requests are refused")
  func stop() async throws {
    try await withServer({ $0.maxConnections = 2 }) { server, transport in
      let url = try server.url("/hold")
      let started = (0..<4).map { _ in StartedRequest(HTTPRequest(.get, url), with: transport) }
      try server.waitForRequests(2, to: "/hold")
      transport.stop()
      for request in started { #expect(await request.result?.failureKind == .stopped) }
      #expect(await transport.send(HTTPRequest(.get, url)).failureKind == .stopped)
      transport.stop()
    }
  }

  @Test("Stopping from a completion does not wait for itself")
  func stopFromCompletion() async throws {
    try await withServer { server, transport in
      let url = try server.url("/echo")
      await withCheckedContinuation { continuation in
        transport.start(HTTPRequest(.get, url), id: CurlTransport.nextID()) { _ in
          transport.stop()
          continuation.resume()
        }
      }
      #expect(await transport.send(HTTPRequest(.get, url)).failureKind == .stopped)
    }
  }

  @Test("An id that is in use is refused, and its owner is not disturbed")
  func duplicateID() async throws {
    try await withServer { server, transport in
      let held = StartedRequest(HTTPRequest(.get, try server.url("/hold")), with: transport)
      #expect(await transport.send(echoRequest(server), id: held.id).failureKind == .other)
      try server.release()
      #expect(try #require(await held.result).get().status == 200)
    }
  }

  private func echoRequest(_ server: HTTPSTestServer) -> HTTPRequest {
    HTTPRequest(.get, "https://127.0.0.1:\(server.ports["good"] ?? 0)/echo")
  }
}

/// One method with one kind of body.
struct HTTPRequestCase: Sendable, CustomTestStringConvertible {
  var method: HTTPRequest.Method
  var body: HTTPRequest.Body
  var byteCount: Int
  var testDescription: String { "\(method.rawValue) with \(byteCount) bytes" }

  static let all: [HTTPRequestCase] = [
    HTTPRequestCase(method: .head, body: .none, byteCount: 0),
    HTTPRequestCase(method: .get, body: .none, byteCount: 0),
    HTTPRequestCase(method: .delete, body: .none, byteCount: 0),
    HTTPRequestCase(method: .post, body: .none, byteCount: 0),
    HTTPRequestCase(method: .post, body: .bytes(Array("{}".utf8)), byteCount: 2),
    HTTPRequestCase(method: .put, body: .none, byteCount: 0),
    HTTPRequestCase(method: .put, body: .bytes([]), byteCount: 0),
    HTTPRequestCase(method: .put, body: .bytes(Array(repeating: 7, count: 200_000)), byteCount: 200_000),
  ]
}

/// A loopback port that is taken but does not answer: without listening, connections are refused; with it, they are
/// accepted by the kernel and no server speaks.
private final class BoundPort {
  let number: UInt16
  private let descriptor: Int32

  init(listening: Bool = false) throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let descriptor = descriptor
    let isBound = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
      }
    }
    try #require(isBound && (!listening || listen(descriptor, 1) == 0), "errno \(errno)")
    number = UInt16(bigEndian: address.sin_port)
  }

  deinit { close(descriptor) }
}

/// SHA-256 by the sha256sum of the machine: an opinion that is independent of the project's own code.
private func sha256Hex(_ body: TestBody) -> String { sha256Hex(Array(body.bytes)) }

func sha256Hex(_ bytes: [UInt8]) -> String {
  let process = Process()
  process.executableURL = URL(filePath: "/usr/bin/sha256sum")
  let input = Pipe()
  let output = Pipe()
  process.standardInput = input
  process.standardOutput = output
  do {
    try process.run()
    try input.fileHandleForWriting.write(contentsOf: Data(bytes))
    try input.fileHandleForWriting.close()
    let text = try output.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    return String(decoding: text.prefix(64), as: UTF8.self)
  } catch {
    return "sha256sum failed: \(error)"
  }
}
