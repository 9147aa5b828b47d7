"""Recordings that are larger than the disk (docs/semantics.md, S70 to S72): what the server has is given up in the spool."""

import contextlib
import errno
import hashlib
import os
import shutil

import pytest

from harness import sha256, wait_until
from promises import needs

CHUNK = 1 << 20
DISK = 64 << 20
pytestmark = needs("root")


@pytest.fixture
def spool(tmpfs):
    return tmpfs("spool-disk", DISK) / "spool"


@pytest.fixture
def mount(new_mount, receiver, spool):
    return new_mount(
        receiver, "--reserve", "8MB", "--chunk-size", "1MiB", "--rule", "**/*.mov when-full=release", spool=spool)


def block(number, seed=0):
    return hashlib.shake_256(f"{seed} {number}".encode()).digest(CHUNK)


def record(file, chunks, seed=0):
    """Writes incompressible chunks, each different; the digest of all."""
    digest = hashlib.sha256()
    for number in range(chunks):
        content = block(number, seed)
        digest.update(content)
        view = memoryview(content)
        while view:
            view = view[file.write(view):]
    return digest.hexdigest()


def given_up(spool, name):
    """Bytes of a file that the spool no longer has."""
    facts = (spool / "captures" / name).stat()
    return facts.st_size - facts.st_blocks * 512


@pytest.mark.promises("S70a", "S70d")
def test_a_recording_larger_than_the_disk_goes_through(mount, receiver, spool):
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        written = record(file, 200)
        assert given_up(spool, "take.mov") > 200 * CHUNK - DISK
        reading = mount.status("take.mov")
        assert reading["state"] == "writing" and "at the server alone" in reading["reason"]
        assert receiver.published() == {}
    mount.wait_for("take.mov", "complete")
    assert sha256(receiver.files / "take.mov") == written
    # What is left of it is no whole file, and goes.
    wait_until(lambda: not (mount.root / "take.mov").exists(), "the rest of the local copy goes")
    assert mount.status("take.mov")["local"] is False


@pytest.mark.promises("S70a")
def test_without_the_rule_the_writer_is_refused(mount):
    with open(mount.root / "take.raw", "wb", buffering=0) as file:
        with pytest.raises(OSError) as raised:
            record(file, 200)
    assert raised.value.errno == errno.ENOSPC


@pytest.mark.promises("S71a", "S71b", "S71c")
def test_what_is_given_up_cannot_be_read_or_changed(mount, receiver, spool):
    path = mount.root / "take.mov"
    with open(path, "wb", buffering=0) as file:
        record(file, 100)
        given = given_up(spool, "take.mov")
        assert given > 20 * CHUNK
        fresh = os.open(path, os.O_RDONLY | os.O_DIRECT)
        try:
            os.posix_fadvise(fresh, 0, 0, os.POSIX_FADV_DONTNEED)
            with pytest.raises(OSError) as raised:
                os.pread(fresh, CHUNK, 2 * CHUNK)
            assert raised.value.errno == errno.EIO
            # It is no hole, and the file is as long as it was.
            assert os.fstat(fresh).st_size == 100 * CHUNK
            assert os.lseek(fresh, 2 * CHUNK, os.SEEK_DATA) == 2 * CHUNK
            assert os.lseek(fresh, 0, os.SEEK_HOLE) == 100 * CHUNK
            end = os.pread(fresh, CHUNK, 99 * CHUNK)
            assert end == hashlib.shake_256(b"0 99").digest(CHUNK)
        finally:
            os.close(fresh)
    mount.wait_for("take.mov", "complete")

    with open(mount.root / "changed.mov", "wb", buffering=0) as file:
        record(file, 100, seed=1)
        for change in (
            lambda: os.pwrite(file.fileno(), b"x", 2 * CHUNK),
            lambda: os.ftruncate(file.fileno(), 2 * CHUNK + 1),
            lambda: os.posix_fallocate(file.fileno(), 2 * CHUNK, CHUNK),
        ):
            with pytest.raises(OSError) as raised:
                change()
            assert raised.value.errno == errno.EIO
    assert mount.wait_for("changed.mov", "interrupted")["last_error"]["code"] == "change-refused"
    assert "changed.mov" not in receiver.published()


