"""/stats of 200 topics with 5 channels each: how long a read takes, and what reading in a loop does to the queue.

    python -m tests.benchmarks.stats_reads [--topics 200] [--channels 5] [--seconds 5] [--rounds 5] [--consumers]
                                           [--options FLAG …]

A real server without its console. A client reads /stats in JSON while nothing else happens: for the first time, four
times a second, and without pause. Then 200 messages a second go through another channel, PUB to the consumer's socket,
in alternating rounds: alone; while a client reads /stats in JSON four times a second, and publishes before each read to
none of the topics, to ten, or to all; and while it reads without pause, which the server slows down
(`service/http/exchange/paced_steps.py`). Each of the messages makes the log longer, and with it the bytes on disk that
/stats has of each topic and channel. With --consumers each channel has a consumer that holds a message all the time.
Wall-clock times: other work of the machine disturbs them, all kinds of rounds alike.
"""

import argparse
import http.client
import socket
import statistics
import struct
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.many_channels import fill
from tests.benchmarks.scenarios import percentile_ms, together, topic_with
from tests.benchmarks.stalled_peers import allow_descriptors
from tests.support.processes.engine_process import EngineProcess
from tests.support.processes.server import ServerProcess

READ_MS_MAX = 15.0  # of 1,000 channels, consumers included
SETTLE_S = 1.0  # behind the filling
PAUSE_S = 0.25  # between two reads, where they have a pause
TARGET = "/stats?format=json"
RATE, BODY_BYTES = 200, 200
SOME = 10  # topics


class Reads:
    """Reads the stats from its start to the end of the block. pause_s: between two of them. changed: how many of
    `topics` get a message before each read, in turn."""

    def __init__(self, server: ServerProcess, pause_s: float, *, changed: int, topics: int) -> None:
        self._server = server
        self._pause_s = pause_s
        self._changed = changed
        self._topics = topics
        self._next_topic = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.took_ms: list[float] = []
        self.bytes = 0
        self.error: BaseException | None = None

    def __enter__(self) -> "Reads":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.http_port, timeout=60)
        try:
            while True:
                self._publish(connection)
                began_s = time.monotonic()
                connection.request("GET", TARGET)
                answer = connection.getresponse()
                self.bytes = len(answer.read())
                self.took_ms.append((time.monotonic() - began_s) * 1_000)
                assert answer.status == 200
                if self._is_over.wait(self._pause_s):
                    break
        except BaseException as exc:
            self.error = exc
        finally:
            connection.close()

    def _publish(self, connection: http.client.HTTPConnection) -> None:
        for _ in range(self._changed):
            connection.request("POST", f"/pub?topic=t{self._next_topic}", body=b"waits")
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
            self._next_topic = (self._next_topic + 1) % self._topics


class Holders:
    """A consumer of each channel that `fill` has made: it takes one message, and never finishes it."""

    def __init__(self, server: ServerProcess, topics: int, channels: int) -> None:
        self._open: list[socket.socket] = []
        settings = b'{"msg_timeout":900000,"heartbeat_interval":60000}'
        identify = b"  V2IDENTIFY\n%b%b" % (struct.pack(">i", len(settings)), settings)
        for topic in range(topics):
            for channel in range(channels):
                client = socket.create_connection(("127.0.0.1", server.tcp_port), timeout=10)
                client.sendall(identify + b"SUB t%d c%d\nRDY 1\n" % (topic, channel))
                self._open.append(client)

    def beat(self) -> None:
        """Show that all are there still."""
        for client in self._open:
            client.sendall(b"NOP\n")

    def close(self) -> None:
        for client in self._open:
            client.close()


