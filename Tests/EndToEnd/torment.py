"""A writer that never rests, and what may be asked of the mount after it died under it."""

import fcntl
import glob
import hashlib
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import threading

from filesystems import make_filesystem
from harness import unmount_lazily
from promises import installed

# A filesystem that is shut down so drops everything that was not on the disk: data, names, and its own log.
EXT4_IOC_SHUTDOWN, WITHOUT_LOG_FLUSH = 0x8004587D, 2

FILES_MAX = 50
TEMPORARY = ".tmp"
# What a name that is taken gets before its extension.
NUMBER = re.compile(r"-\d+(?=\.[^.]*$)")


def digest(content):
    return hashlib.sha256(content).digest()


class Writer:
    """Makes, lengthens, renames, replaces and removes files until a call fails, and knows what each may be afterwards.

    - `closed`: path → content of each file that is closed.
    - `durable`: the same, for those of which file and folder were synced since.
    - `history`: path → digests of what the name ever stood for while no program was writing.
    - `in_question`: paths that the call concerned which failed, each with what it may hold now (None: nothing).
    """

    def __init__(self, root, seed, large=3_000_000):
        self.root, self.draw, self.large = root, random.Random(seed), large
        self.closed, self.durable, self.history = {}, {}, {}
        self.in_question = {}
        # What was being written when the daemon died; it may be kept back.
        self.cut_off = set()
        # Of these the power cut may have taken bytes anywhere: what is added at their end makes nothing good.
        self.lacking = set()
        self.power_was_cut = False
        self.count = 0
        self.files_written = 0
        self.error = None
        self._thread = None

    def start(self):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self):
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "a call on the mount does not return"
        if self.error:
            raise self.error

    def _run(self):
        try:
            while not self._stop.is_set():
                # All that is there is compared after each death, so it does not grow without end.
                weights = [10, 2, 2, 2, 1 if len(self.closed) < FILES_MAX else 20]
                self.draw.choices([self.make, self.lengthen, self.rename, self.replace, self.remove], weights)[0]()
        except OSError:
            # The daemon is dead; what was under way is in_question.
            pass
        except BaseException as error:
            self.error = error

    def _content(self):
        size = self.draw.choice([0, 1, 5000, 60_000, 60_000, 300_000, 1_000_000, self.draw.randrange(1, self.large)])
        return self.draw.randbytes(size)

    def _old(self):
        return self.draw.choice(sorted(self.closed)) if self.closed else None

    def _may_hold(self, path, content):
        self.history.setdefault(path, set()).add(digest(content))

    def _write(self, path, flags, content, sync):
        try:
            descriptor = os.open(self.root / path, os.O_WRONLY | flags, 0o644)
        except OSError:
            # An empty file that the daemon made and could not report.
            if flags & os.O_CREAT:
                self._may_hold(path, b"")
            raise
        try:
            for start in range(0, len(content), 70_000):
                os.write(descriptor, content[start:start + 70_000])
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _sync_folder(self):
        folder = os.open(self.root, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _settled(self, path, content, sync, is_new=True):
        self.closed[path] = content
        if is_new:
            self.lacking.discard(path)
        # A program has finished it now, unless bytes may be missing in the middle.
        if path not in self.lacking:
            self.cut_off.discard(path)
        if sync:
            self._sync_folder()
            self.durable[path] = content
        self.in_question = {}
        self.files_written += 1

    def make(self):
        self.count += 1
        path, content, sync = f"{self.count:06}.raw", self._content(), self.draw.random() < 0.7
        self._may_hold(path, content)
        self.in_question = {path: [None, content]}
        self._write(path, os.O_CREAT | os.O_EXCL, content, sync)
        self._settled(path, content, sync)

    def lengthen(self):
        if path := self._old():
            # Something at least: a writer that changes nothing does not finish what another one left.
            before, more = self.closed[path], self._content() or b"x"
            self._may_hold(path, before + more)
            self.in_question = {path: [before, before + more]}
            self.durable.pop(path, None)
            self._write(path, os.O_APPEND, more, True)
            self._settled(path, before + more, True, is_new=False)

    def rename(self):
        if path := self._old():
            new, content = f"moved-{path}", self.closed[path]
            if len(new) > 100:
                return
            self._may_hold(new, content)
            self.in_question = {path: [content, None], new: [None, content]}
            was_durable = self.durable.pop(path, None) is not None
            os.rename(self.root / path, self.root / new)
            del self.closed[path]
            was_cut_off, was_lacking = path in self.cut_off, path in self.lacking
            self._settled(new, content, was_durable)
            if was_cut_off:
                self.cut_off.add(new)
            if was_lacking:
                self.lacking.add(new)

    def replace(self):
        if path := self._old():
            # A name of its own each time: what an earlier death left under one is still there.
            self.count += 1
            before, content, temporary = self.closed[path], self._content(), f".{path}.{self.count}{TEMPORARY}"
            self._may_hold(path, content)
            self.in_question = {path: [before, content], temporary: [None, content]}
            self.durable.pop(path, None)
            self._write(temporary, os.O_CREAT | os.O_TRUNC, content, True)
            os.rename(self.root / temporary, self.root / path)
            self._settled(path, content, True)

    def remove(self):
        if path := self._old():
            self.in_question = {path: [self.closed[path], None]}
            self.durable.pop(path, None)
            os.unlink(self.root / path)
            del self.closed[path]
            self._sync_folder()
            self.in_question = {}

    # After the death of the daemon.

    def take_stock(self, folder):
        """After kill -9: everything closed is in `folder`; what was under way is taken as it is found."""
        doubtful, self.in_question = self.in_question, {}
        present = set(os.listdir(folder)) - {"status", ".uploadfs"}
        missing = self.closed.keys() - present - doubtful.keys()
        assert not missing, f"closed, and not there any more: {sorted(missing)}"
        extra = present - self.closed.keys() - doubtful.keys() - self.cut_off
        assert not extra, f"there, and nobody made it: {sorted(extra)}"
        for path, content in self.closed.items():
            if path not in doubtful:
                found = (folder / path).read_bytes()
                assert found == content, f"{path}: {len(found)} bytes that differ from the {len(content)} that were written"
        for path, candidates in doubtful.items():
            self._resolve(path, candidates, folder / path)

    def _resolve(self, path, candidates, file):
        self.closed.pop(path, None)
        self.durable.pop(path, None)
        if not file.exists():
            assert None in candidates, f"{path} is gone, which nothing asked for"
            return
        found = file.read_bytes()
        before, after = candidates[0] or b"", candidates[-1] or b""
        assert found in candidates or (found.startswith(before) and after.startswith(found)), (
            f"{path}: {len(found)} bytes that nobody wrote so")
        self._take(path, found)

    def take_stock_after_power_cut(self, folder):
        """What was synced is there; of the rest, only what is as it was written goes on.

        The disk may come back as it was a moment before the last calls returned: with a file, and what was being done to it,
        that was renamed or removed since.
        """
        self.power_was_cut = True
        doubtful, self.in_question = self.in_question, {}
        for path, content in self.durable.items():
            found = (folder / path).read_bytes() if (folder / path).exists() else None
            assert found == content, (
                f"{path} was closed and synced: {len(content)} bytes; there are {'none' if found is None else len(found)}")
        # Of a creation the disk may have the name alone; what is empty is whole (S40k).
        for path, candidates in doubtful.items():
            if None in candidates:
                self._may_hold(path, b"")
        present = set(os.listdir(folder)) - {"status", ".uploadfs"}
        for path in sorted(present | self.closed.keys() | doubtful.keys()):
            if path in self.durable:
                continue
            self.closed.pop(path, None)
            if (folder / path).exists():
                self._take(path, (folder / path).read_bytes())
                # Where the disk was not known to have it, going on at its end makes nothing good (S40).
                self.lacking.add(path)

    def _take(self, path, found):
        self.cut_off.add(path)
        if digest(found) in self.history.get(path, ()):
            self.closed[path] = found

    def _published_as(self, files, path):
        """What may be published of a capture. A power cut may have taken the record of what was published before under its name, which
        then counts as another one's and costs a number (DE138)."""
        name = pathlib.PurePath(path)
        numbered = files.glob(f"{glob.escape(name.stem)}-[0-9]*{name.suffix}") if self.power_was_cut else ()
        return [files / path, *numbered]

    def check_published(self, seen):
        """`seen`: (path, digest) → size of everything that was ever seen at the receiver."""
        wrong = [
            (path, size) for (path, found), size in seen.items()
            if found not in self.history.get(self._recorded_name(path), ())]
        assert not wrong, f"published, and nobody had closed it so (name, bytes): {sorted(wrong)}"

    def _recorded_name(self, published):
        """A power cut may take what was recorded of a publication, which costs a number and no capture (DE138g)."""
        return NUMBER.sub("", published) if self.cut_off and published not in self.history else published

    def check_delivered(self, files, kept_back):
        """Everything that is closed is at the receiver, byte for byte, but what was cut off, which may be kept back."""
        assert kept_back <= self.cut_off, f"kept back although nothing cut it off: {sorted(kept_back - self.cut_off)}"
        for path, content in self.closed.items():
            # What a death left between the close and the rename, and was lengthened since, still waits for its rename (S62a).
            if path.endswith(TEMPORARY):
                assert not (files / path).exists(), f"{path} was published under its temporary name"
            elif path not in self.cut_off:
                assert (files / path).exists(), f"{path} was not published"
                assert any(found.read_bytes() == content for found in self._published_as(files, path)), (
                    f"{path} was published with other bytes")


class Disk:
    """A filesystem of its own, in a file, whose power can be cut: what was not on the disk is gone."""

    # Without room, no program writes past the daemon (semantics S50d). Few inodes, which are written when they are first used.
    SIZE, INODES = 8 << 30, 20_000

    def __init__(self, folder):
        self.file, self.mount_point = folder / "disk.img", folder / "disk"
        self.mount_point.mkdir(parents=True)
        with open(self.file, "wb") as image:
            image.truncate(self.SIZE)
        make_filesystem("ext4", self.file, "-N", self.INODES)
        self.attach()

    def attach(self):
        call_program("mount", "-o", "loop", self.file, self.mount_point)

    def cut(self, program):
        """Stops the program, so that it notices nothing, and then the filesystem in the middle of what the kernel does."""
        program.signal(signal.SIGSTOP)
        folder = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_LOG_FLUSH))
        finally:
            os.close(folder)
        program.kill()
        # A process that copied the table of mounts meanwhile keeps the dead filesystem alive; so another file has to come back.
        self.copy = self.file.with_name("copy.img")
        call_program("cp", "--sparse=always", self.file, self.copy)

    def power_up(self):
        call_program("umount", self.mount_point)
        os.replace(self.copy, self.file)
        self.attach()

    def close(self):
        unmount_lazily(str(self.mount_point))


