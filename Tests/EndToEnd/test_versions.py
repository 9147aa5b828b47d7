"""Two versions at once: what an older version left is gone on with, and an older program and a newer one understand each other.

The fixtures below `versions/` are named for the commit whose programs made them (versions.py), and stay for good. In
`scripts/test --long` the programs of these commits are built, and run beside the present ones (programs_of_two_versions.py).
"""

import contextlib
import json
import os
import pathlib
import re
import sqlite3
import subprocess

import pytest

import versions
from harness import RECEIVER_TOOL, REPOSITORY, clean_environment
from protocol_client import ProtocolClient, Session, chain_tip, tag
from versions import CHUNK, CUT, DELIVERED, EXCHANGED, HALF, HALF_CHUNKS, HALF_STORED, OPTIONS, PENDING, content

RECORDED = sorted(pathlib.Path(__file__).with_name("versions").iterdir())
LITTLE_RECORDED = [path for path in RECORDED if (path / "little-spool.tar.xz").exists()]
STATUS_RECORDED = [path for path in RECORDED if (path / "status.json").exists()]
PAGE = (REPOSITORY / "docs" / "upgrade.md").read_text()

# Requests of later clients, which go on where they are not answered.
NEW_QUESTIONS = {"/v1/capabilities", "/v1/uploads/credentials?digests=1"}

of_each = pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.name)


def inodes(root):
    return {path.relative_to(root): path.stat().st_ino for path in root.rglob("*") if path.is_file()}


@of_each
def test_a_spool_and_a_root_of_another_version_are_gone_on_with(recorded, folder, new_receiver, new_mount):
    root, spool = folder / "root", folder / "old" / "spool"
    versions.unpack(recorded / "root.tar.xz", root)
    versions.unpack(recorded / "spool.tar.xz", spool)
    versions.renew(root)
    versions.adopt(spool)
    before = inodes(root / "files")

    receiver = new_receiver(name="root", start=False, **versions.identity(folder))
    receiver.port = versions.PORT
    receiver.start()
    mount = new_mount(receiver, *OPTIONS, spool=spool)
    mount.wait_all(interrupted=True)

    assert {name: mount.status(name)["state"] for name in DELIVERED} == dict.fromkeys(DELIVERED, "complete")
    for name, size in PENDING.items() | {(HALF, HALF_CHUNKS * CHUNK)}:
        assert (receiver.files / name).read_bytes() == content(name, size)
    after = inodes(receiver.files)
    assert {path: after[path] for path in before} == before, "what was delivered is not sent again"
    stored = receiver.stats()["chunks_stored"]
    assert stored <= HALF_CHUNKS - HALF_STORED + 4, "what was acknowledged is not sent again"
    assert mount.status(CUT)["state"] == "interrupted" and not (receiver.files / CUT).exists()
    assert (mount.root / CUT).read_bytes() == content(CUT, 2 * CHUNK), "it can be read and rescued"
    # Versions before identities had no such attribute.
    captures = [path for path in (spool / "captures").rglob("*") if path.is_file()]
    assert captures and all("user.uploadfs" in os.listxattr(path) for path in captures), "each has its identity on it"
    # What the other version published is this spool's own: a later content takes its place, and what is recorded there as well.
    (mount.root / "delivered.mov").write_bytes(content("later", 800_000))
    (mount.root / "day 1" / "small.txt").unlink()
    (mount.root / "day 1" / "small.txt").write_bytes(b"recorded anew")
    for name, size in {"delivered.mov": 800_000, "day 1/small.txt": None}.items():
        assert mount.wait_for(name, "complete").get("published_name", name) == name
        assert (receiver.files / name).read_bytes() == (content("later", size) if size else b"recorded anew")
    # The numbers that a template gives go on.
    versions.write(mount, "named/b.jpg", 500)
    assert mount.wait_for("named/b.jpg", "complete")["published_name"] == "002-b.jpg"
    assert mount.status("named/a.jpg")["published_name"] == "001-a.jpg"


