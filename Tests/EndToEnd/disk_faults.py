"""Rounds of disks that fail: under a mount's spool, under a receiver's root, or under both, against a model.

A round has writers, and episodes in which one or two rules let calls that touch a disk fail (failing_calls.c), or a disk that does
so itself (failing_disk.c). Writers are told what failed, and try again or give up, as programs do. In the end no disk fails any more, everything settles, and the model
judges: what was closed is delivered, or held with a reason, and whole; nothing else was ever published; a receipt is backed by the
receiver's file; no call and no daemon stood still, and no daemon died but where it was killed.
"""

import contextlib
import errno
import hashlib
import os
import random
import shlex
import subprocess
import threading
import time

from failing_calls import EDQUOT, EIO, ENOMEM, ENOSPC, EROFS, ESTALE, Faults, Rule
from failing_disk import BLOCK_BYTES, MARK
from published import Published

# How long a call on the mount may take. Those that wait for room do so for ten seconds.
CALL_SECONDS = 60
SETTLING_SECONDS = 150
# So long a receiver may take from a failed call to the line in its log.
SAYING_SECONDS = 1
# For rounds with a recording that is larger than its disk.
DISK_BYTES, RECORDING_BYTES = 40 << 20, 60 << 20

READING = (EIO, EIO, ENOMEM, ESTALE)
WRITING = (EIO, EIO, ENOSPC, EDQUOT, EROFS, ESTALE, ENOMEM)
SYNCING = (EIO, EIO, ENOSPC, EDQUOT)

WRITES = {
    "fallocate", "fchmod", "fchmodat", "fchown", "fchownat", "fremovexattr", "fsetxattr", "ftruncate", "futimens", "linkat", "mkdir",
    "mkdirat", "mknodat", "pwrite", "rename", "renameat2", "symlinkat", "unlink", "unlinkat", "write"}
SYNCS = {"fdatasync", "fsync", "sync_file_range", "syncfs"}

# What the two sides ask of their disks: place → calls, as a rule "* 1 0 0 /" lists them in the log of failing_calls.c.
SPOOL = {
    "/captures/": (
        "fallocate fdatasync fdopendir fremovexattr fsetxattr fstat fstatat fsync ftruncate futimens lgetxattr linkat lseek mkdirat "
        "openat openat2 pread preadv2 pwrite readdir renameat2 sync_file_range unlinkat"),
    "/captures": "fdopendir fstat fstatvfs fsync openat readdir statx syncfs",
}
STATE = {
    "/.state/catalog.sqlite": "fdatasync fstat ftruncate lstat open pread pwrite stat",
    "/.state/names.sqlite": "fdatasync fstat ftruncate lstat open pread pwrite stat",
    "/.state/resume/": "fstat fsync open read rename unlink write",
    "/.state/resume": "fsync open opendir readdir",
    "/.state/marks": "fdatasync fstat fsync openat pread pwrite read rename renameat2 write",
    "/.state": "fstat fsync mkdir open openat stat",
}
ROOT = {
    "/.uploads/sessions/": (
        "fallocate fchmod fchmodat fdatasync fdopendir fstat fstatat fsync ftruncate futimens mkdirat openat pread pwrite readdir "
        "renameat2 unlinkat write"),
    "/.uploads/sessions": "fdopendir fstat fsync openat readdir",
    "/journal": "fdatasync fstat openat pread write",
    "/data": "fallocate fchmod fdatasync fstat fstatat fsync ftruncate futimens openat pread pwrite renameat2",
    "/.uploads/receipts": "fdatasync fdopendir fstat fsync openat pread readdir write",
    "/.uploads/incoming": "fchmod fdopendir fstat fsync futimens openat pwrite readdir renameat2 sync_file_range unlinkat",
    "/.uploads": "fstat fstatvfs fsync mkdirat openat",
    "/files": "fstat fstatat fsync mkdirat openat",
}
# Of the receiver's calls, those whose failure costs a client its request.
SAID_BY_RECEIVER = {"pwrite", "fsync", "fdatasync", "ftruncate", "renameat2", "fstatvfs"}


def errors_of(call):
    return WRITING if call in WRITES else SYNCING if call in SYNCS else READING


# What a real disk has lost is said so.
LOST_BY_DISKS = ("not-on-disk", "write-failed")

GONE = "gone"
ANYTHING = "anything"


def digest(content):
    return hashlib.sha256(content).hexdigest()


