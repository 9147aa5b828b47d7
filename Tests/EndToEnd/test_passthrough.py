"""Files that the kernel reads and writes past the daemon (libfuse 3.17 or later, as root): it is so, and nothing is lost by it.

Whether a call passes the daemon shows while the daemon stands still (SIGSTOP): what passes works, all else would wait.
"""

import contextlib
import errno
import hashlib
import mmap
import os
import signal
import subprocess
import sys
import threading

import pytest

from filesystems import make_filesystem, run
from harness import mark, sha256, unmount_lazily, wait_until, write_random
from promises import needs, require
from torment import Disk, cut_power

pytestmark = needs("passthrough")
BLOCK = 1 << 16
ON_CLOSE = ("--passthrough", "on", "--rule", "*.raw upload=on-close")


@pytest.fixture
def mount(new_mount, receiver):
    return new_mount(receiver, *ON_CLOSE)


@contextlib.contextmanager
def standing_still(mount):
    """The daemon does nothing meanwhile."""
    mount.program.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        mount.program.signal(signal.SIGCONT)


def in_time(action, *arguments):
    """What an action returns, in a thread of its own: a call that waits for ever is seen as one."""
    result = []
    thread = threading.Thread(target=lambda: result.append(action(*arguments)), daemon=True)
    thread.start()
    thread.join(20)
    assert result, f"{action.__name__} does not return"
    return result[0]


def digest_of(descriptor):
    digest, offset = hashlib.sha256(), 0
    while block := os.pread(descriptor, 1 << 20, offset):
        digest.update(block)
        offset += len(block)
    return digest.hexdigest()


def write_blocks(descriptor):
    return sum(os.pwrite(descriptor, bytes([number]) * BLOCK, number * BLOCK) for number in range(64))


WRITTEN = b"".join(bytes([number]) * BLOCK for number in range(64))


def published(receiver, name):
    path = receiver.files / name
    return path.read_bytes() if path.exists() else None


@pytest.mark.promises("S50a")
def test_reading_passes_the_daemon(mount, receiver):
    """Also of a file that lies open for reading already, and gives the bytes that were written."""
    write_random(mount.root / "scan.bin", 3_000_000)
    mount.wait_for("scan.bin", "complete")
    expected = sha256(receiver.files / "scan.bin")
    with open(mount.root / "scan.bin", "rb") as first, open(mount.root / "scan.bin", "rb") as second:
        with standing_still(mount):
            assert in_time(digest_of, first.fileno()) == expected
            assert in_time(digest_of, second.fileno()) == expected


@pytest.mark.promises("S50b", "S50e")
def test_on_close_writer_passes_the_daemon_and_is_delivered_whole(mount, receiver):
    """By its rule the daemon need not know what of it is written when; its release settles it."""
    descriptor = os.open(mount.root / "scan.raw", os.O_WRONLY | os.O_CREAT, 0o640)
    # Before the first write of a mount the kernel asks whether there are capabilities of files at all.
    os.pwrite(descriptor, b"-", 0)
    with standing_still(mount):
        assert in_time(write_blocks, descriptor) == len(WRITTEN)
    assert os.fstat(descriptor).st_size == len(WRITTEN)
    assert os.stat(mount.root / "scan.raw").st_size == len(WRITTEN)
    assert mount.status("scan.raw")["state"] == "writing"
    os.ftruncate(descriptor, len(WRITTEN) - 1)
    os.pwrite(descriptor, b"the end", len(WRITTEN) - 1)
    os.close(descriptor)
    mount.wait_for("scan.raw", "complete")
    assert published(receiver, "scan.raw") == WRITTEN[:-1] + b"the end"


@pytest.mark.promises("S50e", "S34a")
def test_rewritten_file_is_delivered_again(mount, receiver):
    """A receipt does not cover what a writer past the daemon has changed."""
    path = mount.root / "scan.raw"
    path.write_bytes(b"first")
    mount.wait_for("scan.raw", "complete")
    with open(path, "wb", buffering=0) as file:
        file.write(b"second, longer")
        assert mount.status("scan.raw")["state"] != "complete"
    mount.wait_for("scan.raw", "complete")
    assert published(receiver, "scan.raw") == b"second, longer"
    assert path.read_bytes() == b"second, longer"


