"""What other programs do to the spool while it is mounted: what they change is never mixed into an upload, and is said."""

import os
import socket

import pytest

from filesystems import RENAME_EXCHANGE, renameat2
from harness import sha256, write_random
from test_destinations import archive, further  # noqa: F401 — a fixture
from test_form import new_form_mount, under_way  # noqa: F401 — a fixture and the slow line to a form
from test_lost_folders import metric
from throttle import ThrottlingProxy

MIB = 1 << 20


def flip(path):
    """In the middle; the size stays."""
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"edited by hand")


def cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


def replace(path):
    """As editors save."""
    new = path.with_name("new")
    new.write_bytes(b"put in its place by hand")
    new.rename(path)


def held(mount, name):
    status = mount.readings(name, lambda status: (status.get("last_error") or {}).get("code") == "changed-in-spool")[-1]
    assert status["state"] == "interrupted", status


@pytest.mark.promises("S78a", "S78b", "S78c", "S78d")
def test_what_is_changed_in_the_spool_before_it_is_sent_is_held(new_mount, receiver):
    """Regression: a part, or another content under the first one's name, was published with a receipt, and nothing said."""
    mount = new_mount(receiver)
    receiver.kill()
    captures = mount.spool / "captures"
    changes = {"flipped.mov": flip, "cut.mov": cut, "replaced.mov": replace}
    names = [*changes, *(f"small {name}" for name in changes), "untouched.mov", "untouched"]
    for name in names:
        (mount.root / name).write_bytes(os.urandom(2000 if name.startswith("small") else 5 * MIB))
    for name, change in changes.items():
        change(captures / name)
        change(captures / f"small {name}")
    receiver.start()
    for name in changes:
        held(mount, name)
        held(mount, f"small {name}")
    mount.wait_for("untouched.mov", "complete")
    done = mount.tool("wait", "--timeout", 30)
    assert done.returncode == 18 and "cut.mov" in done.stderr, done
    assert receiver.published().keys() == {"untouched.mov", "untouched"}
    assert "changed-in-spool" in mount.program.log
    # A replaced one is gone, and what stands in its place is held.
    assert metric(mount, "uploadfs_files_changed_in_spool_total") == 8
    # As it is, or written anew.
    for name in ("flipped.mov", "replaced.mov", "small cut.mov"):
        mount.say("publish", name)
        mount.wait_for(name, "complete")
        assert sha256(receiver.files / name) == sha256(captures / name), name
    for name in ("cut.mov", "small replaced.mov"):
        write_random(mount.root / name, 5 * MIB)
        mount.wait_for(name, "complete")
        assert sha256(receiver.files / name) == sha256(mount.root / name), name
    # Still so after a restart.
    assert mount.stop() == 18
    mount.start()
    held(mount, "small flipped.mov")
    assert receiver.published().keys() == {*names} - {"small flipped.mov"}


@pytest.mark.promises("S78e")
def test_what_is_taken_out_of_the_spool_is_gone_and_said(new_mount, receiver):
    """Regression: “it is gone” for ever, and neither `wait` nor SIGTERM came to an end."""
    mount = new_mount(receiver)
    receiver.kill()
    (mount.root / "day").mkdir()
    names = ["large.mov", "small", "day/below.mov"]
    for name in names:
        (mount.root / name).write_bytes(os.urandom(2000 if name == "small" else 5 * MIB))
    for name in names:
        (mount.spool / "captures" / name).unlink()
    (mount.spool / "captures" / "day").rmdir()
    receiver.start()
    for name in names:
        status = mount.readings(name, lambda status: status["state"] == "cancelled")[-1]
        assert status["last_error"]["code"] == "removed-from-spool", status
    mount.wait_all()
    assert receiver.published() == {}
    assert mount.program.log.count("no longer in the spool") == 3, mount.program.log
    assert metric(mount, "uploadfs_files_changed_in_spool_total") == 3
    # The names are free.
    (mount.root / "large.mov").write_bytes(b"another one")
    mount.wait_for("large.mov", "complete")
    assert mount.stop() == 0
    assert (receiver.files / "large.mov").read_bytes() == b"another one"


