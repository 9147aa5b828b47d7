"""A spool that was restored from a backup, or runs twice (docs/protocol.md, “Spools”): the receiver says so, and it goes on under a new
identity, with its captures and its uploads."""

import pathlib
import shutil

import pytest

import metrics
import versions
from harness import wait_until
from versions import EXCHANGED

CHUNK = 256 << 10
SAID = "restored from a backup, or a copy of it runs elsewhere"


def identity(spool):
    """What stands in `.state/spool`: word → value."""
    lines = (spool / ".state" / "spool").read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines[1:])


def renewed(mount):
    return mount.summary()["spool"].get("renewed")


def write(mount, name, content=b"content"):
    (mount.root / name).write_bytes(content)
    return mount.wait_for(name, "complete")


def copied(spool, target):
    shutil.copytree(spool, target, symlinks=True, copy_function=shutil.copy2)
    target.chmod(0o700)
    return target


def logged(mount):
    return mount.program.log.count(SAID)


@pytest.mark.promises("P105", "P107", "S79g")
def test_a_spool_restored_from_a_backup_is_told_so_and_keeps_its_uploads(folder, receiver, new_mount):
    mount = new_mount(receiver, "--chunk-size", "256KiB")
    write(mount, "before.txt")
    with open(mount.root / "take.bin", "wb", buffering=0) as file:
        file.write(bytes(8 * CHUNK))
        mount.readings("take.bin", lambda status: status["chunks"]["done"] >= 4)
        receiver.kill()
    mount.wait_for("take.bin", "queued", "uploading", "waiting")
    mount.kill()
    backup = copied(mount.spool, folder / "backup")
    first = identity(backup)
    # Life goes on, and then the disk is lost.
    receiver.start()
    for start in range(2):
        mount.start()
        mount.wait_for("take.bin", "complete")
        # So that the receiver has heard of this start.
        write(mount, f"{start}.txt")
        assert renewed(mount) is None
        assert mount.stop() == 0
    assert identity(mount.spool)["id"] == first["id"] and int(identity(mount.spool)["start"]) == int(first["start"]) + 2
    stored, published = receiver.stats()["chunks_stored"], receiver.published()

    shutil.rmtree(mount.spool)
    mount.spool = backup
    mount.start()
    wait_until(lambda: renewed(mount), "the spool was told")
    told = renewed(mount)
    assert told["told_by"] == receiver.url and told["start"] == int(first["start"]) + 1
    assert told["known_start"] == int(first["start"]) + 2
    assert SAID in mount.tool("status").stdout
    assert metrics.parse((mount.root / ".uploadfs" / "metrics").read_text())["uploadfs_spool_renewed"] == {(): 1}
    now = identity(backup)
    assert now["id"] != first["id"] and now["start"] == "1" and now["was"] == first["id"]
    # The upload that the backup knew is gone on with: it is published already.
    assert mount.wait_for("take.bin", "complete")["receipt"]
    assert receiver.stats()["chunks_stored"] == stored and receiver.published() == published
    write(mount, "after.txt")
    assert mount.stop() == 0
    assert logged(mount) == 1
    # It is not said again.
    mount.start()
    write(mount, "later.txt")
    assert renewed(mount) is None and identity(backup)["id"] == now["id"] and identity(backup)["start"] == "2"
    assert logged(mount) == 1
    assert receiver.program.log.count("restored from a backup, or runs twice") == 1


@pytest.mark.promises("P105", "P107", "S79g")
def test_of_two_copies_that_run_at_once_one_is_told(folder, receiver, new_mount):
    one = new_mount(receiver)
    write(one, "a.txt")
    two = new_mount(receiver, spool=copied(one.spool, folder / "copy"))
    # The copy has the next start, and the receiver knows no better.
    write(two, "b.txt")
    assert renewed(two) is None
    write(one, "c.txt")
    wait_until(lambda: renewed(one), "the spool was told")
    write(one, "d.txt")
    write(two, "e.txt")
    assert renewed(two) is None and identity(one.spool)["id"] != identity(two.spool)["id"]
    assert receiver.published().keys() == {"a.txt", "b.txt", "c.txt", "d.txt", "e.txt"}
    assert (logged(one), logged(two)) == (1, 0)


@pytest.mark.promises("P106", "S79h")
def test_a_receiver_that_has_lost_its_memory_says_nothing(receiver, new_mount):
    mount = new_mount(receiver)
    earlier = (mount.spool / ".state" / "spool").read_bytes()
    write(mount, "a.txt")
    assert mount.stop() == 0
    mount.start()
    write(mount, "b.txt")
    assert mount.stop() == 0
    receiver.stop()
    (receiver.root / ".uploads" / "spools").unlink()
    receiver.start()
    (mount.spool / ".state" / "spool").write_bytes(earlier)
    mount.start()
    write(mount, "c.txt")
    assert renewed(mount) is None and logged(mount) == 0
    assert mount.stop() == 0
    # From now on it knows this one.
    (mount.spool / ".state" / "spool").write_bytes(earlier)
    mount.start()
    wait_until(lambda: renewed(mount), "the spool was told")
    assert mount.stop() == 0
    # What is no identity is made anew.
    (mount.spool / ".state" / "spool").write_bytes(b"nonsense")
    mount.start()
    write(mount, "d.txt")
    assert renewed(mount) is None and identity(mount.spool)["start"] == "1"


def test_an_earlier_receiver_is_not_disturbed(folder, new_mount):
    # Of a version that knows nothing of spools.
    recorded = pathlib.Path(__file__).with_name("versions") / "84faec5"
    certificate, key = (own := versions.identity(folder))["certificate"]
    token = folder / "token"
    token.write_text("another-secret-0123456789\n")
    token.chmod(0o600)
    with versions.RecordedReceiver(versions.exchanges(recorded), certificate, key) as receiver:
        mount = new_mount(
            None, "--chunk-size", "256KiB", to=f"https://127.0.0.1:{receiver.port}", token_file=token, ca=own["ca"])
        earlier = (mount.spool / ".state" / "spool").read_bytes()
        assert mount.stop() == 0
        (mount.spool / ".state" / "spool").write_bytes(earlier)
        mount.start()
        for name, size in EXCHANGED.items():
            versions.write(mount, name, size)
            mount.wait_for(name, "complete")
        assert renewed(mount) is None and logged(mount) == 0
