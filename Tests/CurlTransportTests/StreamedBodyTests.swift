import Foundation
import Synchronization
import Testing
import TransferModel

@testable import CurlTransport

/// Gives a body in pieces, each only after it was asked for in vain, as a file that is slower than the network.
private final class SlowStream: StreamedBytes {
  private struct State {
    var next = 0
    var isReady = false
    var whenReady: (@Sendable () -> Void)?
    var begins = 0
    var ends = 0
  }

  let pieces: [TestBody]
  let byteCount: Int
  /// It fails in place of this piece.
  private let failingPiece: Int?
  /// How long each piece takes to come.
  private let delay: DispatchTimeInterval
  private let state = Mutex(State())
  private let queue = DispatchQueue(label: "slow stream")

  init(pieces: [Int], failingPiece: Int? = nil, delay: DispatchTimeInterval = .nanoseconds(0)) {
    self.delay = delay
    self.pieces = pieces.map { TestBody(count: $0) }
    self.failingPiece = failingPiece
    byteCount = pieces.reduce(0, +)
  }

  var begins: Int { state.withLock { $0.begins } }
  var ends: Int { state.withLock { $0.ends } }

  func begin(whenReady: @escaping @Sendable () -> Void) {
    state.withLock { state in
      state.next = 0
      state.isReady = false
      state.whenReady = whenReady
      state.begins += 1
    }
  }

  func next() -> StreamedBytesSupply {
    state.withLock { state in
      guard state.isReady else {
        let wake = state.whenReady
        queue.asyncAfter(deadline: .now() + delay) { [self] in
          self.state.withLock { $0.isReady = true }
          wake?()
        }
        return .later
      }
      state.isReady = false
      defer { state.next += 1 }
      if state.next == failingPiece { return .failed("the file changed") }
      return .bytes(pieces[state.next])
    }
  }

  func end() { state.withLock { $0.ends += 1 } }
}

extension CurlTransportTests {
  private func request(_ url: String, _ stream: SlowStream, counter: SentByteCounter? = nil) -> HTTPRequest {
    HTTPRequest(
      .post, url, body: .pieces([.bytes(Array("head".utf8)), .streamed(stream), .bytes(Array("tail".utf8))]),
      sentBytes: counter)
  }

  @Test("A body that comes while it is sent arrives whole, with its length stated beforehand")
  func streamsBody() async throws {
    try await withServer { server, transport in
      let stream = SlowStream(pieces: [1, 700_000, 3, 1 << 20, 4096])
      let counter = SentByteCounter()
      let response = try await transport.send(request(try server.url("/echo"), stream, counter: counter)).get()
      let echo = try JSONDecoder().decode(Echo.self, from: Data(response.body))
      let bytes = Array("head".utf8) + stream.pieces.flatMap { Array($0.bytes) } + Array("tail".utf8)
      #expect(echo.bytes == bytes.count && echo.sha256 == sha256Hex(bytes))
      #expect(echo.values("content-length") == ["\(bytes.count)"])
      #expect(echo.values("transfer-encoding") == [])
      #expect(counter.value == UInt64(bytes.count))
      #expect(stream.begins == 1 && stream.ends == 1)
    }
  }

  @Test("Several streams at once do not disturb each other")
  func streamsSeveralBodies() async throws {
    try await withServer { server, transport in
      let url = try server.url("/echo")
      let streams = (1...6).map { SlowStream(pieces: Array(repeating: 100_000 + $0, count: 20)) }
      let started = streams.map { StartedRequest(request(url, $0), with: transport) }
      for (stream, one) in zip(streams, started) {
        let response = try #require(await one.result).get()
        #expect(try JSONDecoder().decode(Echo.self, from: Data(response.body)).bytes == stream.byteCount + 8)
      }
    }
  }

  @Test("A body that fails breaks the request off before its end")
  func failingStream() async throws {
    try await withServer { server, transport in
      let stream = SlowStream(pieces: [300_000, 300_000], failingPiece: 1)
      let result = await transport.send(request(try server.url("/echo"), stream))
      guard case .failure(let error) = result else {
        Issue.record("\(result)")
        return
      }
      #expect(error.kind == .bodyUnavailable && error.message == "the file changed" && !error.mayHaveArrived)
      #expect(stream.ends == 1)
    }
  }

