"""The vectors of the filters in docs/protocol.md, from an implementation that shares nothing with the product's: this is where they come from."""

import hashlib
import pathlib
import re

import pytest

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "protocol.md"
BLOCK = 262_144
ROW = re.compile(r"^\| `stride=(\d+)(?:;difference=(\d))?` \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def filtered(plain, stride, difference):
    """P115, word for word."""
    result = bytearray()
    for start in range(0, len(plain), BLOCK):
        block = plain[start:start + BLOCK]
        count = len(block) // stride
        records = [bytearray(block[index * stride:(index + 1) * stride]) for index in range(count)]
        if difference:
            for index in range(count - 1, 0, -1):
                for place in range(0, stride - difference + 1, difference):
                    word, before = (
                        int.from_bytes(record[place:place + difference], "little") for record in (records[index], records[index - 1]))
                    records[index][place:place + difference] = ((word - before) % 256 ** difference).to_bytes(difference, "little")
        for byte in range(stride):
            result += bytes(record[byte] for record in records)
        result += block[count * stride:]
    return bytes(result)


@pytest.mark.promises("P115")
def test_the_documents_vectors():
    plain = bytes(index * index >> 5 & 255 for index in range(300_000))
    text = DOCUMENT.read_text()
    rows = ROW.findall(text)
    assert len(rows) == 7
    assert re.search(r"^\| none \| `%s` \|$" % hashlib.sha256(plain).hexdigest(), text, re.MULTILINE)
    for stride, difference, digest in rows:
        found = hashlib.sha256(filtered(plain, int(stride), int(difference or 0))).hexdigest()
        assert found == digest, f"stride {stride}, difference {difference or 0}: {found}"


@pytest.mark.promises("P115")
def test_the_documents_example():
    plain = bytes(index * index for index in range(14))
    assert filtered(plain, 4, 2).hex(" ") == "00 10 30 01 18 38 04 20 40 09 28 48 90 a9"
    assert all(part in DOCUMENT.read_text() for part in (plain.hex(" "), filtered(plain, 4, 2).hex(" ")))
