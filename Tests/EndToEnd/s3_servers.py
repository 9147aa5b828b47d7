"""S3 servers of other people, from PyPI: `rclone serve s3`, which checks signatures and keeps objects as files, and `moto`,
which checks neither but knows parts, conditions and checksums as AWS does."""

import html
import http.client
import re
import subprocess
import urllib.parse

from harness import SOON, Program, Server, clean_environment, wait_until
from promises import installed

KEY, SECRET = "AKIDENDTOEND", "end-to-end-secret-end-to-end-secret"
BUCKET = "captures"
# So that a file has several parts without being large: parts have 5 MiB at least.
SMALL_PARTS = ("--max-file-size", "1GB")
PART = 5 << 20


def credentials(**more):
    """An environment with the credentials that the servers know, and nothing else of AWS."""
    kept = {name: value for name, value in clean_environment().items() if not name.startswith("AWS_")}
    return kept | {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET} | more


class S3Server(Server):
    """What both have."""

    def __init__(self, folder):
        super().__init__(folder)
        self._starts = 0

    def start(self):
        # A log of its own for each start: the port is read from it.
        self._starts += 1
        log = self.folder.parent / f"{self.folder.name}.{self._starts}.log"
        self.program = Program(self.arguments, log, credentials())
        self.port = wait_until(lambda: self._port(), self.program.describe)
        self.prepare()
        return self

    def _port(self):
        assert self.program.is_running, self.program.describe()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.program.log)
        return int(found[1]) if found else None

    def url(self, prefix="", port=None):
        return f"s3+http://127.0.0.1:{port or self.port}/{BUCKET}{prefix and '/' + prefix}"


    def _upload_ids(self):
        """Uploads under way: key → id."""
        uploads = re.findall(r"<Upload>.*?</Upload>", self._uploads_document(), re.DOTALL)
        return {
            re.search("<Key>([^<]*)<", upload)[1]: re.search("<UploadId>([^<]*)<", upload)[1] for upload in uploads}

    def uploads(self):
        """Keys with an upload under way."""
        return sorted(self._upload_ids())


class Rclone(S3Server):
    """Uploads under way are lost when it ends."""

    program_name = "rclone"

    @property
    def arguments(self):
        return [
            installed(self.program_name), "serve", "s3", "--config", "/dev/null", "--addr", f"127.0.0.1:{self.port}", "--auth-key",
            f"{KEY},{SECRET}", "-v", self.folder]

    def prepare(self):
        (self.folder / BUCKET).mkdir(exist_ok=True)

    def _signed(self, method, path):
        """A request that is signed by another program than ours."""
        return subprocess.run(
            [installed("curl"), "-sS", "--fail", "-X", method, "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{KEY}:{SECRET}",
             f"http://127.0.0.1:{self.port}/{BUCKET}{path}"],
            check=True, capture_output=True, text=True, timeout=SOON).stdout

    def _uploads_document(self):
        try:
            return self._signed("GET", "?uploads=")
        except subprocess.CalledProcessError as error:
            # Of a bucket in which none was begun so far it says that there is no such upload.
            if "404" in error.stderr:
                return ""
            raise

    def begin_upload(self, key):
        """Somebody else begins an upload."""
        self._signed("POST", f"/{urllib.parse.quote(key)}?uploads=")

    def object(self, key):
        path = self.folder / BUCKET / key
        return path.read_bytes() if path.is_file() else None

    def keys(self):
        bucket = self.folder / BUCKET
        return sorted(str(path.relative_to(bucket)) for path in bucket.rglob("*") if path.is_file())


class Moto(S3Server):
    """Everything is lost when it ends."""

    # It wants to see a signature, and does not check it.
    SIGNED = {
        "Authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, "
        "Signature=0"}

    program_name = "moto_server"

    @property
    def arguments(self):
        return [installed(self.program_name), "-H", "127.0.0.1", "-p", str(self.port)]

    def prepare(self):
        wait_until(lambda: self._request("PUT", "") is not None, self.program.describe)

    def _request(self, method, path, body=None, headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SOON)
        try:
            connection.request(method, f"/{BUCKET}{path}", body=body, headers=self.SIGNED | dict(headers))
            response = connection.getresponse()
            return response, response.read()
        except ConnectionRefusedError:
            return None
        finally:
            connection.close()

    def head(self, key):
        response, _ = self._request("HEAD", "/" + urllib.parse.quote(key), headers={"x-amz-checksum-mode": "ENABLED"})
        return {name.lower(): value for name, value in response.getheaders()}

    def put(self, key, content):
        response, _ = self._request("PUT", "/" + urllib.parse.quote(key), body=content)
        assert response.status == 200

    def object(self, key):
        response, body = self._request("GET", "/" + urllib.parse.quote(key))
        return body if response.status == 200 else None

    def keys(self):
        _, body = self._request("GET", "?list-type=2")
        return sorted(html.unescape(key) for key in re.findall(r"<Key>([^<]*)</Key>", body.decode()))

    def _uploads_document(self):
        return self._request("GET", "?uploads")[1].decode()

    def begin_upload(self, key):
        """Somebody else begins an upload."""
        response, _ = self._request("POST", f"/{urllib.parse.quote(key)}?uploads")
        assert response.status == 200

    def parts(self, key):
        """How many parts the upload under way has."""
        upload = self._upload_ids().get(key)
        if upload is None:
            return 0
        _, body = self._request("GET", f"/{urllib.parse.quote(key)}?uploadId={urllib.parse.quote(upload)}")
        return body.count(b"<PartNumber>")
