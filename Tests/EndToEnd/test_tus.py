"""Delivery to tus servers behind a front that does TLS 1.3: whole, while it is written, and interrupted."""

import http.client
import json
import os
import subprocess

import pytest

from harness import MOUNT_TOOL, clean_environment, wait_until, write_random
from tus_servers import TusServer

CHUNK = 4 << 20
KINDS = {
    "tuspyserver": ("tuspyserver", {}),
    "resumable-upload": ("resumable-upload", {"checksum_algorithms": ["sha1", "sha256"]}),
    # No partial uploads, and the checksum that every server has.
    "one-upload": ("resumable-upload", {"disable_concatenation": True}),
    # No partial uploads, and lengths that are declared last.
    "deferred-length": ("tuspyserver", {"hidden_extensions": ["concatenation"]}),
}


@pytest.fixture
def new_tus(folder):
    made = []

    def make(kind, **more):
        name, options = KINDS[kind]
        made.append(TusServer(name, folder / f"server{len(made)}", **options | more))
        return made[-1].start()

    yield make
    left = [problem for server in made for problem in server.close()]
    assert not left, "\n".join(left)


@pytest.fixture(params=KINDS)
def tus(request, new_tus):
    return new_tus(request.param)


@pytest.fixture
def new_tus_mount(new_tus, new_front, new_mount, authority):
    """Mounts on tus servers behind a front; asks for these so that mounts end before them."""

    def make(server, *options, front=None, **more):
        front = front or new_front(server)
        return new_mount(
            None, "--chunk-size", "4MiB", *options, to=server.url(front.port, "tus+https"), ca=authority.certificate, **more)

    return make


@pytest.mark.promises("SE6")
def test_files_of_every_size_arrive(tus, new_tus_mount):
    mount = new_tus_mount(tus)
    sizes = {
        "empty": 0, "one": 1, "small.txt": 70_000, "one chunk": CHUNK, "two chunks": CHUNK + 1,
        "deep/er/ü+&=.mov": 5 * CHUNK + 17}
    for name, size in sizes.items():
        (mount.root / name).parent.mkdir(parents=True, exist_ok=True)
        write_random(mount.root / name, size, seed=size)
    mount.wait_all()
    # tuspyserver does not report what is empty, or came with its creation.
    silent = {"empty", "one", "small.txt", "one chunk"} if tus.kind == "tuspyserver" else {"empty"}
    for name, size in sizes.items():
        status = mount.status(name)
        assert status["state"] == "complete"
        assert status["receipt"]["name"] == name
        content = (mount.root / name).read_bytes()
        if name not in silent:
            assert tus.file(name) == content, name
            assert tus.metadata(name)["filename"] == os.path.basename(name)
        else:
            assert tus.upload(status["receipt"]).read_bytes() == content, name
        # Who has the address needs nothing else (SE6).
        assert status["receipt"]["id"].startswith("sha256:") and "/files/" not in mount.program.log


def test_a_killed_daemon_goes_on_where_it_was(tus, new_front, new_tus_mount):
    front = new_front(tus, rate=12_000_000)
    mount = new_tus_mount(tus, front=front)
    write_random(mount.root / "a.mov", 24 * CHUNK)
    mount.readings("a.mov", lambda status: status["resume"]["checkpoint_chunks"] >= 10)
    mount.kill()
    front.rate = None
    mount.start()
    mount.wait_all()
    assert tus.file("a.mov") == (mount.root / "a.mov").read_bytes()
    # One upload of a server without checksums may end in the middle of a chunk, which is unproven.
    if "hidden_extensions" not in tus.options:
        assert mount.status("a.mov")["chunks"]["reused"] >= 10


