"""Delivery to a form: examples/form behind nginx. Contents are compared where PHP has put them."""

import base64
import contextlib
import json
import os
import re
import urllib.parse

import pytest

from form_servers import PASSWORD, USER, Form, SlowForm, resident_kilobytes
from harness import sha256, wait_until, write_random
from throttle import ThrottlingProxy

MIB = 1 << 20


@pytest.fixture
def new_form_mount(new_form, new_mount):
    """Mounts on forms; asks for `new_form` so that mounts end before the servers do."""

    def make(form, *options, to=None, **more):
        return new_mount(
            None, "--basic-auth-file", form.password_file, *options, to=to or form.url(), **more)

    return make


def test_files_of_every_size_arrive(form, new_form_mount):
    mount = new_form_mount(form)
    sizes = {
        "empty": 0, "one": 1, "small.txt": 70_000, "one buffer.mov": 4 * MIB, "two.mov": 4 * MIB + 1,
        'quo"te ü%41.mov': 21_000_003}
    for name, size in sizes.items():
        write_random(mount.root / name, size, seed=size)
    mount.wait_all()
    # A quote, and a name that looks as if it had one, are told apart.
    arrived = {urllib.parse.unquote(path.name): path for path in form.files.iterdir()}
    assert sorted(arrived) == sorted(sizes)
    for name, size in sizes.items():
        assert sha256(arrived[name]) == sha256(mount.root / name), name
        status = mount.status(name)
        assert status["state"] == "complete" and status["receipt"]["size"] == size
        answer = json.loads(status["receipt"]["answer"])
        assert answer["size"] == size and answer["id"] == status["receipt"]["id"]
    assert set(form.posts()) == {201}
    assert not list(form.temporary.iterdir())


def test_delivery_over_tls(new_form, new_form_mount, authority):
    form = new_form(identity=authority.issue("form"))
    mount = new_form_mount(form, ca=authority.certificate)
    write_random(mount.root / "a.mov", 9 * MIB)
    mount.wait_all()
    assert sha256(form.files / "a.mov") == sha256(mount.root / "a.mov")
    assert mount.status("a.mov")["connection"]["protocol"].startswith("HTTP/")


def test_the_nginx_of_the_example_takes_uploads(new_form, new_form_mount, authority):
    form = new_form(identity=authority.issue("form"), kind=Form.of_example)
    checked = form.nginx.check()
    assert checked.returncode == 0 and "test is successful" in checked.stderr, checked.stderr
    mount = new_form_mount(form, ca=authority.certificate)
    write_random(mount.root / "a.mov", 9 * MIB)
    mount.wait_all()
    assert sha256(form.files / "a.mov") == sha256(mount.root / "a.mov")
    # It asks for the password.
    assert set(form.posts()) == {201}
    assert form.status_of("Basic bm9ib2R5Og==", authority) == 401


@pytest.mark.promises("DE76", "DE77")
def test_fields_and_types_follow_from_the_name(form, new_form_mount):
    mount = new_form_mount(
        form, "--form-extra", "folder={folder}", "--form-extra", "*.mov kind=video", "--form-extra",
        "about={stem}/{ext} {size}; from=bench 3")
    (mount.root / "day 1").mkdir()
    (mount.root / "day 1" / "a.b.mov").write_bytes(b"12345")
    (mount.root / "x").write_bytes(b"")
    mount.wait_all()
    assert (form.files / "day 1" / "a.b.mov").read_bytes() == b"12345"
    answer = json.loads(mount.status("day 1/a.b.mov")["receipt"]["answer"])
    assert answer["type"] == "video/quicktime"
    assert answer["fields"] == {"folder": "day 1", "kind": "video", "about": "a.b/mov 5", "from": "bench 3"}
    answer = json.loads(mount.status("x")["receipt"]["answer"])
    assert answer["type"] == "application/octet-stream" and "kind" not in answer["fields"]


def test_nothing_is_sent_while_a_file_grows_and_its_last_content_arrives(form, new_form_mount):
    mount = new_form_mount(form)
    with open(mount.root / "a.mov", "wb", buffering=0) as file:
        for number in range(10):
            file.write(os.urandom(MIB))
            # What is complete passes it by.
            (mount.root / f"{number}.txt").write_bytes(b"complete")
            mount.wait_for(f"{number}.txt", "complete")
        assert form.posts() == [201] * 10 and mount.status("a.mov")["bytes"]["acknowledged"] == 0
    mount.wait_all()
    assert sha256(form.files / "a.mov") == sha256(mount.root / "a.mov")
    assert form.posts() == [201] * 11


