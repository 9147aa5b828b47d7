"""What a file costs that waits for a destination which is away: resident memory of a mount of its own."""

import json
import shutil
import time

from plain_server import free_port
from support import Failed, KIB, note, run_json

# Enough for every thread to have run, and for every cache to have its size, before the first look.
WARM_UP_FILES = 500
FILE_BYTES = 4 * KIB


class PendingFiles:
    """Files closed and complete in the spool of a mount whose destination refuses every connection."""

    def __init__(self, work, start_mount, writer):
        self.folder = work / "pending"
        self.mountpoint, self.spool = self.folder / "mount", self.folder / "spool"
        for folder in (self.mountpoint, self.spool):
            folder.mkdir(parents=True)
        self.start_mount, self.writer = start_mount, writer
        self.url = f"https://127.0.0.1:{free_port()}"
        self.count = 0

    def measure(self, steps):
        """Bytes of resident memory per file, for each number of files that is added; and after a restart, where the
        files are known from the spool and were not looked up through the mount."""
        with self.start_mount(self.mountpoint, self.spool, self.url) as mount:
            self.add(mount, WARM_UP_FILES)
            result = {}
            for step in steps:
                note(f"{step} idle pending files")
                before = mount.memory()[0]
                self.add(mount, step)
                result[step] = (mount.memory()[0] - before) / step
        note("the same files after a restart")
        with self.start_mount(self.mountpoint, self.spool, self.url) as mount:
            self.settle(mount)
            full = mount.memory()[0]
        shutil.rmtree(self.spool)
        self.spool.mkdir()
        self.count = 0
        with self.start_mount(self.mountpoint, self.spool, self.url) as mount:
            self.settle(mount)
            result["restart"] = (full - mount.memory()[0]) / (WARM_UP_FILES + sum(steps))
        return result

    def add(self, mount, count):
        folder = self.mountpoint / f"after-{self.count}"
        folder.mkdir()
        run_json([self.writer, "many", folder, count, FILE_BYTES])
        self.count += count
        self.settle(mount)

    def settle(self, mount):
        """Until every file is pending and the mount has nothing more to do with it."""
        deadline = time.monotonic() + 60 + self.count / 100
        while time.monotonic() < deadline:
            files = json.loads((self.mountpoint / ".uploadfs" / "summary.json").read_text())
            waiting = files["files"]["waiting"] + files["files"]["queued"] + files["files"]["uploading"]
            if files["scanned"] and waiting == self.count and self.is_idle(mount):
                return
            time.sleep(0.1)
        raise Failed(f"{self.count} files did not come to rest as pending: {files['files']}{mount.log_tail()}")

    @staticmethod
    def is_idle(mount):
        """The catalog is written by now: half a second costs the mount next to nothing."""
        before = mount.cpu_seconds()
        time.sleep(0.5)
        return mount.cpu_seconds() - before <= 0.02
