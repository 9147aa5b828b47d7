"""What another version of the programs leaves behind, and what it says: recorded once, and kept for all later versions.

A change of the protocol, of the catalog or of the records on either side gets a recording of the commit before it, in a folder
`versions/COMMIT`.

    BINARIES=… /usr/bin/python3 Tests/EndToEnd/versions.py FOLDER

records, with the programs of that build, a spool and a receiver's root whose programs were killed in the middle of their work, what the
mount's status said of it, and the exchanges of one client with one receiver. `test_versions.py` has the present programs go on with each
of them.
"""

import base64
import contextlib
import hashlib
import http.server
import json
import lzma
import os
import pathlib
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading

from certificates import Authority
from harness import Mount, Receiver, mark, wait_until
from protocol_client import chain_tip
from tamper import TamperingProxy

# Below the ports that the kernel gives away: the records of a spool belong to one address.
PORT = 18613
CHUNK = 256 << 10
OPTIONS = ("--chunk-size", "256KiB", "--rule", "named/** name={seq:3}-{name}")

DELIVERED = {"delivered.mov": 700_000, "day 1/small.txt": 400, "empty": 0, "named/a.jpg": 3_000}
# Fifteen of its chunks are at the receiver, and nothing of the others.
HALF, HALF_CHUNKS, HALF_STORED = "half.mov", 20, 15
PENDING = {"pending.mov": 300_000, "pending.txt": 40}
# Its writer was killed with the mount.
CUT = "cut.mov"

# What has been recorded since 69a40d8b: a spool on a disk that is smaller than one of its files.
DISK = 24 << 20
LITTLE = ("--chunk-size", "256KiB", "--reserve", "4MB", "--rule", "*.mov when-full=release")
RELEASED, RELEASED_CHUNKS = "released.mov", 120
CANCELLED, CANCELLED_CHUNKS = "cancelled.raw", 20
# Another file had the name.
NUMBERED, NUMBERED_AS = "taken.txt", "taken-2.txt"
# It begins with a hole, of which the receiver has been told; of what comes behind it has a part at most.
HOLES, HOLES_CHUNKS, HOLES_FILLED = "holes.raw", 40, 24

# Each is written when the one before is delivered; the burst travels in bundles.
EXCHANGED = {"large.mov": 5 * CHUNK + 1, "single.raw": 200_000, "note.txt": 40}
BURST = {f"burst/{number}": 300 + number for number in range(40)}


