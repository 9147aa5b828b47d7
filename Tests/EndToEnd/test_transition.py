"""Uploads while the network changes under them: links, addresses and routes (Tests/Network)."""

import time

import pytest

from harness import sha256, write_random
from network import path
from test_lines import at_both_ends, expect_nothing_broken_off

FILE_BYTES = 12 << 20
# The kernel's notice, the time in which what still moves would have moved, and a handshake. Without the notice it takes five seconds
# and more (the transport's limit for a stalled connection).
SOON_SECONDS = 2.5

# What happens to the first of two ways, and whether its connections still move.
CHANGES = {
    "link down": (["ip", "link", "set", "path0", "down"], False),
    "address gone": (["ip", "address", "delete", "10.77.0.2/24", "dev", "path0"], False),
    "route moved": (["ip", "route", "replace", "default", "dev", "path1", "metric", "1"], True),
}


def upstream_bytes(network, index):
    return network.path[index].counters()["upstream"]["in"]["bytes"]


@pytest.mark.parametrize("change", CHANGES)
def test_an_upload_goes_on_over_another_way_at_once(new_network, new_receiver, new_mount, authority, folder, change):
    """Nothing fails, nothing that has arrived goes twice, and what still moves is left alone."""
    command, goes_on = CHANGES[change]
    network = new_network(*(path(rate="20mbit", delay="20ms", queue="300ms") for _ in range(2)))
    receiver, mount = at_both_ends(network, network.server.address, new_receiver, new_mount, authority)
    source = write_random(folder / "source", FILE_BYTES)
    with open(mount.root / "capture.bin", "wb") as file:
        file.write(source.read_bytes())
    while mount.status("capture.bin")["percent"] < 25:
        time.sleep(0.05)
    assert upstream_bytes(network, 1) < 10_000

    network.client.run(command)
    changed_at = time.monotonic()
    while upstream_bytes(network, 1) < 100_000:
        assert time.monotonic() < changed_at + 30, mount.status("capture.bin")
        time.sleep(0.02)
    took = time.monotonic() - changed_at

    readings = []
    while not readings or readings[-1][1]["state"] != "complete":
        readings.append((time.monotonic(), mount.status("capture.bin")))
        time.sleep(0.1)
    assert sha256(receiver.files / "capture.bin") == sha256(source)
    expect_nothing_broken_off(readings)
    status = readings[-1][1]
    assert took < SOON_SECONDS, (took, status)
    # What was on its way over the first one goes again; and at the end what crawls on a line with room.
    lost = 1 if goes_on else 12
    assert status["chunks"]["retried"] <= 3 * lost, status
    sent = sum(upstream_bytes(network, index) for index in range(2))
    assert sent < 1.07 * FILE_BYTES + (0 if goes_on else 4 << 20), (sent, status)


def test_a_destination_that_is_out_of_reach_is_tried_when_the_network_is_back(
        new_network, new_receiver, new_mount, authority, folder):
    """Without waiting for the pause that has grown meanwhile."""
    network = new_network(path(rate="20mbit", delay="5ms"))
    receiver, mount = at_both_ends(
        network, network.server.address, new_receiver, new_mount, authority, "--expert", "retry-delay=20s", "--expert",
        "retry-delay-max=60s")
    network.client.run(["ip", "link", "set", "path0", "down"])
    write_random(mount.root / "capture.bin", 1 << 20)
    while not mount.summary()["last_error"]:
        time.sleep(0.05)
    network.client.run(["ip", "link", "set", "path0", "up"])
    network.client.run(["ip", "route", "add", "default", "dev", "path0"])
    back_at = time.monotonic()
    mount.wait_for("capture.bin", "complete")
    assert time.monotonic() - back_at < 10
    assert receiver.published() == {"capture.bin": 1 << 20}
