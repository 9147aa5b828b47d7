"""What the tests of packages need: the packages of a release, and a machine to install them on."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "EndToEnd"))

from certificates import Authority
from machines import SUITES, Machine


def pytest_addoption(parser):
    parser.addoption("--release", choices=sorted(SUITES), required=True, help="the Debian that the packages are for")


@pytest.fixture(scope="session")
def release(request):
    return request.config.getoption("--release")


def packages(variable, release):
    folder = pathlib.Path(os.environ[variable])
    found = sorted(folder.glob(f"*+deb{release}_*.deb"))
    assert len(found) == 2, f"{variable}={folder} has not the two packages of Debian {release}, but {found}"
    return found


@pytest.fixture(scope="session")
def new_packages(release):
    return packages("PACKAGES", release)


@pytest.fixture(scope="session")
def old_packages(release):
    """The same with a lower number."""
    return packages("OLD_PACKAGES", release)


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates") / "authority")


@pytest.fixture(scope="module")
def machine(release, tmp_path_factory):
    machine = Machine(release, tmp_path_factory.mktemp("machine"))
    yield machine
    machine.close()
