"""Starts the real programs, looks at what they show, and makes sure that nothing of them is left."""

import ctypes
import errno
import hashlib
import http.client
import json
import os
import pathlib
import select
import signal
import socket
import ssl
import subprocess
import threading
import time

import jsonschema

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get("BINARIES", REPOSITORY / ".build" / "debug")).resolve()
MOUNT_TOOL = BINARIES / "uploadfs-mount"
RECEIVER_TOOL = BINARIES / "uploadfs-receiver"
# Programs and servers of other people (scripts/set-up.sh).
TEST_SERVERS = pathlib.Path(os.environ.get("TEST_SERVERS", REPOSITORY / ".build" / "test-servers"))

# The token of receivers that do not make one themselves.
TOKEN = "0123456789abcdef-end-to-end-0123456789abcdef"

# How long a step may take that is not limited by the amount of data. Generous: a loaded machine is no failure.
SOON = 60


def _validator(name):
    # Readers take members that they do not know; here each of them is to be named.
    text = (REPOSITORY / "docs" / name).read_text().replace('"additionalProperties": true', '"additionalProperties": false')
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


_status_validator = _validator("status.schema.json")
_summary_validator = _validator("summary.schema.json")


# Settings of the person who runs the tests reach no program, also none that a test starts with the environment as it is.
for _setting in [name for name in os.environ if name.startswith("UPLOADFS_")]:
    del os.environ[_setting]


def clean_environment(**more):
    """The environment without settings of the person who runs the tests, and these variables."""
    return os.environ | {name: str(value) for name, value in more.items()}


def wait_until(condition, what, timeout=SOON):
    """Calls `condition` until it gives something true, and returns that."""
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what() if callable(what) else what}")
        time.sleep(0.02)
    return result


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def mark(path):
    """What a file of the spool says of its content; None where nothing speaks against it."""
    label = os.getxattr(path, "user.uploadfs").decode() if "user.uploadfs" in os.listxattr(path) else ""
    return next((member[1:] for member in label.split(";")[1:] if member.startswith("m")), None)


def write_random(path, size, seed=1):
    """A file of `size` bytes that nothing can compress; the same seed gives the same bytes."""
    block = hashlib.shake_256(str(seed).encode()).digest(min(size, 4 << 20))
    with open(path, "wb") as file:
        number = 0
        while size > 0:
            # Every 4 MiB differs from the others, so that a chunk in the wrong place is noticed.
            piece = bytearray(block[:size])
            piece[: min(8, len(piece))] = number.to_bytes(8, "big")[: min(8, len(piece))]
            file.write(piece)
            size -= len(piece)
            number += 1
    return path


def mounts_below(folder):
    """Mount points below a folder, as the kernel lists them."""
    found = []
    for line in pathlib.Path("/proc/self/mountinfo").read_bytes().splitlines():
        path = line.split()[4].decode("unicode_escape").encode("latin-1").decode(errors="surrogateescape")
        if path == str(folder) or path.startswith(f"{folder}/"):
            found.append(path)
    return found


def descendants(process):
    """A process and those that it has started, as far as they run."""
    found = [process]
    for thread in pathlib.Path(f"/proc/{process}/task").glob("*"):
        try:
            found += [one for child in (thread / "children").read_text().split() for one in descendants(int(child))]
        except OSError:
            continue
    return found


def wait_for_output_thread(process):
    """What a program says is left for one thread: once that one waits, all that was left before is written. A thread that was
    rung for does not look as if it waited, whether it has run yet or not."""
    for thread in pathlib.Path(f"/proc/{process}/task").glob("*"):
        try:
            if (thread / "comm").read_text() != "output\n":
                continue
            before = None
            deadline = time.monotonic() + SOON
            while (now := _turns(thread)) != before or now[0] in "RD":
                if time.monotonic() > deadline:
                    raise AssertionError(f"process {process} does not stop to write its log")
                before = now
                time.sleep(0.001)
        except OSError:
            # It has ended.
            continue


def _turns(thread):
    """The state of a thread, and how often it has waited."""
    members = dict(line.split(":", 1) for line in (thread / "status").read_text().splitlines())
    return members["State"].split()[0], members["voluntary_ctxt_switches"]


