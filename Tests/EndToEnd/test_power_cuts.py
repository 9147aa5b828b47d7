"""Power cuts of disks that lose any part of what was written since their last flush (power_cuts.py).

    /usr/bin/python3 -m pytest Tests/EndToEnd/test_power_cuts.py --fresh --cuts 150     (scripts/test --long)
    … --seed N      plays one draw again
"""

import contextlib
import fcntl
import os
import random
import sqlite3
import struct
import time

import pytest

from certificates import Authority
from failing_calls import Faults
from failing_disk import PowerDisk, marked
from filesystems import FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, fallocate, run
from front import Front
from harness import unmount_lazily, wait_until
from power_cuts import Model, Round, digest
from promises import require
from test_moves import WITHOUT, copy

FIXED_SEED = 20261125
CUTS_PER_ROUND = 5
SIZE = 3_000_000
FIEMAP, UNWRITTEN, NOT_ALLOCATED = 0xC020660B, 0x800, 4


@pytest.fixture
def power(request, folder):
    require("root")
    require("loop-devices")
    disk = PowerDisk(folder / "power", getattr(request, "param", "ext4"), 1 << 30)
    yield disk
    disk.close()


EVERY_KIND = pytest.mark.parametrize("power", ["ext4", "xfs", "btrfs"], indirect=True)
WITH_A_JOURNAL = pytest.mark.parametrize("power", ["ext4", "xfs"], indirect=True)


def cut(mount, disk):
    """Everything is lost that the disk had not been told to keep."""
    disk.cut(1, 100, 1)
    if mount.program.is_running:
        mount.kill()
    unmount_lazily(str(mount.root))
    disk.power_up()


def hold_flushes(faults):
    """What follows is not flushed before the cut, also on a busy machine."""
    faults.set(*((call, 0, "/captures", 0, 60_000) for call in ("fsync", "fdatasync", "syncfs")))


def write_where_space_was_kept(mount, disk, content, faults=None):
    """Closes a file that has its size and no byte of its content on the disk, which then gets everything else that its journal holds."""
    descriptor = os.open(mount.root / "take.mov", os.O_WRONLY | os.O_CREAT)
    os.posix_fallocate(descriptor, 0, len(content))
    os.fsync(descriptor)
    if faults:
        hold_flushes(faults)
    os.write(descriptor, content)
    os.close(descriptor)
    synchronize_another(disk)


def synchronize_another(disk):
    descriptor = os.open(disk.place / "another program's", os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b"x")
    os.fsync(descriptor)
    os.close(descriptor)


@pytest.mark.promises("S40c", "S40k")
@WITH_A_JOURNAL
def test_a_file_of_zeros_that_has_its_size_is_not_published(power, new_mount, receiver, folder):
    """Regression: whole captures of zeros were published as complete."""
    faults = Faults(folder)
    mount = new_mount(receiver, spool=power.place / "spool", environment=faults.environment)
    receiver.kill()
    write_where_space_was_kept(mount, power, os.urandom(SIZE), faults)
    cut(mount, power)
    faults.clear()
    assert (mount.spool / "captures" / "take.mov").read_bytes() == bytes(SIZE), "the disk has the size alone"
    receiver.start()
    mount.start()
    status = mount.wait_for("take.mov", "interrupted")
    assert status["last_error"]["code"] == "not-on-disk", status
    assert receiver.published() == {}


def rows(spool):
    """What a catalog says of files: their sizes, and what it doubts of them."""
    with contextlib.closing(sqlite3.connect(spool / ".state" / "catalog.sqlite")) as catalog:
        return catalog.execute("SELECT size, doubt FROM file").fetchall()


