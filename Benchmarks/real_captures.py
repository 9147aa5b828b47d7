"""Captures for Benchmarks/compression that were not made up: test data of scientific packages of PyPI, and what recorders write here.

What cannot be had is named, and left out. Files of one kind are put one behind the other, and none twice: a part that comes again within the
reach of a compressor would be found."""

import array
import contextlib
import random
import socket
import subprocess
import threading
import time

from plain_server import Unavailable
from support import MIB, REPOSITORY, note
from upload_servers import installed

FOLDER = REPOSITORY / ".build" / "benchmark-captures"
PACKAGES = {"pydicom": "3.0.2", "nibabel": "5.4.2", "obspy": "1.5.1", "scikit-image": "0.26.0", "numpy": None}
SECONDS = 20

# Camera of scikit-image's stereo pair: focal length in pixels, distance of the lenses in metres, the middle of the picture.
POINTS = """
import pathlib, struct, sys, zlib
import numpy
folder, kind = pathlib.Path(sys.argv[1]), sys.argv[2]
def rgb(path):
    data, rows, position = path.read_bytes(), [], 8
    compressed = b""
    while position < len(data):
        length, name = struct.unpack(">I4s", data[position:position + 8])
        body = data[position + 8:position + 8 + length]
        if name == b"IHDR": width, height, depth, colour = struct.unpack(">IIBB", body[:10])
        if name == b"IDAT": compressed += body
        position += 12 + length
    if (depth, colour) not in ((8, 2), (8, 6)): sys.exit(f"{path} has another form")
    channels = 3 if colour == 2 else 4
    plain, stride = zlib.decompress(compressed), width * channels
    before = numpy.zeros(stride, numpy.uint8)
    for row in range(height):
        kind, line = plain[row * (stride + 1)], numpy.frombuffer(plain, numpy.uint8, stride, row * (stride + 1) + 1).copy()
        if kind == 2: line += before
        elif kind in (1, 3, 4):
            for x in range(stride):
                left = int(line[x - channels]) if x >= channels else 0
                up, corner = int(before[x]), int(before[x - channels]) if x >= channels else 0
                if kind == 1: guess = left
                elif kind == 3: guess = (left + up) // 2
                else: guess = min((left, up, corner), key=lambda value: abs(left + up - corner - value))
                line[x] = (int(line[x]) + guess) & 255
        rows.append(line); before = line
    return numpy.array(rows).reshape(height, width, channels)[:, :, :3]
disparity = numpy.load(folder / "motorcycle_disp.npz")["arr_0"].astype(numpy.float32)
rows, columns = disparity.shape
known = numpy.isfinite(disparity) & (disparity > 0)
depth = numpy.where(known, 994.978 * 0.193001 / numpy.where(known, disparity + 31.086, 1), 0).astype(numpy.float32)
if kind == "depth": sys.stdout.buffer.write(depth.tobytes()); sys.exit()
v, u = numpy.mgrid[0:rows, 0:columns].astype(numpy.float32)
cloud = numpy.stack([(u - 311.193) * depth / 994.978, (v - 254.877) * depth / 994.978, depth], -1)[known]
if kind == "points": sys.stdout.buffer.write(cloud.astype("<f4").tobytes()); sys.exit()
colour = rgb(folder / "motorcycle_left.png")[:rows, :columns][known]
if kind == "colour":
    records = numpy.zeros(len(cloud), [("p", "<f4", 3), ("c", "u1", 3)])
    records["p"], records["c"] = cloud, colour
    sys.stdout.buffer.write(records.tobytes()); sys.exit()
lines = [f"{x:.6g} {y:.6g} {z:.6g} {r} {g} {b}" for (x, y, z), (r, g, b) in zip(cloud.tolist(), colour.tolist())]
head = ["ply", "format ascii 1.0", f"element vertex {len(lines)}", "property float x", "property float y", "property float z",
        "property uchar red", "property uchar green", "property uchar blue", "end_header"]
sys.stdout.buffer.write("\\n".join(head + lines + [""]).encode())
"""


def install():
    """The packages, and the recorders of Debian's; once."""
    listed = " ".join(f"{name}=={version}" if version else name for name, version in PACKAGES.items())
    for package in ("ffmpeg", "sox", "wireshark-common"):
        subprocess.run(
            ["bash", "-c", f". scripts/set-up.sh && install_packages {package} >&2"], cwd=REPOSITORY, stdin=subprocess.DEVNULL)
    if (FOLDER / "packages").is_file() and (FOLDER / "packages").read_text() == listed:
        return
    note(f"installing into {FOLDER}: {listed}")
    subprocess.run(["/usr/bin/python3", "-m", "venv", str(FOLDER)], check=False)
    # Their test data are wanted, and numpy; of what else they need nothing runs.
    done = subprocess.run([str(FOLDER / "bin" / "pip"), "install", "--quiet", "--no-deps", *listed.split()], check=False)
    if done.returncode == 0:
        (FOLDER / "packages").write_text(listed)


def package(name):
    for folder in sorted(FOLDER.glob(f"lib/python3*/site-packages/{name}")):
        return folder
    raise Unavailable(f"{name} of PyPI could not be installed")