@pytest.mark.promises("S78c")
@pytest.mark.parametrize("places", [("one.mov", "other.mov"), ("one", "other")], ids=["captures", "folders"])
def test_captures_that_are_exchanged_in_the_spool_are_held(new_mount, receiver, places):
    """Regression: each was published under the other one's name."""
    mount = new_mount(receiver)
    receiver.kill()
    names = [place if place.endswith(".mov") else f"{place}/take.mov" for place in places]
    for place, name in zip(places, names):
        if place != name:
            (mount.root / place).mkdir()
        (mount.root / name).write_bytes(place.encode() * 1000)
    renameat2(*(mount.spool / "captures" / place for place in places), RENAME_EXCHANGE)
    receiver.start()
    for name in names:
        held(mount, name)
    assert mount.tool("wait", "--timeout", 30).returncode == 18
    assert receiver.published() == {}
    # As it is.
    mount.say("publish", names[0])
    mount.wait_for(names[0], "complete")
    assert (receiver.files / names[0]).read_bytes() == (mount.spool / "captures" / names[0]).read_bytes()
    # Still so after a restart.
    assert mount.stop() == 18
    mount.start()
    held(mount, names[1])
    assert receiver.published().keys() == {names[0]}


def put_socket(path):
    # Sockets have short paths.
    here = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


@pytest.mark.promises("S78g")
def test_what_is_no_file_in_a_captures_place_holds_up_nothing(new_mount, receiver):
    """Regression: the daemon waited for the other end of a pipe, and with it every program."""
    mount = new_mount(receiver)
    receiver.kill()
    puts = {
        "pipe": os.mkfifo, "link": lambda path: path.symlink_to("/etc/passwd"), "folder": os.mkdir, "socket": put_socket}
    for name in puts:
        (mount.root / name).write_bytes(os.urandom(3 * MIB))
    with open(mount.root / "pipe", "r+b", buffering=0) as writer:
        for name, put in puts.items():
            (mount.spool / "captures" / name).unlink()
            put(mount.spool / "captures" / name)
        writer.write(b"into what was there")
        receiver.start()
    for name in puts:
        status = mount.readings(name, lambda status: status["state"] == "cancelled")[-1]
        assert status["last_error"]["code"] == "removed-from-spool", status
    (mount.root / "another.mov").write_bytes(b"goes on")
    mount.wait_for("another.mov", "complete")
    mount.wait_all()
    assert receiver.published().keys() == {"another.mov"}


@pytest.mark.promises("S78a", "S78b")
def test_what_is_changed_is_held_at_several_destinations_as_well(new_mount, receiver, archive):  # noqa: F811
    """Regression: where there is more than one destination the spool was not asked before what was read was published."""
    mount = new_mount(receiver, *further("archive", archive), "--rule", "** to=main,archive")
    for place in (receiver, archive):
        place.kill()
    changes = {"flipped": flip, "cut": cut, "replaced": replace}
    for name in changes:
        (mount.root / f"{name}.mov").write_bytes(os.urandom(5 * MIB))
        (mount.root / name).write_bytes(os.urandom(2000))
    write_random(mount.root / "untouched", 5 * MIB)
    for name, change in changes.items():
        change(mount.spool / "captures" / name)
        change(mount.spool / "captures" / f"{name}.mov")
    for place in (receiver, archive):
        place.start()
    for name in changes:
        held(mount, name)
        held(mount, f"{name}.mov")
    mount.wait_for("untouched", "complete")
    assert mount.tool("wait", "--timeout", 30).returncode == 18
    assert receiver.published().keys() == archive.published().keys() == {"untouched"}
    mount.say("publish", "cut.mov")
    mount.wait_for("cut.mov", "complete")
    for place in (receiver, archive):
        assert sha256(place.files / "cut.mov") == sha256(mount.spool / "captures" / "cut.mov")


