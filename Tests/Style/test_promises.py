"""Promises of the documents and the tests that hold them: what can be seen without running the tests, and the check itself."""

import importlib.machinery
import importlib.util
import itertools
import os
import pathlib
import re
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TESTS = REPOSITORY / "Tests"
NAMING = re.compile(r'promises\(\s*((?:"\w+",?\s*)+)')


def load(path):
    loader = importlib.machinery.SourceFileLoader("promise_check", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


check = load(REPOSITORY / "scripts" / "promises")


def ordered(promise):
    number, letter = re.fullmatch(r"[A-Z]+(\d+)([a-z]?)", promise).groups()
    return int(number), letter


def faults(text):
    """What is wrong with the ids of a document."""
    ids = [promise for promise, _ in check.promises(text)]
    found = [f"{promise} stands twice" for promise in dict.fromkeys(ids) if ids.count(promise) > 1]
    first = (0, "")
    for heading, group in itertools.groupby(check.promises(text), key=lambda entry: entry[1]):
        numbers = [ordered(promise) for promise, _ in group]
        if numbers != sorted(numbers):
            found.append(f"the ids below “{heading}” do not ascend")
        if numbers[0] < first:
            found.append(f"“{heading}” begins with a lower id than a section before it")
        first = numbers[0]
    parts = {}
    for promise in ids:
        parts.setdefault(ordered(promise)[0], set()).add(ordered(promise)[1])
    for number, letters in parts.items():
        if letters != {""} and letters != set("abcdefghijklmnopqrstuvwxyz"[:len(letters)]):
            found.append(f"the parts of {number} are not a, b, c …: {sorted(letters)}")
    return found


@pytest.mark.parametrize("document", check.DOCUMENTS.values())
def test_ids_of_a_document_are_in_order(document):
    text = (REPOSITORY / "docs" / document).read_text()
    assert list(check.promises(text)), f"docs/{document} promises nothing"
    assert faults(text) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("## A\n**S1** a **S2** b\n## B\n- **S2** c", "S2 stands twice"),
        ("## A\n**S2** b **S1** a", "the ids below “A” do not ascend"),
        ("## A\n**S1** **S9**\n## B\n**S4**\n## C\n**S3**", "“C” begins with a lower id than a section before it"),
        ("## A\n**S1** **S1a**", "the parts of 1 are not a, b, c …: ['', 'a']"),
        ("## A\n**S1a** **S1c**", "the parts of 1 are not a, b, c …: ['a', 'c']"),
        ("## A\n**S1a** **S1b** **S2**\n## B\n**DE3**", None),
    ])
def test_disorder_is_found(text, fault):
    assert faults(text) == ([fault] if fault else [])


def test_no_id_stands_in_two_documents():
    ids = [
        promise for document in check.DOCUMENTS.values()
        for promise, _ in check.promises((REPOSITORY / "docs" / document).read_text())]
    assert len(ids) == len(set(ids)) == len(check.promised())


def test_tests_name_promises_that_there_are_and_all_of_them():
    """Whether these tests run is seen when they run: scripts/promises."""
    sources = [*(TESTS / "EndToEnd").glob("test_*.py"), *TESTS.rglob("*.swift")]
    named = {
        promise for source in sources if source.relative_to(TESTS).parts[0] not in ("Promises", "PromisesTests")
        for naming in NAMING.findall(source.read_text()) for promise in re.findall(r"\w+", naming)}
    promised = set(check.promised())
    assert sorted(named - promised) == [], "tests name promises that no document has"
    assert sorted(promised - named) == [], "no test names these promises"


def test_abilities_that_swift_has_are_those_of_python():
    swift = (TESTS / "Promises" / "Ability.swift").read_text()
    cases = {value or name for name, value in re.findall(r'^  case (\w+)(?: = "([^"]+)")?$', swift, re.MULTILINE)}
    python = (TESTS / "EndToEnd" / "promises.py").read_text()
    assert set() < cases <= set(re.findall(r'^    "([^"]+)": ', python, re.MULTILINE))


# The check

HELD = "S1\tran\ttest_a\n"
LACKED = "S1\tlacks passthrough: libfuse is 3.14\ttest_a\n"
SKIPPED = "S1\tskipped needs rsync\ttest_a\n"


def judged(*lines, complete=False):
    return check.judged({"S1": "semantics.md"}, check.records(lines), complete)


def test_one_test_that_ran_holds_a_promise():
    assert judged(SKIPPED, LACKED, HELD) == judged(HELD, complete=True) == (1, [], [])


def test_a_promise_whose_tests_were_not_collected_fails():
    assert judged() == (0, [], ["S1 (semantics.md): no test of it was collected"])


def test_a_promise_whose_tests_were_all_skipped_fails():
    assert judged(SKIPPED) == (
        0, [], ["S1 (semantics.md): all tests of it were skipped, test_a: skipped needs rsync"])


def test_what_is_lacked_by_nature_is_listed_and_fails_a_complete_run():
    lacks = ["S1 (semantics.md): lacks passthrough: libfuse is 3.14"]
    assert judged(SKIPPED, LACKED) == (0, lacks, [])
    assert judged(LACKED, complete=True) == (0, [], lacks)


def test_what_only_an_older_libfuse_has_fails_no_complete_run():
    lacks = "lacks libfuse-before-3.17: libfuse is 3.17"
    assert judged(f"S1\t{lacks}\ttest_a\n", complete=True) == (0, [f"S1 (semantics.md): {lacks}"], [])
    python = (TESTS / "EndToEnd" / "promises.py").read_text()
    assert f'"{lacks.split()[1].rstrip(":")}":' in python, "the ability has another name"


