"""`uploadfs-mount doctor`: each thing that can be wrong on the way to a destination, with its real cause."""

import contextlib
import email.utils
import http.server
import json
import os
import socket
import ssl
import subprocess
import threading
import time

import jsonschema
import pytest

from form_servers import PASSWORD, USER
from harness import MOUNT_TOOL, REPOSITORY, SOON, clean_environment
from promises import needs
from proxies import Tinyproxy
from s3_front import S3Front
from s3_servers import BUCKET, KEY, SECRET, credentials

_validator = jsonschema.Draft202012Validator(json.loads((REPOSITORY / "docs" / "doctor.schema.json").read_text()))


class Diagnosis:
    """What the doctor said, as JSON."""

    def __init__(self, done):
        assert not done.stderr, done.stderr
        self.code = done.returncode
        self.text = done.stdout
        self.document = json.loads(done.stdout)
        _validator.validate(self.document)
        assert self.document["exit_code"] == self.code

    def finding(self, check, about=None):
        found = [
            finding for finding in self.document["findings"]
            if finding["check"] == check and finding.get("destination") == about]
        assert found, f"nothing about {check}: {self.text}"
        return found[-1]

    def problem(self):
        """The only problem."""
        found = [finding for finding in self.document["findings"] if finding["level"] == "problem"]
        assert len(found) == 1, self.text
        return found[0]


def run(*arguments, environment=None, prefix=()):
    return subprocess.run(
        [*map(str, prefix), str(MOUNT_TOOL), "doctor", *map(str, arguments)], capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=SOON * 2, env=environment or clean_environment())


def diagnose(*arguments, **more):
    return Diagnosis(run("--json", *arguments, **more))


def of(receiver, *arguments, to=None, **more):
    return diagnose(
        "--to", to or receiver.url, "--ca", receiver.ca, "--token-file", receiver.token_file, *arguments, **more)


@pytest.fixture
def serve(authority):
    """Makes small HTTP servers that answer HEAD with 204: serve(certificate=…, date=…) is a port."""
    servers = []

    def make(certificate=None, date=None, versions=None, repeats=False, page=b""):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_HEAD(self):
                self.send_response(204)
                self.end_headers()

            def do_PUT(self):
                words = page or (self.headers.get("Authorization", "").encode() if repeats else b"")
                self.send_response(200 if page else 400 if repeats else 401)
                self.send_header("Content-Type", "text/html" if page else "text/plain")
                self.send_header("Content-Length", str(len(words)))
                self.end_headers()
                self.wfile.write(words)

            do_GET = do_POST = do_PUT
            if page:
                do_OPTIONS = do_PUT

            def date_time_string(self, timestamp=None):
                return email.utils.formatdate(time.time() + (date or 0), usegmt=True)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            if versions:
                context.maximum_version = versions
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


# MARK: All is well


@pytest.mark.promises("P15")
def test_a_receiver_that_is_well(receiver, folder):
    diagnosis = of(receiver, "--spool", folder / "spool")
    assert diagnosis.code == 0, diagnosis.text
    assert receiver.token not in diagnosis.text
    assert "TLS 1.3" in diagnosis.finding("tls")["message"]
    assert diagnosis.finding("throughput")["facts"]["bytes_per_second"] > 1_000_000
    assert diagnosis.finding("limits")["facts"]["file_bytes_max"] > 0
    assert diagnosis.finding("clock")["level"] == "ok"
    # The test file stays, because the protocol has no way to take it away; nothing else does.
    name = diagnosis.finding("test-file")["facts"]["name"]
    assert list(receiver.published()) == [name] and name.startswith("uploadfs-doctor-")
    # A folder that is not there yet is not made.
    assert not (folder / "spool").exists()


def test_words_say_the_same(receiver):
    done = run(
        "--to", receiver.url, "--ca", receiver.ca, "--token-file", receiver.token_file, "--no-throughput",
        "--no-test-file")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(receiver.url) and "ok       tls" in done.stdout
    assert "not sent, as asked for" in done.stdout and "not measured, as asked for" in done.stdout
    assert not receiver.published()
    assert receiver.token not in done.stdout