@pytest.mark.promises("S71d")
def test_written_anew_it_is_a_whole_file_again(mount, receiver):
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        record(file, 100)
        os.ftruncate(file.fileno(), 0)
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        written = record(file, 90, seed=1)
    mount.wait_for("take.mov", "complete")
    assert sha256(receiver.files / "take.mov") == written


@pytest.mark.promises("S72a")
def test_deaths_of_both_sides_lose_nothing_that_was_given_up(mount, receiver, spool):
    descriptor = os.open(mount.root / "take.mov", os.O_WRONLY | os.O_CREAT)
    with open(descriptor, "wb", buffering=0, closefd=False) as file:
        written = record(file, 120)
    assert given_up(spool, "take.mov") > 40 * CHUNK
    mount.kill()
    receiver.kill()
    with contextlib.suppress(OSError):
        os.close(descriptor)
    receiver.start()
    mount.start()
    mount.wait_for("take.mov", "interrupted")
    mount.say("publish", "take.mov")
    mount.wait_for("take.mov", "complete")
    assert sha256(receiver.files / "take.mov") == written


@pytest.mark.promises("S72c")
def test_a_server_that_forgets_what_was_given_up_is_told_on(mount, receiver, spool):
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        record(file, 100)
        receiver.kill()
        for session in (receiver.root / ".uploads" / "sessions").iterdir():
            shutil.rmtree(session)
        receiver.start()
        file.write(b"end")
    failure = mount.wait_for("take.mov", "failed")["last_error"]
    assert failure["code"] == "released-part-lost" and "no longer holds" in failure["message"]
    assert receiver.published() == {}
    assert (spool / "captures" / "take.mov").exists()


@pytest.mark.promises("S72c", "S72e", "S72i")
@pytest.mark.parametrize("lacks", ["parts", "later bytes", "parts and the record"])
def test_a_receiver_that_was_restored_from_an_older_copy_publishes_nothing(mount, receiver, spool, folder, lacks):
    """The copy lacks what was given up after it was made, or has what a part was before it was written again. With the right copy of the
    receiver the upload goes on."""
    older, right = folder / "older", folder / "right"
    chunks = 30 if lacks == "later bytes" else 100
    with open(mount.root / "take.mov", "wb+", buffering=0) as file:
        record(file, chunks)
        wait_until(lambda: mount.status("take.mov")["bytes"]["acknowledged"] >= 20 * CHUNK, "the receiver has some of it")
        receiver.stop()
        shutil.copytree(receiver.root, older, symlinks=True)
        receiver.start()
        anew = [2, 3] if lacks == "later bytes" else []
        for number in anew:
            os.pwrite(file.fileno(), block(number, seed=2), number * CHUNK)
        record(file, 100, seed=1)
        receiver.kill()
    content = [block(number, seed=2 if number in anew else 0) for number in range(chunks)]
    content += [block(number, seed=1) for number in range(100)]
    mount.kill()
    assert given_up(spool, "take.mov") > 40 * CHUNK
    receiver.root.rename(right)
    older.rename(receiver.root)
    if lacks == "parts and the record":
        shutil.rmtree(spool / ".state" / "resume")
    receiver.start()
    for _ in range(2):
        mount.start()
        for _ in range(2):
            assert mount.wait_for("take.mov", "failed")["last_error"]["code"] == "released-part-lost"
            assert receiver.published() == {}
            mount.say("retry", "take.mov")
        mount.wait_for("take.mov", "failed")
        mount.kill()
    mount.start()
    assert mount.wait_for("take.mov", "failed")["last_error"]["code"] == "released-part-lost"
    receiver.stop()
    receiver.root.rename(older)
    right.rename(receiver.root)
    receiver.start()
    mount.say("retry", "take.mov")
    mount.wait_for("take.mov", "complete")
    assert sha256(receiver.files / "take.mov") == hashlib.sha256(b"".join(content)).hexdigest()


