"""A receiver that lies in the words of the chunk protocol, over real connections: what it costs has a bound and a reason, and
pauses grow."""

import json

import pytest

from harness import sha256, wait_until, write_random
from lying_receiver import LyingReceiver, problem

CHUNK = 2 << 20
SIZE = 5 << 20
# What pauses of seconds would show shows within seconds.
HASTY = ("--chunk-size", "2MiB", "--expert", "retry-delay=50ms")
# So often the bytes may go out while a lie is told the first times.
TIMES = 6


@pytest.fixture
def new_lying_receiver(receiver, authority):
    made = []

    def make(lie):
        made.append(LyingReceiver(receiver, authority.issue(f"liar{len(made)}"), lie))
        return made[-1]

    yield make
    for server in made:
        server.close()


def bodies(*answer):
    """Whatever carries bytes of the file is answered so."""
    return lambda handler, body, truth: answer if handler.carries_bytes else None


def commits(*answer):
    return lambda handler, body, truth: answer if handler.commits else None


def of_session(*answer):
    """Whatever asks for something of a session, but not its end."""
    return lambda handler, body, truth: answer if handler.command != "DELETE" and handler.place.startswith("/v1/uploads/") else None


def changed(answer, change):
    """The true answer with other members."""
    status, fields, content = answer
    if status >= 300:
        return answer
    document = json.loads(content)
    change(document)
    return status, fields, json.dumps(document).encode()


def lists(change):
    """Commits are refused, and what is listed as held then is another list."""
    def lie(handler, body, truth):
        if handler.commits:
            return problem(409, "conflict")
        return changed(truth(), change) if handler.asks else None

    return lie


def nothing(document):
    document.update(held=[], digests={})


def other_digests(document):
    document["digests"] = {index: "ab" * 32 for index in document["digests"]}


def beyond_the_end(document):
    document["digests"] |= {"7": "ab" * 32, "190000": "cd" * 32}
    document["held"] += [[7, 7], [190000, 190000]]


def another_session(document):
    document["id"] += "x"


def falls():
    """One chunk less each time."""
    left = [3]

    def change(document):
        left[0] = max(0, left[0] - 1)
        document["digests"] = dict(list(document["digests"].items())[:left[0]])
        document["held"] = [[int(index), int(index)] for index in document["digests"]]

    return change


def opens(**members):
    return lambda handler, body, truth: changed(truth(), lambda document: document.update(members)) if handler.opens else None


def receipts(**members):
    return lambda handler, body, truth: changed(truth(), lambda document: document.update(members)) if handler.commits else None


PAGE = (200, {"Content-Type": "text/html"}, b"<!DOCTYPE html><title>Sign in</title>")
LIES = {
    "holds nothing": lists(nothing), "holds others": lists(other_digests), "holds what is not there": lists(beyond_the_end),
    "holds another session": lists(another_session), "holds less each time": lists(falls()),
    "not found at the end": commits(*problem(404, "not-found")), "expired in the middle": bodies(*problem(410, "session-expired")),
    "damaged": commits(*problem(500, "session-damaged")), "not found ever": of_session(*problem(404, "not-found")),
    "404 in between": of_session(404, {}, b"page not found"),
    "409": bodies(*problem(409, "conflict")), "423": bodies(423, {}, b""), "429": bodies(429, {"Retry-After": "0"}, b""),
    "507": bodies(*problem(507, "insufficient-storage")),
    "500": bodies(*problem(500, "internal")),
    "page": bodies(*PAGE), "page at the end": commits(*PAGE), "nonsense at the end": commits(200, {}, b'{"id":[[['),
    "wrong bytes": bodies(*problem(422, "digest-mismatch", field="body")),
    "lacks everything": commits(*problem(409, "incomplete", missing=[0, 1, 2])),
    "lacks what is not there": commits(*problem(409, "incomplete", missing=[70, 1 << 40])),
    "taken and not stored": bodies(201, {}, b""),
    "a session with another id": opens(id="../../etc"), "a session of tiny chunks": opens(chunk_size=1),
    "a session that the receiver does not know": opens(id="unknown"),
}


@pytest.mark.promises("DE144")
@pytest.mark.parametrize("name", LIES, ids=[name.replace(" ", "-") for name in LIES])
def test_a_lie_costs_little_has_a_reason_and_holds_up_no_other(new_lying_receiver, receiver, authority, new_mount, name):
    server = new_lying_receiver(LIES[name])
    mount = new_mount(receiver, *HASTY, to=server.url, ca=authority.certificate)
    victim, good = mount.root / "victim.mov", mount.root / "good.mov"
    write_random(victim, SIZE)
    write_random(good, SIZE, seed=2)
    mount.wait_for("good.mov", "complete")
    wait_until(lambda: server.lies >= 3 or mount.status("victim.mov")["state"] == "failed", "it was tried again")
    wait_until(lambda: mount.status("victim.mov")["last_error"], "the status has a reason")
    status = mount.status("victim.mov")
    assert status["state"] != "complete" and len(status["last_error"]["message"]) > 20
    wait_until(lambda: "victim.mov" in mount.program.log, "the log says so as well")
    with server.lock:
        assert server.received.get("victim.mov", 0) <= TIMES * SIZE
        server.lie = None
    mount.say("retry", "victim.mov")
    mount.wait_for("victim.mov", "complete")
    assert sha256(receiver.files / "victim.mov") == sha256(victim) and sha256(receiver.files / "good.mov") == sha256(good)


