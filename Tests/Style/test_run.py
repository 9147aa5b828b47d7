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


@pytest.mark.parametrize("is_inside", [False, True])
def test_its_instructions_lead_to_where_it_has_mounted(tmp_path, is_inside):
    """Regression: in another terminal the mount inside scripts/in-debian13 is a plain folder, and nothing was sent."""
    (tmp_path / "scripts").mkdir()
    for name in ("run", "set-up.sh"):
        shutil.copy(SCRIPTS / name, tmp_path / "scripts")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    if is_inside:
        environment["IN_DEBIAN13"] = "1"
    done = subprocess.run(
        [tmp_path / "scripts" / "run"], env=environment, capture_output=True, text=True, timeout=60,
        stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    instructions = [line.strip() for line in done.stdout.splitlines() if line.startswith("  ")]
    assert instructions[is_inside].startswith("cp "), instructions
    assert instructions[0].startswith("sudo nsenter -t ") == is_inside
