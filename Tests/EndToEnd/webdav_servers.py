"""WebDAV servers of other people: Apache's mod_dav, nginx with its dav_ext module, `rclone serve webdav` and WsgiDAV. Each keeps what it
is sent as files of its folder."""

import contextlib
import json
import os
import signal
import subprocess

from form_servers import Nginx
from harness import Program, Server, processes_of_session
from promises import installed

USER, PASSWORD = "camera", "pa ss:wörd"
TEMPORARY = ".uploadfs-"


class WebDAVServer(Server):
    """What all have. `authentication` is None, basic or digest."""

    name = None
    authentications = (None, "basic")
    # Whether it keeps properties that it does not know, and the time of a file.
    keeps_marks = keeps_times = False

    def __init__(self, folder, authentication="basic"):
        super().__init__(folder)
        self.authentication = authentication
        self.files = folder / "files"
        self.files.mkdir()

    def start(self):
        self.port = self.port or self.free_port()
        self.configure()
        self.program = Program(self.arguments, self.folder / "server.log", self.environment)
        self.wait_until_it_answers()
        return self

    environment = None

    def configure(self):
        """Writes what the server reads."""

    def url(self, port=None, scheme="webdav+http", path="/dav"):
        return f"{scheme}://127.0.0.1:{port or self.port}{path}"

    def names(self):
        """What is published."""
        return sorted(
            str(path.relative_to(self.files)) for path in self.files.rglob("*")
            if path.is_file() and not path.name.startswith(TEMPORARY) and not self.is_own(path.relative_to(self.files)))

    def is_own(self, path):
        """The server keeps it for itself."""
        return False

    def unfinished(self):
        return {path.name for path in self.files.rglob(f"{TEMPORARY}*")}


class Rclone(WebDAVServer):
    """In Go: it knows no conditions on ETags, keeps no properties, and takes the time of a file."""

    name = "rclone"
    keeps_times = True

    @property
    def arguments(self):
        password = ["--user", USER, "--pass", PASSWORD] if self.authentication else []
        return [
            installed("rclone"), "serve", "webdav", "--config", "/dev/null", "--addr", f"127.0.0.1:{self.port}", "--baseurl",
            "/dav", "-v", *password, self.files]


class WsgiDAV(WebDAVServer):
    """In Python: it keeps properties and conditions, and of a broken upload its beginning."""

    name = "wsgidav"
    keeps_marks = True
    authentications = (None, "basic", "digest")

    def configure(self):
        users = {USER: {"password": PASSWORD}} if self.authentication else True
        (self.folder / "wsgidav.json").write_text(json.dumps({
            "host": "127.0.0.1", "port": self.port, "server": "cheroot",
            "provider_mapping": {"/dav": str(self.files)}, "mount_path": None,
            "simple_dc": {"user_mapping": {"*": users}},
            "http_authenticator": {
                "accept_basic": self.authentication == "basic", "accept_digest": self.authentication == "digest",
                "default_to_digest": self.authentication == "digest"},
            "property_manager": {
                "class": "wsgidav.prop_man.property_manager.ShelvePropertyManager",
                "kwargs": {"storage_path": str(self.folder / "properties")}},
            "lock_storage": True, "verbose": 1}))

    @property
    def arguments(self):
        return [installed("wsgidav"), "--config", self.folder / "wsgidav.json"]


class Apache(WebDAVServer):
    """mod_dav with its filesystem provider, which keeps properties and conditions."""

    name = "apache"
    keeps_marks = True
    authentications = (None, "basic", "digest")
    modules = "/usr/lib/apache2/modules"
    # Further directives of the place.
    directives = ""

    def configure(self):
        passwords = self.folder / "passwords"
        password = ""
        if self.authentication == "basic":
            subprocess.run(
                [installed("htpasswd"), "-cbB", passwords, USER, PASSWORD], check=True, capture_output=True)
            password = f'AuthType Basic\n AuthName "uploads"\n AuthUserFile "{passwords}"\n Require valid-user'
        if self.authentication == "digest":
            digest = subprocess.run(
                ["md5sum"], input=f"{USER}:uploads:{PASSWORD}".encode(), capture_output=True, check=True)
            passwords.write_text(f"{USER}:uploads:{digest.stdout.decode().split()[0]}\n")
            password = f'AuthType Digest\n AuthName "uploads"\n AuthUserFile "{passwords}"\n Require valid-user'
        loaded = "\n".join(f"LoadModule {name}_module {self.modules}/mod_{name}.so" for name in (
            "mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic", "auth_digest", "alias", "dav",
            "dav_fs", "dav_lock"))
        user = "User root\nGroup root" if os.geteuid() == 0 else ""
        (self.folder / "apache.conf").write_text(f"""
ServerRoot "{self.folder}"
ServerName 127.0.0.1
Listen 127.0.0.1:{self.port}
PidFile "{self.folder}/pid"
ErrorLog "{self.folder}/error.log"
{loaded}
{user.replace("root", "www-data")}
DavLockDB "{self.folder}/locks"
Alias /dav "{self.files}"
<Directory "{self.files}">
 Dav On
 {self.directives}
 {password or "Require all granted"}
</Directory>
""")
        for folder in (self.folder, self.files):
            folder.chmod(0o777)

    @property
    def arguments(self):
        return [installed("apache2"), "-D", "FOREGROUND", "-f", self.folder / "apache.conf"]

    def kill(self):
        # Its processes outlive the one that started them.
        children = [process for process in processes_of_session(self.program.process.pid) if process != self.program.process.pid]
        super().kill()
        for process in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def is_own(self, path):
        # What an Apache that is killed has of a request stays for good, and no client sees it.
        return ".DAV" in path.parts or path.name.startswith(".davfs.tmp")

    def unfinished(self):
        return super().unfinished() | {path.name for path in self.files.rglob(".davfs.tmp*")}


class NginxDAV(Nginx):
    """nginx's own dav module with that of dav_ext: no properties, no conditions, and no ETags but those of GET."""

    name = "nginx"
    keeps_marks = keeps_times = False
    authentications = (None, "basic")
    module = "/usr/lib/nginx/modules/ngx_http_dav_ext_module.so"

    def __init__(self, folder, authentication="basic"):
        self.authentication = authentication
        self.files = folder / "files"
        super().__init__(folder)
        (self.files / "dav").mkdir(parents=True)
        password = ""
        if authentication:
            digest = subprocess.run(
                ["openssl", "passwd", "-6", PASSWORD], capture_output=True, text=True, check=True).stdout.strip()
            (folder / "passwords").write_text(f"{USER}:{digest}\n")
            password = f'auth_basic "uploads"; auth_basic_user_file {folder}/passwords;'
        self.block = f"""
    client_max_body_size 0;
    location /dav/ {{
      root {self.files};
      {password}
      dav_methods PUT DELETE MKCOL COPY MOVE;
      dav_ext_methods PROPFIND OPTIONS;
      dav_access user:rw group:r all:r;
    }}"""
        self.files = self.files / "dav"

    def _configuration(self):
        return f"load_module {self.module};\n{super()._configuration()}"

    url, names, is_own, unfinished = (
        WebDAVServer.url, WebDAVServer.names, WebDAVServer.is_own, WebDAVServer.unfinished)


ALL = [Rclone, WsgiDAV, Apache, NginxDAV]
