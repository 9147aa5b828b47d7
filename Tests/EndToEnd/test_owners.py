"""Whose a published name is: two machines with one folder, later contents, what is recorded in another one's place."""
import json
import os
import shutil

import pytest

from front import Front
from harness import wait_until

MIB = 1 << 20


def contents(receiver):
    return {name: (receiver.files / name).read_bytes() for name in receiver.published()}


def deliver(mount, name, content):
    (mount.root / name).write_bytes(content)
    return mount.wait_for(name, "complete")


@pytest.mark.parametrize("content", [b"x" * 5000, os.urandom(9 * MIB)], ids=["whole file", "session"])
@pytest.mark.promises("DE138a", "DE138b", "DE138c", "R4")
def test_two_machines_with_one_folder_keep_all_their_captures(new_receiver, new_mount, content):
    receiver = new_receiver()
    first, second = (new_mount(receiver, name=name) for name in ("first", "second"))
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


def rename_and_record(root):
    os.rename(root / "a.mov", root / "a-2.mov")
    return "a.mov"


def link_and_replace_the_link(root):
    os.link(root / "a.mov", root / "a-2.mov")
    return "a-2.mov"


def link_and_replace_the_first_name(root):
    os.link(root / "a.mov", root / "a-2.mov")
    return "a.mov"


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("change", [rename_and_record, link_and_replace_the_link, link_and_replace_the_first_name])
@pytest.mark.promises("DE138a", "R4")
def test_what_lies_there_under_the_name_of_its_second_path_is_replaced_by_no_other(new_receiver, new_mount, change, kill):
    """Regression: a capture that had got a number was given that name here as well, and the next one at one of its paths replaced it."""
    receiver = new_receiver()
    first, second = (new_mount(receiver, name=name) for name in ("first", "second"))
    deliver(first, "a.mov", b"of the first")
    assert deliver(second, "a.mov", b"before")["published_name"] == "a-2.mov"
    name = change(second.root)
    second.wait_all()
    if (second.root / name).exists():
        (second.root / name).unlink()
    if kill:
        second.kill()
        second.start()
    deliver(second, name, b"after")
    second.wait_all()
    assert {b"of the first", b"before", b"after"} <= set(contents(receiver).values())


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.promises("DE138b")
def test_the_published_name_of_a_file_with_hard_links_is_its_own(new_receiver, new_mount, restarts):
    """Regression: the receipt is of the last name, and the name of the first was said to be the one that another machine's file has."""
    receiver = new_receiver()
    first, second = (new_mount(receiver, name=name) for name in ("first", "second"))
    deliver(first, "x.mov", b"of the first")
    deliver(second, "x.mov", b"of the second")
    os.link(second.root / "x.mov", second.root / "l.mov")
    second.wait_all()
    if restarts:
        assert second.stop() == 0
        second.start()
        second.wait_all()
    assert contents(receiver) == {"x.mov": b"of the first", "x-2.mov": b"of the second", "l.mov": b"of the second"}
    status = second.wait_for("x.mov", "complete")
    assert contents(receiver)[status["published_name"]] == b"of the second", status


@pytest.mark.promises("DE138c")
def test_a_name_with_a_number_stays_whatever_is_set_later(new_receiver, new_mount):
    """Regression: with `replace` the next content took the other machine's name."""
    receiver = new_receiver()
    first, second = (new_mount(receiver, name=name) for name in ("first", "second"))
    deliver(first, "a.mov", b"of the first")
    deliver(second, "a.mov", b"before")
    assert second.stop() == 0
    second.options = (*second.options, "--if-exists", "replace")
    second.start()
    assert deliver(second, "a.mov", b"after")["published_name"] == "a-2.mov"
    assert contents(receiver) == {"a.mov": b"of the first", "a-2.mov": b"after"}


