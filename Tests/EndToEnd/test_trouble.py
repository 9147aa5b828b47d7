"""State that another program changed, and receivers that answer strangely: nothing is lost, nothing wrong is believed."""

import json
import subprocess

import pytest

from harness import sha256, still, wait_until, write_random
from throttle import ThrottlingProxy

CHUNK = 1 << 20
CHUNKS = 32


@pytest.fixture
def cut_off(new_mount, receiver, folder):
    """A mount that was killed in mid-upload: scan.mov is there in part, done.txt is delivered."""
    write_random(folder / "source", CHUNKS * CHUNK)
    with ThrottlingProxy(receiver.port, rate=8_000_000) as proxy:
        mount = new_mount(receiver, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{proxy.port}")
        (mount.root / "done.txt").write_bytes(b"delivered before")
        mount.wait_for("done.txt", "complete")
        subprocess.run(["cp", folder / "source", mount.root / "scan.mov"], check=True)
        wait_until(lambda: receiver.stats()["chunks_stored"] >= 12, "12 chunks are stored")
        proxy.hold()
        still(receiver.stats, lambda stats: stats["chunks_stored"])
        mount.kill()
        proxy.cut()
        proxy.rate = None
        proxy.release()
        yield mount


def test_resume_records_under_another_key_are_warned_of_and_the_file_is_delivered(cut_off, receiver, folder):
    key = cut_off.spool / ".state" / "master.key"
    key.write_bytes(bytes(len(key.read_bytes())))
    cut_off.start()
    cut_off.wait_for("scan.mov", "complete", timeout=120)
    assert sha256(receiver.files / "scan.mov") == sha256(folder / "source")
    assert "resume record" in cut_off.program.log
    assert cut_off.status("done.txt")["state"] == "complete"


def test_spool_edited_by_hand_between_two_starts(cut_off, receiver, folder):
    captures = cut_off.spool / "captures"
    with open(captures / "scan.mov", "r+b") as capture:
        # In the middle of a chunk that the receiver holds already; size and name stay the same.
        capture.seek(3 * CHUNK + 1000)
        capture.write(b"edited by hand")
    (captures / "done.txt").write_bytes(b"another content, longer than it was")
    (captures / "new folder").mkdir()
    (captures / "new folder" / "put here.txt").write_bytes(b"put into the spool by hand")
    cut_off.start()
    cut_off.wait_all()
    for name in ("scan.mov", "done.txt", "new folder/put here.txt"):
        assert sha256(receiver.files / name) == sha256(captures / name), name
        assert cut_off.status(name)["state"] == "complete"
    assert sha256(receiver.files / "scan.mov") != sha256(folder / "source")


def test_capture_renamed_and_another_removed_by_hand_between_two_starts(cut_off, receiver, folder):
    captures = cut_off.spool / "captures"
    (captures / "scan.mov").rename(captures / "renamed.mov")
    (captures / "done.txt").unlink()
    cut_off.start()
    cut_off.wait_for("renamed.mov", "complete", timeout=120)
    assert sha256(receiver.files / "renamed.mov") == sha256(folder / "source")
    assert not (receiver.files / "scan.mov").exists(), "the name that it no longer has is not published"
    assert (receiver.files / "done.txt").read_bytes() == b"delivered before", "what was delivered stays"


def test_chunks_that_the_receiver_lost_after_acknowledging_them_are_sent_again(new_mount, receiver, folder):
    source = write_random(folder / "source", CHUNKS * CHUNK)
    with ThrottlingProxy(receiver.port, rate=8_000_000) as proxy:
        mount = new_mount(receiver, "--chunk-size", "1MiB", to=f"https://127.0.0.1:{proxy.port}")
        subprocess.run(["cp", source, mount.root / "scan.mov"], check=True)
        wait_until(lambda: receiver.stats()["chunks_stored"] >= 12, "12 chunks are stored")
        proxy.hold()
        still(receiver.stats, lambda stats: stats["chunks_stored"])
        receiver.kill()
        # What a power cut leaves of blocks that were never written back.
        data = [path for path in (receiver.root / ".uploads" / "sessions").glob("*/*") if path.stat().st_size > CHUNK]
        assert data, "the session's data file is there"
        for path in data:
            with open(path, "r+b") as file:
                file.write(bytes(2 * CHUNK))
        proxy.cut()
        proxy.rate = None
        proxy.release()
        receiver.start()
        mount.wait_for("scan.mov", "complete", timeout=120)
    assert sha256(receiver.files / "scan.mov") == sha256(source)


def _forged_receipt(whole):
    head, _, body = whole.partition(b"\r\n\r\n")
    if b'"merkle_root"' not in body:
        return None
    receipt = json.loads(body)
    receipt["merkle_root"] = "00" * 32
    return _answer(head.split(b"\r\n")[0], b"application/json", json.dumps(receipt).encode())


def _answer(status, kind, body):
    return status + b"\r\nContent-Type: " + kind + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body


NONSENSE = {
    "login-page": lambda whole: _answer(b"HTTP/1.1 200 OK", b"text/html", b"<html>Please log in to this network"),
    "created-without-words": lambda whole: _answer(b"HTTP/1.1 201 Created", b"text/plain", b""),
    "redirect": lambda whole: b"HTTP/1.1 302 Found\r\nLocation: https://example.net/\r\nContent-Length: 0\r\n\r\n",
    "unknown-status": lambda whole: _answer(b"HTTP/1.1 299 Whatever", b"application/json", b"{}"),
    "json-of-another-shape": lambda whole: _answer(
        b"HTTP/1.1 201 Created", b"application/json", b'{"id": 5, "chunk_bytes": -1, "held": "all"}'),
    "cut-in-the-middle": lambda whole: whole[: len(whole) // 2],
    "endless-body": lambda whole: _answer(b"HTTP/1.1 200 OK", b"application/json", b"[" * (20 << 20)),
    "other-protocol": lambda whole: b"SSH-2.0-OpenSSH_9.2\r\n",
    "nothing": lambda whole: b"",
    "twice": lambda whole: whole + whole,
    "forged-receipt": _forged_receipt,
}


@pytest.mark.parametrize("size", [50_000, 6 * CHUNK], ids=["whole-file", "chunks"])
@pytest.mark.parametrize("kind", NONSENSE)
@pytest.mark.promises("P96")
def test_nonsense_from_the_receiver_is_survived(new_mount, receiver, authority, tampering, folder, kind, size):
    """Nonsense in place of the first answers; then the receiver answers as it should."""
    source = write_random(folder / "source", size)
    left = list(range(4))

    def answer(method, target, whole):
        if method == "HEAD" or not left:
            return None
        other = NONSENSE[kind](whole)
        if other is not None:
            left.pop()
        return other

    tampering.answer = answer
    mount = new_mount(
        receiver, "--http", "1.1", "--chunk-size", "1MiB", to=f"https://127.0.0.1:{tampering.port}",
        ca=authority.certificate)
    subprocess.run(["cp", source, mount.root / "scan.mov"], check=True)
    status = mount.wait_for("scan.mov", "complete", "failed", timeout=120)
    assert tampering.changed > 0
    assert status["state"] == "complete", status
    assert sha256(receiver.files / "scan.mov") == sha256(source)
    assert status["receipt"]["merkle_root"] != "00" * 32
    assert mount.program.is_running


def _problem(status, word):
    body = json.dumps({"type": f"urn:uploadfs:problem:{word}", "title": word, "status": int(status[:3]), "detail": "so it says"}).encode()
    return _answer(b"HTTP/1.1 " + status.encode(), b"application/problem+json", body)


# What a receiver says again and again of one file: to a request whose method and last word of the path are these.
ENDLESS = {
    "no such upload at the commit": ("POST", "commit", _problem("404 Not Found", "not-found")),
    "a conflict at the commit": ("POST", "commit", _problem("409 Conflict", "conflict")),
    "other bytes at the commit": ("POST", "commit", _problem("422 Unprocessable Content", "digest-mismatch")),
    "an error at the commit": ("POST", "commit", _problem("500 Internal Server Error", "internal")),
    "nonsense at the commit": ("POST", "commit", _answer(b"HTTP/1.1 200 OK", b"application/json", b"{}")),
    "nonsense at the opening": ("POST", "uploads", _answer(b"HTTP/1.1 201 Created", b"application/json", b"{}")),
    "an error to chunks": ("POST", "chunks", _problem("500 Internal Server Error", "internal")),
    "not now, to chunks": ("POST", "chunks", _answer(b"HTTP/1.1 503 Service Unavailable", b"text/plain", b"")),
}


@pytest.mark.parametrize("lie", ENDLESS, ids=[name.replace(" ", "-").replace(",", "") for name in ENDLESS])
@pytest.mark.promises("P96")
def test_a_lie_of_the_receiver_costs_little_has_a_reason_and_holds_up_no_other(
    new_mount, receiver, authority, tampering, folder, lie
):
    """As of the other protocols in test_lying_servers, over TLS: the same answer, as often as it is asked for."""
    wanted, last, answered = ENDLESS[lie]
    size, sent, lies = 6 * CHUNK, [], []

    def change(method, target, headers, body):
        if "/chunks" in target:
            sent.append(len(body))

    def answer(method, target, whole):
        if method != wanted or target.rstrip("/").rpartition("/")[2] != last:
            return None
        lies.append(target)
        return answered

    tampering.change, tampering.answer = change, answer
    mount = new_mount(
        receiver, "--http", "1.1", "--chunk-size", "1MiB", to=f"https://127.0.0.1:{tampering.port}", ca=authority.certificate)
    source = write_random(folder / "source", size)
    subprocess.run(["cp", source, mount.root / "victim.mov"], check=True)
    good = write_random(mount.root / "good.bin", 50_000, seed=2)
    mount.wait_for("good.bin", "complete")

    def victim():
        return mount.status("victim.mov")

    # What was published all the same is found out by asking.
    wait_until(lambda: victim()["state"] == "complete" or victim()["last_error"], "the status has a reason")
    wait_until(lambda: len(lies) >= 3 or victim()["state"] in ("complete", "failed"), "it was tried again")
    assert victim()["state"] == "complete" or "victim.mov" in mount.program.log
    assert sum(sent) <= 8 * size and len(lies) < 40, (sum(sent) / size, len(lies))
    tampering.answer = None
    mount.say("retry", "victim.mov")
    mount.wait_for("victim.mov", "complete")
    assert sha256(receiver.files / "victim.mov") == sha256(source)
    assert sha256(receiver.files / "good.bin") == sha256(good)
