"""The network with real sockets: what it does to TCP and UDP, and that nothing of it is left."""

import contextlib
import fcntl
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import time

import pytest

from iperf import IperfServer, received_rate
from network import NetworkError, header_share, path
from program import network_program
from promises import require
from replay import balance, packets, replay

FOLDER = pathlib.Path(__file__).resolve().parent
OWN = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")
ALLOWED = pathlib.Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")


def wait_until(condition, what, timeout=30):
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(0.01)
    return result


def dropped(counters, cause):
    return counters["dropped"][cause]["packets"]


class Datagrams:
    """Numbered UDP packets of `length` bytes, headers included, from the client to the server."""

    def __init__(self, network, length=228):
        with network.server.inside():
            self.server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with network.client.inside():
            self.client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.server.bind((network.server.address, 0))
        self.client.connect(self.server.getsockname())
        self.network = network
        self.length = length

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()
        self.server.close()

    def send(self, numbers):
        for number in numbers:
            self.client.send(number.to_bytes(4, "big").ljust(self.length - 28, b"\0"))

    def arrived(self):
        """The numbers of those that have come so far, when no more are on their way."""
        wait_until(self._nothing_is_under_way, "all packets arrive or are dropped")
        numbers = []
        while select.select([self.server], [], [], 0)[0]:
            numbers.append(int.from_bytes(self.server.recv(2048)[:4], "big"))
        return numbers

    def _nothing_is_under_way(self):
        readings = self.network.path[0].counters()["upstream"]
        return readings["queued"]["packets"] == readings["flying"]["packets"] == 0


def round_trip(side, address, *options, count=10):
    """Milliseconds of the fastest of some pings."""
    text = side.run(["ping", "-n", "-c", count, "-i", "0.02", *options, address]).stdout
    return float(re.search(r"= ([\d.]+)/", text)[1])


# What packets feel


@pytest.mark.parametrize("family", [4, 6])
def test_the_delay_is_the_one_asked_for(new_network, family):
    network = new_network(path(upstream={"delay": "35ms"}, downstream={"delay": "15ms"}))
    address = network.server.address6 if family == 6 else network.server.address
    assert 50 <= round_trip(network.client, address) < 53


def test_a_setting_can_change_while_it_runs(new_network):
    network = new_network()
    assert round_trip(network.client, network.server.address) < 5
    network.path[0].set(delay="30ms")
    assert 60 <= round_trip(network.client, network.server.address) < 65
    with pytest.raises(NetworkError, match="speed cannot be 3"):
        network.path[0].set(speed=3)


def test_the_packets_that_are_lost_are_those_of_the_seed(new_network):
    network = new_network(path(upstream={"loss": 0.05}), seed=7)
    expected = replay("set 0 upstream loss=0.05", packets(3000), seed=7).numbers("out")
    with Datagrams(network) as datagrams:
        datagrams.send(range(3000))
        assert datagrams.arrived() == expected
    upstream = network.path[0].counters()["upstream"]
    assert dropped(upstream, "loss") == 3000 - len(expected) > 100
    assert balance(upstream) == (0, 0)


def test_packets_come_twice_and_out_of_order_as_counted(new_network):
    faults = {"reorder": 0.05, "reorder_by": "4ms", "duplicate": 0.05}
    network = new_network(path(rate="20mbit", queue="2s", upstream=faults))
    with Datagrams(network) as datagrams:
        datagrams.send(range(2000))
        arrived = datagrams.arrived()
    upstream = network.path[0].counters()["upstream"]
    assert set(arrived) == set(range(2000))
    assert len(arrived) - 2000 == upstream["duplicated"]["packets"] > 50
    latest, overtaken = -1, 0
    for number in arrived:
        overtaken += number < latest
        latest = max(latest, number)
    assert overtaken == upstream["reordered"] > 50


@pytest.mark.parametrize(("queue", "held"), [("20p", 21), ("50ms", 51)])
def test_a_queue_holds_what_its_bound_says(new_network, queue, held):
    # One packet takes a millisecond; they come faster than ten of them can leave.
    network = new_network(path(upstream={"rate": "8mbit", "queue": queue}))
    with Datagrams(network, length=1000) as datagrams:
        datagrams.send(range(300))
        arrived = datagrams.arrived()
    upstream = network.path[0].counters()["upstream"]
    assert arrived[:held] == list(range(held)) and held <= len(arrived) < held + 60
    assert dropped(upstream, "queue") == 300 - len(arrived)
    assert upstream["queue_packets_most"] <= held - 1 and upstream["queue_seconds_most"] <= (held - 1) / 1000


