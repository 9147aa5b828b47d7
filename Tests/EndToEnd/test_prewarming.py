"""What the first byte of a file costs after its close, over a line with a round trip of 100 ms (Tests/Network).

The packets are counted where they leave the line, by the kernel's own times. The control is a file for which nothing was prepared: the
first one of a mount, from its open on, which is closed at once.
"""

import os
import pathlib
import socket
import struct
import threading
import time

import pytest

from harness import clean_environment, wait_until
from network import path
from s3_servers import Rclone, credentials
from test_interrupted import preloaded
from test_tus import new_tus  # noqa: F401 — a fixture

ROUND_TRIP = 0.1
# Half of a round trip to the server, and what reading, hashing and a busy machine take: less than a handshake or a question adds.
SOON = 1.5 * ROUND_TRIP
# Requests without a body, and handshakes, have shorter packets.
DATA_BYTES = 1200
LARGE, SMALL = 12 << 20, 1 << 20
# One machine does everything here, and may be busy.
TRIES = 5

_ETH_P_IP = 0x0800
_OUTGOING = 4
_SO_TIMESTAMPNS = 35
_TCP, _SYN, _ACK = 6, 0x02, 0x10


class Arrivals:
    """The client's packets at the server's end of a path: (time, port, whether it opens a connection, bytes of data)."""

    def __init__(self, network):
        with network.server.inside():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_IP))
            self._socket.bind((network.path[0].name, _ETH_P_IP))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 20)
        self._socket.settimeout(0.1)
        self.packets = []
        self._ends = False
        self._thread = threading.Thread(target=self._read)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ends = True
        self._thread.join()
        self._socket.close()

    def _read(self):
        while not self._ends:
            try:
                packet, ancillary, _, address = self._socket.recvmsg(128, 64)
            except TimeoutError:
                continue
            header = (packet[0] & 15) * 4
            if address[2] == _OUTGOING or packet[9] != _TCP or len(packet) < header + 20:
                continue
            seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
            port, = struct.unpack_from("!H", packet, header)
            flags = packet[header + 13]
            data = struct.unpack_from("!H", packet, 2)[0] - header - (packet[header + 12] >> 4) * 4
            self.packets.append((seconds + nanoseconds / 1e9, port, flags & (_SYN | _ACK) == _SYN, data))

    def first_data(self, after):
        """The first full packet after that, or any packet, and which of the client's first packets came well before it."""
        data = wait_until(lambda: next((each for each in self.since(after) if each[3] >= DATA_BYTES), None), lambda: "data arrive")
        earlier = [each for each in self.since(after) if (each[2] or each[3]) and each[0] < data[0] - ROUND_TRIP / 2]
        return data, earlier

    def since(self, time):
        return [each for each in list(self.packets) if each[0] > time]

    def ports_opened(self, until):
        return {port for at, port, opens, _ in list(self.packets) if opens and at <= until}


class Relay:
    """Listens at the server's end of a network, for a server on the loopback of this machine."""

    def __init__(self, network, target_port):
        with network.server.inside():
            self._listener = socket.create_server((network.server.address, 0))
        self.place = f"{network.server.address}:{self._listener.getsockname()[1]}"
        self._target_port = target_port
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        for each in self._sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target_port))
            self._sockets += [near, far]
            for each in (near, far):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    @staticmethod
    def _pump(source, target):
        try:
            while piece := source.recv(1 << 16):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@pytest.fixture
def network(new_network):
    return new_network(path(rate="200mbit", delay="50ms", queue="500ms"))


@pytest.fixture
def relay(network):
    made = []

    def make(port):
        made.append(Relay(network, port))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def new_client(network, relay, new_receiver, new_mount, new_s3, new_tus, authority):  # noqa: F811
    """Mounts at the client's end, of a server of a kind at the other; each with folders of its own."""
    servers = {}

    def server(kind):
        if kind == "receiver":
            return new_receiver(
                certificate=authority.issue("receiver", hosts=f"IP:{network.server.address}"), ca=authority.certificate,
                host=network.server.address, prefix=network.server.prefix)
        return new_s3(Rclone) if kind == "s3" else new_tus(kind)

    def make(kind, name):
        if kind not in servers:
            made = server(kind)
            servers[kind] = made, None if kind == "receiver" else relay(made.port)
        made, front = servers[kind]
        options = {"name": name, "prefix": network.client.prefix}
        if kind == "receiver":
            return new_mount(made, "--upload", "on-close", **options)
        words = ("--upload", "on-close", "--allow-plain-http", "--max-file-size", "1GB")
        to = made.url().replace(f"127.0.0.1:{made.port}", front.place)
        environment = credentials() if kind == "s3" else clean_environment()
        return new_mount(None, *words, to=to, environment=environment, **options)

    return make


