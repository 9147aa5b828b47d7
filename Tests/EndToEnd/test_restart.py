"""The daemon is started again: over a huge backlog, over a mount whose daemon is dead, and under writers."""

import errno
import os
import pathlib
import signal
import time

import pytest

from harness import Program, sha256, wait_until, write_random

BACKLOG, FOLDERS = 100_000, 100
# What 100,000 entries in the catalog may cost of the processor before the mount answers, also in a debug build. Not by the
# clock: how long that takes depends on what else the machine does.
PROCESSOR_SECONDS_MAX = 1
# What a write on a mount may say whose daemon is gone.
GONE = (errno.ENOTCONN, errno.ECONNABORTED, errno.ENODEV, errno.EIO, errno.ESHUTDOWN)


@pytest.fixture
def backlog(request, new_mount, receiver, folder):
    """A mount that does not run, 100,000 files in its spool that were never delivered, and a destination that is down."""
    receiver.stop()
    # In memory if that is allowed: making and removing so many files on a disk takes longer than the test.
    disk = request.getfixturevalue("tmpfs")("spool-disk", 2 << 30) if os.geteuid() == 0 else folder
    mount = new_mount(receiver, start=False, spool=disk / "spool")
    captures = mount.spool / "captures"
    for number in range(FOLDERS):
        folder = captures / f"day-{number:03}"
        folder.mkdir(parents=True)
        descriptor = os.open(folder, os.O_RDONLY)
        for shot in range(BACKLOG // FOLDERS):
            file = os.open(f"shot-{shot:04}.raw", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=descriptor)
            os.write(file, b"%08d" % (number * 1000 + shot))
            os.close(file)
        os.close(descriptor)
    return mount


def start_and_measure(mount, what):
    """Starts the daemon; seconds of the processor that it has used when it answers, and a file that was written at once."""
    target = mount.root / f"first-{time.monotonic_ns()}.txt"
    begun = time.monotonic()
    mount.program = Program(mount.arguments, mount.folder / "mount.log", mount.environment, mount.prefix)

    def answers():
        assert mount.program.is_running, mount.program.describe()
        try:
            # Nothing of this name is in the folder on which the mount will be.
            return (mount.root / ".uploadfs").is_dir() and os.stat(mount.root / "day-007" / "shot-0042.raw").st_size == 8
        except OSError:
            return False

    deadline = begun + 60
    while not answers():
        assert time.monotonic() < deadline, mount.program.describe()
    answered = time.monotonic() - begun
    state = pathlib.Path(f"/proc/{mount.program.process.pid}/stat").read_text().rpartition(")")[2].split()
    used = (int(state[11]) + int(state[12])) / os.sysconf("SC_CLK_TCK")
    target.write_bytes(b"written at once")
    written = time.monotonic() - begun
    print(f"\n{what}: answers after {answered:.3f} s, having used {used:.2f} s of the processor; a file is written after "
          f"{written:.3f} s")
    return used, target


@pytest.mark.promises("S35a", "S35b")
def test_the_mount_answers_at_once_over_a_huge_backlog(backlog):
    """Also when it takes over the dead mount of a daemon that was killed, and knows all files from its catalog."""
    mount = backlog
    without_catalog, first = start_and_measure(mount, f"{BACKLOG} files that nobody knows")
    wait_until(lambda: mount.summary()["scanned"], "all files are found", timeout=180)
    files = mount.summary()["files"]
    assert sum(files.values()) == BACKLOG + 1, files
    mount.kill()
    with pytest.raises(OSError) as failure:
        os.listdir(mount.root)
    assert failure.value.errno == errno.ENOTCONN
    with_catalog, second = start_and_measure(mount, f"{BACKLOG} files after a kill")
    assert with_catalog - without_catalog < PROCESSOR_SECONDS_MAX
    assert first.read_bytes() == second.read_bytes() == b"written at once"
    wait_until(lambda: mount.summary()["scanned"], "all files are found", timeout=180)
    assert sum(mount.summary()["files"].values()) == BACKLOG + 2
    assert mount.stop_at_once() == 19


def keep_writing(descriptor, limit=1 << 30):
    """Writes until a write fails; how many bytes were accepted, and the errno."""
    written = 0
    try:
        while written < limit:
            written += os.write(descriptor, b"%07d\n" % (written // 8) * 1)
    except OSError as error:
        return written, error.errno
    raise AssertionError("every write went through")


@pytest.mark.promises("S36b")
def test_open_handles_work_until_the_service_has_ended_in_order(new_mount, receiver, folder):
    """SIGTERM of an upgrade; the writer finishes, and everything is delivered before the daemon goes."""
    mount = new_mount(receiver)
    source = write_random(folder / "source", 6_000_000).read_bytes()
    with open(mount.root / "film.mov", "wb", buffering=0) as file:
        file.write(source[:3_000_000])
        mount.program.signal(signal.SIGTERM)
        wait_until(lambda: mount.is_draining, "it drains")
        file.write(source[3_000_000:])
        os.fsync(file.fileno())
    assert mount.program.wait() == 0
    assert (receiver.files / "film.mov").read_bytes() == source
    mount.start()
    mount.wait_for("film.mov", "complete")
    assert (mount.root / "film.mov").read_bytes() == source


@pytest.mark.parametrize("way", ["a second signal", "its time is over", "kill -9"])
@pytest.mark.promises("S8b")
def test_handles_that_outlive_the_service_fail_cleanly_and_everything_is_kept(new_mount, receiver, folder, way):
    """What a write has accepted is there in the next run, and is delivered when a writer finishes it."""
    mount = new_mount(receiver, "--drain-timeout", "1s" if way == "its time is over" else "1h")
    closed = mount.root / "closed.mov"
    # Not read through the mount: the kernel would keep its pages.
    source = write_random(folder / "source", 2_000_000).read_bytes()
    closed.write_bytes(source)
    descriptor = os.open(mount.root / "open.log", os.O_RDWR | os.O_CREAT, 0o644)
    reader = os.open(closed, os.O_RDONLY)
    directory = os.open(mount.root, os.O_RDONLY)
    try:
        os.write(descriptor, b"header.\n")
        if way == "kill -9":
            mount.kill()
        else:
            mount.program.signal(signal.SIGTERM)
            wait_until(lambda: mount.is_draining or not mount.program.is_running, "it drains")
            if way == "a second signal":
                mount.program.insist(signal.SIGTERM)
        written, code = keep_writing(descriptor)
        assert code in GONE, errno.errorcode[code]
        for call in [
            lambda: os.fsync(descriptor), lambda: os.fstat(descriptor), lambda: os.ftruncate(descriptor, 0),
            lambda: os.stat("closed.mov", dir_fd=directory), lambda: os.listdir(directory),
        ]:
            with pytest.raises(OSError) as failure:
                call()
            assert failure.value.errno in GONE
        try:
            # With passthrough the kernel goes on reading the spool's file, all of it.
            assert os.pread(reader, 1 << 20, 1 << 20) == source[1 << 20:]
        except OSError as error:
            assert error.errno in GONE
        mount.program.wait()
    finally:
        for number in (descriptor, reader, directory):
            try:
                os.close(number)
            except OSError as error:
                # close(2) may say what the last flush met; the descriptor is gone all the same.
                assert error.errno in GONE
    mount.start()
    content = (mount.root / "open.log").read_bytes()
    assert content[:8] == b"header.\n" and content[8:8 + written] == b"".join(b"%07d\n" % n for n in range(written // 8))
    # The write that failed may have reached the spool: no program was told that it did not.
    assert len(content) - 8 - written in (0, 8)
    with open(mount.root / "open.log", "ab") as file:
        file.write(b"the end\n")
    mount.wait_all()
    assert (receiver.files / "open.log").read_bytes() == content + b"the end\n"
    assert sha256(receiver.files / "closed.mov") == sha256(closed)
