"""Files are sent while they are written (docs/semantics.md, S60 to S62): little is left for the close, and nothing shows before.

What crosses the wire is counted by a proxy; the bytes are incompressible, so that it is what was written.
"""

import contextlib
import mmap
import os
import random
import time

import pytest

from harness import sha256
from throttle import ThrottlingProxy

CHUNK = 1 << 20
# Two chunks at the end, the first one, and what requests have beside their bytes.
TAIL = 3 * CHUNK + CHUNK // 2


@pytest.fixture
def proxy(receiver):
    with ThrottlingProxy(receiver.port) as running:
        yield running


@pytest.fixture
def mount(new_mount, receiver, proxy):
    return new_mount(
        receiver, "--chunk-size", "1MiB", "--rule", "late/** upload=on-close", to=f"https://127.0.0.1:{proxy.port}")


def acknowledged(mount, name, count):
    mount.readings(name, lambda reading: reading["bytes"]["acknowledged"] >= count)


def let_something_go(mount, name):
    """Waits until more of the file is acknowledged, but not for long: there may be nothing that can be sent."""
    before = mount.status(name)["bytes"]["acknowledged"]
    deadline = time.monotonic() + 0.5
    mount.readings(
        name, lambda reading: reading["bytes"]["acknowledged"] > before or time.monotonic() > deadline)


def published(receiver):
    return sorted(str(path.relative_to(receiver.files)) for path in receiver.files.rglob("*") if path.is_file())


@pytest.mark.promises("S60a", "S60c", "R2")
def test_after_the_close_only_the_ends_are_left_to_send(mount, receiver, proxy):
    bytes_written = os.urandom(40 * CHUNK + 12_345)
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        file.write(bytes_written)
        acknowledged(mount, "take.mov", 38 * CHUNK)
        assert mount.status("take.mov")["state"] == "writing"
        assert published(receiver) == [], "nothing shows before the close"
        sent_before = proxy.bytes_up
    mount.wait_for("take.mov", "complete")
    assert proxy.bytes_up - sent_before < TAIL
    assert proxy.bytes_up < 42 * CHUNK, "and nothing was sent twice"
    assert (receiver.files / "take.mov").read_bytes() == bytes_written


@pytest.mark.promises("S60a", "S60b")
def test_a_beginning_that_is_patched_at_the_end_goes_with_the_tail(mount, receiver, proxy):
    """As a recorder does that writes an MP4's sizes at the end, and patches a chunk in the middle."""
    with open(mount.root / "take.mp4", "wb", buffering=0) as file:
        file.write(os.urandom(30 * CHUNK))
        acknowledged(mount, "take.mp4", 28 * CHUNK)
        sent_before = proxy.bytes_up
        file.write(os.urandom(5000))
        os.pwrite(file.fileno(), b"moov size", 28)
        os.pwrite(file.fileno(), os.urandom(100), 10 * CHUNK + 77)
    mount.wait_for("take.mp4", "complete")
    assert proxy.bytes_up - sent_before < TAIL + CHUNK, "the touched chunks and the ends"
    assert sha256(receiver.files / "take.mp4") == sha256(mount.root / "take.mp4")


@pytest.mark.promises("S60a", "S60b")
def test_a_beginning_goes_early_once_it_has_been_quiet_for_long(mount, receiver, proxy):
    """So only the last chunk is left to send; or the first one again, where it is written after that."""
    names = ["take.raw", "take.mp4"]
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(open(mount.root / name, "wb", buffering=0)) for name in names}
        for file in files.values():
            file.write(os.urandom(6 * CHUNK))
        for name in names:
            acknowledged(mount, name, 5 * CHUNK)
        os.pwrite(files["take.mp4"].fileno(), b"moov size", 28)
        for name, left in zip(names, [1, 2]):
            sent_before = proxy.bytes_up
            files[name].close()
            mount.wait_for(name, "complete")
            assert proxy.bytes_up - sent_before < (left + 0.2) * CHUNK, name
    assert all(sha256(receiver.files / name) == sha256(mount.root / name) for name in names)


@pytest.mark.promises("S61b")
def test_a_second_pass_over_the_whole_file_is_still_right(mount, receiver):
    """As ffmpeg does with +faststart: what is there moves back, and an index goes before it."""
    first = os.urandom(20 * CHUNK)
    with open(mount.root / "take.mp4", "w+b", buffering=0) as file:
        file.write(first)
        acknowledged(mount, "take.mp4", 18 * CHUNK)
        index = os.urandom(40_000)
        file.seek(0)
        held = index
        for start in range(0, len(first) + len(index), CHUNK):
            ahead = os.pread(file.fileno(), CHUNK, start)
            held += ahead
            os.pwrite(file.fileno(), held[:CHUNK] if ahead else held, start)
            held = held[CHUNK:]
    mount.wait_for("take.mp4", "complete")
    assert (receiver.files / "take.mp4").read_bytes() == index + first


