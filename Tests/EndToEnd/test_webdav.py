"""Delivery to WebDAV servers: Apache's mod_dav, nginx with dav_ext, rclone and WsgiDAV."""

import base64
import contextlib
import http.client
import os
import subprocess
import urllib.parse

import pytest

import webdav_servers
from form_servers import resident_kilobytes
from front import Front
from harness import MOUNT_TOOL, SOON, clean_environment, sha256, wait_until, write_random
from webdav_servers import PASSWORD, TEMPORARY, USER

MIB = 1 << 20
ODD_NAMES = [
    "with blanks in it.txt", "Grüße-日本語-🎥.mov", "e\u0301 decomposed", "100%", "%41", "a+b&c=d;e", 'quo"te', "it's", "-rf", ".hidden",
    "x" * 200, "#hash?query", "back\\slash", "[brackets]{}", "deep/er/than/that", "day 1/a:b|c.mov"]


@pytest.fixture(params=webdav_servers.ALL, ids=lambda kind: kind.name)
def kind(request):
    return request.param


@pytest.fixture
def new_server(folder):
    servers = []

    def make(kind, *options):
        server = kind(folder / f"server-{len(servers)}", *options)
        servers.append(server)
        return server.start()

    yield make
    left = [line for server in servers for line in server.close()]
    assert not left, "\n".join(left)


@pytest.fixture
def server(new_server, kind):
    return new_server(kind)


@pytest.fixture
def secret(folder):
    path = folder / "password"
    path.touch(mode=0o600)
    path.write_text(f"{USER}:{PASSWORD}\n")
    return path


@pytest.fixture
def new_dav_mount(new_server, new_mount, secret):
    """Asks for `new_server` so that mounts end before the servers do."""

    def make(server, *options, to=None, **more):
        return new_mount(None, "--basic-auth-file", secret, *options, to=to or server.url(), **more)

    return make


@contextlib.contextmanager
def front(server, authority):
    with Front(server.port, authority.issue("front")) as front:
        yield front


def deliver(mount, name, size, seed=1):
    write_random(mount.root / name, size, seed)
    return mount.wait_for(name, "complete")


@pytest.mark.promises("DE160", "DE162")
def test_files_of_every_size_arrive_and_nothing_is_left(server, new_dav_mount):
    mount = new_dav_mount(server)
    sizes = {
        "empty": 0, "one": 1, "small.txt": 70_000, "one buffer.mov": 4 * MIB, "day 1/two.mov": 4 * MIB + 1,
        "day 1/take/large.mov": 21_000_003}
    for name, size in sizes.items():
        (mount.root / name).parent.mkdir(parents=True, exist_ok=True)
        write_random(mount.root / name, size, seed=size)
    mount.wait_all()
    assert server.names() == sorted(sizes)
    for name, size in sizes.items():
        status = mount.status(name)
        assert sha256(server.files / name) == sha256(mount.root / name), name
        assert status["state"] == "complete" and status["receipt"]["size"] == size and status["receipt"]["id"]
    assert server.unfinished() == set()


@pytest.mark.promises("DE161")
def test_files_of_every_name_arrive(server, new_dav_mount):
    mount = new_dav_mount(server)
    for number, name in enumerate(ODD_NAMES):
        (mount.root / name).parent.mkdir(parents=True, exist_ok=True)
        (mount.root / name).write_bytes(f"{number} {name}".encode())
    not_text = os.fsencode(mount.root) + b"/caf\xe9.mov"
    with open(not_text, "wb") as file:
        file.write(b"no text")
    mount.wait_all()
    said = {name: mount.status(name)["receipt"]["name"] for name in ODD_NAMES}
    assert {name: text for name, text in said.items() if text != name} == {
        "%41": "%2541", "a+b&c=d;e": "a+b&c=d%3Be", "#hash?query": "%23hash%3Fquery"}
    for number, name in enumerate(ODD_NAMES):
        assert (server.files / said[name]).read_bytes() == f"{number} {name}".encode(), name
    assert (server.files / "caf%E9.mov").read_bytes() == b"no text"


def authentications():
    """Each server with each authentication that it has."""
    return [
        pytest.param(kind, authentication, id=f"{kind.name}-{authentication}")
        for kind in webdav_servers.ALL for authentication in kind.authentications]


@pytest.mark.promises("DE165")
@pytest.mark.parametrize("kind, authentication", authentications())
def test_authentication_as_the_server_wants_it(kind, authentication, new_server, new_dav_mount):
    server = new_server(kind, authentication)
    mount = new_dav_mount(server)
    write_random(mount.root / "a.mov", 9 * MIB)
    (mount.root / "small").write_bytes(b"x")
    mount.wait_all()
    assert sha256(server.files / "a.mov") == sha256(mount.root / "a.mov")


