"""Regression: servers that say success before they have read the body. What was not handed over whole is not delivered."""

import dataclasses
import json

import pytest

from early_answers import LEAST, EarlyAnswers
from harness import clean_environment, wait_until, write_random
from lying_http2 import Http2Front
from lying_receiver import LyingReceiver
from protocol_client import chain_tip, merkle_root

CHUNK = 8 << 20
HASTY = ("--expert", "retry-delay=50ms", "--expert", "stall-timeout=2s")
OPTIONS = ("--chunk-size", "8MiB", "--max-file-size", "1GB", *HASTY)
# So often a file is tried at most while a test looks; most tries hand over less than a body.
TRIES = 24


def as_if_taken(handler, name, length):
    return handler.as_if_taken(name, length)


def without_remembering(handler, name, length):
    """The same, by a server that knows nothing of it afterwards."""
    if handler.command == "PATCH":
        offset = int(handler.headers["Upload-Offset"]) + length
        return 204, {"Tus-Resumable": "1.0.0", "Upload-Offset": offset, "Upload-Complete": "?0"}, b""
    if handler.command == "POST":
        place = f"/files/{handler.server.fresh()}"
        return 201, {"Tus-Resumable": "1.0.0", "Location": place, "Upload-Offset": length, "Upload-Complete": "?1"}, b""
    return 200, {"ETag": '"0123456789abcdef0123456789abcdef"'}, b""


@dataclasses.dataclass
class Kind:
    """Which request is answered early, and how."""

    protocol: str
    method: str
    answer: object
    size: int = CHUNK
    extensions: str = ""


WITH_UPLOAD = ",creation-with-upload"
KINDS = {
    "tus PATCH": Kind("tus", "PATCH", as_if_taken), "tus PATCH forgotten": Kind("tus", "PATCH", without_remembering),
    "tus POST": Kind("tus", "POST", as_if_taken, extensions=WITH_UPLOAD),
    "tus POST forgotten": Kind("tus", "POST", without_remembering, extensions=WITH_UPLOAD),
    "draft POST": Kind("draft", "POST", as_if_taken), "draft POST forgotten": Kind("draft", "POST", without_remembering),
    "S3 PUT": Kind("s3", "PUT", without_remembering), "S3 UploadPart": Kind("s3", "PUT", as_if_taken, 2 * CHUNK),
    "form POST": Kind("form", "POST", as_if_taken),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=[name.replace(" ", "-") for name in KINDS])
