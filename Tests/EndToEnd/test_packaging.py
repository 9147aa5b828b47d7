"""What the packages hold besides the programs, as far as it can be looked at without installing them: units, manual pages, completions, and the
helper of /etc/fstab. Tests/Packages installs them."""

import ctypes
import fcntl
import json
import os
import pathlib
import re
import select
import subprocess
import sys

import pytest

from harness import MOUNT_TOOL, RECEIVER_TOOL, REPOSITORY, SOON, clean_environment, mounts_below, wait_until
from promises import installed, needs

PACKAGING = REPOSITORY / "packaging"
HELPER = PACKAGING / "uploadfs" / "mount.uploadfs"
# linux/auto_fs.h
AUTOFS_READY, AUTOFS_CATATONIC = 0x9360, 0x9362
UNITS = {"uploadfs@.service": PACKAGING / "uploadfs", "uploadfs-receiver.service": PACKAGING / "uploadfs-receiver"}


def run(*command, **more):
    return subprocess.run(
        [*map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON, env=clean_environment(**more))


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_understood(name, folder):
    text = (UNITS[name] / name).read_text()
    for tool in (MOUNT_TOOL, RECEIVER_TOOL):
        text = text.replace(f"/usr/bin/{tool.name} ", f"{tool} ")
    unit = folder / name.replace("@", "@capture")
    unit.write_text(text)
    done = run(installed("systemd-analyze"), "verify", "--man=no", unit)
    # A machine without systemd as its first process says so as well.
    said = [line for line in done.stderr.splitlines() if "uploadfs" in line]
    assert not said, done


def test_the_receivers_unit_is_rated_below_3():
    done = run(installed("systemd-analyze"), "security", "--offline=yes", "--threshold=29", UNITS["uploadfs-receiver.service"] / "uploadfs-receiver.service")
    assert done.returncode == 0, done.stdout[-300:]


def test_a_unit_that_is_open_is_rated_above_it(folder):
    unit = folder / "open.service"
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    assert run(installed("systemd-analyze"), "security", "--offline=yes", "--threshold=29", unit).returncode != 0


def test_the_mounts_unit_keeps_the_mount_in_no_tree_of_its_own():
    """Others would not see it."""
    settings = re.findall(r"^(\w+)=", (UNITS["uploadfs@.service"] / "uploadfs@.service").read_text(), re.MULTILINE)
    closing = re.compile(r"Protect(System|Home|KernelTunables|KernelModules|KernelLogs|ControlGroups|Proc|Clock|Hostname)|Private\w+|\w+Paths|Bind\w+|\w+Directory|RootImage|MountFlags|TemporaryFileSystem|DynamicUser")
    assert not [name for name in settings if closing.fullmatch(name)]


def test_the_changelog_of_the_packages_has_the_version():
    number = re.search(r'static let number = "(.*)"', (REPOSITORY / "Sources/ProgramVersion/ProgramVersion.swift").read_text())[1]
    assert (PACKAGING / "changelog").read_text().startswith(f"uploadfs ({number}) ")
    assert run(MOUNT_TOOL, "--version").stdout.split()[1] == number


@pytest.mark.parametrize("tool", [MOUNT_TOOL, RECEIVER_TOOL], ids=lambda tool: tool.name)
def test_manual_pages_say_what_the_help_says(tool, folder):
    done = run(PACKAGING / "man-pages", tool, "1.2.3", "2026-01-02", folder)
    assert done.returncode == 0, done
    pages = sorted(folder.iterdir())
    commands = re.findall(r"^  ([a-z]+) ", run(tool, "--help").stdout.partition("SUBCOMMANDS:")[2], re.MULTILINE)
    assert len(commands) > 2
    assert [page.name for page in pages] == sorted([f"{tool.name}.1"] + [f"{tool.name}-{command}.1" for command in commands])
    for page in pages:
        shown = run(installed("man"), "--warnings", "--local-file", page, MANWIDTH="400", LC_ALL="C.UTF-8", MAN_KEEP_FORMATTING="")
        assert shown.returncode == 0 and not shown.stderr, (page.name, shown.stderr)
        command = page.stem.removeprefix(tool.name).lstrip("-")
        text = run(tool, *([command] if command else []), "--help").stdout
        options = set(re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", text, re.MULTILINE))
        assert options and not [option for option in options if option not in shown.stdout], page.name


def test_the_helpers_page_is_understood(folder):
    shown = run(installed("man"), "--warnings", "--local-file", PACKAGING / "uploadfs" / "mount.uploadfs.8", MANWIDTH="400", LC_ALL="C.UTF-8")
    assert shown.returncode == 0 and not shown.stderr and "/etc/uploadfs/NAME.yaml" in shown.stdout


@pytest.mark.parametrize("tool", [MOUNT_TOOL, RECEIVER_TOOL], ids=lambda tool: tool.name)
def test_completions_are_made(tool, folder):
    for shell, word in (("bash", f"-F _{tool.name} {tool.name}"), ("zsh", f"#compdef {tool.name}"), ("fish", f"complete -c '{tool.name}'")):
        done = run(tool, "--generate-completion-script", shell)
        assert done.returncode == 0 and word in done.stdout, (shell, done.stdout[:500], done.stderr)
        (folder / shell).write_text(done.stdout)
    assert run("bash", "-n", folder / "bash").returncode == 0


def helper(*arguments):
    return run(HELPER, *arguments, UPLOADFS_MOUNT_PROGRAM=MOUNT_TOOL)


def options(receiver, folder, *more):
    return ",".join([f"spool={folder / 'spool'}", f"ca={receiver.ca}", f"token-file={receiver.token_file}", *more])


@pytest.fixture
def place(folder):
    place = folder / "capture"
    place.mkdir()
    yield place
    run("umount", "--lazy", place)


@needs("root")
def test_mount_is_ready_when_the_helper_ends_and_delivers_after_umount(receiver, folder, place):
    done = helper(receiver.url, place, "-o", options(receiver, folder, "rw", "_netdev", "nofail", "x-systemd.automount", "allow_other", "parallel=3"))
    assert done.returncode == 0, done
    assert mounts_below(place) == [str(place)]
    (place / "a.mov").write_bytes(b"content")
    again = helper(receiver.url, place, "-o", options(receiver, folder))
    assert again.returncode == 32 and f"{place} is mounted already" in again.stderr
    assert run("umount", place).returncode == 0
    wait_until(lambda: receiver.published() == {"a.mov": 7}, "the capture is delivered")


@needs("root")
def test_a_mount_whose_daemon_died_is_mounted_anew(receiver, folder, place):
    for _ in range(2):
        done = helper(receiver.url, place, "-o", options(receiver, folder))
        assert done.returncode == 0, done
        daemon = json.loads((place / ".uploadfs" / "summary.json").read_text())["process"]["pid"]
        os.kill(daemon, 9)
        wait_until(lambda: not pathlib.Path(f"/proc/{daemon}").exists(), "the daemon is gone")


@needs("root")
def test_a_mount_is_made_where_an_automount_waits_for_it(receiver, folder, place):
    """Regression: the daemon looked into the folder, which waits for the mount, and so for itself. As systemd does, the helper is run in the group
    that mounts, and what it starts has to stay there."""
    if "autofs" not in pathlib.Path("/proc/filesystems").read_text():
        pytest.skip("the kernel has no autofs")
    libc = ctypes.CDLL(None, use_errno=True)
    asked, told = os.pipe()
    # As systemd does for x-systemd.automount. What this process's group looks at waits for nothing.
    settings = f"fd={told},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
    assert libc.mount(b"test", bytes(place), b"autofs", 0, settings.encode()) == 0, os.strerror(ctypes.get_errno())
    root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    reader = subprocess.Popen(["ls", place], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        assert select.select([asked], [], [], SOON)[0], "no program was seen that looks into the folder"
        token = int.from_bytes(os.read(asked, 4096)[8:12], sys.byteorder)
        done = helper(receiver.url, place, "-o", options(receiver, folder))
        assert done.returncode == 0, done
        fcntl.ioctl(root, AUTOFS_READY, token)
        assert reader.wait(SOON) == 0
        (place / "a.mov").write_bytes(b"content")
        assert run("umount", place).returncode == 0
        wait_until(lambda: receiver.published() == {"a.mov": 7}, "the capture is delivered")
    finally:
        # No program waits any more.
        fcntl.ioctl(root, AUTOFS_CATATONIC, 0)
        reader.kill()
        reader.wait()
        for descriptor in (root, told, asked):
            os.close(descriptor)
        run("umount", "--lazy", place)


@pytest.mark.parametrize("given, code, words", [
    ([], 1, "usage: mount.uploadfs SPEC DIR"),
    (["uploadfs", "PLACE", "more"], 1, "one mount point, not more as well"),
    (["-x", "uploadfs", "PLACE"], 1, "unknown option -x"),
    (["nfs.example.org", "PLACE"], 1, "not nfs.example.org"),
    (["uploadfs", "PLACE"], 1, "no settings: there is no /etc/uploadfs/"),
    (["uploadfs", "PLACE", "-o", "rw,spol=/x"], 1, "unknown option spol;"),
    (["uploadfs", "PLACE", "-o", "ro"], 1, "option ro:"),
    (["uploadfs", "PLACE", "-o", "suid"], 1, "option suid:"),
    (["uploadfs", "PLACE", "-o", "help"], 1, "unknown option help"),
    (["https://a.example", "PLACE", "-o", "to=https://b.example"], 1, "stands in the first field already"),
    (["https://a.example", "PLACE", "-o", 'also-to="https://b.example,https://c.example"'], 1, "config=FILE"),
    (["https://127.0.0.1:1", "PLACE", "-o", "parallel=99,spool=SPOOL"], 1, "--parallel: “99” is not possible"),
    (["https://127.0.0.1:1", "PLACE/none", "-o", "spool=SPOOL"], 32, "none"),
])
def test_what_cannot_be_mounted_is_refused_with_its_name(folder, place, given, code, words):
    done = helper(*[text.replace("PLACE", str(place)).replace("SPOOL", str(folder / "spool")) for text in given])
    assert done.returncode == code and words in done.stderr, done
    assert not mounts_below(place)


def test_it_says_what_it_would_run_and_leaves_out_what_it_may(folder, place):
    done = helper("-fsnv", "https://127.0.0.1:1", place, "-o", "spool=/s,colour=red", "-o", "keep=1h")
    assert done.returncode == 0 and not mounts_below(place)
    assert done.stdout == f"mount.uploadfs: {MOUNT_TOOL} mount {place} --to https://127.0.0.1:1 --spool=/s --keep=1h\n"
