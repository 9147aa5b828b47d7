"""A receiver of the chunk protocol, written a second time from docs/protocol.md and docs/openapi.yaml and nothing else: what the mount
needs of a receiver stands there, or it is missing there."""

import hmac
import http.server
import io
import json
import os
import re
import ssl
import struct
import threading
import time
import urllib.parse
from hashlib import sha256
from hmac import compare_digest

from certificates import tls_1_3
from protocol_client import RUN, chain_tip, crc32c, hkdf, merkle_root, tag

WEEK = 604_800


class Problem(Exception):
    def __init__(self, status, kind, **more):
        super().__init__(kind)
        self.status = status
        self.document = {
            "type": f"urn:uploadfs:problem:{kind}", "title": kind, "status": status, "detail": f"the second receiver: {kind}"} | more


def hexadecimal(text, field, size=32):
    try:
        value = bytes.fromhex(text)
    except (TypeError, ValueError):
        raise Problem(400, "bad-request", field=field) from None
    if len(value) != size:
        raise Problem(400, "bad-request", field=field)
    return value


def checked_name(name):
    parts = name.split("/")
    is_text = all(not (ord(letter) < 0x20 or 0x7f <= ord(letter) <= 0x9f) for letter in name)
    if not is_text or len(name.encode()) > 4096 or any(part in ("", ".", "..") or len(part.encode()) > 255 for part in parts):
        raise Problem(422, "name-refused", field="name")
    return name


def ranges(indices):
    found = []
    for index in sorted(indices):
        if found and found[-1][1] == index - 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return found


class Upload:
    """A session. Its chunks lie in memory."""

    def __init__(self, opening, chunk_size):
        self.id = os.urandom(16).hex()
        self.opening = opening
        self.chunk_size = chunk_size
        self.nonce = hexadecimal(opening.get("nonce"), "nonce")
        self.chunks = {}
        self.receipt = None
        self.commit = None

    def digest(self, index):
        return sha256(self.chunks[index]).digest()


