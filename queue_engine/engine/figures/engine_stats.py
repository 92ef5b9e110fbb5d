"""The stats of all topics, channels and clients, at one moment or in slices that are moments apart; the health."""

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from typing import Protocol

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.fences import Fences
from queue_engine.delivery.latency_window import LatencyWindow
from queue_engine.delivery.stats import (
    HEALTHY,
    ChannelStats,
    ClientStats,
    Connections,
    DiskSpace,
    EngineFigures,
    EngineSnapshot,
    Figures,
    InFlightStats,
    LookupdStats,
    PendingBodiesStats,
    TopicStats,
)
from queue_engine.delivery.topic import Topic
from queue_engine.delivery.workload import Workload
from queue_engine.engine.acts import cursor_acts
from queue_engine.engine.acts.fence_on_failure import fence_on_failure
from queue_engine.engine.catalog.catalog import Catalog
from queue_engine.engine.catalog.stores import Stores
from queue_engine.engine.figures.stats_walk import SLICE_CLIENTS, walk
from queue_engine.storage.aside_stats import AsideStats
from queue_engine.storage.log_stats import LogStats
from queue_engine.storage.log_store.log_topic_store import KIND as LOG_KIND
from queue_engine.vocabulary.clock import Clock
from queue_engine.vocabulary.errors import NoRoomError, StorageError
from queue_engine.vocabulary.faults import Faults
from queue_engine.vocabulary.pieces import whole
from queue_engine.vocabulary.steady_time import ClockJump
from queue_engine.vocabulary.version import VERSION
from queue_engine.wire.cursor import CursorStats


class Client(Protocol):
    """A connection, as far as its stats go."""

    @property
    def is_producer(self) -> bool: ...

    def stats(self) -> ClientStats: ...


