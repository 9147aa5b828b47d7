"""The destinations that test_conformance.py holds against the same scenarios: real servers, each behind a front.

What a scenario expects follows from the abilities that the product states of a destination (`uploadfs-mount doctor`),
and from what is said here of a server: what it keeps when it is ended, and what it checks.
"""

import contextlib
import dataclasses
import hashlib
import json
import subprocess

import jsonschema

import webdav_servers
from form_servers import PASSWORD, USER, Form
from front import Front
from harness import MOUNT_TOOL, REPOSITORY, SOON, TOKEN, Receiver, clean_environment, sha256
from s3_servers import BUCKET, KEY, Moto, Rclone, credentials
from tus_servers import DraftServer, TusServer

WRONG = "not-the-secret-of-anybody-0123456789"
_doctor_schema = json.loads((REPOSITORY / "docs" / "doctor.schema.json").read_text())


@dataclasses.dataclass(frozen=True)
class Abilities:
    """What the doctor says that a destination can do; the names are those of its JSON."""

    parallel_chunks: int
    replaceable_chunks: bool
    unknown_length: bool
    whole_file_bytes_max: int
    binds_name_at_opening: bool
    streams_whole_files: bool
    chunk_rows: str
    resumes: bool

    @property
    def sends_while_writing(self):
        return (self.replaceable_chunks or self.chunk_rows == "one") and self.unknown_length

    @property
    def sends_again_after_rename(self):
        return self.binds_name_at_opening or not self.resumes

    @property
    def begins_anew_when_rewritten(self):
        return self.resumes and not self.replaceable_chunks

    @property
    def leaves_broken_chunks(self):
        """Each chunk is an upload of its own: of one that is broken off before its answer the address is unknown, and
        what becomes of those that were joined is the server's business."""
        return self.chunk_rows == "growing"

    @property
    def chunk_bytes(self):
        """Larger files have several chunks, or are streamed."""
        return self.whole_file_bytes_max


