"""Two network namespaces, and paths between them that delay, limit and lose packets. README.md says what they can do."""

import contextlib
import ctypes
import json
import socket
import subprocess
import tempfile
import threading
import time

from program import network_program

DIRECTIONS = ("upstream", "downstream")
# An end that takes longer than this is none.
SOON = 60

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_RTF_LOCAL = 0x80000000


class NetworkError(Exception):
    """The network could not be made, or refuses what it was told."""


def path(name=None, interface_mtu=1500, upstream=None, downstream=None, schedule=None, **both):
    """What a path is made from: settings for both directions, and what one of them has for itself.

    `schedule` holds later changes: seconds after the start → settings.
    """
    return {
        "name": name, "interface_mtu": interface_mtu, "both": both, "upstream": upstream or {},
        "downstream": downstream or {}, "schedule": schedule or {}}


def header_share(mtu=1500, ipv6=False):
    """The share of a line that is left for a TCP stream's bytes: without the headers of IP and TCP, with timestamps."""
    return (mtu - (40 if ipv6 else 20) - 32) / mtu


def _words(settings):
    values = {name: int(value) if isinstance(value, bool) else value for name, value in settings.items()}
    return " ".join(f"{name.replace('_', '-')}={value}" for name, value in values.items())


class Side:
    """One of the two namespaces, and what runs in it."""

    def __init__(self, namespace, congestion, address, address6):
        self.namespace = namespace
        self.congestion = congestion
        self.address = address
        self.address6 = address6
        self._started = []

    @property
    def prefix(self):
        """The words before a command that is to run here."""
        return ("nsenter", f"--net={self.namespace}")

    def popen(self, arguments, **options):
        """As subprocess.Popen. What still runs when the network ends is killed."""
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([*self.prefix, *map(str, arguments)], **options)
        self._started.append(process)
        return process

    def run(self, arguments, **options):
        """As subprocess.run, with text and both outputs, and an error for a status that is not 0."""
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        options = {"capture_output": True, "text": True, "check": True, "timeout": SOON} | options
        return subprocess.run([*self.prefix, *map(str, arguments)], **options)

    @contextlib.contextmanager
    def inside(self):
        """The calling thread is in the namespace: sockets that it opens and programs that it starts belong there."""
        with open("/proc/thread-self/ns/net", "rb") as before, open(self.namespace, "rb") as here:
            _enter(here)
            try:
                yield self
            finally:
                _enter(before)

    def close(self):
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait(SOON)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()


def _enter(namespace):
    if _libc.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Path:
    """One path of a running network: a device of the same name on each side."""

    def __init__(self, network, index, options):
        self._network = network
        self.index = index
        self.name = options["name"] or f"path{index}"
        self.options = options
        self.client_address, self.server_address = f"10.77.{index}.2", f"10.77.{index}.1"
        self.client_address6, self.server_address6 = f"fd77:0:0:{index}::2", f"fd77:0:0:{index}::1"

    @property
    def has_ipv6(self):
        return self.options["interface_mtu"] >= 1280

    def addresses(self, family):
        """Those of the client and of the server."""
        if family == 6:
            return self.client_address6, self.server_address6
        return self.client_address, self.server_address

    def set(self, direction="both", **settings):
        """Changes settings at once, of one direction or of both."""
        self._network.command(f"set {self.index} {direction} {_words(settings)}")

    def after(self, seconds, direction="both", **settings):
        """Changes settings so many seconds from now."""
        self._network.command(f"at {seconds} set {self.index} {direction} {_words(settings)}")

    def counters(self):
        return self._network.counters()["paths"][self.index]

    def apply_options(self):
        for direction in ("both", *DIRECTIONS):
            if self.options[direction]:
                self.set(direction, **self.options[direction])
        for seconds, settings in self.options["schedule"].items():
            self.after(seconds, **settings)


