"""What cannot be delivered says why, publishes nothing, loses nothing, and is delivered once the cause is gone."""

import errno
import os
import subprocess

import pytest

from harness import sha256, wait_until, write_random
from promises import needs
from tamper import flip_a_bit, forge_the_tag
from throttle import ThrottlingProxy


def refused(mount, name, code, states=("failed", "waiting")):
    """The status of a file that was refused with `code`, which log and summary name as well."""
    status = mount.readings(
        name, lambda r: r["state"] in states and r["last_error"] and r["last_error"]["code"] == code)[-1]
    assert len(status["last_error"]["message"]) > 20
    wait_until(lambda: code in mount.program.log, lambda: f"{code} is in the log: {mount.program.log}")
    return status


def errno_of(call):
    """The errno with which a call fails; None when it does not."""
    try:
        call()
    except OSError as error:
        return error.errno
    return None


def test_wrong_token(new_mount, receiver, folder):
    token = folder / "token"
    token.write_text("this-is-not-the-token\n")
    token.chmod(0o600)
    mount = new_mount(receiver, token_file=token)
    (mount.root / "scan.mov").write_bytes(b"x" * 10_000)
    status = refused(mount, "scan.mov", "unauthorized")
    assert "token" in status["last_error"]["message"]
    assert "this-is-not-the-token" not in mount.program.log + str(status)
    assert not receiver.published()
    assert (mount.root / "scan.mov").read_bytes() == b"x" * 10_000

    # With the right token the file goes at the next start, without being touched.
    mount.stop()
    token.write_text(receiver.token + "\n")
    mount.start()
    mount.wait_for("scan.mov", "complete")
    assert (receiver.files / "scan.mov").read_bytes() == b"x" * 10_000
    assert receiver.token not in mount.program.log


@pytest.mark.promises("DE109")
def test_a_wrong_token_is_said_before_the_first_capture(new_mount, receiver, folder):
    """Regression: it was said only with the first capture."""
    token = folder / "token"
    token.write_text("this-is-not-the-token\n")
    token.chmod(0o600)
    mount = new_mount(receiver, token_file=token)
    wait_until(lambda: (mount.summary()["last_error"] or {}).get("code") == "unauthorized", "the summary says so")
    wait_until(lambda: "refuses the credentials" in mount.program.log, "the log says so")
    assert "this-is-not-the-token" not in mount.program.log


def test_unknown_host(new_mount, receiver):
    mount = new_mount(receiver, to="https://no-such-host.invalid")
    (mount.root / "scan.mov").write_bytes(b"x")
    status = mount.readings("scan.mov", lambda r: r["state"] == "waiting" and r["last_error"])[-1]
    # Where no DNS server can be reached, the question for the name ends in a timeout.
    assert status["last_error"]["code"] in ("unknown-host", "timed-out")
    assert "no-such-host.invalid" in status["last_error"]["message"]
    assert (mount.root / "scan.mov").read_bytes() == b"x"


def test_expired_certificate(new_receiver, new_mount, authority):
    expired = new_receiver(certificate=authority.issue("server", expired=True), ca=authority.certificate)
    mount = new_mount(expired)
    (mount.root / "scan.mov").write_bytes(b"x" * 5000)
    status = refused(mount, "scan.mov", "certificate-refused")
    assert "expired" in status["last_error"]["message"]
    assert not expired.published()

    # A renewed certificate is all it takes.
    expired.stop()
    expired.certificate = authority.issue("renewed")
    expired.start()
    mount.wait_for("scan.mov", "complete", timeout=90)
    assert (expired.files / "scan.mov").read_bytes() == b"x" * 5000


@pytest.mark.promises("DE97")
def test_foreign_certificate(new_mount, receiver, authority):
    mount = new_mount(receiver, ca=authority.certificate)
    (mount.root / "scan.mov").write_bytes(b"x" * 5000)
    refused(mount, "scan.mov", "certificate-refused")
    assert not receiver.published()
    mount.stop_at_once()
    mount.ca = receiver.ca
    mount.start()
    mount.wait_for("scan.mov", "complete")


def test_certificate_for_another_name(new_receiver, new_mount, authority):
    other = new_receiver(certificate=authority.issue("other", hosts="DNS:other.example"), ca=authority.certificate)
    mount = new_mount(other)
    (mount.root / "scan.mov").write_bytes(b"x")
    refused(mount, "scan.mov", "certificate-refused")


