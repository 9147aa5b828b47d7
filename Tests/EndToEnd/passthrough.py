"""The setting `--passthrough` in random rounds."""

import random

from harness import mark, wait_until
from promises import has

MODES = ["off", "read", "on"]


def modes_of(seed):
    """For each life of a round the next one, from draws of its own: with `off` a seed plays what it plays on a machine without."""
    draw = random.Random(f"passthrough {seed}")
    while True:
        yield draw.choice(MODES) if has("passthrough") else "off"


def flags(mode):
    return [] if mode == "off" else ["--passthrough", mode]


def wait_until_released(mount, name):
    """A release comes after its close(2) has returned, and what passes the daemon counts as being written until then (S50e)."""
    path = mount.spool / "captures" / name
    wait_until(lambda: not path.exists() or not (mark(path) or "").startswith("writing"), lambda: f"{name} is released: {mark(path)}")
