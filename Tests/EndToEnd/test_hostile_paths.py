"""Every destination behind a front that breaks, stalls, cuts, answers in its place and flips bits where TLS does not protect them
(hostile.py): nothing damaged is acknowledged or published, everything arrives, and what is sent twice has a bound.

    /usr/bin/python3 -m pytest -s Tests/EndToEnd/test_hostile_paths.py --fresh     10,000 chunks at each destination (scripts/test --long)
    … --seed N     deals the same cards again
"""

import collections
import dataclasses
import hashlib
import json
import random
import time

import pytest

import conformance
from harness import sha256
from hostile import ANSWER_FLIPPED, BREAKS, BREAKS_OF_CONTENT, CONTENT_FLIPPED, FLIPS, HEAD_FLIPPED, HostileFront
from network import path
from s3_front import S3Front

FIXED_SEED = 20261130


@dataclasses.dataclass(frozen=True)
class Amount:
    chunks: int
    # Of the files with several chunks together.
    long_bytes: int
    # Cards that do nothing, in a pack with every fault once; and among those for requests with content.
    passing: int
    passing_content: int
    seconds: int
    # How often a bad line goes.
    breaks: int


FEW = Amount(chunks=60, long_bytes=12 << 20, passing=40, passing_content=12, seconds=90, breaks=3)
MANY = Amount(chunks=10_000, long_bytes=256 << 20, passing=200, passing_content=200, seconds=3600, breaks=100)
LONG_CHUNKS = 5
SMALL_FILE = 24 << 10
HASTY = [word for setting in (
    "retry-delay=50ms", "retry-delay-max=1s", "file-pause-max=15s", "stall-timeout=2s", "answer-timeout=5s",
    "request-timeout=5s") for word in ("--expert", setting)] + ["--parallel", "8", "--upload-priority", "normal"]
# What a request, and a file in a request with several, carries beside bytes of captures.
HEAD_BYTES = 1 << 10


class VouchingS3Front(S3Front):
    """Compares each body with the SHA-256 that its request is signed with, as S3 does; the servers behind it do not."""

    def __init__(self, target_port):
        super().__init__(target_port, lambda method, path, headers: None)

    def _pass_on(self, method, path, headers, body):
        if hashlib.sha256(body).hexdigest() != headers["x-amz-content-sha256"]:
            return 400, [], b"<Error><Code>XAmzContentSHA256Mismatch</Code></Error>"
        return super()._pass_on(method, path, headers, body)


class S3ThatVouches(conformance.S3OnMoto):
    name = "s3-that-vouches"

    def target_port(self):
        self.vouching = VouchingS3Front(self.server.port)
        self.vouching.__enter__()
        return self.vouching.port

    def close(self):
        left = super().close()
        self.vouching.__exit__()
        return left


class TusThatVouches(conformance.TusOnResumableUpload):
    """Each body is one of PATCH: those of POST the server compares with no checksum."""

    name = "tus-that-vouches"
    settings = conformance.TusOnResumableUpload.settings | {"hidden_extensions": ["creation-with-upload"]}


class TusOnTuspyserver(conformance.TusOnTuspyserver):
    settings = conformance.TusOnTuspyserver.settings | {"lock_seconds": 0.5}


class TusWithOneGrowingUpload(conformance.TusWithOneGrowingUpload):
    settings = conformance.TusWithOneGrowingUpload.settings | {"lock_seconds": 0.5}


ALL = [
    conformance.OwnReceiver, conformance.S3OnRclone, conformance.S3OnMoto, S3ThatVouches, TusOnTuspyserver,
    conformance.TusOnResumableUpload, TusThatVouches, conformance.TusWithOneUpload, TusWithOneGrowingUpload, conformance.IETFDraft,
    conformance.ExampleForm, conformance.WebDAVOnRclone, conformance.WebDAVOnWsgiDAV, conformance.WebDAVOnApache,
    conformance.WebDAVOnNginx]

# One of each kind, for each run.
SOME = [
    conformance.OwnReceiver, conformance.S3OnRclone, S3ThatVouches, TusThatVouches, conformance.TusWithOneUpload, TusWithOneGrowingUpload,
    conformance.IETFDraft, conformance.ExampleForm, conformance.WebDAVOnRclone, conformance.WebDAVOnApache]

