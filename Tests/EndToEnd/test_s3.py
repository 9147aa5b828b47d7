"""Delivery to S3: whole, while it is written, and interrupted. Contents are compared at the server."""

import contextlib
import datetime
import json
import os
import pathlib
import shutil
import sqlite3
import tempfile

import pytest

from harness import SOON, wait_until, write_random
from s3_front import S3Front
from s3_servers import KEY, PART, SECRET, credentials
from throttle import ThrottlingProxy


def begun_sessions(state):
    """The sessions of which the spool knows no end: what is on the disk, since a mount keeps others out of its catalog."""
    with tempfile.TemporaryDirectory() as left:
        for part in ("catalog.sqlite", "catalog.sqlite-wal"):
            if (state / part).exists():
                shutil.copy(state / part, left)
        with contextlib.closing(sqlite3.connect(pathlib.Path(left, "catalog.sqlite"))) as catalog:
            return catalog.execute("SELECT id FROM session ORDER BY id").fetchall()


def let_a_week_pass(state):
    """For the sessions of a mount that is not there."""
    with contextlib.closing(sqlite3.connect(state / "catalog.sqlite", timeout=SOON)) as catalog, catalog:
        catalog.execute("UPDATE session SET begun_s = begun_s - 8 * 86400")


@pytest.mark.promises("DE29")
def test_files_of_every_size_arrive(s3, new_s3_mount):
    mount = new_s3_mount(s3.url("day%201"))
    sizes = {
        "empty": 0, "one": 1, "small.txt": 70_000, "one part": PART, "two parts": PART + 1, "deep/er/ü+&=.mov": 17_000_000}
    for name, size in sizes.items():
        (mount.root / name).parent.mkdir(parents=True, exist_ok=True)
        write_random(mount.root / name, size, seed=size)
    mount.wait_all()
    assert s3.keys() == sorted(f"day 1/{name}" for name in sizes)
    for name in sizes:
        assert s3.object(f"day 1/{name}") == (mount.root / name).read_bytes(), name
        status = mount.status(name)
        assert status["state"] == "complete"
        assert status["receipt"]["name"] == f"day 1/{name}"


@pytest.mark.promises("DE3")
def test_parts_are_sent_while_the_file_is_written(moto, new_s3_mount):
    mount = new_s3_mount(moto.url())
    content = os.urandom(5 * PART + 1000)
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        file.write(content)
        # Those at the beginning and at the end are expected to change.
        wait_until(lambda: moto.parts("take.mov") >= 3, "the parts between are there before the close")
        assert moto.object("take.mov") is None
        file.seek(2 * PART + 10)
        file.write(b"changed")
    mount.wait_all()
    begin = 2 * PART + 10
    assert moto.object("take.mov") == content[:begin] + b"changed" + content[begin + 7:]
    assert moto.uploads() == []


@pytest.mark.promises("DE25")
def test_what_is_written_again_replaces_the_object(s3, new_s3_mount):
    mount = new_s3_mount(s3.url())
    for round in range(2):
        write_random(mount.root / "a.mov", 2 * PART + round, seed=round)
        mount.wait_all()
        assert s3.object("a.mov") == (mount.root / "a.mov").read_bytes()
    assert s3.keys() == ["a.mov"]


def assert_goes_on_after_a_kill(s3, new_s3_mount, *options):
    """A daemon that is killed in mid-upload sends no part again that is in its record."""
    with ThrottlingProxy(s3.port, rate=12_000_000) as proxy:
        mount = new_s3_mount(s3.url(port=proxy.port), *options)
        write_random(mount.root / "a.mov", 24 * PART)
        mount.readings("a.mov", lambda status: status["resume"]["checkpoint_chunks"] >= 10)
        mount.kill()
    mount.to = s3.url()
    mount.start()
    mount.wait_all()
    assert s3.object("a.mov") == (mount.root / "a.mov").read_bytes()
    assert mount.status("a.mov")["chunks"]["reused"] >= 10
    return mount


def test_a_killed_daemon_goes_on_where_it_was(s3, new_s3_mount):
    assert_goes_on_after_a_kill(s3, new_s3_mount)


def test_a_restarted_server_that_has_lost_the_upload_gets_it_again(rclone, new_s3_mount):
    # Not moto: it answers 500 for an upload that it does not know.
    s3 = rclone
    with ThrottlingProxy(s3.port, rate=12_000_000) as proxy:
        mount = new_s3_mount(s3.url(port=proxy.port))
        write_random(mount.root / "a.mov", 6 * PART)
        mount.readings("a.mov", lambda status: status["chunks"]["done"] >= 3)
        s3.kill()
        proxy.cut()
        mount.readings("a.mov", lambda status: status.get("last_error"))
        s3.start()
        mount.wait_all()
    assert s3.object("a.mov") == (mount.root / "a.mov").read_bytes()