@pytest.mark.promises("S50a")
def test_writers_of_followed_files_are_seen_beside_passing_readers(mount, receiver):
    """What is sent while it is written goes through the daemon, and its readers see it at once."""
    path = mount.root / "scan.bin"
    path.write_bytes(b"a" * BLOCK)
    mount.wait_for("scan.bin", "complete")
    with open(path, "rb", buffering=0) as reader, open(path, "ab", buffering=0) as writer:
        writer.write(b"b" * BLOCK)
        with standing_still(mount):
            assert in_time(os.pread, reader.fileno(), 1, BLOCK) == b"b"
        editor = os.open(path, os.O_RDWR)
        os.pwrite(editor, b"c", 0)
        assert os.pread(reader.fileno(), 1, 0) == b"c"
        os.close(editor)
    mount.wait_for("scan.bin", "complete")
    assert published(receiver, "scan.bin") == b"c" + b"a" * (BLOCK - 1) + b"b" * BLOCK


def mapping_without_descriptor(mount, name):
    """A mapping of a delivered file, which its descriptors do not outlive."""
    path = mount.root / name
    path.write_bytes(b"-" * BLOCK)
    mount.wait_for(name, "complete")
    # A reader first: the writer then has to pass the daemon, too.
    with open(path, "rb"):
        with open(path, "r+b") as file:
            mapping = mmap.mmap(file.fileno(), 0)
            mapping[0:5] = b"early"
    return mapping


@pytest.mark.promises("S51a")
def test_mapping_that_outlives_its_descriptor_keeps_the_file_open(mount, receiver):
    """It is written until nothing of the mapping is left, and then delivered."""
    mapping = mapping_without_descriptor(mount, "scan.bin")
    other = mapping_without_descriptor(mount, "other.bin")
    os.stat(mount.root / "scan.bin")
    mapping[100:104] = b"late"
    # The look that finds the end of the other mapping looks for this one as well.
    other.close()
    mount.wait_for("other.bin", "complete")
    assert mount.status("scan.bin")["state"] == "writing"
    assert published(receiver, "scan.bin") == b"-" * BLOCK
    mapping.flush()
    mapping.close()
    mount.wait_for("scan.bin", "complete")
    assert published(receiver, "scan.bin")[:5] == b"early"
    assert published(receiver, "scan.bin")[100:104] == b"late"


@pytest.mark.promises("S50e", "S40a", "S40d")
def test_writer_whose_first_descriptor_was_closed_dies_with_the_daemon(mount, receiver):
    """Regression: a shell's redirection closes one of two descriptors first, and the file counted as finished then."""
    first = os.open(mount.root / "scan.raw", os.O_WRONLY | os.O_CREAT, 0o640)
    second = os.dup(first)
    os.close(first)
    os.write(second, b"the first half, ")
    assert mark(mount.spool / "captures" / "scan.raw").startswith("writing")
    mount.kill()
    with contextlib.suppress(OSError):
        os.close(second)
    mount.start()
    mount.wait_for("scan.raw", "interrupted")
    assert receiver.published() == {}


@pytest.mark.promises("S51b")
def test_writer_that_survives_the_daemon_is_waited_for_and_its_file_is_interrupted(mount, receiver):
    """Regression: it may have been killed later. The kernel goes on serving it, so the next mount waits for its end."""
    descriptor = os.open(mount.root / "scan.raw", os.O_WRONLY | os.O_CREAT, 0o640)
    os.write(descriptor, b"before the crash, ")
    mount.kill()
    os.write(descriptor, b"after it, ")
    mount.start()
    wait_until(lambda: mount.summary()["scanned"], "the scan ends")
    assert mount.status("scan.raw")["state"] == "writing"
    os.write(descriptor, b"and beside the next one")
    # close(2) asks the daemon that is gone, and closes all the same.
    with contextlib.suppress(OSError):
        os.close(descriptor)
    mount.wait_for("scan.raw", "interrupted")
    assert receiver.published() == {}
    mount.say("publish", "scan.raw")
    mount.wait_for("scan.raw", "complete")
    assert published(receiver, "scan.raw") == b"before the crash, after it, and beside the next one"


