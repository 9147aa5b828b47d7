"""Servers of other people that speak HTTP/2 before a server of the tests, and a strict one that ends connections with GOAWAY."""

import subprocess
import threading

import h2.events
import hyperframe.frame

from form_servers import Nginx
from harness import SOON, Program, Server, clean_environment
from lying_http2 import Connection, Http2Front
from promises import installed


class NginxFront(Nginx):
    """nginx over TLS, before a server on plain HTTP. It ends a connection with GOAWAY after so many requests."""

    def __init__(self, folder, identity, target_port, requests=1000, host="127.0.0.1"):
        super().__init__(folder, f"""
    keepalive_requests {requests}; client_max_body_size 0; client_body_buffer_size 256k;
    location / {{
      proxy_pass http://127.0.0.1:{target_port}; proxy_http_version 1.1; proxy_request_buffering off; proxy_buffering off;
      proxy_set_header Host $http_host;
    }}""", identity, host=host)

    def _configuration(self):
        # The connection of each request.
        form = 'log_format own "$connection $server_protocol $request_method $status";'
        return (
            super()._configuration().replace(" ssl;", " ssl http2;", 1)
            .replace("access_log", f"{form}\n  access_log", 1).replace("/access.log;", "/access.log own;", 1))

    def requests(self):
        """Connection, protocol, method and status of each."""
        return [line.split() for line in (self.folder / "access.log").read_text().splitlines()]


class Caddy(Server):
    """Caddy over TLS, before a server that shows this authority's certificate. A reload ends its connections with GOAWAY."""

    def __init__(self, folder, identity, target_port, target_ca):
        super().__init__(folder)
        self.identity, self.target_port, self.target_ca = identity, target_port, target_ca
        self.admin_port = self.free_port()

    @property
    def file(self):
        return self.folder / "Caddyfile"

    def start(self):
        self.port = self.port or self.free_port()
        self.file.write_text(f"""{{
  admin 127.0.0.1:{self.admin_port}
  auto_https off
}}
https://127.0.0.1:{self.port} {{
  tls {self.identity[0]} {self.identity[1]} {{
    protocols tls1.3
  }}
  reverse_proxy https://127.0.0.1:{self.target_port} {{
    flush_interval -1
    transport http {{
      tls_trusted_ca_certs {self.target_ca}
    }}
  }}
}}
""")
        self.program = Program(
            [installed("caddy"), "run", "--adapter", "caddyfile", "--config", self.file], self.folder / "caddy.log",
            clean_environment(XDG_CONFIG_HOME=self.folder / "config", XDG_DATA_HOME=self.folder / "data"))
        self.wait_until_it_answers()
        return self

    def reload(self):
        subprocess.run(
            [installed("caddy"), "reload", "--force", "--adapter", "caddyfile", "--config", self.file, "--address",
             f"127.0.0.1:{self.admin_port}"], check=True, capture_output=True, timeout=SOON)


class GoawayFront(Http2Front):
    """Ends its first connections with GOAWAY once so many bytes of bodies have come over one. What it says that it has begun, it
    serves; the rest it passes over, and was never there. With `begins` nothing it has begun none."""

    def __init__(self, server, identity, early, begins, after_bytes, connections):
        self.begins, self.after_bytes, self.left = begins, after_bytes, connections
        # How often it has said so, and how many streams were passed over with that.
        self.goaways, self.refused = 0, 0
        self.goaway_lock = threading.Lock()
        super().__init__(server, identity, early)

    def make_connection(self, connection):
        return GoawayConnection(self, connection)


class ForgettingFront(Http2Front):
    """Does what its first whole file asks for, and says in place of the answer that it has begun nothing (GOAWAY)."""

    def __init__(self, server, identity, early):
        self.forgotten = []
        super().__init__(server, identity, early)

    def make_connection(self, connection):
        return ForgettingConnection(self, connection)


class ForgettingConnection(Connection):
    def end(self, stream):
        request = self.requests[stream]
        if self.front.forgotten or request.command != "PUT":
            super().end(stream)
            return
        self.front.forgotten.append(request.name_of())
        with self.front.server.lock:
            request.respond(bytes(request.body))
        self.connection.sendall(self.state.data_to_send())
        self.connection.sendall(hyperframe.frame.GoAwayFrame(0, last_stream_id=0, error_code=0).serialize())
        self.is_ending = True


class GoawayConnection(Connection):
    def __init__(self, front, connection):
        super().__init__(front, connection)
        with front.goaway_lock:
            front.left -= 1
            self.bytes_left = front.after_bytes if front.left >= 0 else None
        # The last stream that is served; none before there was a GOAWAY.
        self.last = None

    def handle(self, event):
        stream = getattr(event, "stream_id", None)
        if self.last is not None and stream is not None and stream > self.last:
            return
        super().handle(event)
        if isinstance(event, h2.events.DataReceived) and self.bytes_left is not None and self.last is None:
            self.bytes_left -= len(event.data)
            if self.bytes_left <= 0:
                self.say_goaway()
        if self.last is not None and not self.requests:
            self.is_ending = True

    def say_goaway(self):
        self.last = min(self.requests) if self.front.begins and self.requests else 0
        refused = [stream for stream in self.requests if stream > self.last]
        for stream in refused:
            del self.requests[stream]
        with self.front.goaway_lock:
            self.front.goaways += 1
            self.front.refused += len(refused)
        # Past h2, for which a connection with a GOAWAY has ended.
        self.connection.sendall(self.state.data_to_send())
        self.connection.sendall(hyperframe.frame.GoAwayFrame(0, last_stream_id=self.last, error_code=0).serialize())
