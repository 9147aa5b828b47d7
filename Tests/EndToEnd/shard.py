"""A shard of the tests (a worker of pytest-xdist) has a network namespace of its own: a port that one shard lets go of is
never taken by another one."""

import ctypes
import fcntl
import os
import socket
import struct

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1


def is_shard(config):
    return hasattr(config, "workerinput")


def enter_network_namespace():
    """Moves this thread, and what it starts, to a new network namespace whose loopback interface is up.

    Only the thread that runs the tests moves: xdist's own threads talk through pipes. An ordinary user may not move; its
    shards share the machine's network, where a port is taken again only after a turn through all others.
    """
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"no network namespace for this shard: {os.strerror(code)}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