@pytest.fixture
def large_disk(folder):
    """An empty filesystem of 8 GiB that takes no room."""
    require("loop-devices")
    image, place = folder / "disk.img", folder / "disk"
    image.touch()
    os.truncate(image, 8 << 30)
    place.mkdir()
    make_filesystem("ext4", image)
    run("mount", "-o", "loop", image, place)
    yield place
    unmount_lazily(str(place))


@pytest.mark.promises("S50f")
def test_what_is_open_while_the_disk_is_full_is_not_published(large_disk, new_mount, receiver):
    """Regression: two copies ended with “No space left on device”, and both parts were published."""
    mount = new_mount(receiver, *ON_CLOSE, spool=large_disk / "spool")
    filler = large_disk / "filler"
    with open(mount.root / "scan.raw", "wb", buffering=0) as file:
        file.write(b"x" * BLOCK)
        with open(filler, "wb") as other:
            numbers = os.fstatvfs(other.fileno())
            os.posix_fallocate(other.fileno(), 0, numbers.f_bavail * numbers.f_frsize - (8 << 20))
        with pytest.raises(OSError, match="No space left"):
            for _ in range(1000):
                file.write(b"x" * BLOCK)
    mount.wait_for("scan.raw", "interrupted")
    assert receiver.published() == {}


WRITE_TO_THE_LIMIT = """
import os, resource, sys
descriptor = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o640)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
assert os.write(descriptor, b"x" * 2000) == 1000
try:
    os.write(descriptor, b"y")
except OSError as error:
    print(error.errno)
os.close(descriptor)
"""


