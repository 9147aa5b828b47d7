"""A spool that has lost its catalog and the record of names: the receiver says what it has."""

import os
import shutil

import pytest

from promises import needs

pytestmark = needs("root")

CONTENT = bytes(range(256)) * (48 << 10)


def lose_state(mount):
    assert mount.stop() == 0
    shutil.rmtree(mount.spool / ".state")


def chunks_received(receiver):
    return receiver.stats()["chunks_received"]


@pytest.mark.promises("S80h", "P113")
@pytest.mark.parametrize("seconds", [-5, 0, 5])
def test_what_was_delivered_is_compared_and_not_sent(new_mount, receiver, seconds):
    """Regression: it was sent again, and published under a number."""
    mount = new_mount(receiver)
    (mount.root / "a.mov").write_bytes(CONTENT)
    mount.wait_for("a.mov", "complete")
    lose_state(mount)
    captured = mount.spool / "captures" / "a.mov"
    now = captured.stat()
    os.utime(captured, ns=(now.st_atime_ns, now.st_mtime_ns + seconds * 10**9))
    before, there = chunks_received(receiver), (receiver.files / "a.mov").stat().st_ino
    mount.start()
    mount.wait_for("a.mov", "complete")
    assert chunks_received(receiver) == before
    assert sorted(receiver.published()) == ["a.mov"] and (receiver.files / "a.mov").stat().st_ino == there


@pytest.mark.promises("S80h")
def test_an_older_content_is_held_and_a_newer_one_is_sent(new_mount, receiver):
    mount = new_mount(receiver)
    for name in ("older.mov", "newer.mov"):
        (mount.root / name).write_bytes(CONTENT)
        mount.wait_for(name, "complete")
    lose_state(mount)
    for name, seconds in (("older.mov", -60), ("newer.mov", 60)):
        captured = mount.spool / "captures" / name
        time = captured.stat().st_mtime_ns + seconds * 10**9
        with open(captured, "r+b") as file:
            file.write(b"another")
        os.utime(captured, ns=(time, time))
    mount.start()
    status = mount.wait_for("older.mov", "interrupted")
    assert status["last_error"]["code"] == "older-than-delivered", status
    assert mount.wait_for("newer.mov", "complete")["published_name"] == "newer-2.mov"
    assert (receiver.files / "older.mov").read_bytes() == (receiver.files / "newer.mov").read_bytes() == CONTENT