def test_connections_that_break_cost_only_what_was_on_its_way(s3, new_s3_mount):
    with ThrottlingProxy(s3.port, rate=20_000_000) as proxy:
        mount = new_s3_mount(s3.url(port=proxy.port))
        write_random(mount.root / "a.mov", 8 * PART)
        for part in (1, 3, 5):
            mount.readings("a.mov", lambda status: status["chunks"]["done"] >= part)
            proxy.cut()
        mount.wait_all()
    assert s3.object("a.mov") == (mount.root / "a.mov").read_bytes()


@pytest.mark.promises("DE5")
def test_a_renamed_file_has_one_object_and_no_upload_is_left(moto, new_s3_mount):
    with ThrottlingProxy(moto.port, rate=8_000_000) as proxy:
        mount = new_s3_mount(moto.url(port=proxy.port))
        content = os.urandom(4 * PART)
        (mount.root / "a.mov").write_bytes(content)
        # Parts go side by side and may all be there at once, the whole of them long before.
        wait_until(lambda: proxy.bytes_up > PART, "parts are on their way")
        proxy.hold()
        (mount.root / "a.mov").rename(mount.root / "b.mov")
        proxy.release()
        mount.wait_all()
        # The request that ends the first upload may follow the delivery, and it takes the same way.
        wait_until(lambda: moto.uploads() == [], "the first upload is ended")
    assert moto.keys() == ["b.mov"]
    assert moto.object("b.mov") == content


@pytest.mark.promises("DE5")
def test_a_temporary_name_costs_nothing(moto, new_s3_mount):
    mount = new_s3_mount(moto.url())
    content = os.urandom(3 * PART)
    (mount.root / "a.mov.part").write_bytes(content)
    wait_until(lambda: moto.parts("a.mov") == 3, "its parts are sent under the name that it will get")
    assert moto.keys() == []
    (mount.root / "a.mov.part").rename(mount.root / "a.mov")
    mount.wait_all()
    assert moto.object("a.mov") == content
    assert moto.uploads() == []


def test_a_removed_file_leaves_no_upload(moto, new_s3_mount):
    with ThrottlingProxy(moto.port, rate=8_000_000) as proxy:
        mount = new_s3_mount(moto.url(port=proxy.port))
        write_random(mount.root / "a.mov", 6 * PART)
        wait_until(lambda: moto.parts("a.mov") >= 1, "a part is there")
        (mount.root / "a.mov").unlink()
        wait_until(lambda: moto.uploads() == [], "the upload is ended")
    assert moto.keys() == []


@pytest.mark.promises("DE34", "DE35")
def test_uploads_that_are_left_over_are_ended_and_those_of_others_are_not(s3, new_s3_mount):
    with ThrottlingProxy(s3.port, rate=8_000_000) as proxy:
        mount = new_s3_mount(s3.url("in", port=proxy.port))
        for name in ("a.mov", "b.mov"):
            write_random(mount.root / name, 6 * PART)
        wait_until(lambda: s3.uploads() == ["in/a.mov", "in/b.mov"], "both uploads have begun")
        state = mount.spool / ".state"
        wait_until(lambda: len(begun_sessions(state)) == 2, "both are recorded")
        mount.kill()
    s3.begin_upload("in/other")
    # A disk has lost what was known of one of them; and a week has passed.
    for record in (state / "resume").iterdir():
        record.unlink()
    (mount.spool / "captures" / "a.mov").unlink()
    let_a_week_pass(state)
    mount.to = s3.url("in")
    mount.start()
    mount.wait_for("b.mov", "complete")
    wait_until(lambda: s3.uploads() == ["in/other"], "what was begun here is ended")
    assert s3.keys() == ["in/b.mov"]
    wait_until(lambda: begun_sessions(state) == [], "nothing is left to look for")


@pytest.mark.promises("DE34")
def test_an_upload_that_is_gone_on_with_is_never_ended_as_left_over(moto, new_s3_mount):
    with ThrottlingProxy(moto.port, rate=8_000_000) as proxy:
        mount = new_s3_mount(moto.url(port=proxy.port))
        write_random(mount.root / "a.mov", 24 * PART)
        mount.readings("a.mov", lambda status: status["resume"]["checkpoint_chunks"] >= 10)
        state = mount.spool / ".state"
        wait_until(lambda: len(begun_sessions(state)) == 1, "it is recorded")
        mount.kill()
        let_a_week_pass(state)
        mount.start()
        mount.wait_all()
    assert mount.status("a.mov")["chunks"]["reused"] >= 10
    assert moto.uploads() == []


