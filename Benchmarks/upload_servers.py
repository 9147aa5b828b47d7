"""The servers of other people that Benchmarks/destinations uploads to, each on a free port of loopback, without TLS."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

from plain_server import Unavailable, find_nginx, free_port
from support import REPOSITORY, Failed, Program, run_tool

PEERS = REPOSITORY / ".build" / "benchmark-peers" / "bin"
KEY, SECRET, BUCKET = "AKIDBENCHMARK", "benchmark-secret-benchmark-secret", "captures"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
    "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}


def install_peers():
    """Everything that is compared with, by scripts/set-up.sh; what cannot be had is missed where it is needed."""
    subprocess.run(
        ["bash", "-c", ". scripts/set-up.sh && install_benchmark_peers >&2"], cwd=REPOSITORY, stdin=subprocess.DEVNULL)


def forget_surroundings():
    """Proxies and accounts of the user who runs the benchmark are not for its clients."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "RCLONE_")) or name.lower().endswith("_proxy"):
            del os.environ[name]


def peer(name):
    """A program of the peers' folder."""
    path = PEERS / name
    if not os.access(path, os.X_OK):
        raise Unavailable(f"{name} could not be installed")
    return path


def installed(name):
    """A program of a Debian package."""
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if not path:
        raise Unavailable(f"{name} is not installed")
    return path


def run_quietly(command, **more):
    """Runs a client to its end, with the credentials of the S3 servers."""
    done = subprocess.run(
        [str(part) for part in command], env=os.environ | CREDENTIALS, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, **more)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command[:3]))} failed: {done.stdout}{done.stderr}")
    return done.stdout


def wait_for_port(program, port, seconds=30, host="127.0.0.1"):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if program.process.poll() is not None:
            raise Failed(f"{program.name} ended early{program.log_tail()}")
        with contextlib.suppress(OSError), socket.create_connection((host, port), 1):
            return
        time.sleep(0.02)
    raise Failed(f"{program.name} does not listen{program.log_tail()}")


class S3Server:
    """An S3 server with one bucket."""

    def __init__(self, work, stack):
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.s5cmd = [peer("s5cmd"), "--endpoint-url", self.endpoint]
        self.folder = work / self.name.replace(" ", "-")
        self.folder.mkdir()
        self.program = Program(self.command(), work / f"{self.folder.name}.log", CREDENTIALS)
        # What it has is thrown away, and SeaweedFS would take its time.
        stack.callback(self.program.stop, signal.SIGKILL)
        self.wait()
        self.make_bucket()

    def wait(self):
        wait_for_port(self.program, self.port)

    def fetch(self, key, path):
        run_quietly([*self.s5cmd, "cp", f"s3://{BUCKET}/{key}", path])

    def remove(self, key):
        run_quietly([*self.s5cmd, "rm", f"s3://{BUCKET}/{key}"])


class RcloneServer(S3Server):
    """It keeps each object as a file."""

    name = "rclone serve s3"

    def command(self):
        return [
            peer("rclone"), "serve", "s3", "--config", "/dev/null", "--addr", f"127.0.0.1:{self.port}", "--auth-key",
            f"{KEY},{SECRET}", self.folder]

    def make_bucket(self):
        (self.folder / BUCKET).mkdir()

    def size(self, key):
        """Bytes of an object, as its file has them; None as long as there is none."""
        with contextlib.suppress(OSError):
            return (self.folder / BUCKET / key).stat().st_size
        return None


class SeaweedServer(S3Server):
    """SeaweedFS: master, volumes, filer and S3 in one process."""

    name = "SeaweedFS"

    def command(self):
        identity = {
            "name": "benchmark", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
        settings = self.folder / "s3.json"
        settings.write_text(json.dumps({"identities": [identity]}))
        (self.folder / "data").mkdir()
        self.filer_port = free_port()
        ports = [
            f"-master.port={free_port()}", f"-master.port.grpc={free_port()}", f"-volume.port={free_port()}",
            f"-volume.port.grpc={free_port()}", f"-filer.port={self.filer_port}", f"-filer.port.grpc={free_port()}",
            f"-s3.port={self.port}", f"-s3.port.grpc={free_port()}"]
        return [
            peer("weed"), "-logtostderr", "server", f"-dir={self.folder / 'data'}", "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1", "-master.volumeSizeLimitMB=1024", "-volume.max=20", "-filer", "-s3",
            f"-s3.config={settings}", *ports]

    def make_bucket(self):
        """It listens before all its parts know each other."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return run_quietly([*self.s5cmd, "mb", f"s3://{BUCKET}"])
            except Failed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


def start_resumable_upload(work, stack):
    """The tus server of PyPI's resumable-upload, as the end-to-end tests run it: its port, and the folder of what is complete."""
    folder = work / "tus"
    folder.mkdir()
    program = Program(
        [peer("python"), REPOSITORY / "Tests" / "EndToEnd" / "tus_program.py", "resumable-upload", "0", folder, "{}"],
        work / "tus.log")
    stack.callback(program.stop, signal.SIGKILL)
    return int(program.read_until(r"^listening (\d+)$")[1]), folder / "published"


class TusServer:
    """A tus server that has concatenation, behind a link with a delay."""

    def __init__(self, work, stack, proxy, delay_ms, window):
        port, path = self.start(work, stack)
        link = Program([proxy, port, delay_ms, window], work / "link.log")
        stack.callback(link.stop)
        self.address = f"http://127.0.0.1:{link.read_until(r'^listening ([0-9]+)$')[1]}{path}"
        # The handshake and one request.
        if (seconds := self.seconds_to_answer()) < 4 * delay_ms / 1000:
            raise Failed(f"a first request over the link took {1000 * seconds:.0f} ms: it delays nothing")

    def seconds_to_answer(self):
        start = time.monotonic()
        request = urllib.request.Request(self.address, method="OPTIONS")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=15):
            return time.monotonic() - start