def test_a_path_goes_down_and_up_by_schedule(new_network):
    network = new_network(path(schedule={0.3: {"down": True}, 0.6: {"down": False}}))
    began, number, came = time.monotonic(), 0, {}
    with Datagrams(network) as datagrams:
        while (now := time.monotonic() - began) < 1:
            datagrams.send([number])
            came[number] = now
            number += 1
            select.select([], [], [], 0.005)
        arrived = set(datagrams.arrived())
    lost = [moment for number, moment in came.items() if number not in arrived]
    assert dropped(network.path[0].counters()["upstream"], "down") == len(lost) > 10
    # The schedule began a little before.
    assert 0.2 < min(lost) < 0.35 and 0.5 < max(lost) < 0.65
    assert all(number in arrived for number, moment in came.items() if not min(lost) <= moment <= max(lost))


# Large packets


def addresses(network):
    return network.server.address, network.server.address6


def transfer(network, address, size, timeout):
    """Sends `size` bytes from client to server over TCP; how many arrived before the time was over."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.ExitStack() as stack:
        with network.server.inside():
            listener = stack.enter_context(socket.create_server((address, 0), family=family))
        with network.client.inside():
            client = stack.enter_context(socket.create_connection(listener.getsockname()[:2], timeout=10))
        server, _ = listener.accept()
        stack.enter_context(server)
        client.setblocking(False)
        server.setblocking(False)
        deadline, sent, arrived = time.monotonic() + timeout, 0, 0
        while arrived < size and (left := deadline - time.monotonic()) > 0:
            readable, writable, _ = select.select([server], [client] if sent < size else [], [], left)
            if writable:
                sent += client.send(bytes(min(size - sent, 1 << 16)))
            if readable:
                arrived += len(server.recv(1 << 18))
        return arrived


@pytest.mark.parametrize("family", [4, 6])
def test_tcp_finds_the_mtu_of_a_path_that_tells_it(new_network, family):
    network = new_network(path(mtu=1300, delay="5ms"))
    address = addresses(network)[family == 6]
    assert transfer(network, address, 1 << 20, timeout=10) == 1 << 20
    upstream = network.path[0].counters()["upstream"]
    assert 0 < upstream["signals"] <= dropped(upstream, "too_big") < 60
    source = network.path[0].addresses(family)[0]
    assert "mtu 1300" in network.client.run(["ip", "route", "get", address, "from", source]).stdout


@pytest.mark.parametrize("family", [4, 6])
def test_a_path_that_does_not_tell_its_mtu_is_a_black_hole(new_network, family):
    network = new_network(path(mtu=1300, too_big="silent"))
    address = addresses(network)[family == 6]
    assert transfer(network, address, 1000, timeout=10) == 1000
    assert transfer(network, address, 1 << 20, timeout=1) == 0
    upstream = network.path[0].counters()["upstream"]
    assert upstream["signals"] == 0 < dropped(upstream, "too_big")


def test_nothing_larger_than_the_mtu_is_one_packet(new_network):
    network = new_network(path(rate="100mbit", queue="200ms", delay="5ms"))
    assert transfer(network, network.server.address, 4 << 20, timeout=20) == 4 << 20
    upstream = network.path[0].counters()["upstream"]
    # 1448 bytes of the stream in each.
    assert dropped(upstream, "too_big") == 0 and upstream["in"]["packets"] >= (4 << 20) / 1448


def test_datagrams_that_the_kernel_is_given_as_one_are_packets_each(new_network):
    """As programs that speak QUIC send them (UDP_SEGMENT)."""
    network = new_network()
    with Datagrams(network) as datagrams:
        datagrams.client.setsockopt(socket.IPPROTO_UDP, 103, 1200)
        datagrams.client.send(bytes(12_000))
        assert len(datagrams.arrived()) == 10
    upstream = network.path[0].counters()["upstream"]
    assert upstream["in"] == {"packets": 10, "bytes": 12_280}


# Several paths


def test_two_paths_at_once(new_network):
    network = new_network(path(name="wifi", delay="5ms"), path(name="lte", delay="30ms"))
    wifi, lte = network.paths
    for each, least in ((wifi, 10), (lte, 60)):
        for family in (4, 6):
            source = each.addresses(family)[0]
            fastest = round_trip(network.client, addresses(network)[family == 6], "-I", source, count=3)
            assert least <= fastest < least + 5
    assert [each.counters()["upstream"]["in"]["packets"] for each in network.paths] == [6, 6]
    # Without a choice it is the first one, while that is there.
    assert round_trip(network.client, network.server.address, count=3) < 15
    network.client.run(["ip", "link", "set", "wifi", "down"])
    assert 60 <= round_trip(network.client, network.server.address, count=3) < 65


def test_networks_side_by_side_are_strangers(new_network):
    one, other = new_network(path(delay="5ms")), new_network(path(delay="25ms"))
    assert round_trip(one.client, one.server.address, count=3) < 15
    assert 50 <= round_trip(other.client, other.server.address, count=4) < 55
    readings = [network.path[0].counters()["upstream"]["in"]["packets"] for network in (one, other)]
    assert readings == [3, 4]


# How much it carries

SHORT = [("1mbit", "cubic"), ("20mbit", "bbr"), ("200mbit", "cubic"), ("200mbit", "bbr")]
LONG = [
    (rate, congestion) for rate in ("1mbit", "5mbit", "20mbit", "100mbit", "200mbit", "400mbit")
    for congestion in ("cubic", "bbr")]


@pytest.mark.parametrize(
    ("rate", "congestion", "seconds", "ipv6"), [
        *[pytest.param(*which, 3, False) for which in SHORT],
        *[pytest.param(*which, 8, ipv6, marks=pytest.mark.all_rates) for which in LONG for ipv6 in (False, True)]])
def test_a_stream_gets_what_the_headers_leave(new_network, rate, congestion, seconds, ipv6):
    # A queue that holds what is under way, so that neither control has a reason to leave the line idle.
    network = new_network(path(rate=rate, delay="5ms", queue="1s" if rate == "1mbit" else "100ms"), congestion=congestion)
    with IperfServer(network) as iperf:
        result = iperf.run("--time", seconds, "--omit", 1, address=addresses(network)[ipv6])
    assert result["end"]["sender_tcp_congestion"] == congestion
    share = received_rate(result) / (int(rate.removesuffix("mbit")) * 1e6)
    reading = network.path[0].counters()
    assert share >= 0.97 * header_share(ipv6=ipv6), reading
    # More than the line carries would be no line. The first second, which is left out, may have left a queue behind.
    assert share <= header_share(ipv6=ipv6) * (1 + (1.0 if rate == "1mbit" else 0.1) / seconds)
    for direction in ("upstream", "downstream"):
        assert reading[direction]["missed"] == dropped(reading[direction], "overflow") == 0


def test_the_kernel_counts_the_same(new_network):
    network = new_network(path(rate="50mbit", loss=0.01, duplicate=0.01))
    assert transfer(network, network.server.address, 2 << 20, timeout=30) == 2 << 20
    with Datagrams(network) as datagrams:
        datagrams.arrived()
        upstream = network.path[0].counters()["upstream"]
        for side, column, kind in ((network.client, 8, "in"), (network.server, 0, "out")):
            text = side.run(["cat", "/proc/net/dev"]).stdout
            fields = [int(field) for field in re.search(r"path0:(.*)", text)[1].split()]
            assert {"bytes": fields[column], "packets": fields[column + 1]} == upstream[kind]


def test_a_stream_beside_takes_its_share(new_network):
    network = new_network(path(rate="20mbit", delay="5ms", queue="100ms"))
    with IperfServer(network, 5201) as one, IperfServer(network, 5202) as other:
        running = [iperf.start("--time", 4, "--omit", 1) for iperf in (one, other)]
        rates = [received_rate(one.result(process)) for process in running]
    assert min(rates) > 20e6 * 0.15
    assert sum(rates) == pytest.approx(20e6 * header_share(), rel=0.05)


def test_a_sender_beside_takes_its_share_from_a_stream(new_network):
    network = new_network(path(rate="20mbit", delay="5ms", queue="100ms", upstream={"beside": "10mbit"}))
    with IperfServer(network) as iperf:
        rate = received_rate(iperf.run("--time", 2, "--omit", 1))
    assert 0.35 * 20e6 < rate < 0.6 * 20e6
    upstream = network.path[0].counters()["upstream"]
    assert upstream["beside"]["bytes"] > 0.7 * 10e6 / 8 * 3


# Congestion control


@contextlib.contextmanager
def settings_at_rest():
    """No network that starts has one more allowed meanwhile."""
    with open("/dev/net/tun", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def machine_settings():
    """The machine's own control, and those that it allows."""
    with settings_at_rest():
        return OWN.read_text(), ALLOWED.read_text()


