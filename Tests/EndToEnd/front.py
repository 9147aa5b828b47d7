"""A front that ends TLS 1.3 before a server, as a load balancer does: it can refuse requests, keep answers back, and
stop in mid-upload after an exact number of bytes.

HTTP/1.1 only, which is what it gets: it names no protocol in its handshake. Whether a request is refused is decided at
its head; bodies are passed as they come.
"""

import asyncio
import pathlib
import socket
import ssl

from certificates import tls_1_3
from throttle import ThrottlingProxy, abort

_PIECE_BYTES = 1 << 16
# As /proc/net/tcp has it.
_ESTABLISHED = "01"


class Front(ThrottlingProxy):
    """Forwards to `target_port`, over TLS where `target_ca` says whom to trust."""

    def __init__(self, target_port, identity, target_ca=None):
        super().__init__(target_port, tls=tls_1_3(*identity))
        self.target_tls = ssl.create_default_context(cafile=target_ca) if target_ca else None
        # Bytes of bodies that were forwarded.
        self.body_bytes = 0
        # Answers of the server that were kept back.
        self.kept_answers = 0
        self._refuse = None
        self._bytes_left = None
        self._answers_end_at = None
        self._up, self._down = None, None

    # Controls, callable from the test's thread.

    def reset(self):
        """As at the beginning: everything passes."""
        self._refuse = None
        self._call(self._let_pass)

    def stop_after(self, count):
        """So many further bytes of bodies are forwarded, then none; answers come through all the time."""
        def stop():
            self._bytes_left = count
            self._up.set()

        self._call(stop)

    def keep_answers_after(self, count):
        """No answer comes through once so many further bytes of bodies were forwarded."""
        def keep():
            self._answers_end_at = self.body_bytes + count

        self._call(keep)

    def refuse(self, answer):
        """`answer(method, target, fields)` gives a status and fields, and perhaps a body, for a request that is not forwarded, or None."""
        self._refuse = answer

    def client_ports(self):
        """The clients' ends of the connections that their side has not closed, by their ports."""
        here = f"{self.port:04X}"
        rows = [row.split() for row in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return {row[1] for row in rows if row[2].endswith(f":{here}") and row[3] == _ESTABLISHED}

    # Inside.

    def _let_pass(self):
        self._bytes_left = self._answers_end_at = None
        self._up.set()
        self._down.set()

    async def _start(self):
        self._up, self._down = asyncio.Event(), asyncio.Event()
        self._let_pass()
        await super()._start()
        # What the kernel keeps counts as on its way: a stop in mid-upload is to be one.
        for listener in self._server.sockets:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _PIECE_BYTES)

    async def _serve(self, reader, writer):
        try:
            up_reader, up_writer = await asyncio.open_connection(
                *self.target, ssl=self.target_tls, server_hostname="127.0.0.1" if self.target_tls else None)
        except OSError:
            abort(writer)
            return
        self._writers |= {writer, up_writer}
        tasks = [
            asyncio.ensure_future(self._requests(reader, writer, up_writer)),
            asyncio.ensure_future(self._answers(up_reader, writer))]
        try:
            # A connection without one of its directions is of no use: the reader of the other one must hear of it.
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._writers -= {writer, up_writer}
            abort(writer)
            abort(up_writer)

    async def _requests(self, reader, writer, up_writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                method, target, _ = lines[0].split(" ", 2)
                fields = {
                    name.strip().lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in lines[1:] if line)}
                if refusal := self._refuse and self._refuse(method, target, fields):
                    await self._answer(reader, writer, *refusal)
                    return
                up_writer.write(head)
                self.bytes_up += len(head)
                await self._body(reader, up_writer, int(fields.get("content-length", 0)))
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            # The end of one side; the other one learns of it from the end of its connection.
            pass

    async def _body(self, reader, up_writer, left):
        while left:
            data = await reader.read(min(left, _PIECE_BYTES))
            if not data:
                raise ConnectionResetError
            left -= len(data)
            while data:
                await self._up.wait()
                if up_writer.is_closing():
                    raise ConnectionResetError
                piece = data if self._bytes_left is None else data[:self._bytes_left]
                if self._bytes_left is not None:
                    self._bytes_left -= len(piece)
                    if not self._bytes_left:
                        self._up.clear()
                data = data[len(piece):]
                self.body_bytes += len(piece)
                self.bytes_up += len(piece)
                if self._answers_end_at is not None and self.body_bytes >= self._answers_end_at:
                    self._down.clear()
                up_writer.write(piece)
                await up_writer.drain()
        await up_writer.drain()

    async def _answers(self, up_reader, writer):
        try:
            while data := await up_reader.read(_PIECE_BYTES):
                if not self._down.is_set():
                    self.kept_answers += 1
                    await self._down.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            # As above.
            pass

    async def _answer(self, reader, writer, status, fields, body=b""):
        head = [f"HTTP/1.1 {status} Refused", "Connection: close", f"Content-Length: {len(body)}"]
        head += [f"{name}: {value}" for name, value in fields.items()]
        writer.write(("\r\n".join(head) + "\r\n\r\n").encode("latin-1") + body)
        await writer.drain()
        # An end with bytes unread would take the answer with it.
        while await reader.read(_PIECE_BYTES):
            pass
