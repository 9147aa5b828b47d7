"""Disks and folders that go away under a mount: what is said of them, and what is still answered."""

import contextlib
import ctypes
import mmap
import os
import subprocess

import pytest

from failing_calls import EIO, Faults, Rule
from failing_disk import FailingDisk
from harness import wait_until
from promises import installed, require

MIB = 1 << 20


@pytest.fixture
def faults(folder):
    return Faults(folder)


@pytest.fixture
def failing_disk(request, folder):
    require("root")
    require("loop-devices")
    disk = FailingDisk(folder / "failing", request.param)
    yield disk
    disk.close()


def metric(mount, name):
    text = (mount.root / ".uploadfs" / "metrics").read_text()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))


def can_be_asked(mount, *names):
    """All that is said of the files and of the mount, by calls that see nothing of what the kernel may still know."""
    listed = subprocess.run(["ls", str(mount.root)], capture_output=True, text=True, timeout=30)
    assert listed.returncode == 0 and "status" in listed.stdout and all(name in listed.stdout for name in names), listed
    for name in names:
        shown = subprocess.run(["cat", str(mount.root / "status" / f"{name}.json")], capture_output=True, text=True, timeout=30)
        assert shown.returncode == 0 and f'"{name}"' in shown.stdout, shown
    assert "uploadfs_files" in (mount.root / ".uploadfs" / "metrics").read_text()
    assert mount.tool("status").returncode == 0
    done = mount.tool("wait", "--timeout", 1)
    assert "not a mounted" not in done.stderr and "is gone" not in done.stderr, done
    return done


def said(mount, code):
    wait_until(lambda: (mount.summary()["last_error"] or {}).get("code") == code, f"the summary says {code}", 20)
    assert metric(mount, "uploadfs_spool_in_place") == 0
    assert code in mount.program.log


def is_well_again(mount):
    wait_until(lambda: metric(mount, "uploadfs_spool_in_place") == 1, "the spool is as it was", 20)
    assert "as it was again" in mount.program.log


@contextlib.contextmanager
def kept_in_memory(path):
    """Its pages stay, whatever else the machine does: another test drops caches, and a kernel may give up what is cold."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.mlock.argtypes = libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    size = path.stat().st_size
    with open(path, "rb") as file:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    assert libc.mlock(address, size) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        libc.munmap(address, size)


@pytest.mark.promises("S41i", "S41j")
@pytest.mark.parametrize("calls", [("fstatat", "openat"), ("fstat",), ("*",)], ids=["fstatat+openat", "fstat", "all"])
def test_status_is_read_when_the_spool_cannot(new_mount, receiver, faults, calls):
    """Regression: the root itself was asked of the spool, and `wait` took the mount for none."""
    mount = new_mount(receiver, environment=faults.environment)
    (mount.root / "done.mov").write_bytes(b"film")
    mount.wait_all()
    receiver.kill()
    (mount.root / "take.mov").write_bytes(os.urandom(MIB))
    # What the disk does not take is delivered from memory.
    with kept_in_memory(mount.spool / "captures" / "take.mov"):
        faults.set(*(Rule(call, EIO, "/captures") for call in calls))
        can_be_asked(mount, "take.mov", "done.mov")
        assert faults.seen
        if calls == ("*",):
            said(mount, "spool-unreadable")
        faults.clear()
        if calls == ("*",):
            is_well_again(mount)
        receiver.start()
        mount.wait_for("take.mov", "complete", timeout=60)


@pytest.mark.promises("S41i")
@pytest.mark.parametrize("failing_disk", ["ext4", "xfs"], indirect=True)
def test_status_is_read_when_the_disk_is_dead(failing_disk, new_mount, receiver):
    """Regression, with real disks; xfs refuses everything then."""
    mount = new_mount(receiver, spool=failing_disk.place / "spool")
    receiver.kill()
    (mount.root / "take.mov").write_bytes(os.urandom(MIB))
    failing_disk.dies()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("2")
    can_be_asked(mount, "take.mov")
    failing_disk.accept()


@pytest.mark.promises("S41i", "S41j")
def test_status_is_read_when_the_spools_filesystem_is_taken_away(new_mount, receiver, tmpfs):
    place = tmpfs("spool-disk", 64 << 20)
    mount = new_mount(receiver, "--reserve", "8MB", spool=place / "spool")
    receiver.kill()
    (mount.root / "take.mov").write_bytes(os.urandom(MIB))
    subprocess.run([installed("umount"), "-l", str(place)], check=True)
    can_be_asked(mount, "take.mov")
    said(mount, "spool-missing")
    receiver.start()
    mount.wait_for("take.mov", "complete", timeout=60)


@pytest.mark.promises("S41j")
def test_a_spool_that_is_moved_or_exchanged_is_noticed(new_mount, receiver):
    """Regression: no message said that captures went where the next start would not find them."""
    mount = new_mount(receiver)
    elsewhere = mount.spool.with_name("elsewhere")
    mount.spool.rename(elsewhere)
    said(mount, "spool-missing")
    mount.spool.mkdir(mode=0o700)
    (mount.spool / "captures").mkdir()
    said(mount, "spool-exchanged")
    (mount.spool / "captures").rmdir()
    mount.spool.rmdir()
    elsewhere.rename(mount.spool)
    is_well_again(mount)
    assert mount.summary()["last_error"] is None
    (mount.root / "take.mov").write_bytes(b"film")
    mount.wait_for("take.mov", "complete")