class EngineStats:
    """Makes snapshots of one engine.

    clients: those that are connected, by key; the engine adds and removes them. refused_connections,
    refused_publishes, refused_requests: the listeners count into them, the first by listener and reason, the others by
    reason. refused_secrets: wrong secrets by listener; the gate counts them. read_bodies: makes the figures of
    unfinished bodies. clock_jump: the engine notes it.
    """

    def __init__(
        self,
        catalog: Catalog,
        stores: Stores,
        *,
        workload: Workload,
        fences: Fences,
        faults: Faults,
        clients: Mapping[int, Client],
        clock: Clock,
        started_at_ns: int,
    ) -> None:
        self.topics = catalog.topics
        self._catalog = catalog
        self._stores = stores
        self._workload = workload
        self._fences = fences
        self._faults = faults
        self._clients = clients
        self._clock = clock
        self._started_at_ns = started_at_ns
        self._sequence = 0
        self._aside = AsideStats()
        self._disk: DiskSpace | None = None
        self._lookupds: tuple[LookupdStats, ...] = ()
        self.refused_connections: Counter[tuple[str, str]] = Counter()
        self.refused_publishes: Counter[str] = Counter()
        self.refused_requests: Counter[str] = Counter()
        self.refused_secrets: Mapping[str, int] = {}
        self.clock_jump: ClockJump | None = None
        self.read_bodies: Callable[[], PendingBodiesStats] = PendingBodiesStats

    def note_aside(self, found: AsideStats) -> None:
        """Take the result of a scan for files that were set aside."""
        self._aside = found

    def note_disk(self, found: DiskSpace | None) -> None:
        """Take the result of a look at the disk."""
        self._disk = found

    def own_bytes(self) -> int | None:
        """The bytes of topics on the disk: the log, and the files of disk queues. None while they can't be read."""
        log = self._stores.log
        try:
            total = 0 if log is None else log.bytes_from(0)
            for topic in self.topics.values():
                if topic.store.kind != LOG_KIND:
                    backlogs = [channel.backlog for channel in topic.channels.values()]
                    total += topic.store.disk_bytes() + sum([one.disk_bytes() for one in backlogs])
        except (OSError, StorageError):
            return None
        return total

    def note_lookupds(self, found: tuple[LookupdStats, ...]) -> None:
        """Take how the connections to nsqlookupds are."""
        self._lookupds = found

    @property
    def health(self) -> str:
        """ "OK", or "NOK - " and the reason: something is not on the disk as it should be, or can't be read."""
        # The stores report a full disk, for as long as it is full.
        publish_error = self._workload.publish_error
        if isinstance(publish_error, NoRoomError):
            publish_error = None
        stores = self._stores
        error: Exception | str | None = self._catalog.error or stores.error or stores.refusal or publish_error
        error = error or self._workload.error or self._fences.error or self._faults.error
        return HEALTHY if error is None else f"NOK - {error}"

    @fence_on_failure
    def in_flight(self, topic: str, channel: str, limit: int = 100) -> list[InFlightStats]:
        """The first messages in flight of a channel, earliest deadline first. Raises TopicNotFoundError or
        ChannelNotFoundError."""
        return self._catalog.channel(topic, channel).figures.in_flight_stats(self._clock.monotonic_ns(), limit)

    def in_slices(
        self, wants_clients: Callable[[str, str], bool], *, topic: str = "", channel: str = ""
    ) -> Generator[None, None, EngineSnapshot]:
        """The stats of all topics, or of one topic or channel. Yields between short steps, returns the snapshot.

        A channel's stats agree among themselves; those of different slices are moments apart.
        wants_clients(topic, channel): whether that channel's clients are listed.
        """
        listed = yield from walk(self._catalog, _WholeStats(self, wants_clients), topic=topic, channel=channel)
        return self._snapshot(tuple(listed), has_producers=wants_clients("", ""))

    def figures_in_slices(
        self, *, topic: str = "", channel: str = "", has_clients: bool = True, has_windows: bool = False
    ) -> Generator[None, None, EngineFigures]:
        """The same as `/stats` writes it, in less time. has_clients: whether clients are listed. has_windows: whether
        latencies are needed, though no percentiles of them are configured."""
        has_windows = has_windows or bool(self._catalog.latency_percentiles)
        reader = _PlainFigures(self, self._clock, has_clients=has_clients, has_windows=has_windows)
        listed = yield from walk(self._catalog, reader, topic=topic, channel=channel)
        return EngineFigures(self._snapshot((), has_producers=has_clients), listed)

    def connections_in_slices(self) -> Generator[None, None, Connections]:
        """All clients, without the stats of their channels. Yields between short steps."""
        found: list[tuple[str, str, tuple[ClientStats, ...]]] = []
        listed = 0
        for name in self._catalog.sorted_names():
            topic = self.topics.get(name)
            for channel in list(topic.channels.values()) if topic is not None else ():
                consumers: list[ClientStats] = []
                for client in self.clients_of(channel):
                    consumers.append(client.stats())
                    listed += 1
                    if listed % SLICE_CLIENTS == 0:
                        yield
                if consumers:
                    found.append((name, channel.name, tuple(consumers)))
        producers: list[ClientStats] = []
        for listed, client in enumerate([one for one in self._clients.values() if one.is_producer], 1):
            producers.append(client.stats())
            if listed % SLICE_CLIENTS == 0:
                yield
        return Connections(self._clock.time_ns(), tuple(found), tuple(producers))

    def _snapshot(self, topics: tuple[TopicStats, ...], *, has_producers: bool) -> EngineSnapshot:
        producers = [client for client in self._clients.values() if client.is_producer]
        self._sequence += 1
        return EngineSnapshot(
            sequence=self._sequence,
            taken_at_ns=self._clock.time_ns(),
            started_at_ns=self._started_at_ns,
            version=VERSION,
            health=self.health,
            connection_count=len(self._clients),
            producer_count=len(producers),
            topics=topics,
            producers=tuple(client.stats() for client in producers) if has_producers else (),
            log=self._log_stats(),
            gone=self._catalog.gone.copy(),
            refused_connections=dict(self.refused_connections),
            refused_publishes=dict(self.refused_publishes),
            refused_requests=dict(self.refused_requests),
            refused_secrets=dict(self.refused_secrets),
            bodies=self.read_bodies(),
            trash=self._catalog.trash.totals(),
            aside=self._aside,
            monotonic_ns=self._clock.monotonic_ns(),
            pause_limit_ms=self._catalog.pause_limit_ms,
            latency_window_ms=self._catalog.latency_window_ms,
            percentiles=self._catalog.latency_percentiles,
            disk=self._disk,
            lookupds=self._lookupds,
            clock_jump=self.clock_jump,
        )

    def now(self, *, topic: str = "", channel: str = "", include_clients: bool = True) -> EngineSnapshot:
        """The stats at this moment."""
        return whole(self.in_slices(lambda t, c: include_clients, topic=topic, channel=channel))

    def unreadable(self, one: Topic | Channel) -> str:
        """The error of the disk for it now; "" for none."""
        failure = self._workload.failure_of(one)
        return "" if failure is None else str(failure)

    def cursors_of(self, topic: Topic) -> tuple[CursorStats, ...]:
        """The stats of a topic's cursors; () after an unexpected error, which `faults` then shows."""
        task = f"making the stats of the cursors of {topic.name}"
        try:
            found = cursor_acts.stats_of_topic(topic)
        except Exception as exc:
            self._faults.note(task, exc)
            return ()
        self._faults.ended(task)
        return found

    def _log_stats(self) -> LogStats | None:
        try:
            found = self._stores.log_stats()
        except Exception as exc:
            self._faults.note("making the stats of the log", exc)
            return None
        self._faults.ended("making the stats of the log")
        return found

    def clients_of(self, channel: Channel) -> list[Client]:
        """The clients that consume from a channel."""
        return [self._clients[key] for key in channel.consumers if key in self._clients]