@pytest.mark.promises("S79j")
@WITH_A_JOURNAL
@pytest.mark.parametrize("way", WITHOUT)
@pytest.mark.parametrize("is_beside", [False, True], ids=["elsewhere", "beside"])
def test_zeros_that_a_power_cut_left_are_not_published_from_a_copy_without_attributes(
        power, new_mount, receiver, folder, way, is_beside):
    """Regression: the spool was copied before the first start after the cut, and name and size proved a capture of zeros."""
    mount = new_mount(receiver, spool=power.place / "spool")
    receiver.kill()
    # The flush after the close takes longer than the catalog, also on a busy machine.
    power.refuse(0, milliseconds=10_000)
    write_where_space_was_kept(mount, power, marked(SIZE))
    # The daemon alone opens its catalog.
    time.sleep(4)
    power.cut(1, 100, 1)
    mount.kill()
    unmount_lazily(str(mount.root))
    power.accept()
    power.power_up()
    target = (power.place if is_beside else folder) / "copy"
    copy(way, mount.spool, target)
    mount.spool = target
    assert (mount.spool / "captures" / "take.mov").read_bytes() == bytes(SIZE), "the disk has the size alone"
    assert rows(mount.spool) == [(SIZE, None)], "the catalog knows that it was closed"
    receiver.start()
    mount.start()
    status = mount.wait_for("take.mov", "interrupted", "complete")
    assert status["state"] == "interrupted" and status["last_error"]["code"] == "unproven", status
    assert receiver.published() == {}


@pytest.mark.promises("S40l")
@WITH_A_JOURNAL
def test_a_delivered_file_of_which_the_disk_lost_the_copy_is_published_under_no_other_name(power, new_mount, receiver, folder):
    """Regression: it was complete, and a rename published the zeros that the power cut had left here."""
    faults = Faults(folder)
    mount = new_mount(receiver, spool=power.place / "spool", environment=faults.environment)
    content = os.urandom(SIZE)
    write_where_space_was_kept(mount, power, content, faults)
    mount.wait_for("take.mov", "complete")
    synchronize_another(power)
    cut(mount, power)
    faults.clear()
    mount.start()
    wait_until(lambda: mount.summary()["scanned"], "all files are found")
    assert mount.status("take.mov")["state"] == "complete"
    (mount.root / "take.mov").rename(mount.root / "renamed.mov")
    status = mount.wait_for("renamed.mov", "interrupted")
    assert status["last_error"]["code"] == "not-on-disk", status
    assert receiver.published() == {"take.mov": SIZE} and (receiver.files / "take.mov").read_bytes() == content


@pytest.mark.promises("S40q")
@WITH_A_JOURNAL
def test_what_the_receiver_holds_of_a_capture_that_the_disk_lost_is_delivered(power, folder, new_mount, receiver):
    """Its commit was not answered when the power went."""
    authority, commits = Authority(folder / "authority"), []

    def refuse(method, target, fields):
        if not target.endswith("/commit"):
            return None
        commits.append(target)
        return 503, {}

    with Front(receiver.port, authority.issue("front"), receiver.ca) as front:
        front.refuse(refuse)
        mount = new_mount(
            receiver, "--chunk-size", "256KiB", spool=power.place / "spool", to=f"https://127.0.0.1:{front.port}",
            ca=authority.certificate)
        content = marked(SIZE)
        # The flush after the close takes longer than the receiver.
        power.refuse(0, milliseconds=30_000)
        write_where_space_was_kept(mount, power, content)
        log = mount.spool / ".state" / "catalog.sqlite-wal"
        wait_until(
            lambda: len(commits) > 1 and b"content-known" in log.read_bytes(),
            "the receiver has every chunk, and the catalog knows what was asked of it")
        power.cut(1, 100, 1)
        mount.kill()
        unmount_lazily(str(mount.root))
        power.accept()
        power.power_up()
        assert (mount.spool / "captures" / "take.mov").read_bytes() == bytes(SIZE), "the disk has the size alone"
        front.reset()
        mount.start()
        mount.wait_for("take.mov", "complete")
        assert receiver.published() == {"take.mov": SIZE} and (receiver.files / "take.mov").read_bytes() == content
        (mount.root / "take.mov").rename(mount.root / "renamed.mov")
        assert mount.wait_for("renamed.mov", "interrupted")["missing"]["ranges"] == [{"offset": 0, "length": SIZE}]
        assert receiver.published() == {"take.mov": SIZE}


