"""Programs that were never meant for anything but a local disk: each runs in the mount and in a plain directory, which must
end up alike; and what the receiver has published in the end is what lies in the plain directory."""

import errno
import fcntl
import mmap
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from filesystems import (
    FALLOC_COLLAPSE, FALLOC_INSERT, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO, RENAME_EXCHANGE, RENAME_NOREPLACE,
    call, child, fallocate, make_sample, outcome, renameat2, run, tree)
from harness import clean_environment, sha256, wait_until, write_random
from programs import COPYING, PASSING, WRITING
from throttle import ThrottlingProxy

CHUNK = 256 << 10

# Names that are never published (TemporaryNameRule): they become something else, or go.
TEMPORARY = re.compile(r"(?i:\.(part|partial|crdownload|download|tmp|temp|swp|swx|swpx)|~)$|^\..+\.[A-Za-z0-9]{6}$")


class Sides:
    """The same folder twice, in a mount and on the spool's own filesystem, and what the receiver makes of the first."""

    def __init__(self, mount, receiver, sample, plain):
        self.mount, self.receiver, self.sample, self.plain = mount, receiver, sample, plain
        self.work = mount.root / "work"
        self.work.mkdir()
        self.plain.chmod(0o755)
        self.work.chmod(0o755)

    def run(self, action):
        """Does the same on both sides; they must show the same."""
        mounted, local = outcome(action, self.work), outcome(action, self.plain)
        assert mounted == local, f"in the mount: {mounted!r}, in a plain directory: {local!r}"
        return mounted

    def shell(self, script):
        """A script of the shell in both folders: exit code, output and tree; programs that it starts included."""

        def play(folder):
            done = subprocess.run(
                ["bash", "-c", f"set -eo pipefail\numask 022\n{script}"], cwd=folder, capture_output=True, text=True,
                stdin=subprocess.DEVNULL, timeout=180, env=environment(SAMPLE=self.sample))
            return done.returncode, done.stdout, done.stderr.replace(str(folder), "FOLDER")

        result = self.run(play)
        assert result[0] == 0, result
        return result

    def assert_trees_are_alike(self, times=False):
        assert tree(self.work, times) == tree(self.plain, times)

    def assert_published(self, passing=None):
        """The receiver shows every file of the plain directory with its bytes, and nothing else; `passing` matches
        names of files which were whole for a while and went again: they may have been published meanwhile. So may one
        of rsync's in 200, whose six random letters might as well be a word (docs/configuration.md)."""
        self.mount.wait_all()
        expected = {
            str(path.relative_to(self.plain)): path for path in self.plain.rglob("*")
            if path.is_file() and not path.is_symlink() and not TEMPORARY.search(path.name)}
        published = {name.removeprefix("work/"): size for name, size in self.receiver.published().items()}
        assert sorted(expected.keys() - published.keys()) == [], "not published"
        extra = [
            name for name in published.keys() - expected.keys()
            if not re.search(r"(^|/)\.[^/]+\.[a-z]{6}$", name) and not (passing and re.search(passing, name))]
        assert sorted(extra) == [], "published although nothing of that name is there"
        for name, path in expected.items():
            assert sha256(self.receiver.files / "work" / name) == sha256(path), name


def environment(**more):
    """What makes programs give the same result each time."""
    return clean_environment(
        LC_ALL="C", TZ="UTC", HOME="/nonexistent", GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM=1,
        GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@example.org", GIT_AUTHOR_DATE="2026-01-01T00:00:00Z",
        GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@example.org", GIT_COMMITTER_DATE="2026-01-01T00:00:00Z",
        SOURCE_DATE_EPOCH=1, **more)


