"""What a server's certificate must show beyond a name and an authority: pinned keys. It is decided
in the handshake, with certificates that the tests make."""

import pathlib
import subprocess
import threading
import time

import pytest

from certificates import tls_1_3
from harness import Server, wait_until
from logged_certificates import DAY, Issuer, Log, day, write_list
from proxies import Tinyproxy
from test_doctor import diagnose
from throttle import ThrottlingProxy

# What was mended is found soon.
SOON_AGAIN = ("--expert", "retry-delay-max=1s")
ANSWER = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Stapler(Server):
    """`openssl s_server`, which sends what it is told in its handshakes, and answers each request with 404."""

    def __init__(self, folder, files, *options, port=0):
        super().__init__(folder)
        self.port = port or self.free_port()
        self.arguments = [
            "openssl", "s_server", "-quiet", "-accept", f"127.0.0.1:{self.port}", "-cert", files[0], "-key", files[1], *options]
        self.requests = b""

    def start(self):
        self.process = subprocess.Popen(
            [*map(str, self.arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        wait_until(self._listens, "it listens")
        return self

    def _listens(self):
        assert self.process.poll() is None
        # Its one connection is not to be taken for the question.
        return f":{self.port:04X} 00000000:0000 0A" in pathlib.Path("/proc/net/tcp").read_text()

    def _serve(self):
        while block := self.process.stdout.read(1 << 16):
            self.requests += block
            if b"\r\n\r\n" in block:
                try:
                    self.process.stdin.write(ANSWER)
                except OSError:
                    return

    def close(self):
        self.process.kill()
        self.process.wait()
        self.thread.join(10)
        self.process.stdin.close()
        self.process.stdout.close()
        return []


@pytest.fixture
def serve(folder):
    made = []

    def make(leaf, *options, tls="-tls1_3", port=0):
        files = leaf.files if hasattr(leaf, "files") else leaf
        server = Stapler(folder / f"server{len(made)}", files, tls, *options, port=port).start()
        made.append(server)
        return server

    yield make
    for server in made:
        server.close()


class World:
    """An authority, three logs of two operators, and their list."""

    def __init__(self, folder):
        self.issuer = Issuer(folder / "authority")
        self.first = Log(folder, "first", "Elm")
        self.second = Log(folder, "second", "Oak")
        self.third = Log(folder, "third", "Elm")
        self.retired = Log(folder, "retired", "Ash", state="retired", since=time.time() - 10 * DAY)
        self.other_year = Log(folder, "other-year", "Fir", ends=(0, DAY))
        self.unlisted = Log(folder, "unlisted", "Yew")
        self.list = write_list(folder / "logs.json", self.first, self.second, self.third, self.retired, self.other_year)

    @property
    def two(self):
        return [self.first.timestamp, self.second.timestamp]


@pytest.fixture
def world(folder):
    return World(folder)


def examine(server, ca, *options, **more):
    """What the doctor says of the server's TLS, and its facts."""
    to = f"https://127.0.0.1:{server.port}"
    diagnosis = diagnose("--to", to, "--ca", ca, "--no-test-file", "--no-throughput", *options, **more)
    finding = diagnosis.finding("tls")
    return finding, finding.get("facts", {})


# MARK: Pins


def test_a_pin_of_any_certificate_of_the_chain_is_enough(serve, world):
    leaf = world.issuer.issue("leaf")
    server = serve(leaf)
    for key in (leaf.key, world.issuer.key):
        finding, facts = examine(server, world.issuer.certificate, "--pin", key.pin, "--pin", world.first.key.pin)
        assert finding["level"] == "ok" and "Pinned (1 of 2 keys)" in finding["message"]
        assert facts["pinned_keys"] == 1 and facts["public_keys"] == [leaf.key.pin, world.issuer.key.pin]
    finding, facts = examine(server, world.issuer.certificate)
    assert "Not pinned" in finding["message"] and "pinned_keys" not in facts


def test_a_chain_without_a_pinned_key_is_refused_before_a_request(serve, world):
    leaf = world.issuer.issue("leaf")
    server = serve(leaf)
    finding, _ = examine(server, world.issuer.certificate, "--pin", world.first.key.pin)
    assert finding["level"] == "problem" and "no certificate of 127.0.0.1" in finding["message"], finding
    assert leaf.key.pin in finding["message"] and "--pin" in finding["advice"]
    # The look that believes everything tells nothing.
    assert b"authorization" not in server.requests.lower()


def test_a_pinned_certificate_that_was_exchanged_stops_deliveries_until_it_is_back(new_receiver, new_mount, serve, world):
    """Under the same authority; nothing is lost, and nothing is sent."""
    pinned, other = world.issuer.issue("pinned"), world.issuer.issue("other")
    receiver = new_receiver(certificate=pinned.files, ca=world.issuer.certificate)
    mount = new_mount(receiver, "--pin", pinned.key.pin, *SOON_AGAIN)
    (mount.root / "one.mov").write_bytes(b"1" * 5000)
    mount.wait_for("one.mov", "complete")

    receiver.stop()
    impostor = serve(other, port=receiver.port)
    (mount.root / "two.mov").write_bytes(b"2" * 5000)
    error = wait_until(lambda: refusal(mount, "two.mov", "pin-mismatch"), mount.program.describe)
    assert other.key.pin in error["message"] and "--pin" in error["message"]
    assert impostor.requests == b""

    impostor.close()
    receiver.start()
    mount.wait_for("two.mov", "complete", timeout=90)
    assert (receiver.files / "two.mov").read_bytes() == b"2" * 5000


def refusal(mount, name, code):
    """What the status says of a file that waits for this reason."""
    error = mount.status(name)["last_error"]
    return error if error and error["code"] == code else None


def test_the_handshake_with_a_proxy_is_left_alone_and_the_one_through_it_is_not(new_receiver, new_mount, world, folder):
    pinned = world.issuer.issue("pinned")
    receiver = new_receiver(certificate=pinned.files, ca=world.issuer.certificate)
    # No server could have this certificate.
    front_leaf = world.issuer.issue("proxy", must_staple=True)
    proxy = Tinyproxy(folder / "proxy").start()
    try:
        with ThrottlingProxy(proxy.port, tls=tls_1_3(*front_leaf.files)) as front:
            way = ("--proxy", f"https://127.0.0.1:{front.port}", "--proxy-auth-file", proxy.password_file)
            mount = new_mount(receiver, *way, "--pin", pinned.key.pin)
            (mount.root / "one.mov").write_bytes(b"1" * 5000)
            mount.wait_for("one.mov", "complete")
            assert proxy.was_used
            other = new_mount(receiver, *way, "--pin", front_leaf.key.pin)
            (other.root / "two.mov").write_bytes(b"2")
            error = wait_until(lambda: refusal(other, "two.mov", "pin-mismatch"), other.program.describe)
            assert pinned.key.pin in error["message"] and front_leaf.key.pin not in error["message"]
            other.stop_at_once()
    finally:
        assert proxy.close() == []


# MARK: Words of the certificate's own faults


def faulty(world, folder):
    """Servers whose certificates or versions are at fault, and what is said of each in status."""
    issue = world.issuer.issue
    return {
        "expired": (issue("a", begins=-9 * DAY, ends=-2 * DAY), "-tls1_3", "certificate-refused",
                    f"the certificate of 127.0.0.1 has expired on {day(time.time() - 2 * DAY)}"),
        "not yet valid": (issue("b", begins=3 * DAY), "-tls1_3", "certificate-refused",
                          f"is not yet valid: it begins on {day(time.time() + 3 * DAY)}"),
        "wrong name": (issue("c", hosts=["other.example"]), "-tls1_3", "certificate-refused", "is for another name"),
        "wrong authority": (Issuer(folder / "foreign").issue("d"), "-tls1_3", "certificate-refused",
                            "comes from an authority that this machine does not trust"),
        "TLS 1.2": (issue("e"), "-tls1_2", "tls-failed", "does not speak TLS 1.3"),
    }


@pytest.mark.parametrize("case", ["expired", "not yet valid", "wrong name", "wrong authority", "TLS 1.2"])
def test_each_fault_has_its_words(new_receiver, new_mount, serve, world, folder, case):
    leaf, version, code, words = faulty(world, folder)[case]
    server = serve(leaf, tls=version)
    mount = new_mount(None, to=f"https://127.0.0.1:{server.port}", ca=world.issuer.certificate)
    (mount.root / "one.mov").write_bytes(b"1")
    error = wait_until(lambda: refusal(mount, "one.mov", code), mount.program.describe)
    assert words in error["message"], error
    assert server.requests == b""
    mount.stop_at_once()
