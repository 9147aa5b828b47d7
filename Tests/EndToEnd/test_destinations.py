"""Several destinations: rules choose, each has its own state and receipt, and none waits for another one.

Statements of docs/semantics.md are named by their number.
"""

import errno
import json
import os
import subprocess

import pytest

from filesystems import RENAME_EXCHANGE, renameat2
from harness import unmount_lazily, wait_until, write_random
from promises import needs
from s3_servers import credentials
from test_interrupted import turn_to_zeros_by_a_power_cut
from test_little_disk import DISK, given_up, record

# So that a file has several chunks at each destination without being large.
CHUNK = 1 << 20


def further(name, receiver, *settings):
    """The flags of a second receiver."""
    text = [name, f"to={receiver.url}", f"token-file={receiver.token_file}", f"ca={receiver.ca}", *settings]
    return ["--destination", " ".join(text)]


def at(status, name):
    """What a status says of one destination."""
    return next(part for part in status["destinations"] if part["name"] == name)


@pytest.fixture
def archive(new_receiver):
    return new_receiver(name="archive")


@pytest.fixture
def mount(new_mount, receiver, archive):
    """Films go to both, raw data to the archive alone, everything else to the main destination."""
    return new_mount(
        receiver, *further("archive", archive, f"chunk-size={CHUNK}"), "--chunk-size", str(CHUNK),
        "--rule", "*.mov to=main,archive", "--rule", "*.raw to=archive", "--ignore", "*.log")


@pytest.mark.promises("S74a", "S74b", "S74c", "S74d", "DE12")
def test_s74_rules_choose_the_destinations(mount, receiver, archive):
    for name, size in {"a.mov": 5_000_000, "b.raw": 3_000_000, "c.txt": 1000, "d.log": 10}.items():
        write_random(mount.root / name, size, seed=size)
    mount.wait_all()
    assert receiver.published() == {"a.mov": 5_000_000, "c.txt": 1000}
    assert archive.published() == {"a.mov": 5_000_000, "b.raw": 3_000_000}
    for place in (receiver, archive):
        assert (place.files / "a.mov").read_bytes() == (mount.root / "a.mov").read_bytes()
    film, raw, log = mount.status("a.mov"), mount.status("b.raw"), mount.status("d.log")
    assert film["state"] == "complete"
    receipts = {part["name"]: part["receipt"]["id"] for part in film["destinations"]}
    assert receipts.keys() == {"main", "archive"} and len(set(receipts.values())) == 2
    assert [part["name"] for part in raw["destinations"]] == ["archive"] and raw["state"] == "complete"
    assert log["state"] == "ignored"
    # One of them is at two places, and counts once.
    summary = mount.summary()
    assert summary["files"] == {state: {"complete": 3, "ignored": 1}.get(state, 0) for state in summary["files"]}
    assert [place["files"]["complete"] for place in summary["destinations"]] == [2, 2]
    # A rename publishes the file again where its new name belongs.
    os.rename(mount.root / "c.txt", mount.root / "c.raw")
    mount.wait_all()
    assert archive.published().keys() == {"a.mov", "b.raw", "c.raw"}


@pytest.mark.promises("S40l", "S75f")
def test_what_is_published_as_it_is_at_one_destination_is_no_whole_for_the_other_one(mount, receiver, archive):
    """Regression: the word marked the one copy as whole, which a power cut had turned to zeros, and a rename after the next start published
    it where the whole had been delivered."""
    archive.stop()
    (mount.root / "take.mov").write_bytes(b"content")
    mount.readings("take.mov", lambda status: "destinations" in status and at(status, "main")["state"] == "complete")
    mount.kill()
    unmount_lazily(str(mount.root))
    turn_to_zeros_by_a_power_cut(mount.spool / "captures" / "take.mov")
    archive.start()
    mount.start()
    mount.readings("take.mov", lambda status: "destinations" in status and at(status, "archive")["state"] == "interrupted")
    mount.say("publish archive", "take.mov")
    mount.wait_for("take.mov", "complete")
    assert archive.published().keys() == {"take.mov"}
    assert mount.stop() == 0
    mount.start()
    mount.wait_for("take.mov", "complete")
    (mount.root / "take.mov").rename(mount.root / "renamed.mov")
    status = mount.wait_for("renamed.mov", "interrupted")
    assert at(status, "main")["last_error"]["code"] == "not-on-disk"
    assert receiver.published().keys() == {"take.mov"} and (receiver.files / "take.mov").read_bytes() == b"content"


