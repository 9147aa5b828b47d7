"""Rounds of random settings, writers and faults against a model: what a user may combine, and no test was written for.

A round has several lives of the daemon. Each has settings of its own; files are made, changed, renamed and removed in it, and
either side is killed. In the end everything is there, nothing is under way, and what each destination shows is compared.
"""

import dataclasses
import errno
import hashlib
import os
import random
import shlex

import passthrough
from conformance import ALL, OwnReceiver
from filesystems import RENAME_EXCHANGE, renameat2
from harness import wait_until

FOLDERS = ["", "day", "day/cam"]
STEMS = ["a", "b", "c", "take"]
# Of these, .part is a temporary name, and .log is ignored in some lives.
EXTENSIONS = [".mov", ".mov", ".raw", ".raw", ".txt", ".log", ".part"]
TEMPLATES = ["{path}", "{name}", "{seq:3}-{name}", "{date}/{stem}{ext}"]
# For the spool of a round on a small disk, where parts of what is written are given back, or delivered files go.
DISK_WITH_RELEASES, SMALL_DISK = 40 << 20, 16 << 20


@dataclasses.dataclass
class Settings:
    """How the daemon is started for one life."""

    ignores: bool
    chunk_kib: int
    parallel: int
    while_writing: bool
    template: str
    interrupted: str
    archives: bool
    passthrough: str

    @classmethod
    def draw(cls, draw, templates, policies, has_archive, mode):
        return cls(draw.random() < 0.5, draw.choice([256, 512, 1024, 5120]), draw.choice([1, 2, 12]), draw.random() < 0.6,
                   draw.choice(templates), draw.choice(policies), has_archive and draw.random() < 0.8, mode)

    def flags(self, destination, releases):
        """The flags, for a destination and perhaps a disk that is too small."""
        rules = [f"** upload={'while-writing' if self.while_writing else 'on-close'}"]
        if self.template != "{path}":
            rules.append(f"** name={self.template}")
        if releases:
            rules.append("*.mov when-full=release")
        is_receiver = isinstance(destination, OwnReceiver)
        flags = ["--chunk-size", f"{self.chunk_kib}KiB"] if is_receiver else list(destination.options)
        flags += ["--interrupted", self.interrupted, *passthrough.flags(self.passthrough)]
        flags += ["--parallel", str(self.parallel), *(word for rule in rules for word in ("--rule", rule))]
        return flags + (["--ignore", "*.log"] if self.ignores else [])


