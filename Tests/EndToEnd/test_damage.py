"""Every file of the receiver's root is damaged in every way: it starts or refuses with one sentence that says what to do, loses
nothing that was delivered, publishes nothing wrong, and says what it could not keep.

    /usr/bin/python3 -m pytest Tests/EndToEnd/test_damage.py --fresh     (every place in every way: scripts/test --long)
"""

import os
import re
import shutil

import pytest

from certificates import Authority
from damage import WAYS, files_below
from harness import SOON, wait_until
from promises import require
from protocol_client import ProtocolClient, Session

CHUNK = 256 << 10
# What the sweep finds in a root; the name of a session and the number of a journal are its own.
PLACES = [
    ".uploads/lock", ".uploads/sessions/ID/data", ".uploads/sessions/ID/journal", ".uploads/receipts/1.journal",
    ".uploads/incoming/0", ".uploads/spools", ".uploads/operator", ".development/ca.pem", ".development/chain.pem",
    ".development/key.pem", ".development/token",
]
# What is written before it takes another file's place.
BEGUN = [".uploads/spools.new", ".development/token.new", ".development/key.pem.new"]
KINDS = ("flip", "make-folder", "link", "hard-link", "pipe", "give-away")
# What is there only now and then.
MADE = {".uploads/incoming/0": b"half", ".uploads/operator": b"no socket", **dict.fromkeys(BEGUN, b"half of it")}
# One place for each way.
NAMED = [
    ("cut", ".uploads/sessions/ID/journal"), ("empty", ".uploads/sessions/ID/journal"), ("zero", ".uploads/receipts/1.journal"),
    ("flip", ".development/key.pem"), ("delete", ".uploads/sessions/ID/journal"), ("make-folder", ".uploads/lock"),
    ("link", ".uploads/sessions/ID/data"), ("hard-link", ".uploads/sessions/ID/data"), ("pipe", ".development/token"),
    ("give-away", ".uploads/sessions/ID/data"), ("delete", ".uploads/sessions/ID/data"), ("flip", ".uploads/spools"),
    ("make-folder", ".uploads/operator"), ("pipe", ".uploads/spools.new"),
]
# What a receiver for others is given.
GIVEN = ["tokens", "certificate", "key"]
GIVEN_NAMED = [("cut", "tokens"), ("pipe", "certificate"), ("flip", "key")]
WHILE_IT_RUNS = [("cut", "data"), ("flip", "data"), ("link", "data"), ("pipe", "data"), ("delete", "journal")]


def pytest_generate_tests(metafunc):
    everything = metafunc.config.getoption("--fresh")
    if metafunc.function is test_a_damaged_root_loses_nothing_that_was_delivered:
        begun = [(way, place) for place in BEGUN for way in KINDS]
        cases = [(way, place) for place in PLACES for way in WAYS] + begun if everything else NAMED
        # With another authority than that of the certificate a client refuses every server.
        cases = [case for case in cases if case != ("flip", ".development/ca.pem")]
    elif metafunc.function is test_a_session_that_is_damaged_while_it_is_open_is_not_published:
        cases = [(way, place) for place in ("data", "journal") for way in WAYS] if everything else WHILE_IT_RUNS
    elif metafunc.function is test_what_a_receiver_is_given_is_damaged:
        cases = [(way, place) for place in GIVEN for way in WAYS] if everything else GIVEN_NAMED
        # Clients refuse the server.
        cases = [case for case in cases if case != ("flip", "certificate")]
    else:
        return
    metafunc.parametrize("way, place", cases)


class Root:
    """A receiver that has published two files and has a session that a client relies upon."""

    def __init__(self, receiver):
        self.receiver = receiver
        self.chunks = [os.urandom(CHUNK) for _ in range(3)]
        client = ProtocolClient(receiver)
        done = Session(client, "done.bin")
        done.put(0, self.chunks[0])
        assert done.commit(self.chunks[:1]).status == 200
        self.session = Session(client, "open.bin", size=3 * CHUNK)
        for index in (0, 1):
            assert self.session.put(index, self.chunks[index]).status == 201
        held = client.request("GET", f"/v1/uploads/{self.session.id}?durable=1", {"X-Spool": f"{'a' * 32}-7-{'b' * 32}"})
        assert held.json["durable"] is True, held

    def path(self, place):
        return self.receiver.root / place.replace("ID", self.session.id)

    @property
    def session_folder(self):
        return self.receiver.root / ".uploads" / "sessions" / self.session.id

    def go_on(self):
        """Sends what is missing and commits, as a client would: what became of it."""
        client = ProtocolClient(self.receiver)
        self.session.client = client
        for _ in range(4):
            # The spool's next start, which is something new to remember.
            answer = client.request("GET", f"/v1/uploads/{self.session.id}", {"X-Spool": f"{'a' * 32}-8-{'c' * 32}"})
            if answer.problem == "internal":
                continue
            if answer.status != 200:
                return answer.problem
            held = {index for first, last in answer.json["held"] for index in range(first, last + 1)}
            for index, chunk in enumerate(self.chunks):
                if index not in held:
                    self.session.put(index, chunk)
            answer = self.session.commit(self.chunks)
            if answer.status == 200:
                return "published"
        return answer.problem

    def check_published(self):
        published = self.receiver.published()
        assert (self.receiver.files / "done.bin").read_bytes() == self.chunks[0]
        assert published.keys() <= {"done.bin", "open.bin"}, published
        if "open.bin" in published:
            assert not (self.receiver.files / "open.bin").is_symlink()
            assert (self.receiver.files / "open.bin").read_bytes() == b"".join(self.chunks)


