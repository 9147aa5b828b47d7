"""Proxies of other people: tinyproxy (HTTP) and microsocks (SOCKS 5), with a user and a password."""

import shutil
import signal
import socket
import subprocess

from harness import SOON, Program, wait_until

USER, PASSWORD = "proxyuser", "proxy-password-of-nobody"


class Proxy:
    """A proxy on a free loopback port."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.password_file = folder / "password"
        self.password_file.write_text(f"{USER}:{PASSWORD}\n")
        self.password_file.chmod(0o600)
        self.program = None

    @classmethod
    def is_there(cls):
        return shutil.which(cls.name) is not None

    def start(self):
        self.program = Program(self.arguments, self.folder / "proxy.log")
        wait_until(self._answers, self.program.describe)
        return self

    def _answers(self):
        assert self.program.is_running, self.program.describe()
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=SOON).close()
            return True
        except ConnectionRefusedError:
            return False

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def close(self):
        if self.program and self.program.is_running:
            self.program.signal(signal.SIGTERM)
            try:
                self.program.process.wait(5)
            except subprocess.TimeoutExpired:
                # It waits for its connections.
                self.program.kill()
        return self.program.close() if self.program else []


class Tinyproxy(Proxy):
    name, scheme = "tinyproxy", "http"

    @property
    def arguments(self):
        configuration = self.folder / "tinyproxy.conf"
        configuration.write_text(
            f'Port {self.port}\nListen 127.0.0.1\nTimeout 60\nLogFile "{self.folder}/requests.log"\nLogLevel Connect\n'
            f"BasicAuth {USER} {PASSWORD}\n")
        return ["tinyproxy", "-d", "-c", configuration]

    @property
    def was_used(self):
        return "127.0.0.1" in (self.folder / "requests.log").read_text() and "Established connection" in (
            self.folder / "requests.log").read_text()


class Microsocks(Proxy):
    name, scheme = "microsocks", "socks5h"

    @property
    def arguments(self):
        return ["microsocks", "-i", "127.0.0.1", "-p", self.port, "-u", USER, "-P", PASSWORD]

    @property
    def was_used(self):
        return "connected to" in self.program.log