@pytest.mark.promises("DE165")
@pytest.mark.parametrize("kind, authentication", [pair for pair in authentications() if pair.values[1]])
def test_a_wrong_password_is_named_and_the_right_one_is_enough(
        kind, authentication, new_server, new_dav_mount, secret):
    server = new_server(kind, authentication)
    secret.write_text(f"{USER}:not-the-password\n")
    mount = new_dav_mount(server)
    wait_until(lambda: mount.summary()["last_error"], "the refusal is said before there is a capture")
    (mount.root / "small").write_bytes(b"x")
    error = mount.wait_for("small", "failed")["last_error"]
    assert error["code"] == "unauthorized" and "--basic-auth-file" in error["message"]
    assert server.names() == []
    secret.write_text(f"{USER}:{PASSWORD}\n")
    mount.say("retry", "small")
    mount.wait_all()
    assert server.names() == ["small"]
    assert PASSWORD not in mount.program.log and "not-the-password" not in mount.program.log


@pytest.mark.promises("DE163", "DE164")
def test_what_others_have_there_gets_no_capture_in_its_place(server, new_dav_mount):
    for name in ("a.mov", "large.mov", "folder/b.mov"):
        (server.files / name).parent.mkdir(exist_ok=True, mode=0o777)
        (server.files / name).write_bytes(b"another machine's")
    (server.files / "folder").chmod(0o777)
    (server.files / "taken").mkdir()
    (server.files / "taken" / "inside").write_bytes(b"stays")
    mount = new_dav_mount(server)
    (mount.root / "folder").mkdir()
    for name, size in {"a.mov": 10, "large.mov": 9 * MIB, "folder/b.mov": 10, "taken": 10}.items():
        write_random(mount.root / name, size)
    mount.wait_all()
    for name in ("a", "large", "folder/b"):
        assert (server.files / f"{name}.mov").read_bytes() == b"another machine's"
        assert sha256(server.files / f"{name}-2.mov") == sha256(mount.root / f"{name}.mov")
        assert mount.status(f"{name}.mov")["receipt"]["published_as"] == f"{name}-2.mov"
    assert (server.files / "taken" / "inside").read_bytes() == b"stays"
    assert (server.files / "taken-2").stat().st_size == 10
    # A later content keeps its name.
    first = mount.status("a.mov")["receipt"]["id"]
    with open(mount.root / "a.mov", "ab") as file:
        file.write(b"more")
    mount.wait_all()
    assert (server.files / "a-2.mov").stat().st_size == 14 and not (server.files / "a-3.mov").exists()
    assert mount.status("a.mov")["receipt"]["id"] != first


@pytest.mark.promises("DE163")
def test_a_later_content_replaces_the_former_one_also_after_a_restart(server, new_dav_mount):
    mount = new_dav_mount(server)
    for name, size in {"small": 10, "large.mov": 9 * MIB}.items():
        deliver(mount, name, size)
    mount.stop()
    mount.start()
    for name, size in {"small": 12, "large.mov": 10 * MIB}.items():
        deliver(mount, name, size, seed=2)
        wait_until(lambda: mount.status(name)["receipt"]["size"] == size, name)
        assert sha256(server.files / name) == sha256(mount.root / name)
    assert server.names() == ["large.mov", "small"] and server.unfinished() == set()


@pytest.mark.promises("DE163")
def test_what_has_changed_at_the_server_is_not_replaced(server, new_dav_mount):
    mount = new_dav_mount(server)
    deliver(mount, "a.mov", 1000)
    response, _ = request(server, "PUT", "/dav/a.mov", b"edited by another client")
    assert response.status in (201, 204)
    with open(mount.root / "a.mov", "ab") as file:
        file.write(b"more")
    mount.wait_all()
    assert (server.files / "a.mov").read_bytes() == b"edited by another client"
    assert (server.files / "a-2.mov").stat().st_size == 1004


@pytest.mark.promises("DE164")
def test_refuse_and_replace(server, new_dav_mount):
    (server.files / "a.mov").write_bytes(b"another machine's")
    mount = new_dav_mount(server, "--if-exists", "refuse")
    write_random(mount.root / "a.mov", 1000)
    assert mount.wait_for("a.mov", "failed")["last_error"]["code"] == "name-refused"
    assert (server.files / "a.mov").read_bytes() == b"another machine's"
    wait_until(lambda: server.unfinished() == set(), "what was sent is taken away")
    other = new_dav_mount(server, "--if-exists", "replace")
    write_random(other.root / "a.mov", 2000)
    other.wait_for("a.mov", "complete")
    assert sha256(server.files / "a.mov") == sha256(other.root / "a.mov")


