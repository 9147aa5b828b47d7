"""Delivery by the IETF's draft of resumable uploads to a server of our own, behind a front that does TLS 1.3."""

import json
import os
import subprocess

import pytest

from harness import MOUNT_TOOL, clean_environment, wait_until, write_random
from tus_servers import DraftServer, TusServer

CHUNK = 4 << 20
KINDS = {
    # Only what a digest vouches for stays of a broken request, and an upload that is complete can be asked.
    "careful": {"interim": True},
    # Every byte that arrived stays, and no client hears of it before.
    "greedy": {"keeps_broken": True},
}


@pytest.fixture
def new_server(folder):
    made = []

    def make(kind="careful", **more):
        made.append(DraftServer(folder / f"server{len(made)}", **KINDS[kind] | more))
        return made[-1].start()

    yield make
    left = [problem for server in made for problem in server.close()]
    assert not left, "\n".join(left)


@pytest.fixture(params=KINDS)
def server(request, new_server):
    return new_server(request.param)


@pytest.fixture
def new_draft_mount(new_server, new_front, new_mount, authority):
    """Mounts behind a front; asks for these so that mounts end before them."""

    def make(server, *options, front=None, protocol="ietf", **more):
        front = front or new_front(server)
        return new_mount(
            None, "--chunk-size", "4MiB", "--tus-protocol", protocol, *options, to=server.url(front.port, "tus+https"),
            ca=authority.certificate, **more)

    return make


def assert_arrived(server, mount, *names):
    for name in names:
        assert mount.status(name)["state"] == "complete"
        assert server.file(name) == (mount.root / name).read_bytes(), name
    assert not server.unfinished(), server.uploads()


@pytest.mark.parametrize("policy", ["retry", "hold"])
def test_files_of_every_size_arrive(server, new_draft_mount, policy):
    mount = new_draft_mount(server, "--tus-unclear", policy)
    sizes = {
        "empty": 0, "one": 1, "small.txt": 70_000, "one chunk": CHUNK, "two chunks": CHUNK + 1, "100%": 5,
        "deep/er/ü+&=.mov": 5 * CHUNK + 17}
    for name, size in sizes.items():
        (mount.root / name).parent.mkdir(parents=True, exist_ok=True)
        write_random(mount.root / name, size, seed=size)
    mount.wait_all()
    assert_arrived(server, mount, *sizes)
    assert sorted(server.completions()) == sorted(sizes)
    named = {facts["slug"]: (facts["name"], facts["kind"]) for facts in server.uploads().values()}
    assert named["deep/er/ü+&=.mov"] == ("ü+&=.mov", "video/quicktime") and named["100%"][0] == "100%"


@pytest.mark.promises("DE3")
def test_a_growing_file_is_sent_from_its_beginning(server, new_front, new_draft_mount):
    front = new_front(server)
    mount = new_draft_mount(server, front=front)
    content = os.urandom(6 * CHUNK + 1000)
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        file.write(content)
        mount.readings("take.mov", lambda status: status["chunks"]["done"] >= 5)
        (facts,) = server.uploads().values()
        assert facts["size"] == 5 * CHUNK and facts["length"] is None and server.completions() == []
        early = front.bytes_up
    mount.wait_all()
    assert_arrived(server, mount, "take.mov")
    assert server.completions() == ["take.mov"] and front.bytes_up - early < 2 * CHUNK


@pytest.mark.promises("DE69")
def test_a_killed_daemon_goes_on_where_it_was(server, new_front, new_draft_mount):
    front = new_front(server, rate=12_000_000)
    mount = new_draft_mount(server, front=front)
    write_random(mount.root / "a.mov", 24 * CHUNK)
    mount.readings("a.mov", lambda status: status["resume"]["checkpoint_chunks"] >= 10)
    mount.kill()
    front.rate = None
    mount.start()
    mount.wait_all()
    assert_arrived(server, mount, "a.mov")
    # What is there of a chunk that was cut off is unproven.
    if not server.options.get("keeps_broken"):
        assert mount.status("a.mov")["chunks"]["reused"] >= 10


def test_a_server_that_restarts_in_the_middle_goes_on(server, new_front, new_draft_mount):
    front = new_front(server, rate=12_000_000)
    mount = new_draft_mount(server, front=front)
    write_random(mount.root / "a.mov", 10 * CHUNK)
    mount.readings("a.mov", lambda status: status["chunks"]["done"] >= 4)
    server.kill()
    front.cut()
    mount.readings("a.mov", lambda status: status.get("last_error"))
    server.start()
    front.rate = None
    mount.wait_all()
    assert_arrived(server, mount, "a.mov")
    assert front.bytes_up < 12 * CHUNK


