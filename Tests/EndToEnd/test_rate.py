"""What all uploads together may send (--limit-rate), as a line's own counters see it (Tests/Network)."""

import os
import time

from harness import sha256, write_random
from network import path
from test_lines import at_both_ends

FAST = {"rate": "200mbit", "delay": "5ms", "queue": "100ms"}


def upstream_bytes(network):
    return network.path[0].counters()["upstream"]["in"]["bytes"]


def sent_within(network, seconds):
    before, began = upstream_bytes(network), time.monotonic()
    time.sleep(seconds)
    return (upstream_bytes(network) - before) / (time.monotonic() - began)


def test_ten_seconds_carry_what_the_limit_says(new_network, new_receiver, new_mount, authority, folder):
    """To a twentieth, with all that goes around the bytes of captures, for small files as well."""
    network = new_network(path(**FAST))
    receiver, mount = at_both_ends(
        network, network.server.address, new_receiver, new_mount, authority, "--limit-rate", "8 Mbit/s")
    source = write_random(folder / "source", 10 << 20)
    (mount.root / "large.mov").write_bytes(source.read_bytes())
    small = os.urandom(20_000)
    for number in range(200):
        (mount.root / f"{number}.jpg").write_bytes(small)
    while upstream_bytes(network) < 300_000:
        time.sleep(0.01)
    rate = sent_within(network, 10)
    assert 0.95 * 1e6 < rate < 1.05 * 1e6, rate
    mount.wait_all()
    assert sha256(receiver.files / "large.mov") == sha256(source)
    assert all((receiver.files / f"{number}.jpg").read_bytes() == small for number in range(200))
    assert not mount.status("large.mov")["last_error"]


def test_a_limit_below_a_stall_is_no_stall(new_network, new_receiver, new_mount, authority):
    """Less than 8 KiB a second for five seconds would be one."""
    network = new_network(path(**FAST))
    receiver, mount = at_both_ends(
        network, network.server.address, new_receiver, new_mount, authority, "--limit-rate", "40kbit/s")
    content = write_random(mount.root / "slow.mov", 70_000).read_bytes()
    status = mount.wait_for("slow.mov", "complete", timeout=60)
    assert not status["last_error"] and status["attempts"] == 0, status
    assert (receiver.files / "slow.mov").read_bytes() == content


def test_destinations_share_the_limit(new_network, new_receiver, new_mount, authority, folder):
    network = new_network(path(**FAST))
    certificate = authority.issue("receiver", hosts=f"IP:{network.server.address}")
    main, archive = (
        new_receiver(certificate=certificate, ca=authority.certificate, host=network.server.address, prefix=network.server.prefix)
        for _ in range(2))
    mount = new_mount(
        main, "--destination", f"archive to={archive.url} token-file={archive.token_file}", "--rule", "** to=main,archive",
        "--limit-rate", "16Mbit/s", prefix=network.client.prefix)
    source = write_random(folder / "source", 10 << 20)
    (mount.root / "take.mov").write_bytes(source.read_bytes())
    while upstream_bytes(network) < 300_000:
        time.sleep(0.01)
    rate = sent_within(network, 5)
    assert 0.93 * 2e6 < rate < 1.07 * 2e6, rate
    shares = [part["bytes"]["acknowledged"] for part in mount.status("take.mov")["destinations"]]
    assert min(shares) > 0.3 * sum(shares), shares
    mount.wait_for("take.mov", "complete")
    assert all(sha256(receiver.files / "take.mov") == sha256(source) for receiver in (main, archive))
