"""The scenarios: each runs one round on Penstock or, where there is a counterpart, on Redis Streams.

A scenario runs one round at a time, so that rounds of both sides alternate: other work of the machine affects both.
Every round uses a topic or stream of its own and checks that every message came.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from tests.benchmarks.load.gate import LoadProgram, run_together
from tests.benchmarks.peers import nsqd_server
from tests.benchmarks.peers.nsqd_server import NsqdServer
from tests.benchmarks.peers.redis_server import RedisServer
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

BATCH = 200
CONNECTIONS = 2
BACKLOG_TIMEOUT_S = 120.0
SYNCED_SHARE = 40  # an nsqd that syncs each message gets one for so many

T = TypeVar("T")

_numbers = itertools.count()

Figures = dict[str, float]


class Scenario(Protocol):
    name: str
    options: tuple[str, ...]  # of the server that `penstock` gets

    def penstock(self, server: ServerProcess) -> Figures:
        """One round on Penstock: row of the results → value."""
        ...

    def redis(self, directory: Path) -> Figures:
        """One round on a Redis of its own, same rows; empty where there is no counterpart."""
        ...


@runtime_checkable
class BesideNsqd(Scenario, Protocol):
    """A scenario that can be run on an nsqd as well."""

    def nsqd(self, server: NsqdServer, *, is_synced: bool) -> Figures:
        """One round on nsqd, same rows. is_synced: it syncs each message."""
        ...


NsqServer = ServerProcess | NsqdServer


def topic_name() -> str:
    """A topic of its own."""
    return f"bench_{next(_numbers)}"


@contextmanager
def topic_with(server: NsqServer, storage: str, *channels: str) -> Iterator[str]:
    """A topic of its own with these channels, deleted at the end. nsqd knows no storage kinds and hears of none."""
    topic = topic_name()
    server.http("POST", f"/topic/create?topic={topic}&storage={storage}")
    for channel in channels:
        server.http("POST", f"/channel/create?topic={topic}&channel={channel}")
    yield topic
    server.http("POST", f"/topic/delete?topic={topic}")


def publish_rate(server: NsqServer, topic: str, body_bytes: int, messages: int) -> float:
    """Publish in batches on two connections; messages a second."""
    program = ("nsq_load", "publish", server.tcp_port, topic, body_bytes, BATCH, messages // CONNECTIONS)
    return rate([program] * CONNECTIONS, expected=messages)


def single_program(
    server: NsqServer, topic: str, connections: int, seconds: float, topics: int = 1, batch: int = 1
) -> tuple[object, ...]:
    """One PUB of 200 bytes at a time, or one MPUB, on each connection, each waiting for its OK."""
    return "nsq_load", "single", server.tcp_port, topic, 200, connections, seconds, topics, batch


def wait_for_backlog(server: NsqServer, topic: str, messages: int) -> None:
    """nsqd answers before its topic has handed everything to the channels."""

    def is_there() -> bool:
        return all(channel["depth"] == messages for channel in server.topic_stats(topic)["channels"])

    wait_for("the backlog", is_there, timeout_s=BACKLOG_TIMEOUT_S)


def is_consumed(server: NsqServer, topic: str) -> bool:
    """Whether the topic's channels have nothing left."""
    names = ("depth", "in_flight_count", "deferred_count")
    return not any(int(channel[name]) for channel in server.topic_stats(topic)["channels"] for name in names)