class Content:
    """What a file held when it was closed. `is_told`: its writer was told of an error, and it may be held back."""

    def __init__(self, data, is_told=False):
        self.data, self.is_told, self.digest = data, is_told, digest(data)

    def __repr__(self):
        return f"{len(self.data)} bytes {self.digest[:8]}{' (told)' if self.is_told else ''}"


class Sides:
    """The two sides, their disks, and how each is started and killed."""

    def __init__(self, folder, new_mount, new_receiver, options, spool, root=None):
        self.disks = {"mount": Faults(folder, "mount-faults"), "receiver": Faults(folder, "receiver-faults")}
        self.receiver = new_receiver(prefix=self.disks["receiver"].prefix, name=root)
        self.mount = new_mount(
            self.receiver, *options, environment=self.disks["mount"].environment, start=False, spool=spool)

    def program(self, side):
        return self.mount if side == "mount" else self.receiver

    def is_running(self, side):
        program = self.program(side).program
        return program is not None and program.is_running

    def start(self, side):
        """Whether it runs. One that its disk does not let start says so, and does not crash."""
        try:
            self.program(side).start()
            return True
        except AssertionError:
            program = self.program(side).program
            if program.is_running:
                raise
            assert 0 < program.process.returncode < 128, f"ended by {program.process.returncode}: {program.describe()}"
            assert program.log.strip(), f"{side}: a start was refused without a word: {program.describe()}"
            return False


class Watch:
    """Looks after the calls of the round: a call that does not return is said, and its daemon killed."""

    def __init__(self, sides):
        self.sides = sides
        self.stuck = None
        self._since, self._what, self._stop = None, None, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def call(self, what, seconds=CALL_SECONDS):
        self._what, self._since = what, time.monotonic() + seconds
        try:
            yield
        finally:
            self._since = None
            assert self.stuck is None, self.stuck

    def _run(self):
        while not self._stop.wait(0.2):
            since = self._since
            if since is not None and time.monotonic() > since and self.stuck is None:
                program = self.sides.mount.program
                self.stuck = f"{self._what} did not return; the daemon was at: {stacks(program)}"
                program.kill()

    def close(self):
        self._stop.set()
        self._thread.join()


def stacks(program):
    """Where the threads of a program are."""
    try:
        done = subprocess.run(
            ["gdb", "-p", str(program.process.pid), "-batch", "-ex", "thread apply all bt 12"], capture_output=True, text=True,
            timeout=60, stdin=subprocess.DEVNULL)
        return done.stdout[-20000:]
    except (OSError, subprocess.SubprocessError) as error:
        return f"({error})"


class Writer:
    """A file that is being written, piece by piece."""

    def __init__(self, name, descriptor, before, pieces):
        self.name, self.descriptor, self.pieces = name, descriptor, pieces
        self.content = bytearray(before)
        # A call failed, and was not made good; or an fsync did.
        self.has_failed, self.has_lost = False, False


