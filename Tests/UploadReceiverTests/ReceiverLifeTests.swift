import Glibc
import Promises
import ReceiverCore
import Testing

@testable import UploadReceiver

/// Starts, ends, crashes and credentials of the real executable.
@Suite struct ReceiverLifeTests {
  @Test("Regression: an ended receiver sometimes left its socket, which many tools cannot copy, beside its state")
  func orderlyEnd_leavesNoSocket() throws {
    let receiver = try ReceiverProgram()
    for _ in 0..<5 {
      #expect(access("\(receiver.root)/.uploads/operator", F_OK) == 0)
      #expect(receiver.stop() == 0)
      #expect(access("\(receiver.root)/.uploads/operator", F_OK) != 0)
      try receiver.start()
    }
  }

  @Test(.promises("P24")) func killInMidUpload_keepsWhatWasAcknowledged() async throws {
    let receiver = try ReceiverProgram()
    try await receiver.run(
      #"""
      s = Session(key="life")
      for index in range(3): expect(s.put(index, some_bytes(CS, index)), 201)
      sock = raw()
      sock.sendall(head("PUT", s.path(3), {**s.headers(3, some_bytes(CS, 3)), "Content-Length": CS}) + b"half")
      expect(put_file("whole", b"w", "whole-key"), 201)
      json.dump([s.id, s.nonce.hex()], open(ROOT + "/note", "w"))
      os.kill(PID, signal.SIGKILL)
      """#)
    receiver.kill()
    // The data of one acknowledged chunk is lost, as a power cut could do; the journal still tells of it.
    let note = String(decoding: TemporaryFolder.read("\(receiver.root)/note") ?? [], as: UTF8.self)
    let id = try #require(note.split(separator: "\"").dropFirst().first)
    let data = try #require(fopen("\(receiver.root)/.uploads/sessions/\(id)/data", "r+"))
    fseek(data, 262_144 + 5, SEEK_SET)
    fputs("lost", data)
    fclose(data)

    try receiver.start()
    try await receiver.run(
      #"""
      s = Session.__new__(Session)
      s.id, nonce = json.load(open(ROOT + "/note"))
      s.key, s.nonce, s.token, s.name, s.size = "life", bytes.fromhex(nonce), None, "scan.mov", None
      held = s.held()
      assert held["held"] == [[0, 0], [2, 2]], held
      assert expect(s.open(), 200)["id"] == s.id
      data = b"".join(some_bytes(CS, n) for n in range(4))
      for index in (1, 3): expect(s.put(index, some_bytes(CS, index)), 201)
      expect(s.put(2, some_bytes(CS, 2)), 200)
      receipt = expect(s.commit(data), 200)
      assert read("scan.mov") == data
      expect(put_file("whole", b"w", "whole-key"), 201)
      json.dump(receipt, open(ROOT + "/receipt", "w"))
      os.kill(PID, signal.SIGKILL)
      """#)
    receiver.kill()
    try receiver.start()
    try await receiver.run(
      #"""
      s = Session.__new__(Session)
      s.id, nonce = json.load(open(ROOT + "/note"))
      s.token, s.name = None, "scan.mov"
      data = b"".join(some_bytes(CS, n) for n in range(4))
      assert expect(s.commit(data), 200) == json.load(open(ROOT + "/receipt"))
      assert stats()["files_published"] == 0
      """#)
    #expect(receiver.stop() == 0)
  }

  @Test("Regression: a limit of file sizes (ulimit -f) killed the receiver", .promises("P21"))
  func fileSizeLimit_isAnAnswer() async throws {
    let receiver = try ReceiverProgram()
    try await receiver.run(
      #"""
      import resource, subprocess
      s = Session()
      expect(s.put(0, some_bytes(CS)), 201)
      resource.prlimit(PID, resource.RLIMIT_FSIZE, (CS, resource.RLIM_INFINITY))
      expect(s.put(1, some_bytes(CS, 1)), 500, "internal")
      # The others go on, and so does this one once it may.
      expect(put_file("small", b"w", "small-key"), 201)
      resource.prlimit(PID, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
      expect(s.put(1, some_bytes(CS, 1)), 201)
      expect(s.commit(some_bytes(CS) + some_bytes(CS, 1)), 200)
      # One that is there at the start is stated, and refused before anything is sent.
      MAX = 1 << 20
      limited = subprocess.Popen(
          [os.readlink(f"/proc/{PID}/exe"), "serve", "--root", ROOT + "/limited", "--listen", "127.0.0.1:0", "--development"],
          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (MAX, MAX)),
          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
      try:
          for line in limited.stdout:
              if line.startswith("listening"): break
          PORT = int(line.rsplit(":", 1)[1])
          TOKEN = open(ROOT + "/limited/.development/token").read().strip()
          CONTEXT = ssl.create_default_context(cafile=ROOT + "/limited/.development/ca.pem")
          assert expect(call("GET", "/v1/capabilities"), 200)["file_bytes_max"] == MAX
          s = Session(size=MAX)
          assert expect(s.open(size=MAX + 1), 422)
          s.key = "larger"
          assert expect(s.open(size=MAX + 1), 413, "too-large")["limit"] == MAX
      finally:
          limited.kill()
          limited.wait()
      """#)
    #expect(receiver.stop() == 0, "\(receiver.log)")
  }

  @Test("A body that breaks off is none, also where TLS says no goodbye", .promises("P33a"))
  func bodyThatIsCutWithoutCloseNotify_isNone() async throws {
    let receiver = try ReceiverProgram()
    try await receiver.run(
      #"""
      data = some_bytes(CS)
      chunked = f"{CS:x}\r\n".encode() + data + b"\r\n"
      def cut(method, path, headers, sent):
          sock = raw()
          sock.sendall(head(method, path, headers) + sent)
          # Ends the connection below TLS, without a close_notify.
          sock.close()
      s = Session()
      for sent in (b"", data[:-1]): cut("PUT", s.path(0), {**s.headers(0, data), "Content-Length": CS}, sent)
      for sent in (chunked, chunked + b"0\r\n", chunked[:-1]):
          cut("PUT", s.path(0), {**s.headers(0, data), "Transfer-Encoding": "chunked"}, sent)
          cut("PUT", "/v1/files/cut", {**file_headers(data, "cut-key"), "Transfer-Encoding": "chunked"}, sent)
      cut("PUT", "/v1/files/cut", {**file_headers(data, "cut-key"), "Content-Length": CS}, data[:-1])
      bundle = plain_member("cut", b"ab", "a-key")
      cut("POST", "/v1/files", {"Content-Type": BUNDLE, "Content-Length": len(bundle)}, bundle[:-1])
      opening = json.dumps(dict(name="cut", chunk_size=CS, modified_ns=0, mode=0o640, file_id="f", revision=1, nonce="00" * 32))
      cut("POST", "/v1/uploads", {"Idempotency-Key": '"cut"', "Content-Length": len(opening) + 1}, opening.encode())
      # All are gone but the one that asks.
      until(lambda: "\nuploadfs_receiver_connections 1\n" in call("GET", "/metrics")[1].decode())
      assert s.held()["held"] == []
      assert not os.path.exists(FILES + "/cut") and len(os.listdir(ROOT + "/.uploads/sessions")) == 1
      assert stats()["chunks_received"] == 0 and stats()["files_published"] == 0
      # The same bytes with their end.
      sock = raw()
      sock.sendall(head("PUT", s.path(0), {**s.headers(0, data), "Transfer-Encoding": "chunked"}) + chunked + b"0\r\n\r\n")
      assert answer(sock)[0] == 201
      expect(s.commit(data), 200)
      """#)
    #expect(receiver.stop() == 0, "\(receiver.log)")
  }

  @Test func sigterm_letsARunningRequestFinish() async throws {
    let receiver = try ReceiverProgram()
    try await receiver.run(
      #"""
      s = Session()
      data = some_bytes(CS)
      idle = raw()
      sock = raw()
      sock.sendall(head("PUT", s.path(0), {**s.headers(0, data), "Content-Length": CS}) + data[:1000])
      until(lambda: stats()["chunk_requests_in_flight_max"] >= 1)
      os.kill(PID, signal.SIGTERM)
      # The idle connection is closed at once, so the signal has arrived.
      assert idle.recv(1) == b""
      sock.sendall(data[1000:])
      assert answer(sock)[0] == 201
      """#)
    #expect(receiver.wait() == 0, "\(receiver.log)")
    try receiver.start()
    #expect(receiver.stop() == 0)
  }

  @Test func sigterm_waitsForNoClientThatOnlyKeepsItsConnection() async throws {
    let receiver = try ReceiverProgram()
    try await receiver.run(
      #"""
      import select
      # None of these clients reads or answers from here on, as one that keeps a connection for later.
      kept = [raw() for _ in range(3)]
      for sock in [raw() for _ in range(3)]:
          sock.sendall(head("PUT", "/v1/files/" + secrets.token_hex(4), {**file_headers(b"x", secrets.token_hex(8)), "Content-Length": 1}) + b"x")
          assert answer(sock)[0] == 201
          kept.append(sock)
      started = raw()
      started.sendall(b"PUT /v1/fi")
      silent = socket.create_connection(("127.0.0.1", PORT), timeout=DEADLINE)
      handshaking = socket.create_connection(("127.0.0.1", PORT), timeout=DEADLINE)
      handshaking.sendall(b"\x16\x03\x01\x02\x00\x01")
      CONTEXT.set_alpn_protocols(["h2"])
      undecided, streams = raw(), raw()
      streams.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
      assert undecided.selected_alpn_protocol() == streams.selected_alpn_protocol() == "h2"
      streams.recv(1)
      CONTEXT.set_alpn_protocols(["http/1.1"])
      gone = raw()
      gone.sendall(head("GET", "/v1/stats", {}))
      assert answer(gone)[0] == 200
      gone.close()
      until(lambda: stats()["connections_accepted"] >= 12)
      ended = os.pidfd_open(PID)
      os.kill(PID, signal.SIGTERM)
      # The grace is 10 seconds; waiting for TLS alone would be 5.
      assert select.select([ended], [], [], 4)[0], "the receiver still ran"
      """#)
    #expect(receiver.wait() == 0, "\(receiver.log)")
  }

  @Test func secondSignal_endsAtOnce() async throws {
    let receiver = try ReceiverProgram()
    try await receiver.run(
      #"""
      import select
      s = Session()
      idle = raw()
      sock = raw()
      sock.sendall(head("PUT", s.path(0), {**s.headers(0, b"12"), "Content-Length": 2}) + b"1")
      until(lambda: stats()["chunk_requests_in_flight_max"] >= 1)
      os.kill(PID, signal.SIGINT)
      assert idle.recv(1) == b""
      # What comes right after the first one counts as its echo.
      ended = os.pidfd_open(PID)
      while not select.select([ended], [], [], 0.1)[0]: os.kill(PID, signal.SIGINT)
      try: assert sock.recv(1) == b""
      except OSError: pass
      """#)
    #expect(receiver.wait() == 0)
  }

  @Test func developmentFiles_areSecretAndKept() async throws {
    let receiver = try ReceiverProgram()
    let token = receiver.token
    let authority = TemporaryFolder.read("\(receiver.root)/.development/ca.pem")
    #expect(token.utf8.count >= 32)
    for name in ["token", "key.pem"] {
      #expect(receiver.folder.status("root/.development/\(name)").st_mode & 0o777 == 0o600)
    }
    #expect(receiver.lines.contains { $0.contains("--ca \(receiver.root)/.development/ca.pem") })
    #expect(!receiver.lines.contains { $0.contains(token) } && !receiver.log.contains(token))
    #expect(receiver.stop() == 0)
    try receiver.start()
    #expect(receiver.token == token)
    #expect(TemporaryFolder.read("\(receiver.root)/.development/ca.pem") == authority)
    try await receiver.run("stats()")
  }

  @Test(.promises("P5")) func tokens_haveTheirOwnRootsQuotasAndSessions() async throws {
    let folder = try TemporaryFolder()
    let tokens = "\(folder.path)/tokens"
    folder.write(Array("mine token-of-mine quota=600000\ntheirs/deep token-of-theirs\n".utf8), to: "tokens")
    chmod(tokens, 0o600)
    let receiver = try ReceiverProgram(
      ["--development", "--token-file", tokens, "--max-file-size", "2000000", "--headroom", "1000"], in: folder)
    try await receiver.run(
      #"""
      s = Session("mine.bin")
      for method, path in [("GET", ""), ("DELETE", ""), ("POST", "/commit")]:
          body = json.dumps(dict(size=0, chunk_count=0, merkle_root="00" * 32, chain_tip="00" * 32, name="x", if_exists="replace", modified_ns=0, mode=0))
          expect(call(method, f"/v1/uploads/{s.id}{path}", body, token="token-of-theirs"), 404, "not-found")
      theirs = Session("theirs.bin", key=s.key, token="token-of-theirs")
      assert theirs.id != s.id
      # The tag is made with the token: theirs does not fit.
      theirs.token = TOKEN
      headers = theirs.headers(0, b"x")
      expect(call("PUT", theirs.path(0), b"x", headers, token="token-of-theirs"), 422, "tag-mismatch")
      theirs.token = "token-of-theirs"
      expect(theirs.put(0, b"x"), 201)
      expect(theirs.commit(b"x"), 200)
      assert open(ROOT + "/theirs/deep/theirs.bin", "rb").read() == b"x"

      TOKEN = "token-of-mine"
      data = some_bytes(CS, 1) + some_bytes(CS, 2)
      s = Session("mine.bin")
      s.put_all(data)
      expect(s.put(2, some_bytes(CS, 3)), 507, "quota-exceeded")
      expect(s.commit(data), 200)
      full = Session("more.bin", key="second")
      expect(full.put(0, some_bytes(CS, 4)), 507, "quota-exceeded")
      other = Session("small", key="third")
      other.key = "fourth"
      expect(other.open(size=100000), 507, "quota-exceeded")
      assert expect(other.open(size=2000001), 413, "too-large")["limit"] == 2000000
      expect(other.open(size=10000), 201)
      # Files that were deleted on the receiver's disk count no more, a moment later.
      os.unlink(ROOT + "/mine/mine.bin")
      until(lambda: full.put(0, some_bytes(CS, 4))[0] != 507)
      expect(full.commit(some_bytes(CS, 4)), 200)
      """#)
    #expect(receiver.stop() == 0)
  }

  @Test(
    "Regression: counts are the caller's own, and there is no core dump",
    .promises("SE7", "SE8", "SE12"))
  func tenants_doNotSeeEachOther() async throws {
    let folder = try TemporaryFolder()
    for (name, text) in [("tokens", "a token-of-a\nb token-of-b\n"), ("operator", "the-operator\n")] {
      folder.write(Array(text.utf8), to: name)
      chmod("\(folder.path)/\(name)", 0o600)
    }
    let receiver = try ReceiverProgram(
      [
        "--development", "--token-file", "\(folder.path)/tokens", "--operator-token-file", "\(folder.path)/operator",
      ], in: folder)
    try await receiver.run(
      #"""
      a, b = Session("a.bin", token="token-of-a"), Session("b.bin", token="token-of-b")
      expect(a.put(0, b"x"), 201)
      def seen(token): return expect(call("GET", "/v1/stats", token=token), 200)
      assert [u["name"] for u in seen("token-of-a")["uploads"]] == ["a.bin"]
      assert [u["name"] for u in seen("token-of-b")["uploads"]] == ["b.bin"]
      assert seen("token-of-b")["bytes_received"] == 0 == seen("token-of-b")["chunks_received"]
      assert seen("token-of-b")["requests"] < seen("the-operator")["requests"]
      assert [u["name"] for u in seen("the-operator")["uploads"]] == ["b.bin", "a.bin"]
      expect(call("GET", "/metrics", token="token-of-a"), 403, "forbidden")
      expect(call("GET", "/metrics", token="nobody"), 401, "unauthorized")
      assert call("GET", "/metrics", token="the-operator")[0] == 200
      expect(call("GET", f"/v1/uploads/{a.id}", token="the-operator"), 403, "forbidden")
      stranger = Session.__new__(Session)
      stranger.__dict__ = {**a.__dict__, "token": "token-of-b"}
      expect(call("GET", f"/v1/uploads/{a.id}", token="token-of-b"), 404, "not-found")
      expect(stranger.put(0, b"x"), 404, "not-found")
      expect(stranger.commit(b"x"), 404, "not-found")
      expect(call("DELETE", f"/v1/uploads/{a.id}", token="token-of-b"), 404, "not-found")
      assert a.held()["held"] == [[0, 0]]
      limits = open(f"/proc/{PID}/limits").read()
      assert next(l for l in limits.splitlines() if l.startswith("Max core file size")).split()[4:6] == ["1", "1"], limits
      """#)
    #expect(receiver.stop() == 0)
  }

  @Test func fullDisk_isRefusedBeforeAnythingIsStored() async throws {
    let receiver = try ReceiverProgram(["--development", "--headroom", "4611686018427387904"])
    try await receiver.run(
      #"""
      expect(put_file("x", b"x", "k"), 507, "insufficient-storage")
      body = dict(name="x", size=1, chunk_size=CS, modified_ns=0, mode=0, file_id="f", revision=1, nonce="00" * 32)
      expect(call("POST", "/v1/uploads", json.dumps(body), {"Idempotency-Key": '"k"'}), 507, "insufficient-storage")
      assert published() == set() and os.listdir(ROOT + "/.uploads/sessions") == []
      """#)
  }

  @Test(.promises("P4", "P89a")) func openReceiver_needsNoToken() async throws {
    let folder = try TemporaryFolder()
    do { #expect(try ReceiverProgram(in: folder).stop() == 0) }
    let development = "\(folder.path)/root/.development"
    let receiver = try ReceiverProgram(
      [
        "--certificate", "\(development)/chain.pem", "--key", "\(development)/key.pem", "--open-on-loopback",
      ], in: folder)
    try await receiver.run(
      #"""
      real, TOKEN = TOKEN, ""
      headers = file_headers(b"x", "k")
      c = connect()
      c.request("PUT", "/v1/files/x", b"x", headers)
      assert c.getresponse().status == 201
      assert read("x") == b"x"
      """#)
  }

  @Test(.promises("P1")) func tls12_isRefused() async throws {
    try await ReceiverProgram().run(
      #"""
      CONTEXT.maximum_version = ssl.TLSVersion.TLSv1_2
      try:
          raw()
          raise SystemExit("TLS 1.2 was accepted")
      except ssl.SSLError: pass
      CONTEXT.maximum_version = ssl.TLSVersion.MAXIMUM_SUPPORTED
      assert raw().version() == "TLSv1.3"
      """#)
  }

  @Test(.promises("P4")) func startsThatCannotWork_sayWhyWithTheirExitCode() throws {
    let folder = try TemporaryFolder()
    let running = try ReceiverProgram(in: folder)
    let development = "\(running.root)/.development"
    let identity = ["--certificate", "\(development)/chain.pem", "--key", "\(development)/key.pem"]
    folder.write(Array("one word-less-line extra extra\n".utf8), to: "bad-tokens")
    folder.write(Array("files a-good-token\n".utf8), to: "tokens")
    folder.write(Array(". a-good-token\n".utf8), to: "whole-root")
    // Regression: it was cut.
    folder.write(Array("files a-good-token\n".utf8) + [UInt8](repeating: 0x23, count: 1_048_558), to: "long-tokens")
    folder.write(Array("a-good-token\n".utf8), to: "same-token")
    folder.write(Array("files a-good-token\nmore a-good-\n".utf8), to: "cut-tokens")
    folder.write(Array("a-good-\n".utf8), to: "cut-operator")
    folder.write(Array("nonsense".utf8), to: "nonsense.pem")
    folder.write([], to: "a-file")
    let other = try DevelopmentSetup.prepare(root: "\(folder.path)/other")
    #expect(!other.token.isEmpty)
    let listen = ["--listen", "127.0.0.1:0"]
    let fresh = ["--root", "\(folder.path)/fresh"]
    let tokens = ["--token-file", "\(folder.path)/tokens"]
    let cases: [(code: CInt, says: String, arguments: [String])] = [
      (
        20, ": Address already in use. Choose another --listen",
        ["--listen", "127.0.0.1:\(running.port)"] + fresh + identity + tokens
      ),
      (
        21, "cannot be read",
        listen + fresh + tokens + ["--certificate", "/nowhere.pem", "--key", "\(development)/key.pem"]
      ),
      (
        21, "--certificate",
        listen + fresh + tokens + ["--certificate", "\(folder.path)/nonsense.pem", "--key", "\(development)/key.pem"]
      ),
      (
        21, "belong together",
        listen + fresh + tokens
          + ["--certificate", "\(development)/chain.pem", "--key", "\(folder.path)/other/.development/key.pem"]
      ),
      (22, "in use by another receiver", listen + ["--root", running.root] + identity + tokens),
      (22, "--root", listen + ["--root", "\(folder.path)/a-file"] + identity + tokens),
      (23, "line 1", listen + fresh + identity + ["--token-file", "\(folder.path)/bad-tokens"]),
      (
        23, "line 2: a token of fewer than 8",
        listen + fresh + identity + ["--token-file", "\(folder.path)/cut-tokens"]
      ),
      (
        23, "a token of fewer than 8",
        listen + fresh + identity + tokens + ["--operator-token-file", "\(folder.path)/cut-operator"]
      ),
      (23, "1048577 bytes", listen + fresh + identity + ["--token-file", "\(folder.path)/long-tokens"]),
      (
        23, "may upload", listen + fresh + identity + tokens + ["--operator-token-file", "\(folder.path)/same-token"]
      ),
      (64, "--connections-per-peer", listen + fresh + identity + tokens + ["--connections-per-peer", "0"]),
      (23, "cannot be read", listen + fresh + identity + ["--token-file", "/nowhere"]),
      (23, "state", listen + fresh + identity + ["--token-file", "\(folder.path)/whole-root"]),
      (64, "--open-on-loopback", listen + fresh + identity),
      (64, "loopback", ["--listen", "0.0.0.0:0", "--open-on-loopback"] + fresh + identity),
      (64, "this machine only", ["--listen", "0.0.0.0:0", "--development"] + fresh),
      (64, "--certificate", listen + fresh + tokens),
      (64, "HOST:PORT", ["--listen", "8443"] + fresh + ["--development"]),
      (64, "--no-such-flag", listen + fresh + ["--development", "--no-such-flag"]),
    ]
    for (code, says, arguments) in cases {
      let failure = try ReceiverProgram.failedStart(arguments)
      #expect(failure.code == code, "\(arguments): \(failure.words)")
      #expect(failure.words.contains(says), "\(arguments): \(failure.words)")
      #expect(!failure.words.contains("a-good-token"))
    }
    #expect(running.stop() == 0)
  }
}
