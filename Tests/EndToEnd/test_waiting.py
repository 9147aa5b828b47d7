"""close=wait and fsync=remote: calls that return when the content is delivered. The statements of docs/semantics.md are named
by their number. Tests/FSBehaviourTests/DeliveryWaitTests.swift has which calls wait, and for what."""

import os
import signal
import subprocess
import sys

import pytest

from harness import SOON, sha256, write_random


@pytest.fixture
def waiting(new_mount, receiver):
    """A mount where closing a file below ready/ waits for its delivery, and so does an fsync below synced/."""
    mount = new_mount(receiver, "--rule", "ready/** close=wait; synced/** fsync=remote")
    (mount.root / "ready").mkdir()
    (mount.root / "synced").mkdir()
    return mount


def start_copy(source, target):
    # A program that was started in the background by a shell without job control ignores SIGINT, and so do its children.
    return subprocess.Popen(
        ["env", "--default-signal=INT", "cp", source, target], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ | {"LC_ALL": "C"})


def end_copy(process):
    try:
        return process.communicate(timeout=SOON)[1]
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.parametrize("size", [1, 300_000, 9 << 20])
@pytest.mark.promises("S42a")
def test_s42_cp_returns_when_the_receiver_has_published(waiting, receiver, folder, size):
    source = write_random(folder / "source", size)
    # Again over the same name: each of them is a revision of its own.
    for _ in range(2):
        for name in ("a.mov", "b.mov"):
            subprocess.run(["cp", source, waiting.root / "ready" / name], check=True, timeout=SOON)
            assert sha256(receiver.files / "ready" / name) == sha256(source)
            assert waiting.status(f"ready/{name}")["state"] == "complete"
        size += 1
        source = write_random(folder / "source", size, seed=2)
    # Elsewhere no call waits, and nothing is left that counts as open.
    receiver.stop()
    subprocess.run(["cp", source, waiting.root / "a.mov"], check=True, timeout=SOON)
    receiver.start()
    waiting.wait_all()


@pytest.mark.promises("S42a", "S42c")
def test_s42_an_interrupted_close_leaves_the_upload_going_on(waiting, receiver, folder):
    source = write_random(folder / "source", 500_000)
    receiver.kill()
    process = start_copy(source, waiting.root / "ready" / "a.mov")
    waiting.wait_for("ready/a.mov", "queued", "uploading", "waiting")
    # cp waits for the delivery.
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    # The mount is usable meanwhile.
    (waiting.root / "other").write_bytes(b"x")
    process.send_signal(signal.SIGINT)
    end_copy(process)
    assert process.returncode == -signal.SIGINT
    receiver.start()
    waiting.wait_for("ready/a.mov", "complete")
    assert sha256(receiver.files / "ready" / "a.mov") == sha256(source)


@pytest.mark.promises("S42b")
def test_s42_a_delivery_that_fails_for_good_is_eio(new_mount, new_receiver, folder):
    receiver = new_receiver("--max-file-size", 1_000_000)
    mount = new_mount(receiver, "--rule", "* close=wait")
    process = start_copy(write_random(folder / "source", 2_000_000), mount.root / "a.mov")
    assert "Input/output error" in end_copy(process)
    assert process.returncode == 1
    assert mount.wait_for("a.mov", "failed")["last_error"]["message"]
    subprocess.run(["cp", write_random(folder / "small", 1000), mount.root / "b.mov"], check=True, timeout=SOON)


@pytest.mark.promises("S42e")
def test_s42_who_does_not_wait(waiting, receiver):
    receiver.stop()
    ready = waiting.root / "ready"
    # A temporary name is delivered after its rename, an empty file may be about to be written, and a program that exits with the
    # file open cannot be told.
    (ready / "a.mov.part").write_bytes(b"temporary")
    (ready / "empty").touch()
    subprocess.run(
        [sys.executable, "-c", "import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), b'x'); os._exit(3)",
         ready / "exit"], timeout=SOON)
    receiver.start()
    for name in ("empty", "exit"):
        waiting.wait_for(f"ready/{name}", "complete")


@pytest.mark.promises("S42d")
def test_s42_a_shell_that_hands_a_descriptor_on_waits_for_the_content_alone(waiting, receiver):
    target = waiting.root / "ready" / "shell"
    subprocess.run(["sh", "-c", 'exec printf text > "$1"', "sh", target], timeout=SOON, check=True)
    assert (receiver.files / "ready" / "shell").read_bytes() == b"text"
    assert waiting.status("ready/shell")["revision"] == 1, "not for the empty file before it"


@pytest.mark.promises("S42c")
def test_s42_stopping_ends_the_wait(waiting, receiver, folder):
    receiver.kill()
    process = start_copy(write_random(folder / "source", 100_000), waiting.root / "ready" / "a.mov")
    waiting.wait_for("ready/a.mov", "queued", "uploading", "waiting")
    assert waiting.stop_at_once() == 19
    end_copy(process)
    assert process.returncode == 1
    receiver.start()
    waiting.start()
    waiting.wait_for("ready/a.mov", "complete")


@pytest.mark.promises("S42c")
def test_s42_a_drain_that_gives_up_ends_the_wait(new_mount, receiver, folder):
    mount = new_mount(receiver, "--rule", "* close=wait", "--drain-timeout", "1s")
    receiver.kill()
    process = start_copy(write_random(folder / "source", 100_000), mount.root / "a.mov")
    mount.wait_for("a.mov", "queued", "uploading", "waiting")
    assert mount.stop() == 17, "it does not hang"
    assert "Input/output error" in end_copy(process) and process.returncode == 1


@pytest.mark.promises("S43")
def test_s43_fsync_returns_when_the_receiver_has_what_was_written(waiting, receiver):
    path = waiting.root / "synced" / "log"
    published = receiver.files / "synced" / "log"
    with open(path, "wb", buffering=0) as file:
        for count in (1, 2, 3):
            file.write(b"line\n")
            os.fsync(file.fileno())
            assert published.read_bytes() == b"line\n" * count
        os.fdatasync(file.fileno())
        file.write(b"end\n")
    waiting.wait_for("synced/log", "complete")
    assert published.read_bytes() == b"line\n" * 3 + b"end\n"