@pytest.mark.parametrize("recorded", LITTLE_RECORDED, ids=lambda path: path.name)
def test_what_another_version_left_to_its_receiver_alone_is_gone_on_with(recorded, folder, new_receiver, new_mount):
    """Parts that were given up in the spool, a cancelled file, a name with a number, and chunks of zeros."""
    root, spool = folder / "root", folder / "old" / "spool"
    versions.unpack(recorded / "little-root.tar.xz", root)
    versions.unpack(recorded / "little-spool.tar.xz", spool)
    versions.renew(root)
    versions.adopt(spool)
    released = spool / "captures" / versions.RELEASED
    assert released.stat().st_blocks * 512 < released.stat().st_size, "the spool has not all of it"
    whole = content(versions.RELEASED, versions.RELEASED_CHUNKS * CHUNK)

    receiver = new_receiver(name="root", start=False, **versions.identity(folder))
    receiver.port = versions.PORT
    receiver.start()
    mount = new_mount(receiver, *versions.LITTLE, spool=spool)
    assert mount.wait_for(versions.RELEASED, "interrupted", "failed", "complete")["state"] == "interrupted"
    mount.say("publish", versions.RELEASED)
    mount.wait_for(versions.RELEASED, "complete")
    assert (receiver.files / versions.RELEASED).read_bytes() == whole

    # Of its zeros the receiver had been told, and they are holes in what is published.
    mount.wait_for(versions.HOLES, "complete")
    filled = content(versions.HOLES, versions.HOLES_FILLED * CHUNK)
    assert (receiver.files / versions.HOLES).read_bytes() == bytes(versions.HOLES_CHUNKS * CHUNK) + filled
    assert (receiver.files / versions.HOLES).stat().st_blocks * 512 <= (versions.HOLES_FILLED + 2) * CHUNK

    assert mount.status(versions.CANCELLED)["state"] == "cancelled"
    assert not (receiver.files / versions.CANCELLED).exists()
    mount.say("retry", versions.CANCELLED)
    mount.wait_for(versions.CANCELLED, "complete")
    assert (receiver.files / versions.CANCELLED).read_bytes() == content(
        versions.CANCELLED, versions.CANCELLED_CHUNKS * CHUNK)

    # What has the name stays, and so does the number of what came second.
    assert (receiver.files / versions.NUMBERED).read_bytes() == b"of another program"
    assert (receiver.files / versions.NUMBERED_AS).read_bytes() == content(versions.NUMBERED, 40)
    assert {name for name in receiver.published() if name.startswith("taken")} == {versions.NUMBERED, versions.NUMBERED_AS}


@of_each
def test_a_client_understands_the_answers_of_another_versions_receiver(recorded, folder, new_mount):
    certificate, key = (identity := versions.identity(folder))["certificate"]
    token = folder / "token"
    token.write_text("another-secret-0123456789\n")
    token.chmod(0o600)
    with versions.RecordedReceiver(versions.exchanges(recorded), certificate, key) as receiver:
        mount = new_mount(
            None, "--chunk-size", "256KiB", to=f"https://127.0.0.1:{receiver.port}", token_file=token, ca=identity["ca"])
        for name, size in EXCHANGED.items():
            versions.write(mount, name, size)
            mount.wait_for(name, "complete")
        assert mount.stop() == 0
        # What a later client asks for besides, such as what else a receiver takes, older ones answer with 404.
        assert all(target in NEW_QUESTIONS for _, target in receiver.unknown), receiver.unknown


@of_each
def test_a_receiver_understands_the_requests_of_another_versions_client(recorded, folder, new_receiver):
    receiver = new_receiver(**versions.identity(folder))
    client = ProtocolClient(receiver)
    sessions, digests = {}, {}
    for exchange in versions.exchanges(recorded):
        body, answer = versions.bodies(exchange)
        headers, target = exchange["headers"], exchange["target"]
        part = target.split("/")
        old = part[3] if target.startswith("/v1/uploads/") and part[3] in sessions else None
        if old:
            # The session has another name now, and its name is part of each tag and of the chain.
            now, nonce = sessions[old]
            target = target.replace(old, now)
            if part[4] == "chunks":
                index = int(part[5])
                data = content("large.mov", EXCHANGED["large.mov"])[index * CHUNK:][:CHUNK]
                headers |= {"x-chunk-hmac": tag(client.token, nonce, now, index, data)}
                digests[index] = bytes.fromhex(headers["x-chunk-sha256"])
            elif part[4] == "commit":
                tip = chain_tip(now, [digests[index] for index in sorted(digests)]).hex()
                body = json.dumps(json.loads(body) | {"chain_tip": tip}).encode()
        answered = client.request(exchange["method"], target, headers, body or None)
        assert answered.status == exchange["status"], (exchange["method"], target, answered)
        if answer.startswith(b"{"):
            missing = set(json.loads(answer)) - set(answered.json)
            assert not missing, f"{exchange['method']} {target}: the answer lacks {missing}"
        if target == "/v1/uploads":
            sessions[json.loads(answer)["id"]] = answered.json["id"], bytes.fromhex(json.loads(body)["nonce"])
    for name, size in (EXCHANGED | versions.BURST).items():
        assert (receiver.files / name).read_bytes() == content(name, size), name


