"""Ports for programs that cannot be asked which one they got, and for those that come back on the one they had."""

import os
import socket
from itertools import cycle
from pathlib import Path

_LEAST = 10_000
# The system gives these and higher ones to every connection that is made: a server that stops and starts on one of
# them may find it taken.
_END = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
if _END < 2 * _LEAST:
    _END = 65_536  # a machine whose system gives them nearly all: a port may be taken meanwhile
# Each process of the tests begins at another place.
_begin = os.getpid() * 7_919 % (_END - _LEAST)
_candidates = cycle([*range(_LEAST + _begin, _END), *range(_LEAST, _LEAST + _begin)])


def free_ports(count: int) -> list[int]:
    """Different loopback ports that no process uses now, and that the system gives to no connection."""
    found: list[int] = []
    while len(found) < count:
        port = next(_candidates)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue  # somebody has it
        found.append(port)
    return found
