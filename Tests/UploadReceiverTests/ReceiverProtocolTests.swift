import Promises
import Testing

@testable import UploadReceiver

/// The protocol as a client meets it, on the real executable.
@Suite struct ReceiverProtocolTests {
  @Test(.promises("P38")) func fileInChunks_arrivesWithNameModeAndTime() async throws {
    try await ReceiverProgram().run(
      #"""
      data = b"".join(some_bytes(CS, n) for n in range(3)) + b"tail"
      s = Session("deep/in/folders/scan \u00e9.mov", len(data))
      assert s.opened[1]["chunk_size"] == CS
      s.put_all(data)
      expect(s.put(1, data[CS:2 * CS]), 200)
      held = s.held()
      assert held["state"] == "open" and held["held"] == [[0, 3]], held
      assert held["digests"]["3"] == sha(b"tail").hex()
      assert held["chain_tip"] == tip_of(s.id, [sha(data[i:i + CS]) for i in range(0, len(data), CS)]).hex()
      assert published() == set()
      receipt = expect(s.commit(data), 200)
      assert receipt["size"] == len(data) and receipt["name"] == s.name
      assert read(s.name) == data
      status = os.stat(os.path.join(FILES, s.name))
      assert status.st_mode & 0o7777 == 0o640 and status.st_mtime_ns == 1700000000123456789
      assert expect(s.commit(data), 200) == receipt
      committed = s.held()
      assert committed["state"] == "committed" and committed["receipt"] == receipt
      expect(s.put(0, data[:CS]), 409, "conflict")
      expect(s.commit(data, name="other"), 409, "conflict")
      expect(call("DELETE", f"/v1/uploads/{s.id}"), 409, "conflict")
      assert published() == {s.name}
      """#)
  }

  @Test(.promises("P10", "P57")) func wholeFile_arrivesOncePerKey() async throws {
    try await ReceiverProgram().run(
      #"""
      first = expect(put_file("a/small%20file.txt", b"hello", "k1", X_File_Mode="256", X_File_Modified_Ns="-5"), 201)
      assert read("a/small file.txt") == b"hello"
      assert os.stat(FILES + "/a/small file.txt").st_mode & 0o7777 == 0o400
      assert first["merkle_root"] == root_of([sha(b"hello")]).hex() and first["chain_tip"] == tip_of("k1", [sha(b"hello")]).hex()
      again = put_file("a/small%20file.txt", b"hello", "k1", X_File_Mode="256", X_File_Modified_Ns="-5")
      assert again[0] in (200, 201) and again[1] == first, again
      expect(put_file("a/small%20file.txt", b"other", "k1", X_File_Mode="256", X_File_Modified_Ns="-5"), 422, "idempotency-mismatch")
      expect(put_file("b.txt", b"hello", "k1"), 422, "idempotency-mismatch")
      expect(put_file("empty", b"", "k2"), 201)
      assert read("empty") == b""
      expect(put_file("empty", b"x", "k3", X_If_Exists="fail"), 409, "exists")
      expect(put_file("empty", b"x", "k3"), 201)
      expect(put_file("damaged", b"x", "k4", X_Chunk_SHA256=sha(b"y").hex()), 422, "digest-mismatch", "X-Chunk-SHA256")
      expect(put_file("damaged", b"x", "k4", X_Chunk_CRC32C="00000000"), 422, "digest-mismatch", "X-Chunk-CRC32C")
      expect(put_file("damaged", b"x", "k4", X_Chunk_HMAC="00" * 32), 422, "tag-mismatch")
      expect(put_file("damaged", b"x", "k4", X_Chunk_Encoding="zip"), 400, "bad-request", "X-Chunk-Encoding")
      expect(call("PUT", "/v1/files/no-key", b"x", {}), 400, "bad-request")
      assert published() == {"a/small file.txt", "empty"}
      """#)
  }

  @Test("Regression: captures of two machines with one folder", .promises("P108", "P109", "P111"))
  func nameOfAnotherCapture_isNumberedOrRefused() async throws {
    let receiver = try ReceiverProgram()
    try await receiver.run(
      #"""
      first, second = some_bytes(CS, 1) + b"tail", some_bytes(CS, 2) + b"end"
      a, b = Session("day/a.mov", file_id="one"), Session("day/a.mov", file_id="two")
      a.put_all(first)
      b.put_all(second)
      mine = expect(a.commit(first, if_taken="number"), 200)
      assert "published_as" not in mine
      problem = expect(b.commit(second, if_taken="refuse"), 409, "exists")
      assert "it is the capture one" in problem["detail"], problem
      theirs = expect(b.commit(second, if_taken="number"), 200)
      assert theirs["name"] == "day/a.mov" and theirs["published_as"] == "day/a-2.mov", theirs
      assert expect(b.commit(second, if_taken="refuse", replaces=[claim(mine)]), 200) == theirs
      # A later content of each goes where it lies.
      a, b = Session("day/a.mov", file_id="one"), Session("day/a.mov", file_id="two")
      a.put_all(first + b"more")
      b.put_all(second + b"more")
      mine = expect(a.commit(first + b"more", if_taken="number", replaces=[claim(mine, CS)]), 200)
      theirs = expect(b.commit(second + b"more", if_taken="number", replaces=[claim(theirs, CS)], published_as="day/a-2.mov"), 200)
      assert "published_as" not in mine and theirs["published_as"] == "day/a-2.mov"
      assert read("day/a.mov") == first + b"more" and read("day/a-2.mov") == second + b"more"
      # The same for whole files.
      own = expect(put_file("b.txt", b"x", "k1", X_File_Id="three", X_If_Taken="number"), 201)
      expect(put_file("b.txt", b"y", "k2", X_File_Id="four", X_If_Taken="refuse"), 409, "exists")
      assert expect(put_file("b.txt", b"y", "k2", X_File_Id="four", X_If_Taken="number"), 201)["published_as"] == "b-2.txt"
      own = expect(put_file("b.txt", b"z", "k3", X_File_Id="three", X_If_Taken="number", X_Replaces=claim_field(own)), 201)
      assert "published_as" not in own and read("b.txt") == b"z" and read("b-2.txt") == b"y"
      again = put_file("b.txt", b"z", "k3", X_File_Id="three", X_If_Taken="refuse", X_If_Exists="fail", X_Published_As="c%20d")
      assert again[0] in (200, 201) and again[1] == own
      for field, value in [("X-If-Taken", "maybe"), ("X-Replaces", "x"), ("X-Published-As", "..")]:
          fields = {"X-If-Taken": "number", field: value}
          expect(put_file("c", b"", "k4", X_File_Id="five", **fields), 400, "bad-request", field)
      assert published() == {"day/a.mov", "day/a-2.mov", "b.txt", "b-2.txt"}
      metrics = call("GET", "/metrics")[1].decode()
      assert "\nuploadfs_receiver_files_numbered_total 2\n" in metrics, metrics
      """#)
    let words = #""day/a.mov" is published as "day/a-2.mov": the name is taken, it is the capture one"#
    #expect(receiver.log.contains(words))
    #expect(receiver.log.contains(#""b.txt" is published as "b-2.txt": the name is taken, it is the capture three"#))
    #expect(receiver.log.contains(#"published "day/a.mov" as "day/a-2.mov", "#))
  }

  @Test(.promises("P61", "P73")) func namesThatLeadAnywhereElse_areRefusedAndTouchNothing() async throws {
    try await ReceiverProgram().run(
      #"""
      before = {os.path.join(d, f) for d, _, fs in os.walk(ROOT) for f in fs if ".uploads" not in d}
      paths = ["../outside", "%2e%2e/outside", "a/../../outside", "..%2foutside", "%2Fetc/outside", "/etc/outside", "a//b", "a/",
          "./a", ".", "..", "%00", "a%00b", "a%0ab", "%C2%85", "a" * 256, "/".join(["a" * 255] * 17), "%ff", "%2e%2e%2f%2e%2e%2foutside",
          "%zz", ""]
      for number, path in enumerate(paths):
          status = put_file(path, b"x", f"key-{number}")[0]
          assert status in (404, 422), (path, status)
          assert status == 422 or "%" not in path, (path, status)
      s = Session()
      for name in ["../outside", "/etc/outside", "a/../b", "", ".", "a\0b", "a//b", "a\n"]:
          expect(s.commit(b"", name=name), 422, "name-refused")
          expect(s.open(name=name, nonce="00" * 32), 422)
      os.makedirs(ROOT + "/elsewhere")
      os.symlink(ROOT + "/elsewhere", FILES + "/link")
      expect(put_file("link/x", b"x", "through"), 422, "name-refused")
      expect(s.commit(b"", name="link/x"), 422, "name-refused")
      assert os.listdir(ROOT + "/elsewhere") == []
      after = {os.path.join(d, f) for d, _, fs in os.walk(ROOT) for f in fs if ".uploads" not in d}
      assert before == after, after - before
      assert not os.path.exists(ROOT + "/../outside")
      expect(s.commit(b""), 200)
      """#)
  }

  @Test(.promises("P31")) func lyingLengthsAndDigests_storeNothing() async throws {
    try await ReceiverProgram().run(
      #"""
      s = Session()
      data = some_bytes(1000)
      size = ("bad-request", "X-Chunk-Size")
      expect(s.put(0, data, X_Chunk_Size="999"), 400, *size)
      expect(s.put(0, data, X_Chunk_Size="1001"), 400, *size)
      expect(s.put(0, b"", X_Chunk_Size="0"), 400, *size)
      for lie in ["-1", "", "1e3", " ", "0x10", "99999999999999999999999"]:
          expect(s.put(0, data, X_Chunk_Size=lie), 400, *size)
      assert expect(s.put(0, some_bytes(CS + 1)), 413, "too-large")["limit"] == CS
      assert expect(s.put(0, data, X_Chunk_Size="18446744073709551615"), 413, "too-large")["limit"] == CS
      expect(s.put(0, data, X_Chunk_SHA256=sha(b"other").hex()), 422, "digest-mismatch", "X-Chunk-SHA256")
      expect(s.put(0, data, X_Chunk_CRC32C="12345678"), 422, "digest-mismatch", "X-Chunk-CRC32C")
      expect(s.put(0, data, Content_Digest="sha-256=:" + "A" * 43 + "=:"), 422, "digest-mismatch", "Content-Digest")
      expect(s.put(0, data, X_Chunk_HMAC=s.headers(1, data)["X-Chunk-HMAC"]), 422, "tag-mismatch")
      for name in ["X-Chunk-SHA256", "X-Chunk-CRC32C", "X-Chunk-Size", "X-Chunk-HMAC"]:
          headers = s.headers(0, data)
          del headers[name]
          expect(call("PUT", s.path(0), data, headers), 400, "bad-request", name)
      # A chunked body states no length at all.
      for body in [data[:999], data + b"x", b""]:
          expect(call("PUT", s.path(0), iter([body]), s.headers(0, data)), 400, *size)
      expect(s.put(200000, data), 413, "too-large")
      expect(s.put(199999, data), 201)
      expect(s.put(4294967295, data), 413, "too-large")
      expect(call("PUT", f"/v1/uploads/{s.id}/chunks/4294967296", data, s.headers(0, data)), 404)
      expect(call("PUT", f"/v1/uploads/{s.id}/chunks/01", data, s.headers(0, data)), 404)
      assert s.held()["held"] == [[199999, 199999]]
      expect(s.put(0, data), 201)
      expect(s.commit(data), 200)
      assert read("scan.mov") == data
      """#)
  }

  @Test(.promises("P33a")) func bodyThatStopsShort_leavesTheSessionAsItWas() async throws {
    try await ReceiverProgram().run(
      #"""
      s = Session()
      old, new = some_bytes(CS, 1), some_bytes(CS, 2)
      expect(s.put(0, old), 201)
      for cut in [0, 1, 1000, CS - 1]:
          sock = raw()
          sock.sendall(head("PUT", s.path(0), {**s.headers(0, new), "Content-Length": CS}) + new[:cut])
          if cut % 2: sock.shutdown(socket.SHUT_RDWR)
          sock.close()
      received = stats()["chunks_received"]
      assert s.held()["digests"] == {"0": sha(old).hex()}
      assert received == 1
      expect(s.put(0, new), 201)
      assert s.held()["digests"] == {"0": sha(new).hex()}
      """#)
  }

  @Test(.promises("P47")) func twoCommitsAtOnce_publishOnce() async throws {
    try await ReceiverProgram().run(
      #"""
      data = some_bytes(CS, 1) + b"end"
      s = Session()
      expect(s.put(0, data[:CS]), 201)
      answers = []
      threads = [threading.Thread(target=lambda: answers.append(s.commit(data))) for _ in range(8)]
      for t in threads: t.start()
      # They wait for the last chunk.
      expect(s.put(1, b"end"), 201)
      for t in threads: t.join()
      receipts = {json.dumps(expect(a, 200)) for a in answers}
      assert len(receipts) == 1, receipts
      assert stats()["files_published"] == 1
      assert read("scan.mov") == data
      """#)
  }

  @Test(.promises("P10")) func sameKeyTwice_isOneSession() async throws {
    try await ReceiverProgram().run(
      #"""
      s = Session(size=5)
      again = s.open()
      assert expect(again, 200)["id"] == s.id
      expect(s.open(size=6), 422, "idempotency-mismatch")
      expect(s.open(revision=2), 422, "idempotency-mismatch")
      expect(call("PUT", "/v1/files/x", b"x", file_headers(b"x", s.key)), 422, "idempotency-mismatch")
      for bad in ['', 'unquoted', '""', '"' + "x" * 256 + '"', '"a" "b"']:
          answer = call("POST", "/v1/uploads", "{}", {"Idempotency-Key": bad})
          expect(answer, 400, "bad-request", "Idempotency-Key")
      expect(call("DELETE", f"/v1/uploads/{s.id}"), 204)
      expect(call("DELETE", f"/v1/uploads/{s.id}"), 404)
      assert expect(s.open(), 201)["id"] != s.id
      """#)
  }

  @Test(.promises("P6", "P9", "P12", "P16")) func nonsenseInRequests_isAnsweredWithAProblem() async throws {
    try await ReceiverProgram().run(
      #"""
      key = {"Idempotency-Key": '"k"'}
      for body in [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"name":1}', b'{"name":"a","chunk_size":-1}', b"[" * 60000]:
          expect(call("POST", "/v1/uploads", body, key), 400, "bad-request")
      expect(call("POST", "/v1/uploads", b" " * 65537, key), 413, "too-large")
      s = Session()
      expect(s.open(chunk_size=1, nonce="11" * 32), 422)
      other = Session()
      for changes, field in [(dict(chunk_size=1), "chunk_size"), (dict(mode=4096), "mode"), (dict(nonce="xy"), "nonce"), (dict(size=-1), "size"), (dict(file_id="x" * 256), "file_id")]:
          other.key = secrets.token_hex(8)
          expect(other.open(**changes), 400, "bad-request", field)
      other.key = secrets.token_hex(8)
      assert expect(other.open(chunk_size=1 << 40), 201)["chunk_size"] == 32 << 20
      other.key = secrets.token_hex(8)
      assert expect(other.open(size=10 ** 15), 413, "too-large")["limit"] <= 10 ** 11
      expect(s.commit(b"x", chunk_count=2), 400, "bad-request", "chunk_count")
      expect(s.commit(b"x", merkle_root="00"), 400, "bad-request", "merkle_root")
      expect(s.commit(b"x", if_exists="maybe"), 400, "bad-request")
      expect(call("GET", "/nothing"), 404, "not-found")
      expect(call("GET", "/v1/uploads/unknown"), 404, "not-found")
      answer = call("POST", "/v1/stats")
      expect(answer, 405, "method-not-allowed")
      assert answer[2]["Allow"] == "GET"
      # Bytes that are no HTTP, and headers without end.
      for junk in [b"\0" * 1000, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /v1/ HTTP/1.1\r\nX: " + b"a" * 100000]:
          sock = raw()
          try:
              sock.sendall(junk)
              sock.recv(1000)
          except OSError: pass
          sock.close()
      plain = socket.create_connection(("127.0.0.1", PORT), timeout=DEADLINE)
      plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
      while plain.recv(1000): pass
      assert expect(call("GET", "/v1/capabilities"), 200)["encodings"] == ["identity", "lz4", "zstd"]
      """#)
  }

  @Test(.promises("P32")) func refusalBeforeTheBody_comesAtOnceAndTheConnectionGoesOn() async throws {
    try await ReceiverProgram().run(
      #"""
      s = Session()
      data = some_bytes(CS, 3)
      c = connect()
      for _ in range(3):
          c.request("PUT", s.path(0), data[:1000], {**s.headers(0, data), "Authorization": "Bearer wrong"})
          r = c.getresponse()
          assert r.status == 401 and r.headers["WWW-Authenticate"] == "Bearer", r.status
          r.read()
      expect(s.put(0, data, c), 201)
      # A client that asks first is told to go on, or not to.
      sock = raw()
      sock.sendall(head("PUT", s.path(1), {**s.headers(1, data), "Content-Length": CS, "Expect": "100-continue"}))
      assert sock.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
      sock.sendall(data)
      assert answer(sock)[0] == 201
      sock = raw()
      sock.sendall(head("PUT", "/v1/uploads/none/chunks/0", {**s.headers(1, data), "Content-Length": CS, "Expect": "100-continue"}))
      assert answer(sock)[0] == 404
      assert sock.recv(1) == b""
      # More than a server wants to read only to throw it away.
      sock = raw()
      try:
          sock.sendall(head("PUT", "/v1/files/big", {"Content-Length": 1 << 40}))
          while True: sock.sendall(bytes(1 << 20))
      except OSError: pass
      """#)
  }

  @Test(.promises("P72")) func counts_tellConnectionsChunksAndConcurrency() async throws {
    let receiver = try ReceiverProgram()
    try await receiver.run(
      #"""
      before = stats()
      s = Session("counted.bin")
      data = [some_bytes(CS, n) for n in range(12)]
      socks = []
      for index in range(12):
          sock = raw()
          sock.sendall(head("PUT", s.path(index), {**s.headers(index, data[index]), "Content-Length": CS}) + data[index][:1000])
          socks.append(sock)
      until(lambda: stats()["chunk_requests_in_flight_max"] >= 12)
      for index, sock in enumerate(socks):
          sock.sendall(data[index][1000:])
          assert answer(sock)[0] == 201
      sock.sendall(head("PUT", s.path(0), {**s.headers(0, data[0]), "Content-Length": CS}) + data[0])
      assert answer(sock)[0] == 200
      after = stats()
      assert after["connections_accepted"] >= before["connections_accepted"] + 13
      assert after["tls_handshakes"] == after["connections_accepted"]
      assert (after["chunks_received"], after["chunks_stored"], after["duplicate_chunks"]) == (13, 12, 1), after
      assert after["bytes_received"] == 13 * CS
      upload = after["uploads"][0]
      assert upload["id"] == s.id and upload["name"] == "counted.bin", upload
      assert upload["connections"] == 12 and upload["streams_max"] == 12
      assert upload["twelve_active_after_ms"] == upload["streams_max_after_ms"] >= 0 and upload["first_chunk_at_ms"] > after["started_at_ms"] - 1
      assert upload["chunks_received"] == 13 and upload["bytes_received"] == 13 * CS
      status, text, headers = call("GET", "/metrics")
      assert status == 200 and b"uploadfs_receiver_bytes_received_total %d\n" % (13 * CS) in text, text
      expect(call("GET", "/v1/stats", token="wrong"), 401, "unauthorized")
      c = connect()
      c.request("HEAD", "/v1/")
      assert c.getresponse().status == 204
      expect(s.commit(b"".join(data)), 200)
      """#)
    #expect(
      receiver.log.contains(/published "counted.bin", \d+ bytes, at most 12 chunk requests at once, first \d+ ms/))
  }

  @Test(.promises("P1")) func http2_carriesChunks() async throws {
    let receiver = try ReceiverProgram()
    try await receiver.run(
      #"""
      import subprocess, tempfile
      s = Session("over-h2.bin")
      data = [os.urandom(1) * CS for _ in range(4)]
      arguments = ["curl", "-sS", "--cacert", CA, "--http2", "--parallel"]
      with tempfile.TemporaryDirectory() as folder:
          for index, chunk in enumerate(data):
              path = f"{folder}/{index}"
              open(path, "wb").write(chunk)
              if index: arguments += ["--next", "-sS", "--cacert", CA, "--http2"]
              for name, value in {**s.headers(index, chunk), "Authorization": "Bearer " + TOKEN}.items():
                  arguments += ["-H", f"{name}: {value}"]
              arguments += ["-T", path, "-o", "/dev/null", "-w", "%{http_code} %{http_version}\n", f"https://localhost:{PORT}" + s.path(index)]
          done = subprocess.run(arguments, capture_output=True, text=True, timeout=DEADLINE)
      assert done.stdout == "201 2\n" * 4, (done.stdout, done.stderr)
      expect(s.commit(b"".join(data)), 200)
      assert read("over-h2.bin") == b"".join(data)
      """#)
  }
}
