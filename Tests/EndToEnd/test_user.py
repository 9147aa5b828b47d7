"""An ordinary user mounts through fusermount3."""

import os
import shutil
import subprocess

import pytest

from conftest import needs_root
from harness import MOUNT_TOOL, clean_environment, mounts_below

pytestmark = needs_root
USER = "nobody"


@pytest.fixture
def open_device():
    """/dev/fuse for everyone, as every desktop has it; restored afterwards."""
    mode = os.stat("/dev/fuse").st_mode & 0o777
    os.chmod("/dev/fuse", 0o666)
    yield
    os.chmod("/dev/fuse", mode)


@pytest.fixture
def users_mount(new_mount, receiver, folder, open_device):
    home = folder / "home"
    home.mkdir()
    token = home / "token"
    token.write_text(receiver.token)
    token.chmod(0o600)
    shutil.copy(receiver.ca, home / "ca.pem")
    (home / "ca.pem").chmod(0o644)
    # The build folder may be closed to other users.
    shutil.copy(MOUNT_TOOL, folder / "uploadfs-mount")
    mount = new_mount(
        receiver, start=False, name="home/mount", token_file=token, ca=home / "ca.pem",
        prefix=("runuser", "-u", USER, "--"), environment=clean_environment(HOME=home),
        program=folder / "uploadfs-mount")
    subprocess.run(["chown", "-R", USER, str(home)], check=True)
    return mount


def as_user(command):
    return subprocess.run(
        ["runuser", "-u", USER, "--", "sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=60)


def test_ordinary_user_mounts_writes_and_unmounts(users_mount, receiver):
    users_mount.start()
    done = as_user(f"echo captured > {users_mount.root}/a.txt && {users_mount.program_path} wait {users_mount.root} --timeout 30")
    assert done.returncode == 0, done.stderr
    assert (receiver.files / "a.txt").read_text() == "captured\n"
    assert '"state": "complete"' in as_user(f"cat {users_mount.root}/status/a.json").stdout.replace('":"', '": "')
    done = as_user(f"{users_mount.program_path} unmount {users_mount.root}")
    assert done.returncode == 0, done.stderr
    users_mount.program.wait()
    assert not mounts_below(users_mount.root)


def test_ordinary_user_takes_over_a_dead_mount(users_mount, receiver):
    users_mount.start()
    as_user(f"echo captured > {users_mount.root}/a.txt")
    subprocess.run(["pkill", "-9", "-s", str(users_mount.program.process.pid)], check=True)
    users_mount.program.wait()
    users_mount.start()
    done = as_user(f"cat {users_mount.root}/a.txt && {users_mount.program_path} wait {users_mount.root} --timeout 30")
    assert done.stdout == "captured\n", done.stderr
    as_user(f"{users_mount.program_path} unmount {users_mount.root}")
    users_mount.program.wait()


def test_no_permission_for_the_device(users_mount):
    os.chmod("/dev/fuse", 0o600)
    code, stderr = users_mount.start_and_fail()
    assert code == 12, stderr
    assert "uploadfs-mount: " in stderr


def test_other_users_mount_cannot_be_read(users_mount):
    """Not even by root: the kernel keeps a user's mount from everybody else."""
    users_mount.start()
    with pytest.raises(PermissionError):
        os.listdir(users_mount.root)
    done = subprocess.run(
        [str(MOUNT_TOOL), "status", str(users_mount.root)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 16 and "allow-other" in done.stderr
