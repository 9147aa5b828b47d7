"""The files of examples/proxies, started before a receiver as they are, but for addresses and paths, and for lines that a test changes."""

import http.client
import os
import re
import signal
import ssl
import subprocess

from form_servers import Nginx
from harness import REPOSITORY, SOON, Program, Server, clean_environment, wait_until
from promises import installed

EXAMPLES = REPOSITORY / "examples" / "proxies"
MODULES = "/usr/lib/apache2/modules"


class ReverseProxy(Server):
    """What all have. Each of `changes` is a line, or a part of one, and what stands in its place; without a line it is one more."""

    # As docs/proxies.md calls it, the files, and the line behind which one more comes.
    name, files, before = None, (), None
    # Whether mounts see its certificate, or the receiver's.
    is_end = True
    ends_within, waits_for_connections = 20, True
    environment = None

    def __init__(self, folder, authority, receiver, changes=()):
        super().__init__(folder)
        self.receiver = receiver
        self.identity = authority.issue("proxy")
        self.ca = authority.certificate if self.is_end else receiver.ca
        self.port = self.free_port()
        self.texts = {name: (EXAMPLES / name).read_text() for name in self.files}
        for line, other in changes:
            self._change(line, other)
        for place, own in self.places().items():
            found = [name for name, text in self.texts.items() if place in text]
            assert found, f"{place} is not in the example"
            for name in found:
                self.texts[name] = self.texts[name].replace(place, str(own))

    def _change(self, line, other):
        """A whole line, which keeps its place, is meant before a part of one."""
        wanted = line or self.before
        other = other if line else f"{wanted}\n{other}"
        for pattern in (rf"(?m)^([ \t]*){re.escape(wanted)}$", rf"(){re.escape(wanted)}"):
            found = [name for name, text in self.texts.items() for _ in re.finditer(pattern, text)]
            if found:
                break
        assert len(found) == 1, f"{wanted} is {len(found)} times in the example"
        self.texts[found[0]] = re.sub(
            pattern, lambda match: "\n".join(match[1] + part for part in other.split("\n")), self.texts[found[0]])

    def places(self):
        """What of the example is another one here."""
        certificate, key = self.identity
        return {
            "/etc/ssl/upload.pem": certificate, "/etc/ssl/private/upload.key": key,
            "/etc/ssl/uploadfs-receiver-ca.pem": self.receiver.ca, ":8443": f":{self.receiver.port}"}

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    @property
    def file(self):
        return self.folder / self.files[0]

    def write(self):
        for name, text in self.texts.items():
            (self.folder / name).write_text(text)

    def start(self):
        self.write()
        self.program = Program(self.arguments, self.folder / "proxy.log", self.environment)
        self.wait_until_it_answers()
        return self

    def restart(self):
        left = self.close()
        assert not left, left
        self.start()

    @property
    def log(self):
        return "\n".join(self.program.output) + self.program.log_path.read_text(errors="replace")


class NginxProxy(ReverseProxy):
    name, files, before = "nginx", ("nginx.conf",), "location / {"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.nginx = Nginx(self.folder / "nginx", server=self.texts["nginx.conf"])
        self.nginx.port = self.port

    def start(self):
        self.nginx.start()
        self.program = self.nginx.program
        return self

    def reload(self):
        self.program.signal(signal.SIGHUP)

    @property
    def log(self):
        return self.nginx.log

    @property
    def requests(self):
        return len((self.nginx.folder / "access.log").read_text().splitlines())


class HAProxy(ReverseProxy):
    name, files, before = "HAProxy", ("haproxy.cfg",), "default_backend uploadfs-receiver"

    def places(self):
        return {
            "bind :443": f"bind 127.0.0.1:{self.port}", "/etc/haproxy/upload.pem": self.folder / "upload.pem",
            "/etc/ssl/uploadfs-receiver-ca.pem": self.receiver.ca, ":8443": f":{self.receiver.port}"}

    def write(self):
        super().write()
        (self.folder / "upload.pem").write_text("".join(path.read_text() for path in self.identity))

    @property
    def arguments(self):
        # A process that starts the others, as the service has it.
        return [installed("haproxy"), "-W", "-db", "-f", self.file]

    def reload(self):
        self.program.signal(signal.SIGUSR2)


