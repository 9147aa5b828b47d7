"""One large file is sent with 12 chunk requests at once, and the first bytes after close need no handshake."""

import os
import subprocess

import pytest

from harness import sha256, wait_until, write_random
from throttle import ThrottlingProxy


@pytest.mark.promises("DE2")
def test_twelve_chunk_requests_are_in_flight_for_one_file(new_mount, receiver, folder):
    with ThrottlingProxy(receiver.port, rate=16_000_000) as proxy:
        mount = new_mount(receiver, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{proxy.port}")
        subprocess.run(["cp", write_random(folder / "source", 64 << 20), mount.root / "large.mov"], check=True)
        status = mount.readings("large.mov", lambda r: r["chunks"]["in_flight"] == 12)[-1]
        assert status["connection"]["streams"] == 12
        mount.wait_for("large.mov", "complete")
    assert receiver.stats()["chunk_requests_in_flight_max"] == 12


def test_parallel_setting_is_a_limit(new_mount, receiver, folder):
    with ThrottlingProxy(receiver.port, rate=16_000_000) as proxy:
        mount = new_mount(
            receiver, "--chunk-size", "1MiB", "--parallel", "3", to=f"https://127.0.0.1:{proxy.port}")
        subprocess.run(["cp", write_random(folder / "source", 32 << 20), mount.root / "large.mov"], check=True)
        mount.wait_for("large.mov", "complete")
    assert receiver.stats()["chunk_requests_in_flight_max"] == 3


def test_first_bytes_after_close_need_no_handshake(new_mount, receiver):
    with ThrottlingProxy(receiver.port) as proxy:
        mount = new_mount(receiver, to=f"https://127.0.0.1:{proxy.port}")
        # The questions of the start may have connected by now: no more than that.
        assert len(proxy.bytes_by_connection) <= 2 and sum(proxy.bytes_by_connection) < 4096
        with open(mount.root / "scan.mov", "wb", buffering=0) as file:
            file.write(os.urandom(1_000_000))
            # Once the answer is in the status, the connection that brought it is free.
            mount.readings("scan.mov", lambda reading: reading["resume"]["session"])
            warm = list(proxy.bytes_by_connection)
            handshakes = receiver.stats()["tls_handshakes"]
        status = mount.wait_for("scan.mov", "complete")
        grown = [after - before for before, after in zip(warm, proxy.bytes_by_connection)]
    assert len(warm) >= 1
    assert max(grown) > 1_000_000, f"the file went over a connection that was there before: {warm}, then {grown}"
    assert status["connection"]["prewarmed"] is True
    # One more is our own look at the counts; another may end the session that the small file did not need.
    assert receiver.stats()["tls_handshakes"] - handshakes <= 2


def test_large_open_file_finds_all_its_connections_warm(new_mount, receiver):
    """Regression: warm-up requests that were handed over one by one took turns on one connection."""
    # So slow that chunks wait for connections, not connections for chunks, on a busy machine as well.
    with ThrottlingProxy(receiver.port, rate=8_000_000) as proxy:
        mount = new_mount(receiver, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{proxy.port}")
        with open(mount.root / "scan.mov", "wb") as file:
            file.write(os.urandom(30 << 20))
            file.flush()
            # With the request that follows it, a handshake comes to more than this.
            wait_until(lambda: sum(count > 500 for count in proxy.bytes_by_connection) >= 12,
                       lambda: f"12 are warm: {proxy.bytes_by_connection}")
            warm = len(proxy.bytes_by_connection)
        mount.wait_for("scan.mov", "complete")
        used = [count for count in proxy.bytes_by_connection[:warm] if count > 1_000_000]
    assert len(used) >= 8, "the chunks went over connections that were there before"
    assert len(proxy.bytes_by_connection) - warm <= 2, f"{warm} were warm: {proxy.bytes_by_connection}"


def test_session_exists_before_close_of_a_large_file(mount, receiver):
    with open(mount.root / "large.mov", "wb") as file:
        file.write(os.urandom(12_000_000))
        file.flush()
        status = mount.readings("large.mov", lambda r: r["resume"]["session"])[-1]
        assert status["state"] == "writing"
    mount.wait_for("large.mov", "complete")
    uploads = receiver.stats()["uploads"]
    assert [upload["id"] for upload in uploads] == [status["resume"]["session"]], "the session of the open was used"


def test_what_hangs_at_the_end_goes_again_over_another_connection(new_mount, receiver, folder):
    size = 64 << 20  # of which 2 % are more than a request of its end
    with ThrottlingProxy(receiver.port, rate=16_000_000, receive_bytes=32 << 10) as proxy:
        mount = new_mount(receiver, to=f"https://127.0.0.1:{proxy.port}")
        proxy.hold_one(size - (12 << 20), size - (4 << 20))
        source = write_random(folder / "source", size)
        subprocess.run(["cp", source, mount.root / "take.mov"], check=True)
        status = mount.wait_for("take.mov", "complete")
        assert proxy.held is not None and proxy.bytes_up < 1.06 * size
    # A watchdog would have said that the request timed out, ten seconds later.
    assert "hang on a slow connection" in mount.program.log and status["chunks"]["retried"] >= 1, status
    assert sha256(receiver.files / "take.mov") == sha256(source)
