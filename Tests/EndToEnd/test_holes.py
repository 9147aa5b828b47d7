"""Holes stay holes (docs/semantics.md, docs/protocol.md "Chunks of zeros"): not read, not sent, and holes at the receiver."""

import errno
import os
import time

import pytest

import metrics
from form_servers import Form
from harness import sha256, write_random
from s3_servers import SMALL_PARTS, Moto, Rclone, credentials
from tus_servers import TusServer

MIB = 1 << 20
TB = 1_000_000_000_000


def extents(path):
    """Where a file has data: [(start, bytes)]."""
    found = []
    number = os.open(path, os.O_RDONLY)
    try:
        end, size = 0, os.fstat(number).st_size
        while end < size:
            try:
                start = os.lseek(number, end, os.SEEK_DATA)
            except OSError as error:
                assert error.errno == errno.ENXIO
                break
            end = os.lseek(number, start, os.SEEK_HOLE)
            data = b""
            while len(data) < end - start:
                data += os.pread(number, end - start - len(data), start + len(data))
            found.append((start, data))
    finally:
        os.close(number)
    return found


def content(path):
    """What a sparse file holds, whatever its holes are: its size, and the pages that are not zeros."""
    pages = {}
    for start, data in extents(path):
        for offset in range(0, len(data), 4096):
            page = data[offset:offset + 4096]
            if page.strip(b"\0"):
                pages[start + offset] = page
    return os.stat(path).st_size, pages


def write_sparse(path, size, places, bytes_each=MIB):
    with open(path, "wb", buffering=0) as file:
        file.truncate(size)
        for place in places:
            file.seek(place)
            file.write(os.urandom(bytes_each))


def allocated(path):
    return os.stat(path).st_blocks * 512


@pytest.fixture
def large(new_receiver, new_mount):
    receiver = new_receiver("--max-file-size", "2TB")
    return receiver, new_mount(receiver, "--max-file-size", "2TB")


@pytest.mark.promises("S62c")
def test_a_terabyte_of_holes_is_delivered_in_seconds(large):
    receiver, mount = large
    places = [0, 123_456_789, 77 * 5_000_000_000 + 17, TB // 2, TB - MIB]
    begin = time.monotonic()
    write_sparse(mount.root / "disk.img", TB, places)
    mount.wait_for("disk.img", "complete", timeout=60)
    took = time.monotonic() - begin
    delivered = receiver.files / "disk.img"
    assert content(delivered) == content(mount.root / "disk.img")
    assert len(content(delivered)[1]) >= 5 * MIB // 4096
    # The chunks with data in them, and their neighbours at most.
    assert allocated(delivered) < 150 * MIB
    assert receiver.stats()["bytes_received"] < 150 * MIB
    assert took < 60, took
    reading = mount.status("disk.img")
    assert reading["bytes"]["acknowledged"] == TB, reading


@pytest.mark.promises("S62c")
def test_a_sparse_file_outlives_kills_of_both(large):
    receiver, mount = large
    write_sparse(mount.root / "disk.img", 400_000_000_000, range(5, 400_000_000_000, 9_999_999_999))
    receiver.kill()
    mount.kill()
    receiver.start()
    mount.start()
    mount.wait_for("disk.img", "complete", timeout=120)
    assert content(receiver.files / "disk.img") == content(mount.root / "disk.img")
    # Each place lies in one or two chunks of 10 MB.
    assert allocated(receiver.files / "disk.img") < 1000 * MIB


@pytest.mark.promises("S62c")
def test_a_file_that_becomes_sparse_again_is_published_so(mount, receiver):
    write_random(mount.root / "a.bin", 40 * MIB)
    mount.wait_for("a.bin", "complete")
    with open(mount.root / "a.bin", "r+b", buffering=0) as file:
        file.truncate(3 * MIB)
        file.truncate(64 * MIB)
        file.seek(50 * MIB)
        file.write(b"x" * 1000)
    mount.wait_for("a.bin", "complete")
    mount.wait_all()
    assert sha256(receiver.files / "a.bin") == sha256(mount.root / "a.bin")
    assert allocated(receiver.files / "a.bin") < 8 * MIB


@pytest.fixture
def other(request, folder, new_s3, new_form):
    """A server of other people: the mount's address and options, and what it has of a name."""
    if request.param in (Rclone, Moto):
        server = new_s3(request.param)
        yield server.url(), SMALL_PARTS, server.object
    elif request.param is Form:
        form = new_form(has_password=False)
        yield form.url(), (), lambda name: (form.files / name).read_bytes()
    else:
        server = TusServer("resumable-upload", folder / "uploads").start()
        yield server.url(), (), server.file
        left = server.close()
        assert not left, left


@pytest.mark.promises("S62e")
@pytest.mark.parametrize("other", [Rclone, Moto, TusServer, Form], indirect=True)
def test_holes_arrive_elsewhere_as_zeros(other, new_mount):
    """Whole files of nothing else, holes at the beginning, between and at the end, and such that begin in the middle of a part."""
    address, options, published = other
    mount = new_mount(None, *options, to=address, environment=credentials())
    size = 24 * MIB
    written = {"disk.img": [9 * MIB + 17, 17 * MIB], "whole.img": [], "begins.img": [0], "ends.img": [size - 1000]}
    for name, places in written.items():
        write_sparse(mount.root / name, size, places, bytes_each=1000)
    mount.wait_all()
    for name in written:
        # As a program reads it.
        assert published(name) == (mount.root / name).read_bytes(), name
        assert mount.status(name)["receipt"]["size"] == size
    families = metrics.parse((mount.root / ".uploadfs" / "metrics").read_text())
    read = {by: families["uploadfs_capture_read_bytes_total"][(("by", by),)] for by in ("mapping", "read", "hole")}
    # Pages with data, and not the holes beside them.
    assert read["mapping"] + read["read"] < MIB and read["hole"] > 90 * MIB, read
