"""Programs that look closely find what a local directory shows."""

import ctypes
import mmap
import multiprocessing
import os
import struct
import time

import pytest

from filesystems import libc

MIB = 1 << 20


# The numbers on x86-64, where glibc has no functions for them.
CALLS = {"io_setup": 206, "io_destroy": 207, "io_getevents": 208, "io_submit": 209}


def kernel_call(name, *arguments):
    result = libc.syscall(CALLS[name], *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


class AsynchronousWrites:
    """Linux's own asynchronous input and output (io_submit(2)), as recorders and databases use it."""

    def __init__(self):
        self.context = ctypes.c_ulong(0)
        kernel_call("io_setup", 8, ctypes.byref(self.context))

    def write(self, descriptor, buffer, offset):
        """One write, and its end."""
        address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        # struct iocb: data, key, flags, opcode (1: pwrite), priority, descriptor, buffer, bytes, offset, …
        block = ctypes.create_string_buffer(
            struct.pack("<QIIHhIQQqQII", 0, 0, 0, 1, 0, descriptor, address, len(buffer), offset, 0, 0, 0))
        pointer = ctypes.pointer(block)
        kernel_call("io_submit", self.context, 1, ctypes.byref(pointer))
        event = (ctypes.c_longlong * 4)()
        assert kernel_call("io_getevents", self.context, 1, 1, ctypes.byref(event), None) == 1
        assert event[2] == len(buffer), event[2]

    def close(self):
        kernel_call("io_destroy", self.context)


def read_for_ever(path):
    with open(path, "rb") as file:
        while True:
            os.pread(file.fileno(), MIB, 0)


@pytest.mark.promises("S8a", "S13a")
def test_a_reader_sees_what_asynchronous_direct_writes_have_written(mount):
    """Regression: old pages stayed in the kernel's cache, also for later opens."""
    path = mount.root / "a.dat"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    os.ftruncate(descriptor, MIB)
    writes = AsynchronousWrites()
    reader = multiprocessing.get_context("fork").Process(target=read_for_ever, args=(path,))
    reader.start()
    stale = 0
    try:
        with mmap.mmap(-1, MIB) as buffer:
            for byte in range(1, 100):
                buffer[:] = bytes([byte]) * MIB
                writes.write(descriptor, buffer, 0)
                with open(path, "rb", buffering=0) as file:
                    stale += os.pread(file.fileno(), MIB, 0) != buffer[:]
    finally:
        reader.kill()
        reader.join()
        writes.close()
        os.close(descriptor)
    assert stale == 0


@pytest.mark.promises("S18d")
def test_the_time_of_the_last_change_is_of_the_users_changes(mount):
    """Regression: it moved a second after the close, and tar said “file changed as we read it”."""
    path = mount.root / "a.dat"
    path.write_bytes(os.urandom(1000))
    # A read has the kernel ask for the attributes anew.
    path.read_bytes()
    before = os.stat(path)
    mount.readings("a.dat", lambda status: status["local_durability"] == "on-disk" and status["state"] == "complete")
    path.read_bytes()
    assert os.stat(path).st_ctime_ns == before.st_ctime_ns
    time.sleep(0.01)
    os.chmod(path, 0o600)
    assert os.stat(path).st_ctime_ns > before.st_ctime_ns


@pytest.mark.promises("S6c")
@pytest.mark.parametrize("is_delivered", [False, True])
def test_a_deleted_file_is_reached_through_a_descriptor_that_only_names_it(mount, is_delivered):
    path = mount.root / "a.dat"
    path.write_bytes(b"content")
    if is_delivered:
        mount.readings("a.dat", lambda status: status["state"] == "complete")
    descriptor = os.open(path, os.O_PATH)
    path.unlink()
    assert os.fstat(descriptor).st_nlink == 0
    with open(f"/proc/self/fd/{descriptor}", "rb") as file:
        assert file.read() == b"content"
    os.close(descriptor)
