"""Whose a published name is: two machines with one folder, later contents, what is recorded in another one's place."""
import os
import shutil

import pytest

MIB = 1 << 20


def contents(receiver):
    return {name: (receiver.files / name).read_bytes() for name in receiver.published()}


def deliver(mount, name, content):
    (mount.root / name).write_bytes(content)
    return mount.wait_for(name, "complete")


@pytest.mark.parametrize("content", [b"x" * 5000, os.urandom(9 * MIB)], ids=["whole file", "session"])
@pytest.mark.promises("DE138a", "DE138b", "DE138c")
def test_two_machines_with_one_folder_keep_all_their_captures(new_receiver, new_mount, content):
    receiver = new_receiver()
    first, second = (new_mount(receiver, "--if-exists", "number", name=name) for name in ("first", "second"))
    assert deliver(first, "DSC0001.JPG", content)["published_name"] == "DSC0001.JPG"
    status = deliver(second, "DSC0001.JPG", b"other" + content)
    assert status["published_name"] == "DSC0001-2.JPG"
    assert status["receipt"]["name"] == "DSC0001.JPG"
    # Later contents of both stay with their names, also after a restart, and so does what comes in their place.
    assert deliver(first, "DSC0001.JPG", b"1" + content)["published_name"] == "DSC0001.JPG"
    assert second.stop() == 0
    second.start()
    assert second.wait_for("DSC0001.JPG", "complete")["published_name"] == "DSC0001-2.JPG"
    assert deliver(second, "DSC0001.JPG", b"2" + content)["published_name"] == "DSC0001-2.JPG"
    (second.root / "DSC0001.JPG").unlink()
    assert deliver(second, "DSC0001.JPG", b"3" + content)["published_name"] == "DSC0001-2.JPG"
    (second.root / "new").write_bytes(b"4" + content)
    os.rename(second.root / "new", second.root / "DSC0001.JPG")
    second.wait_all()
    published = contents(receiver)
    assert published["DSC0001.JPG"] == b"1" + content and published["DSC0001-2.JPG"] == b"4" + content
    assert set(published) <= {"DSC0001.JPG", "DSC0001-2.JPG", "new"}
    assert "DSC0001-2.JPG" in second.program.log and "DSC0001-2.JPG" in receiver.program.log


@pytest.mark.promises("DE138b")
def test_a_spool_that_lost_its_record_replaces_nothing(new_receiver, new_mount):
    receiver = new_receiver()
    mount = new_mount(receiver, "--if-exists", "number")
    deliver(mount, "a.mov", b"one")
    assert mount.stop() == 0
    shutil.rmtree(mount.spool / ".state")
    (mount.spool / "captures" / "a.mov").unlink()
    mount.start()
    assert deliver(mount, "a.mov", b"two")["published_name"] == "a-2.mov"
    assert contents(receiver) == {"a.mov": b"one", "a-2.mov": b"two"}


@pytest.mark.promises("DE138d")
def test_what_is_to_be_refused_fails_and_what_is_to_be_replaced_is(new_receiver, new_mount):
    receiver = new_receiver()
    deliver(new_mount(receiver, name="first"), "a.mov", b"one")
    mount = new_mount(receiver, "--if-exists", "refuse", "--rule", "*.log if-exists=replace", name="second")
    (mount.root / "a.mov").write_bytes(b"two")
    status = mount.wait_for("a.mov", "failed")
    assert status["last_error"]["code"] == "name-refused" and "not to replace" in status["last_error"]["message"]
    assert status["local"]
    deliver(mount, "a.log", b"three")
    deliver(new_mount(receiver, name="third"), "a.log", b"four")
    assert contents(receiver) == {"a.mov": b"one", "a.log": b"four"}