class Round:
    """One round, which follows from its seed."""

    def __init__(self, seed, folder, authority, new_mount, new_receiver, tmpfs):
        self.draw, self.passthrough = random.Random(seed), passthrough.modes_of(seed)
        # Half of the rounds go to the receiver, which has the most to be wrong about.
        kinds = [OwnReceiver] * (len(ALL) - 2) + ALL
        (folder / "destination").mkdir()
        self.destination = self.draw.choice(kinds)(folder / "destination", authority).start()
        self.archive = new_receiver(name="archive") if self.draw.random() < 0.4 else None
        is_receiver = isinstance(self.destination, OwnReceiver)
        self.releases = is_receiver and not self.archive and self.draw.random() < 0.25
        self.is_small = is_receiver and not self.releases and self.draw.random() < 0.25
        # Each life has one of these.
        self.templates = TEMPLATES if self.draw.random() < 0.5 else ["{path}"]
        # Of what a full disk has refused it is unknown how much is there, so that it could not be told when it is published.
        self.policies = ["hold", "discard"] + ([] if self.releases or self.is_small else ["publish"])
        size = DISK_WITH_RELEASES if self.releases else SMALL_DISK if self.is_small else None
        self.spool = tmpfs("disk", size) / "spool" if size else folder / "spool"
        self.new_mount = new_mount
        self.settings, self.mount, self.is_served = None, None, True
        # What each name that is there was closed with; None for one that may be held back: its writer was told of an error, or
        # died.
        self.files = {}
        # Those that were gone before the archive was a destination, or came to be one again: nothing is left to be sent there.
        self.gone_before_archive = set()
        # Every content that was ever closed, or was there while no writer had it open.
        self.known = {hashlib.sha256(b"").digest()}
        self.did = []

    def note(self, *words):
        self.did.append(" ".join(map(str, words)))

    # Lives.

    def start(self):
        self.settings = Settings.draw(self.draw, self.templates, self.policies, self.archive is not None, next(self.passthrough))
        flags = self.settings.flags(self.destination, self.releases)
        if self.settings.archives:
            archive = self.archive
            flags += ["--destination", f"archive to={archive.url} token-file={archive.token_file} ca={archive.ca}",
                      "--rule", "*.mov to=main,archive"]
        if self.releases or self.is_small:
            flags += ["--reserve", "4MB"]
        self.note("start", shlex.join(flags))
        if self.mount is None:
            self.login, environment = self.destination.login(self.destination.folder)
            self.mount = self.new_mount(
                None, to=self.destination.to(self.destination.front.port), ca=self.destination.authority.certificate,
                environment=environment, start=False, spool=self.spool)
        self.mount.options = [*self.login, *flags]
        self.mount.start()
        if self.settings.archives:
            self.gone_before_archive |= {name for name in self.files if not (self.mount.root / name).exists()}

    def kill_mount(self):
        self.note("kill the mount")
        self.mount.kill()
        self.start()

    def restart(self):
        self.note("stop the mount")
        self.mount.stop_at_once()
        self.start()

    def kill_server(self):
        # One that goes on behind bytes which it has not counted damages its only upload, and says nothing of it (Limits of tus in
        # docs/destinations.md).
        if self.is_served and self.destination.keeps_files and self.destination.breaks_cleanly:
            self.note("kill the server")
            self.destination.stop_server()
            self.is_served = False

    def start_server(self):
        if not self.is_served:
            self.note("start the server")
            self.destination.start_server()
            self.is_served = True

    def end_archive(self):
        if self.archive and self.archive.program:
            self.note("kill the archive" if self.archive.program.is_running else "start the archive")
            self.archive.kill() if self.archive.program.is_running else self.archive.start()

    def start_archive(self):
        if self.archive and not self.archive.program.is_running:
            self.archive.start()

    def cut(self):
        self.note("cut connections")
        self.destination.front.cut()

    # Files.

    def new_name(self):
        folder = self.draw.choice(FOLDERS)
        (self.mount.root / folder).mkdir(parents=True, exist_ok=True)
        return os.path.join(folder, self.draw.choice(STEMS) + self.draw.choice(EXTENSIONS))

    def old_name(self):
        """One that is there: by rule an interrupted file goes, and on a small disk a delivered one."""
        while self.files:
            name = self.draw.choice(sorted(self.files))
            if (self.mount.root / name).exists():
                return name
            self.lost(name)
        return None

    def lost(self, name):
        # Before, what is gone has the status of an unknown file, or that of one destination only.
        wait_until(lambda: self.mount.summary()["scanned"], "it is known what earlier runs left")
        content = self.files.pop(name)
        self.note("gone:", name)
        if content is None:
            assert self.has_discarded or self.is_small, f"{name} is gone"
        elif not self.is_partly_away(name):
            assert self.is_small, f"{name} is gone"
            self.check_delivered(name, content, self.mount.status(name))

    def content(self):
        size = self.draw.choice([0, 1, 4_000, 70_000, 300_000, 2_000_000, self.draw.randrange(1, 6_000_000)])
        return self.draw.randbytes(size)

    def write(self, name, flags, before, content, dies=False):
        self.files[name] = None
        self.gone_before_archive.discard(name)
        try:
            descriptor = os.open(self.mount.root / name, os.O_WRONLY | flags, 0o644)
            try:
                half = len(content) // 2
                for piece in (content[:half], content[half:]):
                    view = memoryview(piece)
                    while view:
                        view = view[os.write(descriptor, view):]
                    if dies:
                        self.known.add(hashlib.sha256(before + piece).digest())
                        self.kill_mount()
                        raise InterruptedError
                if self.draw.random() < 0.3:
                    os.fsync(descriptor)
                self.known.add(hashlib.sha256(before + content).digest())
            finally:
                os.close(descriptor)
        except OSError as error:
            assert dies or ((self.releases or self.is_small) and error.errno == errno.ENOSPC), error
            self.note("failed:", error)
            if not (self.mount.root / name).exists():
                del self.files[name]
            return
        passthrough.wait_until_released(self.mount, name)
        self.files[name] = before + content

    def make(self, dies=False):
        name, content = self.new_name(), self.content()
        self.note("write", name, len(content), "and die in it" if dies else "")
        self.write(name, os.O_CREAT | os.O_TRUNC, b"", content, dies)

    def die_in_a_write(self):
        self.make(dies=True)

    def lengthen(self):
        if (name := self.old_name()) and self.files[name] is not None and not self.is_partly_away(name):
            content = self.content() or b"x"
            self.note("lengthen", name, len(content))
            self.write(name, os.O_APPEND, self.files[name], content)

    def rename(self):
        if name := self.old_name():
            new = self.new_name()
            if new == name:
                return
            self.note("rename", name, new)
            if self.moves(name, lambda: os.rename(self.mount.root / name, self.mount.root / new)):
                self.files[new] = self.files.pop(name)
                self.gone_before_archive.discard(new)

    def exchange(self):
        if (name := self.old_name()) and (other := self.old_name()) and name != other and name in self.files:
            self.note("exchange", name, other)
            if self.moves(name, lambda: renameat2(self.mount.root / name, self.mount.root / other, RENAME_EXCHANGE), other):
                self.files[name], self.files[other] = self.files[other], self.files[name]

    def save_like_an_editor(self):
        if name := self.old_name():
            content, temporary = self.content(), os.path.join(os.path.dirname(name), f".{os.path.basename(name)}.tmp")
            self.note("save", name, len(content))
            self.write(temporary, os.O_CREAT | os.O_TRUNC, b"", content)
            if temporary in self.files and self.moves(
                    temporary, lambda: os.rename(self.mount.root / temporary, self.mount.root / name)):
                self.files[name] = self.files.pop(temporary)
                self.gone_before_archive.discard(name)

    def remove(self):
        if name := self.old_name():
            self.note("remove", name)
            if self.moves(name, lambda: os.unlink(self.mount.root / name)):
                del self.files[name]

    def moves(self, name, action, *others):
        """Whether an action on names went well. Files that are about to be discarded may be gone by then."""
        try:
            action()
        except FileNotFoundError:
            for gone in (name, *others):
                if not (self.mount.root / gone).exists():
                    self.lost(gone)
            return False
        return True

    @property
    def has_discarded(self):
        return any("--interrupted discard" in line for line in self.did)

    def is_partly_away(self, name):
        return self.releases and name.endswith(".mov")

    def play(self, count):
        self.start()
        acts = {
            self.make: 12, self.lengthen: 4, self.rename: 5, self.exchange: 1, self.save_like_an_editor: 3, self.remove: 2,
            self.kill_mount: 1, self.die_in_a_write: 1, self.restart: 1, self.kill_server: 1, self.start_server: 2,
            self.end_archive: 1, self.cut: 1}
        for _ in range(count):
            self.draw.choices(list(acts), list(acts.values()))[0]()
        self.start_server()
        self.start_archive()

    # The end.

    def settle(self):
        self.mount.wait_all(timeout=120, interrupted=True)

    def check(self):
        for name, content in sorted(self.files.items()):
            if not (self.mount.root / name).exists():
                self.lost(name)
                continue
            status = self.mount.status(name)
            if not status["local"]:
                # A rule has discarded it since the line before.
                self.lost(name)
            elif content is None:
                assert status["state"] in ("interrupted", "held", "ignored", "complete", "failed"), (name, status)
            elif self.settings.ignores and name.endswith(".log"):
                # It may have been delivered in a life in which it was not ignored.
                assert status["state"] in ("ignored", "complete"), (name, status)
            elif name.endswith(".part"):
                # It may have been delivered under another name.
                assert status["state"] in ("held", "complete"), (name, status)
            else:
                self.check_delivered(name, content, status)

    def check_delivered(self, name, content, status):
        assert status["state"] == "complete", (name, status)
        wanted = hashlib.sha256(content).hexdigest()
        if self.settings.archives and name.endswith(".mov") and name not in self.gone_before_archive:
            assert "archive" in [part["name"] for part in status["destinations"]], (name, status)
        if "destinations" in status and self.settings.archives:
            for part in status["destinations"]:
                # Of a file that no longer goes there it has what it had, under the name of that time, which may be another's now.
                if part["name"] == "archive" and name.endswith(".mov"):
                    found = (self.archive.files / part["receipt"]["name"]).read_bytes()
                    assert found == content, f"{name}: other bytes at the archive"
            status = next((part for part in status["destinations"] if part["name"] == "main"), None)
            if status is None:
                return
        assert self.destination.digest(status) == wanted, f"{name}: other bytes are published"

    def check_everything_published(self):
        """What a receiver shows was whole once, under whatever name."""
        servers = [self.archive] if self.archive else []
        if isinstance(self.destination, OwnReceiver):
            servers.append(self.destination.server)
        for server in servers:
            for path in server.files.rglob("*"):
                if path.is_file():
                    found = path.read_bytes()
                    assert hashlib.sha256(found).digest() in self.known, f"{path}: {len(found)} bytes were never whole"

    def check_quiet_restart(self):
        """What is delivered is not sent again because the daemon was started again."""
        if not isinstance(self.destination, OwnReceiver):
            return
        before = self.inodes()
        self.mount.stop()
        self.mount.start()
        self.settle()
        assert self.inodes() == before, "something was published again"

    def inodes(self):
        files = self.destination.server.files
        return {str(path): path.stat().st_ino for path in files.rglob("*") if path.is_file()}

    def close(self):
        return self.destination.close()
