"""Damage that is done to files: by disks, by hand, by other programs."""

import os
import pathlib
import shutil


def _bytes(path):
    return path.read_bytes() if path.is_file() and not path.is_symlink() else b""


def cut(path, elsewhere):
    os.truncate(path, path.stat().st_size // 2)


def empty(path, elsewhere):
    os.truncate(path, 0)


def zero(path, elsewhere):
    size = path.stat().st_size
    path.write_bytes(bytes(size))


def flip(path, elsewhere):
    content = bytearray(path.read_bytes())
    if content:
        content[len(content) // 2] ^= 0x10
        path.write_bytes(content)


def delete(path, elsewhere):
    path.unlink()


def make_folder(path, elsewhere):
    path.unlink()
    path.mkdir()
    (path / "inside").write_bytes(b"inside")


def link(path, elsewhere):
    shutil.copy(path, elsewhere)
    path.unlink()
    path.symlink_to(elsewhere)


def hard_link(path, elsewhere):
    os.link(path, elsewhere)


def pipe(path, elsewhere):
    path.unlink()
    os.mkfifo(path, 0o600)


def give_away(path, elsewhere):
    os.chown(path, 65534, 65534)


# By name. Each takes a file, and the path of another one beside which it may leave something.
WAYS = {way.__name__.replace("_", "-"): way for way in (cut, empty, zero, flip, delete, make_folder, link, hard_link, pipe, give_away)}


def files_below(folder):
    """The files below a folder, as paths relative to it."""
    folder = pathlib.Path(folder)
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
