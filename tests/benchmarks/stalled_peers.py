"""Stalled connections: how soon a server is rid of them, and what they cost a real client meanwhile.

    python -m tests.benchmarks.stalled_peers [--connections 1500]

Each connection stops in the middle of something: the magic, a command line, a body's length, a body, an HTTP head, an
HTTP body. Targets: all are gone within 15 s, and the p99 of a client that publishes beside them is at most twice as
long as without them. Rounds with and without them alternate.
"""

import argparse
import resource
import selectors
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from tests.support.nsq_socket import NsqSocket
from tests.support.processes.engine_process import EngineProcess

GONE_WITHIN_S = 15.0
P99_RATIO_MAX = 2.0
PUBLISHES = 1_000  # a round
PATIENCE_S = 120.0

# Begun, and never ended. The port it is for, and the bytes.
STALLED = (
    ("tcp", b""),
    ("tcp", b"  "),
    ("tcp", b"  V2PUB orders"),
    ("tcp", b"  V2PUB orders\n\0\0"),
    ("tcp", b"  V2PUB orders\n" + struct.pack(">i", 1_000) + b"half"),
    ("tcp", b"  V2MPUB orders\n" + struct.pack(">ii", 4 << 20, 1_000)),
    ("tcp", b"  V2IDENTIFY\n" + struct.pack(">i", 100) + b"{"),
    ("http", b""),
    ("http", b"GET /ping HTTP/1.1\r\nHost: "),
    ("http", b"POST /pub?topic=orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf"),
    ("http", b"POST /mpub?topic=orders HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"),
)


class Stalled:
    """Connections that stall, until the server ends them."""

    def __init__(self, server: EngineProcess, count: int) -> None:
        self._selector = selectors.DefaultSelector()
        self.left = 0
        for number in range(count):
            door, begun = STALLED[number % len(STALLED)]
            port = server.tcp_port if door == "tcp" else server.http_port
            client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
            client.sendall(begun)
            client.setblocking(False)
            self._selector.register(client, selectors.EVENT_READ)
            self.left += 1

    def look(self, seconds: float) -> None:
        """Take what comes; forget those that the server has ended."""
        for key, _ in self._selector.select(seconds):
            client = key.fileobj
            assert isinstance(client, socket.socket)
            try:
                is_ended = not client.recv(1 << 16)
            except OSError:
                is_ended = True
            if is_ended:
                self._selector.unregister(client)
                client.close()
                self.left -= 1

    def wait(self, seconds: float) -> None:
        """Until all are ended. Raises AssertionError when that takes longer."""
        ends_s = time.monotonic() + seconds
        while self.left:
            self.look(0.2)
            assert time.monotonic() < ends_s, f"{self.left} stalled connections are open after {seconds:g} s"

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()


@contextmanager
def stalled(server: EngineProcess, count: int) -> Iterator[Stalled]:
    peers = Stalled(server, count)
    try:
        yield peers
    finally:
        peers.close()


def publish_ms(server: EngineProcess, count: int) -> list[float]:
    """How long each of so many publishes took, one after the other."""
    found = []
    with NsqSocket(server.tcp_port) as client:
        for _ in range(count):
            began_s = time.perf_counter()
            client.publish("orders", b"x" * 100)
            found.append((time.perf_counter() - began_s) * 1_000)
    return found


def p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


def allow_descriptors() -> None:
    """As many as this process may have: each connection costs it one, too."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=1_500)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    allow_descriptors()
    alone, beside, gone_s = [], [], []
    with tempfile.TemporaryDirectory() as directory, EngineProcess(Path(directory) / "data") as server:
        publish_ms(server, PUBLISHES)
        for _ in range(given.rounds):
            alone.append(p99(publish_ms(server, PUBLISHES)))
            with stalled(server, given.connections) as peers:
                began_s = time.monotonic()
                beside.append(p99(publish_ms(server, PUBLISHES)))
                peers.wait(PATIENCE_S)
                gone_s.append(time.monotonic() - began_s)
    ratio = median(beside) / median(alone)
    print(f"p99 alone {median(alone):.2f} ms, beside stalled connections {median(beside):.2f} ms: {ratio:.2f}")
    print(f"all {given.connections} were gone after {max(gone_s):.1f} s at the most")
    assert ratio <= P99_RATIO_MAX, f"{ratio:.2f} is more than {P99_RATIO_MAX}"
    assert max(gone_s) <= GONE_WITHIN_S, f"{max(gone_s):.1f} s is more than {GONE_WITHIN_S}"


if __name__ == "__main__":
    main()