@pytest.mark.promises("S74b", "S60a")
def test_s74_a_growing_file_is_sent_to_both_while_it_is_written(mount, receiver, archive):
    content = os.urandom(12 * CHUNK)
    with open(mount.root / "slow.mov", "wb", buffering=0) as film:
        for start in range(0, len(content), CHUNK):
            film.write(content[start:start + CHUNK])
        # The first and the last ones are held back.
        mount.readings("slow.mov", lambda status: "destinations" in status and all(
            part["bytes"]["acknowledged"] >= 8 * CHUNK for part in status["destinations"]))
    mount.wait_for("slow.mov", "complete")
    for place in (receiver, archive):
        assert (place.files / "slow.mov").read_bytes() == content


@pytest.mark.promises("S74c", "S75a")
def test_s75_one_destination_that_is_away_holds_up_no_other_one(mount, receiver, archive):
    archive.kill()
    write_random(mount.root / "a.mov", 6_000_000)
    status = mount.readings("a.mov", lambda status: "destinations" in status and any(
        part["name"] == "main" and part["state"] == "complete" for part in status["destinations"]))[-1]
    assert receiver.published() == {"a.mov": 6_000_000}
    assert status["state"] != "complete", "one of two is not all"
    archive.start()
    mount.wait_for("a.mov", "complete")
    assert archive.published() == {"a.mov": 6_000_000}


@pytest.mark.promises("DE138b", "DE138c", "DE138d")
def test_each_destination_says_for_itself_what_becomes_of_a_name_that_is_taken(new_mount, receiver, archive):
    """And each has a published name of its own, which stays."""
    for place in (receiver, archive):
        for name in ("a.mov", "b.mov"):
            (place.files / name).write_bytes(b"of another program")
    mount = new_mount(
        receiver, *further("archive", archive, "if-exists=refuse"), "--rule", "*.mov to=main,archive", "--rule", "b.mov if-exists=replace")
    for content in (b"one", b"another one"):
        (mount.root / "a.mov").write_bytes(content)
        wait_until(
            lambda: {part["name"]: part["state"] for part in mount.status("a.mov")["destinations"]} == {
                "main": "complete", "archive": "failed"}, lambda: str(mount.status("a.mov")))
        status = mount.status("a.mov")
        assert status["state"] == "failed" and at(status, "main")["published_name"] == "a-2.mov", status
        assert at(status, "archive")["last_error"]["code"] == "name-refused", status
        assert (receiver.files / "a-2.mov").read_bytes() == content
    (mount.root / "b.mov").write_bytes(b"by rule")
    status = mount.wait_for("b.mov", "complete")
    assert {part["name"]: part["published_name"] for part in status["destinations"]} == {"main": "b.mov", "archive": "b.mov"}
    assert archive.published().keys() == {"a.mov", "b.mov"} and receiver.published().keys() == {"a.mov", "a-2.mov", "b.mov"}
    for place in (receiver, archive):
        assert (place.files / "a.mov").read_bytes() == b"of another program" and (place.files / "b.mov").read_bytes() == b"by rule"


