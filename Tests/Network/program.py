"""The program that passes packets on: compiled when it is needed, and kept beside the build."""

import hashlib
import os
import pathlib
import subprocess
import tempfile

SOURCES = pathlib.Path(__file__).resolve().parent / "program"
KEPT = SOURCES.parents[2] / ".build-network"
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror"]


def network_program(flags=()):
    """The path of the compiled program. Another source, flag, compiler or system (scripts/in-debian13) makes another one."""
    compiler = [os.environ.get("CC", "cc"), *FLAGS, *flags]
    digest = hashlib.sha256("\0".join(compiler).encode() + pathlib.Path("/etc/os-release").read_bytes())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    program = KEPT / f"network-{digest.hexdigest()[:16]}"
    if not program.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            made = pathlib.Path(folder) / "network"
            done = subprocess.run(
                [*compiler, *map(str, sorted(SOURCES.glob("*.c"))), "-o", str(made), "-lm"], capture_output=True,
                text=True, stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                raise RuntimeError(f"{compiler[0]} cannot compile {SOURCES}:\n{done.stderr}")
            made.replace(program)
    return program
