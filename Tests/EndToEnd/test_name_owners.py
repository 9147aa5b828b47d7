"""Whose a published name is, where it is not only a matter of one receiver's life: without attributes, and after a root was copied."""

import os
import pathlib
import shutil
import subprocess

import pytest

from promises import installed
from protocol_client import ProtocolClient, Session

CHUNK = 256 << 10
ATTRIBUTE = "user.uploadfs.pub"


def publish(receiver, capture, content, **stated):
    """Publishes a content of a capture as day/a.mov, as far as the name is its own; what it lies under, and what it was."""
    document = {
        "name": "hint", "chunk_size": CHUNK, "modified_ns": 0, "mode": 0o644, "file_id": capture, "revision": 1,
        "nonce": os.urandom(32).hex()}
    session = Session(ProtocolClient(receiver), nonce=bytes.fromhex(document["nonce"]), document=document)
    chunks = [content[start:start + CHUNK] for start in range(0, len(content), CHUNK)]
    for index, chunk in enumerate(chunks):
        assert session.put(index, chunk).status == 201
    answer = session.commit(chunks, name="day/a.mov", **{"if_taken": "number", "modified_ns": 1_700_000_000_123_456_789, **stated})
    assert answer.status == 200, answer
    receipt = answer.json
    claim = {"file_id": capture, "merkle_root": receipt["merkle_root"], "size": receipt["size"], "chunk_size": CHUNK}
    return receipt.get("published_as", receipt["name"]), claim


def contents(receiver):
    return {str(path.relative_to(receiver.files)): path.read_bytes() for path in receiver.files.rglob("*") if path.is_file()}


FIRST, SECOND, THIRD = (name * (300 << 10) for name in (b"1", b"2", b"3"))


@pytest.mark.promises("P108", "P109")
def test_without_attributes_a_publication_is_known_by_its_content(new_receiver, folder):
    library = folder / "without_attributes.so"
    source = pathlib.Path(__file__).with_name("without_attributes.c")
    subprocess.run([installed("cc"), "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source], check=True)
    receiver = new_receiver(prefix=("env", f"LD_PRELOAD={library}"))
    _, first = publish(receiver, "one", FIRST)
    assert os.listxattr(receiver.files / "day" / "a.mov") == []
    assert publish(receiver, "two", SECOND)[0] == "day/a-2.mov"
    assert publish(receiver, "one", THIRD, replaces=[first])[0] == "day/a.mov"
    assert contents(receiver) == {"day/a.mov": THIRD, "day/a-2.mov": SECOND}


WAYS = {
    "cp -a": lambda old, new: subprocess.run(["cp", "-a", old, new], check=True),
    "without attributes and times": lambda old, new: shutil.copytree(old, new, copy_function=shutil.copyfile),
}


@pytest.mark.promises("P108", "P109")
@pytest.mark.parametrize("way", WAYS)
def test_names_of_a_copied_root_have_their_owners(new_receiver, way):
    receiver = new_receiver()
    _, first = publish(receiver, "one", FIRST)
    _, second = publish(receiver, "two", SECOND)
    assert os.getxattr(receiver.files / "day" / "a.mov", ATTRIBUTE)
    receiver.stop()
    old = receiver.files.with_name("old")
    receiver.files.rename(old)
    WAYS[way](old, receiver.files)
    shutil.rmtree(receiver.root / ".uploads")
    receiver.start()
    assert publish(receiver, "three", THIRD)[0] == "day/a-3.mov"
    # The receipt of one was lost with the receiver's state: what is sent again is there already.
    assert publish(receiver, "two", SECOND, published_as="day/a-2.mov")[0] == "day/a-2.mov"
    assert publish(receiver, "one", THIRD, replaces=[first])[0] == "day/a.mov"
    assert publish(receiver, "two", FIRST, replaces=[second], published_as="day/a-2.mov")[0] == "day/a-2.mov"
    assert contents(receiver) == {"day/a.mov": THIRD, "day/a-2.mov": FIRST, "day/a-3.mov": THIRD}
