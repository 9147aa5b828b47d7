"""Delivery over lines that are slow, long and lossy (Tests/Network)."""

import time

import pytest

from harness import sha256, write_random
from network import path

FILE_BYTES = 4 << 20


def at_both_ends(network, host, new_receiver, new_mount, authority):
    """A receiver under this address of the network's one end, and a mount at the other."""
    certificate = authority.issue("receiver", hosts=f"IP:{host}")
    receiver = new_receiver(
        certificate=certificate, ca=authority.certificate, host=host, prefix=network.server.prefix)
    return receiver, new_mount(receiver, prefix=network.client.prefix)


@pytest.mark.parametrize("family", [4, 6])
def test_a_file_arrives_over_a_slow_line_with_loss(new_network, new_receiver, new_mount, authority, folder, family):
    network = new_network(
        path(rate="20mbit", delay="20ms", queue="100ms", upstream={"loss": 0.01}, downstream={"loss": 0.005}))
    host = network.server.address6 if family == 6 else network.server.address
    receiver, mount = at_both_ends(network, host, new_receiver, new_mount, authority)

    source = write_random(folder / "source", FILE_BYTES)
    (mount.root / "capture.bin").write_bytes(source.read_bytes())
    mount.wait_all()

    assert receiver.published() == {"capture.bin": FILE_BYTES}
    assert sha256(receiver.files / "capture.bin") == sha256(source)
    upstream = network.path[0].counters()["upstream"]
    assert upstream["out"]["bytes"] > FILE_BYTES and upstream["dropped"]["loss"]["packets"] > 0
    # The line is the only way there.
    with network.server.inside():
        assert receiver.stats()["files_published"] == 1


def test_a_slow_line_is_used_once_and_progress_is_what_has_arrived(
        new_network, new_receiver, new_mount, authority, folder):
    """Regression (NU1, NU3): an upload that waited in a socket's buffer was broken off and sent again, and said 0 % until its end."""
    rate, size = 256e3, 640 << 10
    network = new_network(path(rate="256kbit", delay="100ms", queue="2000ms"))
    receiver, mount = at_both_ends(network, network.server.address, new_receiver, new_mount, authority)
    source = write_random(folder / "source", size)
    start = time.monotonic()
    (mount.root / "capture.bin").write_bytes(source.read_bytes())
    readings = []
    while not readings or readings[-1][1]["state"] != "complete":
        readings.append((time.monotonic() - start, mount.status("capture.bin")))
        assert readings[-1][0] < 60, readings[-1]
        time.sleep(0.1)
    took, status = readings[-1]

    sent = network.path[0].counters()["upstream"]["out"]["bytes"]
    assert sent < 1.07 * size and status["chunks"]["retried"] == 0, (sent, status)
    assert took < sent * 8 / rate * 1.05 + 2, took
    assert took - 2 < status["upload"]["seconds"] <= took + 1, status["upload"]
    percents = [(at, reading["percent"]) for at, reading in readings if 1 < reading["percent"] < 99]
    assert [percent for _, percent in percents] == sorted(percent for _, percent in percents), percents
    changes = [now for (_, before), (now, after) in zip(percents, percents[1:]) if before != after]
    assert len(changes) > 1.5 * (percents[-1][0] - percents[0][0]), changes
    assert all(reading["bytes"]["acknowledged"] in (0, size) for _, reading in readings)
    late = [(took - at, reading["eta_seconds"]) for at, reading in readings if at > 10 and reading["percent"] < 90]
    known = [(left, eta) for left, eta in late if eta is not None]
    assert len(known) > len(late) / 2 and all(abs(eta - left) < 0.3 * left + 1 for left, eta in known), known


def test_a_kill_on_a_slow_line_costs_a_chunk_of_each_stream(new_network, new_receiver, new_mount, authority, folder):
    """Regression (NU2): a file of up to 4 MiB went in one request, and twelve chunks of 4 MiB at once: leaving lost minutes."""
    size, chunk, streams = 3 << 20, 256 << 10, 4
    network = new_network(path(rate="2mbit", delay="50ms", queue="500ms"))
    receiver, mount = at_both_ends(network, network.server.address, new_receiver, new_mount, authority)
    source = write_random(folder / "source", size)
    (mount.root / "capture.bin").write_bytes(source.read_bytes())
    mount.readings("capture.bin", lambda status: status["bytes"]["sent"] > 0.75 * size)
    mount.kill()
    mount.start()
    mount.wait_for("capture.bin", "complete")

    assert sha256(receiver.files / "capture.bin") == sha256(source)
    sent = network.path[0].counters()["upstream"]["out"]["bytes"]
    assert sent < 1.07 * size + streams * chunk, sent
