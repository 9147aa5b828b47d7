"""Files at the borders of chunks and parts at every destination: written in one go, growing, and over a kill of the
mount. With --fresh at more borders, up to 12 GB, and what a file costs of memory and of the disk from 1 to 12 GB."""

import contextlib
import shutil

import pytest

import conformance
from form_servers import resident_kilobytes
from harness import wait_until
from sizes import MIB, GROWING_CHUNKS, pattern, patience, write_growing, write_in_one_go, write_over_a_kill
from test_conformance import Scene, conformance_authority, place, scene, there  # noqa: F401 (fixtures)

GB = 10**9
# Up to here a file can travel with others.
SMALL_FILE = 64 << 10
# Of the chunks of a destination: the borders at which files end. Each tenth one makes the record durable, and behind the 48th one
# tus joins rows. The small ones belong to each run.
MULTIPLES, FRESH_MULTIPLES = (1, 2), (1, 2, 3, 10, 48)
BORDER_MAX = 128 * MIB


# At every destination

@pytest.fixture
def borders(request, there):  # noqa: F811
    chunk = there.abilities.chunk_bytes
    multiples = FRESH_MULTIPLES if request.config.getoption("--fresh") else MULTIPLES
    return [SMALL_FILE, *(multiple * chunk for multiple in multiples if multiple * chunk <= BORDER_MAX)]


def around(*borders):
    return [border + step for border in borders for step in (-1, 0, 1)]


def test_files_that_are_written_in_one_go_arrive_at_every_border(scene, borders):  # noqa: F811
    scene.begin()
    write_in_one_go(scene, [0, 1, *around(*borders)])


def test_files_that_grow_arrive_at_every_border(scene, borders):  # noqa: F811
    scene.begin()
    write_growing(scene, [0, 1, *around(*borders), GROWING_CHUNKS * scene.chunk + 1])


def test_files_arrive_at_every_border_over_a_kill(request, scene, borders):  # noqa: F811
    scene.begin()
    # One kill for all, or for each border.
    is_fresh = request.config.getoption("--fresh")
    for group in [[border] for border in borders] if is_fresh else [borders]:
        # Elsewhere what is finished after a kill waits for 20 s (S76c).
        grow = is_fresh or scene.there.name == "receiver"
        write_over_a_kill(scene, [0, 1, *around(*group)], around(*group) if grow else [])
        for path in scene.root.iterdir():
            path.unlink()


# Up to 12 GB

class LargeS3OnRclone(conformance.S3OnRclone):
    largest_file = "13GB"


MANNERS = {
    "in one go": lambda scene, border: write_in_one_go(scene, [border - 1]),
    "growing": lambda scene, border: write_growing(scene, [border]),
    "killed": lambda scene, border: write_over_a_kill(scene, [border + 1], []),
    "killed growing": lambda scene, border: write_over_a_kill(scene, [], [border + 1]),
}


def large_cases(is_fresh):
    """(kind, bytes near the border, manner)."""
    if not is_fresh:
        return [(conformance.OwnReceiver, 16 * MIB, manner) for manner in MANNERS]
    cases = []
    for kind in conformance.ALL:
        # Numbers of 32 bits end at 4 GiB.
        sizes = [4 << 30, 12 * GB]
        if kind is conformance.S3OnMoto:
            # It has all of an object in memory, several times.
            sizes = [600 * MIB]
        elif kind is conformance.S3OnRclone:
            kind = LargeS3OnRclone
        cases += [(kind, size, manner) for size in sizes for manner in MANNERS]
    return cases


def pytest_generate_tests(metafunc):
    if "large_case" in metafunc.fixturenames:
        cases = large_cases(metafunc.config.getoption("--fresh"))
        metafunc.parametrize(
            "large_case", cases, ids=[f"{kind.name}-{size >> 20} MiB-{manner}" for kind, size, manner in cases])


@pytest.fixture
def large_there(large_case, folder, authority):
    """A server of its own for each file: its disk is free again behind it."""
    kind, size, _ = large_case
    # At a tus server a file lies in the spool, in parts, joined, and published.
    needed, free = 4 * size + GB, shutil.disk_usage(folder).free
    assert free >= needed, f"a file of {size} bytes needs {needed} at {folder}, and {free} are free there"
    with conformance.running(kind, folder, authority) as destination:
        yield destination


