"""tus servers of other people, from PyPI (tus_program.py), one of our own for the IETF's draft (ietf_program.py), and
what a front needs to speak TLS 1.3 for them."""

import http.client
import hashlib
import json
import os
import pathlib
import sys

from harness import SOON, TEST_SERVERS, Program, Server, clean_environment
from promises import missing


class TusServer(Server):
    """A server whose uploads stay the same over restarts."""

    ends_within, waits_for_connections = 5, True

    def __init__(self, kind, folder, **options):
        super().__init__(folder)
        self.kind = kind
        self.options = options
        self._starts = 0
        # Digest of an address → the upload's file.
        self._upload_paths = {}

    def start(self):
        if not list(TEST_SERVERS.glob(f"lib/python*/site-packages/{self.kind.replace('-', '_')}")):
            missing(self.kind)
        self._starts += 1
        self.program = Program(
            [TEST_SERVERS / "bin" / "python", pathlib.Path(__file__).with_name("tus_program.py"), self.kind, self.port, self.folder,
             json.dumps(self.options)], self.folder.parent / f"{self.folder.name}.{self._starts}.log", clean_environment())
        self.port = self.program.wait_for_line(
            lambda line: int(line.split()[1]) if line.startswith("listening ") else None)
        return self

    @property
    def path(self):
        # tuspyserver answers OPTIONS with a slash at the end only.
        return "/files/" if self.kind == "tuspyserver" else "/files"

    def url(self, port=None, scheme="tus+http"):
        return f"{scheme}://127.0.0.1:{port or self.port}{self.path}"

    def file(self, name):
        path = self.folder / "published" / name
        return path.read_bytes() if path.is_file() else None

    def metadata(self, name):
        return json.loads((self.folder / "metadata" / name).read_text())

    def names(self):
        root = self.folder / "published"
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())

    def completions(self):
        """The name of each upload that was completed; that of one that was sent twice is there twice."""
        path = self.folder / "completions"
        return path.read_text().split("\n")[:-1] if path.is_file() else []

    def upload(self, receipt):
        """The file that the server has of the upload whose address a receipt names by its digest."""
        if receipt["id"] not in self._upload_paths:
            for name in set(os.listdir(self.folder / "uploads")) - {path.name for path in self._upload_paths.values()}:
                digest = hashlib.sha256(f"/files/{name}".encode()).hexdigest()
                self._upload_paths[f"sha256:{digest}"] = self.folder / "uploads" / name
        return self._upload_paths[receipt["id"]]

    def uploads(self):
        """The bytes of all uploads there are, finished or not: name in the server's folder → size."""
        return {
            path.name: path.stat().st_size for path in (self.folder / "uploads").glob("*")
            if path.is_file() and "." not in path.name}

    def is_finished(self, name):
        """Whether this upload has all its bytes and is no part of another one, as the server says; or is gone."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SOON)
        try:
            connection.request("HEAD", f"/files/{name}", headers={"Tus-Resumable": "1.0.0"})
            answer = connection.getresponse()
            if answer.status in (404, 410):
                return True
            return answer.headers["Upload-Concat"] != "partial" and (
                answer.headers["Upload-Offset"] == answer.headers["Upload-Length"])
        finally:
            connection.close()


class DraftServer(Server):
    """A server of our own that speaks the IETF's draft of resumable uploads (ietf_program.py)."""

    ends_within = 5

    def __init__(self, folder, **options):
        super().__init__(folder)
        self.options = options
        self._starts = 0

    def start(self):
        self._starts += 1
        log = self.folder.parent / f"{self.folder.name}.{self._starts}.log"
        self.program = Program(
            [sys.executable, pathlib.Path(__file__).with_name("ietf_program.py"), self.port, self.folder,
             json.dumps(self.options)], log, clean_environment())
        self.port = self.program.wait_for_line(
            lambda line: int(line.split()[1]) if line.startswith("listening ") else None)
        return self

    def close(self):
        left = super().close()
        # What the draft forbids a client.
        return left + self._lines("violations")

    def url(self, port=None, scheme="tus+http"):
        return f"{scheme}://127.0.0.1:{port or self.port}/files"

    def file(self, name):
        path = self.folder / "published" / name
        return path.read_bytes() if path.is_file() else None

    def names(self):
        root = self.folder / "published"
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())

    def completions(self):
        """The name of each upload that was completed; that of one that was sent twice is there twice."""
        return self._lines("completions")

    def uploads(self):
        """What is known of each upload there is: name in the server's folder → its facts, with its size."""
        found = {}
        for path in (self.folder / "uploads").glob("*.json"):
            try:
                found[path.stem] = json.loads(path.read_text()) | {"size": path.with_suffix("").stat().st_size}
            except FileNotFoundError:
                # Ended just now.
                continue
        return found

    def unfinished(self):
        return {name for name, facts in self.uploads().items() if not facts["complete"]}

    def _lines(self, name):
        path = self.folder / name
        return path.read_text().split("\n")[:-1] if path.is_file() else []
