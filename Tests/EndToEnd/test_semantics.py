"""docs/semantics.md, statement by statement: the mount against a plain directory.

Each test names the statements (S1, S2 …) that it holds the mount to; the last test checks that none is left out.
"""

import ctypes
import errno
import fcntl
import hashlib
import mmap
import multiprocessing
import os
import pathlib
import random
import re
import select
import shutil
import socket
import sqlite3
import stat
import subprocess
import tempfile
import threading
import time

import pytest

from conftest import has_libfuse_3_17
from filesystems import (
    FALLOC_COLLAPSE, FALLOC_INSERT, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO, RENAME_EXCHANGE, RENAME_NOREPLACE,
    as_user, child, fallocate, libc, make_sample, opened, outcome, renameat2, run, tree)
from harness import wait_until

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
F_OFD_SETLK = 37
HAS_NAMELESS_FILES = has_libfuse_3_17()

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


# Both sides


@pytest.fixture
def root(request):
    """The mount's root; that of a mount with --allow-other for tests that ask for `others`."""
    if "others" not in request.fixturenames:
        return request.getfixturevalue("capture")
    mount = request.getfixturevalue("new_mount")(request.getfixturevalue("receiver"), "--allow-other")
    os.chmod(mount.root, 0o777)
    return mount.root


@pytest.fixture
def others():
    """Other users take part in this test."""