# A tuspyserver that is killed in the middle of a request appends the next bytes behind those that it has not counted;
# where it joins uploads, a broken one is left alone.
@pytest.mark.parametrize("tus", ["tuspyserver", "resumable-upload", "one-upload"], indirect=True)
def test_a_server_that_restarts_in_the_middle_goes_on(tus, new_front, new_tus_mount):
    front = new_front(tus, rate=12_000_000)
    mount = new_tus_mount(tus, front=front)
    write_random(mount.root / "a.mov", 10 * CHUNK)
    mount.readings("a.mov", lambda status: status["chunks"]["done"] >= 4)
    tus.kill()
    front.cut()
    mount.readings("a.mov", lambda status: status.get("last_error"))
    tus.start()
    front.rate = None
    mount.wait_all()
    assert tus.file("a.mov") == (mount.root / "a.mov").read_bytes()
    # What had been acknowledged was not sent again.
    assert front.bytes_up < 17 * CHUNK


def test_connections_that_break_cost_only_what_was_on_its_way(tus, new_front, new_tus_mount):
    front = new_front(tus, rate=20_000_000)
    mount = new_tus_mount(tus, front=front)
    write_random(mount.root / "a.mov", 10 * CHUNK)
    for chunk in (1, 4, 7):
        mount.readings("a.mov", lambda status: status["chunks"]["done"] >= chunk)
        front.cut()
    mount.wait_all()
    assert tus.file("a.mov") == (mount.root / "a.mov").read_bytes()


def test_rewritten_bytes_arrive(tus, new_front, new_tus_mount):
    front = new_front(tus, rate=12_000_000)
    mount = new_tus_mount(tus, front=front)
    content = os.urandom(8 * CHUNK)
    (mount.root / "a.mov").write_bytes(content)
    mount.readings("a.mov", lambda status: status["chunks"]["done"] >= 2)
    with open(mount.root / "a.mov", "r+b") as file:
        file.seek(100)
        file.write(b"changed")
    front.rate = None
    mount.wait_all()
    assert tus.file("a.mov") == content[:100] + b"changed" + content[107:]


def test_what_is_written_again_is_uploaded_again(tus, new_tus_mount):
    mount = new_tus_mount(tus)
    for round in range(2):
        write_random(mount.root / "a.mov", 3 * CHUNK + round, seed=round)
        mount.wait_all()
        assert tus.file("a.mov") == (mount.root / "a.mov").read_bytes()


@pytest.mark.promises("DE48")
def test_a_removed_file_leaves_no_upload(tus, new_front, new_tus_mount):
    front = new_front(tus, rate=8_000_000)
    mount = new_tus_mount(tus, front=front)
    # A request that is broken off leaves a partial upload of unknown name. What has a temporary name is
    # sent and not joined, so that nothing is on its way any more.
    joins = not {"disable_concatenation", "hidden_extensions"} & tus.options.keys()
    name, chunks = ("a.mov.part", 10) if joins else ("a.mov", 1)
    write_random(mount.root / name, 10 * CHUNK)
    mount.readings(name, lambda status: status["chunks"]["done"] >= chunks)
    uploads = set(tus.uploads())
    assert uploads
    (mount.root / name).unlink()
    front.rate = None
    wait_until(lambda: not uploads & tus.uploads().keys(), "the uploads are ended")
    assert tus.names() == []


@pytest.mark.parametrize("tus", ["tuspyserver", "resumable-upload", "deferred-length"], indirect=True)
@pytest.mark.promises("DE42")
def test_chunks_are_sent_while_the_file_is_written(tus, new_tus_mount):
    mount = new_tus_mount(tus)
    content = os.urandom(6 * CHUNK + 1000)
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        file.write(content)
        # Those at the beginning and at the end are expected to change.
        mount.readings("take.mov", lambda status: status["chunks"]["done"] >= 3)
        assert tus.file("take.mov") is None
        file.seek(2 * CHUNK + 10)
        file.write(b"changed")
    mount.wait_all()
    begin = 2 * CHUNK + 10
    assert tus.file("take.mov") == content[:begin] + b"changed" + content[begin + 7:]


