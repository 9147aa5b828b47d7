"""One large file is sent with 12 chunk requests at once, and the first bytes after close need no handshake."""

import os
import subprocess
import time

from harness import wait_until, write_random
from throttle import ThrottlingProxy


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


def test_first_bytes_after_close_need_no_handshake(mount, receiver):
    descriptor = os.open(mount.root / "scan.mov", os.O_CREAT | os.O_WRONLY)
    try:
        os.write(descriptor, b"x" * 100_000)
        wait_until(lambda: receiver.stats()["connections_accepted"] > 0, "a connection is warmed while the file is open")
        wait_until(lambda: mount.summary()["requests_in_flight"] == 0, "prewarming is over")
        time.sleep(0.3)
        # Each look at the counts is a connection of our own.
        before = receiver.stats()
    finally:
        os.close(descriptor)
    status = mount.wait_for("scan.mov", "complete")
    after = receiver.stats()
    assert after["connections_accepted"] - before["connections_accepted"] == 1, "only our own look at the counts"
    assert after["tls_handshakes"] - before["tls_handshakes"] == 1
    assert status["connection"]["prewarmed"] is True


def test_session_exists_before_close_of_a_large_file(mount, receiver):
    with open(mount.root / "large.mov", "wb") as file:
        file.write(os.urandom(12_000_000))
        file.flush()
        status = mount.readings("large.mov", lambda r: r["resume"]["session"])[-1]
        assert status["state"] == "writing"
    assert mount.wait_for("large.mov", "complete")["resume"]["session"] == status["resume"]["session"]
