"""What a server's certificate must show beyond a name and an authority: pinned keys, timestamps of certificate logs, a good OCSP response. All of
it is decided in the handshake, with certificates, logs and OCSP responses that the tests make."""

import pathlib
import re
import subprocess
import threading
import time

import pytest

from certificates import Authority, tls_1_3
from harness import Server, wait_until
from logged_certificates import DAY, Issuer, Log, day, write_list
from promises import needs
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


def always(world):
    return "--transparency", "always", "--transparency-logs", world.list


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


@pytest.mark.promises("SE15")
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
            # Past the proxy it is the server's own handshake.
            seen = proxy.requests
            direct = new_mount(receiver, *way, "--no-proxy", "127.0.0.0/8", "--pin", pinned.key.pin)
            (direct.root / "three.mov").write_bytes(b"3")
            direct.wait_for("three.mov", "complete")
            assert proxy.requests == seen
    finally:
        assert proxy.close() == []


# MARK: Certificate Transparency


@pytest.mark.parametrize("way", ["embedded", "handshake", "staple", "mixed"])
def test_timestamps_of_two_operators_count_however_they_come(serve, world, way):
    first, second = world.two
    leaf = world.issuer.issue("leaf", world.two if way == "embedded" else [first] if way == "mixed" else ())
    options = []
    if way in ("handshake", "mixed"):
        options += ["-serverinfo", leaf.server_info(*([second] if way == "mixed" else world.two))]
    if way == "staple":
        options += ["-status_file", leaf.staple(timestamps=world.two)]
    finding, facts = examine(serve(leaf, *options), world.issuer.certificate, *always(world))
    assert finding["level"] == "ok", finding
    assert facts["transparency"] == "accepted" and facts["transparency_timestamps"] == 2
    assert facts["transparency_operators"] == ["Elm", "Oak"] and "of Elm and Oak" in finding["message"]


def too_few(world):
    """Certificates that logs have not vouched for enough, and what is said of each."""
    first, second, third = world.first.timestamp, world.second.timestamp, world.third.timestamp
    late = lambda entry: world.retired.timestamp(entry, at=time.time() - 5 * DAY)  # noqa: E731
    return {
        "none": ([], "it shows no timestamps"),
        "one": ([first], "one timestamp counts, that of the log “first” (Elm)"),
        "one operator": ([first, third], "all timestamps that count are of logs of one operator, Elm"),
        "one log twice": ([first, first], "one timestamp counts"),
        "forged": ([first, lambda entry: world.second.timestamp(entry, forged=True)], "one is forged"),
        "of tomorrow": ([first, lambda entry: world.second.timestamp(entry, at=time.time() + DAY)], "one is forged"),
        "retired": ([first, late], f"“retired”, which was retired on {day(world.retired.since)}"),
        "of another year": ([first, world.other_year.timestamp], "“other-year”, which takes no certificates that end on"),
        "unlisted": ([first, world.unlisted.timestamp], "one is of a log that is not in the list"),
    }


@pytest.mark.parametrize("case", [
    "none", "one", "one operator", "one log twice", "forged", "of tomorrow", "retired", "of another year", "unlisted"])
def test_too_few_timestamps_are_refused_with_their_reason(serve, world, case):
    embedded, words = too_few(world)[case]
    finding, _ = examine(serve(world.issuer.issue("leaf", embedded)), world.issuer.certificate, *always(world))
    assert finding["level"] == "problem" and words in finding["message"], finding
    assert "two certificate logs of different operators" in finding["message"]


def test_a_retired_log_counts_for_what_it_took_before(serve, world):
    embedded = [world.first.timestamp, lambda entry: world.retired.timestamp(entry, at=time.time() - 11 * DAY)]
    finding, facts = examine(serve(world.issuer.issue("leaf", embedded)), world.issuer.certificate, *always(world))
    assert finding["level"] == "ok" and facts["transparency_operators"] == ["Ash", "Elm"]


def test_a_certificate_that_is_its_own_authority_is_refused_where_all_need_timestamps(serve, folder, world):
    """OpenSSL asks about none of such a certificate."""
    made = Authority(folder / "alone")
    subprocess.run(
        ["openssl", "req", "-x509", "-key", made.key, "-days", "60", "-subj", "/CN=alone", "-addext",
         "subjectAltName=IP:127.0.0.1", "-out", made.certificate], check=True, capture_output=True)
    server = serve((made.certificate, made.key))
    finding, _ = examine(server, made.certificate, *always(world))
    assert finding["level"] == "problem" and "it is its own authority" in finding["message"], finding
    assert examine(server, made.certificate)[0]["level"] == "ok"


