"""Files whose writers do not finish them, with processes that really die. The statements of docs/semantics.md are
named by their number. Tests/FSBehaviourTests/InterruptionTests.swift has every way to die, and what is told of it."""

import contextlib
import errno
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

from harness import clean_environment, unmount_lazily, wait_until
from promises import installed


def run_writer(code, *arguments, number, until=None):
    """Runs Python code that prints a line when it is ready, and then sends it a signal; its exit code."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)], stdout=subprocess.PIPE, text=True,
        env=clean_environment(), stdin=subprocess.PIPE)
    try:
        assert process.stdout.readline().strip() == "ready"
        if until:
            until()
        process.send_signal(number)
        process.communicate(timeout=60)
        return process.returncode
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


# Writes, says so, and waits for whatever comes.
RECORDER = """
    import os, sys
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(file, b"half of it")
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.promises("S40g")
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_mount_that_was_taken_out_of_the_tree_ends_with_its_last_file(mount, receiver, is_killed):
    """Regression: the kernel drops the release of the last file, and the daemon waited for it for ever."""
    path = mount.root / "take.mov"
    code = """
        import os, subprocess, sys
        file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
        os.write(file, b"half of it, ")
        print("ready", flush=True)
        sys.stdin.readline()
        os.write(file, b"and the rest")
        print("written", flush=True)
        sys.stdin.readline()
        os.close(file)
    """
    with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(path)], stdout=subprocess.PIPE, stdin=subprocess.PIPE,
            text=True, env=clean_environment()) as writer:
        assert writer.stdout.readline().strip() == "ready"
        subprocess.run(["umount", "-l", mount.root], check=True)
        writer.stdin.write("\n")
        writer.stdin.flush()
        assert writer.stdout.readline().strip() == "written"
        if is_killed:
            writer.kill()
        else:
            writer.stdin.write("\n")
            writer.stdin.close()
        writer.wait(60)
    mount.program.wait()
    mount.start()
    mount.wait_for("take.mov", "interrupted" if is_killed else "complete")
    assert receiver.published() == ({} if is_killed else {"take.mov": 24})


@pytest.mark.promises("S39a", "S39b", "S39f")
def test_s39_a_file_whose_writer_was_killed_is_not_published(mount, receiver):
    path = mount.root / "take.mov"
    assert run_writer(RECORDER, path, number=signal.SIGTERM) == -signal.SIGTERM
    status = mount.wait_for("take.mov", "interrupted")
    assert status["last_error"]["code"] == "writer-killed" and f"signal {signal.SIGTERM.value}" in status["last_error"]["message"]
    assert path.read_bytes() == b"half of it" and receiver.published() == {}
    done = mount.tool("wait", "--timeout", 60)
    # Regression: it named the file and left out why.
    assert done.returncode == 18 and f"of take.mov: {status['last_error']['message']}" in done.stderr, done.stderr
    # Written anew, it is whole.
    path.write_bytes(b"all of it")
    mount.wait_for("take.mov", "complete")
    assert receiver.published() == {"take.mov": 9}


# Opens with the flags that programs have for it, writes, and starts another program in the way that is named.
STARTER = """
    import os, subprocess, sys, threading
    file = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    os.write(file, b"the whole of it")
    print("ready", flush=True)
    sys.stdin.readline()
    if sys.argv[1] == "threads":
        threading.Thread(target=sys.stdin.read, daemon=True).start()
        other = threading.Thread(target=os.execv, args=("/bin/true", ["true"]))
        other.start()
        other.join()
    elif sys.argv[1] == "child":
        subprocess.run(["true"], check=True)
    elif sys.argv[1] == "fork":
        if not os.fork():
            os.execv("/bin/true", ["true"])
        os.wait()
    else:
        os.execv("/bin/true", ["true"])
"""


