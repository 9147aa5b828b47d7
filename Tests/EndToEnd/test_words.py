"""One file at a time: retry, cancel and publish (docs/semantics.md, S77), written to the status of a file, and said by the tool."""

import contextlib
import errno
import json
import os
import signal
import subprocess

import pytest

from filesystems import as_user
from harness import MOUNT_TOOL, clean_environment, wait_until, write_random
from promises import needs
from test_destinations import at, further
from test_interrupted import RECORDER, run_writer

MIB = 1 << 20


def refusal(mount, word, name):
    """The errno with which a word is refused."""
    with pytest.raises(OSError) as raised:
        mount.say(word, name)
    return raised.value.errno


@pytest.mark.promises("S77a", "S77b", "S77c", "S77g")
def test_s77_words_are_written_as_a_shell_does_and_nothing_else_is_taken(mount, receiver):
    """Regression: SIGUSR1, the only lever there was, published every interrupted file."""
    run_writer(RECORDER, mount.root / "a.mov", number=signal.SIGKILL)
    run_writer(RECORDER, mount.root / "b.mov", number=signal.SIGKILL)
    mount.wait_for("a.mov", "interrupted")
    mount.wait_for("b.mov", "interrupted")
    status = mount.root / "status" / "a.mov.json"
    before = status.read_bytes()
    for text in ("start", "retry", "publish publish publish", "publish nowhere", "x" * 5000):
        assert subprocess.run(["sh", "-c", f"echo {text} > {status}"], stderr=subprocess.DEVNULL).returncode != 0
    with pytest.raises(OSError) as raised:
        os.truncate(status, 1)
    assert raised.value.errno == errno.EINVAL
    assert status.read_bytes() == before
    subprocess.run(["sh", "-c", f"printf ' publish ' >> {mount.root}/status/a.json"], check=True)
    mount.wait_for("a.mov", "complete")
    assert mount.status("b.mov")["state"] == "interrupted"
    assert receiver.published() == {"a.mov": 10}
    # Of what is delivered nothing is to be published or cancelled.
    assert refusal(mount, "publish", "a.mov") == errno.EINVAL and refusal(mount, "cancel", "a.mov") == errno.EINVAL
    mount.say("retry", "a.mov")
    (mount.root / "a.mov").unlink()
    assert refusal(mount, "retry", "a.mov") in (errno.EROFS, errno.EACCES)


@pytest.mark.promises("S77j")
def test_s77_a_signal_publishes_nothing(mount, receiver):
    """Regression: the runtime's own SIGUSR1 published what was interrupted."""
    run_writer(RECORDER, mount.root / "a.mov", number=signal.SIGKILL)
    mount.wait_for("a.mov", "interrupted")
    mount.program.signal(signal.SIGUSR1)
    (mount.root / "b.mov").write_bytes(b"b")
    mount.wait_for("b.mov", "complete")
    assert mount.status("a.mov")["state"] == "interrupted" and receiver.published() == {"b.mov": 1}


@pytest.mark.promises("S77c", "S77e", "S77f", "S77h")
def test_s77_a_cancelled_upload_ends_at_the_server_too_and_stays_cancelled(new_receiver, new_mount):
    receiver = new_receiver()
    mount = new_mount(receiver, "--rule", "*.wait close=wait")
    sessions = receiver.root / ".uploads" / "sessions"

    def cancel_while_it_grows(name):
        with open(mount.root / name, "wb") as file:
            file.write(os.urandom(24 * MIB))
            file.flush()
            mount.readings(name, lambda status: status["chunks"]["done"] > 0)
            mount.say("cancel", name)

    cancel_while_it_grows("a.mov")
    wait_until(lambda: not list(sessions.glob("*/data")), "the session has ended")
    # The decision is durable: a daemon that is killed at once knows it, whether it had told the server or not.
    cancel_while_it_grows("c.mov")
    mount.kill()
    mount.start()
    for name in ("a.mov", "c.mov"):
        status = mount.wait_for(name, "cancelled", "complete")
        assert status["state"] == "cancelled"
        assert "uploadfs-mount retry" in status["reason"] and status["local"]
    assert receiver.published() == {}
    for command in ("wait", "unmount"):
        done = mount.tool(command, "--timeout", 60)
        assert done.returncode == 18 and "a.mov" in done.stderr, done.stderr
    assert mount.program.wait() == 18
    mount.start()
    mount.wait_for("a.mov", "cancelled")
    mount.say("cancel", "a.mov")
    mount.say("retry", "a.mov")
    mount.wait_for("a.mov", "complete")
    assert (receiver.files / "a.mov").read_bytes() == (mount.root / "a.mov").read_bytes()
    # A change ends it as well.
    receiver.stop()
    (mount.root / "b.mov").write_bytes(b"one")
    mount.say("cancel", "b.mov")
    assert mount.status("b.mov")["state"] == "cancelled"
    receiver.start()
    (mount.root / "b.mov").write_bytes(b"two")
    mount.wait_for("b.mov", "complete")


