"""Consumers that stop reading: what each costs the server in memory, and what they cost the others.

    python -m tests.benchmarks.stopped_consumers [--consumers 50] [--seconds 5] [--rounds 5]

Each stopped consumer subscribes a channel of its own with RDY 2500 and reads nothing any more, while its topic has more
for it than the sockets hold. What it costs is the server's own memory: its output buffer and one message, and beside
them its connection, its channel and what is noted of the messages that are in flight to it; not what the kernel's
sockets hold. Beside them 200 messages a second go through another topic, PUB to the consumer's socket, in alternating
rounds with and without them. Wall-clock times: other work of the machine disturbs them, both kinds of rounds alike.
"""

import argparse
import socket
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.scenarios import percentile_ms, together, topic_with
from tests.support.nsq_socket import NsqSocket
from tests.support.processes.engine_process import EngineProcess
from tests.support.waiting import wait_for

P99_RATIO_MAX = 1.2
OUTPUT_BUFFER_BYTES = 16 << 10
BODY_BYTES = 8 << 10
BESIDE_BYTES = 32 << 10  # its connection, its channel, and some 300 bytes for each message in flight
COST_BYTES_MAX = OUTPUT_BUFFER_BYTES + BODY_BYTES + BESIDE_BYTES
BACKLOG_BYTES = 24 << 20  # of the topic, and so of each channel: more than the sockets of a connection hold
RATE, LATENCY_BODY_BYTES = 200, 200
# The cache of what channels read, which all share, would be most of the growth.
OPTIONS = ["--debug-endpoints=true", "--log-cache-bytes=1048576"]
HEARTBEAT_MS = 60_000  # so long a consumer that does not read stays at least


@dataclass(slots=True)
class Found:
    """cost_bytes: of each stopped consumer, by round. in_flight: messages to each. alone, beside: (p50, p99) of each
    round's latencies in milliseconds, PUB to the consumer."""

    cost_bytes: list[float] = field(default_factory=list)
    in_flight: list[int] = field(default_factory=list)
    alone: list[tuple[float, float]] = field(default_factory=list)
    beside: list[tuple[float, float]] = field(default_factory=list)

    def ratio(self, at: int) -> float:
        return statistics.median(beside[at] / alone[at] for alone, beside in zip(self.alone, self.beside, strict=True))

    def lines(self) -> list[str]:
        cost_kb, in_flight = statistics.median(self.cost_bytes) / 1e3, statistics.median(self.in_flight)
        cost = f"a stopped consumer: {cost_kb:.0f} KB (target {COST_BYTES_MAX / 1e3:.0f})"
        found = [f"{cost}, with {in_flight:.0f} messages in flight"]
        for at, name in enumerate(("p50", "p99")):
            alone = statistics.median(one[at] for one in self.alone)
            beside = statistics.median(one[at] for one in self.beside)
            found.append(
                f"queue latency {name}: {alone:.2f} ms alone, {beside:.2f} ms beside them, {self.ratio(at):.2f} times"
            )
        return found


@contextmanager
def stopped(server: EngineProcess, count: int) -> Iterator[int]:
    """So many consumers that have stopped reading, and have got all that their sockets hold. Yields how many messages
    are in flight to each."""
    with topic_with(server, "log") as topic, ExitStack() as stack:
        for number in range(count):
            server.http("POST", f"/channel/create?topic={topic}&channel=c{number}")
        with NsqSocket(server.tcp_port) as publisher:
            for _ in range(BACKLOG_BYTES // (BODY_BYTES * 64)):
                publisher.publish(topic, *[b"x" * BODY_BYTES] * 64)
        for number in range(count):
            client = stack.enter_context(NsqSocket(server.tcp_port))
            client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.identify(heartbeat_interval=HEARTBEAT_MS, output_buffer_size=OUTPUT_BUFFER_BYTES)
            client.subscribe(topic, f"c{number}", rdy=2_500)
        counts: list[int] = []

        def are_full() -> bool:
            before = list(counts)
            counts[:] = [one["in_flight_count"] for one in server.topic_stats(topic)["channels"]]
            return counts == before and all(counts)

        wait_for("all sockets to be full", are_full, every_s=0.5)
        assert max(counts) < BACKLOG_BYTES // BODY_BYTES, "the sockets hold the whole backlog: nothing has stopped"
        yield sum(counts) // count


def used_bytes(server: EngineProcess) -> int:
    """Anonymous memory, after the server has given back what it does not need."""
    server.http("POST", "/debug/freememory")
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{server.pid}/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1_024


def stopped_consumers(directory: Path, count: int, *, seconds: float, rounds: int) -> Found:
    found = Found()
    with (
        EngineProcess(directory, options=OPTIONS) as server,
        topic_with(server, "log", "c0") as topic,
    ):
        load = ("nsq_load", "latency", server.tcp_port, topic, "c0", LATENCY_BODY_BYTES, RATE, seconds)

        def percentiles() -> tuple[float, float]:
            [report], _ = together([load])
            return percentile_ms(report["latencies_ns"], 50), percentile_ms(report["latencies_ns"], 99)

        for _ in range(rounds):
            found.alone.append(percentiles())
            with stopped(server, 1):
                of_one_bytes = used_bytes(server)  # with the caches, which all share
            with stopped(server, count) as in_flight:
                more_bytes = used_bytes(server) - of_one_bytes
                found.beside.append(percentiles())
            found.cost_bytes.append(more_bytes / (count - 1))
            found.in_flight.append(in_flight)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consumers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = stopped_consumers(Path(directory) / "data", given.consumers, seconds=given.seconds, rounds=given.rounds)
    print("\n".join(found.lines()))
    assert statistics.median(found.cost_bytes) <= COST_BYTES_MAX
    assert found.ratio(1) <= P99_RATIO_MAX, f"{found.ratio(1):.2f} is more than {P99_RATIO_MAX}"


if __name__ == "__main__":
    main()