@pytest.mark.promises("S39g")
@pytest.mark.parametrize("way", ["itself", "threads", "child", "fork"])
def test_a_program_that_has_a_capture_open_starts_another_one(mount, receiver, way):
    """Regression: the kernel holds a lock over the close, for which the daemon waited in /proc: the program, and each `ps`."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(STARTER), way, mount.root / "take.mov"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, env=clean_environment())
    try:
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(10) == 0
    finally:
        # What hangs is let go of with its mount.
        if process.poll() is None:
            mount.kill()
            process.kill()
            process.wait()
        process.stdin.close()
        process.stdout.close()
    mount.wait_for("take.mov", "complete")
    assert (receiver.files / "take.mov").read_bytes() == b"the whole of it"


@pytest.mark.promises("S39b")
def test_s39_an_interrupted_file_is_kept_over_a_restart_and_delivered_on_request(mount, receiver):
    run_writer(RECORDER, mount.root / "take.mov", number=signal.SIGKILL)
    mount.wait_for("take.mov", "interrupted")
    assert mount.stop() == 18
    mount.start()
    assert mount.wait_for("take.mov", "interrupted")["last_error"]["code"] == "writer-killed"
    mount.say("publish", "take.mov")
    mount.wait_for("take.mov", "complete")
    assert (receiver.files / "take.mov").read_bytes() == b"half of it"
    assert mount.stop() == 0


@pytest.mark.promises("S39b", "S39c", "S39d")
def test_s39_policies(new_mount, receiver):
    mount = new_mount(receiver, "--interrupted", "discard", "--rule", "keep/** interrupted=publish; *.hold interrupted=hold")
    opened = []
    (mount.root / "keep").mkdir()
    (mount.root / "whole").write_bytes(b"whole")
    mount.wait_for("whole", "complete")
    for name in ("gone", "keep/take", "take.hold"):
        run_writer(RECORDER, mount.root / name, number=signal.SIGKILL)
    mount.wait_for("keep/take", "complete")
    mount.wait_for("take.hold", "interrupted")
    wait_until(lambda: not (mount.root / "gone").exists(), "the file is discarded")
    read = mount.root / "read"
    run_writer(RECORDER, read, number=signal.SIGKILL, until=lambda: opened.append(open(read, "rb")))
    mount.wait_for("read", "interrupted")
    assert opened[0].read() == b"half of it"
    opened[0].close()
    wait_until(lambda: not read.exists(), "the file is discarded once nobody reads it")
    assert mount.status("gone")["local"] is False and "removed from the spool by rule" in mount.program.log
    assert sorted(os.listdir(mount.spool / "captures")) == ["keep", "take.hold", "whole"]
    assert sorted(receiver.published()) == ["keep/take", "whole"]


@pytest.mark.promises("S40a", "S40b", "S39f")
def test_s40_a_file_that_was_written_when_the_mount_died_is_not_published(mount, receiver):
    for name in ("open", "closed", "fsynced"):
        (mount.root / name).write_bytes(b"before")
    mount.wait_all()
    receiver.stop()
    written = os.open(mount.root / "open", os.O_WRONLY)
    os.write(written, b"half")
    untouched = os.open(mount.root / "closed", os.O_RDWR)
    with open(mount.root / "new", "wb") as file:
        file.write(b"whole")
        file.flush()
        os.fsync(file.fileno())
    # Its close has returned, so it is finished, whether or not the kernel has said that it was released.
    descriptors = [os.open(mount.root / f"many{index}", os.O_WRONLY | os.O_CREAT) for index in range(50)]
    for descriptor in descriptors:
        os.write(descriptor, b"whole")
    for descriptor in descriptors:
        os.close(descriptor)
    mount.kill()
    for descriptor in (written, untouched):
        try:
            os.close(descriptor)
        except OSError:
            pass
    receiver.start()
    mount.start()
    status = mount.wait_for("open", "interrupted")
    assert status["last_error"]["code"] == "mount-died"
    for name in ("new", "closed", *(f"many{index}" for index in range(50))):
        mount.wait_for(name, "complete")
    assert (receiver.files / "open").read_bytes() == b"before"
    assert (mount.root / "open").read_bytes() == b"halfre"
    # A writer that goes on and finishes is the one to know.
    with open(mount.root / "open", "ab") as file:
        file.write(b"!")
    mount.wait_for("open", "complete")
    assert (receiver.files / "open").read_bytes() == b"halfre!"


NO_ATTRIBUTES = "the spool's filesystem has no user extended attributes"


def preloaded(folder, name):
    """A library of this folder, for LD_PRELOAD."""
    library = folder / f"{name}.so"
    source = pathlib.Path(__file__).with_name(f"{name}.c")
    subprocess.run([installed("cc"), "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.mark.promises("S40e")
def test_s40_without_user_attributes_the_record_says_what_was_being_written(new_mount, receiver, folder):
    library = preloaded(folder, "without_attributes")
    mount = new_mount(receiver, environment=clean_environment(LD_PRELOAD=library))
    notices = [line for line in mount.program.log.splitlines() if NO_ATTRIBUTES in line]
    assert len(notices) == 1 and str(mount.spool) in notices[0], mount.program.log
    receiver.stop()
    (mount.root / "closed").write_bytes(b"whole")
    written = os.open(mount.root / "open", os.O_WRONLY | os.O_CREAT)
    os.write(written, b"half")
    mount.kill()
    with pytest.raises(OSError):
        os.close(written)
    receiver.start()
    mount.start()
    mount.wait_for("closed", "complete")
    assert mount.wait_for("open", "interrupted")["last_error"]["code"] == "mount-died"
    assert receiver.published() == {"closed": 5}
    (mount.root / "open").write_bytes(b"whole")
    mount.wait_for("open", "complete")
    mount.stop()
    mount.start()
    mount.wait_for("open", "complete")


@pytest.mark.promises("S40e")
def test_s40_with_user_attributes_nothing_is_said(mount):
    assert NO_ATTRIBUTES not in mount.program.log


@pytest.fixture
def failing_fsync(folder):
    """A library for a daemon in which fsync(2) of captures fails as long as the file `failing` is there."""
    return preloaded(folder, "failing_fsync")


@pytest.mark.parametrize("synchronize", [os.fsync, os.fdatasync], ids=["fsync", "fdatasync"])
@pytest.mark.promises("S41b", "S41c")
def test_s41_a_file_of_which_an_fsync_failed_is_not_published_unless_it_is_written_anew(
        new_mount, receiver, folder, failing_fsync, synchronize):
    failing = folder / "failing"
    mount = new_mount(receiver, environment=clean_environment(LD_PRELOAD=failing_fsync, FAILING=failing))
    file = os.open(mount.root / "take.mov", os.O_WRONLY | os.O_CREAT)
    os.write(file, b"half")
    failing.touch()
    with pytest.raises(OSError) as raised:
        synchronize(file)
    assert raised.value.errno == errno.EIO
    failing.unlink()
    # What of it is on the disk is not known: neither a later write nor another fsync makes that good, and each says so.
    os.write(file, b" of it")
    with pytest.raises(OSError, match="Input/output error"):
        synchronize(file)
    os.close(file)
    status = mount.wait_for("take.mov", "interrupted")
    assert status["last_error"]["code"] == "write-failed" and "EIO" in status["last_error"]["message"]
    assert receiver.published() == {}
    (mount.root / "take.mov").write_bytes(b"all of it")
    mount.wait_for("take.mov", "complete")
    assert receiver.published() == {"take.mov": 9}


@pytest.mark.promises("S44d")
def test_s44_a_close_whose_sync_fails_is_eio_and_the_status_says_so(new_mount, receiver, folder, failing_fsync):
    failing = folder / "failing"
    mount = new_mount(
        receiver, "--rule", "* close=synced", environment=clean_environment(LD_PRELOAD=failing_fsync, FAILING=failing))
    (mount.root / "day").mkdir()
    file = os.open(mount.root / "day" / "take.mov", os.O_WRONLY | os.O_CREAT)
    os.write(file, b"half")
    failing.touch()
    with pytest.raises(OSError) as raised:
        os.close(file)
    assert raised.value.errno == errno.EIO
    failing.unlink()
    status = mount.wait_for("day/take.mov", "interrupted")
    assert status["last_error"]["code"] == "write-failed" and "EIO" in status["last_error"]["message"]
    assert receiver.published() == {}
    (mount.root / "day" / "take.mov").write_bytes(b"all of it")
    mount.wait_for("day/take.mov", "complete")


def mark_as_closed_elsewhere(path):
    """What stands on a file whose close was in an earlier instance of the spool's filesystem, as after a power cut."""
    identity, *members = os.getxattr(path, "user.uploadfs").decode().split(";")
    kept = [member for member in members if not member.startswith("m")]
    os.setxattr(path, "user.uploadfs", ";".join([identity, f"mclosed {path.stat().st_size} another.1", *kept]).encode())


