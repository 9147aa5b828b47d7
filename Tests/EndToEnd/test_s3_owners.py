"""Whose a key is: two machines with one bucket, later contents, servers that ignore conditions, and a kill in between."""

import os
import shutil

import pytest

from harness import wait_until, write_random
from s3_front import S3Front
from s3_servers import PART

KINDS = pytest.mark.parametrize("content", [b"x" * 5000, os.urandom(2 * PART)], ids=["whole file", "parts"])


def deliver(mount, name, content):
    (mount.root / name).parent.mkdir(parents=True, exist_ok=True)
    (mount.root / name).write_bytes(content)
    return mount.wait_for(name, "complete")


@KINDS
@pytest.mark.promises("DE25", "DE26c", "DE26d")
def test_two_machines_with_one_bucket_keep_all_their_captures(s3, new_s3_mount, content):
    """Regression: the later capture replaced the other one. rclone ignores conditions, moto keeps them."""
    first, second = (new_s3_mount(s3.url("day"), name=name) for name in ("first", "second"))
    assert deliver(first, "DSC0001.JPG", content)["published_name"] == "day/DSC0001.JPG"
    status = deliver(second, "DSC0001.JPG", b"other" + content)
    assert status["published_name"] == "day/DSC0001-2.JPG" and status["receipt"]["name"] == "day/DSC0001.JPG"
    # Later contents of both stay with their names, also after a restart, and so does what comes in their place.
    assert deliver(first, "DSC0001.JPG", b"1" + content)["published_name"] == "day/DSC0001.JPG"
    assert second.stop() == 0
    second.start()
    assert second.wait_for("DSC0001.JPG", "complete")["published_name"] == "day/DSC0001-2.JPG"
    assert deliver(second, "DSC0001.JPG", b"2" + content)["published_name"] == "day/DSC0001-2.JPG"
    (second.root / "DSC0001.JPG").unlink()
    assert deliver(second, "DSC0001.JPG", b"3" + content)["published_name"] == "day/DSC0001-2.JPG"
    assert s3.keys() == ["day/DSC0001-2.JPG", "day/DSC0001.JPG"]
    assert s3.object("day/DSC0001.JPG") == b"1" + content and s3.object("day/DSC0001-2.JPG") == b"3" + content
    assert "day/DSC0001-2.JPG" in second.program.log
    # Where there was none, rclone knows no list of them.
    assert len(content) < PART or s3.uploads() == []


@pytest.mark.promises("DE26c")
def test_templates_of_two_machines(s3, new_s3_mount):
    contents = {}
    for machine in ("first", "second"):
        mount = new_s3_mount(s3.url(), "--name-template", "{name}", name=machine)
        for path in ("a/x.bin", "b/x.bin", "c"):
            contents[machine, path] = f"{machine} {path}".encode()
            deliver(mount, path, contents[machine, path])
    assert len(s3.keys()) == 6 and {s3.object(key) for key in s3.keys()} == set(contents.values())


@pytest.mark.promises("DE26c")
def test_a_key_that_is_taken_while_the_file_is_sent_stays(moto, new_s3_mount):
    def takes_it(method, path, _):
        """Before the first completion, and behind the look at the key that comes before the first part."""
        if method == "POST" and "uploadId=" in path and moto.object("a.mov") is None:
            moto.put("a.mov", b"another program's")

    with S3Front(moto.port, takes_it) as front:
        mount = new_s3_mount(moto.url(port=front.port))
        write_random(mount.root / "a.mov", 5 * PART)
        status = mount.wait_for("a.mov", "complete")
    assert status["published_name"] == "a-2.mov" and "name-taken" in mount.program.log
    assert moto.object("a.mov") == b"another program's"
    assert moto.object("a-2.mov") == (mount.root / "a.mov").read_bytes()
    wait_until(lambda: moto.uploads() == [], "the upload that could not be used is ended")


@KINDS
@pytest.mark.parametrize("conditions", ["ignored", "ignored at completions", "refused"])
@pytest.mark.promises("DE26d")
def test_a_server_that_keeps_no_conditions_is_asked_before(moto, new_s3_mount, content, conditions):
    """Regression: Ceph 16 ignores the condition of a completion."""
    def changes(method, path, headers):
        if conditions == "refused" and ("If-None-Match" in headers or "If-Match" in headers):
            return 501, "NotImplemented"
        if conditions == "ignored" or method == "POST":
            del headers["If-None-Match"]
            del headers["If-Match"]

    moto.put("a.mov", b"another program's")
    with S3Front(moto.port, changes) as front:
        mount = new_s3_mount(moto.url(port=front.port))
        # By the first file it is found out.
        deliver(mount, "first", b"1")
        for text in (b"1", b"2"):
            assert deliver(mount, "a.mov", text + content)["published_name"] == "a-2.mov"
        looks = front.count("HEAD", "/a.mov", 200)
    assert looks >= 1
    said = {"ignored": "ignores the condition", "refused": "takes no condition"}.get(conditions, "")
    assert mount.program.log.count("on the key of" if conditions == "refused" else "ignores the condition") <= 2
    assert said in mount.program.log, "it is said once for each kind"
    assert moto.keys() == ["a-2.mov", "a.mov", "first"] and moto.object("a.mov") == b"another program's"
    assert moto.object("a-2.mov") == b"2" + content