@pytest.mark.promises("DE43")
def test_one_upload_of_a_growing_file_is_sent_from_its_beginning(new_tus, new_front, new_tus_mount):
    tus = new_tus("deferred-length")
    front = new_front(tus)
    mount = new_tus_mount(tus, front=front)
    content = os.urandom(6 * CHUNK + 1000)
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        file.write(content)
        mount.readings("take.mov", lambda status: status["chunks"]["done"] >= 5)
        assert tus.completions() == [] and max(tus.uploads().values()) == 5 * CHUNK
        early = front.bytes_up
    mount.wait_all()
    assert tus.file("take.mov") == content and tus.completions() == ["take.mov"]
    # Only what was left was sent after the close.
    assert front.bytes_up - early < 2 * CHUNK


@pytest.mark.promises("DE4")
def test_bytes_that_are_rewritten_while_one_upload_grows_begin_it_anew(new_tus, new_tus_mount):
    tus = new_tus("deferred-length")
    mount = new_tus_mount(tus)
    content = os.urandom(5 * CHUNK)
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        file.write(content)
        mount.readings("take.mov", lambda status: status["chunks"]["done"] >= 4)
        file.seek(10)
        file.write(b"changed")
        reading = mount.readings("take.mov", lambda status: status.get("last_error"))[-1]
        assert reading["last_error"]["code"] == "rewritten"
        mount.readings("take.mov", lambda status: status["chunks"]["done"] >= 4)
    mount.wait_all()
    assert tus.file("take.mov") == content[:10] + b"changed" + content[17:]
    assert tus.completions() == ["take.mov"]


@pytest.mark.promises("DE43")
def test_a_server_that_wants_the_length_first_gets_it_after_the_close(new_tus, new_tus_mount):
    # It announces that lengths can be declared later, and refuses bytes until they are.
    tus = new_tus("one-upload")
    mount = new_tus_mount(tus)
    for name in ("a.mov", "b.mov"):
        content = os.urandom(5 * CHUNK)
        with open(mount.root / name, "wb", buffering=0) as file:
            file.write(content)
            if name == "a.mov":
                mount.readings(name, lambda status: status.get("last_error"))
        mount.wait_all()
        assert tus.file(name) == content
    assert tus.completions() == ["a.mov", "b.mov"]


def test_a_file_that_grows_while_it_is_sent_arrives(tus, new_front, new_tus_mount):
    front = new_front(tus, rate=16_000_000)
    mount = new_tus_mount(tus, front=front)
    content = os.urandom(6 * CHUNK + 100)
    (mount.root / "a.mov").write_bytes(content)
    mount.readings("a.mov", lambda status: status["chunks"]["done"] >= 2)
    with open(mount.root / "a.mov", "ab") as file:
        file.write(b"more")
    front.rate = None
    mount.wait_all()
    assert tus.file("a.mov") == content + b"more"


@pytest.mark.parametrize("tus", ["tuspyserver", "resumable-upload", "one-upload"], indirect=True)
def test_a_renamed_file_arrives_under_its_last_name_only(tus, new_front, new_tus_mount):
    # Two at a time: with two done most of it is still to be sent, on a busy machine as well.
    front = new_front(tus, rate=8_000_000)
    mount = new_tus_mount(tus, "--parallel", "2", front=front)
    content = os.urandom(6 * CHUNK)
    (mount.root / "a.mov").write_bytes(content)
    mount.readings("a.mov", lambda status: status["chunks"]["done"] >= 2)
    (mount.root / "a.mov").rename(mount.root / "b.mov")
    mount.wait_all()
    assert tus.names() == ["b.mov"]
    assert tus.file("b.mov") == content
    # Parts have no name before they are joined; an upload has one from its beginning on, and begins anew.
    if "disable_concatenation" not in tus.options:
        assert front.bytes_up < 8 * CHUNK


