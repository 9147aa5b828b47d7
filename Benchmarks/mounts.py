"""Mounts that upload what is written into them: that of uploadfs, and those of other people; and how each tells that a
server has acknowledged everything."""

import contextlib
import json
import os
import signal
import time
import urllib.request

from plain_server import free_port
from support import MIB, Failed, Program, release_mountpoint
from upload_servers import BUCKET, CREDENTIALS, KEY, SECRET, installed, peer

POLL_SECONDS = 0.002
# Captures of this name are sent once they are closed; the others while they are written.
WHOLE_NAME = "*.whole"


class Mount:
    """A mount for as long as the stack lasts."""

    first_signal = signal.SIGTERM

    def __init__(self, name, work, stack):
        self.name, self.folder = name, work / name.replace(" ", "-").replace(",", "")
        self.path = self.folder / "mount"
        self.path.mkdir(parents=True)
        stack.callback(release_mountpoint, self.path)
        self.program = Program(self.command(), self.folder / "log", CREDENTIALS)
        stack.callback(self.stop)
        self.wait_until_mounted()

    def stop(self):
        self.program.stop(self.first_signal)

    def wait_until_mounted(self):
        deadline = time.monotonic() + 30
        while not os.path.ismount(self.path):
            if self.program.process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{self.name} does not mount{self.program.log_tail()}")
            time.sleep(0.02)

    def wait_for(self, condition, seconds):
        """The moment at which the condition was first seen to hold."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return time.monotonic()
            time.sleep(POLL_SECONDS)
        raise Failed(f"{self.name}: not acknowledged in time{self.program.log_tail()}")


class UploadMount(Mount):
    """That of uploadfs: acknowledged is what its status says."""

    first_signal = signal.SIGINT

    def __init__(self, name, work, stack, binary, to, *settings):
        self.binary, self.to, self.settings = binary, to, settings
        super().__init__(name, work, stack)

    def command(self):
        return [
            self.binary, "mount", self.path, "--to", self.to, "--spool", self.folder / "spool", "--rule",
            f"{WHOLE_NAME} upload=on-close", *self.settings]

    def wait_until_mounted(self):
        self.program.read_until(r"^mounted ")

    def acknowledged(self, keys, size):
        """The moment at which all of these files were seen to be acknowledged. Of many that is asked at once: to read thousands of
        statuses is work for the mount, and no part of an upload."""
        seconds = 60 + len(keys) * size / MIB
        if len(keys) == 1:
            return self.wait_for(lambda: self.is_complete(keys[0], size), seconds)
        moment = self.wait_for(self.has_nothing_pending, seconds)
        self.check_complete(keys, size)
        return moment

    def check_complete(self, keys, size):
        for key in keys:
            if not self.is_complete(key, size):
                raise Failed(f"{self.name}: {key} is not acknowledged, and nothing is pending{self.program.log_tail()}")

    def has_nothing_pending(self):
        summary = json.loads((self.path / ".uploadfs" / "summary.json").read_text())
        if summary["undelivered_files"]:
            raise Failed(f"{self.name}: {summary['failed_paths']}{self.program.log_tail()}")
        return summary["oldest_pending_sequence"] is None

    def is_complete(self, key, size):
        with contextlib.suppress(OSError, ValueError):
            status = json.loads((self.path / "status" / f"{key}.json").read_text())
            if status["state"] == "failed":
                raise Failed(f"{self.name}: {key}: {status['last_error']}")
            return status["state"] == "complete" and status["bytes"]["total"] == size
        return False

    def stop(self):
        # Everything that counts was acknowledged, so there is nothing to wait for.
        if not self.path.is_mount():
            return self.program.stop(signal.SIGKILL)
        return self.program.stop(self.first_signal, patience=5.0)


class RcloneMount(Mount):
    """Acknowledged is what the server has when no upload waits or is under way."""

    TUNED = [
        "--vfs-write-back", "1ms", "--transfers", "12", "--s3-upload-concurrency", "12", "--s3-chunk-size", "8Mi",
        "--s3-upload-cutoff", "8Mi", "--multi-thread-streams", "12", "--s3-disable-checksum"]

    def __init__(self, name, work, stack, server, *settings):
        self.server, self.settings = server, settings
        self.control = free_port()
        super().__init__(name, work, stack)

    def command(self):
        return [
            peer("rclone"), "mount", f":s3:{BUCKET}", self.path, "--config", "/dev/null", "--s3-provider", "Other",
            "--s3-endpoint", self.server.endpoint, "--s3-env-auth", "--s3-no-check-bucket", "--vfs-cache-mode",
            "writes", "--cache-dir", self.folder / "cache", "--rc", "--rc-no-auth", "--rc-addr",
            f"127.0.0.1:{self.control}", *self.settings]

    def acknowledged(self, keys, size):
        return self.wait_for(
            lambda: all(self.server.size(key) == size for key in keys) and not self.is_uploading(),
            120 + len(keys) * size / MIB)

    def is_uploading(self):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.control}/vfs/stats", data=b"{}", headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=15) as answer:
            cache = json.load(answer)["diskCache"]
        return cache["uploadsInProgress"] + cache["uploadsQueued"] > 0


class S3fsMount(Mount):
    """Its close returns when the server has answered."""

    TUNED = ["-o", "parallel_count=12,multipart_size=8,multireq_max=20,max_stat_cache_size=100000"]

    def __init__(self, name, work, stack, server, *settings):
        self.server, self.settings = server, settings
        super().__init__(name, work, stack)

    def command(self):
        passwords = self.folder / "passwords"
        passwords.write_text(f"{KEY}:{SECRET}\n")
        passwords.chmod(0o600)
        temporary = self.folder / "temporary"
        temporary.mkdir()
        return [
            installed("s3fs"), BUCKET, self.path, "-f", "-o",
            f"url={self.server.endpoint},use_path_request_style,passwd_file={passwords},tmpdir={temporary}",
            *self.settings]

    def acknowledged(self, keys, size):
        """No moment: it was that of the close."""
        missing = [key for key in keys if self.server.size(key) != size]
        if missing:
            raise Failed(f"{self.name}: {missing[0]} was closed and is not at the server{self.program.log_tail()}")
        return None
