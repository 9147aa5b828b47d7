import Promises
import Testing

@testable import UploadReceiver

/// Several whole files in one request, over the real executable's sockets.
@Suite struct BundleTests {
  @Test(.promises("P62")) func bundle_publishesEachMember() async throws {
    try await ReceiverProgram().run(
      #"""
      big = some_bytes(300000, 7)
      headers = file_headers(big, "k3", X_Chunk_Encoding="lz4")
      body = (plain_member("a/small%20file.txt", b"hello", "k1", X_File_Mode="256", X_File_Modified_Ns="1700000000123456789")
          + plain_member("empty", b"", "k2") + member("a/big", lz4_run(300000, 7), headers)
          + plain_member("a/%C3%BC", some_bytes(40960, 1), "k4", X_If_Exists="fail"))
      answer = send_bundle(body)
      members = members_of(answer)
      assert [m[0] for m in members] == [201] * 4, members
      assert [m[1]["name"] for m in members] == ["a/small file.txt", "empty", "a/big", "a/\u00fc"]
      assert all(m[2]["Content-Type"] == "application/json" and set(m[2]) == {"Content-Type", "Content-Length"} for m in members)
      first = members[0][1]
      assert first["merkle_root"] == root_of([sha(b"hello")]).hex() and first["chain_tip"] == tip_of("k1", [sha(b"hello")]).hex()
      assert len({m[1]["id"] for m in members}) == 4
      assert published() == {"a/small file.txt", "empty", "a/big", "a/\u00fc"}
      assert read("a/small file.txt") == b"hello" and read("a/big") == big and read("a/\u00fc") == some_bytes(40960, 1)
      status = os.stat(FILES + "/a/small file.txt")
      assert status.st_mode & 0o7777 == 0o400 and status.st_mtime_ns == 1700000000123456789
      counts = stats()
      assert (counts["bundles_received"], counts["files_published"], counts["requests"]) == (1, 4, 2), counts
      assert counts["bytes_received"] == 5 + 300000 + 40960
      assert b"uploadfs_receiver_bundles_received_total 1\n" in call("GET", "/metrics")[1]
      """#)
  }

  @Test(.promises("P13", "P14")) func bundles_areAnnounced() async throws {
    try await ReceiverProgram().run(
      #"""
      capabilities = call("GET", "/v1/capabilities")
      assert (capabilities[1]["bundle_files_max"], capabilities[1]["bundle_bytes_max"]) == (64, 4 << 20)
      assert capabilities[1]["bundle_encodings"] == ["identity", "zstd"]
      s = Session()
      for answer in [call("HEAD", "/v1/"), capabilities, s.opened, s.open(), put_file("a", b"x", "k"), put_file("a", b"x", "k")]:
          assert answer[2]["X-Bundle-Files-Max"] == "64" and answer[2]["X-Chunk-Encodings"] == "identity, lz4, zstd", answer[2].items()
          assert answer[2]["X-Bundle-Encodings"] == "identity, zstd"
      assert "X-Bundle-Files-Max" not in call("GET", "/v1/stats")[2]
      """#)
  }

  @Test(.promises("P118", "P119")) func bundleInAFrame_isPublishedAsOneThatIsNot() async throws {
    try await ReceiverProgram().run(
      #"""
      zeros = bytes(60000)
      body = (plain_member("a", zeros, "k1") + plain_member("empty", b"", "k2") + plain_member("c", b"small", "k3")
          + plain_member("d", zeros, "k4", X_Chunk_SHA256="00" * 32)
          + member("e", lz4_run(300000, 7), file_headers(some_bytes(300000, 7), "k5", X_Chunk_Encoding="lz4")))
      frame = zstd_frame(body)
      def send(sent, size=len(body), encoding="zstd"): return send_bundle(sent, {"X-Chunk-Encoding": encoding, "X-Chunk-Size": str(size)})
      def free(): return [line for line in call("GET", "/metrics")[1].split(b"\n") if line.startswith(b"uploadfs_receiver_body_memory_free_bytes")]
      before = free()
      damaged, wrong = (422, "digest-mismatch", "X-Chunk-Encoding"), (400, "bad-request", "X-Chunk-Encoding")
      for sent in [frame[:-1], frame + b"\0", frame[:100], body, b"\x28\xb5\x2f\xfd" + bytes(50)]: expect(send(sent), *damaged)
      for size in [len(body) - 1, len(body) + 1, 5 << 20]: expect(send(frame, size), *damaged)
      expect(send(frame, (5 << 20) + 1), 413, "too-large")
      expect(send(frame, len(frame) - 1), *wrong)
      expect(send(frame, encoding="zstd;stride=2"), *wrong)
      expect(send(frame, encoding="lz4"), *wrong)
      expect(send(frame, "x"), 400, "bad-request", "X-Chunk-Size")
      expect(send_bundle(frame), 400, "bad-request", "body")
      # 5 MiB of a few bytes, which are no bundle.
      expect(send(zstd_runs([(128 << 10, 0)] * 40), 5 << 20), 413, "too-large")
      assert published() == set() and free() == before
      members = members_of(send(frame))
      assert [m[0] for m in members] == [201, 201, 201, 422, 201], members
      assert published() == {"a", "empty", "c", "e"} and read("a") == zeros and read("c") == b"small"
      assert [m[1] for m in members_of(send_bundle(body))[:3]] == [m[1] for m in members[:3]], "the receipts of the same keys"
      assert free() == before
      """#)
  }

  /// Nothing of a member's answer tells that it came in a bundle.
  @Test(.promises("P67")) func members_failByThemselves_asTheirRequestsWould() async throws {
    try await ReceiverProgram().run(
      #"""
      expect(put_file("taken", b"old", "k0"), 201)
      expect(put_file("folder/x", b"old", "k00"), 201)
      data = some_bytes(5000)
      def changed(**changes): return lambda key: (data, file_headers(data, key, **changes))
      def without(name): return lambda key: (data, {k: v for k, v in file_headers(data, key).items() if k != name})
      cases = [
          ("a", changed(X_Chunk_SHA256="00" * 32)), ("b", changed(X_Chunk_CRC32C="00000000")),
          ("c", changed(X_Chunk_HMAC="00" * 32)), ("taken", changed(X_If_Exists="fail")), ("../x", changed()), ("x//y", changed()),
          ("d", changed(X_Chunk_Size="4999")), ("e", changed(X_Chunk_Size="x")), ("f", changed(X_Chunk_Encoding="zip")),
          ("g", changed(X_Chunk_Encoding="lz4")), ("h", changed(X_File_Mode="9999")), ("i", without("X-Chunk-HMAC")),
          ("j", without("Idempotency-Key")), ("k", without("X-Chunk-Nonce")), ("folder", changed(X_If_Exists="fail")),
          ("%zz", changed()), ("l", changed(X_Chunk_Encoding="lz4", X_Chunk_Size="100000")), ("k00", lambda key: (data, file_headers(data, "k00"))),
      ]
      body, alone = b"", []
      for number, (path, make) in enumerate(cases):
          sent, headers = make(f"alone-{number}")
          alone.append(call("PUT", "/v1/files/" + path, sent, headers))
          sent, headers = make(f"in-{number}")
          body += plain_member(f"good/{number}", some_bytes(number * 100, 1), f"good-{number}") + member(path, sent, headers)
      members = members_of(send_bundle(body))
      assert len(members) == 2 * len(cases)
      for number, (path, _) in enumerate(cases):
          assert members[2 * number][0] == 201, members[2 * number]
          assert read(f"good/{number}") == some_bytes(number * 100, 1)
          got, expected = members[2 * number + 1], alone[number]
          assert got[0] == expected[0] >= 400 and got[1] == expected[1], (path, got, expected)
          assert got[2]["Content-Type"] == "application/problem+json"
      assert published() == {"taken", "folder/x"} | {f"good/{n}" for n in range(len(cases))}
      # A refusal leaves the key free.
      assert [m[0] for m in members_of(send_bundle(plain_member("a", data, "in-0")))] == [201]
      """#)
  }

  @Test(.promises("P71")) func repeatedBundle_getsTheSameReceipts_alsoAfterACrash() async throws {
    let receiver = try ReceiverProgram()
    try await receiver.run(
      #"""
      body = b"".join(plain_member(f"folder {n % 3}/{n}".replace(" ", "%20"), some_bytes(40960, n), f"key-{n}") for n in range(64))
      receipts = [expect(m, 201) for m in members_of(send_bundle(body))]
      assert [expect(m, 201) for m in members_of(send_bundle(body))] == receipts
      assert expect(put_file("folder%200/0", some_bytes(40960, 0), "key-0"), 201) == receipts[0]
      mixed = body + b""
      open(ROOT + "/note", "wb").write(body)
      json.dump(receipts, open(ROOT + "/receipts", "w"))
      assert stats()["files_published"] == 64
      os.kill(PID, signal.SIGKILL)
      """#)
    receiver.kill()
    try receiver.start()
    try await receiver.run(
      #"""
      receipts = [expect(m, 201) for m in members_of(send_bundle(open(ROOT + "/note", "rb").read()))]
      assert receipts == json.load(open(ROOT + "/receipts"))
      assert len(published()) == 64 and stats()["files_published"] == 0
      for n in range(64): assert read(f"folder {n % 3}/{n}") == some_bytes(40960, n)
      """#)
    #expect(receiver.stop() == 0)
  }

  @Test(.promises("P68")) func oneNameTwice_isPublishedInOrder_andOneKeyTwiceOnce() async throws {
    try await ReceiverProgram().run(
      #"""
      for round in range(5):
          bodies = [some_bytes(100 + n, n) for n in range(8)]
          members = members_of(send_bundle(b"".join(plain_member("same", bodies[n], f"{round}-{n}") for n in range(8))))
          assert [m[0] for m in members] == [201] * 8, members
          assert read("same") == bodies[7]
      twice = plain_member("once", b"x", "k")
      first, second = members_of(send_bundle(twice + twice))
      assert first[0] == 201
      expect(second, 409, "conflict")
      assert second[2]["Retry-After"] == "1"
      expect(members_of(send_bundle(plain_member("once", b"y", "k")))[0], 422, "idempotency-mismatch")
      assert read("once") == b"x"
      """#)
  }

  @Test(.promises("P68", "P109")) func oneNameForSeveralCaptures_givesEachANumber() async throws {
    try await ReceiverProgram().run(
      #"""
      bodies = [some_bytes(100 + n, n) for n in range(8)]
      def bundle(round): return b"".join(
          plain_member("a.mov", bodies[n], f"{round}-{n}", X_File_Id=f"capture-{n}", X_If_Taken="number") for n in range(8))
      names = ["a.mov"] + [f"a-{n}.mov" for n in range(2, 9)]
      receipts = [expect(m, 201) for m in members_of(send_bundle(bundle(0)))]
      assert [r.get("published_as", r["name"]) for r in receipts] == names, receipts
      assert [read(name) for name in names] == bodies
      assert [expect(m, 201) for m in members_of(send_bundle(bundle(0)))] == receipts
      assert published() == set(names)
      """#)
  }

  @Test(.promises("P70")) func bundleThatCannotBeRead_isRefusedAsAWhole() async throws {
    try await ReceiverProgram().run(
      #"""
      good = plain_member("good", b"x", "good")
      c = connect()
      for body in [b"", b"nonsense", good + b"GET / HTTP/1.1\r\n\r\n", good[:-1], good + good[:20], good + member("a", b"", {"X": "\u0001"}),
          good.replace(b"\r\n", b"\n"), good + b"PUT /v1/files/a HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx"]:
          expect(send_bundle(body, connection=c), 400, "bad-request")
      many = b"".join(plain_member(f"m{n}", b"", f"m{n}") for n in range(65))
      assert expect(send_bundle(many, connection=c), 413, "too-large")["limit"] == 64
      assert expect(send_bundle(good + member("a", b"x", {"X-Long": "y" * 17000}), connection=c), 413, "too-large")["limit"] == 16 << 10
      large = some_bytes((2 << 20) + 1)
      headers = {"X-Chunk-Size": str(len(large))}
      assert expect(send_bundle(member("l1", large, headers) + member("l2", large, headers), connection=c), 413, "too-large")["limit"] == 4 << 20
      bomb = member("bomb", b"x", {"X-Chunk-Size": str(1 << 40), "X-Chunk-Encoding": "lz4"})
      expect(send_bundle(good + bomb, connection=c), 413, "too-large")
      expect(call("POST", "/v1/files", good, {}, c), 415, "bad-request", "Content-Type")
      expect(call("POST", "/v1/files", good, {"Content-Type": "application/octet-stream"}, c), 415, "bad-request", "Content-Type")
      expect(call("POST", "/v1/files", iter([good]), {"Content-Type": BUNDLE}, c), 411, "bad-request", "Content-Length")
      expect(call("PUT", "/v1/files", good, {"Content-Type": BUNDLE}), 405, "method-not-allowed")
      expect(call("POST", "/v1/files", good, {"Content-Type": BUNDLE}, token="wrong"), 401, "unauthorized")
      sock = raw()
      sock.sendall(head("POST", "/v1/files", {"Content-Type": BUNDLE, "Content-Length": 6 << 20}))
      assert answer(sock)[0] == 413
      # A connection that breaks leaves nothing behind.
      sock = raw()
      sock.sendall(head("POST", "/v1/files", {"Content-Type": BUNDLE, "Content-Length": len(good) * 2}) + good + good[:30])
      until(lambda: stats()["requests"] >= 17)
      sock.close()
      assert published() == set(), published()
      assert stats()["bundles_received"] == 0 and stats()["files_published"] == 0
      assert [m[0] for m in members_of(send_bundle(good, connection=c))] == [201]
      """#)
  }

  @Test func bundle_travelsOverHTTP2() async throws {
    try await ReceiverProgram().run(
      #"""
      import subprocess
      body = b"".join(plain_member(f"f{n}", some_bytes(40960, n), f"k{n}") for n in range(64))
      arguments = ["curl", "-sS", "--cacert", CA, "--http2", "-H", "Authorization: Bearer " + TOKEN, "-H", "Content-Type: " + BUNDLE,
          "--data-binary", "@-", "-w", "%{http_code} %{http_version}", f"https://localhost:{PORT}/v1/files"]
      done = subprocess.run(arguments, input=body, capture_output=True, timeout=DEADLINE)
      assert done.stdout.endswith(b"200 2"), (done.stdout, done.stderr)
      assert done.stdout.count(b"HTTP/1.1 201 Created\r\n") == 64
      assert len(published()) == 64 and read("f63") == some_bytes(40960, 63)
      """#)
  }
}
