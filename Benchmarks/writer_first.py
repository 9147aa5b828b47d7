"""What an upload takes from the programs beside it: the writer whose file it sends, an encoder on all processors, and a recorder
that must not be held up (docs/design/threads.md#the-writer-comes-first)."""

import contextlib
import json
import os
import shutil
import signal
import threading
import time

from plain_server import free_port
from support import KIB, MIB, Failed, Program, compile_helper, note, release_mountpoint, run_json, touch_memory
from table import AtLeast, AtMost

RATE = 50_000_000
BLOCK = 128 * KIB
# By rule this one is sent once it is closed: until then its writer has the machine for itself.
WHOLE_NAME, EARLY_NAME = "whole.bin", "early.bin"
HELD_UP_MS = 20
# What programs and sockets have in hand.
BUFFER_BYTES = 256 * MIB


class WriterFirst:
    """A mount and two receivers: one at the lowest priority, because it would be on another machine; and a usual one, which an
    upload does not have to wait for: beside that, its rate and what the mount takes of the processors are measured."""

    def __init__(self, options, binaries, work, stack):
        self.options, self.binaries, self.work, self.stack = options, binaries, work / "writer-first", stack
        self.work.mkdir()
        self.writer = compile_helper("write-files", self.work)
        self.busy = compile_helper("busy-machine", self.work, "-pthread")
        self.cores, self.count = os.cpu_count(), 0
        self.plain = self.work / "plain"
        self.plain.mkdir()
        self.lowest, self.usual = self.start_receiver("lowest", 19), self.start_receiver("usual")
        self.results = {"full_speed": [], "encoder": [], "upload": [], "records": []}

    def start_receiver(self, name, niceness=None):
        root = self.work / f"received-{name}"
        receiver = Program(
            [self.binaries / "uploadfs-receiver", "serve", "--root", root, "--listen", "127.0.0.1:0",
             "--development"], self.work / f"receiver-{name}.log")
        self.stack.callback(receiver.stop)
        url = receiver.read_until(r"^listening (https://[^\s/]+)")[1]
        if niceness:
            # Once its threads are there: libdispatch gives its own, and so theirs, priorities of their own where it may.
            for thread in os.listdir(f"/proc/{receiver.process.pid}/task"):
                os.setpriority(os.PRIO_PROCESS, int(thread), niceness)
        return root, url

    @contextlib.contextmanager
    def mount(self, receiver, url=None, spool=None):
        """A mount for as long as the context lasts; with a URL of its own its destination is away."""
        self.count += 1
        root, path = receiver[0], self.work / f"mount-{self.count}"
        path.mkdir()
        spool = spool or self.work / f"spool-{self.count}"
        with contextlib.ExitStack() as stack:
            stack.callback(release_mountpoint, path)
            program = Program(
                [self.binaries / "uploadfs-mount", "mount", path, "--to", url or receiver[1], "--spool", spool,
                 "--token-file", root / ".development" / "token", "--ca", root / ".development" / "ca.pem", "--rule",
                 f"{WHOLE_NAME} upload=on-close"], self.work / f"mount-{self.count}.log")
            stack.callback(program.stop, signal.SIGKILL if url else signal.SIGINT)
            program.read_until(r"^mounted ")
            self.program = program
            yield path
        if not url:
            shutil.rmtree(spool, ignore_errors=True)

    def round(self):
        with self.mount(self.lowest) as path:
            self.results["full_speed"].append(
                {"alone": self.write(path, WHOLE_NAME), "uploading": self.write(path, EARLY_NAME)})
        self.results["encoder"].append(self.beside_an_encoder(self.lowest))
        self.results["upload"].append(self.beside_an_encoder(self.usual))

    def write(self, path, name):
        touch_memory(2 * self.options.size + BUFFER_BYTES)
        written = run_json([self.writer, "one", path / name, self.options.size, MIB])
        written["acknowledged"] = self.wait_until_complete(path, name) - written["closing_at"]
        (path / name).unlink()
        return written

    def wait_until_complete(self, path, name):
        deadline = time.monotonic() + 120 + self.options.size / MIB
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                if json.loads((path / "status" / f"{name}.json").read_text())["state"] == "complete":
                    return time.monotonic()
            time.sleep(0.005)
        raise Failed(f"{name} was not acknowledged in time")

    # An encoder beside a backlog.

    def encode(self, seconds):
        return run_json([self.busy, "encode", self.cores, seconds])["blocks"] / seconds

    def beside_an_encoder(self, receiver):
        """Blocks a second of an encoder alone and beside a backlog that is sent; bytes a second of the upload beside the encoder,
        and without it."""
        seconds, spool = self.options.encoder_seconds, self.work / "backlog"
        touch_memory(2 * self.options.size + BUFFER_BYTES)
        with self.mount(receiver, f"https://127.0.0.1:{free_port()}", spool) as path:
            run_json([self.writer, "one", path / EARLY_NAME, self.options.size, MIB])
            time.sleep(1)
            alone = self.encode(seconds)
        with self.mount(receiver, spool=spool) as path:
            self.wait_until_sending(path)
            with self.encoding(seconds) as encoder:
                before, begun, used = self.acknowledged(path), time.monotonic(), self.program.cpu_seconds()
                beside = json.loads(encoder.read_line())["blocks"] / seconds
                sent, took = self.acknowledged(path) - before, time.monotonic() - begun
                share = (self.program.cpu_seconds() - used) / took / self.cores
            rest, begun = self.options.size - self.acknowledged(path), time.monotonic()
            pace = None
            if rest > 0.1 * self.options.size:
                pace = rest / (self.wait_until_complete(path, EARLY_NAME) - begun)
            else:
                note("the backlog was over before the encoder: choose a larger --size")
        return {
            "alone": alone, "beside": beside, "mount_share": share, "rate_beside": sent / took, "rate_alone": pace}

    def wait_until_sending(self, path):
        deadline = time.monotonic() + 30
        while self.acknowledged(path) == 0:
            if time.monotonic() > deadline:
                raise Failed("the backlog was not begun with")
            time.sleep(0.005)

    @staticmethod
    def acknowledged(path):
        return json.loads((path / ".uploadfs" / "summary.json").read_text())["bytes"]["acknowledged"]

    # A recorder on a loaded machine.

    def record(self):
        """How long the writes of a recorder take while an encoder has all processors: into a plain folder, and into a mount that
        sends what is written."""
        seconds = self.options.record_seconds
        for name in ("plain", "mount"):
            note(f"recording for {seconds} s beside an encoder ({name})")
            touch_memory(int(2 * 30 * RATE) + BUFFER_BYTES)
            with contextlib.ExitStack() as stack:
                folder = stack.enter_context(self.mount(self.lowest)) if name == "mount" else self.plain
                stack.enter_context(self.encoding(10 * seconds))
                stack.enter_context(self.clearing(self.lowest[0] / "files"))
                result = run_json([self.busy, "record", folder, seconds, RATE, BLOCK])
                for path in folder.glob("take-*"):
                    path.unlink()
            self.results["records"].append({"where": name, **result})

    @contextlib.contextmanager
    def encoding(self, seconds):
        encoder = Program([self.busy, "encode", self.cores, seconds], self.work / "encoder.log")
        try:
            # By then it has all processors.
            time.sleep(0.3)
            yield encoder
        finally:
            encoder.stop()

    @contextlib.contextmanager
    def clearing(self, folder):
        """What has arrived goes again: ten minutes are 30 GB."""
        is_over = threading.Event()

        def clear():
            while not is_over.wait(2):
                for path in folder.glob("take-*"):
                    with contextlib.suppress(OSError):
                        path.unlink()

        thread = threading.Thread(target=clear)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def tabulate(self, table):
        megabytes = self.options.size / 1e6
        speed = self.results["full_speed"]
        table.add(
            "a writer at full speed while its file is sent", [one["uploading"]["seconds"] for one in speed],
            [one["alone"]["seconds"] for one in speed], "MB/s", megabytes, "nothing is sent", AtLeast(0.85))
        table.add(
            "close to acknowledged, sent while it is written", [one["uploading"]["acknowledged"] for one in speed],
            [one["alone"]["acknowledged"] for one in speed], "s", reference="sent once it is closed", target=AtMost(1))
        encoder = self.results["encoder"]
        table.add(
            "an encoder on all processors beside a backlog", [1 / one["beside"] for one in encoder],
            [1 / one["alone"] for one in encoder], "blocks/s", 1, "nothing is sent", AtLeast(0.95))
        table.add(
            "mount: its share of all processors beside the encoder", [one["mount_share"] for one in self.results["upload"]],
            target=AtMost(0.05))
        paces = [one for one in self.results["upload"] if one["rate_alone"]]
        if paces:
            table.add(
                "the backlog beside the encoder", [1 / max(one["rate_beside"], 1) for one in paces],
                [1 / one["rate_alone"] for one in paces], "MB/s", 1e-6, "without it", AtLeast(0.1))
        else:
            table.add_unavailable("the backlog beside the encoder", "it was sent before the encoder ended", AtLeast(0.1))
        records = {one["where"]: one for one in self.results["records"]}
        if records:
            longest = records["mount"]["longest_ms"], records["plain"]["longest_ms"]
            table.add(
                f"the longest write of {RATE / 1e6:.0f} MB/s for {self.options.record_seconds} s beside the encoder",
                [longest[0]], unit="ms", target=AtMost(longest[1] + HELD_UP_MS))
            table.add("the same into a plain folder", [longest[1]], unit="ms")
            for name, one in records.items():
                over = {bound: count for bound, count in one["longer_than_ms"].items() if float(bound) >= 1 and count}
                note(f"{name}: {one['writes']} writes, longer than so many ms: {over}")
