"""Options of the network's own tests."""

import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "EndToEnd"))

from network_fixture import new_network  # noqa: F401 — for the tests here


def pytest_addoption(parser):
    parser.getgroup("network").addoption(
        "--all-rates", action="store_true", help="iperf3 at every rate with every congestion control")


def pytest_configure(config):
    config.addinivalue_line("markers", "all_rates: part of the long matrix, with --all-rates only")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--all-rates"):
        for item in items:
            if item.get_closest_marker("all_rates"):
                item.add_marker(pytest.mark.skip(reason="with --all-rates only"))
