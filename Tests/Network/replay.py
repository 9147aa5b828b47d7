"""The program's links without devices and clock: packets go in with times, and out come their fates."""

import dataclasses
import json
import subprocess

from program import network_program


@dataclasses.dataclass
class Fate:
    direction: str
    number: int
    name: str  # "out", or the cause
    at: float  # microseconds


@dataclasses.dataclass
class Replay:
    fates: list
    answers: list  # to commands
    counters: dict  # of path 0 at the end

    def of(self, name, direction="upstream"):
        return [fate for fate in self.fates if fate.name == name and fate.direction == direction]

    def numbers(self, name, direction="upstream"):
        return [fate.number for fate in self.of(name, direction)]


def packets(count, spacing=0, length=1000, direction="upstream", start=0):
    """Lines for packets that come in `spacing` microseconds apart."""
    return [f"packet {direction} {start + number * spacing} {length}" for number in range(count)]


def replay(*lines, seed=1, mtu=1500, places=None, program=None):
    arguments = [program or network_program(), "--replay", "--seed", seed, f"replay:{mtu}"]
    if places:
        arguments += ["--packets", places]
    text = "\n".join(line for part in lines for line in ([part] if isinstance(part, str) else part)) + "\n"
    done = subprocess.run([*map(str, arguments)], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    fates, answers = [], []
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            answers.append(json.loads(line))
        else:
            direction, number, name, at = line.split()
            fates.append(Fate(direction, int(number), name, float(at)))
    return Replay(fates, answers[:-1], answers[-1]["paths"][0])


def balance(counters):
    """What came in or was made, less what left or is under way: 0 in packets and in bytes."""
    def all_of(unit):
        gone = sum(cause[unit] for cause in counters["dropped"].values())
        there = counters["queued"][unit] + counters["flying"][unit]
        return counters["in"][unit] + counters["duplicated"][unit] - counters["out"][unit] - gone - there

    return all_of("packets"), all_of("bytes")