def test_a_success_before_the_body_was_read_delivers_nothing(new_liar, new_mount, kind):
    early = EarlyAnswers(lambda handler, *more: kind.answer(handler, *more) if handler.command == kind.method else None)
    server = new_liar(kind.protocol, None, early=early, extensions=kind.extensions)
    to, options = server.options
    environment = clean_environment(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret")
    mount = new_mount(None, *options, *OPTIONS, to=to, environment=environment)
    check(mount, early, kind.size, lambda name: server.published.get(name))


@pytest.mark.promises("DE103")
@pytest.mark.parametrize("name", ["tus PATCH", "draft POST", "S3 PUT", "form POST"])
def test_a_page_before_the_body_was_read_ends_no_file(new_liar, new_mount, name):
    """Regression: a login page that came before the body counted as the destination's own success, of which ten end a file."""
    kind, pages = KINDS[name], 0

    def answer(handler, *_):
        nonlocal pages
        if handler.command != kind.method or pages == 12:
            return None
        pages += 1
        return 200, {"Content-Type": "text/html"}, b"<!doctype html><title>Guest network</title>Log in"

    server = new_liar(kind.protocol, None, early=EarlyAnswers(answer), extensions=kind.extensions)
    to, options = server.options
    environment = clean_environment(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret")
    mount = new_mount(None, *options, *OPTIONS, "--expert", "retry-delay-max=1s", to=to, environment=environment)
    content = write_random(mount.root / "victim-closes.mov", kind.size).read_bytes()
    mount.wait_for("victim-closes.mov", "complete", timeout=120)
    assert pages == 12 and server.published.get("victim-closes.mov") == content


@pytest.mark.parametrize("ending", Http2Front.ENDINGS)
@pytest.mark.parametrize("name", ["tus PATCH", "tus POST", "draft POST", "S3 PUT", "S3 UploadPart", "form POST"])
def test_a_stream_of_http_2_that_ends_before_its_body_was_read_delivers_nothing(new_liar, new_mount, authority, name, ending):
    """The answer ends the server's side of the stream, which HTTP/1.1 cannot say."""
    kind, victim = KINDS[name], f"victim-{ending}.mov"
    early = EarlyAnswers(lambda request, *more: kind.answer(request, *more) if request.command == kind.method else None)
    server = new_liar(kind.protocol, None, extensions=kind.extensions)
    front = Http2Front(server, authority.issue("liar"), early)
    try:
        options = [*server.options[1], *OPTIONS, "--http", "2", "--expert", "http2-library=any"]
        environment = clean_environment(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret")
        mount = new_mount(None, *options, to=front.to, ca=authority.certificate, environment=environment)
        content = write_random(mount.root / victim, kind.size).read_bytes()
        wait_until(lambda: len(early.answered.get(victim, [])) >= 2, "it is tried again")
        status = mount.readings(victim, lambda status: status["last_error"])[-1]
        assert status["state"] != "complete" and not status["receipt"], status
        assert early.read.get(victim, 0) < len(early.answered[victim]) * LEAST
        early.is_over.set()
        mount.say("retry", victim)
        mount.wait_for(victim, "complete")
        assert server.published[victim] == content and front.versions == {"h2"}
    finally:
        front.close()


def check(mount, early, size, published, is_believed=True):
    """Writes a file for each way in which a server may go on, and looks at them until the truth is told. What was handed over whole, and is
    not kept, is believed where nothing shows it."""
    victims = {ending: f"victim-{ending}.mov" for ending in early.ENDINGS}
    for number, name in enumerate(victims.values()):
        write_random(mount.root / name, size, seed=number)
    wait_until(lambda: set(early.answered) == set(victims.values()), lambda: f"each is answered early: {early.answered}")
    # Which takes its time, and is served beside them.
    write_random(mount.root / "good.mov", LEAST - 1, seed=9)
    mount.wait_for("good.mov", "complete")
    later = victims.pop("later")
    assert mount.status(later)["state"] != "complete", "nothing of it was read"
    early.may_read.set()
    if is_believed:
        mount.wait_for(later, "complete")
        # The last of it may be between the programs.
        wait_until(lambda: early.read[later] >= size, "all of it was read")
    else:
        victims["later"] = later
    for name in victims.values():
        wait_until(lambda: mount.status(name)["last_error"], f"{name}: the status has a reason")
        wait_until(lambda: f"path={name} " in mount.program.log, f"{name}: the log says so as well")
        status = mount.status(name)
        assert status["state"] != "complete" and not status["receipt"] and len(status["last_error"]["message"]) > 20, status
    assert all(sum(lengths) <= TRIES * size for lengths in early.answered.values()), early.answered
    early.is_over.set()
    for name in victims.values():
        mount.say("retry", name)
        mount.wait_for(name, "complete")
        assert published(name) == (mount.root / name).read_bytes(), name
    assert published("good.mov") == (mount.root / "good.mov").read_bytes()


def receipt(handler, name, digests):
    """As the receiver would give it."""
    key = handler.headers["Idempotency-Key"].strip('"')
    document = {
        "id": key, "name": name, "size": int(handler.headers["X-Chunk-Size"]), "merkle_root": merkle_root(digests).hex(),
        "chain_tip": chain_tip(key, digests).hex(), "published_at_ms": 1_790_000_000_000}
    return 201, {"Content-Type": "application/json"}, json.dumps(document).encode()


def whole_file(handler, name, length):
    if handler.place.startswith("/v1/files/"):
        return receipt(handler, name, [bytes.fromhex(handler.headers["X-Chunk-SHA256"])])
    return None


def chunk(handler, name, length):
    return (201, {}, b"") if handler.place.split("/")[-2:-1] == ["chunks"] else None


@pytest.mark.parametrize("answer, size", [(whole_file, CHUNK), (chunk, 2 * CHUNK)], ids=["whole file", "chunk"])
def test_a_receiver_that_answers_before_it_reads_has_nothing(receiver, authority, new_mount, answer, size):
    """What the receiver lacks of what it said to have, its answer to the commit shows."""
    early = EarlyAnswers(answer)
    server = LyingReceiver(receiver, authority.issue("liar"), early=early)
    try:
        mount = new_mount(receiver, "--chunk-size", "8MiB", *HASTY, to=server.url, ca=authority.certificate)
        check(mount, early, size, lambda name: (receiver.files / name).read_bytes(), answer is whole_file)
    finally:
        server.close()


@pytest.mark.parametrize("protocol", ["tus", "draft"])
def test_an_offset_beyond_what_was_handed_over_is_not_believed(new_liar, new_mount, protocol):
    """The server answers early, ends the connection, and says when it is asked that it has all of the piece."""
    early = EarlyAnswers(lambda handler, *more: as_if_taken(handler, *more) if handler.command == "PATCH" else None)
    server = new_liar(protocol, None, early=early)
    to, options = server.options
    mount = new_mount(None, *options, *OPTIONS, to=to)
    write_random(mount.root / "victim-closes.mov", 2 * CHUNK)
    wait_until(lambda: early.answered.get("victim-closes.mov"), "it is answered early")
    write_random(mount.root / "good.mov", LEAST - 1, seed=9)
    mount.wait_for("good.mov", "complete")
    wait_until(lambda: mount.status("victim-closes.mov")["last_error"] or
               mount.status("victim-closes.mov")["state"] == "complete", "its end, or a reason")
    wait_until(lambda: len(early.answered["victim-closes.mov"]) >= 2, "it is tried again, or its next piece is sent")
    wait_until(lambda: len(early.answered["victim-closes.mov"]) >= 4 or
               mount.status("victim-closes.mov")["state"] == "complete", "its end, or more tries")
    assert mount.status("victim-closes.mov")["state"] != "complete"
    early.is_over.set()
    mount.say("retry", "victim-closes.mov")
    mount.wait_for("victim-closes.mov", "complete")
    assert server.published["victim-closes.mov"] == (mount.root / "victim-closes.mov").read_bytes()
