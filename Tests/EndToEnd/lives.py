"""Rounds of the lives of spools, against a model (life_model.py): what users do to spools, machines and receivers over the years.

A round has one machine or two that publish into one folder, and perhaps a second destination, which may be a bucket. Captures are
written, also with holes, changed, linked, evicted and removed; either side is killed; settings change between starts; spools are moved,
backed up, restored, cloned and damaged, and the receiver is restored. Whenever everything has settled the model judges: what was closed
is delivered, or held with a reason that the documents allow for what was done; what is published was closed, replaces only what is its
own and older, and is sent again only where something was lost or asked for.
"""

import contextlib
import dataclasses
import os
import pathlib
import random
import shlex
import shutil
import signal
import subprocess
import time

import passthrough
from damage import WAYS
from harness import SOON, unmount_lazily, wait_until
from life_model import CHUNK_KIB, HOLDS, SAID, Bucket, Capture, Content, Shelf, SpoolModel, numbered
from s3_servers import BUCKET, Rclone, credentials
from test_interrupted import run_writer
from test_moves import WITH_ATTRIBUTES, WITHOUT, copy
from test_operations import run

FOLDERS = ["", "day"]
STEMS = ["a", "b", "c"]
# Captures with the first of these go to the second destination as well, where there is one.
EXTENSIONS = [".mov", ".txt", ".txt"]
TEMPLATES = ["{path}", "{path}", "{name}", "{date}/{name}", "{seq:3}-{name}"]
SIZES = [10, 4_000, 70_000, 300_000, 1_200_000]
HOLES = [5_000, 600_000]
DAMAGED = {
    "catalog": ["catalog.sqlite", "catalog.sqlite-wal"],
    "catalogs": ["catalog.sqlite", "catalog.sqlite-wal", "catalog.backup.sqlite"], "names": ["names.sqlite", "names.sqlite-wal"], "marks": ["marks"],
    "resume": ["resume"], "key": ["master.key"], "identity": ["spool"], "state": ["."]}
# Any longer, and a round hangs.
SETTLING_SECONDS = 90
# A disk of which mounts leave a little alone; a recording that is larger than what they are left of it, and what that is.
LITTLE_DISK, LITTLE_RESERVE = 192 << 20, ["--reserve", "1MB"]
LARGE, PIECE, ROOM, STATE_ROOM = 12 << 20, 256 << 10, 6 << 20, 8 << 20
# Another filesystem, to which a spool may be moved.
OTHER_DISK = 512 << 20
# Writes some bytes, and waits for its end.
WRITER = """
    import os, sys
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(file, bytes.fromhex(sys.argv[2]))
    print("ready", flush=True)
    sys.stdin.read()
"""


@dataclasses.dataclass
class Settings:
    """How a daemon is started."""

    template: str
    if_exists: str
    # By rule, for what lies in the second folder.
    if_exists_in_day: str | None
    chunk_kib: int
    parallel: int
    upload: str
    passthrough: str

    @classmethod
    def draw(cls, draw, templates, mode):
        return cls(draw.choice(templates), draw.choice(["number"] * 6 + ["refuse", "replace"]),
                   draw.choice([None] * 6 + ["number", "refuse"]), draw.choice(CHUNK_KIB),
                   draw.choice([1, 4]), draw.choice(["while-writing", "on-close"]), mode)

    def flags(self):
        return ["--name-template", self.template, "--if-exists", self.if_exists, "--chunk-size", f"{self.chunk_kib}KiB",
                "--parallel", str(self.parallel), "--upload", self.upload, *passthrough.flags(self.passthrough),
                *(["--rule", f"{FOLDERS[1]}/** if-exists={self.if_exists_in_day}"] if self.if_exists_in_day else [])]

    def refuses(self, path):
        is_by_rule = self.if_exists_in_day and path.startswith(f"{FOLDERS[1]}/")
        return (self.if_exists_in_day if is_by_rule else self.if_exists) == "refuse"


@dataclasses.dataclass
class Copy:
    """A copy of a spool, or of a receiver's root, and what the model knew when it was made."""

    folder: pathlib.Path
    known: SpoolModel | None = None
    # That of the spool.
    filesystem: int | None = None


class Machine:
    """A mount with a spool of its own."""

    def __init__(self, name, mount, known):
        self.name, self.mount, self.known = name, mount, known
        self.settings, self.backup = None, None

    @property
    def is_running(self):
        return self.mount.program is not None and self.mount.program.is_running

    @property
    def root(self):
        return self.mount.root

    @property
    def captures(self):
        return self.known.captures


