"""Servers over HTTP/2 that answer before they have read a body, and end their side of the stream with that."""

import email.message
import socket
import ssl
import threading

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from certificates import tls_1_3
from lying_servers import Handler


class Request(Handler):
    """What the protocols of lying_servers.py look at in a request. It serves no connection of its own, as its base would at once."""

    def __init__(self, server, fields):
        self.server = server
        self.headers = email.message.Message()
        self.body, self.is_answered = bytearray(), False
        for name, value in fields:
            if name == ":method":
                self.command = value
            elif name == ":path":
                self.path = value
            elif not name.startswith(":"):
                self.headers[name] = value

    @property
    def length(self):
        return int(self.headers.get("Content-Length") or 0)

    def name_of(self):
        return getattr(self, f"{self.server.protocol}_name")(bytes(self.body))


class Http2Front:
    """Serves what a LyingServer knows, over TLS. What follows an early answer, the name of the file says: “closes” ends the connection
    (GOAWAY), “resets” the stream (RST_STREAM with NO_ERROR, RFC 9113, 8.1), “stays” neither, and nothing more is read of the body."""

    ENDINGS = ("closes", "resets", "stays")

    def __init__(self, server, identity, early):
        self.server, self.early = server, early
        context = tls_1_3(*identity)
        context.set_alpn_protocols(["h2"])
        self.context = context
        self.listener = socket.create_server(("127.0.0.1", 0))
        early.limit(self.listener)
        self.port = self.listener.getsockname()[1]
        self.versions = set()
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def to(self):
        protocol = self.server.options[0].split("+")[0]
        return f"{protocol}+https://127.0.0.1:{self.port}{self.server.PATHS[self.server.protocol]}"

    def close(self):
        self.early.is_over.set()
        self.listener.close()

    def make_connection(self, connection):
        return Connection(self, connection)

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, plain):
        try:
            with self.context.wrap_socket(plain, server_side=True) as connection:
                self.versions.add(connection.selected_alpn_protocol())
                self.make_connection(connection).run()
        except (OSError, ssl.SSLError, h2.exceptions.ProtocolError):
            # The client has given up.
            pass


class Connection:
    """One connection and its requests."""

    def __init__(self, front, connection):
        self.front, self.connection = front, connection
        self.state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.requests, self.is_ending = {}, False

    def run(self):
        self.state.initiate_connection()
        while not self.is_ending:
            self.connection.sendall(self.state.data_to_send())
            bytes_ = self.connection.recv(1 << 16)
            if not bytes_:
                return
            for event in self.state.receive_data(bytes_):
                self.handle(event)
        self.state.close_connection()
        self.connection.sendall(self.state.data_to_send())

    def handle(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.requests[event.stream_id] = Request(self.front.server, event.headers)
            if self.front.server.protocol != "form":
                self.look(event.stream_id)
        elif isinstance(event, h2.events.DataReceived):
            self.take(event.stream_id, event.data, event.flow_controlled_length)
        elif isinstance(event, h2.events.StreamEnded):
            self.end(event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.requests.pop(event.stream_id, None)

    def look(self, stream):
        """Answers early, where that is asked for."""
        request = self.requests[stream]
        name = request.name_of()
        answer = self.front.early.answer_to(request, name, request.length)
        if answer is None:
            return
        request.is_answered = True
        self.send(stream, answer)
        if "closes" in name:
            self.is_ending = True
        elif "resets" in name:
            self.state.reset_stream(stream, h2.errors.ErrorCodes.NO_ERROR)

    def take(self, stream, data, count):
        request = self.requests.get(stream)
        if request is None:
            return
        is_first = not request.body
        request.body += data
        if self.front.server.protocol == "form" and is_first:
            self.look(stream)
        if not request.is_answered:
            self.acknowledge(stream, count)
            return
        # The connection's own window is there for others.
        if count:
            self.state.increment_flow_control_window(count)
        with self.front.early.lock:
            name = request.name_of()
            self.front.early.read[name] = self.front.early.read.get(name, 0) + len(data)

    def acknowledge(self, stream, count):
        if count:
            try:
                self.state.acknowledge_received_data(count, stream)
            except h2.exceptions.StreamClosedError:
                pass

    def end(self, stream):
        request = self.requests.pop(stream, None)
        if request is None or request.is_answered:
            return
        with self.front.server.lock:
            answer = request.respond(bytes(request.body))
        self.send(stream, answer)

    def send(self, stream, answer):
        status, fields, *content = answer
        content = content[0] if content else b""
        is_empty = not content or self.requests.get(stream) and self.requests[stream].command == "HEAD"
        fields = [(name.lower(), str(value)) for name, value in dict(fields).items()]
        self.state.send_headers(stream, [(":status", str(status)), *fields], end_stream=bool(is_empty))
        if not is_empty:
            self.state.send_data(stream, content, end_stream=True)
