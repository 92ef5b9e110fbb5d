"""Many idle consumers: what each costs in memory, what they cost a client that publishes, and how soon all are back.

    python -m tests.benchmarks.idle_consumers [--consumers 10000] [--rounds 5]

All subscribe to one channel with RDY 1, and nothing is published to it. Targets:
20 KB of memory each (PSS of the server, plain connections), the p99 of a client that publishes elsewhere at most twice
that without them, and after all of them are cut at once, all subscribed again within 15 s. Rounds with and without
consumers alternate.
"""

import argparse
import selectors
import socket
import struct
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.benchmarks.stalled_peers import allow_descriptors, p99, publish_ms
from tests.support.processes.engine_process import EngineProcess
from tests.support.processes.memory import pss_bytes
from tests.support.waiting import wait_for

BYTES_EACH_MAX = 20_000
P99_RATIO_MAX = 2.0
STORM_S_MAX = 15.0
PUBLISHES = 1_000  # a round
PATIENCE_S = 120.0
_AT_ONCE = 500  # connects under way: as many clients that come back together
_SETTINGS = b'{"heartbeat_interval":60000,"client_id":"idle","hostname":"idle.example"}'
_HELLO = b"  V2IDENTIFY\n" + struct.pack(">i", len(_SETTINGS)) + _SETTINGS + b"SUB idle c\nRDY 1\n"
_OK = struct.pack(">ii", 6, 0) + b"OK"


class Consumers:
    """Subscribed connections, all made from one thread."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: list[socket.socket] = []

    def connect(self, count: int) -> float:
        """Subscribe so many; returns how long it took until the last one had its OK, in seconds."""
        began_s = time.monotonic()
        left = count
        answers: dict[socket.socket, bytes] = {}
        with selectors.DefaultSelector() as selector:
            while left or answers:
                assert time.monotonic() - began_s < PATIENCE_S, f"{left + len(answers)} of {count} have not subscribed"
                while left and len(answers) < _AT_ONCE:
                    client = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE_S)
                    client.sendall(_HELLO)
                    client.setblocking(False)
                    selector.register(client, selectors.EVENT_READ)
                    answers[client] = b""
                    left -= 1
                for key, _ in selector.select(1):
                    client = key.fileobj
                    assert isinstance(client, socket.socket)
                    answers[client] += client.recv(4_096)
                    if answers[client] == _OK * 2:  # to IDENTIFY and SUB
                        selector.unregister(client)
                        del answers[client]
                        self._open.append(client)
        return time.monotonic() - began_s

    def cut(self) -> None:
        """End all connections at once."""
        for client in self._open:
            client.close()
        self._open.clear()


def client_count(server: EngineProcess) -> int:
    return int(server.channel_stats("idle", "c")["client_count"])


def make_topic(server: EngineProcess) -> None:
    server.http("POST", "/topic/create?topic=idle")
    server.http("POST", "/channel/create?topic=idle&channel=c")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consumers", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    allow_descriptors()
    alone, beside, each, storms_s = [], [], [], []
    # All come from one address: as one of a proxy's, it has no share.
    options = [f"--max-connections={given.consumers + 10}", "--trusted-proxy=127.0.0.1"]
    with tempfile.TemporaryDirectory() as directory, EngineProcess(Path(directory) / "data", options=options) as server:
        make_topic(server)
        publish_ms(server, PUBLISHES)
        for _ in range(given.rounds):
            alone.append(p99(publish_ms(server, PUBLISHES)))
            before = pss_bytes(server.pid)
            consumers = Consumers(server.tcp_port)
            consumers.connect(given.consumers)
            time.sleep(2)  # snapshots are taken each second
            each.append((pss_bytes(server.pid) - before) / given.consumers)
            beside.append(p99(publish_ms(server, PUBLISHES)))
            consumers.cut()
            storms_s.append(consumers.connect(given.consumers))
            consumers.cut()
            wait_for("all to be gone", lambda: client_count(server) == 0, timeout_s=PATIENCE_S)
    ratio = median(beside) / median(alone)
    print(f"{each[0] / 1_000:.1f} KB for each of {given.consumers} idle consumers (first round)")
    print(f"p99 of a publish alone {median(alone):.2f} ms, beside them {median(beside):.2f} ms: {ratio:.2f}")
    print(f"after all were cut, all had subscribed again in {max(storms_s):.1f} s at the most")
    assert each[0] <= BYTES_EACH_MAX, f"{each[0]:.0f} bytes are more than {BYTES_EACH_MAX}"
    assert ratio <= P99_RATIO_MAX, f"{ratio:.2f} is more than {P99_RATIO_MAX}"
    assert max(storms_s) <= STORM_S_MAX, f"{max(storms_s):.1f} s is more than {STORM_S_MAX}"


if __name__ == "__main__":
    main()