@pytest.mark.promises("S40r")
@WITH_A_JOURNAL
def test_of_a_recording_that_the_cut_ended_what_the_receiver_has_is_not_read_as_zeros(power, new_mount, receiver):
    """Of what the disk has lost the receiver had four chunks, and not the first one, which is sent last."""
    chunk, count = 256 << 10, 24
    mount = new_mount(receiver, "--chunk-size", "256KiB", spool=power.place / "spool")
    content = bytearray(os.urandom(count * chunk))
    descriptor = os.open(mount.root / "take.mov", os.O_WRONLY | os.O_CREAT)
    try:
        os.write(descriptor, content)
        mount.readings("take.mov", lambda reading: reading["resume"]["checkpoint_chunks"] >= 20)
        os.sync()
        cut(mount, power)
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    with open(mount.spool / "captures" / "take.mov", "r+b", buffering=0) as capture:
        assert os.fstat(capture.fileno()).st_size == len(content)
        for offset, length in ((0, 4096), (5 * chunk, 3 * chunk), (9 * chunk + 8192, 4096)):
            assert fallocate(capture.fileno(), FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, offset, length) == 0
    content[:4096] = bytes(4096)
    mount.start()
    status = mount.wait_for("take.mov", "interrupted")
    assert status["last_error"]["code"] == "not-on-disk" and len(status["missing"]["ranges"]) == 3, status
    mount.say("publish", "take.mov")
    mount.wait_for("take.mov", "complete")
    assert (receiver.files / "take.mov").read_bytes() == content
    assert "parts that the spool's disk has lost are delivered as the server has them" in mount.program.log
    (mount.root / "take.mov").rename(mount.root / "renamed.mov")
    mount.wait_for("renamed.mov", "interrupted")
    assert receiver.published() == {"take.mov": len(content)}


@pytest.mark.promises("S44b", "S44e")
@EVERY_KIND
def test_what_status_calls_on_disk_is_whole_after_a_power_cut_at_once(power, new_mount, receiver):
    """The disk has to have the record as well: a mark of before proves nothing."""
    mount = new_mount(receiver, spool=power.place / "spool")
    receiver.kill()
    content = os.urandom(SIZE)
    (mount.root / "day").mkdir()
    (mount.root / "day" / "take.mov").write_bytes(content)
    mount.readings("day/take.mov", lambda status: status.get("local_durability") == "on-disk")
    cut(mount, power)
    receiver.start()
    mount.start()
    mount.wait_for("day/take.mov", "complete")
    assert (receiver.files / "day" / "take.mov").read_bytes() == content


@pytest.mark.promises("S44f")
def test_what_was_closed_is_on_the_disk_when_the_mount_has_ended(power, new_mount, receiver):
    """Also where two signals end it at once, a moment after the close."""
    mount = new_mount(receiver, spool=power.place / "spool")
    receiver.kill()
    contents = {f"take {number}.mov": os.urandom(100_000) for number in range(40)}
    for name, content in contents.items():
        (mount.root / name).write_bytes(content)
    mount.stop_at_once()
    cut(mount, power)
    receiver.start()
    mount.start()
    for name, content in contents.items():
        mount.wait_for(name, "complete")
        assert (receiver.files / name).read_bytes() == content


@pytest.mark.promises("S40b", "S40k")
def test_a_daemon_that_was_killed_holds_nothing_that_was_closed_through_whichever_mount_it_sees_its_spool(
        power, folder, new_mount, receiver):
    """A service that is started anew has a mount namespace of its own, and so other mounts of the same filesystem."""
    mount = new_mount(receiver, spool=power.place / "spool")
    receiver.kill()
    content = os.urandom(SIZE)
    (mount.root / "take.mov").write_bytes(content)
    mount.kill()
    unmount_lazily(str(mount.root))
    (folder / "elsewhere").mkdir()
    run("mount", "--bind", power.place, folder / "elsewhere")
    mount.spool = folder / "elsewhere" / "spool"
    receiver.start()
    mount.start()
    mount.wait_for("take.mov", "complete")
    assert (receiver.files / "take.mov").read_bytes() == content
    assert mount.stop() == 0
    unmount_lazily(str(folder / "elsewhere"))


