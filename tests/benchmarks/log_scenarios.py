"""Scenarios of the log, compared with itself: many connections, channels, topics and messages."""

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.peers.nsqd_server import NsqdServer
from tests.benchmarks.scenarios import (
    BATCH,
    CONNECTIONS,
    Figures,
    NsqServer,
    beside_console_load,
    halves,
    is_consumed,
    listed_topics,
    percentile_ms,
    publish_rate,
    rate,
    single_program,
    together,
    topic_name,
    topic_with,
    while_reloading,
)
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

MIB = 1 << 20


@dataclass(frozen=True)
class Singles:
    """The result of single PUBs on many connections: messages a second, how many in all, and the 99th percentile from
    PUB to OK on the two connections that are timed."""

    rate: float
    count: int
    p99_ms: float


def publish_singles(server: NsqServer, topic: str, connections: int, seconds: float) -> Singles:
    """One PUB at a time on each of many connections of two processes."""
    reports, start_ns = together([single_program(server, topic, share, seconds) for share in halves(connections)])
    count = sum(one["count"] for one in reports)
    latencies = [latency for one in reports for latency in one["latencies_ns"]]
    took_s = (max(one["end_ns"] for one in reports) - start_ns) / 1e9
    return Singles(count / took_s, count, percentile_ms(latencies, 99))


class LogSingles:
    """One PUB at a time on each of many connections, OK after the sync."""

    options: tuple[str, ...] = ()

    def __init__(self, *, connections: int, seconds: float) -> None:
        self.name = f"log_single_{connections}"
        self._connections = connections
        self._seconds = seconds

    def penstock(self, server: ServerProcess) -> Figures:
        with topic_with(server, "log", "c0") as topic:
            syncs = server.stats()["log"]["sync_count"]
            singles = publish_singles(server, topic, self._connections, self._seconds)
            syncs = server.stats()["log"]["sync_count"] - syncs
        return self._rows(singles) | {"log_oks_per_sync": singles.count / syncs}

    def nsqd(self, server: NsqdServer, *, is_synced: bool) -> Figures:
        with topic_with(server, "log", "c0") as topic:
            return self._rows(publish_singles(server, topic, self._connections, self._seconds))

    def _rows(self, singles: Singles) -> Figures:
        return {self.name: singles.rate, f"{self.name}_p99_ms": singles.p99_ms}

    def redis(self, directory: Path) -> Figures:
        return {}


class LogSinglesReloads:
    """The same beside 200 topics, alone and then while four logged-in clients reload the page of them."""

    options: tuple[str, ...] = ()

    def __init__(self, *, connections: int, seconds: float) -> None:
        self.name = f"log_single_{connections}_reloads"
        self._connections = connections
        self._seconds = seconds

    def penstock(self, server: ServerProcess) -> Figures:
        with listed_topics(server, "log"), topic_with(server, "log", "c0") as topic:

            def publish() -> Singles:
                return publish_singles(server, topic, self._connections, self._seconds)

            alone = publish()
            reloaded, pages = while_reloading(server, publish)
        return {
            f"{self.name}_alone": alone.rate,
            f"{self.name}_alone_p99_ms": alone.p99_ms,
            self.name: reloaded.rate,
            f"{self.name}_p99_ms": reloaded.p99_ms,
            f"{self.name}_pages": pages.per_s,
            f"{self.name}_page_p99_ms": pages.p99_ms,
        }

    def redis(self, directory: Path) -> Figures:
        return {}


class LogSinglesGuesses:
    """The same alone and then while 16 clients guess passwords."""

    options: tuple[str, ...] = ()

    def __init__(self, *, connections: int, seconds: float) -> None:
        self.name = f"log_single_{connections}_guesses"
        self._connections = connections
        self._seconds = seconds

    def penstock(self, server: ServerProcess) -> Figures:
        with topic_with(server, "log", "c0") as topic:

            def publish() -> Singles:
                return publish_singles(server, topic, self._connections, self._seconds)

            alone = publish()
            beside, answers = beside_console_load(server, "guess", "/login/", 16, publish)
        return {
            f"{self.name}_alone_p99_ms": alone.p99_ms,
            f"{self.name}_p99_ms": beside.p99_ms,
            f"{self.name}_answers": answers.per_s,
        }

    def redis(self, directory: Path) -> Figures:
        return {}


class Channels:
    """MPUBs to a topic with one channel, then to one with a hundred."""

    name = "channels"
    options: tuple[str, ...] = ()

    def __init__(self, *, messages: int) -> None:
        self._messages = messages

    def _publish(self, server: ServerProcess, channels: int) -> float:
        with topic_with(server, "log", *(f"c{number}" for number in range(channels))) as topic:
            return publish_rate(server, topic, 200, self._messages)

    def penstock(self, server: ServerProcess) -> Figures:
        return {"log_1_channel": self._publish(server, 1), "log_100_channels": self._publish(server, 100)}

    def redis(self, directory: Path) -> Figures:
        return {}


