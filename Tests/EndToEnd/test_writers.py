"""Programs that were never meant for anything but a local disk: each runs in the mount and in a plain directory, which must
end up alike; and what the receiver has published in the end is what lies in the plain directory."""

import os
import random
import re
import signal
import sqlite3
import subprocess
import threading

import pytest

from filesystems import (
    FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO, RENAME_EXCHANGE, RENAME_NOREPLACE, child, fallocate, make_sample,
    outcome, renameat2, run, tree)
from harness import clean_environment, sha256, wait_until, write_random
from promises import installed
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
        of rsync's in 100, whose six random letters might as well be a word (docs/configuration.md)."""
        self.mount.wait_all()
        expected = {
            str(path.relative_to(self.plain)): path for path in self.plain.rglob("*")
            if path.is_file() and not path.is_symlink() and not TEMPORARY.search(path.name)}
        published = {name.removeprefix("work/"): size for name, size in self.receiver.published().items()}
        assert sorted(expected.keys() - published.keys()) == [], "not published"
        extra = [
            name for name in published.keys() - expected.keys()
            if not re.search(r"(^|/)\.[^/]+\.([a-z]{6}|[A-Z]{6})$", name) and not (passing and re.search(passing, name))]
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
@pytest.mark.promises("S37a", "S37b")
def test_programs_that_copy(sides, program):
    sides.shell(f"{COPYING[program]}\ntouch -d @1 .")
    sides.assert_trees_are_alike(times=True)
    sides.assert_published(PASSING.get(program))


@pytest.mark.parametrize("program", WRITING)
@pytest.mark.promises("S37a", "S37f")
def test_programs_that_write(sides, program):
    sides.shell(WRITING[program])
    sides.assert_trees_are_alike()
    sides.assert_published(PASSING.get(program))


# What rsync's receiving process gathers before it writes.
RSYNC_BUFFER = 256 << 10


@pytest.mark.promises("S37b")
def test_rsync_that_is_interrupted_keeps_what_it_has_and_goes_on(sides, folder):
    """--partial; what counts is the end."""
    source = write_random(folder / "source", 20_000_000)
    sent = source.read_bytes()
    for side in (sides.work, sides.plain):
        process = subprocess.Popen(
            [installed("rsync"), "-a", "--partial", "--bwlimit=4000", source, side / "film.mov"], stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        wait_until(lambda: sum(path.stat().st_size for path in side.iterdir()) >= 2_000_000, "two megabytes are there")
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 20
        # The process that receives gives the part its name; no other one waits for it.
        wait_until(lambda: [path.name for path in side.iterdir()] == ["film.mov"], "the part has its name")
        part = (side / "film.mov").read_bytes()
        assert 0 < len(part) < 20_000_000
        if part != sent[:len(part)]:
            # A signal that comes during a write lets rsync's handler write that buffer once more, behind it: nothing else may
            # differ from the source.
            whole = len(part) - RSYNC_BUFFER
            assert part[:whole] == sent[:whole], f"{side}: {len(part)} bytes"
            assert part[whole:] == sent[whole - RSYNC_BUFFER:whole], f"{side}: {len(part)} bytes"
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


@pytest.mark.parametrize("kind", RECORDINGS)
@pytest.mark.promises("S37c")
def test_recordings(sides, kind):
    """Ffmpeg records from a camera (a pipe)."""
    frame = 320 * 240 * 3 // 2
    noise = random.Random(1).randbytes(2 * frame)

    def record(folder):
        process = subprocess.Popen(
            [installed("ffmpeg"), "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", "320x240", "-r",
             "25", "-i", "-", "-map", "0", "-c:v", "mpeg4", "-q:v", "1", "-g", "25", "-threads", "1", "-bitexact", "-flags", "+bitexact",
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


@pytest.mark.promises("S37c")
def test_a_recording_that_is_stopped_can_be_played(sides):
    """SIGINT, as from a recorder's stop button."""
    film = sides.work / "a.mp4"
    process = subprocess.Popen(
        [installed("ffmpeg"), "-loglevel", "error", "-re", "-f", "lavfi", "-i", "testsrc2=s=320x240", "-c:v", "mpeg4",
         film],
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
@pytest.mark.promises("S37d", "S24")
def test_two_programs_share_a_database(sides, journal):
    """Two processes that wait for each other's locks."""

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


@pytest.mark.promises("S8b", "S24")
def test_a_database_whose_writer_was_killed_is_rolled_back(sides):
    """Locks of the dead are gone, and the journal is found."""

    def play(d):
        path = d / "test.db"
        run("sqlite3", path, "pragma page_size=4096; create table t (n, b); insert into t values (1, zeroblob(500000))")
        writer = subprocess.Popen([installed("sqlite3"), path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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


@pytest.mark.promises("S37e")
def test_a_repository_lives_in_the_mount(sides):
    """Clone, commit, branch, merge, gc, worktree."""
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


@pytest.mark.promises("S62a")
def test_a_download_that_broke_off_goes_on(sides):
    """As browsers and wget -c: a temporary name, ranges appended, then the final name."""
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


@pytest.mark.promises("S12a")
def test_space_is_allocated_in_every_mode_while_the_file_is_sent(sides):
    """At odd and even places, inside and beyond the end, and with modes that do not exist."""
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


@pytest.mark.promises("S9")
def test_two_processes_append_while_the_file_is_sent(sides):
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


@pytest.mark.promises("S3b", "S4", "S6a")
def test_names_are_exchanged_while_the_files_are_sent(sides):
    """What is published in the end is what each name stands for in the end."""
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




@pytest.mark.promises("S33b")
def test_a_file_that_is_rewritten_while_it_is_sent_is_published_as_it_is_in_the_end(sides, new_mount, receiver):
    """Dd conv=notrunc into a file of which chunks are on their way."""
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