class Round:
    """One round, which follows from its seed, but for times."""

    def __init__(self, seed, folder, new_mount, new_receiver, tmpfs, disk=None, with_state=True):
        self.seed = seed
        self.draw = random.Random(seed)
        draw = self.draw
        # A real disk under one of the sides.
        self.disk = disk
        self.has_recording = draw.random() < 0.12 and disk is None
        self.options = ["--chunk-size", draw.choice(["256KiB", "1MiB"]), "--parallel", str(draw.choice([2, 12]))]
        upload = "while-writing" if self.has_recording else draw.choice(["while-writing", "while-writing", "on-close"])
        self.options += ["--rule", f"** upload={upload}"]
        self.options += ["--rule", "*.syn close=synced"]
        spool = None
        if self.has_recording:
            self.options += ["--rule", "*.mov when-full=release", "--reserve", "4MB"]
            spool = tmpfs("disk", DISK_BYTES) / "spool"
        self.side_of_faults = draw.choice(["mount", "mount", "receiver", "receiver", "both"])
        root = None
        if disk and self.side_of_faults == "receiver":
            # Its log lies elsewhere.
            root = folder / "receiver-on-disk"
            (disk.place / "root").mkdir()
            root.symlink_to(disk.place / "root")
        elif disk:
            spool = disk.place / "spool"
        self.with_state = with_state
        self.sides = Sides(folder, new_mount, new_receiver, self.options, spool, root)
        self.mount, self.receiver = self.sides.mount, self.sides.receiver
        self.watch = Watch(self.sides)
        self.published = Published(self.receiver.files)
        # What each name may be: contents, GONE, or ANYTHING, which is held back.
        self.names = {}
        self.writers = []
        # Digests of what a file held at a moment when it was closed.
        self.known = set()
        self.recorded = {}
        # Files whose pages may be gone, and those that this life of the mount has written.
        self.forgotten, self.written_in_this_life = set(), set()
        self.did = []
        # Failed calls of the receiver, with when they were first seen; and those that it was killed over.
        self.seen_at, self.unsaid = {}, set()
        self.count = 0
        self.began = time.monotonic()

    def note(self, *words):
        self.did.append(f"{time.monotonic() - self.began:7.2f} " + " ".join(map(str, words)))

    # Lives and faults.

    def start(self):
        self.note(shlex.join(self.options), "; faults:", self.side_of_faults)
        assert self.sides.start("mount"), self.mount.program.describe()
        self.published.__enter__()

    def rule(self, side):
        draw = self.draw
        places = ROOT if side == "receiver" else SPOOL | (STATE if self.with_state else {})
        if draw.random() < 0.06:
            # The whole disk, for a while.
            place = draw.choice(["/.uploads", "/files"] if side == "receiver" else ["/captures"] + ["/.state"] * self.with_state)
            return Rule("*", draw.choice([EIO, EIO, ESTALE]), place, draw.choice([1, 1, 10, 50]), draw.choice([0, 20, 200]))
        place = draw.choices(list(places), [len(calls.split()) for calls in places.values()])[0]
        call = draw.choice(places[place].split())
        if draw.random() < 0.05:
            return Rule(call, 0, place, 1, draw.choice([1, 5]), draw.choice([50, 500, 2000]))
        first = draw.choice([1, 1, 1, 1, 2, 3, 5, 8, 13, 30])
        return Rule(call, draw.choice(errors_of(call)), place, first, draw.choice([1, 1, 1, 2, 5, 0, 0]))

    def fault(self):
        """One rule, or two, on one side or on both."""
        if self.disk:
            error, call, text, milliseconds = self.draw.choice([
                (EIO, "write", MARK.decode(), 0), (EIO, "write", MARK.decode(), 20), (ENOSPC, "write", MARK.decode(), 0),
                (EIO, "read", MARK.decode(), 0), (0, "*", "*", 100)])
            self.note("the disk fails:", call, error, text, milliseconds)
            return self.disk.refuse(error, call, text, milliseconds)
        sides = ["mount", "receiver"] if self.side_of_faults == "both" else [self.side_of_faults]
        double = self.draw.random() < 0.4
        for side in sides:
            rules = [self.rule(side)] + ([self.rule(side)] if double and len(sides) == 1 else [])
            self.note("faults of the", f"{side}:", *(f"[{rule}]" for rule in rules))
            self.sides.disks[side].set(*rules)

    def good(self):
        """All disks are."""
        self.note("no faults")
        if self.disk:
            self.disk.accept()
        for disk in self.sides.disks.values():
            disk.clear()

    def kill(self, side):
        self.note("kill the", side)
        if side == "mount" and self.disk:
            # What a disk refuses of it later, and what is not in memory, no mount would know of.
            for name in sorted(self.forgotten):
                with contextlib.suppress(OSError), open(self.mount.root / name, "rb", buffering=0) as file:
                    os.fsync(file.fileno())
            self.forgotten.clear()
            self.written_in_this_life.clear()
        self.sides.program(side).kill()
        if side == "mount":
            self.abandon()
        else:
            # What failed within a moment before that it may not have come to say.
            self.look_at_failed_calls()
            self.unsaid |= {line for line, seen in self.seen_at.items() if time.monotonic() - seen < SAYING_SECONDS}

    def revive(self, side):
        if not self.sides.start(side):
            self.note("the start of the", side, "was refused:", self.sides.program(side).program.log.strip().splitlines()[-1])
            self.good()
            assert self.sides.start(side), self.sides.program(side).describe()

    def kill_and_start(self, with_faults):
        side = self.draw.choice(["mount", "receiver"]) if self.side_of_faults == "both" else (
            self.side_of_faults if self.draw.random() < 0.7 else self.draw.choice(["mount", "receiver"]))
        self.kill(side)
        if with_faults:
            self.fault()
        self.revive(side)

    def look_at_failed_calls(self):
        for number, line in enumerate(self.sides.disks["receiver"].seen.splitlines()):
            self.seen_at.setdefault((number, line), time.monotonic())

    def check_alive(self):
        self.look_at_failed_calls()
        for side in ("mount", "receiver"):
            assert self.sides.is_running(side), f"the {side} died: {self.sides.program(side).program.describe()}"

    # Writers.

    def new_name(self):
        # Seldom one that is there.
        taken = {writer.name for writer in self.writers}
        for _ in range(20):
            folder = self.draw.choice(["", "", "day/"])
            name = f"{folder}{self.draw.choice('abcdefgh')}{self.draw.choice(['.raw', '.raw', '.txt', '.syn'])}"
            if name not in taken:
                return name
        self.count += 1
        return f"more{self.count}.raw"

    def old_name(self):
        """One that is surely there."""
        taken = {writer.name for writer in self.writers}
        surely = [name for name, may in sorted(self.names.items())
                  if name not in taken and len(may) == 1 and isinstance(may[0], Content)
                  # What a real disk has refused a program writes anew, or not at all.
                  and not (self.disk and may[0].is_told)]
        if not surely:
            return None
        name = self.draw.choice(surely)
        if self.has_recording and self.is_evicted(name):
            self.note("evicted:", name)
            self.names[name] = [GONE]
            return None
        return name

    def is_evicted(self, name):
        """Delivered files go where a recording needs their space."""
        with self.told(f"stat {name}"):
            try:
                os.stat(self.mount.root / name)
            except FileNotFoundError:
                return True
        return False

    def content(self):
        size = self.draw.choice([1, 4_000, 70_000, 300_000, 1_300_000, self.draw.randrange(1, 3_000_000)])
        return self.marked(self.draw.randbytes(size))

    def marked(self, content):
        """So that a real disk can refuse each block."""
        if not self.disk:
            return content
        return b"".join((MARK + content[at + len(MARK):at + BLOCK_BYTES])[:len(content) - at]
                        for at in range(0, len(content), BLOCK_BYTES))

    def forget_pages(self):
        """As memory pressure does, at any time. Of what an earlier life of the mount had written it may not have been told."""
        if not self.disk or self.side_of_faults == "receiver":
            return
        names = [name for name in sorted(self.written_in_this_life) if self.names.get(name, [GONE]) != [GONE]]
        if names:
            name = self.draw.choice(names)
            self.note("forget the pages of", name)
            self.forgotten.add(name)
            with contextlib.suppress(OSError):
                self.disk.forget_pages(self.mount.spool / "captures" / name)

    def pieces(self, content):
        count = self.draw.choice([1, 2, 4])
        length = max(1, -(-len(content) // count))
        return [content[at:at + length] for at in range(0, len(content), length)]

    def may_be(self, name):
        return self.names.get(name, [GONE])

    def fold(self, *sets):
        merged = []
        for one in sets:
            for candidate in one:
                if candidate not in merged:
                    merged.append(candidate)
        return merged

    @contextlib.contextmanager
    def told(self, what):
        """The error that a writer is told of, in `errors`."""
        errors = []
        try:
            with self.watch.call(what):
                yield errors
        except OSError as error:
            errors.append(error)
            self.note(" ", what, "failed:", errno.errorcode.get(error.errno, error.errno))
            self.expect_fault(error)

    def expect_fault(self, error):
        """An error of a call has a fault behind it."""
        if self.has_recording and error.errno in (errno.ENOSPC, errno.ENOENT):
            return
        if self.disk and self.disk.refused:
            return
        assert self.sides.disks["mount"].seen or self.sides.disks["receiver"].seen, f"{error} without a fault"

    def open(self, name, flags, before, content):
        with self.told(f"open {name}") as errors:
            folder = self.mount.root / os.path.dirname(name)
            if not folder.exists():
                os.mkdir(folder)
            descriptor = os.open(self.mount.root / name, os.O_WRONLY | flags, 0o644)
            writer = Writer(name, descriptor, before, self.pieces(content))
            self.names[name] = [ANYTHING]
            self.written_in_this_life.add(name)
            self.writers.append(writer)
            return writer
        if errors and flags & (os.O_CREAT | os.O_TRUNC):
            # Made or emptied, and nothing more.
            empty = Content(b"", is_told=True)
            self.known.add(empty.digest)
            self.names[name] = self.fold(self.may_be(name), [empty, ANYTHING])
        return None

    def step(self, writer):
        """Its next piece, or its end."""
        if not writer.pieces:
            return self.finish(writer)
        piece = writer.pieces.pop(0)
        tries = 0
        while piece:
            with self.told(f"write {writer.name}") as errors:
                taken = os.write(writer.descriptor, piece)
                writer.content += piece[:taken]
                piece = piece[taken:]
            if errors:
                tries += 1
                if tries > 2 or self.draw.random() < 0.4:
                    writer.has_failed = True
                    writer.pieces = []
                    return
        if self.draw.random() < 0.15:
            self.sync(writer)

    def sync(self, writer):
        with self.told(f"fsync {writer.name}") as errors:
            os.fsync(writer.descriptor)
        # What failed is made good by the next one, if anything does.
        writer.has_lost = bool(errors)

    def finish(self, writer):
        self.note("close", writer.name, len(writer.content))
        self.writers.remove(writer)
        content = Content(bytes(writer.content), writer.has_lost)
        if not writer.has_failed:
            self.known.add(content.digest)
        with self.told(f"close {writer.name}") as errors:
            os.close(writer.descriptor)
        if errors:
            content.is_told = True
        self.names[writer.name] = [ANYTHING] if writer.has_failed else [content]

    def abandon(self):
        """The mount was killed under its writers."""
        for writer in self.writers:
            with contextlib.suppress(OSError):
                os.close(writer.descriptor)
            self.names[writer.name] = [ANYTHING]
        self.writers = []

    # Acts.

    def begin(self):
        if len(self.writers) >= 3:
            return self.go_on()
        name, content = self.new_name(), self.content()
        self.note("write", name, len(content))
        self.open(name, os.O_CREAT | os.O_TRUNC, b"", content)

    def begin_and_finish(self):
        """Small files come at once."""
        name, content = self.new_name(), self.content()[:self.draw.choice([0, 3_000, 60_000, 2_000_000])]
        self.note("write all of", name, len(content))
        if writer := self.open(name, os.O_CREAT | os.O_TRUNC, b"", content):
            while writer in self.writers: self.step(writer)

    def go_on(self):
        if self.writers:
            self.step(self.draw.choice(self.writers))

    def lengthen(self):
        if name := self.old_name():
            before, content = self.names[name], self.content()
            self.note("lengthen", name, len(content))
            writer = self.open(name, os.O_APPEND, before[0].data, content)
            if writer and self.draw.random() < 0.6:
                while writer in self.writers: self.step(writer)

    def rewrite_in_place(self):
        if name := self.old_name():
            before = self.names[name][0].data
            if not before:
                return
            at = self.draw.randrange(len(before))
            piece = self.draw.randbytes(min(len(before) - at, 50_000))
            self.note("rewrite in", name, len(piece), "at", at)
            if writer := self.open(name, 0, before, b""):
                with self.told(f"pwrite {name}") as errors:
                    done = 0
                    while done < len(piece):
                        done += os.pwrite(writer.descriptor, piece[done:], at + done)
                if errors:
                    writer.has_failed = True
                else:
                    writer.content[at:at + len(piece)] = piece
                self.finish(writer)
                if errors and done == 0:
                    # Nothing has changed.
                    self.names[name] = [Content(before, is_told=True), ANYTHING]

    def cut(self):
        if name := self.old_name():
            before = self.names[name][0]
            size = self.draw.randrange(len(before.data) + 1)
            self.note("truncate", name, size)
            after = Content(before.data[:size], before.is_told)
            self.known.add(after.digest)
            with self.told(f"truncate {name}") as errors:
                os.truncate(self.mount.root / name, size)
            self.names[name] = [Content(before.data, True), Content(after.data, True), ANYTHING] if errors else [after]

    def rename(self):
        if name := self.old_name():
            new = self.new_name()
            if new == name:
                return
            self.note("rename", name, new)
            moved, replaced = self.names[name], self.may_be(new)
            self.renamed(name, new)
            with self.told(f"rename {name} {new}") as errors:
                if not (self.mount.root / os.path.dirname(new)).exists():
                    os.mkdir(self.mount.root / os.path.dirname(new))
                os.rename(self.mount.root / name, self.mount.root / new)
            self.names[name] = self.fold(moved, [GONE]) if errors else [GONE]
            self.names[new] = self.fold(moved, replaced) if errors else moved

    def renamed(self, name, new):
        """It may have failed, so that either may be the one."""
        for names in (self.forgotten, self.written_in_this_life):
            if name in names:
                names.add(new)

    def save_like_an_editor(self):
        if name := self.old_name():
            content, temporary = self.content(), os.path.join(os.path.dirname(name), f".{os.path.basename(name)}.tmp")
            self.note("save", name, len(content))
            writer = self.open(temporary, os.O_CREAT | os.O_TRUNC, b"", content)
            if not writer:
                return
            while writer in self.writers: self.step(writer)
            if writer.has_failed or writer.has_lost or self.names[temporary][0].is_told:
                return
            moved, replaced = self.names[temporary], self.names[name]
            self.renamed(temporary, name)
            with self.told(f"rename {temporary} {name}") as errors:
                os.rename(self.mount.root / temporary, self.mount.root / name)
            self.names[temporary] = self.fold(moved, [GONE]) if errors else [GONE]
            self.names[name] = self.fold(moved, replaced) if errors else moved

    def remove(self):
        if name := self.old_name():
            self.note("remove", name)
            before = self.names[name]
            with self.told(f"unlink {name}") as errors:
                os.unlink(self.mount.root / name)
            self.names[name] = self.fold(before, [GONE]) if errors else [GONE]

    def read_back(self):
        """What is read is what was written, or an error."""
        if name := self.old_name():
            expected = self.names[name][0]
            self.note("read", name)
            with self.told(f"read {name}") as errors:
                found = (self.mount.root / name).read_bytes()
            # What a real disk has lost reads as zeros, for which the file is held.
            is_same = errors or found == expected.data or (self.disk and self.disk.refused)
            assert is_same, f"{name}: {len(found)} bytes that differ from the {expected} written"

    def look(self):
        """Status can be read whatever the disk does."""
        names = [name for name in sorted(self.names) if self.names[name] != [GONE]]
        if names:
            with self.told("read a status"), contextlib.suppress(FileNotFoundError):
                self.mount.status(self.draw.choice(names))
        with self.told("read the summary"):
            self.mount.summary()

    def wait_for_some(self):
        """A moment in which what is on its way can come to pass."""
        names = [name for name in sorted(self.names) if self.names[name] not in ([GONE], [ANYTHING])]
        if not names:
            return
        name, deadline = self.draw.choice(names), time.monotonic() + self.draw.choice([0.1, 0.5, 1.5])
        self.note("wait for", name)
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError), self.watch.call(f"status of {name}"):
                if self.mount.status(name)["state"] == "complete":
                    return
            time.sleep(0.05)

    def record(self):
        """More than the disk holds; what is delivered may be given back meanwhile."""
        if not self.has_recording or self.recorded:
            return
        name, hashed, written = "take.mov", hashlib.sha256(), 0
        self.note("record", name)
        with self.told("open take.mov") as errors:
            descriptor = os.open(self.mount.root / name, os.O_WRONLY | os.O_CREAT)
        if errors:
            return
        self.recorded[name] = None
        failed = False
        while written < RECORDING_BYTES and not failed:
            piece = self.draw.randbytes(1 << 20)
            while piece and not failed:
                with self.told("write take.mov") as errors:
                    taken = os.write(descriptor, piece)
                    hashed.update(piece[:taken])
                    written, piece = written + taken, piece[taken:]
                failed = bool(errors)
            if self.draw.random() < 0.05:
                self.change_faults()
        if not failed:
            self.known.add(hashed.hexdigest())
        with self.told("close take.mov"):
            os.close(descriptor)
        if not failed:
            self.recorded[name] = hashed.hexdigest()

    def change_faults(self):
        self.draw.choice([self.fault, self.good])()

    def play(self, acts):
        self.start()
        weights = {
            self.begin: 8, self.begin_and_finish: 8, self.go_on: 14, self.lengthen: 4, self.rewrite_in_place: 3, self.cut: 1,
            self.rename: 3, self.save_like_an_editor: 3, self.remove: 2, self.read_back: 2, self.look: 2,
            self.wait_for_some: 3, self.record: 3 if self.has_recording else 0, self.forget_pages: 4 if self.disk else 0}
        for episode in range(2):
            begins, ends = sorted(self.draw.sample(range(acts + 1), 2))
            dies = self.draw.random() < 0.5
            for act in range(acts):
                if act == begins:
                    if dies:
                        self.kill_and_start(with_faults=True)
                    else:
                        self.fault()
                elif act == ends:
                    if self.draw.random() < 0.4:
                        self.kill_and_start(with_faults=False)
                    if self.draw.random() < 0.7:
                        self.good()
                self.draw.choices(list(weights), list(weights.values()))[0]()
                self.check_alive()
        if self.draw.random() < 0.3:
            self.kill_and_start(with_faults=False)

    # The end.

    def settle(self):
        self.good()
        if "set aside until the next start" in self.receiver.program.log:
            self.kill("receiver")
            self.revive("receiver")
        for writer in list(self.writers):
            while writer in self.writers: self.step(writer)
        self.check_alive()
        self.note("settle")
        deadline = time.monotonic() + SETTLING_SECONDS
        while True:
            done = self.mount.tool("wait", "--timeout", max(5, int(deadline - time.monotonic())), timeout=SETTLING_SECONDS + 30)
            self.check_alive()
            assert done.returncode in (0, 18), f"wait: {done.returncode} {done.stderr}"
            states = self.states()
            failed = [name for name, status in states.items() if status["state"] == "failed"]
            unclear = [name for name, status in states.items()
                       if (status.get("last_error") or {}).get("code") in ("spool-unreadable", "spool-failing")
                       and status["state"] != "complete"]
            if not failed and not unclear:
                return
            assert time.monotonic() < deadline, f"not settled: { {name: states[name] for name in failed + unclear} }"
            for name in failed:
                self.note("retry", name, states[name]["last_error"])
                self.mount.say("retry", name)
            time.sleep(0.5)

    def present(self):
        """Every name in the mount."""
        found = []
        with self.watch.call("list the mount"):
            for folder, folders, names in os.walk(self.mount.root, onerror=self.fail):
                path = os.path.relpath(folder, self.mount.root)
                if path == ".":
                    folders[:] = [name for name in folders if name not in ("status", ".uploadfs")]
                found += [os.path.normpath(os.path.join(path, name)) for name in names]
        return sorted(found)

    @staticmethod
    def fail(error):
        raise error

    def states(self):
        with self.watch.call("read every status"):
            return {name: self.mount.status(name) for name in self.present()}

    def judge(self):
        present, states = self.present(), self.states()
        problems = []
        for name in present:
            if name not in self.names and name not in self.recorded:
                problems.append(f"{name} is there, and nobody made it")
        for name, may in sorted(self.names.items()):
            problems += self.judge_name(name, may, name in present, states.get(name))
        for name, wanted in self.recorded.items():
            problems += self.judge_recording(name, wanted, states.get(name))
        problems += self.judge_published()
        problems += self.judge_words()
        assert not problems, "\n".join(problems)

    def judge_name(self, name, may, is_there, status):
        if not is_there:
            if GONE in may or (self.has_recording and self.is_delivered(name)):
                return []
            return [f"{name} is gone: {may}"]
        state, error = status["state"], status.get("last_error") or {}
        if self.disk and state == "interrupted" and error.get("code") in LOST_BY_DISKS:
            return []
        if self.disk and state == "complete":
            # What is here by now a real disk may have lost since.
            published = self.receiver.files / status["published_name"]
            known = [one.digest for one in may if isinstance(one, Content)] + (list(self.known) if ANYTHING in may else [])
            is_whole = published.exists() and digest(published.read_bytes()) in known
            return [] if is_whole else [f"{name} is complete, and {published.name} is none of {may} at the receiver"]
        with self.watch.call(f"read {name}"):
            found = (self.mount.root / name).read_bytes()
        matching = [one for one in may if isinstance(one, Content) and one.digest == digest(found)]
        problems = []
        if not matching and ANYTHING not in may:
            problems.append(f"{name}: {len(found)} bytes in the spool that nobody wrote so; it may be {may}")
        if state == "complete":
            receipt = status["published_name"]
            published = self.receiver.files / receipt
            # A record that a failing disk has taken can cost a number (DE138g).
            may_have_number = self.side_of_faults != "receiver"
            if receipt != status["receipt"]["name"] and not may_have_number:
                problems.append(f"{name} has a number, and nothing cost it one: {receipt}")
            if not published.exists():
                problems.append(f"{name} is complete, and {receipt} is not at the receiver")
            elif published.read_bytes() != found:
                problems.append(f"{name} is complete, and {receipt} has other bytes at the receiver")
        elif state in ("interrupted", "failed"):
            if not error.get("code") or not error.get("message"):
                problems.append(f"{name} is {state} without a reason: {status}")
            if matching and not any(one.is_told for one in may if isinstance(one, Content)) and ANYTHING not in may:
                self.held.append((name, found, error))
        elif not (state == "held" and name.endswith(".tmp")):
            problems.append(f"{name} is {state}: {status}")
        return problems

    def is_delivered(self, name):
        """It may be evicted, then."""
        status = self.mount.status(name)
        return status["state"] == "complete" and digest((self.receiver.files / status["published_name"]).read_bytes()) in self.known

    def judge_recording(self, name, wanted, status):
        if wanted is None:
            return []
        if status is None:
            status = self.mount.status(name)
        if status["state"] != "complete":
            return [] if (status.get("last_error") or {}).get("code") else [f"{name} is {status['state']}: {status}"]
        found = hashlib.sha256((self.receiver.files / status["published_name"]).read_bytes()).hexdigest()
        return [] if found == wanted else [f"{name}: other bytes are published"]

    def judge_published(self):
        self.published.look()
        return [f"published as {path}, and nobody closed it so: {size} bytes {found.hex()[:8]}"
                for (path, found), size in self.published.seen.items() if found.hex() not in self.known]

    def judge_words(self):
        """No daemon broke its own rules, and what a receiver's disk refuses stands in its log. (What a mount's disk refuses is told to
        the writer, or is the reason for which a file is held.)"""
        problems = []
        for side in ("mount", "receiver"):
            log = self.sides.program(side).program.log
            problems += [f"{side}: {word}" for word in ("Fatal error", "*** Signal", "Assertion failed") if word in log]
        log = self.receiver.program.log
        said = [line for number, line in enumerate(self.sides.disks["receiver"].seen.splitlines()) if (number, line) not in self.unsaid]
        for call, error in {tuple(line.split(" ", 2)[:2]) for line in said}:
            if call in SAID_BY_RECEIVER and error != "0" and os.strerror(int(error)) not in log and "the disk is full" not in log:
                problems.append(f"receiver: {call} failed with {os.strerror(int(error))}, and nobody says so")
        return problems

    held = None

    def publish_held(self):
        """What was closed without an error and is held is whole all the same."""
        problems = []
        for name, content, error in self.held:
            self.note("publish", name, error)
            self.mount.say("publish", name)
        for name, content, error in self.held:
            status = self.mount.wait_for(name, "complete", "failed")
            if status["state"] != "complete" or (self.receiver.files / status["published_name"]).read_bytes() != content:
                problems.append(f"{name} was held ({error}), and is not published on request: {status}")
        assert not problems, "\n".join(problems)

    def check_restart(self):
        """What counts as delivered does so after a restart of both."""
        complete = {
            name: status["published_name"] for name, status in self.states().items() if status["state"] == "complete"}
        inodes = {name: (self.receiver.files / published).stat().st_ino for name, published in complete.items()}
        for side in ("receiver", "mount"):
            self.sides.program(side).kill()
            assert self.sides.start(side), self.sides.program(side).program.describe()
        self.note("started both again")
        done = self.mount.tool("wait", "--timeout", 60, timeout=120)
        assert done.returncode in (0, 18), f"wait: {done.returncode} {done.stderr}"
        after = self.states()
        for name in complete:
            if name not in after and self.has_recording:
                # Evicted.
                continue
            assert after[name]["state"] == "complete", f"{name} was complete: {after[name]}"
            now = (self.receiver.files / after[name]["published_name"]).stat().st_ino
            assert now == inodes[name], f"{name} was published again after a restart"

    def run(self, acts):
        self.held = []
        try:
            self.play(acts)
            self.settle()
            self.judge()
            self.publish_held()
            self.check_restart()
            self.note("end")
        finally:
            self.published.__exit__()
            self.watch.close()
            self.abandon()

    def close(self):
        """Ends both sides, for a disk that is to be taken away; what should not have been there."""
        return [*self.mount.close(), *self.receiver.close()]

    def describe(self):
        faults = {side: disk.seen.splitlines() for side, disk in self.sides.disks.items()}
        lines = [*self.did]
        for side, failed in faults.items():
            lines += [f"--- failed calls of the {side}: {len(failed)}", *failed[:60]]
        return "\n".join(lines)