def turn_to_zeros_by_a_power_cut(path):
    """A disk may have a file's size, time and mark without its content."""
    times = path.stat()
    with open(path, "r+b") as file:
        file.write(bytes(times.st_size))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    mark_as_closed_elsewhere(path)


@pytest.mark.promises("S40c")
@pytest.mark.parametrize("rule", ["hold", "publish", "discard"])
def test_no_rule_publishes_or_removes_what_a_power_cut_left(new_mount, receiver, rule):
    """Regression: `publish` delivered the zeros, and `discard` removed the file."""
    mount = new_mount(receiver, "--interrupted", rule)
    receiver.kill()
    (mount.root / "take.mov").write_bytes(b"content")
    half = os.open(mount.root / "half.mov", os.O_WRONLY | os.O_CREAT)
    os.write(half, b"half")
    mount.kill()
    unmount_lazily(str(mount.root))
    with contextlib.suppress(OSError):
        os.close(half)
    path = mount.spool / "captures" / "take.mov"
    with open(path, "r+b") as file:
        file.write(bytes(7))
    mark_as_closed_elsewhere(path)
    receiver.start()
    mount.start()
    # The rule is obeyed for what it is for, and what comes later is delivered.
    mount.wait_for("half.mov", {"hold": "interrupted", "publish": "complete", "discard": "cancelled"}[rule])
    (mount.root / "later.mov").write_bytes(b"later")
    mount.wait_for("later.mov", "complete")
    status = mount.status("take.mov")
    assert (status["state"], status["last_error"]["code"]) == ("interrupted", "not-on-disk")
    assert path.read_bytes() == bytes(7)
    assert set(receiver.published()) == {"later.mov"} | ({"half.mov"} if rule == "publish" else set())


