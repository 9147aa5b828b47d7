"""Files whose writers do not finish them (spec H5), with processes that really die. The statements of docs/semantics.md are
named by their number."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from conftest import needs_root
from harness import clean_environment, wait_until

DEFAULT = object()


def run_writer(code, *arguments, until=None, number=None):
    """Runs Python code that prints a line when it is ready, then sends it a signal or lets it end; its exit code."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)], stdout=subprocess.PIPE, text=True,
        env=clean_environment(), stdin=subprocess.PIPE)
    try:
        if number is not None:
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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_s39_a_file_whose_writer_was_killed_is_not_published(mount, receiver, number):
    """S39"""
    path = mount.root / "take.mov"
    assert run_writer(RECORDER, path, number=number) == -number
    status = mount.wait_for("take.mov", "interrupted")
    assert status["last_error"]["code"] == "writer-killed" and f"signal {number.value}" in status["last_error"]["message"]
    assert path.read_bytes() == b"half of it" and receiver.published() == {}
    done = mount.tool("wait", "--timeout", 60)
    assert done.returncode == 18 and "take.mov" in done.stderr
    # Written anew, it is whole.
    path.write_bytes(b"all of it")
    mount.wait_for("take.mov", "complete")
    assert receiver.published() == {"take.mov": 9}


def test_s39_an_interrupted_file_is_kept_over_a_restart_and_delivered_on_request(mount, receiver):
    """S39"""
    run_writer(RECORDER, mount.root / "take.mov", number=signal.SIGKILL)
    mount.wait_for("take.mov", "interrupted")
    assert mount.stop() == 18
    mount.start()
    assert mount.wait_for("take.mov", "interrupted")["last_error"]["code"] == "writer-killed"
    mount.program.signal(signal.SIGUSR1)
    mount.wait_for("take.mov", "complete")
    assert (receiver.files / "take.mov").read_bytes() == b"half of it"
    assert mount.stop() == 0


FINISHED = {
    "exit without close": """
        import os, sys
        os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), b"whole")
    """,
    "exit with an error": """
        import os, sys
        os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), b"whole")
        os._exit(1)
    """,
    "exit of a process with many threads": """
        import os, sys, threading, time
        os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), b"whole")
        for _ in range(8):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        os._exit(0)
    """,
    "killed after close": """
        import os, signal, sys
        file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
        os.write(file, b"whole")
        os.close(file)
        os.kill(os.getpid(), signal.SIGKILL)
    """,
    "killed child of a writer that goes on": """
        import os, signal, sys
        file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
        os.write(file, b"wh")
        if os.fork() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        os.wait()
        os.write(file, b"ole")
        os.close(file)
    """,
    "killed parent of a child that goes on": """
        import os, signal, sys, time
        file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
        os.write(file, b"wh")
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:
                time.sleep(0.01)
            os.write(file, b"ole")
            os._exit(0)
        os.kill(parent, signal.SIGKILL)
    """,
    "killed without having changed anything": """
        import os, signal, sys
        open(sys.argv[1], "wb").write(b"whole")
        file = os.open(sys.argv[1], os.O_RDWR)
        os.kill(os.getpid(), signal.SIGKILL)
    """,
}


@pytest.mark.parametrize("how", FINISHED)
def test_s39_whoever_ends_by_itself_has_finished(mount, receiver, how):
    """S39"""
    run_writer(FINISHED[how], mount.root / "take.mov")
    mount.wait_for("take.mov", "complete", "interrupted")
    wait_until(lambda: receiver.published().get("take.mov") == 5, lambda: mount.status("take.mov"))
    assert mount.status("take.mov")["state"] == "complete"


KILLED = {
    "many threads": """
        import os, sys, threading, time
        file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
        os.write(file, b"half")
        for _ in range(8):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        print("ready", flush=True)
        sys.stdin.read()
    """,
    "duplicated descriptors": """
        import os, sys
        file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
        os.close(os.dup(file))
        os.dup(file)
        os.write(file, b"half")
        os.close(os.dup(file))
        print("ready", flush=True)
        sys.stdin.read()
    """,
    "a shared mapping": """
        import mmap, os, sys
        file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
        os.truncate(file, 8192)
        view = mmap.mmap(file, 8192)
        view[0:4] = b"half"
        print("ready", flush=True)
        sys.stdin.read()
    """,
    "nothing written yet": """
        import os, sys
        file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
        print("ready", flush=True)
        sys.stdin.read()
    """,
}


@pytest.mark.parametrize("how", KILLED)
def test_s39_however_a_killed_writer_held_it(mount, receiver, how):
    """S39"""
    run_writer(KILLED[how], mount.root / "take.mov", number=signal.SIGKILL)
    mount.wait_for("take.mov", "interrupted")
    (mount.root / "other").write_bytes(b"x")
    mount.wait_for("other", "complete")
    assert receiver.published() == {"other": 1}


def test_s39_policies(new_mount, receiver):
    """S39"""
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


def test_s40_a_file_that_was_written_when_the_mount_died_is_not_published(mount, receiver):
    """S40"""
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


@needs_root
def test_s41_a_file_of_which_a_write_failed_is_not_published_unless_it_was_made_good(new_mount, receiver, tmpfs):
    """S41"""
    disk = tmpfs("disk", "8m")
    mount = new_mount(receiver, "--reserve", "0", spool=disk / "spool")
    receiver.stop()

    def fill(name):
        file = os.open(mount.root / name, os.O_WRONLY | os.O_CREAT)
        with pytest.raises(OSError) as raised:
            for _ in range(100):
                os.write(file, b"x" * (1 << 20))
        assert raised.value.errno == 28, "ENOSPC"
        return file

    os.close(fill("half"))
    status = mount.wait_for("half", "interrupted")
    assert status["last_error"]["code"] == "write-failed" and "ENOSPC" in status["last_error"]["message"]
    os.unlink(mount.root / "half")
    file = fill("whole")
    os.ftruncate(file, 1 << 20)
    os.close(file)
    receiver.start()
    mount.wait_for("whole", "complete")
    assert receiver.published() == {"whole": 1 << 20}