@needs("root")
def test_only_what_came_with_the_system_needs_timestamps(serve, folder, world):
    """The default, with a list. Authorities of --ca and those that were added to the system are exempt."""
    bare, logged = world.issuer.issue("bare"), world.issuer.issue("logged", world.two)
    added = folder / "added" / "ours"
    added.mkdir(parents=True)

    def examined(leaf, ca=None):
        server = serve(leaf)
        script = (
            f"mount --bind {world.issuer.certificate} /etc/ssl/certs/ca-certificates.crt && "
            f"mount --bind {added.parent} /usr/local/share/ca-certificates && exec \"$@\"")
        finding = diagnose(
            "--to", f"https://127.0.0.1:{server.port}", *(["--ca", ca] if ca else []), "--transparency-logs", world.list,
            "--no-test-file", "--no-throughput", prefix=("unshare", "-m", "sh", "-ec", script, "sh")).finding("tls")
        return finding["level"], finding.get("facts", {}).get("transparency"), finding["message"]

    level, _, message = examined(bare)
    assert level == "problem" and "it shows no timestamps" in message, message
    assert examined(logged)[:2] == ("ok", "accepted")
    assert examined(bare, ca=world.issuer.certificate)[:2] == ("ok", "exempt")
    # Where update-ca-certificates(8) looks, also further down, and among others in one file.
    other = Issuer(folder / "other")
    (added / "two.crt").write_text(other.certificate.read_text() + world.issuer.certificate.read_text())
    assert examined(bare)[:2] == ("ok", "exempt")


def test_a_list_that_is_too_old_warns_and_is_not_enforced(serve, world):
    server = serve(world.issuer.issue("leaf"))
    write_list(world.list, world.first, world.second, days=71)
    finding, facts = examine(server, world.issuer.certificate, *always(world))
    assert finding["level"] == "warning" and facts["transparency"] == "list-too-old"
    assert "the list of logs is 71 days old" in finding["message"] and "--transparency-logs" in finding["advice"]
    write_list(world.list, world.first, world.second, days=70)
    assert examine(server, world.issuer.certificate, *always(world))[0]["level"] == "problem"


def test_transparency_can_be_turned_off(serve, world):
    server = serve(world.issuer.issue("leaf"))
    finding, facts = examine(
        server, world.issuer.certificate, "--transparency", "off", "--transparency-logs", world.list)
    assert finding["level"] == "ok" and facts["transparency"] == "off"


def test_what_cannot_be_kept_is_refused_at_the_start(new_mount, receiver, folder, world):
    mount = new_mount(receiver, start=False)

    def refused(*options):
        mount.options = options
        code, text = mount.start_and_fail()
        assert code in (14, 15), text
        return text

    assert "without a list of logs" in refused("--transparency", "always")
    assert "is no pin" in refused("--pin", "sha256//c2hvcnQ=")
    assert "No such file" in refused("--transparency-logs", folder / "missing.json")
    wrong = folder / "wrong.json"
    for text, words in (
            ("{", "is no list of certificate logs"),
            ('{"log_list_timestamp": "2026-11-22T00:00:00Z", "operators": []}', "names no log"),
            ('{"operators": []}', "does not say of when it is"),
            (world.list.read_text().replace('"usable"', '"us", "able"', 1), "is no list of certificate logs"),
            (re.sub(r'"key": "....', '"key": "AAAA', world.list.read_text().replace("log_id", "x")), "OpenSSL cannot read"),
            (re.sub(r'"key": "....', '"key": "AAAA', world.list.read_text()), "is not the key's SHA-256")):
        wrong.write_text(text)
        message = refused("--transparency-logs", wrong)
        assert words in message and str(wrong) in message, message


def test_log_and_summary_say_that_timestamps_are_not_asked_for(new_mount, receiver, world):
    mount = new_mount(receiver)
    assert mount.program.log.count("Certificate Transparency is not enforced: there is no list of logs") == 1
    assert mount.summary()["transparency"] == [{"destination": "main", "policy": "public-only", "state": "no-list"}]


