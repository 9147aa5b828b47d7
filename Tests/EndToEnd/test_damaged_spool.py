"""Every file of the spool's state is damaged in every way: the mount starts, or refuses with one sentence that says what to do, loses no
capture, publishes nothing wrong, gives no number twice, and says what it could not keep.

    /usr/bin/python3 -m pytest Tests/EndToEnd/test_damaged_spool.py --fresh     (every place in every way: scripts/test --long)
"""

import contextlib
import os
import re
import shutil

import pytest

from damage import WAYS
from harness import SOON, sha256, wait_until
from promises import needs
from test_destinations import at, further
from test_little_disk import DISK
from test_moves import Moved, unproven_rows

pytestmark = needs("root")

# The name of a record is its own.
PLACES = [
    ".spool", ".state/lock", ".state/master.key", ".state/spool", ".state/marks", ".state/room", ".state/catalog.sqlite",
    ".state/catalog.sqlite-wal", ".state/catalog.sqlite-shm", ".state/catalog.backup.sqlite", ".state/names.sqlite",
    ".state/names.sqlite-wal", ".state/names.backup.sqlite", ".state/resume/ID", ".state/resume/ID.tmp",
]
# What an orderly end leaves, where it has ended so.
ENDED = [
    ".spool", ".state/lock", ".state/master.key", ".state/spool", ".state/marks", ".state/catalog.sqlite", ".state/catalog.backup.sqlite",
    ".state/names.sqlite", ".state/names.backup.sqlite", ".state/resume/ID", ".state/last-end.json",
]
# What is written before it takes another file's place: left over it has no meaning, and is in nothing's way.
BEGUN = [
    ".spool.new", ".state/marks.new", ".state/master.key.tmp", ".state/spool.tmp", ".state/catalog.sqlite.tmp",
    ".state/catalog.backup.sqlite.tmp", ".state/names.backup.sqlite.tmp", ".state/last-end.json.tmp",
]
KINDS = ("flip", "make-folder", "link", "hard-link", "pipe", "give-away")
# SQLite follows links.
DATABASES = [place for place in PLACES if "sqlite" in place]
ADVICE = re.compile("take it away|move it away|moved away|choose another spool|mount as that user|have to be the daemon's")
# One place for each way.
NAMED = [
    ("cut", ".state/catalog.sqlite-wal"), ("empty", ".state/master.key"), ("zero", ".state/names.sqlite"), ("flip", ".state/resume/ID"),
    ("delete", ".state/spool"), ("make-folder", ".state/catalog.sqlite"), ("link", ".state/lock"), ("hard-link", ".state/marks"),
    ("pipe", ".spool"), ("give-away", ".state/catalog.sqlite"), ("delete", ".state/catalog.sqlite"), ("zero", ".state/master.key"),
    ("link", ".spool.new"), ("delete", ".state/catalog.sqlite-wal"), ("delete", ".state/names.sqlite-wal"),
]
# What a further destination has of its own.
FURTHER = [
    f".state/destinations/archive/{name}" for name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.backup.sqlite", "resume/ID")]
FURTHER_NAMED = [("zero", FURTHER[0]), ("delete", FURTHER[0]), ("pipe", FURTHER[0]), ("delete", FURTHER[1]), ("flip", FURTHER[3])]
ENDED_NAMED = [("zero", ".state/catalog.sqlite"), ("pipe", ".state/last-end.json"), ("pipe", ".state/last-end.json.tmp")]


# What is lost with some of it is said, in words like these.
SAID = {
    ("zero", ".spool"): "was moved", ("zero", ".state/spool"): "identity is damaged", ("pipe", ".state/spool"): "could not be counted",
    ("zero", ".state/master.key"): "put aside", ("delete", ".state/master.key"): "put aside",
    ("pipe", ".state/master.key"): "no plain file", ("zero", ".state/resume/ID"): "put aside",
    ("pipe", ".state/resume/ID"): "no plain file", ("delete", ".state/names.sqlite"): "is missing",
    ("delete", ".state/catalog.sqlite-wal"): "has lost its log", ("delete", ".state/names.sqlite-wal"): "has lost its log",
    ("pipe", ".state/names.sqlite"): "is missing", ("delete", ".state/catalog.sqlite"): "is gone, or as old as its copy",
}
# What may become of what stands on a capture.
LABELS = {
    "cut": lambda text: text[:len(text) // 2], "empty": lambda text: b"", "zero": lambda text: bytes(len(text)),
    "flip": lambda text: bytes([*text[:len(text) // 2], text[len(text) // 2] ^ 0x10, *text[len(text) // 2 + 1:]]), "delete": None}


def pytest_generate_tests(metafunc):
    everything = metafunc.config.getoption("--fresh")
    if metafunc.function is test_a_damaged_label_costs_no_capture:
        return metafunc.parametrize("way", LABELS if everything else ["flip"])
    begun = [(way, place) for place in BEGUN for way in KINDS]
    if metafunc.function is test_a_damaged_state_of_a_mount_that_has_ended_costs_no_capture:
        named, places = ENDED_NAMED, ENDED
    elif metafunc.function is test_a_damaged_state_of_a_further_destination_costs_no_capture:
        named, places, begun = FURTHER_NAMED, FURTHER, []
    else:
        named, places = NAMED, PLACES
    metafunc.parametrize("way, place", [(way, place) for place in places for way in WAYS] + begun if everything else named)


def start(mount, target):
    """Starts the mount, after what it asks for was done."""
    size = len(mount.program.log)
    try:
        return mount.start()
    except AssertionError:
        program = mount.program
        assert not program.is_running, "it hangs"
        said = [line for line in program.log[size:].splitlines() if line.startswith("uploadfs-mount: ")]
        assert program.wait(SOON) == 13 and len(said) == 1, program.describe()
        assert ADVICE.search(said[0]), said
    shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink()
    return mount.start()


class Damaged(Moved):
    """A spool with a capture in each state, of which one has a number, whose mount was killed, or has ended with what is left to do."""

    def __init__(self, new_mount, receiver, folder, spool, ends=False):
        self.ends = ends
        super().__init__(new_mount, receiver, folder, spool, "--rule", "named/** name={seq:3}.{ext}")

    def deliver_first(self, mount):
        (mount.root / "named").mkdir()
        (mount.root / "named" / "a.jpg").write_bytes(b"the first")
        assert mount.wait_for("named/a.jpg", "complete")["published_name"] == "001.jpg"

    def end(self, mount):
        if not self.ends:
            return mount.kill()
        mount.stop_at_once()

    def target(self, place):
        record = next(iter((self.mount.spool / ".state" / "resume").iterdir()))
        target = self.mount.spool / place.replace("ID", record.name)
        if not target.exists():
            # What is there only now and then.
            target.write_bytes(b"half of it, or of an earlier time\n" * 9)
        return target

    def check_nothing_is_wrong(self):
        second = self.mount.wait_for("named/b.jpg", "complete")["published_name"]
        contents = {
            "pending.txt": b"pending", "delivered.txt": b"delivered", "001.jpg": b"the first", second: b"the second"}
        assert self.receiver.published().keys() == {"take.mov", *contents}
        assert sha256(self.receiver.files / "take.mov") == self.taken
        for name, content in contents.items():
            assert (self.receiver.files / name).read_bytes() == content
        for name in ("half.raw", "cut.raw"):
            assert self.mount.wait_for(name, "interrupted")
            assert (self.mount.root / name).read_bytes() == b"half of it"


@pytest.mark.promises("S35a")
def test_a_damaged_state_costs_no_capture(new_mount, receiver, folder, tmpfs, way, place):
    """Regression: refusals without a word of what to do."""
    check(Damaged(new_mount, receiver, folder, tmpfs("spool-disk", DISK) / "spool"), way, place)


@pytest.mark.promises("S35a")
def test_a_damaged_state_of_a_mount_that_has_ended_costs_no_capture(new_mount, receiver, folder, tmpfs, way, place):
    """Regression: a pipe in the place where the next mount says how it ends held up its end for ever."""
    damaged = Damaged(new_mount, receiver, folder, tmpfs("spool-disk", DISK) / "spool", ends=True)
    check(damaged, way, place)


@pytest.mark.promises("S35a")
def test_a_damaged_state_of_a_further_destination_costs_no_capture(new_mount, new_receiver, receiver, folder, way, place):
    """What one destination has lost the other one does not know either: each capture arrives at both, and nothing else does."""
    archive = new_receiver(name="archive")
    mount = new_mount(
        receiver, *further("archive", archive, "chunk-size=1MiB"), "--chunk-size", "1MiB", "--rule", "**/* to=main,archive")
    contents = {"delivered.mov": os.urandom(3_000_000), "pending.mov": os.urandom(5_000_000)}
    (mount.root / "delivered.mov").write_bytes(contents["delivered.mov"])
    mount.wait_for("delivered.mov", "complete")
    half = os.open(mount.root / "half.raw", os.O_WRONLY | os.O_CREAT)
    os.write(half, b"half of it")
    records = mount.spool / ".state" / "destinations" / "archive" / "resume"
    with open(mount.root / "pending.mov", "wb", buffering=0) as file:
        file.write(contents["pending.mov"][:4_000_000])
        # Parts of it are there before it is finished, and a record of that here.
        wait_until(lambda: any(records.iterdir()), "there is a record of what has been sent")
        archive.kill()
        file.write(contents["pending.mov"][4_000_000:])
    mount.readings("pending.mov", lambda status: at(status, "main")["state"] == "complete")
    mount.readings("pending.mov", lambda status: status["local_durability"] == "on-disk")
    wait_until(lambda: not unproven_rows(mount.spool, contents), "the catalog says what the disk has")
    mount.kill()
    with contextlib.suppress(OSError):
        os.close(half)
    archive.start()
    target = mount.spool / place.replace("ID", next(iter(records.iterdir())).name)
    if not target.exists():
        target.write_bytes(b"half of it, or of an earlier time\n" * 9)
    WAYS[way](target, mount.spool.parent / "elsewhere")
    start(mount, target)
    for name, content in contents.items():
        mount.wait_for(name, "complete")
        assert (receiver.files / name).read_bytes() == (archive.files / name).read_bytes() == content
    assert mount.wait_for("half.raw", "interrupted")
    assert receiver.published().keys() == archive.published().keys() == contents.keys()


def check(damaged, way, place):
    mount, target = damaged.mount, damaged.target(place)
    elsewhere = mount.spool.parent / "elsewhere"
    WAYS[way](target, elsewhere)
    before = elsewhere.read_bytes() if elsewhere.exists() else None
    start(mount, target)
    # What was delivered may have made room for the recording.
    kept = [name for name in ("delivered.txt", "named/a.jpg") if (mount.spool / "captures" / name).exists()]
    for name in ("take.mov", "pending.txt", *kept):
        mount.wait_for(name, "complete")
    (mount.root / "named" / "b.jpg").write_bytes(b"the second")
    damaged.check_nothing_is_wrong()
    words = SAID.get((way, place), "")
    wait_until(lambda: words in mount.program.log, f"the log says what was lost ({words})")
    if damaged.ends:
        assert mount.stop() == 18, mount.program.describe()
    # A hard link is the same file.
    if before is not None and (way != "hard-link" or place in BEGUN) and place not in DATABASES:
        assert elsewhere.read_bytes() == before


@pytest.mark.promises("S79f")
def test_a_damaged_label_costs_no_capture(new_mount, receiver, folder, tmpfs, way):
    """What stands on every capture is damaged: nothing that was not finished is published, and what is doubtful is held and said."""
    damaged = Damaged(new_mount, receiver, folder, tmpfs("spool-disk", DISK) / "spool")
    mount = damaged.mount
    for path in (mount.spool / "captures").rglob("*"):
        if path.is_file():
            text = os.getxattr(path, "user.uploadfs")
            os.removexattr(path, "user.uploadfs")
            if LABELS[way]:
                os.setxattr(path, "user.uploadfs", LABELS[way](text))
    mount.start()
    contents = {"pending.txt": b"pending", "delivered.txt": b"delivered"}
    for name, content in contents.items():
        if mount.wait_for(name, "complete", "interrupted")["state"] == "interrupted":
            wait_until(lambda: f"path={name} reason=" in mount.program.log, "the log says it")
            mount.say("publish", name)
            mount.wait_for(name, "complete")
        assert (receiver.files / name).read_bytes() == content
    for name in ("half.raw", "cut.raw"):
        assert mount.wait_for(name, "interrupted")
    # Of what is at the receiver alone no other upload is begun.
    if mount.wait_for("take.mov", "complete", "interrupted", "failed")["state"] == "complete":
        assert sha256(receiver.files / "take.mov") == damaged.taken
    assert receiver.published().keys() <= {"take.mov", "001.jpg", *contents}