@pytest.mark.promises("DE69")
def test_connections_that_break_cost_only_what_was_on_its_way(server, new_front, new_draft_mount):
    front = new_front(server, rate=20_000_000)
    mount = new_draft_mount(server, front=front)
    write_random(mount.root / "a.mov", 10 * CHUNK)
    for chunk in (1, 4, 7):
        mount.readings("a.mov", lambda status: status["chunks"]["done"] >= chunk)
        front.cut()
    mount.wait_all()
    assert_arrived(server, mount, "a.mov")
    assert front.bytes_up < 14 * CHUNK


@pytest.mark.parametrize("mark", ["upload-complete: ?1", "upload-offset: 4194304", "head /files/"])
@pytest.mark.promises("DE71")
def test_a_lost_answer_makes_no_second_upload(server, new_front, new_draft_mount, mark):
    front = new_front(server)
    mount = new_draft_mount(server, front=front)
    write_random(mount.root / "first", 10)
    mount.wait_all()
    front.swallow_one_answer(mark.encode())
    if mark.startswith("head"):
        # So that a user has to check it.
        front.swallow_one_answer(b"upload-complete: ?1")
    write_random(mount.root / "a.mov", 3 * CHUNK)
    mount.wait_all()
    assert front.has_swallowed
    assert_arrived(server, mount, "a.mov")
    assert server.completions() == ["first", "a.mov"] and front.bytes_up < 5 * CHUNK


@pytest.mark.parametrize("policy", ["retry", "hold"])
@pytest.mark.promises("DE71")
def test_where_nobody_can_tell_whether_a_file_is_there_the_policy_decides(
        new_server, new_front, new_draft_mount, policy):
    server = new_server(forgets=True)
    front = new_front(server)
    mount = new_draft_mount(server, "--tus-unclear", policy, front=front)
    front.swallow_one_answer(b"upload-complete: ?1")
    write_random(mount.root / "a.mov", 3 * CHUNK)
    if policy == "hold":
        error = mount.wait_for("a.mov", "failed")["last_error"]
        assert error["code"] == "unclear-end" and "--tus-unclear hold" in error["message"]
        assert server.completions() == ["a.mov"]
        mount.say("retry", "a.mov")
    mount.wait_all()
    assert front.has_swallowed
    assert server.completions() == ["a.mov", "a.mov"]
    assert_arrived(server, mount, "a.mov")


@pytest.mark.promises("DE72")
def test_a_small_file_whose_answer_is_lost_is_looked_for_at_its_address(new_server, new_front, new_draft_mount):
    server = new_server()
    front = new_front(server)
    mount = new_draft_mount(server, "--tus-unclear", "hold", front=front)
    front.swallow_one_answer(b"upload-complete: ?1")
    write_random(mount.root / "small", 1000)
    mount.wait_all()
    assert front.has_swallowed
    assert_arrived(server, mount, "small")
    assert server.completions() == ["small"]


def test_a_removed_file_leaves_no_upload(server, new_front, new_draft_mount):
    front = new_front(server, rate=8_000_000)
    mount = new_draft_mount(server, front=front)
    write_random(mount.root / "a.mov", 10 * CHUNK)
    mount.readings("a.mov", lambda status: status["chunks"]["done"] >= 1)
    assert server.uploads()
    (mount.root / "a.mov").unlink()
    front.rate = None
    wait_until(lambda: not server.uploads(), "the upload is ended")
    assert server.names() == []


@pytest.mark.promises("DE66")
def test_limits_are_obeyed(new_server, new_front, new_draft_mount):
    limits = {
        "max-size": 5 * CHUNK, "min-size": 3, "max-append-size": (1 << 20) + 5, "min-append-size": 1 << 19,
        "max-age": 3600}
    server = new_server(limits=limits)
    front = new_front(server)
    mount = new_draft_mount(server, front=front)
    # The last chunk of the second is shorter than a request may be that does not complete the upload.
    sizes = {"small": 1000, "a.mov": 2 * CHUNK + 17, "one": (1 << 20) + 100, "whole": CHUNK}
    for name, size in sizes.items():
        write_random(mount.root / name, size)
    mount.wait_all()
    assert_arrived(server, mount, *sizes)
    before = front.bytes_up
    write_random(mount.root / "large", 5 * CHUNK + 1)
    assert mount.wait_for("large", "failed")["last_error"]["code"] == "too-large"
    write_random(mount.root / "tiny", 2)
    assert "3 bytes at least" in mount.wait_for("tiny", "failed")["last_error"]["message"]
    assert front.bytes_up - before < CHUNK


