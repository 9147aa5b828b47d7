"""Random faults of the disks under a mount and a receiver (disk_faults.py).

    /usr/bin/python3 -m pytest Tests/EndToEnd/test_disk_faults.py --fresh --rounds 300     (scripts/test --long)
    … --seed N      plays one round again
"""

import random

import pytest

import seeds
from disk_faults import Round
from failing_disk import FailingDisk
from promises import require

FIXED_SEEDS = [1, 2, 3, 4, 5, 6]
ACTS = 25


def pytest_generate_tests(metafunc):
    seeds.parametrize(metafunc, FIXED_SEEDS)


def test_whatever_a_disk_refuses_nothing_is_lost_or_published_in_part(seed, folder, new_mount, new_receiver, tmpfs):
    play(Round(drawn(seed), folder, new_mount, new_receiver, tmpfs))


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_whatever_a_real_disk_refuses_nothing_is_published_in_part(request, folder, new_mount, new_receiver, tmpfs, kind):
    """With --fresh, as many rounds on each filesystem as a tenth of --rounds; without, one that is not drawn."""
    require("root")
    require("loop-devices")
    option = request.config.getoption
    rounds = max(1, (option("--rounds") or 100) // 10) if option("--fresh") else 1
    for number in range(rounds):
        own = folder / f"round{number}"
        own.mkdir()
        disk = FailingDisk(own / "disk", kind)
        seed = drawn(option("--seed") if option("--seed") is not None else "fresh" if option("--fresh") else 1)
        round_ = Round(seed, own, new_mount, new_receiver, tmpfs, disk=disk)
        try:
            play(round_)
        finally:
            left = round_.close()
            disk.close()
        assert not left, "\n".join(left)


def drawn(seed):
    return random.SystemRandom().randrange(1 << 30) if isinstance(seed, str) else seed


def play(round_):
    try:
        round_.run(ACTS)
    except BaseException:
        print(f"seed {round_.seed}", round_.describe(), round_.mount.program and round_.mount.program.log,
              round_.receiver.program.log, sep="\n")
        raise
