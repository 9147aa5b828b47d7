"""What can be wrong at the start: one clear line that says what to do, and a number."""

import os
import subprocess

import pytest

from harness import MOUNT_TOOL, Mount, clean_environment, mounts_below
from promises import needs


def one_line(stderr):
    lines = [line for line in stderr.splitlines() if line.startswith("uploadfs-mount: ")]
    assert len(lines) == 1, stderr
    return lines[0]


@pytest.fixture
def stopped(new_mount, receiver):
    """A mount that has not been started."""
    return new_mount(receiver, start=False)


def test_mount_point_missing(stopped):
    stopped.root.rmdir()
    code, stderr = stopped.start_and_fail()
    assert code == 10 and "mkdir" in one_line(stderr) and str(stopped.root) in stderr


def test_mount_point_is_a_file(stopped):
    stopped.root.rmdir()
    stopped.root.touch()
    code, stderr = stopped.start_and_fail()
    assert code == 10 and "director" in one_line(stderr)


def test_mount_point_not_empty(stopped):
    (stopped.root / "precious.txt").write_text("keep")
    code, stderr = stopped.start_and_fail()
    assert code == 11 and "empty" in one_line(stderr)
    assert (stopped.root / "precious.txt").read_text() == "keep"
    assert not mounts_below(stopped.root)


def test_dead_mount_from_before_is_taken_over(mount):
    mount.kill()
    with pytest.raises(OSError):
        os.listdir(mount.root)
    mount.start()
    (mount.root / "a.txt").write_bytes(b"alive")
    mount.wait_for("a.txt", "complete")
    assert mount.stop() == 0
    assert not mounts_below(mount.root)


def test_mounting_twice(mount):
    second = Mount(mount.folder, mount.to, token_file=mount.token_file, ca=mount.ca, spool=mount.folder / "other")
    code, stderr = second.start_and_fail()
    assert code == 11 and "mounted" in one_line(stderr)
    (mount.root / "a.txt").write_bytes(b"the first one still works")
    mount.wait_for("a.txt", "complete")


def test_spool_in_use(mount, new_mount, receiver):
    second = new_mount(receiver, start=False, spool=mount.spool)
    code, stderr = second.start_and_fail()
    assert code == 13 and "in use" in one_line(stderr)


def test_spool_inside_the_mount(stopped):
    stopped.spool = stopped.root / "spool"
    code, stderr = stopped.start_and_fail()
    assert code == 13 and "spool" in one_line(stderr)


def test_spool_is_a_file(stopped):
    stopped.spool.touch()
    code, stderr = stopped.start_and_fail()
    assert code == 13 and str(stopped.spool) in one_line(stderr)


@needs("root")
def test_device_missing(stopped):
    # In a mount namespace of its own, whose /dev has no fuse.
    stopped.prefix = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /dev && exec "$0" "$@"')
    code, stderr = stopped.start_and_fail()
    assert code == 12 and "modprobe fuse" in one_line(stderr)


def test_token_file_missing_or_empty(stopped, folder):
    stopped.token_file = folder / "token"
    code, stderr = stopped.start_and_fail()
    assert code == 15 and str(stopped.token_file) in one_line(stderr)
    stopped.token_file.write_text("\nsecond line\n")
    stopped.token_file.chmod(0o600)
    code, stderr = stopped.start_and_fail()
    assert code == 15 and "empty" in one_line(stderr)


def test_token_file_readable_by_everyone_is_refused(stopped, receiver, folder):
    stopped.token_file = folder / "token"
    stopped.token_file.write_text(receiver.token)
    stopped.token_file.chmod(0o644)
    code, stderr = stopped.start_and_fail()
    assert code == 15 and f"chmod 600 {stopped.token_file}" in one_line(stderr)
    assert receiver.token not in stderr


def test_authority_file_missing_or_nonsense(stopped, folder):
    stopped.ca = folder / "ca.pem"
    code, stderr = stopped.start_and_fail()
    assert code == 15 and str(stopped.ca) in one_line(stderr)
    stopped.ca.write_text("nonsense")
    code, stderr = stopped.start_and_fail()
    assert code == 15 and "certificate" in one_line(stderr).lower()


def test_http_2_is_refused_with_a_libcurl_whose_uploads_stall(stopped):
    """Regression: it was taken with every version."""
    version = tuple(map(int, subprocess.check_output(["curl", "--version"], text=True).split()[1].split(".")[:2]))
    if version >= (8, 10):
        pytest.skip("this libcurl is repaired")
    stopped.options = ("--http", "2")
    code, stderr = stopped.start_and_fail()
    assert code == 15 and "http2-library=any" in one_line(stderr)


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("--chunk-size", "7 bananas", "--chunk-size"),
        ("--parallel", "99", "--parallel"),
        ("--upload", "later", "while-writing"),
        ("--upload", "never", "--ignore"),
        ("--ignore", "raw/", "FOLDER/**"),
        ("--rule", "*.mov close=soon", "close=wait"),
        ("--http", "3", "--http"),
        ("--to", "ftp://example.org", "--to"),
        ("--to", "http://example.org", "--allow-plain-http"),
    ])
def test_bad_value(stopped, option, value, named):
    stopped.options = (option, value)
    code, stderr = stopped.start_and_fail()
    assert code == 14 and named in one_line(stderr)


def test_bad_flag(stopped):
    stopped.options = ("--chunksize", "4MiB")
    code, stderr = stopped.start_and_fail()
    assert code == 64 and "--chunksize" in stderr


def test_bad_key_in_the_configuration_file(stopped, folder):
    file = folder / "mount.yaml"
    file.write_text("paralel: 3\n")
    stopped.options = ("--config", file)
    code, stderr = stopped.start_and_fail()
    assert code == 14
    assert "paralel" in one_line(stderr) and "did you mean parallel?" in stderr and str(file) in stderr


def test_bad_variable_in_the_environment(stopped):
    stopped.environment = clean_environment(UPLOADFS_TOKENS="x")
    code, stderr = stopped.start_and_fail()
    assert code == 14 and "UPLOADFS_TOKENS" in one_line(stderr)


def test_configuration_file_and_environment_are_used(new_mount, receiver, folder):
    (folder / "token").write_text(receiver.token)
    (folder / "token").chmod(0o600)
    file = folder / "mount.yaml"
    file.write_text(f"to: {receiver.url}\nspool: my-spool\ntoken-file: token\nparallel: 2\n")
    mount = new_mount(receiver, unset=True, environment=clean_environment(
        UPLOADFS_CONFIG=file, UPLOADFS_CA=receiver.ca, UPLOADFS_CHUNK_SIZE="256KiB"))
    (mount.root / "a.bin").write_bytes(b"x" * (1 << 20))
    status = mount.wait_for("a.bin", "complete")
    assert status["chunks"]["size"] == 256 << 10
    assert (folder / "my-spool").is_dir()


def test_help_shows_exit_codes():
    done = subprocess.run([MOUNT_TOOL, "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0
    for number in ("10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "64"):
        assert f"  {number}  " in done.stdout
