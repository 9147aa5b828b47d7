"""Name templates (docs/configuration.md#names): what captures are called where they are published, whatever happens in between."""

import os
import re
import subprocess

import pytest

from filesystems import RENAME_EXCHANGE, renameat2
from harness import SOON, wait_until, write_random
from s3_servers import credentials
from test_destinations import further
from throttle import ThrottlingProxy


def deliver(mount, name, content):
    path = mount.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return mount.wait_for(name, "complete")


def test_names_are_made_from_the_template(new_mount, receiver):
    mount = new_mount(receiver, "--name-template", "{date}/{host}/{time}-{stem}-{seq:3}.{ext}")
    status = deliver(mount, "day/scan.tar.gz", b"a" * 1000)
    host = subprocess.run(["uname", "-n"], capture_output=True, text=True, check=True).stdout.strip()
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d/{re.escape(host)}/\d{{6}}-scan\.tar-001\.gz", status["published_name"])
    assert status["receipt"]["name"] == status["published_name"]
    assert list(receiver.published()) == [status["published_name"]]
    # A new content of the same file is the same capture.
    (mount.root / "day/scan.tar.gz").write_bytes(b"b" * 1000)
    wait_until(
        lambda: (receiver.files / status["published_name"]).read_bytes() == b"b" * 1000, "the new content is there")
    assert list(receiver.published()) == [status["published_name"]]


def test_two_captures_of_one_name_are_both_there(new_mount, receiver):
    mount = new_mount(receiver, "--name-template", "{name}")
    assert deliver(mount, "a/x.mov", b"first")["published_name"] == "x.mov"
    assert deliver(mount, "b/x.mov", b"second")["published_name"] == "x-2.mov"
    # Also when the first is gone here, and after a restart.
    (mount.root / "a/x.mov").unlink()
    mount.stop()
    mount.start()
    assert deliver(mount, "c/x.mov", b"third")["published_name"] == "x-3.mov"
    contents = {name: (receiver.files / name).read_bytes() for name in receiver.published()}
    assert contents == {"x.mov": b"first", "x-2.mov": b"second", "x-3.mov": b"third"}
    # What was recorded under the same path again replaces, as it does without a template.
    (mount.root / "b/x.mov").unlink()
    assert deliver(mount, "b/x.mov", b"fourth")["published_name"] == "x-2.mov"


def there_and_back(root):
    (root / "card1").rename(root / "card2")
    yield
    (root / "card2").rename(root / "card1")


def linked_and_unlinked(root):
    (root / "card2").mkdir()
    os.link(root / "card1/x.mov", root / "card2/x.mov")
    yield
    (root / "card2/x.mov").unlink()


def moved_over_another_folder_and_back(root):
    (root / "card2").mkdir()
    for source, target in (("card1", "card2"), ("card2", "card1")):
        (root / source / "x.mov").rename(root / target / "x.mov")
        yield


@pytest.mark.parametrize("pass_on", [there_and_back, linked_and_unlinked, moved_over_another_folder_and_back])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_capture_that_is_still_there_keeps_its_name(new_mount, receiver, pass_on, restarts):
    """A capture had a path for a moment; what was recorded under that path afterwards replaced it."""
    mount = new_mount(receiver, "--name-template", "{name}")
    assert deliver(mount, "card1/x.mov", b"first")["published_name"] == "x.mov"
    for _ in pass_on(mount.root):
        mount.wait_all()
    if restarts:
        assert mount.stop() == 0
        mount.start()
    assert deliver(mount, "card2/x.mov", b"second")["published_name"] == "x-2.mov"
    assert mount.wait_for("card1/x.mov", "complete")["published_name"] == "x.mov"
    # Each goes on under its own.
    assert deliver(mount, "card1/x.mov", b"first, written again")["published_name"] == "x.mov"
    assert deliver(mount, "card2/x.mov", b"second, written again")["published_name"] == "x-2.mov"
    mount.wait_all()
    assert {name: (receiver.files / name).read_bytes() for name in receiver.published()} == {
        "x.mov": b"first, written again", "x-2.mov": b"second, written again"}


@pytest.mark.parametrize("times", [1, 2])
def test_captures_that_were_exchanged_keep_their_names(new_mount, receiver, times):
    """The one had the path of the other for a moment, and was replaced by it."""
    mount = new_mount(receiver, "--name-template", "{name}")
    names = {"card1/x.mov": deliver(mount, "card1/x.mov", b"first")["published_name"],
             "card2/x.mov": deliver(mount, "card2/x.mov", b"second")["published_name"]}
    assert sorted(names.values()) == ["x-2.mov", "x.mov"]
    for _ in range(times):
        renameat2(mount.root / "card1/x.mov", mount.root / "card2/x.mov", RENAME_EXCHANGE)
        mount.wait_all()
    first, second = ("card1/x.mov", "card2/x.mov") if times == 2 else ("card2/x.mov", "card1/x.mov")
    deliver(mount, first, b"first, written again")
    deliver(mount, second, b"second, written again")
    mount.wait_all()
    assert {name: (receiver.files / name).read_bytes() for name in receiver.published()} == {
        "x.mov": b"first, written again", "x-2.mov": b"second, written again"}


def test_a_template_that_is_left_out_overwrites_nothing(new_mount, receiver):
    """Regression: what a template had published was replaced by a capture of that path."""
    mount = new_mount(receiver, "--name-template", "{name}")
    assert deliver(mount, "d/x.bin", b"first")["published_name"] == "x.bin"
    mount.stop()
    mount.options = ()
    mount.start()
    assert deliver(mount, "x.bin", b"second")["published_name"] == "x-2.bin"
    assert mount.status("d/x.bin")["published_name"] == "x.bin"
    contents = {name: (receiver.files / name).read_bytes() for name in receiver.published()}
    assert contents == {"x.bin": b"first", "x-2.bin": b"second"}


