"""The commands of docs/operations.md, as they stand there, on a spool with a capture in every state: nothing is lost, nothing wrong is
published, nothing that was delivered is sent again, every state is kept, and what is doubtful is held and said.

    /usr/bin/python3 -m pytest Tests/EndToEnd/test_operations.py --fresh     (all ways of putting a capture back: scripts/test --long)
"""

import contextlib
import os
import re
import shutil
import sqlite3
import subprocess

import pytest

from failing_calls import EIO, Faults
from harness import BINARIES, REPOSITORY, clean_environment, sha256, unmount_lazily, wait_until
from promises import installed, needs
from test_little_disk import CHUNK, DISK, record
from test_moves import Moved

pytestmark = needs("root")

PAGE = REPOSITORY / "docs" / "operations.md"


def blocks():
    """The commands of the page, by the headings above them."""
    found, heading = {}, None
    for line, block in re.findall(r"^#+ ([^\n]+)$|^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        if line:
            heading = line
        else:
            assert heading not in found, "one block for each heading"
            found[heading] = block
    return found


BLOCKS = blocks()
WITH_ATTRIBUTES = ["cp", "rsync", "tar", "mv", "Replacing a disk"]
WITHOUT = ["rsync -a", "cp -r"]
LOST = ["The key, or the records of uploads", "All of .state"]
OTHERS = [
    "Before all of it", "What is held", "Backing up while the mount runs", "Restoring a spool", "One capture",
    "Cloning a machine", "The catalog", "Moving a receiver", "Restoring a receiver",
]


# The first of each are enough for most runs.
PUT_BACK = ["One capture", "rsync -a", "rm, cp", "rsync -aX", "rm, cp -a"]
LOOKS_DIFFERENT = ["touch", "rm, cp", "rsync -aX"]


def pytest_generate_tests(metafunc):
    if "way" in metafunc.fixturenames:
        ways = LOOKS_DIFFERENT if "known_by" in metafunc.function.__name__ else PUT_BACK
        metafunc.parametrize("way", ways if metafunc.config.getoption("--fresh") else ways[:2])


def run(heading, **places):
    """Runs a block of the page with its variables."""
    environment = clean_environment(PATH=f"{BINARIES}:{os.environ['PATH']}", **places)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", BLOCKS[heading]], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=120)
    assert done.returncode == 0, f"{BLOCKS[heading]}\nended with {done.returncode}: {done.stdout}{done.stderr}"


def test_each_block_of_the_page_is_run():
    assert set(BLOCKS) == {*WITH_ATTRIBUTES, *WITHOUT, *LOST, *OTHERS}
    installed("rsync")


# What is half sent, for which the disk has room beside the others.
SENT = 8 * CHUNK


class EveryState(Moved):
    """Beside the states of Moved: evicted, failed, cancelled, half sent, links and holes."""

    HOLES = bytes(3 << 20) + b"behind a hole"

    def __init__(self, new_mount, receiver, folder, spool):
        super().__init__(new_mount, receiver, folder, spool, "--rule", "failed.txt if-exists=refuse")

    def deliver_first(self, mount):
        self.deliver(mount)
        self.sending = open(mount.root / "sent.raw", "wb", buffering=0)
        self.sent = record(self.sending, SENT // CHUNK, seed=1)
        mount.readings("sent.raw", lambda status: status["chunks"]["done"] >= 2)

    def deliver(self, mount):
        self.receiver.files.mkdir(exist_ok=True)
        (self.receiver.files / "failed.txt").write_bytes(b"of another program")
        (mount.root / "failed.txt").write_bytes(b"failed")
        mount.wait_for("failed.txt", "failed")
        (mount.root / "evicted.bin").write_bytes(bytes(range(256)) * 4096)
        mount.wait_for("evicted.bin", "complete")

    def leave_more(self, mount):
        root = mount.root
        # Its ends were held back until now.
        self.sending.close()
        assert not (root / "evicted.bin").exists(), "the recording has taken its place"
        (root / "pending-1.txt").write_bytes(b"two names")
        os.link(root / "pending-1.txt", root / "pending-2.txt")
        os.symlink("pending.txt", root / "soft")
        with open(root / "pending-holes.txt", "wb") as file:
            file.seek(3 << 20)
            file.write(b"behind a hole")
        (root / "cancelled.txt").write_bytes(b"cancelled")
        mount.say("cancel", "cancelled.txt")
        (mount.root / "held.txt.part").write_bytes(b"held")
        for name in ("sent.raw", "pending-1.txt", "pending-holes.txt", "cancelled.txt", "failed.txt", "held.txt.part"):
            mount.readings(name, lambda status: status["local_durability"] == "on-disk")

    def settle(self):
        """The mount was killed, and there is nothing of it."""
        unmount_lazily(str(self.mount.root))
        self.inodes = self.inodes_of("delivered.txt", "evicted.bin")

    def inodes_of(self, *names):
        """Whatever is published again has another one."""
        return [(self.receiver.files / name).stat().st_ino for name in names]

    def check(self, *, holds=False, knows=True, keeps=True):
        """The mount has started. It `holds` what nothing proves, `knows` what was delivered, and `keeps` what is not to be sent."""
        mount, receiver = self.mount, self.receiver
        finished = ["take.mov", "sent.raw", "pending.txt", "pending-1.txt", "pending-2.txt", "pending-holes.txt", "delivered.txt"]
        for name in ("half.raw", "cut.raw"):
            status = mount.wait_for(name, "interrupted", "complete")
            assert status["state"] == "interrupted" and "uploadfs-mount publish" in status["last_error"]["message"]
        if holds:
            states = {name: mount.wait_for(name, "interrupted", "complete")["state"] for name in finished}
            assert states["delivered.txt"] == "complete" and states["pending-2.txt"] == "interrupted"
            run("What is held", MOUNT=mount.root)
            for name in ("take.mov", "sent.raw"):
                if states[name] == "interrupted":
                    mount.say("publish", name)
        for name in finished:
            mount.wait_for(name, "complete")
        if keeps:
            assert mount.wait_for("cancelled.txt", "cancelled") and mount.wait_for("failed.txt", "failed")
            assert mount.status("evicted.bin")["state"] == "complete" and not mount.status("evicted.bin")["local"]
        assert sha256(receiver.files / "take.mov") == self.taken and sha256(receiver.files / "sent.raw") == self.sent
        published = {
            "pending.txt": b"pending", "pending-1.txt": b"two names", "pending-2.txt": b"two names", "pending-holes.txt": self.HOLES,
            "delivered.txt": b"delivered", "evicted.bin": bytes(range(256)) * 4096, "failed.txt": b"of another program"}
        if not keeps:
            mount.wait_for("cancelled.txt", "complete")
            published["cancelled.txt"] = b"cancelled"
        assert receiver.published().keys() == {"take.mov", "sent.raw", *published}
        for name, content in published.items():
            assert (receiver.files / name).read_bytes() == content
        assert os.readlink(mount.root / "soft") == "pending.txt"
        # A temporary name; in a bare copy nothing may prove that it was finished.
        assert mount.wait_for("held.txt.part", "held", *(["interrupted"] if holds else []))
        assert (mount.root / "held.txt.part").read_bytes() == b"held"
        if knows:
            assert self.inodes_of("delivered.txt", "evicted.bin") == self.inodes, "it is not sent again"
            assert mount.status("delivered.txt")["receipt"] == self.receipt
        for name in ("half.raw", "cut.raw"):
            mount.say("publish", name)
            mount.wait_for(name, "complete")
            assert (receiver.files / name).read_bytes() == b"half of it"


@pytest.fixture
def every_state(new_mount, receiver, folder, tmpfs):
    state = EveryState(new_mount, receiver, folder, tmpfs("spool-disk", DISK + SENT) / "spool")
    state.settle()
    return state


def move(state, heading):
    new = state.folder / "moved"
    run(heading, SPOOL=state.mount.spool, NEW=new)
    if new.exists():
        state.mount.spool = new
    state.mount.start()


@pytest.mark.promises("S79a", "S79b", "S79e")
@pytest.mark.parametrize("heading", WITH_ATTRIBUTES)
def test_a_spool_is_moved(every_state, heading):
    """Regression: everything that was delivered was sent again."""
    move(every_state, heading)
    every_state.check()


@pytest.mark.promises("S79c", "S80b", "S80d")
@pytest.mark.parametrize("heading", WITHOUT)
def test_a_spool_is_copied_without_attributes(every_state, heading):
    """Regression: everything that was delivered was sent again, where the times were new as well."""
    move(every_state, heading)
    every_state.check(holds=True)


@pytest.mark.promises("S79d", "S79e")
@pytest.mark.parametrize("heading", LOST)
def test_what_the_mount_knows_is_lost(every_state, heading):
    state = every_state
    run(heading, SPOOL=state.mount.spool)
    state.mount.start()
    state.check(knows=heading != "All of .state", keeps=heading != "All of .state")


@pytest.mark.promises("S79b", "S79e")
def test_a_mount_is_ended_before_all_of_it(every_state):
    state = every_state
    state.mount.start()
    run("Before all of it", MOUNT=state.mount.root)
    assert state.mount.program.wait() in (0, 18)
    state.mount.start()
    state.check()


@pytest.mark.promises("S45f", "S79d", "S80b")
@pytest.mark.parametrize("has_copy", [True, False], ids=["with a copy", "without one"])
def test_the_catalog_is_lost(every_state, has_copy):
    """Of what it said of itself nothing is known without a copy: what was cancelled is sent, what is evicted is not known."""
    state = every_state
    if has_copy:
        state.mount.start()
        # What is left of it where its parts were given up cannot be compared (S72h).
        state.mount.readings("take.mov", lambda status: status["state"] == "complete" and not status["local"])
        # The end of a mount leaves one.
        run("Before all of it", MOUNT=state.mount.root)
        assert state.mount.program.wait() in (0, 18)
    else:
        for copy in (state.mount.spool / ".state").glob("catalog.backup.sqlite*"):
            copy.unlink()
    run("The catalog", SPOOL=state.mount.spool)
    state.mount.start()
    state.check(knows=has_copy, keeps=has_copy)


@pytest.mark.promises("S80a", "S80b")
def test_each_capture_is_put_back_as_it_was(every_state):
    """From a copy of the spool in which each was in its state."""
    state = every_state
    spool, backup = state.mount.spool, state.folder / "backup"
    run("rsync", SPOOL=spool, NEW=backup)
    names = [path.name for path in (backup / "captures").iterdir()]
    assert {"half.raw", "take.mov", "sent.raw", "soft", "delivered.txt", "pending-2.txt"} <= set(names)
    for name in names:
        run("One capture", BACKUP=backup, SPOOL=spool, NAME=name)
    state.mount.start()
    state.check()


@pytest.mark.promises("S77k", "S77l")
def test_a_receiver_is_restored_under_captures_in_every_state(every_state):
    """What came after the copy is delivered again as far as the spool has it, and every other state is what it was."""
    state = every_state
    mount, receiver = state.mount, state.receiver
    receiver.stop()
    run("Moving a receiver", ROOT=receiver.root, NEW_ROOT=state.folder / "copy")
    state.inodes = state.inodes_of("delivered.txt", "evicted.bin")
    receiver.start()
    mount.start()
    mount.wait_all(interrupted=True)
    # What is left of it here is no whole file, and goes.
    mount.readings("take.mov", lambda status: not status["local"])
    receiver.stop()
    receiver.root.rename(state.folder / "lost")
    (state.folder / "copy").rename(receiver.root)
    receiver.start()
    states = {name: mount.status(name)["state"] for name in ("half.raw", "cut.raw", "failed.txt", "cancelled.txt", "held.txt.part")}
    run("Restoring a receiver", MOUNT=mount.root)
    mount.wait_all(interrupted=True)
    assert {name: mount.status(name)["state"] for name in states} == states
    assert receiver.published().keys() == {
        "sent.raw", "pending.txt", "pending-1.txt", "pending-2.txt", "pending-holes.txt", "delivered.txt", "evicted.bin", "failed.txt"}
    assert sha256(receiver.files / "sent.raw") == state.sent
    assert (receiver.files / "pending-holes.txt").read_bytes() == state.HOLES
    # What lies at the receiver alone is the receiver's: its copy had it.
    assert (receiver.files / "evicted.bin").read_bytes() == bytes(range(256)) * 4096


@pytest.mark.promises("S79e")
def test_what_a_disk_does_not_give_is_named_and_its_upload_is_kept(every_state, folder):
    state = every_state
    mount, old, new = state.mount, state.mount.spool, state.folder / "moved"
    faults = Faults(folder)
    faults.set(*((call, EIO, f"{old}/captures/{name}") for call in ("open", "openat") for name in ("take.mov", "pending.txt")))
    run("Replacing a disk", SPOOL=old, NEW=new, LD_PRELOAD=faults.environment["LD_PRELOAD"], FAILING=faults.environment["FAILING"])
    assert "take.mov" in faults.seen and not (new / "captures" / "take.mov").exists() and not (new / "captures" / "pending.txt").exists()
    mount.spool = new
    mount.start()
    for name in ("take.mov", "pending.txt"):
        wait_until(
            lambda: [line for line in mount.program.log.splitlines() if "is no longer in the spool" in line and f"path={name}" in line],
            lambda: f"the log names {name}: {mount.program.log}")
    mount.wait_all(interrupted=True)
    assert mount.stop() == 18
    # The old disk has given them after all.
    subprocess.run(["rsync", "-aHAXS", old / "captures" / "take.mov", old / "captures" / "pending.txt", new / "captures/"], check=True)
    mount.start()
    state.check()


@pytest.mark.promises("S45f", "S80b")
def test_a_copy_of_the_catalog_takes_its_place(mount, receiver):
    """Regression: what was delivered before the copy was sent again. Everything after it is there, also what has the same size and
    time as before."""
    root = mount.root
    for name in ("early.txt", "changed.txt", "timed.txt"):
        (root / name).write_bytes(name.encode())
        mount.wait_for(name, "complete")
    # The end of a mount leaves a copy.
    assert mount.stop() == 0
    mount.start()
    (root / "changed.txt").write_bytes(b"changed since, to another length")
    time = (root / "timed.txt").stat().st_mtime_ns
    (root / "timed.txt").write_bytes(b"TIMED.TXT")
    os.utime(root / "timed.txt", ns=(time, time))
    (root / "late.txt").write_bytes(b"late")
    mount.wait_all()
    receiver.kill()
    (root / "pending.txt").write_bytes(b"pending")
    mount.kill()
    unmount_lazily(str(root))
    early = (receiver.files / "early.txt").stat().st_ino
    run("The catalog", SPOOL=mount.spool)
    receiver.start()
    mount.start()
    mount.wait_all()
    assert (receiver.files / "early.txt").stat().st_ino == early
    # late.txt and pending.txt.
    assert [line for line in mount.program.log.splitlines() if "knows nothing of files" in line and "files=2" in line], mount.program.log
    assert {name: (receiver.files / name).read_bytes() for name in receiver.published()} == {
        "early.txt": b"early.txt", "late.txt": b"late", "pending.txt": b"pending", "timed.txt": b"TIMED.TXT",
        "changed.txt": b"changed since, to another length"}


class BackedUp(EveryState):
    """A backup is made while the mount runs, and half of a capture is written; what is finished is delivered after it."""

    def deliver(self, mount):
        super().deliver(mount)
        # The end of a mount leaves copies of its databases.
        mount.stop()
        mount.start()

    def leave_more(self, mount):
        super().leave_more(mount)
        self.backup = self.folder / "backup"
        run("Backing up while the mount runs", SPOOL=mount.spool, BACKUP=self.backup)


@pytest.mark.promises("S79b", "S79g", "S80a")
def test_a_backup_of_a_running_mount_is_restored(new_mount, receiver, folder, tmpfs):
    """Regression: what was half written in the backup replaced what had been delivered since."""
    state = BackedUp(new_mount, receiver, folder, tmpfs("spool-disk", DISK + SENT) / "spool")
    mount = state.mount
    state.settle()
    mount.start()
    mount.wait_for("take.mov", "complete")
    (mount.root / "half.raw").write_bytes(b"all of it, and more than half")
    mount.wait_for("half.raw", "complete")
    mount.kill()
    unmount_lazily(str(mount.root))
    inodes = state.inodes_of("evicted.bin", "take.mov", "half.raw")
    mount.spool = folder / "restored"
    run("Restoring a spool", BACKUP=state.backup, NEW=mount.spool)
    mount.start()
    for name in ("half.raw", "cut.raw"):
        assert mount.wait_for(name, "interrupted", "complete")["state"] == "interrupted"
    for name in ("pending.txt", "pending-1.txt", "pending-2.txt", "pending-holes.txt", "delivered.txt"):
        mount.wait_for(name, "complete", "interrupted")
    mount.wait_for("take.mov", "complete", "failed")
    assert state.inodes_of("evicted.bin", "take.mov", "half.raw") == inodes
    assert sha256(receiver.files / "take.mov") == state.taken
    assert (receiver.files / "half.raw").read_bytes() == b"all of it, and more than half"
    assert mount.status("failed.txt")["state"] == "failed"
    renewal = wait_until(lambda: mount.summary()["spool"]["renewed"], "the receiver says that the spool was restored")
    assert "restored from a backup" in renewal["message"], renewal
    for name in ("delivered.txt", "pending.txt", "pending-1.txt"):
        assert (mount.root / name).read_bytes() == (receiver.files / name).read_bytes()


class CopiedHot(EveryState):
    """The whole of a running spool is copied, databases and all, by a way that takes no attributes along, while a capture grows."""

    def __init__(self, way, *arguments):
        self.way = way
        super().__init__(*arguments)

    def leave_more(self, mount):
        super().leave_more(mount)
        self.backup = self.folder / "backup"
        self.backup.mkdir()
        growing = os.open(mount.root / "growing.raw", os.O_WRONLY | os.O_CREAT)
        try:
            copying = subprocess.Popen(
                ["bash", "-c", {"rsync -a": 'rsync -a "$1/" "$2/"', "tar": 'tar -C "$1" -c . | tar -C "$2" -x'}[self.way], "bash",
                 mount.spool, self.backup], env=clean_environment(), stderr=subprocess.DEVNULL)
            while copying.poll() is None:
                os.write(growing, b"a part of it ")
                (mount.root / "changing.txt").write_bytes(os.urandom(100))
        finally:
            os.close(growing)
        # Files that vanish meanwhile, or change, are named, and are no failure here.
        assert copying.returncode in (0, 1, 23, 24)


@pytest.mark.promises("S79c", "S80a")
@pytest.mark.parametrize("way_of_copying", ["rsync -a", "tar"])
def test_a_hot_copy_of_a_whole_running_spool_replaces_nothing(new_mount, receiver, folder, tmpfs, way_of_copying):
    """Regression: half of a capture replaced the whole that had been delivered since."""
    state = CopiedHot(way_of_copying, new_mount, receiver, folder, tmpfs("spool-disk", DISK + SENT) / "spool")
    mount = state.mount
    state.settle()
    mount.start()
    mount.wait_for("take.mov", "complete")
    (mount.root / "half.raw").write_bytes(b"all of it, and more than half")
    later = {"half.raw": b"all of it, and more than half", "growing.raw": (mount.root / "growing.raw").read_bytes()}
    for name in ("half.raw", "changing.txt"):
        mount.wait_for(name, "complete")
    later["changing.txt"] = (mount.root / "changing.txt").read_bytes()
    mount.wait_for("growing.raw", "complete")
    mount.kill()
    unmount_lazily(str(mount.root))
    inodes = state.inodes_of("evicted.bin", "take.mov", *later)
    mount.spool = state.backup
    try:
        mount.start()
    except AssertionError:
        # A database that was torn in the middle is refused with what to do about it.
        assert mount.program.wait() == 13, mount.program.describe()
        assert "remove" in mount.program.log or "move" in mount.program.log, mount.program.log
        run("The catalog", SPOOL=mount.spool)
        mount.start()
    assert mount.wait_for("half.raw", "interrupted", "complete")["state"] == "interrupted"
    mount.readings("take.mov", lambda status: status["state"] in ("complete", "failed", "interrupted"))
    wait_until(lambda: not {"writing", "queued", "uploading"} & {name for name, count in mount.summary()["files"].items() if count},
               "everything is settled")
    assert state.inodes_of("evicted.bin", "take.mov", *later) == inodes
    assert sha256(receiver.files / "take.mov") == state.taken
    for name, content in later.items():
        assert (receiver.files / name).read_bytes() == content, name


@pytest.mark.promises("DE138b")
def test_names_of_a_template_come_back_from_a_backup(new_mount, receiver, folder):
    """What was given after the backup was made is given again, which costs a number and no capture."""
    mount = new_mount(receiver, "--name-template", "{seq:3}.{ext}")
    (mount.root / "a.jpg").write_bytes(b"before the backup")
    assert mount.wait_for("a.jpg", "complete")["published_name"] == "001.jpg"
    # The end of a mount leaves copies of its databases.
    assert mount.stop() == 0
    mount.start()
    backup = folder / "backup"
    run("Backing up while the mount runs", SPOOL=mount.spool, BACKUP=backup)
    (mount.root / "b.jpg").write_bytes(b"after it")
    assert mount.wait_for("b.jpg", "complete")["published_name"] == "002.jpg"
    mount.kill()
    unmount_lazily(str(mount.root))
    mount.spool = folder / "restored"
    run("Restoring a spool", BACKUP=backup, NEW=mount.spool)
    mount.start()
    assert mount.wait_for("a.jpg", "complete")["published_name"] == "001.jpg"
    (mount.root / "c.jpg").write_bytes(b"after the restore")
    assert mount.wait_for("c.jpg", "complete")["published_name"] == "002-2.jpg"
    assert {name: (receiver.files / name).read_bytes() for name in receiver.published()} == {
        "001.jpg": b"before the backup", "002.jpg": b"after it", "002-2.jpg": b"after the restore"}


def test_a_later_backup_has_what_was_written_again_within_a_second(mount, folder):
    """Regression (random lives, 577534775): rsync compared seconds, and the backup had the former content under the later one's label."""
    backup = folder / "backup"
    for content in (b"former", b"latter"):
        (mount.root / "a.mov").write_bytes(content)
        os.utime(mount.root / "a.mov", ns=(0, 1_000_000_000 + content[0]))
        mount.wait_for("a.mov", "complete")
        run("Backing up while the mount runs", SPOOL=mount.spool, BACKUP=backup)
        assert (backup / "captures" / "a.mov").read_bytes() == content


@pytest.fixture
def revised(new_mount, receiver, folder):
    """A capture was delivered, backed up, and delivered with a later content; its mount has ended."""
    mount = new_mount(receiver)
    backup = folder / "backup"
    (mount.root / "a.mov").write_bytes(b"the older content")
    mount.wait_for("a.mov", "complete")
    run("Before all of it", MOUNT=mount.root)
    shutil.copytree(mount.spool, backup, symlinks=True)
    subprocess.run(["cp", "-a", f"{mount.spool}/captures/a.mov", backup / "captures/a.mov"], check=True)
    mount.start()
    (mount.root / "a.mov").write_bytes(b"the newer content")
    mount.wait_for("a.mov", "complete")
    assert mount.stop() == 0
    mount.backup = backup
    return mount


def put_back(mount, way):
    captured, copy = mount.spool / "captures" / "a.mov", mount.backup / "captures" / "a.mov"
    match way:
        case "One capture":
            run(way, BACKUP=mount.backup, SPOOL=mount.spool, NAME="a.mov")
        case "rsync -aX" | "rsync -a" | "rsync":
            program, *options = way.split()
            # Contents of one length from one second are one to it.
            subprocess.run([installed(program), "--ignore-times", *options, copy, captured], check=True)
        case "rm, cp -a":
            captured.unlink()
            subprocess.run(["cp", "-a", copy, captured], check=True)
        case "rm, cp":
            captured.unlink()
            shutil.copyfile(copy, captured)


@pytest.mark.promises("S80a", "S80c")
def test_an_older_capture_that_is_put_back_replaces_nothing(revised, receiver, way):
    """Regression: it replaced the newer one at the server."""
    mount = revised
    put_back(mount, way)
    mount.start()
    status = mount.wait_for("a.mov", "interrupted", "complete")
    assert status["state"] == "interrupted" and status["last_error"]["code"] == "older-than-delivered", status
    assert "uploadfs-mount publish" in status["reason"]
    wait_until(lambda: "older-than-delivered" in mount.program.log, "the log says it")
    assert (receiver.files / "a.mov").read_bytes() == b"the newer content"
    # It stays so until a user publishes it.
    assert mount.stop() == 18
    mount.start()
    assert mount.wait_for("a.mov", "interrupted", "complete")["last_error"]["code"] == "older-than-delivered"
    mount.say("publish", "a.mov")
    mount.wait_for("a.mov", "complete")
    assert (receiver.files / "a.mov").read_bytes() == b"the older content"
    assert mount.stop() == 0
    mount.start()
    assert mount.wait_for("a.mov", "complete", "interrupted")["state"] == "complete"


def get_its_number(mount):
    """The copy has no label, and the very inode number that was free since the capture was taken away."""
    captured = mount.spool / "captures" / "a.mov"
    os.removexattr(captured, "user.uploadfs")
    captured.write_bytes((mount.backup / "captures" / "a.mov").read_bytes())


@pytest.mark.promises("S79a")
def test_an_inode_number_that_was_used_again_carries_no_number_of_a_template(new_mount, receiver):
    """Regression: another file in the spool was the capture that had had its inode number, and replaced that one at the receiver."""
    mount = new_mount(receiver, "--name-template", "{seq:3}.{ext}")
    (mount.root / "a.mov").write_bytes(b"the first capture")
    mount.wait_for("a.mov", "complete")
    assert mount.stop() == 0
    captured = mount.spool / "captures" / "a.mov"
    # As the spool gives a number that is free again.
    os.removexattr(captured, "user.uploadfs")
    captured.write_bytes(b"another capture")
    captured.rename(captured.with_name("b.mov"))
    mount.start()
    mount.wait_for("b.mov", "complete")
    assert (receiver.files / "001.mov").read_bytes() == b"the first capture"
    assert (receiver.files / "002.mov").read_bytes() == b"another capture"


@pytest.mark.promises("S80a")
def test_what_is_renamed_in_the_spool_takes_the_place_as_in_the_mount(new_mount, receiver):
    """The older of two delivered captures, renamed over the newer one while no mount runs: a user has said which one is to have the name."""
    mount = new_mount(receiver)
    for name, content in (("a.mov", b"the older content"), ("b.mov", b"the newer content")):
        (mount.root / name).write_bytes(content)
        mount.wait_for(name, "complete")
    assert mount.stop() == 0
    (mount.spool / "captures" / "a.mov").rename(mount.spool / "captures" / "b.mov")
    mount.start()
    wait_until(lambda: (receiver.files / "b.mov").read_bytes() == b"the older content", mount.program.describe)
    assert (receiver.files / "a.mov").read_bytes() == b"the older content", "what was published stays"


def come_back_unknown(mount):
    """Another capture was recorded in its place, and the catalog has forgotten the older one."""
    mount.start()
    (mount.root / "a.mov").unlink()
    (mount.root / "a.mov").write_bytes(b"the newer content")
    mount.wait_all()
    assert mount.stop() == 0
    captured = mount.spool / "captures" / "a.mov"
    with contextlib.closing(sqlite3.connect(mount.spool / ".state" / "catalog.sqlite")) as catalog, catalog:
        catalog.execute("DELETE FROM file WHERE inode <> ?", (captured.stat().st_ino,))
    put_back(mount, "rm, cp -a")


def come_back_beside_itself(mount):
    """The older capture was renamed, and another one recorded in its place."""
    mount.start()
    os.rename(mount.root / "a.mov", mount.root / "renamed.mov")
    (mount.root / "a.mov").write_bytes(b"the newer content")
    mount.wait_all()
    assert mount.stop() == 0
    put_back(mount, "rm, cp -a")


def come_back_younger(mount):
    """The older content is of a capture that was made after the one which was renamed to its place, and is forgotten."""
    mount.start()
    (mount.root / "b.mov").write_bytes(b"the newer content")
    (mount.root / "a.mov").unlink()
    (mount.root / "a.mov").write_bytes(b"the older content")
    mount.wait_all()
    subprocess.run(["cp", "-a", mount.spool / "captures" / "a.mov", mount.backup / "captures" / "a.mov"], check=True)
    os.rename(mount.root / "b.mov", mount.root / "a.mov")
    os.utime(mount.root / "a.mov")
    mount.wait_all()
    assert mount.stop() == 0
    put_back(mount, "One capture")


def come_back_evicted(mount):
    """The older capture was evicted, and another one recorded in its place."""
    evict(mount)
    (mount.root / "a.mov").write_bytes(b"the newer content")
    mount.wait_all()
    assert mount.stop() == 0
    put_back(mount, "rm, cp -a")


def evict(mount):
    options, mount.options = mount.options, ("--keep", "1s")
    mount.start()
    wait_until(lambda: not (mount.root / "a.mov").exists(), "it is evicted")
    assert mount.stop() == 0
    mount.options = options
    mount.start()


@pytest.mark.promises("S80a")
@pytest.mark.parametrize("put", [
    get_its_number, come_back_unknown, come_back_younger, come_back_beside_itself, come_back_evicted])
def test_an_older_capture_that_looks_like_another_one_replaces_nothing(revised, receiver, put):
    """Regression: where the inode number was given anew, or the capture was forgotten, it replaced the newer one at the server."""
    mount = revised
    put(mount)
    for _ in range(2):
        mount.start()
        status = mount.wait_for("a.mov", "interrupted", "complete")
        assert status["state"] == "interrupted" and status["last_error"]["code"] == "older-than-delivered", status
        assert (receiver.files / "a.mov").read_bytes() == b"the newer content"
        assert mount.stop() == 18
    mount.start()
    mount.wait_for("a.mov", "interrupted")
    mount.say("publish", "a.mov")
    mount.wait_for("a.mov", "complete")
    assert (receiver.files / "a.mov").read_bytes() == b"the older content"
    assert mount.stop() == 0
    mount.start()
    assert mount.wait_for("a.mov", "complete", "interrupted")["state"] == "complete"


def remove_in_the_mount(mount, receiver):
    mount.start()
    (mount.root / "a.mov").unlink()
    mount.wait_all()
    assert mount.stop() == 0


def leave_a_later_content(mount, receiver):
    """A later content was still to go."""
    receiver.stop()
    mount.start()
    (mount.root / "a.mov").write_bytes(b"the latest content of all")
    mount.wait_for("a.mov", "uploading", "queued", "waiting")
    mount.stop_at_once()
    receiver.start()


def cancel_a_later_content(mount, receiver):
    receiver.stop()
    mount.start()
    (mount.root / "a.mov").write_bytes(b"the latest content of all")
    mount.say("cancel", "a.mov")
    assert mount.stop() in (0, 18)
    receiver.start()


@pytest.mark.promises("S45f", "S80a")
@pytest.mark.parametrize("put", ["One capture", "rm, cp -a"])
def test_an_older_capture_replaces_nothing_where_a_copy_stands_in_for_the_catalog(revised, receiver, put):
    """Found by reading: the copy did not say when the newer one was changed, which the older one then replaced."""
    mount = revised
    run("The catalog", SPOOL=mount.spool)
    put_back(mount, put)
    mount.start()
    status = mount.wait_for("a.mov", "interrupted", "complete")
    assert status["state"] == "interrupted" and status["last_error"]["code"] == "older-than-delivered", status
    assert (receiver.files / "a.mov").read_bytes() == b"the newer content"


@pytest.mark.promises("S80f")
@pytest.mark.parametrize("put", ["One capture", "rm, cp -a"])
@pytest.mark.parametrize("before", [remove_in_the_mount, leave_a_later_content, cancel_a_later_content])
def test_an_older_capture_replaces_nothing_where_the_newer_one_is_not_known_as_delivered(revised, receiver, before, put):
    """Regression: it replaced what the server alone had."""
    mount = revised
    before(mount, receiver)
    if before is remove_in_the_mount:
        run("One capture", BACKUP=mount.backup, SPOOL=mount.spool, NAME="a.mov")
    else:
        put_back(mount, put)
    for _ in range(2):
        mount.start()
        status = mount.wait_for("a.mov", "interrupted", "complete")
        assert status["state"] == "interrupted" and status["last_error"]["code"] == "older-than-delivered", status
        assert (receiver.files / "a.mov").read_bytes() == b"the newer content"
        assert mount.stop() == 18
    mount.start()
    mount.wait_for("a.mov", "interrupted")
    mount.say("publish", "a.mov")
    mount.wait_for("a.mov", "complete")
    assert (receiver.files / "a.mov").read_bytes() == b"the older content"
    assert mount.stop() == 0


@pytest.mark.promises("S80f")
def test_what_was_removed_and_is_put_back_is_not_sent_again_and_a_newer_one_is(revised, receiver):
    """Regression: it was sent again."""
    mount = revised
    subprocess.run(["cp", "-a", mount.spool / "captures/a.mov", mount.backup / "captures/a.mov"], check=True)
    remove_in_the_mount(mount, receiver)
    before = (receiver.files / "a.mov").stat().st_ino
    run("One capture", BACKUP=mount.backup, SPOOL=mount.spool, NAME="a.mov")
    mount.start()
    status = mount.wait_for("a.mov", "complete", "interrupted")
    assert status["state"] == "complete" and (receiver.files / "a.mov").stat().st_ino == before, status
    # A camera that counts from 1 again goes on as ever, also where its mount dies.
    (mount.root / "a.mov").unlink()
    receiver.stop()
    (mount.root / "a.mov").write_bytes(b"recorded anew")
    mount.kill()
    unmount_lazily(str(mount.root))
    receiver.start()
    mount.start()
    assert mount.wait_for("a.mov", "complete", "interrupted")["published_name"] == "a.mov"
    assert (receiver.files / "a.mov").read_bytes() == b"recorded anew"


@pytest.mark.promises("S80b")
def test_what_was_delivered_is_known_by_its_content(revised, receiver, way):
    """Regression: it was sent again."""
    mount = revised
    captured = mount.spool / "captures" / "a.mov"
    if way == "touch":
        os.utime(captured, (1, 1))
    else:
        subprocess.run(["cp", "-a", captured, mount.backup / "captures" / "a.mov"], check=True)
        os.utime(mount.backup / "captures" / "a.mov", (1, 1))
        put_back(mount, way)
    before = (receiver.files / "a.mov").stat().st_ino
    mount.start()
    mount.wait_for("a.mov", "complete")
    assert (receiver.files / "a.mov").stat().st_ino == before
    assert mount.stop() == 0


@pytest.mark.promises("S80a")
def test_a_capture_that_was_changed_by_hand_is_a_new_revision(revised, receiver):
    (revised.spool / "captures" / "a.mov").write_bytes(b"changed by hand")
    revised.start()
    revised.wait_for("a.mov", "complete")
    assert (receiver.files / "a.mov").read_bytes() == b"changed by hand"


@pytest.mark.promises("S80c")
def test_what_was_put_right_is_delivered_as_before(revised, receiver):
    """What is held so is forgotten with it: neither is the content of before sent again."""
    mount = revised
    newer = mount.backup / "newer"
    subprocess.run(["cp", "-a", mount.spool / "captures/a.mov", newer], check=True)
    put_back(mount, "One capture")
    before = (receiver.files / "a.mov").stat().st_ino
    mount.start()
    assert mount.wait_for("a.mov", "interrupted")
    assert mount.stop() == 18
    subprocess.run(["cp", "-a", newer, mount.spool / "captures/a.mov"], check=True)
    mount.start()
    mount.wait_for("a.mov", "complete")
    assert (receiver.files / "a.mov").stat().st_ino == before


@pytest.mark.promises("S79g")
def test_a_clone_of_a_machine_sends_nothing_of_the_original(every_state, new_mount):
    state = every_state
    clone = new_mount(state.receiver, start=False, name="clone")
    subprocess.run(["cp", "-a", state.mount.spool, clone.spool], check=True)
    run("Cloning a machine", NEW=clone.spool)
    clone.start()
    (clone.root / "clone.txt").write_bytes(b"of the clone")
    clone.wait_for("clone.txt", "complete")
    assert state.receiver.published().keys() == {
        "delivered.txt", "evicted.bin", "clone.txt", "failed.txt"}
    clone.stop()
    (state.receiver.files / "clone.txt").unlink()
    state.mount.start()
    state.check()


@pytest.mark.promises("DE138a", "DE138b")
def test_a_clone_with_a_copy_of_the_spool_has_the_rights_of_both(new_mount, receiver):
    """What the original had published until then either may replace, the first one to do so does, and the other one gets a number."""
    original = new_mount(receiver, name="original")
    for name in ("removed.jpg", "kept.jpg"):
        (original.root / name).write_bytes(b"of the time before")
        original.wait_for(name, "complete")
    (original.root / "removed.jpg").unlink()
    assert original.stop() == 0
    clone = new_mount(receiver, start=False, name="clone")
    subprocess.run(["cp", "-a", original.spool, clone.spool], check=True)
    for mount, number in ((clone, ""), (original, "-2")):
        mount.start()
        for name in ("removed", "kept", "new"):
            (mount.root / f"{name}.jpg").write_bytes(mount.spool.parent.name.encode() + name.encode())
            assert mount.wait_for(f"{name}.jpg", "complete")["published_name"] == f"{name}{number}.jpg"
    assert receiver.published().keys() == {f"{name}{number}.jpg" for name in ("removed", "kept", "new") for number in ("", "-2")}


@pytest.mark.promises("P108")
def test_a_receiver_is_moved(every_state):
    state = every_state
    receiver = state.receiver
    receiver.stop()
    new = state.folder / "new-root"
    run("Moving a receiver", ROOT=receiver.root, NEW_ROOT=new)
    receiver.root.rename(state.folder / "old-root")
    new.rename(receiver.root)
    state.settle()
    receiver.start()
    state.mount.start()
    state.check()


@pytest.mark.promises("S77k", "S77l")
def test_a_receiver_is_restored_from_an_older_copy(new_mount, receiver, folder):
    """Regression: the mount said `complete` for good of what the receiver had no more."""
    mount = new_mount(receiver)
    (mount.root / "early.txt").write_bytes(b"early")
    mount.wait_for("early.txt", "complete")
    receiver.stop()
    shutil.copytree(receiver.root, folder / "copy", symlinks=True)
    receiver.start()
    (mount.root / "late.txt").write_bytes(b"late")
    (mount.root / "gone.txt").write_bytes(b"gone")
    mount.wait_for("late.txt", "complete")
    mount.wait_for("gone.txt", "complete")
    (mount.root / "gone.txt").unlink()
    receiver.stop()
    receiver.root.rename(folder / "lost")
    (folder / "copy").rename(receiver.root)
    receiver.start()
    assert receiver.published().keys() == {"early.txt"} and mount.status("late.txt")["state"] == "complete"
    run("Restoring a receiver", MOUNT=mount.root)
    mount.wait_all()
    assert {name: (receiver.files / name).read_bytes() for name in receiver.published()} == {
        "early.txt": b"early", "late.txt": b"late"}


@pytest.mark.promises("S77k")
def test_what_was_written_again_after_the_receivers_copy_gets_a_number(new_mount, receiver, folder):
    """The mount has ceased to know the earlier content as its own, and what has no name any more stays."""
    mount = new_mount(receiver)
    (mount.root / "a.txt").write_bytes(b"the earlier content")
    mount.wait_for("a.txt", "complete")
    receiver.stop()
    shutil.copytree(receiver.root, folder / "copy", symlinks=True)
    subprocess.run(["cp", "-a", receiver.files / "a.txt", folder / "copy" / receiver.files.name / "a.txt"], check=True)
    receiver.start()
    (mount.root / "a.txt").write_bytes(b"the later content")
    mount.wait_for("a.txt", "complete")
    receiver.stop()
    receiver.root.rename(folder / "lost")
    (folder / "copy").rename(receiver.root)
    receiver.start()
    run("Restoring a receiver", MOUNT=mount.root)
    wait_until(lambda: mount.status("a.txt").get("published_name") == "a-2.txt", "it is delivered again")
    assert {name: (receiver.files / name).read_bytes() for name in receiver.published()} == {
        "a.txt": b"the earlier content", "a-2.txt": b"the later content"}