@pytest.mark.promises("S78a")
@pytest.mark.parametrize("change", [flip, cut, replace])
def test_what_is_changed_in_the_spool_while_it_is_sent_is_held(new_mount, receiver, change):
    """Regression: a mixture of two contents was published with a receipt."""
    with ThrottlingProxy(receiver.port, rate=8 * MIB) as proxy:
        mount = new_mount(receiver, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{proxy.port}")
        write_random(mount.root / "take.mov", 40 * MIB)
        mount.readings("take.mov", lambda status: status["chunks"]["done"] >= 4)
        change(mount.spool / "captures" / "take.mov")
        proxy.rate = None
        held(mount, "take.mov")
        assert receiver.published() == {}
        mount.say("publish", "take.mov")
        mount.wait_for("take.mov", "complete")
    assert sha256(receiver.files / "take.mov") == sha256(mount.spool / "captures" / "take.mov")


@pytest.mark.promises("S78a")
def test_what_is_changed_in_the_spool_while_it_is_written_is_held(new_mount, receiver):
    mount = new_mount(receiver, "--chunk-size", "1MiB")
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        file.write(os.urandom(8 * MIB))
        mount.readings("take.mov", lambda status: status["chunks"]["done"] >= 3)
        flip(mount.spool / "captures" / "take.mov")
    held(mount, "take.mov")
    assert receiver.published() == {}
    mount.say("publish", "take.mov")
    mount.wait_for("take.mov", "complete")
    assert sha256(receiver.files / "take.mov") == sha256(mount.spool / "captures" / "take.mov")


@pytest.mark.promises("S78a")
def test_what_is_changed_in_the_spool_while_a_form_is_sent_breaks_the_request_off(form, new_form_mount):  # noqa: F811
    with under_way(form, new_form_mount) as (mount, proxy):
        flip(mount.spool / "captures" / "a.mov")
        proxy.rate = None
        held(mount, "a.mov")
        assert 201 not in form.posts()
        mount.say("publish", "a.mov")
        mount.wait_for("a.mov", "complete")
    assert sha256(form.files / "a.mov") == sha256(mount.spool / "captures" / "a.mov")


@pytest.mark.promises("S78f")
def test_what_the_mount_does_itself_is_no_change_by_hand(new_mount, receiver):
    mount = new_mount(receiver)
    receiver.kill()
    for name in ("times", "mode", "cut", "link", "renamed"):
        write_random(mount.root / name, 3 * MIB)
    for times in range(3):
        os.utime(mount.root / "times", (times, times))
    os.chmod(mount.root / "mode", 0o600)
    os.truncate(mount.root / "cut", 1000)
    os.utime(mount.root / "cut", (5, 5))
    os.link(mount.root / "link", mount.root / "link2")
    os.rename(mount.root / "renamed", mount.root / "other")
    with open(mount.root / "times", "r+b", buffering=0) as file:
        file.write(b"more")
        os.utime(file.fileno(), (7, 7))
        receiver.start()
    mount.wait_all()
    assert metric(mount, "uploadfs_files_changed_in_spool_total") == 0
    for name in ("times", "mode", "cut", "link", "link2", "other"):
        assert sha256(receiver.files / name) == sha256(mount.root / name), name


@pytest.mark.promises("S35e")
def test_files_of_other_filesystems_in_the_spool_have_numbers_of_their_own(new_mount, receiver, tmpfs):
    """Regression: they were “the same file” to cp and tar, which left one of them out."""
    mount = new_mount(receiver, start=False)
    captures = mount.spool / "captures"
    captures.mkdir(mode=0o700, parents=True)
    for name in ("one", "two"):
        (tmpfs(captures / name, MIB) / "take.mov").write_bytes(name.encode())
    shown = [path.stat() for path in captures.rglob("*")]
    assert len({status.st_ino for status in shown}) < len(shown), "the filesystems number alike"
    mount.start()
    files = [mount.root / name for name in ("one", "two", "one/take.mov", "two/take.mov")]
    numbers = {path.stat().st_ino for path in files}
    assert len(numbers) == len(files) and len({path.stat().st_dev for path in files}) == 1
    for name in ("one", "two"):
        listed = {entry.name: entry.inode() for entry in os.scandir(mount.root / name)}
        assert listed["take.mov"] == (mount.root / name / "take.mov").stat().st_ino
    mount.wait_all()
    for name in ("one", "two"):
        assert (receiver.files / name / "take.mov").read_bytes() == name.encode()


@pytest.mark.promises("S30b")
def test_what_lies_in_the_spool_behind_the_mounts_own_folders_is_said(new_mount, receiver):
    """Regression: neither the log nor the mount showed it, and nothing delivered it."""
    mount = new_mount(receiver, start=False)
    hidden = mount.spool / "captures" / "status" / "take.mov"
    hidden.parent.mkdir(mode=0o700, parents=True)
    hidden.write_bytes(b"film")
    mount.start()
    assert "captures/status" in mount.program.log and "captures/.uploadfs" not in mount.program.log, mount.program.describe()
    mount.wait_all()
    assert not receiver.published() and hidden.read_bytes() == b"film"