@pytest.mark.promises("S75b")
def test_s75_the_local_copy_stays_until_the_last_destination_has_it(new_mount, receiver, archive):
    mount = new_mount(
        receiver, *further("archive", archive), "--rule", "** to=main,archive", "--rule", "*.txt to=main", "--keep", "1s")
    archive.kill()
    write_random(mount.root / "a.mov", 2_000_000)
    (mount.root / "b.txt").write_text("goes to the main destination only")
    wait_until(lambda: not (mount.spool / "captures" / "b.txt").exists(), "what is delivered goes after a second")
    assert at(mount.status("a.mov"), "main")["state"] == "complete"
    assert (mount.spool / "captures" / "a.mov").exists(), "the archive does not have it yet"
    archive.start()
    wait_until(lambda: not (mount.spool / "captures" / "a.mov").exists(), "both have it")
    status = mount.status("a.mov")
    assert status["state"] == "complete" and not status["local"] and len(status["destinations"]) == 2
    assert mount.status("b.txt")["state"] == "complete"


@pytest.mark.promises("S74b")
def test_s74_both_uploads_go_on_after_kill_9(mount, receiver, archive):
    archive.kill()
    write_random(mount.root / "a.mov", 8 * CHUNK)
    mount.readings("a.mov", lambda status: "destinations" in status and any(
        part["name"] == "main" and part["state"] == "complete" for part in status["destinations"]))
    mount.kill()
    mount.start()
    status = mount.wait_for("a.mov", "queued", "waiting", "uploading")
    assert at(status, "main")["receipt"], "the receipt of one destination is known after a restart"
    archive.start()
    mount.wait_for("a.mov", "complete")
    assert receiver.stats()["files_published"] == 1, "it was not sent again"
    assert archive.published() == {"a.mov": 8 * CHUNK}


@pytest.mark.promises("S80f")
def test_a_capture_that_is_exchanged_and_new_to_a_destination_is_not_taken_for_a_backup(mount, receiver, archive):
    """Regression (combinations, seed 481408693): the mount died before the archive's catalog had heard that an older capture, which went to
    the main destination alone, had got the name of a delivered one. The archive held it as older than what was delivered."""
    (mount.root / "older.txt").write_bytes(b"older")
    mount.wait_for("older.txt", "complete")
    (mount.root / "take.mov").write_bytes(b"the take")
    mount.wait_for("take.mov", "complete")
    # Both catalogs have what they know.
    assert mount.stop() == 0
    mount.start()
    mount.wait_for("take.mov", "complete")
    renameat2(mount.root / "older.txt", mount.root / "take.mov", RENAME_EXCHANGE)
    mount.kill()
    mount.start()
    mount.wait_all()
    status = mount.status("take.mov")
    assert {part["name"]: part["state"] for part in status["destinations"]} == {"main": "complete", "archive": "complete"}
    for place in (receiver, archive):
        assert (place.files / "take.mov").read_bytes() == b"older"
    assert (receiver.files / "older.txt").read_bytes() == b"the take"


@pytest.mark.promises("S75c", "S42a")
def test_s75_close_waits_for_all_of_them(new_mount, receiver, archive):
    mount = new_mount(
        receiver, *further("archive", archive), "--rule", "** to=main,archive close=wait")
    archive.kill()
    source = mount.folder / "a.mov"
    write_random(source, 300_000)
    copying = subprocess.Popen(["cp", str(source), str(mount.root / "a.mov")])
    mount.readings("a.mov", lambda status: "destinations" in status and any(
        part["name"] == "main" and part["state"] == "complete" for part in status["destinations"]))
    assert copying.poll() is None, "the archive does not have it"
    archive.start()
    assert copying.wait(60) == 0
    assert archive.published() == {"a.mov": 300_000}


@pytest.mark.promises("S75d", "S43")
def test_s75_fsync_waits_for_all_of_them(new_mount, receiver, archive):
    mount = new_mount(
        receiver, *further("archive", archive), "--rule", "** to=main,archive fsync=remote")
    archive.kill()
    source = write_random(mount.folder / "a.mov", 300_000)
    writing = subprocess.Popen(
        ["dd", f"if={source}", f"of={mount.root / 'a.mov'}", "bs=300000", "conv=fsync", "status=none"])
    mount.readings("a.mov", lambda status: "destinations" in status and at(status, "main")["receipt"])
    assert writing.poll() is None, "the archive does not have it"
    archive.start()
    assert writing.wait(60) == 0
    assert archive.published() == receiver.published() == {"a.mov": 300_000}


