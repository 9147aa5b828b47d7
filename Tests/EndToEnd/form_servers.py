"""The form of examples/form behind nginx: its own PHP, with limits like those of real sites."""

import email.parser
import http.client
import http.server
import json
import os
import pathlib
import signal
import ssl
import subprocess
import threading
import time

from harness import REPOSITORY, SOON, Program, Server, processes_of_session, wait_until
from promises import installed

USER, PASSWORD = "camera", "pa ss:wörd"
EXAMPLE = REPOSITORY / "examples" / "form"


class Nginx(Server):
    """nginx with one server block; TLS 1.3 with `identity`.

    `server` is the whole of it, as a user would have it on a machine: only its port is another one.
    """

    def __init__(self, folder, block="", identity=None, server=None, host="127.0.0.1"):
        super().__init__(folder)
        self.host = host
        self.server = server
        self.block = block
        self.identity = identity

    def start(self):
        self.port = self.port or self.free_port()
        (self.folder / "nginx.conf").write_text(self._configuration())
        for name in ("body", "fastcgi", "proxy", "scgi", "uwsgi"):
            (self.folder / name).mkdir(exist_ok=True)
        self.program = Program(self.arguments, self.folder / "nginx.log")
        self.wait_until_it_answers()
        return self

    def describe(self):
        return super().describe() + self.log

    @property
    def arguments(self):
        return [installed("nginx"), "-p", self.folder, "-c", self.folder / "nginx.conf", "-e", self.folder / "error.log"]

    def check(self):
        """What nginx says of its configuration."""
        return subprocess.run([*self.arguments, "-t"], capture_output=True, text=True, timeout=SOON)

    @property
    def log(self):
        path = self.folder / "error.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _configuration(self):
        user = "user root;" if os.geteuid() == 0 else ""
        secure = ""
        if self.identity:
            secure = f"ssl_certificate {self.identity[0]}; ssl_certificate_key {self.identity[1]}; ssl_protocols TLSv1.3;"
        server = f"""server {{
    listen {self.host}:{self.port} {"ssl" if self.identity else ""};
    {secure}
    {self.block}
  }}"""
        if self.server:
            server = self.server.replace("listen 443 ssl;", f"listen 127.0.0.1:{self.port} ssl;")
        return f"""
daemon off; {user} worker_processes 1; pid {self.folder}/pid; error_log {self.folder}/error.log info;
events {{ worker_connections 256; }}
http {{
  access_log {self.folder}/access.log;
  client_body_temp_path {self.folder}/body; fastcgi_temp_path {self.folder}/fastcgi; proxy_temp_path {self.folder}/proxy;
  scgi_temp_path {self.folder}/scgi; uwsgi_temp_path {self.folder}/uwsgi;
  {server}
}}
"""


