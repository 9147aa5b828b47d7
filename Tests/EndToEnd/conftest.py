"""Fixtures: real receivers, real mounts, and a check after each test that nothing of them is left."""

import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Network"))

from certificates import Authority, tls_1_3
from filesystems import make_filesystem, run
from form_servers import Form
from harness import MOUNT_TOOL, RECEIVER_TOOL, Mount, Program, Receiver, mounts_below, unmount_lazily
from lying_servers import LyingServer
from promises import Recorder, require
from network_fixture import new_network  # noqa: F401 — a test asks for it before its mounts, so that it ends after them
from s3_servers import SMALL_PARTS, Moto, Rclone, credentials
from shard import enter_network_namespace, is_shard
from tamper import TamperingProxy
from throttle import ThrottlingProxy


def pytest_addoption(parser):
    group = parser.getgroup("uploadfs", "random tests (test_model.py, test_torment.py, test_combinations.py, test_lives.py, …)")
    group.addoption("--seed", type=int, help="play this seed only")
    group.addoption("--fresh", action="store_true", help="draw other seeds than the fixed ones")
    group.addoption("--kills", type=int, help="how often test_torment.py kills; a tenth as many power cuts")
    group.addoption(
        "--rounds", type=int, help="how many rounds test_combinations.py, test_lives.py and test_disk_faults.py draw with --fresh")
    group.addoption("--cuts", type=int, help="how many power cuts test_power_cuts.py makes with --fresh")
    group.addoption("--seconds", type=float, help="how long each random test draws fresh seeds")


def pytest_configure(config):
    # A shell without job control, and nohup(1), have these ignored; what is started here would inherit that.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for tool in (MOUNT_TOOL, RECEIVER_TOOL):
        if not tool.exists():
            pytest.exit(f"{tool} is missing; run: swift build (or set BINARIES to the folder that holds it)", 2)
    config.pluginmanager.register(Recorder())
    if is_shard(config):
        enter_network_namespace()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure that is seen once, elsewhere, is to tell what the daemons and servers said."""
    report = (yield).get_result()
    if report.failed:
        # A program that was started again has the same log.
        for program in {program.log_path: program for program in Program.started}.values():
            try:
                report.sections.append((f"log of {program.log_path.name}", program.describe()))
            except OSError:
                # Its folder is gone already.
                pass
    if call.when == "teardown":
        Program.started.clear()


@pytest.fixture
def folder():
    """A folder of the test's own, with a short path, world-readable for tests with other users."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="uploadfs-"))
    path.chmod(0o755)
    yield path
    left = mounts_below(path)
    for mount in reversed(left):
        unmount_lazily(mount)
    shutil.rmtree(path, ignore_errors=True)
    assert not left, f"mounts were left: {left}"


@pytest.fixture
def new_receiver(folder):
    """Makes receivers: new_receiver(options…) is started and answers."""
    made = []

    def make(*options, name=None, start=True, **more):
        receiver = Receiver(folder / (name or f"receiver{len(made) or ''}"), *options, **more)
        made.append(receiver)
        return receiver.start() if start else receiver

    yield make
    left = [problem for receiver in made for problem in receiver.close()]
    assert not left, "\n".join(left)


@pytest.fixture
def receiver(new_receiver):
    return new_receiver()


@pytest.fixture
def new_mount(folder, new_receiver):
    """Makes mounts: new_mount(receiver, options…) is mounted. `to` replaces the address, `start=False` waits.

    It asks for `new_receiver` so that mounts end before the receivers do, and can deliver what is left.
    """
    made = []

    def make(receiver, *options, to=None, start=True, name=None, **more):
        more.setdefault("token_file", receiver.token_file if receiver else None)
        more.setdefault("ca", receiver.ca if receiver else None)
        mount = Mount(folder / (name or f"mount{len(made) or ''}"), to or receiver.url, *options, **more)
        made.append(mount)
        return mount.start() if start else mount

    yield make
    left = [problem for mount in made for problem in mount.close()]
    assert not left, "\n".join(left)


@pytest.fixture
def mount(new_mount, receiver):
    """A mount that uploads to `receiver`."""
    return new_mount(receiver)


@pytest.fixture
def new_s3(folder):
    made = []

    def make(kind):
        made.append(kind(folder / kind.program_name))
        return made[-1].start()

    yield make
    left = [problem for server in made for problem in server.close()]
    assert not left, "\n".join(left)


@pytest.fixture(params=[Rclone, Moto], ids=["rclone", "moto"])
def s3(request, new_s3):
    return new_s3(request.param)


@pytest.fixture
def moto(new_s3):
    return new_s3(Moto)


@pytest.fixture
def rclone(new_s3):
    return new_s3(Rclone)


@pytest.fixture
def new_s3_mount(new_s3, new_mount):
    """Mounts on S3 servers; asks for `new_s3` so that mounts end before the servers do."""

    def make(to, *options, environment=None, **more):
        return new_mount(None, *SMALL_PARTS, *options, to=to, environment=environment or credentials(), **more)

    return make


@pytest.fixture
def new_form(folder):
    made = []

    def make(kind=Form, **options):
        made.append(kind(folder / f"form{len(made) or ''}", **options))
        return made[-1].start()

    yield make
    left = [problem for form in made for problem in form.close()]
    assert not left, "\n".join(left)


@pytest.fixture
def form(new_form):
    return new_form()


@pytest.fixture
def new_liar():
    made = []

    def make(protocol, lie, **more):
        made.append(LyingServer(protocol, lie, **more))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def capture(mount):
    """The root of a mount, as a path: for tests that only look at the filesystem."""
    return mount.root


@pytest.fixture
def authority(folder):
    return Authority(folder / "authority")


@pytest.fixture
def tampering(receiver, authority):
    certificate, key = authority.issue("proxy")
    with TamperingProxy(receiver.port, certificate, key, receiver.ca) as proxy:
        yield proxy


@pytest.fixture
def tmpfs(folder):
    """Makes small filesystems: tmpfs(name, size) is an empty folder that holds no more than `size` bytes."""
    require("root")
    made = []

    def make(name, size):
        path = folder / name
        path.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True, text=True,
            stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        made.append(path)
        return path

    yield make
    for path in made:
        unmount_lazily(str(path))


@pytest.fixture
def little_disk(request, folder):
    """A disk of its own, and small: a filesystem of this kind in a file, or in memory."""
    require("root")
    size = {"tmpfs": 64, "ext4": 64, "xfs": 320, "btrfs": 256}[request.param] << 20
    place = folder / "little"
    place.mkdir()
    if request.param == "tmpfs":
        run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place)
    else:
        require("loop-devices")
        image = folder / "little.img"
        with open(image, "wb") as file:
            file.truncate(size)
        make_filesystem(request.param, image)
        run("mount", "-o", "loop", image, place)
    yield place
    unmount_lazily(str(place))


@pytest.fixture
def new_front(authority):
    """Fronts that do TLS 1.3."""
    made = []

    def make(server, rate=None):
        name = f"front{len(made)}"
        made.append(ThrottlingProxy(server.port, rate=rate, tls=tls_1_3(*authority.issue(name))))
        return made[-1].__enter__()

    yield make
    for front in made:
        front.__exit__()
