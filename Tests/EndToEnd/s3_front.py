"""A front before an S3 or tus server that refuses what the server itself would take (ended keys, fields that it does not know), or passes
a request on late."""

import http.client
import http.server
import threading
import time

from harness import SOON

# Between one program and the next only; the others are the server's and the client's.
OF_ONE_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "date", "server"}


class S3Front:
    """Listens on a free loopback port and asks `refuses(method, path, headers)` before it passes a request on.

    It answers None for a request that is to be passed on, or status and code of a refusal. `served` holds method, path and
    status of every answer.
    """

    def __init__(self, target_port, refuses):
        self.refuses = refuses
        self.served = []
        self._target_port = target_port
        self._lock = threading.Lock()
        front = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # An answer in two pieces would wait for the client's acknowledgement of the first.
            wbufsize = -1

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except ConnectionError:
                    self.close_connection = True

            def _answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                refusal = front.refuses(self.command, self.path, self.headers)
                if refusal:
                    status, fields, answer = refusal[0], [], f"<Error><Code>{refusal[1]}</Code></Error>".encode()
                else:
                    status, fields, answer = front._pass_on(self.command, self.path, self.headers, body)
                with front._lock:
                    front.served.append((self.command, self.path, status))
                self.send_response(status)
                for name, value in fields:
                    self.send_header(name, value)
                # The length of what a HEAD is about is another one.
                if self.command != "HEAD":
                    self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer)

            do_GET = do_HEAD = do_OPTIONS = do_PUT = do_POST = do_PATCH = do_DELETE = _answer

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="s3-front", daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(SOON)

    def _pass_on(self, method, path, headers, body):
        connection = http.client.HTTPConnection("127.0.0.1", self._target_port, timeout=60)
        try:
            connection.request(method, path, body=body, headers=dict(headers))
            response = connection.getresponse()
            answer = response.read()
            fields = [(name, value) for name, value in response.getheaders() if name.lower() not in OF_ONE_HOP]
            if method == "HEAD":
                fields.append(("Content-Length", response.getheader("Content-Length", "0")))
            return response.status, fields, answer
        finally:
            connection.close()

    def count(self, method, mark, status=200):
        """How many such requests ended in this way."""
        with self._lock:
            return sum(1 for served in self.served if served[0] == method and mark in served[1] and served[2] == status)


class LateFront(S3Front):
    """Has all of the first request that publishes, as a proxy does that keeps bodies, and passes it on `seconds` later, whether its client
    is still there or not."""

    def __init__(self, target_port, publishes, seconds):
        super().__init__(target_port, lambda method, path, headers: None)
        self.taken, self.passed = threading.Event(), threading.Event()
        self._publishes, self._seconds, self._first = publishes, seconds, threading.Lock()

    def _pass_on(self, method, path, headers, body):
        if not self._publishes(method, path, headers) or not self._first.acquire(blocking=False):
            return super()._pass_on(method, path, headers, body)
        self.taken.set()
        time.sleep(self._seconds)
        try:
            return super()._pass_on(method, path, headers, body)
        finally:
            self.passed.set()
