"""A front of a receiver that lies about some files in the words of the chunk protocol."""

import http.client
import http.server
import json
import re
import ssl
import threading
import time
import urllib.parse

from certificates import tls_1_3

PROBLEM = "urn:uploadfs:problem:"


def problem(status, kind, **more):
    body = json.dumps({"type": PROBLEM + kind, "status": status, "detail": "as the test says"} | more)
    return status, {"Content-Type": "application/problem+json"}, body.encode()


class LyingReceiver(http.server.ThreadingHTTPServer):
    """Forwards to a receiver. `lie` is asked about each request of a file whose name holds “victim”, with a function that does what is
    asked and gives the true answer: it gives an answer (status, fields, body), None where the truth is to be told, and False for a
    connection that ends without one. Bodies that arrive are counted for each file, and times and addresses of lies noted. `early` answers
    some before their bodies are read."""

    daemon_threads = True

    def __init__(self, receiver, identity, lie=None, early=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.early = early
        if early:
            early.limit(self.socket)
        self.socket = tls_1_3(*identity).wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.target = receiver.port
        self.trust = ssl.create_default_context(cafile=receiver.ca)
        self.lie = lie
        self.lock = threading.Lock()
        self.sessions = {}
        self.received = {}
        self.lied_at = []
        self.lied_about = []
        self.url = f"https://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def lies(self):
        return len(self.lied_at)

    def handle_error(self, request, client_address):
        # Connections that the client's side ends.
        pass

    def close(self):
        if self.early:
            self.early.is_over.set()
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *words):
        pass

    def do(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.place = urllib.parse.urlsplit(self.path).path
        server = self.server
        if server.early and not self.opens and server.early.take(self, self.name_of(b""), length):
            return
        body = self.rfile.read(length)
        name = self.name_of(body)
        if name and self.carries_bytes:
            with server.lock:
                server.received[name] = server.received.get(name, 0) + len(body)
        answer = server.lie(self, body, lambda: self.forward(body)) if name and "victim" in name and server.lie else None
        if answer is None:
            answer = self.forward(body)
        else:
            with server.lock:
                server.lied_at.append(time.monotonic())
                server.lied_about.append(self.place)
        if answer is False:
            self.close_connection = True
            return
        self.learn(name, answer)
        self.send(*answer)

    do_HEAD = do_GET = do_POST = do_PUT = do_DELETE = do

    def send(self, status, fields, content):
        self.send_response_only(status)
        for field, value in fields.items():
            self.send_header(field, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    @property
    def carries_bytes(self):
        return self.command == "PUT" or self.place == "/v1/files" or self.place.endswith("/chunks")

    @property
    def asks(self):
        return self.command == "GET" and self.place.startswith("/v1/uploads/")

    @property
    def opens(self):
        return self.place == "/v1/uploads"

    @property
    def commits(self):
        return self.place.endswith("/commit")

    def name_of(self, body):
        if self.opens:
            return json.loads(body)["name"]
        if self.place == "/v1/files":
            found = re.search(rb"/v1/files/(\S+)", body)
            return found and found[1].decode()
        if self.place.startswith("/v1/files/"):
            return urllib.parse.unquote(self.place.removeprefix("/v1/files/"))
        found = re.match(r"/v1/uploads/([^/]+)", self.place)
        return self.server.sessions.get(found[1]) if found else None

    def learn(self, name, answer):
        if self.opens and answer[0] in (200, 201):
            try:
                self.server.sessions[json.loads(answer[2])["id"]] = name
            except (ValueError, KeyError):
                pass

    def forward(self, body):
        there = http.client.HTTPSConnection("127.0.0.1", self.server.target, context=self.server.trust, timeout=30)
        try:
            fields = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
            there.request(self.command, self.path, body, fields)
            answer = there.getresponse()
            content = answer.read()
            kept = {name: value for name, value in answer.getheaders()
                    if name.lower() not in ("content-length", "connection", "transfer-encoding", "date")}
            return answer.status, kept, content
        finally:
            there.close()
