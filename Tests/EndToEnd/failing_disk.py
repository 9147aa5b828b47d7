"""A filesystem on a disk that fails on command (failing_disk.c)."""

import os
import pathlib
import subprocess

from filesystems import make_filesystem
from harness import clean_environment, mounts_below, unmount_lazily, wait_until
from promises import installed

# What a test writes begins each block with this, so that it can be told from the filesystem's own.
MARK = b"UPLOADFS"
BLOCK_BYTES = 4096


def marked(size, seed=1):
    """Random bytes of which each block can be refused."""
    import random
    content = bytearray(random.Random(seed).randbytes(size))
    for at in range(0, size - len(MARK), BLOCK_BYTES):
        content[at:at + len(MARK)] = MARK
    return bytes(content)


class FailingDisk:
    """A disk of so many bytes, mounted at `place`."""

    # What the program is told beside its places.
    WORDS = ()

    def __init__(self, folder, kind, size=512 << 20):
        self.kind = kind
        self._rules, self._image = folder / "disk-faults", folder / "disk.img"
        self._served, self.place = folder / "served", folder / "place"
        for made in (self._served, self.place):
            made.mkdir(parents=True)
        self._binary = folder / "failing_disk"
        source = pathlib.Path(__file__).with_name("failing_disk.c")
        flags = subprocess.run(
            [installed("pkg-config"), "--cflags", "--libs", "fuse3"], check=True, capture_output=True, text=True).stdout.split()
        subprocess.run([installed("cc"), "-Wall", "-Werror", "-D_FILE_OFFSET_BITS=64", "-o", self._binary, source, *flags], check=True)
        with open(self._image, "wb") as image:
            image.truncate(size)
        make_filesystem(kind, self._image)
        self._attach()

    def _attach(self):
        self._program = subprocess.Popen(
            [self._binary, self._served, self._image, self._rules, *self.WORDS], stdin=subprocess.DEVNULL, env=clean_environment(),
            start_new_session=True)
        self._loop = None
        try:
            wait_until(lambda: self._disk.exists(), "the disk is served")
            self._loop = self._call("losetup", "--find", "--show", self._disk).strip()
            # XFS refuses a second one of the same name while the dead one is kept by a copy of the table of mounts.
            options = ["-o", "nouuid"] if self.kind == "xfs" else []
            self._call("mount", "-t", self.kind, *options, self._loop, self.place)
        except BaseException:
            self.close()
            raise

    @property
    def _disk(self):
        return self._served / "disk"

    def refuse(self, error, call="write", text=MARK.decode(), milliseconds=0):
        """From now on what a test has written is refused, with this errno. `text` may be "*" (all of the disk) or "@FROM-TO" (its
        bytes); with an errno of 0 it is slow only."""
        whole = self._rules.with_suffix(".new")
        whole.write_text(f"{call} {error} {text} {milliseconds}\n")
        whole.rename(self._rules)

    def dies(self):
        """Nothing is read from it or written to it any more."""
        whole = self._rules.with_suffix(".new")
        whole.write_text("write 5 *\nread 5 *\n")
        whole.rename(self._rules)

    def accept(self):
        """It is a good disk again."""
        self._rules.unlink(missing_ok=True)

    @property
    def refused(self):
        """How many calls have failed."""
        log = self._rules.with_name(f"{self._rules.name}.log")
        return len(log.read_text().splitlines()) if log.exists() else 0

    def forget_pages(self, path):
        """As memory pressure does: what the kernel believes to be on the disk it need not keep."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)

    def close(self):
        self._rules.unlink(missing_ok=True)
        if str(self.place) in mounts_below(self.place.parent):
            unmount_lazily(str(self.place))
        if self._loop:
            subprocess.run([installed("losetup"), "--detach", self._loop], check=False)
        unmount_lazily(str(self._served))
        self._program.wait(30)

    @staticmethod
    def _call(program, *arguments):
        done = subprocess.run(
            [installed(program), *map(str, arguments)], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f"{program} {arguments}: {done.stdout}{done.stderr}"
        return done.stdout


class PowerDisk(FailingDisk):
    """A disk with a write cache, which a power cut takes away: any part of what was written since the last flush."""

    WORDS = ("volatile",)

    def slow_down(self, milliseconds):
        """What is written takes so long, 128 KiB at a time or less."""
        self.refuse(0, text="*", milliseconds=milliseconds)

    def cut(self, seed, percent, blocks):
        """So many of a hundred runs of up to so many blocks are lost, and nothing is read or written any more."""
        with open(self._served / "power", "wb", buffering=0) as power:
            power.write(f"cut {seed} {percent} {blocks}".encode())

    def power_up(self):
        """The disk is there again, with what it holds, as another one. Nothing may use it any more."""
        # A process that copied the table of mounts meanwhile keeps the dead filesystem: it is left to itself.
        self._program.kill()
        self.close()
        self._served = self._served.with_name(f"{self._served.name}+")
        self._served.mkdir()
        self._attach()