@pytest.mark.promises("S60a")
def test_by_rule_nothing_goes_out_before_the_close(mount, receiver, proxy):
    os.mkdir(mount.root / "late")
    with open(mount.root / "late" / "take.mov", "wb", buffering=0) as late, \
            open(mount.root / "take.mov", "wb", buffering=0) as early:
        late.write(os.urandom(8 * CHUNK))
        early.write(os.urandom(8 * CHUNK))
        # The one that may is sent meanwhile.
        acknowledged(mount, "take.mov", 6 * CHUNK)
        assert mount.status("late/take.mov")["bytes"]["acknowledged"] == 0
    mount.wait_for("late/take.mov", "complete")
    assert sha256(receiver.files / "late" / "take.mov") == sha256(mount.root / "late" / "take.mov")


@pytest.mark.parametrize("temporary", ["take.mov.part", ".take.mov.aB3xY9", "take.mov.crdownload"])
@pytest.mark.promises("S62a")
def test_a_temporary_name_is_sent_and_published_after_the_rename(mount, receiver, proxy, temporary):
    content = os.urandom(12 * CHUNK + 99)
    (mount.root / temporary).write_bytes(content)
    acknowledged(mount, temporary, len(content))
    reading = mount.status(temporary)
    assert reading["state"] == "held"
    assert published(receiver) == []
    mount.wait_all()  # the wait does not include it
    sent_before = proxy.bytes_up
    os.rename(mount.root / temporary, mount.root / "take.mov")
    mount.wait_for("take.mov", "complete")
    assert proxy.bytes_up - sent_before < 50_000, "nothing is sent twice"
    assert published(receiver) == ["take.mov"]
    assert (receiver.files / "take.mov").read_bytes() == content


@pytest.mark.promises("S60b")
def test_stores_through_a_mapping_count_as_writes(mount, receiver):
    path = mount.root / "mapped"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, 16 * CHUNK)
    mapping = mmap.mmap(descriptor, 16 * CHUNK)
    content = bytearray(os.urandom(16 * CHUNK))
    for start in range(0, 16 * CHUNK, CHUNK):
        mapping[start:start + CHUNK] = bytes(content[start:start + CHUNK])
        mapping.flush(start, CHUNK)
    acknowledged(mount, "mapped", 10 * CHUNK)
    # After it was sent, and not synced by the program.
    content[5 * CHUNK:5 * CHUNK + 4] = b"late"
    mapping[5 * CHUNK:5 * CHUNK + 4] = b"late"
    mapping.close()
    os.close(descriptor)
    mount.wait_for("mapped", "complete")
    assert (receiver.files / "mapped").read_bytes() == content


@pytest.mark.promises("R5")
def test_an_outage_in_mid_recording_costs_no_second_sending(mount, receiver, proxy):
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        file.write(os.urandom(15 * CHUNK))
        acknowledged(mount, "take.mov", 13 * CHUNK)
        proxy.cut()
        receiver.kill()
        file.write(os.urandom(15 * CHUNK))
        receiver.start()
        acknowledged(mount, "take.mov", 28 * CHUNK)
    mount.wait_for("take.mov", "complete")
    # What was on its way when the line was cut may go again.
    assert proxy.bytes_up < 36 * CHUNK
    assert sha256(receiver.files / "take.mov") == sha256(mount.root / "take.mov")


@pytest.mark.promises("S40a", "R5")
def test_a_recording_that_the_mount_died_over_is_not_sent_again(mount, receiver, proxy):
    """Regression: after a second restart the session of a file that is held back was forgotten."""
    descriptor = os.open(mount.root / "take.mov", os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, os.urandom(20 * CHUNK))
    acknowledged(mount, "take.mov", 18 * CHUNK)
    mount.kill()
    with contextlib.suppress(OSError):
        os.close(descriptor)
    for _ in range(2):
        mount.start()
        mount.wait_for("take.mov", "interrupted")
        mount.stop()
    mount.start()
    mount.wait_for("take.mov", "interrupted")
    mount.say("publish", "take.mov")
    mount.wait_for("take.mov", "complete")
    # The last acknowledgements may not have been written down.
    assert proxy.bytes_up < 32 * CHUNK
    assert sha256(receiver.files / "take.mov") == sha256(mount.root / "take.mov")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.promises("S61b")
def test_whatever_is_written_where_the_end_is_published(mount, receiver, seed):
    """Random writes, truncations and pauses over files that are sent meanwhile."""
    draw = random.Random(seed)
    names = [f"take-{seed}-{number}" for number in range(3)]
    files = {name: open(mount.root / name, "w+b", buffering=0) for name in names}
    models = {name: bytearray() for name in names}
    for _ in range(120):
        name = draw.choice(names)
        file, model = files[name], models[name]
        action = draw.random()
        if action < 0.06:
            size = draw.randrange(len(model) + CHUNK)
            file.truncate(size)
            del model[size:]
            model.extend(bytes(size - len(model)))
        else:
            offset = len(model) if action < 0.8 else draw.randrange(len(model) + 1)
            piece = draw.randbytes(draw.choice([10, 5000, CHUNK // 2, CHUNK]))
            os.pwrite(file.fileno(), piece, offset)
            model[offset:offset + len(piece)] = piece
        if draw.random() < 0.1:
            let_something_go(mount, name)
    for file in files.values():
        file.close()
    for name in names:
        mount.wait_for(name, "complete")
        assert (receiver.files / name).read_bytes() == models[name], f"seed {seed}, {name}"