@pytest.mark.parametrize("kind, size", [("one-upload", 70_000), ("tuspyserver", 3 * CHUNK)], ids=["whole", "joined"])
@pytest.mark.parametrize("policy", ["retry", "hold"])
@pytest.mark.promises("DE58")
def test_what_was_being_completed_when_the_mount_died_is_answered_by_policy(
        new_tus, new_front, new_tus_mount, kind, size, policy):
    tus = new_tus(kind)
    front = new_front(tus)
    mount = new_tus_mount(tus, "--tus-unclear", policy, front=front)
    # The last request gets there, and no answer comes back before the end.
    front.keep_one_answer(b"final;" if kind == "tuspyserver" else b"upload-length: 70000")
    write_random(mount.root / "a.mov", size)
    wait_until(lambda: tus.completions() == ["a.mov"], "the server has it")
    mount.kill()
    mount.start()
    if policy == "hold":
        error = mount.wait_for("a.mov", "failed")["last_error"]
        assert error["code"] == "unclear-end" and "may have it" in error["message"]
        assert tus.completions() == ["a.mov"]
        mount.say("retry", "a.mov")
    mount.wait_all()
    assert tus.completions() == ["a.mov", "a.mov"]
    assert tus.file("a.mov") == (mount.root / "a.mov").read_bytes()


@pytest.mark.parametrize("answer", ["upload-defer-length: 1", "final;", "upload-length: 0"])
@pytest.mark.promises("DE55")
def test_a_lost_answer_of_a_commit_makes_no_second_upload(new_tus, new_front, new_tus_mount, answer):
    # The server joins parts that are not complete yet: the joined upload has an address before it is complete.
    tus = new_tus("resumable-upload")
    front = new_front(tus)
    mount = new_tus_mount(tus, front=front)
    front.swallow_one_answer(answer.encode())
    write_random(mount.root / "a.mov", 3 * CHUNK)
    mount.wait_all()
    assert front.has_swallowed
    assert tus.completions() == ["a.mov"]
    assert tus.file("a.mov") == (mount.root / "a.mov").read_bytes()
    assert front.bytes_up < 4 * CHUNK


@pytest.mark.parametrize("policy", ["retry", "hold"])
@pytest.mark.promises("DE56", "DE57")
def test_where_nobody_can_tell_whether_a_file_is_there_the_policy_decides(new_tus, new_front, new_tus_mount, policy):
    tus = new_tus("tuspyserver")
    front = new_front(tus)
    mount = new_tus_mount(tus, "--tus-unclear", policy, front=front)
    front.swallow_one_answer(b"final;")
    write_random(mount.root / "a.mov", 3 * CHUNK)
    if policy == "hold":
        error = mount.wait_for("a.mov", "failed")["last_error"]
        assert error["code"] == "unclear-end" and "--tus-unclear hold" in error["message"]
        assert tus.completions() == ["a.mov"]
        mount.say("retry", "a.mov")
    else:
        reading = mount.readings("a.mov", lambda status: status.get("last_error"))[-1]
        assert "twice" in reading["last_error"]["message"]
    mount.wait_all()
    assert front.has_swallowed
    assert tus.completions() == ["a.mov", "a.mov"]
    assert tus.file("a.mov") == (mount.root / "a.mov").read_bytes()
    # This server drops the parts of what it has joined: that they are gone proves nothing, and all of it is sent again.
    assert 6 <= front.bytes_up / CHUNK < 7


def expire(tus, uploads):
    """Waits until the server has dropped these uploads; it looks for such with each request."""

    def are_gone():
        connection = http.client.HTTPConnection("127.0.0.1", tus.port, timeout=10)
        connection.request("OPTIONS", tus.path)
        connection.getresponse().read()
        connection.close()
        return not uploads & tus.uploads().keys()

    wait_until(are_gone, "the uploads have expired")


@pytest.mark.promises("DE47")
def test_parts_that_expire_while_a_file_is_written_are_sent_again_and_nothing_else(new_tus, new_front, new_tus_mount):
    tus = new_tus("resumable-upload", upload_expiry=8, cleanup_interval=0)
    front = new_front(tus)
    mount = new_tus_mount(tus, front=front)
    content = os.urandom(9 * CHUNK)
    with open(mount.root / "a.mov", "wb", buffering=0) as file:
        file.write(content[:5 * CHUNK])
        mount.readings("a.mov", lambda status: status["chunks"]["done"] >= 3)
        early = set(tus.uploads())
        expire(tus, early)
        file.write(content[5 * CHUNK:])
    mount.wait_all()
    assert tus.file("a.mov") == content and tus.completions() == ["a.mov"]
    assert 9 + len(early) <= front.bytes_up / CHUNK < 10 + len(early)