def lacking(old, new, place=""):
    """Members of a document that a later one has not, or has as something else."""
    for name, value in old.items():
        here = f"{place}.{name}"
        if name not in new:
            yield here
        elif isinstance(value, dict) and isinstance(new[name], dict):
            yield from lacking(value, new[name], here)
        elif None not in (value, new[name]) and kind(value) != kind(new[name]):
            yield f"{here}: {value} and {new[name]}"


def kind(value):
    # A number may be a whole one.
    return float if type(value) is int else type(value)


@pytest.mark.promises("S31d")
@pytest.mark.parametrize("recorded", STATUS_RECORDED, ids=lambda path: path.name)
def test_readers_of_another_versions_files_find_what_they_know(recorded, receiver, new_mount):
    old = json.loads((recorded / "status.json").read_text())
    mount = new_mount(receiver, *OPTIONS)
    for name, size in DELIVERED.items():
        versions.write(mount, name, size)
        before, now = old["status"][name], mount.wait_for(name, "complete")
        assert not list(lacking(before, now)) and before["schema"] == now["schema"] and before["version"] <= now["version"]
    assert not list(lacking(old["summary"], mount.summary()))


def test_the_page_says_which_formats_are_recorded():
    rows = re.findall(r"(?m)^\| `([0-9a-f]{7,8})` \| (\d+) \| (\d+) \| (\d+) \| (\d+|not recorded) \|$", PAGE)
    assert {row[0]: [None if cell == "not recorded" else int(cell) for cell in row[1:]] for row in rows} == {
        recorded.name: versions.formats(recorded) for recorded in RECORDED}


def test_formats_before_the_present_ones_are_recorded():
    """A change gets a recording of the commit before it."""
    storage = REPOSITORY / "Sources" / "UploadEngine" / "Storage"
    present = [
        max(int(number) for number in re.findall(pattern, (storage / file).read_text())) for file, pattern in (
            ("CatalogSchema.swift", r'registerMigration\("(\d+)"\)'), ("NameLedger.swift", r'registerMigration\("(\d+)"\)'),
            ("ResumeRecordCoding.swift", r"version: UInt16 = (\d+)"), ("../Status/StatusDocument.swift", r"static let version = (\d+)"))]
    recorded = [max(found or 0 for found in column) for column in zip(*map(versions.formats, RECORDED))]
    assert all(now - 1 <= before <= now for now, before in zip(present, recorded)), (present, recorded)


def commands(heading):
    """The commands of a section of the page."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def run(block, **variables):
    subprocess.run(["bash", "-euc", block], check=True, env=clean_environment(**variables), timeout=60)


@pytest.mark.parametrize("database", ["catalog", "names"])
def test_what_a_newer_version_has_written_is_refused(database, folder, receiver, new_mount):
    """And with the copies from before it an older version goes on: nothing is sent again."""
    mount = new_mount(receiver, *OPTIONS)
    for name, size in DELIVERED.items():
        versions.write(mount, name, size)
    mount.wait_all()
    assert mount.stop() == 0
    places = {"SPOOL": mount.spool, "BACKUP": folder / "backup"}
    [keep] = commands("Before")
    run(keep, **places)
    with contextlib.closing(sqlite3.connect(mount.spool / ".state" / f"{database}.sqlite")) as connection, connection:
        connection.execute("INSERT INTO grdb_migrations (identifier) VALUES ('99')")
    code, said = mount.start_and_fail()
    assert code == 13 and f"{database}.sqlite' was written by a newer version: use that version" in said, said
    published, stats = receiver.published(), receiver.stats()

    [restore] = commands("Going back")
    run(restore, **places)
    mount.start()
    mount.wait_all()
    versions.write(mount, "named/b.jpg", 500)
    assert mount.wait_for("named/b.jpg", "complete")["published_name"] == "002-b.jpg"
    assert {name: mount.status(name)["state"] for name in DELIVERED} == dict.fromkeys(DELIVERED, "complete")
    assert receiver.published() == published | {"002-b.jpg": 500}
    assert receiver.stats()["files_published"] == stats["files_published"] + 1


def test_a_receivers_root_of_a_newer_version_is_refused(receiver):
    receiver.stop()
    (receiver.root / ".uploads" / "format").write_text("2\n")
    done = subprocess.run(
        [RECEIVER_TOOL, "serve", "--root", receiver.root, "--listen", "127.0.0.1:0", "--development"], capture_output=True, text=True,
        timeout=60)
    assert done.returncode == 22 and ".uploads: a newer version has written it, in format 2" in done.stderr, done.stderr