class Network:
    """Both namespaces with their paths, as long as the `with` lasts."""

    # Where the server is found over every path; the client's routes prefer the first one.
    server_address, server_address6 = "10.77.255.1", "fd77:0:0:ff::1"

    def __init__(self, *paths, congestion="cubic", seed=1, packets=None):
        self._options = paths or (path(),)
        self._congestion = congestion
        self._seed = seed
        self._packets = packets
        self._lock = threading.Lock()
        self._process = None
        self.final_counters = None
        self.left = 0  # processes that had to be ended in the namespaces

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def start(self):
        self.paths = [Path(self, index, options) for index, options in enumerate(self._options)]
        arguments = [network_program(), "--seed", self._seed]
        if self._congestion:
            arguments += ["--congestion", self._congestion]
        if self._packets:
            arguments += ["--packets", self._packets]
        arguments += [f"{path.name}:{path.options['interface_mtu']}" for path in self.paths]
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [str(argument) for argument in arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            text=True, start_new_session=True)
        try:
            ready = self._answer()
            first = self.paths[0]
            self.client = Side(**ready["client"], address=first.client_address, address6=first.client_address6)
            self.server = Side(**ready["server"], address=self.server_address, address6=self.server_address6)
            for side in (self.client, self.server):
                self._set_up(side)
            for each in self.paths:
                each.apply_options()
        except BaseException:
            self._process.kill()
            self._forget()
            raise
        return self

    @property
    def path(self):
        return self.paths

    @property
    def pid(self):
        return self._process.pid

    def _set_up(self, side):
        if self._congestion and side.congestion != self._congestion:
            raise NetworkError(f"a namespace has the congestion control {side.congestion}, not {self._congestion}")
        with side.inside():
            # A connection does not start with what an earlier one has learned.
            with open("/proc/sys/net/ipv4/tcp_no_metrics_save", "w") as setting:
                setting.write("1")
        for family in (4, 6):
            commands = ["link set dev lo up"]
            if side is self.server:
                address = self.server_address6 if family == 6 else self.server_address
                commands.append(_address_command(family, "lo", address))
            for each in self.paths:
                commands += _device_commands(each, family, side is self.client)
            done = subprocess.run(
                [*side.prefix, "ip", f"-{family}", "-batch", "-"], input="\n".join(commands) + "\n", capture_output=True,
                text=True)
            if done.returncode != 0:
                raise NetworkError(f"ip -batch:\n{done.stderr}{done.stdout}")
        self._wait_for_addresses(side)

    def _wait_for_addresses(self, side):
        """The kernel makes an IPv6 address reachable a little after it was added."""
        addresses = [each.addresses(6)[side is self.server] for each in self.paths if each.has_ipv6]
        if side is self.server:
            addresses.append(self.server_address6)
        # A local route to all 128 bits.
        wanted = {socket.inet_pton(socket.AF_INET6, address).hex() for address in addresses}
        deadline = time.monotonic() + SOON
        with side.inside():
            while wanted:
                with open("/proc/thread-self/net/ipv6_route") as routes:
                    fields = [line.split() for line in routes]
                wanted -= {route[0] for route in fields if route[1] == "80" and int(route[8], 16) & _RTF_LOCAL}
                if time.monotonic() > deadline:
                    raise NetworkError(f"no local routes to {', '.join(addresses)}")
                time.sleep(0.001 if wanted else 0)

    def command(self, line):
        """One line to the program, and its answer."""
        with self._lock:
            self._say(line)
            answer = self._answer()
        if "error" in answer:
            raise NetworkError(f"{line}: {answer['error']}")
        return answer

    def counters(self):
        """What became of the packets so far, by path and direction."""
        return self.command("counters")

    def _say(self, line):
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer tells why

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait(SOON)
            self._errors.seek(0)
            raise NetworkError(f"the network ended with {status}: {self._errors.read().strip()}")
        return json.loads(line)

    def close(self):
        """Ends what runs in the namespaces, and the namespaces with it."""
        if not self._process:
            return
        try:
            for side in (self.client, self.server):
                side.close()
            with self._lock:
                self._say("end")
                self.final_counters = self._answer()
                self.left = self._answer()["left"]
        finally:
            self._forget()

    def _forget(self):
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(SOON)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(SOON)
        self._process.stdout.close()
        self._errors.close()
        self._process = None


def _address_command(family, device, address, length=None):
    if family == 6:
        return f"address add {address}/{length or 128} dev {device} nodad"
    return f"address add {address}/{length or 32} dev {device}"


def _device_commands(each, family, is_client):
    name, index, mtu = each.name, each.index, each.options["interface_mtu"]
    if family == 6 and not each.has_ipv6:
        return []
    # Without multicast and link-local addresses, nothing but the tests' own packets is on the way. The device's own queue
    # is long: what is dropped, is dropped by the path and counted.
    commands = [
        f"link set dev {name} mtu {mtu} txqueuelen 10000 multicast off addrgenmode none", f"link set dev {name} up"]
    client, server = each.addresses(family)
    commands.append(_address_command(family, name, client if is_client else server, 64 if family == 6 else 24))
    if is_client:
        commands += [
            f"route add default dev {name} metric {10 + index}",
            f"route add default dev {name} table {100 + index}",
            f"rule add from {client} table {100 + index}"]
    return commands
