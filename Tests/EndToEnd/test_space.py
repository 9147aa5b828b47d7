"""A spool that runs full: delivered files make room, the reserve is kept, and ENOSPC comes only when nothing can go."""

import errno
import os

import pytest

from harness import wait_until
from promises import needs

MB = 1_000_000
pytestmark = needs("root")


@pytest.fixture
def small_spool(tmpfs, folder):
    disk = tmpfs("spool-disk", 64 * MB)
    return disk / "spool"


def free_bytes(path):
    facts = os.statvfs(path)
    return facts.f_bavail * facts.f_frsize


@pytest.mark.promises("S28a", "S28b")
def test_no_space_only_when_nothing_can_be_freed(new_mount, receiver, small_spool):
    receiver.stop()
    mount = new_mount(receiver, "--reserve", "8MB", spool=small_spool)
    with open(mount.root / "large.mov", "wb", buffering=0) as file:
        written = 0
        with pytest.raises(OSError) as raised:
            while written < 80 * MB:
                written += file.write(b"x" * MB)
        assert raised.value.errno == errno.ENOSPC
        # What failed is cut off, so that the file is what its writer means (S41).
        os.ftruncate(file.fileno(), written)
    # Nothing of it was delivered, so all space but the reserve could be used, and the reserve is untouched.
    assert written > 40 * MB
    assert free_bytes(small_spool) >= 7 * MB
    with open(mount.root / "large.mov", "rb") as file:
        assert os.fstat(file.fileno()).st_size >= written

    # Delivered files make room: the same writes succeed, although both do not fit together.
    receiver.start()
    mount.wait_for("large.mov", "complete", timeout=120)
    (mount.root / "next.mov").write_bytes(b"y" * (40 * MB))
    mount.wait_for("next.mov", "complete", timeout=120)
    assert free_bytes(small_spool) >= 7 * MB
    assert receiver.published() == {"large.mov": written, "next.mov": 40 * MB}
    assert mount.status("large.mov")["local"] is False
    assert mount.status("next.mov")["local"] is True


@pytest.mark.promises("S28e")
def test_delivered_files_go_where_the_disk_has_no_inodes(new_mount, receiver, tmpfs):
    """Regression: creates failed with ENOSPC while delivered copies lay there."""
    spool = tmpfs("few-inodes", f"{64 * MB},nr_inodes=60") / "spool"
    mount = new_mount(receiver, "--reserve", "8MB", spool=spool)
    for batch in range(4):
        (mount.root / f"day {batch}").mkdir()
        for number in range(20):
            (mount.root / f"day {batch}" / f"{number}").write_bytes(b"x")
        mount.wait_all()
    assert len(receiver.published()) == 80
    assert not (mount.root / "day 0" / "0").exists() and (mount.root / "day 3" / "19").exists()
    # Only where nothing can go.
    receiver.kill()
    with pytest.raises(OSError) as raised:
        for number in range(60):
            (mount.root / f"new {number}").write_bytes(b"x")
    assert raised.value.errno == errno.ENOSPC
    receiver.start()


@pytest.mark.promises("S27")
def test_statfs_tells_what_can_be_written(new_mount, receiver, small_spool):
    mount = new_mount(receiver, "--reserve", "8MB", spool=small_spool)
    free = free_bytes(mount.root)
    assert abs(free - (free_bytes(small_spool) - 8 * MB)) < MB
    facts = os.statvfs(mount.root)
    assert facts.f_blocks * facts.f_frsize <= 64 * MB
    receiver.stop()
    (mount.root / "a.bin").write_bytes(b"x" * (10 * MB))
    wait_until(lambda: abs(free - 10 * MB - free_bytes(mount.root)) < MB, lambda: f"{free_bytes(mount.root)} of {free}")


@pytest.mark.promises("S27", "S28b")
def test_reserve_larger_than_the_disk_refuses_writes_not_the_mount(new_mount, receiver, small_spool):
    mount = new_mount(receiver, spool=small_spool)
    assert free_bytes(mount.root) == 0
    with pytest.raises(OSError) as raised:
        (mount.root / "a.bin").write_bytes(b"x" * MB)
    assert raised.value.errno == errno.ENOSPC


def test_delivered_files_go_by_age(new_mount, receiver):
    mount = new_mount(receiver, "--keep", "1s")
    (mount.root / "a.mov").write_bytes(b"x" * 1000)
    mount.wait_for("a.mov", "complete")
    wait_until(lambda: not (mount.root / "a.mov").exists(), "the local copy goes")
    assert mount.status("a.mov")["local"] is False and receiver.published() == {"a.mov": 1000}
    assert os.listdir(mount.spool / "captures") == []
