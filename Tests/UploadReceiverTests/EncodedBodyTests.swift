import Promises
import Testing

@testable import UploadReceiver

/// Compressed bodies on the real executable: what they give, and how they lie.
@Suite struct EncodedBodyTests {
  @Test(.promises("P81")) func compressedFile_arrivesAsItsPlainBytes() async throws {
    try await ReceiverProgram().run(
      #"""
      data = some_bytes(CS, 1) + some_bytes(CS, 2) + some_bytes(CS, 3) + b"tail"
      s = Session("compressed.bin", len(data))
      assert s.opened[1]["encodings"] == ["identity", "lz4", "zstd"] == s.held()["encodings"]
      def put(index, **changes):
          plain, block = data[index * CS:(index + 1) * CS], lz4_run(CS, index + 1)
          return call("PUT", s.path(index), block, {**s.headers(index, plain), "X-Chunk-Encoding": "lz4", **changes})
      expect(put(0), 201)
      expect(put(0), 200)
      digest = "sha-256=:" + base64.b64encode(sha(lz4_run(CS, 2))).decode() + ":"
      expect(put(1, **{"Content-Digest": digest}), 201)
      # A body without a length: it is counted.
      expect(call("PUT", s.path(2), iter([lz4_run(CS, 3)[:5], lz4_run(CS, 3)[5:]]),
          {**s.headers(2, data[2 * CS:3 * CS]), "X-Chunk-Encoding": "lz4"}), 201)
      expect(s.put(3, b"tail"), 201)
      expect(s.commit(data), 200)
      assert read("compressed.bin") == data
      upload = stats()["uploads"][0]
      assert upload["bytes_received"] == len(data) + CS and upload["encoded_bytes_received"] < 10000, upload

      small = some_bytes(5000, 9)
      headers = {**file_headers(small, "k", X_Chunk_Encoding="lz4")}
      expect(call("PUT", "/v1/files/small", lz4_run(5000, 9), headers), 201)
      assert read("small") == small
      """#)
  }

  @Test(.promises("P84", "P85")) func lyingBlocks_areRefusedAndLeaveNothing() async throws {
    try await ReceiverProgram().run(
      #"""
      def free(): return [line for line in call("GET", "/metrics")[1].split(b"\n") if line.startswith(b"uploadfs_receiver_body_memory_free_bytes")]
      before = free()
      s = Session()
      old, new = some_bytes(CS, 1), some_bytes(CS, 2)
      expect(s.put(0, old), 201)
      block = lz4_run(CS, 2)
      def send(body, plain=new, **changes):
          return call("PUT", s.path(0), body, {**s.headers(0, plain), "X-Chunk-Encoding": "lz4", **{k.replace("_", "-"): v for k, v in changes.items()}})
      no_block = (422, "digest-mismatch", "X-Chunk-Encoding")
      too_long = (400, "bad-request", "X-Chunk-Encoding")
      # Bombs: 256 KiB and 1 GiB where 1000 bytes, or a chunk, are announced.
      expect(send(block, some_bytes(1100, 2)), *no_block)
      expect(send(lz4_run(60 << 20, 2)), *no_block)
      # Too little, cut off at any byte, with bytes behind it, and nonsense.
      expect(send(lz4_run(CS - 1, 2)), *no_block)
      for cut in [0, 1, 3, 4, 100, len(block) - 6, len(block) - 1]: expect(send(block[:cut]), *no_block)
      expect(send(block + b"\0"), *no_block)
      expect(send(secrets.token_bytes(1000)), *no_block)
      # A match that reaches before the beginning.
      expect(send(b"\x1f\x02\xff\xff" + block[4:]), *no_block)
      # The right block of other bytes: the digests are of the plain ones.
      expect(send(lz4_run(CS, 3)), 422, "digest-mismatch", "X-Chunk-SHA256")
      expect(send(block, Content_Digest="sha-256=:" + "A" * 43 + "=:"), 422, "digest-mismatch", "Content-Digest")
      expect(send(block, X_Chunk_HMAC="00" * 32), 422, "tag-mismatch")
      # Longer than the plain bytes: by its length, and when it is counted.
      expect(send(bytes(CS + 1)), *too_long)
      expect(send(iter([bytes(CS), b"x"])), *too_long)
      # What is announced is checked before anything is decoded.
      expect(send(block, X_Chunk_Size=str(CS + 1)), 413, "too-large")
      expect(send(block, X_Chunk_Size=str((1 << 64) - 1)), 413, "too-large")
      expect(send(block, X_Chunk_Size="0"), 400, "bad-request", "X-Chunk-Size")
      expect(send(block, X_Chunk_Encoding="LZ4"), *too_long)
      expect(call("PUT", "/v1/files/bomb", lz4_run(60 << 20), file_headers(bytes(1000), "k1", X_Chunk_Encoding="lz4")), *too_long)
      expect(call("PUT", "/v1/files/bomb", lz4_run(2000), file_headers(bytes(1000), "k2", X_Chunk_Encoding="lz4")), *no_block)
      expect(call("PUT", "/v1/files/bomb", b"", file_headers(b"", "k3", X_Chunk_Encoding="lz4")), *no_block)
      expect(call("PUT", "/v1/files/bomb", lz4_run(2000), file_headers(bytes(1000), "k4", X_Chunk_Encoding="lz4", X_Chunk_Size=str(1 << 40))), 413, "too-large")
      # One that breaks off in mid-block.
      sock = raw()
      sock.sendall(head("PUT", s.path(0), {**s.headers(0, new), "X-Chunk-Encoding": "lz4", "Content-Length": len(block)}) + block[:-1])
      sock.close()
      assert s.held()["digests"] == {"0": sha(old).hex()} and published() == set()
      until(lambda: free() == before)
      expect(send(block), 201)
      assert s.held()["digests"] == {"0": sha(new).hex()}
      """#)
  }

  @Test(.promises("P114", "P115", "P116", "P117")) func frames_areDecodedOrRefused() async throws {
    try await ReceiverProgram().run(
      #"""
      half = CS // 2
      data = some_bytes(CS, 1) + bytes(v for n in range(half) for v in (n & 255, n >> 8 & 255)) + b"tail"
      s = Session("framed.bin", len(data))
      def put(index, body, encoding, plain=None):
          plain = data[index * CS:(index + 1) * CS] if plain is None else plain
          return call("PUT", s.path(index), body, {**s.headers(index, plain), "X-Chunk-Encoding": encoding})
      same = [(131072, 1), (131072, 1)]
      # Two-byte numbers that count up from 0: the first one, and differences of 1.
      counting = [(1, 0), (131071, 1), (1, 0), (131071, 0)]
      no_frame = (422, "digest-mismatch", "X-Chunk-Encoding")
      expect(put(0, zstd_runs(same), "zstd"), 201)
      expect(put(1, zstd_runs(counting), "zstd;stride=2;difference=2"), 201)
      # Bytes of another filter are other bytes.
      expect(put(1, zstd_runs(counting), "zstd;stride=2"), 422, "digest-mismatch", "X-Chunk-SHA256")
      for lying in [zstd_runs(same)[:-1], zstd_runs(same) + b"\0", zstd_runs(same[:1]), zstd_runs(same[:1], CS), zstd_runs(same, CS - 1),
            zstd_runs(same + same), zstd_runs(same) * 2, zstd_runs([(0, 0)] * 530 + same), b"", secrets.token_bytes(1000),
            zstd_runs(same, header=b"\xe8"), zstd_runs(same, header=b"\xc0\xff"), zstd_runs(same, header=b"\xe1\1"),
            b"\x50\x2a\x4d\x18\1\0\0\0\0" + zstd_runs(same)]:
          expect(put(0, lying, "zstd"), *no_frame)
      for encoding in ["zstd;stride=65", "zstd;stride=4;difference=8", "zstd;window=1", "ZSTD"]:
          expect(put(0, zstd_runs(same), encoding), 400, "bad-request", "X-Chunk-Encoding")
      expect(put(0, bytes(CS + 1), "zstd"), 400, "bad-request", "X-Chunk-Encoding")
      expect(s.put(2, b"tail"), 201)
      expect(s.commit(data), 200)
      assert read("framed.bin") == data
      """#)
  }
}
