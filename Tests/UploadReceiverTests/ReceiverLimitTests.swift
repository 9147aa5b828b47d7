import Glibc
import Logging
import NIOCore
import Synchronization
import ReceiverCore
import Testing

@testable import UploadReceiver

/// Limits that take too long, or too much memory, with their real values: a receiver in this process with small ones.
@Suite struct ReceiverLimitTests {
  private func serve(_ steps: String, _ adjust: (inout ReceiverConfiguration) -> Void) async throws {
    let folder = try TemporaryFolder()
    let setup = try DevelopmentSetup.prepare(root: folder.path)
    var configuration = ReceiverConfiguration(
      root: folder.path, host: "127.0.0.1", port: 0, certificateChainPEM: setup.certificateChainPEM,
      privateKeyPEM: setup.privateKeyPEM, credentials: [Credential(token: setup.token, root: "\(folder.path)/files")])
    adjust(&configuration)
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    let server = try ReceiverServer(configuration, logger: logger)
    let (stopped, stop) = AsyncStream<Void>.makeStream()
    let (ready, becameReady) = AsyncStream<Int>.makeStream()
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask {
        try await server.run(onReady: { becameReady.yield($0) }, until: { for await _ in stopped { return } })
      }
      for await port in ready {
        try await ReceiverProgram.runClient(
          steps, port: port, root: folder.path, token: setup.token, ca: setup.authorityPath, pid: getpid(), log: "",
          sourceLocation: #_sourceLocation)
        break
      }
      stop.finish()
      try await tasks.waitForAll()
    }
  }

  @Test func idleConnections_outliveTheKeepAliveOfClients() {
    #expect(ConnectionLimits().idle > .seconds(60))
    #expect(ConnectionLimits().bodyIdle == .seconds(30))
  }

  @Test func slowBody_isAnsweredWith408AndCutOff() async throws {
    try await serve(
      #"""
      s = Session()
      data = some_bytes(CS)
      sock = raw()
      sock.sendall(head("PUT", s.path(0), {**s.headers(0, data), "Content-Length": CS}) + data[:1000])
      status, body, headers = answer(sock)
      assert status == 408 and b"problem:timeout" in body, (status, body)
      assert sock.recv(1) == b""
      expect(s.put(0, data), 201)
      """#
    ) { $0.connections.bodyIdle = .milliseconds(300) }
  }

  @Test func bodyThatTakesForEver_isCutOffThoughItNeverStandsStill() async throws {
    try await serve(
      #"""
      s = Session()
      data = some_bytes(CS)
      sock = raw()
      sock.sendall(head("PUT", s.path(0), {**s.headers(0, data), "Content-Length": CS}))
      over = threading.Event()
      def drip():
          while not over.wait(0.02): sock.sendall(b"x")
      dripping = threading.Thread(target=drip, daemon=True)
      dripping.start()
      assert answer(sock)[0] == 408
      over.set()
      """#
    ) { $0.connections.bodyTotal = .milliseconds(500) }
  }

  @Test func moreBodiesThanMemory_waitForTheirTurn() async throws {
    try await serve(
      #"""
      s = Session()
      data = some_bytes(CS)
      first = raw()
      first.sendall(head("PUT", s.path(0), {**s.headers(0, data), "Content-Length": CS}) + data[:-1])
      until(lambda: stats()["chunk_requests_in_flight_max"] >= 1)
      second = raw()
      second.sendall(head("PUT", s.path(1), {**s.headers(1, data), "Content-Length": CS, "Expect": "100-continue"}))
      until(lambda: stats()["chunk_requests_in_flight_max"] >= 2)
      second.settimeout(0.3)
      try:
          second.recv(1)
          raise SystemExit("there is memory for one body only")
      except TimeoutError: pass
      second.settimeout(DEADLINE)
      first.sendall(data[-1:])
      assert answer(first)[0] == 201
      assert second.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
      second.sendall(data)
      assert answer(second)[0] == 201
      """#
    ) { $0.bodyMemoryBytes = 400_000 }
  }

  @Test func expiredSession_isAnsweredWith410() async throws {
    try await serve(
      #"""
      s = Session()
      expect(s.put(0, b"x"), 201)
      until(lambda: call("GET", f"/v1/uploads/{s.id}")[0] == 410)
      for answer in [call("GET", f"/v1/uploads/{s.id}"), s.put(0, b"x"), s.commit(b"x"), call("DELETE", f"/v1/uploads/{s.id}")]:
          expect(answer, 410, "session-expired")
      expect(call("GET", "/v1/uploads/0123456789abcdef"), 404, "not-found")
      assert expect(s.open(), 201)["id"] != s.id
      until(lambda: s.id not in os.listdir(ROOT + "/.uploads/sessions"))
      """#
    ) { $0.limits.sessionMaxAge = 1500 }
  }

  @Test func smallPieces_areCopiedTogether() throws {
    var body = ReceivedBody(expectedBytes: 1 << 20)
    var expected: [UInt8] = []
    for number in 0..<3000 {
      let piece = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: number % 400)
      expected += piece
      body.append(ByteBuffer(bytes: piece))
    }
    let large = [UInt8](repeating: 7, count: 100_000)
    body.append(ByteBuffer(bytes: large))
    body.append(ByteBuffer(bytes: [1, 2, 3]))
    expected += large + [1, 2, 3]
    var found: [UInt8] = []
    var pieceCount = 0
    try body.forEachPiece { (piece) throws(StoreFailure) in
      found.append(contentsOf: piece)
      pieceCount += 1
    }
    #expect(found == expected && body.byteCount == expected.count)
    #expect(pieceCount <= 6)
  }
}