@contextlib.contextmanager
def under_way(form, new_form_mount):
    """A mount of whose a.mov a part has been sent, and the slow line to its form."""
    with ThrottlingProxy(form.port, rate=8 * MIB) as proxy:
        mount = new_form_mount(form, to=form.url(proxy.port))
        write_random(mount.root / "a.mov", 16 * MIB)
        mount.readings("a.mov", lambda status: status["bytes"]["acknowledged"] > 4 * MIB)
        yield mount, proxy


@pytest.mark.promises("DE80")
def test_progress_is_what_the_network_took(form, new_form_mount):
    with ThrottlingProxy(form.port, rate=20 * MIB) as proxy:
        mount = new_form_mount(form, to=form.url(proxy.port))
        write_random(mount.root / "a.mov", 24 * MIB)
        readings = mount.readings("a.mov", lambda status: status["state"] == "complete")
    seen = sorted({reading["bytes"]["acknowledged"] for reading in readings if reading["state"] == "uploading"})
    assert len(seen) >= 3 and 0 < seen[1] < seen[-2] < 24 * MIB
    assert any(reading["rate_bytes_per_second"] > 0 for reading in readings)


@pytest.mark.promises("DE4")
def test_a_change_breaks_the_request_off_before_its_end(form, new_form_mount):
    with under_way(form, new_form_mount) as (mount, proxy):
        with open(mount.root / "a.mov", "r+b") as file:
            file.seek(10)
            file.write(b"changed")
        proxy.rate = None
        mount.wait_all()
    assert sha256(form.files / "a.mov") == sha256(mount.root / "a.mov")
    # The one that was broken off never got to the script.
    assert form.posts().count(201) == 1


def test_a_renamed_file_has_its_last_name_only(form, new_form_mount):
    with under_way(form, new_form_mount) as (mount, proxy):
        (mount.root / "a.mov").rename(mount.root / "b.mov")
        proxy.rate = None
        mount.wait_all()
    assert [path.name for path in form.files.iterdir()] == ["b.mov"]


@pytest.mark.promises("DE81")
def test_a_broken_connection_costs_the_request_and_not_the_file(form, new_form_mount):
    with under_way(form, new_form_mount) as (mount, proxy):
        proxy.cut()
        proxy.rate = None
        mount.wait_all()
    assert sha256(form.files / "a.mov") == sha256(mount.root / "a.mov")
    assert form.posts().count(201) == 1


@pytest.mark.promises("DE6")
def test_a_killed_daemon_sends_the_file_again(form, new_form_mount):
    with under_way(form, new_form_mount) as (mount, _):
        mount.kill()
    mount.to = form.url()
    mount.start()
    mount.wait_all()
    assert sha256(form.files / "a.mov") == sha256(mount.root / "a.mov")


@pytest.mark.parametrize("policy", ["retry", "hold"])
@pytest.mark.promises("DE82", "DE83")
def test_an_unclear_end_is_answered_by_policy(form, new_form_mount, policy):
    with ThrottlingProxy(form.port) as proxy:
        mount = new_form_mount(form, "--form-unclear", policy, to=form.url(proxy.port))
        # Everything gets there, and no answer comes back.
        proxy.swallow_answers(b"201")
        write_random(mount.root / "a.mov", 6 * MIB)
        if policy == "hold":
            error = mount.wait_for("a.mov", "failed")["last_error"]
            assert error["code"] == "unclear-end" and "may have it" in error["message"]
            assert form.posts() == [201]
            proxy.swallow_answers(None)
            mount.say("retry", "a.mov")
        else:
            reading = mount.readings("a.mov", lambda status: status.get("last_error"))[-1]
            assert "twice" in reading["last_error"]["message"]
            proxy.swallow_answers(None)
        mount.wait_all()
    assert form.posts() == [201, 201]
    assert sha256(form.files / "a.mov") == sha256(mount.root / "a.mov")


