"""How captures are compressed on their way: what is published is the same with each, and what is said of it is true."""

import array
import json
import random
import re

import pytest

# From here on the receiver has said what it decodes.
FIRST = b"first"


def points(count, seed=1):
    """As a depth camera's: three floats each."""
    source, values = random.Random(seed), array.array("f")
    for index in range(count):
        depth = 2 + index % 640 / 5000 + source.random() / 200
        values.extend(((index % 640 - 320) * depth / 500, (index // 640 - 240) * depth / 500, depth))
    return values.tobytes()


def begin(new_mount, receiver, *options):
    mount = new_mount(receiver, *options)
    (mount.root / "first").write_bytes(FIRST)
    mount.wait_for("first", "complete")
    return mount


def deliver(mount, receiver, contents):
    for name, content in contents.items():
        (mount.root / name).write_bytes(content)
    mount.wait_all()
    for name, content in contents.items():
        assert (receiver.files / name).read_bytes() == content
    return mount.summary()["compressed"]


@pytest.mark.promises("P81", "P115")
@pytest.mark.parametrize("how", ["off", "auto", "lz4", "zstd"])
def test_what_is_published_is_the_same_with_each(new_mount, receiver, how):
    mount = begin(new_mount, receiver, "--compress", how)
    cloud = points(400_000)
    contents = {
        "cloud.pts": cloud, "small.pts": points(2000), "odd.pts": b"header of text\n" * 50 + cloud[:1_000_003],
        "noise.raw": random.Random(2).randbytes(1_500_000), "text.csv": b"2024-01-01T00:00:00,17.5\n" * 40_000, "empty": b""}
    compressed = deliver(mount, receiver, contents)
    assert (compressed["chunks"] > 0) == (how != "off")
    # On a machine that has much else to do loopback may be slow enough to be followed.
    assert how == "auto" or (compressed["zstd"]["plain_bytes"] > 0) == (how == "zstd")
    assert how != "lz4" or compressed["lz4"]["plain_bytes"] > 0
    if how == "zstd":
        assert compressed["zstd"]["plain_bytes"] >= len(cloud)
        assert compressed["zstd"]["sent_bytes"] < 0.65 * compressed["zstd"]["plain_bytes"]
    metrics = (mount.root / ".uploadfs" / "metrics").read_text()
    said = re.search(r'^uploadfs_compression_bytes_total\{encoding="zstd",when="sent"\} (\S+)$', metrics, re.MULTILINE)[1]
    assert float(said) == compressed["zstd"]["sent_bytes"]


def test_a_rule_switches_it_off_for_its_files(new_mount, receiver):
    mount = begin(new_mount, receiver, "--compress", "zstd", "--rule", "*.pts compress=off")
    assert deliver(mount, receiver, {"a.pts": points(100_000)})["chunks"] == 0
    assert deliver(mount, receiver, {"a.raw": points(100_000, seed=2)})["chunks"] > 0


@pytest.mark.promises("P81")
def test_what_was_sent_in_one_way_goes_on_in_another(new_mount, receiver):
    """Digests are of the plain bytes: a mount that starts anew with another setting finds what the receiver has."""
    mount = begin(new_mount, receiver, "--compress", "zstd")
    content = points(1_500_000)
    with open(mount.root / "long.pts", "wb") as file:
        file.write(content[:9_000_000])
        file.flush()
        for reading in mount.readings("long.pts", lambda status: status["chunks"]["done"] > 0):
            pass
        file.write(content[9_000_000:])
    mount.kill()
    mount.options = ("--compress", "lz4")
    mount.start()
    mount.wait_all(interrupted=True)
    status = mount.status("long.pts")
    if status["state"] == "interrupted":
        mount.say("publish", "long.pts")
        mount.wait_for("long.pts", "complete")
    assert (receiver.files / "long.pts").read_bytes() == content


def sidecar(number):
    return json.dumps({
        "schema": "capture/2", "file": f"scan_{number:05}.tif", "exposure_ms": 17.5 + number / 1000, "gain": 4,
        "device": {"maker": "Acme", "model": "SC-400", "serial": "A4-00193"}, "notes": ""}, indent=2).encode()


@pytest.mark.promises("P118")
def test_small_files_are_compressed_together(new_mount, receiver):
    mount = begin(new_mount, receiver, "--compress", "zstd")
    contents = {f"scan_{number:05}.json": sidecar(number) for number in range(600)}
    compressed = deliver(mount, receiver, contents)
    zstd = compressed["zstd"]
    # The heads are compressed with them.
    assert zstd["plain_bytes"] > 0 and zstd["sent_bytes"] < 0.5 * zstd["plain_bytes"], compressed
    together = [status for status in (mount.status(name) for name in contents) if status["compression"]]
    assert len(together) > 100
    for status in together:
        assert status["compression"]["encoding"] == "zstd" and 0 < status["compression"]["gain"] < 1
        assert status["compression"]["sent_bytes"] == status["bytes"]["sent"] < status["bytes"]["total"]
        assert status["bytes"]["acknowledged"] == status["bytes"]["total"] and status["percent"] == 100


def test_status_says_of_each_file_how_it_has_travelled(new_mount, receiver):
    mount = begin(new_mount, receiver, "--compress", "zstd", "--chunk-size", str(1 << 20))
    cloud, noise = points(400_000), random.Random(2).randbytes(1_500_000)
    compressed = deliver(mount, receiver, {"cloud.pts": cloud, "noise.raw": noise})
    status = mount.status("cloud.pts")
    said = status["compression"]
    assert re.fullmatch(r"zstd;stride=(12|24|36|48|60)(;difference=[1248])?", said["encoding"])
    assert said["plain_bytes"] == len(cloud) == status["bytes"]["total"] and status["percent"] == 100
    assert said["sent_bytes"] == status["bytes"]["sent"] < 0.65 * len(cloud)
    assert abs(said["gain"] - (1 - said["sent_bytes"] / len(cloud))) < 0.001
    assert said["sent_bytes"] <= compressed["zstd"]["sent_bytes"]
    plain = mount.status("noise.raw")
    assert plain["compression"] is None and plain["bytes"]["sent"] == len(noise)
    # Of what was changed since, only what is delivered now counts.
    with open(mount.root / "cloud.pts", "r+b") as file:
        file.truncate(0)
        file.write(noise)
    mount.wait_all()
    changed = mount.status("cloud.pts")
    assert changed["compression"] is None and changed["bytes"]["sent"] == len(noise)
