"""Random operations of several processes on two folders at once, which must show the same.

A sequence of operations is drawn from a seed alone and depends on nothing that happens.
"""

import errno
import fcntl
import mmap
import multiprocessing
import os
import random
import stat

from filesystems import (
    FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO, RENAME_EXCHANGE, RENAME_NOREPLACE, fallocate, outcome, renameat2)

PROCESSES, SLOTS = 3, 4
FOLDERS = ["", "a", "b", "a/c"]
NAMES = ["n0", "n1", "n2", "n3", "n4.part", "n5"]
# Times that are set are older than this; so a time that is newer was made by the system, and differs.
SET_BEFORE = 1_577_836_800_000_000_000
CHUNK = 256 << 10


# The operations, as values: a name, the process, and what it needs.


def operations(seed, count):
    draw = random.Random(seed)
    return [_operation(draw) for _ in range(count)]


def _operation(draw):
    def path():
        # Two folders are likelier than the others, so that files meet.
        return os.path.join(draw.choice(FOLDERS + FOLDERS[:2] * 2), draw.choice(NAMES))

    def folder():
        # No name is a file's and then a folder's: a receiver that shows the file refuses the folder.
        return draw.choice(FOLDERS[1:])

    def offset():
        return draw.choice([0, 0, 1, 4095, 4096, 70_000, CHUNK - 1, CHUNK, draw.randrange(2 * CHUNK)])

    def size():
        return draw.choice([0, 1, 100, 4096, 10_000, 65_536, draw.randrange(200_000)])

    def slot():
        return draw.randrange(SLOTS)

    def flags():
        access = draw.choice([os.O_RDONLY, os.O_WRONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR])
        ways = [os.O_CREAT, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_TRUNC, os.O_CREAT | os.O_TRUNC, os.O_NOFOLLOW, 0]
        return access | draw.choice(ways) | draw.choice([0, 0, 0, os.O_APPEND, os.O_SYNC])

    def moment():
        return draw.randrange(SET_BEFORE)

    fallocate_modes = [
        0, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, FALLOC_ZERO, FALLOC_ZERO | FALLOC_KEEP_SIZE]
    kinds = [
        (14, "open", lambda: (slot(), path(), flags(), draw.choice([0o600, 0o644]))),
        (5, "close", lambda: (slot(),)),
        (2, "dup", lambda: (slot(), slot())),
        (12, "pwrite", lambda: (slot(), offset(), size(), draw.randrange(1 << 30))),
        (8, "write", lambda: (slot(), size(), draw.randrange(1 << 30))),
        (6, "pread", lambda: (slot(), offset(), size())),
        (4, "read", lambda: (slot(), size())),
        (3, "lseek", lambda: (slot(), offset(), draw.choice([os.SEEK_SET, os.SEEK_CUR, os.SEEK_END]))),
        (3, "seek_hole", lambda: (slot(), offset())),
        (4, "ftruncate", lambda: (slot(), offset())),
        (5, "fallocate", lambda: (slot(), draw.choice(fallocate_modes), offset(), size())),
        (3, "copy", lambda: (slot(), slot(), offset(), offset(), size())),
        (4, "map", lambda: (slot(),)),
        (6, "store", lambda: (slot(), offset(), size(), draw.randrange(1 << 30))),
        (4, "load", lambda: (slot(), offset(), size())),
        (2, "unmap", lambda: (slot(),)),
        (2, "fsync", lambda: (slot(),)),
        (2, "fstat", lambda: (slot(),)),
        (2, "fchmod", lambda: (slot(), draw.choice([0o600, 0o640, 0o444]))),
        (2, "futimens", lambda: (slot(), moment(), moment())),
        (2, "flock", lambda: (slot(), draw.choice([fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN]))),
        (2, "lockf", lambda: (
            slot(), draw.choice([fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN]), draw.randrange(9), draw.randrange(9))),
        (3, "mkdir", lambda: (folder(),)),
        (1, "rmdir", lambda: (folder(),)),
        (4, "unlink", lambda: (path(),)),
        (8, "rename", lambda: (path(), path(), draw.choice([0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE]))),
        (1, "rename", lambda: (draw.choice(FOLDERS[1:]), folder(), draw.choice([0, RENAME_EXCHANGE]))),
        (3, "link", lambda: (path(), path())),
        (1, "symlink", lambda: (draw.choice(NAMES), path())),
        (2, "chmod", lambda: (path(), draw.choice([0o600, 0o755, 0o444]))),
        (2, "utimens", lambda: (draw.choice([path(), draw.choice(FOLDERS)]), moment(), moment())),
        (3, "truncate", lambda: (path(), offset())),
        (7, "replace", lambda: (path(), size() + draw.choice([0, 0, CHUNK]), draw.randrange(1 << 30))),
        (2, "append", lambda: (path(), size(), draw.randrange(1 << 30))),
        (2, "read_whole", lambda: (path(),)),
        (1, "list", lambda: (draw.choice(FOLDERS),)),
    ]
    _, kind, arguments = draw.choices(kinds, [weight for weight, _, _ in kinds])[0]
    return kind, draw.randrange(PROCESSES), *arguments()


