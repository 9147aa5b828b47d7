"""The pages say whom they are for, and what they name is there: pages, anchors, files, symbols and invariants."""

import functools
import pathlib
import re
import string

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((REPOSITORY / "docs").rglob("*.md"))
LINKING = [*PAGES, REPOSITORY / "README.md", REPOSITORY / "SECURITY.md", *sorted((REPOSITORY / "Tests").rglob("README.md"))]
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
# A name of a page in comments, programs and texts of the repository.
PAGE = re.compile(r"\bdocs/[\w./-]*\w\.(?:md|json|yaml)\b(#[\w-]+)?")
SUFFIXES = {".swift", ".c", ".h", ".py", ".md", ".yaml", ".yml", ".sh", ""}
# A path of the repository, or the name of a file of the code.
PATH = re.compile(r"^(?:Sources|Tests|Benchmarks|scripts|docs|examples)(?:/[\w.+-]+)*/?$")
FILE = re.compile(r"^[\w+]+\.(?:swift|c|h|py)$")
SYMBOL = re.compile(r"^[A-Z]\w*[a-z]\w*(?:\.\w+)*$")


def name(path):
    return str(path.relative_to(REPOSITORY))


def anchor(heading):
    """As GitHub makes it of a heading."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def anchors(path):
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {anchor(heading) for heading in headings}


def dead_links(path):
    """Links of a page to pages, files and anchors that are not there."""
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", path.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, part = target.partition("#")
        other = (path.parent / place).resolve() if place else path
        if not other.exists():
            yield f"{name(path)}: {target} is not there"
        elif part and part not in anchors(other):
            yield f"{name(path)}: {target} is no heading"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_begins_with_whom_it_is_for(page):
    title, _, rest = page.read_text().partition("\n\n")
    assert re.fullmatch("# .+", title), "one heading, and an empty line"
    assert rest.startswith("This page is for "), "begin with “This page is for …”"


@pytest.mark.parametrize("page", LINKING, ids=name)
def test_links_lead_somewhere(page):
    assert list(dead_links(page)) == []


def test_a_dead_link_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.REPOSITORY", tmp_path)
    (tmp_path / "a.md").write_text("# A\n\n## The `lock`, and more\n\n[b](b.md) [c](b.md#c) [d](#the-lock-and-more) [e](#e) [f](https://f.example)\n")
    (tmp_path / "b.md").write_text("# B\n\n```\n# c\n```\n")
    assert list(dead_links(tmp_path / "a.md")) == ["a.md: b.md#c is no heading", "a.md: #e is no heading"]
    (tmp_path / "b.md").unlink()
    assert next(dead_links(tmp_path / "a.md")) == "a.md: b.md is not there"


def tracked():
    """Files of the repository that may name a page."""
    for folder in ("Sources", "Tests", "Benchmarks", "scripts", "docs", "examples"):
        for path in sorted((REPOSITORY / folder).rglob("*")):
            kept = not {"__pycache__", "versions", "recorded"} & set(path.parts)
            if kept and path.is_file() and path.suffix in SUFFIXES and path != pathlib.Path(__file__).resolve():
                yield path
    yield from (REPOSITORY / "README.md", REPOSITORY / "Package.swift")


def test_pages_that_code_names_are_there():
    dead = []
    for path in tracked():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for found in PAGE.finditer(text):
            page = REPOSITORY / found[0].partition("#")[0]
            if not page.exists() or found[1] and found[1][1:] not in anchors(page):
                dead.append(f"{name(path)}: {found[0]}")
    assert not dead, dead


# What only those can follow who have other papers than the repository: numbers of requirements, of findings and of issues.
ELSEWHERE = re.compile(
    r"\b[Ss]pec [A-Z]+\d|\(spec\b|\(spec$|\(design: |\bRegression \((?!(?:S|DE|P|SE|R)\d)[A-Z]{1,2}\d|\((?:[A-Z]{1,2}\d+, )*issue (?:point )?\d|"
    r"\b(?:PR|HU|NU|RN|FS|DS|MC|NM|SV)\d{1,2}\b")
# A statement of a page, where code names both; a number without its letter means all of them.
STATEMENTS = re.compile(r"\bdocs/(\w+)\.md, ((?:S|DE|P|SE)\d+[a-z]?(?:(?:, | to | and )(?:S|DE|P|SE)\d+[a-z]?)*)")


def pointers(text):
    return [line.strip() for line in text.splitlines() if ELSEWHERE.search(line)]


def test_nothing_points_outside_the_repository():
    found = [f"{name(path)}: {line}" for path in tracked() for line in pointers(path.read_text(errors="replace"))]
    assert not found, "say the rule, or name a statement or a heading of a page of docs/"


@pytest.mark.parametrize("line", [
    "/// Who decides (spec G5).", "/// Spec E9: at most", "/// A ramp (spec B, E5).", "/// the healthiest (spec", "/// (design: commit)",
    '"""Regression (NU1): it was sent twice."""', "/// Regression (G4): it was lost", "/// Regression (issue 14): it was lost", "// Nor a version (DS21)."])
def test_a_pointer_outside_the_repository_is_found(line):
    assert pointers(line) == [line]


def test_statements_that_code_names_are_there():
    """Each stands in the page that is named with it."""
    known = {page.stem: set(re.findall(r"\*\*([A-Z]+\d+[a-z]?)\*\*", page.read_text())) for page in PAGES}
    for ids in known.values():
        ids |= {identifier.rstrip(string.ascii_lowercase) for identifier in ids}
    found = [
        f"{name(path)}: {match[0]}" for path in tracked()
        for match in STATEMENTS.finditer(re.sub(r"\n *(///?|#) ", " ", path.read_text(errors="replace")))
        if set(re.findall(r"[A-Z]+\d+[a-z]?", match[2])) - known.get(match[1], set())]
    assert not found, found


@functools.cache
def words():
    """Every word of the code, and the names of its files."""
    found, files = set(), set()
    for path in tracked():
        if path.suffix in (".swift", ".c", ".h", ".py") or path.suffix == "" and path.parts[-2] in ("scripts", "Benchmarks"):
            files.add(path.name)
            found |= set(re.findall(r"[A-Za-z_]\w*", path.read_text()))
    return found | {path.name for path in (REPOSITORY / "Sources").iterdir()}, files


def unknown(text, known, files):
    """What stands between backquotes and is no path, file or symbol of the repository."""
    for quoted in re.findall(r"`([^`\n]+)`", FENCE.sub("", text)):
        if PATH.match(quoted):
            # A program is named with what it is told.
            if not (REPOSITORY / quoted).exists():
                yield quoted
        elif re.match(r"^(?:Sources|Tests|Benchmarks|scripts)/\S+ ", quoted):
            if not (REPOSITORY / quoted.split()[0]).exists():
                yield quoted
        elif FILE.match(quoted):
            if quoted not in files and quoted != "Package.swift":
                yield quoted
        elif re.match(r"^[A-Z]\w*\+\w+$", quoted):
            if f"{quoted}.swift" not in files:
                yield quoted
        elif SYMBOL.match(quoted):
            if set(quoted.split(".")) - known:
                yield quoted


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_that_a_page_names_are_there(page):
    known, files = words()
    missing = [quoted for quoted in unknown(page.read_text(), known, files) if not SYMBOL.match(quoted)]
    assert not missing, "renamed, or moved"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.parent.name == "design" or page.name == "architecture.md"], ids=name)
def test_symbols_that_a_page_of_the_design_names_are_there(page):
    """Regression: a type that is renamed in the code kept its former name here."""
    missing = list(unknown(page.read_text(), *words()))
    assert not missing, "renamed, or moved"


def test_what_is_not_there_is_found():
    known, files = {"FileTable", "Entry"}, {"FileTable.swift", "Filesystem+Scan.swift"}
    good = "`FileTable`, `FileTable.Entry`, `FileTable.swift`, `Filesystem+Scan`, `scripts/test --long`, `Sources/UploadFS`, `--to`, `mark`"
    assert list(unknown(good, known, files)) == []
    bad = ["FileTables", "FileTable.Slot", "FileTables.swift", "Filesystem+Scans", "scripts/tests --long", "Sources/UploadFSS"]
    assert list(unknown(" ".join(f"`{word}`" for word in bad), known, files)) == bad


def test_the_table_of_invariants_is_whole():
    source = (REPOSITORY / "Sources" / "UploadSimulation" / "Invariant.swift").read_text().split("public struct Violation")[0]
    declared = {word or case for case, word in re.findall(r'^  case (\w+)(?: = "([^"]+)")?$', source, re.MULTILINE)}
    rows = re.findall(r"^\| .+? \| (`[^|]+`) \| `[^|]+` \|$", (REPOSITORY / "docs" / "design" / "simulation.md").read_text(), re.MULTILINE)
    assert {word for cell in rows for word in re.findall("`([^`]+)`", cell)} - {"Invariant"} == declared
