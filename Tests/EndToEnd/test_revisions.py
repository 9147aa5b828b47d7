"""What changes in a file that is delivered: how much of it goes again, and how often."""

import os
import time

import pytest

from certificates import Authority
from harness import sha256, write_random
from s3_front import S3Front
from s3_servers import PART

MB = 1_000_000


@pytest.fixture
def delivered(mount, receiver):
    """A large file that is delivered, and a function that changes it, compares with it what is published then, and says how many bytes of it
    were sent for that."""
    write_random(mount.root / "run.log", 40 * MB)
    mount.wait_for("run.log", "complete", timeout=60)

    def change(body, mode="r+b", published_as="run.log"):
        before, taken = mount.status("run.log")["revision"], receiver.stats()["bytes_received"]
        with open(mount.root / "run.log", mode) as file:
            body(file)
        after = mount.readings("run.log", lambda r: r["state"] == "complete" and r["revision"] > before, timeout=90)[-1]
        assert sha256(receiver.files / published_as) == sha256(mount.root / "run.log")
        return after, receiver.stats()["bytes_received"] - taken

    return change


@pytest.mark.promises("P121")
def test_of_a_large_file_what_is_new_is_sent_alone(delivered, mount, receiver):
    """Regression: all of it was sent for each appended line."""
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
    changed = receiver.files / "run.log"
    with open(changed, "r+b") as file:
        file.write(b"by another program")
    theirs = sha256(changed)
    appended, sent = delivered(lambda file: file.write(b"x" * 1000), "ab", published_as="run-2.log")
    assert appended["bytes"]["total"] == 40 * MB + 1000 and sent >= 40 * MB + 1000
    assert sha256(changed) == theirs


@pytest.mark.promises("P121")
def test_after_a_restart_what_is_new_is_sent_alone(delivered, mount):
    """What is published is the next one's beginning, whichever run has published it: the first, or one that went on with it itself."""
    for total in (40 * MB + 1000, 40 * MB + 2000):
        assert mount.stop() == 0
        mount.start()
        mount.wait_for("run.log", "complete")
        appended, sent = delivered(lambda file: file.write(b"x" * 1000), "ab")
        # The end of the file is in no whole chunk, and the line's speed, which says how long they are, is to be found out again.
        assert appended["bytes"]["total"] == total and sent <= 4 << 20
        assert appended["chunks"]["reused"] == appended["chunks"]["total"] - 1


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


@pytest.mark.promises("P121")
def test_under_a_quota_what_is_new_is_sent_alone(new_receiver, new_mount, folder):
    """Regression: an open file went whole again for a token with a quota. What it begins with counts from the first moment."""
    authority = Authority(folder / "authority")
    receiver = new_receiver(start=False, certificate=authority.issue("receiver"), ca=authority.certificate)
    receiver.new_tokens = f"files {'t' * 40} quota=100MB\n"
    receiver.start()
    mount = new_mount(receiver)
    write_random(mount.root / "run.log", 40 * MB)
    mount.wait_for("run.log", "complete", timeout=60)
    taken = receiver.stats()["bytes_received"]
    with open(mount.root / "run.log", "ab") as file:
        file.write(b"x" * 1000)
    mount.readings("run.log", lambda r: r["state"] == "complete" and r["revision"] > 1, timeout=90)
    assert sha256(receiver.files / "run.log") == sha256(mount.root / "run.log")
    assert receiver.stats()["bytes_received"] - taken <= 2 << 20


@pytest.mark.promises("S33c")
def test_lines_that_follow_one_another_are_sent_together(mount, receiver):
    """Regression: 30 appended lines were 24 publications."""
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


@pytest.mark.promises("DE151")
def test_s3_copies_the_parts_that_are_the_same(moto, new_s3_mount):
    """Regression: all of a file was sent to S3 for each appended line."""
    copies, bodies = [], []

    def watches(method, path, fields):
        if method == "PUT" and "partNumber" in path:
            (copies if fields.get("x-amz-copy-source") else bodies).append(path)

    with S3Front(moto.port, watches) as front:
        mount = new_s3_mount(moto.url(port=front.port))
        log = mount.root / "day 1" / "run ü.log"
        log.parent.mkdir()
        write_random(log, 5 * PART + 1000)
        mount.wait_all()
        assert (len(copies), len(bodies)) == (0, 6)

        with open(log, "ab") as file:
            file.write(b"x" * 1000)
        mount.wait_all()
        assert moto.object("day 1/run ü.log") == log.read_bytes()
        assert (len(copies), len(bodies)) == (5, 7)
        status = mount.status("day 1/run ü.log")
        assert status["chunks"]["reused"] == 5 and status["revision"] == 2

        # Under its next name too, from the object that has the former one.
        os.rename(log, mount.root / "renamed.log")
        mount.wait_all()
        assert moto.object("renamed.log") == (mount.root / "renamed.log").read_bytes()
        assert (len(copies), len(bodies)) == (10, 8)
        with open(mount.root / "renamed.log", "r+b") as file:
            os.pwrite(file.fileno(), b"y" * 100, 2 * PART + 10)
        mount.wait_all()
        assert moto.object("renamed.log") == (mount.root / "renamed.log").read_bytes()
        assert (len(copies), len(bodies)) == (14, 10)

        # What another program puts there is not taken for it.
        moto.put("renamed.log", os.urandom(6 * PART))
        with open(mount.root / "renamed.log", "ab") as file:
            file.write(b"z" * 1000)
        mount.wait_all()
        receipt = mount.status("renamed.log")["receipt"]
        assert moto.object(receipt.get("published_as", receipt["name"])) == (mount.root / "renamed.log").read_bytes()
    assert moto.uploads() == []


@pytest.mark.promises("DE151")
def test_a_server_that_copies_no_parts_gets_them(rclone, new_s3_mount):
    mount = new_s3_mount(rclone.url())
    write_random(mount.root / "run.log", 4 * PART)
    mount.wait_all()
    for _ in range(2):
        with open(mount.root / "run.log", "ab") as file:
            file.write(b"x" * 1000)
        mount.wait_all()
        assert rclone.object("run.log") == (mount.root / "run.log").read_bytes()
        assert mount.status("run.log")["attempts"] == 0
    assert rclone.keys() == ["run.log"]
