"""Delivery over lines that are slow, long and lossy (Tests/Network)."""

import contextlib
import dataclasses
import subprocess
import time

import pytest

from form_servers import Form, Nginx
from harness import MOUNT_TOOL, sha256, write_random
from iperf import IperfServer, received_rate
from network import NetworkError, header_share, path
from s3_servers import BUCKET, Rclone, credentials
from tus_servers import TusServer

FILE_BYTES = 8 << 20


@dataclasses.dataclass(frozen=True)
class Line:
    rate: float  # bits in a second
    settings: dict
    # What a capture takes it: so that there is an estimate of what is left, and time to look at it, where that is not too much to write.
    seconds: int = 16

    @property
    def size(self):
        return int(self.rate / 8 * self.seconds) >> 10 << 10

    @property
    def trip(self):
        """Seconds there and back, beside an empty queue."""
        return 2 * float(self.settings["delay"].removesuffix("ms")) / 1000


LINES = {
    "256kbit": Line(256e3, {"rate": "256kbit", "delay": "50ms", "queue": "2000ms"}),
    "1mbit": Line(1e6, {"rate": "1mbit", "delay": "300ms", "queue": "2000ms"}),
    "1mbit-near": Line(1e6, {"rate": "1mbit", "delay": "50ms", "queue": "2000ms"}, seconds=22),
    "5mbit": Line(5e6, {"rate": "5mbit", "delay": "10ms", "queue": "2000ms"}),
    "20mbit": Line(20e6, {"rate": "20mbit", "delay": "50ms", "queue": "2000ms"}),
    "20mbit-short": Line(20e6, {"rate": "20mbit", "delay": "10ms", "queue": "20p"}),
    "200mbit-short": Line(200e6, {"rate": "200mbit", "delay": "10ms", "queue": "20p"}, seconds=8),
}
KINDS = ["receiver", "s3", "tus", "form"]
# What is at the line's end, the line, and what the senders' windows go by.
CELLS = [
    *((kind, line, "cubic") for line in ("256kbit", "1mbit", "20mbit") for kind in KINDS),
    ("receiver", "20mbit", "bbr"), ("receiver", "200mbit-short", "bbr")]
MORE_CELLS = [
    *((kind, line, "bbr") for line in ("256kbit", "1mbit", "20mbit") for kind in KINDS if (kind, line, "bbr") not in CELLS),
    *((kind, "5mbit", congestion) for kind in KINDS for congestion in ("cubic", "bbr")),
    *(("receiver", "20mbit-short", congestion) for congestion in ("cubic", "bbr"))]
# Those that another flow shares.
SHARED = [("1mbit-near", "cubic")]
MORE_SHARED = [("1mbit-near", "bbr")]


def pytest_generate_tests(metafunc):
    """The rest is for scripts/test --long."""
    is_fresh = metafunc.config.getoption("--fresh")
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind, line, congestion", CELLS + (MORE_CELLS if is_fresh else []))
    elif "line" in metafunc.fixturenames:
        metafunc.parametrize("line, congestion", SHARED + (MORE_SHARED if is_fresh else []))


def network_with(new_network, congestion, *paths):
    """A network whose sockets have this congestion control; a test is skipped where the kernel lacks it."""
    try:
        return new_network(*paths, congestion=congestion)
    except NetworkError as error:
        if f"has no congestion control {congestion}" in str(error):
            pytest.skip(str(error))
        raise


def at_both_ends(network, host, new_receiver, new_mount, authority, *options):
    """A receiver under this address of the network's one end, and a mount at the other."""
    certificate = authority.issue("receiver", hosts=f"IP:{host}")
    receiver = new_receiver(
        certificate=certificate, ca=authority.certificate, host=host, prefix=network.server.prefix)
    return receiver, new_mount(receiver, *options, prefix=network.client.prefix)


