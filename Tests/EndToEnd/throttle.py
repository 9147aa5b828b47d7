"""A TCP proxy that slows a connection down, holds it or cuts it: so that a test can act in the middle of an upload.

It runs in its own thread with its own event loop. Bytes are passed as they are; TLS stays end to end, unless the proxy is to be
the front that does it.
"""

import asyncio
import socket
import threading
import time


def abort(writer):
    """Breaks a connection off, whatever state it is in."""
    try:
        writer.transport.abort()
    except AttributeError:
        # The TLS of asyncio lets go of its protocol when a connection is lost; abort() looks for it (Python up to 3.11.4).
        assert writer.transport.is_closing()


class ThrottlingProxy:
    """Listens on a free loopback port and forwards to `target`, at most `rate` bytes a second upstream in all."""

    # Where it listens.
    host = "127.0.0.1"

    def __init__(self, target_port, rate=None, target_host="127.0.0.1", tls=None, receive_bytes=None):
        self.tls = tls
        # How much a connection takes that is not forwarded; as much as the kernel likes otherwise.
        self.receive_bytes = receive_bytes
        self.target = (target_host, target_port)
        self.rate = rate
        self.port = None
        # Bytes sent upstream on each connection, in the order in which they were opened.
        self.bytes_by_connection = []
        self.bytes_up = 0
        self._next_send = 0.0
        self._swallowed = None
        self._swallowed_request = None
        self._swallowing = set()
        self._keeps_swallowed = False
        self._buried = 0
        self._hold_one = range(0)
        self._answered = set()
        # The connection of which nothing is forwarded any more.
        self.held = None
        self.has_swallowed = False
        self._writers = set()
        self._server = None
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._open = None
        self._thread = threading.Thread(target=self._run, name="throttle", daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(10), "the proxy did not start"
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    # Controls, callable from the test's thread.

    def hold(self):
        """Nothing is forwarded any more; connections stay open."""
        self._call(self._open.clear)

    def release(self):
        self._call(self._open.set)

    def bury_all(self):
        """Of the connections that there are nothing is forwarded any more, and they stay open, as those of a machine that has slept do;
        later ones are served."""
        self._buried = len(self.bytes_by_connection)

    def hold_one(self, first, last):
        """Of a connection that brings something between these bytes, and was answered before, nothing more is forwarded; it stays
        open. So a request is held from its beginning on."""
        self._hold_one = range(first, last)

    def swallow_answers(self, mark):
        """An answer with these bytes in it does not arrive: its connection breaks in its place. None ends it."""
        self._swallowed = mark

    def swallow_one_answer(self, mark):
        """The answer to the next request with these bytes in its head, in any case, does not arrive, once."""
        self.has_swallowed = False
        self._swallowed_request = mark.lower()

    def keep_one_answer(self, mark):
        """As `swallow_one_answer`, and its connection stays open."""
        self._keeps_swallowed = True
        self.swallow_one_answer(mark)

    def cut(self):
        """Breaks every connection at once."""
        self._call(self._cut)

    def wait_for_bytes(self, count, timeout=60):
        deadline = time.monotonic() + timeout
        while self.bytes_up < count:
            assert time.monotonic() < deadline, f"only {self.bytes_up} of {count} bytes passed the proxy in {timeout} s"
            time.sleep(0.005)

    # Inside.

    def _call(self, function):
        async def call():
            function()

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(10)

    def _cut(self):
        for writer in list(self._writers):
            abort(writer)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._loop.run_forever()
        self._cut()
        self._server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _start(self):
        self._open = asyncio.Event()
        self._open.set()
        listener = socket.create_server((self.host, 0))
        if self.receive_bytes:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_bytes)
        self._server = await asyncio.start_server(
            self._serve, sock=listener, limit=self.receive_bytes or 1 << 16, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self._ready.set()

    async def _serve(self, reader, writer):
        number = len(self.bytes_by_connection)
        self.bytes_by_connection.append(0)
        try:
            up_reader, up_writer = await asyncio.open_connection(*self.target, limit=1 << 16)
        except OSError:
            abort(writer)
            return
        self._writers |= {writer, up_writer}
        try:
            await asyncio.gather(
                self._copy(reader, up_writer, number, is_upstream=True), self._copy(up_reader, writer, number))
        finally:
            self._writers -= {writer, up_writer}
            abort(writer)
            abort(up_writer)

    async def _copy(self, reader, writer, number, is_upstream=False):
        try:
            while data := await reader.read(16384):
                await self._open.wait()
                if number < self._buried:
                    await asyncio.Event().wait()
                if not is_upstream and (number in self._swallowing or self._swallowed and self._swallowed in data):
                    self.has_swallowed = True
                    if self._keeps_swallowed:
                        await asyncio.Event().wait()
                    raise ConnectionResetError
                if is_upstream:
                    if self.held is None and number in self._answered and self.bytes_up in self._hold_one:
                        self.held = number
                    if number == self.held:
                        await asyncio.Event().wait()
                    if self._swallowed_request and self._swallowed_request in data.lower():
                        self._swallowed_request = None
                        self._swallowing.add(number)
                    await self._pace(len(data))
                    self.bytes_up += len(data)
                    self.bytes_by_connection[number] += len(data)
                writer.write(data)
                await writer.drain()
                if not is_upstream and self.bytes_up in self._hold_one:
                    self._answered.add(number)
            if writer.can_write_eof():
                writer.write_eof()
            else:
                # TLS has no half of a close: kept open, it would swallow the next request on a connection that its server has
                # ended as idle.
                writer.close()
        except (ConnectionError, OSError):
            abort(writer)

    async def _pace(self, count):
        """One budget for all connections: each piece waits for its turn in time."""
        if not self.rate:
            return
        now = time.monotonic()
        start = max(now, self._next_send)
        self._next_send = start + count / self.rate
        if start > now:
            await asyncio.sleep(start - now)