@pytest.mark.promises("S77f")
@pytest.mark.parametrize("ends_by", ["kill", "stop"])
def test_s77_the_next_run_ends_at_the_server_what_it_was_not_told(new_receiver, new_mount, ends_by):
    """Regression: what was to be ended was known to the process alone, and stayed at the server until it expired."""
    receiver = new_receiver()
    mount = new_mount(receiver)
    sessions = receiver.root / ".uploads" / "sessions"
    write_random(mount.root / "a.mov", 24 * MIB, seed=1)
    # A file whose daemon was killed cannot be closed without an error.
    with contextlib.suppress(OSError), open(mount.root / "b.mov", "wb") as file:
        file.write(os.urandom(24 * MIB))
        file.flush()
        mount.readings("b.mov", lambda status: status["chunks"]["done"] > 0)
        receiver.stop()
        mount.say("cancel", "b.mov")
        records = mount.spool / ".state" / "resume"
        wait_until(lambda: not list(records.glob("*.resume")), "the record of the session is gone")
        if ends_by == "kill":
            mount.kill()
    if ends_by == "stop":
        assert mount.stop() == 18
    receiver.start()
    assert list(sessions.glob("*/data")), "the server was not told"
    mount.start()
    wait_until(lambda: not list(sessions.glob("*/data")), "the session has ended")
    assert mount.wait_for("b.mov", "cancelled", "complete")["state"] == "cancelled"


@pytest.mark.promises("S77h", "S42b")
def test_s77_a_close_that_waits_ends_when_the_file_is_cancelled(new_receiver, new_mount):
    receiver = new_receiver()
    mount = new_mount(receiver, "--rule", "*.mov close=wait")
    receiver.stop()
    writer = subprocess.Popen(
        ["dd", "if=/dev/zero", f"of={mount.root}/a.mov", "bs=1k", "count=1"], stderr=subprocess.PIPE, text=True,
        env=clean_environment())
    mount.wait_for("a.mov", "waiting")
    mount.say("cancel", "a.mov")
    assert "Input/output error" in writer.communicate(timeout=60)[1] and writer.returncode != 0
    assert mount.stop() == 18


@pytest.mark.promises("S77g", "S62a")
def test_s77_a_temporary_name_is_published_on_request(mount, receiver):
    write_random(mount.root / "a.part", 3 * MIB)
    assert "uploadfs-mount publish" in mount.wait_for("a.part", "held")["reason"]
    mount.say("publish", "a.part")
    mount.wait_for("a.part", "complete")
    assert (receiver.files / "a.part").read_bytes() == (mount.root / "a.part").read_bytes()
    os.rename(mount.root / "a.part", mount.root / "a.mov")
    wait_until(lambda: "a.mov" in receiver.published(), "it has its final name as well")


@pytest.mark.promises("S77d")
def test_s77_a_word_for_one_of_several_destinations(new_receiver, new_mount):
    main, archive = new_receiver(), new_receiver(name="archive")
    mount = new_mount(main, *further("archive", archive), "--rule", "*.mov to=main,archive")
    archive.stop()
    (mount.root / "a.mov").write_bytes(b"film")
    (mount.root / "b.txt").write_bytes(b"text")
    mount.readings("a.mov", lambda status: at(status, "main")["state"] == "complete")
    assert refusal(mount, "cancel main", "a.mov") == errno.EINVAL
    assert refusal(mount, "cancel nowhere", "a.mov") == errno.EINVAL
    done = mount.tool("cancel", "b.txt", "--destination", "archive")
    assert done.returncode == 20 and "it does not go to archive" in done.stderr
    done = mount.tool("cancel", "a.mov", "--destination", "nowhere")
    assert done.returncode == 64 and "there is main, archive" in done.stderr
    # For all: where it is delivered already it stays so.
    mount.say("cancel", "a.mov")
    status = mount.status("a.mov")
    assert (status["state"], at(status, "main")["state"]) == ("cancelled", "complete")
    assert mount.tool("wait", "--timeout", 60).returncode == 18
    archive.start()
    assert mount.tool("retry", "a.mov", "--destination", "archive").returncode == 0
    mount.wait_for("a.mov", "complete")
    assert archive.published() == {"a.mov": 4}


