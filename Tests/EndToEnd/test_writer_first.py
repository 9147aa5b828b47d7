"""The writer comes first: what reads, hashes and sends has a lower priority than what answers the kernel, and holds nothing
that this needs; and a recording does not push out of memory what the machine works with."""

import contextlib
import ctypes
import json
import mmap
import os
import pathlib
import random
import subprocess
import sys
import threading
import time

import pytest

from harness import sha256, wait_until, write_random

MIB = 1 << 20
LOWERED = {"curl", "hash", "frames"}
# What answers the kernel, decides, or does what such a thread may wait for.
ANSWERING = {
    "uploadfs-mount", "fuse", "fuse-notifier", "disk-inquiry", "engine", "read", "loader", "journal", "names", "copies", "status",
    "signals", "drain", "flush-closed", "flush-growing", "watch-spool", "network", "search-spool", "search", "credentials",
    "spool-identity", "resolver", "output"}
STEPS = {"normal": 0, "low": 13, "lowest": 19}


def threads(program):
    """Name and niceness of each thread of a program, by its number."""
    found = {}
    for task in pathlib.Path(f"/proc/{program.process.pid}/task").iterdir():
        with contextlib.suppress(OSError):
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
            found[int(task.name)] = name, int(rest.split()[16])
    return found


@pytest.mark.parametrize("priority", STEPS)
def test_each_thread_has_the_priority_of_its_role(new_mount, receiver, priority):
    """A kind of thread that is not named above fails this test, until it is known for whom it works."""
    mount = new_mount(receiver, *(() if priority == "low" else ("--upload-priority", priority)))
    own = os.getpriority(os.PRIO_PROCESS, 0)
    seen = set()
    for number in range(4):
        write_random(mount.root / f"take{number}.mov", 16 * MIB, number)
        for name in os.listdir(mount.root):
            (mount.root / name).stat()
        seen |= set(threads(mount.program).values())
    mount.wait_all()
    seen |= set(threads(mount.program).values())
    assert {name for name, _ in seen} <= LOWERED | ANSWERING, "what does it work for?"
    assert {name for name, _ in seen} >= LOWERED - {"frames"} | {"uploadfs-mount", "fuse", "engine", "read", "journal"}
    lowered = min(19, own + STEPS[priority])
    assert {(name, lowered if name in LOWERED else own) for name, _ in seen} == seen


