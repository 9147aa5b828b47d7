"""Servers of tus, the draft, S3 and forms in one process of the tests, which lie about some files as they are told."""

import base64
import hashlib
import http.server
import json
import re
import threading
import urllib.parse

from early_answers import EarlyAnswers


class LyingServer(http.server.ThreadingHTTPServer):
    """Speaks one protocol on plain HTTP. `lie` is asked before each request about a file whose name holds “victim”: it gives an
    answer (status, fields, body), or nothing where the truth is to be told. `gateway` is asked likewise before every request, and
    stands in front of the server. Bodies that arrive are counted for each file. `early` answers some before their bodies are read."""

    daemon_threads = True
    PATHS = {"tus": "/files/", "draft": "/files/", "s3": "/bucket", "form": "/upload"}

    def __init__(self, protocol, lie, parts=None, early=None, extensions=""):
        super().__init__(("127.0.0.1", 0), Handler)
        self.early = early
        if early:
            early.limit(self.socket)
        # Of tus, beside those that every server has.
        self.extensions = extensions
        self.protocol = protocol
        self.lie = lie
        self.gateway = None
        # tus joins parts, and they have one address ("shared"), or are gone when they are to be joined ("lost").
        self.parts = parts
        self.lock = threading.Lock()
        self.published = {}
        # What S3 answers to a question for an object, beside its length.
        self.fields = {}
        self.received = {}
        self.uploads = {}
        self.lies = 0
        self.count = 0
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def options(self):
        kind = "tus" if self.protocol == "draft" else self.protocol
        more = ("--tus-protocol", "ietf") if self.protocol == "draft" else ()
        return f"{kind}+http://127.0.0.1:{self.server_address[1]}{self.PATHS[self.protocol]}", more

    def fresh(self):
        self.count += 1
        return str(self.count)

    def handle_error(self, request, client_address):
        # Connections that the client's side ends.
        pass

    def close(self):
        if self.early:
            self.early.is_over.set()
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *words):
        pass

    def do(self):
        length = int(self.headers.get("Content-Length") or 0)
        if self.server.early and self.server.early.take(self, self.name_before_the_body(length), length):
            return
        body = self.rfile.read(length)
        with self.server.lock:
            answer = self.respond(body)
        self.send(*answer)

    do_HEAD = do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do

    def send(self, status, fields=(), content=b""):
        if status is None:
            # As it is, and then the end.
            self.wfile.write(content)
            self.close_connection = True
            return
        fields = dict(fields)
        self.send_response_only(status)
        if status != 204 and "Content-Length" not in fields:
            fields["Content-Length"] = len(content)
        for name, value in fields.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def name_before_the_body(self, length):
        # A form's name is in the first bytes.
        start = self.rfile.peek(1) if length and self.server.protocol == "form" else b""
        return getattr(self, f"{self.server.protocol}_name")(start)

    def as_if_taken(self, name, length):
        """The answer to a body that was taken, and what the server then believes to have: zeros."""
        with self.server.lock:
            return getattr(self, self.server.protocol)(bytes(length), name)

    def respond(self, body):
        name = getattr(self, f"{self.server.protocol}_name")(body)
        if name:
            self.server.received[name] = self.server.received.get(name, 0) + len(body)
        answer = self.server.gateway and self.server.gateway(self, body)
        if answer:
            self.server.lies += 1
            return answer
        if name and "victim" in name and self.server.lie:
            answer = self.server.lie(self, body)
            if answer:
                self.server.lies += 1
                return answer
        return getattr(self, self.server.protocol)(body, name)

    @property
    def place(self):
        return urllib.parse.urlsplit(self.path).path

    @property
    def query(self):
        return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True))

    # tus 1.0.0 with what every server has: one upload for each file, created first.

    def tus_name(self, body):
        found = re.search(r"relativePath ([A-Za-z0-9+/=]+)", self.headers.get("Upload-Metadata") or "")
        if found:
            return base64.b64decode(found[1]).decode()
        return self.server.uploads.get(self.place, {}).get("name")

    def tus(self, body, name):
        sign = {"Tus-Resumable": "1.0.0"}
        uploads = self.server.uploads
        if self.command == "OPTIONS":
            more = ",concatenation,creation-with-upload" if self.server.parts else self.server.extensions
            return 204, sign | {"Tus-Version": "1.0.0", "Tus-Extension": "creation,termination" + more}
        if self.command == "POST" and "Upload-Concat" in self.headers:
            return self.tus_part(body, sign)
        if self.command == "POST":
            place = f"/files/{self.server.fresh()}"
            uploads[place] = {"name": name, "bytes": body, "length": int(self.headers["Upload-Length"])}
            self.tus_end(place)
            return 201, sign | {"Location": place, "Upload-Offset": len(body)}
        upload = uploads.get(self.place)
        if not upload:
            return 404, sign
        if self.command == "PATCH":
            if int(self.headers["Upload-Offset"]) != len(upload["bytes"]):
                return 409, sign
            upload["bytes"] += body
            self.tus_end(self.place)
            return 204, sign | {"Upload-Offset": len(upload["bytes"])}
        if self.command == "DELETE":
            del uploads[self.place]
            return 204, sign
        return 200, sign | {"Upload-Offset": len(upload["bytes"]), "Upload-Length": upload["length"]}

    def tus_part(self, body, sign):
        server, wanted = self.server, self.headers["Upload-Concat"]
        server.received["parts"] = server.received.get("parts", 0) + len(body)
        if wanted == "partial":
            place = "/files/part" if server.parts == "shared" else f"/files/{server.fresh()}"
            server.uploads[place] = {"name": None, "bytes": body, "length": int(self.headers["Upload-Length"])}
            return 201, sign | {"Location": place, "Upload-Offset": len(body)}
        server.lies += 1
        parts = wanted.removeprefix("final;").split()
        if server.parts == "lost":
            for place in parts:
                server.uploads.pop(place, None)
            return 400, sign
        server.published[self.tus_name(body)] = b"".join(server.uploads[place]["bytes"] for place in parts)
        return 201, sign | {"Location": f"/files/{server.fresh()}"}

    def tus_end(self, place):
        upload = self.server.uploads[place]
        if upload["name"] and len(upload["bytes"]) == upload["length"]:
            self.server.published[upload["name"]] = upload["bytes"]

    # The IETF's draft, interop version 8.

    def draft_name(self, body):
        if self.headers.get("Slug"):
            return urllib.parse.unquote(self.headers["Slug"])
        return self.server.uploads.get(self.place, {}).get("name")

    def draft(self, body, name):
        uploads = self.server.uploads
        if self.command == "OPTIONS":
            return 204, {"Accept-Patch": "application/partial-upload", "Upload-Draft-Interop-Version": "8"}
        if self.command == "POST":
            place = f"/files/{self.server.fresh()}"
            uploads[place] = {"name": name, "bytes": body, "complete": False}
            return 201, {"Location": place} | self.draft_state(place)
        upload = uploads.get(self.place)
        if not upload:
            return 404, {}
        if self.command == "DELETE":
            del uploads[self.place]
            return 204, {}
        if self.command == "PATCH":
            if upload["complete"] or int(self.headers["Upload-Offset"]) != len(upload["bytes"]):
                return 409, self.draft_state(self.place, False)
            upload["bytes"] += body
        return 204, self.draft_state(self.place)

    def draft_state(self, place, may_end=True):
        upload = self.server.uploads[place]
        if may_end and self.headers.get("Upload-Complete") == "?1":
            upload["complete"] = True
            self.server.published[upload["name"]] = upload["bytes"]
        return {"Upload-Offset": len(upload["bytes"]), "Upload-Complete": "?1" if upload["complete"] else "?0"}

    # What of S3 an upload needs.

    def s3_name(self, body):
        return urllib.parse.unquote(self.place.removeprefix("/bucket").removeprefix("/")) or None

    def s3(self, body, name):
        uploads, query = self.server.uploads, self.query
        if name is None:
            return 200, {}
        if self.command == "POST" and "uploads" in query:
            key = self.server.fresh()
            uploads[key] = {"name": name, "parts": {}, "metadata": self.s3_metadata()}
            return self.xml(f"<InitiateMultipartUploadResult><UploadId>{key}</UploadId></InitiateMultipartUploadResult>")
        if self.command == "HEAD":
            if name not in self.server.published:
                return 404, {}
            return 200, {"Content-Length": len(self.server.published[name])} | self.server.fields[name]
        if "uploadId" not in query:
            tag = {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}
            self.server.published[name], self.server.fields[name] = body, tag | self.s3_metadata()
            return 200, tag
        upload = uploads.get(query["uploadId"])
        if not upload:
            return self.xml("<Error><Code>NoSuchUpload</Code></Error>", 404)
        if self.command == "PUT":
            tag = f'"{hashlib.md5(body).hexdigest()}"'
            upload["parts"][int(query["partNumber"])] = (tag, body)
            return 200, {"ETag": tag}
        if self.command == "GET":
            parts = "".join(
                f"<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>" for n, (tag, _) in sorted(upload["parts"].items()))
            return self.xml(f"<ListPartsResult>{parts}<IsTruncated>false</IsTruncated></ListPartsResult>")
        if self.command == "DELETE":
            del uploads[query["uploadId"]]
            return 204, {}
        del uploads[query["uploadId"]]
        self.server.published[name] = b"".join(body for _, (_, body) in sorted(upload["parts"].items()))
        self.server.fields[name] = {"ETag": '"e-2"'} | upload["metadata"]
        return self.xml("<CompleteMultipartUploadResult><ETag>&quot;e-2&quot;</ETag></CompleteMultipartUploadResult>")

    def s3_metadata(self):
        return {name: value for name, value in self.headers.items() if name.lower().startswith("x-amz-meta-")}

    def xml(self, text, status=200):
        return status, {"Content-Type": "application/xml"}, text.encode()

    # A form.

    def form_name(self, body):
        found = re.search(rb'filename="([^"]*)"', body[:4096])
        return found[1].decode() if found else None

    def form(self, body, name):
        start = body.find(b"\r\n\r\n") + 4
        if name and start >= 4:
            self.server.published[name] = body[start:body.rindex(b"\r\n--")]
        return 201, {"Content-Type": "application/json"}, json.dumps({"id": self.server.fresh()}).encode()
