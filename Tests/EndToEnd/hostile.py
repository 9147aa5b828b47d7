"""A front that harms what passes through it, as its seed says: resets, cuts after any byte, stalls, other answers, lost answers, and bits
that flip where TLS does not protect them.

Each request with content is dealt a card from one pack, each other one from a second one: a fault or nothing. A pack is shuffled by the
seed and has every fault once, so that none is left out however few requests there are. Which request gets which card is a matter
of time: the same seed gives the same faults, in the same order, to perhaps other requests.
"""

import asyncio
import collections
import contextlib
import dataclasses
import random

from front import Front, _PIECE_BYTES
from throttle import abort

# What happens to a request before its server has all of it …
RESET, REFUSED, CUT, ENDED, STALLED = (
    "reset at its head", "refused in between", "content cut by a reset", "content cut by an end", "content stalled")
# … and to its answer.
LOST, REPLACED, ANSWER_CUT, ANSWER_STALLED = "answer lost", "answer replaced", "answer cut", "answer stalled"
# A bit of the stream flips.
CONTENT_FLIPPED, HEAD_FLIPPED, ANSWER_FLIPPED = "bit of the content", "bit of the head", "bit of the answer"

BREAKS = (RESET, REFUSED, LOST, REPLACED, ANSWER_CUT, ANSWER_STALLED)
BREAKS_OF_CONTENT = (CUT, ENDED, STALLED)
FLIPS = (CONTENT_FLIPPED, HEAD_FLIPPED, ANSWER_FLIPPED)

# A request with at least so much is one with content.
CONTENT_BYTES = 256
STATUSES = (500, 502, 503, 504, 429)
# How long one side waits at most for the rest of a message whose length has flipped.
UNDERSTANDING_SECONDS = 2


@dataclasses.dataclass
class Exchange:
    """One request and its answer."""

    fault: str | None
    # Of the fault alone: at which byte, how long.
    draw: random.Random
    length: int
    received: int = 0
    is_answered: bool = False
    has_happened: bool = False


