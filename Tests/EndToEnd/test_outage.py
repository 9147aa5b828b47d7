"""The receiver is away: writers notice nothing, status says what is wrong, and everything arrives when it is back."""

import datetime
import signal
import subprocess
import sys
import time

import pytest

from harness import SOON, sha256, wait_until, write_random
from small_machine import Clock
from throttle import ThrottlingProxy


@pytest.mark.promises("R1")
def test_receiver_down_at_the_start(new_mount, receiver, folder):
    receiver.stop()
    mount = new_mount(receiver)
    source = write_random(folder / "source", 20_000_000)
    start = time.monotonic()
    subprocess.run(["cp", source, mount.root / "scan.mov"], check=True)
    assert time.monotonic() - start < 10, "a writer must not wait for the network"

    status = mount.readings("scan.mov", lambda r: r["state"] == "waiting" and r["next_attempt_at"])[-1]
    assert status["last_error"]["code"] == "connect-failed"
    assert "127.0.0.1" in status["last_error"]["message"]
    next_attempt = datetime.datetime.fromisoformat(status["next_attempt_at"].replace("Z", "+00:00"))
    assert next_attempt.timestamp() < time.time() + 60
    summary = mount.summary()
    assert summary["last_error"]["code"] == "connect-failed"
    wait_until(lambda: "connect-failed" in mount.program.log, "the log says it as well")

    receiver.start()
    status = mount.wait_for("scan.mov", "complete")
    assert status["last_error"] is None and status["next_attempt_at"] is None
    assert sha256(receiver.files / "scan.mov") == sha256(source)
    wait_until(lambda: mount.summary()["last_error"] is None, "the summary forgets the failure")