@pytest.mark.promises("DE26c")
def test_a_small_file_is_one_request(moto, new_s3_mount):
    with S3Front(moto.port, lambda *_: None) as front:
        mount = new_s3_mount(moto.url(port=front.port))
        deliver(mount, "first", b"1")
        for number in range(5):
            deliver(mount, f"small{number}", b"2")
        asked = sum(front.count("HEAD", f"/small{number}", status) for number in range(5) for status in (200, 404))
        sent = front.count("PUT", "/small")
    assert (asked, sent) == (0, 5)


@pytest.mark.promises("DE26e")
def test_credentials_that_may_not_look(moto, new_s3_mount):
    moto.put("a.mov", b"another program's")
    with S3Front(moto.port, lambda method, *_: (403, "AccessDenied") if method == "HEAD" else None) as front:
        mount = new_s3_mount(moto.url(port=front.port))
        assert deliver(mount, "a.mov", b"mine")["published_name"] == "a-2.mov"
        assert deliver(mount, "long", os.urandom(2 * PART))["published_name"] == "long"
    assert moto.object("a.mov") == b"another program's" and moto.object("a-2.mov") == b"mine"


@KINDS
@pytest.mark.promises("DE26c", "DE37")
def test_a_kill_before_the_answer_loses_nothing(moto, new_s3_mount, content):
    killed = []
    with S3Front(moto.port, lambda *_: None) as front:
        mount = new_s3_mount(moto.url(port=front.port))
        passes = front._pass_on

        def pass_on(method, path, *more):
            answer = passes(method, path, *more)
            if not killed and (method == "POST" and "uploadId=" in path or method == "PUT" and path.endswith("/a.mov")):
                killed.append(path)
                mount.kill()
            return answer

        front._pass_on = pass_on
        (mount.root / "a.mov").write_bytes(content)
        wait_until(lambda: killed and not mount.program.is_running, "killed")
        mount.to = moto.url()
        mount.start()
        mount.wait_all()
    assert moto.keys() == ["a.mov"] and moto.object("a.mov") == content and moto.uploads() == []


@pytest.mark.promises("DE25")
def test_a_spool_that_lost_its_record_replaces_nothing(moto, new_s3_mount):
    mount = new_s3_mount(moto.url())
    deliver(mount, "a.mov", b"one")
    # Regression: what was still in the spool went a second time, under a number.
    deliver(mount, "kept.mov", b"kept")
    assert mount.stop() == 0
    shutil.rmtree(mount.spool / ".state")
    (mount.spool / "captures" / "a.mov").unlink()
    mount.start()
    assert mount.wait_for("kept.mov", "complete")["published_name"] == "kept.mov"
    assert deliver(mount, "a.mov", b"two")["published_name"] == "a-2.mov"
    assert moto.object("a.mov") == b"one" and moto.object("a-2.mov") == b"two"
    assert moto.keys() == ["a-2.mov", "a.mov", "kept.mov"]


@pytest.mark.promises("DE26a", "DE138d")
def test_refuse_and_replace_are_as_they_are_set(moto, new_s3_mount):
    moto.put("a.mov", b"one")
    moto.put("a.log", b"one")
    mount = new_s3_mount(moto.url(), "--if-exists", "refuse", "--rule", "*.log if-exists=replace")
    (mount.root / "a.mov").write_bytes(b"two")
    assert mount.wait_for("a.mov", "failed")["last_error"]["code"] == "name-refused"
    deliver(mount, "a.log", b"two")
    for text in (b"1", b"2"):
        deliver(mount, "own", text)
    assert moto.object("a.mov") == b"one" and moto.object("a.log") == b"two" and moto.object("own") == b"2"


@pytest.mark.promises("DE26g")
def test_a_name_and_what_seems_to_lie_in_it(moto, new_s3_mount):
    for name in ("a", "a/b"):
        mount = new_s3_mount(moto.url(), name=name.replace("/", "-"))
        assert deliver(mount, name, name.encode())["published_name"] == name
    assert moto.keys() == ["a", "a/b"]
