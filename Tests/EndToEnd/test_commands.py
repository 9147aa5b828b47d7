"""status, wait and unmount, their exit codes, and how the daemon ends."""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

import pytest

from harness import (
    MOUNT_TOOL, RECEIVER_TOOL, SOON, clean_environment, descendants, mounts_below, sha256, wait_until, write_random)
from promises import needs
from throttle import ThrottlingProxy


def run(*arguments):
    return subprocess.run(
        [str(MOUNT_TOOL), *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        env=clean_environment())


def test_status_as_table_as_details_and_as_json(mount):
    (mount.root / "scan 42.mov").write_bytes(b"x" * 5000)
    (mount.root / "line\nbreak").write_bytes(b"y")
    mount.wait_all()
    table = mount.tool("status").stdout
    assert "complete" in table and "scan 42.mov" in table and "100 %" in table
    assert "line\\nbreak" in table
    details = mount.tool("status", "scan 42.mov").stdout
    assert "5000 bytes" in details and "receipt" in details
    assert mount.tool("status", mount.root / "scan 42.mov").stdout == details
    assert json.loads(mount.tool("status", "scan 42.mov", "--json").stdout)["state"] == "complete"
    whole = json.loads(mount.tool("status", "--json").stdout)
    assert {file["path"] for file in whole["files"]} == {"scan 42.mov", "line\nbreak"}
    assert whole["summary"]["files"]["complete"] == 2


@pytest.mark.promises("S4")
def test_each_name_of_a_file_is_shown_and_logged(mount):
    """Regression: the first name of a file stood twice in the table and in the log, and the other nowhere; one that is no UTF-8 was
    left out of the table."""
    (mount.root / "first.mov").write_bytes(b"x" * 5000)
    os.link(mount.root / "first.mov", mount.root / "second.mov")
    (mount.root / os.fsdecode(b"caf\xe9.mov")).write_bytes(b"y")
    mount.wait_all()
    wait_until(lambda: mount.program.log.count("] delivered") == 3, mount.program.describe)
    for name in ("first.mov", "second.mov"):
        assert f"path={name} " in mount.program.log
    rows = [line.split()[-1] for line in mount.tool("status").stdout.splitlines()[1:-1]]
    assert rows == ["caf\ufffd.mov", "first.mov", "second.mov"]


def test_status_of_an_unknown_file(mount):
    done = mount.tool("status", "nothing.mov")
    assert done.returncode == 64 and "nothing.mov" in done.stderr


@pytest.mark.parametrize("command", ["status", "wait", "unmount"])
def test_not_a_mount(folder, command):
    for path in (folder, folder / "missing"):
        done = run(command, path)
        assert done.returncode == 16, done.stderr
        assert str(path) in done.stderr and "mount" in done.stderr


@pytest.mark.parametrize("command", ["status", "wait", "unmount"])
def test_a_path_inside_of_a_mount(mount, command):
    """Regression: it was said to be no mount, and mounting it was advised."""
    (mount.root / "folder").mkdir()
    (mount.root / "folder" / "a").write_bytes(b"a")
    for path in (mount.root / "folder", mount.root / "folder" / "a", mount.root / "status"):
        done = run(command, path)
        assert done.returncode == 16 and done.stderr.endswith(f"give the mount point itself: {mount.root}\n"), done.stderr


@pytest.mark.parametrize("arguments, words", [
    (("mout", "/m", "--to", "https://x"), "did you mean “mount”?"), (("unmont", "/m"), "did you mean “unmount”?"),
    (("upload",), "there are: mount, status, wait"),
])
def test_a_misspelt_command(arguments, words):
    """Regression: the option behind it was said to be unknown."""
    done = run(*arguments)
    assert done.returncode == 64 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("arguments, words", [
    (("mount", "/m", "--nme", "x"), "Unknown option '--nme'. Did you mean '--name-template'?"),
    (("mount", "/m", "--chunksize=1MiB"), "Did you mean '--chunk-size'?"), (("mount", "/m", "--token", "x"), "'--token-file'?"),
    (("wait", "/m", "--timout", "3"), "Did you mean '--timeout'?"), (("mount", "/m", "--xqzwvk"), "'--xqzwvk'.\nUsage:"),
])
def test_a_misspelt_option(arguments, words):
    """Regression: for any short word that there is not, “--to” was advised."""
    done = run(*arguments)
    assert done.returncode == 64 and words in done.stderr, done.stderr


def test_a_pipe_as_configuration_is_refused(folder):
    """Regression: it hung until something was written into it."""
    os.mkfifo(folder / "pipe.yaml")
    done = subprocess.run([str(MOUNT_TOOL), "mount", str(folder), "--config", str(folder / "pipe.yaml")], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=SOON, env=clean_environment())
    assert done.returncode == 14 and "a pipe or a device" in done.stderr, done.stderr


def test_a_setting_that_is_no_text_is_refused(folder):
    """Regression: another folder was used as spool, with U+FFFD in its name, without a word."""
    spool = os.fsdecode(bytes(folder / "spool") + b"\xff")
    configuration = folder / "mount.yaml"
    configuration.write_bytes(b"to: https://127.0.0.1:1\nspool: " + os.fsencode(spool) + b"\n")
    for arguments, variables, place in (
            (["--spool", spool], {}, "the value of --spool"), ([], {"UPLOADFS_SPOOL": spool}, "the environment's UPLOADFS_SPOOL"),
            (["--config", str(configuration)], {}, f"{configuration}, line 2")):
        done = subprocess.run(
            [str(MOUNT_TOOL), "mount", str(folder), "--to", "https://127.0.0.1:1", *arguments], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=SOON, env=clean_environment() | variables)
        assert done.returncode == 14 and f"{place} is no UTF-8" in done.stderr, done.stderr
    assert not [name for name in os.listdir(folder) if name.startswith("spool")]


@pytest.mark.parametrize("arguments", [
    ["status", "{}"], ["status", "{}", "a.mov"], ["wait", "{}"], ["unmount", "{}"], ["retry", "{}", "--all"], ["cancel", "{}", "--all"],
    ["publish", "{}", "a.mov"],
])
def test_a_mount_point_that_is_no_text_is_refused(mount, arguments):
    """Regression: the bytes became U+FFFD, which is another place: what is mounted there was asked, told and unmounted."""
    place = bytes(mount.root) + b"-\xff"
    os.symlink(mount.root, os.fsdecode(place.replace(b"\xff", "\ufffd".encode())))
    done = run(*(os.fsdecode(place) if argument == "{}" else argument for argument in arguments))
    assert done.returncode == 14 and done.stderr.startswith("uploadfs-mount: the mount point is no UTF-8"), done
    assert mount.tool("status").returncode == 0


def test_a_pattern_that_is_no_text_is_refused_and_a_name_is_not(mount):
    """Regression: a pattern became another one, with U+FFFD in it."""
    name = os.fsdecode(b"caf\xe9.mov")
    (mount.root / name).write_bytes(b"x")
    mount.wait_all()
    done = run("retry", mount.root, "--delivered", "--match", name)
    assert done.returncode == 14 and "the value of --match is no UTF-8" in done.stderr, done
    done = run("status", mount.root, name)
    assert done.returncode == 0 and "complete" in done.stdout, done


def test_a_value_with_a_line_break_is_refused_in_one_line(folder):
    """Regression: it made several lines of the refusal, and a control character moved the cursor."""
    (folder / "mnt").mkdir()
    for arguments, status in (
            (["--parallel", "4\n5"], 14), (["--keep", "\x1b[2J"], 14), (["--config", folder / "no\nfile.yaml"], 14),
            (["--token-file", folder / "no\nfile"], 15)):
        done = run("mount", folder / "mnt", "--to", "https://127.0.0.1:1", "--spool", folder / "spool", *arguments)
        assert done.returncode == status and done.stderr.count("\n") == 1 and "\x1b" not in done.stderr, done
    done = run("status", folder / "a\nb")
    assert done.returncode == 16 and done.stderr.count("\n") == 1 and "a\\nb" in done.stderr, done


@pytest.mark.parametrize("text, words", [
    ("to: [https://x\nspool: /a\n", "line 2"), ("to: https://x\n  spool: /a\n", "line 2, column 8"),
    ("to: 'https://x\n", "line 2"),
])
def test_a_configuration_that_is_no_yaml(folder, text, words):
    """Regression: the parser's names of its own parts were shown."""
    (folder / "bad.yaml").write_text(text)
    done = run("mount", folder, "--config", folder / "bad.yaml")
    assert done.returncode == 14 and words in done.stderr and "“setting: value”" in done.stderr, done.stderr
    assert "scanner" not in done.stderr and "parser" not in done.stderr


@pytest.mark.parametrize("command", ["status", "wait", "unmount"])
def test_dead_mount(mount, command):
    mount.kill()
    done = mount.tool(command)
    assert done.returncode == 16 and "daemon" in done.stderr


def test_wait_returns_at_once_when_there_is_nothing(mount):
    start = time.monotonic()
    assert mount.tool("wait").returncode == 0
    assert time.monotonic() - start < 5


def reads_summary(pid):
    """The process has the mount's summary open."""
    try:
        return any(os.readlink(entry).endswith("/summary.json") for entry in os.scandir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def test_wait_waits_for_what_was_written_before_and_not_for_more(new_mount, receiver, folder):
    with ThrottlingProxy(receiver.port, rate=8_000_000) as proxy:
        mount = new_mount(receiver, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{proxy.port}")
        subprocess.run(["cp", write_random(folder / "a", 16 << 20), mount.root / "a.mov"], check=True)
        waiting = subprocess.Popen([str(MOUNT_TOOL), "wait", str(mount.root)], stdin=subprocess.DEVNULL)
        wait_until(lambda: reads_summary(waiting.pid), "the waiting program has taken note of what there is")
        subprocess.run(["cp", write_random(folder / "b", 64 << 20), mount.root / "b.mov"], check=True)
        assert waiting.wait(60) == 0
        assert mount.status("a.mov")["state"] == "complete"
        assert mount.status("b.mov")["state"] != "complete"
        proxy.rate = None
        mount.wait_all()


def test_wait_waits_for_an_open_file(mount):
    with open(mount.root / "open.bin", "wb", buffering=0) as file:
        file.write(b"written, not closed")
        done = mount.tool("wait", "--timeout", "1")
        assert done.returncode == 17 and "timed out" in done.stderr
    assert mount.tool("wait", "--timeout", "30").returncode == 0


def test_wait_times_out_and_says_why(new_mount, receiver):
    receiver.stop()
    mount = new_mount(receiver)
    (mount.root / "a.bin").write_bytes(b"x")
    mount.wait_for("a.bin", "waiting")
    done = mount.tool("wait", "--timeout", "500ms")
    assert done.returncode == 17 and "1 file" in done.stderr and "127.0.0.1" in done.stderr


def test_unmount_delivers_first(new_mount, receiver, folder):
    source = write_random(folder / "source", 24 << 20)
    with ThrottlingProxy(receiver.port, rate=8_000_000) as proxy:
        mount = new_mount(receiver, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{proxy.port}")
        subprocess.run(["cp", source, mount.root / "a.mov"], check=True)
        done = mount.tool("unmount")
        assert done.returncode == 0, done.stderr
        assert "delivering 1 file" in done.stderr
        assert mount.program.wait() == 0
    assert not mounts_below(mount.root)
    assert sha256(receiver.files / "a.mov") == sha256(source)
    assert mount.tool("unmount").returncode == 16


def test_unmount_times_out_while_the_daemon_goes_on(new_mount, receiver):
    receiver.stop()
    mount = new_mount(receiver)
    (mount.root / "a.bin").write_bytes(b"x")
    done = mount.tool("unmount", "--timeout", "1")
    assert done.returncode == 17
    receiver.start()
    assert mount.program.wait() == 0
    assert (receiver.files / "a.bin").read_bytes() == b"x"


def test_unmount_ends_as_the_daemon_does(new_mount, receiver):
    """Regression: it said that all was done, although the daemon had given up waiting."""
    receiver.stop()
    mount = new_mount(receiver, "--drain-timeout", "1s")
    (mount.root / "a.bin").write_bytes(b"x")
    done = mount.tool("unmount")
    assert done.returncode == 17 and "timed out with 1 file" in done.stderr, done.stderr
    assert mount.program.wait() == 17
    # What an earlier daemon has said counts no more.
    receiver.start()
    mount.start()
    mount.wait_all()
    assert mount.tool("unmount").returncode == 0 == mount.program.wait()


@pytest.mark.parametrize("number, code, words", [
    (signal.SIGTERM, 19, "left at once"), (signal.SIGKILL, 21, "fusermount3 -u"),
])
def test_unmount_says_when_the_daemon_leaves_or_dies(new_mount, receiver, number, code, words):
    """Regression: it ended with 0."""
    receiver.stop()
    mount = new_mount(receiver)
    (mount.root / "a.bin").write_bytes(b"x")
    with subprocess.Popen(
            [str(MOUNT_TOOL), "unmount", str(mount.root)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=clean_environment()) as tool:
        wait_until(lambda: mount.is_draining, "draining shows")
        mount.program.insist(number)
        _, errors = tool.communicate(timeout=60)
    assert tool.returncode == code and words in errors and "kept in the spool" in errors, errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.promises("S36a")
def test_new_writers_are_refused_while_draining(new_mount, receiver, number):
    receiver.stop()
    mount = new_mount(receiver)
    (mount.root / "a.bin").write_bytes(b"x")
    mount.program.signal(number)
    wait_until(lambda: mount.summary()["draining"], "draining shows")
    for refused in (lambda: (mount.root / "late.bin").write_bytes(b"y"), lambda: open(mount.root / "a.bin", "ab")):
        with pytest.raises(OSError) as error:
            refused()
        assert error.value.errno == errno.EROFS
    assert (mount.root / "a.bin").read_bytes() == b"x"
    receiver.start()
    assert mount.program.wait() == 0


@pytest.mark.promises("S36b")
def test_open_writer_is_waited_for_while_draining(mount, receiver):
    with open(mount.root / "open.bin", "wb", buffering=0) as file:
        file.write(b"before ")
        mount.program.signal(signal.SIGTERM)
        wait_until(lambda: mount.summary()["draining"], "draining shows")
        file.write(b"and after the signal")
        assert mount.program.is_running
    assert mount.program.wait() == 0
    assert (receiver.files / "open.bin").read_bytes() == b"before and after the signal"


@pytest.mark.promises("S36c")
def test_second_signal_leaves_at_once_and_loses_nothing(new_mount, receiver, folder):
    source = write_random(folder / "source", 8 << 20)
    receiver.stop()
    mount = new_mount(receiver)
    subprocess.run(["cp", source, mount.root / "a.mov"], check=True)
    mount.program.signal(signal.SIGINT)
    wait_until(lambda: mount.summary()["draining"], "draining shows")
    start = time.monotonic()
    mount.program.insist(signal.SIGINT)
    assert mount.program.wait() == 19
    assert time.monotonic() - start < 5
    assert not mounts_below(mount.root)
    receiver.start()
    mount.start()
    mount.wait_for("a.mov", "complete")
    assert sha256(receiver.files / "a.mov") == sha256(source)


@pytest.mark.promises("S36c")
def test_a_signal_that_comes_twice_at_once_is_one(new_mount, receiver):
    """Regression: timeout(1), which signals its child and then its group, made the mount leave what was pending."""
    receiver.stop()
    mount = new_mount(receiver)
    (mount.root / "a.mov").write_bytes(b"content")
    # Two of one kind could become one before it hears of them.
    mount.program.signal(signal.SIGTERM)
    mount.program.signal(signal.SIGHUP)
    wait_until(lambda: mount.is_draining, "draining shows")
    receiver.start()
    assert mount.program.wait() == 0
    assert (receiver.files / "a.mov").read_bytes() == b"content"


@pytest.mark.promises("S36c")
def test_a_window_that_is_closed_cuts_no_recording(mount, receiver):
    """Regression: the second SIGHUP, from the kernel after the shell's, left at once, and so did the SIGTERM of the session's end."""
    with open(mount.root / "a.mov", "wb", buffering=0) as file:
        file.write(b"one ")
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
            mount.program.signal(number)
            wait_until(lambda: mount.is_draining, "draining shows")
            # Beyond what counts as an echo before.
            time.sleep(0.1)
        file.write(b"two")
    assert mount.program.wait() == 0
    assert (receiver.files / "a.mov").read_bytes() == b"one two"


@pytest.mark.promises("S36d")
def test_what_was_ignored_at_the_start_stays_ignored(new_mount, receiver):
    """Regression: a blocked signal is heard of also where it is ignored, and `nohup` did nothing."""
    mount = new_mount(receiver, prefix=["env", "--ignore-signal=HUP"])
    mount.program.signal(signal.SIGHUP)
    (mount.root / "a.mov").write_bytes(b"content")
    mount.wait_for("a.mov", "complete")
    assert not mount.is_draining
    assert mount.stop() == 0


def test_a_service_outlives_a_hang_up(new_receiver, new_mount):
    """Regression: log rotation's habit ended the receiver at once, with all requests."""
    receiver = new_receiver()
    receiver.program.signal(signal.SIGHUP)
    mount = new_mount(receiver)
    (mount.root / "a.mov").write_bytes(b"content")
    mount.wait_for("a.mov", "complete")
    assert receiver.program.is_running


@pytest.fixture
def terminal():
    """A terminal: a program that is started with its `prefix` belongs to it, and `hang_up` closes its window."""
    with Terminal() as terminal:
        yield terminal


class Terminal:
    def __enter__(self):
        self._leader, follower = pty.openpty()
        # The first process of a session that opens a terminal has it from then on.
        self.prefix = (
            sys.executable, "-c", "import os, sys; os.open(sys.argv[1], os.O_RDWR); os.execvp(sys.argv[2], sys.argv[2:])",
            os.ttyname(follower))
        self._follower = follower
        return self

    def hang_up(self):
        for end in (self._leader, self._follower):
            if end is not None:
                os.close(end)
        self._leader = self._follower = None

    def __exit__(self, *_):
        self.hang_up()


def test_a_receiver_whose_window_is_closed_ends_in_order(new_receiver, new_mount, terminal):
    """Regression: a hang-up asks a service to read its files anew; what was started from a terminal is to end with it."""
    receiver = new_receiver(prefix=terminal.prefix)
    mount = new_mount(receiver)
    (mount.root / "a.mov").write_bytes(b"content")
    mount.wait_for("a.mov", "complete")
    terminal.hang_up()
    assert receiver.program.wait() == 0
    assert (receiver.files / "a.mov").read_bytes() == b"content"
    receiver.prefix = ()
    receiver.start()
    (mount.root / "b.mov").write_bytes(b"content")
    mount.wait_for("b.mov", "complete")


def test_a_receiver_under_nohup_outlives_its_window(new_receiver, new_mount, terminal):
    """Regression: a signal that is ignored at the start stays so."""
    receiver = new_receiver(prefix=(*terminal.prefix, "nohup"))
    terminal.hang_up()
    receiver.program.signal(signal.SIGHUP)
    mount = new_mount(receiver)
    (mount.root / "a.mov").write_bytes(b"content")
    mount.wait_for("a.mov", "complete")
    assert receiver.program.is_running
    assert receiver.stop() == 0


@pytest.mark.parametrize("closed", ["0<&- 2>&-", "0<&-"])
def test_what_is_started_without_descriptors_has_some(new_receiver, new_mount, closed):
    """Regression: the log went into the spool's lock, or another file that took the number."""
    without = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    receiver = new_receiver(prefix=without)
    mount = new_mount(receiver, prefix=without)
    (mount.root / "a.mov").write_bytes(b"content")
    mount.wait_for("a.mov", "complete")
    for program in (receiver.program, mount.program):
        for number in (0, 2)[:closed.count("-")]:
            assert os.readlink(f"/proc/{program.process.pid}/fd/{number}") == "/dev/null"


@pytest.fixture
def unread(folder):
    """What a program is started with to log into a full pipe without a reader."""
    path = folder / "unread"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(descriptor, b"x" * 4096)
    yield ["sh", "-c", 'exec "$@" 2>"$0"', path]
    os.close(descriptor)


@pytest.mark.promises("S36e")
def test_a_log_that_nobody_reads_stops_nothing(new_receiver, new_mount, unread):
    """Regression: of five files none was published, and signals did nothing; a receiver stood still after a few."""
    receiver = new_receiver("--log-level", "trace", prefix=unread)
    mount = new_mount(receiver, "--log-level", "trace", prefix=unread)
    for number in range(60):
        (mount.root / f"{number}.mov").write_bytes(b"content" * 1000)
    assert mount.tool("wait").returncode == 0
    assert len(receiver.published()) == 60
    start = time.monotonic()
    assert mount.stop(timeout=30) == 0
    assert receiver.stop() == 0
    assert time.monotonic() - start < 25


@pytest.mark.promises("S36e")
def test_a_second_signal_leaves_at_once_though_nobody_reads_the_log(new_mount, receiver, unread):
    """Regression: nothing but SIGKILL ended it."""
    receiver.stop()
    mount = new_mount(receiver, prefix=unread)
    (mount.root / "a.mov").write_bytes(b"content")
    mount.program.signal(signal.SIGTERM)
    wait_until(lambda: mount.is_draining, "draining shows")
    mount.program.insist(signal.SIGTERM)
    assert mount.program.wait(30) == 19
    assert not mounts_below(mount.root)


@pytest.mark.promises("S36e")
def test_a_service_manager_that_does_not_listen_keeps_no_mount(new_mount, receiver, folder):
    """Regression: a full socket swallowed SIGTERM."""
    path = str(folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener, socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM) as filler:
        listener.bind(path)
        filler.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                filler.sendto(b"x", path)
        mount = new_mount(receiver, environment=clean_environment(NOTIFY_SOCKET=path))
        (mount.root / "a.mov").write_bytes(b"content")
        mount.wait_for("a.mov", "complete")
        assert mount.stop(timeout=30) == 0


@pytest.mark.parametrize("command", ["wait", "status", "unmount"])
def test_a_time_limit_holds_while_the_daemon_is_stopped(mount, command):
    """Regression: a call into the mount did not return, and neither did the command."""
    mount.program.signal(signal.SIGSTOP)
    try:
        start = time.monotonic()
        done = mount.tool(command, "--timeout", "1", timeout=30)
        assert done.returncode == 17 and "does not answer" in done.stderr, done
        assert time.monotonic() - start < 10
    finally:
        mount.program.signal(signal.SIGCONT)
    assert not mount.is_draining
    assert mount.stop() == 0


def test_unmount_of_a_copied_summary_ends_no_process(mount, folder):
    """Regression: the process that a copied summary names was sent SIGTERM."""
    other = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
    try:
        copy = folder / "copy" / ".uploadfs" / "summary.json"
        copy.parent.mkdir(parents=True)
        summary = mount.summary()
        summary["process"]["pid"] = other.pid
        copy.write_text(json.dumps(summary))
        done = run("unmount", folder / "copy")
        assert done.returncode == 16 and "not a mounted uploadfs" in done.stderr, done
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("command", [["wait"], ["status"], ["status", "--json"], ["retry", "a.mov"]], ids=" ".join)
def test_a_copied_summary_is_no_mount(mount, folder, command):
    """Regression: `wait` ended with success for the files of a mount that was not there."""
    copy = folder / "copy" / ".uploadfs" / "summary.json"
    copy.parent.mkdir(parents=True)
    copy.write_text(json.dumps(mount.summary()))
    done = run(command[0], folder / "copy", *command[1:])
    assert done.returncode == 16 and "not a mounted uploadfs, though it holds" in done.stderr, done


@needs("root")
def test_unmount_ends_no_daemon_of_another_mount_that_has_its_number_here(new_mount, receiver):
    """Regression: of a mount in a container `unmount` ended what had the daemon's number outside of it, if that was an uploadfs-mount."""
    other = new_mount(receiver, name="other")
    number = other.program.process.pid
    in_container = new_mount(
        receiver, name="contained", prefix=(
            "unshare", "--pid", "--fork", "--kill-child", "sh", "-c",
            f'echo {number - 1} >/proc/sys/kernel/ns_last_pid; "$@" & wait $!', "sh"))
    daemon = next(
        process for process in descendants(in_container.program.process.pid)
        if pathlib.Path(f"/proc/{process}/comm").read_text() == "uploadfs-mount\n")
    assert in_container.summary()["process"]["pid"] == number != daemon
    done = in_container.tool("unmount")
    assert done.returncode == 16 and "another one here than the daemon" in done.stderr, done
    assert other.program.is_running
    (other.root / "a.mov").write_bytes(b"content")
    other.wait_for("a.mov", "complete")
    os.kill(daemon, signal.SIGTERM)
    assert in_container.program.wait() == 0


@needs("root")
@pytest.mark.parametrize("shows_names", [True, False])
def test_unmount_ends_a_daemon_that_does_not_say_its_namespace_by_its_name_alone(mount, folder, shows_names):
    """Regression: a name that cannot be read counted as that of the daemon."""
    copy = folder / "summary.json"
    summary = mount.summary()
    summary["process"].pop("pid_namespace", None)
    copy.write_text(json.dumps(summary))
    number = summary["process"]["pid"]
    hidden = "" if shows_names else f"mount -t tmpfs tmpfs /proc/{number} && "
    script = f'mount --bind {copy} {mount.root}/.uploadfs/summary.json && {hidden}exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", MOUNT_TOOL, "unmount", mount.root], capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=SOON)
    if shows_names:
        assert mount.program.wait() == 0, done
    else:
        assert done.returncode == 16 and "another one here than the daemon" in done.stderr, done
        assert mount.program.is_running


@pytest.mark.parametrize("is_told", ["by its command", "by a signal"])
def test_a_mount_that_was_moved_is_unmounted_where_it_is(new_mount, receiver, tmpfs, is_told):
    """Regression: the daemon unmounted the place where it had mounted, whatever lay there, and said that it was done."""
    place = tmpfs("place", 1 << 20)
    subprocess.run(["mount", "--make-private", place], check=True)
    mount = new_mount(receiver, name="place/first", spool=place.with_name("spool"))
    elsewhere = place / "else where"
    elsewhere.mkdir()
    (mount.root / "a.mov").write_bytes(b"content")
    subprocess.run(["mount", "--move", mount.root, elsewhere], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", mount.root], check=True)
    try:
        if is_told == "by its command":
            done = run("unmount", elsewhere)
            assert done.returncode == 0, done
            assert mount.program.wait() == 0
        else:
            assert mount.stop() == 0
        assert not mounts_below(elsewhere) and mounts_below(mount.root) == [str(mount.root)]
        assert receiver.published() == {"a.mov": 7}
    finally:
        subprocess.run(["umount", mount.root], check=True)


def test_drain_timeout(new_mount, receiver):
    receiver.stop()
    mount = new_mount(receiver, "--drain-timeout", "1s")
    (mount.root / "a.bin").write_bytes(b"x")
    assert mount.stop() == 17
    assert not mounts_below(mount.root)
    assert "kept in the spool" in mount.program.log


def test_unmount_from_outside_delivers_before_the_end(new_mount, receiver, folder):
    source = write_random(folder / "source", 24 << 20)
    with ThrottlingProxy(receiver.port, rate=8_000_000) as proxy:
        mount = new_mount(receiver, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{proxy.port}")
        subprocess.run(["cp", source, mount.root / "a.mov"], check=True)
        subprocess.run(["fusermount3", "-u", mount.root], check=True)
        assert not mounts_below(mount.root)
        assert mount.program.wait() == 0
    assert sha256(receiver.files / "a.mov") == sha256(source)


def test_somebody_standing_in_the_mount_does_not_keep_it(mount, folder):
    stander = subprocess.Popen(["sleep", "60"], cwd=mount.root, stdin=subprocess.DEVNULL)
    try:
        assert mount.stop() == 0
        assert not mounts_below(mount.root)
    finally:
        stander.kill()
        stander.wait()


@pytest.mark.parametrize("is_abstract", [False, True], ids=["in a folder", "abstract"])
def test_service_manager_is_told(new_mount, receiver, folder, is_abstract):
    path = str(folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{path}" if is_abstract else path)
        listener.settimeout(30)
        mount = new_mount(receiver, environment=clean_environment(NOTIFY_SOCKET=f"@{path}" if is_abstract else path))
        assert listener.recv(4096).decode() == f"READY=1\nSTATUS=mounted {mount.root}\n"
        receiver.stop()
        (mount.root / "a.bin").write_bytes(b"x" * 5000)
        mount.wait_for("a.bin", "waiting")
        mount.program.signal(signal.SIGTERM)
        assert listener.recv(4096) == b"STOPPING=1\nSTATUS=delivering what is left\n"
        # What is on stderr as well, again and again until the end.
        assert re.fullmatch(r"STATUS=delivering 1 file, 5\.0 KB.*\n", listener.recv(4096).decode())
        receiver.start()
        assert mount.program.wait() == 0


def test_a_watchdog_hears_of_the_daemon_until_its_end(new_mount, receiver, folder):
    path = str(folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        listener.settimeout(SOON)
        mount = new_mount(receiver, environment=clean_environment(NOTIFY_SOCKET=path, WATCHDOG_USEC="300000"))
        assert listener.recv(4096).startswith(b"READY=1\n")
        for _ in range(3):
            assert listener.recv(4096) == b"WATCHDOG=1\n"
        # What a delivery waits for keeps no watchdog waiting.
        receiver.stop()
        (mount.root / "a.bin").write_bytes(b"x")
        mount.program.signal(signal.SIGTERM)
        heard = [listener.recv(4096) for _ in range(12)]
        assert heard.count(b"WATCHDOG=1\n") >= 3, heard
        receiver.start()
        assert mount.program.wait() == 0


def test_a_watchdog_does_not_hear_of_a_daemon_that_is_stopped(new_mount, receiver, folder):
    path = str(folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        listener.settimeout(SOON)
        mount = new_mount(receiver, environment=clean_environment(NOTIFY_SOCKET=path, WATCHDOG_USEC="300000"))
        # It comes after the line that the harness waits for.
        assert listener.recv(4096).startswith(b"READY=1\n")
        mount.program.signal(signal.SIGSTOP)
        try:
            listener.settimeout(1)
            with pytest.raises(TimeoutError):
                while True:
                    listener.recv(4096)
        finally:
            mount.program.signal(signal.SIGCONT)
        listener.settimeout(SOON)
        assert listener.recv(4096) == b"WATCHDOG=1\n"


def test_another_process_s_watchdog_hears_nothing(new_mount, receiver, folder):
    path = str(folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        listener.settimeout(SOON)
        mount = new_mount(receiver, environment=clean_environment(NOTIFY_SOCKET=path, WATCHDOG_USEC="3000", WATCHDOG_PID="1"))
        assert listener.recv(4096).startswith(b"READY=1\n")
        assert mount.stop() == 0
        assert listener.recv(4096).startswith(b"STOPPING=1\n")


def test_it_says_its_version_and_the_libraries():
    done = run("--version")
    first, second = done.stdout.splitlines()
    assert re.fullmatch(r"uploadfs-mount \d+\.\d+\.\d+( \(commit [0-9a-f]{12}(\+changes)?\))?", first), done
    for library in ("libcurl", "libfuse", "SQLite", "OpenSSL", "Zstandard", "LZ4", "ISA-L"):
        assert re.search(rf"\b{library} \d+\.\d+", second), (library, done)


def test_closed_output_is_no_reason_to_stop(new_mount, receiver):
    mount = new_mount(receiver, start=False)
    read, write = os.pipe()
    process = subprocess.Popen(
        [*map(str, mount.arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=write,
        env=clean_environment(), start_new_session=True)
    os.close(write)
    os.close(read)
    try:
        assert process.stdout.readline().startswith(b"mounted ")
        process.stdout.close()
        (mount.root / "a.bin").write_bytes(b"x")
        mount.tool("wait")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert (receiver.files / "a.bin").read_bytes() == b"x"


def test_progress_stays_in_a_narrow_terminal(folder):
    """Regression: what was longer than a line was left behind by each next one."""
    place, terminal = folder / "mount", None
    place.mkdir()
    reading, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    # No server is there: it waits with the file.
    daemon = subprocess.Popen(
        [str(MOUNT_TOOL), "mount", str(place), "--to", "http://127.0.0.1:1", "--spool", str(folder / "spool")],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal, env=clean_environment(), start_new_session=True)
    try:
        assert daemon.stdout.readline().startswith(b"mounted")
        (place / "a-name-that-is-quite-long.mov").write_bytes(b"x" * 100_000)
        # What is logged in the middle of a line stands behind it.
        shown = b""
        while b"everything waits" not in shown:
            shown += os.read(reading, 4096)
        daemon.send_signal(signal.SIGINT)
        shown = b""
        while shown.count(b"\r\x1b[Kdelivering") < 2:
            shown += os.read(reading, 4096)
    finally:
        daemon.send_signal(signal.SIGINT)
        daemon.stdout.read()
        assert daemon.wait(30) == 19
        os.close(terminal)
        os.close(reading)
    # What is logged meanwhile has lines of its own.
    texts = [line.split(b"\r\n")[0].decode() for line in shown.split(b"\r\x1b[K")[1:]]
    lines = [text for text in texts if text.startswith("delivering")]
    assert all(len(line) < 40 for line in lines) and lines[0].startswith("delivering") and lines[0].endswith("…"), lines


@needs("root")
@pytest.mark.parametrize("tool", [MOUNT_TOOL, RECEIVER_TOOL])
def test_without_proc_it_says_so(tool):
    """Regression: help was printed, and all was well."""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", 'umount -l /proc && exec "$@"', "sh", tool, "sessions", "--root", "/nowhere"],
        capture_output=True, text=True, env=clean_environment(), timeout=SOON)
    assert done.returncode == 1 and "/proc is not there" in done.stderr and not done.stdout, done


def test_what_lies_deeper_than_a_path_may_be_long_is_listed(mount, receiver):
    """Regression: it was missing in the table."""
    folders = [f"{number:02}" + "d" * 240 for number in range(20)]
    descriptor = os.open(mount.root, os.O_RDONLY)
    for name in folders:
        os.mkdir(name, dir_fd=descriptor)
        inner = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    file = os.open("deep.mov", os.O_WRONLY | os.O_CREAT, dir_fd=descriptor)
    os.write(file, b"x")
    os.close(file)
    os.close(descriptor)
    mount.wait_all()
    listed = json.loads(mount.tool("status", "--json").stdout)
    assert [reading["path"] for reading in listed["files"]] == ["/".join([*folders, "deep.mov"])], listed
    assert "1 B        100 %  -            00ddd" in mount.tool("status").stdout
    assert json.loads(mount.tool("status", "/".join([*folders, "deep.mov"]), "--json").stdout)["state"] == "complete"


def test_a_short_form_that_becomes_ambiguous_is_not_there(mount):
    """Regression: what the kernel still had of it gave EINVAL."""
    (mount.root / "scan42.mov").write_bytes(b"x")
    mount.wait_for("scan42.mov", "complete")
    short = mount.root / "status" / "scan42.json"
    assert json.loads(short.read_text())["path"] == "scan42.mov"
    (mount.root / "scan42.txt").write_bytes(b"y")
    for look in (short.read_bytes, lambda: os.readlink(short)):
        with pytest.raises(FileNotFoundError):
            look()
    (mount.root / "scan42.txt").unlink()
    assert json.loads(short.read_text())["path"] == "scan42.mov"


def test_a_file_beside_a_folder_with_the_name_of_its_status_is_found(mount):
    """Regression: of `a` beside `a.json/` it was said that there is no such file."""
    (mount.root / "a.json").mkdir()
    for name in ("a.json/b", "a"):
        (mount.root / name).write_bytes(b"x")
    mount.wait_all()
    for name in ("a.json/b", "a"):
        done = mount.tool("status", name, "--json")
        assert done.returncode == 0 and json.loads(done.stdout)["path"] == name, done
    assert sorted(reading["path"] for reading in json.loads(mount.tool("status", "--json").stdout)["files"]) == ["a", "a.json/b"]
    # A delivered one is not retried, and it is this one that says so.
    done = mount.tool("retry", "a")
    assert (done.returncode, done.stdout) == (0, "a: complete\n"), done