class _Clients:
    """The consumers of each channel, but of those that `wants` leaves out."""

    def __init__(self, stats: EngineStats, wants: Callable[[str, str], bool]) -> None:
        self._stats = stats
        self._wants = wants
        self._prefetched: dict[Client, ClientStats] = {}

    def prefetch(self, channel: Channel) -> Generator[None, None, None]:
        if not self._wants(channel.topic_name, channel.name):
            return
        for at, client in enumerate(self._stats.clients_of(channel), 1):
            self._prefetched[client] = client.stats()
            if at % SLICE_CLIENTS == 0:
                yield

    def of(self, channel: Channel) -> tuple[ClientStats, ...] | None:
        if not self._wants(channel.topic_name, channel.name):
            return None
        prefetched = self._prefetched
        return tuple(
            [prefetched.pop(one) if one in prefetched else one.stats() for one in self._stats.clients_of(channel)]
        )


class _WholeStats:
    """Implements StatsReader: all stats. wants_clients: as `EngineStats.in_slices` has it."""

    has_windows = True

    def __init__(self, stats: EngineStats, wants_clients: Callable[[str, str], bool]) -> None:
        self._stats = stats
        self._clients = _Clients(stats, wants_clients)

    def prefetch_clients(self, channel: Channel) -> Generator[None, None, None]:
        return self._clients.prefetch(channel)

    def of_channel(self, channel: Channel, window: LatencyWindow) -> ChannelStats:
        return channel.figures.stats(self._clients.of(channel), self._stats.unreadable(channel), window)

    def of_topic(self, topic: Topic, channels: list[ChannelStats], windows: tuple[LatencyWindow, ...]) -> TopicStats:
        stats = self._stats
        return topic.stats(tuple(channels), stats.cursors_of(topic), stats.unreadable(topic), windows)


class _PlainFigures:
    """Implements StatsReader: the figures of `/stats`."""

    def __init__(self, stats: EngineStats, clock: Clock, *, has_clients: bool, has_windows: bool) -> None:
        self.has_windows = has_windows
        self._stats = stats
        self._clock = clock
        self._clients = _Clients(stats, lambda topic, channel: has_clients)

    def prefetch_clients(self, channel: Channel) -> Generator[None, None, None]:
        return self._clients.prefetch(channel)

    def of_channel(self, channel: Channel, window: LatencyWindow) -> Figures:
        return channel.figures.plain(
            self._clients.of(channel),
            unreadable=self._stats.unreadable(channel),
            window=window,
            now_ns=self._clock.time_ns(),
        )

    def of_topic(self, topic: Topic, channels: list[Figures], windows: tuple[LatencyWindow, ...]) -> Figures:
        stats = self._stats
        return topic.plain(
            channels,
            cursors=stats.cursors_of(topic),
            unreadable=stats.unreadable(topic),
            windows=windows,
            now_ns=self._clock.time_ns(),
        )
