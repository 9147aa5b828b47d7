import NIOCore
import Promises
import ReceiverCore
import Testing

@testable import UploadReceiver

/// Several chunks in one request, over real sockets.
@Suite struct RunTests: ReceiverWithLimits {
  @Test(.promises("P33b", "P33d", "P72")) func run_storesEachChunk() async throws {
    try await ReceiverProgram().run(
      #"""
      data = some_bytes(CS, 1) + some_bytes(CS, 2) + some_bytes(CS, 3) + some_bytes(1000, 4)
      s = Session()
      lz4 = run_member(s, 1, data[CS:2 * CS], lz4_run(CS, 2), X_Chunk_Encoding="lz4")
      run = run_member(s, 3, data[3 * CS:]) + run_member(s, 0, data[:CS]) + lz4
      members = answers_of(send_run(s, run))
      assert members == [(201, b"")] * 3, members
      assert s.held()["held"] == [[0, 1], [3, 3]]
      assert [m[0] for m in answers_of(send_run(s, run + run_member(s, 2, data[2 * CS:3 * CS])))] == [200, 200, 200, 201]
      expect(s.commit(data), 200)
      assert read("scan.mov") == data
      counts = stats()
      assert (counts["runs_received"], counts["chunks_received"], counts["chunks_stored"], counts["duplicate_chunks"]) == (2, 7, 4, 3), counts
      assert counts["chunk_requests_in_flight_max"] == 1, counts
      upload = counts["uploads"][0]
      assert (upload["streams_max"], upload["chunks_stored"], upload["bytes_received"]) == (1, 4, len(data) * 2 - CS), upload
      assert upload["requests"] == 5, upload
      assert b"uploadfs_receiver_runs_received_total 2\n" in call("GET", "/metrics")[1]
      """#)
  }

  @Test(.promises("P13", "P14")) func runs_areAnnounced() async throws {
    try await ReceiverProgram().run(
      #"""
      capabilities = call("GET", "/v1/capabilities")
      assert (capabilities[1]["run_chunks_max"], capabilities[1]["run_bytes_max"]) == (128, 32 << 20)
      s = Session()
      for answer in [call("HEAD", "/v1/"), capabilities, s.opened, s.open(), put_file("a", b"x", "k"), put_file("a", b"x", "k")]:
          assert answer[2]["X-Run-Bytes-Max"] == str(32 << 20), answer[2].items()
      assert "X-Run-Bytes-Max" not in call("GET", "/v1/stats")[2]
      """#)
  }

  @Test(.promises("P33f")) func runThatBreaksOff_leavesTheChunksThatWereComplete() async throws {
    try await ReceiverProgram().run(
      #"""
      chunks = [some_bytes(CS, n) for n in range(4)]
      for cut in ["in a body", "in a head", "between", "without close_notify"]:
          s = Session()
          members = [run_member(s, n, chunks[n]) for n in range(4)]
          sock = raw()
          sock.sendall(run_head(s, sum(map(len, members))) + members[0] + members[1])
          if cut == "in a body": sock.sendall(members[2][:-1])
          if cut == "in a head": sock.sendall(members[2][:20])
          # What is complete is stored before the run ends.
          until(lambda: s.held()["held"] == [[0, 1]])
          if cut == "without close_notify": sock.shutdown(socket.SHUT_RDWR)
          sock.close()
          until(lambda: "\nuploadfs_receiver_concurrent_chunks 0\n" in call("GET", "/metrics")[1].decode())
          assert s.held()["digests"] == {"0": sha(chunks[0]).hex(), "1": sha(chunks[1]).hex()}
          assert answers_of(send_run(s, members[2] + members[3])) == [(201, b"")] * 2
          expect(s.commit(b"".join(chunks)), 200)
          assert read("scan.mov") == b"".join(chunks)
      assert stats()["runs_received"] == 4
      """#)
  }

  @Test(.promises("P33c", "P33g")) func runAsAWhole_isRefused_andWhatWasBeforeStays() async throws {
    try await ReceiverProgram().run(
      #"""
      s, one = Session(), some_bytes(10, 1)
      good = run_member(s, 0, one)
      path = f"/v1/uploads/{s.id}/chunks"
      expect(call("POST", path, good), 415, "bad-request", "Content-Type")
      expect(call("POST", path, iter([good]), {"Content-Type": BUNDLE}), 411, "bad-request", "Content-Length")
      expect(call("GET", path), 405, "method-not-allowed")
      expect(send_run(s, b""), 400, "bad-request", "body")
      assert s.held()["held"] == []
      sock = raw()
      sock.sendall(run_head(s, (34 << 20) + 1))
      assert answer(sock)[0] == 413
      cases = [(good + b"nonsense\r\n\r\n", 400, "bad-request"), (good + good[:30], 400, "bad-request"),
          (good + run_member(s, 1, one, X_Chunk_Size=str(32 << 20)), 413, "too-large"),
          (good + b"PUT / HTTP/1.1\r\nX: " + b"x" * 20000 + b"\r\n\r\n", 413, "too-large")]
      for body, status, kind in cases:
          t = Session()
          body = body.replace(s.id.encode(), t.id.encode())
          first = run_member(t, 0, one)
          expect(send_run(t, first + body[len(good):]), status, kind)
          assert t.held()["held"] == [[0, 0]]
      t = Session()
      many = expect(send_run(t, b"".join(run_member(t, n, b"x") for n in range(129))), 413, "too-large")
      assert many["limit"] == 128 and t.held()["held"] == [[0, 127]]
      t.id, known = "unknown", t.id
      expect(send_run(t, good), 404, "not-found")
      t.id = known
      expect(call("DELETE", f"/v1/uploads/{t.id}"), 204)
      expect(send_run(t, good), 404, "not-found")
      expect(s.put(0, one), 201)
      expect(s.commit(one), 200)
      expect(send_run(s, good), 409, "conflict")
      """#)
  }

  @Test(.promises("P33e")) func members_failByThemselves_asTheirRequestsWould() async throws {
    try await ReceiverProgram().run(
      #"""
      s, alone, other = Session(), Session(), Session()
      data = some_bytes(5000)
      cases = [dict(X_Chunk_SHA256="00" * 32), dict(X_Chunk_CRC32C="00000000"), dict(X_Chunk_HMAC="00" * 32),
          dict(X_Chunk_Size="4999"), dict(X_Chunk_Size="x"), dict(X_Chunk_Size="0"), dict(X_Chunk_Size=str(CS + 1)),
          dict(X_Chunk_Encoding="zip"), dict(X_Chunk_Encoding="lz4"), dict(X_Chunk_Encoding="lz4", X_Chunk_Size="100000")]
      run = b"".join(run_member(s, 2 * n, some_bytes(100, n)) + run_member(s, 2 * n + 1, data, **changes) for n, changes in enumerate(cases))
      run += run_member(s, 200000, data) + run_member(other, 0, data) + member_to("/v1/files/x", data, s.headers(0, data))
      answers = answers_of(send_run(s, run))
      assert len(answers) == 2 * len(cases) + 3
      for n, changes in enumerate(cases):
          expected = alone.put(2 * n + 1, data, **changes)
          assert answers[2 * n] == (201, b""), answers[2 * n]
          status, problem = answers[2 * n + 1]
          assert status == expected[0] >= 400 and json.loads(problem) == expected[1], (changes, problem, expected)
      assert [a[0] for a in answers[-3:]] == [413, 400, 400], answers[-3:]
      assert json.loads(answers[-2][1])["field"] == "target"
      assert s.held()["held"] == [[2 * n, 2 * n] for n in range(len(cases))]
      assert other.held()["held"] == [] and published() == set()
      """#)
  }

  @Test(.promises("P33h", "P40")) func commit_waitsForARunThatArrives() async throws {
    try await ReceiverProgram().run(
      #"""
      chunks = [some_bytes(CS, n) for n in range(3)]
      s = Session()
      members = [run_member(s, n, chunks[n]) for n in range(3)]
      sock = raw()
      sock.sendall(run_head(s, sum(map(len, members))) + members[0])
      until(lambda: s.held()["held"] == [[0, 0]])
      answers = []
      commit = threading.Thread(target=lambda: answers.append(s.commit(b"".join(chunks))))
      commit.start()
      # Longer than a commit waits where nothing is on its way.
      commit.join(2.5)
      assert not answers, answers
      sock.sendall(members[1] + members[2])
      assert answer(sock)[0] == 200
      commit.join()
      expect(answers[0], 200)
      assert read("scan.mov") == b"".join(chunks)
      """#)
  }

  @Test("A run takes memory for one chunk at a time", .promises("P24")) func memory_isThatOfAChunk() async throws {
    try await serve(
      #"""
      chunks = [some_bytes(CS, n) for n in range(16)]
      s = Session()
      lz4 = lambda n: run_member(s, n, chunks[n], lz4_run(CS, n), X_Chunk_Encoding="lz4")
      run = b"".join(lz4(n) if n % 4 == 3 else run_member(s, n, chunks[n]) for n in range(16))
      answers = []
      def send(): answers.append([a[0] for a in answers_of(send_run(s, run))])
      threads = [threading.Thread(target=send) for _ in range(3)]
      for t in threads: t.start()
      for t in threads: t.join()
      assert len(answers) == 3 and all(set(a) <= {200, 201} for a in answers), answers
      expect(s.commit(b"".join(chunks)), 200)
      # All of it is given back.
      assert b"uploadfs_receiver_body_memory_free_bytes 800000\n" in call("GET", "/metrics")[1]
      """#
    ) { $0.bodyMemoryBytes = 800_000 }
  }

  @Test(.promises("P33f", "P33g", "P104")) func runThatLosesItsMemory_keepsWhatWasComplete() async throws {
    try await serve(
      #"""
      s, data = Session(), some_bytes(CS)
      members = [run_member(s, n, data) for n in range(2)]
      silent = [raw() for _ in range(3)]
      silent[0].sendall(run_head(s, len(members[0]) * 2) + members[0] + members[1][:-CS + 1])
      until(lambda: s.held()["held"] == [[0, 0]])
      for n, sock in enumerate(silent[1:], 5):
          sock.sendall(head("PUT", s.path(n), {**s.headers(n, data), "Content-Length": CS}) + data[:1 + n])
      until(lambda: stats()["chunk_requests_in_flight_max"] >= 3)
      t = Session(token="other-token")
      expect(t.put(0, data), 201)
      status, body, headers = answer(silent[0])
      assert status == 503 and b"problem:busy" in body, (status, body)
      assert s.held()["held"] == [[0, 0]]
      """#, tokens: ["other-token"]
    ) {
      $0.bodyMemoryBytes = 800_000
      // However busy this machine is: nothing here ends by standing still.
      $0.connections.bodyIdle = .seconds(600)
    }
  }

  @Test(.promises("P33f", "P33g")) func runThatStandsStill_keepsWhatWasComplete() async throws {
    try await serve(
      #"""
      s, data = Session(), some_bytes(CS)
      members = [run_member(s, n, data) for n in range(2)]
      sock = raw()
      sock.sendall(run_head(s, len(members[0]) * 2) + members[0] + members[1][:-10])
      assert answer(sock)[0] == 408
      assert s.held()["held"] == [[0, 0]]
      """#
    ) {
      $0.connections.bodyIdle = .seconds(2)
    }
  }

  @Test func run_travelsOverHTTP2() async throws {
    try await ReceiverProgram().run(
      #"""
      import subprocess
      s = Session()
      body = b"".join(run_member(s, n, some_bytes(CS, n)) for n in range(64))
      arguments = ["curl", "-sS", "--cacert", CA, "--http2", "-H", "Authorization: Bearer " + TOKEN, "-H", "Content-Type: " + BUNDLE,
          "--data-binary", "@-", "-w", "%{http_code} %{http_version}", f"https://localhost:{PORT}/v1/uploads/{s.id}/chunks"]
      done = subprocess.run(arguments, input=body, capture_output=True, timeout=DEADLINE)
      assert done.stdout.endswith(b"200 2"), (done.stdout, done.stderr)
      assert done.stdout.count(b"HTTP/1.1 201 Created\r\n") == 64
      assert s.held()["held"] == [[0, 63]]
      """#)
  }

  /// The one who reads waits for room and for all answers, in this order; the answers come in any.
  @Test func replies_comeInAnyOrder_andMakeRoom() async {
    let replies = RunReplies()
    let places = (0..<3).map { _ in replies.add(bytes: RunReplies.bytesMax / 2) }
    await withTaskGroup(of: Void.self) { tasks in
      tasks.addTask { await replies.waitForRoom(1) }
      tasks.addTask {
        replies.answered(places[2], bytes: RunReplies.bytesMax / 2, Answer(status: 202))
        replies.answered(places[0], bytes: RunReplies.bytesMax / 2, Answer(status: 200))
      }
    }
    await withTaskGroup(of: Void.self) { tasks in
      tasks.addTask { #expect(await replies.all.map(\.status) == [200, 201, 202]) }
      tasks.addTask { replies.answered(places[1], bytes: RunReplies.bytesMax / 2, Answer(status: 201)) }
    }
    // A chunk that is larger than that alone does not wait for ever.
    await replies.waitForRoom(RunReplies.bytesMax * 2)
  }
}
