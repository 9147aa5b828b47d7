"""Rounds of random lacks: both programs on small machines that sleep, are stopped, and whose clocks are set, beside writers.

A round has several phases. In each of them writers record, and both programs are frozen, stopped and have their clocks set; between them
either is started anew. In the end everything that was closed is at the receiver, and nothing was killed for memory.
"""

import contextlib
import errno
import hashlib
import os
import random
import signal
import threading
import time

from harness import Mount, Receiver, wait_until
from small_machine import Clock, Group, Limits

MIB = 1 << 20
# What docs/configuration.md says that each of them needs.
MEMORY_MIN, MEMORY_MIN_OF_LARGEST_CHUNKS = 48 * MIB, 128 * MIB
MEMORY_OF_A_FURTHER_DESTINATION = 32 * MIB
DESCRIPTORS_MIN = 64
# Nothing is broken beside the two programs.
NEVER_TRUE = ["refused or unreachable", "no address is known", "the TLS 1.3 handshake failed"]
# Why something is sent again, as the log says it.
REASONS = ["goes out again", "try again", "anew", "nothing was done for a while", "no progress", "was lost", "tried again"]


class Round:
    """One round, which follows from its seed, as far as threads and processes let it."""

    def __init__(self, seed, folder):
        self.draw, self.folder = random.Random(seed), folder
        self.groups, self.clocks, self.limits = {}, {}, {}
        chunk = self.draw.choice([None, "256KiB", "4MiB", "32MiB"])
        memories = [MEMORY_MIN_OF_LARGEST_CHUNKS] if chunk == "32MiB" else [MEMORY_MIN, 64 * MIB, 96 * MIB, 128 * MIB]
        for name in ("mount", "receiver"):
            limits = self.limits[name] = Limits(
                memory=self.draw.choice([None, *memories]),
                quota=self.draw.choice([None, None, 5, 20]),
                descriptors=self.draw.choice([None, DESCRIPTORS_MIN, 96, 128, 256]), one_core=self.draw.random() < 0.5)
            self.groups[name] = Group(limits.memory, limits.quota)
            self.clocks[name] = Clock(folder, name)
        self.did = [f"{name}: {limits}" for name, limits in self.limits.items()]
        options = [*(["--chunk-size", chunk] if chunk else []), "--upload", self.draw.choice(["while-writing", "on-close"])]
        options += self.draw.choice([[], ["--keep", "1h"]])
        self.note(*options)
        self.receiver = Receiver(folder / "receiver", prefix=self._prefix("receiver"))
        self.mount = None
        self.options = options
        # Whether the receiver was away, so that it may be said.
        self.was_away = False
        self.closed, self.lock, self.trouble = {}, threading.Lock(), []

    def note(self, *words):
        self.did.append(" ".join(map(str, words)))

    def _prefix(self, name):
        return self.limits[name].prefix(self.groups[name], self.clocks[name])

    def start(self):
        self.receiver.start()
        self.mount = Mount(
            self.folder / "mount", self.receiver.url, *self.options, token_file=self.receiver.token_file, ca=self.receiver.ca,
            prefix=self._prefix("mount"))
        self.mount.start()

    # Writers.

    def _record(self, name, pieces, pause):
        """As a camera does: opens once it may, writes piece by piece, closes."""
        digest = hashlib.sha256()
        try:
            descriptor = self._open(name)
            try:
                for piece in pieces:
                    view = memoryview(piece)
                    while view:
                        view = view[os.write(descriptor, view):]
                    digest.update(piece)
                    time.sleep(pause)
            finally:
                os.close(descriptor)
        except (OSError, AssertionError) as error:
            with self.lock:
                self.trouble.append(f"{name}: {error}")
            return
        with self.lock:
            self.closed[name] = digest.hexdigest()

    def _open(self, name):
        def opened():
            try:
                return os.open(self.mount.root / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644) + 1
            except OSError as error:
                # Beyond the share of open captures.
                if error.errno == errno.ENFILE:
                    return None
                raise

        return wait_until(opened, f"{name} may be opened") - 1

    def _writers(self, phase):
        for number in range(self.draw.randrange(1, 4)):
            size = self.draw.choice([1, 1000, 300_000, 4 * MIB, 12 * MIB])
            count = self.draw.choice([1, 4, 20])
            block = self.draw.randbytes(max(1, size // count))
            yield f"{phase}-{number}.mov", [block] * count, self.draw.choice([0, 0.01, 0.2])
        for number in range(self.draw.choice([0, 10, 60])):
            yield f"{phase}-small-{number}", [self.draw.randbytes(self.draw.choice([0, 10, 5000, 40_000]))], 0

    # What happens to the programs.

    def _program(self, name):
        return self.mount.program if name == "mount" else self.receiver.program

    def hold(self):
        name, seconds = self.draw.choice(["mount", "receiver"]), self.draw.choice([0.5, 2, 6, 9])
        freezes = self.draw.random() < 0.5
        self.note("freeze" if freezes else "stop", name, f"{seconds} s")
        self.was_away |= name == "receiver"
        if freezes:
            self.groups[name].freeze()
        else:
            self._program(name).signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            if freezes:
                self.groups[name].thaw()
            else:
                self._program(name).signal(signal.SIGCONT)

    def jump(self):
        name = self.draw.choice(["mount", "receiver"])
        seconds = self.draw.choice([-8 * 86_400, -7200, -5, 3, 7200, 8 * 86_400])
        self.note("set the clock of the", name, f"by {seconds} s")
        self.clocks[name].jump(seconds)

    def rest(self):
        seconds = self.draw.choice([0.1, 1, 3])
        self.note("rest", seconds)
        time.sleep(seconds)

    def restart(self):
        """Between phases: nothing is open."""
        name, kills = self.draw.choice(["mount", "receiver"]), self.draw.random() < 0.5
        self.note("kill" if kills else "end", name)
        self.was_away |= name == "receiver"
        if name == "receiver":
            self.receiver.kill() if kills else self.receiver.stop()
            if self.draw.random() < 0.5:
                self.jump()
            self.receiver.start()
        else:
            self.mount.kill() if kills else self.mount.stop_at_once()
            if self.draw.random() < 0.5:
                self.jump()
            self.mount.start()

    def play(self, phases, acts):
        self.start()
        for phase in range(phases):
            writers = [threading.Thread(target=self._record, args=writer, daemon=True) for writer in self._writers(phase)]
            for writer in writers:
                writer.start()
            for _ in range(acts):
                self.draw.choices([self.hold, self.jump, self.rest], [2, 2, 3])[0]()
            deadline = time.monotonic() + 240
            for writer in writers:
                writer.join(max(0, deadline - time.monotonic()))
                assert not writer.is_alive(), "a writer hangs"
            assert not self.trouble, self.trouble
            if self.draw.random() < 0.5:
                self.restart()

    def check(self):
        # By a clock that is late no certificate is valid yet.
        for clock in self.clocks.values():
            clock.jump(-clock.seconds_ahead)
        # With a twentieth of a processor on either side.
        self.mount.wait_all(timeout=420)
        published = self.receiver.files
        for name, digest in sorted(self.closed.items()):
            found = hashlib.sha256((published / name).read_bytes()).hexdigest() if (published / name).exists() else "nothing"
            assert found == digest, f"{name}: {found} is published"
        assert set(self.receiver.published()) == set(self.closed), "something else is published"
        log = self.mount.program.log
        retried = [status for name in self.closed if (status := self.mount.status(name))["chunks"]["retried"]]
        silent = [status for status in retried if not status["last_error"]]
        assert not silent or any(reason in log for reason in REASONS), f"sent twice without a word: {silent}"
        said = [line for line in log.splitlines() if any(words in line for words in NEVER_TRUE)]
        assert self.was_away or not said, said
        if self.options[-2:] == ["--keep", "1h"]:
            gone = [name for name in self.closed if not (self.mount.root / name).exists()]
            assert not gone or any("set the clock" in line for line in self.did), f"removed before their time: {gone}"
        assert self.mount.stop(timeout=240) == 0, "the mount's end"

    def check_kills(self):
        kills = {name: group.kills for name, group in self.groups.items() if group.kills}
        assert not kills, f"killed for memory: {kills}"

    def close(self):
        left = [*(self.mount.close() if self.mount else []), *self.receiver.close()]
        for group in self.groups.values():
            with contextlib.suppress(OSError):
                group.thaw()
            group.close()
        return left