class SecondReceiver:
    """Serves until it is closed. `is_plain`: it takes no bundles, runs or zeros, and says nothing of them."""

    def __init__(self, folder, identity, ca, token, is_plain=False, chunk_size_max=16 << 20):
        self.files, self.ca, self.token, self.is_plain = folder / "files", ca, token, is_plain
        self.files.mkdir(parents=True)
        self.token_file = folder / "token"
        self.token_file.touch(mode=0o600)
        self.token_file.write_text(token)
        self.chunk_size_max = chunk_size_max
        self.lock = threading.Lock()
        self.instance = os.urandom(16).hex()
        self.uploads, self.keys, self.receipts = {}, {}, {}
        # Which capture a published name is of.
        self.owners = {}
        # (session, index) of each chunk that came with its bytes, and how many requests of each kind there were.
        self.received, self.kinds = [], {}
        self.connections = set()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"receiver": self}))
        server.daemon_threads = True
        server.socket = tls_1_3(*identity).wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.handle_error = lambda *_: None
        self.server, self.port = server, server.server_port
        self.url = f"https://127.0.0.1:{self.port}"
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def published(self, name):
        return (self.files / name).read_bytes()

    # MARK: What is asked

    def answer(self, method, target, headers, body):
        """(status, headers, body) of a request, or of a member of a bundle or a run."""
        path, _, query = target.partition("?")
        parts = path.removeprefix("/v1/").split("/")
        kind = f"{method} {parts[0] if parts[0] != 'uploads' else '/'.join(['uploads'] + parts[2:3])}"
        with self.lock:
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
        match method, parts:
            case "GET", ["capabilities"]:
                return self.json(200, self.capabilities())
            case "POST", ["uploads"]:
                return self.open(headers, self.document(body))
            case "GET", ["uploads", name]:
                return self.json(200, self.held(self.upload(name), urllib.parse.parse_qs(query)))
            case "DELETE", ["uploads", name]:
                return self.end(self.upload(name))
            case "PUT", ["uploads", name, "chunks", index] if re.fullmatch(r"0|[1-9]\d{0,5}", index):
                return self.store(self.upload(name), int(index), headers, body)
            case "POST", ["uploads", name, "zeros"] if not self.is_plain:
                return self.store_zeros(self.upload(name), self.document(body))
            case "POST", ["uploads", name, "chunks"] if not self.is_plain:
                self.upload(name)
                return self.several(body, f"/v1/uploads/{name}/chunks/")
            case "POST", ["uploads", name, "commit"]:
                return self.commit(self.upload(name), self.document(body))
            case "PUT", ["files", *_]:
                return self.whole_file(path.removeprefix("/v1/files/"), headers, body)
            case "POST", ["files"] if not self.is_plain:
                return self.several(body, "/v1/files/")
        raise Problem(404, "not-found")

    @staticmethod
    def json(status, document):
        return status, {"Content-Type": "application/json"}, json.dumps(document).encode()

    @staticmethod
    def document(body):
        try:
            found = json.loads(body)
        except ValueError:
            raise Problem(400, "bad-request", field="") from None
        if not isinstance(found, dict):
            raise Problem(400, "bad-request", field="")
        return found

    def abilities(self):
        """P14, P120"""
        said = {"X-Chunk-Encodings": "identity", "X-Instance": self.instance}
        if not self.is_plain:
            said |= {"X-Bundle-Files-Max": "64", "X-Run-Bytes-Max": str(32 << 20), "X-Zero-Ranges-Max": "1000"}
        return said

    def capabilities(self):
        said = {
            "protocol_version": 1, "chunk_bytes_min": 64 << 10, "chunk_bytes_max": self.chunk_size_max,
            "file_bytes_max": 1 << 40, "encodings": ["identity"], "digests": ["sha-256", "crc32c"], "concurrent_chunks": 12,
            "whole_file_bytes_max": self.chunk_size_max, "replay_safe": False, "erasure": False}
        if not self.is_plain:
            said |= {
                "bundle_files_max": 64, "bundle_bytes_max": 4 << 20, "run_chunks_max": 128, "run_bytes_max": 32 << 20,
                "zero_ranges_max": 1000}
        return said

    def key(self, headers):
        value = headers.get("idempotency-key", "")
        if not re.fullmatch(r'"[\x20-\x7e]{1,255}"', value):
            raise Problem(400, "bad-request", field="Idempotency-Key")
        return value[1:-1]

    # MARK: Sessions

    def upload(self, name):
        with self.lock:
            found = self.uploads.get(name)
        if not found:
            raise Problem(404, "not-found")
        return found

    def open(self, headers, opening):
        key = self.key(headers)
        checked_name(opening["name"])
        with self.lock:
            known = self.keys.get(key)
            if known and (not isinstance(known, Upload) or known.opening != opening):
                raise Problem(422, "idempotency-mismatch", field="Idempotency-Key")
            upload = known or Upload(opening, min(opening["chunk_size"], self.chunk_size_max))
            self.keys[key] = self.uploads[upload.id] = upload
        document = {
            "id": upload.id, "chunk_size": upload.chunk_size, "expires_at": int(time.time()) + WEEK, "encodings": ["identity"]}
        return self.json(200 if known else 201, document)

    def check(self, headers, body, limit, identity, index, nonce):
        """P24, P31"""
        digest = hexadecimal(headers.get("x-chunk-sha256"), "X-Chunk-SHA256")
        crc = hexadecimal(headers.get("x-chunk-crc32c"), "X-Chunk-CRC32C", 4)
        if headers.get("x-chunk-encoding", "identity") != "identity":
            raise Problem(400, "bad-request", field="X-Chunk-Encoding")
        size = int(headers.get("x-chunk-size", "-1"))
        if size > limit:
            raise Problem(413, "too-large", limit=limit)
        if size != len(body):
            raise Problem(400, "bad-request", field="X-Chunk-Size")
        if sha256(body).digest() != digest:
            raise Problem(422, "digest-mismatch", field="X-Chunk-SHA256")
        if crc32c(body) != int.from_bytes(crc, "big"):
            raise Problem(422, "digest-mismatch", field="X-Chunk-CRC32C")
        if not compare_digest(tag(self.token, nonce, identity, index, body), headers.get("x-chunk-hmac", "").lower()):
            raise Problem(422, "tag-mismatch", field="X-Chunk-HMAC")

    def store(self, upload, index, headers, body):
        if not body:
            raise Problem(400, "bad-request", field="X-Chunk-Size")
        self.check(headers, body, upload.chunk_size, upload.id, index, upload.nonce)
        with self.lock:
            self.received.append((upload.id, index))
            if upload.receipt:
                raise Problem(409, "conflict")
            was_held = upload.chunks.get(index) == body
            upload.chunks[index] = body
        return (200 if was_held else 201), {}, b""

    def store_zeros(self, upload, asked):
        said = [tuple(pair) for pair in asked.get("ranges", [])]
        ends = [index for pair in said for index in pair]
        if not said or len(said) > 1000 or any(first > last for first, last in said) or ends != sorted(ends):
            raise Problem(400, "bad-request", field="ranges")
        zeros = bytes(upload.chunk_size)
        master = hkdf(self.token.encode(), b"", b"uploadfs master key v1")
        key = hkdf(master, upload.nonce, b"uploadfs chunk hmac v1" + upload.id.encode())
        message = b"uploadfs zeros v1" + struct.pack("<Q", upload.chunk_size) + sha256(zeros).hexdigest().encode()
        message += struct.pack("<I", len(said)) + b"".join(struct.pack("<II", *pair) for pair in said)
        meant = hmac.new(key, message + upload.id.encode() + upload.nonce, "sha256").hexdigest()
        if not compare_digest(meant, asked.get("hmac", "").lower()):
            raise Problem(422, "tag-mismatch")
        indices = [index for first, last in said for index in range(first, last + 1)]
        with self.lock:
            if upload.receipt:
                raise Problem(409, "conflict")
            were_held = all(upload.chunks.get(index) == zeros for index in indices)
            for index in indices:
                upload.chunks[index] = zeros
        return (200 if were_held else 201), {}, b""

    def held(self, upload, query):
        with self.lock:
            first = 0
            while first in upload.chunks:
                first += 1
            tip = chain_tip(upload.id, [upload.digest(index) for index in range(first)])
            document = {
                "id": upload.id, "state": "committed" if upload.receipt else "open", "chunk_size": upload.chunk_size,
                "held": ranges(upload.chunks), "chain_tip": tip.hex(), "expires_at": int(time.time()) + WEEK,
                "encodings": ["identity"]}
            if query.get("digests") == ["1"]:
                document["digests"] = {str(index): upload.digest(index).hex() for index in upload.chunks}
            if upload.receipt:
                document["receipt"] = upload.receipt
        return document

    def end(self, upload):
        with self.lock:
            if upload.receipt:
                raise Problem(409, "conflict")
            del self.uploads[upload.id]
            self.keys = {key: value for key, value in self.keys.items() if value is not upload}
        return 204, {}, b""

    def commit(self, upload, asked):
        name, size, count = checked_name(asked["name"]), asked["size"], asked["chunk_count"]
        if count != -(-size // upload.chunk_size):
            raise Problem(400, "bad-request", field="chunk_count")
        deadline = time.monotonic() + 2
        while not upload.receipt:
            with self.lock:
                sizes = [min(upload.chunk_size, size - index * upload.chunk_size) for index in range(count)]
                missing = [index for index in range(count) if len(upload.chunks.get(index, b"")) != sizes[index]]
            if not missing:
                break
            if time.monotonic() > deadline:
                raise Problem(409, "incomplete", missing=missing[:1000])
            time.sleep(0.01)
        with self.lock:
            if upload.receipt:
                if upload.receipt["merkle_root"] == asked["merkle_root"] and upload.receipt["name"] == name:
                    return self.json(200, upload.receipt)
                raise Problem(409, "conflict")
            digests = [upload.digest(index) for index in range(count)]
            if merkle_root(digests).hex() != asked["merkle_root"].lower():
                raise Problem(422, "digest-mismatch", field="merkle_root")
            if chain_tip(upload.id, digests).hex() != asked["chain_tip"].lower():
                raise Problem(422, "digest-mismatch", field="chain_tip")
            content = b"".join(upload.chunks[index] for index in range(count))
            upload.receipt = self.publish(
                name, content, asked["modified_ns"], asked["mode"], digests, chain_tip(upload.id, digests),
                upload.opening.get("file_id"), asked.get("replaces"), asked.get("if_taken"))
            return self.json(200, upload.receipt)

    # MARK: Files

    def publish(self, name, content, modified, mode, digests, tip, file_id, replaces, if_taken):
        """P43, P45, and of P109 what a folder of its own needs: a file gives way to the client that has published it."""
        place = name
        if if_taken == "number":
            number = 1
            while (self.files / place).exists() and self.owners.get(place) not in [file_id, *self.replaced(replaces)]:
                number += 1
                stem, dot, extension = name.rpartition(".")
                place = f"{stem}-{number}.{extension}" if dot and stem and "/" not in extension else f"{name}-{number}"
        path = self.files / place
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.files.parent / f"new-{os.urandom(8).hex()}"
        fresh.write_bytes(content)
        fresh.chmod(mode & 0o777)
        os.utime(fresh, ns=(modified, modified))
        fresh.rename(path)
        self.owners[place] = file_id
        receipt = {
            "id": os.urandom(16).hex(), "name": name, "size": len(content), "merkle_root": merkle_root(digests).hex(),
            "chain_tip": tip.hex(), "published_at_ms": time.time_ns() // 1_000_000}
        if place != name:
            receipt["published_as"] = place
        if file_id is not None:
            receipt["file_id"] = file_id
        return receipt

    @staticmethod
    def replaced(replaces):
        return [claim.get("file_id") for claim in replaces or [] if isinstance(claim, dict)]

    def whole_file(self, encoded, headers, body):
        key = self.key(headers)
        try:
            name = checked_name(urllib.parse.unquote_to_bytes(encoded).decode())
        except UnicodeDecodeError:
            raise Problem(422, "name-refused", field="name") from None
        nonce = hexadecimal(headers.get("x-chunk-nonce"), "X-Chunk-Nonce")
        self.check(headers, body, self.chunk_size_max, key, 0, nonce)
        digests = [sha256(body).digest()] if body else []
        modified, mode = int(headers.get("x-file-modified-ns", "0")), int(headers.get("x-file-mode", "420"))
        facts = (name, digests, modified, mode)
        with self.lock:
            known = self.keys.get(key)
            if known and (isinstance(known, Upload) or known[0] != facts):
                raise Problem(422, "idempotency-mismatch", field="Idempotency-Key")
            if known:
                return self.json(200, known[1])
            receipt = self.publish(
                name, body, modified, mode, digests, chain_tip(key, digests), headers.get("x-file-id"), None,
                headers.get("x-if-taken"))
            self.keys[key] = (facts, receipt)
        return self.json(201, receipt)

    # MARK: Several in one request

    def several(self, body, prefix):
        """P62 to P71, and P33b to P33h: each member is a request of its own."""
        source, answers = io.BytesIO(body), b""
        while line := source.readline():
            words = re.fullmatch(rb"(PUT) ([!-~]+) HTTP/1\.1\r\n", line)
            if not words:
                raise Problem(400, "bad-request")
            headers = {}
            while (field := source.readline()) != b"\r\n":
                found = re.fullmatch(rb"([!-~]+?): *(.*)\r\n", field)
                if not found:
                    raise Problem(400, "bad-request")
                headers[found[1].decode().lower()] = found[2].decode()
            length = int(headers["content-length"])
            content = source.read(length)
            if len(content) != length:
                raise Problem(400, "bad-request")
            answers += self.member(words[2].decode(), headers, content, prefix)
        return 200, {"Content-Type": RUN}, answers

    def member(self, target, headers, content, prefix):
        try:
            if not target.startswith(prefix):
                raise Problem(400, "bad-request", field="target")
            status, fields, body = self.answer("PUT", target, headers, content)
        except Problem as problem:
            status, fields = problem.status, {"Content-Type": "application/problem+json"}
            body = json.dumps(problem.document).encode()
        head = "".join(f"{name}: {value}\r\n" for name, value in (fields | {"Content-Length": len(body)}).items())
        return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    receiver = None

    def handle(self):
        try:
            super().handle()
        except (OSError, ssl.SSLError):
            pass

    def do_HEAD(self):
        self.reply(204, {}, b"", tells=True)

    def respond(self):
        body = self.body()
        try:
            if self.headers.get("Authorization") != f"Bearer {self.receiver.token}":
                raise Problem(401, "unauthorized")
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, fields, answer = self.receiver.answer(self.command, self.path, headers, body)
            tells = status < 400 and "/chunks" not in self.path and "/zeros" not in self.path
        except Problem as problem:
            status, fields, tells = problem.status, {"Content-Type": "application/problem+json"}, False
            answer = json.dumps(problem.document).encode()
        self.reply(status, fields, answer, tells)

    do_GET = do_PUT = do_POST = do_DELETE = respond

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return found

    def reply(self, status, fields, body, tells):
        self.send_response(status)
        said = fields | (self.receiver.abilities() if tells else {})
        if status == 401:
            said["WWW-Authenticate"] = "Bearer"
        for name, value in said.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_):
        pass