@needs("root")
@pytest.mark.promises("S75e")
def test_s75_nothing_of_a_file_for_two_destinations_is_given_up(new_mount, receiver, archive, tmpfs):
    """A recording for one destination goes through (test_little_disk.py)."""
    spool = tmpfs("spool-disk", DISK) / "spool"
    mount = new_mount(
        receiver, *further("archive", archive, "chunk-size=1MiB"), "--chunk-size", "1MiB", "--reserve", "8MB",
        "--rule", "** when-full=release", "--rule", "*.mov to=main,archive", spool=spool)
    with open(mount.root / "take.mov", "wb", buffering=0) as film:
        with pytest.raises(OSError) as refused:
            record(film, 200)
        assert refused.value.errno == errno.ENOSPC
        written = os.fstat(film.fileno()).st_size
        assert given_up(spool, "take.mov") <= 0
        # What its writer means is what was written.
        os.ftruncate(film.fileno(), written)
    mount.wait_for("take.mov", "complete")
    assert archive.published() == receiver.published() == {"take.mov": written}


@pytest.mark.promises("S74b")
def test_s74_two_kinds_of_destination_with_chunks_of_their_own(new_mount, receiver, rclone):
    mount = new_mount(
        receiver, "--destination", f"bucket to={rclone.url('films')}", "--rule", "** to=main,bucket",
        "--max-file-size", "1GB", environment=credentials())
    content = os.urandom(23_000_000)
    with open(mount.root / "slow.mov", "wb", buffering=0) as film:
        for start in range(0, len(content), CHUNK):
            film.write(content[start:start + CHUNK])
            if start == 16 * CHUNK:
                # Enough for each to have something to send, however long its chunks are.
                mount.readings(
                    "slow.mov", lambda status: all(part["bytes"]["acknowledged"] for part in status["destinations"]))
    mount.wait_for("slow.mov", "complete")
    assert (receiver.files / "slow.mov").read_bytes() == content
    assert rclone.object("films/slow.mov") == content


@pytest.mark.parametrize("options, words", [
    (["--destination", "archive"], ["archive", "--to is missing"]),
    (["--destination", "Archive to=https://x"], ["“Archive” is no name"]),
    (["--destination", "main to=https://x"], ["the name main is taken"]),
    (["--destination", "a to=https://x spool=/x"], ["a destination has no “spool”", "token-file"]),
    (["--destination", "a to=https://x", "--rule", "*.mov to=b"], ["no destination is called b", "main, a"]),
    (["--rule", "*.mov to=archive"], ["no destination is called archive", "--destination"]),
    (["--destination", "a to=ftp://x"], ["a:", "ftp"]),
])
@pytest.mark.promises("DE9")
def test_wrong_destinations_are_refused_with_what_to_do(new_mount, receiver, options, words):
    code, error = new_mount(receiver, *options, start=False).start_and_fail()
    assert code == 14
    for word in words:
        assert word in error


@pytest.mark.promises("S75a", "DE10")
def test_a_token_is_shown_to_its_own_destination_only(new_mount, receiver, archive):
    mount = new_mount(
        receiver, "--destination", f"archive to={archive.url} ca={archive.ca}", "--rule", "** to=main,archive")
    (mount.root / "a.txt").write_text("x")
    status = mount.readings("a.txt", lambda status: status["state"] == "failed" and at(status, "main")["receipt"])[-1]
    assert at(status, "archive")["last_error"]["code"] == "unauthorized"
    assert json.dumps(status).find(receiver.token) < 0
    assert mount.stop() == 18
