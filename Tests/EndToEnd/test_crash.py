"""kill -9 of either side in mid-upload: everything is found again, and what was acknowledged is not sent again."""

import os
import signal
import subprocess
import time

import pytest

from harness import sha256, still, wait_until, write_random
from throttle import ThrottlingProxy

CHUNK = 1 << 20
CHUNKS = 64
IN_FLIGHT = 12


@pytest.fixture
def under_way(new_mount, receiver, folder):
    """The mount and the line of an upload of which twenty chunks are stored: folder / source becomes scan.mov."""
    source = write_random(folder / "source", CHUNKS * CHUNK)
    with ThrottlingProxy(receiver.port, rate=8_000_000) as proxy:
        mount = new_mount(receiver, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{proxy.port}")
        subprocess.run(["cp", source, mount.root / "scan.mov"], check=True)
        wait_until(lambda: receiver.stats()["chunks_stored"] >= 20, "20 chunks are stored")
        yield mount, proxy


@pytest.mark.promises("R1")
def test_kill_of_the_mount_in_mid_upload(under_way, receiver, folder):
    mount, proxy = under_way
    mount.kill()
    proxy.cut()
    before = receiver.stats()
    assert before["chunks_stored"] < CHUNKS, "the upload must not be over for this test to mean something"

    proxy.rate = None
    start = time.monotonic()
    mount.start()
    (mount.root / "new.txt").write_bytes(b"usable at once")
    assert time.monotonic() - start < 10
    mount.wait_for("scan.mov", "complete", timeout=120)
    mount.wait_for("new.txt", "complete")
    after = receiver.stats()
    assert sha256(receiver.files / "scan.mov") == sha256(folder / "source")
    sent_again = (after["chunks_received"]) - CHUNKS
    assert sent_again <= IN_FLIGHT, f"{sent_again} chunks were sent twice: {before} {after}"


@pytest.mark.promises("R3")
def test_kill_of_the_receiver_in_mid_upload(under_way, receiver, folder):
    mount, proxy = under_way
    # Nothing moves from here on, so the count is the one at the kill.
    proxy.hold()
    before = still(receiver.stats, lambda stats: stats["chunks_stored"])
    receiver.kill()
    proxy.cut()
    proxy.rate = None
    proxy.release()
    receiver.start()
    mount.wait_for("scan.mov", "complete", timeout=120)
    after = receiver.stats()
    assert sha256(receiver.files / "scan.mov") == sha256(folder / "source")
    # The second process counts from zero: it must only have been sent what the first had not stored.
    missing = CHUNKS - before["chunks_stored"]
    assert missing > 0
    assert after["chunks_received"] <= missing + IN_FLIGHT, f"{before} {after}"


@pytest.mark.promises("S35a")
def test_files_of_before_the_crash_are_found_again(new_mount, receiver, folder):
    receiver.stop()
    mount = new_mount(receiver)
    for number in range(50):
        (mount.root / f"file-{number}.bin").write_bytes(bytes([number]) * 10_000)
    subprocess.run(["cp", write_random(folder / "big", 20_000_000), mount.root / "big.mov"], check=True)
    mount.kill()
    receiver.start()
    mount.start()
    assert len([name for name in mount.root.iterdir()]) >= 51
    mount.wait_all()
    assert len(receiver.published()) == 51
    assert sha256(receiver.files / "big.mov") == sha256(folder / "big")
    # A second restart finds nothing to do, and nothing is sent again.
    before = receiver.stats()["bytes_received"]
    assert mount.stop() == 0
    mount.start()
    mount.wait_all()
    assert mount.status("big.mov")["state"] == "complete"
    assert receiver.stats()["bytes_received"] == before


def test_damaged_resume_record_never_blocks_the_capture(under_way, receiver, folder):
    mount, proxy = under_way
    mount.kill()
    proxy.cut()
    proxy.rate = None
    records = [path for path in (mount.spool / ".state" / "resume").iterdir() if path.is_file()]
    assert records, "there is a resume record by now"
    for record in records:
        data = bytearray(record.read_bytes())
        data[len(data) // 2] ^= 1
        record.write_bytes(data)
    mount.start()
    mount.wait_for("scan.mov", "complete", timeout=120)
    assert sha256(receiver.files / "scan.mov") == sha256(folder / "source")


def test_status_is_that_of_the_file_which_has_the_name_now(new_mount, receiver):
    """A delivered file was replaced while nothing was mounted: what is known of it does not hide the new one, which nothing says is
    later (S80a)."""
    mount = new_mount(receiver)
    (mount.root / "scan.mov").write_bytes(b"first")
    mount.wait_for("scan.mov", "complete")
    assert mount.stop() == 0
    receiver.stop()
    (mount.spool / "captures" / "fresh").write_bytes(b"the second")
    (mount.spool / "captures" / "fresh").rename(mount.spool / "captures" / "scan.mov")
    mount.start()
    wait_until(lambda: mount.summary()["scanned"], "all files are found")
    reading = mount.status("scan.mov")
    assert reading["state"] != "complete" and reading["bytes"]["total"] == 10, reading
    receiver.start()
    mount.wait_for("scan.mov", "interrupted")
    assert (receiver.files / "scan.mov").read_bytes() == b"first"
    mount.say("publish", "scan.mov")
    assert mount.wait_for("scan.mov", "complete")["published_name"] == "scan.mov"
    assert (receiver.files / "scan.mov").read_bytes() == b"the second"


@pytest.mark.promises("S40j")
@pytest.mark.parametrize("fault", [signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT])
def test_a_fault_ends_the_daemon_and_publishes_nothing(new_mount, receiver, fault):
    """Regression: the daemon stood still for half a minute, lived on, and had published what was interrupted."""
    mount = new_mount(receiver)
    file = os.open(mount.root / "take.mov", os.O_WRONLY | os.O_CREAT)
    os.write(file, b"a part")
    mount.program.signal(fault)
    assert mount.program.wait(5) == -fault
    with pytest.raises(OSError):
        os.close(file)
    log = mount.program.log
    assert f"ended by {fault.name}" in log and "uploadfs-mount(" in log, log
    mount.start()
    mount.wait_for("take.mov", "interrupted")
    assert receiver.published() == {}


@pytest.mark.parametrize("fault", [signal.SIGSEGV, signal.SIGBUS])
def test_a_fault_ends_the_receiver(receiver, fault):
    receiver.program.signal(fault)
    assert receiver.program.wait(5) == -fault
    assert f"ended by {fault.name}" in receiver.program.log