@pytest.mark.promises("DE138b")
def test_a_spool_that_lost_its_record_replaces_nothing(new_receiver, new_mount):
    receiver = new_receiver()
    mount = new_mount(receiver)
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
    assert status["last_error"]["code"] == "name-refused" and "does not replace it" in status["last_error"]["message"]
    assert status["local"]
    deliver(mount, "a.log", b"three")
    third = new_mount(receiver, "--if-exists", "replace", name="third")
    words = f"it is the capture {mount.status('a.log')['file_id']}"
    receipt = deliver(third, "a.log", b"four")["receipt"]
    assert json.loads(receipt["answer"]) == {"replaced": words}
    assert contents(receiver) == {"a.mov": b"one", "a.log": b"four"}
    assert f"delivered in the place of another file, as if-exists says: {words}" in third.program.log
    # Regression: the log did not say it. Of its own it says nothing.
    assert deliver(third, "a.log", b"four and five")["receipt"].get("answer") is None
    assert receiver.program.log.count('"a.log" takes the place of another file') == 1
    assert mount.status("a.log")["file_id"] in receiver.program.log


def rewrite(mount, content):
    (mount.root / "a.mov").write_bytes(content)


def record_anew(mount, content):
    (mount.root / "a.mov").unlink()
    rewrite(mount, content)


def record_elsewhere_and_rename(mount, content):
    # A temporary name, under which nothing is published.
    (mount.root / "a.mov.part").write_bytes(content)
    os.rename(mount.root / "a.mov.part", mount.root / "a.mov")


@pytest.mark.parametrize("change", [rewrite, record_anew, record_elsewhere_and_rename])
@pytest.mark.parametrize("size", [5000, 9 * MIB], ids=["whole file", "session"])
@pytest.mark.promises("DE138a", "DE138g")
def test_a_kill_between_a_publication_and_its_record_costs_no_number(
        receiver, new_mount, authority, size, change):
    with Front(receiver.port, authority.issue("front"), receiver.ca) as front:
        mount = new_mount(receiver, to=f"https://127.0.0.1:{front.port}", ca=authority.certificate)
        deliver(mount, "a.mov", b"at first")
        # A second one knows of the first one's publication only by what was recorded before it. (A session wants answers to begin.)
        for number in range(2 if size < MIB else 1):
            content = os.urandom(size)
            # Until its last bytes: what is left then has streams enough, however few the line has by then.
            front.keep_answers_after(size - 1 if size > MIB else 1)
            change(mount, content)
            if number:
                # What goes on with the content before it is not waited for.
                front.cut()
            # A chunk whose answer is kept back stalls for 20 s before it goes again.
            wait_until(lambda: contents(receiver) == {"a.mov": content}, lambda: f"{receiver.published()}", timeout=180)
            assert mount.status("a.mov")["state"] != "complete"
            mount.kill()
            front.cut()
            mount.start()
        # The answers stay away until there is another content.
        change(mount, b"at last")
        front.reset()
        assert mount.wait_for("a.mov", "complete")["published_name"] == "a.mov"
        mount.wait_all()
    assert contents(receiver) == {"a.mov": b"at last"}


def forget_owners(method, target, fields, body):
    """As a receiver of a version before 0.2, which does not know these words."""
    words = ("if_taken", "replaces", "published_as")
    if target.endswith("/commit"):
        told = {name: value for name, value in json.loads(body).items() if name not in words}
        body[:] = json.dumps(told).encode()
        fields["content-length"] = str(len(body))
        return True
    return any([fields.pop("x-" + name.replace("_", "-"), None) for name in words])


@pytest.mark.parametrize("size", [5000, 9 * MIB], ids=["whole file", "session"])
@pytest.mark.promises("DE138e")
def test_an_older_receiver_publishes_nothing_over_what_the_record_does_not_know(
        receiver, new_mount, authority, tampering, size):
    deliver(new_mount(receiver, name="other"), "a.mov", b"of another machine")
    tampering.change = forget_owners
    mount = new_mount(
        receiver, "--http", "1.1", to=f"https://127.0.0.1:{tampering.port}", ca=authority.certificate)
    (mount.root / "a.mov").write_bytes(os.urandom(size))
    assert mount.wait_for("a.mov", "failed")["last_error"]["code"] == "name-refused"
    for content in [os.urandom(size), os.urandom(size)]:
        assert deliver(mount, "b.mov", content)["published_name"] == "b.mov"
    assert tampering.changed
    assert contents(receiver) == {"a.mov": b"of another machine", "b.mov": content}
