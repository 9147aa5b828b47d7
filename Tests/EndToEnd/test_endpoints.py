"""Several addresses of one receiver: traffic goes to the one that answers, and an upload goes on there where it was."""

import re
import socket
import subprocess

from harness import sha256, write_random
from throttle import ThrottlingProxy

CHUNK = 1 << 20
CHUNKS = 48
IN_FLIGHT = 12


def address(proxy):
    return f"https://127.0.0.1:{proxy.port}"


def in_use(mount):
    """What the metrics say of each address."""
    text = (mount.root / ".uploadfs" / "metrics").read_text()
    return {url: int(float(value)) for url, value in re.findall(r'^uploadfs_endpoint_in_use{endpoint="(.*)"} (.*)$', text, re.M)}


def test_upload_goes_on_over_another_address_when_the_first_fails(new_mount, receiver, folder):
    source = write_random(folder / "source", CHUNKS * CHUNK)
    with ThrottlingProxy(receiver.port, rate=8_000_000) as second:
        with ThrottlingProxy(receiver.port, rate=8_000_000) as first:
            mount = new_mount(receiver, "--chunk-size", "1MiB", "--also-to", address(second), to=address(first))
            subprocess.run(["cp", source, mount.root / "scan.mov"], check=True)
            mount.readings("scan.mov", lambda r: r["chunks"]["done"] >= 10)
            assert second.bytes_up == 0, "the healthy first address is the one that is used"
            session = mount.status("scan.mov")["resume"]["session"]
            assert in_use(mount) == {address(first): 1, address(second): 0}
        # The first address is gone now: its connections are broken and no server listens there.
        second.rate = None
        readings = mount.readings("scan.mov", lambda r: r["state"] == "complete", timeout=120)
        sessions = {reading["resume"]["session"] for reading in readings} - {None}
        assert sessions <= {session}, "the session is gone on with, not begun anew"
        assert second.bytes_up > 20 * CHUNK
        assert in_use(mount) == {address(first): 0, address(second): 1}
    assert sha256(receiver.files / "scan.mov") == sha256(source)
    stats = receiver.stats()
    assert stats["chunks_received"] <= CHUNKS + IN_FLIGHT, stats


def test_dead_first_address_delays_nothing(new_mount, receiver, folder):
    source = write_random(folder / "source", 8 * CHUNK)
    with socket.create_server(("127.0.0.1", 0)) as server:
        dead = server.getsockname()[1]
    mount = new_mount(receiver, "--chunk-size", "1MiB", "--also-to", receiver.url, to=f"https://127.0.0.1:{dead}")
    subprocess.run(["cp", source, mount.root / "scan.mov"], check=True)
    (mount.root / "small.txt").write_bytes(b"small")
    for name in ("scan.mov", "small.txt"):
        mount.wait_for(name, "complete")
    assert sha256(receiver.files / "scan.mov") == sha256(source)


def test_both_addresses_away_and_back(new_mount, receiver, folder):
    with ThrottlingProxy(receiver.port) as proxy:
        mount = new_mount(receiver, "--also-to", address(proxy))
        receiver.stop()
        (mount.root / "a.txt").write_bytes(b"while nobody listens")
        mount.wait_for("a.txt", "waiting")
        receiver.start()
        mount.wait_for("a.txt", "complete")
    assert (receiver.files / "a.txt").read_bytes() == b"while nobody listens"