def test_receiver_away_in_the_middle(new_mount, receiver, folder):
    source = write_random(folder / "source", 48 << 20)
    with ThrottlingProxy(receiver.port, rate=8_000_000) as proxy:
        mount = new_mount(receiver, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{proxy.port}")
        subprocess.run(["cp", source, mount.root / "scan.mov"], check=True)
        mount.readings("scan.mov", lambda r: r["chunks"]["done"] >= 10)
        receiver.stop()
        proxy.cut()
        proxy.rate = None
        mount.wait_for("scan.mov", "waiting")
        # Long enough for several tries to fail.
        for attempts in (2, 3, 4):
            start = time.monotonic()
            (mount.root / "meanwhile.txt").write_bytes(b"still writing")
            assert time.monotonic() - start < 2
            readings = mount.readings("scan.mov", lambda reading: reading["attempts"] >= attempts)
            assert {reading["state"] for reading in readings} <= {"waiting", "uploading"}
        receiver.start()
        mount.wait_for("scan.mov", "complete")
        mount.wait_for("meanwhile.txt", "complete")
    assert sha256(receiver.files / "scan.mov") == sha256(source)
    assert (receiver.files / "meanwhile.txt").read_bytes() == b"still writing"


def test_connections_cut_again_and_again(new_mount, receiver, folder):
    source = write_random(folder / "source", 48 << 20)
    with ThrottlingProxy(receiver.port, rate=12_000_000) as proxy:
        mount = new_mount(receiver, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{proxy.port}")
        subprocess.run(["cp", source, mount.root / "scan.mov"], check=True)
        for megabytes in (6, 14, 22):
            proxy.wait_for_bytes(megabytes << 20)
            proxy.cut()
        proxy.rate = None
        mount.wait_for("scan.mov", "complete", timeout=120)
    assert sha256(receiver.files / "scan.mov") == sha256(source)


# Every kind of call that a program makes on a file and its names.
CALLS = """
import os, sys
os.chdir(sys.argv[1])
for number in range(3):
    file = os.open("a", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.write(file, b"content" * 10_000)
    os.fsync(file)
    os.fdatasync(file)
    os.ftruncate(file, 50_000)
    assert len(os.pread(file, 100_000, 0)) == 50_000
    os.close(file)
    os.mkdir("folder")
    os.rename("a", "folder/b")
    os.link("folder/b", "c")
    os.chmod("c", 0o600)
    os.utime("c")
    os.truncate("c", 40_000)
    os.statvfs(".")
    assert os.listdir("folder") == ["b"]
    os.unlink("folder/b")
    os.rmdir("folder")
    os.rename("c", "d")
"""


@pytest.mark.promises("S26", "R6")
def test_no_call_waits_for_a_delivery(mount, receiver):
    receiver.stop()
    subprocess.run([sys.executable, "-c", CALLS, mount.root], check=True, timeout=SOON)
    mount.wait_for("d", "waiting")
    receiver.start()
    mount.wait_for("d", "complete")
    assert receiver.published() == {"d": 40_000}


def test_time_in_which_the_mount_is_stopped_counts_against_nothing(new_mount, receiver, folder):
    """Regression: a mount that went on after a while in the freezer broke off all that it was sending."""
    source = write_random(folder / "source", 24 << 20)
    with ThrottlingProxy(receiver.port, rate=4_000_000) as proxy:
        mount = new_mount(receiver, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{proxy.port}")
        subprocess.run(["cp", source, mount.root / "scan.mov"], check=True)
        mount.readings("scan.mov", lambda r: r["chunks"]["done"] >= 4)
        mount.program.signal(signal.SIGSTOP)
        try:
            proxy.hold()
            time.sleep(8)
        finally:
            mount.program.signal(signal.SIGCONT)
        proxy.release()
        status = mount.wait_for("scan.mov", "complete")
    assert status["chunks"]["retried"] == 0, status
    assert "nothing was done for a while" in mount.program.log and "no progress" not in mount.program.log
    assert sha256(receiver.files / "scan.mov") == sha256(source)


def test_after_a_stop_while_nothing_is_done_a_file_needs_one_connections_set_up(new_mount, receiver):
    """Regression: where nothing was due a stop was not noticed, and the next file went over dead connections."""
    with ThrottlingProxy(receiver.port) as proxy:
        mount = new_mount(receiver, to=f"https://127.0.0.1:{proxy.port}")
        write_random(mount.root / "before.mov", 24 << 20)
        mount.wait_for("before.mov", "complete")
        # What was left to do a moment after that is done.
        time.sleep(5)
        proxy.bury_all()
        mount.program.signal(signal.SIGSTOP)
        try:
            time.sleep(9)
        finally:
            mount.program.signal(signal.SIGCONT)
        (mount.root / "after").write_bytes(b"x" * 1000)
        mount.wait_for("after", "complete")
        assert "nothing was done for a while" in mount.program.log and "no progress" not in mount.program.log
        assert mount.status("after")["chunks"]["retried"] == 0 and mount.status("after")["attempts"] <= 1


@pytest.mark.parametrize("is_open", [False, True], ids=["idle", "while a file is being written"])
def test_after_waking_with_dead_connections_a_file_needs_one_connections_set_up(new_mount, receiver, folder, is_open):
    """Regression: it took a minute."""
    clock = Clock(folder, "mount")
    with ThrottlingProxy(receiver.port) as proxy:
        mount = new_mount(receiver, to=f"https://127.0.0.1:{proxy.port}", prefix=clock.prefix)
        # All connections that a mount has are there.
        write_random(mount.root / "before.mov", 24 << 20)
        mount.wait_for("before.mov", "complete")
        other = open(mount.root / "other.mov", "wb") if is_open else None
        proxy.bury_all()
        clock.sleep(3600)
        start = time.monotonic()
        (mount.root / "after").write_bytes(b"x" * 1000)
        mount.wait_for("after", "complete")
        # With a connection of before it would be the stall's time, which is more than 5 s.
        assert time.monotonic() - start < 4
        assert "nothing was done for a while" in mount.program.log and "no progress" not in mount.program.log
        assert mount.status("after")["chunks"]["retried"] == 0
        if other:
            other.close()
            mount.wait_for("other.mov", "complete")