@pytest.fixture
def work(root):
    """A folder of this test in the mount."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="semantics-", dir=root))
    yield path
    shutil.rmtree(path, ignore_errors=True)
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    left = [os.readlink(link) for link in links if os.path.islink(link)]
    # An open descriptor would keep the mount busy and hide the next failure.
    assert not [target for target in left if path.name in target]


@pytest.fixture
def plain(tmp_path_factory):
    """A folder of this test outside of the mount."""
    return tmp_path_factory.mktemp("plain")


@pytest.fixture
def both(work, plain):
    """Runs an action in the mount and in a plain folder, and holds the first to the second."""

    def run(action):
        mounted, local = outcome(action, work), outcome(action, plain)
        assert mounted == local, f"in the mount: {mounted!r}, in a plain directory: {local!r}"
        return mounted

    return run


# Names


def test_operations_on_names_fail_and_succeed_as_locally(both):
    """S1"""
    both(lambda d: (d / "a").mkdir())
    both(lambda d: (d / "a" / "f").write_bytes(b"x"))
    for action in [
        lambda d: (d / "a").mkdir(),
        lambda d: (d / "a" / "f").mkdir(),
        lambda d: (d / "none" / "b").mkdir(),
        lambda d: (d / "a" / "f" / "b").mkdir(),
        lambda d: (d / "a").rmdir(),
        lambda d: (d / "a" / "f").rmdir(),
        lambda d: (d / "none").rmdir(),
        lambda d: os.unlink(d / "none"),
        lambda d: os.unlink(d / "a"),
        lambda d: opened(d / "a", os.O_WRONLY),
        lambda d: opened(f"{d}/a/f/", os.O_RDONLY),
        lambda d: opened(d / "a" / "f", os.O_RDONLY | os.O_DIRECTORY),
        lambda d: opened(d / "a" / "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY),
        lambda d: opened(d / "none", os.O_RDONLY),
        lambda d: os.rename(d / "none", d / "b"),
        lambda d: os.rename(d / "a", d / "a" / "below"),
        lambda d: os.rename(d / "a" / "f", d / "a"),
        lambda d: os.rename(d / "a", d / "a" / "f"),
        lambda d: os.rename(d / "a" / "f", d / "none" / "f"),
        lambda d: os.link(d / "a", d / "hard"),
        lambda d: os.link(d / "a" / "f", d / "a" / "f"),
        lambda d: os.symlink("x", d / "a"),
        lambda d: os.symlink("loop", d / "loop"),
        lambda d: opened(d / "loop", os.O_RDONLY),
        lambda d: opened(d / "loop", os.O_RDONLY | os.O_NOFOLLOW),
        lambda d: os.readlink(d / "a" / "f"),
        lambda d: os.stat(d / "a" / "f" / "below"),
        lambda d: os.rename(d / "a" / "f", d / "g"),
        lambda d: os.stat(d / "a" / "f"),
        lambda d: (d / "a").rmdir(),
        lambda d: os.stat(d / "a"),
        lambda d: tree(d, times=False),
    ]:
        both(action)


def test_a_tree_that_is_built_changed_and_removed_is_the_same_on_both_sides(both):
    """S1: thousands of operations drawn from one seed"""
    seed = 20261121

    def play(d):
        draw = random.Random(seed)
        names = [f"n{index}" for index in range(12)]
        log = []
        for step in range(1500):
            folder = d.joinpath(*[draw.choice(names) for _ in range(draw.randrange(3))])
            one, other = folder / draw.choice(names), d / draw.choice(names)
            size, what = draw.randrange(20000), draw.randrange(9)
            log.append(
                outcome(
                    lambda _: [
                        lambda: one.mkdir(),
                        lambda: one.write_bytes(draw.randbytes(size)) and None,
                        lambda: os.rename(one, other),
                        lambda: os.unlink(one),
                        lambda: one.rmdir(),
                        lambda: os.link(one, other),
                        lambda: os.symlink(f"t{step}", one),
                        lambda: os.truncate(one, size),
                        lambda: renameat2(one, other, RENAME_EXCHANGE) and None,
                    ][what](),
                    d,
                ))
        return log, tree(d, times=False)

    both(play)


@pytest.mark.parametrize(
    "name",
    [
        b"with space", "Übung – 测试".encode(), b"line\nbreak", b".hidden", b"-rf", b"bad-\xff\xfe-utf8", b"tab\tquote'\"\\",
        b"n" * 255, "ü".encode() * 127, b"a%2Fb", b"*", b"...",
    ],
)
def test_any_name_can_be_used(work, name):
    """S2"""
    path = os.path.join(os.fsencode(work), name)
    with open(path, "wb") as file:
        file.write(name)
    assert os.listdir(os.fsencode(work)) == [name]
    with open(path, "rb") as file:
        assert file.read() == name
    os.rename(path, path[:-1] if len(name) > 200 else path + b"2")
    assert not os.path.exists(path)


def test_names_and_paths_that_are_too_long_are_refused(both):
    """S2"""
    assert both(lambda d: (d / ("n" * 256)).write_bytes(b"")) == ("failed", "ENAMETOOLONG")
    both(lambda d: (d / ("n" * 256)).mkdir())
    both(lambda d: os.stat(d / ("n" * 256)))
    both(lambda d: (d / "f").write_bytes(b""))
    both(lambda d: os.rename(d / "f", d / ("n" * 256)))
    both(lambda d: os.stat(d / ("/".join(["n" * 200] * 25))))


def test_directories_can_be_deeper_than_a_path_is_long(both):
    """S2"""

    def dig(d):
        levels, name = 40, "n" * 200
        start = os.open(d, os.O_RDONLY)
        here = os.dup(start)
        for _ in range(levels):
            os.mkdir(name, dir_fd=here)
            below = os.open(name, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        descriptor = os.open("bottom", os.O_CREAT | os.O_RDWR, 0o600, dir_fd=here)
        os.write(descriptor, b"deep")
        os.close(descriptor)
        size = os.stat("bottom", dir_fd=here).st_size
        os.rename("bottom", "renamed", src_dir_fd=here, dst_dir_fd=here)
        os.unlink("renamed", dir_fd=here)
        os.close(here)
        os.close(start)
        run("rm", "-r", name, cwd=d)
        return size, os.listdir(d)

    assert both(dig) == (4, [])


def test_rename_replaces_atomically(work):
    """S3"""
    target = work / "current"
    target.write_bytes(b"0" * 1000)
    fresh = [work / f".current.{index}" for index in range(1000)]
    for index, path in enumerate(fresh):
        path.write_bytes(str(index % 10).encode() * 1000)
    stop = threading.Event()
    wrong = []
    reads = [0, 0]

    def watch(number):
        while not stop.is_set():
            # What a thread raises would be no more than a warning.
            try:
                content = target.read_bytes()
            except OSError as error:
                wrong.append(repr(error))
                continue
            reads[number] += 1
            if len(content) != 1000 or len(set(content)) != 1:
                wrong.append(content)

    watchers = [threading.Thread(target=watch, args=[number]) for number in range(len(reads))]
    for watcher in watchers:
        watcher.start()
    try:
        # Without a pause, so that a reader's second try is overtaken too.
        for path in fresh:
            os.rename(path, target)
    finally:
        stop.set()
        for watcher in watchers:
            watcher.join()
    assert wrong == []
    assert min(reads) > 0
    assert os.listdir(work) == ["current"]


def test_rename_flags_act_as_locally(both):
    """S3"""

    def prepare(d):
        (d / "a").write_bytes(b"a")
        (d / "b").write_bytes(b"b")
        (d / "dir").mkdir()
        (d / "dir" / "inside").write_bytes(b"inside")

    both(prepare)
    for old, new, flags in [
        ("a", "b", RENAME_NOREPLACE), ("a", "c", RENAME_NOREPLACE), ("c", "b", RENAME_EXCHANGE),
        ("c", "none", RENAME_EXCHANGE), ("b", "dir", RENAME_EXCHANGE), ("dir", "b", RENAME_EXCHANGE),
        ("b", "c", RENAME_NOREPLACE | RENAME_EXCHANGE), ("b", "c", 64),
    ]:
        both(lambda d: renameat2(d / old, d / new, flags))
        both(lambda d: tree(d, times=False))


def test_renaming_a_link_onto_its_twin_does_nothing(both):
    """S3"""
    both(lambda d: (d / "a").write_bytes(b"a") and os.link(d / "a", d / "b"))
    both(lambda d: os.rename(d / "a", d / "b"))
    both(lambda d: tree(d, times=False))


def test_hard_links_are_one_file(both):
    """S4"""

    def play(d):
        (d / "sub").mkdir()
        (d / "a").write_bytes(b"one")
        os.link(d / "a", d / "b")
        os.link(d / "b", d / "sub" / "c")
        same = len({os.stat(d / name).st_ino for name in ["a", "b", "sub/c"]})
        (d / "b").write_bytes(b"two")
        first = (d / "a").read_bytes(), os.stat(d / "a").st_nlink
        os.unlink(d / "a")
        os.rename(d / "b", d / "sub" / "b")
        os.chmod(d / "sub" / "c", 0o640)
        return same, first, os.stat(d / "sub" / "b").st_nlink, tree(d, times=False)

    assert both(play)[:3] == (1, (b"two", 3), 2)


def test_symbolic_links_fifos_and_sockets_work(both):
    """S5"""

    def play(d):
        os.symlink("target of any kind\n", d / "link")
        os.symlink("x" * 4000, d / "long")
        os.symlink("file", d / "good")
        (d / "file").write_bytes(b"content")
        os.link(d / "link", d / "link2", follow_symlinks=False)
        os.mkfifo(d / "fifo", 0o600)
        reader = threading.Thread(target=lambda: got.append((d / "fifo").read_bytes()))
        got = []
        reader.start()
        (d / "fifo").write_bytes(b"through the pipe")
        reader.join()
        os.chdir(d)
        try:
            server = socket.socket(socket.AF_UNIX)
            server.bind("socket")
            server.listen()
            client = socket.socket(socket.AF_UNIX)
            client.connect("socket")
            client.close()
            server.close()
        finally:
            os.chdir("/")
        os.mknod(d / "made", stat.S_IFREG | 0o600)
        return got, (d / "good").read_bytes(), tree(d, times=False)

    both(play)


@needs_root
def test_devices_cannot_be_made_and_the_mount_is_nodev_and_nosuid(work, capture):
    """S5"""
    with pytest.raises(PermissionError):
        os.mknod(work / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    flags = os.statvfs(capture).f_flag
    assert flags & os.ST_NODEV and flags & os.ST_NOSUID


def test_an_unlinked_file_works_until_it_is_closed(both):
    """S6"""

    def play(d):
        descriptor = os.open(d / "f", os.O_RDWR | os.O_CREAT, 0o600)
        os.write(descriptor, b"before")
        os.unlink(d / "f")
        os.write(descriptor, b" and after")
        facts = os.fstat(descriptor)
        os.ftruncate(descriptor, 12)
        os.fchmod(descriptor, 0o640)
        os.utime(descriptor, ns=(1, 2))
        again = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
        content = os.pread(again, 100, 0)
        later = os.fstat(descriptor)
        (d / "f").write_bytes(b"another")
        os.close(again)
        os.close(descriptor)
        return facts.st_nlink, facts.st_size, content, later.st_size, later.st_mode, later.st_mtime_ns, tree(d, False)

    both(play)


def test_a_replaced_file_works_until_it_is_closed(both):
    """S6"""

    def play(d):
        (d / "old").write_bytes(b"old")
        (d / "new").write_bytes(b"new")
        with open(d / "old", "r+b") as file:
            os.rename(d / "new", d / "old")
            file.seek(0, 2)
            file.write(b" still here")
            file.flush()
            file.seek(0)
            return file.read(), (d / "old").read_bytes(), os.fstat(file.fileno()).st_nlink

    both(play)


def test_a_removed_current_directory_can_be_asked_about(both):
    """S6"""

    def play(d):
        (d / "gone").mkdir()
        os.chdir(d / "gone")
        try:
            os.rmdir(d / "gone")
            return os.stat(".").st_nlink, os.listdir("."), outcome(lambda _: open("f", "w"), d)
        finally:
            os.chdir("/")

    both(play)


def test_a_listing_is_complete_while_others_come_and_go(work):
    """S7"""
    kept = {f"kept-{index}" for index in range(3000)}
    for name in kept:
        (work / name).write_bytes(b"")
    stop = threading.Event()

    def disturb():
        index = 0
        while not stop.is_set():
            path = work / f"passing-{index % 50}"
            path.write_bytes(b"")
            path.unlink()
            index += 1

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        for _ in range(5):
            seen = [entry.name for entry in os.scandir(work)]
            assert len(seen) == len(set(seen))
            assert kept <= set(seen)
            assert {entry.name for entry in os.scandir(work) if entry.is_file()} >= kept
    finally:
        stop.set()
        disturber.join()
    # rm -r reads and removes at the same time.
    run("rm", "-r", work)
    assert not work.exists()


def test_positions_in_a_listing_stay_valid(work):
    """S7"""
    for index in range(500):
        (work / f"f{index}").write_bytes(b"")

    class Entry(ctypes.Structure):
        _fields_ = [
            ("ino", ctypes.c_ulong), ("off", ctypes.c_long), ("reclen", ctypes.c_ushort), ("type", ctypes.c_ubyte),
            ("name", ctypes.c_char * 256)]

    libc.opendir.restype = ctypes.c_void_p
    libc.readdir.restype = ctypes.POINTER(Entry)
    libc.telldir.restype = ctypes.c_long
    for function in (libc.readdir, libc.telldir, libc.rewinddir, libc.closedir):
        function.argtypes = [ctypes.c_void_p]
    libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
    stream = libc.opendir(os.fsencode(work))
    first = [libc.readdir(stream).contents.name for _ in range(200)]
    position = libc.telldir(stream)
    rest = []
    while entry := libc.readdir(stream):
        rest.append(entry.contents.name)
    libc.seekdir(stream, position)
    again = []
    while entry := libc.readdir(stream):
        again.append(entry.contents.name)
    assert again == rest
    assert len(set(first + rest)) == 502
    (work / "late").write_bytes(b"")
    libc.rewinddir(stream)
    names = set()
    while entry := libc.readdir(stream):
        names.add(entry.contents.name)
    libc.closedir(stream)
    assert b"late" in names


# Content


def test_what_was_written_is_there_at_once(work):
    """S8"""
    path = work / "f"
    with open(path, "wb", buffering=0) as writer, open(path, "rb", buffering=0) as reader:
        for index in range(200):
            data = os.urandom(1 + index * 37)
            offset = writer.tell()
            writer.write(data)
            assert os.pread(reader.fileno(), len(data), offset) == data
            assert os.stat(path).st_size == offset + len(data)
            assert child(lambda: path.read_bytes()[offset:]) == data


def test_readers_that_hold_pages_see_every_kind_of_writer(both):
    """S8"""

    def play(d):
        (d / "f").write_bytes(b"a" * 10000)
        seen = []
        with open(d / "f", "rb", buffering=0) as reader, open(d / "f", "r+b", buffering=0) as cached:
            seen.append(reader.read(10000))
            with open(os.open(d / "f", os.O_WRONLY), "wb", buffering=0) as writer:
                os.pwrite(writer.fileno(), b"b" * 5000, 2000)
                seen.append(os.pread(reader.fileno(), 10000, 0))
                os.pwrite(cached.fileno(), b"c" * 100, 2500)
                seen.append(os.pread(reader.fileno(), 10000, 0))
                os.pwrite(writer.fileno(), b"d" * 100, 9950)
                seen.append(os.pread(cached.fileno(), 20000, 0))
                os.truncate(d / "f", 3000)
                seen.append(os.pread(reader.fileno(), 20000, 0))
        seen.append((d / "f").read_bytes())
        return seen

    both(play)


def append_lines(path, tag, count, size):
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for index in range(count):
        line = f"{tag} {index} ".encode().ljust(size - 1, b".") + b"\n"
        assert os.write(descriptor, line) == size
    os.close(descriptor)


def test_appends_of_several_processes_do_not_overwrite_each_other(work):
    """S9"""
    path = work / "log"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=append_lines, args=(path, tag, 400, 113)) for tag in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    lines = path.read_bytes().split(b"\n")[:-1]
    assert sorted(tuple(line.split()[:2]) for line in lines) == sorted(
        (tag.encode(), str(index).encode()) for tag in "abc" for index in range(400))
    for tag in b"abc":
        own = [int(line.split()[1]) for line in lines if line[0] == tag]
        assert own == sorted(own)


def test_large_appends_keep_their_order(both):
    """S9"""

    def play(d):
        path = d / "f"
        path.write_bytes(b"start")
        content = random.Random(9).randbytes(5 << 20)
        for flags in [0, os.O_RDWR, os.O_DIRECT]:
            descriptor = os.open(path, os.O_APPEND | (flags or os.O_WRONLY) | (os.O_WRONLY if flags == os.O_DIRECT else 0))
            if flags == os.O_DIRECT:
                os.ftruncate(descriptor, 4096 * 4096)
                with mmap.mmap(-1, len(content)) as aligned:
                    aligned.write(content)
                    os.write(descriptor, aligned)
            else:
                os.write(descriptor, content)
            os.close(descriptor)
        return hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size

    both(play)


def test_truncation_and_creation_flags_act_as_locally(both):
    """S10"""

    def play(d):
        path, log = d / "f", []
        path.write_bytes(b"0123456789" * 1000)
        for size in [10000, 5000, 4096, 4095, 1, 0, 70000, 3]:
            os.truncate(path, size)
            log.append(path.read_bytes())
        with open(path, "r+b") as file:
            file.truncate(100)
            file.seek(200)
            file.write(b"end")
        log.append(path.read_bytes())
        for flags in [
            os.O_TRUNC | os.O_WRONLY, os.O_TRUNC | os.O_RDWR | os.O_CREAT, os.O_CREAT | os.O_RDONLY,
            os.O_TRUNC | os.O_RDONLY, os.O_TRUNC | os.O_CREAT | os.O_RDONLY,
        ]:
            path.write_bytes(b"full")
            os.close(os.open(path, flags, 0o600))
            log.append((path.read_bytes(), path.stat().st_size))
        log.append(outcome(lambda _: opened(path, os.O_CREAT | os.O_EXCL | os.O_RDWR), d))
        os.close(os.open(d / "empty", os.O_CREAT | os.O_RDONLY, 0o640))
        os.close(os.open(d / "created", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o604))
        log.append(outcome(lambda _: os.truncate(path, -1), d))
        log.append(outcome(lambda _: os.truncate(d, 0), d))
        log.append(outcome(lambda _: opened(path, os.O_RDONLY, then=lambda f: os.ftruncate(f, 0)), d))
        log.append(outcome(lambda _: opened(path, os.O_RDONLY, then=lambda f: os.write(f, b"x")), d))
        return log, tree(d, times=False)

    both(play)


def test_holes_are_found_as_locally(both):
    """S11"""

    def play(d):
        descriptor = os.open(d / "f", os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(descriptor, b"x" * 4096, 1 << 20)
        os.pwrite(descriptor, b"y" * 4096, 3 << 20)
        os.ftruncate(descriptor, 5 << 20)
        places = []
        for whence in (os.SEEK_DATA, os.SEEK_HOLE):
            for offset in (0, 4096, 1 << 20, (1 << 20) + 5, 2 << 20, 3 << 20, 4 << 20, 5 << 20, 6 << 20):
                places.append(outcome(lambda _: os.lseek(descriptor, offset, whence), d))
        blocks = os.fstat(descriptor).st_blocks
        os.close(descriptor)
        return places, blocks * 512 < 1 << 20

    both(play)


def test_fallocate_acts_as_locally(both):
    """S12"""

    def play(d):
        descriptor = os.open(d / "f", os.O_RDWR | os.O_CREAT, 0o600)
        os.write(descriptor, b"x" * 50000)
        log = []
        for mode, offset, length in [
            (0, 0, 100000), (FALLOC_KEEP_SIZE, 0, 400000), (FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 4096, 8192),
            (FALLOC_PUNCH_HOLE, 0, 4096), (FALLOC_ZERO, 20000, 3000), (FALLOC_ZERO | FALLOC_KEEP_SIZE, 0, 10),
            (0, 0, 0), (0, 200000, 50),
        ]:
            log.append(outcome(lambda _: fallocate(descriptor, mode, offset, length), d))
            log.append((os.fstat(descriptor).st_size, hashlib.sha256((d / "f").read_bytes()).hexdigest()))
        log.append(os.fstat(descriptor).st_blocks >= 400000 // 512)
        os.close(descriptor)
        return log

    both(play)


def test_ranges_cannot_be_collapsed_or_inserted(work):
    """S12"""
    with open(work / "f", "w+b") as file:
        file.write(b"x" * 65536)
        file.flush()
        for mode in (FALLOC_COLLAPSE, FALLOC_INSERT):
            with pytest.raises(OSError) as failure:
                fallocate(file.fileno(), mode, 0, 4096)
            assert failure.value.errno == errno.EOPNOTSUPP


def test_writes_of_every_size_place_and_flag_give_the_same_bytes(both):
    """S13"""

    def play(d):
        draw = random.Random(13)
        sums = []
        for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_SYNC, os.O_WRONLY | os.O_DSYNC):
            descriptor = os.open(d / f"f{flags}", flags | os.O_CREAT, 0o600)
            for _ in range(60):
                size = draw.choice([1, 100, 4095, 4096, 4097, 131072, 1 << 20, (1 << 20) + 1, 3 << 20])
                os.pwrite(descriptor, draw.randbytes(size), draw.randrange(4 << 20))
            os.writev(descriptor, [b"a" * 10, b"b" * 5000, b"c"])
            os.close(descriptor)
            sums.append(hashlib.sha256((d / f"f{flags}").read_bytes()).hexdigest())
        return sums

    both(play)


def test_direct_writes_and_reads_work(both):
    """S13"""

    def play(d):
        content = random.Random(14).randbytes(5 << 20)
        descriptor = os.open(d / "f", os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
        with mmap.mmap(-1, len(content)) as aligned:
            aligned.write(content)
            written = os.write(descriptor, aligned)
            os.pwrite(descriptor, memoryview(aligned)[:4096], 8192)
            aligned.seek(0)
            aligned.write(bytes(len(content)))
            count = os.preadv(descriptor, [aligned], 0)
            digest = hashlib.sha256(aligned).hexdigest()
        os.close(descriptor)
        return written, count, digest, hashlib.sha256((d / "f").read_bytes()).hexdigest()

    both(play)


def test_parallel_writers_of_one_file_each_get_their_part(work):
    """S13"""
    path, parts, size = work / "f", 8, 700_001
    path.write_bytes(b"")

    def write(index):
        descriptor = os.open(path, os.O_WRONLY if index % 2 else os.O_RDWR)
        data = bytes([index + 1]) * size
        done = 0
        while done < size:
            done += os.pwrite(descriptor, data[done:done + 65_537], index * size + done)
        os.close(descriptor)

    threads = [threading.Thread(target=write, args=(index,)) for index in range(parts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = path.read_bytes()
    assert [content[index * size:(index + 1) * size] == bytes([index + 1]) * size for index in range(parts)] == [True] * parts


def test_mapped_files_can_be_read_and_written(both):
    """S14"""

    def play(d):
        path = d / "f"
        path.write_bytes(b"." * 100_000)
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
            shared[50_000:50_005] = b"store"
            shared.flush()
            flushed = path.read_bytes()
            shared[10:15] = b"later"
            seen = os.pread(file.fileno(), 20, 0)
        closed = path.read_bytes()
        with open(path, "rb") as file:
            with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as reading:
                mapped = bytes(reading[:100])
            with mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as own:
                own[0:3] = b"own"
        return flushed, seen, closed, mapped, path.read_bytes()

    both(play)


def test_a_mapping_outlives_its_descriptor(both):
    """S14"""

    def play(d):
        path = d / "f"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(descriptor, 8192)
        shared = mmap.mmap(descriptor, 8192)
        os.close(descriptor)
        shared[0:4] = b"late"
        shared.close()
        return path.read_bytes()

    both(play)


def test_a_private_mapping_works_beside_a_write_only_writer(work):
    """S14"""
    path = work / "f"
    with open(path, "wb", buffering=0) as writer:
        writer.write(b"x" * 8192)
        with open(path, "rb") as reader:
            with mmap.mmap(reader.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) as mapped:
                assert bytes(mapped[:4]) == b"xxxx"
            try:
                mmap.mmap(reader.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ).close()
            except OSError as error:
                assert error.errno == errno.ENODEV
    with open(path, "rb") as reader:
        mmap.mmap(reader.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ).close()


def test_files_and_directories_can_be_made_durable(both):
    """S15"""

    def play(d):
        with open(d / "f", "wb") as file:
            file.write(b"x" * 100_000)
            file.flush()
            os.fsync(file.fileno())
            os.fdatasync(file.fileno())
        folder = os.open(d, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    both(play)


def test_kernel_copies_work_and_reflinks_are_refused(work, plain):
    """S16"""
    content = os.urandom(3_000_001)
    (plain / "source").write_bytes(content)
    (work / "source").write_bytes(content)
    for source in (plain / "source", work / "source"):
        for target in (work / "copied", plain / "copied"):
            with open(source, "rb") as reader, open(target, "wb") as writer:
                done = 0
                while done < len(content):
                    try:
                        done += os.copy_file_range(reader.fileno(), writer.fileno(), len(content) - done)
                    except OSError as error:
                        # Across filesystems the kernel may leave it to the caller.
                        assert error.errno in (errno.EXDEV, errno.EOPNOTSUPP, errno.EINVAL) and done == 0
                        done = os.write(writer.fileno(), reader.read())
            assert target.read_bytes() == content
    with open(work / "source", "rb") as reader, open(work / "sent", "wb") as writer:
        done = 0
        while done < len(content):
            done += os.sendfile(writer.fileno(), reader.fileno(), done, len(content) - done)
    assert (work / "sent").read_bytes() == content
    with open(work / "source", "rb") as reader, open(work / "clone", "wb") as writer, pytest.raises(OSError):
        fcntl.ioctl(writer.fileno(), 0x40049409, reader.fileno())


@pytest.mark.skipif(HAS_NAMELESS_FILES, reason="libfuse 3.17 has them")
def test_files_without_a_name_are_refused_by_an_old_libfuse(mount):
    """S16"""
    with pytest.raises(OSError) as failure:
        os.open(mount.root, os.O_TMPFILE | os.O_RDWR)
    assert failure.value.errno == errno.EOPNOTSUPP


needs_nameless_files = pytest.mark.skipif(
    not HAS_NAMELESS_FILES, reason="no O_TMPFILE here: needs libfuse 3.17 (scripts/in-debian13 has it)")


def give_name(descriptor, path):
    # os.link() follows no symbolic link unless it is given a folder's descriptor.
    os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)


@needs_nameless_files
def test_a_file_without_a_name_is_delivered_once_it_has_one(mount, receiver):
    """S16"""
    (mount.root / "sub").mkdir()
    descriptor = os.open(mount.root / "sub", os.O_TMPFILE | os.O_RDWR, 0o640)
    try:
        assert os.fstat(descriptor).st_nlink == 0 and os.listdir(mount.root / "sub") == []
        os.write(descriptor, b"first ")
        os.fsync(descriptor)
        give_name(descriptor, mount.root / "take.mov")
        assert os.fstat(descriptor).st_nlink == 1
        os.write(descriptor, b"second")
        with pytest.raises(FileExistsError):
            give_name(descriptor, mount.root / "take.mov")
    finally:
        os.close(descriptor)
    mount.wait_for("take.mov", "complete")
    assert (receiver.files / "take.mov").read_bytes() == b"first second"
    assert (mount.root / "take.mov").stat().st_mode & 0o7777 == 0o640


@needs_nameless_files
def test_a_file_that_never_gets_a_name_leaves_nothing(mount, receiver):
    """S16"""
    before = os.statvfs(mount.root).f_bfree
    for flags in (os.O_TMPFILE | os.O_RDWR, os.O_TMPFILE | os.O_WRONLY | os.O_EXCL):
        descriptor = os.open(mount.root, flags)
        os.write(descriptor, bytes(8 << 20))
        if flags & os.O_EXCL:
            with pytest.raises(FileNotFoundError):
                give_name(descriptor, mount.root / "excluded")
        os.close(descriptor)
    wait_until(lambda: os.statvfs(mount.root).f_bfree >= before - 256, lambda: os.statvfs(mount.root))
    (mount.root / "other").write_bytes(b"other")
    mount.wait_for("other", "complete")
    assert receiver.published() == {"other": 5} and os.listdir(mount.spool / "captures") == ["other"]


@needs_nameless_files
def test_a_file_without_a_name_works_as_a_local_one(mount, tmp_path):
    """S16"""
    facts = []
    (mount.root / "work").mkdir()
    for folder in (mount.root / "work", tmp_path):
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"0123456789" * 1000)
            file.truncate(5000)
            file.seek(0)
            status = os.fstat(file.fileno())
            facts.append((file.read(), status.st_nlink, status.st_size, stat.filemode(status.st_mode), os.listdir(folder)))
            with open(f"/proc/self/fd/{file.fileno()}", "rb") as again:
                facts[-1] += (again.read(),)
        facts[-1] += (os.listdir(folder),)
    assert facts[0] == facts[1]


def test_a_growing_file_can_be_followed(work):
    """S17"""
    path = work / "log"
    with open(path, "wb", buffering=0) as writer, open(path, "rb", buffering=0) as reader:
        for index in range(300):
            line = f"line {index} ".encode() * (1 + index % 7)
            writer.write(line)
            assert reader.read() == line
            assert reader.read() == b""


def test_a_follower_that_came_first_never_reads_zeros(work):
    """S17: the reader caches the last page before a write-only writer opens the file"""
    path = work / "log"
    path.write_bytes(b"s" * 100)
    with open(path, "rb", buffering=0) as reader:
        assert reader.read() == b"s" * 100
        stop = threading.Event()
        wrong = []

        def follow():
            while not stop.is_set():
                if b"\0" in reader.read(65536):
                    wrong.append(reader.tell())

        follower = threading.Thread(target=follow)
        follower.start()
        with open(os.open(path, os.O_WRONLY | os.O_APPEND), "wb", buffering=0) as writer:
            for _ in range(3000):
                writer.write(b"x" * 37)
        stop.set()
        follower.join()
    assert wrong == []


# Attributes


def test_attributes_can_be_changed_as_locally(both):
    """S18"""

    def play(d):
        path, log = d / "f", []
        path.write_bytes(b"x")
        for mode in (0o600, 0o444, 0o755, 0o1644, 0o7777, 0):
            os.chmod(path, mode)
            log.append(stat.S_IMODE(path.stat().st_mode))
        os.chmod(path, 0o644)
        for times in [(1, 2), (1_700_000_000_123_456_789, 1_600_000_000_987_654_321), (-1_000_000_001, 0), (0, 1 << 61)]:
            os.utime(path, ns=times)
            log.append((path.stat().st_atime_ns, path.stat().st_mtime_ns))
        os.symlink("f", d / "link")
        os.utime(d / "link", ns=(5, 6), follow_symlinks=False)
        log.append(((d / "link").lstat().st_mtime_ns, path.stat().st_mtime_ns))
        (d / "sub").mkdir(0o700)
        os.chmod(d / "sub", 0o2770)
        os.utime(d / "sub", ns=(7, 8))
        log.append((stat.S_IMODE((d / "sub").stat().st_mode), (d / "sub").stat().st_mtime_ns))
        with open(path, "r+b") as file:
            os.fchmod(file.fileno(), 0o640)
            os.utime(file.fileno(), ns=(9, 10))
            log.append((os.fstat(file.fileno()).st_mode, path.stat().st_mtime_ns))
        log.append(path.stat().st_mtime_ns)
        return log

    both(play)


def test_touch_and_omitted_times(both):
    """S18"""

    def play(d):
        path = d / "f"
        path.write_bytes(b"x")
        os.utime(path, ns=(1000, 2000))
        run("touch", "-a", path)
        first = path.stat().st_mtime_ns, path.stat().st_atime_ns > 2000
        run("touch", "-m", path)
        return first, path.stat().st_mtime_ns > 2000

    assert both(play) == ((2000, True), True)


@needs_root
def test_owners_can_be_changed_as_locally(both):
    """S18"""

    def play(d):
        path = d / "f"
        path.write_bytes(b"x")
        os.chmod(path, 0o6755)
        os.chown(path, 1234, 2345)
        first = path.stat()
        os.chown(path, -1, 99)
        os.symlink("f", d / "link")
        os.lchown(d / "link", 7, 8)
        os.chown(d, 55, 66)
        last, link = path.stat(), (d / "link").lstat()
        return first.st_mode, first.st_uid, first.st_gid, last.st_uid, last.st_gid, link.st_uid, d.stat().st_uid

    both(play)


def test_times_move_when_they_do_locally(both):
    """S19"""

    def play(d):
        path, log = d / "f", []
        path.write_bytes(b"x")

        def moved(action, watched=path):
            os.utime(path, ns=(1000, 1000))
            os.utime(d, ns=(1000, 1000))
            before = watched.stat()
            action()
            after = watched.stat()
            log.append((after.st_mtime_ns != before.st_mtime_ns, after.st_ctime_ns != before.st_ctime_ns))

        moved(lambda: path.write_bytes(b"y"))
        moved(lambda: os.truncate(path, 100))
        moved(lambda: os.chmod(path, 0o640))
        moved(lambda: path.read_bytes())
        moved(lambda: os.link(path, d / "g"))
        moved(lambda: os.unlink(d / "g"))
        moved(lambda: (d / "h").mkdir(), d)
        moved(lambda: (d / "h").rmdir(), d)
        moved(lambda: path.write_bytes(b"z"), d)
        moved(lambda: os.rename(path, d / "i") or os.rename(d / "i", path), d)
        return log

    both(play)


@needs_root
def test_a_mount_without_allow_other_is_closed_to_others(capture, work):
    """S21"""
    os.chmod(capture, 0o777)
    with pytest.raises(PermissionError):
        as_user(65534, 65534, os.listdir, capture)


@needs_root
def test_new_objects_belong_to_their_maker(others, both):
    """S20"""
    def make(d):
        os.umask(0o027)
        (d / "file").write_bytes(b"x")
        (d / "folder").mkdir()
        os.symlink("x", d / "link")
        os.mkfifo(d / "fifo")
        (d / "shared" / "file").write_bytes(b"x")
        (d / "shared" / "folder").mkdir()
        os.close(os.open(d / "bits", os.O_CREAT | os.O_WRONLY, 0o4711))
        return None

    def play(d):
        for parent in list(d.parents)[:3]:
            if parent.stat().st_mode & 0o001 == 0:
                os.chmod(parent, 0o755)
        os.chmod(d, 0o777)
        (d / "shared").mkdir()
        os.chown(d / "shared", 0, 4321)
        os.chmod(d / "shared", 0o2777)
        as_user(1111, 2222, make, d)
        return tree(d, times=False)

    both(play)


@needs_root
def test_permissions_are_checked_by_owner_group_and_mode(others, both):
    """S21"""
    def attempts(d):
        return [
            outcome(action, d)
            for action in [
                lambda d: (d / "private").read_bytes(),
                lambda d: (d / "readable").read_bytes(),
                lambda d: (d / "readable").write_bytes(b"no"),
                lambda d: (d / "closed" / "f").read_bytes(),
                lambda d: (d / "closed" / "new").write_bytes(b""),
                lambda d: (d / "sticky" / "f").unlink(),
                lambda d: os.rename(d / "sticky" / "f", d / "sticky" / "g"),
                lambda d: os.chmod(d / "readable", 0o777),
                lambda d: os.chown(d / "own", 0, 0),
                lambda d: os.utime(d / "readable", ns=(1, 1)),
                lambda d: (d / "own").write_bytes(b"yes"),
                lambda d: os.chmod(d / "own", 0o400),
                lambda d: (d / "own").write_bytes(b"no"),
                lambda d: (d / "own").read_bytes(),
            ]
        ]

    def play(d):
        for parent in list(d.parents)[:3]:
            if parent.stat().st_mode & 0o001 == 0:
                os.chmod(parent, 0o755)
        os.chmod(d, 0o755)
        for name, mode in [("private", 0o600), ("readable", 0o644), ("own", 0o600)]:
            (d / name).write_bytes(name.encode())
            os.chmod(d / name, mode)
        os.chown(d / "own", 1111, 2222)
        (d / "closed").mkdir(0o700)
        (d / "sticky").mkdir()
        os.chmod(d / "sticky", 0o1777)
        (d / "sticky" / "f").write_bytes(b"")
        return as_user(1111, 2222, attempts, d)

    both(play)


@needs_root
def test_a_write_of_an_ordinary_user_clears_the_set_id_bits(others, both):
    """S22"""
    def append(path):
        with open(path, "ab") as file:
            file.write(b"x")

    def play(d):
        for parent in list(d.parents)[:3]:
            if parent.stat().st_mode & 0o001 == 0:
                os.chmod(parent, 0o755)
        os.chmod(d, 0o777)
        path = d / "f"
        path.write_bytes(b"x")
        os.chown(path, 1111, 2222)
        os.chmod(path, 0o6777)
        as_user(3333, 3333, append, path)
        return stat.S_IMODE(path.stat().st_mode), path.read_bytes()

    assert both(play) == (0o777, b"xx")


def test_there_are_no_extended_attributes(work):
    """S23"""
    path = work / "f"
    path.write_bytes(b"x")
    for action in [
        lambda: os.setxattr(path, "user.note", b"x"),
        lambda: os.getxattr(path, "user.note"),
        lambda: os.listxattr(path),
        lambda: os.removexattr(path, "user.note"),
    ]:
        with pytest.raises(OSError) as failure:
            action()
        assert failure.value.errno == errno.EOPNOTSUPP
    with fails_with(errno.ENODATA, errno.EOPNOTSUPP):
        os.getxattr(path, "system.posix_acl_access")


# Locks, waiting


def try_lock(kind, path):
    with open(path, "r+b") as file:
        try:
            if kind == "flock":
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)
            return "locked"
        except BlockingIOError:
            return "busy"


@pytest.mark.parametrize("kind", ["flock", "posix"])
def test_locks_work_among_processes(work, kind):
    """S24"""
    path = work / "f"
    path.write_bytes(b"x" * 100)
    with open(path, "r+b") as file:
        if kind == "flock":
            fcntl.flock(file, fcntl.LOCK_EX)
        else:
            fcntl.lockf(file, fcntl.LOCK_EX, 10, 0)
        assert child(try_lock, kind, path) == "busy"
        if kind == "flock":
            fcntl.flock(file, fcntl.LOCK_UN)
        else:
            fcntl.lockf(file, fcntl.LOCK_UN, 10, 0)
        assert child(try_lock, kind, path) == "locked"


def test_locks_of_open_files_work(work):
    """S24"""
    import struct

    path = work / "f"
    path.write_bytes(b"x")
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0)
    with open(path, "r+b") as one, open(path, "r+b") as other:
        fcntl.fcntl(one, F_OFD_SETLK, lock)
        with pytest.raises(BlockingIOError):
            fcntl.fcntl(other, F_OFD_SETLK, lock)


def test_captures_are_always_ready(work):
    """S25"""
    with open(work / "f", "w+b") as file:
        poller = select.poll()
        poller.register(file, select.POLLIN | select.POLLOUT)
        assert poller.poll(5000) == [(file.fileno(), select.POLLIN | select.POLLOUT)]
        assert select.select([file], [file], [], 5)[:2] == ([file], [file])


def test_calls_do_not_wait_for_the_network(work):
    """S26: a file is written, read, renamed and removed at once, whatever its upload does"""
    begun = time.monotonic()
    for index in range(50):
        path = work / f"f{index}"
        path.write_bytes(b"x" * 10_000)
        os.rename(path, work / "renamed")
        assert (work / "renamed").stat().st_size == 10_000
        os.unlink(work / "renamed")
    assert time.monotonic() - begun < 20


# Space and size


def test_free_space_is_that_of_the_spool_less_the_reserve(capture):
    """S27"""
    numbers = os.statvfs(capture)
    assert numbers.f_namemax == 255
    assert 0 <= numbers.f_bavail <= numbers.f_bfree <= numbers.f_blocks
    run("df", capture)


def test_files_beyond_the_largest_size_are_refused_at_once(work):
    """S29"""
    path, too_large = work / "f", 100_000_000_001
    path.write_bytes(b"x")
    with open(path, "r+b") as file:
        for action in [
            lambda: os.truncate(path, too_large),
            lambda: file.truncate(too_large),
            lambda: os.pwrite(file.fileno(), b"x", too_large - 1),
            lambda: fallocate(file.fileno(), 0, too_large - 1, 1),
        ]:
            with pytest.raises(OSError) as failure:
                action()
            assert failure.value.errno == errno.EFBIG
    assert path.read_bytes() == b"x"


# Virtual files


def virtual_file(capture):
    """Some file of .uploadfs that is a plain virtual file."""
    names = sorted(entry.name for entry in os.scandir(capture / ".uploadfs") if entry.is_file(follow_symlinks=False))
    assert names
    return capture / ".uploadfs" / ("summary.json" if "summary.json" in names else names[0])


def fails_with(*codes):
    """A context in which an OSError with one of these errnos has to be raised."""

    class Expected:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, _):
            assert isinstance(error, OSError), "nothing failed"
            assert error.errno in codes, errno.errorcode[error.errno]
            return True

    return Expected()


def test_the_virtual_tree_is_read_only_and_its_names_are_taken(capture, work):
    """S30"""
    assert {"status", ".uploadfs"} <= set(os.listdir(capture))
    refused = (errno.EROFS, errno.EACCES)
    (work / "f").write_bytes(b"x")
    for name in ("status", ".uploadfs"):
        root = capture / name
        assert root.is_dir()
        with fails_with(errno.EEXIST):
            root.mkdir()
        with fails_with(errno.EEXIST):
            os.symlink("x", root)
        with fails_with(errno.EEXIST):
            os.link(work / "f", root)
        with fails_with(errno.EPERM, errno.EISDIR):
            os.rename(work / "f", root)
        with fails_with(errno.EPERM):
            os.rename(work, root)
        with fails_with(errno.EPERM):
            os.rename(root, work / "moved")
        with fails_with(errno.EPERM):
            renameat2(work, root, RENAME_EXCHANGE)
        with fails_with(errno.EPERM):
            root.rmdir()
        with fails_with(*refused):
            (root / "new").write_bytes(b"")
        with fails_with(*refused):
            (root / "new").mkdir()
        with fails_with(*refused):
            os.rename(work / "f", root / "f")
        with fails_with(*refused):
            os.chmod(root, 0o777)
        (work / name).write_bytes(b"free here")
        assert (work / name).read_bytes() == b"free here"
    path = virtual_file(capture)
    for action in [
        lambda: open(path, "wb"), lambda: open(path, "ab"), lambda: os.truncate(path, 0), lambda: os.unlink(path),
        lambda: os.chmod(path, 0o777), lambda: os.utime(path, ns=(1, 1)),
    ]:
        with fails_with(*refused, errno.EPERM):
            action()


def test_a_virtual_file_is_as_long_as_it_says_and_stays_consistent_while_open(capture, work):
    """S31"""
    path = virtual_file(capture)
    assert path.stat().st_size > 0
    for _ in range(20):
        size, content = path.stat().st_size, path.read_bytes()
        if path.stat().st_size == size:
            assert len(content) in (size, path.stat().st_size)
    descriptor = os.open(path, os.O_RDONLY)
    first = os.read(descriptor, 3)
    (work / "change").write_bytes(b"x" * 5000)
    rest = b""
    while part := os.read(descriptor, 7):
        rest += part
    content = first + rest
    if path.suffix == ".json":
        import json

        json.loads(content)
    assert content.endswith(b"\n") or content.endswith(b"}")
    os.close(descriptor)
    with fails_with(errno.ENOENT):
        os.stat(capture / ".uploadfs" / "nothing of this name")


def test_names_of_status_files_may_be_longer_than_255_bytes(capture):
    """S31"""
    name = "n" * 255
    (capture / name).write_bytes(b"x")
    path = capture / "status" / (name + ".json")
    if not path.exists():
        path = next((entry for entry in (capture / "status").iterdir() if len(entry.name) > 255), None)
    assert path is not None and path.name in os.listdir(capture / "status")
    assert path.read_bytes()
    os.unlink(capture / name)


def test_poll_wakes_the_reader_of_a_virtual_file(capture, work):
    """S32"""
    path = virtual_file(capture)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        for index in range(3):
            before = os.pread(descriptor, 1 << 20, 0)
            timer = threading.Timer(0.2, lambda: (work / f"f{index}").write_bytes(b"x" * 10_000))
            timer.start()
            deadline = time.monotonic() + 20
            while True:
                ready = poller.poll(max(0, deadline - time.monotonic()) * 1000)
                assert ready == [(descriptor, select.POLLIN)], "poll was not woken within 20 s"
                after = os.pread(descriptor, 1 << 20, 0)
                if after != before:
                    break
            timer.join()
    finally:
        os.close(descriptor)


# Programs


def test_cp_copies_a_tree_with_everything(work, plain):
    """S37"""
    make_sample(plain)
    run("cp", "-a", f"{plain}/.", work / "copy")
    assert tree(work / "copy") == tree(plain)
    run("cp", "-a", "--sparse=always", work / "copy", work / "again")
    assert tree(work / "again") == tree(plain)
    assert (work / "again" / "sparse").stat().st_blocks * 512 < 1 << 20
    run("diff", "-r", "--no-dereference", "-x", "fifo", plain, work / "again")


@pytest.mark.skipif(shutil.which("rsync") is None, reason="needs rsync")
def test_rsync_keeps_a_tree_up_to_date(work, plain):
    """S37"""
    make_sample(plain)
    run("rsync", "-aH", f"{plain}/", work / "copy/")
    assert tree(work / "copy") == tree(plain)
    for options in (["--inplace"], ["--inplace", "--no-whole-file"], ["--no-whole-file"], ["--append-verify"]):
        with open(plain / "file 1", "ab") as file:
            file.write(os.urandom(70_000))
        with open(plain / "sub" / "deeper" / "file 2", "r+b") as file:
            file.write(b"new head")
        run("rsync", "-aH", "--checksum", *options, f"{plain}/", work / "copy/")
        # --append-verify leaves files that did not grow alone.
        run("rsync", "-aH", "--checksum", f"{plain}/", work / "copy/")
        assert tree(work / "copy") == tree(plain), options
    os.unlink(plain / "file 3")
    run("rsync", "-aH", "--delete", "--delay-updates", f"{plain}/", work / "copy/")
    assert tree(work / "copy") == tree(plain)


def test_tar_unpacks_and_packs(work, plain):
    """S37"""
    make_sample(plain)
    run("tar", "--format=pax", "-cf", work / "archive.tar", "-C", plain, ".")
    (work / "unpacked").mkdir()
    run("tar", "-xpf", work / "archive.tar", "-C", work / "unpacked")
    assert tree(work / "unpacked") == tree(plain)
    run("tar", "--format=pax", "-czf", work / "again.tgz", "-C", work / "unpacked", ".")
    assert subprocess.run(["tar", "-df", work / "again.tgz"], cwd=plain).returncode == 0


def test_dd_writes_in_every_way(both, plain):
    """S37"""
    source = plain / "source"
    source.write_bytes(random.Random(5).randbytes(3_000_000))

    def play(d):
        target = d / "target"
        run("dd", f"if={source}", f"of={target}", "bs=64k")
        run("dd", f"if={source}", f"of={target}", "bs=1000", "count=7", "seek=11", "conv=notrunc")
        run("dd", f"if={source}", f"of={target}", "bs=4096", "count=20", "seek=2000", "conv=notrunc,fsync")
        run("dd", f"if={source}", f"of={d / 'direct'}", "bs=4096", "count=500", "oflag=direct", "iflag=fullblock")
        run("dd", f"if={source}", f"of={d / 'sync'}", "bs=10000", "count=20", "oflag=sync,append", "conv=notrunc")
        run("dd", f"if={source}", f"of={d / 'sparse'}", "bs=1M", "count=1", "seek=50")
        run("dd", f"if={d / 'target'}", f"of={d / 'back'}", "bs=1M", "iflag=direct", "oflag=direct", "count=1")
        return {name: facts[4:] for name, facts in tree(d, times=False).items() if name != b"source"}

    both(play)


@pytest.mark.parametrize("journal", ["delete", "wal", "truncate", "memory"])
def test_sqlite_works(work, journal):
    """S37"""
    path = work / "test.db"
    with sqlite3.connect(path) as database:
        assert database.execute(f"pragma journal_mode={journal}").fetchone()[0] == journal
        database.execute("pragma mmap_size=1000000")
        database.execute("create table t (n integer primary key, b blob)")
        for index in range(20):
            with database:
                database.executemany("insert into t (b) values (?)", [(os.urandom(3000),) for _ in range(20)])
        with database:
            database.execute("delete from t where n % 3 = 0")
        assert child(lambda: sqlite3.connect(path, timeout=20).execute("select count(*) from t").fetchone()[0]) == 267
    database.execute("vacuum")
    assert database.execute("pragma integrity_check").fetchone()[0] == "ok"
    database.close()


def test_git_clones_commits_and_packs(work, plain):
    """S37"""
    environment = dict(
        os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@example.org",
        GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@example.org")
    origin = plain / "origin"
    run("git", "init", "-q", "-b", "main", origin, env=environment)
    for index in range(30):
        (origin / f"f{index}").write_bytes(os.urandom(5000))
    run("git", "add", ".", cwd=origin, env=environment)
    run("git", "commit", "-q", "-m", "one", cwd=origin, env=environment)
    run("git", "clone", "-q", f"file://{origin}", work / "clone", env=environment)
    (work / "clone" / "f1").write_bytes(b"changed")
    os.rename(work / "clone" / "f2", work / "clone" / "moved")
    run("git", "add", "-A", cwd=work / "clone", env=environment)
    run("git", "commit", "-q", "-m", "two", cwd=work / "clone", env=environment)
    run("git", "gc", "-q", cwd=work / "clone", env=environment)
    run("git", "fsck", "--strict", cwd=work / "clone", env=environment)
    assert run("git", "status", "--porcelain", cwd=work / "clone", env=environment) == ""


def test_editors_save_atomically(both):
    """S37"""

    def play(d):
        path = d / "text"
        path.write_text("one")
        os.chmod(path, 0o640)
        for content in ("two", "three"):
            temporary = d / f".text.{content}"
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
            os.write(descriptor, content.encode())
            os.fsync(descriptor)
            os.close(descriptor)
            if (d / "text~").exists():
                os.unlink(d / "text~")
            os.link(path, d / "text~")
            os.rename(temporary, path)
        return tree(d, times=False)

    both(play)


# The document


def test_captures_ask_for_large_writes(work):
    """S73: also of a file that is open, and that was found by its name."""
    path = work / "recording.bin"
    with path.open("wb") as file:
        assert os.fstat(file.fileno()).st_blksize == 128 << 10
    assert path.stat().st_blksize == 128 << 10
    assert [entry.stat().st_blksize for entry in os.scandir(work)] == [128 << 10]


def test_every_statement_has_a_test():
    statements = set(re.findall(r"\*\*(S\d+)\*\*", (REPOSITORY / "docs" / "semantics.md").read_text()))
    tests = REPOSITORY / "Tests"
    sources = [*(tests / "EndToEnd").glob("test_*.py"), *(tests / "UploadFSTests").glob("*.swift")]
    named = set(re.findall(r"\bS\d+\b", "\n".join(source.read_text() for source in sources)))
    assert statements and statements - named == set(), "statements of docs/semantics.md without a test"
