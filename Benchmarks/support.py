"""What the parts of the benchmark share: running programs, building, and sizes."""

import argparse
import contextlib
import json
import mmap
import os
import pathlib
import platform
import re
import selectors
import signal
import subprocess
import sys
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
BENCHMARKS = REPOSITORY / "Benchmarks"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


class Failed(Exception):
    """Something that the benchmark needs did not work; the text says what."""


def note(text):
    print(text, file=sys.stderr, flush=True)


def byte_text(count):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} bytes"


def parse_size(text):
    match = re.fullmatch(r"(\d+)\s*(KiB|MiB|GiB|)", text.strip(), re.IGNORECASE)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 64MiB or 1GiB")
    return int(match[1]) * {"": 1, "kib": KIB, "mib": MIB, "gib": GIB}[match[2].lower()]


MADV_POPULATE_WRITE = 23
# What stays untouched of the memory that is available, so that touching pushes nothing out.
UNTOUCHED_BYTES = 512 << 20


def touch_memory(byte_count):
    """Has the system give so many bytes, and lets go of them: what is measured next finds them warm.

    A virtual machine gives memory that lies free back to its host, which takes 5 to 13 µs to bring back each page at its
    first touch. That befalls the one that happens to be measured first, often the reference. A page that was free for a
    second or two may be gone again, so this comes directly before each round.
    """
    available = int(re.search(r"^MemAvailable:\s+(\d+) kB$", pathlib.Path("/proc/meminfo").read_text(), re.MULTILINE)[1]) * KIB
    byte_count = min(byte_count, available - UNTOUCHED_BYTES) // mmap.PAGESIZE * mmap.PAGESIZE
    if byte_count <= 0:
        return
    with mmap.mmap(-1, byte_count) as memory:
        try:
            memory.madvise(MADV_POPULATE_WRITE)
        except OSError:
            # Before Linux 5.14.
            for start in range(0, byte_count, mmap.PAGESIZE):
                memory[start] = 1


class Program:
    """A running program of ours. In a session of its own: Ctrl-C is for the benchmark, which then ends it in order."""

    def __init__(self, arguments, log, variables=None):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("UPLOADFS_")}
        environment |= variables or {}
        self.name = pathlib.Path(arguments[0]).name
        self.log_path = log
        self.log = open(log, "wb")
        self.process = subprocess.Popen(
            [str(argument) for argument in arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
            env=environment, start_new_session=True)
        self.output = b""

    def read_line(self, deadline=60.0):
        """The next line of its standard output."""
        end = time.monotonic() + deadline
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.output:
                if not selector.select(max(0, end - time.monotonic())):
                    raise Failed(f"{self.name} said nothing for {deadline:.0f} s{self.log_tail()}")
                data = os.read(self.process.stdout.fileno(), 65536)
                if not data:
                    raise Failed(f"{self.name} ended early, status {self.process.wait()}{self.log_tail()}")
                self.output += data
        line, self.output = self.output.split(b"\n", 1)
        return line.decode()

    def read_until(self, pattern, deadline=60.0):
        """The first match of a pattern in a line of its standard output."""
        while True:
            if match := re.search(pattern, self.read_line(deadline)):
                return match

    def write_line(self, text=""):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def cpu_seconds(self):
        """Processor time of all its threads, also of those that have ended, to the nanosecond."""
        return time.clock_gettime(processor_clock(self.process.pid))

    def memory(self):
        """Resident bytes now, and the most so far."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        found = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB$", text, re.MULTILINE))
        return int(found["VmRSS"]) * KIB, int(found["VmHWM"]) * KIB

    def log_tail(self):
        lines = self.log_path.read_text(errors="replace").splitlines()[-15:]
        return "".join(f"\n  | {line}" for line in lines)

    def stop(self, first_signal=signal.SIGTERM, patience=15.0):
        """Asks, asks again, then insists."""
        for number in (first_signal, first_signal, signal.SIGKILL):
            if self.process.poll() is not None:
                break
            self.process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()


def processor_clock(process_id):
    """As clock_getcpuclockid(3), which Python lacks. /proc/PID/stat has the same to the hundredth of a second."""
    return ~process_id << 3 | 2


def build(options, products=("uploadfs-mount", "uploadfs-receiver")):
    """The folder with the programs of the product: built, unless BINARIES names it."""
    if "BINARIES" in os.environ:
        return pathlib.Path(os.environ["BINARIES"])
    command = ["swift", "build", "--package-path", str(REPOSITORY), "-c", options.configuration]
    for product in products:
        note(f"building {product} ({options.configuration})")
        run_tool([*command, "--product", product])
    folder = run_tool([*command, "--show-bin-path"]).strip()
    return pathlib.Path(folder)


def release_mountpoint(path):
    """For a mount that died without letting go of its mount point. Always tried: such a mount cannot be seen by stat(2),
    and where none is left this does nothing."""
    command = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
    subprocess.run([*command, str(path)], check=False, stderr=subprocess.DEVNULL)


def compile_helper(name, folder, *libraries):
    output = folder / name
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra"]
    run_tool([os.environ.get("CC", "cc"), *flags, str(BENCHMARKS / f"{name}.c"), "-o", str(output), *libraries])
    return output


def run_tool(command):
    try:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise Failed(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        raise Failed(f"{' '.join(command)} failed:\n{error.stdout}{error.stderr}") from None
    return done.stdout


def run_json(command):
    return json.loads(run_tool([str(part) for part in command]))


def describe_machine():
    model = re.search(r"^model name\s*:\s*(.+)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = model[1] if model else platform.machine()
    system = re.search(r'^PRETTY_NAME="?([^"\n]+)', pathlib.Path("/etc/os-release").read_text(), re.MULTILINE)
    with contextlib.suppress(Failed):
        libcurl = run_tool(["curl-config", "--version"]).strip()
        return f"{name}, {os.cpu_count()} cores, {system[1] if system else 'Linux'}, kernel {platform.release()}, {libcurl}"
    return f"{name}, {os.cpu_count()} cores, kernel {platform.release()}"
