"""Names that a template has given, when the spool is moved, cloned or restored, or has lost its ledger: no capture takes another one's."""

import pathlib
import shutil
import subprocess

import pytest

from harness import unmount_lazily

TEMPLATE = ("--name-template", "{seq:3}.{ext}", "--if-exists", "number")


def deliver(mount, names):
    """Delivers a file for each name; what each is published as."""
    published = {}
    for name in names:
        (mount.root / name).write_bytes(f"content of {name}".encode())
        published[name] = mount.wait_for(name, "complete")["published_name"]
    return published


def contents(receiver):
    return {name: (receiver.files / name).read_bytes().decode() for name in receiver.published()}


def check(receiver, *published):
    """Each capture is there under the name that was said to be its own, and nothing else is."""
    wanted = [(there, f"content of {name}") for names in published for name, there in names.items()]
    assert sorted(contents(receiver).items()) == sorted(wanted)


@pytest.mark.promises("S79a")
def test_numbers_stay_with_their_captures_in_a_moved_spool(new_mount, receiver, folder):
    """Regression: by their inode numbers captures took each other's identity and number, and replaced each other."""
    mount = new_mount(receiver, *TEMPLATE)
    before = deliver(mount, [f"{letter}.jpg" for letter in "abcdefgh"])
    receipts = {name: mount.status(name)["receipt"] for name in before}
    assert mount.stop() == 0
    inodes = {name: (receiver.files / name).stat().st_ino for name in before.values()}
    moved = folder / "moved"
    # The copies have the numbers of others.
    subprocess.run(["cp", "-a", mount.spool, moved], check=True)
    for name in sorted(before, reverse=True):
        (moved / "captures" / name).unlink()
        subprocess.run(["cp", "-a", mount.spool / "captures" / name, moved / "captures" / name], check=True)
    mount.spool = moved
    mount.start()
    for name, published in before.items():
        status = mount.wait_for(name, "complete")
        # Regression: it was another capture's.
        assert status["published_name"] == published and status["receipt"] == receipts[name]
    after = deliver(mount, ["z.jpg"])
    check(receiver, before, after)
    assert {name: (receiver.files / name).stat().st_ino for name in before.values()} == inodes, "nothing is sent again"


def lose(way, mount):
    state = mount.spool / ".state"
    names = list(state.glob("names*"))
    match way:
        case "the ledger":
            for file in names:
                file.unlink()
        case "its content":
            for file in names:
                file.write_bytes(b"")
            # Regression: it was taken for a new one without a word.
            code, said = mount.start_and_fail()
            assert code == 13 and "names.sqlite' cannot be used: it is empty; move it away" in said, said
            for file in names:
                file.unlink(missing_ok=True)
        case "the state":
            shutil.rmtree(state)
            for file in (mount.spool / "captures").iterdir():
                file.unlink()


@pytest.mark.promises("DE138b")
@pytest.mark.parametrize("way", ["the ledger", "its content", "the state"])
def test_a_lost_ledger_costs_numbers_and_no_capture(new_mount, receiver, way):
    """Regression: numbers were given again, and what had been published under them was replaced."""
    mount = new_mount(receiver, *TEMPLATE)
    before = deliver(mount, ["a.jpg", "b.jpg", "c.jpg"])
    assert mount.stop() == 0
    lose(way, mount)
    mount.start()
    assert ("the names' record" in mount.program.log and "is missing" in mount.program.log) == (way != "the state")
    if way != "the state":
        # Regression: its status named what the template would give it by now.
        assert {name: mount.wait_for(name, "complete")["published_name"] for name in before} == before
    check(receiver, before, deliver(mount, ["d.jpg", "e.jpg"]))