class Round:
    """One round, which follows from its seed."""

    def __init__(self, seed, folder, new_mount, new_receiver, new_s3, new_disk):
        self.seed, self.draw, self.passthrough = seed, random.Random(seed), passthrough.modes_of(seed)
        self.folder, self.new_mount = folder, new_mount
        # Some rounds have their spools on a little disk.
        self.disk = new_disk("disk", LITTLE_DISK) if random.Random(f"disk {seed}").random() < 0.3 else None
        self.elsewhere = None if self.disk else new_disk("elsewhere", OTHER_DISK)
        self.did, self.contents, self.spools = [], {}, []
        self.receiver = new_receiver(name="receiver")
        kind = self.draw.choices([None, "receiver", "bucket"], [6, 2, 2])[0]
        self.archive = new_receiver(name="archive") if kind == "receiver" else None
        self.bucket = new_s3(Rclone) if kind == "bucket" else None
        self.shelves = {"main": Shelf("main", self.receiver.files)}
        if self.archive:
            self.shelves["archive"] = Shelf("archive", self.archive.files)
        elif self.bucket:
            self.shelves["archive"] = Bucket("archive", self.bucket.folder / BUCKET)
        self.templates = TEMPLATES if self.draw.random() < 0.5 else ["{path}"]
        self.root_copy, self.was_restored, self.count = None, False, 0
        self.machines = [self.new_machine("first", SpoolModel())]
        # rclone keeps no conditions: two machines that find a key free at once replace each other.
        if not self.bucket and self.draw.random() < 0.5:
            self.machines.append(self.new_machine("second", SpoolModel()))

    def note(self, *words):
        self.did.append(" ".join(map(str, words)))

    def describe(self):
        return "\n".join([f"seed {self.seed}", *self.did, *(
            machine.mount.program.describe() for machine in self.machines if machine.mount.program), self.receiver.describe()])

    # Machines.

    def new_machine(self, name, known):
        self.spools.append(known)
        mount = self.new_mount(
            self.receiver, name=name, start=False, spool=self.new_spool(), environment=credentials() if self.bucket else None)
        return Machine(name, mount, known)

    def new_folder(self, kind):
        self.count += 1
        return self.folder / f"{kind}-{self.count}"

    def new_spool(self):
        self.count += 1
        place = self.disk or self.draw.choice([self.folder, self.folder, self.elsewhere])
        return place / f"spool-{self.count}"

    @staticmethod
    def filesystem_of(machine):
        return machine.mount.spool.parent.stat().st_dev

    def start(self, machine, *more):
        if machine.is_running:
            return
        machine.settings = Settings.draw(self.draw, self.templates, next(self.passthrough))
        flags = [*machine.settings.flags(), *more]
        if self.disk and "--reserve" not in more:
            flags += LITTLE_RESERVE
        machine.known.templates.add(machine.settings.template)
        self.note("start", machine.name, shlex.join(flags))
        if self.archive:
            archive = self.archive
            flags += ["--destination", f"archive to={archive.url} token-file={archive.token_file} ca={archive.ca}"]
        elif self.bucket:
            flags += ["--destination", f"archive to={self.bucket.url()}", "--max-file-size", "1GB"]
        if "archive" in self.shelves:
            flags += ["--rule", "**/*.mov to=main,archive"]
        machine.known.replaces |= machine.settings.if_exists == "replace"
        self.expect_refusals(machine)
        machine.known.is_at_rest = False
        machine.mount.options = flags
        machine.mount.start()

    def expect_refusals(self, machine):
        for path, capture in machine.captures.items():
            capture.may_fail |= machine.settings.refuses(path) and not capture.is_delivered

    def expect_another_delivery(self, machine):
        for capture in machine.captures.values():
            capture.is_delivered = capture.is_in_copy = False
        self.expect_refusals(machine)

    def kill(self, machine):
        if machine.is_running:
            self.note("kill", machine.name)
            machine.mount.kill()
            unmount_lazily(str(machine.root))
            machine.known.excuse_undelivered("its mount was killed")

    def stop(self, machine):
        """The end in order, which leaves copies of the databases, or at once, which leaves what is pending."""
        if not machine.is_running:
            return
        receivers = [receiver for receiver in (self.receiver, self.archive) if receiver]
        if self.draw.random() < 0.5 and all(receiver.program.is_running for receiver in receivers):
            self.note("stop", machine.name)
            assert machine.mount.stop() in (0, 18), machine.mount.program.describe()
            machine.known.note_orderly_end()
        else:
            self.note("stop at once", machine.name)
            machine.mount.stop_at_once()
            machine.known.excuse_undelivered("its mount did not wait for answers")

    def end(self, machine):
        self.draw.choice([self.kill, self.stop])(machine)

    def restart(self, machine):
        self.end(machine)
        self.start(machine)

    def kill_receiver(self, machine):
        self.kill_server(self.receiver)

    def kill_archive(self, machine):
        if self.archive:
            self.kill_server(self.archive)

    def kill_server(self, server):
        if server.program.is_running:
            self.note("kill", server.root.name)
            server.kill()
            for spool in self.spools:
                spool.excuse_undelivered("its receiver was killed")

    def start_receivers(self):
        for receiver in (self.receiver, self.archive):
            if receiver and not receiver.program.is_running:
                self.note("start", receiver.root.name)
                receiver.start()

    # Captures.

    def new_path(self):
        return os.path.join(self.draw.choice(FOLDERS), self.draw.choice(STEMS) + self.draw.choice(EXTENSIONS))

    def old_path(self, machine, is_wanted=lambda capture: True):
        paths = sorted(path for path, capture in machine.captures.items() if is_wanted(capture))
        return self.draw.choice(paths) if paths else None

    def data(self):
        return self.draw.randbytes(self.draw.choice(SIZES))

    def new_content(self, data, machine, path):
        content = Content(data, f"{path} of {machine.name}")
        # Bytes that are published on request may have been known before.
        return self.contents.setdefault(content.digest, content)

    def put(self, machine, path, content, is_new_file=False):
        capture = Capture(content, may_fail=machine.settings.refuses(path))
        if path in machine.captures and not is_new_file:
            known = machine.captures[path]
            capture.file, capture.is_copied, capture.may_be_known_otherwise = known.file, known.is_copied, known.may_be_known_otherwise
            # A catalog from before that may say it of another content of the same length (S80d).
            capture.was_cancelled = known.was_cancelled
        machine.captures[path] = capture
        machine.known.cover(path)
        if content:
            machine.known.place(path, content)
        return capture

    def write(self, machine, flags=os.O_CREAT | os.O_TRUNC, path=None, before=b"", dies=False):
        self.start(machine)
        path, data = path or self.new_path(), self.data()
        first, last = data[:len(data) // 2], data[len(data) // 2:]
        hole = bytes(self.draw.choice(HOLES) if self.draw.random() < 0.2 else 0)
        data = first + hole + last
        self.note("write", machine.name, path, len(before) + len(data), f"with a hole of {len(hole)}", "and die in it" if dies else "")
        (machine.root / path).parent.mkdir(exist_ok=True)
        content = None if dies else self.new_content(before + data, machine, path)
        descriptor = os.open(machine.root / path, os.O_WRONLY | flags, 0o644)
        try:
            for piece in (first, last):
                os.write(descriptor, piece)
                if piece is first and hole:
                    os.ftruncate(descriptor, len(before) + len(first) + len(hole))
                    os.lseek(descriptor, 0, os.SEEK_END)
                if dies:
                    self.put(machine, path, None).expect_hold(*HOLDS)
                    self.kill(machine)
                    return
        finally:
            try:
                os.close(descriptor)
            except OSError:
                assert dies
        passthrough.wait_until_released(machine.mount, path)
        self.put(machine, path, content)

    def die_in_a_write(self, machine):
        self.write(machine, dies=True)

    def kill_writer(self, machine):
        self.start(machine)
        if machine.settings.passthrough == "on":
            # What passes the daemon is not seen to die.
            return
        path, data = self.new_path(), self.draw.randbytes(2_000)
        self.note("kill a writer", machine.name, path)
        (machine.root / path).parent.mkdir(exist_ok=True)
        run_writer(WRITER, machine.root / path, data.hex(), number=signal.SIGKILL)
        machine.mount.wait_for(path, "interrupted")
        capture = self.put(machine, path, None)
        capture.is_held, capture.held_as = True, "writer-killed"

    def write_two(self, machine):
        """One is written while the other one is."""
        first, second = self.new_path(), self.new_path()
        if first == second:
            return
        self.start(machine)
        self.note("begin", machine.name, first)
        data = self.data()
        content = self.new_content(data, machine, first)
        (machine.root / first).parent.mkdir(exist_ok=True)
        with open(machine.root / first, "wb", buffering=0) as file:
            file.write(data[:len(data) // 3])
            self.write(machine, path=second)
            file.write(data[len(data) // 3:])
        passthrough.wait_until_released(machine.mount, first)
        self.note("end", machine.name, first, len(data))
        self.put(machine, first, content)

    def lengthen(self, machine):
        if path := self.old_path(machine, lambda capture: capture.content and not capture.is_held):
            before = machine.captures[path]
            self.write(machine, os.O_APPEND, path, before.content.data)
            self.keep_doubts(machine, path, before)

    def change(self, machine):
        """A capture is written over in one place, or cut shorter."""
        path = self.old_path(machine, lambda capture: capture.content and not capture.is_held and len(capture.content.data) > 1)
        if not path:
            return
        self.start(machine)
        before = machine.captures[path]
        data = bytearray(before.content.data)
        start, piece = self.draw.randrange(1, len(data)), self.draw.randbytes(1_000)
        descriptor = os.open(machine.root / path, os.O_WRONLY)
        try:
            if self.draw.random() < 0.3:
                self.note("shorten", machine.name, path, start)
                del data[start:]
                os.ftruncate(descriptor, start)
            else:
                self.note("write over", machine.name, path, start)
                data[start:start + len(piece)] = piece
                os.pwrite(descriptor, piece, start)
        finally:
            os.close(descriptor)
        passthrough.wait_until_released(machine.mount, path)
        self.put(machine, path, self.new_content(bytes(data), machine, path))
        self.keep_doubts(machine, path, before)

    @staticmethod
    def keep_doubts(machine, path, before):
        """What it was doubted for before is made good by no further change."""
        machine.captures[path].expect_hold(*before.holds)
        machine.captures[path].may_lack = before.may_lack
        if before.is_bare and before.may_lack:
            # Delivered or not: of the copy here nothing proves that it has all of what is changed now (S79j).
            machine.captures[path].expect_hold("unproven")

    def save_like_an_editor(self, machine):
        if path := self.old_path(machine):
            self.start(machine)
            data = self.data()
            self.note("save", machine.name, path, len(data))
            temporary = machine.root / f"{path}.part"
            content = self.new_content(data, machine, path)
            temporary.write_bytes(data)
            passthrough.wait_until_released(machine.mount, f"{path}.part")
            os.rename(temporary, machine.root / path)
            self.put(machine, path, content, is_new_file=True)

    def rename(self, machine):
        path, new = self.old_path(machine), self.new_path()
        if path and path != new:
            self.start(machine)
            self.note("rename", machine.name, path, new)
            (machine.root / new).parent.mkdir(exist_ok=True)
            os.rename(machine.root / path, machine.root / new)
            capture = machine.captures[new] = machine.captures.pop(path)
            machine.known.cover(new)
            if capture.is_held or capture.holds:
                machine.known.doubted.add(path)
            capture.is_delivered = capture.is_in_copy = False
            capture.may_fail |= machine.settings.refuses(new)
            # Where it does not go any more there is nothing to be cancelled.
            capture.cancelled_at &= set(self.places_of(new))
            # The catalog of a destination that it has left may say that it is being written, once it is written again.
            capture.may_be_known_otherwise |= set(self.places_of(new)) < set(self.places_of(path))
            if set(self.places_of(new)) > set(self.places_of(path)):
                # A destination that it is for only now knows nothing of it, where the mount is killed before that is recorded: it may have been
                # put there from a backup.
                capture.expect_hold("older-than-delivered")
            if capture.is_bare:
                # What was known of it was known by its name.
                capture.expect_hold("unproven")
            if capture.content:
                machine.known.place(new, capture.content)
                capture.content.excuses.add("it was renamed")

    def link(self, machine):
        """A capture gets a second name, and is delivered under both; then it loses one of them."""
        path = self.old_path(machine, lambda capture: capture.content and not (
            capture.is_held or capture.holds or capture.is_bare or capture.is_compared or capture.is_cancelled or capture.may_lack))
        if not path:
            return
        new = os.path.splitext(self.new_path())[0] + os.path.splitext(path)[1]
        if new in machine.captures:
            return
        self.start(machine)
        self.note("link", machine.name, path, new)
        (machine.root / new).parent.mkdir(exist_ok=True)
        os.link(machine.root / path, machine.root / new)
        capture = machine.captures[path]
        capture.is_delivered = capture.is_in_copy = False
        capture.may_fail |= machine.settings.refuses(path) or machine.settings.refuses(new)
        capture.was_linked = True
        machine.known.cover(new)
        capture.content.excuses.add("it has another name")
        machine.known.place(new, capture.content)
        self.draw.choice([lambda machine: None, self.kill, self.kill_receiver])(machine)
        self.start_receivers()
        self.start(machine)
        machine.mount.wait_all(timeout=SETTLING_SECONDS, interrupted=True)
        self.look()
        if machine.mount.status(path)["state"] == "complete":
            for name in (path, new):
                for place in self.places_of(name):
                    assert self.is_shown(machine, name, place, capture.content), (
                        f"{machine.name} {name}, {capture}: its file is delivered, and not under this name, at {place}")
        gone = self.draw.choice([path, new])
        self.note("remove", machine.name, gone)
        (machine.root / gone).unlink()
        capture.may_be_known_otherwise = True
        if gone == path:
            machine.captures[new] = machine.captures.pop(path)

    def is_shown(self, machine, path, place, content):
        return any(numbered(machine.known.templates, path, name)[0] and content.digest in digests
                   for name, digests in list(self.shelves[place].shown.items()))

    def evict(self, machine):
        """What is delivered leaves the spool."""
        self.settle()
        self.end(machine)
        self.note("evict", machine.name)
        self.start(machine, "--keep", "1s")
        self.start_receivers()
        machine.mount.wait_all(timeout=SETTLING_SECONDS, interrupted=True)
        self.look()
        for path, capture in sorted(machine.captures.items()):
            status = self.judge(machine, path, capture)
            if status["state"] == "complete":
                wait_until(lambda: not (machine.root / path).exists(), lambda: f"{path} is evicted: {machine.mount.status(path)}")
                machine.known.evict(path)
        self.end(machine)
        self.start(machine)

    def outgrow_the_disk(self, machine):
        self.record_more_than_fits(machine)
        # What it was left of the disk is too little for what comes.
        self.restart(machine)

    def record_more_than_fits(self, machine):
        """Parts of a recording are given up in the spool once the receiver has them; then either side dies, the spool is moved, or loses
        what it knows of the upload."""
        self.settle()
        self.end(machine)
        self.start_receivers()
        path = os.path.join(self.draw.choice(FOLDERS), self.draw.choice(STEMS) + ".raw")
        room = machine.mount.spool / ".state" / "room"
        free = shutil.disk_usage(self.disk).free + (room.stat().st_blocks * 512 if room.exists() else 0)
        reserve = free - STATE_ROOM - ROOM
        self.start(machine, "--reserve", f"{reserve}B", "--rule", "**/*.raw upload=while-writing when-full=release")
        data, ends_early = self.draw.randbytes(LARGE), self.draw.random() < 0.3
        self.note("outgrow", machine.name, path, "and die in it" if ends_early else "")
        (machine.root / path).parent.mkdir(exist_ok=True)
        descriptor = os.open(machine.root / path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            for start in range(0, LARGE, PIECE):
                view = memoryview(data)[start:start + PIECE]
                while view:
                    view = view[os.write(descriptor, view):]
                if start == ROOM // 2:
                    wait_until(lambda: machine.mount.status(path)["bytes"]["acknowledged"], "the first chunks are at the receiver")
            self.put(machine, path, self.new_content(data, machine, path), is_new_file=True)
            facts = (machine.mount.spool / "captures" / path).stat()
            given_up = facts.st_size - facts.st_blocks * 512
            self.note("given up", given_up)
            self.note_evicted(machine)
            if ends_early:
                machine.captures[path].expect_hold("mount-died")
                self.kill(machine)
        finally:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self.draw.choice([lambda machine: None, self.kill, self.kill_receiver, self.end, self.move, self.damage])(machine)
        self.start_receivers()
        self.start(machine)
        capture = machine.captures[path]
        state = machine.mount.wait_for(path, "complete", "interrupted", "failed")["state"]
        if state == "interrupted":
            status = machine.mount.status(path)
            assert capture.may_be_held(status["last_error"]["code"]), f"held without a reason: {capture}: {status}"
            self.look()
            if capture.is_bare and self.is_shown(machine, path, "main", capture.content):
                # What was left of it when it was copied, with zeros in places. A user finds it published, and does not want that instead.
                self.note("remove", machine.name, path)
                (machine.root / path).unlink()
                del machine.captures[path]
                return
            self.note("publish", machine.name, path)
            machine.mount.say("publish", path)
            state = machine.mount.wait_for(path, "complete", "failed")["state"]
        self.look()
        if state == "failed":
            # It may have been delivered, and what knew that was lost before what was left of it had gone, or it was copied without what
            # it says of itself (S72h).
            is_lost = machine.mount.status(path)["last_error"]["code"] == "released-part-lost"
            is_rest = is_lost and (capture.is_forgotten or capture.is_bare)
            if not (is_rest and self.is_shown(machine, path, "main", capture.content)):
                self.judge(machine, path, capture, lacks_parts=given_up > 0)
            self.note("remove", machine.name, path)
            (machine.root / path).unlink()
            del machine.captures[path]
            return
        self.judge_delivered(machine, path, capture, machine.mount.status(path))
        if capture.is_bare:
            # Where it was delivered before it was copied without attributes, what was left of it may stay.
            (machine.root / path).unlink(missing_ok=True)
            del machine.captures[path]
        elif given_up:
            # What is left of it is no whole file.
            wait_until(lambda: not machine.mount.status(path)["local"], lambda: f"the rest of {path} goes: {machine.mount.status(path)}")
            machine.known.evict(path)

    def note_evicted(self, machine):
        """Delivered captures went to make room."""
        self.look()
        for path, capture in sorted(machine.captures.items()):
            if not (machine.root / path).exists():
                status = machine.mount.status(path)
                assert status["state"] == "complete", f"it is gone, and was not delivered: {path}, {capture}: {status}"
                self.note("evicted", machine.name, path)
                self.judge_delivered(machine, path, capture, status)
                machine.known.evict(path)

    def remove(self, machine):
        if path := self.old_path(machine):
            self.start(machine)
            self.note("remove", machine.name, path)
            capture = machine.captures.pop(path)
            if capture.is_delivered and not capture.was_linked:
                capture.modified_ns = (machine.root / path).stat().st_mtime_ns
                machine.known.removed[path] = capture
            (machine.root / path).unlink()

    # Words.

    def publish(self, machine):
        """What is held is published as it is."""
        if path := self.old_path(machine, lambda capture: capture.is_held):
            self.start(machine)
            self.note("publish", machine.name, path)
            states = ["interrupted"] if machine.captures[path].is_kept_back else ["interrupted", "complete"]
            if machine.mount.wait_for(path, *states)["state"] == "complete":
                self.note("it is known to be what was delivered")
                return
            content = self.new_content((machine.root / path).read_bytes(), machine, path)
            content.excuses.add("publish")
            held_as = machine.captures[path].held_as
            self.put(machine, path, content).was_held_as = held_as
            try:
                machine.mount.say("publish", path)
                is_refused = False
            except OSError:
                is_refused = True
            status = machine.mount.status(path)
            errors = [part["last_error"] for part in [status, *status.get("destinations", [])] if part["last_error"]]
            stays = any(error["code"] in ("unproven", "not-on-disk") and "stays there" in error["message"] for error in errors)
            assert stays or not is_refused, status
            if stays:
                # It may be what is left of what was delivered (S80g), also at one of two destinations (S77d). Its user finds that it is not.
                self.note("write anew", machine.name, path)
                (machine.root / path).write_bytes(content.data)
                passthrough.wait_until_released(machine.mount, path)

    def cancel(self, machine):
        """Of what cannot be delivered at present."""
        self.start(machine)
        self.kill_receiver(machine)
        self.write(machine)
        path = self.old_path(machine, lambda capture: capture.content and "it is new" in capture.content.excuses)
        state = machine.mount.wait_for(path, "queued", "uploading", "waiting", "complete", "interrupted", "failed", "cancelled")["state"]
        if state in ("queued", "uploading", "waiting"):
            self.note("cancel", machine.name, path)
            try:
                machine.mount.say("cancel", path)
            except OSError:
                self.note("it was too late")
                return
            capture, status = machine.captures[path], machine.mount.status(path)
            parts = {part["name"]: part for part in status.get("destinations", [])} or {"main": status}
            capture.cancelled_at = {place for place in self.places_of(path) if parts[place]["state"] == "cancelled"}
            assert capture.is_cancelled, f"it is not cancelled: {status}"
            capture.was_cancelled = True

    def retry(self, machine):
        if path := self.old_path(machine, lambda capture: capture.is_cancelled or capture.may_fail):
            self.start(machine)
            self.note("retry", machine.name, path)
            machine.mount.wait_for(path, "queued", "uploading", "waiting", "complete", "interrupted", "failed", "cancelled")
            try:
                machine.mount.say("retry", path)
            except OSError:
                self.note("it does not apply")
                return
            capture = machine.captures[path]
            capture.cancelled_at.clear()
            capture.content.excuses.add("retry")

    def deliver_again(self, machine):
        self.start(machine)
        self.note("retry --delivered", machine.name)
        self.settle()
        machine.known.excuse("retry --delivered")
        self.expect_another_delivery(machine)
        machine.mount.tool("retry", "--delivered", "--all")

    # Spools.

    def move(self, machine):
        self.end(machine)
        way, new = self.draw.choice([*WITH_ATTRIBUTES, *WITHOUT, "mv"]), self.new_spool()
        old = machine.mount.spool
        if not old.exists():
            return
        self.note("move", machine.name, way, "to another filesystem" if old.parent.stat().st_dev != new.parent.stat().st_dev else "")
        if way == "mv":
            run("mv", SPOOL=old, NEW=new)
        else:
            copy(way, old, new)
            shutil.rmtree(old)
        machine.mount.spool = new
        if way != "mv" or old.parent.stat().st_dev != self.filesystem_of(machine):
            machine.known.note_copied()
        if old.parent.stat().st_dev != self.filesystem_of(machine):
            machine.known.note_another_filesystem()
        if way in WITHOUT:
            for path, capture in machine.captures.items():
                capture.is_bare = True
                capture.is_compared |= way == "cp -r"
                # A catalog may know it by its other name, or as it was, or another one, which was doubted, by this name.
                if capture.may_be_known_otherwise or path in machine.known.doubted:
                    capture.expect_hold("unproven", "mount-died", "older-than-delivered")
                if not capture.is_delivered:
                    # The mount may have been killed before its catalog said that it was closed.
                    capture.expect_hold("unproven", "mount-died", *["older-than-delivered"] * (way == "cp -r"))

    def back_up(self, machine):
        self.start(machine)
        self.note("back up", machine.name)
        folder = machine.backup.folder if machine.backup else self.new_folder("backup")
        known = machine.known.copy()
        run("Backing up while the mount runs", SPOOL=machine.mount.spool, BACKUP=folder)
        machine.backup = Copy(folder, known, self.filesystem_of(machine))

    def restore(self, machine):
        """A backup takes the place of the spool, which is lost."""
        if not machine.backup:
            return
        self.end(machine)
        self.note("restore", machine.name)
        shutil.rmtree(machine.mount.spool, ignore_errors=True)
        machine.mount.spool = self.new_spool()
        run("Restoring a spool", BACKUP=machine.backup.folder, NEW=machine.mount.spool)
        machine.known = machine.backup.known.copy()
        machine.known.is_at_rest = False
        machine.known.has_lost = True
        machine.known.evicted.clear()
        machine.known.removed.clear()
        self.spools.append(machine.known)
        machine.known.note_copied()
        if machine.backup.filesystem != self.filesystem_of(machine):
            machine.known.note_another_filesystem()
        for path, capture in machine.captures.items():
            # The copy of the catalog is older than that of the captures.
            if not capture.is_in_copy:
                machine.known.unsure.add(path)
                capture.forget_word()
                capture.is_delivered = False
                capture.is_forgotten = True
                capture.expect_hold("older-than-delivered", "mount-died")
                # Only the catalog knew what had been delivered.
                capture.is_held &= capture.held_as != "older-than-delivered"
                if capture.content:
                    capture.content.excuses.add("its catalog is an older one")

    def put_back(self, machine):
        """One older capture is copied from the backup."""
        if not machine.backup:
            return
        self.start(machine)
        self.settle()
        olds, evicted, removed = machine.backup.known.captures, machine.known.evicted, machine.known.removed
        paths = sorted(path for path, capture in {**removed, **evicted, **machine.captures}.items()
                       if capture.is_delivered and path in olds and olds[path].content
                       and not (olds[path].is_held or olds[path].is_bare)
                       # What was removed counts where it is newer, as a capture that was renamed to its path need not be.
                       and (path not in removed or path in machine.captures or path in evicted or olds[path].content is capture.content
                            or (machine.backup.folder / "captures" / path).stat().st_mtime_ns < capture.modified_ns))
        if not paths:
            return
        path = self.draw.choice(paths)
        self.stop(machine)
        there, back = (folder / "captures" / path for folder in (machine.mount.spool, machine.backup.folder))
        # A capture that was made after the one that was renamed to its place may be a later one (S80a).
        is_newer = there.exists() and back.stat().st_mtime_ns > there.stat().st_mtime_ns
        self.note("put back", machine.name, path, "which is newer" if is_newer else "")
        run("One capture", BACKUP=machine.backup.folder, SPOOL=machine.mount.spool, NAME=path)
        capture, old = machine.captures.get(path) or evicted.pop(path, None) or removed.pop(path), olds[path]
        machine.captures[path] = capture
        machine.known.cover(path)
        if old.content is capture.content:
            capture.is_copied = True
            if capture.is_covered:
                # Something newer may have been published there since it was evicted (S80b).
                capture.expect_hold("older-than-delivered")
        else:
            machine.captures[path] = Capture(old.content, holds={"older-than-delivered"}, is_held=not is_newer, file=old.file)
            if is_newer:
                old.content.excuses.add("it was put back in the place of an older one")
                machine.known.place(path, old.content)
        machine.captures[path].may_lack |= machine.backup.filesystem != self.filesystem_of(machine)
        self.settle()
        machine.known.place(path, old.content)

    def clone(self, machine):
        """Another machine starts with a copy of the spool."""
        if len(self.machines) > 1 or self.bucket or not machine.mount.spool.exists():
            return
        self.end(machine)
        self.note("clone", machine.name)
        clone = self.new_machine("clone", machine.known.copy())
        subprocess.run(["cp", "-a", machine.mount.spool, clone.mount.spool], check=True)
        self.machines.append(clone)
        clone.known.note_copied()
        if self.filesystem_of(clone) != self.filesystem_of(machine):
            clone.known.note_another_filesystem()
        for capture in machine.captures.values():
            if capture.content and not capture.is_delivered:
                capture.content.excuses.add("the clone sends it as well")
        # Of the two the one that starts later knows less.
        clone.known.has_lost = machine.known.has_lost = True

    def damage(self, machine):
        self.end(machine)
        state, what = machine.mount.spool / ".state", self.draw.choice(sorted(DAMAGED))
        way = "delete" if what in ("state", "resume") else self.draw.choice(["delete", "cut", "empty", "zero"])
        files = [state / name for name in DAMAGED[what] if (state / name).exists()]
        self.note("damage", machine.name, what, way)
        for file in files:
            shutil.rmtree(file) if file.is_dir() else WAYS[way](file, None)
        known = machine.known
        if what in ("catalog", "catalogs", "state"):
            known.excuse(f"the {what} was lost")
            known.evicted.clear()
            known.removed.clear()
            known.unsure |= set(machine.captures)
            for capture in machine.captures.values():
                capture.is_in_copy &= what == "catalog"
                capture.forget_word()
                # What the copy that stands in says was delivered is compared, once more after a kill.
                capture.is_compared |= capture.is_in_copy
                capture.is_delivered = capture.is_in_copy = False
                capture.is_forgotten = True
                if capture.held_as == "older-than-delivered" and capture.is_held:
                    # Only the catalog knew what had been delivered.
                    capture.is_held = False
                    capture.expect_hold("older-than-delivered")
                if capture.is_bare:
                    capture.expect_hold("unproven")
                if capture.is_copied:
                    # The catalog's copy may know it by its former inode: that it was changed since is not known.
                    capture.expect_hold("older-than-delivered")
        if what in ("catalogs", "state"):
            time.sleep(0.3)
            self.look()
            known.lose_places()
        elif what in ("names", "catalog"):
            known.has_lost = True
        self.start_after(machine, files)

    def start_after(self, machine, damaged):
        """Starts the mount, after what it asks for was done."""
        try:
            return self.start(machine)
        except AssertionError:
            program = machine.mount.program
            assert program.wait(SOON) == 13 and "uploadfs-mount: " in program.log, program.describe()
            self.note("refused")
        for file in damaged:
            file.unlink(missing_ok=True)
        self.start(machine)

    # The receiver.

    def copy_root(self, machine):
        self.start_receivers()
        self.settle()
        self.receiver.stop()
        self.note("copy the receiver's root")
        self.root_copy = Copy(self.new_folder("root"))
        run("Moving a receiver", ROOT=self.receiver.root, NEW_ROOT=self.root_copy.folder)
        self.receiver.start()

    def restore_root(self, machine):
        """The receiver comes back with an older root, and each machine delivers again what it has."""
        if not self.root_copy:
            return
        self.settle()
        self.receiver.stop()
        self.look()
        self.note("restore the receiver's root")
        shelf = self.shelves["main"]
        with shelf.lock:
            shutil.rmtree(self.receiver.root)
            run("Moving a receiver", ROOT=self.root_copy.folder, NEW_ROOT=self.receiver.root)
            shelf.reset()
        self.was_restored = True
        for content in self.contents.values():
            content.counted["main"] = 0
            content.excuses.add("the receiver was restored")
        self.receiver.start()
        for machine in self.machines:
            # What backups know of deliveries is of the receiver that was lost.
            machine.backup = None
            machine.known.removed.clear()
            self.start(machine)
            self.expect_another_delivery(machine)
            run("Restoring a receiver", MOUNT=machine.root)

    # What is published.

    def look(self):
        """Judges what receivers have shown since this was asked for last."""
        for shelf in self.shelves.values():
            shelf.look()
            changes, shelf.changes = shelf.changes, []
            for name, before, after in changes:
                self.judge_change(shelf, name, before, after)

    def judge_change(self, shelf, name, before, after):
        where = f"{name} at {shelf.name}"
        assert after is not None, f"{where} is gone"
        content = self.contents.get(after)
        assert content, f"{where}: bytes that no writer had closed were published"
        if before is not None and before != after:
            old = self.contents[before]
            assert any(spool.lets_replace(old, content) for spool in self.spools), (
                f"{where}: {old} was replaced by {content}, which is no later content of its own")

    # What has settled.

    def settle(self):
        """Everything runs, until nothing is under way; then the model judges."""
        self.start_receivers()
        for machine in self.machines:
            self.start(machine)
        for machine in self.machines:
            machine.mount.wait_all(timeout=SETTLING_SECONDS, interrupted=True)
        self.look()
        for machine in self.machines:
            for path, capture in sorted(machine.captures.items()):
                self.judge(machine, path, capture)
            for path, capture in sorted(machine.known.evicted.items()):
                self.judge_evicted(machine, path, capture)
        self.judge_publications()

    def judge(self, machine, path, capture, lacks_parts=False):
        status = machine.mount.status(path)
        what = f"{machine.name} {path}, {capture}: {status}"
        state, code = status["state"], (status["last_error"] or {}).get("code")
        match state:
            case "interrupted":
                assert capture.may_be_held(code), f"held without a reason: {what}"
                assert code in SAID and status["reason"] and status["last_error"]["message"], f"held, and not said why: {what}"
                capture.is_held, capture.held_as, capture.is_delivered = True, code, False
            case "failed":
                assert capture.may_fail and code == "name-refused", f"failed without a reason: {what}"
            case "cancelled":
                # A restored catalog may be from before the retry.
                assert capture.is_cancelled or capture.was_cancelled and capture.is_forgotten, f"no user has cancelled it: {what}"
            case "complete":
                was_delivered = capture.content and all(capture.content.counted[place] for place in self.places_of(path))
                # It may be known to be what was delivered under its present name.
                is_kept_back = capture.is_kept_back and not (was_delivered and capture.held_as == "older-than-delivered")
                assert capture.content and not is_kept_back, f"published although no writer had finished it: {what}"
                assert not capture.is_cancelled or capture.is_forgotten, f"sent although it was cancelled: {what}"
                self.judge_delivered(machine, path, capture, status)
            case _:
                raise AssertionError(f"it has not settled: {what}")
        if capture.content and "--keep" not in machine.mount.options and not lacks_parts:
            assert (machine.root / path).read_bytes() == capture.content.data, f"it has other bytes: {what}"
        return status

    def judge_evicted(self, machine, path, capture):
        if not capture.is_covered:
            status = machine.mount.status(path)
            assert status["state"] == "complete" and not status["local"], f"it was delivered, and evicted: {path}, {capture}: {status}"

    def places_of(self, path):
        return ["main", "archive"] if "archive" in self.shelves and path.endswith(".mov") else ["main"]

    def judge_delivered(self, machine, path, capture, status):
        parts = {part["name"]: part for part in status.get("destinations", [])} if "archive" in self.shelves else {}
        for place in self.places_of(path):
            name = parts.get(place, status)["published_name"]
            # A spool that replaces may do so between two looks. Of two names the receipt says the last.
            is_seen = self.is_shown(machine, path, place, capture.content) if capture.was_linked else (
                capture.content.digest in self.shelves[place].shown[name])
            # An older catalog may know a delivery to the receiver that was lost.
            is_believed = self.was_restored and capture.is_forgotten
            assert is_seen or is_believed or any(other.known.replaces for other in self.machines if other is not machine), (
                f"{machine.name} {path}: {capture.content} is said to be {name} at {place}, and is not: {status}")
            if not capture.was_linked:
                self.judge_name(machine, path, place, name)
        capture.is_delivered, capture.is_held = True, False
        if not capture.is_copied:
            machine.known.unsure.discard(path)
        capture.cancelled_at.clear()
        capture.holds.clear()

    def judge_name(self, machine, path, place, name):
        known = machine.known
        is_own, number = numbered(known.templates, path, name)
        assert is_own, f"{machine.name} {path}: {name} at {place} is not what a template calls it"
        server = self.receiver if place == "main" else self.archive
        # A kill takes what was still to be written to the log.
        if number and server and known.templates == {"{path}"} and f"kill {server.root.name}" not in self.did:
            assert f'is published as "{name}"' in server.program.log, f"{machine.name} {path}: {name} at {place}, and the log does not say it"
        if number and not known.has_lost and not self.was_restored:
            stem, extension = os.path.splitext(name)
            own = {content.digest for content in known.places[path] if not known.had_its_name_elsewhere(path, content)}
            wanted = stem.removesuffix(number) + extension
            others = self.shelves[place].shown[wanted] - own
            # A template's name is taken before anything is sent, also for what is cancelled or removed then.
            is_taken = known.templates != {"{path}"} and any(
                other != path and numbered(known.templates, other, wanted)[0] for other in known.places)
            assert others or is_taken, f"{machine.name} {path}: {name} at {place} has a number, and no other capture had its name"

    def judge_publications(self):
        # What was to be sent again, and was refused, is sent by a later start with other settings.
        captures = [capture for machine in self.machines for capture in machine.captures.values()]
        undelivered = {capture.content for capture in captures if not capture.is_delivered}
        # What was on its way when its file got another content may still come.
        settled = {capture.content for capture in captures} - undelivered
        for content in self.contents.values():
            for place, shelf in self.shelves.items():
                count = shelf.publications[content.digest]
                first = 0 if content.counted[place] else 1
                assert content.excuses - {"it is new"} or count - content.counted[place] <= first, (
                    f"{content} was published at {place} {count} times, before {content.counted[place]}")
                content.counted[place] = count
            if content in settled:
                content.excuses.clear()

    # A round.

    def play(self, count):
        acts = {
            self.write: 10, self.lengthen: 3, self.save_like_an_editor: 2, self.rename: 3, self.link: 2, self.remove: 2,
            self.change: 2, self.write_two: 2, self.kill_writer: 1, self.die_in_a_write: 1, self.restart: 2,
            self.kill_receiver: 2, self.kill_archive: 1, self.publish: 3, self.cancel: 1, self.retry: 2, self.deliver_again: 1,
            self.evict: 1, self.move: 3, self.back_up: 3, self.restore: 2, self.put_back: 2, self.clone: 1, self.damage: 3, self.copy_root: 1, self.restore_root: 1}
        if self.disk:
            acts[self.outgrow_the_disk] = 4
        for _ in range(count):
            self.draw.choices(list(acts), list(acts.values()))[0](self.draw.choice(self.machines))
            if self.draw.random() < 0.3:
                self.settle()
        self.settle()

    def check_quiet_restart(self):
        """What is delivered is not sent again because the daemon was started again."""
        for machine in self.machines:
            self.stop(machine)
        self.settle()

    def run(self, count):
        with contextlib.ExitStack() as stack:
            for shelf in self.shelves.values():
                stack.enter_context(shelf)
            self.play(count)
            self.check_quiet_restart()
