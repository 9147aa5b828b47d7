"""Names are bytes: 192 awkward ones at every destination, read back. With --fresh under each of 15 templates."""

import hashlib
import os

import pytest

import conformance
from test_conformance import conformance_authority, place  # noqa: F401 (fixtures)

CONTROLS = [b"c%c.bin" % code for code in [*range(1, 32), 127]]
SIGNS = [b"s%c.bin" % code for code in b"!\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~"]
BLANKS = [
    b" a", b"a ", b"  ", b"a  b", b"\ta", b"a\n", b"\n", b"a.", b".a", b"..a", b"...", b". ", b"a..bin", b".bin.", b"-a", b"--help",
    b"-", b"a\r\nX-Y: z", b"a b.c d", b" .bin"]
WORDS = [
    b"CON", b"NUL.txt", b"aux.", b"a:b", b"C:a.bin", b"a|b", b"a?b", b"a*b", b"$HOME", b"`id`", b"$(id)", b"a'b", b"a\"b", b"a\\b",
    b"%", b"%%", b"%2F", b"%41.bin", b"%00", b"%~a", b"a%~b", b"%~file", b"a%~file", b"+", b"a+b", b"&amp;", b"<a>", b"a;b", b"a=b",
    b"a,b", b"name=x y", b"{stem}", b"{seq}", b"{{", b"Case.bin", b"case.bin", b"CASE.BIN", b"a.json", b"a.json.json", b"status",
    b"captures", b"-2", b"a-2.bin", b"a.bin-2", b".well-known"]
TEXTS = [text.encode() for text in [
    "é", "e\u0301", "\u0301a", "\u200da", "\u200ca", "\ufe0fa", "\u202eabc", "\ufeffa", "a\u2028b", "a\u0085b", "\ufffd", "\uffff",
    "👩‍👩‍👧‍👦.bin", "🇩🇪", "한", "\u1112\u1161\u11ab", "ﬁ", "／", "\u2044", "․․", "İ", "ı", "ß", "\u212a", "K", "Å", "\u212b", "\u00a0",
    "\u3000a", "\U0010ffff", "\ue000", "a\u0345", "日本語.動画", "שלום", "\u061ca", "ǆ", "\u0130.\u0131"]]
BYTES = [
    b"\x80", b"\xbf", b"\xc0\xaf", b"\xe2\x82", b"\xed\xa0\x80", b"\xed\xa0\x80\xed\xb0\x80", b"\xf4\x90\x80\x80", b"\xf5", b"\xfe\xff",
    b"\xff", b"\xe9.bin", b"%E9.bin", b"\xe9\xe9", b"a\xffb\xffc", b"\xc3", b"\xc3.bin", b"caf\xe9\xcc\x81", b"%C3%A9"]
LONG = [
    b"x" * 255, b"y" * 251 + b".bin", b"\xff" * 255, b"%" * 255, "é".encode() * 127, b"z" * 230 + b"." + b"e" * 24,
    b"w" * 229 + b"." + b"e" * 25, b"\"" * 255, b"\\" * 255]
NAMES = [*CONTROLS, *SIGNS, *BLANKS, *WORDS, *TEXTS, *BYTES, *LONG]

TEMPLATES = [
    "{path}", "{name}", "{stem}.{ext}", "{stem}-{seq}.{ext}", "{seq:1}", "{date}/{name}", "{time}-{stem}.{ext}", "{host}/{path}",
    "{id}-{time}.bin", "a b/{name}", "ü/{stem}", "{dir}/by {ext}/{stem}", "{id}", "{{{stem}}}.{ext}", "%{name}%"]


def test_there_are_192():
    assert len(NAMES) == 192 == len(set(NAMES)), len(NAMES)
    assert len(TEMPLATES) == 15


def pytest_generate_tests(metafunc):
    if "template" not in metafunc.fixturenames:
        return
    kinds, is_fresh = conformance.ALL, metafunc.config.getoption("--fresh")
    # Each destination has one, and each run all destinations.
    pairs = [
        (kind, template) for number, kind in enumerate(kinds)
        for template in (TEMPLATES if is_fresh else [TEMPLATES[number % len(TEMPLATES)]])]
    metafunc.parametrize(
        ("there", "template"), pairs, indirect=["there"], scope="module",
        ids=[f"{kind.name}-{template}" for kind, template in pairs])


@pytest.fixture(scope="module")
def there(request, place, conformance_authority):  # noqa: F811
    """The destination, with one server for all templates."""
    with conformance.running(request.param, place, conformance_authority) as destination:
        yield destination


def is_there(there, status, content):
    found = there.file(status)
    if there.name == "receiver":
        assert str(found).endswith(status["published_name"]), (found, status["published_name"])
    if found is None:
        # rclone writes some names in ways of its own on its disk; contents differ.
        found = next((path for path in there.server.folder.rglob("*") if path.is_file() and path.read_bytes() == content), None)
    return found is not None and (found if isinstance(found, bytes) else found.read_bytes()) == content


@pytest.mark.promises("P76", "P77")
def test_awkward_names_arrive_and_are_told_apart(there, new_mount, folder, template):
    # Those of another template are not in the way.
    mount = there.new_mount(new_mount, folder, "--name-template", f"{TEMPLATES.index(template)}/{template}")
    root = os.fsencode(mount.root) + b"/" + os.fsencode(folder.name)
    os.mkdir(root)
    contents = {}
    for name in NAMES:
        contents[name] = b"the content of %s" % hashlib.sha256(name).hexdigest().encode()
        with open(root + b"/" + name, "wb") as file:
            file.write(contents[name])
    mount.wait_all()
    wrong, published = [], {}
    for name, content in contents.items():
        status = mount.status(f"{folder.name}/{os.fsdecode(name)}")
        if status["state"] != "complete" or not is_there(there, status, content):
            wrong.append((name, status["state"], status["published_name"], status["last_error"]))
        published.setdefault(status["published_name"], []).append(name)
    assert not wrong, wrong
    # No capture has a name that a server's filesystem does not take.
    assert not [name for name in published if any(len(part.encode()) > 255 for part in name.split("/"))], published
    # One injective encoding: no two captures have one name.
    assert not [names for names in published.values() if len(names) > 1], published
