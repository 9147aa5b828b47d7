"""The reference for small files: curl putting them on a plain server (nginx with its own WebDAV module)."""

import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time

from support import Failed, Program, note, run_tool

CONFIGURATION = """
daemon off;
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
{user}
events {{ worker_connections 256; }}
http {{
  access_log off;
  keepalive_requests 1000000;
  client_max_body_size 0;
  client_body_buffer_size 64k;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_protocols TLSv1.3;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    root {root};
    location / {{ dav_methods PUT; create_full_put_path on; }}
  }}
}}
"""


class Unavailable(Exception):
    """This reference cannot be measured here; the text says why, and what would help."""


class PlainServer:
    """nginx on loopback with the receiver's own certificate; files go into `root`."""

    def __init__(self, work, certificates, stack):
        self.folder = work / "nginx"
        self.root = self.folder / "files"
        self.root.mkdir(parents=True)
        self.authority = certificates / "ca.pem"
        if not shutil.which("curl"):
            raise Unavailable("curl is not installed")
        binary = find_nginx(self.folder)
        self.port = free_port()
        configuration = self.folder / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(
            folder=self.folder, port=self.port, root=self.root, certificate=certificates / "chain.pem",
            key=certificates / "key.pem", user="user root;" if os.geteuid() == 0 else ""))
        self.program = Program([binary, "-p", self.folder, "-c", configuration], self.folder / "nginx.log")
        stack.callback(self.program.stop)
        self.wait_until_it_listens()

    def wait_until_it_listens(self):
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            if self.program.process.poll() is not None:
                raise Unavailable(f"nginx does not start{self.program.log_tail()}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        raise Unavailable(f"nginx does not listen{self.program.log_tail()}")

    def put(self, files, parallel):
        """Seconds that one curl takes to put these files, in the order given."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        transfers = self.folder / "transfers"
        transfers.write_text("".join(
            f'upload-file = "{path}"\nurl = "https://127.0.0.1:{self.port}/{path.name}"\n' for path in files))
        how = ["--parallel", "--parallel-max", str(parallel)] if parallel > 1 else []
        command = [
            "curl", "--silent", "--show-error", "--fail", "--http1.1", "--tlsv1.3", "--noproxy", "*", "--header",
            "Expect:", "--cacert", str(self.authority), "--output", "/dev/null", *how, "--config", str(transfers)]
        start = time.monotonic()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        seconds = time.monotonic() - start
        if done.returncode != 0:
            raise Failed(f"curl failed: {done.stderr.decode(errors='replace').strip()}{self.program.log_tail()}")
        return seconds


def find_nginx(folder):
    """The installed nginx, or else Debian's package, unpacked into the work folder: nothing is installed."""
    for candidate in (shutil.which("nginx"), "/usr/sbin/nginx"):
        if candidate and os.access(candidate, os.X_OK):
            break
    else:
        note("nginx is not installed: fetching Debian's package into the work folder")
        try:
            subprocess.run(
                ["apt-get", "--quiet", "--quiet", "download", "nginx"], cwd=folder, check=True, timeout=120,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            package = next(folder.glob("nginx_*.deb"))
            run_tool(["dpkg", "-x", str(package), str(folder / "package")])
        except (OSError, subprocess.SubprocessError, StopIteration, Failed):
            raise Unavailable("nginx is missing and cannot be fetched; apt-get install nginx-light") from None
        candidate = str(folder / "package/usr/sbin/nginx")
    about = subprocess.run([candidate, "-V"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if about.returncode != 0 or not re.search(r"--with-http_dav_module\b", about.stderr):
        raise Unavailable("the installed nginx does not start or has no WebDAV module; apt-get install nginx-light")
    return pathlib.Path(candidate)


def free_port():
    """A port that is free now; nginx cannot choose one by itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