@pytest.mark.promises("SE15")
def test_a_certificate_that_logs_do_not_know_stops_deliveries_until_it_is_exchanged(new_receiver, new_mount, serve, world):
    """The list is read anew when it has changed, and the mount goes on."""
    good, bare = world.issuer.issue("good", world.two), world.issuer.issue("bare", world.two[:1])
    receiver = new_receiver(certificate=good.files, ca=world.issuer.certificate)
    receiver.stop()
    impostor = serve(bare, port=receiver.port)
    mount = new_mount(receiver, *always(world), "--pin", world.issuer.key.pin, *SOON_AGAIN)
    assert mount.summary()["transparency"][0]["state"] == "enforced"
    (mount.root / "one.mov").write_bytes(b"1" * 5000)
    error = wait_until(lambda: refusal(mount, "one.mov", "transparency-refused"), mount.program.describe)
    assert "one timestamp counts, that of the log “first” (Elm)" in error["message"]
    assert impostor.requests == b""

    impostor.close()
    receiver.start()
    mount.wait_for("one.mov", "complete", timeout=90)
    write_list(world.list, world.first, world.second, days=80)
    wait_until(lambda: mount.summary()["transparency"][0]["state"] == "list-too-old", "the list is read anew")
    assert (receiver.files / "one.mov").read_bytes() == b"1" * 5000


# MARK: OCSP


@pytest.mark.promises("SE15")
def test_a_revoked_certificate_stops_deliveries_until_it_is_exchanged(new_receiver, new_mount, serve, world):
    revoked, good = world.issuer.issue("revoked"), world.issuer.issue("good")
    receiver = new_receiver(certificate=good.files, ca=world.issuer.certificate)
    receiver.stop()
    server = serve(revoked, "-status_file", revoked.staple("revoked", ends=-DAY), port=receiver.port)
    mount = new_mount(receiver, *SOON_AGAIN)
    (mount.root / "one.mov").write_bytes(b"1" * 5000)
    error = wait_until(lambda: refusal(mount, "one.mov", "certificate-revoked"), mount.program.describe)
    assert f"was revoked on {day(time.time() - 3 * DAY)}" in error["message"]
    assert server.requests == b""
    server.close()
    receiver.start()
    mount.wait_for("one.mov", "complete", timeout=90)


def responses(leaf, world):
    """What a server can staple, and what is said of each."""
    other = world.issuer.issue("other")
    garbage = leaf.certificate.with_suffix(".garbage")
    garbage.write_bytes(b"\x30\x03\x0a\x01\x06")
    return {
        "expired": (leaf.staple(begins=-9 * DAY, ends=-2 * DAY), f"has expired on {day(time.time() - 2 * DAY)}"),
        "of tomorrow": (leaf.staple(begins=DAY), f"begins on {day(time.time() + DAY)}"),
        "forged": (leaf.staple(signer=world.first.key), "is signed by nobody"),
        "of another": (leaf.staple(serial=other.serial), "is about another certificate"),
        "unknown": (leaf.staple("unknown"), "does not know the certificate"),
        "no answer": (garbage, "is none that can be read"),
    }


@pytest.mark.parametrize("case", ["expired", "of tomorrow", "forged", "of another", "unknown", "no answer"])
def test_an_ocsp_response_that_does_not_count_is_none(serve, world, case):
    """It is said; where the certificate asks for one, it is refused."""
    for must_staple in (False, True):
        leaf = world.issuer.issue(f"leaf{must_staple}", must_staple=must_staple)
        path, words = responses(leaf, world)[case]
        finding, facts = examine(serve(leaf, "-status_file", path), world.issuer.certificate)
        assert words in finding["message"], finding
        assert finding["level"] == ("problem" if must_staple else "warning")
        assert must_staple or (facts["staple"] == "unusable" and "does not count" in finding["message"])


def test_a_certificate_that_asks_for_an_ocsp_response_is_refused_without_one(serve, world):
    leaf = world.issuer.issue("leaf", must_staple=True)
    finding, _ = examine(serve(leaf), world.issuer.certificate)
    assert finding["level"] == "problem" and "(must-staple), and none came with it" in finding["message"]
    finding, facts = examine(serve(leaf, "-status_file", leaf.staple()), world.issuer.certificate)
    assert finding["level"] == "ok" and facts["staple"] == "good" and facts["must_staple"]
    assert f"says good until {day(time.time() + 7 * DAY)}" in finding["message"]


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


@pytest.mark.promises("SE15")
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