@pytest.mark.parametrize("checksum", ["crc32c", "sha256"])
@pytest.mark.promises("DE23")
def test_checksums_are_kept_and_used_to_go_on(moto, new_s3_mount, checksum):
    mount = assert_goes_on_after_a_kill(moto, new_s3_mount, "--s3-checksum", checksum)
    (mount.root / "small").write_bytes(b"small")
    mount.wait_all()
    assert moto.object("small") == b"small"


@pytest.mark.promises("DE22")
def test_checksums_are_used_where_the_server_keeps_them(moto, new_s3_mount):
    with ThrottlingProxy(moto.port, rate=8_000_000) as proxy:
        mount = new_s3_mount(moto.url(port=proxy.port))
        write_random(mount.root / "a.mov", 6 * PART)
        state = mount.spool / ".state"
        sessions = wait_until(lambda: begun_sessions(state), "the upload is recorded")
        assert sessions[0][0].endswith("?crc32c"), sessions
        mount.wait_all()
    assert moto.object("a.mov") == (mount.root / "a.mov").read_bytes()
    assert moto.uploads() == []


@pytest.mark.promises("DE22")
def test_a_server_that_keeps_no_checksums_gets_none(rclone, new_s3_mount):
    with ThrottlingProxy(rclone.port, rate=8_000_000) as proxy:
        mount = new_s3_mount(rclone.url(port=proxy.port))
        write_random(mount.root / "a.mov", 6 * PART)
        sessions = wait_until(lambda: begun_sessions(mount.spool / ".state"), "the upload is recorded")
        assert "?crc32c" not in sessions[0][0], sessions
        mount.wait_all()
    assert rclone.object("a.mov") == (mount.root / "a.mov").read_bytes()
    # Nor is what it was asked with left there.
    assert rclone.uploads() == []


@pytest.mark.parametrize("status,code", [(501, "NotImplemented"), (400, "InvalidRequest")])
@pytest.mark.promises("DE22")
def test_a_server_that_refuses_checksums_is_asked_without_and_nobody_notices(moto, new_s3_mount, status, code):
    def refuses(method, path, headers):
        if any(name.lower().startswith("x-amz-checksum") for name in headers):
            return status, code
        return None

    with S3Front(moto.port, refuses) as front:
        mount = new_s3_mount(moto.url(port=front.port))
        for name, size in (("a.mov", 3 * PART), ("small", 10)):
            write_random(mount.root / name, size)
        mount.wait_all()
        for name in ("a.mov", "small"):
            assert moto.object(name) == (mount.root / name).read_bytes()
            assert mount.status(name)["attempts"] == 0
        refused = front.count("POST", "uploads", status), front.count("PUT", "/small", status)
        assert refused == (1, 1)
        # It is not asked a second time.
        write_random(mount.root / "b.mov", 3 * PART)
        mount.wait_all()
        assert front.count("POST", "uploads", status) == 1 and front.count("PUT", "", status) == 1


@pytest.mark.promises("DE16")
def test_keys_that_end_in_mid_upload_cost_nothing_that_was_acknowledged(moto, new_s3_mount, folder):
    accepted = {"first"}

    def print_keys(token):
        # They say that they end much later, so only the server's word can make the mount fetch others.
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        (folder / "answer").write_text(json.dumps({
            "Version": 1, "AccessKeyId": KEY, "SecretAccessKey": SECRET, "SessionToken": token,
            "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ")}))

    def refuses(method, path, headers):
        return None if headers.get("x-amz-security-token") in accepted else (403, "ExpiredToken")

    print_keys("first")
    runs = folder / "runs"
    (folder / "config").write_text(f"[profile ending]\ncredential_process = echo run >>{runs}; cat '{folder}/answer'\n")
    environment = {name: value for name, value in credentials().items() if not name.startswith("AWS_")}
    environment |= {
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "none"), "AWS_CONFIG_FILE": str(folder / "config")}
    with S3Front(moto.port, refuses) as front, ThrottlingProxy(front.port, rate=12_000_000) as proxy:
        mount = new_s3_mount(moto.url(port=proxy.port), "--s3-profile", "ending", environment=environment)
        write_random(mount.root / "a.mov", 16 * PART)
        done = mount.readings("a.mov", lambda status: status["chunks"]["done"] >= 4)[-1]["chunks"]["done"]
        print_keys("second")
        accepted.clear()
        accepted.add("second")
        mount.wait_all()
        assert front.count("PUT", "", 403) >= 1
        stored = [path for method, path, status in front.served if method == "PUT" and status == 200]
    assert moto.object("a.mov") == (mount.root / "a.mov").read_bytes()
    # What was acknowledged under the first keys belongs to the upload under the second.
    assert done >= 4 and len(stored) == len(set(stored)) == 16, stored
    assert runs.read_text() == "run\n" * 2
    assert "second" not in mount.program.log.replace("seconds", "").replace("per_second", "")