class CopiedDisk(Disk):
    """A disk whose file is copied, at one moment, while everything runs; the copy is what the power comes back to."""

    def __init__(self, folder):
        self.below = folder / "below"
        self.below.mkdir()
        with open(folder / "below.img", "wb") as image:
            image.truncate(2 * self.SIZE)
        make_filesystem("xfs", folder / "below.img", "-m", "reflink=1")
        call_program("mount", "-o", "loop", folder / "below.img", self.below)
        try:
            super().__init__(self.below)
        except BaseException:
            unmount_lazily(str(self.below))
            raise

    def cut(self, program):
        self.copy = self.file.with_name("copy.img")
        call_program("cp", "--reflink=always", self.file, self.copy)
        program.kill()

    def close(self):
        super().close()
        unmount_lazily(str(self.below))


def cut_power(mount, disk, writer=None):
    """The power goes, and comes back; the daemon is not started."""
    durable = dict(writer.durable) if writer else {}
    disk.cut(mount.program)
    if writer:
        writer.join()
        # What was replaced or removed while the power went may be there or not.
        writer.durable = {path: content for path, content in durable.items() if writer.durable.get(path) is content}
    unmount_lazily(str(mount.root))
    disk.power_up()


def call_program(program, *arguments):
    command = [installed(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise OSError(f"{command}: {done.stderr}")
