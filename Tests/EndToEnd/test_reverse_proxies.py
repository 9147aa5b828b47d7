"""A receiver behind other people's proxies, with the files of examples/proxies: captures arrive as they were recorded, and each row of
docs/proxies.md says what a mount says where a line is missing or another one."""

import hashlib
import os
import re
import signal
import subprocess

import pytest

from harness import REPOSITORY, sha256, write_random
from promises import installed
from protocol_client import crc32c, tag
from reverse_proxies import ALL, NginxProxy
from test_doctor import diagnose
from throttle import ThrottlingProxy

MIB = 1 << 20
HASTY = ("--expert", "retry-delay=50ms")
PAGE = (REPOSITORY / "docs" / "proxies.md").read_text()
AWKWARD = ("100%.mov", "a%2Fb%25.mov", "a b+c&d=e;f?g#h.mov", "ünï.mov", "back\\slash", "a..b", "{a}|^~`")
NAMES = "|".join(kind.name for kind in ALL)
# Proxy, line, what stands in its place, when that shows, and what is said.
ROWS = [match.groups() for match in re.finditer(rf"(?m)^\| ({NAMES}) \| (.+?) \| (.+?) \| (.+?) \| (.+) \|$", PAGE)]


@pytest.fixture
def new_proxy(folder, receiver, authority):
    """Starts proxies before the receiver, and ends them after the mounts."""
    made = []

    def make(kind, changes=()):
        made.append(kind(folder / f"proxy{len(made) or ''}", authority, receiver, changes))
        return made[-1].start()

    yield make
    left = [line for proxy in made for line in proxy.close()]
    assert not left, "\n".join(left)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_captures_arrive_as_they_were_recorded(kind, folder, receiver, new_proxy, new_mount):
    """Of several sizes, while the proxy is reloaded and restarted, with the names that paths have."""
    proxy = new_proxy(kind)
    mount = new_mount(receiver, *HASTY, to=proxy.url, ca=proxy.ca)
    growing = write_random(folder / "growing", 24 * MIB).read_bytes()
    with open(mount.root / "growing.mov", "wb", buffering=0) as file:
        for part, interrupt in enumerate((proxy.reload, proxy.restart, lambda: None)):
            file.write(growing[part * 8 * MIB:(part + 1) * 8 * MIB])
            least = (part * 8 + 4) * MIB
            mount.readings("growing.mov", lambda reading: reading["bytes"]["acknowledged"] >= least)
            interrupt()
    contents = {"growing.mov": growing, "empty": b""}
    sizes = {"large.mov": 16 * MIB, "one request.mov": 700_000} | {f"many/{number}.jpg": 300 + number for number in range(100)}
    sizes |= {f"names/{name}": 1000 for name in AWKWARD}
    for number, (name, size) in enumerate(sizes.items()):
        path = mount.root / name
        path.parent.mkdir(exist_ok=True)
        contents[name] = write_random(path, size, seed=number).read_bytes()
    (mount.root / "empty").touch()
    # One chunk as long as a receiver takes any.
    long = new_mount(receiver, *HASTY, "--chunk-size", "32MiB", name="long", to=proxy.url, ca=proxy.ca)
    contents["long.mov"] = write_random(long.root / "long.mov", 32 * MIB + 1, seed=1000).read_bytes()
    mount.wait_all()
    long.wait_all()
    # A “%” is encoded in them.
    contents |= {mount.status(f"names/{name}")["published_name"]: contents.pop(f"names/{name}") for name in AWKWARD}
    asked(proxy, receiver, folder, "asked.mov", contents)
    assert receiver.published() == {name: len(content) for name, content in contents.items()}
    different = [name for name, content in contents.items() if (receiver.files / name).read_bytes() != content]
    assert not different, different


def test_a_path_before_it_is_taken_off(receiver, new_proxy, new_mount):
    proxy = new_proxy(NginxProxy, [
        ("location / {", "location /uploads/ {"), ("proxy_pass https://uploadfs-receiver;", "proxy_pass https://uploadfs-receiver/;")])
    mount = new_mount(receiver, *HASTY, to=f"{proxy.url}/uploads", ca=proxy.ca)
    for name in AWKWARD:
        (mount.root / name).write_bytes(name.encode())
    mount.wait_all()
    published = {mount.status(name)["published_name"]: name.encode() for name in AWKWARD}
    assert {name: (receiver.files / name).read_bytes() for name in receiver.published()} == published


