import Promises
import Testing

@testable import UploadReceiver

/// Chunks that are zeros, over real sockets.
@Suite struct ZerosTests {
  @Test(.promises("P33i", "P33j", "P33k")) func zeros_areHolesOfThePublishedFile() async throws {
    try await ReceiverProgram().run(
      #"""
      data = some_bytes(CS, 1) + bytes(100 * CS) + some_bytes(CS, 2) + bytes(CS) + some_bytes(1000, 4)
      s = Session()
      ranges = [[1, 100], [102, 102]]
      assert send_zeros(s, ranges)[:2] == (201, b"")
      assert send_zeros(s, ranges)[0] == 200 and send_zeros(s, [[5, 6]])[0] == 200
      for n in [0, 101, 103]: expect(s.put(n, data[n * CS:(n + 1) * CS]), 201)
      held = s.held()
      assert held["held"] == [[0, 103]] and len(held["digests"]) == 104, held["held"]
      assert held["digests"]["50"] == sha(bytes(CS)).hex() and held["chain_tip"] == tip_of(s.id, [sha(data[i:i + CS]) for i in range(0, len(data), CS)]).hex()
      os.kill(PID, 0)
      expect(s.commit(data), 200)
      assert read("scan.mov") == data
      assert os.stat(FILES + "/scan.mov").st_blocks * 512 < 4 * CS, os.stat(FILES + "/scan.mov")
      assert stats()["bytes_received"] == 2 * CS + 1000
      """#)
  }

  @Test(.promises("P13", "P14", "P33i")) func zeros_areAnnounced() async throws {
    try await ReceiverProgram().run(
      #"""
      capabilities = call("GET", "/v1/capabilities")
      assert capabilities[1]["zero_ranges_max"] == 1000
      s = Session()
      for answer in [call("HEAD", "/v1/"), capabilities, s.opened, s.open(), call("GET", f"/v1/uploads/{s.id}"), put_file("a", b"x", "k")]:
          assert answer[2]["X-Zero-Ranges-Max"] == "1000", answer[2].items()
      assert "X-Zero-Ranges-Max" not in call("GET", "/v1/stats")[2]
      """#)
  }

  @Test(.promises("P33l", "P89b")) func badRequests_areRefused_andChangeNothing() async throws {
    try await ReceiverProgram().run(
      #"""
      s = Session()
      path = f"/v1/uploads/{s.id}/zeros"
      expect(send_zeros(s, []), 400, "bad-request", "ranges")
      expect(send_zeros(s, [[3, 4], [1, 2]]), 400, "bad-request", "ranges")
      expect(send_zeros(s, [[1, 3], [3, 5]]), 400, "bad-request", "ranges")
      expect(send_zeros(s, [[n * 2, n * 2] for n in range(1001)]), 400, "bad-request", "ranges")
      expect(send_zeros(s, [[0, 200000]]), 413, "too-large")
      expect(send_zeros(s, [[0, 4294967295]]), 413, "too-large")
      expect(send_zeros(s, [[0, 1]], hmac="00" * 32), 422, "tag-mismatch")
      expect(send_zeros(s, [[0, 1]], hmac="xy"), 400, "bad-request", "hmac")
      for body in [b"", b"{}", b"[]", json.dumps({"ranges": [[0, 1]]}), json.dumps({"ranges": [[-1, 1]], "hmac": "00" * 32}),
              json.dumps({"ranges": [[2, 1]], "hmac": "00" * 32}), json.dumps({"ranges": [[0, 1, 2]], "hmac": "00" * 32}),
              json.dumps({"ranges": [[0, 4294967296]], "hmac": "00" * 32}), json.dumps({"ranges": "0-1", "hmac": "00" * 32})]:
          expect(call("POST", path, body), 400, "bad-request")
      expect(call("POST", path, b" " * 70000), 413, "too-large")
      expect(call("PUT", path, b"{}"), 405, "method-not-allowed")
      assert s.held()["held"] == []
      assert send_zeros(s, [[0, 3999]])[0] == 201
      expect(s.commit(b"", size=4000 * CS, chunk_count=4000), 422, "digest-mismatch", "merkle_root")
      data = bytes(3 * CS)
      expect(s.commit(data), 200)
      assert read("scan.mov") == data
      expect(send_zeros(s, [[0, 0]]), 409, "conflict")
      s.id = "0" * 32
      expect(send_zeros(s, [[0, 0]]), 404, "not-found")
      """#)
  }

  @Test(.promises("P33k", "P37")) func zeros_outliveTheReceiver() async throws {
    let program = try ReceiverProgram()
    try await program.run(
      #"""
      s = Session()
      assert send_zeros(s, [[0, 190000]])[0] == 201
      expect(s.put(190001, b"x"), 201)
      open(ROOT + "/session", "w").write(json.dumps([s.id, s.nonce.hex()]))
      """#)
    program.kill()
    try program.start()
    try await program.run(
      #"""
      s = Session("other")
      s.id, nonce = json.loads(open(ROOT + "/session").read())
      s.nonce, s.name = bytes.fromhex(nonce), "scan.mov"
      begin = time.monotonic()
      assert s.held()["held"] == [[0, 190001]]
      zero = sha(bytes(CS))
      leaves = [zero] * 190001 + [sha(b"x")]
      body = dict(size=190001 * CS + 1, chunk_count=len(leaves), merkle_root=root_of(leaves).hex(), chain_tip=tip_of(s.id, leaves).hex())
      expect(s.commit(b"", **body), 200)
      # To read them takes longer.
      assert time.monotonic() - begin < 30
      status = os.stat(FILES + "/scan.mov")
      assert status.st_size == 190001 * CS + 1 and status.st_blocks <= 64, status
      """#)
  }
}