class Program:
    """A child process in a session of its own, with its output in files."""

    # Those of the test that is under way, whose logs a failure shows.
    started = []

    def __init__(self, arguments, log, environment=None, prefix=()):
        self.started.append(self)
        self.arguments = [*map(str, prefix), *map(str, arguments)]
        self.log_path = log
        self._log = open(log, "ab")
        self._lines = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            self.arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, start_new_session=True,
            env=environment or clean_environment())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self._lines.append(line.decode(errors="replace").rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._lines.append(None)
            self._changed.notify_all()

    @property
    def output(self):
        return [line for line in self._lines if line is not None]

    @property
    def log(self):
        """All that the program has said by now, also what it has left for its thread to write."""
        if self.process.poll() is None:
            for process in descendants(self.process.pid):
                wait_for_output_thread(process)
        return self.log_path.read_text(errors="replace")

    def wait_for_line(self, matches, timeout=SOON):
        """The first line on stdout for which `matches` gives something true, and what it gave."""
        seen = 0
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                while seen < len(self._lines):
                    line = self._lines[seen]
                    seen += 1
                    if line is None:
                        raise AssertionError(f"{self.describe()} ended with {self.process.wait(10)}")
                    if result := matches(line):
                        return result
                if not self._changed.wait(deadline - time.monotonic()):
                    raise AssertionError(f"{self.describe()} did not print what was expected within {timeout} s")

    def describe(self):
        return (
            f"\n$ {' '.join(self.arguments)}\n--- stdout\n" + "\n".join(self.output) + f"\n--- stderr ({self.log_path})\n"
            + self.log[-6000:])

    def kill(self):
        """kill -9, as a crash."""
        self.process.kill()
        self.process.wait(SOON)

    def signal(self, number):
        self.process.send_signal(number)

    def insist(self, number):
        """Signals until it ends, as an impatient user: what comes right after the first signal counts as its echo."""
        deadline = time.monotonic() + SOON
        while self.is_running and time.monotonic() < deadline:
            self.signal(number)
            try:
                self.process.wait(0.1)
            except subprocess.TimeoutExpired:
                pass

    def wait(self, timeout=SOON):
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout} s: {self.describe()}") from None

    @property
    def is_running(self):
        return self.process.poll() is None

    def end(self, seconds=SOON, may_be_killed=False):
        """SIGTERM, and what was left after so many seconds. One that `may_be_killed` then, is no surprise."""
        if self.is_running:
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                if may_be_killed:
                    self.kill()
        return self.close()

    def close(self):
        """Ends what is left; returns what should not have been there."""
        left = []
        if self.is_running:
            left.append(f"process {self.process.pid} still ran: {self.describe()}")
            self.process.kill()
            self.process.wait(SOON)
        for group in processes_of_session(self.process.pid):
            left.append(f"process {group} of {self.arguments[0]} was left")
            try:
                os.kill(group, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._reader.join(10)
        self.process.stdout.close()
        self._log.close()
        return left


def processes_of_session(session):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = pathlib.Path(f"/proc/{entry}/stat").read_text(errors="replace").rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if fields[3] == str(session) and fields[0] not in "ZX":
                found.append(int(entry))
    return found


def still(reading, number):
    """The first reading whose number does not change over ten readings in a row."""
    last, same = reading(), 0
    while same < 10:
        now = reading()
        same = same + 1 if number(now) == number(last) else 0
        last = now
    return last


class Server:
    """A program that serves on a free loopback port, which stays the same over restarts."""

    # How long its end may take, and whether it waits for its connections even then.
    ends_within, waits_for_connections = SOON, False

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = 0
        self.program = None

    @staticmethod
    def free_port():
        """A port for programs that have to be given one. No other program gets it: it was bound a moment ago."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return free.getsockname()[1]

    def describe(self):
        return self.program.describe()

    def wait_until_it_answers(self):
        wait_until(self._answers, self.describe)

    def _answers(self):
        assert self.program.is_running, self.describe()
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=SOON).close()
            return True
        except ConnectionRefusedError:
            return False

    def kill(self):
        self.program.kill()

    def close(self):
        """Ends it; returns what should not have been there."""
        return self.program.end(self.ends_within, self.waits_for_connections) if self.program else []


class Receiver(Server):
    """uploadfs-receiver."""

    # It lets connections finish for up to 10 seconds.
    ends_within = 30

    def __init__(
            self, folder, *options, certificate=None, ca=None, host="127.0.0.1", prefix=(), program=RECEIVER_TOOL):
        super().__init__(folder)
        self.program_path = program
        # Elsewhere than on loopback, it needs a certificate.
        self.host = host
        self.prefix = prefix
        self.root = folder
        self.options = options
        self.certificate = certificate
        self.ca = ca or self.root / ".development" / "ca.pem"
        self.token_file = self.root / ".development" / "token"
        # What stands in the token file after the next start; whether it stays as it is.
        self.new_tokens = None
        self.keeps_tokens = False

    def start(self):
        identity = ["--development"]
        if self.certificate:
            tokens = self.root / "tokens"
            identity = ["--certificate", self.certificate[0], "--key", self.certificate[1], "--token-file", tokens]
            self.token_file.parent.mkdir(parents=True, exist_ok=True)
            text = self.new_tokens or f"files {TOKEN}\n"
            for path, text in () if self.keeps_tokens else ((tokens, text), (self.token_file, text.split()[1] + "\n")):
                path.write_text(text)
                path.chmod(0o600)
        self.program = Program(
            [self.program_path, "serve", "--root", self.root, "--listen", self.place, *identity, *self.options],
            self.root.parent / f"{self.root.name}.log", prefix=self.prefix)
        self.port = self.program.wait_for_line(_listening_port)
        return self

    @property
    def place(self):
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self):
        return f"https://{self.place}"

    @property
    def files(self):
        return self.root / "files"

    @property
    def token(self):
        return self.token_file.read_text().strip()

    def get(self, path):
        context = ssl.create_default_context(cafile=self.ca)
        connection = http.client.HTTPSConnection(self.host, self.port, context=context, timeout=SOON)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            response = connection.getresponse()
            body = response.read()
            assert response.status == 200, f"GET {path}: {response.status} {body[:500]}"
            return body
        finally:
            connection.close()

    def stats(self):
        return json.loads(self.get("/v1/stats"))

    def stop(self):
        self.program.signal(signal.SIGTERM)
        return self.program.wait()

    def published(self):
        """What lies there under its final name: relative path → size."""
        if not self.files.exists():
            return {}
        return {
            os.path.relpath(os.path.join(folder, name), self.files): os.path.getsize(os.path.join(folder, name))
            for folder, _, names in os.walk(self.files) for name in names}


def _listening_port(line):
    return int(line.rpartition(":")[2]) if line.startswith("listening https://") else None


class Mount:
    """uploadfs-mount on folders of its own. With `unset`, the command line holds nothing but the mount point."""

    def __init__(
            self, folder, to, *options, token_file=None, ca=None, environment=None, prefix=(), spool=None, unset=False,
            program=MOUNT_TOOL):
        self.unset = unset
        self.program_path = program
        self.root = folder / "capture"
        self.spool = spool or folder / "spool"
        self.root.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.to = to
        self.options = options
        self.token_file = token_file
        self.ca = ca
        self.environment = environment
        self.prefix = prefix
        self.program = None

    @property
    def arguments(self):
        if self.unset:
            return [self.program_path, "mount", self.root, *self.options]
        arguments = [self.program_path, "mount", self.root, "--to", self.to, "--spool", self.spool]
        if self.token_file:
            arguments += ["--token-file", self.token_file]
        if self.ca:
            arguments += ["--ca", self.ca]
        return [*arguments, *self.options]

    def start(self):
        self.program = Program(self.arguments, self.folder / "mount.log", self.environment, self.prefix)
        self.program.wait_for_line(lambda line: line == f"mounted {self.root}")
        return self

    def start_and_fail(self, timeout=SOON):
        """The exit code and stderr of a start that must not succeed."""
        done = subprocess.run(
            [*map(str, self.prefix), *map(str, self.arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout, env=self.environment or clean_environment())
        return done.returncode, done.stderr

    def tool(self, command, *arguments, timeout=SOON):
        """Runs another command of the tool on this mount."""
        return subprocess.run(
            [str(MOUNT_TOOL), command, str(self.root), *map(str, arguments)], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=timeout, env=clean_environment())

    # What the mount shows. Every reading is checked against the schema.

    def status(self, name):
        with open(os.path.join(os.fsencode(self.root), b"status", os.fsencode(str(name)) + b".json"), "rb") as file:
            reading = json.loads(file.read())
        validate(reading)
        return reading

    def say(self, word, name):
        """Writes a word to a file's status in one call, as echo does."""
        path = os.path.join(os.fsencode(self.root), b"status", os.fsencode(str(name)) + b".json")
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(descriptor, f"{word}\n".encode())
        finally:
            os.close(descriptor)

    def summary(self):
        reading = json.loads((self.root / ".uploadfs" / "summary.json").read_bytes())
        validate(reading, _summary_validator)
        return reading

    def readings(self, name, until, timeout=SOON):
        """Readings of a file's status, each different from the one before, up to the first for which `until` holds."""
        path = os.path.join(os.fsencode(self.root), b"status", os.fsencode(str(name)) + b".json")
        deadline = time.monotonic() + timeout
        seen = []
        while True:
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                descriptor = None
            if descriptor is not None:
                try:
                    text = b""
                    while piece := os.read(descriptor, 1 << 16):
                        text += piece
                    reading = json.loads(text)
                    validate(reading)
                    if not seen or reading != seen[-1]:
                        seen.append(reading)
                    if until(reading):
                        return seen
                    poller = select.poll()
                    poller.register(descriptor, select.POLLIN)
                    poller.poll(200)
                finally:
                    os.close(descriptor)
            else:
                time.sleep(0.02)
            if time.monotonic() > deadline:
                last = json.dumps(seen[-1], indent=1) if seen else "no status file"
                raise AssertionError(f"{name!r}: not within {timeout} s; last: {last}\n{self.program.describe()}")

    def wait_for(self, name, *states, timeout=SOON):
        """The first reading in one of the states."""
        return self.readings(name, lambda reading: reading["state"] in states, timeout)[-1]

    def wait_all(self, timeout=180, interrupted=False):
        """The tool's own wait. With `interrupted`, files may be kept back because no writer finished them."""
        done = self.tool("wait", "--timeout", timeout, timeout=timeout + SOON)
        assert done.returncode in ((0, 18) if interrupted else (0,)), done.stderr + self.program.describe()

    # How it ends.

    def kill(self):
        """kill -9: leaves a dead mount behind, as a crash does."""
        self.program.kill()

    def stop(self, timeout=120):
        """SIGTERM and the orderly end; the exit code."""
        self.program.signal(signal.SIGTERM)
        return self.program.wait(timeout)

    def stop_at_once(self):
        """Two signals: leaves what is pending in the spool."""
        self.program.signal(signal.SIGTERM)
        wait_until(lambda: not self.program.is_running or self.is_draining, "draining shows")
        self.program.insist(signal.SIGTERM)
        return self.program.wait()

    @property
    def is_draining(self):
        try:
            return self.summary()["draining"]
        except (OSError, ValueError):
            return False

    def close(self):
        """Ends what is left; returns what should not have been there."""
        left = []
        if self.program:
            # Twice: a test may leave files that cannot be delivered.
            for _ in range(2):
                if self.program.is_running:
                    self.program.signal(signal.SIGTERM)
                    try:
                        # A second one counts a second after the daemon has heard of the first.
                        self.program.process.wait(2)
                    except subprocess.TimeoutExpired:
                        continue
            if self.program.is_running:
                try:
                    self.program.process.wait(20)
                except subprocess.TimeoutExpired:
                    pass
            was_killed = self.program.process.returncode == -signal.SIGKILL
            left += self.program.close()
        else:
            was_killed = False
        for path in mounts_below(self.root):
            if not was_killed:
                left.append(f"{path} was left mounted: {self.program.describe() if self.program else ''}")
            unmount_lazily(path)
        return left


def unmount_lazily(path):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(path), 2) != 0 and ctypes.get_errno() == errno.EPERM:
        subprocess.run(["fusermount3", "-uz", path], stdin=subprocess.DEVNULL, check=False)


def validate(reading, validator=_status_validator):
    error = jsonschema.exceptions.best_match(validator.iter_errors(reading))
    if error is not None:
        raise AssertionError(f"{error.json_path}: {error.message}\nin {json.dumps(reading, indent=1)}")
