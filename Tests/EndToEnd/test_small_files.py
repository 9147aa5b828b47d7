"""Many small files: they travel together, and each is delivered for itself, whatever dies meanwhile."""

import os
import random
import threading

from harness import wait_until
from throttle import ThrottlingProxy

COUNT = 400


def contents(seed=1):
    """Sizes on both sides of every border: empty, small, and more than travels with others; random bytes."""
    random_source = random.Random(seed)
    sizes = [0, 1, 65_536, 65_537, 300_000] + [random_source.randrange(1, 60_000) for _ in range(COUNT - 5)]
    return {f"shot-{number:04}.raw": random_source.randbytes(size) for number, size in enumerate(sizes)}


def write(mount, files):
    for name, content in files.items():
        (mount.root / name).parent.mkdir(exist_ok=True)
        (mount.root / name).write_bytes(content)


def assert_delivered(receiver, files):
    published = receiver.published()
    assert sorted(files.keys() - published.keys()) == [] and sorted(published.keys() - files.keys()) == []
    for name, content in files.items():
        assert (receiver.files / name).read_bytes() == content, name


def test_small_files_travel_together(new_mount, receiver):
    files = contents()
    # Slower than they are written, so that they gather.
    with ThrottlingProxy(receiver.port, rate=8_000_000) as proxy:
        mount = new_mount(receiver, to=f"https://127.0.0.1:{proxy.port}")
        write(mount, files)
        mount.wait_all()
    assert_delivered(receiver, files)
    stats = receiver.stats()
    assert stats["files_published"] == COUNT
    assert stats["bundles_received"] >= 5, stats
    assert stats["requests"] < COUNT, f"fewer requests than files: {stats}"
    receipts = {mount.status(name)["receipt"]["id"] for name in files}
    assert len(receipts) == COUNT, "each has a receipt of its own"


def test_kill_of_the_receiver_while_small_files_come(new_mount, receiver):
    files = contents(2)
    mount = new_mount(receiver)
    writer = threading.Thread(target=write, args=(mount, files))
    writer.start()
    wait_until(lambda: len(receiver.published()) >= 50, "50 files are published")
    receiver.kill()
    writer.join()
    receiver.start()
    mount.wait_all()
    assert_delivered(receiver, files)


def test_kill_of_the_mount_while_small_files_are_sent(new_mount, receiver):
    files = contents(3)
    with ThrottlingProxy(receiver.port, rate=4_000_000) as proxy:
        mount = new_mount(receiver, to=f"https://127.0.0.1:{proxy.port}")
        write(mount, files)
        wait_until(lambda: len(receiver.published()) >= 50, "50 files are published")
        mount.kill()
        proxy.cut()
        assert len(receiver.published()) < COUNT, "the upload must not be over for this test to mean something"
        proxy.rate = None
        mount.start()
        mount.wait_all()
    assert_delivered(receiver, files)


def test_one_that_is_refused_does_not_hold_up_the_others(new_mount, receiver):
    """A link stands in the way of one name, and only of that one."""
    files = contents(4)
    files["elsewhere/shot.raw"] = files.pop("shot-0100.raw")
    receiver.files.mkdir(exist_ok=True)
    (receiver.files / "elsewhere").symlink_to("/")
    with ThrottlingProxy(receiver.port, rate=8_000_000) as proxy:
        mount = new_mount(receiver, to=f"https://127.0.0.1:{proxy.port}")
        write(mount, files)
        wait_until(lambda: mount.summary()["files"]["complete"] == COUNT - 1, "all others are complete", timeout=120)
        status = mount.readings("elsewhere/shot.raw", lambda reading: reading["last_error"])[-1]
        assert status["state"] != "complete"
        assert status["last_error"]["message"]
        (receiver.files / "elsewhere").unlink()
        mount.say("retry", "elsewhere/shot.raw")
        mount.wait_all()
    assert_delivered(receiver, files)
