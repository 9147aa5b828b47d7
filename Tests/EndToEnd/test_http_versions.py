"""HTTP/2: servers that end connections in mid-upload (GOAWAY), at which nothing is lost and nothing lies twice; and what `--http auto` finds
out."""

import ctypes
import json
import subprocess

import pytest

from early_answers import EarlyAnswers
from harness import MOUNT_TOOL, clean_environment, sha256, wait_until, write_random
from http2_fronts import Caddy, ForgettingFront, GoawayFront, NginxFront
from network import path
from webdav_servers import Rclone

HTTP2 = ("--http", "2", "--expert", "http2-library=any")
# With a libcurl before 8.10 some uploads stall.
HASTY = ("--expert", "retry-delay=50ms", "--expert", "stall-timeout=2s")
MIB = 1 << 20


@pytest.fixture
def new_server():
    """Starts servers, and ends them after the mounts."""
    made = []

    def make(server):
        made.append(server)
        return server.start()

    yield make
    left = [line for server in reversed(made) for line in server.close()]
    assert not left, "\n".join(left)


@pytest.mark.parametrize("begins", [True, False], ids=["serves what it has begun", "serves nothing more"])
@pytest.mark.parametrize("protocol", ["s3", "tus", "form"])
def test_what_goaway_leaves_out_goes_again(new_liar, new_mount, authority, protocol, begins):
    """Over one connection go parts of files and whole files. What is passed over was never seen by the server, and it has each once."""
    server = new_liar(protocol, None)
    front = GoawayFront(server, authority.issue("liar"), EarlyAnswers(None), begins, after_bytes=MIB // 2, connections=3)
    try:
        environment = clean_environment(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret")
        mount = new_mount(
            None, *server.options[1], *HTTP2, *HASTY, "--chunk-size", "8MiB", "--max-file-size", "1GB", to=front.to, ca=authority.certificate,
            environment=environment)
        sizes = {"long.mov": 17 * MIB, **{f"short-{number}.mov": 300_000 for number in range(10)}}
        contents = {
            name: write_random(mount.root / name, size, seed=number).read_bytes()
            for number, (name, size) in enumerate(sizes.items())}
        mount.wait_all()
        assert front.goaways >= 1 and front.refused >= 1 and front.versions == {"h2"}
        assert server.published == contents
        assert all(mount.status(name)["state"] == "complete" for name in contents)
    finally:
        front.close()


def test_what_was_done_although_goaway_leaves_it_out_is_known_again(new_liar, new_mount, authority):
    """Sent again, the object would be there under a second name: its own first one would be taken."""
    server = new_liar("s3", None)
    front = ForgettingFront(server, authority.issue("liar"), EarlyAnswers(None))
    try:
        environment = clean_environment(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret")
        mount = new_mount(None, *server.options[1], *HTTP2, *HASTY, to=front.to, ca=authority.certificate, environment=environment)
        content = write_random(mount.root / "short.mov", 300_000).read_bytes()
        mount.wait_all()
        assert front.forgotten == ["short.mov"]
        assert server.published == {"short.mov": content}
    finally:
        front.close()


def test_nginx_ends_a_connection_after_some_requests(folder, new_server, new_mount, authority):
    """keepalive_requests: GOAWAY behind every tenth request, with others under way."""
    dav = new_server(Rclone(folder / "dav", None))
    front = new_server(NginxFront(folder / "front", authority.issue("front"), dav.port, requests=10))
    mount = new_mount(None, *HTTP2, *HASTY, to=f"webdav+https://127.0.0.1:{front.port}/dav", ca=authority.certificate)
    contents = {
        f"{number}.mov": write_random(mount.root / f"{number}.mov", 200_000, seed=number).read_bytes() for number in range(40)}
    mount.wait_all()
    requests = front.requests()
    assert {protocol for _, protocol, *_ in requests} == {"HTTP/2.0"}
    assert len({connection for connection, *_ in requests}) >= len(requests) // 10
    assert {name: (dav.files / name).read_bytes() for name in dav.names()} == contents
    # None of it was a failure.
    assert not any(mount.status(name)["attempts"] or mount.status(name)["last_error"] for name in contents)


def test_caddy_is_reloaded_in_mid_upload(folder, receiver, new_server, new_mount, authority):
    """It says GOAWAY on all connections, and lets what is under way finish."""
    caddy = new_server(Caddy(folder / "caddy", authority.issue("caddy"), receiver.port, receiver.ca))
    mount = new_mount(
        receiver, *HTTP2, *HASTY, "--chunk-size", "1MiB", "--upload-priority", "normal",
        to=f"https://127.0.0.1:{caddy.port}", ca=authority.certificate)
    source = write_random(folder / "source", 96 * MIB)
    (mount.root / "capture.mov").write_bytes(source.read_bytes())
    for part in (0.1, 0.4, 0.7):
        wait_until(lambda: mount.status("capture.mov")["bytes"]["acknowledged"] >= part * source.stat().st_size, "it goes on")
        caddy.reload()
    status = mount.wait_for("capture.mov", "complete")
    assert sha256(receiver.files / "capture.mov") == sha256(source)
    assert status["connection"]["protocol"] == "HTTP/2" and not status["last_error"], status


def libcurl_version():
    """Of the one that the programs load."""
    about = ctypes.CDLL("libcurl.so.4").curl_version
    about.restype = ctypes.c_char_p
    return tuple(map(int, about().decode().split()[0].removeprefix("libcurl/").split("-")[0].split(".")))


def test_auto_says_whether_it_can_try_http_2(receiver, new_mount):
    is_repaired = libcurl_version() >= (8, 10)
    for options, state in [
            ((), "measured" if is_repaired else "unsuitable-library"), (("--expert", "http2-library=any"), "measured"),
            (("--http", "1.1"), "fixed")]:
        mount = new_mount(receiver, *options)
        [found] = mount.summary()["http_versions"]
        # One that a connection was prepared to may be there.
        assert found["state"] == state and all(server["finding"] == "unmeasured" for server in found["servers"]), found
        mount.close()
    doctor = subprocess.run(
        [MOUNT_TOOL, "doctor", "--to", receiver.url, "--token-file", receiver.token_file, "--ca", receiver.ca, "--no-test-file",
         "--no-throughput", "--json"], capture_output=True, text=True, env=clean_environment())
    [http] = [finding for finding in json.loads(doctor.stdout)["findings"] if finding["check"] == "http"]
    assert ("HTTP/2 is not tried" in http["message"]) == (not is_repaired), http


@pytest.mark.parametrize("loss", [0.01, 0])
def test_auto_stays_with_http_1_where_http_2_carries_no_more(
        request, new_network, new_receiver, new_mount, authority, folder, loss):
    """The trial is in the middle of the upload. With a libcurl whose HTTP/2 stalls it has the same end."""
    if not request.config.getoption("--fresh"):
        pytest.skip("with --fresh only: it takes a minute and a half")
    rate = 20e6
    network = new_network(path(rate="20mbit", delay="50ms", queue="200ms", upstream={"loss": loss}), congestion="cubic")
    certificate = authority.issue("receiver", hosts=f"IP:{network.server.address}")
    receiver = new_receiver(
        certificate=certificate, ca=authority.certificate, host=network.server.address, prefix=network.server.prefix)
    mount = new_mount(
        receiver, "--congestion", "system", "--chunk-size", "256KiB", "--expert", "http2-library=any", prefix=network.client.prefix)
    source = write_random(folder / "source", int(rate / 8 * 90))
    (mount.root / "capture.mov").write_bytes(source.read_bytes())
    mount.wait_for("capture.mov", "complete", timeout=240)
    assert sha256(receiver.files / "capture.mov") == sha256(source)
    [[server]] = [found["servers"] for found in mount.summary()["http_versions"]]
    assert server["finding"] in ("behind", "not-better", "failed", "undecided") and server["http1_bytes_per_second"] > 0, server
    assert mount.status("capture.mov")["connection"]["protocol"] == "HTTP/1.1"
    assert [line for line in mount.program.log.splitlines() if "HTTP/2" in line and "HTTP/1.1" in line], mount.program.log
