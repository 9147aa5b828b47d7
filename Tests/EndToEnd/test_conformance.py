"""The same captures, faults and restarts at every destination. What differs follows from the abilities that
the doctor states: no scenario asks which destination it is."""

import contextlib
import os
import pathlib
import shutil
import tempfile

import pytest

import conformance
from certificates import Authority
from harness import sha256, wait_until, write_random

# What requests may carry beside the content: names, lists of chunks, fields of forms.
EXTRA_BYTES = 64 << 10
# Requests at the same time in these mounts (conformance.py).
STREAMS = 2


@pytest.fixture(scope="module")
def place():
    path = pathlib.Path(tempfile.mkdtemp(prefix="uploadfs-conformance-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def conformance_authority(place):
    return Authority(place / "authority")


@pytest.fixture(scope="module", params=conformance.ALL, ids=lambda kind: kind.name)
def there(request, place, conformance_authority):
    """The destination of a scenario. Its server runs through all of them."""
    with conformance.running(request.param, place, conformance_authority) as destination:
        yield destination


def code(status):
    """That of its last failure."""
    return status["last_error"] and status["last_error"]["code"]


class Scene:
    """A mount on the destination, with names of its own there."""

    def __init__(self, there, new_mount, folder):
        self.there, self.front, self.abilities = there, there.front, there.abilities
        self._new_mount, self._folder = new_mount, folder
        self.place = folder.name
        self.mount = None
        self._left_before = self._unfinished()

    def begin(self, *options, right=True):
        self.mount = self.there.new_mount(self._new_mount, self._folder, *options, right=right)
        (self.mount.root / self.place).mkdir(exist_ok=True)
        return self

    def let_pass(self):
        """Nothing stands between the mount and the server any more."""
        self.front.reset()
        self.there.guard()

    @contextlib.contextmanager
    def change_in_the_middle(self):
        """What is done inside makes a request in the middle of a file pointless. Where that publishes the file by its
        last byte, nothing passes before it is broken off."""
        ports = self.front.client_ports()
        yield
        if self.abilities.streams_whole_files:
            wait_until(lambda: ports - self.front.client_ports(), "the request is broken off")
        self.let_pass()

    def show_right_credentials(self):
        """From its next start on."""
        _, self.mount.environment = self.there.login(self._folder)

    @property
    def chunk(self):
        return self.abilities.chunk_bytes

    @property
    def several_chunks(self):
        # In whatever order they are read, not all are on their way when half of them may pass (S76).
        return 5 * self.chunk + 17

    @property
    def root(self):
        return self.mount.root / self.place

    def path(self, name):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name, size, seed=1):
        return write_random(self.path(name), size, seed)

    def status(self, name):
        return self.mount.status(f"{self.place}/{name}")

    def readings(self, name, until):
        return self.mount.readings(f"{self.place}/{name}", until)

    def wait_for(self, name, *states):
        return self.mount.wait_for(f"{self.place}/{name}", *states)

    def write_and_stop_in_the_middle(self, name):
        """A file of several chunks, of which some are acknowledged, some are on their way, and some are not."""
        self.front.stop_after(2 * self.chunk + self.chunk // 2)
        self.write(name, self.several_chunks)
        # One after the other, both whole ones get there: a fault must not meet the answer to the second one.
        whole = 2 * self.chunk if self.abilities.chunk_rows == "one" else 1
        return self.readings(name, lambda status: status["bytes"]["acknowledged"] >= whole)[-1]

    def assert_delivered(self, *names):
        """Everything that was written is delivered, and these files lie there as they are here."""
        self.mount.wait_all(timeout=90)
        for name in names:
            status = self.status(name)
            content = self.path(name)
            assert status["state"] == "complete" and status["percent"] == 100 and status["last_error"] is None, status
            assert status["receipt"]["size"] == content.stat().st_size
            assert self.there.digest(status) == sha256(content), name

    def published(self):
        """The names of this scenario that are published, without their folder."""
        return sorted(name.removeprefix(f"{self.place}/") for name in self.there.names() if name.startswith(self.place))

    def unfinished(self):
        """Uploads of this scenario that are neither published nor ended; none where no client can see them."""
        return self._unfinished() - self._left_before

    def _unfinished(self):
        return set(self.there.unfinished()) if self.there.shows_unfinished else set()


@pytest.fixture
def scene(there, new_mount, folder):
    scene = Scene(there, new_mount, folder)
    scene.let_pass()
    yield scene
    # Before the mount ends: it delivers what is left.
    scene.let_pass()


@pytest.mark.promises("DE1", "DE87")
def test_files_of_every_size_arrive(scene):
    scene.begin()
    sizes = [0, 1, 70_000, scene.chunk, scene.chunk + 1, 2 * scene.chunk, scene.several_chunks]
    for size in sizes:
        scene.write(f"{size}.mov", size, seed=size)
    scene.assert_delivered(*(f"{size}.mov" for size in sizes))


@pytest.mark.promises("DE87")
def test_files_of_every_name_arrive(scene):
    scene.begin()
    names = [
        "with blanks in it.txt", "Grüße-日本語-🎥.mov", "e\u0301 decomposed", "100%", "%41", "a+b&c=d;e", 'quo"te',
        "it's", "-rf", ".hidden", "x" * 200, "a.b.c.tar.gz", "#hash?query", "deep/er/than/that"]
    for number, name in enumerate(names):
        scene.path(name).write_bytes(f"{number} {name}".encode())
    scene.assert_delivered(*names)


@pytest.mark.promises("DE1", "DE87")
def test_many_small_files_arrive(scene):
    scene.begin()
    names = [f"folder-{number % 7}/shot-{number:03}" for number in range(70)]
    for number, name in enumerate(names):
        scene.path(name).write_bytes(b"%d" % number * number)
    scene.assert_delivered(*names)


@pytest.mark.promises("S60a", "DE3", "DE87")
def test_a_growing_file_is_sent_as_early_as_the_destination_can_take_it(scene):
    scene.begin()
    before = scene.front.body_bytes
    with open(scene.path("take.mov"), "wb", buffering=0) as file:
        for number in range(8):
            file.write(os.urandom(scene.chunk // 2))
        if scene.abilities.sends_while_writing:
            # Those at the beginning and at the end are expected to change.
            scene.readings("take.mov", lambda status: status["chunks"]["done"] >= 2)
        else:
            scene.path("other").write_bytes(b"goes at once")
            scene.wait_for("other", "complete")
            assert scene.front.body_bytes - before < EXTRA_BYTES
            assert scene.status("take.mov")["bytes"]["acknowledged"] == 0
        assert "take.mov" not in scene.published()
        file.seek(scene.chunk + 10)
        file.write(b"changed")
        file.seek(0, os.SEEK_END)
        file.write(b"the end")
    scene.assert_delivered("take.mov")


@pytest.mark.promises("S60b", "S61b", "DE4", "DE87")
def test_what_is_rewritten_in_mid_upload_arrives_as_it_is_in_the_end(scene):
    scene.begin()
    scene.write_and_stop_in_the_middle("a.mov")
    with scene.change_in_the_middle():
        with open(scene.path("a.mov"), "r+b") as file:
            file.seek(100)
            file.write(b"changed")
        if scene.abilities.begins_anew_when_rewritten:
            # What was on its way arrives, and not the whole file again.
            scene.front.stop_after(scene.chunk)
            scene.readings("a.mov", lambda status: code(status) == "rewritten")
    scene.assert_delivered("a.mov")


@pytest.mark.promises("DE87")
def test_what_is_cut_off_in_mid_upload_is_not_published(scene):
    scene.begin()
    scene.write_and_stop_in_the_middle("a.mov")
    with scene.change_in_the_middle():
        os.truncate(scene.path("a.mov"), scene.chunk + scene.chunk // 2)
    scene.assert_delivered("a.mov")


@pytest.mark.promises("S62a", "DE5", "DE87")
def test_a_temporary_name_is_published_after_its_rename_and_sent_once(scene):
    scene.begin()
    before = scene.front.body_bytes
    scene.write("a.mov.part", scene.several_chunks)
    held = scene.wait_for("a.mov.part", "held")
    assert held["reason"]
    if scene.abilities.sends_while_writing:
        scene.readings("a.mov.part", lambda status: status["chunks"]["done"] >= 2)
    scene.path("other").write_bytes(b"goes at once")
    scene.wait_for("other", "complete")
    assert not {"a.mov", "a.mov.part"} & set(scene.published())
    scene.path("a.mov.part").rename(scene.path("a.mov"))
    scene.assert_delivered("a.mov")
    assert "a.mov.part" not in scene.published()
    assert scene.front.body_bytes - before < scene.several_chunks + EXTRA_BYTES


@pytest.mark.promises("S76a", "DE5", "DE87")
def test_a_renamed_file_arrives_under_its_last_name_only(scene):
    scene.begin()
    before = scene.front.body_bytes
    scene.write_and_stop_in_the_middle("a.mov")
    with scene.change_in_the_middle():
        scene.path("a.mov").rename(scene.path("b.mov"))
    scene.assert_delivered("b.mov")
    assert scene.published() == ["b.mov"]
    sent = scene.front.body_bytes - before
    if scene.abilities.sends_again_after_rename:
        assert sent > scene.several_chunks + EXTRA_BYTES
    else:
        assert sent < scene.several_chunks + EXTRA_BYTES
    if not scene.abilities.leaves_broken_chunks:
        wait_until(lambda: not scene.unfinished(), lambda: f"left at the server: {scene.unfinished()}")


@pytest.mark.promises("DE1", "DE87")
def test_a_second_revision_replaces_the_first(scene):
    scene.begin()
    scene.write("small", 1000)
    scene.write("a.mov", scene.several_chunks)
    scene.assert_delivered("small", "a.mov")
    first = {name: scene.status(name) for name in ("small", "a.mov")}
    with open(scene.path("small"), "ab") as file:
        file.write(b"more of it")
    scene.write("a.mov", 2 * scene.chunk + 1, seed=2)
    scene.assert_delivered("small", "a.mov")
    for name, before in first.items():
        after = scene.status(name)
        assert after["revision"] > before["revision"] and after["receipt"]["id"] != before["receipt"]["id"]


@pytest.mark.promises("DE87")
def test_a_removed_file_is_not_published_and_leaves_nothing(scene):
    scene.begin()
    broken = scene.write_and_stop_in_the_middle("a.mov")["chunks"]["in_flight"]
    with scene.change_in_the_middle():
        scene.path("a.mov").unlink()
    allowed = max(broken, STREAMS) if scene.abilities.leaves_broken_chunks else 0
    wait_until(lambda: len(scene.unfinished()) <= allowed, lambda: f"left at the server: {scene.unfinished()}")
    scene.path("other").write_bytes(b"goes at once")
    scene.assert_delivered("other")
    assert scene.status("other")["state"] == "complete" and "a.mov" not in scene.published()


@pytest.mark.promises("DE87")
def test_a_cut_connection_costs_what_was_on_its_way(scene):
    scene.begin()
    before = scene.front.body_bytes
    scene.write_and_stop_in_the_middle("a.mov")
    scene.front.cut()
    scene.let_pass()
    scene.assert_delivered("a.mov")
    if scene.abilities.resumes:
        assert scene.front.body_bytes - before <= scene.several_chunks + STREAMS * scene.chunk + EXTRA_BYTES


# A server that damages what was on its way when it was killed has nothing to show here.
@pytest.mark.parametrize(
    "there", [kind for kind in conformance.ALL if kind.breaks_cleanly], indirect=True, ids=lambda kind: kind.name)
@pytest.mark.promises("DE87")
def test_a_server_that_is_ended_in_mid_upload_gets_the_rest_when_it_is_back(scene):
    scene.begin()
    before = scene.front.body_bytes
    scene.write_and_stop_in_the_middle("a.mov")
    scene.there.stop_server()
    scene.readings("a.mov", lambda status: status["last_error"])
    # One that forgets where uploads go is told again before anything reaches it.
    scene.front.refuse(lambda method, target, fields: (503, {}))
    scene.there.start_server()
    scene.let_pass()
    scene.assert_delivered("a.mov")
    if scene.abilities.resumes and scene.there.keeps_uploads:
        assert scene.front.body_bytes - before <= scene.several_chunks + STREAMS * scene.chunk + EXTRA_BYTES


@pytest.mark.promises("DE6", "DE87")
def test_a_killed_daemon_goes_on_from_its_record(scene):
    scene.begin()
    scene.write_and_stop_in_the_middle("a.mov")
    # A failure of the file is one of the moments at which a record is written. Its end is another one, with what was
    # acknowledged by then.
    scene.front.refuse(lambda method, target, fields: (507, {}))
    scene.front.cut()
    recorded = scene.readings("a.mov", lambda status: status["last_error"] and (
        not scene.abilities.resumes or status["resume"]["checkpoint_chunks"] * scene.chunk
        >= max(1, status["bytes"]["acknowledged"])))[-1]
    scene.mount.kill()
    scene.front.cut()
    scene.let_pass()
    before = scene.front.body_bytes
    scene.mount.start()
    scene.assert_delivered("a.mov")
    sent = scene.front.body_bytes - before
    kept = recorded["resume"]["checkpoint_chunks"]
    if not scene.abilities.resumes:
        assert sent >= scene.several_chunks and kept == 0
        return
    assert scene.status("a.mov")["chunks"]["reused"] >= kept
    if scene.there.breaks_cleanly:
        assert sent <= scene.several_chunks - recorded["bytes"]["acknowledged"] + EXTRA_BYTES
    else:
        # A chunk that goes on behind the wrong bytes is refused, and all of it begins anew, once.
        assert sent <= scene.several_chunks + scene.chunk + EXTRA_BYTES


@pytest.mark.promises("DE1", "DE87")
def test_a_daemon_that_dies_before_the_answer_delivers_all_the_same(scene):
    scene.begin()
    scene.path("first").write_bytes(b"so that nothing has to be asked before")
    scene.wait_for("first", "complete")
    before = scene.front.kept_answers
    scene.front.keep_answers_after(70_000)
    scene.write("a.mov", 70_000)
    wait_until(lambda: scene.front.kept_answers > before, "the server has it and says so")
    scene.mount.kill()
    scene.front.cut()
    scene.let_pass()
    scene.mount.start()
    scene.assert_delivered("a.mov", "first")
    assert len(scene.published()) <= 2


@pytest.mark.promises("DE87")
def test_wrong_credentials_are_named_and_right_ones_are_enough(scene):
    scene.begin(right=False)
    scene.write("a.mov", scene.several_chunks)
    scene.path("small").write_bytes(b"x")
    for name in ("a.mov", "small"):
        error = scene.wait_for(name, "failed")["last_error"]
        assert error["code"] in ("unauthorized", "forbidden") and len(error["message"]) > 20
        assert conformance.WRONG not in error["message"]
    assert scene.mount.tool("wait", "--timeout", "30").returncode == 18
    assert scene.published() == []
    scene.mount.stop()
    assert conformance.WRONG not in scene.mount.program.log
    scene.show_right_credentials()
    scene.mount.start()
    scene.assert_delivered("a.mov", "small")


@pytest.mark.promises("DE87")
def test_a_server_that_is_busy_is_asked_again(scene):
    scene.begin()
    scene.front.refuse(lambda method, target, fields: (503, {"Retry-After": "1"}))
    scene.write("a.mov", scene.several_chunks)
    reading = scene.readings("a.mov", lambda status: status["last_error"])[-1]
    assert reading["last_error"]["code"] == "busy", reading
    assert scene.mount.tool("wait", "--timeout", "0.2").returncode == 17
    scene.let_pass()
    scene.assert_delivered("a.mov")


@pytest.mark.promises("DE87")
def test_a_full_server_keeps_nothing_from_being_delivered_later(scene):
    scene.begin()

    def refuse(status):
        """Bodies of whatever is larger than what a request says of itself."""
        scene.front.refuse(
            lambda method, target, fields: (status, {}) if int(fields.get("content-length", 0)) > EXTRA_BYTES else None)

    refuse(507)
    scene.write("a.mov", scene.several_chunks)
    scene.readings("a.mov", lambda status: code(status) == "insufficient-storage")
    refuse(413)
    scene.readings("a.mov", lambda status: status["state"] == "failed" and code(status) == "too-large")
    assert scene.mount.tool("wait", "--timeout", "30").returncode == 18
    scene.let_pass()
    scene.mount.say("retry", scene.path("a.mov").relative_to(scene.mount.root))
    scene.assert_delivered("a.mov")


@pytest.mark.promises("DE87", "DE149")
def test_a_server_that_stores_what_it_is_sent_is_sent_plain_bytes(scene):
    """Whatever is set: what lies there is what was captured, and no compressed form of it passes on the way."""
    scene.begin("--compress", "zstd")
    # The first file is delivered before the others: by then a receiver has said what it decodes.
    scene.path("first.csv").write_bytes(b"time,value\n")
    scene.assert_delivered("first.csv")
    passed = scene.front.bytes_up
    contents = {
        "long.csv": b"2024-01-01T00:00:00,17.5\n" * (scene.several_chunks // 25), "short.csv": b"1,2,3\n" * 5000,
        **{f"side {number}.json": b'{"exposure_ms": 17.5, "gain": 4}\n' * 40 for number in range(30)}}
    for name, content in contents.items():
        scene.path(name).write_bytes(content)
    scene.assert_delivered(*contents)
    compressed = scene.mount.summary()["compressed"]
    assert (compressed["chunks"] > 0) == scene.there.decodes, compressed
    if not scene.there.decodes:
        assert scene.front.bytes_up - passed >= sum(map(len, contents.values()))
        assert scene.status("long.csv")["compression"] is None
