"""What is named is there: symbols in comments, and a reader for each constant."""

import pathlib
import re

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "Sources"
TEXTS = {path: path.read_text() for path in sorted(SOURCES.rglob("*.swift"))}
WORD = re.compile(r"[A-Za-z_]\w*")


def declared():
    """Names of types, members and cases, of targets, and what every type has."""
    names = {"init", "subscript"} | {path.name for path in SOURCES.iterdir()}
    for text in TEXTS.values():
        names |= set(re.findall(
            r"\b(?:func|var|let|struct|class|enum|protocol|actor|typealias|associatedtype)\s+`?([A-Za-z_]\w*)", text))
        for cases in re.findall(r"\bcase\s+([^\n:{]+)", text):
            names |= set(WORD.findall(cases))
    return names


def test_links_to_symbols_lead_somewhere():
    """Regression: four led to nothing."""
    names, dead = declared(), []
    for path, text in TEXTS.items():
        for link in re.findall(r"``([^`\n]+)``", text):
            # Several of one name are told apart by what they return.
            parts = re.split(r"[/.]", re.sub(r"\(.*?\)|-\(.*\)|-\w+$", "", link).rstrip("-"))
            dead += [f"{path.relative_to(SOURCES)}: ``{link}``" for part in parts if part and part not in names]
    assert not dead, dead


def test_every_constant_has_a_reader():
    """Regression: tlsSessionMaxAge and those of mappings had none."""
    table = SOURCES / "TransferModel" / "UploadConstants.swift"
    constants = re.findall(r"static let (\w+)", TEXTS[table])
    others = "\n".join(re.sub(r"//.*", "", text) for path, text in TEXTS.items() if path != table)
    assert len(constants) > 50
    unread = [name for name in constants if not re.search(rf"\bUploadConstants\s*\.\s*{name}\b", others)]
    assert not unread, unread