@pytest.mark.promises("DE166")
def test_a_broken_upload_begins_again_and_leaves_nothing(server, new_dav_mount, authority):
    with front(server, authority) as between:
        mount = new_dav_mount(server, to=server.url(between.port, "webdav+https"), ca=authority.certificate)
        between.stop_after(5 * MIB)
        write_random(mount.root / "a.mov", 16 * MIB)
        mount.readings("a.mov", lambda status: status["bytes"]["acknowledged"] > MIB)
        assert "a.mov" not in server.names()
        between.cut()
        between.reset()
        mount.wait_for("a.mov", "complete")
        assert between.body_bytes > 16 * MIB + MIB
        assert sha256(server.files / "a.mov") == sha256(mount.root / "a.mov")
        assert server.unfinished() == set()


@pytest.mark.promises("DE166")
def test_a_server_that_dies_in_mid_upload_gets_the_file_again(server, new_dav_mount, authority):
    with front(server, authority) as between:
        mount = new_dav_mount(server, to=server.url(between.port, "webdav+https"), ca=authority.certificate)
        between.stop_after(5 * MIB)
        write_random(mount.root / "a.mov", 16 * MIB)
        mount.readings("a.mov", lambda status: status["bytes"]["acknowledged"] > MIB)
        server.kill()
        between.cut()
        mount.readings("a.mov", lambda status: status["last_error"])
        between.reset()
        server.start()
        mount.wait_all()
        assert server.names() == ["a.mov"] and sha256(server.files / "a.mov") == sha256(mount.root / "a.mov")


@pytest.mark.promises("DE167")
def test_what_was_sent_whole_is_not_sent_again_where_the_answer_to_its_move_is_lost(server, new_dav_mount, authority):
    with front(server, authority) as between:
        mount = new_dav_mount(server, to=server.url(between.port, "webdav+https"), ca=authority.certificate)
        moves = []

        def refuse(method, target, fields):
            if method == "MOVE":
                moves.append(target)
                return (503, {"Retry-After": "1"}) if len(moves) == 1 else None
            return None

        between.refuse(refuse)
        write_random(mount.root / "a.mov", 16 * MIB)
        mount.wait_for("a.mov", "complete")
        # Apache wants the new name in another form.
        assert len(moves) >= 2 and between.body_bytes < 17 * MIB
        assert server.names() == ["a.mov"] and server.unfinished() == set()


@pytest.mark.promises("DE163")
@pytest.mark.parametrize("size", [1000, 9 * MIB])
def test_a_killed_daemon_knows_its_own_by_the_mark(server, new_dav_mount, authority, size):
    with front(server, authority) as between:
        mount = new_dav_mount(server, to=server.url(between.port, "webdav+https"), ca=authority.certificate)
        between.refuse(lambda method, target, fields:
                       (503, {}) if method == "PROPFIND" and server.names() == ["a.mov"] else None)
        write_random(mount.root / "a.mov", size)
        wait_until(lambda: server.names() == ["a.mov"], "it is moved")
        mount.readings("a.mov", lambda status: status["last_error"])
        mount.kill()
        between.reset()
        with open(mount.spool / "captures" / "a.mov", "ab") as file:
            file.write(b"more")
        mount.start()
        mount.wait_all()
        assert server.names() == (["a.mov"] if server.keeps_marks else ["a-2.mov", "a.mov"])
        assert server.unfinished() == set()


@pytest.mark.promises("DE160")
def test_the_time_of_a_file_is_kept_where_the_server_keeps_it(server, new_dav_mount):
    mount = new_dav_mount(server)
    with open(mount.root / "a.mov", "wb", buffering=0) as file:
        file.write(b"x")
        # Before the close: the file may be at the server soon after.
        os.utime(file.fileno(), (1_500_000_000, 1_500_000_000))
    mount.wait_all()
    assert ((server.files / "a.mov").stat().st_mtime == 1_500_000_000) == server.keeps_times


@pytest.mark.promises("DE168")
def test_a_removed_file_leaves_nothing(server, new_dav_mount, authority):
    with front(server, authority) as between:
        mount = new_dav_mount(server, to=server.url(between.port, "webdav+https"), ca=authority.certificate)
        between.stop_after(5 * MIB)
        write_random(mount.root / "a.mov", 16 * MIB)
        mount.readings("a.mov", lambda status: status["bytes"]["acknowledged"] > MIB)
        (mount.root / "a.mov").unlink()
        between.reset()
        wait_until(lambda: not server.unfinished(), lambda: f"left: {server.unfinished()}")
        assert server.names() == []