@pytest.fixture
def large_scene(large_there, new_mount, folder):
    large = Scene(large_there, new_mount, folder)
    large.let_pass()
    yield large
    # Before the mount ends: it delivers what is left.
    large.let_pass()


def test_large_files_arrive(large_scene, large_case):
    _, size, manner = large_case
    large_scene.begin()
    chunk = large_scene.chunk
    MANNERS[manner](large_scene, -(-size // chunk) * chunk)


# What they cost

# Chunk buffers, large and small, and 50 MB as in docs/performance.md, which is for a machine that does nothing else; half as much
# again for one that is busy.
MOUNT_MEMORY_MAX = 60 * MIB + 64 * SMALL_FILE + 75_000_000
# 30 MB at rest, twelve requests with 4 MiB each as they arrive and as they are written (100 MB), and as much of what the allocator
# keeps of those before.
RECEIVER_MEMORY_MAX = 240_000_000
# What is held of a file for each of its chunks is 5 MB at 12 GB, with chunks of 512 KiB. The rest is chance: at the receiver, how many
# requests meet.
MOUNT_GROWTH_MAX, RECEIVER_GROWTH_MAX = 25_000_000, 100_000_000
# Index, digest and what surrounds them are 45 bytes for each chunk; a segment for each tenth one has the state without chunks, with a
# node of 37 bytes for each level of the tree.
RECORD_BYTES_PER_CHUNK, RECORD_BYTES = 128, 4096
# Numbers become longer, and nothing else: it is filled up to the next KiB.
STATUS_BYTES_MAX = 3072


def status_and_record_bytes(mount, name):
    status = len((mount.root / "status" / f"{name}.json").read_bytes())
    record = 0
    for path in (mount.spool / ".state" / "resume").iterdir():
        # It goes with the delivery.
        with contextlib.suppress(FileNotFoundError):
            record += path.stat().st_size
    return status, record


def upload_and_look(mount, name, size):
    """The last status of a file, and how long its status and the resume records have been at most. The records are written from time to time:
    the second half of the file waits until they have most of the first one."""
    seen = [(0, 0)]

    def look(reading):
        seen[0] = tuple(map(max, zip(seen[0], status_and_record_bytes(mount, name))))
        return reading["state"] == "complete"

    def has_first_half_on_record():
        chunks = mount.status(name)["chunks"]
        look({"state": "writing"})
        return chunks["total"] and chunks["done"] > 0.8 * chunks["total"] and seen[0][1] > 36 * chunks["total"]

    with open(mount.root / name, "wb", buffering=0) as file:
        written = 0
        for piece in pattern(name, 0, size):
            if written < size // 2 <= written + len(piece):
                wait_until(has_first_half_on_record, lambda: f"records of {seen[0][1]} bytes, {mount.status(name)['chunks']}", timeout=60)
            written += file.write(piece)
    return mount.readings(name, look, patience([size]))[-1], *seen[0]


def test_memory_record_and_status_stay_as_they_are(request, receiver, mount):
    sizes = [size * GB for size in (1, 2, 4, 8, 12)] if request.config.getoption("--fresh") else [32 * MIB, 96 * MIB]
    memory = []
    for size in sizes:
        last, status, record = upload_and_look(mount, f"{size}.mov", size)
        memory.append([resident_kilobytes(program.process.pid) << 10 for program in (mount.program, receiver.program)])
        chunks = last["chunks"]["total"]
        print(f"{size} bytes, {chunks} chunks: mount and receiver {memory[-1]}, record {record}, status {status}")
        assert status <= STATUS_BYTES_MAX
        assert 32 * chunks // 2 < record <= RECORD_BYTES_PER_CHUNK * chunks + RECORD_BYTES
        assert memory[-1][0] <= MOUNT_MEMORY_MAX and memory[-1][1] <= RECEIVER_MEMORY_MAX, memory
        (mount.root / f"{size}.mov").unlink()
        (receiver.files / f"{size}.mov").unlink()
    mount_growth, receiver_growth = (last - first for first, last in zip(memory[0], memory[-1]))
    if sizes[0] >= GB:
        # Shorter ones do not fill the buffers.
        assert mount_growth <= MOUNT_GROWTH_MAX and receiver_growth <= RECEIVER_GROWTH_MAX, memory
