"""Rounds of random lacks: both programs on small machines that sleep, are stopped, and whose clocks are set, beside writers.

A round has several phases. In each of them writers record, and both programs are frozen, stopped, sleep and have their clocks set, and the
mount is killed; between them either is started anew. In the end everything that was closed is at the receiver, and nothing was killed for
memory. What was sent twice was so for a reason that was said of that very file since it was begun, or of all files; and nothing was blamed
that was not at fault.
"""

import contextlib
import errno
import hashlib
import os
import random
import re
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
# What is blamed in the log of a program, and what has to have happened in the round for that to be true, one of several; nothing where that
# never is.
# Nothing is broken beside the two programs.
BLAME = {
    "mount": {
        "refused or unreachable": "end receiver", "the TLS 1.3 handshake failed": None,
        # With few descriptors it closes connections that are too many.
        "ended the connection before it was secure": "end receiver|few descriptors of the receiver",
        "the certificate of": "set the clock of the mount", "as many files open as it may": "few descriptors of the mount",
        "no address is known": None, "refuses the credentials": None, "spool's disk": None, "the spool cannot be read": None,
        "does not take what was written": None, "nothing proves": None, "knows nothing of files": None, "a mistake of uploadfs": None,
        "no longer in the spool": None, "Too many open files": None, "parts that the spool's disk has lost": None},
    "receiver": {"Too many open files": None, "Input/output error": None, "No space left": None, "a mistake": None},
}
# Why something is sent again, as the log says it of that file …
REASONS_OF_A_FILE = [
    "goes out again", "waiting to try again", "is tried again", "connecting anew", "sent again", "cannot be gone on with"]
# … and of all of them.
REASONS_OF_ALL = [
    "nothing was done for a while", "the destination is not available", "was too long for the server", "connecting anew"]
# How long delivered copies are kept in rounds with `--keep 1h`; a clock that goes on, or is set, by so much lets them go.
KEPT_SECONDS = 3600
# What a program is told whose mount has died; and that the call that was under way has made a file.
CUT_OFF = (errno.ENOTCONN, errno.ECONNABORTED, errno.EEXIST)


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
        # What has happened, of what may be blamed.
        self.happened = {f"few descriptors of the {name}" for name, limits in self.limits.items() if limits.descriptors}
        self.closed, self.lock, self.trouble = {}, threading.Lock(), []
        # What was being recorded when the mount was killed; and how long the log was when each file was begun.
        self.cut, self.begun = {}, {}
        # Held while the mount is away: what is opened then would lie in the folder below.
        self.opening = threading.Lock()

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
        self.begun[name] = self.mount.program.log_path.stat().st_size
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
                if "kill mount" in self.happened and getattr(error, "errno", None) in CUT_OFF:
                    self.cut[name] = b"".join(pieces)
                else:
                    self.trouble.append(f"{name}: {error}")
            return
        with self.lock:
            self.closed[name] = digest.hexdigest()

    def _open(self, name):
        def opened():
            try:
                with self.opening:
                    pass
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
        self.happened.add(f"set the clock of the {name}")
        # What is delivered while it is late is old once it is right again, where a start lies between.
        if abs(seconds) >= KEPT_SECONDS:
            self.happened.add(f"hours of the {name}")
        self.clocks[name].jump(seconds)

    def sleep(self):
        name, seconds = self.draw.choice(["mount", "receiver"]), self.draw.choice([3, 60, 7200, 86_400])
        self.note("sleep", name, f"{seconds} s")
        if seconds >= KEPT_SECONDS:
            self.happened.add(f"hours of the {name}")
        self.clocks[name].sleep(seconds)

    def kill_in_recording(self):
        """The daemon dies, and is started again."""
        self.note("kill mount in recording")
        self.happened.add("kill mount")
        with self.opening:
            self.mount.kill()
            self.mount.start()

    def rest(self):
        seconds = self.draw.choice([0.1, 1, 3])
        self.note("rest", seconds)
        time.sleep(seconds)

    def restart(self):
        """Between phases: nothing is open."""
        name, kills = self.draw.choice(["mount", "receiver"]), self.draw.random() < 0.5
        self.note("kill" if kills else "end", name)
        if name == "receiver":
            self.happened.add("end receiver")
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
                self.draw.choices(
                    [self.hold, self.jump, self.sleep, self.rest, self.kill_in_recording], [4, 3, 3, 6, 1])[0]()
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
        self.mount.wait_all(timeout=420, interrupted=bool(self.cut))
        self.check_published()
        for name in self.closed:
            self.check_reasons(name)
        self.check_blame()
        if self.options[-2:] == ["--keep", "1h"]:
            gone = [name for name in self.closed if not (self.mount.root / name).exists()]
            assert not gone or "hours of the mount" in self.happened, f"removed before their time: {gone}"
        # What was cut is kept back.
        assert self.mount.stop(timeout=240) in ((0, 18) if self.cut else (0,)), "the mount's end"

    def check_published(self):
        published = self.receiver.files
        for name, digest in sorted(self.closed.items()):
            found = hashlib.sha256((published / name).read_bytes()).hexdigest() if (published / name).exists() else "nothing"
            assert found == digest, f"{name}: {found} is published"
        others = set(self.receiver.published()) - set(self.closed)
        assert others <= set(self.cut), f"something else is published: {sorted(others - set(self.cut))}"
        for name in others:
            # Nothing was written yet, or the answer to its close was lost.
            assert (published / name).read_bytes() in (b"", self.cut[name]), f"{name} was cut, and is published in part"

    def check_reasons(self, name):
        status = self.mount.status(name)
        if not status["chunks"]["retried"] or status["last_error"]:
            return
        lines = self.mount.program.log.encode()[self.begun[name]:].decode(errors="replace").splitlines()
        own = [line for line in lines if re.search(rf"\bpath={re.escape(name)}(\s|$)", line)]
        assert (
            any(reason in line for line in own for reason in REASONS_OF_A_FILE)
            or any(reason in line for line in lines for reason in REASONS_OF_ALL)), (
                f"sent twice without a word: {name}: {status['chunks']}")

    def check_blame(self):
        for name, phrases in BLAME.items():
            said = [
                line for line in self._program(name).log.splitlines()
                for words, cause in phrases.items() if words in line and not self.happened & set((cause or "").split("|"))]
            assert not said, f"the {name} blames what was not at fault: {said}"

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