@pytest.mark.parametrize("policy", ["retry", "hold"])
@pytest.mark.promises("DE84")
def test_what_was_under_way_when_the_mount_died_is_answered_by_policy(form, new_form_mount, policy):
    with ThrottlingProxy(form.port) as proxy:
        mount = new_form_mount(form, "--form-unclear", policy, to=form.url(proxy.port))
        # Everything gets there, and no answer comes back before the end.
        proxy.keep_one_answer(b"post ")
        write_random(mount.root / "a.mov", 6 * MIB)
        wait_until(lambda: form.posts() == [201], "the server has it")
        mount.kill()
    mount.to = form.url()
    for _ in range(2):
        mount.start()
        if policy == "retry":
            mount.wait_for("a.mov", "complete")
            break
        error = mount.wait_for("a.mov", "failed")["last_error"]
        assert error["code"] == "unclear-end" and "may have it" in error["message"]
        # What is written meanwhile is not held up by it.
        (mount.root / "b").write_bytes(b"x")
        mount.wait_for("b", "complete")
        (mount.root / "b").unlink()
        # Also after another end it waits for a user.
        mount.kill()
    if policy == "hold":
        mount.start()
        mount.wait_for("a.mov", "failed")
        mount.say("retry", "a.mov")
        mount.wait_for("a.mov", "complete")
    assert len(list(form.files.glob("a.mov"))) == 1
    assert form.posts().count(201) == (2 if policy == "retry" else 4)


@pytest.mark.parametrize("limits, body_max, knows_limit", [
    ({}, "8m", None),
    ({"post_max_size": "8M"}, "0", 8 * MIB),
    ({"upload_max_filesize": "8M"}, "0", 8 * MIB),
], ids=["nginx", "post_max_size", "upload_max_filesize"])
@pytest.mark.promises("DE85")
def test_a_file_that_is_too_large_is_explained(new_form, new_form_mount, limits, body_max, knows_limit):
    form = new_form(limits=limits, body_max=body_max)
    mount = new_form_mount(form)
    write_random(mount.root / "large.mov", 9 * MIB)
    (mount.root / "small.mov").write_bytes(b"x")
    error = mount.wait_for("large.mov", "failed")["last_error"]
    assert error["code"] == "too-large"
    for word in ("413", str(9 * MIB), "client_max_body_size", "upload_max_filesize", "post_max_size", "firewall"):
        assert word in error["message"], error
    if knows_limit:
        assert "larger than" in error["message"]
    mount.wait_for("small.mov", "complete")
    assert form.posts().count(413) == 1


@pytest.mark.promises("DE86")
def test_a_known_limit_costs_no_bytes(form, new_form_mount):
    mount = new_form_mount(form, "--max-upload-size", "5MiB")
    write_random(mount.root / "large.mov", 5 * MIB + 1)
    write_random(mount.root / "fits.mov", 5 * MIB)
    error = mount.wait_for("large.mov", "failed")["last_error"]
    assert error["code"] == "too-large" and str(5 * MIB) in error["message"]
    mount.wait_for("fits.mov", "complete")
    assert form.posts() == [201]
    assert (mount.spool / "captures" / "large.mov").stat().st_size == 5 * MIB + 1


@pytest.mark.promises("DE95")
def test_a_wrong_password_is_named_and_never_shown(form, new_form_mount):
    form.password_file.write_text("camera:not-the-password\n")
    mount = new_form_mount(form, "--log-level", "trace")
    write_random(mount.root / "a.mov", 6 * MIB)
    error = mount.wait_for("a.mov", "failed")["last_error"]
    assert error["code"] == "unauthorized" and "--basic-auth-file" in error["message"]
    assert "not-the-password" not in mount.program.log + str(error)


def test_a_wrong_password_costs_no_file(form, new_form_mount):
    """Regression: it cost the whole file, twice."""
    form.password_file.write_text("camera:not-the-password\n")
    with ThrottlingProxy(form.port) as proxy:
        mount = new_form_mount(form, to=form.url(proxy.port))
        write_random(mount.root / "a.mov", 24 * MIB)
        assert mount.wait_for("a.mov", "failed")["last_error"]["code"] == "unauthorized"
        assert proxy.bytes_up < MIB


def test_what_the_server_says_of_a_refusal_is_shown(form, new_form_mount):
    mount = new_form_mount(form, "--form-field", "picture")
    (mount.root / "a.mov").write_bytes(b"x")
    error = mount.wait_for("a.mov", "failed")["last_error"]
    assert error["code"] == "bad-request" and "there is no field “file”" in error["message"]