def halves(connections: int) -> list[int]:
    """Connections of each of at most two processes."""
    return [connections] if connections == 1 else [connections // 2, connections - connections // 2]


def together(
    programs: Sequence[tuple[object, ...]], is_over: Callable[[], bool] | None = None
) -> tuple[list[dict[str, Any]], int]:
    """Run load programs at once; their reports, and the moment just before the first was let go. is_over: as
    for `run_together`."""
    with ExitStack() as stack:
        started = [stack.enter_context(LoadProgram(str(module), *rest)) for module, *rest in programs]
        return run_together(started, is_over)


def rate(
    programs: Sequence[tuple[object, ...]],
    *,
    expected: int | None = None,
    is_over: Callable[[], bool] | None = None,
) -> float:
    """Messages a second of all programs together, from the common start to the last one's end."""
    reports, start_ns = together(programs, is_over)
    count = sum(one["count"] for one in reports)
    assert expected is None or count == expected, f"{count} of {expected} messages came"
    return count / ((max(one["end_ns"] for one in reports) - start_ns) / 1e9)


def percentile_ms(latencies_ns: Sequence[int], percent: int) -> float:
    return statistics.quantiles(latencies_ns, n=100, method="inclusive")[percent - 1] / 1e6


def beside_nsqd(scenario: Scenario, side: str, directory: Path) -> Figures:
    """One round on an nsqd of its own; empty where there is none, or nothing to be compared."""
    if nsqd_server.program() is None or not isinstance(scenario, BesideNsqd):
        return {}
    with NsqdServer(directory, options=nsqd_server.SIDES[side]) as server:
        return scenario.nsqd(server, is_synced=side == nsqd_server.SYNCED)


class Stream:
    """Publish `messages` in batches, then consume them all, on every one of `channels` channels.

    fsync: when the peer syncs.
    """

    def __init__(
        self,
        suffix: str,
        *,
        body_bytes: int,
        messages: int,
        channels: int = 1,
        storage: str = "diskqueue",
        options: tuple[str, ...] = (),
        fsync: str = "everysec",
    ) -> None:
        self.name = f"stream_{suffix}"
        self.options = options
        self._storage = storage
        self._fsync = fsync
        self._suffix = suffix
        self._body_bytes = body_bytes
        self._messages = messages // (BATCH * CONNECTIONS) * (BATCH * CONNECTIONS)
        self._channels = [f"c{number}" for number in range(channels)]

    def _consumers(self) -> list[str]:
        """A channel's name for each consumer: two for one channel, else one each."""
        return self._channels * CONNECTIONS if len(self._channels) == 1 else self._channels

    def penstock(self, server: ServerProcess) -> Figures:
        return self._published_and_consumed(server, self._messages)

    def nsqd(self, server: NsqdServer, *, is_synced: bool) -> Figures:
        """With a sync for each message there are fewer of them: a round would take minutes."""
        fewer = self._messages // SYNCED_SHARE // (BATCH * CONNECTIONS) * (BATCH * CONNECTIONS)
        return self._published_and_consumed(server, max(fewer, BATCH * CONNECTIONS) if is_synced else self._messages)

    def _published_and_consumed(self, server: NsqServer, messages: int) -> Figures:
        with topic_with(server, self._storage, *self._channels) as topic:
            publish = publish_rate(server, topic, self._body_bytes, messages)
            wait_for_backlog(server, topic, messages)
            consume = rate(
                [
                    ("nsq_load", "consume", server.tcp_port, topic, name, self._body_bytes, 2500)
                    for name in self._consumers()
                ],
                expected=messages * len(self._channels),
                is_over=lambda: is_consumed(server, topic),
            )
        return {f"publish_{self._suffix}": publish, f"consume_{self._suffix}": consume}

    def redis(self, directory: Path) -> Figures:
        with RedisServer(directory, fsync=self._fsync) as redis:
            for channel in self._channels:
                redis.ask(b"XGROUP", b"CREATE", b"bench", channel.encode(), b"$", b"MKSTREAM")
            share = self._messages // CONNECTIONS
            publish = rate(
                [("redis_load", "publish", redis.port, "bench", self._body_bytes, BATCH, share)] * CONNECTIONS,
                expected=self._messages,
            )
            # With several groups, none may delete what another has not read yet.
            delete = int(len(self._channels) == 1)
            consume = rate(
                [
                    ("redis_load", "consume", redis.port, "bench", name, self._body_bytes, BATCH, delete)
                    for name in self._consumers()
                ],
                expected=self._messages * len(self._channels),
            )
            return {f"publish_{self._suffix}": publish, f"consume_{self._suffix}": consume}


class Single:
    """One message at a time, waiting for its answer, on `connections` connections of at most two processes."""

    options: tuple[str, ...] = ()

    def __init__(self, *, connections: int, seconds: float) -> None:
        self.name = f"single_{connections}"
        self._shares = halves(connections)
        self._seconds = seconds

    def penstock(self, server: ServerProcess) -> Figures:
        return self._published(server)

    def nsqd(self, server: NsqdServer, *, is_synced: bool) -> Figures:
        return self._published(server)

    def _published(self, server: NsqServer) -> Figures:
        with topic_with(server, "diskqueue", "c0") as topic:
            return {self.name: rate([single_program(server, topic, share, self._seconds) for share in self._shares])}

    def redis(self, directory: Path) -> Figures:
        with RedisServer(directory) as redis:
            redis.ask(b"XGROUP", b"CREATE", b"bench", b"c0", b"$", b"MKSTREAM")
            return {
                self.name: rate(
                    [("redis_load", "single", redis.port, "bench", 200, share, self._seconds) for share in self._shares]
                )
            }


class SingleFins:
    """Consume from either kind as pynsq does: on two connections with RDY 200 each, and a write for each FIN."""

    name = "single_fins"
    options: tuple[str, ...] = ()

    def __init__(self, *, messages: int) -> None:
        self._messages = messages

    def penstock(self, server: ServerProcess) -> Figures:
        return {f"fin_{storage}": self._consumed(server, storage) for storage in ("log", "diskqueue")}

    def _consumed(self, server: ServerProcess, storage: str) -> float:
        with topic_with(server, storage, "c0") as topic:
            publish_rate(server, topic, 200, self._messages)
            program = ("nsq_load", "consume_as_pynsq", server.tcp_port, topic, "c0", 200, 200)
            return rate(
                [program] * CONNECTIONS,
                expected=self._messages,
                is_over=lambda: is_consumed(server, topic),
            )

    def redis(self, directory: Path) -> Figures:
        return {}


class Latency:
    """End to end at 200 messages a second, RDY 2500, the consumer with pynsq's own IDENTIFY."""

    options: tuple[str, ...] = ()

    name = "latency"

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds

    def penstock(self, server: ServerProcess) -> Figures:
        with topic_with(server, "diskqueue") as topic:
            [report], _ = together([("nsq_load", "latency", server.tcp_port, topic, "c0", 200, 200, self._seconds)])
        return {f"latency_p{percent}_ms": percentile_ms(report["latencies_ns"], percent) for percent in (50, 99)}

    def redis(self, directory: Path) -> Figures:
        return {}


@contextmanager
def listed_topics(server: ServerProcess, storage: str) -> Iterator[list[str]]:
    """The 200 topics that the reloaded page shows; deleted at the end."""
    topics = [f"reload_{number:03}" for number in range(200)]
    for topic in topics:
        server.http("POST", f"/topic/create?topic={topic}&storage={storage}")
    wait_for("200 topics", lambda: len(server.stats()["topics"]) >= len(topics))
    yield topics
    for topic in topics:
        server.http("POST", f"/topic/delete?topic={topic}")


@dataclass(frozen=True)
class Answers:
    """The answers of the console meanwhile."""

    per_s: float
    p99_ms: float


def beside_console_load(
    server: ServerProcess, kind: str, path: str, clients: int, measure: Callable[[], T]
) -> tuple[T, Answers]:
    """Returns the result of `measure` while so many clients of console_load send requests, and their answers."""
    with LoadProgram("console_load", kind, server.console_port, path, clients) as load:
        load.wait_until_ready()
        load.go()
        measured = measure()
        load.go()
        answered = load.result()
    return measured, Answers(answered["count"] / answered["seconds"], percentile_ms(answered["latencies_ns"], 99))


def while_reloading(server: ServerProcess, measure: Callable[[], T]) -> tuple[T, Answers]:
    """Four logged-in clients reload the topics page."""
    return beside_console_load(server, "reload", "/topics/", 4, measure)


class Reloads:
    """Single PUBs, 200 a second, while four logged-in clients reload the topics page (200 topics) without pause."""

    options: tuple[str, ...] = ()

    name = "reloads"

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds

    def penstock(self, server: ServerProcess) -> Figures:
        with listed_topics(server, "diskqueue") as topics:
            paced = ("nsq_load", "paced", server.tcp_port, topics[0], 200, 200, self._seconds)
            ([report], _), pages = while_reloading(server, lambda: together([paced]))
        return {
            "reloads_p50_ms": percentile_ms(report["latencies_ns"], 50),
            "reloads_p99_ms": percentile_ms(report["latencies_ns"], 99),
            "reloads_pages": pages.per_s,
        }

    def redis(self, directory: Path) -> Figures:
        return {}


class Dashboards:
    """Publishing alone, then with 20 open topics pages that are sent a frame every second."""

    options: tuple[str, ...] = ()

    name = "dashboards"

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds

    def _publish(self, server: ServerProcess) -> float:
        """The median of several publishes of 120,000 messages, for at least so many seconds."""
        rates = []
        until_s = time.monotonic() + self._seconds
        while not rates or time.monotonic() < until_s:
            with topic_with(server, "diskqueue", "c0") as topic:
                rates.append(publish_rate(server, topic, 200, 120_000))
        return statistics.median(rates)

    def penstock(self, server: ServerProcess) -> Figures:
        alone = self._publish(server)
        with LoadProgram("console_load", "watch", server.console_port, "/topics/", 20) as watch:
            watch.wait_until_ready()
            watch.go()
            watched = self._publish(server)
            watch.go()
            frames = watch.result()
        assert frames["count"] > 0, "no frame came to any dashboard"
        return {"dashboards_alone": alone, "dashboards_watched": watched}

    def redis(self, directory: Path) -> Figures:
        return {}