class Form:
    """uploads.php behind nginx. `limits` replaces php.ini's; `body_max` is nginx's, and `guard` its rules of the place."""

    def __init__(self, folder, identity=None, limits=None, body_max="0", has_password=True, guard="", host="127.0.0.1"):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.files = folder / "files"
        self.temporary = folder / "tmp"
        for path in (self.files, self.temporary):
            path.mkdir()
        self.socket = folder / "php.sock"
        self.limits = limits or {}
        password = ""
        self.password_file = folder / "password"
        self.password_file.touch(mode=0o600)
        self.set_password(PASSWORD)
        if has_password:
            password = f'auth_basic "uploads"; auth_basic_user_file {folder}/passwords;'
        self.nginx = Nginx(folder / "nginx", f"""
    client_max_body_size {body_max};
    location = /api/uploads.php {{
      {password}
      {guard.replace("FOLDER", str(folder))}
      include /etc/nginx/fastcgi_params;
      fastcgi_param SCRIPT_FILENAME {EXAMPLE}/uploads.php;
      fastcgi_param UPLOAD_FOLDER {self.files};
      fastcgi_pass unix:{self.socket};
      fastcgi_request_buffering off;
      fastcgi_read_timeout 600s;
    }}""", identity, host=host)
        self.php = None
        self.scheme = "form+https" if identity else "form+http"

    @classmethod
    def of_example(cls, folder, identity):
        """With examples/form/nginx.conf as it is, but for the places of its files."""
        form = cls(folder, identity)
        server = (EXAMPLE / "nginx.conf").read_text()
        for place, own in {
                "/etc/ssl/forms.pem": identity[0], "/etc/ssl/private/forms.key": identity[1],
                "/etc/nginx/forms.passwords;": f"{folder}/passwords;", "fastcgi_params;": "/etc/nginx/fastcgi_params;",
                "/srv/forms/uploads.php": EXAMPLE / "uploads.php", "/srv/uploads;": f"{form.files};",
                "/run/php/php-fpm.sock": form.socket}.items():
            assert server.count(place) == 1, place
            server = server.replace(place, str(own))
        form.nginx = Nginx(folder / "nginx", identity=identity, server=server)
        return form

    def set_password(self, password):
        """From now on it is this one, and stands in the file for who uploads."""
        digest = subprocess.run(
            ["openssl", "passwd", "-6", password], capture_output=True, text=True, check=True).stdout.strip()
        self.password_file.write_text(f"{USER}:{password}\n")
        (self.folder / "passwords").write_text(f"{USER}:{digest}\n")

    def start(self):
        settings = [f"upload_tmp_dir={self.temporary}", *(f"{name}={value}" for name, value in self.limits.items())]
        self.php = Program(
            [installed("php-cgi"), "-c", EXAMPLE / "php.ini", *(word for setting in settings for word in ("-d", setting)), "-b",
             self.socket], self.folder / "php.log", os.environ | {"PHP_FCGI_CHILDREN": "6"})
        wait_until(self.socket.exists, self.php.describe)
        self.nginx.start()
        return self

    def url(self, port=None):
        return f"{self.scheme}://127.0.0.1:{port or self.nginx.port}/api/uploads.php?ui=json"

    @property
    def port(self):
        return self.nginx.port

    @property
    def requests(self):
        """Method and status of every request that has been answered."""
        lines = (self.folder / "nginx" / "access.log").read_text().splitlines()
        return [(line.split('"')[1].split()[0], int(line.split('"')[2].split()[0])) for line in lines]

    def status_of(self, authorization, authority=None):
        """What a client with this field is answered; `authority` is that of its certificate."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SOON)
        if authority:
            connection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=SOON,
                context=ssl.create_default_context(cafile=str(authority.certificate)))
        try:
            connection.request("GET", "/api/uploads.php", headers={"Authorization": authorization})
            return connection.getresponse().status
        finally:
            connection.close()

    def posts(self):
        return [status for method, status in self.requests if method == "POST"]

    def close(self):
        left = self.nginx.close()
        if self.php:
            if self.php.is_running:
                self.php.signal(signal.SIGTERM)
                self.php.wait()
            # Its children end a moment after it.
            wait_until(lambda: not processes_of_session(self.php.process.pid), self.php.describe)
            left += self.php.close()
        return left


class SlowForm:
    """A form that has all of a request, and takes `seconds` over the first one before it keeps its file."""

    def __init__(self, seconds):
        self.files, self.taken = {}, threading.Event()
        form, first = self, threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
                body = self.rfile.read(int(self.headers["Content-Length"]))
                parts = email.parser.BytesParser().parsebytes(head + body).get_payload()
                part = next(part for part in parts if part.get_filename())
                form.taken.set()
                if first.acquire(blocking=False):
                    time.sleep(seconds)
                form.files[part.get_filename()] = part.get_payload(decode=True)
                form.kept += 1
                answer = json.dumps({"id": part.get_filename()}).encode()
                self.send_response(201)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def do_OPTIONS(self):
                self.send_response(204)
                self.end_headers()

            do_HEAD = do_OPTIONS

            def log_message(self, *arguments):
                pass

        self.kept = 0
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    @property
    def url(self):
        return f"form+http://127.0.0.1:{self.server.server_port}/upload"

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def resident_kilobytes(pid, key="VmHWM"):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    raise AssertionError(f"no {key}")