def test_s3_that_is_well(s3):
    diagnosis = diagnose("--to", s3.url("a"), environment=credentials())
    assert diagnosis.code == 0, diagnosis.text
    assert SECRET not in diagnosis.text and KEY not in diagnosis.text
    assert diagnosis.finding("test-file")["facts"]["removed"] is True
    assert diagnosis.finding("session")["level"] == "ok"
    assert diagnosis.finding("completion")["facts"]["removed"] is True
    assert s3.keys() == [] and s3.uploads() == []


@pytest.mark.promises("DE26b")
@pytest.mark.parametrize("ignored", [[], ["a file in parts"], ["a small file", "a file in parts"]], ids=["none", "parts", "all"])
def test_whether_s3_keeps_what_is_there(moto, ignored):
    """Regression: a server that ignores a condition was not found out."""
    def changes(method, path, headers):
        if "a small file" in ignored and method == "PUT" or "a file in parts" in ignored and method == "POST":
            del headers["If-None-Match"]

    with S3Front(moto.port, changes) as front:
        diagnosis = diagnose("--to", moto.url("a", front.port), "--s3-if-exists", "refuse", environment=credentials())
    finding = diagnosis.finding("conditions")
    assert finding["facts"]["ignored_for"] == ignored, finding
    assert diagnosis.code == 0 and finding["level"] == ("warning" if ignored else "ok"), finding
    assert moto.keys() == [] and moto.uploads() == []


def test_what_s3_does_not_know_at_the_end(moto):
    """Regression: whether a long file could be published was found out by the first capture."""
    def refuses(method, path, headers):
        if method == "POST" and "uploadId=" in path:
            return 501, "NotImplemented"

    with S3Front(moto.port, refuses) as front:
        diagnosis = diagnose(
            "--to", moto.url("a", front.port), "--s3-if-exists", "refuse", environment=credentials())
    problem = diagnosis.problem()
    assert problem["check"] == "completion" and "--s3-if-exists refuse" in problem["message"], problem
    assert moto.keys() == [] and moto.uploads() == []


def test_a_form_that_is_well(form, folder):
    # What cannot be undone is not tried: a form takes whole files only.
    diagnosis = diagnose("--to", form.url(), "--basic-auth-file", form.password_file)
    assert diagnosis.code == 0, diagnosis.text
    assert PASSWORD not in diagnosis.text and "ui=json" not in diagnosis.text
    assert diagnosis.finding("session")["level"] == "skipped"
    assert any(path.name.startswith("uploadfs-doctor-") for path in form.files.iterdir())
    wrong = folder / "wrong"
    wrong.write_text(f"{USER}:not-the-password\n")
    wrong.chmod(0o600)
    diagnosis = diagnose("--to", form.url(), "--basic-auth-file", wrong)
    assert diagnosis.problem()["check"] == "credentials" and "not-the-password" not in diagnosis.text


def test_settings_come_from_everywhere(receiver, folder):
    file = folder / "mount.yaml"
    file.write_text(f"to: {receiver.url}\nca: {receiver.ca}\ntoken-file: {receiver.token_file}\n")
    diagnosis = diagnose("--no-throughput", "--config", file)
    assert diagnosis.code == 0 and diagnosis.document["destination"] == receiver.url


# MARK: Several destinations


def archive_at(address, *settings):
    return ["--destination", " ".join(["archive", f"to={address}", *map(str, settings)])]


def test_every_destination_has_findings_of_its_own(receiver, new_receiver, s3):
    archive = new_receiver(name="archive")
    diagnosis = of(
        receiver, *archive_at(archive.url, f"ca={archive.ca}", f"token-file={archive.token_file}"), "--destination",
        f"bucket to={s3.url('a')}", "--no-throughput", environment=credentials())
    assert diagnosis.code == 0, diagnosis.text
    names = ["main", "archive", "bucket"]
    assert [part["name"] for part in diagnosis.document["destinations"]] == names
    assert [part["to"] for part in diagnosis.document["destinations"]] == [receiver.url, archive.url, s3.url("a")]
    for name in names:
        assert diagnosis.finding("credentials", name)["level"] == "ok"
        assert diagnosis.finding("session", name)["level"] == "ok"
    assert diagnosis.finding("memory")["destination"] is None
    # Each got the test file, with its own token.
    assert len(receiver.published()) == len(archive.published()) == 1
    assert receiver.token not in diagnosis.text and archive.token not in diagnosis.text and SECRET not in diagnosis.text