class PythonTusServer(TusServer):
    """resumable-upload, of PyPI."""

    name = "resumable-upload"

    def start(self, work, stack):
        port, self.published = start_resumable_upload(work, stack)
        return port, "/files"

    def take(self, name, path):
        """Moves what arrived under a name to a path."""
        shutil.move(self.published / name, path)


class SeaweedTusServer(TusServer):
    """The filer of SeaweedFS. Where a file goes is in the address that uploads are made at."""

    name = "SeaweedFS"

    def start(self, work, stack):
        self.filer = SeaweedServer(work, stack).filer_port
        return self.filer, "/.tus/captures/one"

    def take(self, name, path):
        address = f"http://127.0.0.1:{self.filer}/captures/one"
        run_quietly([installed("curl"), "--silent", "--show-error", "--fail", "--output", path, address])
        run_quietly([installed("curl"), "--silent", "--show-error", "--fail", "--request", "DELETE", address])


FORM_SERVER = """
daemon off; {user} worker_processes 2; pid {folder}/pid; error_log {folder}/error.log warn;
events {{ worker_connections 64; }}
http {{
  access_log off; client_max_body_size 0;
  client_body_temp_path {folder}/body; fastcgi_temp_path {folder}/fastcgi; proxy_temp_path {folder}/proxy;
  scgi_temp_path {folder}/scgi; uwsgi_temp_path {folder}/uwsgi;
  server {{
    listen 127.0.0.1:{port};
    location = /api/uploads.php {{
      include /etc/nginx/fastcgi_params;
      fastcgi_param SCRIPT_FILENAME {example}/uploads.php;
      fastcgi_param UPLOAD_FOLDER {files};
      fastcgi_pass unix:{socket};
      fastcgi_request_buffering off;
      fastcgi_read_timeout 600s;
    }}
    # The whole body into a file, which is removed when the request ends; then an answer.
    location = /nginx {{
      client_body_in_file_only clean;
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      proxy_pass http://127.0.0.1:{port}/answer;
    }}
    location = /answer {{ return 200 "{{}}"; }}
  }}
}}
"""


class FormServer:
    """nginx with the endpoint of examples/form, and one where nginx alone takes the request."""

    def __init__(self, work, stack):
        folder = work / "form"
        self.files = folder / "files"
        self.files.mkdir(parents=True)
        (folder / "parts").mkdir()
        nginx, php = find_nginx(folder), installed("php-cgi")
        example, php_socket = REPOSITORY / "examples" / "form", folder / "php.sock"
        # Where it lies decides whether PHP has to copy the file or only to move it.
        interpreter = Program(
            [php, "-c", example / "php.ini", "-d", f"upload_tmp_dir={folder / 'parts'}", "-b", php_socket],
            work / "php.log", {"PHP_FCGI_CHILDREN": "2"})
        stack.callback(interpreter.stop)
        port = free_port()
        settings = folder / "nginx.conf"
        settings.write_text(FORM_SERVER.format(
            folder=folder, port=port, example=example, files=self.files, socket=php_socket,
            user="user root;" if os.geteuid() == 0 else ""))
        program = Program([nginx, "-p", folder, "-c", settings, "-e", folder / "error.log"], work / "form.log")
        stack.callback(program.stop)
        wait_for_port(program, port)
        self.addresses = {
            "nginx and PHP": f"http://127.0.0.1:{port}/api/uploads.php?ui=json",
            "nginx alone": f"http://127.0.0.1:{port}/nginx"}
