"""A spool that is copied to another disk, or has lost what it knew (docs/semantics.md, “Moving, backing up, restoring”): nothing that
is at the server alone is given up, and nothing that was not finished is published."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile

import pytest

from filesystems import run
from harness import sha256, unmount_lazily, wait_until
from promises import installed, needs
from test_interrupted import RECORDER, run_writer
from test_little_disk import CHUNK, DISK, given_up, record
from test_lost_folders import metric

pytestmark = needs("root")

TAR = ("tar", "--xattrs", "--xattrs-include=user.*")
# How people copy a spool, and whether extended attributes come along.
WITH_ATTRIBUTES = ("cp -a", "rsync -aHAX", "tar --xattrs")
WITHOUT = ("rsync -a", "cp -r", "tar")
# Captures that were finished.
CLOSED = ("take.mov", "pending.txt", "delivered.txt")


def copy(way, source, target):
    target.mkdir()
    match way:
        case "tar" | "tar --xattrs":
            tar = TAR if way == "tar --xattrs" else ("tar",)
            packed = subprocess.run([*tar, "-cSf", "-", "-C", source, "."], check=True, stdout=subprocess.PIPE).stdout
            subprocess.run([*tar, "-xf", "-", "-C", target], check=True, input=packed)
        case _:
            program, options = way.split()
            subprocess.run([installed(program), options, f"{source}/.", target], check=True)
    target.chmod(0o700)


def unproven_rows(spool, names):
    """Those of which the catalog does not say yet that the spool's disk has what it describes."""
    # The daemon alone may open it. Of a copy that was made in the middle of a change SQLite takes what was complete.
    with tempfile.TemporaryDirectory() as copied:
        for file in (spool / ".state").glob("catalog.sqlite*"):
            shutil.copy(file, copied)
        with contextlib.closing(sqlite3.connect(f"{copied}/catalog.sqlite")) as catalog:
            rows = catalog.execute("SELECT CAST(path AS TEXT) FROM file, disk WHERE changed > through").fetchall()
    return sorted({path for path, in rows} & set(names))


class Moved:
    """A spool with a capture in each state, whose mount was killed; the receiver runs again."""

    def __init__(self, new_mount, receiver, folder, spool, *options):
        self.receiver, self.folder = receiver, folder
        self.mount = mount = new_mount(
            receiver, "--reserve", "8MB", "--chunk-size", "1MiB", "--rule", "**/*.mov when-full=release", *options, spool=spool)
        run_writer(RECORDER, mount.root / "cut.raw", number=signal.SIGKILL)
        mount.wait_for("cut.raw", "interrupted")
        self.deliver_first(mount)
        self.half = os.open(mount.root / "half.raw", os.O_WRONLY | os.O_CREAT)
        os.write(self.half, b"half of it")
        with open(mount.root / "take.mov", "wb", buffering=0) as file:
            self.taken = record(file, 90)
            assert given_up(spool, "take.mov") > 10 * CHUNK
            (mount.root / "delivered.txt").write_bytes(b"delivered")
            self.receipt = mount.wait_for("delivered.txt", "complete")["receipt"]
            receiver.kill()
        mount.wait_for("take.mov", "queued", "uploading", "retrying", "waiting")
        (mount.root / "pending.txt").write_bytes(b"pending")
        self.leave_more(mount)
        # What a killed mount had not known to be on its disk proves nothing on another one.
        for name in ("take.mov", "pending.txt"):
            mount.readings(name, lambda status: status["local_durability"] == "on-disk")
        # Some seconds later the catalog says so, too (S79j).
        wait_until(lambda: not unproven_rows(spool, CLOSED), lambda: f"{unproven_rows(spool, CLOSED)} are not known to be on the disk")
        self.end(mount)
        with contextlib.suppress(OSError):
            os.close(self.half)
        receiver.start()
        self.published = (receiver.files / "delivered.txt").stat().st_ino

    def deliver_first(self, mount):
        """What is delivered before all others."""

    def leave_more(self, mount):
        """What else lies there when the receiver is away."""

    def end(self, mount):
        mount.kill()

    def move(self, way):
        target = self.folder / "moved"
        copy(way, self.mount.spool, target)
        self.mount.spool = target

    def check(self, *, knows=True):
        """The mount has started, and all that was finished goes out; it `knows` what was delivered."""
        mount, receiver = self.mount, self.receiver
        for name in ("half.raw", "cut.raw"):
            status = mount.wait_for(name, "interrupted", "complete")
            assert status["state"] == "interrupted" and "uploadfs-mount publish" in status["last_error"]["message"]
        for name in CLOSED:
            assert mount.wait_for(name, "complete")
        assert sha256(receiver.files / "take.mov") == self.taken
        assert receiver.published().keys() == set(CLOSED)
        if knows:
            assert mount.status("delivered.txt")["receipt"] == self.receipt
            assert (receiver.files / "delivered.txt").stat().st_ino == self.published, "it is not sent again"
        for name in ("half.raw", "cut.raw"):
            mount.say("publish", name)
            mount.wait_for(name, "complete")
            assert (receiver.files / name).read_bytes() == b"half of it"


