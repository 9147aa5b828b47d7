"""Records what a client and a server say to each other, as inputs for the fuzzers: record.py PORT TARGET KIND.

A proxy on 127.0.0.1:PORT, without TLS, in front of TARGET, a URL without a path. KIND is receiver, s3, tus, draft or form. Each
request and response of at most 6 KB becomes a file in Tests/Fuzzing/recorded/GROUP/PARSER, without credentials. One that
differs from another in numbers and digests only is no second file. To record anew:

    uploadfs-receiver serve --root R --listen 127.0.0.1:8443 --development &
    Tests/Fuzzing/record.py 8000 https://127.0.0.1:8443 receiver &
    uploadfs-mount mount M --to http://127.0.0.1:8000 --http 1.1 --token-file R/.development/token …
"""

import hashlib
import http.client
import http.server
import pathlib
import re
import ssl
import sys
import urllib.parse

recorded = pathlib.Path(__file__).parent / "recorded"
parsers = {
    "receiver": ["ResponseHead"], "s3": ["ResponseHead", "S3Answer"], "tus": ["ResponseHead", "TusFeatures"],
    "draft": ["ResponseHead", "ResumableLimits"], "form": ["ResponseHead", "FormAnswer"],
}
# What changes with each run and says nothing, and what is secret.
left_out = {"authorization", "date", "x-amz-request-id", "x-amz-security-token", "x-amzn-requestid", "host", "user-agent"}


def keep(group, parser, content):
    if not content or len(content) > 6000:
        return
    folder = recorded / group / parser
    folder.mkdir(parents=True, exist_ok=True)
    shape = re.sub(rb"[0-9A-Za-z+/=-]{24,}|[0-9A-Fa-f]{8,}|[0-9]+|[^ -~\n]+", b"#", content)
    (folder / hashlib.sha256(shape).hexdigest()[:12]).write_bytes(content)


def fields(headers, end):
    return "".join(f"{name}: {value}{end}" for name, value in headers if name.lower() not in left_out)


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        target = urllib.parse.urlsplit(sys.argv[2])
        kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
        options = {"context": ssl._create_unverified_context()} if target.scheme == "https" else {}
        connection = kind(target.hostname, target.port, **options)
        sent = {name: value for name, value in self.headers.items() if name.lower() not in ("expect", "connection")}
        connection.request(self.command, self.path, body, sent)
        answer = connection.getresponse()
        content = answer.read()
        self.remember(body, answer, content)
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else len(content)
        if answer.status != 204 and length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)
        connection.close()

    def remember(self, body, answer, content):
        head = f"HTTP/1.1 {answer.status} {answer.reason}\r\n" + fields(answer.getheaders(), "\r\n") + "\r\n"
        for parser in parsers[sys.argv[3]]:
            keep("client", parser, head.encode() + content)
        if content.startswith(b"<"):
            keep("client", "XMLElement", content)
        if sys.argv[3] != "receiver":
            return
        # The exchange as the fuzzers' steps have it: the place of the destination and of the first step at the end.
        keep("client", "Destinations", head.encode() + content + bytes([2, 0]))
        if "bundle" in (self.headers.get("Content-Type") or "") and self.headers.get("X-Chunk-Encoding"):
            size = int(self.headers["X-Chunk-Size"])
            if size < 1 << 16:
                keep("receiver", "FramedBundle", body + b"\0\0" + size.to_bytes(2, "big"))
            keep("client", "BundleAnswer", content)
        elif "bundle" in (self.headers.get("Content-Type") or ""):
            keep("receiver", "BundleReader", body + b"\0\0\0\0")
            keep("receiver", "RunIntake" if self.path.endswith("/chunks") else "BundleIntake", body + b"\0\0")
            keep("client", "BundleAnswer", content)
        elif content.startswith(b'{"chain_tip"'):
            keep("client", "ReceiptBody", content)
        text = body if body.startswith(b"{") else b""
        request = f"{self.command} {self.path}\n{fields(self.headers.items(), chr(10))}\n"
        keep("receiver", "RequestTranslation", request.encode() + text)
        keep("receiver", "ProtocolPath", self.path.encode())
        if text:
            keep("receiver", "WireJSON", text)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_PATCH = do_OPTIONS = handle_any

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Proxy).serve_forever()