def asked(proxy, receiver, folder, name, contents):
    """Sends a file with `Expect: 100-continue`, which mounts have for other destinations."""
    contents[name] = data = write_random(folder / name, 300_000, seed=7).read_bytes()
    nonce = os.urandom(32)
    fields = {
        "Authorization": f"Bearer {receiver.token}", "Expect": "100-continue", "Idempotency-Key": '"asked"',
        "X-Chunk-SHA256": hashlib.sha256(data).hexdigest(), "X-Chunk-CRC32C": f"{crc32c(data):08x}", "X-Chunk-Size": len(data),
        "X-Chunk-Nonce": nonce.hex(), "X-Chunk-HMAC": tag(receiver.token, nonce, "asked", 0, data)}
    done = subprocess.run(
        [installed("curl"), "--silent", "--verbose", "--http1.1", "--cacert", proxy.ca, "--request", "PUT", "--data-binary",
         f"@{folder / name}", *(word for field in fields.items() for word in ("--header", "{}: {}".format(*field))),
         f"{proxy.url}/v1/files/{name}"], capture_output=True, text=True, timeout=60)
    assert "< HTTP/1.1 100" in done.stderr and "< HTTP/1.1 201" in done.stderr, done.stderr


def text(cell):
    """What stands in a cell as code; nothing where that is not code."""
    return cell.strip("`") if cell.startswith("`") else ""


def test_each_proxy_has_rows():
    assert {row[0] for row in ROWS} == {kind.name for kind in ALL if kind.is_end}
    assert len(ROWS) == len(re.findall(rf"(?m)^\| (?:{NAMES}) \| .* \| .* \| .* \| .* \|$", PAGE))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {text(row[1])} → {text(row[2])}"[:70])
def test_the_page_says_what_a_mount_says(row, receiver, new_proxy, new_mount):
    name, line, other, when, said = row
    [kind] = [kind for kind in ALL if kind.name == name]
    proxy = new_proxy(kind, [(text(line), text(other))])
    words = re.findall("“(.+?)”", said)
    assert words or said.startswith("nothing"), "words of what is said, in quotation marks"
    {"always": doctor if not said.startswith("status") else mounted, "the receiver takes longer": late, "a slow line": slow}[when](proxy, receiver, new_mount, said, words)


def mounted(proxy, receiver, new_mount, said, words):
    mount = new_mount(receiver, *HASTY, to=proxy.url, ca=proxy.ca)
    write_random(mount.root / "capture.mov", MIB)
    expect(mount, said, words)
    mount.stop_at_once()


def doctor(proxy, receiver, _, said, words):
    diagnosis = diagnose("--to", proxy.url, "--ca", proxy.ca, "--token-file", receiver.token_file, "--no-throughput")
    check = re.match(r"`doctor`, `([\w-]+)`", said)
    if check:
        # The last one of a kind need not be the one that has found something.
        found = [finding for finding in diagnosis.document["findings"] if finding["check"] == check[1] and finding["level"] != "ok"]
        assert any(all(word in f"{finding['message']} {finding.get('advice')}" for word in words) for finding in found), diagnosis.text
        return
    assert said.startswith("nothing") and diagnosis.code == 0, diagnosis.text
    levels = {finding["level"] for finding in diagnosis.document["findings"] if finding["check"] in (
        "http", "limits", "credentials", "test-file", "session")}
    assert levels == {"ok"}, diagnosis.text
    if "a connection for each request" in said:
        assert receiver.stats()["tls_handshakes"] >= proxy.requests, "each has one of its own"
    assert all(word in proxy.log for word in words), proxy.log


def late(proxy, receiver, new_mount, said, words):
    """The receiver stands still until the mount has said something. Until then the proxy had connections to it, on which requests can wait."""
    mount = new_mount(receiver, *HASTY, to=proxy.url, ca=proxy.ca)
    for number in range(8):
        write_random(mount.root / f"{number}.mov", MIB, seed=number)
    mount.wait_all()
    receiver.program.signal(signal.SIGSTOP)
    try:
        source = write_random(mount.root / "capture.mov", MIB)
        expect(mount, said, words)
    finally:
        receiver.program.signal(signal.SIGCONT)
    mount.wait_for("capture.mov", "complete")
    assert sha256(receiver.files / "capture.mov") == sha256(source)


def slow(proxy, receiver, new_mount, said, words):
    """A line of 200 kB/s, on which the first requests take several seconds."""
    with ThrottlingProxy(proxy.port, rate=200_000) as line:
        mount = new_mount(receiver, *HASTY, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{line.port}", ca=proxy.ca)
        write_random(mount.root / "capture.mov", 4 * MIB)
        expect(mount, said, words)
        mount.stop_at_once()


def expect(mount, said, words):
    [code] = re.findall(r"^status, `([\w-]+)`", said)
    last = mount.readings("capture.mov", lambda reading: reading["last_error"])[-1]["last_error"]
    assert last["code"] == code and all(word in last["message"] for word in words), last