@pytest.mark.promises("DE138b")
@pytest.mark.parametrize("way", ["the ledger", "its content"])
def test_a_lost_ledger_gives_no_path_the_name_of_another_one(new_mount, receiver, way):
    """Regression: what was delivered counted as called like its path, and what came under that path replaced another capture."""
    mount = new_mount(receiver, "--name-template", "{name}")
    (mount.root / "day").mkdir()
    before = deliver(mount, ["day/a.jpg", "a.jpg"])
    assert before == {"day/a.jpg": "a.jpg", "a.jpg": "a-2.jpg"}
    assert mount.stop() == 0
    lose(way, mount)
    mount.start()
    mount.wait_for("a.jpg", "complete")
    (mount.root / "a.jpg").unlink()
    (mount.root / "a.jpg").write_bytes(b"recorded anew")
    there = mount.wait_for("a.jpg", "complete")["published_name"]
    # What was published for its path before it says the name.
    assert there == "a-2.jpg"
    assert contents(receiver) == {"a.jpg": "content of day/a.jpg", "a-2.jpg": "recorded anew"}


@pytest.mark.promises("DE138b")
@pytest.mark.parametrize("way", ["cloned", "restored"])
def test_a_copy_of_a_spool_costs_numbers_and_no_capture(new_mount, receiver, folder, way):
    """Regression: a clone, or a restored backup, gave the numbers that the original had given since."""
    mount = new_mount(receiver, *TEMPLATE, name="original")
    before = deliver(mount, ["a.jpg"])
    assert mount.stop() == 0
    copy = folder / "copy"
    subprocess.run(["cp", "-a", mount.spool, copy], check=True)
    mount.start()
    since = deliver(mount, ["b.jpg", "c.jpg"])
    if way == "restored":
        mount.kill()
        unmount_lazily(str(mount.root))
    later = deliver(new_mount(receiver, *TEMPLATE, spool=pathlib.Path(copy), name="later"), ["d.jpg", "e.jpg", "f.jpg"])
    check(receiver, before, since, later)


@pytest.mark.promises("DE138b")
@pytest.mark.parametrize("way", ["lost", "older", "its older copy"])
def test_names_of_removed_captures_are_given_to_no_other(new_mount, receiver, folder, way):
    """Regression: a ledger that was lost, or older than the catalog, knew nothing of captures that had been removed, and others replaced
    what was published of them."""
    mount = new_mount(receiver, *TEMPLATE)
    before = deliver(mount, ["a.jpg"])
    assert mount.stop() == 0
    state, older = mount.spool / ".state", folder / "older.sqlite"
    shutil.copy(state / ("names.sqlite" if way == "older" else "names.backup.sqlite"), older)
    mount.start()
    since = deliver(mount, ["b.jpg"])
    for name in ("a.jpg", "b.jpg"):
        (mount.root / name).unlink()
    mount.wait_all()
    assert mount.stop() == 0
    for file in state.glob("names*"):
        file.unlink()
    if way != "lost":
        shutil.copy(older, state / "names.sqlite")
    mount.start()
    assert ("is missing" if way == "lost" else "has learned 1 names") in mount.program.log, mount.program.describe()
    after = deliver(mount, ["c.jpg", "d.jpg"])
    assert after == {"c.jpg": "003.jpg", "d.jpg": "004.jpg"}
    check(receiver, before, since, after)


@pytest.mark.promises("DE138b")
def test_the_first_template_gives_no_name_of_a_removed_capture(new_mount, receiver):
    """Regression: it replaced what was published of it."""
    mount = new_mount(receiver)
    before = deliver(mount, ["x.bin"])
    (mount.root / "x.bin").unlink()
    mount.wait_all()
    assert mount.stop() == 0
    mount.options = ("--name-template", "{name}")
    mount.start()
    (mount.root / "day").mkdir()
    after = deliver(mount, ["day/x.bin"])
    assert after == {"day/x.bin": "x-2.bin"}
    check(receiver, before, after)
    # What is recorded at its path replaces it, as before.
    assert deliver(mount, ["x.bin"]) == before
