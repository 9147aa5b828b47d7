"""What is known of captures, spools and published names while a spool lives (lives.py): what may be published, held, or sent again."""

import collections
import contextlib
import dataclasses
import hashlib
import os
import re
import threading

from published import Published

# How a start or a word may answer for a capture that it does not deliver.
HOLDS = {"mount-died", "unproven", "older-than-delivered"}
# And what is said of one that a writer has not ended, or that another disk may have had.
SAID = HOLDS | {"writer-killed", "not-on-disk"}
# As long as chunks are in one life or another.
CHUNK_KIB = [256, 1024]


class Content:
    """Bytes that a capture had. No two contents are the same."""

    def __init__(self, data, origin):
        self.origin = origin
        self.data, self.digest = data, hashlib.sha256(data).digest()
        # Why it may be sent once more than it was when it was looked at last.
        self.excuses = {"it is new"}
        # Receiver → how often it was published there when it was looked at last.
        self.counted = collections.Counter()

    def __repr__(self):
        return f"{self.digest.hex()[:8]} ({len(self.data)} bytes, first {self.origin})"


@dataclasses.dataclass
class Capture:
    """What a spool has under a path."""

    # None while no writer has closed it: its mount died under its writer.
    content: Content | None
    # With which codes it may be held, and whether it was found held.
    holds: set = dataclasses.field(default_factory=set)
    is_held: bool = False
    held_as: str | None = None
    # As what it was held until a user said that it is to be published as it is, which the catalog alone knows.
    was_held_as: str | None = None
    is_delivered: bool = False
    # A copy of the catalog knows of its delivery.
    is_in_copy: bool = False
    # Its name may be refused.
    may_fail: bool = False
    # Where a user has cancelled it, and that one did so, which may have been lost.
    cancelled_at: set = dataclasses.field(default_factory=set)
    was_cancelled: bool = False
    is_forgotten: bool = False
    # Its file, which stays the same as long as it is changed in place, and renamed.
    file: object = dataclasses.field(default_factory=object, repr=False)
    # Nothing on its file says that it is whole, since it was copied without attributes.
    is_bare: bool = False
    # Its copy has another time, and it is compared with its receipt.
    is_compared: bool = False
    # It lies in a copy of the spool in which it was recorded.
    is_copied: bool = False
    # It was copied to another filesystem when nothing may have known that its own one had it (S40k).
    may_lack: bool = False
    # It had another name as well, which its receipt may say. And a catalog may know it by that name, or as it was, where the mount is killed
    # before it has recorded what became of it.
    was_linked: bool = False
    may_be_known_otherwise: bool = False
    # It was evicted, and another capture has come under its path.
    is_covered: bool = False
    # The time of its last change, where it was removed.
    modified_ns: int | None = None

    def copy(self):
        return dataclasses.replace(self, holds=set(self.holds), cancelled_at=set(self.cancelled_at))

    @property
    def is_cancelled(self):
        return bool(self.cancelled_at)

    def expect_hold(self, *codes):
        self.holds |= set(codes)

    def forget_word(self):
        """The catalog that knew what its user had said is lost, or an older one."""
        # Also of what was delivered so: its file still says how it came to be.
        if self.was_held_as:
            self.expect_hold(self.was_held_as, "unproven")
            # A catalog of before the word may have held it since: without that the file says what its user has said.
            self.is_held &= self.held_as not in (self.was_held_as, "unproven")

    @property
    def may_be_of_longer_chunks(self):
        """The chunks of which its receipt's root is may be longer than those of a later start, which cannot compare it (S80b)."""
        return self.is_compared and self.content is not None and len(self.content.data) > CHUNK_KIB[0] << 10

    def may_be_held(self, code):
        return (self.is_held or code in self.holds or self.may_lack and code == "not-on-disk"
                or self.may_be_of_longer_chunks and code == "older-than-delivered")

    @property
    def is_kept_back(self):
        """It is not delivered before a user says so; but for what a start could not compare, and another one can (S80c)."""
        return self.is_held and not (self.may_be_of_longer_chunks and self.held_as == "older-than-delivered")


