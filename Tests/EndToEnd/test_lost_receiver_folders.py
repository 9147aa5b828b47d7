"""Folders that go away under a receiver: nothing is taken until they are back, and no receipt is given for what is elsewhere."""

import os
import subprocess

import pytest

from harness import sha256, wait_until, write_random
from protocol_client import ProtocolClient, Session
from throttle import ThrottlingProxy

MIB = 1 << 20


def folders_away(receiver):
    text = receiver.get("/metrics").decode()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("uploadfs_receiver_folders_away "))


def is_noticed(receiver, path, count=1):
    wait_until(lambda: folders_away(receiver) >= count, f"{path} is missed", 20)
    assert str(path) in receiver.program.log, receiver.program.log


@pytest.mark.parametrize("below", ["files", ".uploads", ".uploads/sessions"])
def test_a_receiver_whose_folder_is_moved_takes_nothing_until_it_is_back(new_receiver, new_mount, below):
    """Regression: it went on publishing into the folder that was moved away, with receipts."""
    receiver = new_receiver()
    with ThrottlingProxy(receiver.port, rate=8 * MIB) as proxy:
        mount = new_mount(receiver, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{proxy.port}")
        (mount.root / "first").write_bytes(b"first")
        mount.wait_all()
        write_random(mount.root / "large.mov", 16 * MIB)
        mount.readings("large.mov", lambda status: status["chunks"]["done"] >= 2)
        place, elsewhere = receiver.root / below, receiver.root / "elsewhere"
        place.rename(elsewhere)
        proxy.rate = None
        is_noticed(receiver, place)
        (mount.root / "small").write_bytes(b"small")
        session = Session(ProtocolClient(receiver))
        answer = session.commit([]) if below == "files" else session.opening
        assert answer.status == 503 and answer.problem == "busy", answer
        assert mount.tool("wait", "--timeout", 3).returncode != 0
        for name in ("large.mov", "small"):
            assert mount.status(name)["state"] != "complete"
            assert not (elsewhere / name).exists()
        elsewhere.rename(place)
        mount.wait_all()
    wait_until(lambda: folders_away(receiver) == 0, "every folder is in its place")
    assert receiver.published().keys() == {"first", "large.mov", "small"}
    assert sha256(receiver.files / "large.mov") == sha256(mount.root / "large.mov")
    assert "is in its place" in receiver.program.log
    assert mount.status("large.mov")["chunks"]["retried"] < 64


def test_a_folder_of_published_files_that_is_made_anew_is_used(new_receiver, new_mount):
    """Regression: 500 until the receiver was started again."""
    receiver = new_receiver()
    mount = new_mount(receiver)
    (mount.root / "first").write_bytes(b"first")
    mount.wait_all()
    (receiver.files / "first").unlink()
    receiver.files.rmdir()
    (mount.root / "second").write_bytes(b"second")
    is_noticed(receiver, receiver.files)
    assert mount.status("second")["state"] != "complete" and not receiver.files.exists()
    receiver.files.mkdir()
    mount.wait_all()
    assert receiver.published() == {"second": 6}
    wait_until(lambda: "made anew" in receiver.program.log, receiver.program.describe)


def test_state_that_is_made_anew_is_refused_until_the_next_start(new_receiver, new_mount):
    """Regression: 500 until the receiver was started again, and no word why."""
    receiver = new_receiver()
    mount = new_mount(receiver)
    state = receiver.root / ".uploads"
    subprocess.run(["rm", "-r", str(state)], check=True)
    (mount.root / "take.mov").write_bytes(os.urandom(5 * MIB))
    is_noticed(receiver, state)
    state.mkdir()
    wait_until(lambda: "is another folder than before" in receiver.program.log, "it is said")
    assert mount.tool("wait", "--timeout", 2).returncode != 0 and receiver.published() == {}
    receiver.stop()
    receiver.start()
    mount.wait_all()
    assert sha256(receiver.files / "take.mov") == sha256(mount.root / "take.mov")