@pytest.mark.promises("S40p")
@WITH_A_JOURNAL
def test_what_an_interrupted_file_lacks_is_listed(power, new_mount, receiver, folder):
    """Of one that was closed, and of one that its writer still had open."""
    half = SIZE // 8192 * 4096
    content = os.urandom(half)
    faults = Faults(folder)
    mount = new_mount(receiver, spool=power.place / "spool", environment=faults.environment)
    receiver.kill()
    files = [os.open(mount.root / name, os.O_WRONLY | os.O_CREAT) for name in ("closed.mov", "open.mov")]
    for descriptor in files:
        os.write(descriptor, content)
        os.posix_fallocate(descriptor, 0, SIZE)
        os.fsync(descriptor)
    hold_flushes(faults)
    for descriptor in files:
        os.pwrite(descriptor, content, half)
    os.close(files[0])
    synchronize_another(power)
    cut(mount, power)
    faults.clear()
    with contextlib.suppress(OSError):
        # The daemon that close(2) asks is dead.
        os.close(files[1])
    receiver.start()
    for _ in range(2):
        mount.start()
        for name in ("closed.mov", "open.mov"):
            status = mount.wait_for(name, "interrupted")
            assert status["last_error"]["code"] == "not-on-disk", status
            assert status["missing"] == {"ranges": [{"offset": half, "length": SIZE - half}], "more": 0}
        assert mount.stop() == 18
    assert receiver.published() == {}


@pytest.mark.promises("S40m")
@WITH_A_JOURNAL
def test_a_file_of_an_earlier_version_of_which_bytes_were_never_written_is_held(power, new_mount, receiver):
    """It has no label, and a power cut may have come before the upgrade. One with holes is as its writer made it."""
    captures = power.place / "spool" / "captures"
    captures.mkdir(parents=True)
    (captures / "whole.mov").write_bytes(b"whole")
    with open(captures / "sparse.mov", "wb") as file:
        file.truncate(SIZE)
    with open(captures / "lost.mov", "wb") as file:
        file.write(b"a part")
        os.posix_fallocate(file.fileno(), 0, SIZE)
    mount = new_mount(receiver, spool=power.place / "spool")
    assert mount.wait_for("lost.mov", "interrupted")["last_error"]["code"] == "not-on-disk"
    for name in ("whole.mov", "sparse.mov"):
        mount.wait_for(name, "complete")
    assert set(receiver.published()) == {"whole.mov", "sparse.mov"}
    wait_until(lambda: "captures lay here before" in mount.program.log and "files=3" in mount.program.log, "it is said")
    assert mount.stop() == 18
    mount.start()
    mount.wait_for("lost.mov", "interrupted")
    wait_until(lambda: mount.summary()["scanned"], "all files are found")
    assert mount.program.log.count("captures lay here before") == 1


def is_on_disk(path):
    """Each of its bytes has a place on the disk, and was written there."""
    with open(path, "rb") as file:
        answer = fcntl.ioctl(file, FIEMAP, struct.pack("=QQIIII", 0, 1 << 62, 0, 0, 16, 0) + bytes(16 * 56))
    count = struct.unpack_from("=I", answer, 20)[0]
    size = os.path.getsize(path)
    # xfs keeps space behind the end.
    extents = [extent for extent in struct.iter_unpack("=QQQ16xI12x", answer[32:32 + 56 * count]) if extent[0] < size]
    return sum(extent[2] for extent in extents) >= size and not any(extent[3] & (UNWRITTEN | NOT_ALLOCATED) for extent in extents)