# What costs bytes again with each try.
COSTLY = ["lacks everything", "expired in the middle", "taken and not stored"]


@pytest.mark.parametrize("name", COSTLY, ids=[name.replace(" ", "-") for name in COSTLY])
def test_pauses_grow_while_a_lie_costs_bytes(new_lying_receiver, receiver, authority, new_mount, name):
    server = new_lying_receiver(LIES[name])
    mount = new_mount(receiver, *HASTY, to=server.url, ca=authority.certificate)
    write_random(mount.root / "victim.mov", CHUNK + 1)

    def tries():
        """When the same was tried: the piece, or the end, of which most is said."""
        with server.lock:
            of = [(tuple(place.split("/")[4:]), time) for place, time in zip(server.lied_about, server.lied_at)]
        asked = [what for what, _ in of]
        return [time for what, time in of if what == max(asked, key=asked.count)]

    wait_until(lambda: len(tries()) >= 8 or mount.status("victim.mov")["state"] == "failed", lambda: f"it is tried again: {tries()}")
    known = tries()
    pauses = [later - earlier for earlier, later in zip(known, known[1:])]
    half = len(pauses) // 2
    # Some need two seconds of questions in between.
    assert half and sum(pauses[-half:]) > 1.2 * sum(pauses[:half]), pauses


@pytest.mark.parametrize("members", [
    {"merkle_root": "ab" * 32}, {"size": SIZE + 1}, {"name": "other.mov"}],
    ids=lambda members: next(iter(members)))
def test_a_receipt_for_something_else_delivers_nothing_and_costs_no_bytes(
        new_lying_receiver, receiver, authority, new_mount, members):
    server = new_lying_receiver(receipts(**members))
    mount = new_mount(receiver, *HASTY, to=server.url, ca=authority.certificate)
    victim = write_random(mount.root / "victim.mov", SIZE)
    wait_until(lambda: mount.status("victim.mov")["last_error"] and server.lies >= 3, "it is asked again")
    status = mount.status("victim.mov")
    assert status["state"] != "complete" and "receipt" in status["last_error"]["message"]
    assert server.received["victim.mov"] <= SIZE + 10_000
    server.lie = None
    mount.say("retry", "victim.mov")
    mount.wait_for("victim.mov", "complete")
    assert sha256(receiver.files / "victim.mov") == sha256(victim) and server.received["victim.mov"] <= SIZE + 10_000


def test_a_commit_whose_answer_never_comes_is_found_done(new_lying_receiver, receiver, authority, new_mount):
    left = 3

    def lie(handler, body, truth):
        nonlocal left
        if not handler.commits or not left:
            return None
        left -= 1
        truth()
        return False

    server = new_lying_receiver(lie)
    mount = new_mount(receiver, *HASTY, to=server.url, ca=authority.certificate)
    victim = write_random(mount.root / "victim.mov", SIZE)
    mount.wait_for("victim.mov", "complete")
    assert receiver.published() == {"victim.mov": SIZE} and sha256(receiver.files / "victim.mov") == sha256(victim)
    assert server.lies >= 1 and server.received["victim.mov"] <= SIZE + 10_000


def without_the_last(answer):
    """Members of an answer to several, which begin with a status line each."""
    status, fields, content = answer
    return status, fields, content[:content.rindex(b"HTTP/1.1 ")]


def with_the_last_twice(answer):
    status, fields, content = answer
    return status, fields, content + content[content.rindex(b"HTTP/1.1 "):]


@pytest.mark.parametrize("change", [without_the_last, with_the_last_twice])
def test_answers_to_too_few_or_too_many_files_deliver_none_of_them(new_lying_receiver, receiver, authority, new_mount, change):
    def lie(handler, body, truth):
        return change(truth()) if handler.place == "/v1/files" else None

    server = new_lying_receiver(lie)
    mount = new_mount(receiver, "--expert", "retry-delay=50ms", to=server.url, ca=authority.certificate)
    names = [f"victim-{number}.txt" for number in range(120)]
    for number, name in enumerate(names):
        (mount.root / name).write_bytes(f"{number}\n".encode() * 100)
    wait_until(lambda: server.lies, "several were sent in one request")
    wait_until(lambda: any("answered for" in str(mount.status(name)["last_error"]) for name in names) or
               all(mount.status(name)["state"] == "complete" for name in names), "the status has a reason")
    server.lie = None
    mount.wait_all()
    for name in names:
        assert mount.status(name)["state"] == "complete" and sha256(receiver.files / name) == sha256(mount.root / name)