class Topics:
    """MPUBs of 64 producers to one topic, then to a thousand in turn; and single PUBs the same way."""

    name = "topics"
    options: tuple[str, ...] = ()

    def __init__(self, *, seconds: float, topics: int = 1_000) -> None:
        self._seconds = seconds
        self._topics = topics

    def _publish(self, server: ServerProcess, topic: str, topics: int, batch: int) -> float:
        return rate([single_program(server, topic, 32, self._seconds, topics, batch)] * 2)

    def penstock(self, server: ServerProcess) -> Figures:
        """The topics stay for the next round: making them takes longer than the rest."""
        for name in ("rotate", *(f"rotate_{number}" for number in range(self._topics))):
            server.http("POST", f"/topic/create?topic={name}&storage=log")
            server.http("POST", f"/channel/create?topic={name}&channel=c0")
        return {
            "log_1_topic": self._publish(server, "rotate", 1, BATCH),
            "log_1000_topics": self._publish(server, "rotate", self._topics, BATCH),
            "log_1_topic_single": self._publish(server, "rotate", 1, 1),
            "log_1000_topics_single": self._publish(server, "rotate", self._topics, 1),
        }

    def redis(self, directory: Path) -> Figures:
        return {}


class SingleRecords:
    """Messages that were published one by one, each a record of its own: what they cost at a start."""

    name = "records"
    options: tuple[str, ...] = ()

    def __init__(self, *, messages: int) -> None:
        self._messages = messages

    def penstock(self, server: ServerProcess) -> Figures:
        """Filled by an engine in a process of its own: over TCP, PUBs that meet in a turn would share a record."""
        with beside(server) as own:
            together([("fill_records", own.data_path, "records", "c0", 200, self._messages)])
            own.start()  # the first makes the console's database
            clean, killed, rebuilt = start_times(own)
            assert own.channel_stats("records", "c0")["depth"] == self._messages
            own.stop()
        return {"records_start_clean_s": clean, "records_start_killed_s": killed, "records_start_rebuilt_s": rebuilt}

    def redis(self, directory: Path) -> Figures:
        return {}


class Deep:
    """Millions of messages that wait: what they cost in memory, at a start, and when they are consumed."""

    name = "deep"
    options: tuple[str, ...] = ()

    def __init__(self, *, messages: int, shallow: int = 500_000) -> None:
        """shallow: how many are consumed first, for the rate beside which the other counts."""
        self._messages = messages
        self._shallow = shallow

    def penstock(self, server: ServerProcess) -> Figures:
        with beside(server) as own:
            return self._measured(own)

    def _measured(self, server: ServerProcess) -> Figures:
        server.start()
        shallow = self._consumed_of(server, "shallow", self._shallow)
        before = anonymous_mib(server.pid)
        self._fill(server, "deep", self._messages)
        wait_for("figures", lambda: server.topic_stats("deep")["channels"][0]["depth"] == self._messages)
        memory = anonymous_mib(server.pid) - before
        clean, killed, rebuilt = start_times(server)
        assert server.channel_stats("deep", "c0")["depth"] == self._messages
        drop_cache(server.data_path / "log")
        deep = self._consumed(server, "deep", self._messages)
        server.stop()
        return {
            "deep_memory_mib": max(memory, 0.1),
            "deep_start_clean_s": clean,
            "deep_start_killed_s": killed,
            "deep_start_rebuilt_s": rebuilt,
            "deep_consume_500k": shallow,
            "deep_consume": deep,
        }

    def _fill(self, server: ServerProcess, topic: str, messages: int) -> None:
        server.http("POST", f"/topic/create?topic={topic}&storage=log")
        server.http("POST", f"/channel/create?topic={topic}&channel=c0")
        publish_rate(server, topic, 200, messages)

    def _consumed_of(self, server: ServerProcess, topic: str, messages: int) -> float:
        self._fill(server, topic, messages)
        drop_cache(server.data_path / "log")
        value = self._consumed(server, topic, messages)
        server.http("POST", f"/topic/delete?topic={topic}")
        return value

    def _consumed(self, server: ServerProcess, topic: str, messages: int) -> float:
        return rate(
            [("nsq_load", "consume", server.tcp_port, topic, "c0", 200, 2500)] * CONNECTIONS,
            expected=messages,
            is_over=lambda: is_consumed(server, topic),
        )

    def redis(self, directory: Path) -> Figures:
        return {}


@contextmanager
def beside(server: ServerProcess, options: Sequence[str] = ()) -> Iterator[ServerProcess]:
    """A server that does not run yet, with a directory of its own beside that of the one given, which is idle."""
    directory = server.data_path.parent / topic_name()
    shutil.rmtree(directory, ignore_errors=True)
    own = ServerProcess(directory, options=options)
    try:
        yield own
    finally:
        own.kill9()
        shutil.rmtree(directory, ignore_errors=True)


def start_times(server: ServerProcess) -> tuple[float, float, float]:
    """Seconds that a running server's next starts take: after a clean stop, after kill -9, without derived files."""
    server.stop()
    clean = _start(server)
    server.kill9()
    killed = _start(server)
    server.stop()
    shutil.rmtree(server.data_path / "log" / "queues")
    (server.data_path / "log" / "checkpoint").unlink()
    return clean, killed, _start(server)


def anonymous_mib(pid: int) -> float:
    """The anonymous memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise LookupError("RssAnon")


def drop_cache(directory: Path) -> None:
    """Have the system forget what it keeps of these files. Their server runs: one may go meanwhile."""
    os.sync()
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                fd = os.open(os.path.join(folder, name), os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)


def _start(server: ServerProcess) -> float:
    """Seconds until the server's listening lines."""
    began = time.monotonic()
    server.start()
    return time.monotonic() - began