@pytest.mark.promises("S40l")
def test_no_rule_publishes_what_a_power_cut_left_of_a_delivered_file_under_another_name(new_mount, receiver):
    """Regression: with the rule `publish` a rename published zeros."""
    mount = new_mount(receiver, "--interrupted", "publish")
    (mount.root / "take.mov").write_bytes(b"content")
    mount.wait_for("take.mov", "complete")
    mount.kill()
    unmount_lazily(str(mount.root))
    turn_to_zeros_by_a_power_cut(mount.spool / "captures" / "take.mov")
    mount.start()
    mount.wait_for("take.mov", "complete")
    (mount.root / "take.mov").rename(mount.root / "renamed.mov")
    mount.wait_for("renamed.mov", "interrupted")
    assert mount.status("renamed.mov")["last_error"]["code"] == "not-on-disk"
    assert set(receiver.published()) == {"take.mov"} and (receiver.files / "take.mov").read_bytes() == b"content"


@pytest.mark.promises("S79a")
def test_without_attributes_an_inode_number_that_was_used_again_is_another_capture(new_mount, receiver, folder):
    """Regression: it replaced the capture that had had its number."""
    environment = clean_environment(LD_PRELOAD=preloaded(folder, "without_attributes"))
    mount = new_mount(receiver, "--name-template", "{seq:3}.{ext}", environment=environment)
    (mount.root / "a.mov").write_bytes(b"the first capture")
    mount.wait_for("a.mov", "complete")
    assert mount.stop() == 0
    captured = mount.spool / "captures" / "a.mov"
    captured.write_bytes(b"another capture")
    captured.rename(captured.with_name("b.mov"))
    mount.start()
    mount.wait_for("b.mov", "complete")
    assert mount.status("b.mov")["published_name"] == "002.mov"
    assert {name: (receiver.files / name).read_bytes() for name in receiver.published()} == {
        "001.mov": b"the first capture", "002.mov": b"another capture"}
