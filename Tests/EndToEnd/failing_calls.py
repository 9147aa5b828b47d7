"""Programs of which system calls fail by rules (failing_calls.c)."""

import dataclasses
import pathlib
import subprocess

from harness import clean_environment
from promises import installed

EIO, ENOMEM, EROFS, ENOSPC, ESTALE, EDQUOT = 5, 12, 30, 28, 116, 122


@dataclasses.dataclass(frozen=True)
class Rule:
    """Of the calls on a path that holds `text`, those from the `first` on fail, `count` of them or (0) without end."""

    call: str
    error: int
    text: str
    first: int = 1
    count: int = 0
    milliseconds: int = 0

    def __str__(self):
        return f"{self.call} {self.first} {self.count} {self.error} {self.text} {self.milliseconds}"


def library(folder):
    """Builds the library into a folder."""
    built = folder / "failing_calls.so"
    if not built.exists():
        source = pathlib.Path(__file__).with_name("failing_calls.c")
        subprocess.run([installed("cc"), "-Wall", "-Werror", "-shared", "-fPIC", "-o", built, source], check=True)
    return built


class Faults:
    """Rules for a program that is started with `environment`, or behind `prefix`; none at first."""

    def __init__(self, folder, name="faults"):
        built = library(folder)
        self._rules = folder / name
        self._log = folder / f"{name}.log"
        self.environment = clean_environment(LD_PRELOAD=built, FAILING=self._rules)
        self.prefix = ("env", f"LD_PRELOAD={built}", f"FAILING={self._rules}")

    def set(self, *rules):
        """Each is a Rule, or call, errno and a text of the path, and perhaps how often it fails."""
        lines = [f"{Rule(*rule[:3], 1, *rule[3:]) if isinstance(rule, tuple) else rule}\n" for rule in rules]
        whole = self._rules.with_suffix(".new")
        whole.write_text("".join(lines))
        whole.rename(self._rules)

    def clear(self):
        self._rules.unlink(missing_ok=True)

    @property
    def seen(self):
        """A line "CALL ERRNO PATH" for each call that failed."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""
