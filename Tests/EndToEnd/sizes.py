"""Files of any size, written in one go, growing, and over a kill of the mount, in a scene of test_conformance.py: what is published is
compared with what was written by its digest, and none of it is kept in memory."""

import contextlib
import functools
import hashlib
import random

from harness import wait_until

MIB = 1 << 20
# A file with more chunks sends some of them while it is written: the first and the last ones are expected to change.
GROWING_CHUNKS = 4
# What a destination is given time for, each second.
SLOW = 4_000_000
# What a kill costs: each tenth chunk makes the record durable, and two requests of a few chunks each are under way.
AGAIN_CHUNKS = 16


# What is written

BLOCK, STAMP = 4 * MIB, 64 << 10


@functools.lru_cache(maxsize=4)
def block(seed):
    return random.Random(seed).randbytes(BLOCK)


def pattern(seed, begin, end):
    """The bytes of a file from `begin` to `end`, in pieces. Each 64 KiB begin with their place: no two chunks are alike, so that
    exchanged ones are seen, whatever their length."""
    while begin < end:
        start = begin // BLOCK * BLOCK
        piece = bytearray(block(seed))
        for place in range(0, BLOCK, STAMP):
            piece[place:place + 8] = (start + place).to_bytes(8, "big")
        stop = min(end, start + BLOCK)
        yield memoryview(piece)[begin - start:stop - start]
        begin = stop


class Recording:
    """A file that is written in one go or by and by, and the digest of what was written. None of it is kept in memory."""

    def __init__(self, scene, name, size):
        self.name, self.size, self.path = name, size, scene.path(name)
        self.seed = f"{name} {size}"
        self._digest, self._written, self._file = hashlib.sha256(), 0, None

    def write_to(self, end):
        """Goes on up to there, in a file that stays open."""
        if self._file is None:
            self._file = open(self.path, "r+b" if self._written else "wb")
            self._file.seek(self._written)
        for piece in pattern(self.seed, self._written, end):
            self._file.write(piece)
            self._digest.update(piece)
        self._file.flush()
        self._written = end

    def close(self):
        self.write_to(self.size)
        self._file.close()
        self._file = None

    def lose_its_mount(self):
        """The file is open there, and its writer never closes it."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._file = None

    @property
    def digest(self):
        assert self._written == self.size
        return self._digest.hexdigest()


def assert_published(scene, recordings, timeout):
    scene.mount.wait_all(timeout=timeout)
    wrong = {}
    for recording in recordings:
        status = scene.status(recording.name)
        found = status["receipt"] and (status["receipt"]["size"], scene.there.digest(status))
        if status["state"] != "complete" or found != (recording.size, recording.digest):
            wrong[recording.name] = found, recording.digest, status
    assert not wrong, wrong


def patience(sizes):
    return 120 + sum(sizes) // SLOW


# How it is written

def write_in_one_go(scene, sizes):
    recordings = [Recording(scene, f"{size} in one go.mov", size) for size in sizes]
    for recording in recordings:
        recording.close()
    assert_published(scene, recordings, patience(sizes))


def write_growing(scene, sizes):
    """All but their last byte is there, and some of the longer ones at the destination, before the first one is closed."""
    recordings = [Recording(scene, f"{size} growing.mov", size) for size in sorted(sizes, reverse=True)]
    for recording in recordings:
        for end in (recording.size // 3, max(0, recording.size - 1)):
            recording.write_to(end)
        if scene.abilities.sends_while_writing and recording.size > GROWING_CHUNKS * scene.chunk:
            early = min(max(2, recording.size // scene.chunk // 2), scene.there.early_bytes_max // scene.chunk)
            scene.mount.readings(
                f"{scene.place}/{recording.name}", lambda status: status["chunks"]["done"] >= early, patience(sizes))
        assert scene.status(recording.name)["state"] == "writing"
    for recording in recordings:
        recording.close()
    assert_published(scene, recordings, patience(sizes))


def write_over_a_kill(scene, whole, growing):
    """Half of what is closed is on its way when the mount is killed, and half of the others is written: of such alone, with many chunks,
    a quarter is on its way where the destination takes it."""
    scene.let_pass()
    closed = [Recording(scene, f"{size} killed.mov", size) for size in whole]
    open_ones = [Recording(scene, f"{size} killed growing.mov", size) for size in growing]
    before, passes = scene.front.body_bytes, sum(whole) // 2
    if not whole and scene.abilities.sends_while_writing:
        passes = min(sum(growing) // 4, scene.there.early_bytes_max)
    scene.front.stop_after(max(1, passes))
    for recording in open_ones:
        recording.write_to(recording.size // 2)
    for recording in closed:
        recording.close()
    wait_until(
        lambda: scene.front.body_bytes - before >= passes, scene.mount.program.describe, patience([*whole, *growing]))
    under_way = [recording.name for recording in closed if scene.status(recording.name)["state"] != "complete"]
    assert under_way or not whole, "nothing was in mid-upload"
    scene.mount.kill()
    for recording in open_ones:
        recording.lose_its_mount()
    scene.front.cut()
    scene.let_pass()
    before = scene.front.body_bytes
    scene.mount.start()
    for recording in open_ones:
        # S40a; who goes on and finishes it makes it good (S39f).
        scene.mount.wait_for(f"{scene.place}/{recording.name}", "interrupted")
        recording.close()
    assert_published(scene, closed + open_ones, patience([*whole, *growing]))
    # Where chunks stand in rows an end of the mount may take a row, or all (DE150).
    if scene.abilities.resumes and scene.abilities.chunk_rows == "none" and not growing:
        assert scene.front.body_bytes - before <= sum(whole) - passes + AGAIN_CHUNKS * scene.chunk
