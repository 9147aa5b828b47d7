"""Two receivers behind one address, which is none that works: it is said what is wrong."""

import itertools

import pytest

from harness import wait_until, write_random
from test_doctor import of
from throttle import ThrottlingProxy


class Turns(ThrottlingProxy):
    """Leads each connection to the next of several servers."""

    def __init__(self, *ports):
        self._targets = itertools.cycle([("127.0.0.1", port) for port in ports])
        super().__init__(ports[0])

    @property
    def target(self):
        return next(self._targets)

    @target.setter
    def target(self, _):
        pass


@pytest.fixture
def receivers(new_receiver, authority):
    identity = authority.issue("receiver")
    return [
        new_receiver(name=name, certificate=identity, ca=authority.certificate) for name in ("one", "other")]


def test_a_mount_says_that_two_receivers_answer(receivers, new_mount):
    """Regression: a large file was sent again and again, and nothing said why."""
    one, other = receivers
    with Turns(one.port, other.port) as turns:
        mount = new_mount(
            None, "--chunk-size", "256KiB", to=f"https://127.0.0.1:{turns.port}", ca=one.ca, token_file=one.token_file)
        for number in range(8):
            write_random(mount.root / f"{number}.mov", 2 << 20)
        wait_until(lambda: "several receivers answer at https://127.0.0.1" in mount.program.log, "the log says it")


@pytest.mark.promises("P120")
def test_doctor_counts_the_receivers_at_an_address(receivers):
    """Regression"""
    one, other = receivers
    with Turns(one.port, other.port) as turns:
        found = of(one, to=f"https://127.0.0.1:{turns.port}").finding("http")
    assert found["level"] == "problem" and found["facts"]["servers"] == 2, found
    # One that is alone is one.
    assert of(one).finding("http")["level"] == "ok"
