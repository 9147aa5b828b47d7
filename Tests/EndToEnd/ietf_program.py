"""A server of the IETF's draft of resumable uploads, interop version 8: ietf_program.py PORT FOLDER [OPTIONS AS JSON].

It is strict: whatever the draft forbids a client is refused with 400 and a line in FOLDER/violations. Uploads lie below
FOLDER/uploads and outlive the server; what is complete lies below FOLDER/published, under the path that its Slug named,
and FOLDER/completions has a line for each time.

Options:
keeps_broken  what arrived of a broken request stays, digest or not; else only what a digest vouches for
interim       answers of 104 are sent
forgets       an upload is gone once it is complete
limits        Upload-Limit: key → number
announces     what OPTIONS answers with: everything; limits alone, as earlier drafts had it; everything but limits
              ("no limits"), which refusals alone tell then; version; nothing
version       the interop version
process       the statuses with which what is complete is refused, one time each
"""

import base64
import email.utils
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import socket
import socketserver
import sys
import threading
import urllib.parse
import uuid

PROBLEMS = "https://iana.org/assignments/http-problem-types#"
PARTIAL = "application/partial-upload"


class Refused(Exception):
    """An answer that ends a request."""

    def __init__(self, status, why, fields=None, problem=None):
        super().__init__(why)
        self.status, self.fields, self.problem = status, fields or {}, problem


class Violation(Refused):
    """What a client must not do."""

    def __init__(self, why):
        super().__init__(400, why)


def is_digits(text):
    return text.isascii() and text.isdigit() and len(text) <= 15


def digest_field(digest):
    return f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"


class Upload:
    """One of them; its state is in a file beside its bytes."""

    def __init__(self, folder, name):
        self.name = name
        self.path = folder / "uploads" / name
        self.facts_path = folder / "uploads" / f"{name}.json"
        self.lock = threading.Lock()
        # The connection that appends just now.
        self.busy = None
        self.facts = json.loads(self.facts_path.read_text()) if self.facts_path.exists() else None

    @property
    def offset(self):
        return self.path.stat().st_size

    def note(self, **facts):
        self.facts = (self.facts or {}) | facts
        beside = self.facts_path.with_suffix(".new")
        beside.write_text(json.dumps(self.facts))
        os.replace(beside, self.facts_path)

    def drop(self):
        self.path.unlink(missing_ok=True)
        self.facts_path.unlink(missing_ok=True)