def test_what_is_wrong_with_one_destination_is_said_of_that_one(receiver, new_receiver):
    archive = new_receiver(name="archive")
    archive.stop()
    further = archive_at(archive.url, f"ca={archive.ca}", f"token-file={archive.token_file}")
    diagnosis = of(receiver, *further, "--no-throughput")
    assert diagnosis.code == 15
    assert (diagnosis.problem()["destination"], diagnosis.problem()["check"]) == ("archive", "connection")
    assert [part["ok"] for part in diagnosis.document["destinations"]] == [True, False]
    assert diagnosis.finding("test-file", "main")["level"] == "ok"
    # Neither does a wrong setting of one end the look at the others.
    diagnosis = of(receiver, *archive_at(archive.url, "token-file=/no/such/token"), "--no-throughput")
    assert (diagnosis.problem()["destination"], diagnosis.problem()["check"]) == ("archive", "credentials")
    assert diagnosis.finding("test-file", "main")["level"] == "ok" and diagnosis.finding("fuse")


def test_words_name_the_destination(receiver, new_receiver):
    archive = new_receiver(name="archive")
    done = run(
        "--to", receiver.url, "--ca", receiver.ca, "--token-file", receiver.token_file,
        *archive_at(archive.url, f"ca={archive.ca}", f"token-file={archive.token_file}"), "--no-throughput",
        "--no-test-file")
    assert done.returncode == 0, done.stdout
    main, further, machine = (
        done.stdout.index(title) for title in (f"main: {receiver.url}", f"archive: {archive.url}", "\nthis machine\n"))
    assert main == 0 and main < further < machine < done.stdout.index("/dev/fuse")
    assert done.stdout.count("ok       tls") == 2


# MARK: What can be wrong


def test_a_host_that_does_not_exist():
    problem = diagnose("--to", "https://no-such-host.invalid").problem()
    assert problem["check"] == "names" and "no-such-host.invalid" in problem["message"] + problem["advice"]


def test_a_port_where_nobody_listens(receiver):
    port = receiver.port
    receiver.stop()
    diagnosis = diagnose("--to", f"https://127.0.0.1:{port}")
    assert diagnosis.code == 15
    problem = diagnosis.problem()
    assert problem["check"] == "connection" and "refused" in problem["message"] and str(port) in problem["advice"]


@needs("root")
def test_no_route():
    # In a network namespace of its own there is nothing but a loopback interface that is down.
    diagnosis = diagnose("--to", "https://192.0.2.1", prefix=("unshare", "--net"))
    problem = diagnosis.problem()
    assert problem["check"] == "connection" and "ip route" in problem["advice"]