class Standstill:
    """Threads that stand still at whatever instruction they have come to, as a lowered one does on a busy machine, only longer.

    None stands in the C library itself: its allocator gives memory back to the arena that it is from, under that arena's lock, which
    the thread that asked for the memory needs too. That is a microsecond which no program can leave out; seen in one of 1,200 rounds."""

    CONTINUE, SEIZE, INTERRUPT, DETACH, ALL_CLONES = 7, 0x4206, 0x4207, 17, 0x40000000
    libc = ctypes.CDLL(None, use_errno=True)

    def __init__(self, program, numbers):
        self.process = pathlib.Path(f"/proc/{program.process.pid}")
        self.numbers = numbers
        self.library = [
            tuple(int(end, 16) for end in line.split()[0].split("-"))
            for line in (self.process / "maps").read_text().splitlines() if "/libc.so" in line and "x" in line.split()[1]]
        assert self.library

    def is_in_the_library(self, number):
        """Waiting in one of its system calls is being in the kernel."""
        call, *_, place = (self.process / "task" / str(number) / "syscall").read_text().split()
        return call == "-1" and any(start <= int(place, 16) < end for start, end in self.library)

    def call(self, request, number):
        if self.libc.ptrace(request, number, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of thread {number}")

    def __enter__(self):
        for number in self.numbers:
            self.call(self.SEIZE, number)
        moving = self.numbers
        while moving:
            for number in moving:
                self.call(self.INTERRUPT, number)
            for number in moving:
                os.waitpid(number, self.ALL_CLONES)
            moving = [number for number in moving if self.is_in_the_library(number)]
            for number in moving:
                self.call(self.CONTINUE, number)
        return self

    def __exit__(self, *_):
        for number in self.numbers:
            self.call(self.DETACH, number)


def work(mount, number):
    """What programs do with a mount."""
    path = mount.root / f"small{number}.bin"
    with open(path, "wb", buffering=0) as file:
        for _ in range(4):
            file.write(os.urandom(300_000))
        file.seek(5)
        file.write(b"patched")
        assert os.fstat(file.fileno()).st_size == 1_200_000
    with open(mount.root / "large0.bin", "r+b", buffering=0) as file:
        file.read(MIB)
        os.pwrite(file.fileno(), os.urandom(1000), number * MIB)
    path.rename(mount.root / f"renamed{number}.bin")
    assert f"renamed{number}.bin" in os.listdir(mount.root)
    json.loads((mount.root / "status" / "large1.bin.json").read_text())
    json.loads((mount.root / ".uploadfs" / "summary.json").read_text())
    if number % 2:
        (mount.root / f"renamed{number}.bin").unlink()


def test_lowered_threads_that_stand_still_hold_nobody_up(new_mount, receiver):
    """On a busy machine a lowered thread may stand still for a fifth of a second wherever it is: it must hold no lock then that a
    thread needs which answers the kernel."""
    mount = new_mount(receiver)
    draw = random.Random(15)
    for number in range(4):
        write_random(mount.root / f"large{number}.bin", 48 * MIB, number)
    slowest = 0
    for number in range(40):
        time.sleep(draw.uniform(0, 0.02))
        lowered = [thread for thread, (name, _) in threads(mount.program).items() if name in LOWERED]
        failures = []

        def attempt():
            try:
                work(mount, number)
            except Exception as failure:
                failures.append(failure)

        with Standstill(mount.program, lowered):
            begun = time.monotonic()
            worker = threading.Thread(target=attempt)
            worker.start()
            worker.join(10)
            is_held_up = worker.is_alive()
        worker.join()
        assert not failures, failures
        assert not is_held_up, f"round {number}: calls waited for a lowered thread"
        slowest = max(slowest, time.monotonic() - begun)
    mount.wait_all()
    for number in range(4):
        assert sha256(receiver.files / f"large{number}.bin") == sha256(mount.root / f"large{number}.bin")


@contextlib.contextmanager
def all_processors_taken():
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_an_upload_goes_on_where_others_take_all_processors(new_mount, new_receiver):
    """Its watchdogs take nothing for dead that is only slow."""
    receiver = new_receiver()
    mount = new_mount(receiver)
    with all_processors_taken():
        write_random(mount.root / "take.mov", 32 * MIB)
        mount.wait_for("take.mov", "complete", timeout=180)
    assert sha256(receiver.files / "take.mov") == sha256(mount.root / "take.mov")
    assert mount.status("take.mov")["chunks"]["retried"] == 0


# The page cache.


def bytes_in_memory(path):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    size = path.stat().st_size
    with open(path, "rb") as file:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    assert libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages) == 0
    libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
    return sum(page & 1 for page in pages) * mmap.PAGESIZE


def lies_in_memory(folder):
    """There the pages are the files."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder], check=True, stdout=subprocess.PIPE, text=True).stdout
    return kind.strip() in ("tmpfs", "ramfs")


@pytest.mark.parametrize("destinations", [1, 2])
def test_a_recording_leaves_the_page_cache(new_mount, new_receiver, folder, destinations):
    """Of 400 MiB, which is beyond the 256 MiB from which pages are dropped: what was acknowledged before it was so long as well."""
    if lies_in_memory(folder):
        pytest.skip("the folder for temporary files lies in memory")
    first, second = new_receiver(), new_receiver(name="second") if destinations == 2 else None
    further = () if second is None else (
        "--destination", f"second to={second.url} token-file={second.token_file} ca={second.ca}", "--rule",
        "** to=main,second")
    mount = new_mount(first, *further)
    in_spool = mount.spool / "captures" / "take.mov"
    with open(mount.root / "take.mov", "wb", buffering=0) as file:
        block = os.urandom(MIB)
        for number in range(400):
            file.write(number.to_bytes(8, "little") + block[8:])
            time.sleep(0.005)
        if destinations == 1:
            wait_until(lambda: bytes_in_memory(in_spool) < 200 * MIB, "what was acknowledged goes while it is written")
    mount.wait_for("take.mov", "complete")
    wait_until(lambda: bytes_in_memory(in_spool) == 0, lambda: f"{bytes_in_memory(in_spool)} bytes are in memory", timeout=80)