class HostileFront(Front):
    """Everything passes until `begin`, and after `relent`."""

    def __init__(self, *arguments, host="127.0.0.1"):
        super().__init__(*arguments)
        self.host = host
        self._packs = None
        self._is_hostile = False
        self._is_vouched_for = None
        # Bits of contents that are still to flip: nothing vouched for those to which they were dealt.
        self._owed = []
        # Of all requests: bytes of their contents that came from the client; how many they were.
        self.received = 0
        self.requests = 0
        # Faults that really happened, by kind, and the contents of these requests that had come by their ends.
        self.happened = collections.Counter()
        self.harmed_bytes = 0

    # Controls, callable from the test's thread.

    def begin(self, seed, faults, passing, passing_content, is_vouched_for=lambda method: True):
        """`faults` are dealt from now on; of the cards in a pack so many do nothing, for requests with content or without. Contents of
        requests whose method `is_vouched_for` are damaged, others are not."""
        def begin():
            self._is_vouched_for = is_vouched_for
            self.received = self.requests = self.harmed_bytes = 0
            self.happened.clear()
            kinds = {True: list(faults), False: [fault for fault in faults if fault not in (*BREAKS_OF_CONTENT, CONTENT_FLIPPED)]}
            blanks = {True: passing_content, False: passing}
            self._packs = {
                has_content: _cards(f"{seed} {has_content}", kinds[has_content], blanks[has_content]) for has_content in kinds}
            self._is_hostile = True

        self._call(begin)

    def relent(self):
        def relent():
            self._is_hostile = False

        self._call(relent)

    def reset(self):
        self.relent()
        super().reset()

    # Inside.

    def _deal(self, method, length):
        fault, draw = next(self._packs[length >= CONTENT_BYTES]) if self._is_hostile else (None, None)
        if fault == CONTENT_FLIPPED and not self._is_vouched_for(method):
            self._owed.append(draw)
            fault = None
        elif fault is None and self._owed and length >= CONTENT_BYTES and self._is_vouched_for(method):
            fault, draw = CONTENT_FLIPPED, self._owed.pop()
        if fault == ANSWER_FLIPPED and method == "OPTIONS":
            # It says what the server can do: without a word of it bodies may have no checksums any more.
            fault = None
        self.requests += 1
        return Exchange(fault, draw, length)

    def _note(self, exchange):
        if not exchange.has_happened:
            exchange.has_happened = True
            self.happened[exchange.fault] += 1

    def _over(self, exchange):
        if exchange and exchange.has_happened:
            self.harmed_bytes += exchange.received

    async def _serve(self, reader, writer):
        try:
            up_reader, up_writer = await asyncio.open_connection(
                *self.target, ssl=self.target_tls, server_hostname="127.0.0.1" if self.target_tls else None)
        except OSError:
            abort(writer)
            return
        self._writers |= {writer, up_writer}
        link = _Link(self, reader, writer, up_reader, up_writer)
        tasks = [asyncio.ensure_future(link.requests()), asyncio.ensure_future(link.answers())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._over(link.exchange)
            self._writers -= {writer, up_writer}
            abort(writer)
            abort(up_writer)


class _Link:
    """A client's connection and the one to the server that belongs to it."""

    def __init__(self, front, reader, writer, up_reader, up_writer):
        self.front = front
        self.reader, self.writer, self.up_reader, self.up_writer = reader, writer, up_reader, up_writer
        self.exchange = None

    # Requests.

    async def requests(self):
        with contextlib.suppress(OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            while True:
                await self._request(await self.reader.readuntil(b"\r\n\r\n"))

    async def _request(self, head):
        front = self.front
        lines = head.decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        fields = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
        front._over(self.exchange)
        self.exchange = exchange = front._deal(method, int(fields.get("content-length", 0)))
        if refusal := front._refuse and front._refuse(method, target, fields):
            await front._answer(self.reader, self.writer, *refusal)
            raise ConnectionResetError
        if exchange.fault == RESET:
            front._note(exchange)
            raise ConnectionResetError
        if exchange.fault == REFUSED:
            await self._refuse()
        if exchange.fault == HEAD_FLIPPED:
            front._note(exchange)
            head = flipped(head, exchange.draw.randrange(8 * len(head)))
            self._end_soon()
        self.up_writer.write(head)
        front.bytes_up += len(head)
        if exchange.length:
            await self._content()

    async def _refuse(self):
        """Another one's answer; some take the content before, others end the connection at once."""
        exchange, front = self.exchange, self.front
        front._note(exchange)
        status = exchange.draw.choice(STATUSES)
        if exchange.draw.random() < 0.5:
            await self._read_content()
        fields = f"Retry-After: {exchange.draw.randrange(2)}\r\n" if status in (429, 503) else ""
        self.writer.write(f"HTTP/1.1 {status} Hostile\r\nConnection: close\r\n{fields}Content-Length: 0\r\n\r\n".encode())
        await self.writer.drain()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._read_content(), UNDERSTANDING_SECONDS)
        raise ConnectionResetError

    async def _read_content(self):
        while self.exchange.received < self.exchange.length:
            await self._piece()

    async def _piece(self):
        exchange = self.exchange
        data = await self.reader.read(min(exchange.length - exchange.received, _PIECE_BYTES))
        if not data:
            raise ConnectionResetError
        exchange.received += len(data)
        self.front.received += len(data)
        return data

    async def _content(self):
        front, exchange = self.front, self.exchange
        at = exchange.draw.randrange(exchange.length) if exchange.fault in (*BREAKS_OF_CONTENT, CONTENT_FLIPPED) else None
        while exchange.received < exchange.length:
            start = exchange.received
            data = await self._piece()
            if at is not None and start <= at < exchange.received:
                data = await self._harm(data, at - start)
            if self.up_writer.is_closing():
                raise ConnectionResetError
            front.body_bytes += len(data)
            front.bytes_up += len(data)
            self.up_writer.write(data)
            await self.up_writer.drain()

    async def _harm(self, data, at):
        """What the server gets of a piece, at whose byte `at` the fault is."""
        front, exchange = self.front, self.exchange
        front._note(exchange)
        if exchange.fault == CONTENT_FLIPPED:
            return flipped(data, 8 * at + exchange.draw.randrange(8))
        self.up_writer.write(data[:at])
        await self.up_writer.drain()
        if exchange.fault == STALLED:
            await asyncio.sleep(_stall(exchange.draw, 0.25))
            return data[at:]
        if exchange.fault == ENDED:
            # The server sees the end of a stream, and has a moment to make something of it.
            self.up_writer.close()
            await asyncio.sleep(0.1)
        raise ConnectionResetError

    def _end_soon(self):
        """Lengths may have flipped, so that each side waits for the other one."""
        loop = asyncio.get_running_loop()
        for writer in (self.writer, self.up_writer):
            loop.call_later(UNDERSTANDING_SECONDS, lambda writer=writer: writer.is_closing() or abort(writer))

    # Answers.

    async def answers(self):
        with contextlib.suppress(OSError):
            while data := await self.up_reader.read(_PIECE_BYTES):
                is_first = self.exchange and not self.exchange.is_answered
                if is_first and not data.startswith(b"HTTP/1.1 1"):
                    self.exchange.is_answered = True
                    data = await self._answer(data)
                self.writer.write(data)
                await self.writer.drain()

    async def _answer(self, data):
        front, exchange = self.front, self.exchange
        if exchange.fault in (LOST, REPLACED, ANSWER_CUT, ANSWER_STALLED, ANSWER_FLIPPED):
            front._note(exchange)
        if exchange.fault == LOST:
            raise ConnectionResetError
        if exchange.fault == REPLACED:
            status = exchange.draw.choice((500, 502, 504))
            self.writer.write(f"HTTP/1.1 {status} Hostile\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode())
            await self._close()
        if exchange.fault == ANSWER_CUT:
            self.writer.write(data[:exchange.draw.randrange(len(data))])
            if exchange.draw.random() < 0.5:
                await self._close()
            await self.writer.drain()
            raise ConnectionResetError
        if exchange.fault == ANSWER_STALLED:
            await asyncio.sleep(_stall(exchange.draw, 0.05))
        if exchange.fault == ANSWER_FLIPPED:
            self._end_soon()
            return flipped(data, exchange.draw.randrange(8 * len(data)))
        return data

    async def _close(self):
        """An end behind what was written, instead of a reset that may take it along."""
        self.writer.close()
        with contextlib.suppress(asyncio.TimeoutError, OSError):
            await asyncio.wait_for(self.writer.wait_closed(), UNDERSTANDING_SECONDS)
        raise ConnectionResetError


def _stall(draw, share):
    """Seconds: mostly what is borne; of a share more than a client waits for bodies that do not move."""
    return draw.uniform(2.2, 3.0) if draw.random() < share else draw.uniform(0.05, 0.4)


def _cards(seed, faults, blanks):
    """(fault or None, numbers of its own), without end."""
    draw = random.Random(seed)
    while True:
        pack = [*faults, *[None] * blanks]
        draw.shuffle(pack)
        for fault in pack:
            yield fault, random.Random(draw.getrandbits(64))


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