@pytest.mark.parametrize("family", [4, 6])
def test_a_file_arrives_over_a_slow_line_with_loss(new_network, new_receiver, new_mount, authority, folder, family):
    network = new_network(
        path(rate="20mbit", delay="20ms", queue="100ms", upstream={"loss": 0.01}, downstream={"loss": 0.005}))
    host = network.server.address6 if family == 6 else network.server.address
    receiver, mount = at_both_ends(network, host, new_receiver, new_mount, authority)

    source = write_random(folder / "source", FILE_BYTES)
    readings = delivery(mount, source)

    assert receiver.published() == {"capture.bin": FILE_BYTES}
    assert sha256(receiver.files / "capture.bin") == sha256(source)
    upstream = network.path[0].counters()["upstream"]
    assert FILE_BYTES < upstream["out"]["bytes"] < 1.09 * FILE_BYTES and upstream["dropped"]["loss"]["packets"] > 0
    expect_nothing_broken_off(readings)
    expect_little_twice(readings[-1][1], FILE_BYTES)
    # The line is the only way there.
    with network.server.inside():
        assert receiver.stats()["files_published"] == 1


@pytest.mark.parametrize("family", [4, 6])
def test_a_path_that_swallows_full_packets_is_named_and_carries_the_file(
        new_network, new_receiver, new_mount, authority, folder, family):
    """A black hole of path MTU discovery: small packets pass, full ones are dropped, and nothing says so."""
    network = new_network(path(rate="50mbit", delay="5ms", upstream={"mtu": 1300, "too_big": "silent"}))
    host = network.server.address6 if family == 6 else network.server.address
    receiver, mount = at_both_ends(network, host, new_receiver, new_mount, authority)
    source = write_random(folder / "source", FILE_BYTES)
    subprocess.run(["cp", source, mount.root / "capture.bin"], check=True)
    hole = "do not arrive at"
    mount.readings("capture.bin", lambda reading: reading["last_error"] and hole in reading["last_error"]["message"], timeout=60)
    mount.wait_for("capture.bin", "complete", timeout=60)
    assert sha256(receiver.files / "capture.bin") == sha256(source)
    doctor = network.client.run(
        [MOUNT_TOOL, "doctor", "--to", receiver.url, "--token-file", receiver.token_file, "--ca", receiver.ca], check=False)
    assert doctor.returncode in (0, 15) and hole in doctor.stdout, doctor.stdout + doctor.stderr


def test_a_slow_line_is_used_once_and_progress_is_what_has_arrived(
        new_network, new_receiver, new_mount, authority, folder):
    """Regression: an upload that waited in a socket's buffer was broken off and sent again, and said 0 % until its end."""
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


@pytest.mark.promises("DE150")
def test_a_line_is_used_once_whatever_is_at_its_end(
        new_network, new_receiver, new_mount, authority, folder, kind, line, congestion):
    """Regression: time, bytes, percent and what is left of the time."""
    line = LINES[line]
    network = network_with(new_network, congestion, path(**line.settings))
    source = write_random(folder / "source", line.size)
    with contextlib.ExitStack() as stack:
        if kind == "receiver":
            # On a fast line these programs and the network want all processors, and others beside them may.
            receiver, mount = at_both_ends(
                network, network.server.address, new_receiver, new_mount, authority, "--upload-priority", "normal")
            published = reader(receiver.files)
        else:
            address, environment, published = Servers(network, folder, authority, stack).start(kind)
            mount = new_mount(
                None, to=address, ca=authority.certificate, environment=environment, prefix=network.client.prefix)
        readings = delivery(mount, source)
        assert published("capture.bin") == source.read_bytes()
        # Servers of other people take a moment to put a file together.
        expect_a_well_used_line(network, readings, line.size, line.rate, line.trip, 1 if kind == "receiver" else 5)
        expect_stakes(readings, kind)
        mount.close()