@pytest.mark.promises("S41o", "S50f")
def test_what_its_writers_limit_cuts_off_is_not_published(mount, receiver):
    """Regression: the program was told, and its part was published."""
    command = [sys.executable, "-c", WRITE_TO_THE_LIMIT, mount.root / "scan.raw"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == f"{errno.EFBIG}\n"
    status = mount.wait_for("scan.raw", "interrupted")
    assert status["last_error"]["code"] == "write-failed" and "EFBIG" in status["last_error"]["message"], status
    assert receiver.published() == {}


@pytest.fixture
def disk_with_quotas(folder):
    """An empty Btrfs of 8 GiB that takes no room."""
    require("loop-devices")
    image, place = folder / "quotas.img", folder / "quotas"
    image.touch()
    os.truncate(image, 8 << 30)
    place.mkdir()
    make_filesystem("btrfs", image)
    run("mount", "-o", "loop", image, place)
    run("btrfs", "quota", "enable", place)
    yield place
    unmount_lazily(str(place))


@pytest.mark.promises("S50i")
def test_nothing_passes_on_a_disk_with_quotas(disk_with_quotas, new_mount, receiver):
    """Regression: what a quota had refused a writer was not seen by the daemon, and its part was published."""
    mount = new_mount(receiver, *ON_CLOSE, spool=disk_with_quotas / "spool")
    assert "has quotas" in mount.program.log
    with open(mount.root / "scan.raw", "wb", buffering=0) as file:
        file.write(WRITTEN)
        assert mount.summary()["passthrough"] == {"mode": "on", "handles": 0}
        run("btrfs", "qgroup", "limit", str(len(WRITTEN) + BLOCK), disk_with_quotas)
        with pytest.raises(OSError, match="Disk quota exceeded"):
            for number in range(64):
                file.write(os.urandom(len(WRITTEN)))
                os.fsync(file.fileno())
    mount.wait_for("scan.raw", "interrupted")
    assert receiver.published() == {}


READ_ON = """
import os, sys
while True:
    descriptor = os.open(sys.argv[1], os.O_RDONLY)
    os.pread(descriptor, 4096, 0)
    os.close(descriptor)
"""


@contextlib.contextmanager
def readers(path, count):
    """Programs that open, read and close without a pause."""
    running = [subprocess.Popen([sys.executable, "-c", READ_ON, path], stderr=subprocess.PIPE, text=True) for _ in range(count)]
    yield
    assert all(reader.poll() is None for reader in running), [reader.stderr.read() for reader in running if reader.poll()]
    for reader in running:
        reader.kill()
        reader.communicate()


@pytest.mark.promises("S50c")
@pytest.mark.parametrize("flag", [os.O_APPEND, os.O_TRUNC], ids=["append", "truncate"])
def test_no_open_is_refused_beside_readers(mount, receiver, flag):
    """Regression: one in a hundred failed with EIO, and one with O_TRUNC had emptied the file, which was published so."""
    path = mount.root / "scan.raw"
    path.write_bytes(b"x")
    with readers(path, 2):
        for _ in range(3000):
            writer = os.open(path, os.O_WRONLY | flag)
            os.write(writer, b"y")
            os.close(writer)
    mount.wait_for("scan.raw", "complete")
    assert published(receiver, "scan.raw") == (b"x" + b"y" * 3000 if flag == os.O_APPEND else b"y")


@pytest.mark.promises("S50c")
def test_what_the_kernel_copies_beside_a_mapping_is_not_stale(mount, folder):
    """Regression: with a reader that passed, the kernel copied what the file had held before."""
    path = mount.root / "scan.raw"
    path.write_bytes(b"A" * BLOCK)
    mount.wait_for("scan.raw", "complete")
    beside, outside = mount.root / "copy.raw", folder / "copy"
    with open(path, "rb", buffering=0) as reader, open(path, "r+b", buffering=0) as editor:
        with open(beside, "w+b", buffering=0) as near, open(outside, "w+b", buffering=0) as far:
            def copies():
                assert os.copy_file_range(editor.fileno(), near.fileno(), BLOCK, 0, 0) == BLOCK
                os.lseek(far.fileno(), 0, os.SEEK_SET)
                left = BLOCK
                while left:
                    left -= os.sendfile(far.fileno(), editor.fileno(), BLOCK - left, left)
                return {os.pread(copy.fileno(), BLOCK, 0) for copy in (near, far, reader, editor)}

            assert copies() == {b"A" * BLOCK}
            with mmap.mmap(editor.fileno(), BLOCK) as mapping:
                mapping[:] = b"B" * BLOCK
                mapping.flush()
                assert copies() == {b"B" * BLOCK}
            os.pwrite(editor.fileno(), b"C" * BLOCK, 0)
            assert copies() == {b"C" * BLOCK}


@pytest.fixture
def disk(folder):
    """One whose power can be cut, with room for writers that pass."""
    require("loop-devices")
    disk = Disk(folder)
    yield disk
    disk.close()


@pytest.mark.promises("S50e", "S44a")
def test_a_shells_redirection_is_whole_after_a_power_cut(new_mount, receiver, disk):
    """Regression: the first of two descriptors was closed, and what was written after that was neither synced nor missed."""
    mount = new_mount(receiver, *ON_CLOSE, spool=disk.mount_point / "spool")
    receiver.stop()
    line = "(head -c 2000000 /dev/urandom; sleep 2.5; head -c 4000000 /dev/urandom) >"
    subprocess.run(["sh", "-c", f"{line}{mount.root}/scan.raw"], check=True)
    wait_until(lambda: mark(mount.spool / "captures" / "scan.raw") is None, "it is flushed")
    content = (mount.root / "scan.raw").read_bytes()
    cut_power(mount, disk)
    receiver.start()
    mount.start()
    mount.wait_for("scan.raw", "complete")
    assert len(content) == 6_000_000 and published(receiver, "scan.raw") == content


@pytest.mark.promises("S50e", "S15a")
def test_what_was_synced_and_closed_is_published_after_a_power_cut(new_mount, receiver, disk):
    """Regression: its content was on the disk, and it was interrupted."""
    mount = new_mount(receiver, *ON_CLOSE, spool=disk.mount_point / "spool")
    receiver.stop()
    descriptor = os.open(mount.root / "scan.raw", os.O_WRONLY | os.O_CREAT, 0o640)
    os.write(descriptor, WRITTEN)
    os.fsync(descriptor)
    os.close(descriptor)
    wait_until(lambda: mount.status("scan.raw")["state"] != "writing", "it is released")
    cut_power(mount, disk)
    receiver.start()
    mount.start()
    mount.wait_for("scan.raw", "complete")
    assert published(receiver, "scan.raw") == WRITTEN


@pytest.mark.promises("S50e", "S40a")
def test_what_was_being_written_is_interrupted_after_a_power_cut(new_mount, receiver, disk):
    """Also what was synced before, since more was to come."""
    mount = new_mount(receiver, *ON_CLOSE, spool=disk.mount_point / "spool")
    descriptor = os.open(mount.root / "scan.raw", os.O_WRONLY | os.O_CREAT, 0o640)
    os.write(descriptor, WRITTEN)
    os.fsync(descriptor)
    os.write(descriptor, WRITTEN)
    disk.cut(mount.program)
    # The writer is gone as well; as long as it is there, its file of the spool is in use.
    with contextlib.suppress(OSError):
        os.close(descriptor)
    unmount_lazily(str(mount.root))
    disk.power_up()
    mount.start()
    mount.wait_for("scan.raw", "interrupted")
    assert receiver.published() == {}


@pytest.mark.promises("S50c")
def test_close_that_waits_is_no_writer_past_the_daemon(new_mount, receiver):
    """Also beside a reader that came first; a writer of which nothing is known would be waited for without end."""
    mount = new_mount(receiver, "--rule", "*.raw upload=on-close close=wait")
    path = mount.root / "scan.raw"
    path.write_bytes(b"first")
    assert published(receiver, "scan.raw") == b"first"
    with open(path, "rb"):
        editor = os.open(path, os.O_RDWR)
        os.pwrite(editor, b"F", 0)
        in_time(os.close, editor)
    assert published(receiver, "scan.raw") == b"First"


@pytest.mark.promises("S50g")
def test_too_large_file_of_a_passing_writer_is_not_published(new_mount, receiver):
    """It cannot be refused while it is written, so it is when it is released."""
    mount = new_mount(receiver, *ON_CLOSE, "--max-file-size", "1MB")
    path = mount.root / "scan.raw"
    path.write_bytes(b"x" * 2_000_000)
    mount.wait_for("scan.raw", "interrupted")
    assert published(receiver, "scan.raw") is None


@pytest.fixture
def overlay(tmpfs):
    """A folder on an overlay."""
    layers = tmpfs("layers", 1 << 30)
    lower, upper, work, merged = (layers / name for name in ("lower", "upper", "work", "merged"))
    for path in (lower, upper, work, merged):
        path.mkdir()
    options = f"lowerdir={lower},upperdir={upper},workdir={work},userxattr"
    subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", str(merged)], check=True)
    yield merged
    subprocess.run(["umount", str(merged)], check=True)


@pytest.mark.promises("S50h")
def test_a_spool_whose_files_the_kernel_refuses_goes_through_the_daemon(overlay, new_mount, receiver):
    """On an overlay (ELOOP); as an ordinary user (EPERM) it is in test_user.py."""
    mount = new_mount(receiver, *ON_CLOSE, spool=overlay / "spool")
    for content in (WRITTEN, WRITTEN[:-1]):
        path = mount.root / "scan.raw"
        path.write_bytes(content)
        mount.wait_for("scan.raw", "complete")
        assert published(receiver, "scan.raw") == content
        with open(path, "rb") as reader:
            assert digest_of(reader.fileno()) == hashlib.sha256(content).hexdigest()