@pytest.fixture
def moved(new_mount, receiver, folder, tmpfs):
    return Moved(new_mount, receiver, folder, tmpfs("spool-disk", DISK) / "spool")


@pytest.mark.promises("S79a", "S79b", "S79e")
@pytest.mark.parametrize("way", WITH_ATTRIBUTES)
def test_a_spool_that_is_moved_goes_on(moved, way):
    """Regression: the session was ended that alone had what was given up here, and the capture failed for good."""
    moved.move(way)
    moved.mount.start()
    assert "was moved" in moved.mount.program.log
    moved.check()
    assert moved.mount.stop() == 0
    moved.mount.start()
    moved.mount.wait_for("take.mov", "complete")


@pytest.mark.promises("S79c", "S79e")
@pytest.mark.parametrize("way", WITHOUT)
def test_a_copy_without_attributes_publishes_nothing_unfinished(moved, way):
    """Regression: zeros were published in place of what was given up, and parts of what was not finished."""
    moved.move(way)
    moved.mount.start()
    assert "without extended attributes" in moved.mount.program.log
    # `cp -r` keeps no times.
    moved.check(knows=way != "cp -r")


@pytest.mark.promises("S79c", "S79j")
@pytest.mark.parametrize("way", WITHOUT)
def test_a_copy_without_attributes_holds_nothing_after_an_orderly_end(new_mount, receiver, folder, way):
    """Also not what was closed a moment before, and is still to be delivered."""
    mount = new_mount(receiver)
    (mount.root / "take.tmp").write_bytes(b"content")
    assert mount.stop() == 0
    copy(way, mount.spool, folder / "copy")
    mount.spool = folder / "copy"
    mount.start()
    assert mount.wait_for("take.tmp", "held", "interrupted")["state"] == "held"
    (mount.root / "take.tmp").rename(mount.root / "take.mov")
    mount.wait_for("take.mov", "complete")
    assert (receiver.files / "take.mov").read_bytes() == b"content"


@pytest.mark.promises("S40b", "S79j")
@pytest.mark.parametrize("way", WITHOUT)
def test_a_copy_beside_the_spool_of_a_killed_mount_holds_nothing_that_was_delivered(new_mount, receiver, folder, way):
    """Regression (lives, 122446027): what was closed in the seconds before the kill was held, although no power had been cut."""
    mount = new_mount(receiver)
    for number in range(5):
        (mount.root / f"{number}.mov").write_bytes(b"content %d" % number)
    for number in range(5):
        mount.wait_for(f"{number}.mov", "complete")
    mount.kill()
    copy(way, mount.spool, folder / "copy")
    mount.spool = folder / "copy"
    mount.start()
    for number in range(5):
        assert mount.wait_for(f"{number}.mov", "complete", "interrupted")["state"] == "complete"


@pytest.mark.promises("S79d", "S79e")
@pytest.mark.parametrize("lost", ["state", "catalog", "records"])
def test_what_is_at_the_server_alone_survives_the_loss_of_the_state(moved, lost):
    """Regression: the server no longer held it, it was said, while it did."""
    state = moved.mount.spool / ".state"
    match lost:
        case "state": shutil.rmtree(state)
        case "catalog":
            for file in state.glob("catalog*"):
                file.unlink()
        case "records":
            (state / "master.key").unlink()
    moved.mount.start()
    moved.check(knows=lost == "records")


