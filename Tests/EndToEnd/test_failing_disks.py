"""What could not be read is neither empty nor gone: disks that fail under the spool and under the receiver, by single calls
(failing_calls.c)."""

import contextlib
import errno
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

from failing_calls import EIO, ENOMEM, ENOSPC, EROFS, ESTALE, Faults, Rule
from failing_disk import FailingDisk, marked
from harness import SOON, Program, clean_environment, sha256, wait_until
from promises import installed, require
from test_little_disk import given_up, record


@pytest.fixture
def faults(folder):
    return Faults(folder)


@pytest.mark.promises("S40h")
@pytest.mark.parametrize("error", [EIO, ESTALE], ids=["EIO", "ESTALE"])
def test_a_close_at_which_the_spool_cannot_be_read_publishes_no_part(new_mount, receiver, faults, error):
    """Regression: the last known size was announced, and a part was published as whole."""
    mount = new_mount(receiver, environment=faults.environment)
    content = os.urandom(300_000)
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        file.write(content[:100_000])
        mount.readings("take.mov", lambda status: status["state"] == "writing")
        file.write(content[100_000:])
        faults.set(("fstat", error, "/captures/take.mov"), ("fstatat", error, "/captures/take.mov"))
    status = mount.wait_for("take.mov", "interrupted")
    assert status["last_error"]["code"] == "spool-unreadable" and "fstat" in faults.seen, status
    assert receiver.published() == {}
    # It may be read yet, and is waited for.
    assert mount.tool("wait", "--timeout", 1).returncode == 17
    faults.clear()
    assert mount.tool("wait", "--timeout", 60).returncode == 0
    assert (receiver.files / "take.mov").read_bytes() == content


@pytest.mark.promises("S40h")
def test_a_file_that_is_renamed_while_it_cannot_be_read_is_delivered(new_mount, receiver, faults):
    """Regression: after a rename the spool was not asked again, and the file was held for good."""
    mount = new_mount(receiver, environment=faults.environment)
    content = os.urandom(30_000)
    with open(mount.root / "take.tmp", "wb", buffering=0) as file:
        file.write(content)
        faults.set(("fstat", EIO, "/captures/take.tmp"))
    # Within the second after which the spool is asked again.
    mount.wait_for("take.tmp", "interrupted")
    (mount.root / "take.tmp").rename(mount.root / "take.mov")
    faults.clear()
    mount.wait_for("take.mov", "complete")
    assert (receiver.files / "take.mov").read_bytes() == content


@pytest.mark.promises("S40h")
@pytest.mark.parametrize("error", [EIO, ENOMEM], ids=["EIO", "ENOMEM"])
def test_a_mark_that_cannot_be_read_is_not_none(new_mount, receiver, faults, error):
    """Regression: the half-written file of a killed mount was published, for one attribute that could not be read."""
    mount = new_mount(receiver, environment=faults.environment)
    written = os.open(mount.root / "half", os.O_WRONLY | os.O_CREAT)
    os.write(written, b"half")
    # So that the catalog knows it.
    time.sleep(1)
    mount.kill()
    with pytest.raises(OSError):
        os.close(written)
    faults.set(("lgetxattr", error, "/captures/half"))
    mount.start()
    status = mount.wait_for("half", "interrupted")
    assert status["last_error"]["code"] == "spool-unreadable" and "lgetxattr" in faults.seen, status
    # No writer writes over what is not known.
    with pytest.raises(OSError):
        (mount.root / "half").write_bytes(b"new")
    faults.clear()
    status = mount.readings("half", lambda status: status["last_error"]["code"] == "mount-died")[-1]
    assert status["state"] == "interrupted" and receiver.published() == {}
    (mount.root / "half").write_bytes(b"whole")
    mount.wait_for("half", "complete")
    assert (receiver.files / "half").read_bytes() == b"whole"


@pytest.mark.promises("S35c", "S79a")
def test_a_moved_capture_that_cannot_say_who_it_is_stays_what_it_was(new_mount, receiver, folder, faults):
    """Regression: for one attribute that could not be read it got another identity, and was sent again."""
    first = new_mount(receiver)
    (first.root / "take.mov").write_bytes(b"content")
    receipt = first.wait_for("take.mov", "complete")["receipt"]
    assert first.stop() == 0
    spool = folder / "moved"
    subprocess.run(["cp", "-a", first.spool, spool], check=True)
    label = os.getxattr(spool / "captures" / "take.mov", "user.uploadfs")
    faults.set(("lgetxattr", EIO, "/captures/take.mov"))
    mount = new_mount(receiver, spool=spool, environment=faults.environment)
    wait_until(lambda: "cannot be read as a whole" in mount.program.log, "it is said")
    with pytest.raises(OSError):
        (mount.root / "take.mov").read_bytes()
    faults.clear()
    assert mount.wait_for("take.mov", "complete")["receipt"] == receipt
    assert os.getxattr(spool / "captures" / "take.mov", "user.uploadfs") == label


def test_a_session_that_the_receiver_cannot_look_at_is_kept(new_receiver, new_mount, faults):
    """Regression: one fstatat that failed at its start deleted a session with all that it held."""
    receiver = new_receiver(prefix=faults.prefix)
    mount = new_mount(receiver, "--chunk-size", "256KiB", "--parallel", "2")
    content = os.urandom(6 << 20)
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        file.write(content)
        mount.readings("take.mov", lambda status: status["chunks"]["done"] >= 10)
        receiver.kill()
        faults.set(("fstatat", EIO, "/.uploads/sessions/", 1))
        receiver.start()
        assert "set aside" in receiver.program.log, receiver.program.log
        faults.clear()
        # It is read again while the receiver runs.
    mount.wait_for("take.mov", "complete")
    assert "can be read again, and goes on" in receiver.program.log
    assert (receiver.files / "take.mov").read_bytes() == content
    assert "set back" not in mount.program.log and "session-gone" not in mount.program.log


@pytest.fixture
def failing_disk(request, folder):
    require("root")
    require("loop-devices")
    disk = FailingDisk(folder / "failing", request.param)
    yield disk
    disk.close()


def refuse_a_capture(disk, mount, size=24 << 20):
    """A capture is written and closed while its disk refuses it; returns its content and its place in the spool."""
    content = marked(size)
    disk.refuse(EIO)
    (mount.root / "take.mov").write_bytes(content)
    return content, mount.spool / "captures" / "take.mov"


def refused_status(mount):
    """All of it is in memory, and stays there."""
    status = mount.wait_for("take.mov", "queued", "waiting", "uploading")
    mount.readings("take.mov", lambda status: (status.get("last_error") or {}).get("code") == "spool-failing")
    assert "uploadfs_files_refused_by_disk_total 1" in (mount.root / ".uploadfs" / "metrics").read_text()


