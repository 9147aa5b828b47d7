"""Servers that lie in the words of their protocols, over real connections: what they cost has a bound and a reason."""

import json

import pytest

from harness import clean_environment, wait_until, write_random

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
    """The upload is taken, and is not there when it is asked for."""
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


TUS = {"Tus-Resumable": "1.0.0"}


def of_upload(status, fields=(), content=b""):
    """Whatever asks for something of an upload that has begun, but not its end."""
    return lambda handler, body: (
        (status, dict(fields), content) if handler.command in ("HEAD", "PATCH") and handler.place in handler.server.uploads else None)


def offset_beyond_the_end(handler, body):
    """The true answer, with more taken than there is."""
    if handler.command == "OPTIONS":
        return None
    status, fields, *content = getattr(handler, handler.server.protocol)(body, "victim.mov")
    if "Upload-Offset" in fields:
        fields = fields | {"Upload-Offset": 1 << 40, "Upload-Complete": "?0"}
    return status, fields, *content


def begins_without_an_address(handler, body):
    return (201, TUS | {"Upload-Offset": 0, "Upload-Complete": "?0"}, b"") if handler.command == "POST" else None


def no_upload_is_known(handler, body):
    if "uploadId" in handler.query:
        return handler.xml("<Error><Code>NoSuchUpload</Code></Error>", 404)
    return None


def fails_in_a_success(handler, body):
    """As S3 does where the end takes long: the failure is told after 200."""
    if handler.command == "POST" and "uploadId" in handler.query:
        return handler.xml("<Error><Code>InternalError</Code><Message>no</Message></Error>")
    return None


def list_without_an_end(handler, body):
    """Parts are called missing at the end, and are listed without one."""
    if handler.command == "GET" and "uploadId" in handler.query:
        return handler.xml(
            "<ListPartsResult><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part>"
            "<NextPartNumberMarker>1</NextPartNumberMarker><IsTruncated>true</IsTruncated></ListPartsResult>")
    return no_part_is_known(handler, body)


HALF_A_HEAD = (
    b'HTTP/1.1 201 Created\r\nTus-Resumable: 1.0.0\r\nETag: "x"\r\nLocation: /files/9\r\nUpload-Offset: 700000\r\n'
    b"Upload-Complete: ?1\r\nContent-")


CHUNKS = {"s3": ("--chunk-size", "5MiB", "--max-file-size", "1GB"), "draft": ("--chunk-size", "2MiB")}
SIZES = {offset_falls: {"draft": 3 << 20}, no_part_is_known: {"s3": 6 << 20}} | {
    lie: {"s3": 6 << 20} for lie in (no_upload_is_known, fails_in_a_success, list_without_an_end)} | {
    offset_beyond_the_end: {"draft": 3 << 20, "tus": 9 << 20}}
COMMON = {
    "page": bodies(*PAGE), "nonsense": bodies(202, {}, b'{"status":[[['), "500": bodies(500), "503": bodies(503),
    "503 at once": bodies(503, {"Retry-After": "0"}), "404": bodies(404), "423": bodies(423), "429": bodies(429),
    "redirect": bodies(302, {"Location": "/login"}), "half a head": bodies(None, {}, HALF_A_HEAD),
}
LIES = [(protocol, name, lie) for protocol in ("tus", "draft", "s3", "form") for name, lie in COMMON.items()]
LIES += [
    ("tus", "offset falls", offset_falls), ("draft", "offset falls", offset_falls),
    ("tus", "410 to everything", everything(410)), ("draft", "410 to everything", everything(410)),
    ("tus", "410 to what has begun", of_upload(410, TUS)), ("tus", "404 to what has begun", of_upload(404, TUS)),
    ("tus", "308 to a creation", lambda handler, body: (308, TUS | {"Location": "/f"}, b"") if handler.command == "POST" else None),
    ("tus", "460", bodies(460, TUS)), ("tus", "offset beyond the end", offset_beyond_the_end),
    ("draft", "offset beyond the end", offset_beyond_the_end),
    ("tus", "no address", begins_without_an_address), ("draft", "no address", begins_without_an_address),
    ("s3", "507", bodies(507)), ("form", "507", bodies(507)),
    ("s3", "409", bodies(409)), ("form", "409", bodies(409)),
    ("s3", "no upload is known", no_upload_is_known), ("s3", "a failure in a success", fails_in_a_success),
    ("s3", "a list without an end", list_without_an_end),
    ("s3", "no part is known", no_part_is_known), ("s3", "403 without a word", bodies(403)), ("s3", "405", bodies(405)),
]


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
    wait_until(lambda: server.lies >= 3 or mount.status("victim.mov")["state"] == "failed",
        lambda: f"it was tried again: {server.lies} lies, {mount.status('victim.mov')}")
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
    """Regression: it was asked for, called gone and sent again, at once and for ever: 636 times in 15 s. One of several
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
    """Regression: a server that gave all parts one Location published one of them, repeated; one that lost them all got them
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


