"""The examples do what they say."""

import subprocess
import sys

from harness import MOUNT_TOOL, REPOSITORY, clean_environment

EXAMPLES = REPOSITORY / "examples"


def test_shell_session(mount, receiver):
    done = subprocess.run(
        [EXAMPLES / "session.sh", mount.root, MOUNT_TOOL], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=120, env=clean_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "scan42.mov is delivered" in done.stdout
    assert (receiver.files / "scan42.mov").stat().st_size == 20_000_000


def test_recorder_follows_its_own_delivery(mount, receiver):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "recorder.py", mount.root, "take1.rec", "--seconds", "2"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "complete 100 %" in done.stdout and "delivered" in done.stdout
    data = (receiver.files / "take1.rec").read_bytes()
    assert data[:8] == b"RECORD01"
    assert int.from_bytes(data[8:16], "little") == len(data) - 16 == 4_000_000
