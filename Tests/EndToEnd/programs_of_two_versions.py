"""Programs of another version beside the present ones: OLD_BINARIES names those (scripts/test --long builds them)."""

import json
import os
import pathlib

import pytest

import versions
from harness import BINARIES, sha256, write_random
from versions import CHUNK, content

OLD_BINARIES = pathlib.Path(os.environ["OLD_BINARIES"])


def programs(older):
    """The mount's and the receiver's, one of them of the earlier version."""
    return (
        OLD_BINARIES / tool if older == side else BINARIES / tool
        for side, tool in (("mount", "uploadfs-mount"), ("receiver", "uploadfs-receiver")))


@pytest.mark.parametrize("older", ["mount", "receiver"])
def test_programs_of_two_versions_deliver(older, folder, new_receiver, new_mount):
    """Large, small and growing files; kill -9 of each side in between."""
    mount_tool, receiver_tool = programs(older)
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


@pytest.mark.parametrize("older", ["mount", "receiver"])
def test_several_chunks_share_a_request_where_both_know_that(older, folder, new_receiver, new_mount):
    """Chunks of the length that the mount chooses: `--chunk-size` has each travel in a request of its own."""
    mount_tool, receiver_tool = programs(older)
    receiver = new_receiver(program=receiver_tool)
    announced = json.loads(receiver.get("/v1/capabilities")).get("run_bytes_max", 0)
    mount = new_mount(receiver, program=mount_tool)
    growing = content("growing.mov", 24 << 20)
    write_random(mount.root / "large.raw", 40 << 20)
    # Some are sent while it is written.
    with open(mount.root / "growing.mov", "wb", buffering=0) as file:
        for start in range(0, len(growing), 1 << 20):
            file.write(growing[start:start + (1 << 20)])
    mount.wait_all()
    assert sha256(receiver.files / "large.raw") == sha256(mount.root / "large.raw")
    assert (receiver.files / "growing.mov").read_bytes() == growing
    runs = receiver.stats().get("runs_received", 0)
    assert runs == 0 or announced
    # An older mount may know none; the present one uses what is announced.
    assert older == "mount" or (runs > 0) == (announced > 0), (runs, announced)
    for name in ("large.raw", "growing.mov"):
        status = json.loads((mount.root / "status" / f"{name}.json").read_text())
        assert status["chunks"]["retried"] == 0 and status["attempts"] == 0, status