@needs("root")
def test_full_disk_at_the_receiver(new_receiver, new_mount, tmpfs, folder):
    disk = tmpfs("disk", 48 << 20)
    receiver = new_receiver("--headroom", "8MB", name="disk/receiver")
    source = write_random(folder / "source", 60_000_000)
    mount = new_mount(receiver)
    (mount.root / "small.bin").write_bytes(b"fits")
    mount.wait_for("small.bin", "complete")
    subprocess.run(["cp", source, mount.root / "large.mov"], check=True)
    refused(mount, "large.mov", "insufficient-storage")
    assert set(receiver.published()) == {"small.bin"}
    assert sha256(mount.root / "large.mov") == sha256(source)

    subprocess.run(["mount", "-o", "remount,size=256m", str(disk)], check=True)
    mount.wait_for("large.mov", "complete", timeout=120)
    assert sha256(receiver.files / "large.mov") == sha256(source)


@pytest.mark.promises("DE8")
def test_file_larger_than_the_mount_takes(new_mount, receiver):
    mount = new_mount(receiver, "--max-file-size", "1MB")
    with open(mount.root / "large.bin", "wb", buffering=0) as file:
        file.write(b"x" * 900_000)
        with pytest.raises(OSError) as raised:
            for _ in range(3):
                file.write(b"x" * 100_000)
        assert raised.value.errno == 27, "EFBIG"
    # What there is of it is not what was meant: it is kept, and not published as if it were whole.
    status = refused(mount, "large.bin", "write-refused", states=("interrupted",))
    assert status["state"] == "interrupted" and "--max-file-size" in status["last_error"]["message"]
    (mount.root / "small.bin").write_bytes(b"x")
    mount.wait_for("small.bin", "complete")
    mount.stop()
    mount.start()
    mount.wait_for("large.bin", "interrupted")
    assert list(receiver.published()) == ["small.bin"]
    # A user who wants it as it is can have it.
    mount.say("publish", "large.bin")
    mount.wait_for("large.bin", "complete")
    assert (receiver.files / "large.bin").read_bytes() == (mount.root / "large.bin").read_bytes()


def test_file_larger_than_the_receiver_takes(new_receiver, new_mount):
    receiver = new_receiver("--max-file-size", 10_000_000)
    mount = new_mount(receiver)
    (mount.root / "large.bin").write_bytes(os.urandom(12_000_000))
    status = refused(mount, "large.bin", "too-large")
    assert status["state"] == "failed"
    assert not receiver.published()
    assert (mount.root / "large.bin").stat().st_size == 12_000_000
    # Others go on, wait tells, and a shorter revision is delivered.
    (mount.root / "small.bin").write_bytes(b"x")
    mount.wait_for("small.bin", "complete")
    done = mount.tool("wait", "--timeout", 30)
    assert done.returncode == 18 and "large.bin" in done.stderr
    # A receiver that takes more is asked again.
    (mount.root / "medium.bin").write_bytes(os.urandom(11_000_000))
    mount.wait_for("medium.bin", "failed")
    receiver.stop()
    receiver.options = ("--max-file-size", 11_500_000)
    receiver.start()
    mount.say("retry", "medium.bin")
    mount.wait_for("medium.bin", "complete")
    mount.wait_for("large.bin", "failed")
    os.truncate(mount.root / "large.bin", 5_000_000)
    mount.wait_for("large.bin", "complete")
    assert (receiver.files / "large.bin").stat().st_size == 5_000_000


@pytest.mark.promises("S29c", "S29d")
def test_what_the_receiver_takes_is_known_beforehand(new_receiver, new_mount):
    """Regression: that a recording was too large for the receiver was found out when it was complete."""
    receiver = new_receiver("--max-file-size", 10_000_000)
    mount = new_mount(receiver, "--rule", "strict/* too-large=refuse")
    path = mount.root / "take.mov"
    with open(path, "wb", buffering=0) as file:
        # The question goes out at the start; its answer may come a moment later. What is as large already may stay so.
        def is_refused():
            os.ftruncate(file.fileno(), 0)
            return errno_of(lambda: os.ftruncate(file.fileno(), 10_000_001)) == errno.EFBIG
        wait_until(is_refused, lambda: "a size that the receiver does not take is refused")
        assert errno_of(lambda: os.posix_fallocate(file.fileno(), 0, 10_000_001)) == errno.EFBIG
        os.ftruncate(file.fileno(), 0)
        for _ in range(12):
            file.write(os.urandom(1_000_000))
        status = mount.readings("take.mov", lambda r: r["last_error"])[-1]
        assert (status["state"], status["last_error"]["code"]) == ("writing", "too-large")
    assert mount.wait_for("take.mov", "failed")["last_error"]["code"] == "too-large"
    assert path.stat().st_size == 12_000_000
    (mount.root / "strict").mkdir()
    with open(mount.root / "strict" / "take.mov", "wb", buffering=0) as file:
        file.write(os.urandom(9_999_999))
        assert errno_of(lambda: file.write(b"12")) == errno.EFBIG
    assert "uploadfs_files_outgrown_total 1" in (mount.root / ".uploadfs" / "metrics").read_text()
    # The receiver takes more: a file that is opened finds it out.
    receiver.stop()
    receiver.options = ("--max-file-size", 20_000_000)
    receiver.start()

    def is_delivered():
        (mount.root / "small.bin").write_bytes(b"x")
        return mount.status("take.mov")["state"] == "complete"
    wait_until(is_delivered, "it is delivered once the receiver takes more")
    assert sha256(receiver.files / "take.mov") == sha256(path)


