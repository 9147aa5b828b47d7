"""Ties tests to the promises of the documents, when they run, and says what becomes of tests that lack something.

`@pytest.mark.promises("S3", "S40a")` names the promises that a test holds. Each test that ran, or was skipped, appends a line
for each of them to the file that TEST_PROMISES names; scripts/promises reads it. `@needs("passthrough")` skips a test where
the ability is missing; `require("root")` does so inside a fixture. `installed("rsync")` is the path of a program, and fails
the test where scripts/test did not install it. Tests/Promises is the same for tests in Swift.
"""

import dataclasses
import functools
import os
import platform
import re
import shutil
import subprocess

import pytest

from harness import MOUNT_TOOL, TEST_SERVERS


@dataclasses.dataclass(frozen=True)
class Lack:
    """Why an ability is not here: this machine cannot have it, or this run does not."""

    reason: str
    by_nature: bool = True


@functools.cache
def has_libfuse_3_17():
    """Whether the programs run with a libfuse that knows passthrough and O_TMPFILE: from 3.17 its name ends in 4."""
    libraries = subprocess.run(["ldd", str(MOUNT_TOOL)], capture_output=True, text=True).stdout
    return "libfuse3.so.4" in libraries


def _nameless_files():
    return None if has_libfuse_3_17() else Lack("libfuse is before 3.17 (scripts/in-debian13 has it)")


def _passthrough():
    kernel = tuple(map(int, platform.release().split(".")[:2]))
    if (lack := _nameless_files()) is not None:
        return lack
    if kernel < (6, 9):
        return Lack(f"Linux is {kernel[0]}.{kernel[1]}, not 6.9")
    return None if os.geteuid() == 0 else Lack("needs root", by_nature=False)


def _control_groups():
    # It needs this module itself.
    from small_machine import groups_version

    if os.geteuid() != 0:
        return Lack("needs root", by_nature=False)
    return None if groups_version() else Lack("no control groups that can be written")


# What a test needs and not every machine has, however much is installed there: the lack of it, or None.
ABILITIES = {
    # The kernel reads and writes files of the spool past the daemon: libfuse 3.17, Linux 6.9, root.
    "passthrough": _passthrough,
    # O_TMPFILE on the mount: libfuse 3.17.
    "nameless-files": _nameless_files,
    # What is promised of an older libfuse only.
    "libfuse-before-3.17": lambda: Lack("libfuse is 3.17 or later") if has_libfuse_3_17() else None,
    # To mount what is no FUSE filesystem, to become another user, to make network namespaces.
    "root": lambda: None if os.geteuid() == 0 else Lack("needs root", by_nature=False),
    # Control groups for memory, processors, threads and the freezer; containers mostly cannot write theirs.
    "control-groups": _control_groups,
    # Filesystems in a file; containers mostly have none.
    "loop-devices": lambda: None if os.path.exists("/dev/loop-control") else Lack("no /dev/loop-control"),
}


class Lacking(pytest.skip.Exception):
    """A test is skipped for lack of an ability."""

    def __init__(self, ability, lack):
        super().__init__(f"no {ability} here: {lack.reason}")
        self.ability, self.lack = ability, lack


def needs(ability):
    """A marker for tests that need an ability of this machine."""
    assert ability in ABILITIES, f"no such ability: {ability}"
    return pytest.mark.needs(ability)


def has(ability):
    """Whether this machine has an ability."""
    return ABILITIES[ability]() is None


def require(ability):
    """Skips the test that is running where this machine lacks an ability; for fixtures."""
    if (lack := ABILITIES[ability]()) is not None:
        raise Lacking(ability, lack)


def missing(what):
    """Ends a test that needs something to be installed: it fails, and is skipped where the user allowed that."""
    reason = f"{what} is missing; scripts/test installs it"
    if os.environ.get("TEST_ALLOW_MISSING"):
        pytest.skip(reason)
    pytest.fail(f"{reason} (scripts/test --allow-missing skips the test)", pytrace=False)


def installed(program):
    """The path of a program that scripts/test installs: a package's, or one of the test servers'."""
    # Debian has nginx and mkfs where not every user's PATH leads.
    folders = [str(TEST_SERVERS / "bin"), os.environ.get("PATH", os.defpath), "/usr/sbin"]
    return shutil.which(program, path=os.pathsep.join(folders)) or missing(program)


class Recorder:
    """The plugin. Under pytest-xdist, and in shards, each process appends to the same file: one write for one line."""

    def pytest_configure(self, config):
        config.addinivalue_line("markers", "promises(*ids): the promises of the documents that the test holds")
        config.addinivalue_line("markers", "needs(ability): skip where this machine lacks the ability; see promises.needs")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        for marker in item.iter_markers("needs"):
            require(marker.args[0])

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = (yield).get_result()
        if report.skipped:
            self._record(item, self._why_skipped(call, report))
        elif report.when == "call":
            self._record(item, "ran")

    def _why_skipped(self, call, report):
        error = call.excinfo and call.excinfo.value
        if isinstance(error, Lacking) and error.lack.by_nature:
            return f"lacks {error.ability}: {error.lack.reason}"
        if isinstance(error, Lacking):
            return f"skipped {error.lack.reason}"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        return f"skipped {reason.removeprefix('Skipped: ')}"

    def _record(self, item, outcome):
        path = os.environ.get("TEST_PROMISES")
        if not path:
            return
        for promise in dict.fromkeys(promise for marker in item.iter_markers("promises") for promise in marker.args):
            line = "\t".join(re.sub(r"[\t\n]", " ", field) for field in (promise, outcome, item.nodeid)) + "\n"
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                os.write(descriptor, line.encode(errors="backslashreplace"))
            finally:
                os.close(descriptor)