# Which bits may flip where nothing but TLS protects them, beside those of answers: where the destination promises to notice (DE174).
NOTICED = {
    conformance.OwnReceiver: (CONTENT_FLIPPED, HEAD_FLIPPED), conformance.S3OnRclone: (HEAD_FLIPPED,), S3ThatVouches: (CONTENT_FLIPPED,),
    TusThatVouches: (CONTENT_FLIPPED,), conformance.TusWithOneUpload: (CONTENT_FLIPPED,), conformance.IETFDraft: (CONTENT_FLIPPED,)}
# The server compares the bodies of this method alone.
VOUCHED_METHODS = {conformance.TusWithOneUpload: ("PATCH",)}


def pytest_generate_tests(metafunc):
    """Over a bad line the receiver alone; with --fresh all everywhere."""
    near, far = (ALL, ALL) if metafunc.config.getoption("--fresh") else (SOME, SOME[:1])
    for name, kinds in (("kind", near), ("far_kind", far)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, kinds, ids=lambda kind: kind.name)


@pytest.fixture
def amount(request):
    return MANY if request.config.getoption("--fresh") else FEW


@pytest.fixture
def seed(request):
    seed = request.config.getoption("--seed")
    if seed is None:
        seed = random.SystemRandom().randrange(1 << 30) if request.config.getoption("--fresh") else FIXED_SEED
    print(f"again: /usr/bin/python3 -m pytest -p no:cacheprovider {request.node.nodeid} --seed {seed}")
    return seed


@pytest.fixture
def there(kind, folder, authority):
    with conformance.running(kind, folder, authority, HostileFront) as destination:
        yield destination