class SpoolModel:
    """What one spool knows. A copy of it is another spool, which shares the past."""

    def __init__(self):
        self.captures = {}
        # Path → what was delivered there, and then evicted.
        self.evicted = {}
        # Path → what was delivered there, and then removed in the mount. The catalog knows of it what was published.
        self.removed = {}
        # Path → the contents that came to be there, one after the other.
        self.places = collections.defaultdict(list)
        self.templates = set()
        # Records of published names were lost, or are older than the spool.
        self.has_lost = False
        self.replaces = False
        # Its mount has ended in order.
        self.is_at_rest = False
        # Paths of which a server alone has said what was published there, and so not when that was changed: what comes there and is not in the
        # catalog yet when its mount is killed is not known to be later.
        self.unsure = set()
        # Paths from which captures were renamed that were held, until an orderly end has recorded that: where the mount is killed before,
        # the catalog, or its copy, says by these names what is to be held.
        self.doubted = set()

    def copy(self):
        other = SpoolModel()
        other.captures = {path: capture.copy() for path, capture in self.captures.items()}
        other.evicted = {path: capture.copy() for path, capture in self.evicted.items()}
        other.removed = {path: capture.copy() for path, capture in self.removed.items()}
        other.places.update({path: list(contents) for path, contents in self.places.items()})
        other.templates = set(self.templates)
        other.has_lost, other.replaces, other.is_at_rest = self.has_lost, self.replaces, self.is_at_rest
        other.doubted, other.unsure = set(self.doubted), set(self.unsure)
        return other

    def evict(self, path):
        self.evicted[path] = self.captures.pop(path)

    def cover(self, path):
        """A capture comes under a path."""
        self.removed.pop(path, None)
        if path in self.unsure and path in self.captures:
            self.captures[path].expect_hold("older-than-delivered")
        if path in self.evicted:
            self.evicted[path].is_covered = True

    def note_copied(self):
        """Its captures have other inodes than they had."""
        for path, capture in self.captures.items():
            capture.is_copied = True
            if path in self.unsure:
                # The mount was killed before its catalog, which a copy stands in for, knew that it was changed since.
                capture.expect_hold("older-than-delivered")

    def note_another_filesystem(self):
        """An orderly end brings to the disk what was closed, and not what is held (S40o)."""
        for capture in self.captures.values():
            capture.may_lack |= not self.is_at_rest or capture.content is None
            if capture.is_held and capture.held_as == "not-on-disk" and capture.content:
                # Where it was closed nothing of it can be lacking (S40k): it may come back there.
                capture.is_held, capture.may_lack = False, True

    def note_orderly_end(self):
        """The catalog and its copy say everything."""
        self.doubted.clear()
        self.is_at_rest = True
        for capture in self.captures.values():
            capture.is_in_copy = capture.is_delivered
            capture.may_be_known_otherwise = False

    def place(self, path, content):
        self.places[path].append(content)

    def lose_places(self):
        """Its names are forgotten: only what lies in the spool may be published once more in its own place."""
        self.has_lost = True
        self.places.clear()
        for path, capture in self.captures.items():
            if capture.content:
                self.place(path, capture.content)

    def had_its_name_elsewhere(self, path, content):
        """A template may have given it one name under two paths; no other path inherits that name then."""
        return self.templates != {"{path}"} and any(content in contents for other, contents in self.places.items() if other != path)

    def excuse(self, why):
        for capture in self.captures.values():
            if capture.content:
                capture.content.excuses.add(why)

    def excuse_undelivered(self, why):
        for capture in self.captures.values():
            if capture.content and not capture.is_delivered:
                capture.content.excuses.add(why)

    def lets_replace(self, before, after):
        """Whether a path of the spool had one content, and later the other one; or whatever has a name gives way."""
        for contents in self.places.values():
            if after in contents and (self.replaces or before in contents[:last_index(contents, after)]):
                return True
        return False


def last_index(contents, content):
    return len(contents) - 1 - contents[::-1].index(content)


class Shelf(Published):
    """What a receiver shows under each name, and has shown."""

    def __init__(self, name, folder):
        super().__init__(folder, every=0.03)
        self.name = name
        # Held while the folder is replaced.
        self.lock = threading.RLock()
        self.reset()

    def reset(self):
        """After its folder was replaced by another one: what is there counts as seen, and nothing as replaced."""
        self.current, self.changes = {}, []
        self.shown = collections.defaultdict(set)
        self.publications = collections.Counter()
        self._known = {}
        self.look()
        self.changes.clear()
        self.publications.clear()

    def look(self):
        with self.lock:
            self._look()

    def _look(self):
        found = set()
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, self.folder)
                found.add(relative)
                self._look_at(path, relative)
        for name in self.current.keys() - found:
            self.changes.append((name, self.current.pop(name), None))
            del self._known[name]

    def _look_at(self, path, relative):
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            key = status.st_ino, status.st_mtime_ns, status.st_size
            if self._known.get(relative) != key:
                self._show(relative, key, hashlib.sha256(file.read()).digest())

    def _show(self, name, key, digest):
        self.changes.append((name, self.current.get(name), digest))
        self._known[name], self.current[name] = key, digest
        self.shown[name].add(digest)
        self.publications[digest] += 1


class Bucket(Shelf):
    """What rclone shows, which replaces an object by removing it, and sets its time afterwards. So it cannot be told how often one content
    came under a key."""

    def _look(self):
        for folder, _, names in os.walk(self.folder):
            for name in names:
                if not name.startswith(".rclone_temp_put_"):
                    path = os.path.join(folder, name)
                    with contextlib.suppress(FileNotFoundError):
                        self._look_at(path, os.path.relpath(path, self.folder))

    def _show(self, name, key, digest):
        if self.current.get(name) == digest:
            self._known[name] = key
        else:
            super()._show(name, key, digest)


def rendered(template, path):
    """A template's name for a path, as a pattern. The spool numbers its own before a receiver does."""
    stem, extension = os.path.splitext(os.path.basename(path))
    text = template.replace("{path}", os.path.splitext(path)[0]).replace("{name}", stem)
    text = re.escape(text).replace(re.escape("{seq:3}"), r"\d{3,}").replace(re.escape("{date}"), r"\d{4}-\d\d-\d\d")
    return text + r"(?P<number>(-\d+)*)" + re.escape(extension)


def numbered(templates, path, name):
    """The number of a published name, or an empty text; and whether it is a name of this path at all."""
    for template in sorted(templates):
        if found := re.fullmatch(rendered(template, path), name):
            return True, found["number"] or ""
    return False, ""
