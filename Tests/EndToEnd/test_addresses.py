"""Servers with several addresses, of which some are dead, and resolvers that are slow (Tests/Network)."""

import time

import pytest

from harness import clean_environment, write_random
from network import path
from test_interrupted import preloaded

FILE_BYTES = 300 << 10
# Without a race the library gives half of the time for connecting, 2.5 s, to the first address.
SOON_SECONDS = 2

# Family, address and milliseconds until the resolver answers. Nothing is at 10.77.255.9, and nothing says so.
NAMES = {
    "the first address is dead": ("4 10.77.255.9 0", "4 10.77.255.1 0"),
    "IPv6 is dead": ("6 fd77:0:0:ff::9 0", "4 10.77.255.1 0"),
    "IPv4 is dead": ("6 fd77:0:0:ff::1 0", "4 10.77.255.9 0"),
    "IPv6 is not answered": ("6 - 20000", "4 10.77.255.1 0"),
    "IPv4 is not answered": ("6 fd77:0:0:ff::1 0", "4 - 20000"),
}


@pytest.fixture
def named(new_network, new_receiver, new_mount, authority, folder):
    """A mount of a receiver that is called by a name, and the file with the resolver's answers."""
    network = new_network(path(rate="100mbit", delay="5ms"))
    receivers = {}

    def start(*lines, host="10.77.255.1"):
        names = folder / "names"
        names.write_text("\n".join(lines) + "\n")
        receiver = receivers[host] = new_receiver(
            certificate=authority.issue("receiver", hosts="DNS:upload.test"), ca=authority.certificate, host=host,
            prefix=network.server.prefix)
        mount = new_mount(
            receiver, to=f"https://upload.test:{receiver.port}", prefix=network.client.prefix,
            environment=clean_environment(LD_PRELOAD=preloaded(folder, "slow_names"), NAMES=names))
        return receiver, mount, names

    return start


@pytest.mark.parametrize("case", NAMES)
def test_a_dead_address_or_resolver_costs_a_moment(named, case):
    """Regression: 2.5 s for each burst of new connections."""
    host = "fd77:0:0:ff::1" if case.startswith("IPv4") else "10.77.255.1"
    receiver, mount, _ = named(*NAMES[case], host=host)
    started_at = time.monotonic()
    write_random(mount.root / "capture.bin", FILE_BYTES)
    mount.wait_for("capture.bin", "complete")
    assert time.monotonic() - started_at < SOON_SECONDS
    assert receiver.published() == {"capture.bin": FILE_BYTES}


def test_a_server_that_moves_is_found_at_its_new_address(named):
    """The old one takes no connections any more: the name is asked for again, whatever is remembered."""
    receiver, mount, names = named("4 10.77.255.9 0", "4 10.77.0.9 0")
    write_random(mount.root / "capture.bin", FILE_BYTES)
    while not mount.summary()["last_error"]:
        time.sleep(0.05)
    names.write_text("4 10.77.255.1 0\n")
    mount.wait_for("capture.bin", "complete", timeout=60)
    assert receiver.published() == {"capture.bin": FILE_BYTES}


def test_a_name_without_address_is_named(named):
    _, mount, _ = named("4 - 0")
    write_random(mount.root / "capture.bin", FILE_BYTES)
    error = mount.readings("capture.bin", lambda status: status["last_error"])[-1]["last_error"]
    assert error["code"] == "unknown-host" and "upload.test" in error["message"]
