"""Random lives of spools (lives.py).

    /usr/bin/python3 -m pytest Tests/EndToEnd/test_lives.py --fresh --rounds 100     (scripts/test --long)
    … --seed N      plays one round again
"""

import random

import pytest

import seeds
from lives import Round
from promises import needs

pytestmark = needs("root")

FIXED_SEEDS = [1, 2]
ACTS, FRESH_ACTS = 15, 40


def pytest_generate_tests(metafunc):
    seeds.parametrize(metafunc, FIXED_SEEDS)


def test_whatever_becomes_of_a_spool_no_capture_is_lost_replaced_or_sent_twice(seed, folder, new_s3, new_mount, new_receiver, tmpfs):
    if isinstance(seed, str):
        seed = random.SystemRandom().randrange(1 << 30)
    round_ = Round(seed, folder, new_mount, new_receiver, new_s3, tmpfs)
    try:
        round_.run(ACTS if seed in FIXED_SEEDS else FRESH_ACTS)
    except BaseException:
        print(round_.describe())
        raise
