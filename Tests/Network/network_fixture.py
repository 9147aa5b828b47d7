"""Networks for tests. A conftest.py that imports `new_network` has it."""

import pytest

from network import Network
from promises import require


@pytest.fixture
def new_network():
    """Makes networks: new_network(path(…), congestion=…) runs."""
    require("root")
    made = []

    def make(*paths, **options):
        made.append(Network(*paths, **options))
        return made[-1].start()

    yield make
    for network in made:
        network.close()
    assert not any(network.left for network in made), "processes were left in a network"