def shown(operation):
    """An operation as a line of a trace."""
    kind, process, *arguments = operation
    if kind == "open":
        names = [name for name in ("O_WRONLY", "O_RDWR", "O_CREAT", "O_EXCL", "O_TRUNC", "O_APPEND", "O_NOFOLLOW", "O_SYNC")
                 if arguments[2] & getattr(os, name) == getattr(os, name)]
        arguments[2] = "|".join(names) or "O_RDONLY"
    return f"process {process}: {kind}({', '.join(str(argument) for argument in arguments)})"


def data(size, salt):
    return random.Random(salt).randbytes(size)


# One process, with what it has open on one side.


class Half:
    """What one process does in one of the two folders; every method is an operation."""

    def __init__(self, root):
        self.root = os.fspath(root)
        self.files = {}
        self.maps = {}

    def _at(self, path):
        return os.path.join(self.root, path)

    def _file(self, slot):
        if slot not in self.files:
            raise OSError(errno.EBADF, "nothing is open here")
        return self.files[slot]

    def open(self, slot, path, flags, mode):
        self.close(slot)
        self.files[slot] = os.open(self._at(path), flags, mode)

    def close(self, slot):
        if mapped := self.maps.pop(slot, None):
            mapped.close()
        if slot in self.files:
            os.close(self.files.pop(slot))

    def dup(self, slot, other):
        source = self._file(slot)
        if other != slot:
            self.close(other)
            self.files[other] = os.dup(source)

    def pwrite(self, slot, offset, size, salt):
        return os.pwrite(self._file(slot), data(size, salt), offset)

    def write(self, slot, size, salt):
        return os.write(self._file(slot), data(size, salt)), os.lseek(self._file(slot), 0, os.SEEK_CUR)

    def pread(self, slot, offset, size):
        return os.pread(self._file(slot), size, offset)

    def read(self, slot, size):
        return os.read(self._file(slot), size), os.lseek(self._file(slot), 0, os.SEEK_CUR)

    def _regular_file(self, slot):
        """Positions in a folder are the filesystem's affair."""
        if stat.S_ISDIR(os.fstat(self._file(slot)).st_mode):
            raise OSError(errno.EISDIR, "a folder")
        return self._file(slot)

    def lseek(self, slot, offset, whence):
        return os.lseek(self._regular_file(slot), offset, whence)

    def seek_hole(self, slot, offset):
        """Where holes lie is the filesystem's affair; that they lie where there is nothing is checked."""
        descriptor = self._regular_file(slot)
        size = os.fstat(descriptor).st_size
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            start = os.lseek(descriptor, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            start = max(offset, size)
        end = outcome(lambda _: os.lseek(descriptor, offset, os.SEEK_HOLE), None)
        os.lseek(descriptor, position, os.SEEK_SET)
        if offset >= size:
            return "beyond the end", end
        assert offset <= start <= size and offset <= end <= size, (offset, start, end, size)
        return "holes are empty", self._is_empty(descriptor, offset, start) or "no"

    def _is_empty(self, descriptor, start, end):
        try:
            return os.pread(descriptor, end - start, start).count(0) == end - start
        except OSError as error:
            # Opened for writing only.
            if error.errno != errno.EBADF:
                raise
            return True

    def ftruncate(self, slot, size):
        os.ftruncate(self._file(slot), size)

    def fallocate(self, slot, mode, offset, size):
        fallocate(self._file(slot), mode, offset, size)

    def copy(self, slot, other, offset, target, size):
        return os.copy_file_range(self._file(slot), self._file(other), size, offset, target)

    def map(self, slot):
        descriptor = self._file(slot)
        size = os.fstat(descriptor).st_size
        if mapped := self.maps.pop(slot, None):
            mapped.close()
        if size:
            self.maps[slot] = mmap.mmap(descriptor, size)
        return size

    def _mapped(self, slot, offset, size):
        """The part of the mapping that the file still has: the rest would be a SIGBUS."""
        if slot not in self.maps:
            return None
        end = min(len(self.maps[slot]), os.fstat(self.files[slot]).st_size, offset + size)
        return slice(offset, end) if offset < end else None

    def store(self, slot, offset, size, salt):
        if part := self._mapped(slot, offset, size):
            self.maps[slot][part] = data(part.stop - part.start, salt)
            self.maps[slot].flush()
            return part.stop

    def load(self, slot, offset, size):
        if part := self._mapped(slot, offset, size):
            return self.maps[slot][part]

    def unmap(self, slot):
        if mapped := self.maps.pop(slot, None):
            mapped.close()

    def fsync(self, slot):
        os.fsync(self._file(slot))

    def fstat(self, slot):
        return facts(os.fstat(self._file(slot)))

    def fchmod(self, slot, mode):
        os.fchmod(self._file(slot), mode)

    def futimens(self, slot, accessed, modified):
        os.utime(self._file(slot), ns=(accessed, modified))

    def flock(self, slot, what):
        fcntl.flock(self._file(slot), what | fcntl.LOCK_NB)

    def lockf(self, slot, what, start, length):
        fcntl.lockf(self._file(slot), what | (0 if what == fcntl.LOCK_UN else fcntl.LOCK_NB), length, start)

    def mkdir(self, path):
        os.mkdir(self._at(path))

    def rmdir(self, path):
        os.rmdir(self._at(path))

    def unlink(self, path):
        os.unlink(self._at(path))

    def rename(self, old, new, flags):
        renameat2(self._at(old), self._at(new), flags)

    def link(self, old, new):
        os.link(self._at(old), self._at(new), follow_symlinks=False)

    def symlink(self, target, path):
        os.symlink(target, self._at(path))

    def chmod(self, path, mode):
        os.chmod(self._at(path), mode)

    def utimens(self, path, accessed, modified):
        os.utime(self._at(path), ns=(accessed, modified), follow_symlinks=False)

    def truncate(self, path, size):
        os.truncate(self._at(path), size)

    def replace(self, path, size, salt):
        return self._write_whole(path, os.O_TRUNC, data(size, salt))

    def append(self, path, size, salt):
        return self._write_whole(path, os.O_APPEND, data(size, salt))

    def _write_whole(self, path, flags, content):
        descriptor = os.open(self._at(path), os.O_WRONLY | os.O_CREAT | flags, 0o600)
        try:
            return os.write(descriptor, content)
        finally:
            os.close(descriptor)

    def read_whole(self, path):
        with open(self._at(path), "rb") as file:
            return file.read()

    def list(self, path):
        return sorted(os.listdir(self._at(path)))

    def close_all(self):
        for slot in range(SLOTS):
            try:
                self.close(slot)
            except OSError:
                # Closing what a dead daemon served fails, and closes.
                self.files.pop(slot, None)

    def writable(self):
        """The inodes that this process could change without opening them."""
        return {
            os.fstat(descriptor).st_ino for descriptor in self.files.values()
            if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY}


def serve(channel, roots):
    """A process: does what it is told on both sides, and says what came of it."""
    mounted, local = (Half(root) for root in roots)
    while (operation := channel.recv()) is not None:
        kind, arguments = operation
        if kind == "close_all":
            mounted.close_all(), local.close_all()
            channel.send((None, None, set()))
            continue
        results = []
        for half in (mounted, local):
            result = outcome(lambda half: getattr(half, kind)(*arguments), half)
            if kind == "map" and half is mounted and result == ("failed", "ENODEV"):
                # S14's exception: no shared mapping beside a write-only descriptor. There is none on either side then.
                local.unmap(arguments[0])
                results = [None, None]
                break
            results.append(result)
        channel.send((*results, local.writable()))


class Processes:
    """The processes, which act one after the other."""

    def __init__(self, *roots):
        context = multiprocessing.get_context("fork")
        self.channels, self.processes = [], []
        self.writable = [set() for _ in range(PROCESSES)]
        for _ in range(PROCESSES):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, roots), daemon=True)
            process.start()
            theirs.close()
            self.channels.append(ours)
            self.processes.append(process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for channel in self.channels:
            try:
                channel.send(None)
            except OSError:
                pass
        for process in self.processes:
            process.join(20)
            if process.is_alive():
                process.kill()
                process.join(20)

    def play(self, operation):
        """What an operation gave on both sides."""
        kind, number, *arguments = operation
        channel = self.channels[number]
        channel.send((kind, arguments))
        if not channel.poll(120):
            raise Difference("no answer within 120 s")
        try:
            mounted, local, self.writable[number] = channel.recv()
        except EOFError:
            raise Difference("the process that did it is dead") from None
        return mounted, local

    def close_all(self):
        for number in range(PROCESSES):
            self.play(("close_all", number))

    @property
    def open_inodes(self):
        return set().union(*self.writable)


# What one sees.


class Difference(Exception):
    """The two sides differ."""


def facts(status):
    modified = status.st_mtime_ns if status.st_mtime_ns < SET_BEFORE else "later"
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    return status.st_mode, status.st_nlink, status.st_uid, status.st_gid, size, modified


def look(root, contents=True):
    """Everything below a folder: relative path → (facts, content or target); and which names are one file."""
    seen, names = {"": (facts(os.stat(root)), None)}, {}

    def visit(folder, prefix):
        for entry in os.scandir(folder):
            status = os.lstat(entry.path)
            relative = prefix + entry.name
            content = None
            if stat.S_ISDIR(status.st_mode):
                visit(entry.path, relative + "/")
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(entry.path)
            else:
                names.setdefault(status.st_ino, set()).add(relative)
                if contents:
                    with open(entry.path, "rb", buffering=0) as file:
                        content = file.readall()
            seen[relative] = (facts(status), content)

    visit(root, "")
    return seen, sorted(map(sorted, names.values()))


def compare(mounted, local):
    """Raises Difference with the first thing that is not alike."""
    (mount_tree, mount_names), (plain_tree, plain_names) = mounted, local
    if mount_tree.keys() != plain_tree.keys():
        raise Difference(
            f"only in the mount: {sorted(mount_tree.keys() - plain_tree.keys())}, "
            f"only in the plain directory: {sorted(plain_tree.keys() - mount_tree.keys())}")
    for path, (mount_facts, mount_content) in mount_tree.items():
        plain_facts, plain_content = plain_tree[path]
        if mount_facts != plain_facts:
            raise Difference(f"{path!r}: (mode, links, owner, group, size, time) {mount_facts}, should be {plain_facts}")
        if mount_content != plain_content:
            raise Difference(f"{path!r}: {described(mount_content, plain_content)}")
    if mount_names != plain_names:
        raise Difference(f"hard links: {mount_names}, should be {plain_names}")


def described(found, expected):
    """Where two contents differ, in few words."""
    if not isinstance(found, bytes) or not isinstance(expected, bytes):
        return f"{found!r:.200}, should be {expected!r:.200}"
    if len(found) != len(expected):
        return f"{len(found)} bytes, should be {len(expected)}"
    at = [index for index in range(len(found)) if found[index] != expected[index]]
    return (f"{len(at)} of {len(found)} bytes differ, from {at[0]} to {at[-1]}: {found[at[0]:at[0] + 16].hex()}, "
            f"should be {expected[at[0]:at[0] + 16].hex()}")


def check(results):
    mounted, local = results
    if mounted != local:
        if isinstance(mounted, tuple) and isinstance(local, tuple) and isinstance(mounted[0], bytes):
            mounted, local = mounted[0], local[0]
        raise Difference(f"in the mount {described(mounted, local)}")