@dataclass(slots=True)
class Found:
    """Milliseconds. idle_ms: of reads with a pause, while nothing else happens, the first one of the server included;
    idle_looped_ms: the same without pause. read_ms: of reads with a pause between them, beside messages, by the number
    of topics published to before each; looped_ms: without pause. alone, beside, beside_loop: (p50, p99) of each
    round's latencies, PUB to the consumer."""

    idle_ms: list[float] = field(default_factory=list)
    idle_looped_ms: list[float] = field(default_factory=list)
    read_ms: dict[int, list[float]] = field(default_factory=dict)
    looped_ms: list[float] = field(default_factory=list)
    read_bytes: int = 0
    alone: list[tuple[float, float]] = field(default_factory=list)
    beside: list[tuple[float, float]] = field(default_factory=list)
    beside_loop: list[tuple[float, float]] = field(default_factory=list)

    def lines(self) -> list[str]:
        found = [f"the first read of {self.read_bytes / 1e3:,.0f} KB: {self.idle_ms[0]:.1f} ms"]
        kinds = {"idle": self.idle_ms[1:], "idle, without pause": self.idle_looped_ms}
        kinds |= {f"beside messages, {changed} topics changed": read_ms for changed, read_ms in self.read_ms.items()}
        for kind, read_ms in kinds.items():
            p95_ms = statistics.quantiles(read_ms, n=20)[-1]
            found.append(
                f"{kind}: median {statistics.median(read_ms):.1f} ms, p95 {p95_ms:.1f} ms, of {len(read_ms)} "
                f"(target {READ_MS_MAX:g})"
            )
        found.append(
            f"beside messages, without pause: median {statistics.median(self.looped_ms):.1f} ms, "
            f"of {len(self.looped_ms)}"
        )
        for name, at in (("p50", 0), ("p99", 1)):
            alone, *others = ([one[at] for one in rounds] for rounds in (self.alone, self.beside, self.beside_loop))
            for kind, beside in zip((f"every {PAUSE_S:g} s", "without pause"), others, strict=True):
                ratio = statistics.median(b / a for a, b in zip(alone, beside, strict=True))
                found.append(
                    f"queue latency {name}: {statistics.median(alone):.2f} ms alone, {statistics.median(beside):.2f} "
                    f"ms while the stats are read {kind}, {ratio:.2f} times"
                )
        return found


def stats_reads(
    directory: Path,
    topics: int,
    channels: int,
    *,
    seconds: float,
    rounds: int,
    has_consumers: bool = False,
    options: tuple[str, ...] = (),
) -> Found:
    found = Found()
    with EngineProcess(directory, options=list(options)) as server:
        fill(server, topics, channels)
        holders = Holders(server, topics, channels) if has_consumers else None
        time.sleep(SETTLE_S)
        for pause_s, took_ms in ((PAUSE_S, found.idle_ms), (0.0, found.idle_looped_ms)):
            with Reads(server, pause_s, changed=0, topics=topics) as reads:
                time.sleep(seconds)
            took_ms += reads.took_ms
        with topic_with(server, "log", "c0") as topic:
            load = ("nsq_load", "latency", server.tcp_port, topic, "c0", BODY_BYTES, RATE, seconds)
            for _ in range(rounds):
                if holders is not None:
                    holders.beat()
                [report], _ = together([load])
                found.alone.append(_percentiles(report["latencies_ns"]))
                for changed in dict.fromkeys((0, min(SOME, topics), topics)):
                    with Reads(server, PAUSE_S, changed=changed, topics=topics) as reads:
                        [report], _ = together([load])
                    found.read_ms.setdefault(changed, []).extend(reads.took_ms)
                    if not changed:
                        found.beside.append(_percentiles(report["latencies_ns"]))
                with Reads(server, 0.0, changed=0, topics=topics) as reads:
                    [report], _ = together([load])
                found.looped_ms += reads.took_ms
                found.beside_loop.append(_percentiles(report["latencies_ns"]))
                found.read_bytes = reads.bytes
        if holders is not None:
            holders.close()
    return found


def _percentiles(latencies_ns: list[int]) -> tuple[float, float]:
    return percentile_ms(latencies_ns, 50), percentile_ms(latencies_ns, 99)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--channels", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--consumers", action="store_true")
    parser.add_argument("--options", nargs="*", default=[])
    given = parser.parse_args()
    allow_descriptors()
    with tempfile.TemporaryDirectory() as directory:
        options = tuple(given.options)
        found = stats_reads(
            Path(directory) / "data",
            given.topics,
            given.channels,
            seconds=given.seconds,
            rounds=given.rounds,
            has_consumers=given.consumers,
            options=options,
        )
    print("\n".join(found.lines()))


if __name__ == "__main__":
    main()
