"""The spool's borders: who gets at it past the mount, and where it may lie."""

import os
import stat
import subprocess

import pytest

from filesystems import as_user
from harness import mounts_below
from promises import needs
from test_startup import one_line


@pytest.fixture
def stopped(new_mount, receiver):
    """A mount that has not been started."""
    return new_mount(receiver, start=False)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@needs("root")
@pytest.mark.promises("SE1a")
def test_another_user_reaches_nothing_through_a_spool_that_was_there_before(new_mount, receiver, folder):
    """Regression: a user moved a folder of theirs in the spool, put a symbolic link there, and had root's daemon make
    files behind it."""
    folder.chmod(0o755)
    outside = folder / "outside"
    outside.mkdir(0o700)
    mount = new_mount(receiver, "--allow-other", start=False)
    mount.spool.mkdir()
    mount.folder.chmod(0o755)
    for path in (mount.spool, mount.spool / "captures"):
        path.mkdir(exist_ok=True)
        path.chmod(0o777)
    mount.start()
    assert mode(mount.spool) == 0o700
    warnings = [line for line in mount.program.log.splitlines() if "closed to them now" in line]
    assert len(warnings) == 1 and "warning" in warnings[0] and str(mount.spool) in warnings[0], mount.program.log
    mount.root.chmod(0o777)

    def attack():
        os.mkdir(mount.root / "d")
        try:
            os.rename(mount.spool / "captures/d", mount.spool / "captures/d2")
        except PermissionError:
            return "kept out"
        os.symlink(outside, mount.spool / "captures/d")
        return "inside"

    assert as_user(65534, 65534, attack) == "kept out"
    # What is put there in spite of that, by the daemon's own user, leads a call as far as the caller's rights do.
    os.rename(mount.spool / "captures/d", mount.spool / "captures/d2")
    os.symlink(outside, mount.spool / "captures/d")
    with pytest.raises(OSError):
        as_user(65534, 65534, lambda: os.close(os.open(mount.root / "d/owned", os.O_WRONLY | os.O_CREAT)))
    assert os.listdir(outside) == []
    (mount.root / "a.txt").write_bytes(b"captured")
    mount.wait_for("a.txt", "complete")


@pytest.mark.promises("SE1b")
def test_an_open_spool_that_holds_other_things_is_refused(stopped):
    """Regression: it was accepted."""
    (stopped.spool / "photos").mkdir(parents=True)
    stopped.spool.chmod(0o755)
    code, stderr = stopped.start_and_fail()
    assert code == 13 and f"chmod 700 {stopped.spool}" in one_line(stderr) and "photos" in stderr
    assert os.listdir(stopped.spool) == ["photos"] and mode(stopped.spool) == 0o755
    stopped.spool.chmod(0o700)
    stopped.start()


@needs("root")
@pytest.mark.promises("SE1b")
def test_another_users_spool_is_refused(stopped):
    stopped.spool.mkdir(0o700)
    os.chown(stopped.spool, 65534, 65534)
    code, stderr = stopped.start_and_fail()
    assert code == 13 and "chown" in one_line(stderr)
    assert os.listdir(stopped.spool) == []


@pytest.mark.promises("SE3")
def test_a_spool_in_another_mount_is_refused(new_mount, receiver):
    """Regression: the outer mount uploaded the inner one's key."""
    outer = new_mount(receiver)
    (outer.root / "day/deeper").mkdir(parents=True)
    (outer.root / "link").symlink_to("day")
    for place in ("spool", "day/deeper/new/spool", "day/deeper", "link/spool"):
        inner = new_mount(receiver, start=False, spool=outer.root / place)
        code, stderr = inner.start_and_fail()
        assert code == 13 and f"another uploadfs mount, at {outer.root}" in one_line(stderr), stderr
    assert not (outer.root / "spool").exists() and os.listdir(outer.root / "day/deeper") == []


@needs("root")
@pytest.mark.promises("SE3")
def test_a_spool_in_another_mount_is_known_through_a_bind_mount(new_mount, receiver, folder):
    """Regression."""
    outer = new_mount(receiver)
    (outer.root / "day").mkdir()
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    subprocess.run(["mount", "--bind", outer.root / "day", elsewhere], check=True)
    try:
        code, stderr = new_mount(receiver, start=False, spool=elsewhere / "spool").start_and_fail()
        assert code == 13 and "another uploadfs mount" in one_line(stderr)
        inner = new_mount(receiver, start=False)
        (inner.spool / "captures").mkdir(parents=True, mode=0o700)
        inner.spool.chmod(0o700)
        subprocess.run(["mount", "--bind", outer.root / "day", inner.spool / "captures"], check=True)
        try:
            code, stderr = inner.start_and_fail()
            assert code == 13 and "another uploadfs mount" in one_line(stderr)
        finally:
            subprocess.run(["umount", inner.spool / "captures"], check=True)
    finally:
        subprocess.run(["umount", elsewhere], check=True)