@pytest.mark.promises("S41d")
@pytest.mark.parametrize("failing_disk", ["ext4", "xfs"], indirect=True)
def test_what_the_disk_refuses_is_written_again(failing_disk, new_mount, receiver):
    """Regression: zeros were published with a receipt, after the kernel had let go of what the disk had refused."""
    mount = new_mount(receiver, spool=failing_disk.place / "spool")
    receiver.kill()
    content, capture = refuse_a_capture(failing_disk, mount)
    refused_status(mount)
    modified = capture.stat().st_mtime_ns
    for tries in range(3):
        before = failing_disk.refused
        wait_until(lambda: failing_disk.refused > before, "it is given to the disk again")
        # As memory pressure does.
        failing_disk.forget_pages(capture)
    failing_disk.accept()
    receiver.start()
    mount.wait_for("take.mov", "complete", timeout=90)
    assert (receiver.files / "take.mov").read_bytes() == content
    assert capture.stat().st_mtime_ns == modified


@pytest.mark.promises("S41e")
@pytest.mark.parametrize("failing_disk", ["ext4"], indirect=True)
def test_what_the_disk_goes_on_refusing_is_delivered_from_memory(failing_disk, new_mount, receiver):
    """Also while pages are wanted for other things: there is no other copy."""
    mount = new_mount(receiver, spool=failing_disk.place / "spool")
    receiver.kill()
    content, capture = refuse_a_capture(failing_disk, mount)
    refused_status(mount)
    failing_disk.forget_pages(capture)
    receiver.start()
    mount.wait_for("take.mov", "complete", timeout=90)
    assert (receiver.files / "take.mov").read_bytes() == content
    failing_disk.accept()


