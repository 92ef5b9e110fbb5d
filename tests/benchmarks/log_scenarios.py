"""What is measured of the log alone, beside itself: many connections, channels, topics and messages."""

import os
import shutil
import time
from pathlib import Path

from tests.benchmarks.scenarios import BATCH, CONNECTIONS, Figures, percentile_ms, rate, together, topic_name
from tests.support.server import ServerProcess
from tests.support.waiting import wait_for

MIB = 1 << 20
SHALLOW_MESSAGES = 500_000


class LogSingles:
    """One PUB at a time on each of many connections, OK after the sync."""

    options: tuple[str, ...] = ()

    def __init__(self, *, connections: int, seconds: float) -> None:
        self.name = f"log_single_{connections}"
        self._shares = [connections // 2, connections - connections // 2]
        self._seconds = seconds

    def penstock(self, server: ServerProcess) -> Figures:
        topic = topic_name()
        server.http("POST", f"/topic/create?topic={topic}&storage=log")
        server.http("POST", f"/channel/create?topic={topic}&channel=c0")
        syncs = server.stats()["log"]["sync_count"]
        programs = [("nsq_load", "single", server.tcp_port, topic, 200, share, self._seconds) for share in self._shares]
        reports, start_ns = together(programs)
        syncs = server.stats()["log"]["sync_count"] - syncs
        count = sum(one["count"] for one in reports)
        latencies = [latency for one in reports for latency in one["latencies_ns"]]
        server.http("POST", f"/topic/delete?topic={topic}")
        return {
            self.name: count / ((max(one["end_ns"] for one in reports) - start_ns) / 1e9),
            f"{self.name}_p99_ms": percentile_ms(latencies, 99),
            "log_oks_per_sync": count / syncs,
        }

    def redis(self, directory: Path) -> Figures:
        return {}


class Channels:
    """MPUBs to a topic with one channel, then to one with a hundred."""

    name = "channels"
    options: tuple[str, ...] = ()

    def __init__(self, *, messages: int) -> None:
        self._share = messages // CONNECTIONS

    def _publish(self, server: ServerProcess, channels: int) -> float:
        topic = topic_name()
        server.http("POST", f"/topic/create?topic={topic}&storage=log")
        for number in range(channels):
            server.http("POST", f"/channel/create?topic={topic}&channel=c{number}")
        value = rate([("nsq_load", "publish", server.tcp_port, topic, 200, BATCH, self._share)] * CONNECTIONS)
        server.http("POST", f"/topic/delete?topic={topic}")
        return value

    def penstock(self, server: ServerProcess) -> Figures:
        return {"log_1_channel": self._publish(server, 1), "log_100_channels": self._publish(server, 100)}

    def redis(self, directory: Path) -> Figures:
        return {}


class Topics:
    """Single PUBs of 64 producers to one topic, then to a thousand in turn."""

    name = "topics"
    options: tuple[str, ...] = ()

    def __init__(self, *, seconds: float, topics: int = 1_000) -> None:
        self._seconds = seconds
        self._topics = topics

    def _publish(self, server: ServerProcess, topic: str, topics: int) -> float:
        return rate([("nsq_load", "single", server.tcp_port, topic, 200, 32, self._seconds, topics)] * 2)

    def penstock(self, server: ServerProcess) -> Figures:
        """The topics stay for the next round: making them takes longer than the rest."""
        for name in ("rotate", *(f"rotate_{number}" for number in range(self._topics))):
            server.http("POST", f"/topic/create?topic={name}&storage=log")
            server.http("POST", f"/channel/create?topic={name}&channel=c0")
        return {
            "log_1_topic": self._publish(server, "rotate", 1),
            "log_1000_topics": self._publish(server, "rotate", self._topics),
        }

    def redis(self, directory: Path) -> Figures:
        return {}


class Deep:
    """Millions of messages that wait: what they cost in memory, at a start, and when they are consumed."""

    name = "deep"
    options: tuple[str, ...] = ()

    def __init__(self, *, messages: int) -> None:
        self._messages = messages

    def penstock(self, server: ServerProcess) -> Figures:
        """On a server of its own beside the one given, which is idle."""
        directory = server.data_path.parent / topic_name()
        shutil.rmtree(directory, ignore_errors=True)
        try:
            return self._measured(ServerProcess(directory))
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _measured(self, server: ServerProcess) -> Figures:
        server.start()
        try:
            shallow = self._consumed_of(server, "shallow", min(SHALLOW_MESSAGES, self._messages))
            before = anonymous_mib(server.pid)
            self._fill(server, "deep", self._messages)
            wait_for("figures", lambda: server.topic_stats("deep")["channels"][0]["depth"] == self._messages)
            memory = anonymous_mib(server.pid) - before
            server.stop()
            clean = _start(server)
            server.kill9()
            killed = _start(server)
            server.stop()
            shutil.rmtree(server.data_path / "log" / "queues")
            (server.data_path / "log" / "checkpoint").unlink()
            rebuilt = _start(server)
            assert server.channel_stats("deep", "c0")["depth"] == self._messages
            drop_cache(server.data_path / "log")
            deep = self._consumed(server, "deep", self._messages)
            server.stop()
        except BaseException:
            server.kill9()
            raise
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
        share = messages // CONNECTIONS
        rate([("nsq_load", "publish", server.tcp_port, topic, 200, BATCH, share)] * CONNECTIONS, expected=messages)

    def _consumed_of(self, server: ServerProcess, topic: str, messages: int) -> float:
        self._fill(server, topic, messages)
        drop_cache(server.data_path / "log")
        value = self._consumed(server, topic, messages)
        server.http("POST", f"/topic/delete?topic={topic}")
        return value

    def _consumed(self, server: ServerProcess, topic: str, messages: int) -> float:
        return rate([("nsq_load", "consume", server.tcp_port, topic, "c0", 200, 2500)] * CONNECTIONS, expected=messages)

    def redis(self, directory: Path) -> Figures:
        return {}


def anonymous_mib(pid: int) -> float:
    """What a process holds in memory that no file stands behind."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise LookupError("RssAnon")


def drop_cache(directory: Path) -> None:
    """Have the system forget what it keeps of these files."""
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)


def _start(server: ServerProcess) -> float:
    """Seconds until the server's listening lines."""
    began = time.monotonic()
    server.start()
    return time.monotonic() - began
