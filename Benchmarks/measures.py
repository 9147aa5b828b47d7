"""What a program has taken of processor and memory by now, as the kernel counts it."""

import contextlib
import pathlib


def processor_seconds(program):
    """Of all threads, in nanoseconds' resolution."""
    total = 0
    for thread in pathlib.Path(f"/proc/{program.process.pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9


def resident_mb(program):
    """The memory that is the program's own."""
    return _kilobytes(program, "RssAnon") / 1000


def highest_resident_mb(program):
    """The most that was resident, with what is shared."""
    return _kilobytes(program, "VmHWM") / 1000


def _kilobytes(program, name):
    status = pathlib.Path(f"/proc/{program.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{name}:"))