def test_a_line_is_shared_with_another_flow(new_network, new_receiver, new_mount, authority, folder, line, congestion):
    """The other flow has filled the queue before, and has no end."""
    line = LINES[line]
    network = network_with(new_network, congestion, path(**line.settings))
    receiver, mount = at_both_ends(network, network.server.address, new_receiver, new_mount, authority)
    size = line.size // 2
    with IperfServer(network) as iperf:
        other = iperf.start("--time", 120)
        time.sleep(2 + 5 * line.trip)
        readings = delivery(mount, write_random(folder / "source", size))
        assert other.poll() is None
        other.kill()
    assert receiver.published() == {"capture.bin": size}
    # A connection, with TLS, is made behind the full queue.
    set_up = 2 * (line.trip + float(line.settings["queue"].removesuffix("ms")) / 1000)
    assert readings[-1][0] < size * 8 / (0.8 * line.rate / 2 * header_share()) + set_up, readings[-1]
    expect_little_twice(readings[-1][1], size)
    expect_progress_twice_a_second(readings)


@pytest.mark.parametrize(
    ("loss", "option", "expected"), [(0.01, "auto", "bbr"), (0.01, "system", "cubic"), (0, "auto", "cubic")])
def test_connections_over_a_line_that_loses_packets_use_bbr(
        new_network, new_receiver, new_mount, authority, folder, loss, option, expected):
    """A queue of 20 packets drops some as well: where that is tried, it is in vain. Connections have bbr after two seconds; the file
    takes six."""
    size = 40 << 20 if expected == "bbr" else FILE_BYTES
    line = {"rate": "100mbit", "delay": "50ms", "queue": "100ms"} if loss else {"rate": "20mbit", "delay": "30ms", "queue": "20p"}
    network = new_network(path(**line, upstream={"loss": loss}), congestion="cubic")
    receiver, mount = at_both_ends(
        network, network.server.address, new_receiver, new_mount, authority, "--congestion", option)
    with open(mount.root / "capture.bin", "wb") as file:
        file.write(write_random(folder / "source", size).read_bytes())
    seen = ""
    while mount.status("capture.bin")["state"] != "complete":
        found = network.client.run(["ss", "--tcp", "--info", "--no-header", "--oneline", "dst", network.server.address]).stdout
        # Most of them: one that rests has what it had when it was used last.
        seen = max(("cubic", "bbr"), key=lambda name: found.count(f" {name} ")) if found else seen
        time.sleep(0.1)
    assert seen == expected
    assert network.path[0].counters()["upstream"]["dropped"]["queue" if not loss else "loss"]["packets"] > 4
    assert receiver.published() == {"capture.bin": size}


def over_a_changing_line(new_network, new_receiver, new_mount, authority, folder, size, queue, fast, slow, slow_from, slow_to):
    """Readings of a delivery over a line that is fast, slow between these seconds, and fast again. Nothing of it breaks off."""
    network = new_network(path(rate=fast, delay="20ms", queue=queue))
    receiver, mount = at_both_ends(
        network, network.server.address, new_receiver, new_mount, authority, "--upload-priority", "normal")
    source = write_random(folder / "source", size)
    network.path[0].after(slow_from, rate=slow)
    network.path[0].after(slow_to, rate=fast)
    readings = delivery(mount, source)
    assert sha256(receiver.files / "capture.bin") == sha256(source)
    expect_nothing_broken_off(readings)
    expect_little_twice(readings[-1][1], size)
    return readings


def most(readings, start, end, number):
    """The largest number that a status gives between these seconds, while anything is under way."""
    return max(number(status) for at, status in readings if start <= at < end and status["connection"]["streams"])


def test_streams_follow_a_line_that_changes(request, new_network, new_receiver, new_mount, authority, folder):
    """Down, once what is under way has arrived: at least a chunk of each stream. Up at once."""
    if not request.config.getoption("--fresh"):
        pytest.skip("with --fresh only: it takes half a minute")
    readings = over_a_changing_line(
        new_network, new_receiver, new_mount, authority, folder, 18 << 20, "200p", "8mbit", "2mbit", slow_from=9, slow_to=25)
    before, slow, after = (
        most(readings, start, end, lambda status: status["connection"]["streams"]) for start, end in [(3, 9), (24, 25), (25, 30)])
    assert slow + 3 <= min(before, after), (before, slow, after)


