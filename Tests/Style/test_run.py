"""What scripts/run tells its user to do, with programs that only play their parts."""

import os
import pathlib
import shutil
import subprocess

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
PROGRAMS = {
    "dpkg-query": "echo installed",
    "swift": 'case "$*" in --version) echo "Swift version 6.3" ;; *--show-bin-path) dirname "$0" ;; esac',
    "uploadfs-receiver": "echo listening https://127.0.0.1:1; exec sleep 60",
    "uploadfs-mount": "echo mounted demo/capture",
}


def run(folder, programs, **environment):
    """scripts/run in a folder of its own, where these programs are found first."""
    (folder / "scripts").mkdir()
    for name in ("run", "set-up.sh"):
        shutil.copy(SCRIPTS / name, folder / "scripts")
    found = folder / "bin"
    found.mkdir()
    for name, text in programs.items():
        (found / name).write_text(f"#!/bin/sh\n{text}\n")
        (found / name).chmod(0o755)
    environment = {"PATH": f"{found}:{os.environ['PATH']}", "HOME": str(folder), **environment}
    return subprocess.run(
        [folder / "scripts" / "run"], env=environment, capture_output=True, text=True, timeout=60,
        stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("is_inside", [False, True])
def test_its_instructions_lead_to_where_it_has_mounted(tmp_path, is_inside):
    """Regression: in another terminal the mount inside scripts/in-debian13 is a plain folder, and nothing was sent."""
    done = run(tmp_path, PROGRAMS, **({"IN_DEBIAN13": "1"} if is_inside else {}))
    assert done.returncode == 0, done.stderr
    instructions = [line.strip() for line in done.stdout.splitlines() if line.startswith("  ")]
    assert instructions[is_inside].startswith("cp "), instructions
    assert instructions[0].startswith("sudo nsenter -t ") == is_inside


def test_where_no_swift_is_the_installed_programs_are_taken(tmp_path):
    done = run(tmp_path, PROGRAMS | {"swift": "exit 127", "uploadfs-mount": 'case "$1" in --version) echo uploadfs-mount 1.2.3 ;; *) echo mounted demo/capture ;; esac'})
    assert done.returncode == 0, done.stderr
    assert "Without Swift: the installed programs are used (uploadfs-mount 1.2.3)." in done.stdout


def test_where_neither_swift_nor_the_programs_are_swift_is_asked_for(tmp_path):
    done = run(tmp_path, {name: text for name, text in PROGRAMS.items() if name != "uploadfs-receiver"} | {"swift": "exit 127", "apt-cache": "true"})
    assert done.returncode != 0
    assert "Swift 6.2 or later is needed" in done.stderr
