"""Proxies of other people: tinyproxy (HTTP) and microsocks (SOCKS 5), with a user and a password."""

from harness import Program, Server
from promises import installed

USER, PASSWORD = "proxyuser", "proxy-password-of-nobody"


class Proxy(Server):
    """What both have."""

    ends_within, waits_for_connections = 5, True

    def __init__(self, folder):
        super().__init__(folder)
        self.port = self.free_port()
        self.password_file = folder / "password"
        self.password_file.write_text(f"{USER}:{PASSWORD}\n")
        self.password_file.chmod(0o600)

    def start(self):
        self.program = Program(self.arguments, self.folder / "proxy.log")
        self.wait_until_it_answers()
        return self

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"


class Tinyproxy(Proxy):
    name, scheme = "tinyproxy", "http"

    @property
    def arguments(self):
        configuration = self.folder / "tinyproxy.conf"
        configuration.write_text(
            f'Port {self.port}\nListen 127.0.0.1\nTimeout 60\nLogFile "{self.folder}/requests.log"\nLogLevel Connect\n'
            f"BasicAuth {USER} {PASSWORD}\n")
        return [installed("tinyproxy"), "-d", "-c", configuration]

    @property
    def requests(self):
        return (self.folder / "requests.log").read_text().count("Established connection")

    @property
    def was_used(self):
        return "127.0.0.1" in (self.folder / "requests.log").read_text() and "Established connection" in (
            self.folder / "requests.log").read_text()


class Microsocks(Proxy):
    name, scheme = "microsocks", "socks5h"

    @property
    def arguments(self):
        return [installed("microsocks"), "-i", "127.0.0.1", "-p", self.port, "-u", USER, "-P", PASSWORD]

    @property
    def was_used(self):
        return "connected to" in self.program.log