  @Test("A disk that takes its time is no stall of the network")
  func slowDisk() async throws {
    try await withServer { server, transport in
      let stream = SlowStream(pieces: [1000, 1000], delay: .milliseconds(1500))
      var request = request(try server.url("/echo"), stream)
      request.limits.stall = .milliseconds(500)
      #expect(try await transport.send(request).get().status == 200)
    }
  }

  @Test("What must not be sent twice by itself fails on a dead connection")
  func sentOnce() async throws {
    try await withServer { server, transport in
      var request = HTTPRequest(.post, try server.url("/closes-reused"), body: .pinned(TestBody(count: 1 << 20)))
      request.isSentOnce = true
      #expect(try await transport.send(request).get().status == 200)
      guard case .failure(let error) = await transport.send(request) else {
        Issue.record("it was sent again")
        return
      }
      #expect(error.kind == .connectionLost)
    }
  }

  @Test("A request without a body is sent once, too, and may have arrived")
  func sentOnceWithoutBody() async throws {
    try await withServer { server, transport in
      var request = HTTPRequest(.post, try server.url("/closes-reused"), body: .bytes([]))
      #expect(try await transport.send(request).get().status == 200)
      #expect(try await transport.send(request).get().status == 200)
      request.isSentOnce = true
      guard case .failure(let error) = await transport.send(request) else {
        Issue.record("it was sent again")
        return
      }
      #expect(error.kind == .connectionLost && error.mayHaveArrived)
    }
  }

  /// libcurl sends a request anew by itself, and what it then fails with is what it says: that there is no connection.
  @Test("Regression: what a server had read when it died counted as never sent", arguments: [0, 100_000])
  func readByAServerThatDied(byteCount: Int) async throws {
    try await withServer { server, transport in
      let body: HTTPRequest.Body = byteCount == 0 ? .none : .pinned(TestBody(count: byteCount))
      let request = HTTPRequest(.put, try server.url("/dies-reused"), body: body)
      #expect(try await transport.send(request).get().status == 200)
      guard case .failure(let error) = await transport.send(request) else {
        Issue.record("there was an answer")
        return
      }
      #expect(error.kind == .connectionLost && error.mayHaveArrived, "\(error)")
      // Now it is so.
      guard case .failure(let refused) = await transport.send(request) else {
        Issue.record("there was an answer")
        return
      }
      #expect(refused.kind == .connectFailed && !refused.mayHaveArrived, "\(refused)")
    }
  }

  @Test("Whether all of a request was on its way is known", arguments: [("body", false), ("response", true)])
  func knowsWhatMayHaveArrived(place: String, mayHaveArrived: Bool) async throws {
    try await withServer { server, transport in
      let url = try server.url("/closes-in-mid-\(place)")
      guard
        case .failure(let error) = await transport.send(
          HTTPRequest(.put, url, body: .pinned(TestBody(count: 16 << 20))))
      else {
        Issue.record("there was an answer")
        return
      }
      #expect(error.mayHaveArrived == mayHaveArrived)
    }
  }
}

@Suite("CurlProxy and client certificates")
struct WayTests {
  private func problem(_ change: (inout CurlTransportConfiguration) -> Void) -> String {
    var configuration = CurlTransportConfiguration()
    change(&configuration)
    do {
      try configuration.validate()
      return ""
    } catch {
      return error.description
    }
  }

  @Test("A proxy's address is checked", arguments: ["ftp://a", "a:3128", "http://u:p@a:1", "socks5h://"])
  func proxyAddress(url: String) {
    #expect(problem { $0.proxy.url = url }.contains("proxy"))
  }

  @Test("Usual proxies are accepted", arguments: ["http://a:3128", "HTTPS://a", "socks5h://[::1]:1080", "socks4a://a"])
  func usualProxies(url: String) {
    #expect(problem { $0.proxy.url = url } == "")
  }

  @Test("A proxy's password is not shown")
  func passwordIsHidden() {
    let proxy = CurlProxy(url: "http://a", user: "u", password: "hidden-word")
    #expect(!"\(proxy)".contains("hidden-word"))
    var text = ""
    dump(proxy, to: &text)
    #expect(!text.contains("hidden-word"))
  }

  @Test("A client certificate that is none is found at the start")
  func clientCertificate() {
    for path in ["/nonexistent/client.pem", "/dev/null"] {
      #expect(problem { $0.clientCertificate = ClientCertificate(certificateFile: path) }.contains(path))
    }
  }
}
