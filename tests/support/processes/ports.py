"""Ports for programs that cannot be asked which one they got, and for those that come back on the one they had."""

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from pathlib import Path

_LEAST = 10_000
# The system gives these and higher ones to every connection that is made: a server that stops and starts on one of
# them may find it taken.
_END = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
if _END < 2 * _LEAST:
    _END = 65_536  # a machine whose system gives them nearly all: a port may be taken meanwhile
_PORTS_PER_PROCESS = 400  # a test has a few, and gives them back


def free_ports(count: int) -> list[int]:
    """Different loopback ports that no process uses now, and that are given to no connection and to no other process
    of the tests."""
    found: list[int] = []
    while len(found) < count:
        port = next(_own_ports())
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue  # somebody has it
        found.append(port)
    return found


@cache
def _own_ports() -> Iterator[int]:
    """Of this process, as long as it runs: it holds the lock of a file for them. Between the look at a port and the
    program that takes it another process would take it as well."""
    directory = Path(tempfile.gettempdir()) / f"penstock-test-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    firsts = range(_LEAST, _END - _PORTS_PER_PROCESS + 1, _PORTS_PER_PROCESS)
    for at in range(len(firsts)):
        first = firsts[(os.getpid() + at) % len(firsts)]
        lock = os.open(directory / str(first), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        return cycle(range(first, first + _PORTS_PER_PROCESS))
    raise RuntimeError(f"{len(firsts)} other processes have all ports for tests; their locks are in {directory}")