@pytest.mark.promises("DE27", "DE28")
def test_objects_tell_where_they_came_from(moto, new_s3_mount):
    mount = new_s3_mount(moto.url())
    for name, size in (("a.mov", 2 * PART), ("small", 5)):
        write_random(mount.root / name, size)
    mount.wait_all()
    for name in ("a.mov", "small"):
        head, status = moto.head(name), mount.status(name)
        assert head["x-amz-meta-uploadfs-file"] == status["file_id"]
        assert abs(float(head["x-amz-meta-mtime"]) - (mount.root / name).stat().st_mtime) < 60
    assert moto.head("small")["x-amz-meta-uploadfs-merkle-root"] == mount.status("small")["receipt"]["merkle_root"]


@pytest.mark.promises("DE26a")
def test_an_object_that_must_not_be_replaced_is_kept(moto, new_s3_mount):
    moto.put("small", b"first")
    moto.put("a.mov", b"first")
    mount = new_s3_mount(moto.url(), "--s3-if-exists", "refuse")
    (mount.root / "small").write_bytes(b"second")
    write_random(mount.root / "a.mov", 2 * PART)
    (mount.root / "other").write_bytes(b"second")
    for name in ("small", "a.mov"):
        assert mount.wait_for(name, "failed")["last_error"]["code"] == "name-refused"
    mount.wait_for("other", "complete")
    assert moto.object("small") == moto.object("a.mov") == b"first"


@pytest.mark.promises("DE17", "DE95")
def test_wrong_credentials_are_named_and_never_shown(rclone, new_s3_mount):
    mount = new_s3_mount(
        rclone.url(), "--log-level", "trace", environment=credentials(AWS_SECRET_ACCESS_KEY="not-the-secret-of-anybody"))
    (mount.root / "a").write_bytes(b"x")
    error = mount.wait_for("a", "failed")["last_error"]
    assert error["code"] == "unauthorized"
    assert "SignatureDoesNotMatch" in error["message"]
    assert "not-the-secret" not in mount.program.log + str(error)


@pytest.mark.promises("DE15")
def test_credentials_come_from_a_profile_or_its_command(rclone, new_s3_mount, folder):
    (folder / "credentials").write_text(f"[keys]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    (folder / "credentials").chmod(0o600)
    runs = folder / "runs"
    (folder / "answer").write_text(f'{{"Version": 1, "AccessKeyId": "{KEY}", "SecretAccessKey": "{SECRET}"}}')
    (folder / "config").write_text(
        f"[profile command]\ncredential_process = echo run >>{runs}; cat '{folder}/answer'\n")
    environment = {name: value for name, value in credentials().items() if not name.startswith("AWS_")}
    environment |= {
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"), "AWS_CONFIG_FILE": str(folder / "config")}
    for profile in ("keys", "command"):
        mount = new_s3_mount(rclone.url(), "--s3-profile", profile, environment=environment, name=profile)
        (mount.root / profile).write_bytes(profile.encode())
        mount.wait_all()
        assert rclone.object(profile) == profile.encode()
    assert runs.read_text() == "run\n"
    for profile, expected in (("none", "no profile"), ("default", "no profile")):
        mount = new_s3_mount(
            rclone.url(), "--s3-profile", profile, environment=environment, name=profile, start=False)
        code, message = mount.start_and_fail()
        assert code != 0
        assert expected in message, message


@pytest.mark.promises("DE15")
def test_a_start_without_credentials_says_what_to_do(rclone, new_s3_mount, folder):
    environment = {name: value for name, value in credentials().items() if not name.startswith("AWS_")}
    mount = new_s3_mount(rclone.url(), environment=environment | {"HOME": str(folder)}, start=False)
    code, message = mount.start_and_fail()
    assert code != 0
    assert "AWS_ACCESS_KEY_ID" in message


@pytest.mark.promises("DE13")
def test_a_bucket_that_is_not_there_is_named(moto, new_s3_mount):
    mount = new_s3_mount(moto.url().replace("/captures", "/no-such-bucket"))
    (mount.root / "a").write_bytes(b"x")
    error = mount.wait_for("a", "failed")["last_error"]
    assert "NoSuchBucket" in error["message"]


def test_many_small_files_arrive(s3, new_s3_mount):
    mount = new_s3_mount(s3.url())
    for number in range(200):
        (mount.root / f"shot-{number:03}").write_bytes(b"%d" % number)
    mount.wait_all()
    assert len(s3.keys()) == 200
    assert s3.object("shot-123") == b"123"