@pytest.mark.promises("S79e")
def test_a_start_without_the_disk_of_the_captures_ends_nothing(moved):
    """Regression: a start with an empty captures/ ended the session."""
    captures, aside = moved.mount.spool / "captures", moved.mount.spool / "aside"
    captures.rename(aside)
    moved.mount.start()
    moved.mount.wait_all()
    assert moved.mount.stop() == 0
    captures.rmdir()
    aside.rename(captures)
    moved.mount.start()
    moved.check(knows=False)


@pytest.mark.promises("S79a", "S79b", "S79c", "S79e")
@pytest.mark.parametrize("way", ("cp -a", *WITHOUT))
def test_captures_that_were_moved_by_themselves_go_on(moved, tmpfs, way):
    """Regression: captures/ was copied to a larger disk and mounted in its place. Without its attributes what was open, and
    zeros in the place of what was given up, were delivered as whole, because `.spool` had its own."""
    captures, disk = moved.mount.spool / "captures", tmpfs("captures-disk", 4 * DISK)
    copy(way, captures, disk / "captures")
    run("mount", "--bind", disk / "captures", captures)
    try:
        moved.mount.start()
        assert "was moved" in moved.mount.program.log and "no longer in the spool" not in moved.mount.program.log
        # What is known by its name alone is compared, or held.
        moved.check(knows=way != "cp -r")
        assert moved.mount.stop() == 0
    finally:
        moved.mount.kill()
        unmount_lazily(str(captures))


@pytest.mark.promises("S79c")
def test_a_spool_that_has_lost_everything_holds_what_it_cannot_prove(moved):
    """The copy took neither the attributes nor the state along: it is unknown what was finished."""
    moved.move("rsync -a")
    shutil.rmtree(moved.mount.spool / ".state")
    moved.mount.start()
    for name in ("delivered.txt", "cut.raw", "half.raw", "take.mov", "pending.txt"):
        assert moved.mount.wait_for(name, "interrupted")["last_error"]["code"] == "unproven"
    assert moved.receiver.published().keys() == {"delivered.txt"}
    wait_until(lambda: moved.mount.summary()["scanned"], "the spool is searched")
    assert moved.mount.summary()["unproven_files"] == metric(moved.mount, "uploadfs_files_unproven") == 5
    said = [line for line in moved.mount.program.log.splitlines() if "nothing proves" in line and "files=5" in line]
    assert len(said) == 1 and "code=unproven" not in moved.mount.program.log
    moved.mount.say("publish", "pending.txt")
    moved.mount.wait_for("pending.txt", "complete")
    # What is held stays so.
    assert moved.mount.stop() == 18
    moved.mount.start()
    assert moved.mount.wait_for("half.raw", "interrupted")["last_error"]["code"] == "unproven"


@pytest.mark.promises("S79a", "R3")
@pytest.mark.parametrize("names", [1, 2])
def test_a_spool_that_lies_below_an_overlay_publishes_nothing_empty(new_mount, receiver, folder, tmpfs, names):
    """Regression: the first change of a file breaks its hard links there, and one of the names was published as an empty file."""
    below = tmpfs("below", 64 << 20) / "spool"
    mount = new_mount(receiver, "--reserve", "8MB", spool=below)
    receiver.kill()
    (mount.root / "a.txt").write_bytes(b"two names")
    if names == 2:
        os.link(mount.root / "a.txt", mount.root / "b.txt")
    mount.stop_at_once()
    above, merged = tmpfs("above", 64 << 20), folder / "merged"
    for made in (above / "upper", above / "work", merged):
        made.mkdir(mode=0o700)
    run("mount", "-t", "overlay", "-o", f"lowerdir={below},upperdir={above / 'upper'},workdir={above / 'work'}", "overlay", merged)
    try:
        mount.spool = merged
        receiver.start()
        mount.start()
        states = {}

        def are_known():
            # A name that has become another file's has no status for a moment.
            with contextlib.suppress(FileNotFoundError):
                states.update({name: mount.status(name)["state"] for name in ("a.txt", "b.txt")[:names]})
                return set(states.values()) <= {"complete", "interrupted"}

        wait_until(are_known, lambda: f"they are delivered or held: {states}")
        published = {name: (receiver.files / name).read_bytes() for name in receiver.published()}
        assert set(published.values()) <= {b"two names"}, published
        assert {name for name, state in states.items() if state == "complete"} <= published.keys(), states
        mount.kill()
    finally:
        unmount_lazily(str(mount.root))
        unmount_lazily(str(merged))
