import Promises
import Testing

/// Spools that were restored or run twice, as clients hear of them.
@Suite struct SpoolTests {
  private static let steps = #"""
    def start(count, mark="00", spool="ab", method="HEAD", path="/v1/", token=None):
        value = f"{spool * 16}-{count}-{mark * 16}"
        status, body, headers = call(method, path, headers={"X-Spool": value}, token=token)
        return status, headers.get("X-Spool-Known")
    def known(count, spool="ab"): return f"{spool * 16}-{count}"
    """#

  @Test(
    "Regression: a spool that was restored or runs twice is told so at its first request",
    .promises("P105", "P106"))
  func told() async throws {
    let receiver = try ReceiverProgram()
    try await receiver.run(
      Self.steps + "\n" + #"""
        assert start(1) == (204, None)
        assert start(4) == (204, None)
        # Whatever is asked, and whatever is answered.
        assert start(3, "01") == (204, known(4))
        assert start(4, "02", method="GET", path="/v1/capabilities") == (200, known(4))
        assert start(2, method="GET", path="/v1/uploads/none") == (404, known(4))
        s = Session.__new__(Session)
        s.key, s.nonce, s.token, s.name, s.size = "k", bytes(32), None, "a.bin", None
        body = dict(name="a.bin", chunk_size=CS, modified_ns=0, mode=0o640, file_id="f", revision=1, nonce=s.nonce.hex())
        status, opened, headers = call("POST", "/v1/uploads", json.dumps(body),
            {"Idempotency-Key": '"k"', "X-Spool": f"{'ab' * 16}-2-{'05' * 16}"})
        assert status == 201 and headers["X-Spool-Known"] == known(4), (status, opened)
        # What is not understood, and who may not ask, hear nothing.
        assert call("HEAD", "/v1/", headers={"X-Spool": "nonsense"})[2].get("X-Spool-Known") is None
        assert start(2, token="wrong") == (204, None)
        assert start(2, method="GET", path="/v1/capabilities", token="wrong") == (401, None)
        counts = call("GET", "/metrics")[1].decode()
        assert "uploadfs_receiver_spools_told_total 4\n" in counts, counts
        """#)
    #expect(receiver.stop() == 0)
    // It is said once for each start.
    #expect(
      receiver.log.split(separator: "\n").count { $0.contains("restored from a backup, or runs twice") } == 4,
      "\(receiver.log)")
    try receiver.start()
    try await receiver.run(
      Self.steps + "\n" + #"""
        assert start(3) == (204, known(4))
        assert start(4) == (204, None)
        assert start(5) == (204, None)
        # It reaches the disk within about a second, whatever comes then.
        path = ROOT + "/.uploads/spools"
        until(lambda: b"-5-" in open(path, "rb").read())
        os.kill(PID, signal.SIGKILL)
        """#)
    receiver.kill()
    try receiver.start()
    try await receiver.run(Self.steps + "\nassert start(4) == (204, known(5))")
  }

  @Test(
    "What is remembered of spools is damaged: it says so (regression: not of zeros), and nothing else is lost",
    .promises("P106"))
  func damaged() async throws {
    let receiver = try ReceiverProgram()
    try await receiver.run(Self.steps + "\nassert start(7) == (204, None)\nassert start(7, spool='cd') == (204, None)")
    #expect(receiver.stop() == 0)
    for (way, words, forgotten) in [
      ("flip", "the spools there are forgotten", "0"), ("cut", "the spools there are forgotten", "1"),
      ("zero", "the spools there are forgotten", "0"), ("folder", "take spools away", "0"),
    ] {
      try await receiver.run(
        #"""
        path, way = ROOT + "/.uploads/spools", "\#(way)"
        data = open(path, "rb").read()
        if way == "flip": open(path, "wb").write(data[:20] + b"?" + data[21:])
        elif way == "cut": open(path, "wb").write(data[:-3])
        elif way == "zero": open(path, "wb").write(bytes(len(data)))
        else:
            os.unlink(path)
            os.mkdir(path)
        """#)
      try receiver.start()
      #expect(receiver.log.lowercased().contains(words), "\(way): \(receiver.log)")
      try await receiver.run(
        Self.steps + "\n" + #"""
          expect(put_file("f-\#(way)", b"w", "key-\#(way)"), 201)
          heard = [start(6)[1], start(6, spool="cd")[1]]
          if "\#(way)" in ("zero", "folder"): assert heard == [None, None], heard
          else: assert heard[int("\#(forgotten)")] is None and heard[1 - int("\#(forgotten)")] is not None, heard
          assert start(7) == (204, None) and start(7, spool="cd") == (204, None)
          """#)
      #expect(receiver.stop() == 0)
    }
    // What was put in its place stays as it is.
    try await receiver.run(#"assert os.listdir(ROOT + "/.uploads/spools") == []"#)
  }
}