@pytest.fixture
def sides(new_mount, receiver, folder, tmp_path_factory):
    sample = folder / "sample"
    sample.mkdir()
    make_sample(sample)
    write_random(sample / "large", 3_000_001)
    return Sides(new_mount(receiver, "--chunk-size", str(CHUNK)), receiver, sample, tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("program", COPYING)
def test_programs_that_copy(sides, program):
    """S37"""
    sides.shell(f"{COPYING[program]}\ntouch -d @1 .")
    sides.assert_trees_are_alike(times=True)
    sides.assert_published(PASSING.get(program))


@pytest.mark.parametrize("program", WRITING)
def test_programs_that_write(sides, program):
    """S37"""
    sides.shell(WRITING[program])
    sides.assert_trees_are_alike()
    sides.assert_published(PASSING.get(program))


def test_rsync_that_is_interrupted_keeps_what_it_has_and_goes_on(sides, folder):
    """S37: --partial; what counts is the end"""
    source = write_random(folder / "source", 20_000_000)
    for side in (sides.work, sides.plain):
        process = subprocess.Popen(
            ["rsync", "-a", "--partial", "--bwlimit=4000", source, side / "film.mov"], stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        wait_until(lambda: sum(path.stat().st_size for path in side.iterdir()) >= 2_000_000, "two megabytes are there")
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 20
        # The process that receives gives the part its name, and nobody waits for that one.
        wait_until(lambda: [path.name for path in side.iterdir()] == ["film.mov"], "the part has its name")
        part = (side / "film.mov").read_bytes()
        assert 0 < len(part) < 20_000_000 and source.read_bytes().startswith(part)
    sides.shell(f"rsync -a --append-verify {source} film.mov")
    sides.assert_trees_are_alike(times=True)
    sides.assert_published()


# Recorders


RECORDINGS = {
    "MPEG-TS": ["-f", "mpegts", "a.ts"],
    "Matroska": ["-f", "matroska", "a.mkv"],
    "fragmented MP4": ["-movflags", "frag_keyframe+empty_moov", "-f", "mp4", "a.mp4"],
    "MP4, moov at the end": ["-f", "mp4", "a.mp4"],
    "MP4, +faststart": ["-movflags", "+faststart", "-f", "mp4", "a.mp4"],
    "MP4 and TS at once": ["-f", "tee", "a.mp4|a.ts"],
    "segments": ["-f", "segment", "-segment_time", "2", "-segment_list", "list.m3u8", "part%03d.ts"],
}


needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")


@needs_ffmpeg
@pytest.mark.parametrize("kind", RECORDINGS)
def test_recordings(sides, kind):
    """S37: ffmpeg records from a camera (a pipe)"""
    frame = 320 * 240 * 3 // 2
    noise = random.Random(1).randbytes(2 * frame)

    def record(folder):
        process = subprocess.Popen(
            ["ffmpeg", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", "320x240", "-r", "25", "-i",
             "-", "-map", "0", "-c:v", "mpeg4", "-q:v", "1", "-g", "25", "-threads", "1", "-bitexact", "-flags", "+bitexact",
             "-fflags", "+bitexact", *RECORDINGS[kind]],
            cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        try:
            for number in range(150):
                process.stdin.write(noise[number:number + frame])
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        assert sum(sizes.values()) > 4 * CHUNK, f"too short to mean something: {sizes}"
        return process.returncode, errors, sizes

    assert sides.run(record)[0] == 0
    sides.assert_trees_are_alike()
    sides.assert_published()
    for path in sides.plain.glob("*.m*4"):
        run("ffmpeg", "-v", "error", "-xerror", "-i", sides.receiver.files / "work" / path.name, "-f", "null", "-")


@needs_ffmpeg
def test_a_recording_that_is_stopped_can_be_played(sides):
    """S37: SIGINT, as from a recorder's stop button"""
    film = sides.work / "a.mp4"
    process = subprocess.Popen(
        ["ffmpeg", "-loglevel", "error", "-re", "-f", "lavfi", "-i", "testsrc2=s=320x240", "-c:v", "mpeg4", film],
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: film.exists() and film.stat().st_size > 0, "it records")
    finally:
        process.send_signal(signal.SIGINT)
    assert process.wait(60) in (0, 255)
    sides.mount.wait_all()
    published = sides.receiver.files / "work" / "a.mp4"
    assert published.read_bytes() == film.read_bytes()
    run("ffmpeg", "-v", "error", "-xerror", "-i", published, "-f", "null", "-")


# Databases and repositories


@pytest.mark.parametrize("journal", ["delete", "truncate", "persist", "wal"])
def test_two_programs_share_a_database(sides, journal):
    """S37, S24: two processes that wait for each other's locks"""

    def insert(path, who, count):
        database = sqlite3.connect(path, timeout=60, isolation_level=None)
        for number in range(count):
            database.execute("begin immediate")
            database.execute("insert into t values (?, ?, ?)", (who, number, bytes([number]) * 3000))
            database.execute("commit")
        database.close()

    def play(d):
        path = d / "test.db"
        run("sqlite3", path, f"pragma page_size=4096; pragma journal_mode={journal}; create table t (who, n, b);")
        thread = threading.Thread(target=lambda: child(insert, path, "b", 40))
        thread.start()
        child(insert, path, "a", 40)
        thread.join()
        run("sqlite3", path, "delete from t where n % 3 = 1; vacuum into 'copy.db'", cwd=d)
        assert run("sqlite3", path, "pragma integrity_check") == "ok\n"
        return run("sqlite3", path, "select who, n, hex(b) from t order by who, n"), sorted(os.listdir(d))

    dump, names = sides.run(play)
    assert len(dump.splitlines()) == 54
    assert "test.db-wal" not in names and "copy.db" in names
    sides.mount.wait_all()
    # Which of the two came first differs, so each side's bytes are its own.
    for name in ("test.db", "copy.db"):
        published = sides.receiver.files / "work" / name
        assert published.read_bytes() == (sides.work / name).read_bytes()
    assert run("sqlite3", f"file:{published}?immutable=1", "pragma integrity_check") == "ok\n"


def test_a_database_whose_writer_was_killed_is_rolled_back(sides):
    """S8, S24: locks of the dead are gone, and the journal is found"""

    def play(d):
        path = d / "test.db"
        run("sqlite3", path, "pragma page_size=4096; create table t (n, b); insert into t values (1, zeroblob(500000))")
        writer = subprocess.Popen(["sqlite3", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # The small cache makes it write into the database before the end of the transaction.
        writer.stdin.write(
            "pragma cache_size=2; begin; update t set b = randomblob(500000); insert into t values (2, randomblob(900000));"
            "select 'ready';\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == "ready\n"
        assert (d / "test.db-journal").stat().st_size > 0
        writer.kill()
        writer.communicate()
        return run("sqlite3", path, "pragma integrity_check; select n, length(b), hex(b) like '%1%' from t"), os.listdir(d)

    assert sides.run(play) == ("ok\n1|500000|0\n", ["test.db"])
    sides.assert_trees_are_alike()


def test_a_repository_lives_in_the_mount(sides):
    """S37: clone, commit, branch, merge, gc, worktree"""
    sides.shell("""
        origin="$SAMPLE/../origin-$$"; git init -q -b main "$origin"; cd "$origin"
        for n in $(seq 40); do seq $n 2000 >f$n; done; git add .; git commit -qm one
        cd "$OLDPWD"; git clone -q "file://$origin" clone; cd clone
        git config gc.auto 0; git config pack.threads 1; git config core.fsync all
        git switch -qc topic; echo topic >f1; git mv f2 moved; git commit -qam two; git switch -q main; echo main >f3
        git commit -qam three; git merge -q --no-edit topic; git gc -q --prune=now; git fsck --strict --no-progress 2>&1
        git status --porcelain; git log --format=%H; git worktree add -q ../tree topic; git -C ../tree status -s
        git remote rm origin""")
    mounted, local = (tree(side, times=False) for side in (sides.work, sides.plain))
    assert mounted.keys() == local.keys()
    # An index holds inode numbers, logs and worktrees hold absolute paths.
    own = re.compile(rb"index$|/logs/|/gitdir$|^tree/\.git$")
    assert [name for name in mounted if mounted[name] != local[name] and not own.search(name)] == []
    sides.mount.wait_all()
    for path in sides.work.rglob("*"):
        if path.is_file() and not path.is_symlink() and not TEMPORARY.search(path.name):
            assert sha256(path) == sha256(sides.receiver.files / "work" / path.relative_to(sides.work)), path


def test_a_download_that_broke_off_goes_on(sides):
    """S37: as browsers and wget -c: a temporary name, ranges appended, then the final name"""
    source = write_random(sides.sample / "film", 2_000_000).read_bytes()

    def play(d):
        part = d / "film.mov.part"
        for start in range(0, len(source), 300_000):
            with open(part, "ab") as file:
                assert file.tell() == start
                file.write(source[start:start + 300_000])
        os.rename(part, d / "film.mov")

    sides.run(play)
    sides.assert_published()


# What programs do that one does not see from outside


def test_stores_through_mappings(sides):
    """S14: files that grow under a mapping, sparse stores, msync of parts, a mapping in another process"""

    def play(d):
        draw = random.Random(7)
        with open(d / "grown", "w+b") as file:
            for size in (8192, 100_000, 1 << 20, (3 << 20) + 17):
                file.truncate(size)
                with mmap.mmap(file.fileno(), size) as mapped:
                    for _ in range(40):
                        at = draw.randrange(size - 100)
                        mapped[at:at + 100] = draw.randbytes(100)
                    mapped.flush(0, 4096)
        with open(d / "shared", "w+b") as file:
            file.truncate(1 << 20)
            with mmap.mmap(file.fileno(), 1 << 20) as mapped:

                def store():
                    mapped[500_000:500_006] = b"inside"
                    return bytes(mapped[:7])

                mapped[:7] = b"outside"
                seen = child(store)
                assert os.pread(file.fileno(), 6, 500_000) == b"inside"
        with open(d / "grown", "r+b") as one, open(d / "shared", "r+b") as other:
            with mmap.mmap(one.fileno(), 0) as source, mmap.mmap(other.fileno(), 0) as target:
                target[1000:300_000] = source[2000:301_000]
        return seen, sha256(d / "grown"), sha256(d / "shared")

    sides.run(play)
    sides.assert_trees_are_alike()
    sides.assert_published()


@pytest.mark.parametrize("is_new", [True, False])
def test_a_file_is_not_complete_while_it_is_mapped(sides, is_new):
    """S33, S14: the descriptor is closed, the mapping is not"""
    path = sides.work / "film.mov"
    content = bytearray(1_500_000) if is_new else bytearray(write_random(sides.sample / "film", 1_500_000).read_bytes())
    if not is_new:
        path.write_bytes(content)
        sides.mount.wait_for("work/film.mov", "complete")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(descriptor, len(content))
    mapped = mmap.mmap(descriptor, 0)
    os.close(descriptor)
    mapped[0:5] = content[0:5] = b"first"
    mapped.flush()
    # A second writer comes and goes: the mapping still holds the file open.
    with open(path, "r+b") as file:
        file.write(b"F")
    content[0:1] = b"F"
    assert sides.mount.status("work/film.mov")["state"] == "writing"
    mapped[700_000:700_004] = content[700_000:700_004] = b"last"
    mapped.close()
    sides.mount.wait_all()
    assert (sides.receiver.files / "work" / "film.mov").read_bytes() == content


def test_readers_hold_nothing_up(sides):
    """S33: a read-only descriptor and a read-only mapping"""
    path = sides.work / "film.mov"
    path.write_bytes(b"x" * 1_000_000)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        sides.mount.wait_for("work/film.mov", "complete")


def test_space_is_allocated_in_every_mode_while_the_file_is_sent(sides):
    """S12: at odd and even places, inside and beyond the end, and with modes that do not exist"""
    modes = [0, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO,
             FALLOC_ZERO | FALLOC_KEEP_SIZE, FALLOC_ZERO | FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 1 << 20]

    def play(d):
        draw, log = random.Random(3), []
        (d / "f").write_bytes(draw.randbytes(1_500_000))
        for _ in range(60):
            # Closed in between, so that sending begins again and again.
            with open(d / "f", "r+b") as file:
                mode = draw.choice(modes)
                offset, length = draw.choice([(-1, 5), (5, 0), (5, -1)] + [
                    (draw.randrange(2_000_000), draw.choice([1, 4096, 100_000])), (draw.randrange(400) * 4096, 65_536)] * 8)
                result = outcome(lambda _: fallocate(file.fileno(), mode, offset, length), d)
                log.append((mode, offset, length, result, sha256(d / "f")))
        return log

    sides.run(play)
    sides.assert_trees_are_alike()
    sides.assert_published()
    for mode in (FALLOC_COLLAPSE, FALLOC_INSERT, FALLOC_COLLAPSE | FALLOC_KEEP_SIZE):
        with open(sides.work / "f", "r+b") as file:
            with pytest.raises(OSError) as failure:
                fallocate(file.fileno(), mode, 4096, 4096)
            assert failure.value.errno == errno.EOPNOTSUPP


def test_the_kernel_copies_within_a_file_and_between_files(sides):
    """S16: copy_file_range forwards, backwards, onto itself, beyond the end, from and to descriptors that may not"""

    def play(d):
        content = random.Random(4).randbytes(2_000_000)
        (d / "a").write_bytes(content)
        log = []
        with open(d / "a", "r+b") as a, open(d / "b", "w+b") as b, open(d / "a", "rb") as reader:
            for source, target, count, at, to in [
                (a, b, 1_000_000, 0, 0), (a, b, 300_001, 777, 999_999), (a, a, 4096, 0, 100_000), (a, a, 4096, 0, 100),
                (a, a, 500_000, 1_900_000, 1_950_000), (b, a, 5000, 3_000_000, 0), (b, a, 100_000, 1_250_000, 2_500_000),
                (a, reader, 100, 0, 0), (a, b, 0, 0, 0), (reader, b, 70_000, 5, 5),
            ]:
                log.append(outcome(lambda _: os.copy_file_range(source.fileno(), target.fileno(), count, at, to), d))
        with open(d / "a", "rb") as a, open(d / "c", "ab") as c:
            log.append(outcome(lambda _: os.copy_file_range(a.fileno(), c.fileno(), 100, 0), d))
            log.append(outcome(lambda _: os.sendfile(c.fileno(), a.fileno(), 0, 100), d))
        return log

    sides.run(play)
    sides.assert_trees_are_alike()
    sides.assert_published()


def test_two_processes_append_while_the_file_is_sent(sides):
    """S9"""

    def append(path, tag):
        for number in range(300):
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(descriptor, f"{tag}{number:06} ".encode() * 100)
            os.close(descriptor)

    threads = [threading.Thread(target=child, args=(append, sides.work / "log", tag)) for tag in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = (sides.work / "log").read_bytes()
    lines = [content[at:at + 800] for at in range(0, len(content), 800)]
    assert all(line == line[:8] * 100 for line in lines)
    expected = [f"{tag}{number:06} ".encode() for tag in "ab" for number in range(300)]
    assert sorted(line[:8] for line in lines) == expected
    sides.mount.wait_all()
    assert (sides.receiver.files / "work" / "log").read_bytes() == content


def test_names_are_exchanged_while_the_files_are_sent(sides):
    """S3, S4, S6: what is published in the end is what each name stands for in the end"""
    names = [f"n{number}" for number in range(6)]

    def play(d):
        draw, log = random.Random(11), []
        for name in names:
            (d / name).write_bytes(draw.randbytes(draw.randrange(700_000)))
        for _ in range(120):
            one, other = (d / name for name in draw.sample(names, 2))
            step, content = draw.randrange(6), draw.randbytes(draw.choice([10, 70_000, 600_000]))
            temporary = d / f"{one.name}.tmp"
            log.append(outcome(lambda _: [
                lambda: renameat2(one, other, RENAME_EXCHANGE),
                lambda: renameat2(one, other, RENAME_NOREPLACE),
                lambda: os.rename(one, other),
                lambda: os.link(one, other),
                lambda: one.write_bytes(content),
                lambda: temporary.write_bytes(content) and os.rename(temporary, one),
            ][step](), d))
        return log

    sides.run(play)
    sides.assert_trees_are_alike()
    # Names that went away after they were published stay at the server.
    sides.assert_published(passing=r"^n\d$")


def test_an_unlinked_file_gets_no_name_again(sides):
    """S6, S16: linkat of a descriptor, also of one without a name; what has no name is not published"""

    def link(file, target):
        return os.link(f"/proc/self/fd/{file.fileno()}", target, follow_symlinks=True)

    def play(d):
        with open(d / "f", "w+b") as file:
            file.write(b"x" * 400_000)
            file.flush()
            os.unlink(d / "f")
            log = [outcome(lambda _: link(file, d / "again"), d)]
            log.append(outcome(lambda _: call("linkat", file.fileno(), b"", -100, os.fsencode(d / "again"), 0x1000), d))
            file.write(b"more")
        with open(d / "g", "w+b") as file:
            file.write(b"x" * 400_000)
            file.flush()
            log.append(outcome(lambda _: link(file, d / "twin"), d))
        return log

    sides.run(play)
    sides.assert_trees_are_alike()
    sides.assert_published()


@pytest.mark.parametrize("kind", ["flock", "posix"])
@pytest.mark.parametrize("way", ["dies", "closes", "unlocks"])
def test_locks_are_handed_on(sides, kind, way):
    """S24: a waiting process gets the lock when its holder unlocks it, closes the file or dies"""
    path = sides.work / "f"
    path.write_bytes(b"x" * 100)
    take = {"flock": "fcntl.flock(f, fcntl.{})", "posix": "fcntl.lockf(f, fcntl.{}, 10, 5)"}[kind]
    release = take.format("LOCK_UN") if way == "unlocks" else "f.close()"

    def start():
        script = "\n".join([
            f"import fcntl, sys; f = open({str(path)!r}, 'r+b'); print('waits', flush=True)", take.format("LOCK_EX"),
            "print('has it', flush=True); sys.stdin.readline()", release,
            "print('gave it', flush=True); sys.stdin.readline()"])
        return subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    holder = start()
    assert [holder.stdout.readline() for _ in range(2)] == ["waits\n", "has it\n"]
    waiter = start()
    try:
        assert waiter.stdout.readline() == "waits\n"
        probe = (lambda: try_lock_without_waiting(kind, path))
        assert child(probe) == "busy"
        if way == "dies":
            holder.kill()
        else:
            holder.stdin.write("\n")
            holder.stdin.flush()
            assert holder.stdout.readline() == "gave it\n"
        assert waiter.stdout.readline() == "has it\n"
        assert child(probe) == "busy"
    finally:
        for process in (holder, waiter):
            process.kill()
            process.communicate()


def try_lock_without_waiting(kind, path):
    with open(path, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB) if kind == "flock" else fcntl.lockf(
                file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)
            return "free"
        except BlockingIOError:
            return "busy"


def test_a_file_that_is_rewritten_while_it_is_sent_is_published_as_it_is_in_the_end(sides, new_mount, receiver):
    """S33: dd conv=notrunc into a file of which chunks are on their way"""
    with ThrottlingProxy(receiver.port, rate=3_000_000) as proxy:
        slow = new_mount(receiver, "--chunk-size", str(CHUNK), to=f"https://127.0.0.1:{proxy.port}")
        source = write_random(sides.sample / "film", 6_000_000)
        run("cp", source, slow.root / "film.mov")
        wait_until(lambda: receiver.stats()["chunks_stored"] >= 4, "some chunks are stored")
        assert slow.status("film.mov")["state"] != "complete"
        for at in (0, 11, 300, 5999):
            for target in (slow.root / "film.mov", source):
                run("dd", f"if={sides.sample / 'large'}", f"of={target}", "bs=1000", f"seek={at}", "count=1",
                    "conv=notrunc")
        proxy.rate = None
        slow.wait_all()
        assert sha256(receiver.files / "film.mov") == sha256(source)