@pytest.mark.parametrize("size", [50_000, 20_000_000], ids=["whole-file", "chunks"])
def test_bit_flipped_on_the_way(new_mount, receiver, authority, tampering, folder, size):
    source = write_random(folder / "source", size)
    tampering.change = flip_a_bit
    mount = new_mount(
        receiver, "--http", "1.1", to=f"https://127.0.0.1:{tampering.port}", ca=authority.certificate)
    subprocess.run(["cp", source, mount.root / "scan.mov"], check=True)
    status = mount.readings(
        "scan.mov", lambda r: r["last_error"] and r["last_error"]["code"] == "digest-mismatch")[-1]
    assert tampering.changed > 0
    assert status["receipt"] is None
    assert not receiver.published()
    assert sha256(mount.root / "scan.mov") == sha256(source)

    tampering.change = None
    if mount.wait_for("scan.mov", "complete", "failed", timeout=90)["state"] == "failed":
        mount.stop()
        mount.start()
        mount.wait_for("scan.mov", "complete", timeout=90)
    assert sha256(receiver.files / "scan.mov") == sha256(source)


def test_one_flipped_bit_costs_one_retry_and_nothing_else(new_mount, receiver, authority, tampering, folder):
    source = write_random(folder / "source", 20_000_000)
    left = [1]

    def flip_once(*request):
        return left and flip_a_bit(*request) and bool(left.pop())

    tampering.change = flip_once
    mount = new_mount(
        receiver, "--http", "1.1", to=f"https://127.0.0.1:{tampering.port}", ca=authority.certificate)
    subprocess.run(["cp", source, mount.root / "scan.mov"], check=True)
    status = mount.wait_for("scan.mov", "complete", timeout=90)
    assert status["chunks"]["retried"] == 1
    assert sha256(receiver.files / "scan.mov") == sha256(source)


def test_wrong_tag_is_reported_as_tampering(new_mount, receiver, authority, tampering, folder):
    source = write_random(folder / "source", 20_000_000)
    tampering.change = forge_the_tag
    mount = new_mount(
        receiver, "--http", "1.1", to=f"https://127.0.0.1:{tampering.port}", ca=authority.certificate)
    subprocess.run(["cp", source, mount.root / "scan.mov"], check=True)
    status = refused(mount, "scan.mov", "tag-mismatch")
    assert "changes the data" in status["last_error"]["message"]
    assert not receiver.published()

    tampering.change = None
    mount.stop()
    mount.start()
    mount.wait_for("scan.mov", "complete", timeout=90)
    assert sha256(receiver.files / "scan.mov") == sha256(source)


def test_stalled_connection_is_given_up_and_tried_again(new_mount, receiver, folder):
    source = write_random(folder / "source", 16 << 20)
    with ThrottlingProxy(receiver.port, rate=4_000_000) as proxy:
        mount = new_mount(receiver, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{proxy.port}")
        subprocess.run(["cp", source, mount.root / "scan.mov"], check=True)
        proxy.wait_for_bytes(4 << 20)
        proxy.hold()
        status = mount.readings("scan.mov", lambda r: r["last_error"], timeout=90)[-1]
        # Whichever notices first: the stall check, or the kernel, whose limit for unacknowledged bytes is as long.
        assert status["last_error"]["code"] in ("stalled", "timed-out", "connection-lost")
        proxy.rate = None
        proxy.release()
        mount.wait_for("scan.mov", "complete", timeout=120)
    assert sha256(receiver.files / "scan.mov") == sha256(source)
