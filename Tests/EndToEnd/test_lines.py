"""Delivery over lines that are slow, long and lossy (Tests/Network)."""

import contextlib
import time

import pytest

from form_servers import Form, Nginx
from harness import sha256, write_random
from network import path
from s3_servers import BUCKET, Rclone, credentials
from tus_servers import TusServer

FILE_BYTES = 4 << 20
# What a capture takes the line, so that there is an estimate of what is left, and time to look at it.
LINE_SECONDS = 16
# Bits a second of each of them, and how it is made.
LINES = {
    "256kbit": (256e3, {"rate": "256kbit", "delay": "50ms", "queue": "2000ms"}),
    "1mbit": (1e6, {"rate": "1mbit", "delay": "300ms", "queue": "2000ms"}),
    "20mbit": (20e6, {"rate": "20mbit", "delay": "50ms", "queue": "2000ms"}),
}


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
    readings = delivery(mount, write_random(folder / "source", size))
    expect_a_well_used_line(network, readings, size, rate, 0.2)
    took, status = readings[-1]
    assert took - 2 < status["upload"]["seconds"] <= took + 1, status["upload"]
    assert all(reading["bytes"]["acknowledged"] in (0, size) for _, reading in readings)


def reader(folder):
    return lambda name: (folder / name).read_bytes()


class Servers:
    """Servers of other people at the far end of a network, with TLS 1.3; what a mount is told of each."""

    def __init__(self, network, folder, authority, stack):
        self.network, self.folder, self.stack = network, folder, stack
        self.host = network.server.address
        self.identity = authority.issue("far", hosts=f"IP:{self.host}")

    def start(self, kind):
        with self.network.server.inside():
            return getattr(self, kind)()

    def _keep(self, server):
        self.stack.callback(lambda: self._end(server))
        return server.start()

    @staticmethod
    def _end(server):
        left = server.close()
        assert not left, left

    def _front(self, server):
        """What speaks TLS for a server that does not."""
        return self._keep(Nginx(self.folder / "front", f"""
    client_max_body_size 0;
    location / {{
      proxy_pass http://127.0.0.1:{server.port}; proxy_http_version 1.1; proxy_request_buffering off; proxy_buffering off;
      proxy_set_header Host $http_host; proxy_set_header X-Forwarded-Proto https;
    }}""", self.identity, host="0.0.0.0")).port

    def s3(self):
        server = self._keep(Rclone(self.folder / "objects"))
        return f"s3+https://{self.host}:{self._front(server)}/{BUCKET}", credentials(), server.object

    def tus(self):
        server = self._keep(TusServer("resumable-upload", self.folder / "uploads"))
        return f"tus+https://{self.host}:{self._front(server)}{server.path}", None, server.file

    def form(self):
        form = self._keep(Form(self.folder / "form", self.identity, has_password=False, host="0.0.0.0"))
        address = f"form+https://{self.host}:{form.port}/api/uploads.php?ui=json"
        return address, None, reader(form.files)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("kind", ["receiver", "s3", "tus", "form"])
def test_a_line_is_used_once_whatever_is_at_its_end(new_network, new_receiver, new_mount, authority, folder, kind, line):
    """Regression (NU1, NU3, PR11): time, bytes, percent and what is left of the time (spec I1)."""
    rate, settings = LINES[line]
    size = int(rate / 8 * LINE_SECONDS) >> 10 << 10
    network = new_network(path(**settings))
    source = write_random(folder / "source", size)
    with contextlib.ExitStack() as stack:
        if kind == "receiver":
            receiver, mount = at_both_ends(network, network.server.address, new_receiver, new_mount, authority)
            published = reader(receiver.files)
        else:
            address, environment, published = Servers(network, folder, authority, stack).start(kind)
            mount = new_mount(
                None, to=address, ca=authority.certificate, environment=environment, prefix=network.client.prefix)
        readings = delivery(mount, source)
        assert published("capture.bin") == source.read_bytes()
        # Servers of other people take a moment to put a file together.
        expect_a_well_used_line(
            network, readings, size, rate, 2 * float(settings["delay"][:-2]) / 1000, 1 if kind == "receiver" else 5)
        mount.close()


def delivery(mount, source):
    """Readings of the status of a capture with their times, from its close to its delivery."""
    content = source.read_bytes()
    with open(mount.root / "capture.bin", "wb") as file:
        file.write(content)
    start = time.monotonic()
    readings = []
    while not readings or readings[-1][1]["state"] != "complete":
        readings.append((time.monotonic() - start, mount.status("capture.bin")))
        assert readings[-1][0] < 60, readings[-1]
        time.sleep(0.1)
    return readings


def expect_a_well_used_line(network, readings, size, rate, trip, slack=1):
    """Nothing went twice or took longer than the line, and what was shown was true."""
    took, status = readings[-1]
    sent = network.path[0].counters()["upstream"]["out"]["bytes"]
    # At its end a chunk that stands still may go twice, of at most a fiftieth of the file.
    assert sent < 1.07 * size, (sent, status)
    assert status["chunks"]["retried"] * status["chunks"]["size"] <= 0.02 * size, status
    assert took < sent * 8 / rate * 1.05 + 6 * trip + slack, took
    percents = [(at, reading["percent"]) for at, reading in readings if 1 < reading["percent"] < 99]
    # What had arrived of a chunk that goes again is shown no longer.
    fallen = sum(max(0, before - after) for (_, before), (_, after) in zip(percents, percents[1:]))
    assert fallen <= 100 * status["chunks"]["retried"] * status["chunks"]["size"] / size + 0.01, percents
    changes = [now for (_, before), (now, after) in zip(percents, percents[1:]) if before != after]
    assert len(changes) > 1.5 * (percents[-1][0] - percents[0][0]), changes
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
