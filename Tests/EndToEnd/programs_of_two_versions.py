"""Programs of another version beside the present ones: OLD_BINARIES names those (scripts/test --long builds them)."""

import os
import pathlib

import pytest

import versions
from harness import BINARIES
from versions import CHUNK, content

OLD_BINARIES = pathlib.Path(os.environ["OLD_BINARIES"])


@pytest.mark.parametrize("older", ["mount", "receiver"])
def test_programs_of_two_versions_deliver(older, folder, new_receiver, new_mount):
    """Large, small and growing files; kill -9 of each side in between."""
    mount_tool, receiver_tool = (
        OLD_BINARIES / tool if older == side else BINARIES / tool
        for side, tool in (("mount", "uploadfs-mount"), ("receiver", "uploadfs-receiver")))
    receiver = new_receiver(program=receiver_tool)
    mount = new_mount(receiver, "--chunk-size", "256KiB", program=mount_tool)
    for number in range(100):
        versions.write(mount, f"burst/{number}", 300 + number)
    with open(mount.root / "growing.mov", "wb", buffering=0) as file:
        file.write(content("growing.mov", 40 * CHUNK)[:20 * CHUNK])
        mount.readings("growing.mov", lambda reading: reading["bytes"]["acknowledged"] >= 10 * CHUNK)
        receiver.kill()
        receiver.start()
        file.write(content("growing.mov", 40 * CHUNK)[20 * CHUNK:])
    mount.kill()
    mount.start()
    versions.write(mount, "single.raw", 200_000)
    mount.wait_all()
    assert (receiver.files / "growing.mov").read_bytes() == content("growing.mov", 40 * CHUNK)
    assert (receiver.files / "single.raw").read_bytes() == content("single.raw", 200_000)
    for number in range(100):
        assert (receiver.files / f"burst/{number}").read_bytes() == content(f"burst/{number}", 300 + number)