def first_byte(mount, arrivals, name, size, is_ready):
    """How long the first byte of a file takes after its close, or where it is not made ready after its open; whether its connection
    was there by then, and what else came more than half a round trip before that byte; and how the file was delivered."""
    content = os.urandom(size)
    before = time.time()
    with open(mount.root / name, "wb", buffering=0) as file:
        file.write(content)
        if is_ready:
            mount.readings(name, is_ready)
            before = time.time()
    data, earlier = arrivals.first_data(before)
    was_there = data[1] in arrivals.ports_opened(until=before)
    return data[0] - before, was_there, earlier, mount.wait_for(name, "complete")["connection"]


def has_stages(reading):
    return reading["connection"]["prewarm"] and reading["connection"]["prewarm"]["answer"] is not None


def has_session(reading):
    return has_stages(reading) and reading["resume"]["session"]


# Kind of the server, size, what is there before the close, and questions between close and first byte: an S3 server that does not
# refuse names that are taken, as this one, is asked whether one is, for an upload when that is opened.
CASES = {
    "receiver, one request": ("receiver", SMALL, has_stages, 0),
    "receiver, chunks": ("receiver", LARGE, has_session, 0),
    "tus, one upload": ("deferred-length", LARGE, has_session, 0),
    "tus, partial uploads": ("tuspyserver", LARGE, has_session, 0),
    "s3, one request": ("s3", SMALL, has_stages, 1),
    "s3, parts": ("s3", LARGE, has_session, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_the_first_byte_after_a_close_waits_for_nothing(case, network, new_client):
    kind, size, is_ready, questions = CASES[case]
    with Arrivals(network) as arrivals:
        cold, _, earlier, _ = first_byte(new_client(kind, "cold"), arrivals, "cold.bin", size, None)
        assert len(earlier) > questions and cold > 1.5 * ROUND_TRIP, f"nothing was prepared: {cold:.3f} s, {earlier}"
        mount = new_client(kind, "warm")
        results = []
        for number in range(TRIES):
            took, was_there, earlier, connection = first_byte(mount, arrivals, f"warm{number}.bin", size, is_ready)
            assert was_there, "the connection was made before the close"
            assert len(earlier) == questions and not any(opens for _, _, opens, _ in earlier), earlier
            assert connection["prewarmed"] is True
            stages = connection["prewarm"]
            assert stages["connect"] > 0.9 * ROUND_TRIP and stages["answer"] > 0.9 * ROUND_TRIP
            assert stages["tls"] > 0.9 * ROUND_TRIP if kind == "receiver" else stages["tls"] == 0
            assert is_ready is has_stages or stages["session"] > 0.9 * ROUND_TRIP
            results.append(took - questions * ROUND_TRIP)
            if results[-1] < SOON:
                break
        print(f"{case}: {cold:.3f} s where nothing was prepared, else {min(results) + questions * ROUND_TRIP:.3f} s")
        assert min(results) < SOON, results


def is_resolving(mount):
    tasks = pathlib.Path("/proc", str(mount.summary()["process"]["pid"]), "task").glob("*/comm")
    return any(task.read_text().startswith("resolver") for task in tasks)


def test_the_name_was_asked_for_when_the_mount_began(network, relay, new_form, new_mount, folder):
    """The resolver takes a second for each question; the first open waits for none."""
    names = folder / "names"
    names.write_text(f"4 {network.server.address} 1000\n")
    # Nothing is asked of a form before there is a file.
    form = new_form()
    place = relay(form.port).place.replace(network.server.address, "upload.test")
    mount = new_mount(
        None, "--basic-auth-file", form.password_file, "--allow-plain-http",
        to=form.url().replace(f"127.0.0.1:{form.port}", place), prefix=network.client.prefix,
        environment=clean_environment(LD_PRELOAD=preloaded(folder, "slow_names"), NAMES=names))
    wait_until(lambda: is_resolving(mount), lambda: "the name is asked for")
    wait_until(lambda: not is_resolving(mount), lambda: "the name is known")
    with open(mount.root / "capture.bin", "wb", buffering=0) as file:
        file.write(os.urandom(SMALL))
        prewarm = mount.readings("capture.bin", has_stages)[-1]["connection"]["prewarm"]
    assert prewarm["names"] < 0.5
    mount.wait_for("capture.bin", "complete")