class HAProxyTCP(HAProxy):
    name, files = "HAProxy, TCP", ("haproxy-tcp.cfg",)
    is_end = False

    def places(self):
        return {"bind :443": f"bind 127.0.0.1:{self.port}", ":8443": f":{self.receiver.port}"}


class CaddyProxy(ReverseProxy):
    name, files, before = "Caddy", ("Caddyfile",), "upload.example.org {"

    def _change(self, line, other):
        # A block has lines of its own.
        super()._change(line, re.sub(r" \{ (.*) \}$", r" {\n\t\1\n}", other))

    def places(self):
        certificate, key = self.identity
        # Here it can get no certificate by itself.
        return {
            "upload.example.org {": f"""{{
	admin 127.0.0.1:{self.free_port()}
	auto_https off
}}
{self.url} {{""",
            "tls {": f"tls {certificate} {key} {{", "/etc/ssl/uploadfs-receiver-ca.pem": self.receiver.ca,
            ":8443": f":{self.receiver.port}"}

    @property
    def environment(self):
        return clean_environment(XDG_CONFIG_HOME=self.folder / "config", XDG_DATA_HOME=self.folder / "data")

    @property
    def arguments(self):
        return [installed("caddy"), "run", "--adapter", "caddyfile", "--config", self.file]

    def reload(self):
        [admin] = re.findall(r"admin (\S+)", self.texts["Caddyfile"])
        subprocess.run(
            [installed("caddy"), "reload", "--force", "--adapter", "caddyfile", "--config", self.file, "--address", admin],
            check=True, capture_output=True, timeout=SOON)


class ApacheProxy(ReverseProxy):
    name, files, before = "Apache", ("apache.conf",), "SSLEngine on"

    def places(self):
        return super().places() | {"<VirtualHost *:443>": f"<VirtualHost 127.0.0.1:{self.port}>"}

    def write(self):
        super().write()
        modules = ("mpm_event", "authz_core", "socache_shmcb", "ssl", "proxy", "proxy_http", "reqtimeout")
        loaded = "\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in modules)
        user = "User www-data\nGroup www-data" if os.geteuid() == 0 else ""
        (self.folder / "main.conf").write_text(f"""
ServerRoot "{self.folder}"
DefaultRuntimeDir "{self.folder}"
ServerName 127.0.0.1
Listen 127.0.0.1:{self.port}
PidFile "{self.folder}/pid"
ErrorLog "{self.folder}/error.log"
{loaded}
{user}
Include "{self.file}"
""")

    @property
    def arguments(self):
        return [installed("apache2"), "-D", "FOREGROUND", "-f", self.folder / "main.conf"]

    def reload(self):
        self.program.signal(signal.SIGUSR1)

    @property
    def log(self):
        return super().log + (self.folder / "error.log").read_text(errors="replace")


class Traefik(ReverseProxy):
    name, files, before = "Traefik", ("traefik.yaml", "traefik-uploadfs.yaml"), "service: uploadfs-receiver"

    def places(self):
        return super().places() | {
            '":443"': f'"127.0.0.1:{self.port}"', "/etc/traefik/dynamic": self.folder / "dynamic",
            "upload.example.org": "127.0.0.1"}

    def write(self):
        (self.folder / "dynamic").mkdir(exist_ok=True)
        super().write()
        (self.folder / "traefik-uploadfs.yaml").rename(self.folder / "dynamic" / "uploadfs.yaml")

    @property
    def arguments(self):
        return [installed("traefik"), "--configFile", self.file]

    def start(self):
        super().start()
        # It takes connections before it has read where they lead.
        wait_until(self._leads_on, self.describe)
        return self

    def _leads_on(self):
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=ssl.create_default_context(cafile=self.ca), timeout=SOON)
        try:
            connection.request("HEAD", "/v1/")
            return connection.getresponse().status != 404
        except ssl.SSLError:
            return False
        finally:
            connection.close()

    def reload(self):
        place = self.folder / "dynamic" / "uploadfs.yaml"
        place.write_text(f"{place.read_text()}# Changed.\n")


ALL = [NginxProxy, HAProxy, HAProxyTCP, CaddyProxy, ApacheProxy, Traefik]