@pytest.mark.promises("S44g")
@WITH_A_JOURNAL
def test_a_file_that_is_being_written_gets_to_the_disk(power, new_mount, receiver):
    """Regression: the kernel does it in its own time and order, and a power cut left zeros in the middle."""
    mount = new_mount(receiver, spool=power.place / "spool")
    receiver.kill()
    content = os.urandom(SIZE)
    descriptor = os.open(mount.root / "take.mov", os.O_WRONLY | os.O_CREAT)
    try:
        os.write(descriptor, content)
        # The kernel begins after five seconds.
        wait_until(lambda: is_on_disk(mount.spool / "captures" / "take.mov"), "the disk has it", timeout=4)
        synchronize_another(power)
        cut(mount, power)
    finally:
        try:
            os.close(descriptor)
        except OSError:
            # The daemon that close(2) asks is dead.
            pass
    assert (mount.spool / "captures" / "take.mov").read_bytes() == content


@pytest.mark.promises("S44g")
@EVERY_KIND
def test_of_a_recording_a_power_cut_takes_the_end_alone(power, new_mount, receiver):
    """Regression: it had zeros in the middle. Of what was written so long ago that it is on the disk, any part of the rest is lost."""
    mount = new_mount(receiver, spool=power.place / "spool")
    receiver.kill()
    descriptor, written, begun = os.open(mount.root / "take.mov", os.O_WRONLY | os.O_CREAT), [], time.monotonic()
    try:
        # 20 MB a second, and more than is brought to the disk at once.
        for number in range(120):
            os.write(descriptor, (number + 1).to_bytes(8, "big") * (1 << 17))
            written.append(time.monotonic())
            time.sleep(max(0.0, begun + number * 0.05 - written[-1]))
        known = sum(at < time.monotonic() - 3 for at in written)
        power.cut(FIXED_SEED, 50, 16)
        mount.kill()
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    unmount_lazily(str(mount.root))
    power.power_up()
    with open(mount.spool / "captures" / "take.mov", "rb") as capture:
        there = 0
        while capture.read(1 << 20) == (there + 1).to_bytes(8, "big") * (1 << 17):
            there += 1
    print(f"{len(written)} MiB written, {known} of them a while ago, {there} there")
    assert there >= known > 30
    mount.start()
    status = mount.wait_for("take.mov", "interrupted")
    assert all(place["offset"] >= known << 20 for place in (status["missing"] or {"ranges": []})["ranges"]), status
    assert receiver.published() == {}


def test_the_model_knows_an_earlier_content_that_a_power_cut_has_brought_back():
    """Regression: the digest of the later one, as long and of the same version, was expected of it at the cut after that."""
    model = Model()
    assert [model.digest_of("a.mov", content) for content in (b"later", b"early")] == [digest(b"later"), digest(b"early")]


@pytest.mark.promises("S40c", "S40k", "S40l", "S44b")
@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_nothing_that_was_on_disk_is_lost_and_nothing_partial_is_published(request, folder, new_mount, new_receiver, kind):
    require("root")
    require("loop-devices")
    option = request.config.getoption
    left = (option("--cuts") or 150) // 3 if option("--fresh") else 1
    number = 0
    while left > 0:
        number += 1
        seed = option("--seed")
        if seed is None:
            seed = random.SystemRandom().randrange(1 << 30) if option("--fresh") else FIXED_SEED
        own = folder / f"round{number}"
        own.mkdir()
        print(f"again: /usr/bin/python3 -m pytest -p no:cacheprovider {request.node.nodeid} --seed {seed}")
        is_fresh = option("--fresh")
        round_ = Round(seed, kind, own, new_mount, new_receiver, seconds=4.0 if is_fresh else 1.0, records=is_fresh)
        play(round_, min(left, CUTS_PER_ROUND))
        left -= CUTS_PER_ROUND


def play(round_, cuts):
    try:
        round_.run(cuts)
    except BaseException:
        print(f"seed {round_.seed}", round_.describe(), round_.mount.program and round_.mount.program.log, sep="\n")
        raise
    finally:
        print(round_.describe())
        left = round_.close()
    assert not left, "\n".join(left)