@pytest.mark.promises("DE168")
def test_what_a_killed_daemon_leaves_is_taken_away(server, new_dav_mount, authority):
    with front(server, authority) as between:
        mount = new_dav_mount(server, to=server.url(between.port, "webdav+https"), ca=authority.certificate)
        for kills in range(2):
            between.stop_after(5 * MIB)
            if not kills:
                write_random(mount.root / "a.mov", 16 * MIB)
            mount.readings("a.mov", lambda status: status["bytes"]["acknowledged"] > MIB)
            mount.kill()
            between.cut()
            mount.start()
        between.reset()
        mount.wait_all()
        assert server.names() == ["a.mov"] and sha256(server.files / "a.mov") == sha256(mount.root / "a.mov")
        assert server.unfinished() == set()


@pytest.mark.promises("DE169")
def test_a_locked_name_waits_until_it_is_free(new_server, new_dav_mount):
    """A lock of another program on what is to be replaced."""
    server = new_server(webdav_servers.WsgiDAV)
    mount = new_dav_mount(server, "--if-exists", "replace")
    (server.files / "a.mov").write_bytes(b"edited elsewhere")
    token = lock(server, "/dav/a.mov")
    write_random(mount.root / "a.mov", 1000)
    reading = mount.readings("a.mov", lambda status: status["last_error"])[-1]
    assert reading["last_error"]["code"] == "conflict" and "locked" in reading["last_error"]["message"], reading
    assert (server.files / "a.mov").read_bytes() == b"edited elsewhere"
    unlock(server, "/dav/a.mov", token)
    mount.wait_all()
    assert sha256(server.files / "a.mov") == sha256(mount.root / "a.mov")


def request(server, method, path, body=None, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SOON)
    try:
        password = f"{USER}:{PASSWORD}".encode()
        connection.request(method, urllib.parse.quote(path), body=body, headers={
            "Authorization": f"Basic {base64.b64encode(password).decode()}",
            **{name.replace("_", "-"): value for name, value in fields.items()}})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def lock(server, path):
    response, _ = request(server, "LOCK", path, Depth="0", Timeout="Second-600", body=(
        '<?xml version="1.0"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/>'
        "</D:locktype><D:owner>another client</D:owner></D:lockinfo>"))
    assert response.status in (200, 201), response.status
    return response.getheader("Lock-Token")


def unlock(server, path, token):
    response, _ = request(server, "UNLOCK", path, Lock_Token=token)
    assert response.status == 204


@pytest.mark.promises("DE170")
def test_a_full_server_is_waited_for(server, new_dav_mount, authority):
    with front(server, authority) as between:
        between.refuse(lambda method, target, fields: (507, {}) if method == "PUT" else None)
        mount = new_dav_mount(server, to=server.url(between.port, "webdav+https"), ca=authority.certificate)
        write_random(mount.root / "a.mov", 100_000)
        mount.readings("a.mov", lambda status: status["last_error"] and status["last_error"]["code"] == "insufficient-storage")
        between.reset()
        mount.wait_all()
        assert server.names() == ["a.mov"]


@pytest.mark.promises("DE171")
def test_an_address_without_a_folder_is_named(server, new_dav_mount):
    mount = new_dav_mount(server, to=server.url(path="/dav/not/there"))
    (mount.root / "a.mov").write_bytes(b"x")
    error = mount.readings("a.mov", lambda status: status["last_error"])[-1]["last_error"]
    assert "--to" in error["message"], error
    assert server.names() == []


@pytest.mark.promises("DE160")
def test_folders_that_go_meanwhile_are_made_again(server, new_dav_mount):
    mount = new_dav_mount(server)
    (mount.root / "day 1").mkdir()
    deliver(mount, "day 1/a", 10)
    (server.files / "day 1" / "a").unlink()
    subprocess.run(["rm", "-rf", server.files / "day 1"], check=True)
    deliver(mount, "day 1/b", 10)
    assert server.names() == ["day 1/b"]


@pytest.mark.promises("DE160")
def test_a_large_file_takes_no_more_memory(new_server, new_dav_mount):
    server = new_server(webdav_servers.Apache)
    mount = new_dav_mount(server)
    deliver(mount, "first.mov", 9 * MIB)
    before = resident_kilobytes(mount.program.process.pid)
    deliver(mount, "large.mov", 400 * MIB)
    assert resident_kilobytes(mount.program.process.pid) - before < 64 << 10
    assert sha256(server.files / "large.mov") == sha256(mount.root / "large.mov")


@pytest.mark.promises("DE173")
def test_the_doctor_examines_a_webdav_server(server, secret, folder):
    done = subprocess.run(
        [str(word) for word in (MOUNT_TOOL, "doctor", "--to", server.url(), "--basic-auth-file", secret)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON * 4, env=clean_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert server.names() == [] and server.unfinished() == set(), done.stdout