def test_an_id_that_no_document_has_fails():
    assert judged(HELD, "S99\tran\ttest_b\n") == (1, [], ["S99: no document has it, but test_b names it"])


def test_the_check_fails_and_names_what_was_not_held(tmp_path):
    ids = list(check.promised())
    records = [tmp_path / "unit", tmp_path / "end-to-end"]
    records[0].write_text("".join(f"{promise}\tran\ttest\n" for promise in ids[::2]))
    records[1].write_text("".join(f"{promise}\tran\ttest\n" for promise in ids[1::2]))

    def run():
        return subprocess.run([REPOSITORY / "scripts" / "promises", *records], capture_output=True, text=True)

    assert (run().returncode, run().stdout) == (0, f"{len(ids)} of {len(ids)} promises were held by tests that ran\n")
    records[0].write_text("".join(f"{promise}\tran\ttest\n" for promise in ids[2::2]))
    assert run().returncode == 1 and f"FAILED: {ids[0]} (" in run().stdout


# The plugin that records what pytest ran

SAMPLE = """
import pytest
from promises import needs, require

@pytest.mark.promises("S1", "S2a")
def test_passes(): pass

@pytest.mark.promises("S3")
def test_fails(): assert False

@pytest.mark.promises("S4")
@pytest.mark.skip(reason="needs\\ta program")
def test_is_skipped(): pass

@pytest.mark.promises("S5")
def test_skips_itself(): pytest.skip("needs a server")

@pytest.fixture
def server(): pytest.skip("no server")

@pytest.mark.promises("S6")
def test_has_no_server(server): pass

@pytest.mark.promises("S7")
@needs("passthrough")
def test_lacks_an_ability(): pass

@pytest.mark.promises("S8")
@pytest.mark.parametrize("number", [1, 2])
def test_runs_twice(number): pass

@pytest.fixture
def network(): require("passthrough")

@pytest.mark.promises("S9")
def test_has_a_fixture_that_lacks_an_ability(network): pass

@pytest.mark.promises("S10")
@needs("root")
def test_lacks_what_another_run_has(): pass

def test_promises_nothing(): pass
"""


def run_sample(folder, *options, **environment):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_sample.py"], cwd=folder,
        capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(TESTS / "EndToEnd")} | {name: str(value) for name, value in environment.items()})


@pytest.mark.parametrize("workers", [0, 2])
def test_each_test_is_recorded(tmp_path, workers):
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    (tmp_path / "conftest.py").write_text(
        "import promises\npromises.has_libfuse_3_17 = lambda: False\n"
        "promises.ABILITIES['root'] = lambda: promises.Lack('needs root', by_nature=False)\n"
        "def pytest_configure(config): config.pluginmanager.register(promises.Recorder())\n")
    records = tmp_path / "records"
    parallel = ["-n", str(workers)] if workers else []
    run_sample(tmp_path, *parallel, TEST_PROMISES=records)
    assert sorted(line.split("\t") for line in records.read_text().splitlines()) == [
        ["S1", "ran", "test_sample.py::test_passes"],
        ["S10", "skipped needs root", "test_sample.py::test_lacks_what_another_run_has"],
        ["S2a", "ran", "test_sample.py::test_passes"],
        ["S3", "ran", "test_sample.py::test_fails"],
        ["S4", "skipped needs a program", "test_sample.py::test_is_skipped"],
        ["S5", "skipped needs a server", "test_sample.py::test_skips_itself"],
        ["S6", "skipped no server", "test_sample.py::test_has_no_server"],
        ["S7", "lacks passthrough: libfuse is before 3.17 (scripts/in-debian13 has it)",
         "test_sample.py::test_lacks_an_ability"],
        ["S8", "ran", "test_sample.py::test_runs_twice[1]"],
        ["S8", "ran", "test_sample.py::test_runs_twice[2]"],
        ["S9", "lacks passthrough: libfuse is before 3.17 (scripts/in-debian13 has it)",
         "test_sample.py::test_has_a_fixture_that_lacks_an_ability"],
    ]


# What scripts/test installs

NEEDY = """
import pytest
from promises import installed

def test_has_a_program_of_the_system(): assert installed("sh").endswith("/sh")

def test_has_the_test_servers_program_first(): assert installed("rsync").endswith("/servers/bin/rsync")

def test_has_no_program(): installed("no-such-program")

@pytest.fixture
def server(): return installed("no-such-server")

def test_has_no_server(server): pass
"""


@pytest.mark.parametrize(("allowed", "result", "code"), [
    ("", "1 failed, 2 passed, 1 error", 1),
    ("1", "2 passed, 2 skipped", 0),
])
def test_what_is_not_installed_fails_unless_that_is_allowed(tmp_path, allowed, result, code):
    (tmp_path / "test_sample.py").write_text(NEEDY)
    program = tmp_path / "servers" / "bin" / "rsync"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    done = run_sample(tmp_path, "-rsEf", TEST_ALLOW_MISSING=allowed, TEST_SERVERS=tmp_path / "servers")
    assert (done.returncode, result in done.stdout) == (code, True), done.stdout
    for program in ("no-such-program", "no-such-server"):
        assert f"{program} is missing; scripts/test installs it" in done.stdout