@pytest.mark.promises("SE4")
def test_a_mount_that_is_refused_leaves_nothing_behind(new_mount, receiver):
    """Regression: a spool in the mount point was made and then refused, and made the next, right mount fail."""
    mount = new_mount(receiver, start=False)
    right = mount.spool
    mount.spool = mount.root / "deep/spool"
    code, _ = mount.start_and_fail()
    assert code == 13 and os.listdir(mount.root) == []
    mount.spool = mount.folder / "deep/spool"
    (mount.root / "precious").touch()
    code, _ = mount.start_and_fail()
    assert code == 11 and not (mount.folder / "deep").exists()
    (mount.root / "precious").unlink()
    mount.root.rmdir()
    code, _ = mount.start_and_fail()
    assert code == 10 and not (mount.folder / "deep").exists()
    mount.root.mkdir()
    mount.spool = right
    mount.start()
    assert mounts_below(mount.root)


def without_a_device(mount):
    mount.prefix = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /dev && exec "$0" "$@"')


def with_an_open_token(mount):
    mount.token_file = mount.folder / "token"
    mount.token_file.write_text("secret")
    mount.token_file.chmod(0o644)


def without_a_token(mount):
    mount.token_file = mount.folder / "token"


def with_a_nonsense_authority(mount):
    mount.ca = mount.folder / "ca.pem"
    mount.ca.write_text("nonsense")


def with_a_missing_client_certificate(mount):
    mount.options = ("--client-cert", mount.folder / "client.pem")


@needs("root")
@pytest.mark.promises("SE4")
@pytest.mark.parametrize("refuse, code", [
    (without_a_device, 12), (with_an_open_token, 15), (without_a_token, 15), (with_a_nonsense_authority, 15),
    (with_a_missing_client_certificate, 15)])
def test_a_mount_that_is_refused_for_what_it_was_given_leaves_nothing_behind(new_mount, receiver, refuse, code):
    mount = new_mount(receiver, start=False, name="refused")
    mount.spool = mount.folder / "deep/spool"
    refuse(mount)
    before = sorted(mount.folder.rglob("*"))
    refused, stderr = mount.start_and_fail()
    assert refused == code, stderr
    assert sorted(mount.folder.rglob("*")) == before and not mounts_below(mount.folder)


@pytest.mark.promises("SE4")
def test_a_mount_that_is_refused_a_spool_in_use_leaves_nothing_behind(mount, new_mount, receiver):
    (mount.root / "take.mov").write_bytes(b"content")
    mount.wait_for("take.mov", "complete")
    second = new_mount(receiver, start=False, spool=mount.spool)
    before = sorted(mount.spool.rglob("*")), sorted(second.folder.rglob("*"))
    code, stderr = second.start_and_fail()
    assert code == 13 and "in use" in one_line(stderr)
    assert (sorted(mount.spool.rglob("*")), sorted(second.folder.rglob("*"))) == before
    (mount.root / "later.mov").write_bytes(b"later")
    mount.wait_for("later.mov", "complete")


@needs("root")
@pytest.mark.promises("SE5a", "SE5b")
def test_a_capture_that_another_user_cannot_read_tells_them_nothing(new_mount, receiver, folder):
    """Regression: with allow_other the status showed every user the names, sizes and digests that modes hide."""
    folder.chmod(0o755)
    mount = new_mount(receiver, "--allow-other", start=False)
    mount.folder.chmod(0o755)
    mount.start()
    mount.root.chmod(0o777)
    alice, bob = 1111, 2222

    def write():
        os.umask(0)
        os.mkdir(mount.root / "private", 0o700)
        for name, mode in (("private/a.mov", 0o644), ("secret.mov", 0o600), ("shared.mov", 0o644)):
            os.close(os.open(mount.root / name, os.O_WRONLY | os.O_CREAT, mode))

    def read(user, name):
        def body():
            with open(mount.root / "status" / f"{name}.json", "rb") as file:
                return bool(file.read())
        return as_user(user, user, body)

    as_user(alice, alice, write)
    mount.wait_all()
    names = "private/a.mov", "secret.mov", "shared.mov"
    assert all(read(alice, name) for name in names) and read(bob, "shared.mov")
    for name in names[:2]:
        with pytest.raises(PermissionError):
            read(bob, name)
    with pytest.raises(PermissionError):
        as_user(bob, bob, lambda: os.listdir(mount.root / "status/private"))
    # It stays so for one that is gone.
    as_user(alice, alice, lambda: os.unlink(mount.root / "secret.mov"))
    assert read(alice, "secret.mov")
    with pytest.raises(PermissionError):
        read(bob, "secret.mov")
    as_user(alice, alice, lambda: os.chmod(mount.root / "private", 0o755))
    assert read(bob, "private/a.mov")
