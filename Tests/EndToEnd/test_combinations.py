"""Random combinations of settings, writers and faults (combinations.py).

    /usr/bin/python3 -m pytest Tests/EndToEnd/test_combinations.py --fresh --rounds 1000     (scripts/test --long)
    … --seed N      plays one round again
"""

import random

import pytest

import seeds
from combinations import Round

FIXED_SEEDS = [1, 2, 3]
ACTS = 30


def pytest_generate_tests(metafunc):
    seeds.parametrize(metafunc, FIXED_SEEDS)


def test_whatever_is_combined_what_was_closed_arrives_and_nothing_else(
        seed, folder, authority, new_mount, new_receiver, tmpfs):
    if isinstance(seed, str):
        seed = random.SystemRandom().randrange(1 << 30)
    round_ = Round(seed, folder, authority, new_mount, new_receiver, tmpfs)
    try:
        round_.play(ACTS)
        round_.settle()
        round_.check()
        round_.check_everything_published()
        round_.check_quiet_restart()
    except BaseException:
        print(f"seed {seed}, {round_.destination.name}:", *round_.did, round_.mount and round_.mount.program.log, sep="\n")
        raise
    finally:
        if round_.mount:
            round_.mount.close()
        left = round_.close()
    assert not left, "\n".join(left)
