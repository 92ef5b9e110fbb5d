"""Bodies that drip: what connections of one address, 7 bytes a second each, cost a publisher of another address.

    python -m tests.benchmarks.dripping_peers [--connections 200] [--publishes 300]

Each announces 5 MiB over TCP or HTTP, and begins again when the server ends it. Target: the p99 of a PUB of 1 MB beside
them is at most three times as long as without them. Rounds with and without them alternate.
"""

import argparse
import selectors
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from tests.benchmarks.stalled_peers import allow_descriptors, p99
from tests.support.nsq_socket import NsqSocket
from tests.support.processes.engine_process import EngineProcess

P99_RATIO_MAX = 3.0
BODY_BYTES = 5 << 20
DRIP = b"x" * 7
DRIP_EVERY_S = 1.0
DRIPPING_ADDRESS, OWN_ADDRESS = "127.0.0.2", "127.0.0.1"
BEGUN = {
    "tcp": b"  V2MPUB orders\n" + struct.pack(">ii", BODY_BYTES, 1) + struct.pack(">i", BODY_BYTES - 8),
    "http": b"POST /mpub?topic=orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % BODY_BYTES,
}


class Dripping:
    """Connections whose bodies drip, in a thread of its own until `close`. ended_count: those the server has ended."""

    def __init__(self, tcp_port: int, http_port: int, count: int, *, address: str = DRIPPING_ADDRESS) -> None:
        self._address = address
        self._ports = {"tcp": tcp_port, "http": http_port}
        self._selector = selectors.DefaultSelector()
        self._is_closing = threading.Event()
        self.ended_count = 0
        for number in range(count):
            self._begin("http" if number % 2 else "tcp")
        self._thread = threading.Thread(target=self._drip, name="dripping")
        self._thread.start()

    def _begin(self, door: str) -> None:
        client = socket.create_connection(
            (OWN_ADDRESS, self._ports[door]), timeout=30, source_address=(self._address, 0)
        )
        client.sendall(BEGUN[door] + DRIP)
        self._selector.register(client, selectors.EVENT_READ, door)

    def _drip(self) -> None:
        next_s = time.monotonic()
        while not self._is_closing.is_set():
            for key, _ in self._selector.select(0.05):
                self._take(key)
            if time.monotonic() < next_s:
                continue
            next_s += DRIP_EVERY_S
            for key in list(self._selector.get_map().values()):
                try:
                    self._send(key)
                except OSError:
                    self._restart(key)

    def _send(self, key: selectors.SelectorKey) -> None:
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.send(DRIP)

    def _take(self, key: selectors.SelectorKey) -> None:
        assert isinstance(key.fileobj, socket.socket)
        try:
            is_ended = not key.fileobj.recv(1 << 16)
        except OSError:
            is_ended = True
        if is_ended:
            self._restart(key)

    def _restart(self, key: selectors.SelectorKey) -> None:
        assert isinstance(key.fileobj, socket.socket)
        self.ended_count += 1
        self._selector.unregister(key.fileobj)
        key.fileobj.close()
        self._begin(key.data)

    def close(self) -> None:
        self._is_closing.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()


@contextmanager
def dripping(tcp_port: int, http_port: int, count: int, *, address: str = DRIPPING_ADDRESS) -> Iterator[Dripping]:
    peers = Dripping(tcp_port, http_port, count, address=address)
    try:
        yield peers
    finally:
        peers.close()


def publish_ms(server: EngineProcess, count: int) -> list[float]:
    """How long each of so many PUBs of 1 MB took, one after the other."""
    found = []
    with NsqSocket(server.tcp_port) as client:
        for _ in range(count):
            began_s = time.perf_counter()
            client.publish("large", b"x" * 1_000_000)
            found.append((time.perf_counter() - began_s) * 1_000)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--publishes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    allow_descriptors()
    alone, beside, ended = [], [], 0
    with tempfile.TemporaryDirectory() as directory, EngineProcess(Path(directory) / "data") as server:
        publish_ms(server, given.publishes)
        for _ in range(given.rounds):
            alone.append(p99(publish_ms(server, given.publishes)))
            with dripping(server.tcp_port, server.http_port, given.connections) as peers:
                beside.append(p99(publish_ms(server, given.publishes)))
                ended += peers.ended_count
    ratio = median(beside) / median(alone)
    print(f"p99 of 1 MB alone {median(alone):.2f} ms, beside dripping bodies {median(beside):.2f} ms: {ratio:.2f}")
    print(f"{ended} bodies were ended")
    assert ratio <= P99_RATIO_MAX, f"{ratio:.2f} is more than {P99_RATIO_MAX}"


if __name__ == "__main__":
    main()