@pytest.mark.promises("S41f", "S41g")
@pytest.mark.parametrize("failing_disk", ["ext4", "xfs"], indirect=True)
def test_what_was_refused_and_is_no_longer_in_memory_is_held(failing_disk, new_mount, receiver):
    """Regression: it was published as zeros, and an fsync after that succeeded."""
    mount = new_mount(receiver, spool=failing_disk.place / "spool")
    content = marked(8 << 20)
    capture = mount.spool / "captures" / "take.mov"
    failing_disk.refuse(EIO)
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        file.write(content)
        # By another program: its fsync is told, and those of the mount's are to be told, too.
        with open(capture, "rb") as other:
            with pytest.raises(OSError):
                os.fsync(other.fileno())
            os.posix_fadvise(other.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output error"):
                os.fsync(file.fileno())
    # Until it has looked at what is in memory, spool-failing.
    mount.readings("take.mov", lambda status: (status["last_error"] or {}).get("code") in ("not-on-disk", "write-failed"))
    assert receiver.published() == {}
    failing_disk.accept()
    done = mount.tool("wait", "--timeout", 30)
    assert done.returncode == 18 and "take.mov" in done.stderr, done.stderr
    assert receiver.published() == {}
    # Written anew it is as good as any.
    (mount.root / "take.mov").write_bytes(content)
    mount.wait_for("take.mov", "complete")
    assert (receiver.files / "take.mov").read_bytes() == content


def forgotten_pages(disk, capture):
    """The disk is told to keep what was written, refuses it, and the kernel lets go of it: as memory pressure does."""
    with open(capture, "rb") as other:
        with pytest.raises(OSError):
            os.fsync(other.fileno())
    disk.forget_pages(capture)


@pytest.mark.promises("S41k")
@pytest.mark.parametrize("who, size", [("reader", 2 << 20), ("append", 100)], ids=["reader", "append"])
@pytest.mark.parametrize("failing_disk", ["ext4", "xfs"], indirect=True)
def test_what_was_refused_and_is_read_from_the_disk_again_is_no_content(failing_disk, new_mount, receiver, who, size):
    """Regression (sweep): within the second before the mount asks, zeros came back into memory, and were published."""
    mount = new_mount(receiver, spool=failing_disk.place / "spool")
    content = marked(size)
    capture = mount.spool / "captures" / "take.mov"
    failing_disk.refuse(EIO)
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        file.write(content)
        forgotten_pages(failing_disk, capture)
        if who == "reader":
            (mount.root / "take.mov").read_bytes()
        else:
            # Of the page that it begins in the kernel reads the rest.
            file.write(b"more")
        failing_disk.accept()
    # Until it has looked at what is in memory, spool-failing.
    mount.readings("take.mov", lambda status: (status["last_error"] or {}).get("code") == "not-on-disk")
    assert receiver.published() == {}
    (mount.root / "take.mov").write_bytes(content)
    mount.wait_for("take.mov", "complete")
    assert (receiver.files / "take.mov").read_bytes() == content


@pytest.mark.promises("S41l")
@pytest.mark.parametrize("failing_disk", ["ext4"], indirect=True)
def test_what_is_missing_stays_missing_over_restarts_and_appends(failing_disk, new_mount, receiver):
    """Regression (sweep): after a kill of the mount an append made a file look whole of which its disk had refused the beginning."""
    mount = new_mount(receiver, spool=failing_disk.place / "spool")
    content = marked(300_000)
    failing_disk.refuse(EIO)
    writer = os.open(mount.root / "take.mov", os.O_WRONLY | os.O_CREAT)
    os.write(writer, content)
    forgotten_pages(failing_disk, mount.spool / "captures" / "take.mov")
    with pytest.raises(OSError):
        os.fsync(writer)
    for _ in range(2):
        mount.kill()
        with pytest.raises(OSError):
            os.close(writer)
        failing_disk.accept()
        mount.start()
        mount.wait_for("take.mov", "interrupted")
        writer = os.open(mount.root / "take.mov", os.O_WRONLY | os.O_APPEND)
        os.write(writer, b"more")
    os.close(writer)
    status = mount.wait_for("take.mov", "interrupted")
    assert status["last_error"]["code"] in ("not-on-disk", "write-failed"), status
    assert receiver.published() == {}
    (mount.root / "take.mov").write_bytes(content)
    mount.wait_for("take.mov", "complete")
    assert (receiver.files / "take.mov").read_bytes() == content


@pytest.mark.promises("S41d")
@pytest.mark.parametrize("error", [errno.ENODATA, EROFS, errno.EILSEQ, errno.EUCLEAN], ids=errno.errorcode.get)
def test_whatever_a_disk_says_is_a_refusal(new_mount, receiver, faults, error):
    """Regression: only EIO, ENOSPC and EDQUOT were; a disk behind a network or a mapper says others."""
    mount = new_mount(receiver, environment=faults.environment)
    receiver.kill()
    faults.set(("sync_file_range", error, "/captures/take.mov", 1))
    (mount.root / "take.mov").write_bytes(b"take")
    wait_until(lambda: "uploadfs_files_refused_by_disk_total 1" in (mount.root / ".uploadfs" / "metrics").read_text(),
               mount.program.describe)
    receiver.start()
    mount.wait_for("take.mov", "complete")
    assert (receiver.files / "take.mov").read_bytes() == b"take"


@pytest.mark.promises("S44e")
def test_status_says_when_the_disk_has_a_capture(new_mount, receiver, faults):
    """Regression: after the close it was unknown whether a power cut would take it."""
    mount = new_mount(receiver, environment=faults.environment)
    faults.set(("fsync", errno.ENOSPC, "/captures"))
    (mount.root / "take.mov").write_bytes(b"take")
    wait_until(lambda: "fsync" in faults.seen, "the flush has failed")
    assert mount.status("take.mov")["local_durability"] == "written"
    faults.clear()
    mount.readings("take.mov", lambda status: status["local_durability"] == "on-disk")


@pytest.mark.promises("S35c")
@pytest.mark.parametrize("call, text, error", [
    ("readdir", "/captures", EIO), ("readdir", "/captures/day", EIO), ("fstatat", "/captures/day/take.mov", EIO),
    ("fstatat", "/captures/day", EIO), ("fdopendir", "/captures/day", ESTALE), ("fstatat", "/captures/day/take.mov", ESTALE)])
def test_what_the_scan_cannot_read_is_not_gone(new_mount, receiver, faults, call, text, error):
    """Regression: one error at the start, and captures had no status and were never sent; `wait` was content. That ESTALE is
    not what the mount itself calls so was found by the sweep (test_disk_faults.py)."""
    mount = new_mount(receiver, environment=faults.environment)
    receiver.kill()
    (mount.root / "day").mkdir()
    content = {name: os.urandom(100_000) for name in ("day/take.mov", "other.mov")}
    for name, data in content.items():
        (mount.root / name).write_bytes(data)
    mount.kill()
    faults.set((call, error, text))
    receiver.start()
    mount.start()
    wait_until(lambda: "cannot be read" in mount.program.log, mount.program.describe)
    assert call in faults.seen
    if (call, text) == ("readdir", "/captures/day"):
        done = mount.tool("wait", "--timeout", 40)
        assert done.returncode == 18 and "kept in the spool: day" in done.stderr, done
    log = mount.program.log
    assert "no longer in the spool" not in log, log
    assert "day/take.mov" not in receiver.published()
    faults.clear()
    mount.wait_for("day/take.mov", "complete")
    mount.wait_all()
    assert {name: (receiver.files / name).read_bytes() for name in content} == content


@pytest.mark.promises("S35c")
def test_a_mount_whose_scan_fails_ends_when_it_is_told(new_mount, receiver, faults):
    mount = new_mount(receiver, environment=faults.environment)
    receiver.kill()
    (mount.root / "take.mov").write_bytes(b"take")
    mount.kill()
    faults.set(("readdir", EIO, "/captures"))
    receiver.start()
    mount.start()
    assert mount.stop() == 18
    assert "1 file failed or held back" in mount.program.log, mount.program.log
    faults.clear()
    mount.start()
    mount.wait_for("take.mov", "complete")


def fill_catalog(spool):
    """So that what it holds of captures is more than SQLite keeps in memory."""
    with contextlib.closing(sqlite3.connect(spool / ".state" / "catalog.sqlite")) as catalog, catalog:
        columns = "id, path, inode, size, modified_ns, revision, state, changed, failure_message"
        for number in range(1000):
            catalog.execute(
                f"INSERT INTO file ({columns}) VALUES (?, 'gone', 0, 0, 0, 1, 'evicted', 0, ?)",
                (b"\xff" * 12 + number.to_bytes(4, "big"), "x" * 4000))


def reads_of_a_start(mount, faults):
    faults.set(("pread", 0, "/catalog.sqlite"))
    before = faults.seen.count("pread 0")
    mount.start()
    wait_until(lambda: mount.summary()["scanned"], mount.program.describe)
    reads = faults.seen.count("pread 0") - before
    mount.kill()
    return reads


@pytest.fixture
def large_catalog(new_mount, receiver, faults):
    """A mount that was killed, and how often a start reads its catalog: with a file that was delivered, one that was cancelled and one
    that is pending."""
    mount = new_mount(receiver, environment=faults.environment)
    (mount.root / "delivered.mov").write_bytes(b"delivered")
    receipt = mount.wait_for("delivered.mov", "complete")["receipt"]
    receiver.kill()
    for name in ("cancelled.mov", "pending.mov"):
        (mount.root / name).write_bytes(name.encode())
    mount.say("cancel", "cancelled.mov")
    mount.wait_for("cancelled.mov", "cancelled")
    mount.kill()
    fill_catalog(mount.spool)
    # Where the machine is slow a copy for backups may be made meanwhile, which reads the catalog as well.
    yield mount, min(reads_of_a_start(mount, faults) for _ in range(4))
    mount.wait_for("pending.mov", "complete")
    assert mount.status("delivered.mov")["receipt"] == receipt
    mount.wait_all(interrupted=True)
    assert list((mount.spool / ".state").glob("*damaged*")) == []


@pytest.mark.promises("S35d")
def test_nothing_of_earlier_runs_is_delivered_while_the_catalog_cannot_be_read(large_catalog, receiver, faults):
    """Regression: after 10 s it counted as empty: what was cancelled was delivered, and what was delivered was sent anew."""
    mount, reads = large_catalog
    # Amid the rows: before them it is opened and examined, and the count may have some of a copy for backups at its end.
    faults.set(Rule("pread", EIO, "/catalog.sqlite", reads * 4 // 5))
    receiver.start()
    mount.start()
    wait_until(lambda: "cannot read the catalog; it is tried again" in mount.program.log, mount.program.describe)
    # The log says so a moment before.
    summary = wait_until(lambda: (reading := mount.summary())["last_error"] and reading, mount.program.describe)
    assert summary["last_error"]["code"] == "spool-unreadable" and not summary["scanned"], summary
    assert summary["failed_paths"] == ["."], summary
    # What is captured goes on, and what was captured before does not, also where it is renamed.
    (mount.root / "new.mov").write_bytes(b"new")
    os.rename(mount.root / "cancelled.mov", mount.root / "renamed.mov")
    wait_until(lambda: "new.mov" in receiver.published(), mount.program.describe)
    assert receiver.published().keys() == {"delivered.mov", "new.mov"}
    faults.clear()
    mount.wait_for("pending.mov", "complete")
    mount.wait_for("new.mov", "complete")
    assert mount.status("renamed.mov")["state"] == "cancelled"
    assert receiver.published().keys() == {"delivered.mov", "new.mov", "pending.mov"}


@pytest.mark.promises("S45i")
@pytest.mark.parametrize("before_the_end", [100, 2000])
def test_an_error_of_the_disk_is_no_damage_of_the_catalog(large_catalog, receiver, faults, before_the_end):
    """Regression: to SQLite what cannot be read is damaged: the catalog was moved aside for one error, and an empty one made."""
    mount, reads = large_catalog
    faults.set(Rule("pread", EIO, "/catalog.sqlite", max(2, reads - before_the_end), 1))
    receiver.start()
    mount.start()
    assert mount.wait_for("cancelled.mov", "cancelled")
    assert f"pread {EIO}" in faults.seen
    mount.wait_for("pending.mov", "complete")
    assert receiver.published().keys() == {"delivered.mov", "pending.mov"}


@pytest.fixture
def little_recording(tmpfs, new_mount, receiver, faults):
    """A recording that is larger than its disk, of which parts are at the server alone; its mount was killed."""
    require("root")
    mount = new_mount(
        receiver, "--reserve", "8MB", "--chunk-size", "1MiB", "--rule", "**/*.mov when-full=release",
        spool=tmpfs("spool-disk", 64 << 20) / "spool", environment=faults.environment)
    file = open(mount.root / "take.mov", "wb", buffering=0)
    written = record(file, 100)
    assert given_up(mount.spool, "take.mov") > 0
    mount.kill()
    with contextlib.suppress(OSError):
        file.close()
    return mount, written


@pytest.mark.promises("S71e")
@pytest.mark.parametrize("call, text", [("opendir", "/resume"), ("readdir", "/resume"), ("open", "/resume/")])
def test_a_record_that_cannot_be_read_at_once_is_not_missing(little_recording, receiver, faults, call, text):
    """Regression: one error at the start, and another upload was begun over the only one that had the parts."""
    mount, written = little_recording
    faults.set((call, EIO, text, 1))
    mount.start()
    wait_until(lambda: call in faults.seen, "it has failed")
    mount.wait_for("take.mov", "interrupted")
    mount.say("publish", "take.mov")
    mount.wait_for("take.mov", "complete")
    assert sha256(receiver.files / "take.mov") == written


@pytest.mark.promises("S71e")
def test_what_lacks_parts_waits_for_its_record(little_recording, receiver, faults):
    mount, written = little_recording
    faults.set(("open", EIO, "/resume/"))
    mount.start()
    mount.wait_for("take.mov", "interrupted")
    mount.say("publish", "take.mov")
    status = mount.wait_for("take.mov", "failed")
    assert status["last_error"]["code"] == "record-unreadable", status
    mount.say("retry", "take.mov")
    mount.wait_for("take.mov", "failed")
    assert mount.stop() == 18
    faults.clear()
    mount.start()
    mount.wait_for("take.mov", "complete")
    assert sha256(receiver.files / "take.mov") == written


@pytest.mark.promises("S70e")
def test_the_session_of_a_recording_that_was_moved_aside_is_kept(little_recording, receiver):
    """Regression: a start that did not find it forgot it, and ended the session that alone had its parts."""
    mount, written = little_recording
    aside = mount.spool.parent / "aside.mov"
    (mount.spool / "captures" / "take.mov").rename(aside)
    mount.start()
    wait_until(lambda: mount.summary()["scanned"], mount.program.describe)
    assert mount.stop() == 0
    assert "no longer in the spool" in mount.program.log, mount.program.log
    aside.rename(mount.spool / "captures" / "take.mov")
    mount.start()
    mount.wait_for("take.mov", "interrupted")
    mount.say("publish", "take.mov")
    mount.wait_for("take.mov", "complete")
    assert sha256(receiver.files / "take.mov") == written


@pytest.mark.promises("S40i")
def test_a_mark_that_cannot_be_put_at_once_is_put_later(new_mount, receiver, faults):
    """Regression: the disk was full for a moment at the open, and the part of a killed mount was published as whole."""
    mount = new_mount(receiver, environment=faults.environment)
    faults.set(("fsetxattr", errno.ENOSPC, "/captures/half", 1))
    written = os.open(mount.root / "half", os.O_WRONLY | os.O_CREAT)
    os.write(written, b"half")
    assert "fsetxattr" in faults.seen
    mount.kill()
    with pytest.raises(OSError):
        os.close(written)
    mount.start()
    status = mount.wait_for("half", "interrupted")
    assert status["last_error"]["code"] == "mount-died" and receiver.published() == {}


@pytest.mark.promises("S40i")
def test_a_mark_that_the_disk_never_takes_stands_in_the_record(new_mount, receiver, faults):
    """Regression: an inode without room for an attribute, as on ext4 with `-I 128`."""
    mount = new_mount(receiver, environment=faults.environment)
    faults.set(("fsetxattr", errno.ENOSPC, "/captures/"))
    (mount.root / "closed").write_bytes(b"whole")
    mount.wait_for("closed", "complete")
    written = os.open(mount.root / "half", os.O_WRONLY | os.O_CREAT)
    os.write(written, b"half")
    mount.kill()
    with pytest.raises(OSError):
        os.close(written)
    mount.start()
    assert mount.wait_for("half", "interrupted")["last_error"]["code"] == "mount-died"
    mount.wait_for("closed", "complete")
    # What its attribute says by then is newer.
    faults.clear()
    (mount.root / "half").write_bytes(b"whole")
    mount.wait_for("half", "complete")
    mount.kill()
    mount.start()
    mount.wait_for("half", "complete")
    assert receiver.published() == {"closed": 5, "half": 5}


@pytest.mark.promises("S40i")
def test_a_record_of_marks_that_cannot_be_read_refuses_the_start(new_mount, receiver, faults):
    """What was being written may stand in it alone."""
    mount = new_mount(receiver, environment=faults.environment)
    faults.set(("fsetxattr", errno.ENOSPC, "/captures/half"))
    written = os.open(mount.root / "half", os.O_WRONLY | os.O_CREAT)
    os.write(written, b"half")
    mount.kill()
    with pytest.raises(OSError):
        os.close(written)
    faults.set(("openat", EIO, "/.state/marks"))
    code, words = mount.start_and_fail()
    assert code == 13 and "/.state/marks" in words and "Input/output error" in words, words
    faults.clear()
    mount.start()
    mount.wait_for("half", "interrupted")
    assert receiver.published() == {}


@pytest.mark.promises("S40i")
def test_without_a_mark_nothing_changes(new_mount, receiver, faults):
    """A writer that goes on is not known to have been killed."""
    mount = new_mount(receiver, environment=faults.environment)
    faults.set(("fsetxattr", EIO, "/captures/half"), ("write", EIO, "/.state/marks"))
    written = os.open(mount.root / "half", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError, match="Input/output error"):
        os.write(written, b"half")
    faults.clear()
    os.pwrite(written, b"whole", 0)
    os.close(written)
    mount.wait_for("half", "complete")
    assert (receiver.files / "half").read_bytes() == b"whole"


def test_a_change_that_is_refused_leaves_the_file_delivered(new_mount, receiver, faults):
    """Regression (sweep): a truncation that was refused because of a mark left a delivered file without a writer, never sent again;
    `wait` and SIGTERM did not end."""
    mount = new_mount(receiver, environment=faults.environment)
    # After the mark of the open file and that of the closed one.
    faults.set(Rule("fsetxattr", EROFS, "/captures/take", first=3), ("*", EROFS, "/.state/marks"))
    (mount.root / "take").write_bytes(b"take")
    mount.wait_for("take", "complete")
    descriptor = os.open(mount.root / "take", os.O_WRONLY)
    with pytest.raises(OSError, match="Read-only"):
        os.ftruncate(descriptor, 2)
    os.close(descriptor)
    mount.wait_for("take", "complete")
    faults.clear()
    mount.wait_all()
    assert (receiver.files / "take").read_bytes() == b"take"


@pytest.mark.parametrize("make", [
    lambda path: os.close(os.open(path, os.O_WRONLY | os.O_CREAT)), os.mkdir, os.mknod,
    lambda path: os.symlink("to", path)],
    ids=["create", "mkdir", "mknod", "symlink"])
def test_what_could_not_be_made_is_not_there(new_mount, receiver, faults, make):
    """Regression (sweep): a file whose making failed after it was made stayed, without a status and never sent."""
    mount = new_mount(receiver, environment=faults.environment)
    # The kernel asks once before that whether it is there.
    faults.set(("fstat", EIO, "/captures/new"), Rule("fstatat", EIO, "/captures/new", first=2))
    with pytest.raises(OSError, match="Input/output error"):
        make(mount.root / "new")
    assert "new" in faults.seen
    faults.clear()
    assert not os.path.lexists(mount.root / "new")
    make(mount.root / "new")
    assert os.path.lexists(mount.root / "new")


def test_a_sync_that_fails_once_keeps_no_recording_from_going_on(new_receiver, new_mount, tmpfs, faults):
    """Regression (sweep): after one failed sync of the receiver's disk no chunk counted as on it any more, and a recording that was
    larger than its own disk ended with ENOSPC."""
    require("root")
    receiver = new_receiver(prefix=faults.prefix)
    mount = new_mount(
        receiver, "--reserve", "8MB", "--chunk-size", "1MiB", "--rule", "**/*.mov when-full=release",
        spool=tmpfs("spool-disk", 64 << 20) / "spool")
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        faults.set(("fdatasync", EIO, "/.uploads/sessions/", 1))
        written = record(file, 150)
    assert "fdatasync" in faults.seen
    mount.wait_for("take.mov", "complete")
    assert sha256(receiver.files / "take.mov") == written


def test_a_disk_that_does_not_say_how_much_is_free_is_not_full(new_receiver, new_mount, faults):
    """Regression (sweep): fstatvfs failed, and clients were told that the receiver's disk had 0 bytes free."""
    receiver = new_receiver(prefix=faults.prefix)
    mount = new_mount(receiver)
    faults.set(("fstatvfs", EIO, "/.uploads"))
    (mount.root / "take.mov").write_bytes(b"take" * 50_000)
    mount.readings("take.mov", lambda status: (status.get("last_error") or {}).get("code") == "server-error")
    assert "does not say how much is free" in receiver.program.log
    faults.clear()
    mount.wait_for("take.mov", "complete")


def test_a_receiver_starts_on_a_full_disk(new_receiver, new_mount, faults):
    """Regression: it refused to start (22) on a full xfs, and where no file could be made, and so could free nothing."""
    receiver = new_receiver(prefix=faults.prefix)
    mount = new_mount(receiver)
    (mount.root / "first").write_bytes(b"first")
    mount.wait_all()
    receiver.kill()
    faults.set(("openat", errno.ENOSPC, "/.uploads/receipts/2.journal"))
    receiver.start()
    # The receipt of before is known, and the next one has its place.
    faults.clear()
    (mount.root / "second").write_bytes(b"second")
    mount.wait_all()
    receiver.kill()
    receiver.start()
    assert "2 receipts are kept" in receiver.program.log
    assert receiver.published() == {"first": 5, "second": 6}


@pytest.mark.promises("S45a")
def test_the_state_is_not_mapped(new_mount, receiver):
    """Regression: the daemon died of SIGBUS in SQLite's mapped index, once that was cut or its disk had no place for it."""
    mount = new_mount(receiver, "--name-template", "{name}")
    (mount.root / "take.mov").write_bytes(b"take")
    mount.wait_for("take.mov", "complete")
    state = mount.spool / ".state"
    for index in state.glob("*-shm"):
        os.truncate(index, 0)
    (mount.root / "next.mov").write_bytes(b"next")
    mount.wait_for("next.mov", "complete")
    assert str(state) not in pathlib.Path(f"/proc/{mount.program.process.pid}/maps").read_text()
    # Nor does what an earlier version has left matter.
    mount.kill()
    (state / "catalog.sqlite-shm").mkdir()
    (state / "names.sqlite-shm").write_bytes(b"nonsense")
    mount.start()
    (mount.root / "last.mov").write_bytes(b"last")
    mount.wait_for("last.mov", "complete")
    assert mount.status("take.mov")["receipt"] and list(state.glob("*-shm")) == []


@pytest.mark.promises("S45b")
@pytest.mark.parametrize("call, error, text", [
    ("open", errno.EACCES, "/catalog.sqlite"), ("open", EIO, "/catalog.sqlite"), ("open", EIO, "/catalog.sqlite-wal"),
    ("open", errno.EACCES, "/names.sqlite"), ("pread", EIO, "/catalog.sqlite")])
def test_a_state_that_cannot_be_opened_at_once_is_opened_anew(new_mount, receiver, faults, call, error, text):
    """Regression: what could be opened for reading only at the start stayed so for the whole run: nothing was complete."""
    mount = new_mount(receiver, "--name-template", "{name}", environment=faults.environment)
    (mount.root / "take.mov").write_bytes(b"take")
    mount.wait_for("take.mov", "complete")
    mount.kill()
    faults.set((call, error, text, 1))
    mount.start()
    assert call in faults.seen
    (mount.root / "next.mov").write_bytes(b"next")
    mount.wait_for("next.mov", "complete")
    assert mount.status("take.mov")["receipt"]
    assert list((mount.spool / ".state").glob("*damaged*")) == []


@pytest.mark.promises("S45b")
@pytest.mark.parametrize("call, error, count", [
    ("pwrite", EIO, 3), ("fdatasync", EIO, 1), ("fdatasync", errno.ENOSPC, 2), ("pwrite", errno.EDQUOT, 2)])
def test_a_state_that_cannot_be_written_is_opened_anew(new_mount, receiver, faults, call, error, count):
    mount = new_mount(receiver, environment=faults.environment)
    (mount.root / "take.mov").write_bytes(b"take")
    mount.wait_for("take.mov", "complete")
    faults.set((call, error, "/catalog.sqlite", count))
    (mount.root / "next.mov").write_bytes(b"next")
    mount.wait_for("next.mov", "complete")
    assert f"{call} {error}" in faults.seen
    mount.kill()
    faults.clear()
    mount.start()
    for name in ("take.mov", "next.mov"):
        assert mount.wait_for(name, "complete")["receipt"]


@pytest.mark.promises("S45b")
@pytest.mark.parametrize("error", [EIO, errno.EACCES], ids=["EIO", "EACCES"])
def test_a_start_without_a_state_is_refused_and_says_what_to_do(new_mount, receiver, faults, error):
    mount = new_mount(receiver, environment=faults.environment)
    (mount.root / "take.mov").write_bytes(b"take")
    mount.wait_for("take.mov", "complete")
    assert mount.stop() == 0
    faults.set(("open", error, "/catalog.sqlite"))
    code, said = mount.start_and_fail()
    assert code == 13 and "catalog.sqlite" in said and "to read and write" in said, said
    faults.clear()
    mount.start()
    assert mount.wait_for("take.mov", "complete")["receipt"]


@pytest.mark.promises("S45a")
def test_a_state_that_another_program_has_open_is_said(new_mount, receiver):
    mount = new_mount(receiver)
    (mount.root / "take.mov").write_bytes(b"take")
    mount.wait_for("take.mov", "complete")
    with contextlib.closing(sqlite3.connect(mount.spool / ".state" / "catalog.sqlite")) as other:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("SELECT count(*) FROM file")
    assert mount.stop() == 0
    with contextlib.closing(sqlite3.connect(mount.spool / ".state" / "catalog.sqlite")) as other:
        assert other.execute("SELECT count(*) FROM file").fetchone() == (1,)
        code, said = mount.start_and_fail()
        assert code == 13 and "another program has it open" in said, said
    mount.start()


def fill(place):
    """Another program takes all the space that there is, to the last byte."""
    descriptor = os.open(place / "others", os.O_WRONLY | os.O_CREAT)
    try:
        end = 0
        for size in (1 << 24, 1 << 20, 1 << 16, 4096):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(descriptor, end, size)
                    end += size
        for number in range(1 << 10):
            try:
                os.pwrite(descriptor, b"\1", end + number)
                os.fsync(descriptor)
            except OSError:
                break
    finally:
        os.close(descriptor)


LITTLE = ["tmpfs", "ext4", "xfs", "btrfs"]


@pytest.mark.promises("S45c")
@pytest.mark.parametrize("little_disk", LITTLE, indirect=True)
def test_a_full_disk_keeps_no_delivery_from_being_recorded(little_disk, new_mount, receiver):
    """Regression: what was published on a full disk was never complete, and so nothing made space."""
    mount = new_mount(receiver, "--reserve", "1MB", "--name-template", "{name}", spool=little_disk / "spool")
    (mount.root / "before.mov").write_bytes(os.urandom(6 << 20))
    mount.wait_for("before.mov", "complete")
    receiver.kill()
    content = {f"{number}.mov": os.urandom(200_000) for number in range(20)}
    for name, data in content.items():
        (mount.root / name).write_bytes(data)
    fill(little_disk)
    # Until the log of the catalog needs space: xfs gives it some in advance.
    while "the state uses the room" not in mount.program.log:
        for word in ("cancel", "retry"):
            mount.say(word, "0.mov")
    receiver.start()
    for name in content:
        mount.wait_for(name, "complete")
    # Delivered copies went for it, the oldest first, and there is room again.
    wait_until(lambda: mount.status("before.mov")["local"] is False, mount.program.describe)
    wait_until(lambda: "there is room for the state again" in mount.program.log, mount.program.describe)
    assert "before.mov" not in os.listdir(mount.spool / "captures")
    # What was recorded is.
    mount.kill()
    mount.start()
    for name in content:
        assert mount.wait_for(name, "complete")["receipt"]
    assert {name: (receiver.files / name).read_bytes() for name in content} == content


@pytest.mark.promises("S45d")
@pytest.mark.parametrize("little_disk", LITTLE, indirect=True)
def test_a_mount_starts_on_a_full_disk(little_disk, new_mount, receiver):
    mount = new_mount(receiver, "--reserve", "1MB", spool=little_disk / "spool")
    for name in ("one.mov", "two.mov"):
        (mount.root / name).write_bytes(os.urandom(6 << 20))
        mount.wait_for(name, "complete")
    receiver.kill()
    (mount.root / "pending.mov").write_bytes(b"pending")
    mount.kill()
    # As an earlier version would have left it.
    (mount.spool / ".state" / "room").unlink(missing_ok=True)
    fill(little_disk)
    receiver.start()
    mount.start()
    mount.wait_for("pending.mov", "complete")
    # Whichever was found first.
    wait_until(lambda: any(not mount.status(name)["local"] for name in ("one.mov", "two.mov")), mount.program.describe)
    wait_until(lambda: (mount.spool / ".state" / "room").exists(), mount.program.describe)
    assert "attributes" not in mount.program.log
    assert (receiver.files / "pending.mov").read_bytes() == b"pending"


@pytest.mark.promises("S45e")
@pytest.mark.parametrize("error", [errno.ENOSPC, EIO], ids=["ENOSPC", "EIO"])
def test_a_disk_that_takes_no_attribute_at_the_start_has_attributes(new_mount, receiver, faults, error):
    """Regression: on a full xfs it was said that there are none, and for that run no file was marked."""
    mount = new_mount(receiver, environment=faults.environment, start=False)
    faults.set(("fsetxattr", error, "/captures"))
    mount.start()
    assert "fsetxattr" in faults.seen and "attributes" not in mount.program.log
    faults.clear()
    receiver.kill()


@pytest.mark.promises("S45e")
def test_a_disk_that_cannot_say_whether_it_has_attributes_is_refused(new_mount, receiver, faults):
    mount = new_mount(receiver, environment=faults.environment, start=False)
    faults.set(("fsetxattr", EIO, "/captures"), ("lgetxattr", EIO, "/captures"))
    code, said = mount.start_and_fail()
    assert code == 13 and "cannot be asked for extended attributes" in said, said


@pytest.mark.promises("S45f")
def test_a_copy_of_the_state_can_be_put_in_its_place(new_mount, receiver):
    """What was delivered is known again, and names that templates have given are taken."""
    mount = new_mount(receiver, "--name-template", "{name}")
    (mount.root / "a").mkdir()
    (mount.root / "a" / "take.mov").write_bytes(b"take")
    receipt = mount.wait_for("a/take.mov", "complete")["receipt"]
    assert mount.stop() == 0
    state = mount.spool / ".state"
    for name in ("catalog", "names"):
        with contextlib.closing(sqlite3.connect(f"file:{state / name}.backup.sqlite?mode=ro", uri=True)) as copy:
            assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for lost in state.glob(f"{name}.sqlite*"):
            lost.unlink()
        shutil.copy(state / f"{name}.backup.sqlite", state / f"{name}.sqlite")
    (receiver.files / "take.mov").unlink()
    mount.start()
    assert mount.wait_for("a/take.mov", "complete")["receipt"] == receipt
    (mount.root / "b").mkdir()
    (mount.root / "b" / "take.mov").write_bytes(b"other")
    mount.wait_for("b/take.mov", "complete")
    mount.wait_all()
    # The first one was not sent again, and its name is no other's.
    assert receiver.published() == {"take-2.mov": 5}


@pytest.mark.promises("S45e")
@pytest.mark.parametrize("error", [EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_an_attribute_that_fails_once_at_the_start_hides_no_mark(new_mount, receiver, faults, error):
    """Regression: the spool counted as one without attributes, and the half-written file of a killed mount was published."""
    mount = new_mount(receiver, environment=faults.environment)
    written = os.open(mount.root / "half", os.O_WRONLY | os.O_CREAT)
    os.write(written, b"half")
    mount.kill()
    with pytest.raises(OSError):
        os.close(written)
    faults.set(("fsetxattr", error, "/captures", 1))
    mount.start()
    status = mount.wait_for("half", "interrupted")
    assert "fsetxattr" in faults.seen
    assert status["last_error"]["code"] == "mount-died" and receiver.published() == {}


@pytest.mark.promises("S40h")
def test_a_rename_does_not_end_the_asking(new_mount, receiver, faults):
    """Regression (sweep): a file that the spool could not stat at its close, and that was renamed then, was held for good."""
    mount = new_mount(receiver, environment=faults.environment)
    with open(mount.root / "take.raw", "wb", buffering=0) as file:
        file.write(b"take")
        faults.set(("fstat", EIO, "/captures/take.raw"))
    mount.wait_for("take.raw", "interrupted")
    os.rename(mount.root / "take.raw", mount.root / "day.raw")
    faults.clear()
    mount.wait_for("day.raw", "complete")
    assert (receiver.files / "day.raw").read_bytes() == b"take"


@pytest.mark.promises("S40i", "S77f")
def test_a_cancelled_file_that_cannot_be_marked_stays_cancelled(new_mount, receiver, faults):
    """Regression: by then the daemon had taken it for one that changes, and delivered it at the close."""
    receiver.stop()
    mount = new_mount(receiver, environment=faults.environment)
    (mount.root / "take").write_bytes(b"whole")
    mount.say("cancel", "take")
    faults.set(("fsetxattr", EIO, "/captures/"), ("write", EIO, "/.state/marks"))
    written = os.open(mount.root / "take", os.O_WRONLY)
    with pytest.raises(OSError, match="Input/output error"):
        os.write(written, b"half")
    os.close(written)
    faults.clear()
    receiver.start()
    (mount.root / "other").write_bytes(b"other")
    mount.wait_for("other", "complete")
    assert mount.status("take")["state"] == "cancelled" and (mount.root / "take").read_bytes() == b"whole"
    assert receiver.published().keys() == {"other"}
    (mount.root / "take").write_bytes(b"anew")
    mount.wait_for("take", "complete")


@pytest.mark.promises("S41h")
@pytest.mark.parametrize("call", ["fsync", "fdatasync"])
def test_what_a_readers_failed_fsync_says_holds_the_file_until_it_is_made_good(new_mount, receiver, faults, call):
    """Regression: EIO for the caller, and the file was published as if nothing had been said."""
    mount = new_mount(receiver, environment=faults.environment)
    receiver.kill()
    content = os.urandom(3 << 20)
    (mount.root / "take.mov").write_bytes(content)
    descriptor = os.open(mount.root / "take.mov", os.O_RDONLY)
    try:
        os.fsync(descriptor)
        # Nor can it be written again.
        faults.set((call, EIO, "/captures/take.mov"), ("pwrite", EIO, "/captures/take.mov"))
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output error"):
                (os.fsync if call == "fsync" else os.fdatasync)(descriptor)
    finally:
        os.close(descriptor)
    receiver.start()
    status = mount.readings("take.mov", lambda status: status["state"] == "interrupted")[-1]
    assert status["last_error"]["code"] == "spool-failing", status
    assert "uploadfs_files_refused_by_disk_total 1" in (mount.root / ".uploadfs" / "metrics").read_text()
    assert receiver.published() == {}
    faults.clear()
    mount.wait_for("take.mov", "complete", timeout=60)
    assert (receiver.files / "take.mov").read_bytes() == content
    with open(mount.root / "take.mov", "rb") as file:
        os.fsync(file.fileno())


@pytest.mark.promises("S41i")
@pytest.mark.parametrize("call", ["pwrite", "fsetxattr", "fsync", "fstat"])
def test_status_is_read_while_the_disk_hangs(new_mount, receiver, faults, call):
    """Regression: who may read it was asked of the disk, behind the lock that the writer held."""
    mount = new_mount(receiver, environment=faults.environment)
    (mount.root / "day").mkdir()
    for name in ("day/take.mov", "other.mov"):
        (mount.root / name).write_bytes(b"content")
        mount.wait_for(name, "complete")
    mount.wait_for("day/take.mov", "complete")
    faults.set(Rule(call, 0, "/captures/day/take.mov", milliseconds=6000))
    writer = subprocess.Popen(
        ["dd", "of=" + str(mount.root / "day" / "take.mov"), "conv=notrunc,fsync", "status=none"], stdin=subprocess.PIPE,
        env=clean_environment())
    try:
        writer.stdin.write(b"changed")
        writer.stdin.close()
        wait_until(lambda: call in faults.seen, mount.program.describe)
        began = time.monotonic()
        for name in ("day/take.mov", "other.mov"):
            assert mount.status(name)["path"] == name
            assert os.stat(mount.root / "status" / f"{name}.json").st_size
        assert mount.summary()["scanned"]
        assert os.listdir(mount.root) and os.listdir(mount.root / "status" / "day") == ["take.mov.json"]
        assert mount.tool("status").returncode == 0
        assert time.monotonic() - began < 4
    finally:
        faults.clear()
        writer.wait()


@pytest.mark.promises("S41i")
def test_status_is_read_while_more_calls_hang_than_may_be_at_the_disk(new_mount, receiver, faults):
    """Regression: six calls that hung on the disk left no thread that could have answered."""
    mount = new_mount(receiver, environment=faults.environment)
    # The kernel looks up one name of a folder at a time.
    folders = [mount.root / f"day{number}" for number in range(12)]
    for folder in folders:
        folder.mkdir()
    for path in (folders[0] / "take.mov", mount.root / "scan.mov"):
        path.write_bytes(b"content")
        mount.wait_for(path.relative_to(mount.root), "complete")
    # Its end waits for all calls that are at the disk, and keeps others from going there.
    wait_until(lambda: mount.summary()["scanned"], mount.program.describe)
    faults.set(Rule("fstatat", 0, "/other", milliseconds=60_000))
    callers = [
        subprocess.Popen(["stat", folder / "other"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for folder in folders]
    try:
        wait_until(lambda: faults.seen.count("fstatat 0") == 6, lambda: faults.seen)
        for _ in range(3):
            assert mount.status("day0/take.mov")["state"] == "complete" and mount.summary()["scanned"]
        assert "day0" in os.listdir(mount.root) and os.listdir(mount.root / "status" / "day0") == ["take.mov.json"]
        # Regression: what a link says, and when a file was made, were asked behind all that waited for the disk.
        assert os.readlink(mount.root / "status" / "scan.json") == "scan.mov.json"
        subprocess.run(["stat", mount.root / "status" / "day0" / "take.mov.json"], check=True, stdout=subprocess.DEVNULL, timeout=SOON)
        assert mount.tool("status").returncode == 0
        assert faults.seen.count("fstatat 0") == 6, "the rest waits"
    finally:
        mount.kill()
        for caller in callers:
            caller.wait()


@pytest.mark.promises("S41i")
@pytest.mark.parametrize("hangs", ["day0/other", "take.mov"])
def test_the_root_is_listed_while_few_calls_hang(new_mount, receiver, faults, hangs):
    """Regression: a listing of the root says what each entry is like, and hung where that did as long as few other calls hung: on the
    disk, or behind a change that waited for them."""
    mount = new_mount(receiver, environment=faults.environment)
    for number in range(2):
        (mount.root / f"day{number}").mkdir()
    (mount.root / "take.mov").write_bytes(b"take")
    mount.wait_for("take.mov", "complete")
    wait_until(lambda: mount.summary()["scanned"], mount.program.describe)
    faults.set(Rule("fstatat", 0, f"/captures/{hangs}", milliseconds=60_000))
    callers = []
    if hangs == "day0/other":
        callers.append(subprocess.Popen(["stat", mount.root / hangs], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_until(lambda: "fstatat 0" in faults.seen, lambda: faults.seen)
        callers.append(subprocess.Popen(["mkdir", mount.root / "day1" / "new"], stderr=subprocess.DEVNULL))
        wait_until(lambda: is_answered_late(callers[-1]), "the change waits")
    try:
        began = time.monotonic()
        for _ in range(8):
            assert {"day0", "take.mov", "status"} <= set(os.listdir(mount.root))
        assert time.monotonic() - began < 4
    finally:
        mount.kill()
        for caller in callers:
            caller.wait()


def is_answered_late(caller):
    """The kernel waits for the daemon's answer to a call of this process."""
    return pathlib.Path(f"/proc/{caller.pid}/wchan").read_text() == "request_wait_answer"


@pytest.mark.promises("S40c")
def test_bytes_in_the_place_of_others_wait_for_the_mark_also_after_an_append(new_mount, receiver, faults):
    """Regression: a mark that an append had put was not brought to the disk before the next change, which may get there without it."""
    mount = new_mount(receiver, environment=faults.environment)
    path = mount.root / "take.mov"
    path.write_bytes(b"whole content")
    mount.readings("take.mov", lambda status: status["local_durability"] == "on-disk")
    with open(path, "r+b", buffering=0) as file:
        file.seek(0, os.SEEK_END)
        file.write(b", and more")
        faults.set(("fsync", EIO, "/.state"))
        with pytest.raises(OSError) as refused:
            os.pwrite(file.fileno(), b"OTHER", 0)
        assert refused.value.errno == EIO
        faults.clear()
        os.pwrite(file.fileno(), b"Whole", 0)
    mount.wait_for("take.mov", "complete")
    assert (receiver.files / "take.mov").read_bytes() == b"Whole content, and more"


@pytest.mark.promises("S45h")
def test_a_spool_that_turns_read_only_keeps_no_mount_from_ending(new_mount, receiver, faults):
    """Regression: what was delivered stayed `uploading` at 100 % for ever, nothing said why, and SIGTERM did not end the mount."""
    mount = new_mount(receiver, environment=faults.environment)
    (mount.root / "take.mov").write_bytes(b"take")
    mount.wait_for("take.mov", "complete")
    receiver.kill()
    (mount.root / "next.mov").write_bytes(b"next")
    faults.set(*((call, EROFS, text) for call in ("pwrite", "write", "fsync", "fdatasync", "open", "openat") for text in (
        "/.state/catalog", "/.state/marks", "/.state/resume")))
    receiver.start()
    wait_until(lambda: "next.mov" in receiver.published(), mount.program.describe)
    assert mount.readings("next.mov", lambda status: (status["last_error"] or {}).get("code") == "not-recorded")
    assert mount.stop(timeout=30) == 18
    assert "next.mov" in mount.program.log
    faults.clear()
    mount.start()
    mount.wait_for("next.mov", "complete")
    assert receiver.published() == {"take.mov": 4, "next.mov": 4}


@pytest.mark.promises("S45c")
def test_a_mark_that_has_to_be_recorded_gets_the_room(new_mount, receiver, faults):
    """Regression: on a full disk the room was kept for the databases alone, and the change was refused."""
    mount = new_mount(receiver, environment=faults.environment)
    (mount.root / "take.mov").write_bytes(b"first")
    mount.wait_for("take.mov", "complete")
    faults.set(("fsetxattr", ENOSPC, "/captures/take.mov"), ("write", ENOSPC, "/.state/marks", 1))
    file = os.open(mount.root / "take.mov", os.O_WRONLY)
    os.write(file, b"other")
    assert "write 28" in faults.seen
    mount.kill()
    with pytest.raises(OSError):
        os.close(file)
    faults.clear()
    assert "uses the room" in mount.program.log, mount.program.log
    mount.start()
    assert mount.wait_for("take.mov", "interrupted")["last_error"]["code"] == "mount-died"


@pytest.mark.promises("S45g")
def test_a_start_that_waits_for_its_disk_ends_when_told(new_mount, receiver, faults):
    mount = new_mount(receiver, start=False, environment=faults.environment)
    faults.set(("open", EIO, "/catalog.sqlite"))
    program = Program(mount.arguments, mount.folder / "mount.log", mount.environment)
    wait_until(lambda: "open" in faults.seen, program.describe)
    began = time.monotonic()
    program.signal(signal.SIGTERM)
    assert program.wait() == 13 and time.monotonic() - began < 2
    assert "catalog.sqlite" in program.log


@pytest.mark.promises("S41a")
def test_a_limit_of_the_daemon_for_files_ends_no_mount(new_mount, receiver):
    """Regression: SIGXFSZ ended the daemon at the first byte beyond RLIMIT_FSIZE."""
    mount = new_mount(receiver, prefix=(installed("prlimit"), f"--fsize={16 << 20}"))
    with open(mount.root / "large.mov", "wb", buffering=0) as file:
        file.seek((16 << 20) - 1)
        file.write(b"x")
        with pytest.raises(OSError) as refused:
            file.write(b"y")
        assert refused.value.errno == errno.EFBIG
        with pytest.raises(OSError) as refused:
            file.truncate(17 << 20)
        assert refused.value.errno == errno.EFBIG
    status = mount.wait_for("large.mov", "interrupted")
    assert status["last_error"]["code"] == "write-refused", status
    (mount.root / "small.mov").write_bytes(b"goes on")
    mount.wait_for("small.mov", "complete")
