"""The receiver as a laboratory's service: many mounts of many users, beside restarts. With --fresh 20 mounts, two of them of one user,
and 24 users for --seconds."""

import itertools
import os
import random
import threading
import time

import pytest

from harness import SOON, sha256
from throttle import ThrottlingProxy

CHUNK = 256 << 10
# Up to here a file is written anew whether it was delivered or not: what was sent of it before is too little to count.
SMALL = 5000
SIZES = [0, 100, SMALL, CHUNK - 1, CHUNK, 3 * CHUNK + 5, 8 * CHUNK]
ENDINGS = [".mov", ".csv", ".tar.gz", ".json", ""]
# What surrounds the content of a file on the line: heads of its requests and those of its session, compressed or not.
HEADS = 2048
# What TLS adds to records of 16 KiB, or shorter ones at the ends of pieces.
RECORDS = 0.003


class Writer(threading.Thread):
    """Records into a mount until it is told to stop: small files, takes that are closed, and a few changes."""

    def __init__(self, mount, seed, rest):
        super().__init__(daemon=True)
        self.mount, self.random, self.ends, self.trouble = mount, random.Random(seed), threading.Event(), None
        # The longest pause between two captures, in seconds.
        self.rest = rest
        # Of all contents that are to be sent.
        self.written, self.contents = 0, 0

    def run(self):
        try:
            for number in itertools.count():
                if self.ends.wait(self.random.uniform(0, self.rest)):
                    return
                name = f"day {number % 3}/{number}{self.random.choice(ENDINGS)}"
                (self.mount.root / name).parent.mkdir(exist_ok=True)
                self._write(name, self.random.choice(SIZES))
                if self.random.random() < 0.1:
                    self._write_anew(name)
        except OSError as error:
            self.trouble = error

    def _write(self, name, size):
        (self.mount.root / name).write_bytes(self.random.randbytes(size))
        self.written += size
        self.contents += 1

    def _write_anew(self, name):
        size = (self.mount.root / name).stat().st_size
        if size <= SMALL or self.mount.status(name)["state"] == "complete":
            self._write(name, size // 2 + 1)


def captures(mount):
    """What lies in a mount: name → path."""
    return {
        os.path.relpath(os.path.join(place, name), mount.root): os.path.join(place, name)
        for place, _, names in os.walk(mount.root) for name in names
        if not os.path.relpath(place, mount.root).startswith(("status", ".uploadfs"))}


def content_of(folder):
    """What lies there, whatever it is called: name → digest."""
    return {str(path.relative_to(folder)): sha256(path) for path in folder.rglob("*") if not path.is_dir()}


def differences(root, expected):
    """What the users' folders have too much and too little, and what lies beside them."""
    found = {place: content_of(root / place) for place in expected}
    wrong = {place: sorted(found[place].items() ^ files.items()) for place, files in expected.items() if found[place] != files}
    beside = {path.name for path in root.iterdir() if not path.name.startswith(".")} - {*expected, "tokens"}
    return wrong | ({"beside them": sorted(beside)} if beside else {})


@pytest.fixture
def scale(request):
    """Mounts, users, seconds, how often the receiver is restarted, what part may be sent twice (a restart costs what is on its way), and the
    longest rest of a writer: everything lies in two places at the end, which is 30 GB in ten minutes."""
    option = request.config.getoption
    if option("--fresh"):
        seconds = option("--seconds") or 600
        return 20, 24, seconds, seconds / 20, 0.02, 1.2
    # Ten times as often.
    return 4, 5, 9, 3, 0.1, 0.2


@pytest.fixture
def line():
    """Between the mounts and the receiver. It counts what they send, whatever becomes of it."""
    with ThrottlingProxy(None) as proxy:
        yield proxy


def test_everyones_files_arrive_beside_restarts(line, new_receiver, new_mount, folder, authority, scale):
    mounts_count, users, seconds, pause, twice_max, rest = scale
    receiver = new_receiver(start=False, certificate=authority.issue("receiver"), ca=authority.certificate)
    tokens = [f"token-of-user-{number:02}-" + os.urandom(16).hex() for number in range(users)]
    # `files` is the first one's.
    folders = ["files", *(f"user-{number:02}" for number in range(1, users))]
    receiver.new_tokens = "".join(f"{place} {token} quota=100GB\n" for place, token in zip(folders, tokens))
    receiver.start()
    line.target = ("127.0.0.1", receiver.port)
    # The first user has two mounts, whose captures have the same names; the last ones have none.
    owners = [max(0, number - 1) for number in range(mounts_count)]
    mounts = []
    for number, owner in enumerate(owners):
        token = folder / f"token {number}"
        token.touch(mode=0o600)
        token.write_text(tokens[owner] + "\n")
        mounts.append(new_mount(
            None, "--chunk-size", "256KiB", to=f"https://127.0.0.1:{line.port}", ca=receiver.ca, token_file=token))
    writers = [Writer(mount, number, rest) for number, mount in enumerate(mounts)]
    for writer in writers:
        writer.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(pause)
        assert receiver.stop() == 0
        receiver.start()
    for writer in writers:
        writer.ends.set()
        writer.join(SOON)
        assert not writer.is_alive() and writer.trouble is None, writer.trouble
    for mount in mounts:
        mount.wait_all(timeout=180 + seconds)
    sent = line.bytes_up

    # Each folder has what its user's mounts have written, and nothing else: nothing of another user, no file too many or too few.
    expected = {place: {} for place in folders}
    for owner, mount in zip(owners, mounts):
        here, published = captures(mount), expected[folders[owner]]
        assert here
        for name, path in here.items():
            there = mount.status(name)["published_name"]
            assert there not in published, f"two captures are both said to be {there}"
            published[there] = sha256(path)
    assert len(expected["files"]) > len(captures(mounts[0]))
    wrong = differences(receiver.root, expected)
    assert not wrong, wrong

    # Of all that was sent, whatever became of it, hardly anything went twice.
    written, contents = (sum(getattr(writer, what) for writer in writers) for what in ("written", "contents"))
    needed = written * (1 + RECORDS) + contents * HEADS
    print(f"{contents} contents, {written} bytes: {sent} sent, {(sent - needed) / written:.2%} more than once")
    assert written <= sent <= needed + twice_max * written, (written, contents, sent)
