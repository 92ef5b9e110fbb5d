"""The stats of all topics, channels and clients, at one moment or in slices that are moments apart; the health."""

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Mapping
from typing import Protocol, TypeVar

from queue_engine import cursor_acts
from queue_engine.catalog.catalog import Catalog
from queue_engine.catalog.stores import Stores
from queue_engine.delivery.channel import Channel
from queue_engine.delivery.fences import Fences
from queue_engine.delivery.latency_window import NO_LATENCIES, LatencyWindow
from queue_engine.delivery.readings import ChannelReading, EngineReading, TopicReading
from queue_engine.delivery.stats import (
    HEALTHY,
    ChannelStats,
    ClientStats,
    DiskSpace,
    EngineSnapshot,
    InFlightStats,
    LookupdStats,
    TopicStats,
)
from queue_engine.delivery.topic import Topic
from queue_engine.delivery.workload import Workload
from queue_engine.fence_on_failure import fence_on_failure
from queue_engine.storage.aside_stats import AsideStats
from queue_engine.storage.log_stats import LogStats
from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import NoRoomError, StorageError
from queue_engine.vocabulary.faults import Faults
from queue_engine.vocabulary.pieces import whole
from queue_engine.vocabulary.version import VERSION
from queue_engine.wire.cursor import CursorStats

# Channels per slice: a message waits for a slice at most, a tenth of a millisecond or two.
SLICE_CHANNELS = 16

C = TypeVar("C")
T = TypeVar("T")


class Client(Protocol):
    """A connection, as far as its stats go."""

    @property
    def is_producer(self) -> bool: ...

    def stats(self) -> ClientStats: ...


