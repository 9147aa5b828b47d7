"""The programs that Benchmarks/network compares: each at the client's end of a line, with its server at the other."""

import math
import pathlib
import signal
import subprocess
import time

from line_ends import KEPT_AS_FILES, FrontedS3, NetworkMount, start_front, start_nginx, start_receiver
from mounts import RcloneMount
from support import MIB, run_tool
from upload_servers import BUCKET, installed, peer, run_quietly, start_resumable_upload

STREAMS = 12
# The least that S3 takes, so that a short file has as many parts as it can.
PART_BYTES = 5 * MIB
RECORDING_BLOCK_SECONDS = 0.02
POLL_SECONDS = 0.005


class Late(Exception):
    """A transfer has not ended within its time."""


class Ends:
    """Both ends of a line that is new, for one transfer, which may take `late_after` seconds."""

    def __init__(self, network, binaries, authority, identity, late_after, work, stack):
        self.network, self.binaries, self.authority, self.identity = network, binaries, authority, identity
        self.late_after, self.work, self.stack = late_after, work, stack

    def wait(self, condition, since):
        """Seconds until the condition was seen to hold."""
        while not condition():
            if time.monotonic() - since > self.late_after:
                raise Late
            time.sleep(POLL_SECONDS)
        return time.monotonic() - since

    def run(self, command):
        """What a program prints that runs at the client's end until it ends."""
        variables = [f"{name}={self.authority}" for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")]
        try:
            return run_quietly([*self.network.client.prefix, "env", *variables, *command], timeout=self.late_after)
        except subprocess.TimeoutExpired:
            raise Late from None

    def timed(self, command):
        start = time.monotonic()
        self.run(command)
        return time.monotonic() - start


class Uploadfs:
    """From the close of a large file, and from the open of the first of many, to the acknowledgement in `status`."""

    settings = ["--congestion", "auto"]

    def __init__(self, ends):
        self.ends = ends
        url, given = self.start_server()
        self.mount = NetworkMount(
            ends.network, "uploadfs", ends.work, ends.stack, ends.binaries / "uploadfs-mount", url, "--ca", ends.authority, *given, *self.settings)
        # What is left is thrown away.
        ends.stack.callback(self.mount.program.stop, signal.SIGKILL)

    def start_server(self):
        ends = self.ends
        self.arrived = ends.work / "received" / "files"
        return start_receiver(ends.network, ends.identity, ends.binaries, ends.work, ends.stack)

    def prepare(self, load):
        pass

    def send(self, load):
        started_at = time.monotonic()
        closed_at = [copy(file, self.mount.path / file.name) for file in load.files][-1]
        if len(load.files) == 1:
            return self.wait_for_one(load, closed_at)
        seconds = self.ends.wait(self.mount.has_nothing_pending, started_at)
        for file in load.files:
            self.mount.check_complete([file.name], file.stat().st_size)
        return seconds

    def record(self, load, bytes_per_second):
        """Seconds from the close of a file that was written at this rate."""
        [file] = load.files
        return self.wait_for_one(load, copy(file, self.mount.path / file.name, bytes_per_second))

    def wait_for_one(self, load, since):
        return self.ends.wait(lambda: self.mount.is_complete(load.files[0].name, load.size), since)

    @classmethod
    def describe(cls, binaries):
        return f"uploadfs-mount {run_tool([binaries / 'uploadfs-mount', '--version']).strip()}: {' '.join(cls.settings)}"


class UploadfsToS3(Uploadfs):
    def start_server(self):
        self.arrived, _ = start_s3(self.ends)
        return f"s3+https://{self.ends.network.server.address}/{BUCKET}", ()


def copy(source, target, bytes_per_second=math.inf):
    """The moment just before the copy's close."""
    block_bytes = MIB if bytes_per_second == math.inf else max(1, int(bytes_per_second * RECORDING_BLOCK_SECONDS))
    with open(source, "rb") as file, open(target, "wb", buffering=0) as to:
        started_at = time.monotonic()
        while block := file.read(block_bytes):
            to.write(block)
            time.sleep(max(0, started_at + file.tell() / bytes_per_second - time.monotonic()))
        return time.monotonic()


def start_s3(ends):
    """The folder in which it keeps what arrives, and the server."""
    server = FrontedS3(ends.network, ends.identity, ends.work, ends.stack)
    return server.folder / BUCKET, server


class Peer:
    """A program that is started when the files are there; its time is that from its start to its end."""

    def __init__(self, ends):
        self.ends = ends
        self.start_server()

    def start_server(self):
        self.arrived, self.server = start_s3(self.ends)

    def prepare(self, load):
        pass

    def send(self, load):
        return self.ends.timed(self.command(load))


class Rclone(Peer):
    settings = [
        "--transfers", STREAMS, "--checkers", STREAMS, "--s3-upload-concurrency", STREAMS, "--s3-chunk-size", "5Mi", "--s3-upload-cutoff", "5Mi",
        "--s3-disable-checksum"]

    def command(self, load):
        return [
            peer("rclone"), "copy", "--config", "/dev/null", "--ca-cert", self.ends.authority, "--s3-provider", "Other", "--s3-endpoint",
            self.server.endpoint, "--s3-env-auth", "--s3-no-check-bucket", *self.settings, load.folder, f":s3:{BUCKET}"]

    @classmethod
    def describe(cls, _):
        return f"{run_tool([peer('rclone'), 'version']).splitlines()[0]}, copy: {words(cls.settings)}"


class MountedRclone(Peer):
    """From the close of a large file, and from the open of the first of many, until the server has all of it and no upload waits."""

    settings = [*Rclone.settings, "--vfs-write-back", "1ms", "--multi-thread-streams", STREAMS]

    def __init__(self, ends):
        super().__init__(ends)
        self.mount = NetworkRcloneMount(
            ends.network, "rclone mount", ends.work, ends.stack, self.server, "--ca-cert", ends.authority, *self.settings)

    def send(self, load):
        started_at = time.monotonic()
        closed_at = [copy(file, self.mount.path / file.name) for file in load.files][-1]
        return self.ends.wait(lambda: self.has_all(load), closed_at if len(load.files) == 1 else started_at)

    def has_all(self, load):
        return not self.mount.is_uploading() and all(self.server.size(file.name) == file.stat().st_size for file in load.files)

    @classmethod
    def describe(cls, _):
        return f"{run_tool([peer('rclone'), 'version']).splitlines()[0]}, mount: --vfs-cache-mode writes {words(cls.settings)}"


class NetworkRcloneMount(RcloneMount):
    first_signal = signal.SIGKILL

    def __init__(self, network, *arguments):
        self.network = network
        super().__init__(*arguments)

    def command(self):
        return [*self.network.client.prefix, *super().command()]

    def is_uploading(self):
        with self.network.client.inside():
            return super().is_uploading()


class S5cmd(Peer):
    settings = ["--numworkers", STREAMS]
    of_the_copy = ["--concurrency", STREAMS, "--part-size", PART_BYTES // MIB]

    def command(self, load):
        return [
            peer("s5cmd"), "--endpoint-url", self.server.endpoint, *self.settings, "cp", *self.of_the_copy, f"{load.folder}/*", f"s3://{BUCKET}/"]

    @classmethod
    def describe(cls, _):
        return f"s5cmd {run_tool([peer('s5cmd'), 'version']).strip()}: {words(cls.settings)} cp {words(cls.of_the_copy)}"


class Curl(Peer):
    """PUT to nginx, which keeps files. It cannot send a file in parts: a large one lies there as twelve."""

    settings = ["--parallel", "--parallel-max", STREAMS, "--http1.1"]

    def start_server(self):
        ends = self.ends
        self.arrived = ends.work / "put"
        self.arrived.mkdir()
        start_nginx(KEPT_AS_FILES.format(root=self.arrived), ends.network, ends.identity, ends.work, ends.stack)

    def prepare(self, load):
        files = split(load.files[0], self.ends.work / "pieces") if len(load.files) == 1 else load.files
        self.transfers = self.ends.work / "transfers"
        self.transfers.write_text("".join(
            f'upload-file = "{file}"\nurl = "https://{self.ends.network.server.address}/{file.name}"\n' for file in files))

    def command(self, _):
        return [
            installed("curl"), "--silent", "--show-error", "--fail", "--noproxy", "*", "--header", "Expect:", "--cacert", self.ends.authority,
            "--output", "/dev/null", *self.settings, "--config", self.transfers]

    @classmethod
    def describe(cls, _):
        return f"{' '.join(run_tool([installed('curl'), '--version']).split()[:2])}: {words(cls.settings)}; a large file is {STREAMS} pieces"


def split(file, folder):
    """Pieces of one file, which have its name and a number."""
    folder.mkdir()
    size, pieces = file.stat().st_size, []
    with open(file, "rb") as source:
        for number in range(STREAMS):
            pieces.append(folder / f"{file.name}.{number:02}")
            pieces[-1].write_bytes(source.read(size * (number + 1) // STREAMS - source.tell()))
    return pieces


class Tuspy(Peer):
    """Its clock starts when Python has loaded it."""

    def start_server(self):
        ends = self.ends
        with ends.network.server.inside():
            port, self.arrived = start_resumable_upload(ends.work, ends.stack)
        start_front(port, ends.network, ends.identity, ends.work, ends.stack)

    def send(self, load):
        address = f"https://{self.ends.network.server.address}/files"
        script = pathlib.Path(__file__).with_name("tuspy-upload.py")
        return float(self.ends.run([peer("python"), script, address, load.folder, STREAMS, 0]))

    @classmethod
    def describe(cls, _):
        version = run_tool([peer("python"), "-c", "import importlib.metadata; print(importlib.metadata.version('tuspy'))"])
        return f"tuspy {version.strip()}: each file in one request, {STREAMS} files at the same time, to resumable-upload"


def words(settings):
    return " ".join(map(str, settings))


PROGRAMS = {
    "uploadfs": Uploadfs, "uploadfs to S3": UploadfsToS3, "rclone copy": Rclone, "rclone mount": MountedRclone, "s5cmd": S5cmd, "curl": Curl, "tuspy": Tuspy}
OURS = ["uploadfs", "uploadfs to S3"]
