"""Power cuts under a mount and under its receiver, and what may be asked of both afterwards."""

import contextlib
import hashlib
import json
import os
import random
import re
import threading
import time

import passthrough
from failing_disk import PowerDisk
from filesystems import libc
from harness import unmount_lazily, wait_until
from published import Published


def without_number(name):
    return re.sub(r"-[0-9]+(?=\.mov$)", "", name)


def digest(content):
    return hashlib.sha256(content).digest()


# Why what a power cut has left is held, whatever the rule (S40c, S80a).
HELD = {"not-on-disk", "older-than-delivered"}


class Model:
    """What writers have done to the captures, and what the mount has said of them.

    - `history`: name → digests of what it held while no program was writing it.
    - `closed`: name → content of what is closed now.
    - `on_disk`: name → digest, of what the status called `on-disk` and no program has touched since.
    - `delivered`: the same, of what it called `complete`.
    - `growing`: name → the blocks of a recording, each with the time at which it was written, until it is closed.
    - `back`: names at which a power cut has left another content than the last one, until they are touched again. It is not what
      `complete` speaks of (S40l): a later one may have been delivered.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.history, self.closed, self.versions = {}, {}, {}
        self.on_disk, self.delivered = {}, {}
        self.growing, self.digests, self.back = {}, {}, set()

    def begins(self, *names):
        """Something of these is about to change."""
        with self.lock:
            for name in names:
                self.versions[name] = self.versions.get(name, 0) + 1
                self.back.discard(name)
                for known in (self.on_disk, self.delivered, self.closed):
                    known.pop(name, None)

    def may_hold(self, name, content):
        with self.lock:
            self.history.setdefault(name, set()).add(digest(content))

    def settled(self, name, content):
        with self.lock:
            self.closed[name] = content
            self.growing.pop(name, None)

    def grows(self, name):
        with self.lock:
            return self.growing.setdefault(name, [])

    def written_before(self, moment):
        """What was written by then of each recording that its writer has open."""
        with self.lock:
            return {
                name: b"".join(block for at, block in blocks if at < moment) for name, blocks in self.growing.items()}

    def is_known(self, name, found):
        """A power cut can take the record of what was published under a name: then the next content has a number (DE138g)."""
        with self.lock:
            return any(found in self.history.get(asked, ()) for asked in (name, without_number(name)))

    def observe(self, mount):
        """Asks once for the status of every file that is closed."""
        with self.lock:
            asked = [(name, self.versions[name], content) for name, content in self.closed.items()]
        for name, version, content in asked:
            found = self.digest_of(name, content)
            try:
                status = json.loads((mount.root / "status" / f"{name}.json").read_bytes())
            except (OSError, ValueError):
                continue
            with self.lock:
                if self.versions[name] != version:
                    continue
                # One that an earlier cut has left is held for good.
                if status.get("local_durability") == "on-disk" and status["state"] != "interrupted":
                    self.on_disk[name] = found
                if status["state"] == "complete":
                    self.delivered[name] = found

    def digest_of(self, name, content):
        """Once for each content: a recording is long. What a power cut brings back is another one of the same version."""
        if self.digests.get(name, (None,))[0] is not content:
            self.digests[name] = content, digest(content)
        return self.digests[name][1]


class Writer(threading.Thread):
    """Writes captures in every way until a call fails, each under names of its own."""

    SIZES = (0, 1, 4095, 60_000, 300_000, 1_000_000, 4_000_000)
    # Then it rests until the power is cut.
    BYTES_MAX = 40 << 20

    # More than is brought to the disk at once, in blocks of 1 MiB.
    RECORDING_BLOCKS = 400

    def __init__(self, model, root, number, seed, records=False):
        super().__init__(daemon=True)
        self.records = records
        self.model, self.root, self.number = model, root, number
        self.draw = random.Random(f"{seed} {number}")
        self.stopped = threading.Event()
        self.error = None
        self.count = self.bytes = 0

    def run(self):
        ways = [self.make, self.make, self.grow, self.append, self.rewrite, self.begin_anew, self.replace, self.rename, self.preallocate,
                self.remove]
        try:
            if self.records:
                self.record()
            while not self.stopped.is_set() and self.bytes < self.BYTES_MAX:
                self.draw.choice(ways)()
        except OSError:
            # The daemon is dead.
            pass
        except BaseException as error:
            self.error = error

    def end(self):
        self.stopped.set()
        self.join(60)
        assert not self.is_alive(), "a call on the mount does not return"
        if self.error:
            raise self.error

    def _content(self):
        return self.draw.randbytes(self.draw.choice((*self.SIZES, self.draw.randrange(1, 2_000_000))))

    def _new(self):
        self.count += 1
        return f"{self.number}-{self.count}.mov"

    def _old(self):
        with self.model.lock:
            known = sorted(name for name in self.model.closed if name.startswith(f"{self.number}-"))
            name = self.draw.choice(known) if known else None
            return (name, self.model.closed[name]) if name else (None, None)

    @contextlib.contextmanager
    def _open(self, name, flags):
        if flags & (os.O_CREAT | os.O_TRUNC):
            self.model.may_hold(name, b"")
        descriptor = os.open(self.root / name, flags | os.O_WRONLY, 0o644)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _put(self, descriptor, content, pause=0.0):
        self.bytes += len(content)
        for start in range(0, len(content), 70_000):
            os.write(descriptor, content[start:start + 70_000])
            if pause:
                self.stopped.wait(pause)
        if self.draw.random() < 0.2:
            os.fsync(descriptor)

    def _write(self, name, flags, written, content, pause=0.0):
        """`written` is what is put there, `content` what the file holds then."""
        self.model.begins(name)
        self.model.may_hold(name, content)
        with self._open(name, flags) as descriptor:
            self._put(descriptor, written, pause)
        self.model.settled(name, content)

    def make(self):
        content = self._content()
        self._write(self._new(), os.O_CREAT | os.O_EXCL, content, content)

    def grow(self):
        content = self.draw.randbytes(self.draw.randrange(1, 6_000_000))
        self._write(self._new(), os.O_CREAT | os.O_EXCL, content, content, pause=self.draw.choice((0.002, 0.02)))

    def record(self):
        """No faster than a disk takes it."""
        name = self._new()
        self.model.begins(name)
        with self._open(name, os.O_CREAT | os.O_EXCL) as descriptor:
            blocks = self.model.grows(name)
            while len(blocks) < self.RECORDING_BLOCKS and not self.stopped.wait(0.05):
                block = self.draw.randbytes(1 << 20)
                os.write(descriptor, block)
                blocks.append((time.monotonic(), block))
            content = b"".join(block for _, block in blocks)
            self.model.may_hold(name, content)
        self.model.settled(name, content)

    def preallocate(self):
        """The space is there before the bytes."""
        name, content = self._new(), self._content() or b"x"
        self.model.begins(name)
        self.model.may_hold(name, content)
        with self._open(name, os.O_CREAT | os.O_EXCL) as descriptor:
            os.posix_fallocate(descriptor, 0, len(content))
            self._put(descriptor, content)
        self.model.settled(name, content)

    def append(self):
        name, before = self._old()
        if name:
            more = self._content() or b"x"
            self._write(name, os.O_APPEND, more, before + more)

    def rewrite(self):
        """Other bytes in the same place."""
        name, before = self._old()
        if before:
            # A recording is longer than what is drawn at once (2 ** 31 bits).
            content = b"".join(
                self.draw.randbytes(min(1 << 26, len(before) - start)) for start in range(0, len(before), 1 << 26))
            self._write(name, 0, content, content)

    def begin_anew(self):
        name, _ = self._old()
        if name:
            content = self._content()
            self._write(name, os.O_TRUNC, content, content)

    def replace(self):
        """As editors save."""
        name, _ = self._old()
        if name:
            content, temporary = self._content(), f".{self._new()}.tmp"
            self._write(temporary, os.O_CREAT, content, content)
            self.model.begins(name, temporary)
            self.model.may_hold(name, content)
            os.rename(self.root / temporary, self.root / name)
            self.model.settled(name, content)

    def rename(self):
        name, content = self._old()
        if name:
            new = self._new()
            self.model.begins(name, new)
            self.model.may_hold(new, content)
            os.rename(self.root / name, self.root / new)
            self.model.settled(new, content)

    def remove(self):
        name, _ = self._old()
        if name and self.draw.random() < 0.3:
            self.model.begins(name)
            os.unlink(self.root / name)


class Round:
    """One spool and one receiver, each on a disk of its own, over some power cuts. The rule for interrupted files is drawn, and makes no
    difference: what a power cut has left is held (S40c)."""

    WRITERS = 3
    # What was written so long ago of a recording the disk has, where it keeps up: two seconds, and the flush.
    GROWTH_SECONDS = 5.0

    def __init__(self, seed, kind, folder, new_mount, new_receiver, seconds=4.0, records=False):
        self.seconds, self.records = seconds, records
        self.seed, self.folder, self.draw = seed, folder, random.Random(f"cuts {seed}")
        # Of the kind as well: the few rounds that are the same each time have one rule each.
        self.rule = random.Random(f"{seed} {kind}").choice(("hold", "publish", "discard"))
        self.passthrough = next(passthrough.modes_of(f"{kind} {seed}"))
        self.disks = []
        self.spool_disk = self._disk("spool-disk", kind)
        self.root_disk = self._disk("root-disk", kind)
        self.receiver = new_receiver(name=f"{folder.name}/root-disk/place")
        options = ["--chunk-size", "256KiB", "--interrupted", self.rule, *passthrough.flags(self.passthrough)]
        if self.passes:
            options += ["--rule", "** upload=on-close"]
        self.mount = new_mount(self.receiver, *options, spool=self.spool_disk.place / "spool")
        self.model = Model()
        # Names that the last cut has left in the spool.
        self.left = set()
        self.said = [f"{self.rule}, passthrough {self.passthrough}"]

    def _disk(self, name, kind):
        # Large enough that no delivered copy has to go; and where writers pass the daemon, that they may (S50d).
        disk = PowerDisk(self.folder / name, kind, 12 << 30 if self.passes else 4 << 30)
        self.disks.append(disk)
        return disk

    @property
    def passes(self):
        """Whether the kernel writes past the daemon."""
        return self.passthrough == "on"

    def run(self, cuts):
        for number in range(cuts):
            with Published(self.receiver.files, every=0.1) as published:
                self._work()
                self._cut(self.draw.choice(("mount", "mount", "mount", "both", "receiver")))
            self._check_published(published.seen)
            with Published(self.receiver.files, every=0.1) as published:
                self._settle()
            self._check_published(published.seen)

    # What happens.

    def _work(self):
        self.is_recording = self.records and self.draw.random() < 0.5
        for disk in self.disks:
            milliseconds = self.draw.choice((0, 0, 3, 10))
            # A recording meets a disk that keeps up, or nothing could be asked of it.
            is_slow = milliseconds and not (self.is_recording and disk is self.spool_disk)
            disk.slow_down(milliseconds) if is_slow else disk.accept()
        is_away = self.draw.random() < 0.4
        self.said.append(f"server away: {is_away}")
        if is_away:
            self.receiver.program.end()
        self.writers = [
            Writer(
                self.model, self.mount.root, f"w{len(self.said)}{number}", f"{self.seed} {len(self.said)}",
                records=self.is_recording and number == 0)
            for number in range(self.WRITERS)]
        for writer in self.writers:
            writer.start()
        pause, until = threading.Event(), self.draw.uniform(0.3, self.seconds)
        if self.is_recording:
            until += self.GROWTH_SECONDS
        syncs = self.draw.random() < 0.3
        for _ in range(int(until * 10)):
            pause.wait(0.1)
            self.model.observe(self.mount)
            if syncs and self.draw.random() < 0.2:
                self._synchronize()
        # Some cuts come when writers have been at rest for a while.
        if self.draw.random() < 0.4 and not self.is_recording:
            for writer in self.writers:
                writer.end()
            for _ in range(self.draw.randrange(0, 15)):
                pause.wait(0.1)
                self.model.observe(self.mount)

    def _synchronize(self):
        """Another program does."""
        folder = os.open(self.spool_disk.place, os.O_RDONLY)
        try:
            libc.syncfs(folder)
        finally:
            os.close(folder)

    def _cut(self, victim):
        self.said.append(f"cut of {victim}")
        if self.passes and victim != "receiver":
            # What the dead disk refuses a writer in passthrough would be published as whole (S50f).
            self.mount.kill()
        how = self.draw.randrange(1 << 30), self.draw.choice((10, 50, 90, 100)), self.draw.choice((1, 16, 1024))
        recorded = self.model.written_before(time.monotonic() - self.GROWTH_SECONDS)
        self.recorded = {} if self.passes else recorded
        if victim != "receiver":
            self.spool_disk.cut(*how)
        if victim != "mount":
            self.root_disk.cut(*how)
        with self.model.lock:
            self.on_disk, self.delivered = dict(self.model.on_disk), dict(self.model.delivered)
            versions = dict(self.model.versions)
        if victim != "receiver" and not self.passes:
            self.mount.kill()
        for writer in self.writers:
            writer.end()
        # What was under way may be anything.
        for known in (self.on_disk, self.delivered):
            for name in [name for name in known if self.model.versions[name] != versions[name]]:
                del known[name]
        if victim != "mount" or not self.receiver.program.is_running:
            self.receiver.kill()
        if victim != "receiver":
            unmount_lazily(str(self.mount.root))
            self.spool_disk.accept()
            self.spool_disk.power_up()
            self._take_stock()
        for disk in self.disks:
            disk.accept()
        if victim != "mount":
            self.root_disk.power_up()
        if not self.receiver.program.is_running:
            self.receiver.start()
        if victim != "receiver":
            self.mount.start()

    def _settle(self):
        """Everything is delivered or held; then delivered copies get other names."""
        self.mount.wait_all(timeout=120, interrupted=True)
        self._check_states()
        names = sorted(name for name in os.listdir(self.mount.root) if name.endswith(".mov"))
        for name in self.draw.sample(names, min(5, len(names))):
            new = f"again-{len(self.said)}-{name}"
            content, is_back = self.model.closed.get(name), name in self.model.back
            self.model.begins(name, new)
            with self.model.lock:
                # The next cut may undo it.
                self.model.back |= {name, new} if is_back else set()
                self.model.history.setdefault(new, set()).update(self.model.history.get(name, ()))
            os.rename(self.mount.root / name, self.mount.root / new)
            if content is not None:
                self.model.settled(new, content)
        self.mount.wait_all(timeout=120, interrupted=True)
        self.model.observe(self.mount)

    # What has to hold.

    def _take_stock(self):
        captures = self.mount.spool / "captures"
        self.left = {path.name for path in captures.iterdir()}
        lost = []
        for name, known in self.on_disk.items():
            path = captures / name
            found = path.read_bytes() if path.exists() else None
            if found is None or digest(found) != known:
                lost.append((name, *self._difference(found, self.model.closed.get(name, b""))))
        assert not lost, f"on-disk, and not there after the power cut (name, bytes found, blocks that differ, of zeros): {lost}"
        for name, content in self.recorded.items():
            found = (captures / name).read_bytes() if content else b""
            assert found.startswith(content), f"{name}: of {len(content)} bytes that were written a while ago some are lost"
            self.said.append(f"{len(content)} bytes of a recording that was open")
        self.model.growing.clear()
        with self.model.lock:
            for name in list(self.model.closed):
                path = captures / name
                found = path.read_bytes() if path.exists() else None
                if found != self.model.closed[name]:
                    self.model.closed.pop(name)
                    self.model.back.add(name)
            # Renames and removals may have been undone.
            for path in captures.iterdir():
                if path.name not in self.model.closed and path.name not in self.model.back:
                    content = path.read_bytes()
                    if digest(content) in self.model.history.get(path.name, ()):
                        self.model.versions.setdefault(path.name, 0)
                        self.model.closed[path.name] = content
            self.model.on_disk, self.model.delivered = {}, {}

    @staticmethod
    def _difference(found, wanted):
        if found is None:
            return (None,)
        starts = range(0, max(len(found), len(wanted)), 4096)
        blocks = [start for start in starts if found[start:start + 4096] != wanted[start:start + 4096]]
        return len(found), blocks[:4], len(blocks), sum(not any(found[start:start + 4096]) for start in blocks)

    def _check_states(self):
        gone = self.left - set(os.listdir(self.mount.root))
        assert not gone, f"left by the power cut, and gone by the rule {self.rule}: {gone}"
        self.left = set()
        wrong = []
        held = set()
        for name in sorted(os.listdir(self.mount.root)):
            if not name.endswith(".mov"):
                continue
            status = self.mount.status(name)
            if status["state"] == "interrupted":
                held.add(name)
                assert status["last_error"]["code"] in HELD, status
                self._check_missing(name, status)
                continue
            assert status["state"] == "complete", status
            path = self.receiver.files / status["published_name"]
            if not path.exists():
                wrong.append((name, "complete, and not there"))
            elif not self.model.is_known(name, digest(path.read_bytes())):
                wrong.append((name, "published, and nobody had closed it so"))
        assert not wrong, wrong
        assert not held & self.on_disk.keys(), f"on-disk, and held: {held & self.on_disk.keys()}"
        for known in (self.on_disk, self.delivered):
            # Under a temporary name nothing is published.
            for name, content in ((name, content) for name, content in known.items() if name.endswith(".mov")):
                found = [path for path in self.receiver.files.iterdir() if name in (path.name, without_number(path.name))]
                assert content in {digest(path.read_bytes()) for path in found}, f"{name}: on-disk or delivered, and not there"
        self.said.append(f"{len(held)} held of {len(os.listdir(self.mount.root)) - 2}, {len(self.on_disk)} on-disk")

    def _check_missing(self, name, status):
        content = (self.mount.spool / "captures" / name).read_bytes()
        for place in (status["missing"] or {"ranges": []})["ranges"]:
            bytes_there = content[place["offset"]:place["offset"] + place["length"]]
            assert bytes_there == bytes(place["length"]), f"{name}: listed as missing, and there: {place}"

    def _check_published(self, seen):
        wrong = [(name, size) for (name, found), size in seen.items() if not self.model.is_known(name, found)]
        assert not wrong, f"published, and nobody had closed it so (name, bytes): {sorted(wrong)}"

    def describe(self):
        return "; ".join(self.said)

    def close(self):
        """Ends what is left; returns what should not have been there."""
        left = self.mount.close() + self.receiver.close()
        for disk in self.disks:
            disk.close()
        return left
