"""Of two contents of one name the later one stays, whatever stands between the mount and its server (docs/semantics.md, S76c)."""

import contextlib
import urllib.parse

import pytest

from harness import SOON
from s3_front import LateFront
from s3_servers import PART
from test_tus import new_tus  # noqa: F401 — a fixture

# The client waits for what is out longer than that.
LATE_SECONDS = 2
MIB = 1 << 20

pytestmark = pytest.mark.parametrize("way", ["unlinked", "renamed over", "rewritten"])


def change(path, way, content):
    """As programs save: delete and write, write beside it and rename (editors), or write over it."""
    if way == "renamed over":
        beside = path.with_name("notes.txt~")
        beside.write_bytes(content)
        beside.rename(path)
        return
    if way == "unlinked":
        path.unlink()
    path.write_bytes(content)


def write_two(mount, front, way, size):
    """The second content comes while the first one's last request is out; what the second one is."""
    old, new = bytes([1]) * size, bytes([2]) * size
    path = mount.root / "notes.txt"
    path.write_bytes(old)
    assert front.taken.wait(SOON)
    change(path, way, new)
    mount.wait_all()
    assert front.passed.wait(SOON)
    return new


def publishes_at_s3(method, path, _):
    """A file in one request, or the completion of several parts."""
    address = urllib.parse.urlsplit(path)
    query = urllib.parse.parse_qs(address.query, keep_blank_values=True)
    is_whole = method == "PUT" and not query
    return address.path.endswith("/notes.txt") and (is_whole or method == "POST" and "uploadId" in query)


@pytest.mark.promises("S76c")
@pytest.mark.parametrize("size", [300_000, 2 * PART], ids=["whole file", "parts"])
def test_s3_keeps_what_came_last(rclone, new_s3_mount, way, size):
    """Regression: the first request was broken off, and came to the server after the second one. Rclone ignores conditions: the mount
    alone keeps the order."""
    with LateFront(rclone.port, publishes_at_s3, LATE_SECONDS) as front:
        mount = new_s3_mount(rclone.url(port=front.port))
        new = write_two(mount, front, way, size)
        assert rclone.object("notes.txt") == new and rclone.keys() == ["notes.txt"]


class PublishesAtTus:
    """The request with an upload's last bytes, or the one that joins partial uploads."""

    def __init__(self):
        self.length, self.has_parts = None, False

    def __call__(self, method, path, headers):
        kind, count = headers.get("Upload-Concat", ""), int(headers.get("Content-Length", 0))
        if method == "POST":
            self.has_parts |= kind == "partial"
            if kind.startswith("final"):
                return True
            with contextlib.suppress(KeyError):
                self.length = int(headers["Upload-Length"])
        offset = int(headers.get("Upload-Offset", 0))
        return not self.has_parts and method in ("POST", "PATCH") and bool(count) and offset + count == self.length


@pytest.mark.promises("S76c")
@pytest.mark.parametrize(
    ("kind", "size"), [("resumable-upload", 300_000), ("one-upload", 9 * MIB), ("tuspyserver", 9 * MIB)])
def test_tus_keeps_what_came_last(new_tus, new_mount, kind, way, size):  # noqa: F811
    """Regression: as at S3."""
    tus = new_tus(kind)
    with LateFront(tus.port, PublishesAtTus(), LATE_SECONDS) as front:
        mount = new_mount(None, "--chunk-size", "4MiB", to=tus.url(front.port))
        new = write_two(mount, front, way, size)
        assert tus.file("notes.txt") == new