@pytest.mark.promises("DE67")
def test_a_limit_that_only_a_refusal_tells_is_obeyed_from_then_on(new_server, new_draft_mount):
    server = new_server(limits={"max-append-size": 1 << 20}, announces="no limits")
    mount = new_draft_mount(server)
    for name, size in (("small", 2 << 20), ("a.mov", 3 * CHUNK)):
        write_random(mount.root / name, size)
    mount.wait_all()
    assert_arrived(server, mount, "small", "a.mov")


@pytest.mark.promises("DE70")
def test_content_that_the_server_refuses_once_is_delivered(new_server, new_draft_mount):
    """On the way there a bit may have flipped."""
    server = new_server(process=[422])
    mount = new_draft_mount(server)
    write_random(mount.root / "a.mov", 2 * CHUNK)
    mount.wait_for("a.mov", "complete")
    assert_arrived(server, mount, "a.mov")


@pytest.mark.promises("DE70")
def test_content_that_the_server_does_not_want_fails_and_can_be_sent_again(new_server, new_draft_mount):
    """Regression: as its bytes had been taken before, it was sent without an end."""
    server = new_server(process=[422, 422])
    mount = new_draft_mount(server)
    write_random(mount.root / "a.mov", 2 * CHUNK)
    error = mount.wait_for("a.mov", "failed")["last_error"]
    assert "422" in error["message"] and "no room on the shelf" in error["message"]
    assert server.names() == []
    mount.say("retry", "a.mov")
    mount.wait_all()
    assert_arrived(server, mount, "a.mov")


@pytest.mark.parametrize("how", ["nothing", "version"])
@pytest.mark.promises("DE61")
def test_a_server_that_does_not_speak_the_draft_is_named(new_server, new_draft_mount, folder, how):
    server = new_server(announces=how, version=6)
    mount = new_draft_mount(server)
    (mount.root / "a").write_bytes(b"x")
    message = mount.wait_for("a", "failed")["last_error"]["message"]
    assert "interop version 8" in message and "--tus-protocol" in message
    if how == "version":
        assert "but interop version 6" in message
    done = subprocess.run(
        [str(MOUNT_TOOL), "doctor", "--to", server.url(), "--tus-protocol", "ietf"], capture_output=True, text=True,
        env=clean_environment())
    assert done.returncode != 0 and "interop version 8" in done.stdout, done.stdout


@pytest.mark.promises("DE62")
def test_the_protocol_is_found_out_where_it_may_be(new_server, new_draft_mount):
    draft = new_server()
    mount = new_draft_mount(draft, protocol="auto")
    for name, size in (("small", 5), ("a.mov", 2 * CHUNK)):
        write_random(mount.root / name, size)
    mount.wait_all()
    assert_arrived(draft, mount, "small", "a.mov")


@pytest.mark.promises("DE62")
def test_where_the_draft_is_not_answered_tus_is_spoken(new_draft_mount, folder):
    server = TusServer("resumable-upload", folder / "tus").start()
    try:
        mount = new_draft_mount(server, protocol="auto")
        for name, size in (("small", 5), ("a.mov", 2 * CHUNK)):
            write_random(mount.root / name, size)
        mount.wait_all()
        for name in ("small", "a.mov"):
            assert server.file(name) == (mount.root / name).read_bytes()
        mount.stop()
    finally:
        left = server.close()
    assert not left, "\n".join(left)


def test_the_doctor_finds_nothing_wrong_with_it_and_leaves_one_file(server, folder):
    done = subprocess.run(
        [str(MOUNT_TOOL), "doctor", "--to", server.url(), "--tus-protocol", "ietf", "--spool", str(folder / "spool"),
         "--json"], capture_output=True, text=True, env=clean_environment())
    findings = {finding["check"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert done.returncode == 0, done.stdout + done.stderr
    assert "while they are written" in findings["abilities"]["message"], findings["abilities"]["message"]
    assert findings["test-file"]["level"] == "ok" and findings["session"]["level"] == "ok", findings["session"]
    assert len(server.completions()) == 1 and not server.unfinished()