class EngineStats:
    """Makes snapshots of one engine.

    clients: those that are connected, by key; the engine adds and removes them. refused_connections,
    refused_publishes: the listeners count into them, by their names and the reason, and by the reason. refused_secrets:
    wrong secrets by listener; the gate counts them.
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
        self.refused_secrets: Mapping[str, int] = {}

    def note_aside(self, found: AsideStats) -> None:
        """Take the result of a scan for files that were set aside."""
        self._aside = found

    def note_disk(self, found: DiskSpace | None) -> None:
        """Take the result of a look at the disk."""
        self._disk = found

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

        def read(each: Channel, window: LatencyWindow) -> ChannelStats:
            clients = self._clients_of(each) if wants_clients(each.topic_name, each.name) else None
            return each.figures.stats(clients, self._unreadable(each), window)

        def finish(one: Topic, channels: list[ChannelStats], windows: tuple[LatencyWindow, ...]) -> TopicStats:
            return one.stats(tuple(channels), self._cursors_of(one), self._unreadable(one), windows)

        listed = yield from self._walk(topic, channel, read, finish, has_windows=True)
        return self._snapshot(tuple(listed), has_producers=wants_clients("", ""))

    def readings_in_slices(
        self, *, topic: str = "", channel: str = "", has_clients: bool = True, has_buckets: bool = False
    ) -> Generator[None, None, EngineReading]:
        """The same as `/stats` needs it, in half of the time. has_clients, has_buckets: whether it writes clients,
        and buckets of latencies."""
        workload, fences = self._workload, self._fences
        none: tuple[ClientStats, ...] | None = () if has_clients else None
        has_windows = has_buckets or bool(self._catalog.latency_percentiles)
        keeps = not (has_windows or topic or channel)
        signs: dict[Topic, Hashable] = {}  # when reading each topic began

        def known(one: Topic) -> TopicReading | None:
            if not keeps or workload.has_failures or fences.error is not None:
                return None
            sign = signs[one] = one.rest_sign()
            return one.kept.read(sign, has_clients=has_clients)

        def read(each: Channel, window: LatencyWindow) -> tuple[ChannelReading, int | None]:
            clients = none if not each.consumers else self._clients_of(each) if has_clients else None
            failure = workload.failure_of(each)
            return each.figures.reading(clients, "" if failure is None else str(failure), window)

        def finish(
            one: Topic, channels: list[tuple[ChannelReading, int | None]], windows: tuple[LatencyWindow, ...]
        ) -> TopicReading:
            made = one.reading(channels, self._cursors_of(one), self._unreadable(one), windows if has_windows else None)
            sign = signs.get(one)
            if one in signs and one.kept.is_known(sign) and one.rest_sign() == sign:
                try:
                    one.kept.note(made, has_clients=has_clients)
                except StorageError:
                    pass  # the next reading says why
            return made

        listed = yield from self._walk(topic, channel, read, finish, known, has_windows=has_windows)
        return EngineReading(self._snapshot((), has_producers=has_clients), listed)

    def _walk(
        self,
        topic: str,
        channel: str,
        read: Callable[[Channel, LatencyWindow], C],
        finish: Callable[[Topic, list[C], tuple[LatencyWindow, ...]], T],
        known: Callable[[Topic], T | None] = lambda one: None,
        *,
        has_windows: bool,
    ) -> Generator[None, None, list[T]]:
        """What `finish` makes of each topic and what `read` made of its channels, in slices. known: what is kept of a
        topic, which is not read then."""
        topics = self.topics
        names = [topic] if topic else self._catalog.sorted_names()
        deletions = self._catalog.gone.deletion_count
        half_window_ns = self._catalog.latency_window_ms * NS_PER_MS // 2
        walked: list[tuple[Topic, list[Channel], list[C] | None, tuple[LatencyWindow, ...]]] = []
        listed: list[T] = []
        sliced = 0
        for name in names:
            one = topics.get(name)
            if one is None or (channel and channel not in one.channels):
                continue
            if (kept := known(one)) is not None:
                walked.append((one, list(one.channels.values()), None, ()))
                listed.append(kept)
                sliced += 1
                if sliced >= SLICE_CHANNELS:
                    sliced = 0
                    yield
                continue
            channels: list[Channel] = []
            made: list[C] = []
            windows: list[LatencyWindow] = []
            for each in [one.channels[channel_name] for channel_name in sorted(one.channels)]:
                if each.is_deleted:
                    continue  # between two slices
                window: LatencyWindow = NO_LATENCIES
                if has_windows:
                    window = each.figures.latency_window(half_window_ns)
                    windows.append(window)
                if channel and channel != each.name:
                    continue
                channels.append(each)
                made.append(read(each, window))
                sliced += 1
                if sliced >= SLICE_CHANNELS:
                    sliced = 0
                    yield
            if one.is_deleted:
                continue
            walked.append((one, channels, made, tuple(windows)))
            listed.append(finish(one, made, tuple(windows)))
            sliced += 1
        if self._catalog.gone.deletion_count != deletions:
            # Their counts are among those of deleted ones now.
            found, listed = listed, []
            for (one, channels, before, all_windows), whole_one in zip(walked, found, strict=True):
                if one.is_deleted:
                    continue
                living = [each for each in channels if not each.is_deleted]
                if len(living) == len(channels):
                    listed.append(whole_one)
                elif before is None:
                    living.sort(key=lambda each: each.name)
                    listed.append(finish(one, [read(each, NO_LATENCIES) for each in living], all_windows))
                else:
                    there = [kept for each, kept in zip(channels, before, strict=True) if not each.is_deleted]
                    listed.append(finish(one, there, all_windows))
        return listed

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
            refused_secrets=dict(self.refused_secrets),
            trash=self._catalog.trash.totals(),
            aside=self._aside,
            monotonic_ns=self._clock.monotonic_ns(),
            pause_limit_ms=self._catalog.pause_limit_ms,
            latency_window_ms=self._catalog.latency_window_ms,
            percentiles=self._catalog.latency_percentiles,
            disk=self._disk,
            lookupds=self._lookupds,
        )

    def now(self, *, topic: str = "", channel: str = "", include_clients: bool = True) -> EngineSnapshot:
        """The stats at this moment."""
        return whole(self.in_slices(lambda t, c: include_clients, topic=topic, channel=channel))

    def _unreadable(self, one: Topic | Channel) -> str:
        failure = self._workload.failure_of(one)
        return "" if failure is None else str(failure)

    def _cursors_of(self, topic: Topic) -> tuple[CursorStats, ...]:
        """Of a topic's cursors; () when making them fails unexpectedly, which `faults` then shows."""
        what = f"making the stats of the cursors of {topic.name}"
        try:
            found = cursor_acts.stats_of_topic(topic)
        except Exception as exc:
            self._faults.note(what, exc)
            return ()
        self._faults.ended(what)
        return found

    def _log_stats(self) -> LogStats | None:
        try:
            found = self._stores.log_stats()
        except Exception as exc:
            self._faults.note("making the stats of the log", exc)
            return None
        self._faults.ended("making the stats of the log")
        return found

    def _clients_of(self, channel: Channel) -> tuple[ClientStats, ...]:
        if not channel.consumers:
            return ()
        return tuple(self._clients[key].stats() for key in channel.consumers if key in self._clients)