@pytest.fixture
def proxy():
    """Proxies that answer each CONNECT so: proxy(answer) is a port; nothing at all ends the connection."""
    listeners = []

    def make(answer):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        while data := connection.recv(1 << 16):
                            if data.endswith(b"\r\n\r\n"):
                                connection.sendall(answer)
                                break

        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1]

    yield make
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize("answer, words", [
    (b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n",
     "user name and a password (407)"),
    (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "does not allow this (403)"),
    (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", "it answered 503"),
    (b"", "ended the connection"),
], ids=["407", "403", "503", "closes"])
def test_a_proxy_that_opens_no_way(receiver, proxy, answer, words):
    """Regression: the proxy's answer was taken for a port that speaks plain HTTP."""
    problem = of(receiver, "--proxy", f"http://127.0.0.1:{proxy(answer)}").problem()
    assert problem["check"] == "connection" and words in problem["message"] and "--proxy" in problem["advice"], problem
    assert "the proxy" in problem["message"], problem


@pytest.mark.parametrize("scheme", ["http", "https", "socks5h"])
def test_a_proxy_that_is_not_there(receiver, scheme):
    """Regression: the server was said to speak something else than HTTPS."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    problem = of(receiver, "--proxy", f"{scheme}://127.0.0.1:{port}").problem()
    assert problem["check"] == "connection" and f"no connection to the proxy {scheme}://127.0.0.1:{port}" in problem["message"]


def test_a_proxy_with_another_password(receiver, folder):
    used = Tinyproxy(folder).start()
    try:
        wrong = folder / "wrong"
        wrong.write_text("somebody:else\n")
        wrong.chmod(0o600)
        problem = of(receiver, "--proxy", used.url, "--proxy-auth-file", wrong).problem()
    finally:
        assert not used.close()
    assert problem["check"] == "connection" and "the proxy opens no way" in problem["message"], problem


def test_small_chunks_are_no_problem(receiver):
    """Regression: below a mebibyte, its own trial was refused."""
    diagnosis = of(receiver, "--chunk-size", "256KiB")
    assert diagnosis.code == 0 and diagnosis.finding("session")["level"] == "ok"


def test_a_port_that_speaks_plain_http(serve):
    problem = diagnose("--to", f"https://127.0.0.1:{serve()}").problem()
    assert problem["check"] == "tls" and "plain HTTP" in problem["message"]


def test_plain_http_to_a_port_that_speaks_tls(receiver):
    problem = diagnose("--to", f"http://127.0.0.1:{receiver.port}").problem()
    assert problem["check"] == "tls" and problem["advice"] == "Write https instead of http in --to."


def test_a_server_without_tls_13(serve, authority):
    port = serve(certificate=authority.issue("old"), versions=ssl.TLSVersion.TLSv1_2)
    problem = diagnose("--to", f"https://127.0.0.1:{port}", "--ca", authority.certificate).problem()
    assert problem["check"] == "tls" and "before 1.3" in problem["message"]


def test_an_expired_certificate(new_receiver, authority):
    expired = new_receiver(certificate=authority.issue("server", expired=True), ca=authority.certificate)
    problem = of(expired).problem()
    assert problem["check"] == "tls" and "has ended on 2020-02-01" in problem["message"]
    assert "renewed" in problem["advice"]


def test_a_certificate_for_another_host(new_receiver, authority):
    other = new_receiver(
        certificate=authority.issue("server", hosts="DNS:upload.example.org"), ca=authority.certificate)
    problem = of(other).problem()
    assert "upload.example.org" in problem["message"] and "not for 127.0.0.1" in problem["message"]


def test_an_unknown_authority(receiver):
    diagnosis = diagnose("--to", receiver.url, "--token-file", receiver.token_file)
    problem = diagnosis.problem()
    assert problem["check"] == "tls" and "--ca FILE" in problem["advice"]
    assert problem["facts"]["certificate_issuer"]


def test_a_wrong_token(receiver, folder):
    token = folder / "token"
    token.write_text("this-is-not-the-token\n")
    token.chmod(0o600)
    diagnosis = diagnose("--to", receiver.url, "--ca", receiver.ca, "--token-file", token)
    assert diagnosis.code == 15 and "this-is-not-the-token" not in diagnosis.text
    problem = diagnosis.problem()
    assert problem["check"] == "credentials" and "token" in problem["message"]
    assert not receiver.published()


def test_no_token_at_all(receiver):
    """Regression: the token was said to be refused."""
    diagnosis = diagnose("--to", receiver.url, "--ca", receiver.ca)
    problem = diagnosis.problem()
    assert diagnosis.code == 15 and problem["check"] == "credentials" and "none was given" in problem["message"]


def test_an_authority_that_is_a_key(receiver):
    """Regression: it was said to be a matter of the credentials."""
    diagnosis = diagnose("--to", receiver.url, "--ca", receiver.token_file, "--token-file", receiver.token_file)
    problem = diagnosis.problem()
    assert diagnosis.code == 15 and problem["check"] == "tls" and "holds no PEM certificate" in problem["message"]


def test_a_server_that_repeats_the_token(serve, authority, folder):
    """Regression: it stood in what doctor said."""
    token = folder / "token"
    token.write_text("this-is-the-token\n")
    token.chmod(0o600)
    port = serve(certificate=authority.issue("repeats"), repeats=True)
    diagnosis = diagnose("--to", f"form+https://127.0.0.1:{port}/", "--ca", authority.certificate, "--token-file", token)
    assert diagnosis.code == 15 and "[credential]" in diagnosis.problem()["message"]
    assert "this-is-the-token" not in diagnosis.text


@pytest.mark.promises("DE103")
@pytest.mark.parametrize("scheme", ["https", "form+https", "s3+https", "tus+https"])
def test_a_login_page_in_the_servers_place(serve, authority, folder, scheme):
    """What a captive portal answers is no answer of the destination."""
    port = serve(certificate=authority.issue("portal"), page=b"<!doctype html><title>Guest network</title>Log in")
    path = "bucket" if scheme == "s3+https" else ""
    diagnosis = diagnose("--to", f"{scheme}://127.0.0.1:{port}/{path}", "--ca", authority.certificate, environment=credentials())
    problem = diagnosis.problem()
    assert diagnosis.code != 0 and "“Guest network”" in problem["message"] and "a captive portal" in problem["message"], problem


def test_a_token_file_that_is_missing(receiver, folder):
    diagnosis = diagnose("--to", receiver.url, "--token-file", folder / "token")
    assert diagnosis.code == 15 and str(folder / "token") in diagnosis.problem()["message"]


def test_a_bucket_that_does_not_exist(s3):
    diagnosis = diagnose("--to", s3.url().replace(BUCKET, "no-such-bucket"), environment=credentials())
    problem = diagnosis.problem()
    assert diagnosis.code == 15 and "NoSuchBucket" in problem["message"] and "make it" in problem["message"]
    assert problem["advice"] is None


def test_a_wrong_secret(rclone):
    diagnosis = diagnose(
        "--to", rclone.url(), environment=credentials(AWS_SECRET_ACCESS_KEY="not-the-secret-not-the-secret"))
    assert diagnosis.problem()["check"] == "credentials" and "not-the-secret" not in diagnosis.text


def test_no_credentials_for_s3(moto, folder):
    environment = {name: value for name, value in credentials(HOME=str(folder)).items() if "AWS_" not in name}
    diagnosis = diagnose("--to", moto.url(), environment=environment)
    assert diagnosis.code == 15 and diagnosis.problem()["check"] == "credentials"


@pytest.mark.promises("P15")
def test_a_clock_that_is_off_by_hours(serve, authority):
    port = serve(certificate=authority.issue("clock"), date=-3 * 3600)
    diagnosis = diagnose("--to", f"https://127.0.0.1:{port}", "--ca", authority.certificate)
    clock = diagnosis.finding("clock")
    assert clock["level"] == "warning" and "3.0 h behind" in clock["message"]
    assert abs(clock["facts"]["server_ahead_seconds"] + 3 * 3600) < 30
    # This server refuses everything: with such a clock the clock is the first suspect.
    assert "clocks differ" in diagnosis.problem()["advice"]


def test_one_of_two_addresses_is_dead(receiver, new_receiver):
    dead = new_receiver()
    dead.stop()
    diagnosis = of(receiver, "--also-to", dead.url, "--no-throughput")
    assert diagnosis.code == 15 and diagnosis.problem()["check"] == "connection"
    assert diagnosis.finding("test-file")["level"] == "ok"


# MARK: This machine


def test_a_spool_that_cannot_be_written(receiver, folder):
    (folder / "file").touch()
    diagnosis = of(receiver, "--no-throughput", "--spool", folder / "file")
    assert diagnosis.code == 13 and diagnosis.problem()["check"] == "spool"


def test_a_full_spool(receiver, tmpfs):
    spool = tmpfs("spool", 8 << 20)
    diagnosis = of(receiver, "--no-throughput", "--spool", spool)
    assert diagnosis.code == 13 and diagnosis.problem()["check"] == "space"
    assert "memory" in diagnosis.finding("spool")["message"]
    # What was tried in it is gone.
    assert not os.listdir(spool)


def test_a_spool_in_use(receiver, mount):
    mount_warning = of(receiver, "--no-throughput", "--spool", mount.spool).finding("spool")
    assert f"process {mount.program.process.pid}" in mount_warning["message"]
    # The mount has not noticed.
    (mount.root / "a.txt").write_bytes(b"a")
    mount.wait_for("a.txt", "complete")


@needs("root")
def test_a_machine_without_fuse(receiver):
    # In a mount namespace of its own, whose /dev has no fuse.
    diagnosis = of(
        receiver, "--no-throughput",
        prefix=("unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /dev && exec "$0" "$@"'))
    assert diagnosis.code == 12 and "modprobe fuse" in diagnosis.problem()["advice"]


def test_a_wrong_setting_is_refused_as_by_mount():
    done = run("--to", "https://upload.example.org", "--parallel", "99")
    assert done.returncode == 14 and "--parallel" in done.stderr