def test_small_files_are_not_held_up_by_large_ones(form, new_form_mount):
    """Of the large files that came earlier, no more are delivered first than were under way."""
    names = [f"large-{number}.mov" for number in range(3)]
    with ThrottlingProxy(form.port, rate=4 * MIB) as proxy:
        mount = new_form_mount(form, "--parallel", "2", to=form.url(proxy.port))
        for number, name in enumerate(names):
            write_random(mount.root / name, 12 * MIB, seed=number)
        (mount.root / "small.txt").write_bytes(b"here")
        mount.wait_for("small.txt", "complete")
        assert [mount.status(name)["state"] for name in names].count("complete") <= 1
        proxy.rate = None
        mount.wait_all()
    for name in names:
        assert sha256(form.files / name) == sha256(mount.root / name)


@pytest.mark.promises("DE75")
def test_a_large_file_takes_little_memory(form, new_form_mount):
    mount = new_form_mount(form)
    (mount.root / "warm").write_bytes(b"x")
    mount.wait_all()
    before = resident_kilobytes(mount.program.process.pid)
    write_random(mount.root / "large.mov", int(os.environ.get("FORM_LARGE_BYTES", 600 * MIB)))
    mount.wait_all(timeout=1200)
    growth = resident_kilobytes(mount.program.process.pid) - before
    assert growth < 50_000, f"{growth} kB more"
    assert (form.files / "large.mov").stat().st_size == (mount.root / "large.mov").stat().st_size


def test_delivered_files_are_not_sent_again_after_a_restart(form, new_form_mount):
    mount = new_form_mount(form)
    write_random(mount.root / "a.mov", 5 * MIB)
    mount.wait_all()
    answer = mount.status("a.mov")["receipt"]["answer"]
    assert mount.stop() == 0
    mount.start()
    mount.wait_all()
    assert form.posts() == [201]
    assert mount.status("a.mov")["receipt"]["answer"] == answer
    assert PASSWORD not in mount.program.log and not re.search("Basic ", mount.program.log)


@pytest.fixture
def slow_form():
    form = SlowForm(2)
    yield form
    form.close()


@pytest.mark.promises("S76c")
@pytest.mark.parametrize("way", ["unlinked", "renamed over", "rewritten"])
@pytest.mark.parametrize("size", [20_000, 300_000, 5 * MIB])
def test_a_slow_form_keeps_what_came_last(slow_form, new_mount, way, size):
    """Regression: the first request was broken off, and the server, which had all of it, kept its file after the second."""
    mount = new_mount(None, to=slow_form.url)
    old, new = bytes([1]) * size, bytes([2]) * size
    path = mount.root / "notes.txt"
    path.write_bytes(old)
    assert slow_form.taken.wait(60)
    if way == "renamed over":
        (mount.root / "notes.txt~").write_bytes(new)
        (mount.root / "notes.txt~").rename(path)
    else:
        if way == "unlinked":
            path.unlink()
        path.write_bytes(new)
    mount.wait_all()
    wait_until(lambda: slow_form.kept >= 2, lambda: f"{slow_form.kept} requests have ended")
    assert slow_form.files["notes.txt"] == new


@pytest.mark.promises("SE13", "SE14")
def test_what_a_server_repeats_is_no_secret_in_the_log_and_no_line_of_it(new_form, new_form_mount):
    """Regression: an error that repeats Authorization put the password into log and status, and names forged lines."""
    form = new_form(
        guard="""default_type application/json; return 422 '{"message":"no, $http_authorization"}';""", has_password=False)
    mount = new_form_mount(form)
    name = "a\n2026-01-01T00:00:00+0000 info uploadfs: [UploadEngine] forged"
    write_random(mount.root / name, 500)
    wait_until(lambda: mount.summary()["files"]["failed"] == 1, "the file has failed")
    status = next((mount.root / "status").glob("a*.json")).read_text()
    log = mount.program.log
    secret = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    assert secret not in status and secret not in log
    assert "no, Basic [credential]" in json.loads(status)["last_error"]["message"] and "[credential]" in log
    assert not any(line.startswith("2026-01-01") for line in log.splitlines())
    assert "a\\n2026-01-01" in log