HTML = {"Content-Type": "text/html"}
IN_BETWEEN = {
    "502": (502, HTML, b"<html><title>Bad Gateway</title></html>"), "504": (504, {}, b""), "portal": PAGE,
    "firewall": (403, {"Content-Type": "application/json"}, b'{"message":"blocked"}'),
}
# What three tries would end, they end within seconds.
HASTY = ("--expert", "retry-delay=50ms", "--expert", "file-tries=3", "--expert", "chunk-tries=3")


@pytest.mark.promises("DE144", "DE145")
@pytest.mark.parametrize("name", IN_BETWEEN)
@pytest.mark.parametrize("protocol", ["form", "s3", "tus", "draft"])
def test_what_something_in_between_answers_to_everything_fails_no_file(new_liar, new_mount, protocol, name):
    """Regression: after 502 and 504, and a portal's page, for a minute or two every file had failed at S3 and forms; after one 403 of a
    firewall at tus and with the draft."""
    if (protocol, name) == ("form", "firewall"):
        pytest.skip("a form has no mark by which its own refusals are known")
    server = new_liar(protocol, None)
    server.gateway = lambda handler, body: IN_BETWEEN[name]
    to, options = server.options
    environment = clean_environment(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret")
    mount = new_mount(None, *options, *CHUNKS.get(protocol, ()), *HASTY, to=to, environment=environment)
    sizes = {"large.mov": 6 << 20} | {f"{number}.txt": 3000 + number for number in range(5)}
    for place, size in sizes.items():
        write_random(mount.root / place, size, seed=size)
    wait_until(lambda: server.lies >= 14, lambda: f"it is asked for ever: {server.lies}")
    states = {place: mount.status(place)["state"] for place in sizes}
    assert not {"failed", "complete"} & set(states.values()), states
    assert any(mount.status(place)["last_error"] for place in sizes)
    with server.lock:
        server.gateway = None
    mount.wait_all()
    for place in sizes:
        assert mount.status(place)["state"] == "complete"
        assert server.published[place] == (mount.root / place).read_bytes(), place


def creation(status, fields=()):
    return lambda handler, body: (status, TUS | dict(fields), b"") if handler.command == "POST" else None


FOR_GOOD = [("tus", "200 to a creation", creation(200, {"Location": "/files/1"}))] + [
    (protocol, str(status), bodies(status)) for protocol in ("tus", "draft", "s3", "form") for status in (600, 999)]


@pytest.mark.parametrize(
    "protocol, name, lie", FOR_GOOD, ids=[f"{protocol}-{name.replace(' ', '-')}" for protocol, name, _ in FOR_GOOD])
def test_an_answer_that_no_server_gives_by_its_protocol_ends_its_file(new_liar, new_mount, protocol, name, lie):
    """Regression: all bytes went out again every 15 s, for ever."""
    server = new_liar(protocol, lie)
    to, options = server.options
    environment = clean_environment(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret")
    mount = new_mount(None, *options, *CHUNKS.get(protocol, ()), *HASTY, to=to, environment=environment)
    write_random(mount.root / "victim.mov", SIZE)
    status = mount.wait_for("victim.mov", "failed")
    assert status["last_error"]["code"] == "unexpected-answer" and "the end of 3 tries" in status["last_error"]["message"], status
    # A form's body has more than the file.
    assert server.lies == 3 and server.received["victim.mov"] <= 3 * (SIZE + 1000)


def joins_nothing(what):
    """A server that announces to join parts, and says 501 to them, or to their end."""
    return lambda handler, body: (501, TUS, b"") if handler.headers.get("Upload-Concat", "").startswith(what) else None


def test_a_tus_server_that_announces_to_join_parts_and_takes_none_ends_the_file(new_liar, new_mount):
    """Regression: each part was sent again every 15 s, for ever."""
    server = new_liar("tus", None, parts="joined")
    server.gateway = joins_nothing("partial")
    to, options = server.options
    mount = new_mount(None, *options, "--chunk-size", "2MiB", *HASTY, to=to)
    write_random(mount.root / "victim.mov", 7 << 20)
    status = mount.wait_for("victim.mov", "failed")
    assert "answered 501. That was the end of 3 tries" in status["last_error"]["message"], status
    # Three of each of four parts, before it is due and when it is.
    assert server.lies <= 2 * 3 * 4 and not server.published


@pytest.mark.promises("DE144")
def test_a_tus_server_that_joins_no_parts_gets_them_once(new_liar, new_mount):
    """Regression. What it says of their end costs no byte of the file, and ends none: it may be about all files."""
    server = new_liar("tus", None, parts="joined")
    server.gateway = joins_nothing("final;")
    to, options = server.options
    mount = new_mount(None, *options, "--chunk-size", "2MiB", *HASTY, to=to)
    content = write_random(mount.root / "victim.mov", 7 << 20).read_bytes()
    wait_until(lambda: server.lies >= 5, lambda: f"it is asked more often than a file is tried: {server.lies}")
    status = mount.status("victim.mov")
    assert status["state"] not in ("failed", "complete") and "501" in status["last_error"]["message"], status
    assert server.received["parts"] == len(content)
    server.gateway = None
    mount.say("retry", "victim.mov")
    mount.wait_for("victim.mov", "complete")
    assert server.published == {"victim.mov": content} and server.received["parts"] == len(content)


@pytest.mark.promises("DE69")
@pytest.mark.parametrize("kind", ["bodies", "everything"])
def test_a_404_of_something_in_between_gives_up_no_upload_of_the_draft(new_liar, new_mount, kind):
    """Regression: the first one gave the upload up, and all of its bytes went out again."""
    server = new_liar("draft", None)
    chunk, size, left = 2 << 20, 9 << 20, 3

    def gateway(handler, body):
        nonlocal left
        is_begun = any(len(upload["bytes"]) >= 2 * chunk for upload in server.uploads.values())
        if not left or not is_begun or kind == "bodies" and not (handler.command == "PATCH" and carries(handler, body)):
            return None
        left -= 1
        return 404, {}, b"page not found"

    server.gateway = gateway
    to, options = server.options
    mount = new_mount(None, *options, *CHUNKS["draft"], *HASTY, to=to)
    write_random(mount.root / "a.mov", size)
    mount.wait_for("a.mov", "complete")
    assert server.lies == 3 and len(server.uploads) == 1
    assert server.published["a.mov"] == (mount.root / "a.mov").read_bytes()
    # What was refused goes out again, and nothing that was taken.
    assert server.received["a.mov"] <= size + 3 * chunk


TOKEN = "a-token-of-ours-0123456789"


def repeats_it_as_an_id(handler, body):
    return 201, {"Content-Type": "application/json"}, json.dumps({"id": handler.headers["Authorization"]}).encode()


def repeats_it_in_the_address(handler, body):
    """The upload is there, at a place that holds the token."""
    status, fields, *content = getattr(handler, handler.server.protocol)(body, "victim.mov")
    if handler.command != "POST":
        return status, fields, *content
    place = f"/files/{TOKEN}"
    handler.server.uploads[place] = handler.server.uploads.pop(fields["Location"])
    return status, fields | {"Location": place}, *content


@pytest.mark.promises("SE14")
@pytest.mark.parametrize("protocol, lie", [
    ("form", repeats_it_as_an_id), ("tus", repeats_it_in_the_address), ("draft", repeats_it_in_the_address)])
@pytest.mark.parametrize("size", [1000, 5 << 20], ids=["small", "large"])
def test_a_token_that_a_server_repeats_in_a_success_is_shown_or_kept_nowhere(new_liar, new_mount, folder, protocol, lie, size):
    """Regression: it was in log, status and receipt."""
    server = new_liar(protocol, lie)
    to, options = server.options
    token_file = folder / "our-token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    mount = new_mount(None, *options, "--chunk-size", "2MiB", "--log-level", "debug", to=to, token_file=token_file)
    seen = []
    with open(mount.root / "victim.mov", "wb") as file:
        for part in range(2):
            file.write(bytes([part + 1]) * (size // 2))
            file.flush()
            seen.append((mount.root / "status" / "victim.mov.json").read_text())
    seen += [json.dumps(reading) for reading in mount.readings("victim.mov", lambda status: status["state"] == "complete")]
    assert server.lies and TOKEN not in "".join(seen) + json.dumps(mount.summary()) + mount.program.log
    if protocol == "form":
        assert mount.status("victim.mov")["receipt"]["id"] == "Bearer [credential]"
    mount.stop()
    kept = [path for path in (mount.spool / ".state").rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert not kept and TOKEN not in mount.program.log


# Fifty kilobytes with lines of a log, and a colour of a terminal.
FORGED = "\n2026-01-01T00:00:00+0000 info uploadfs: [UploadEngine] forged \x1b[31m" + "x" * 50_000


def refuses_with_many_words(handler, body):
    code = FORGED.replace("\n", "&#10;").replace("\x1b", "&#155;")
    return handler.xml(f"<Error><Code>No{code}</Code><Message>{code}</Message></Error>", 403)


def takes_with_many_words(handler, body):
    # A longer one is no id.
    return 201, {"Content-Type": "application/json"}, json.dumps({"id": "1" + FORGED[:100], "more": FORGED}).encode()


@pytest.mark.promises("SE13")
@pytest.mark.parametrize("protocol, lie", [("s3", refuses_with_many_words), ("form", takes_with_many_words)])
def test_a_servers_words_are_one_short_line(new_liar, new_mount, protocol, lie):
    """Regression: S3's `<Code>` stood uncut in the status, and with a form's `id` it made lines of the log."""
    server = new_liar(protocol, lie)
    to, options = server.options
    environment = clean_environment(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret")
    mount = new_mount(None, *options, *CHUNKS.get(protocol, ()), "--log-level", "debug", *HASTY, to=to, environment=environment)
    write_random(mount.root / "victim.mov", SIZE)
    status = mount.readings("victim.mov", lambda status: status["last_error"] or status["receipt"])[-1]
    if protocol == "s3":
        message = status["last_error"]["message"]
        assert "answered No 2026-01-01T" in message and len(message) < 700 and message.isprintable()
    else:
        assert status["receipt"]["id"] == "1" + FORGED[:100]
    wait_until(lambda: "path=victim.mov" in mount.program.log, "the log says it")
    log = mount.program.log
    assert "2026-01-01T" in log and not any(line.startswith("2026-01-01T") for line in log.splitlines())
    assert "\x1b" not in log and max(map(len, log.splitlines())) < 2000