def test_a_damaged_root_loses_nothing_that_was_delivered(new_receiver, folder, way, place):
    """Regression: a session whose journal was gone was removed, a link was published with a receipt, a pipe hung it."""
    if way == "give-away":
        require("root")
    root = Root(new_receiver())
    receiver = root.receiver
    receiver.stop()
    target, elsewhere = root.path(place), folder / "elsewhere"
    if place in MADE:
        target.write_bytes(MADE[place])
    assert target.is_file(), files_below(receiver.root)
    data = (root.session_folder / "data").read_bytes()
    WAYS[way](target, elsewhere)
    before = elsewhere.read_bytes() if elsewhere.exists() else None
    size = len(receiver.program.log)
    try:
        receiver.start()
    except AssertionError:
        assert not receiver.program.is_running, "it hangs"
        said = [line for line in receiver.program.log[size:].splitlines() if line.startswith("uploadfs-receiver: ")]
        assert 20 <= receiver.program.wait(SOON) <= 24 and len(said) == 1, receiver.program.describe()
        assert re.search(r"Check|take it away|Choose", said[0]), said
        root.check_published()
        assert (root.session_folder / "data").read_bytes() == data
        # As it says: away with it.
        shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink()
        receiver.start()
    log = receiver.program.log[size:]
    if place == ".uploads/spools" and way in ("cut", "zero", "flip", "make-folder", "link", "pipe"):
        assert "spools" in log, log
    if place == ".uploads/operator" and way == "make-folder":
        assert "uploadfs-receiver sessions and end cannot be used" in log, log
    outcome = root.go_on()
    root.check_published()
    if "/ID/" not in place and place != ".development/token":
        assert outcome == "published", (outcome, receiver.program.log[size:])
    elif outcome != "published":
        # What it holds is kept, and said; gone is only what was taken away.
        log = receiver.program.log[size:]
        if outcome in ("session-damaged", "internal"):
            assert root.session.id in log and "set aside" in log, log
            assert root.session_folder.exists()
        elif place != ".development/token":
            assert outcome == "not-found" and (way, place) == ("make-folder", ".uploads/sessions/ID/journal"), (outcome, log)
        if place.endswith("journal") and way != "give-away":
            assert (root.session_folder / "data").read_bytes() == data
    if place == ".uploads/spools.new" and way != "make-folder":
        # What the receiver learns of a spool comes to the disk all the same, at the latest when it ends.
        receiver.stop()
        assert "what is known of spools is not on the disk" not in receiver.program.log[size:]
    if before is not None:
        assert elsewhere.read_bytes() == before


def test_what_a_receiver_is_given_is_damaged(new_receiver, folder, way, place):
    if way == "give-away":
        require("root")
    authority = Authority(folder / "authority")
    receiver = new_receiver(certificate=authority.issue("receiver"), ca=authority.certificate)
    root = Root(receiver)
    receiver.stop()
    receiver.keeps_tokens = True
    certificate, key = receiver.certificate
    target = {"tokens": receiver.root / "tokens", "certificate": certificate, "key": key}[place]
    whole = target.read_bytes()
    WAYS[way](target, folder / "elsewhere")
    size = len(receiver.program.log)
    try:
        receiver.start()
    except AssertionError:
        assert not receiver.program.is_running, "it hangs"
        said = [line for line in receiver.program.log[size:].splitlines() if line.startswith("uploadfs-receiver: ")]
        assert receiver.program.wait(SOON) in (21, 23) and len(said) == 1, receiver.program.describe()
        shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink(missing_ok=True)
        target.write_bytes(whole)
        receiver.start()
    outcome = root.go_on()
    root.check_published()
    said = receiver.program.log[size:]
    assert outcome == "published" or (place, outcome) == ("tokens", "unauthorized"), (outcome, said)
    if way == "cut" and outcome == "unauthorized":
        assert "the last line has no end" in said, said


def test_a_session_that_is_damaged_while_it_is_open_is_not_published(new_receiver, folder, way, place):
    """Regression: cut, flipped, replaced and linked data was published, and written through a link; 500 until the next start."""
    if way == "give-away":
        require("root")
    root = Root(new_receiver())
    target, elsewhere = root.session_folder / place, folder / "elsewhere"
    WAYS[way](target, elsewhere)
    before = elsewhere.read_bytes() if elsewhere.exists() else None
    outcome = root.go_on()
    root.check_published()
    if outcome == "session-damaged":
        wait_until(lambda: root.session.id in root.receiver.program.log, "it is said")
        metrics = root.receiver.get("/metrics").decode()
        assert "uploadfs_receiver_sessions_set_aside 1" in metrics, metrics
    elif way in ("hard-link", "give-away"):
        # That may pass: a backup has linked it. Until then it is neither published nor given up.
        assert outcome in ("internal", "incomplete"), outcome
    else:
        assert outcome == "published", (outcome, root.receiver.program.log)
    if before is not None and way == "link":
        assert elsewhere.read_bytes() == before
