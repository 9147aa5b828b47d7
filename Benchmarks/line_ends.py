"""What stands at the two ends of a network of Tests/Network: a mount at the client's; a receiver, or servers of other people behind an nginx that
speaks TLS 1.3 for them, at the server's."""

import secrets

from mounts import UploadMount
from plain_server import find_nginx
from support import Program
from upload_servers import RcloneServer, wait_for_port

HTTPS_PORT = 443

NGINX = """
daemon off; {user} worker_processes 1; pid {folder}/pid; error_log {folder}/error.log warn;
events {{ worker_connections 256; }}
http {{
  access_log off; client_max_body_size 0; keepalive_requests 1000000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; scgi_temp_path {folder}/scgi; uwsgi_temp_path {folder}/uwsgi;
  server {{
    listen {host}:{https_port} ssl; ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_protocols TLSv1.3;
    location / {{ {location} }}
  }}
}}
"""
PASSED_ON = """
      proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1; proxy_request_buffering off; proxy_buffering off;
      proxy_set_header Host $http_host; proxy_set_header X-Forwarded-Proto https;
"""
KEPT_AS_FILES = "root {root}; dav_methods PUT;"


def start_nginx(location, network, identity, work, stack):
    """At the server's end."""
    host, (certificate, key) = network.server.address, identity
    folder = work / "nginx"
    folder.mkdir()
    settings = folder / "nginx.conf"
    settings.write_text(NGINX.format(
        folder=folder, host=host, https_port=HTTPS_PORT, certificate=certificate, key=key, user="user root;", location=location))
    with network.server.inside():
        program = Program([find_nginx(folder), "-p", folder, "-c", settings, "-e", folder / "error.log"], work / "nginx.log")
        stack.callback(program.stop)
        wait_for_port(program, HTTPS_PORT, host=host)


def start_front(port, network, identity, work, stack):
    """nginx before a server that listens on the loopback of the server's end."""
    start_nginx(PASSED_ON.format(port=port), network, identity, work, stack)


def start_receiver(network, identity, binaries, work, stack):
    """Its address, and what a mount is told beside it; it keeps files below `work`/received/files."""
    host, (certificate, key) = network.server.address, identity
    token, tokens = secrets.token_hex(32), work / "tokens"
    for file, text in ((tokens, f"files {token}\n"), (work / "token", f"{token}\n")):
        file.touch(0o600)
        file.write_text(text)
    receiver = Program(
        [*network.server.prefix, binaries / "uploadfs-receiver", "serve", "--root", work / "received", "--listen", f"{host}:0",
         "--certificate", certificate, "--key", key, "--token-file", tokens], work / "receiver.log")
    stack.callback(receiver.stop)
    return receiver.read_until(r"^listening (https://[^\s/]+)")[1], ("--token-file", work / "token")


class FrontedS3(RcloneServer):
    """rclone's S3 server behind that nginx."""

    def __init__(self, network, identity, work, stack):
        with network.server.inside():
            super().__init__(work, stack)
        start_front(self.port, network, identity, work, stack)
        self.endpoint = f"https://{network.server.address}"


class NetworkMount(UploadMount):
    """A mount at the client's end."""

    def __init__(self, network, *arguments):
        self.network = network
        super().__init__(*arguments)

    def command(self):
        return [*self.network.client.prefix, *super().command()]
