"""What docs/semantics.md promises and only a whole daemon shows, and programs on the mount.

The calls one by one, compared with a plain directory, are those of Tests/FSBehaviourTests.
"""

import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import tempfile

import pytest

from filesystems import child, make_sample, outcome, run, tree
from harness import wait_until
from promises import needs


# Both sides


@pytest.fixture
def work(capture):
    """A folder of this test in the mount."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="semantics-", dir=capture))
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


# Files without a name


def give_name(descriptor, path):
    # os.link() follows no symbolic link unless it is given a folder's descriptor.
    os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)


@needs("nameless-files")
@pytest.mark.promises("S16c")
def test_a_file_without_a_name_is_delivered_once_it_has_one(mount, receiver):
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


@needs("nameless-files")
@pytest.mark.promises("S16c")
def test_a_file_that_never_gets_a_name_leaves_nothing(mount, receiver):
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


# Virtual files


@pytest.mark.promises("S31c")
def test_names_of_status_files_may_be_longer_than_255_bytes(capture):
    name = "n" * 255
    (capture / name).write_bytes(b"x")
    path = capture / "status" / (name + ".json")
    if not path.exists():
        path = next((entry for entry in (capture / "status").iterdir() if len(entry.name) > 255), None)
    assert path is not None and path.name in os.listdir(capture / "status")
    assert path.read_bytes()
    os.unlink(capture / name)


# Programs


@pytest.mark.promises("S23b", "S37a")
def test_cp_copies_a_tree_with_everything(work, plain):
    make_sample(plain)
    run("cp", "-a", f"{plain}/.", work / "copy")
    assert tree(work / "copy") == tree(plain)
    run("cp", "-a", "--sparse=always", work / "copy", work / "again")
    assert tree(work / "again") == tree(plain)
    assert (work / "again" / "sparse").stat().st_blocks * 512 < 1 << 20
    run("diff", "-r", "--no-dereference", "-x", "fifo", plain, work / "again")


@pytest.mark.promises("S23b", "S37b")
def test_rsync_keeps_a_tree_up_to_date(work, plain):
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


@pytest.mark.promises("S23b", "S37a")
def test_tar_unpacks_and_packs(work, plain):
    make_sample(plain)
    run("tar", "--format=pax", "-cf", work / "archive.tar", "-C", plain, ".")
    (work / "unpacked").mkdir()
    run("tar", "-xpf", work / "archive.tar", "-C", work / "unpacked")
    assert tree(work / "unpacked") == tree(plain)
    run("tar", "--format=pax", "-czf", work / "again.tgz", "-C", work / "unpacked", ".")
    assert subprocess.run(["tar", "-df", work / "again.tgz"], cwd=plain).returncode == 0


@pytest.mark.promises("S37a")
def test_dd_writes_in_every_way(both, plain):
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
@pytest.mark.promises("S37d")
def test_sqlite_works(work, journal):
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


@pytest.mark.promises("S37e")
def test_git_clones_commits_and_packs(work, plain):
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


@pytest.mark.promises("S37f")
def test_editors_save_atomically(both):
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