@pytest.mark.promises("S77i")
def test_s77_the_commands(mount, receiver):
    """Regression."""
    receiver.stop()
    (mount.root / "day 1").mkdir()
    names = ["day 1/a b.mov", "[x]*.mov", os.fsdecode(b"raw\xff.mov"), "c.mov"]
    for name in names:
        (mount.root / name).write_bytes(b"x")

    def tool(command, *arguments):
        return subprocess.run(
            [str(MOUNT_TOOL), command, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
            timeout=60, env=clean_environment())

    done = tool("cancel", mount.root, *names[:3])
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == "day 1/a b.mov: cancelled\n[x]*.mov: cancelled\nraw\ufffd.mov: cancelled\n"
    assert [mount.status(name)["state"] == "cancelled" for name in names] == [True, True, True, False]
    # Each file is tried; the first failure is the exit code.
    done = tool("publish", mount.root, "none.mov", "c.mov", "../capture/c.mov", "/etc/passwd")
    assert done.returncode == 64
    lines = done.stderr.decode().splitlines()
    assert "there is no file none.mov" in lines[0] and "cannot publish c.mov: it is " in lines[1]
    assert "is no file below" in lines[2] and "is no file below" in lines[3]
    done = tool("publish", mount.root, "c.mov", "--json")
    assert done.returncode == 20
    outcome = json.loads(done.stdout)
    assert (outcome["path"], outcome["done"], outcome["exit_code"]) == ("c.mov", False, 20) and outcome["error"]
    assert tool("retry", mount.root, "c.mov", "--destination", "nowhere").returncode == 64
    assert tool("retry", mount.root, "c.mov", "--destination", "main").returncode == 0
    assert tool("retry", mount.root).returncode == 64 and tool("retry", "/", "c.mov").returncode == 16
    receiver.start()
    raw = os.fsencode(mount.root / names[2])
    done = tool("retry", mount.root, mount.root / names[0], "./" + names[1], os.fsdecode(raw), "--json")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["done"] for line in done.stdout.splitlines()] == [True, True, True]
    assert json.loads(done.stdout.splitlines()[2])["path_bytes"] == b"raw\xff.mov".hex()
    mount.wait_all()
    assert len(receiver.published()) == 4
    (mount.root / "c.mov").unlink()
    done = tool("retry", mount.root, "c.mov")
    assert done.returncode == 20 and b"no longer in the spool" in done.stderr
    assert "20  a file could not be retried" in tool("--help", "").stdout.decode()


@needs("root")
@pytest.mark.promises("S77a", "SE5c")
def test_s77_words_are_for_those_who_can_write_the_file(new_mount, receiver, folder):
    folder.chmod(0o755)
    mount = new_mount(receiver, "--allow-other", start=False)
    mount.folder.chmod(0o755)
    mount.start()
    mount.root.chmod(0o777)
    receiver.stop()
    alice, bob = 1234, 1235

    def write():
        path = mount.root / "a.mov"
        path.write_bytes(b"x")
        path.chmod(0o644)

    as_user(alice, alice, write)
    status = mount.root / "status/a.mov.json"
    assert status.stat().st_uid == alice and status.stat().st_mode & 0o777 == 0o644

    def attempt():
        try:
            mount.say("cancel", "a.mov")
            return "taken"
        except OSError as error:
            return errno.errorcode[error.errno]

    assert as_user(bob, bob, attempt) == "EACCES"
    assert mount.status("a.mov")["state"] != "cancelled"
    assert as_user(alice, alice, attempt) == "taken"
    assert mount.status("a.mov")["state"] == "cancelled"
    mount.say("retry", "a.mov")
    receiver.start()
    mount.wait_for("a.mov", "complete")


@pytest.mark.promises("S77k", "S77l")
def test_s77_what_a_server_has_lost_is_delivered_again(new_receiver, new_mount):
    receiver = new_receiver()
    mount = new_mount(receiver)
    for name in ("a.mov", "b.mov", "c.txt"):
        (mount.root / name).write_bytes(name.encode() * 1000)
    mount.wait_all()
    for name in ("a.mov", "b.mov", "c.txt"):
        (receiver.files / name).unlink()
    done = mount.tool("retry", "--delivered", "--match", "*.mov")
    assert done.returncode == 0, done.stderr
    mount.wait_all()
    assert set(receiver.published()) == {"a.mov", "b.mov"}
    (receiver.files / "a.mov").unlink()
    assert mount.tool("retry", "--all").returncode == 0
    mount.wait_all()
    assert set(receiver.published()) == {"b.mov"}
    assert mount.tool("retry", "--delivered", "--all").returncode == 0
    mount.wait_all()
    assert set(receiver.published()) == {"a.mov", "b.mov", "c.txt"}
    # One file, by the command and by the word, and nothing beside it.
    for name in ("a.mov", "b.mov", "c.txt"):
        (receiver.files / name).unlink()
    assert mount.tool("retry", "--delivered", "b.mov").returncode == 0
    (mount.root / "status" / "c.txt.json").write_text("resend\n")
    mount.wait_all()
    assert set(receiver.published()) == {"b.mov", "c.txt"}
    # Under its new name nothing is published.
    (mount.root / "b.mov").rename(mount.root / "b.mov.part")
    refused = mount.tool("retry", "--delivered", "b.mov.part")
    assert refused.returncode == 20 and "give it another one first" in refused.stderr, refused
    assert mount.status("b.mov.part")["state"] == "complete" and set(receiver.published()) == {"b.mov", "c.txt"}
    assert mount.tool("retry").returncode == 64
