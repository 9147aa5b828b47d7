/// The client's half of docs/protocol.md in plain Python, so that it is not checked against its own code. Arguments:
/// port, root, token, authority, process id.
let clientProgram = #"""
  import base64, hashlib, hmac, http.client, json, os, re, secrets, signal, socket, ssl, struct, sys, threading, time
  PORT, ROOT, TOKEN, CA, PID = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])
  FILES = ROOT + "/files"
  CONTEXT = ssl.create_default_context(cafile=CA)
  DEADLINE = 60
  CS = 262144
  TABLE = []
  for n in range(256):
      for _ in range(8): n = (n >> 1) ^ 0x82F63B78 if n & 1 else n >> 1
      TABLE.append(n)
  CRCS = {}
  def crc32c(data):
      if data not in CRCS:
          c = 0xFFFFFFFF
          for x in data: c = TABLE[(c ^ x) & 255] ^ (c >> 8)
          CRCS[data] = c ^ 0xFFFFFFFF
      return CRCS[data]
  # Cheap to checksum in Python, yet different in every chunk.
  def some_bytes(count, seed=0):
      return bytes([seed]) * count
  # The LZ4 block of `count` times one byte: a literal, a match that repeats it, and the five literals that end a block.
  def lz4_run(count, seed=0):
      rest = count - 1 - 5 - 4 - 15
      assert rest >= 0
      return (bytes([0x1F, seed, 1, 0]) + b"\xff" * (rest // 255) + bytes([rest % 255])
          + bytes([0x50]) + bytes([seed]) * 5)
  # The Zstandard frame of these runs of one byte each, and with the 8 bytes of the plain length.
  def zstd_runs(runs, count=None, header=b"\xe0"):
      size = sum(length for length, _ in runs) if count is None else count
      blocks = b"".join(struct.pack("<I", length << 3 | 2 | (n == len(runs) - 1))[:3] + bytes([byte])
          for n, (length, byte) in enumerate(runs))
      return b"\x28\xb5\x2f\xfd" + header + struct.pack("<Q", size) + blocks
  # The frame of these bytes: runs of a byte, and what is between them as it is.
  def zstd_frame(plain):
      blocks = [(1, length, plain[start:start + 1]) if is_run else (0, length, plain[start:start + length])
          for start, length, is_run in stretches(plain)]
      return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", len(plain)) + b"".join(
          struct.pack("<I", length << 3 | kind << 1 | (n == len(blocks) - 1))[:3] + data for n, (kind, length, data) in enumerate(blocks))
  def stretches(plain):
      start = 0
      for found in list(re.finditer(rb"(.)\1{63,60000}", plain, re.DOTALL)) + [None]:
          end = found.start() if found else len(plain)
          for at in range(start, end, 60000): yield at, min(60000, end - at), False
          if found: yield found.start(), len(found[0]), True
          start = found.end() if found else end
  def hkdf(key, salt, info):
      prk = hmac.new(salt or bytes(32), key, hashlib.sha256).digest()
      return hmac.new(prk, info + b"\1", hashlib.sha256).digest()
  def sha(data): return hashlib.sha256(data).digest()
  def tag(session, nonce, index, size, digest, token=None):
      master = hkdf((TOKEN if token is None else token).encode(), b"", b"uploadfs master key v1")
      key = hkdf(master, nonce, b"uploadfs chunk hmac v1" + session.encode())
      return hmac.new(key, struct.pack("<IQ", index, size) + digest.hex().encode() + session.encode() + nonce, "sha256").hexdigest()
  def root_of(leaves):
      if not leaves: return sha(b"")
      if len(leaves) == 1: return sha(b"\0" + leaves[0])
      k = 1
      while k * 2 < len(leaves): k *= 2
      return sha(b"\1" + root_of(leaves[:k]) + root_of(leaves[k:]))
  def tip_of(session, leaves):
      tip = sha(b"uploadfs-commitment-v1" + session.encode())
      for leaf in leaves: tip = sha(tip + leaf)
      return tip
  def until(happened):
      end = time.monotonic() + DEADLINE
      while not happened(): assert time.monotonic() < end, "it did not happen in time"
  def connect(): return http.client.HTTPSConnection("127.0.0.1", PORT, context=CONTEXT, timeout=DEADLINE)
  def raw():
      plain = socket.create_connection(("127.0.0.1", PORT), timeout=DEADLINE)
      return CONTEXT.wrap_socket(plain, server_hostname="localhost")
  def call(method, path, body=None, headers={}, connection=None, token=None):
      c = connection or connect()
      c.request(method, path, body, {"Authorization": "Bearer " + (token or TOKEN), **headers})
      r = c.getresponse()
      data = r.read()
      if connection is None: c.close()
      if r.headers.get("Content-Type", "").endswith("json"): data = json.loads(data)
      return r.status, data, r.headers
  def expect(answer, status, kind=None, field=None):
      assert answer[0] == status, f"expected {status}, got {answer[0]} {answer[1]}"
      if kind: assert answer[1]["type"] == "urn:uploadfs:problem:" + kind, answer[1]
      if field: assert answer[1]["field"] == field, answer[1]
      return answer[1]
  class Session:
      file_id = "f"
      def __init__(self, name="scan.mov", size=None, key=None, token=None, file_id="f"):
          self.file_id = file_id
          self.key, self.nonce, self.token, self.name = key or secrets.token_hex(8), secrets.token_bytes(32), token, name
          self.size = size
          self.opened = self.open()
          expect(self.opened, 201)
          self.id = self.opened[1]["id"]
      def open(self, **changes):
          body = dict(name=self.name, size=self.size, chunk_size=CS, modified_ns=1700000000123456789, mode=0o640,
              file_id=self.file_id, revision=1, nonce=self.nonce.hex())
          body.update(changes)
          return call("POST", "/v1/uploads", json.dumps(body), {"Idempotency-Key": f'"{self.key}"'}, token=self.token)
      def headers(self, index, data, **changes):
          h = {"X-Chunk-SHA256": sha(data).hex(), "X-Chunk-CRC32C": "%08x" % crc32c(data), "X-Chunk-Size": str(len(data)),
              "X-Chunk-HMAC": tag(self.id, self.nonce, index, len(data), sha(data), self.token)}
          h.update({k.replace("_", "-"): v for k, v in changes.items()})
          return h
      def path(self, index): return f"/v1/uploads/{self.id}/chunks/{index}"
      def put(self, index, data, connection=None, **changes):
          return call("PUT", self.path(index), data, self.headers(index, data, **changes), connection, self.token)
      def put_all(self, data):
          for index in range(0, (len(data) + CS - 1) // CS): expect(self.put(index, data[index * CS:(index + 1) * CS]), 201)
      def held(self): return expect(call("GET", f"/v1/uploads/{self.id}?digests=1", token=self.token), 200)
      def commit(self, data, **changes):
          leaves = [sha(data[i:i + CS]) for i in range(0, len(data), CS)]
          body = dict(size=len(data), chunk_count=len(leaves), merkle_root=root_of(leaves).hex(),
              chain_tip=tip_of(self.id, leaves).hex(), name=self.name, if_exists="replace", modified_ns=1700000000123456789,
              mode=0o640)
          body.update(changes)
          return call("POST", f"/v1/uploads/{self.id}/commit", json.dumps(body), token=self.token)
  # What a receipt's client may say later: which publication it was.
  def claim(receipt, chunk_size=None):
      return {"file_id": receipt["file_id"], "merkle_root": receipt["merkle_root"], "size": receipt["size"],
          **({"chunk_size": chunk_size} if chunk_size else {})}
  def claim_field(receipt): return f"{receipt['file_id']};{receipt['merkle_root']};{receipt['size']};{max(1, receipt['size'])}"
  def file_headers(data, key, **changes):
      nonce = secrets.token_bytes(32)
      h = {"Idempotency-Key": f'"{key}"', "X-Chunk-Nonce": nonce.hex(), "X-Chunk-SHA256": sha(data).hex(),
          "X-Chunk-CRC32C": "%08x" % crc32c(data), "X-Chunk-Size": str(len(data)),
          "X-Chunk-HMAC": tag(key, nonce, 0, len(data), sha(data))}
      h.update({k.replace("_", "-"): v for k, v in changes.items()})
      return h
  def put_file(path, data, key, **changes): return call("PUT", "/v1/files/" + path, data, file_headers(data, key, **changes))
  BUNDLE = "application/x-uploadfs-bundle"
  def member(path, body, headers): return member_to("/v1/files/" + path, body, headers)
  def member_to(target, body, headers):
      lines = [f"PUT {target} HTTP/1.1"] + [f"{k}: {v}" for k, v in headers.items()] + [f"Content-Length: {len(body)}"]
      return ("\r\n".join(lines) + "\r\n\r\n").encode() + body
  def plain_member(path, data, key, **changes): return member(path, data, file_headers(data, key, **changes))
  def send_bundle(body, headers={}, connection=None):
      return call("POST", "/v1/files", body, {"Content-Type": BUNDLE, **headers}, connection)
  def run_member(session, index, data, sent=None, **changes):
      return member_to(session.path(index), data if sent is None else sent, session.headers(index, data, **changes))
  def run_head(session, length):
      return head("POST", f"/v1/uploads/{session.id}/chunks", {"Content-Type": BUNDLE, "Content-Length": length})
  def send_run(session, body):
      return call("POST", f"/v1/uploads/{session.id}/chunks", body, {"Content-Type": BUNDLE})
  # Chunks of zeros; `ranges` are [first, last].
  def zeros_tag(session, ranges):
      key = hkdf(hkdf(TOKEN.encode(), b"", b"uploadfs master key v1"), session.nonce, b"uploadfs chunk hmac v1" + session.id.encode())
      said = b"".join(struct.pack("<II", *r) for r in ranges)
      message = b"uploadfs zeros v1" + struct.pack("<Q", CS) + sha(bytes(CS)).hex().encode() + struct.pack("<I", len(ranges)) + said
      return hmac.new(key, message + session.id.encode() + session.nonce, "sha256").hexdigest()
  def send_zeros(session, ranges, **changes):
      body = json.dumps({"ranges": ranges, "hmac": zeros_tag(session, ranges), **changes})
      return call("POST", f"/v1/uploads/{session.id}/zeros", body, {"Content-Type": "application/json"})
  # The members' answers: the status and the body's bytes.
  def answers_of(answer): return [(status, body) for status, body, _ in parts_of(answer)]
  # The same as `call` gives those of requests.
  def members_of(answer): return [(status, json.loads(body), fields) for status, body, fields in parts_of(answer)]
  def parts_of(answer):
      assert answer[0] == 200 and answer[2]["Content-Type"] == BUNDLE, answer
      found, rest = [], answer[1]
      while rest:
          start, rest = rest.split(b"\r\n\r\n", 1)
          line, *fields = start.decode().split("\r\n")
          assert line.startswith("HTTP/1.1 "), line
          fields = dict(field.split(": ", 1) for field in fields)
          body, rest = rest[:int(fields["Content-Length"])], rest[int(fields["Content-Length"]):]
          found.append((int(line.split(" ")[1]), body, fields))
      return found
  def stats(): return expect(call("GET", "/v1/stats"), 200)
  def published():
      return {os.path.relpath(os.path.join(d, f), FILES) for d, _, fs in os.walk(FILES) for f in fs}
  def read(name): return open(os.path.join(FILES, name), "rb").read()
  def head(method, path, headers):
      lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Authorization: Bearer " + TOKEN]
      return ("\r\n".join(lines + [f"{k}: {v}" for k, v in headers.items()]) + "\r\n\r\n").encode()
  # HTTP/2 by hand: frames, and header fields as HPACK literals.
  def frame(kind, payload=b"", flags=0, stream=0):
      return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload
  def hpack(fields):
      def text(t): return (bytes([len(t)]) if len(t) < 127 else bytes([127, len(t) - 127])) + t.encode()
      return b"".join(b"\0" + text(n) + text(v) for n, v in fields)
  PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
  SETTINGS, PING, GOAWAY = 4, 6, 7
  H2 = ssl.create_default_context(cafile=CA)
  H2.set_alpn_protocols(["h2"])
  def raw2(settings=b""):
      sock = H2.wrap_socket(socket.create_connection(("127.0.0.1", PORT), timeout=DEADLINE), server_hostname="localhost")
      assert sock.selected_alpn_protocol() == "h2"
      sock.sendall(PREFACE + frame(SETTINGS, settings))
      return sock
  def get2(path, stream, token=None):
      fields = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
      if token: fields.append(("authorization", "Bearer " + token))
      return frame(1, hpack(fields), flags=5, stream=stream)
  # Reads what comes until the receiver ends the connection.
  def until_closed(sock):
      try:
          while sock.recv(65536): pass
      except (ConnectionError, ssl.SSLError): pass
  def answer(sock):
      r = http.client.HTTPResponse(sock)
      r.begin()
      return r.status, r.read(), r.headers
  """#
