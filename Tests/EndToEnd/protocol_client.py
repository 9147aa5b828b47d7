"""The chunk protocol, written a second time from docs/protocol.md and nothing else: so that the two cannot share a fault."""

import hashlib
import hmac
import http.client
import json
import os
import socket
import ssl
import struct


def _crc32c_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc32c_table()


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = (value >> 8) ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


def hkdf(key, salt, info):
    """HKDF-SHA256 with 32 bytes of output: one round of expansion."""
    extracted = hmac.digest(salt or bytes(32), key, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def tag(secret, nonce, session, index, data):
    master = hkdf(secret.encode(), b"", b"uploadfs master key v1")
    key = hkdf(master, nonce, b"uploadfs chunk hmac v1" + session.encode())
    digest = hashlib.sha256(data).hexdigest().encode()
    return hmac.new(
        key, struct.pack("<IQ", index, len(data)) + digest + session.encode() + nonce, hashlib.sha256).hexdigest()


def merkle_root(digests):
    if not digests:
        return hashlib.sha256().digest()
    if len(digests) == 1:
        return hashlib.sha256(b"\x00" + digests[0]).digest()
    split = 1
    while split * 2 < len(digests):
        split *= 2
    return hashlib.sha256(b"\x01" + merkle_root(digests[:split]) + merkle_root(digests[split:])).digest()


def chain_tip(session, digests):
    tip = hashlib.sha256(b"uploadfs-commitment-v1" + session.encode()).digest()
    for digest in digests:
        tip = hashlib.sha256(tip + digest).digest()
    return tip


RUN = "application/x-uploadfs-bundle"


def statuses(answer):
    """Those of the members of a run, from the answer to it."""
    assert answer.status == 200 and answer.headers["content-type"] == RUN, answer
    found, rest = [], answer.body
    while rest:
        head, rest = rest.split(b"\r\n\r\n", 1)
        line, *fields = head.decode().split("\r\n")
        assert line.startswith("HTTP/1.1 "), line
        length = int(dict(field.lower().split(": ", 1) for field in fields)["content-length"])
        found, rest = found + [int(line.split(" ")[1])], rest[length:]
    return found


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def problem(self):
        """The problem's word, or None for a success."""
        if self.status < 400:
            return None
        assert self.headers["content-type"] == "application/problem+json", self.headers
        assert self.json["status"] == self.status
        return self.json["type"].removeprefix("urn:uploadfs:problem:")

    def __repr__(self):
        return f"{self.status} {self.body[:300]}"


class ProtocolClient:
    def __init__(self, receiver):
        self.port = receiver.port
        self.token = receiver.token
        self._context = ssl.create_default_context(cafile=receiver.ca)

    def request(self, method, target, headers=None, body=None, token=None):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._context, timeout=60)
        try:
            connection.putrequest(method, target)
            connection.putheader("Authorization", f"Bearer {token or self.token}")
            for name, value in (headers or {}).items():
                connection.putheader(name, str(value))
            if body is not None and "Content-Length" not in (headers or {}):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
            try:
                if body:
                    connection.send(body)
            except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
                pass  # The receiver may answer early; its answer is what counts.
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def post(self, target, document, headers=None, token=None):
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.request("POST", target, {"Content-Type": "application/json", **(headers or {})}, body, token)

    def raw(self):
        """A TLS connection for requests that no HTTP library would send."""
        return self._context.wrap_socket(
            socket.create_connection(("127.0.0.1", self.port), timeout=60), server_hostname="127.0.0.1")


class Session:
    def __init__(self, client, name="file.bin", chunk_size=256 << 10, size=None, key=None, nonce=None, document=None):
        self.client = client
        self.name = name
        self.nonce = nonce or os.urandom(32)
        self.key = key or os.urandom(16).hex()
        self.document = document or {
            "name": name, "size": size, "chunk_size": chunk_size, "modified_ns": 1_700_000_000_000_000_000, "mode": 0o644,
            "file_id": "00" * 16, "revision": 1, "nonce": self.nonce.hex()}
        self.opening = client.post("/v1/uploads", self.document, {"Idempotency-Key": f'"{self.key}"'})
        self.id = self.opening.json.get("id") if self.opening.status < 400 else None
        self.chunk_size = self.opening.json.get("chunk_size") if self.id else None

    def chunk_headers(self, index, data, **replaced):
        headers = {
            "X-Chunk-SHA256": hashlib.sha256(data).hexdigest(), "X-Chunk-CRC32C": f"{crc32c(data):08x}",
            "X-Chunk-Size": len(data), "X-Chunk-HMAC": tag(self.client.token, self.nonce, self.id, index, data)}
        return headers | {name.replace("_", "-"): value for name, value in replaced.items()}

    def put(self, index, data, body=None, **replaced):
        return self.client.request(
            "PUT", f"/v1/uploads/{self.id}/chunks/{index}", self.chunk_headers(index, data, **replaced),
            data if body is None else body)

    def member(self, index, data, **replaced):
        """A chunk in a run: the request that would send it alone."""
        fields = self.chunk_headers(index, data, **replaced) | {"Content-Length": len(data)}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"PUT /v1/uploads/{self.id}/chunks/{index} HTTP/1.1\r\n{head}\r\n".encode() + data

    def put_run(self, members, **headers):
        """Sends chunks in one request."""
        return self.client.request(
            "POST", f"/v1/uploads/{self.id}/chunks", {"Content-Type": RUN} | headers, b"".join(members))

    def run_head(self, length):
        """A run's request as it begins on a connection."""
        return (
            f"POST /v1/uploads/{self.id}/chunks HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {self.client.token}\r\n"
            f"Content-Type: {RUN}\r\nContent-Length: {length}\r\n\r\n").encode()

    def held(self, digests=False):
        answer = self.client.request("GET", f"/v1/uploads/{self.id}" + ("?digests=1" if digests else ""))
        assert answer.status == 200, answer
        return answer.json

    def commit_document(self, chunks, **replaced):
        digests = [hashlib.sha256(chunk).digest() for chunk in chunks]
        return {
            "size": sum(map(len, chunks)), "chunk_count": len(chunks), "merkle_root": merkle_root(digests).hex(),
            "chain_tip": chain_tip(self.id, digests).hex(), "name": self.name, "if_exists": "replace",
            "modified_ns": 1_700_000_000_000_000_000, "mode": 0o640} | replaced

    def commit(self, chunks, **replaced):
        return self.client.post(f"/v1/uploads/{self.id}/commit", self.commit_document(chunks, **replaced))
