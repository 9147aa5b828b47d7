"""Delivery over lines that are slow, long and lossy (Tests/Network)."""

import pytest

from harness import sha256, write_random
from network import path

FILE_BYTES = 4 << 20


@pytest.mark.parametrize("family", [4, 6])
def test_a_file_arrives_over_a_slow_line_with_loss(new_network, new_receiver, new_mount, authority, folder, family):
    network = new_network(
        path(rate="20mbit", delay="20ms", queue="100ms", upstream={"loss": 0.01}, downstream={"loss": 0.005}))
    host = network.server.address6 if family == 6 else network.server.address
    certificate = authority.issue("receiver", hosts=f"IP:{host}")
    receiver = new_receiver(
        certificate=certificate, ca=authority.certificate, host=host, prefix=network.server.prefix)
    mount = new_mount(receiver, prefix=network.client.prefix)

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
