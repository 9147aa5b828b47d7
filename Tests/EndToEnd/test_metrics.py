"""The mount-wide files: metrics for Prometheus, and what both say of the machine."""

import os
import subprocess

import pytest

import metrics
from harness import wait_until, write_random
from promises import installed


def read(mount):
    return metrics.parse((mount.root / ".uploadfs" / "metrics").read_text())


def value(families, name, **labels):
    return families[name][tuple(labels.items())]


def test_the_control_folder_has_its_files(mount):
    folder = mount.root / ".uploadfs"
    assert sorted(os.listdir(folder)) == ["metrics", "summary.json"]
    for name in os.listdir(folder):
        assert (folder / name).stat().st_size == len((folder / name).read_bytes())


def test_metrics_follow_the_uploads(mount):
    before = read(mount)
    assert value(before, "uploadfs_acknowledged_bytes_total") == 0
    assert value(before, "uploadfs_files", state="complete") == 0
    assert value(before, "uploadfs_destination_available") == 1
    write_random(mount.root / "large.mov", 9 << 20)
    (mount.root / "small.txt").write_bytes(b"x" * 1000)
    (mount.root / ".held.part").write_bytes(b"y")
    mount.wait_all()
    after = read(mount)
    # The byte of the held one may be there already: no call waits for it.
    assert value(after, "uploadfs_acknowledged_bytes_total") - (9 << 20) - 1000 in (0, 1)
    assert value(after, "uploadfs_files", state="complete") == 2
    assert value(after, "uploadfs_files", state="held") == 1
    assert value(after, "uploadfs_chunk_requests_in_flight") == 0
    assert value(after, "uploadfs_chunks_read_total") >= 4
    assert value(after, "uploadfs_draining") == 0 and value(after, "uploadfs_scanned") == 1
    summary = mount.summary()
    assert value(after, "uploadfs_spool_reserve_bytes") == summary["spool"]["reserve_bytes"]
    ((labels, one),) = after["uploadfs_info"].items()
    assert one == 1 and dict(labels) == {
        "version": summary["process"]["version"], "destination": summary["destination"]}


@pytest.mark.parametrize("reading", ["mapped", "plain"])
def test_captures_are_read_as_it_was_asked_for(new_mount, receiver, reading):
    """Regression: nothing outside the tests could reach the mappings of captures that are read, and their counters were always 0."""
    mount = new_mount(receiver, "--reading", reading)
    write_random(mount.root / "large.mov", 9 << 20)
    mount.wait_all()
    assert (receiver.files / "large.mov").read_bytes() == (mount.root / "large.mov").read_bytes()
    read_by = {by: value(read(mount), "uploadfs_capture_read_bytes_total", by=by) for by in ("mapping", "read")}
    assert (read_by["mapping"] > 0) == (reading == "mapped") and sum(read_by.values()) >= 9 << 20
    assert (value(read(mount), "uploadfs_windows_mapped_total") > 0) == (reading == "mapped")


def test_an_outage_shows_in_the_metrics(mount, receiver):
    receiver.kill()
    (mount.root / "a").write_bytes(b"z" * 4000)
    wait_until(lambda: value(read(mount), "uploadfs_destination_available") == 0, "the metrics say so")
    assert value(read(mount), "uploadfs_files", state="waiting") == 1
    assert value(read(mount), "uploadfs_pending_bytes") == 4000
    receiver.start()
    mount.wait_all()
    assert value(read(mount), "uploadfs_destination_available") == 1
    assert value(read(mount), "uploadfs_pending_bytes") == 0


def test_metrics_and_summary_say_the_same_of_the_machine(mount):
    telemetry, families = mount.summary()["telemetry"], read(mount)
    for key, name in (
        ("temperatures", "uploadfs_temperature_celsius"), ("batteries", "uploadfs_battery_discharging"),
        ("on_mains", "uploadfs_mains_online"), ("low_power", "uploadfs_low_power_mode"),
    ):
        assert (telemetry[key] is None) == (name not in families), f"{key}: {telemetry[key]}"


def test_promtool_finds_nothing(mount):
    done = subprocess.run(
        [installed("promtool"), "check", "metrics"], input=(mount.root / ".uploadfs" / "metrics").read_bytes(),
        capture_output=True, timeout=60)
    assert done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("text", [
    "a 1", "a 1\n", "# HELP a b\na 1\n", "# HELP a b\n# TYPE a gauge\n", "# HELP a b\n# TYPE a gauge\nb 1\n",
    "# HELP a b\n# TYPE a gauge\na one\n", "# HELP a b\n# TYPE a gauge\na 1\na 2\n", "# HELP a b\n# TYPE a counter\na 1\n",
    '# HELP a b\n# TYPE a gauge\na{b="c\\d"} 1\n', '# HELP a b\n# TYPE a gauge\na{b="c",b="d"} 1\n',
    '# HELP a b\n# TYPE a gauge\na{b="c"} 1\na 2\n', "# HELP a b\n# TYPE a gauge\n\na 1\n",
])
def test_the_parser_refuses_what_is_wrong(text):
    with pytest.raises(AssertionError):
        metrics.parse(text)


def test_the_parser_takes_what_is_right():
    text = '# HELP a b c\n# TYPE a gauge\na{b="c\\"\\\\\\n d",e=""} -1.5e+30\na{b="f",e="g"} NaN\n'
    assert list(metrics.parse(text)["a"]) == [(("b", 'c"\\\n d'), ("e", "")), (("b", "f"), ("e", "g"))]