def content(name, size):
    """Bytes of a name: they compress well, so that the fixtures are small, and no two chunks are alike."""
    blocks = (
        hashlib.shake_256(f"{name} {number}".encode()).digest(256) * 256 for number in range(-(-size // (256 * 256))))
    return b"".join(blocks)[:size]


def identity(folder):
    """A certificate for the receiver and who has issued it."""
    authority = Authority(folder / "authority")
    return {"certificate": authority.issue("receiver"), "ca": authority.certificate}


def write(mount, name, size):
    path = mount.root / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content(name, size))


# Recording.

def record_state(folder, into):
    """A spool and a receiver's root after a kill -9 of both, as two archives."""
    receiver = Receiver(folder / "root", **identity(folder))
    receiver.port = PORT
    receiver.start()
    mount = Mount(folder, receiver.url, *OPTIONS, token_file=receiver.token_file, ca=receiver.ca).start()
    for name, size in DELIVERED.items():
        write(mount, name, size)
    mount.wait_all()
    with open(mount.root / HALF, "wb", buffering=0) as file:
        # While a file is open its ends are held back.
        file.write(content(HALF, HALF_CHUNKS * CHUNK)[:(HALF_STORED + 2) * CHUNK])
        mount.readings(HALF, lambda reading: reading["bytes"]["acknowledged"] >= HALF_STORED * CHUNK)
        os.sync()
        receiver.kill()
        file.write(content(HALF, HALF_CHUNKS * CHUNK)[(HALF_STORED + 2) * CHUNK:])
    for name, size in PENDING.items():
        write(mount, name, size)
        mount.wait_for(name, "queued", "uploading", "retrying", "waiting")
    with contextlib.suppress(OSError), open(mount.root / CUT, "wb", buffering=0) as file:
        file.write(content(CUT, 2 * CHUNK))
        # What was closed is on the disk, and its records are.
        wait_until(lambda: mark(mount.spool / "captures" / "pending.mov") is None, "the mark of what was closed goes")
        (into / "status.json").write_text(json.dumps(readings(mount), indent=1) + "\n")
        mount.kill()
    subprocess.run(["umount", "-l", mount.root], check=True)
    pack(mount.spool, into / "spool.tar.xz")
    pack(receiver.root, into / "root.tar.xz")


def readings(mount):
    """What readers of a mount's files are told."""
    names = [*DELIVERED, HALF, *PENDING, CUT]
    return {"status": {name: mount.status(name) for name in names}, "summary": mount.summary()}


def record_little_disk(folder, into):
    """The same of a spool whose disk was full: what the receiver alone has, what was cancelled, a name with a number, and holes."""
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", disk], check=True)
    try:
        receiver = Receiver(folder / "root", **identity(folder))
        receiver.port = PORT
        receiver.start()
        (receiver.files / NUMBERED).write_bytes(b"of another program")
        mount = Mount(
            folder, receiver.url, *LITTLE, token_file=receiver.token_file, ca=receiver.ca, spool=disk / "spool").start()
        write(mount, NUMBERED, 40)
        mount.wait_for(NUMBERED, "complete")
        with open(mount.root / CANCELLED, "wb", buffering=0) as file:
            file.write(content(CANCELLED, CANCELLED_CHUNKS * CHUNK))
            mount.readings(CANCELLED, lambda reading: reading["chunks"]["done"] > 0)
            mount.say("cancel", CANCELLED)
        mount.wait_for(CANCELLED, "cancelled")
        with contextlib.suppress(OSError), open(mount.root / RELEASED, "wb", buffering=0) as file:
            left = memoryview(content(RELEASED, RELEASED_CHUNKS * CHUNK))
            # Where the disk is full, less is written at once.
            while left:
                left = left[file.write(left[:CHUNK]):]
            os.fsync(file.fileno())
            sparse = os.open(mount.root / HOLES, os.O_WRONLY | os.O_CREAT)
            os.ftruncate(sparse, HOLES_CHUNKS * CHUNK)
            left, end = memoryview(content(HOLES, HOLES_FILLED * CHUNK)), HOLES_CHUNKS * CHUNK
            while left:
                left = left[os.pwrite(sparse, left[:CHUNK], end):]
                end = (HOLES_CHUNKS + HOLES_FILLED) * CHUNK - len(left)
            os.close(sparse)
            mount.readings(HOLES, lambda reading: reading["bytes"]["acknowledged"] >= HOLES_CHUNKS * CHUNK)
            receiver.kill()
            wait_until(lambda: mark(mount.spool / "captures" / HOLES) is None, "the mark of what was closed goes")
            mount.kill()
        assert not (receiver.files / HOLES).exists(), "it came in whole: record again"
        subprocess.run(["umount", "-l", mount.root], check=True)
        pack(mount.spool, into / "little-spool.tar.xz")
        pack(receiver.root, into / "little-root.tar.xz")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def pack(folder, into):
    subprocess.run(
        ["tar", "--format=posix", "--sparse", "--xattrs", "--xattrs-include=user.*", "--exclude=./tokens",
         "--exclude=./.development", "--exclude=./.uploads/operator", "-cJf", into, "-C", folder, "."],
        check=True)


def record_exchanges(folder, into):
    """All requests of one client and their answers, in the order of the answers."""
    receiver = Receiver(folder / "root", **identity(folder))
    receiver.start()
    said, seen = threading.local(), []

    def note_request(method, target, headers, body):
        said.headers, said.body = dict(headers), bytes(body)
        return False

    def note_answer(method, target, whole):
        head, _, body = whole.partition(b"\r\n\r\n")
        first, *fields = head.decode("latin-1").split("\r\n")
        headers = {name: value for name, _, value in (field.partition(": ") for field in fields)}
        kept = {name: value for name, value in said.headers.items() if name not in ("authorization", "host", "content-length")}
        seen.append({
            "method": method, "target": target, "headers": kept, "body": base64.b64encode(said.body).decode(),
            "status": int(first.split()[1]), "answer_headers": headers, "answer": base64.b64encode(body).decode()})

    certificate, key = Authority(folder / "front").issue("front")
    with TamperingProxy(receiver.port, certificate, key, receiver.ca) as proxy:
        proxy.change, proxy.answer = note_request, note_answer
        mount = Mount(
            folder, f"https://127.0.0.1:{proxy.port}", "--chunk-size", "256KiB", token_file=receiver.token_file,
            ca=folder / "front" / "ca.pem").start()
        for name, size in EXCHANGED.items():
            write(mount, name, size)
            mount.wait_for(name, "complete")
        for name, size in BURST.items():
            write(mount, name, size)
        mount.wait_all()
        mount.stop()
    receiver.stop()
    with lzma.open(into / "exchanges.json.xz", "wt") as file:
        json.dump(seen, file)


# Playing.

def formats(recorded):
    """The formats of what was recorded: of the catalog, the names' record, the records of uploads and the status; None where that was not."""
    with tempfile.TemporaryDirectory() as scratch:
        unpack(recorded / "spool.tar.xz", state := pathlib.Path(scratch) / "spool")
        found = [last_migration(state / ".state" / f"{name}.sqlite") for name in ("catalog", "names")]
        records = {int.from_bytes(path.read_bytes()[8:10], "little") for path in (state / ".state" / "resume").glob("*.resume")}
    [record] = records
    status = recorded / "status.json"
    version = json.loads(status.read_text())["status"][HALF]["version"] if status.exists() else None
    return [*found, record, version]


def last_migration(database):
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return max(int(identifier) for identifier, in connection.execute("SELECT identifier FROM grdb_migrations"))


def unpack(archive, folder):
    folder.mkdir(parents=True)
    subprocess.run(["tar", "--xattrs", "--xattrs-include=user.*", "-xJf", archive, "-C", folder], check=True)


def exchanges(folder):
    with lzma.open(folder / "exchanges.json.xz", "rt") as file:
        return json.load(file)


def renew(root):
    """Has the sessions of a receiver's root end a moment ago: the programs were killed then, not when this was recorded."""
    for journal in (root / ".uploads" / "sessions").glob("*/journal"):
        os.utime(journal)


def adopt(spool):
    """Has the catalog know the files by the inode numbers that unpacking gave them, as if they had never moved."""
    with contextlib.closing(sqlite3.connect(spool / ".state" / "catalog.sqlite")) as catalog, catalog:
        for identity_, path in catalog.execute("SELECT id, path FROM file").fetchall():
            file = os.fsencode(spool / "captures") + b"/" + bytes(path)
            # Those that were delivered may have made room.
            if os.path.exists(file):
                catalog.execute("UPDATE file SET inode = ? WHERE id = ?", (os.stat(file).st_ino, identity_))


class RecordedReceiver:
    """A receiver that knows nothing but the answers of another version: each goes to the request that is like its own."""

    def __init__(self, exchanges, certificate, key):
        self.answers, self.unknown = {}, []
        for exchange in exchanges:
            like = self._key(exchange["method"], exchange["target"], exchange["headers"], bodies(exchange)[0])
            self.answers.setdefault(like, exchange)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                exchange = outer.answers.get(outer._key(self.command, self.path, headers, body))
                if exchange is None:
                    outer.unknown.append((self.command, self.path))
                    self.send_error(404)
                    return
                answer = bodies(exchange)[1]
                if self.path.startswith("/v1/files/"):
                    # The chain of a whole file begins with what the client has drawn by lot (P56).
                    digests = [bytes.fromhex(headers["x-chunk-sha256"])] if body else []
                    tip = chain_tip(headers["idempotency-key"].strip('"'), digests).hex()
                    answer = json.dumps(json.loads(answer) | {"chain_tip": tip}).encode()
                self.send_response_only(exchange["status"])
                for name, value in exchange["answer_headers"].items():
                    # How files fall into bundles, and chunks into runs, is another matter each time.
                    if name.lower() not in ("content-length", "x-bundle-files-max", "x-run-bytes-max"):
                        self.send_header(name, value)
                if exchange["status"] != 204:
                    self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_OPTIONS = _answer

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port

    @staticmethod
    def _key(method, target, headers, body):
        """What makes two requests the same, whatever a client draws by lot."""
        if method == "POST" and target == "/v1/uploads":
            return method, target, json.loads(body)["name"]
        return method, target, headers.get("x-chunk-sha256")

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def bodies(exchange):
    """What was sent and what was answered."""
    return base64.b64decode(exchange["body"]), base64.b64decode(exchange["answer"])


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True)
    for recording in (record_state, record_little_disk, record_exchanges):
        with tempfile.TemporaryDirectory() as scratch:
            recording(pathlib.Path(scratch), target)
