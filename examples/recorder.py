#!/usr/bin/env python3
"""A capture tool that knows nothing of uploads: it records into a file at a fixed rate, goes back to write the length
into its header, and closes the file. What it does then is new: it follows its own delivery by reading a status file.

usage: recorder.py MOUNTPOINT [NAME] [--seconds 5] [--rate 2000000]
"""

import argparse
import json
import os
import pathlib
import select
import struct
import sys
import time

MAGIC = b"RECORD01"
HEADER = struct.Struct("<8sQ")  # magic, number of data bytes


def record(path, seconds, rate):
    """Writes `rate` bytes a second in 25 pieces a second, then patches the header, as recorders do."""
    pieces = int(seconds * 25)
    piece = rate // 25
    start = time.monotonic()
    with open(path, "wb") as file:
        file.write(HEADER.pack(MAGIC, 0))
        for number in range(pieces):
            file.write(os.urandom(piece))
            time.sleep(max(0.0, start + (number + 1) / 25 - time.monotonic()))
        file.seek(0)
        file.write(HEADER.pack(MAGIC, pieces * piece))
    return HEADER.size + pieces * piece


def readings(status_path, poll_ms=1000):
    """The status file's contents, each time it has changed. poll(2) sleeps until it does."""
    while True:
        with open(status_path, "rb", buffering=0) as file:
            yield json.loads(file.read())
            poller = select.poll()
            poller.register(file, select.POLLIN)
            poller.poll(poll_ms)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("mount", type=pathlib.Path)
    arguments.add_argument("name", nargs="?", default="recording.bin")
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("--rate", type=int, default=2_000_000, help="bytes a second")
    given = arguments.parse_args()

    size = record(given.mount / given.name, given.seconds, given.rate)
    print(f"recorded {given.name}: {size} bytes")
    closed = time.monotonic()
    shown = None
    for status in readings(given.mount / "status" / f"{given.name}.json"):
        line = f"{status['state']} {status['percent']:.0f} %"
        if line != shown:
            print(line, flush=True)
            shown = line
        if status["state"] == "complete":
            print(f"delivered {time.monotonic() - closed:.2f} s after close")
            return 0
        if status["state"] in ("failed", "cancelled", "held"):
            print(f"not delivered: {json.dumps(status.get('last_error') or status.get('reason'))}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
