"""A mount, and a client, at a receiver that was written from the documents alone (second_receiver.py): what they need stands there."""

import os

import pytest

from harness import TOKEN, wait_until, write_random
from protocol_client import ProtocolClient, Session
from second_receiver import SecondReceiver

CHUNK = 256 << 10


@pytest.fixture
def new_second(folder, authority):
    receivers = []

    def make(**options):
        receiver = SecondReceiver(folder / "second", authority.issue("second"), authority.certificate, TOKEN, **options)
        receivers.append(receiver)
        return receiver

    yield make
    for receiver in receivers:
        receiver.close()


@pytest.fixture(params=[False, True], ids=["whole", "plain"])
def second(request, new_second):
    return new_second(is_plain=request.param)


@pytest.fixture
def second_mount(second, new_mount):
    return new_mount(None, "--chunk-size", "256KiB", to=second.url, ca=second.ca, token_file=second.token_file)


def test_files_of_all_lengths_arrive(second, second_mount):
    contents = {f"{size}.bin": os.urandom(size) for size in (0, 1, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 7)}
    for name, content in contents.items():
        (second_mount.root / name).write_bytes(content)
    second_mount.wait_all()
    assert {name: second.published(name) for name in contents} == contents
    status = second_mount.wait_for("1000.bin", "complete")
    assert status["published_name"] == "1000.bin"
    assert second.kinds.get("POST uploads", 0) >= 1


def test_what_a_receiver_does_not_announce_is_not_used(new_second, new_mount):
    second = new_second(is_plain=True)
    mount = new_mount(None, "--chunk-size", "256KiB", to=second.url, ca=second.ca, token_file=second.token_file)
    for number in range(20):
        (mount.root / f"{number}.txt").write_bytes(b"x")
    with open(mount.root / "holes.bin", "wb") as file:
        file.truncate(4 * CHUNK)
        file.write(b"x")
    mount.wait_all()
    assert second.published("holes.bin") == b"x" + bytes(4 * CHUNK - 1)
    assert not {"POST files", "POST uploads/chunks", "POST uploads/zeros"} & set(second.kinds), second.kinds


def test_runs_are_formed_where_they_are_announced(second, new_mount):
    """With `--chunk-size` a request carries one chunk; without it, as many as the line takes."""
    mount = new_mount(None, to=second.url, ca=second.ca, token_file=second.token_file)
    content = os.urandom(10 << 20)
    (mount.root / "large.raw").write_bytes(content)
    with open(mount.root / "growing.mov", "wb", buffering=0) as file:
        for start in range(0, len(content), 1 << 20):
            file.write(content[start:start + (1 << 20)])
    mount.wait_all()
    assert second.published("large.raw") == second.published("growing.mov") == content
    assert (second.kinds.get("POST uploads/chunks", 0) > 0) != second.is_plain, second.kinds
    for name in ("large.raw", "growing.mov"):
        status = mount.status(name)
        assert status["chunks"]["retried"] == 0 and status["attempts"] == 0, status


def test_names_that_are_no_text_arrive_as_the_page_says(second, second_mount):
    names = [b"\xe9.bin", b"100%.bin", "\u0301 mark.bin".encode(), "caf\u00e9.bin".encode(), b"a\nb.bin", b"x" * 255]
    for name in names:
        with open(os.fsencode(second_mount.root) + b"/" + name, "wb") as file:
            file.write(name)
    second_mount.wait_all()

    def encoded(name):
        """P76"""
        found = ""
        for letter in name.decode(errors="surrogateescape"):
            is_plain = letter != "%" and not (ord(letter) < 0x20 or 0x7f <= ord(letter) <= 0x9f or 0xd800 <= ord(letter) <= 0xdfff)
            found += letter if is_plain else "".join(f"%{byte:02X}" for byte in letter.encode(errors="surrogateescape"))
        return found

    assert sorted(os.listdir(os.fsencode(second.files))) == sorted(encoded(name).encode() for name in names)
    assert all(second.published(encoded(name)) == name for name in names)


def test_a_recording_and_its_patched_beginning_arrive(second, second_mount):
    content = bytearray(os.urandom(6 * CHUNK + 5))
    with open(second_mount.root / "rec.mov", "wb", buffering=0) as file:
        for start in range(0, len(content), CHUNK):
            file.write(content[start:start + CHUNK])
        wait_until(lambda: len(second.received) >= 2, "chunks arrive while it is written")
        content[:8] = b"patched!"
        os.pwrite(file.fileno(), b"patched!", 0)
    second_mount.wait_all()
    assert second.published("rec.mov") == content


def test_a_changed_file_takes_the_place_of_its_earlier_content(second, second_mount):
    for content in (os.urandom(3 * CHUNK), os.urandom(100), os.urandom(2 * CHUNK + 1)):
        (second_mount.root / "a.bin").write_bytes(content)
        second_mount.wait_all()
        assert second.published("a.bin") == content
    assert os.listdir(second.files) == ["a.bin"]


def test_an_upload_goes_on_after_the_mounts_death(second, second_mount):
    write_random(second_mount.root / "a.mov", 24 * CHUNK)
    second_mount.readings("a.mov", lambda status: status["resume"]["checkpoint_chunks"] >= 4)
    second_mount.kill()
    second_mount.start()
    second_mount.wait_all()
    assert len(second.published("a.mov")) == 24 * CHUNK
    # Nothing that was acknowledged went again, but for what was not on record yet.
    assert len(second.received) - len(set(second.received)) <= 12


def test_the_second_client_and_the_second_receiver_agree(new_second):
    """Both from the documents: what they disagree in is unclear there."""
    second = new_second()
    client = ProtocolClient(second)
    said = client.request("GET", "/v1/capabilities")
    assert said.status == 200 and said.json["protocol_version"] == 1
    session = Session(client, name="two.bin", chunk_size=CHUNK)
    chunks = [os.urandom(CHUNK), os.urandom(CHUNK), b"end"]
    assert session.put(0, chunks[0]).status == 201
    assert session.put(0, chunks[0]).status == 200
    assert session.put(1, chunks[1], X_Chunk_HMAC="0" * 64).problem == "tag-mismatch"
    assert session.put_run([session.member(1, chunks[1]), session.member(2, chunks[2])]).status == 200
    assert session.held()["held"] == [[0, 2]]
    receipt = session.commit(chunks)
    assert receipt.status == 200, receipt
    assert session.commit(chunks).json == receipt.json
    assert second.published("two.bin") == b"".join(chunks)
    assert client.request("GET", "/v1/capabilities", token="another").problem == "unauthorized"
    assert receipt.json["name"] == "two.bin" and receipt.json["size"] == 2 * CHUNK + 3
