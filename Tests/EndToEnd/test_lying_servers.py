"""Servers that lie in the words of their protocols, over real connections (spec E8): what they cost has a bound and a reason."""

import pytest

from harness import clean_environment, wait_until, write_random
from lying_servers import LyingServer

SIZE = 700_000
PAGE = (200, {"Content-Type": "text/html"}, b"<!DOCTYPE html><title>Sign in</title>")


def carries(handler, body):
    return len(body) > 1000


def bodies(status, fields=(), content=b""):
    """Whatever carries bytes of the file is answered so."""
    return lambda handler, body: (status, dict(fields), content) if carries(handler, body) else None


def everything(status, fields=(), content=b""):
    return lambda handler, body: (status, dict(fields), content)


def forgets_what_is_finished(handler, body):
    """The upload is taken, and is not there when it is asked for (DS1)."""
    if handler.command != "HEAD":
        return None
    return 404, {"Tus-Resumable": "1.0.0"}


def offset_falls(handler, body):
    if handler.command not in ("HEAD", "PATCH"):
        return None
    return (200 if handler.command == "HEAD" else 204), {
        "Tus-Resumable": "1.0.0", "Upload-Offset": 0, "Upload-Complete": "?0", "Upload-Length": handler.server.uploads[handler.place].get("length", 3 << 20)}


def no_part_is_known(handler, body):
    if handler.command == "POST" and "uploadId" in handler.query:
        return handler.xml("<Error><Code>InvalidPart</Code></Error>", 400)
    return None


HALF_A_HEAD = (
    b'HTTP/1.1 201 Created\r\nTus-Resumable: 1.0.0\r\nETag: "x"\r\nLocation: /files/9\r\nUpload-Offset: 700000\r\n'
    b"Upload-Complete: ?1\r\nContent-")


CHUNKS = {"s3": ("--chunk-size", "5MiB", "--max-file-size", "1GB"), "draft": ("--chunk-size", "2MiB")}
SIZES = {offset_falls: {"draft": 3 << 20}, no_part_is_known: {"s3": 6 << 20}}
COMMON = {
    "page": bodies(*PAGE), "nonsense": bodies(202, {}, b'{"status":[[['), "500": bodies(500), "503": bodies(503),
    "503 at once": bodies(503, {"Retry-After": "0"}), "404": bodies(404), "423": bodies(423), "429": bodies(429),
    "redirect": bodies(302, {"Location": "/login"}), "half a head": bodies(None, {}, HALF_A_HEAD),
}
LIES = [(protocol, name, lie) for protocol in ("tus", "draft", "s3", "form") for name, lie in COMMON.items()]
LIES += [
    ("tus", "offset falls", offset_falls), ("draft", "offset falls", offset_falls),
    ("tus", "410 to everything", everything(410)), ("draft", "410 to everything", everything(410)),
    ("s3", "no part is known", no_part_is_known), ("s3", "403 without a word", bodies(403)), ("s3", "405", bodies(405)),
]


@pytest.fixture
def new_liar():
    made = []

    def make(protocol, lie, **more):
        made.append(LyingServer(protocol, lie, **more))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.mark.promises("DE131", "DE132")
@pytest.mark.parametrize("protocol, name, lie", LIES, ids=[f"{protocol}-{name.replace(' ', '-')}" for protocol, name, _ in LIES])
def test_a_lie_costs_little_has_a_reason_and_holds_up_no_other(new_liar, new_mount, protocol, name, lie):
    server = new_liar(protocol, lie)
    to, options = server.options
    # What is larger than a chunk takes several requests.
    size = SIZES.get(lie, {}).get(protocol, SIZE)
    environment = clean_environment(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret")
    mount = new_mount(None, *options, *CHUNKS.get(protocol, ()), to=to, environment=environment)
    victim, good = mount.root / "victim.mov", mount.root / "good.mov"
    write_random(victim, size)
    write_random(good, SIZE, seed=2)
    wait_until(lambda: mount.status("good.mov")["state"] == "complete", "the other file is delivered")
    wait_until(lambda: mount.status("victim.mov")["last_error"], "the status has a reason")
    wait_until(lambda: server.lies >= 3 or mount.status("victim.mov")["state"] == "failed", "it was tried again")
    status = mount.status("victim.mov")
    assert status["state"] != "complete" and status["last_error"]["message"]
    wait_until(lambda: "victim.mov" in mount.program.log, "the log says so as well")
    # Each try costs the file at most, and few fit into this time.
    assert server.received.get("victim.mov", 0) <= 8 * (size + 10_000)
    with server.lock:
        server.lie = None
    mount.say("retry", "victim.mov")
    wait_until(lambda: mount.status("victim.mov")["state"] == "complete", "it is delivered once the server tells the truth")
    assert server.published["victim.mov"] == victim.read_bytes()
    assert server.published["good.mov"] == good.read_bytes()


@pytest.mark.promises("DE137")
@pytest.mark.parametrize("size", [SIZE, 5 << 20], ids=["in one request", "in a session"])
def test_a_finished_upload_that_is_not_there_any_more_is_delivered(new_liar, new_mount, size):
    """Regression (DS1): it was asked for, called gone and sent again, at once and for ever: 636 times in 15 s. (DS40): one of several
    requests was sent ten times and failed."""
    server = new_liar("tus", forgets_what_is_finished)
    to, options = server.options
    mount = new_mount(None, *options, "--chunk-size", "2MiB", to=to)
    write_random(mount.root / "victim.mov", size)
    mount.wait_for("victim.mov", "complete")
    write_random(mount.root / "good.mov", SIZE, seed=2)
    mount.wait_for("good.mov", "complete")
    assert server.published["victim.mov"] == (mount.root / "victim.mov").read_bytes()
    assert server.received["victim.mov"] == size and mount.status("victim.mov")["attempts"] == 0


@pytest.mark.parametrize("parts", ["shared", "lost"])
@pytest.mark.promises("DE133")
def test_parts_that_are_lost_or_confused_are_followed_by_one_upload(new_liar, new_mount, parts):
    """Regression (DS26): a server that gave all parts one Location published one of them, repeated; one that lost them all got them
    again and again, twelve at once."""
    server = new_liar("tus", None, parts=parts)
    to, options = server.options
    mount = new_mount(None, *options, "--chunk-size", "2MiB", to=to)
    content = write_random(mount.root / "victim.mov", 7 << 20).read_bytes()
    wait_until(lambda: mount.status("victim.mov")["state"] in ("complete", "failed"), "its end")
    assert server.published == {"victim.mov": content}
    assert mount.status("victim.mov")["state"] == "complete"
    assert server.received["parts"] <= 2 * len(content)
    assert server.lies == (0 if parts == "shared" else 2), "how often it was asked to join parts"