def test_a_capture_that_is_gone_keeps_its_name_in_status(new_mount, receiver):
    mount = new_mount(receiver, "--name-template", "{seq:2}-{name}")
    for folder in ("a", "b"):
        assert deliver(mount, f"{folder}/x.mov", folder.encode())["state"] == "complete"
    (mount.root / "b/x.mov").unlink()
    wait_until(lambda: not mount.status("b/x.mov")["local"], "the file is gone")
    assert mount.status("b/x.mov")["published_name"] == "02-x.mov"


def test_numbers_go_on_after_a_crash(new_mount, receiver):
    mount = new_mount(receiver, "--name-template", "shot{seq:4}.{ext}")
    assert deliver(mount, "a.dng", b"1")["published_name"] == "shot0001.dng"
    mount.kill()
    mount.start()
    assert deliver(mount, "b.dng", b"2")["published_name"] == "shot0002.dng"
    assert mount.wait_for("a.dng", "complete")["published_name"] == "shot0001.dng"


def test_a_name_survives_a_crash_in_mid_upload(new_mount, receiver):
    with ThrottlingProxy(receiver.port, rate=2_000_000) as proxy:
        mount = new_mount(
            receiver, "--name-template", "{time}-{seq}-{name}", to=f"https://127.0.0.1:{proxy.port}", name="mount")
        write_random(mount.root / "scan.mov", 20 << 20)
        named = mount.readings("scan.mov", lambda r: r["bytes"]["acknowledged"] > 0)[-1]["published_name"]
        assert re.fullmatch(r"\d{6}-00001-scan\.mov", named)
        mount.kill()
        proxy.rate = None
        # Another template does not change the name of what was begun.
        mount.options = ("--name-template", "{name}")
        mount.start()
        assert mount.wait_for("scan.mov", "complete")["published_name"] == named
        assert list(receiver.published()) == [named]
        assert mount.stop() == 0


def test_temporary_names_do_not_use_names_up(new_mount, receiver):
    mount = new_mount(receiver, "--name-template", "{seq}-{name}")
    (mount.root / "a.mov.part").write_bytes(b"x" * 100_000)
    (mount.root / "a.mov.part").rename(mount.root / "a.mov")
    assert mount.wait_for("a.mov", "complete")["published_name"] == "00001-a.mov"
    assert list(receiver.published()) == ["00001-a.mov"]


def test_rules_have_templates_of_their_own(new_mount, receiver):
    mount = new_mount(receiver, "--rule", "*.mov name=film/{stem}-{seq:2}.{ext}", "--rule", "raw/** name={path}")
    assert deliver(mount, "a/x.mov", b"1")["published_name"] == "film/x-01.mov"
    assert deliver(mount, "raw/x.mov", b"2")["published_name"] == "raw/x.mov"
    assert deliver(mount, "x.txt", b"3")["published_name"] == "x.txt"


def test_s3_opens_and_completes_under_the_same_name(s3, new_mount):
    mount = new_mount(
        None, "--max-file-size", "1GB", "--name-template", "{seq}/{name}", to=s3.url("in"), environment=credentials())
    # Large enough to be begun while it is written.
    with open(mount.root / "film.mov.part", "wb") as file:
        for _ in range(4):
            file.write(b"f" * (5 << 20))
            file.flush()
    (mount.root / "film.mov.part").rename(mount.root / "film.mov")
    assert mount.wait_for("film.mov", "complete", timeout=SOON * 2)["published_name"] == "in/00001/film.mov"
    assert deliver(mount, "b/film.mov", b"small")["published_name"] == "in/00002/film.mov"
    assert s3.keys() == ["in/00001/film.mov", "in/00002/film.mov"]


@pytest.mark.parametrize("template", ["{nmae}", "all.mov", "../{name}"])
def test_a_bad_template_is_refused_at_the_start(new_mount, receiver, template):
    mount = new_mount(receiver, "--name-template", template, start=False)
    code, stderr = mount.start_and_fail()
    assert code == 14 and "--name-template" in stderr and "{name}" in stderr


def test_two_destinations_get_a_file_under_one_name_and_number(new_mount, new_receiver):
    first, second = new_receiver(name="first"), new_receiver(name="second")
    mount = new_mount(
        first, *further("archive", second), "--name-template", "{seq:3}/{name}", "--rule", "*.mov to=main,archive",
        "--rule", "*.raw to=archive")
    # Both ask for a number at the same time, for each of many files.
    names = [f"{number}.mov" for number in range(12)] + ["a.raw", "b.txt"]
    for name in names:
        write_random(mount.root / name, 200_000, seed=len(name))
    mount.wait_all()
    given = {name: mount.status(name)["published_name"] for name in names}
    assert sorted(name.split("/")[0] for name in given.values()) == [f"{number:03}" for number in range(1, 15)]
    assert set(first.published()) == {given[name] for name in names if not name.endswith(".raw")}
    assert set(second.published()) == {given[name] for name in names if not name.endswith(".txt")}
    for name in names[:12]:
        assert [part["receipt"]["name"] for part in mount.status(name)["destinations"]] == [given[name]] * 2
    # The numbers go on after a crash, whichever destination asks first.
    mount.kill()
    mount.start()
    write_random(mount.root / "c.raw", 200_000)
    assert mount.wait_for("c.raw", "complete")["published_name"] == "015/c.raw"
