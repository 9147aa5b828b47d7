"""Many deaths in one spool, and power cuts: nothing that was closed is lost, nothing wrong is published, and what the
receiver held is not sent again.

    scripts/torment              a thousand deaths and a hundred power cuts, of a release build
    scripts/torment --kills N    as many as one likes; --seed N plays one draw again
"""

import contextlib
import os
import random
import signal

import pytest

from harness import mark, still, wait_until
from promises import needs, require
from published import Published
from throttle import ThrottlingProxy
from torment import CopiedDisk, Disk, Writer, cut_power

CHUNK = 256 << 10
IN_FLIGHT = 12
FIXED_SEED = 20261121
# Which way the writers' bytes go to the spool.
WAYS = [
    pytest.param((), id="through"),
    pytest.param(("--passthrough", "on", "--rule", "* upload=on-close"), id="past", marks=needs("passthrough"))]


@pytest.fixture
def seed(request):
    seed = request.config.getoption("--seed")
    if seed is None:
        seed = random.SystemRandom().randrange(1 << 30) if request.config.getoption("--fresh") else FIXED_SEED
    print(f"again: /usr/bin/python3 -m pytest -p no:cacheprovider {request.node.nodeid} --seed {seed}")
    return seed


def times(request, otherwise):
    return request.config.getoption("--kills") or otherwise


@pytest.fixture
def proxy(receiver):
    with ThrottlingProxy(receiver.port, rate=15_000_000) as proxy:
        yield proxy


def sent_twice(stats):
    return f"{stats['duplicate_chunks']} of {stats['chunks_received']} chunks came twice"


def settle(mount, proxy):
    """Waits for all deliveries; the names of files that are kept back because no writer finished them."""
    proxy.rate = None
    mount.wait_all(timeout=300, interrupted=True)
    states = {name: mount.status(name)["state"] for name in os.listdir(mount.root) if name not in ("status", ".uploadfs")}
    assert set(states.values()) <= {"complete", "interrupted", "held"}, states
    return {name for name, state in states.items() if state == "interrupted"}


@pytest.mark.parametrize("way", WAYS)
def test_many_deaths_in_one_spool(request, new_mount, receiver, proxy, seed, way):
    mount = new_mount(receiver, "--chunk-size", str(CHUNK), *way, to=f"https://127.0.0.1:{proxy.port}")
    writer, draw = Writer(mount.root, seed), random.Random(f"deaths {seed}")
    kills = times(request, 20)
    with Published(receiver.files) as published:
        for number in range(kills):
            written = writer.files_written + draw.randrange(0, 12)
            pause = draw.random() * 0.3
            writer.start()
            # Sometimes in mid-start, sometimes after a number of files, and then at no particular moment.
            wait_until(lambda: writer.files_written >= written, "files are written")
            signal.sigtimedwait([], pause)
            mount.kill()
            let_go(proxy, receiver)
            writer.join()
            writer.take_stock(mount.spool / "captures")
            mount.start()
            writer.take_stock(mount.root)
        kept_back = settle(mount, proxy)
    writer.check_published(published.seen)
    writer.check_delivered(receiver.files, kept_back)
    stats = receiver.stats()
    print(f"{kills} kills, {writer.files_written} files: {sent_twice(stats)}")
    assert stats["duplicate_chunks"] <= kills, stats


@pytest.mark.promises("S8b")
def test_a_large_file_survives_many_deaths(request, new_mount, receiver, proxy, seed):
    """Every chunk travels once, whichever process dies."""
    draw, chunks = random.Random(seed), 400
    content = draw.randbytes(chunks * CHUNK)
    mount = new_mount(receiver, "--chunk-size", str(CHUNK), to=f"https://127.0.0.1:{proxy.port}")
    (mount.root / "film.mov").write_bytes(content)
    kills = min(times(request, 10), 30)
    for number in range(kills):
        goal = chunks * (number + 1) // (kills + 2)
        wait_until(lambda: receiver.stats()["chunks_stored"] >= goal, lambda: f"{goal} chunks: {receiver.stats()}")
        mount.kill()
        let_go(proxy, receiver)
        assert "film.mov" not in receiver.published(), "the upload must not be over for this test to mean something"
        mount.start()
    settle(mount, proxy)
    assert (receiver.files / "film.mov").read_bytes() == content
    stats = receiver.stats()
    print(f"{kills} kills: {sent_twice(stats)}")
    assert stats["chunks_stored"] == chunks
    # A body that is complete at the receiver when the daemon dies may be on its way to the disk when the next one asks.
    assert stats["duplicate_chunks"] <= kills, stats


@pytest.fixture(params=[Disk, CopiedDisk])
def disk(request, folder):
    require("root")
    require("loop-devices")
    disk = request.param(folder)
    yield disk
    disk.close()


def let_go(proxy, receiver):
    """The daemon is dead: nothing of it is on its way any more, and the receiver has stored what had reached it whole. Otherwise
    bodies that were not acknowledged would come after the next daemon's question, and count as sent twice."""
    proxy.cut()
    still(receiver.stats, lambda stats: stats["chunks_received"])