def test_the_length_of_requests_follows_a_line_that_changes(new_network, new_receiver, new_mount, authority, folder):
    """By the chunks under way beside the requests that carry them. Down as requests end, and up as soon as the line is fast."""
    readings = over_a_changing_line(
        new_network, new_receiver, new_mount, authority, folder, 112 << 20, "500p", "80mbit", "20mbit", slow_from=5, slow_to=18)
    lengths = [
        (at, status["chunks"]["in_flight"] / status["connection"]["streams"])
        for at, status in readings if status["connection"]["streams"]]
    before, after = (max(length for at, length in lengths if start <= at < end) for start, end in [(2, 5), (18, 25)])
    slow = min(length for at, length in lengths if 12 <= at < 19)
    assert 1.3 * slow < min(before, after), (before, slow, after)


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


def expect_little_twice(status, size):
    """At its end a chunk that crawls on a line with room may go twice: of a twentieth of the file, or a few."""
    assert status["chunks"]["retried"] * status["chunks"]["size"] <= max(0.05 * size, 3 * status["chunks"]["size"]), status


def expect_nothing_broken_off(readings):
    assert not any(reading["last_error"] or reading["attempts"] for _, reading in readings), readings[-1]


def streams_of(readings):
    return max(reading["connection"]["streams"] for _, reading in readings)


def expect_a_well_used_line(network, readings, size, rate, trip, slack=1):
    """Nothing went twice or took longer than the line, and what was shown was true."""
    took, status = readings[-1]
    sent = network.path[0].counters()["upstream"]["out"]["bytes"]
    assert sent < 1.07 * size, (sent, status)
    expect_little_twice(status, size)
    if took > sent * 8 / rate * 1.05 + 6 * trip + slack:
        # A queue may be too short for any sender.
        with IperfServer(network) as iperf:
            others = received_rate(iperf.run("--time", 8, "--omit", 2, "--parallel", streams_of(readings)))
        assert took < size * 8 / (0.95 * others) + slack, (took, others)
    expect_progress_twice_a_second(readings)
    percents = [(at, reading["percent"]) for at, reading in readings if 1 < reading["percent"] < 99]
    # What had arrived of a chunk that goes again is shown no longer.
    fallen = sum(max(0, before - after) for (_, before), (_, after) in zip(percents, percents[1:]))
    assert fallen <= 100 * status["chunks"]["retried"] * status["chunks"]["size"] / size + 0.01, percents
    late = [(took - at, reading["eta_seconds"]) for at, reading in readings if at > 10 and reading["percent"] < 90]
    known = [(left, eta) for left, eta in late if eta is not None]
    assert len(known) >= len(late) / 2 and all(abs(eta - left) < 0.3 * left + 1 for left, eta in known), known


def expect_stakes(readings, kind):
    """What a break would cost at the time (DE150): at a form all of it, elsewhere a chunk of each stream at most."""
    for _, reading in readings:
        if reading["state"] != "uploading" or reading["percent"] > 99:
            continue
        sent, size, streams = reading["bytes"]["sent"], reading["chunks"]["size"], reading["connection"]["streams"]
        stake = reading["at_stake_bytes"]
        assert stake == sent if kind == "form" else stake <= size * max(1, streams), reading


def expect_progress_twice_a_second(readings):
    """While bytes move: the first and the last ones wait for their answers."""
    percents = [(at, reading["percent"]) for at, reading in readings if 1 < reading["percent"] < 99]
    changes = [now for (_, before), (now, after) in zip(percents, percents[1:]) if before != after]
    seconds = percents[-1][0] - percents[0][0]
    assert len(changes) >= 2 * seconds - 2, changes


def test_a_kill_on_a_slow_line_costs_a_chunk_of_each_stream(new_network, new_receiver, new_mount, authority, folder):
    """Regression: a file of up to 4 MiB went in one request, and twelve chunks of 4 MiB at once: leaving lost minutes."""
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