class DestinationUnderTest:
    """A server and its front, for all scenarios: each has a folder and a mount of its own."""

    # What outlives the end of the server: uploads under way; what was published. Where the latter is lost as well, so
    # is what an upload needs to begin anew.
    keeps_uploads, keeps_files = True, True
    # Whether a request that is broken off by the end of either side leaves the chunks before it as they were.
    breaks_cleanly = True
    # Whether it decodes what is compressed; others store what they are sent.
    decodes = False
    # Whether the server itself refuses who shows wrong credentials; else the front does.
    checks_credentials = True
    # What the front answers in place of one that does not check.
    refusal = b""
    # The same for a server whose uploads under way cannot be seen from outside.
    shows_unfinished = True
    server_ca = None
    # What it takes of a file before it has the first part.
    early_bytes_max = 1 << 60

    def __init__(self, folder, authority, front=Front):
        self.folder = folder
        self.authority = authority
        self.make_front = front
        self.server = self.make()
        self.front = None
        self.abilities = None

    # What each one says of itself.

    def make(self):
        """The server, not started."""
        raise NotImplementedError

    def to(self, port):
        """The address behind the front at `port`."""
        raise NotImplementedError

    @property
    def options(self):
        """Flags for small chunks."""
        raise NotImplementedError

    def login(self, folder, right=True):
        """Flags and environment with which one is let in, or not."""
        raise NotImplementedError

    def knows(self, fields):
        """Whether a request with these header fields is let in; asked only where the server does not ask itself."""
        raise NotImplementedError

    def file(self, status):
        """What is published of the file with this status: a path, or the bytes."""
        raise NotImplementedError

    def names(self):
        """What is published."""
        raise NotImplementedError

    def unfinished(self):
        """Uploads that are neither published nor ended."""
        raise NotImplementedError

    def content(self, name):
        """The bytes that are published under one of `names`."""
        raise NotImplementedError

    # What is the same.

    def start(self):
        self.server.start()
        self.front = self.make_front(self.target_port(), self.authority.issue(f"front-{self.name}"), self.server_ca)
        self.front.__enter__()
        self.abilities = self.ask_for_abilities()
        return self

    def target_port(self):
        """Where the front finds the server."""
        return self.server.port

    def stop_server(self):
        """Its connections break, and no server is there until `start_server`."""
        self.server.kill()
        self.front.cut()

    def start_server(self):
        self.server.start()

    def close(self):
        if self.front:
            self.front.__exit__()
        return self.server.close()

    def new_mount(self, new_mount, folder, *more, right=True):
        """A mount that uploads there. Two requests at a time: so a few chunks are acknowledged before the last ones."""
        options, environment = self.login(folder, right)
        return new_mount(
            None, *self.options, "--parallel", "2", *options, *more, to=self.to(self.front.port),
            ca=self.authority.certificate, environment=environment)

    def ask_for_abilities(self):
        options, environment = self.login(self.folder)
        done = subprocess.run(
            [str(word) for word in (
                MOUNT_TOOL, "doctor", "--json", "--no-test-file", "--no-throughput", "--to", self.to(self.front.port),
                "--ca", self.authority.certificate, *self.options, *options)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON * 2, env=environment)
        said = json.loads(done.stdout)
        jsonschema.validate(said, _doctor_schema)
        facts = next(finding["facts"] for finding in said["findings"] if finding["check"] == "abilities")
        return Abilities(**{field.name: facts[field.name] for field in dataclasses.fields(Abilities)})

    def guard(self):
        """Makes the front refuse whom the server would let in with whatever credentials."""
        if not self.checks_credentials:
            # A 403 without the protocol's mark may be a proxy's, and the request is repeated.
            status = 403 if self.refusal else 401
            self.front.refuse(lambda method, target, fields: None if self.knows(fields) else (status, {}, self.refusal))

    def digest(self, status):
        return sha256(self.file(status))

    def _secret_file(self, folder, text):
        path = folder / "secret"
        path.write_text(text + "\n")
        path.chmod(0o600)
        return path


class OwnReceiver(DestinationUnderTest):
    name = "receiver"
    decodes = True

    def make(self):
        self.server_ca = self.authority.certificate
        return Receiver(self.folder / "receiver", certificate=self.authority.issue("receiver"), ca=self.server_ca)

    def to(self, port):
        return f"https://127.0.0.1:{port}"

    @property
    def options(self):
        return ["--chunk-size", "256KiB"]

    def login(self, folder, right=True):
        return ["--token-file", self._secret_file(folder, TOKEN if right else WRONG)], clean_environment()

    def file(self, status):
        return self.server.files / status["receipt"]["name"]

    def names(self):
        return sorted(self.server.published())

    def content(self, name):
        return (self.server.files / name).read_bytes()

    def unfinished(self):
        # What was published leaves its journal for those who ask again, and no data.
        return {path.parent.name for path in (self.server.root / ".uploads" / "sessions").glob("*/data")}


class S3(DestinationUnderTest):
    server_class = None
    # Parts are as long as this needs them.
    largest_file = "1GB"

    def make(self):
        return self.server_class(self.folder / "server")

    def to(self, port):
        return self.server.url("a%20prefix", port).replace("s3+http", "s3+https")

    @property
    def options(self):
        return ["--chunk-size", "5MiB", "--max-file-size", self.largest_file]

    def login(self, folder, right=True):
        return [], credentials() if right else credentials(AWS_ACCESS_KEY_ID="AKIDNOBODY", AWS_SECRET_ACCESS_KEY=WRONG)

    def file(self, status):
        return self.server.object(status["receipt"]["name"])

    def names(self):
        return [key.partition("/")[2] for key in self.server.keys()]

    def content(self, name):
        return self.server.object(f"a prefix/{name}")

    def digest(self, status):
        return hashlib.sha256(self.file(status)).hexdigest()


class S3OnRclone(S3):
    name, server_class = "s3-rclone", Rclone
    # Its --multipart-streaming-buffer-limit is 256 MiB.
    early_bytes_max = 240 << 20
    keeps_uploads = shows_unfinished = False

    def key(self, status):
        # With its end it loses whose objects are: what is published again gets a number (combinations, seed 1021401188).
        receipt = status["receipt"]
        return receipt.get("published_as", receipt["name"])

    def file(self, status):
        return self.server.object(self.key(status))

    def digest(self, status):
        # Not through memory: an object may be larger than that.
        return sha256(self.server.folder / BUCKET / self.key(status))


class S3OnMoto(S3):
    name, server_class = "s3-moto", Moto
    # Without its name a refusal would be that of something in between.
    refusal = b"<Error><Code>InvalidAccessKeyId</Code></Error>"
    keeps_uploads = keeps_files = checks_credentials = False

    def knows(self, fields):
        return f"Credential={KEY}/" in fields.get("authorization", "")

    def unfinished(self):
        return set(self.server.uploads())


class Tus(DestinationUnderTest):
    kind, settings = None, {}
    checks_credentials = False

    def make(self):
        return TusServer(self.kind, self.folder / "server", **self.settings)

    def to(self, port):
        return self.server.url(port, "tus+https")

    @property
    def options(self):
        return ["--chunk-size", "2MiB"]

    def login(self, folder, right=True):
        return ["--token-file", self._secret_file(folder, TOKEN if right else WRONG)], clean_environment()

    def knows(self, fields):
        return fields.get("authorization") == f"Bearer {TOKEN}"

    def file(self, status):
        # Where the server itself has it: not each one tells its hooks of every file.
        return self.server.upload(status["receipt"])

    def names(self):
        return self.server.names()

    def content(self, name):
        return self.server.file(name)

    def unfinished(self):
        return {name for name in self.server.uploads() if not self.server.is_finished(name)}


class TusOnTuspyserver(Tus):
    name, kind = "tus-tuspyserver", "tuspyserver"


class TusOnResumableUpload(Tus):
    name, kind, settings = "tus-resumable-upload", "resumable-upload", {"checksum_algorithms": ["sha1", "sha256"]}


class TusWithOneUpload(Tus):
    """Without concatenation: one chunk after another, once the length is known. The server announces that lengths can be
    declared later, and refuses bytes until they are (test_tus.py)."""

    name, kind = "tus-one-upload", "resumable-upload"
    settings = {"disable_concatenation": True, "hidden_extensions": ["creation-defer-length"]}


class TusWithOneGrowingUpload(Tus):
    """Likewise, from the first bytes on; the length is declared last."""

    name, kind, settings = "tus-growing-upload", "tuspyserver", {"hidden_extensions": ["concatenation"]}
    # It keeps the beginning of a chunk: after a crash it is unknown whether it is still the file's, and a killed server has
    # not counted it.
    breaks_cleanly = False


class IETFDraft(DestinationUnderTest):
    """The IETF's draft of resumable uploads, at a server of our own."""

    name, checks_credentials = "ietf-draft", False

    def make(self):
        return DraftServer(self.folder / "server", interim=True)

    def to(self, port):
        return self.server.url(port, "tus+https")

    @property
    def options(self):
        return ["--tus-protocol", "ietf", "--chunk-size", "2MiB"]

    def login(self, folder, right=True):
        return ["--token-file", self._secret_file(folder, TOKEN if right else WRONG)], clean_environment()

    def knows(self, fields):
        return fields.get("authorization") == f"Bearer {TOKEN}"

    def file(self, status):
        return self.server.folder / "published" / status["receipt"]["name"]

    def names(self):
        return self.server.names()

    def content(self, name):
        return self.server.file(name)

    def unfinished(self):
        return self.server.unfinished()


class ExampleForm(DestinationUnderTest):
    name = "php-form"

    def make(self):
        return Form(self.folder / "form")

    def to(self, port):
        return self.server.url(port).replace("form+http", "form+https")

    @property
    def options(self):
        # So that a file of several does not fit into what the kernel keeps of a connection.
        return ["--chunk-size", "4MiB", "--form-extra", "folder={folder}"]

    def login(self, folder, right=True):
        password = self._secret_file(folder, f"{USER}:{PASSWORD if right else WRONG}")
        return ["--basic-auth-file", password], clean_environment()

    def file(self, status):
        return self.server.files / json.loads(status["receipt"]["answer"])["name"]

    def names(self):
        return sorted(
            str(path.relative_to(self.server.files)) for path in self.server.files.rglob("*") if path.is_file())

    def content(self, name):
        return (self.server.files / name).read_bytes()

    def unfinished(self):
        return {path.name for path in self.server.temporary.iterdir()}

    def stop_server(self):
        self.server.nginx.close()
        self.front.cut()

    def start_server(self):
        self.server.nginx.start()


class WebDAV(DestinationUnderTest):
    server_class = None

    def make(self):
        return self.server_class(self.folder / "server")

    def to(self, port):
        return self.server.url(port, "webdav+https")

    @property
    def options(self):
        # As of the form.
        return ["--chunk-size", "4MiB"]

    def login(self, folder, right=True):
        password = self._secret_file(folder, f"{webdav_servers.USER}:{webdav_servers.PASSWORD if right else WRONG}")
        return ["--basic-auth-file", password], clean_environment()

    def file(self, status):
        receipt = status["receipt"]
        return self.server.files / receipt.get("published_as", receipt["name"])

    def names(self):
        return self.server.names()

    def content(self, name):
        return (self.server.files / name).read_bytes()

    def unfinished(self):
        return self.server.unfinished()


class WebDAVOnRclone(WebDAV):
    name, server_class = "webdav-rclone", webdav_servers.Rclone


class WebDAVOnWsgiDAV(WebDAV):
    name, server_class = "webdav-wsgidav", webdav_servers.WsgiDAV


class WebDAVOnApache(WebDAV):
    name, server_class = "webdav-apache", webdav_servers.Apache


class WebDAVOnNginx(WebDAV):
    name, server_class = "webdav-nginx", webdav_servers.NginxDAV


# Those that are left out of a scenario stand last: pytest starts a server once by its number in the scenarios' lists.
ALL = [
    OwnReceiver, S3OnRclone, S3OnMoto, TusOnTuspyserver, TusOnResumableUpload, TusWithOneUpload, IETFDraft, ExampleForm,
    WebDAVOnRclone, WebDAVOnWsgiDAV, WebDAVOnApache, WebDAVOnNginx, TusWithOneGrowingUpload]


@contextlib.contextmanager
def running(kind, place, authority, front=Front):
    """A destination with its server, of which nothing is left afterwards."""
    folder = place / kind.name
    folder.mkdir()
    destination = kind(folder, authority, front)
    try:
        yield destination.start()
    finally:
        left = destination.close()
    assert not left, "\n".join(left)
