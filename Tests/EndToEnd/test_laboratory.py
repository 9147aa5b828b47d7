"""The receiver as a laboratory's service: many mounts of many users, beside restarts. With --fresh 20 mounts of 24 users for --seconds."""

import itertools
import os
import random
import threading
import time

import pytest

from harness import SOON, sha256
from protocol_client import ProtocolClient

CHUNK = 256 << 10


class Writer(threading.Thread):
    """Records into a mount until it is told to stop: small files, takes that are closed, and a few changes."""

    def __init__(self, mount, seed):
        super().__init__(daemon=True)
        self.mount, self.random, self.ends, self.trouble = mount, random.Random(seed), threading.Event(), None
        self.written = 0

    def run(self):
        try:
            for number in itertools.count():
                if self.ends.wait(self.random.uniform(0, 0.2)):
                    return
                size = self.random.choice([0, 100, 5000, CHUNK - 1, CHUNK, 3 * CHUNK + 5, 8 * CHUNK])
                path = self.mount.root / f"day {number % 3}" / f"{number}.mov"
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(self.random.randbytes(size))
                self.written += size
                if self.random.random() < 0.1:
                    path.write_bytes(self.random.randbytes(size // 2 + 1))
        except OSError as error:
            self.trouble = error


@pytest.fixture
def scale(request):
    """Mounts, users, seconds, and how often the receiver is restarted."""
    option = request.config.getoption
    if option("--fresh"):
        seconds = option("--seconds") or 600
        return 20, 24, seconds, seconds / 20
    return 4, 5, 9, 3


def test_everyones_files_arrive_beside_restarts(new_receiver, new_mount, folder, authority, scale):
    mounts_count, users, seconds, pause = scale
    operator = folder / "operator"
    operator.touch(mode=0o600)
    operator.write_text("o" * 40)
    receiver = new_receiver(
        "--operator-token-file", operator, start=False, certificate=authority.issue("receiver"), ca=authority.certificate)
    tokens = [f"token-of-user-{number:02}-" + os.urandom(16).hex() for number in range(users)]
    # `files` is the first one's.
    folders = ["files", *(f"user {number:02}".replace(" ", "-") for number in range(1, users))]
    receiver.new_tokens = "".join(f"{place} {token} quota=100GB\n" for place, token in zip(folders, tokens))
    receiver.start()
    mounts = []
    for number in range(mounts_count):
        token = folder / f"token {number}"
        token.touch(mode=0o600)
        token.write_text(tokens[number % users] + "\n")
        mounts.append(new_mount(None, "--chunk-size", "256KiB", to=receiver.url, ca=receiver.ca, token_file=token))
    writers = [Writer(mount, number) for number, mount in enumerate(mounts)]
    for writer in writers:
        writer.start()
    end, sent_twice = time.monotonic() + seconds, 0

    def count():
        """Chunks that came although they were held: the answer to the first one was lost."""
        return ProtocolClient(receiver).request("GET", "/v1/stats", token="o" * 40).json["duplicate_chunks"]

    while time.monotonic() < end:
        time.sleep(pause)
        sent_twice += count()
        assert receiver.stop() == 0
        receiver.start()
    for writer in writers:
        writer.ends.set()
        writer.join(SOON)
        assert not writer.is_alive() and writer.trouble is None, writer.trouble
    for mount in mounts:
        mount.wait_all(timeout=180 + seconds)
    sent_twice += count()
    for number, mount in enumerate(mounts):
        here = {
            os.path.relpath(os.path.join(place, name), mount.root): os.path.join(place, name)
            for place, folders_here, names in os.walk(mount.root) for name in names
            if not os.path.relpath(place, mount.root).startswith(("status", ".uploadfs"))}
        there = receiver.root / folders[number % users]
        assert here
        for name, path in here.items():
            assert sha256(there / mount.status(name)["published_name"]) == sha256(path), (number, name)
    # Nothing lies where no mount has written, and nothing of one user with another.
    used = {folders[number % users] for number in range(mounts_count)}
    assert not [place for place in folders if place not in used and any((receiver.root / place).rglob("*.mov"))]
    assert sent_twice * CHUNK <= 0.02 * sum(writer.written for writer in writers), sent_twice
