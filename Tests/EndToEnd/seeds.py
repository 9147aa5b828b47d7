"""Seeds of tests that play random rounds: fixed ones, one that is asked for, or fresh ones."""


def parametrize(metafunc, fixed):
    """For `pytest_generate_tests`: gives each test that asks for a `seed` its seeds."""
    if "seed" not in metafunc.fixturenames:
        return
    option = metafunc.config.getoption
    if option("--seed") is not None:
        seeds = [option("--seed")]
    elif option("--fresh"):
        # Drawn in the test: all processes that share the rounds have to name them alike.
        seeds = [f"fresh-{number}" for number in range(option("--rounds") or 100)]
    else:
        seeds = fixed
    metafunc.parametrize("seed", seeds)