@pytest.mark.promises("S72i")
def test_where_the_record_is_lost_a_receivers_older_bytes_are_not_taken_for_what_was_given_up(mount, receiver, spool, folder):
    """Regression: the copy of the receiver had every part, two of them as they were before they were written again, and a mixture of both
    was published."""
    older, right = folder / "older", folder / "right"
    with open(mount.root / "take.mov", "wb+", buffering=0) as file:
        record(file, 40)
        wait_until(lambda: mount.status("take.mov")["bytes"]["acknowledged"] >= 38 * CHUNK, "the receiver has nearly all of it")
        receiver.stop()
        shutil.copytree(receiver.root, older, symlinks=True)
        receiver.start()
        for number in (2, 3):
            os.pwrite(file.fileno(), block(number, seed=2), number * CHUNK)
        data = next((receiver.root / ".uploads" / "sessions").iterdir()) / "data"
        wait_until(
            lambda: data.read_bytes()[2 * CHUNK:4 * CHUNK] == block(2, seed=2) + block(3, seed=2), "the receiver has what was written again")
        with open(mount.root / "other.raw", "wb", buffering=0) as other:
            record(other, 30, seed=3)
        with open(spool / "captures" / "take.mov", "rb") as capture:
            wait_until(
                lambda: all(os.lseek(capture.fileno(), number * CHUNK, os.SEEK_HOLE) == number * CHUNK for number in (2, 3)),
                "both parts are given up")
        receiver.kill()
    mount.kill()
    receiver.root.rename(right)
    older.rename(receiver.root)
    shutil.rmtree(spool / ".state" / "resume")
    receiver.start()
    for _ in range(2):
        mount.start()
        assert mount.wait_for("take.mov", "failed", "complete")["state"] == "failed"
        assert mount.status("take.mov")["last_error"]["code"] == "released-part-lost"
        mount.say("retry", "take.mov")
        mount.wait_for("take.mov", "failed")
        assert "take.mov" not in receiver.published()
        mount.kill()
    receiver.stop()
    receiver.root.rename(older)
    right.rename(receiver.root)
    receiver.start()
    mount.start()
    mount.wait_for("take.mov", "complete")
    content = b"".join(block(number, seed=2 if number in (2, 3) else 0) for number in range(40))
    assert (receiver.files / "take.mov").read_bytes() == content


def killed(mount, receiver, chunks):
    """A recording of which parts are at the server alone, and whose mount has died before the rest was sent; its digest."""
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        written = record(file, chunks)
        receiver.kill()
    mount.kill()
    receiver.start()
    return written


def with_option(mount, name, value):
    position = mount.options.index(name)
    mount.options = (*mount.options[:position + 1], value, *mount.options[position + 2:])


@pytest.mark.promises("S72a", "S72e")
def test_another_chunk_size_gives_nothing_up(mount, receiver, spool):
    """Regression: the record was wiped at the start, and the recording failed for good."""
    written = killed(mount, receiver, 100)
    assert given_up(spool, "take.mov") > 20 * CHUNK
    with_option(mount, "--chunk-size", "256KiB")
    mount.start()
    mount.wait_for("take.mov", "complete")
    assert sha256(receiver.files / "take.mov") == written


@pytest.mark.promises("S72e")
def test_another_receiver_ends_nothing(mount, new_receiver, receiver):
    """Regression: a wrong address for one attempt lost the recording; returning to the right one did not recover it."""
    written = killed(mount, receiver, 100)
    other = new_receiver()
    right = mount.to, mount.token_file, mount.ca
    mount.to, mount.token_file, mount.ca = other.url, other.token_file, other.ca
    mount.start()
    failure = mount.wait_for("take.mov", "failed")["last_error"]
    assert failure["code"] == "released-part-away" and receiver.url in failure["message"]
    mount.kill()
    mount.to, mount.token_file, mount.ca = right
    mount.start()
    mount.wait_for("take.mov", "complete")
    assert sha256(receiver.files / "take.mov") == written
    assert other.published() == {}