@pytest.mark.parametrize("synchronize", [os.fsync, os.fdatasync], ids=["fsync", "fdatasync"])
@pytest.mark.promises("S15a")
def test_a_file_that_was_synced_survives_a_power_cut(new_mount, receiver, disk, synchronize):
    """It is still open: nothing is flushed in the background (S44)."""
    mount = new_mount(receiver, spool=disk.mount_point / "spool")
    contents = [random.Random(number).randbytes(300_000) for number in range(2)]
    descriptor = os.open(mount.root / "take.mov", os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        for content in contents:
            os.write(descriptor, content)
            synchronize(descriptor)
        cut_power(mount, disk)
    finally:
        # The daemon that close(2) asks is dead.
        with contextlib.suppress(OSError):
            os.close(descriptor)
    assert (mount.spool / "captures" / "take.mov").read_bytes() == b"".join(contents)


@pytest.mark.promises("S15b")
def test_names_in_a_directory_that_was_synced_survive_a_power_cut(new_mount, receiver, disk):
    """Directories and links, of which nothing is flushed in the background (S44)."""
    mount = new_mount(receiver, spool=disk.mount_point / "spool")
    (mount.root / "day").mkdir()
    for name in ("one", "two", "three"):
        (mount.root / "day" / name).mkdir()
    (mount.root / "day" / "two").rename(mount.root / "day" / "moved")
    (mount.root / "day" / "three").rmdir()
    (mount.root / "day" / "link").symlink_to("moved")
    for folder in (mount.root / "day", mount.root):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(descriptor)
        os.close(descriptor)
    cut_power(mount, disk)
    assert sorted(os.listdir(mount.spool / "captures" / "day")) == ["link", "moved", "one"]


@pytest.mark.promises("S44c")
def test_s44_what_was_closed_as_synced_survives_a_power_cut_at_once(new_mount, receiver, disk):
    """Without an fsync, in folders that nothing else has made durable, and it counts as finished."""
    mount = new_mount(receiver, "--rule", "* close=synced", spool=disk.mount_point / "spool")
    receiver.stop()
    folder = mount.root / "day" / "camera"
    folder.mkdir(parents=True)
    content = random.Random(44).randbytes(300_000)
    (folder / "take.mov").write_bytes(content)
    (folder / "empty").touch()
    cut_power(mount, disk)
    kept = mount.spool / "captures" / "day" / "camera"
    assert (kept / "take.mov").read_bytes() == content and (kept / "empty").read_bytes() == b""
    assert mark(kept / "take.mov") is None
    receiver.start()
    mount.start()
    for name in ("take.mov", "empty"):
        mount.wait_for(f"day/camera/{name}", "complete")


@pytest.mark.promises("S15a", "S34a")
@pytest.mark.parametrize("way", WAYS)
def test_power_cuts(request, new_mount, receiver, proxy, disk, seed, way):
    """The spool's filesystem loses everything that was not synced, in the middle of whatever it does."""
    mount = new_mount(
        receiver, "--chunk-size", str(CHUNK), *way, to=f"https://127.0.0.1:{proxy.port}",
        spool=disk.mount_point / "spool")
    writer, draw = Writer(mount.root, seed), random.Random(f"cuts {seed}")
    cuts = max(1, times(request, 50) // 10)
    with Published(receiver.files) as published:
        for number in range(cuts):
            written = writer.files_written + draw.randrange(3, 25)
            pause = draw.random() * 0.5
            writer.start()
            wait_until(lambda: writer.files_written >= written, "files are written")
            signal.sigtimedwait([], pause)
            cut_power(mount, disk, writer)
            writer.take_stock_after_power_cut(mount.spool / "captures")
            mount.start()
        kept_back = settle(mount, proxy)
    writer.check_published(published.seen)
    writer.check_delivered(receiver.files, kept_back)
    stats = receiver.stats()
    print(f"{cuts} cuts, {writer.files_written} files: {sent_twice(stats)}")
    assert stats["duplicate_chunks"] <= cuts * IN_FLIGHT, stats


@pytest.mark.parametrize("count", [3, 100], ids=["few", "many"])
@pytest.mark.promises("S44a", "S44b")
def test_s44_what_was_closed_a_moment_ago_survives_a_power_cut_without_an_fsync(new_mount, receiver, disk, count):
    """Also where the files are not delivered yet, and in folders that were never synced."""
    mount = new_mount(receiver, spool=disk.mount_point / "spool")
    receiver.stop()
    contents = {f"day-{number % 3}/take {number}": random.Random(number).randbytes(50_000) for number in range(count)}
    for name, content in contents.items():
        (mount.root / name).parent.mkdir(exist_ok=True)
        (mount.root / name).write_bytes(content)
    captures = mount.spool / "captures"
    for name in contents:
        mount.readings(name, lambda status: status["local_durability"] == "on-disk")
    cut_power(mount, disk)
    assert {name: (captures / name).read_bytes() for name in contents} == contents
    receiver.start()
    mount.start()
    for name in contents:
        mount.wait_for(name, "complete")
    assert receiver.published() == {name: len(content) for name, content in contents.items()}


def test_a_large_file_survives_power_cuts(new_mount, receiver, proxy, disk, seed):
    """What the receiver has acknowledged travels once."""
    chunks = 200
    content = random.Random(seed).randbytes(chunks * CHUNK)
    mount = new_mount(
        receiver, "--chunk-size", str(CHUNK), to=f"https://127.0.0.1:{proxy.port}", spool=disk.mount_point / "spool")
    with open(mount.root / "film.mov", "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    for goal in (20, 70, 130):
        wait_until(lambda: receiver.stats()["chunks_stored"] >= goal, lambda: f"{goal} chunks: {receiver.stats()}")
        cut_power(mount, disk)
        let_go(proxy, receiver)
        assert "film.mov" not in receiver.published(), "the upload must not be over for this test to mean something"
        mount.start()
    settle(mount, proxy)
    assert (receiver.files / "film.mov").read_bytes() == content
    stats = receiver.stats()
    print(f"3 cuts: {sent_twice(stats)}")
    assert stats["chunks_stored"] == chunks and stats["duplicate_chunks"] <= 3, stats
