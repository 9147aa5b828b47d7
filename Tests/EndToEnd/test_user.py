"""An ordinary user mounts through fusermount3."""

import grp
import os
import pathlib
import pwd
import shutil
import stat
import subprocess

import pytest

from filesystems import as_user, child
from harness import MOUNT_TOOL, clean_environment, mounts_below, wait_until
from promises import needs

pytestmark = needs("root")
USER = "nobody"
# Becomes that user without a further process, which the end of the test would not find.
AS_USER = ("setpriv", f"--reuid={USER}", f"--regid={grp.getgrgid(pwd.getpwnam(USER).pw_gid).gr_name}", "--clear-groups", "--")


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


def shell_of_user(command):
    return subprocess.run(
        ["runuser", "-u", USER, "--", "sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=60)


def test_ordinary_user_mounts_writes_and_unmounts(users_mount, receiver):
    users_mount.start()
    done = shell_of_user(f"echo captured > {users_mount.root}/a.txt && {users_mount.program_path} wait {users_mount.root} --timeout 30")
    assert done.returncode == 0, done.stderr
    assert (receiver.files / "a.txt").read_text() == "captured\n"
    assert '"state": "complete"' in shell_of_user(f"cat {users_mount.root}/status/a.json").stdout.replace('":"', '": "')
    done = shell_of_user(f"{users_mount.program_path} unmount {users_mount.root}")
    assert done.returncode == 0, done.stderr
    users_mount.program.wait()
    assert not mounts_below(users_mount.root)


def kill_session(program):
    """kill -9 of the daemon and of runuser, whose child it is: the spool is in use as long as either is there."""
    session = str(program.process.pid)
    subprocess.run(["pkill", "-9", "-s", session], check=True)
    program.wait()
    wait_until(lambda: subprocess.run(["pgrep", "-s", session], capture_output=True).returncode == 1, "the daemon is gone")


@pytest.mark.promises("S40i")
def test_a_file_that_its_writer_has_made_read_only_is_finished(users_mount, receiver):
    """Its attribute can no longer be changed by a daemon of the same user: it went on saying that the file was being written."""
    users_mount.start()
    receiver.kill()
    done = shell_of_user(
        f"sh -c 'echo captured >&3; chmod 444 {users_mount.root}/a.txt; echo on >&3' 3>{users_mount.root}/a.txt")
    assert done.returncode == 0, done.stderr
    kill_session(users_mount.program)
    receiver.start()
    users_mount.start()
    done = shell_of_user(f"{users_mount.program_path} wait {users_mount.root} --timeout 30")
    assert done.returncode == 0, done.stderr
    assert (receiver.files / "a.txt").read_text() == "captured\non\n"
    shell_of_user(f"{users_mount.program_path} unmount {users_mount.root}")
    users_mount.program.wait()


@pytest.mark.promises("S41n")
def test_a_folder_that_its_owner_has_closed_keeps_no_mount_from_ending(users_mount, receiver):
    """Regression: what lay in it could not be read to be sent, and `unmount` and SIGTERM waited for it for ever."""
    users_mount.start()
    receiver.kill()
    done = shell_of_user(f"cd {users_mount.root} && mkdir day && echo take > day/take.mov && chmod 000 day")
    assert done.returncode == 0, done.stderr
    receiver.start()
    done = shell_of_user(f"{users_mount.program_path} unmount {users_mount.root}")
    assert done.returncode == 18 and "day/take.mov" in done.stderr, done
    users_mount.program.wait()
    assert "chmod u+rwx" in users_mount.program.log, users_mount.program.log
    # What is given back is delivered by the next mount.
    (users_mount.spool / "captures" / "day").chmod(0o755)
    users_mount.start()
    done = shell_of_user(f"{users_mount.program_path} wait {users_mount.root} --timeout 30")
    assert done.returncode == 0 and (receiver.files / "day" / "take.mov").read_text() == "take\n", done
    shell_of_user(f"{users_mount.program_path} unmount {users_mount.root}")
    users_mount.program.wait()


def test_ordinary_user_takes_over_a_dead_mount(users_mount, receiver):
    users_mount.start()
    shell_of_user(f"echo captured > {users_mount.root}/a.txt")
    kill_session(users_mount.program)
    users_mount.start()
    done = shell_of_user(f"cat {users_mount.root}/a.txt && {users_mount.program_path} wait {users_mount.root} --timeout 30")
    assert done.stdout == "captured\n", done.stderr
    shell_of_user(f"{users_mount.program_path} unmount {users_mount.root}")
    users_mount.program.wait()


def make_everything(root):
    """As another user, in the mount, with modes that let other users go on with what was made; the names of all that."""
    os.chdir(root)

    def make():
        os.umask(0)
        os.mkdir("folder", 0o2777)
        os.close(os.open("folder/file", os.O_WRONLY | os.O_CREAT, 0o666))
        os.mknod("node", stat.S_IFREG | 0o666)
        os.mkfifo("pipe", 0o644)
        os.symlink("node", "link")
        os.link("node", "second")
        os.mkdir("folder/below", 0o755)
        return ["folder", "folder/file", "node", "pipe", "link", "second", "folder/below"]

    return as_user(1111, 2222, make)


@pytest.mark.promises("S20d")
def test_what_others_make_in_an_ordinary_users_mount_belongs_to_that_user(users_mount, folder):
    """Others may use it where the machine allows that; /etc/fuse.conf says so in a mount namespace of the daemon's own."""
    (folder / "fuse.conf").write_text("user_allow_other\n")
    users_mount.options += ("--allow-other",)
    users_mount.prefix = (
        "unshare", "--mount", "sh", "-c", f'mount --bind {folder}/fuse.conf /etc/fuse.conf && exec "$@"', "sh",
        *AS_USER)
    users_mount.start()
    # That is where the mount can be seen.
    root = f"/proc/{users_mount.program.process.pid}/root{users_mount.root}"
    os.chmod(root, 0o777)
    made = child(make_everything, root)
    user = pwd.getpwnam(USER)
    for place in (pathlib.Path(root), users_mount.spool / "captures"):
        owners = {name: (place / name).lstat() for name in made}
        assert {(facts.st_uid, facts.st_gid) for facts in owners.values()} == {(user.pw_uid, user.pw_gid)}, owners


def test_no_permission_for_the_device(users_mount):
    os.chmod("/dev/fuse", 0o600)
    code, stderr = users_mount.start_and_fail()
    assert code == 12, stderr
    assert "uploadfs-mount: " in stderr


def test_other_users_mount_cannot_be_read(users_mount):
    """Not even by root: the kernel keeps a user's mount from every other user."""
    users_mount.start()
    with pytest.raises(PermissionError):
        os.listdir(users_mount.root)
    done = subprocess.run(
        [str(MOUNT_TOOL), "status", str(users_mount.root)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 16 and "allow-other" in done.stderr