def together(name, *patterns):
    """The files of a package that match, but for those that are much the same."""
    contents = {}
    for pattern in patterns:
        for path in sorted(package(name).glob(pattern)):
            content = path.read_bytes()
            contents.setdefault((len(content), content[:4096]), content)
    if not contents:
        raise Unavailable(f"{name} of PyPI has no {', '.join(patterns)}")
    return b"".join(contents.values())


def stereo(kind):
    folder = package("skimage") / "data"
    for name in ("motorcycle_disp.npz", "motorcycle_left.png"):
        if not (folder / name).is_file():
            raise Unavailable(f"scikit-image of PyPI has no {name} in it")
    done = subprocess.run([str(FOLDER / "bin" / "python3"), "-c", POINTS, folder, kind], capture_output=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"no {kind} of the stereo pair: {done.stderr.decode(errors='replace')[-300:]}")
    return done.stdout


def recorded(*command, suffix):
    """What a recorder writes into a file."""
    program = installed(command[0])
    target = FOLDER / f"recorded{suffix}"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    words = [str(target) if word == "FILE" else str(word) for word in command[1:]]
    done = subprocess.run([program, *words], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0 or not target.is_file():
        raise Unavailable(f"{command[0]} failed: {done.stderr.decode(errors='replace')[-300:]}")
    content = target.read_bytes()
    target.unlink()
    return content


def voices():
    """A film's sound, 24 bits: voices with room noise."""
    return recorded(
        "sox", "-n", "-r", 48000, "-b", 24, "-c", 2, "FILE", "synth", 60, "pluck", "E2", "synth", 60, "pinknoise", "mix", "vol", 0.3,
        suffix=".wav")


def camera_sound():
    return recorded(
        "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=frequency=220:sample_rate=48000:duration=60", "-f", "lavfi", "-i",
        "anoisesrc=color=brown:amplitude=0.02:sample_rate=48000:duration=60:seed=1", "-filter_complex", "amix=inputs=2", "-c:a",
        "pcm_s16le", "FILE", suffix=".wav")


def raw_frames():
    """A raw camera's frames of 16 bits, grey, with noise."""
    return recorded(
        "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=10:duration=2", "-vf",
        "format=gray16le,noise=alls=4:allf=t:all_seed=1", "-f", "rawvideo", "-pix_fmt", "gray16le", "FILE", suffix=".raw")


def encoded_film():
    """Nothing is left to gain."""
    return recorded(
        "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=30:duration=4", "-vf", "noise=alls=20:allf=t:all_seed=1",
        "-c:v", "mpeg4", "-q:v", 5, "FILE", suffix=".mp4")


def traffic():
    """An instrument's packets: counters, times and samples that change a little."""
    program = installed("dumpcap")
    target = FOLDER / "recorded.pcapng"
    FOLDER.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    ended = threading.Event()

    def send(port):
        samples, source = array.array("h", bytes(600)), random.Random(1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            number = 0
            while not ended.is_set():
                for _ in range(100):
                    number += 1
                    for place, step in enumerate(source.randbytes(len(samples))):
                        samples[place] = (samples[place] + step % 9 - 4 + 32768) % 65536 - 32768
                    with contextlib.suppress(OSError):
                        out.sendto(number.to_bytes(8, "little") + time.time_ns().to_bytes(8, "little") + samples.tobytes(), ("127.0.0.1", port))
                time.sleep(0.02)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        sender = threading.Thread(target=send, args=(port,), daemon=True)
        sender.start()
        done = subprocess.run(
            [program, "-q", "-i", "lo", "-f", f"udp port {port}", "-a", f"duration:{SECONDS}", "-w", str(target)], capture_output=True,
            stdin=subprocess.DEVNULL, check=False)
        ended.set()
        sender.join()
    if done.returncode != 0 or not target.is_file():
        raise Unavailable(f"dumpcap failed: {done.stderr.decode(errors='replace')[-300:]}")
    content = target.read_bytes()
    target.unlink()
    return content


CAPTURES = {
    "point cloud": lambda: stereo("points"), "point cloud, colour": lambda: stereo("colour"), "point cloud, PLY": lambda: stereo("text"),
    "depth map": lambda: stereo("depth"),
    "DICOM": lambda: together("pydicom", "data/test_files/*.dcm"),
    "seismic, SAC": lambda: together("obspy", "**/tests/data/*.sac", "**/tests/data/*.SAC"),
    "seismic, miniSEED": lambda: together("obspy", "io/mseed/tests/data/*.mseed"),
    "NIfTI, BRIK, REC": lambda: together("nibabel", "tests/data/*.nii", "tests/data/*.BRIK", "tests/data/*.REC"),
    "sound, 16 bits": camera_sound, "sound, 24 bits": voices, "raw frames": raw_frames, "encoded film": encoded_film, "packets": traffic}


def real_captures(names=None):
    """Name and content of each that can be had, and why the others cannot."""
    install()
    found, missing = {}, {}
    for name in names or CAPTURES:
        try:
            content = CAPTURES[name]()
        except Unavailable as reason:
            missing[name] = str(reason)
        else:
            found[name] = content[:256 * MIB]
    return found, missing
