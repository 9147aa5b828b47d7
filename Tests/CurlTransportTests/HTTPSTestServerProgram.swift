/// A small HTTPS server with bad manners on request. Standard library only, so that it runs wherever Python does.
///
/// `program DIRECTORY` serves one port for each `NAME.pem` certificate (with its key) in the directory, all with the same
/// behaviours, and prints one line of JSON with the ports, then one for each request whose head it has read. It ends when
/// its standard input ends, so it cannot outlive the test that started it. A line `release` on standard input lets go of
/// everything that is held.
let httpsTestServerProgram = #"""
  import hashlib, json, os, pathlib, socket, ssl, sys, threading

  output_lock = threading.Lock()
  state = threading.Condition()
  arrived, released = {}, False

  def report(**event):
      with output_lock:
          print(json.dumps(event), flush=True)

  class Connection:
      def __init__(self, stream, name, listener):
          self.stream, self.name, self.listener, self.buffer, self.requests = stream, name, listener, b"", 0

      def fill(self):
          data = self.stream.recv(65536)
          self.buffer += data
          return len(data) > 0

      def read_head(self):
          while b"\r\n\r\n" not in self.buffer:
              if not self.fill():
                  return None
          head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
          lines = head.decode("latin-1").split("\r\n")
          self.method, self.target, _ = lines[0].split(" ")
          self.fields = [line.split(":", 1) for line in lines[1:]]
          self.headers = {name.lower(): value.strip() for name, value in self.fields}
          self.left = int(self.headers.get("content-length", "0"))
          self.requests += 1
          return self.target

      def read_body(self, limit=None):
          digest, wanted = hashlib.sha256(), self.left if limit is None else min(limit, self.left)
          while wanted > 0:
              if not self.buffer and not self.fill():
                  return None
              piece, self.buffer = self.buffer[:wanted], self.buffer[wanted:]
              digest.update(piece)
              wanted -= len(piece)
              self.left -= len(piece)
          return digest.hexdigest()

      def send(self, status, body=b"", fields=(), reason="Text"):
          lines = [f"HTTP/1.1 {status} {reason}", f"Content-Length: {len(body)}", *fields]
          self.stream.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + (b"" if self.method == "HEAD" else body))

      def wait_for_client_to_leave(self):
          while self.fill():
              self.buffer = b""

      def answer(self):
          """False when the connection is to be closed."""
          path, _, query = self.target.partition("?")
          received = self.left
          if path == "/echo":
              digest = self.read_body()
              if digest is None:
                  return False
              self.send(200, json.dumps({
                  "method": self.method, "target": self.target, "bytes": received, "sha256": digest,
                  "tls": self.stream.version(), "isResumed": getattr(self.stream, "session_reused", None),
                  "requestOnConnection": self.requests,
                  "headers": [[name.lower(), value.strip()] for name, value in self.fields],
              }).encode(), ["X-Twice: one", "X-Twice:two", "X-Empty:", "ETag: \"mixed CASE\""])
          elif path == "/barrier":
              self.read_body()
              with state:
                  arrived[path] = arrived.get(path, 0) + 1
                  state.notify_all()
                  state.wait_for(lambda: arrived[path] >= int(query) or released)
              self.send(200, str(arrived[path]).encode())
          elif path == "/hold":
              self.read_body()
              with state:
                  state.wait_for(lambda: released)
              self.send(200)
          elif path == "/never-reads":
              with state:
                  state.wait_for(lambda: released)
              return False
          elif path == "/closes-in-mid-body":
              self.read_body(limit=65536)
              return False
          elif path == "/closes-in-mid-response":
              self.read_body()
              self.stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")
              return False
          elif path.startswith("/closes-in-mid-head"):
              self.read_body()
              self.stream.sendall(b"HTTP/1.1 " + (query or "200").encode() + b" OK\r\nETag: \"0\"\r\nLocation: /a\r\nContent-")
              return False
          elif path == "/closes-reused":
              digest = self.read_body()
              if self.requests > 1:
                  return False
              self.send(200, digest.encode())
          elif path == "/dies-reused":
              digest = self.read_body()
              if self.requests > 1:
                  # The server is gone: the next connection is refused.
                  self.listener.shutdown(socket.SHUT_RDWR)
                  return False
              self.send(200, digest.encode())
          elif path == "/refuses-early":
              self.send(413, b"{\"title\":\"too large\"}", ["Content-Type: application/problem+json"])
              self.wait_for_client_to_leave()
              return False
          elif path == "/refuses-early-and-closes":
              self.read_body(limit=65536)
              self.send(507, b"full", ["Connection: close"])
              return False
          elif path == "/succeeds-early":
              self.read_body(limit=1000)
              self.send(int(query), b"{}", ["ETag: \"x\"", "Location: /there", "Connection: close"])
              return False
          elif path == "/succeeds-early-and-stays":
              self.read_body(limit=1000)
              self.send(int(query), b"{}")
              with state:
                  state.wait_for(lambda: released)
              return False
          elif path == "/page-early":
              self.send(200, b"<title>Guest\nnetwork</title>", ["Content-Type: text/html"])
              self.wait_for_client_to_leave()
              return False
          elif path == "/already-held":
              self.send(200, b"held")
              self.read_body()
          elif path == "/interim":
              self.read_body()
              self.stream.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX-Stage: interim\r\n\r\n")
              self.send(201, b"made", ["X-Stage: final"])
          elif path == "/redirect":
              self.send(307, b"", ["Location: /echo"])
          elif path == "/large":
              self.send(200, bytes(int(query)))
          elif path == "/endless":
              self.stream.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
              piece = b"10000\r\n" + bytes(65536) + b"\r\n"
              while True:
                  self.stream.sendall(piece)
          elif path == "/many-headers":
              self.send(200, b"", [f"X-Field-{number}: {'x' * 1000}" for number in range(int(query))])
          elif path == "/long-header":
              self.send(200, b"", ["X-Field: " + "x" * int(query)])
          elif path == "/nonsense":
              self.stream.sendall(b"SSH-2.0-OpenSSH_9.2\r\n" * 10)
              return False
          else:
              self.read_body()
              self.send(404)
          return True

      def serve(self):
          try:
              while (target := self.read_head()) is not None:
                  report(event="request", target=target, method=self.method, port=self.name)
                  if not self.answer():
                      break
          except OSError:
              pass
          finally:
              self.stream.close()

  def accept(listener, context, name):
      def handshake(plain):
          try:
              plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
              stream = context.wrap_socket(plain, server_side=True) if context else plain
          except OSError:
              plain.close()
              return
          Connection(stream, name, listener).serve()
      while True:
          try:
              plain, _ = listener.accept()
          except OSError:
              return
          threading.Thread(target=handshake, args=(plain,), daemon=True).start()

  directory, ports = pathlib.Path(sys.argv[1]), {}
  served = [(path.stem, path) for path in sorted(directory.glob("*.pem")) if path.with_suffix(".key").exists()]
  served += [("tls12", directory / "good.pem"), ("plain", None)]
  for name, certificate in served:
      context = None
      if certificate:
          context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
          context.load_cert_chain(certificate, certificate.with_suffix(".key"))
          if name == "tls12":
              context.maximum_version = ssl.TLSVersion.TLSv1_2
      listener = socket.create_server(("127.0.0.1", 0), backlog=64)
      ports[name] = listener.getsockname()[1]
      threading.Thread(target=accept, args=(listener, context, name), daemon=True).start()
  report(event="ready", ports=ports)
  for line in sys.stdin:
      if line.strip() == "release":
          with state:
              released = True
              state.notify_all()
  os._exit(0)
  """#

/// Makes the certificates that the server needs in the directory that it is started in: an authority `ca.crt`, the server
/// certificates `good`, `expired` and `other-name` under it, and `foreign` under an authority that is not trusted.
let certificateScript = #"""
  set -eu
  cat > openssl.cnf <<END
  [req]
  distinguished_name = name
  prompt = no
  [name]
  CN = uploadfs test
  [authority]
  basicConstraints = critical, CA:true
  keyUsage = critical, keyCertSign
  subjectKeyIdentifier = hash
  [loopback]
  subjectAltName = IP:127.0.0.1, DNS:localhost
  [elsewhere]
  subjectAltName = DNS:elsewhere.example
  [ca]
  default_ca = test
  [test]
  database = index.txt
  new_certs_dir = .
  rand_serial = yes
  default_md = sha256
  policy = anything
  unique_subject = no
  [anything]
  commonName = supplied
  END
  : > index.txt
  key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc"
  authority() {
    openssl req -x509 -config openssl.cnf -extensions authority -subj "/CN=$1" $key -keyout "$1.secret" -out "$1.crt" -days 30
  }
  leaf() {
    openssl req -new -config openssl.cnf -subj "/CN=$1" $key -keyout "$1.key" -out "$1.csr"
    openssl ca -batch -notext -config openssl.cnf -cert "$2.crt" -keyfile "$2.secret" -extensions "$3" \
      -startdate 20240101000000Z -enddate "$4" -in "$1.csr" -out "$1.pem"
  }
  authority ca
  authority foreign-ca
  leaf good ca loopback 20491231000000Z
  leaf expired ca loopback 20240201000000Z
  leaf other-name ca elsewhere 20491231000000Z
  leaf foreign foreign-ca loopback 20491231000000Z
  """#
