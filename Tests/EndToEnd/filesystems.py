"""What both sides of a comparison need: system calls that Python lacks, and everything that one can see of a tree."""

import ctypes
import ctypes.util
import errno
import hashlib
import multiprocessing
import os
import random
import stat
import subprocess

from promises import installed

libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
AT_FDCWD = -100
RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO = 1, 2, 16


def outcome(action, folder):
    """What an action returned, or the errno that it failed with."""
    try:
        return action(folder)
    except OSError as error:
        return "failed", errno.errorcode.get(error.errno, error.errno)


def tree(folder, times=True):
    """Everything that one can see of a tree, as a comparable value."""
    seen = {}
    for path in sorted(folder.rglob("*"), key=os.fsencode):
        facts = path.lstat()
        kind = stat.S_IFMT(facts.st_mode)
        entry = [kind, stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid]
        if kind == stat.S_IFREG:
            entry += [facts.st_size, facts.st_nlink, hashlib.sha256(path.read_bytes()).hexdigest()]
            if times:
                entry.append(facts.st_mtime_ns)
        if kind == stat.S_IFLNK:
            entry.append(os.readlink(path))
        seen[os.fsencode(path.relative_to(folder))] = entry
    return seen


def opened(path, flags, mode=0o600, then=lambda descriptor: None):
    """Opens, does one thing with the descriptor, and closes."""
    descriptor = os.open(path, flags, mode)
    try:
        return then(descriptor)
    finally:
        os.close(descriptor)


def call(name, *arguments):
    """A function of libc that fails with −1 and errno."""
    result = getattr(libc, name)(*arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result


def renameat2(old, new, flags):
    return call("renameat2", AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags)


def fallocate(descriptor, mode, offset, length):
    return call("fallocate", descriptor, mode, ctypes.c_long(offset), ctypes.c_long(length))


def run(*command, cwd=None, **options):
    program, *arguments = map(str, command)
    done = subprocess.run(
        [installed(program), *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
        **options)
    assert done.returncode == 0, f"{command} failed with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


# What makes a filesystem of each kind: quietly, and whatever the file holds.
_MAKES = {"ext4": ["-q", "-F", "-m", "0"], "xfs": ["-q", "-f"], "btrfs": ["-q", "-f"]}


def make_filesystem(kind, image, *options):
    """A new filesystem in a file.

    mkfs.btrfs asks of every device in the table of mounts whether the file is it, and gives up where one of them lies on a filesystem
    that is gone: a disk whose power was cut, of another test or of a run that was killed. It gets a table without any.
    """
    command = [installed(f"mkfs.{kind}"), *_MAKES[kind], *options, image]
    run("unshare", "--mount", "sh", "-c", 'mount --bind /dev/null "/proc/$$/mounts" && exec "$0" "$@"', *command)


def child(target, *arguments):
    """Runs a function in a process of its own and returns what it returned, or raises its OSError."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def body():
        try:
            sender.send(("returned", target(*arguments)))
        except OSError as error:
            sender.send(("raised", error.errno))

    process = context.Process(target=body)
    process.start()
    assert receiver.poll(60), "the child did not answer within 60 s"
    how, value = receiver.recv()
    process.join()
    if how == "raised":
        raise OSError(value, os.strerror(value))
    return value


def as_user(user, group, target, *arguments):
    def become():
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
        return target(*arguments)

    return child(become)


def make_sample(folder):
    draw = random.Random(1)
    (folder / "sub" / "deeper").mkdir(parents=True)
    (folder / "empty").mkdir()
    for index in range(40):
        path = folder / ["", "sub", "sub/deeper"][index % 3] / f"file {index}"
        path.write_bytes(draw.randbytes(draw.randrange(200_000)))
        os.chmod(path, draw.choice([0o600, 0o644, 0o755, 0o444]))
        os.utime(path, ns=(draw.randrange(1 << 60), draw.randrange(1 << 60)))
    os.link(folder / "file 0", folder / "sub" / "hard link")
    os.symlink("../file 3", folder / "sub" / "link")
    os.mkfifo(folder / "fifo")
    with open(folder / "sparse", "wb") as file:
        file.seek(5 << 20)
        file.write(b"end")
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            os.utime(path, ns=(3, 1_234_567_890_123_456_789))
