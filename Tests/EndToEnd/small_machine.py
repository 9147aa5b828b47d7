"""A small machine for one program: little memory, a share of a processor, few descriptors, a freezer, a clock that is set.

Memory, processor and freezer are control groups (version 1, or 2 where that is mounted); they take root, and a hierarchy that can be
written, which containers mostly have not.
"""

import dataclasses
import functools
import itertools
import os
import pathlib
import struct
import subprocess

from harness import wait_until
from promises import installed

GROUPS = pathlib.Path("/sys/fs/cgroup")
KINDS = ("memory", "cpu", "pids", "freezer")
_numbers = itertools.count()


def processor_seconds(process):
    """What a process and its threads have used of the processors."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@functools.cache
def groups_version():
    """1 or 2, or None where this machine has no groups for this user."""
    if os.geteuid() != 0:
        return None
    if all(os.access(GROUPS / name / "cgroup.procs", os.W_OK) for name in KINDS):
        return 1
    controllers = GROUPS / "cgroup.controllers"
    if controllers.exists() and {"memory", "cpu", "pids"} <= set(controllers.read_text().split()):
        try:
            (GROUPS / "cgroup.subtree_control").write_text("+memory +cpu +pids")
            return 2
        except OSError:
            return None
    return None


class Group:
    """A control group for a program, which `prefix` starts in it."""

    PERIOD = 100_000

    def __init__(self, memory=None, quota=None, threads=None):
        """`memory`: bytes; `quota`: percent of one processor."""
        self.version = groups_version()
        name = f"uploadfs-test-{os.getpid()}-{next(_numbers)}"
        kinds = KINDS if self.version == 1 else ("",)
        self.folders = {kind: GROUPS / kind / name for kind in kinds}
        for folder in self.folders.values():
            folder.mkdir()
        if memory:
            self._set("memory", {1: "memory.limit_in_bytes", 2: "memory.max"}, memory)
        if threads:
            self._set("pids", {1: "pids.max", 2: "pids.max"}, threads)
        if quota:
            microseconds = self.PERIOD * quota // 100
            if self.version == 1:
                self._set("cpu", {1: "cpu.cfs_period_us"}, self.PERIOD)
                self._set("cpu", {1: "cpu.cfs_quota_us"}, microseconds)
            else:
                self._set("cpu", {2: "cpu.max"}, f"{microseconds} {self.PERIOD}")

    def _folder(self, kind):
        return self.folders[kind if self.version == 1 else ""]

    def _set(self, kind, names, value):
        (self._folder(kind) / names[self.version]).write_text(str(value))

    @property
    def prefix(self):
        files = " ".join(str(folder / "cgroup.procs") for folder in self.folders.values())
        return ("sh", "-c", f'for group in {files}; do echo $$ >"$group" || exit 99; done; exec "$@"', "sh")

    @property
    def kills(self):
        """How many of its processes were killed for memory."""
        name = {1: "memory.oom_control", 2: "memory.events"}[self.version]
        lines = dict(line.split() for line in (self._folder("memory") / name).read_text().splitlines())
        return int(lines["oom_kill"])

    @property
    def peak_bytes(self):
        name = {1: "memory.max_usage_in_bytes", 2: "memory.peak"}[self.version]
        return int((self._folder("memory") / name).read_text())

    def freeze(self):
        self._set("freezer", {1: "freezer.state", 2: "cgroup.freeze"}, {1: "FROZEN", 2: 1}[self.version])

    def thaw(self):
        self._set("freezer", {1: "freezer.state", 2: "cgroup.freeze"}, {1: "THAWED", 2: 0}[self.version])

    def close(self):
        """For a group whose processes have ended."""
        for folder in self.folders.values():
            def is_gone(folder=folder):
                try:
                    folder.rmdir()
                    return True
                except OSError:
                    # The kernel is not done with its last process.
                    return False

            wait_until(is_gone, f"{folder} can be removed")


class Clock:
    """The clocks of a program that is started with `prefix`."""

    def __init__(self, folder, name):
        built = folder / "set_clock.so"
        if not built.exists():
            source = pathlib.Path(__file__).with_name("set_clock.c")
            subprocess.run([installed("cc"), "-Wall", "-Werror", "-shared", "-fPIC", "-o", built, source], check=True)
        self._file = folder / f"{name}.ahead"
        self._file.write_bytes(bytes(16))
        self.seconds_ahead = self.seconds_asleep = 0
        self.prefix = ("env", f"LD_PRELOAD={built}", f"CLOCK_AHEAD={self._file}")

    def jump(self, seconds):
        self.seconds_ahead += seconds
        self._write()

    def sleep(self, seconds):
        """As if the machine had slept for so long: the clocks that count that go on at once."""
        self.seconds_asleep += seconds
        self._write()

    def _write(self):
        with open(self._file, "r+b") as file:
            file.write(struct.pack("qq", self.seconds_ahead * 1_000_000_000, self.seconds_asleep * 1_000_000_000))


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one program has of a machine; None is no limit."""

    memory: int | None = None
    quota: int | None = None
    descriptors: int | None = None
    one_core: bool = False

    def prefix(self, group=None, clock=None):
        words = [*(group.prefix if group else ())]
        if self.one_core:
            words += [installed("taskset"), "-c", str(min(os.sched_getaffinity(0)))]
        if self.descriptors:
            words += [installed("prlimit"), f"--nofile={self.descriptors}:{self.descriptors}"]
        return (*words, *(clock.prefix if clock else ()))

    def __str__(self):
        said = [
            self.memory and f"{self.memory >> 20} MiB", self.quota and f"{self.quota} % of a core",
            self.descriptors and f"{self.descriptors} descriptors", self.one_core and "one core"]
        return ", ".join(filter(None, said)) or "no limits"
