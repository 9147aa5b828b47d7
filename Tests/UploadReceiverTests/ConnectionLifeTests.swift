import NIOCore
import Promises
import Testing

@testable import UploadReceiver

/// A client that says nothing, or does not listen, holds a connection for a bounded time, and not everyone's.
@Suite struct ConnectionLifeTests: ReceiverWithLimits {
  @Test(
    "Regression: HTTP/2 connections that end, or break the protocol, are closed", .promises("P101"),
    arguments: [
      "sock.shutdown(socket.SHUT_WR)",
      "sock.close()",
      "sock.sendall(frame(GOAWAY, bytes(8)))",
      "sock.sendall(frame(0, b'data on no stream', stream=1))",
      "sock.sendall(frame(SETTINGS, b'odd'))",
      "sock.sendall(frame(1, bytes([255] * 20), flags=4, stream=1))",
      "sock.sendall(bytes(100000))",
    ])
  func endedConnection_makesRoomForAnother(ending: String) async throws {
    try await serve(
      #"""
      kept = []
      for _ in range(3):
          for _ in range(4):
              sock = raw2()
              try: exec(ENDING)
              except OSError: pass
              kept.append(sock)
          # There is room for four connections.
          expect(call("HEAD", "/v1/"), 204)
      """#.replacing("ENDING", with: "\"\"\"\(ending)\"\"\"")
    ) {
      $0.connectionsMax = 4
      $0.connectionsPerPeer = 100
    }
  }

  @Test(
    "Regression: the idle time of HTTP/2 runs from the accept on, and waits for no answer", .promises("P101"),
    arguments: ["raw2()", "asked()", "unspoken()", "raw()"])
  func idleConnection_isClosed(kind: String) async throws {
    try await serve(
      #"""
      def unspoken():
          return H2.wrap_socket(socket.create_connection(("127.0.0.1", PORT), timeout=DEADLINE), server_hostname="localhost")
      def asked():
          sock = raw2()
          sock.sendall(get2("/v1/capabilities", 1, TOKEN))
          return sock
      until_closed(KIND)
      """#.replacing("KIND", with: kind)
    ) { $0.connections.idle = .milliseconds(200) }
  }

  @Test(
    "Regression: a client that does not read its answers is cut off", .promises("P102", "SE10"),
    arguments: [3, 40])
  func unreadAnswers_endTheConnection(count: Int) async throws {
    try await serve(
      #"""
      # SETTINGS_INITIAL_WINDOW_SIZE = 0: no byte of an answer may be sent.
      sock = raw2(struct.pack(">HI", 4, 0))
      for n in range(COUNT): sock.sendall(get2("/v1/capabilities", 2 * n + 1, TOKEN))
      until_closed(sock)
      until(lambda: b"\nuploadfs_receiver_connections 1\n" in call("GET", "/metrics")[1])
      """#.replacing("COUNT", with: "\(count)")
    ) {
      $0.connections.answer = count > 16 ? .hours(1) : .milliseconds(300)
      $0.connections.crowdedAnswer = .milliseconds(300)
    }
  }

  @Test("Regression: the time of answers grows with their bytes and shrinks with their number")
  func unreadAnswers_haveADeadline() {
    final class Name {}
    let names = (0..<20).map { _ in Name() }
    let start = NIODeadline.now()
    var limits = ConnectionLimits()
    limits.answerBytesMax = 1000
    var answers = UnreadAnswers(limits)
    #expect(answers.deadline == nil)
    answers.begin(ObjectIdentifier(names[0]), at: start)
    #expect(answers.deadline == start + limits.answer)
    answers.grow(ObjectIdentifier(names[0]), by: limits.answerBytesPerSecond * 10)
    #expect(answers.deadline == start + limits.answer + .seconds(10))
    #expect(!answers.isTooMuch)
    for name in names.dropFirst() { answers.begin(ObjectIdentifier(name), at: start + .seconds(1)) }
    #expect(answers.isTooMuch)
    #expect(answers.deadline == start + .seconds(1) + limits.crowdedAnswer)
    for name in names { answers.end(ObjectIdentifier(name)) }
    #expect(answers.deadline == nil && !answers.isTooMuch)
  }

  @Test("Regression: one address holds no more than its share of the connections", .promises("P103", "SE9"))
  func connectionsOfOnePeer_areBounded() async throws {
    try await serve(
      #"""
      kept = [raw() for _ in range(3)]
      try:
          more = raw()
          assert more.recv(1) == b""
      except (ConnectionError, ssl.SSLError): pass
      kept.pop().close()
      def gets_in():
          try: return call("HEAD", "/v1/")[0] == 204
          except (ConnectionError, ssl.SSLError): return False
      until(gets_in)
      """#
    ) { $0.connectionsPerPeer = 3 }
  }

  @Test("Regression: what is no request, or has not one Host, is answered with a problem", .promises("P9"))
  func malformedRequests_areAnsweredWithProblems() async throws {
    try await serve(
      #"""
      hosts = [b"", b"Host: a\r\nHost: a\r\n", b"Host: a\r\nHost: b\r\n"]
      requests = [b"GET /v1/capabilities HTTP/1.1\r\n" + host + b"\r\n" for host in hosts]
      requests += [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nx: " + b"y" * 20000 + b"\r\n\r\n"]
      for request in requests:
          sock = raw()
          sock.sendall(request)
          status, body, headers = answer(sock)
          assert status == 400 and headers["Content-Type"] == "application/problem+json", (request[:60], status, body)
          assert json.loads(body)["type"] == "urn:uploadfs:problem:bad-request", body
          until_closed(sock)
      sock = raw()
      sock.sendall(b"GET /v1/capabilities HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n")
      assert answer(sock)[0] == 200
      sock = raw2()
      fields = [(":method", "GET"), (":scheme", "https"), (":path", "/v1/capabilities"), ("authorization", "Bearer " + TOKEN)]
      sock.sendall(frame(1, hpack(fields), flags=5, stream=1))
      # The answer's first field is its status, from the static table: 400 is number 12.
      seen = b""
      while b"bad-request" not in seen: seen += sock.recv(65536)
      """#
    ) { _ in }
  }

  @Test("Regression: a peer is an IPv4 address or the /64 of an IPv6 address")
  func peers_areNetworks() throws {
    let peers = PeerConnections(connectionsMax: 1)
    func enter(_ text: String) throws -> PeerConnections.Peer? {
      peers.enter(try SocketAddress(ipAddress: text, port: 1))
    }
    let first = try #require(try enter("192.0.2.1"))
    #expect(try enter("192.0.2.1") == nil)
    #expect(try enter("::ffff:192.0.2.1") == nil)
    #expect(try enter("192.0.2.2") != nil)
    #expect(try enter("2001:db8::1") != nil)
    #expect(try enter("2001:db8::2:3") == nil)
    #expect(try enter("2001:db8:0:1::1") != nil)
    peers.leave(first)
    #expect(try enter("192.0.2.1") != nil)
  }

  @Test(
    "Regression: the body of a request without a token is not read, whatever the answer",
    .promises("P103", "SE9"))
  func unknownClient_isClosedAndNotDrained() async throws {
    try await serve(
      #"""
      TOKEN = "wrong"
      for method, path, status in [
          ("PUT", "/v1/files/a", 401), ("POST", "/nothing", 404), ("HEAD", "/v1/", 204), ("GET", "/metrics", 200)
      ]:
          sock = raw()
          # What waits in the buffers of both sides, some megabytes, is sent and not read.
          sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
          sock.sendall(head(method, path, {"Content-Length": 40 << 20}))
          assert sock.recv(12).split()[1] == str(status).encode(), path
          sent = 0
          try:
              while sent < 32 << 20: sock.sendall(bytes(65536)); sent += 65536
          except (OSError, ssl.SSLError): pass
          assert sent < 8 << 20, (path, sent)
      """#
    ) { _ in }
  }
}
