"""What changes in a file that is delivered: how much of it goes again, and how often."""

import os
import time

import pytest

from harness import sha256, write_random

MB = 1_000_000


@pytest.fixture
def delivered(mount, receiver):
    """A large file that is delivered, and a function that changes it and says how many bytes of it were sent for that."""
    write_random(mount.root / "run.log", 40 * MB)
    mount.wait_for("run.log", "complete", timeout=60)

    def change(body, mode="r+b"):
        before, taken = mount.status("run.log")["revision"], receiver.stats()["bytes_received"]
        with open(mount.root / "run.log", mode) as file:
            body(file)
        after = mount.readings("run.log", lambda r: r["state"] == "complete" and r["revision"] > before, timeout=90)[-1]
        assert sha256(receiver.files / "run.log") == sha256(mount.root / "run.log")
        return after, receiver.stats()["bytes_received"] - taken

    return change


@pytest.mark.promises("P121")
def test_of_a_large_file_what_is_new_is_sent_alone(delivered, mount, receiver):
    """Regression (HU4): all of it was sent for each appended line."""
    appended, sent = delivered(lambda file: file.write(b"x" * 1000), "ab")
    assert appended["bytes"]["total"] == 40 * MB + 1000 and sent <= 1 << 20
    assert appended["chunks"]["reused"] == appended["chunks"]["total"] - 1

    _, sent = delivered(lambda file: os.pwrite(file.fileno(), b"y" * 100, 20 * MB))
    # The end of the file is in no whole chunk.
    assert sent <= 2 << 20

    _, sent = delivered(lambda file: file.truncate(30 * MB))
    assert sent <= 1 << 20 and (receiver.files / "run.log").stat().st_size == 30 * MB

    # What is written anew from its beginning is not like what was there: nothing is copied for it.
    _, sent = delivered(lambda file: file.write(os.urandom(20 * MB)), "wb")
    assert sent >= 20 * MB


@pytest.mark.promises("P121")
def test_what_is_published_was_changed_there(delivered, receiver):
    """It is no base any more, whatever it holds: all of the file goes, beside what another program has made of it."""
    with open(receiver.files / "run.log", "r+b") as file:
        file.write(b"by another program")
    appended = None

    def append(file):
        file.write(b"x" * 1000)

    with pytest.raises(AssertionError):
        appended = delivered(append, "ab")
    assert appended is None
    assert (receiver.files / "run.log").read_bytes().startswith(b"by another program")
    assert (receiver.files / "run-2.log").stat().st_size == 40 * MB + 1000


@pytest.mark.promises("P121")
def test_a_file_that_stays_open_goes_on_with_what_is_published(delivered, mount):
    """A recorder opens it again, and goes on for a while: what it had written before is not sent early either."""

    def record(file):
        for _ in range(20):
            file.write(os.urandom(100_000))
            file.flush()
            time.sleep(0.1)  # it records

    recorded, sent = delivered(record, "ab")
    assert recorded["bytes"]["total"] == 42 * MB and sent < 6 * MB


@pytest.mark.promises("S33c")
def test_lines_that_follow_one_another_are_sent_together(mount, receiver):
    """Regression (HU4): 30 appended lines were 24 publications."""
    path = mount.root / "run.csv"
    write_random(path, 20 * MB)
    mount.wait_for("run.csv", "complete", timeout=60)
    before = receiver.stats()["files_published"]
    for number in range(30):
        with open(path, "ab") as file:
            file.write(b"%d,1.0\n" % number)
        time.sleep(0.02)  # the next one follows
    mount.wait_all()
    assert sha256(receiver.files / "run.csv") == sha256(path)
    assert receiver.stats()["files_published"] - before <= 12
