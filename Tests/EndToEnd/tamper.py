"""A proxy that ends TLS, may change what it forwards, and starts TLS again: the attacker, or the broken middlebox.

HTTP/1.1 only, which is what its ALPN offers. `change` is asked for every request and may alter header and body. `answer`
is asked for every answer and may give the bytes that the client gets in its place; the connection ends after these.
"""

import http.client
import socket
import ssl
import threading


class TamperingProxy:
    def __init__(self, target_port, certificate, key, target_ca):
        self.target_port = target_port
        self.change = None
        self.answer = None
        self.changed = 0
        self._server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server_context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._server_context.load_cert_chain(certificate, key)
        self._server_context.set_alpn_protocols(["http/1.1"])
        self._client_context = ssl.create_default_context(cafile=target_ca)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets = set()

    def __enter__(self):
        threading.Thread(target=self._accept, name="tamper", daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listener.close()
        for connection in list(self._sockets):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        upstream = http.client.HTTPSConnection("127.0.0.1", self.target_port, context=self._client_context, timeout=60)
        try:
            with self._server_context.wrap_socket(connection, server_side=True) as client:
                # The wrapper has taken the socket over; this is what has to be shut down at the end.
                self._sockets.add(client)
                reader = client.makefile("rb")
                while self._forward(reader, client, upstream):
                    pass
        except (OSError, ValueError, http.client.HTTPException):
            pass
        finally:
            self._sockets = {other for other in self._sockets if other.fileno() >= 0}
            upstream.close()
            connection.close()

    def _forward(self, reader, client, upstream):
        line = reader.readline()
        if not line:
            return False
        method, target, _ = line.decode("ascii").split()
        headers = {}
        while (field := reader.readline()) not in (b"\r\n", b""):
            name, _, value = field.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        if headers.pop("expect", "").lower() == "100-continue":
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray(reader.read(int(headers.get("content-length", 0))))
        if self.change and self.change(method, target, headers, body):
            self.changed += 1
        upstream.request(method, target, bytes(body) if body or method in ("PUT", "POST") else None, headers)
        response = upstream.getresponse()
        answer = response.read()
        head = f"HTTP/1.1 {response.status} {response.reason}\r\n"
        for name, value in response.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                head += f"{name}: {value}\r\n"
        if response.status != 204:
            head += f"Content-Length: {len(answer)}\r\n"
        whole = head.encode("latin-1") + b"\r\n" + (b"" if method == "HEAD" else answer)
        if self.answer and (other := self.answer(method, target, whole)) is not None:
            self.changed += 1
            client.sendall(other)
            return False
        client.sendall(whole)
        return True


def flip_a_bit(method, target, headers, body):
    """Changes one bit in the middle of every uploaded chunk or file."""
    if method != "PUT" or not body:
        return False
    body[len(body) // 2] ^= 0x10
    return True


def forge_the_tag(method, target, headers, body):
    """Replaces the tag of every chunk by one made without the key."""
    if method != "PUT" or "x-chunk-hmac" not in headers:
        return False
    headers["x-chunk-hmac"] = "00" * 32
    return True