class Store:
    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        for name in ("uploads", "published"):
            (folder / name).mkdir(exist_ok=True)
        self.lock = threading.Lock()
        self.uploads = {}

    def find(self, name):
        with self.lock:
            if name not in self.uploads:
                upload = Upload(self.folder, name) if name.isalnum() else None
                if not upload or not upload.facts or not upload.path.exists():
                    raise Refused(404, "there is no such upload")
                # It was cut off together with the server.
                if not self.options.get("keeps_broken"):
                    os.truncate(upload.path, upload.facts["sure"])
                self.uploads[name] = upload
            return self.uploads[name]

    def create(self, **facts):
        upload = Upload(self.folder, uuid.uuid4().hex)
        upload.path.touch()
        upload.note(complete=False, sure=0, **facts)
        with self.lock:
            self.uploads[upload.name] = upload
        return upload

    def remove(self, upload):
        with self.lock:
            self.uploads.pop(upload.name, None)
        upload.drop()

    def line(self, name, text):
        with self.lock, open(self.folder / name, "a") as file:
            file.write(text + "\n")

    def publish(self, upload):
        name = upload.facts["slug"]
        target = self.folder / "published" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with self.lock:
            shutil.copyfile(upload.path, self.folder / "copying")
            os.replace(self.folder / "copying", target)
        upload.note(published=True)
        self.line("completions", name)

    def publish_what_is_complete(self):
        """The server was killed between the two."""
        for path in sorted((self.folder / "uploads").glob("*.json")):
            upload = Upload(self.folder, path.stem)
            if upload.facts["complete"] and not upload.facts.get("published") and not upload.facts.get("refused"):
                self.publish(upload)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    store = None

    def log_message(self, *arguments):
        pass

    @property
    def options(self):
        return self.store.options

    @property
    def limits(self):
        return self.options.get("limits", {})

    # Fields.

    def flag(self, name, wanted=True):
        text = self.headers[name]
        if text is None and not wanted:
            return None
        if text not in ("?0", "?1"):
            raise Violation(f"{name}: {text}")
        return text == "?1"

    def number(self, name, wanted=True):
        text = self.headers[name]
        if text is None and not wanted:
            return None
        if text is None or not is_digits(text):
            raise Violation(f"{name}: {text}")
        return int(text)

    def check_fields(self, allowed):
        if self.headers["Upload-Draft-Interop-Version"] != "8":
            raise Violation("a request of a draft names its version")
        if self.headers["Tus-Resumable"] or self.headers["Upload-Metadata"] or self.headers["Content-Encoding"]:
            raise Violation("that is another protocol")
        for name in ("Upload-Complete", "Upload-Offset", "Upload-Length"):
            if self.headers[name] is not None and name not in allowed:
                raise Violation(f"{name} does not belong to {self.command}")
        if any(name.lower().startswith("upload-limit") for name in self.headers):
            raise Violation("Upload-Limit is the server's")

    def told_limits(self):
        return {} if self.options.get("announces") == "no limits" else self.limit_fields()

    def limit_fields(self):
        text = ", ".join(f"{key}={value}" for key, value in self.limits.items())
        return {"Upload-Limit": text + ', x-unknown=("a" 1.5);b'} if text else {}

    # Answers.

    def answer(self, status, fields=None, body=b"", kind=None):
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", len(body))
        for name, value in (fields or {}).items():
            self.send_header(name, value)
        if kind:
            self.send_header("Content-Type", kind)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def interim(self, **fields):
        if not self.options.get("interim"):
            return
        version = self.options.get("version", 8)
        lines = ["HTTP/1.1 104 Upload Resumption Supported", f"Upload-Draft-Interop-Version: {version}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        self.wfile.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    def serve(self, action):
        self.left = self.number("Content-Length", wanted=False) or 0
        try:
            if self.headers["Transfer-Encoding"]:
                raise Refused(411, "the length is wanted")
            action()
        except Refused as refused:
            if isinstance(refused, Violation):
                self.store.line("violations", f"{self.command} {self.path}: {refused}")
            body = {"title": str(refused)} | ({"type": PROBLEMS + refused.problem} if refused.problem else {})
            if self.left:
                self.close_connection = True
                refused.fields["Connection"] = "close"
            self.answer(refused.status, refused.fields, json.dumps(body).encode(), "application/problem+json")
        except OSError:
            self.close_connection = True

    # Requests.

    def do_OPTIONS(self):
        def options():
            self.check_fields(())
            how = self.options.get("announces", "everything")
            fields = {} if how in ("nothing", "no limits") else self.limit_fields()
            if how in ("everything", "no limits"):
                fields["Accept-Patch"] = f"text/x; q=1, {PARTIAL}"
            if how == "limits":
                fields = fields or {"Upload-Limit": "min-size=0"}
            if how == "version":
                fields["Upload-Draft-Interop-Version"] = str(self.options["version"])
            self.answer(204, fields)

        self.serve(options)

    def do_POST(self):
        def create():
            if self.path.rstrip("/") != "/files":
                raise Refused(404, "uploads begin at /files")
            self.check_fields(("Upload-Complete", "Upload-Length"))
            completes = self.flag("Upload-Complete")
            length = self.number("Upload-Length", wanted=False)
            if completes and length not in (None, self.left):
                raise Refused(400, "two lengths", problem="inconsistent-upload-length")
            length = self.left if completes else length
            self.check_sizes(length, completes)
            slug = urllib.parse.unquote(self.headers["Slug"] or "", errors="strict")
            disposition = self.headers["Content-Disposition"] or ""
            if not slug or ".." in slug.split("/") or not disposition.startswith("inline"):
                raise Violation("files have names here")
            name = urllib.parse.unquote(disposition.rpartition("''")[2])
            upload = self.store.create(
                slug=slug, name=name, length=length, kind=self.headers["Content-Type"],
                digest=self.headers["Repr-Digest"])
            place = {"Location": f"/files/{upload.name}"}
            self.interim(**place, **{key.replace("-", "_"): value for key, value in self.told_limits().items()})
            self.take(upload, completes)
            if completes:
                self.complete(upload, place)
            else:
                self.answer(201, place | self.told_limits() | {"Upload-Complete": "?0"})

        self.serve(create)

    def do_HEAD(self):
        def head():
            if not self.path.startswith("/files/"):
                raise Refused(404, "there is nothing here")
            self.check_fields(())
            upload = self.upload()
            self.end_others(upload)
            with upload.lock:
                fields = {
                    "Upload-Offset": upload.offset, "Upload-Complete": f"?{int(upload.facts['complete'])}",
                    "Cache-Control": "no-store"}
                if upload.facts["length"] is not None:
                    fields["Upload-Length"] = upload.facts["length"]
                self.answer(204, fields | self.told_limits())

        self.serve(head)

    def do_PATCH(self):
        def append():
            self.check_fields(("Upload-Complete", "Upload-Offset", "Upload-Length"))
            if self.headers["Content-Type"] != PARTIAL:
                raise Refused(415, f"patches are {PARTIAL}")
            completes, offset = self.flag("Upload-Complete"), self.number("Upload-Offset")
            upload = self.upload()
            self.end_others(upload)
            with upload.lock:
                facts = upload.facts
                if facts["complete"]:
                    problem = "inconsistent-upload-length" if self.left else "completed-upload"
                    raise Refused(400, "it is complete", problem=problem)
                if offset != upload.offset:
                    raise Refused(
                        409, "offsets differ", {"Upload-Offset": upload.offset, "Upload-Complete": "?0"},
                        "mismatching-upload-offset")
                end = offset + self.left
                length = self.number("Upload-Length", wanted=False)
                said = {end if completes else None, length, facts["length"]} - {None}
                if len(said) > 1 or said and end > min(said):
                    raise Refused(400, "lengths differ", problem="inconsistent-upload-length")
                if not self.left and not completes:
                    raise Violation("an empty patch that completes nothing")
                self.check_sizes(None, completes)
                self.take(upload, completes)
                if completes:
                    self.complete(upload, {})
                else:
                    # How far it goes need not be said.
                    self.answer(204, {"Upload-Complete": "?0"} | self.told_limits())

        self.serve(append)

    def do_DELETE(self):
        def cancel():
            self.check_fields(())
            upload = self.upload()
            self.end_others(upload)
            with upload.lock:
                self.store.remove(upload)
            self.answer(204)

        self.serve(cancel)

    # Parts of requests.

    def upload(self):
        return self.store.find(self.path.removeprefix("/files/"))

    def check_sizes(self, length, completes):
        limits = self.limits
        if length is not None and length > limits.get("max-size", length):
            raise Refused(413, "the file is too large", self.limit_fields())
        if "min-size" in limits and self.command == "POST" and (length or 0) < limits["min-size"]:
            raise Refused(400, "the file is too small")
        if self.left > limits.get("max-append-size", self.left):
            raise Refused(413, "the request is too large", self.limit_fields())
        if not completes and self.command == "PATCH" and self.left < limits.get("min-append-size", 0):
            raise Violation("the request is too small")

    def end_others(self, upload):
        """A client that comes now has given up its request before."""
        busy = upload.busy
        if busy and busy is not self.connection:
            try:
                busy.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def take(self, upload, completes):
        """The request's content, at the end of the upload. A broken one leaves what the draft lets it leave."""
        before = upload.offset
        digest = hashlib.sha256()
        upload.busy = self.connection
        try:
            with open(upload.path, "ab", buffering=0) as file:
                while self.left:
                    data = self.rfile.read1(min(self.left, 1 << 16))
                    if not data:
                        raise ConnectionResetError
                    file.write(data)
                    digest.update(data)
                    self.left -= len(data)
                    if not self.left or (upload.offset - before) % (1 << 20) < len(data):
                        self.interim(Upload_Offset=upload.offset)
        except OSError:
            if self.headers["Content-Digest"] and not self.options.get("keeps_broken"):
                os.truncate(upload.path, before)
            raise
        finally:
            upload.busy = None
        wanted = self.headers["Content-Digest"]
        if wanted is None and upload.offset > before:
            raise Violation("no digest")
        if wanted and wanted != digest_field(digest):
            os.truncate(upload.path, before)
            raise Refused(400, "the digest is of something else", problem="digest-mismatching-value")
        upload.note(sure=upload.offset)

    def complete(self, upload, fields):
        wanted = upload.facts["digest"]
        if wanted and wanted != digest_field(hashlib.sha256(upload.path.read_bytes())):
            raise Refused(400, "the digest of all of it is of something else", problem="digest-mismatching-value")
        upload.note(complete=True, length=upload.offset)
        if statuses := self.options.get("process"):
            status = statuses.pop(0)
            upload.note(refused=True)
            self.answer(status, {"Upload-Complete": "?1"}, b"no room on the shelf", "text/plain")
            return
        self.store.publish(upload)
        if self.options.get("forgets"):
            self.store.remove(upload)
        self.answer(
            201, fields | {"Upload-Complete": "?1", "Date": email.utils.formatdate(usegmt=True)},
            json.dumps({"id": upload.name}).encode(), "application/json")


class Uploads(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64


if __name__ == "__main__":
    port, folder, options = int(sys.argv[1]), pathlib.Path(sys.argv[2]), json.loads(sys.argv[3])
    Handler.store = Store(folder, options)
    Handler.store.publish_what_is_complete()
    server = Uploads(("127.0.0.1", port), Handler)
    print(f"listening {server.server_address[1]}", flush=True)
    server.serve_forever()