class Captures:
    """Files of one seed, and what is known of their delivery."""

    def __init__(self, there, mount, seed, amount):
        self.there, self.mount, self.amount = there, mount, amount
        self.draw = random.Random(f"captures {seed}")
        self.digests, self.sizes = {}, {}
        self.statuses, self.failed = {}, {}

    @property
    def size(self):
        return sum(self.sizes.values())

    def count(self, what):
        return sum(status["chunks"][what] for status in self.statuses.values())

    def write(self):
        chunk, long_bytes, chunks = self.there.abilities.chunk_bytes, self.amount.long_bytes, 0
        while chunks < self.amount.chunks:
            size = self.draw.randrange(1, SMALL_FILE)
            if long_bytes > 0 and self.draw.random() < 0.3:
                size = self.draw.randrange(chunk + 1, LONG_CHUNKS * chunk)
                long_bytes -= size
            content = self.draw.randbytes(size)
            name = f"{len(self.digests) % 7}/{len(self.digests):05}.mov"
            self.digests[name], self.sizes[name] = hashlib.sha256(content).hexdigest(), size
            place = self.mount.root / name
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(content)
            chunks += -(-size // chunk)

    def follow(self):
        """Until each one is delivered or has failed. What is called delivered is compared at once."""
        pending = collections.deque(sorted(set(self.digests) - set(self.statuses)))
        deadline = time.monotonic() + self.amount.seconds
        while pending:
            for _ in range(min(200, len(pending))):
                name = pending.popleft()
                status = json.loads((self.mount.root / "status" / f"{name}.json").read_bytes())
                if status["state"] == "complete":
                    self.compare(name, status)
                elif status["state"] == "failed":
                    self.failed[name] = status["last_error"]
                else:
                    pending.append(name)
            assert time.monotonic() < deadline, f"{len(pending)} files are not delivered: {self.mount.status(pending[0])}"
            time.sleep(0.02)

    def compare(self, name, status):
        assert status["receipt"]["size"] == self.sizes[name], status
        try:
            found = self.there.digest(status)
        except (KeyError, FileNotFoundError):
            # A bit of the upload's address, or of a form's word, has flipped in the answer: the receipt names something else.
            assert self.there.front.happened[ANSWER_FLIPPED], status
            found = self.digests[name] if self.lies_there(name) else None
        assert found == self.digests[name], f"{name} is called delivered, and is not there as it is here: {status}"
        self.statuses[name] = status

    def lies_there(self, name):
        server = self.there.server
        if (uploads := server.folder / "uploads").is_dir():
            return any(sha256(upload) == self.digests[name] for upload in uploads.glob("*") if upload.is_file())
        return hashlib.sha256(self.there.content(name)).hexdigest() == self.digests[name]

    def expect_nothing_damaged(self):
        """Whatever is published is one of the captures as it is, under whatever name."""
        contents = set(self.digests.values())
        for name in self.there.names():
            assert hashlib.sha256(self.there.content(name)).hexdigest() in contents, f"{name} is no capture"


def play(there, mount, seed, amount):
    """Captures go through the hostile front, and everything that is promised of them is compared."""
    kind, front = type(there), there.front
    faults = (*BREAKS, *BREAKS_OF_CONTENT, ANSWER_FLIPPED, *NOTICED.get(kind, ()))
    captures, methods = Captures(there, mount, seed, amount), VOUCHED_METHODS.get(kind)
    front.begin(seed, faults, amount.passing, amount.passing_content, lambda method: not methods or method in methods)
    start = time.monotonic()
    try:
        captures.write()
        captures.follow()
    finally:
        print(report(there, captures, time.monotonic() - start))
    assert set(front.happened) == set(faults)
    # A bit that flips makes a request say something else, which its server refuses for good: that is the user's to try again.
    assert len(captures.failed) <= sum(front.happened[flip] for flip in FLIPS)
    assert front.received <= bound(there, captures)
    front.relent()
    if captures.failed:
        print("\n".join(f"{name}: {error['code']} {error['message']}" for name, error in captures.failed.items()))
        done = mount.tool("retry", "--all")
        assert done.returncode == 0, done.stderr
        mount.wait_all(timeout=amount.seconds)
        captures.follow()
    captures.expect_nothing_damaged()


def report(there, captures, seconds):
    front, failures = there.front, collections.Counter(error["code"] for error in captures.failed.values())
    return (
        f"{there.name}: {captures.size} bytes in {len(captures.digests)} files, {captures.count('total')} chunks, {front.requests} requests, "
        f"{seconds:.1f} s; sent {front.received / captures.size:.3f} of that, {front.harmed_bytes / captures.size:.3f} in requests that met a fault; "
        f"{captures.count('retried')} chunks again; {sum(front.happened.values())} faults: {dict(front.happened)}; failed: {dict(failures)}")


def bound(there, captures):
    """What may be sent in all: everything once, the requests that met a fault again, and what the others cost. These are few: a stall or an
    answer that is of no use also costs what is beside it. With 10,000 chunks it was less than 0.03 of the captures."""
    abilities = there.abilities
    beside = 4 * abilities.chunk_bytes
    if abilities.streams_whole_files or abilities.chunk_rows == "one":
        # The file, or its upload, begins anew.
        beside = 2 * max(captures.sizes.values())
    heads = HEAD_BYTES * (there.front.requests + len(captures.sizes))
    return 1.02 * captures.size + there.front.harmed_bytes + beside + heads


@pytest.mark.promises("DE1", "DE174")
def test_nothing_damaged_is_acknowledged_and_everything_arrives(there, new_mount, folder, seed, amount):
    options, environment = there.login(folder)
    mount = new_mount(
        None, *there.options, *options, *HASTY, to=there.to(there.front.port), ca=there.authority.certificate, environment=environment)
    play(there, mount, seed, amount)


@pytest.mark.promises("DE1", "DE174")
def test_the_same_over_a_line_that_loses_packets_and_goes(far_kind, new_network, folder, authority, new_mount, seed, amount):
    network = new_network(
        path(rate="50mbit", delay="10ms", jitter="3ms", upstream={"loss": 0.01}, downstream={"loss": 0.005}), congestion=None)
    host = network.server.address

    def front(port, identity, ca):
        return HostileFront(port, authority.issue("far", hosts=f"IP:127.0.0.1,IP:{host}"), ca, host="0.0.0.0")

    with network.server.inside(), conformance.running(far_kind, folder, authority, front) as there:
        options, environment = there.login(folder)
        mount = new_mount(
            None, *there.options, *options, *HASTY, to=there.to(there.front.port).replace("127.0.0.1", host), ca=authority.certificate,
            environment=environment, prefix=network.client.prefix)
        for number in range(amount.breaks):
            network.path[0].after(0.3 + 5 * number, down=True)
            network.path[0].after(1.5 + 5 * number, down=False)
        play(there, mount, seed, amount)
        mount.close()
    dropped = network.path[0].counters()["upstream"]["dropped"]
    assert dropped["loss"]["packets"] > 0 and dropped["down"]["packets"] > 0, dropped