@pytest.mark.promises("DE47")
def test_an_upload_that_expires_in_an_outage_begins_anew(new_tus, new_front, new_tus_mount):
    tus = new_tus("one-upload", upload_expiry=8, cleanup_interval=0)
    front = new_front(tus, rate=16_000_000)
    mount = new_tus_mount(tus, front=front)
    write_random(mount.root / "a.mov", 5 * CHUNK)
    mount.readings("a.mov", lambda status: status["chunks"]["done"] >= 1)
    front.hold()
    expire(tus, set(tus.uploads()))
    front.rate = None
    front.release()
    mount.wait_all()
    assert tus.file("a.mov") == (mount.root / "a.mov").read_bytes() and tus.completions() == ["a.mov"]


@pytest.mark.promises("DE50")
def test_metadata_is_what_was_asked_for(new_tus, new_tus_mount):
    tus = new_tus("resumable-upload")
    mount = new_tus_mount(
        tus, "--tus-metadata", "bucketName=captures", "--tus-metadata", "objectName=day 1/{path}", "--tus-metadata",
        "filetype=video/quicktime")
    (mount.root / "a").mkdir()
    for name, size in (("a/small", 5), ("a/large.mov", 2 * CHUNK)):
        write_random(mount.root / name, size)
    mount.wait_all()
    for name in ("a/small", "a/large.mov"):
        metadata = tus.metadata(name)
        assert metadata["bucketName"] == "captures"
        assert metadata["objectName"] == f"day 1/{name}"
        assert metadata["filetype"] == "video/quicktime"
        assert abs(float(metadata["mtime"]) - (mount.root / name).stat().st_mtime) < 60


@pytest.mark.promises("DE8", "DE49")
def test_a_file_that_is_too_large_is_refused_before_it_is_sent(new_tus, new_front, new_tus_mount):
    tus = new_tus("resumable-upload", max_size=3 * CHUNK)
    front = new_front(tus)
    mount = new_tus_mount(tus, front=front)
    write_random(mount.root / "a.mov", 4 * CHUNK)
    assert mount.wait_for("a.mov", "failed")["last_error"]["code"] == "too-large"
    assert front.bytes_up < CHUNK
    (mount.root / "small").write_bytes(b"x")
    mount.wait_for("small", "complete")


@pytest.mark.promises("DE41")
def test_an_address_where_nobody_speaks_tus_is_named(new_tus, new_tus_mount, new_mount, receiver):
    mount = new_mount(receiver, to=receiver.url.replace("https", "tus+https") + "/files/")
    (mount.root / "a").write_bytes(b"x")
    error = mount.wait_for("a", "failed")["last_error"]
    assert "--to" in error["message"] or "token" in error["message"], error


def test_many_small_files_arrive(tus, new_tus_mount):
    mount = new_tus_mount(tus)
    for number in range(100):
        (mount.root / f"shot-{number:03}").write_bytes(b"%d" % number)
    mount.wait_all()
    assert len(tus.uploads()) == 100
    assert mount.status("shot-042")["state"] == "complete"


def test_the_doctor_finds_nothing_wrong_with_it_and_leaves_one_file(tus, folder):
    done = subprocess.run(
        [str(MOUNT_TOOL), "doctor", "--to", tus.url(), "--spool", str(folder / "spool"), "--json"], capture_output=True,
        text=True, env=clean_environment())
    findings = {finding["check"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert done.returncode == 0, done.stdout + done.stderr
    assert "while they are written" in findings["abilities"]["message"], findings["abilities"]["message"]
    session = findings["session"]
    assert findings["test-file"]["level"] == "ok"
    assert session["level"] == "ok" or "cannot end uploads" in session["message"], session
    assert len(tus.uploads()) <= 1, "nothing but the test file"
