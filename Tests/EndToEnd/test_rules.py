"""Rules by pattern: what a mount does with some files only. Statements of docs/semantics.md are named by their number."""

import os

import pytest

from harness import write_random


@pytest.mark.promises("S38a", "S38b")
def test_s38_ignored_files_are_never_sent_nor_waited_for(new_mount, receiver):
    mount = new_mount(receiver, "--ignore", "*.log", "--rule", "scratch/** upload=never", "--rule", "scratch/keep upload=on-close")
    (mount.root / "scratch" / "deep").mkdir(parents=True)
    (mount.root / "scratch" / "deep" / "x").write_bytes(b"x")
    (mount.root / "scratch" / "keep").write_bytes(b"keep")
    write_random(mount.root / "big.log", 3 << 20)
    with open(mount.root / "open.log", "wb") as still_open:
        still_open.write(b"is being written")
        still_open.flush()
        mount.wait_all()
        assert mount.status("open.log")["state"] == "ignored"
    for name in ("big.log", "scratch/deep/x"):
        status = mount.status(name)
        assert status["state"] == "ignored" and "rule" in status["reason"]
    assert receiver.published() == {"scratch/keep": 4}
    assert mount.summary()["files"]["ignored"] == 3
    os.rename(mount.root / "big.log", mount.root / "big.mov")
    mount.wait_for("big.mov", "complete")
    assert mount.stop() == 0, "nothing is left to deliver"
    # They stay ignored after a restart, and are there.
    mount.start()
    mount.wait_for("open.log", "ignored")
    assert (mount.root / "scratch" / "deep" / "x").read_bytes() == b"x"


@pytest.mark.promises("S62b")
def test_s62_names_that_the_user_calls_temporary_are_published_after_their_rename(new_mount, receiver):
    mount = new_mount(receiver, "--temporary", "*.writing", "--temporary", "incoming/**")
    (mount.root / "incoming").mkdir()
    for name in ("a.mov.writing", "incoming/b.mov"):
        write_random(mount.root / name, 100_000)
        mount.wait_for(name, "held")
    mount.wait_all()
    assert receiver.published() == {}
    os.rename(mount.root / "a.mov.writing", mount.root / "a.mov")
    os.rename(mount.root / "incoming" / "b.mov", mount.root / "b.mov")
    mount.wait_all()
    assert receiver.published() == {"a.mov": 100_000, "b.mov": 100_000}


def test_wrong_rule_is_an_error_that_names_it(new_mount, receiver):
    mount = new_mount(receiver, "--rule", "*.mov uplaod=never", start=False)
    code, message = mount.start_and_fail()
    assert code == 14 and "--rule" in message and "uplaod" in message