@pytest.fixture
def forbidden():
    """Makes the machine's list one without a name, so that there is something to put back; the test's end restores it."""
    require("root")
    _, before = machine_settings()

    def forbid(name):
        with settings_at_rest():
            if name in before.split():
                ALLOWED.write_text(" ".join(each for each in before.split() if each != name))

    yield forbid
    with settings_at_rest():
        if ALLOWED.read_text() != before:
            ALLOWED.write_text(before)


def socket_congestion(side):
    with side.inside(), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        return one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


@pytest.mark.parametrize("congestion", ["cubic", "bbr"])
def test_sockets_have_the_congestion_control_asked_for(new_network, forbidden, congestion):
    forbidden(congestion)
    before = machine_settings()
    network = new_network(congestion=congestion)
    assert machine_settings() == before
    for side in (network.client, network.server):
        assert side.congestion == socket_congestion(side) == congestion


def test_what_the_kernel_lacks_is_refused(new_network):
    with pytest.raises(NetworkError, match="has no congestion control nonesuch"):
        new_network(congestion="nonesuch")


def test_the_machine_keeps_its_own_setting_when_the_start_is_killed(forbidden):
    """Killed, with its group, in the moment in which the list has the other name."""
    forbidden("cubic")
    before, met = machine_settings(), 0
    for _ in range(1000):
        process = subprocess.Popen(
            [network_program(), "--congestion", "cubic", "path0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True)
        list_file = os.open(ALLOWED, os.O_RDONLY)
        while not select.select([process.stdout], [], [], 0)[0]:
            if os.pread(list_file, 500, 0).decode() != before[1]:
                met += 1
                break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(list_file)
        process.stdin.close()
        process.stdout.read()  # ends when the last one that holds it has ended
        process.stdout.close()
        assert machine_settings() == before
        if met == 3:
            break
    assert met > 0, "no start was killed in that moment"


# What is left

ABANDONED = f"""
import pathlib, signal, subprocess, sys, time
sys.path.insert(0, {str(FOLDER)!r})
from network import Network
network = Network().start()
# It holds the pipe, too, through which the program would see its parent's end.
pipe = network._process.stdin.fileno()
program = network.server.popen(["sleep", "1000"], start_new_session=True, pass_fds=[pipe])
# What has not entered the namespace yet is not found in it.
while pathlib.Path(f"/proc/{{program.pid}}/comm").read_text() != "sleep\\n":
    time.sleep(0.001)
print(network.pid, program.pid, flush=True)
signal.pause()
"""


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_nothing_is_left_of_a_test_that_was_killed():
    require("root")
    test = subprocess.Popen([sys.executable, "-c", ABANDONED], stdout=subprocess.PIPE, text=True)
    pids = [int(word) for word in test.stdout.readline().split()]
    assert len(pids) == 2 and all(map(is_running, pids))
    test.send_signal(signal.SIGKILL)
    test.wait()
    test.stdout.close()
    wait_until(lambda: not any(map(is_running, pids)), f"{pids} end")


def test_what_a_test_forgot_is_ended_and_told(new_network):
    network = new_network()
    forgotten = subprocess.Popen([*network.client.prefix, "sleep", "1000"])
    wait_until(lambda: pathlib.Path(f"/proc/{forgotten.pid}/comm").read_text() == "sleep\n", "it has entered")
    network.close()
    assert forgotten.wait(10) == -signal.SIGTERM
    assert network.left == 1
    network.left = 0
