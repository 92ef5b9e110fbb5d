"""The figures of one channel, made of its counts and its backlog, for the console and the HTTP API."""

from collections.abc import Callable
from typing import Protocol

from queue_engine.delivery.backlog_stats import BacklogStatsReader
from queue_engine.delivery.consumer import Consumer
from queue_engine.delivery.failure_window import FailureWindow
from queue_engine.delivery.fences import Fence
from queue_engine.delivery.in_flight import InFlightTable
from queue_engine.delivery.latency import LatencyHistogram
from queue_engine.delivery.latency_window import NO_LATENCIES, LatencyWindow
from queue_engine.delivery.send_limits import SendLimits
from queue_engine.delivery.stats import ChannelStats, ClientStats, Figures, InFlightStats, age_ms
from queue_engine.storage.store import Backlog
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.figures import CHANNEL, field_reader, stats_reader
from queue_engine.vocabulary.flow.pause import Pause, Ramp
from queue_engine.vocabulary.flow.redrive import RedriveState

_own_figures = stats_reader(CHANNEL)
_own_fields = field_reader(CHANNEL)


class Counted(Protocol):
    """The part of a channel that its stats read; the `source` of `vocabulary/figures.py`."""

    topic_name: str
    name: str
    number: int
    backlog: Backlog
    consumers: dict[int, Consumer]
    paused: bool
    pause: Pause | None
    resume_refused: str
    ramp: Ramp | None
    redrive: RedriveState | None
    fence: Fence | None
    finish_count: int
    requeue_count: int
    timeout_count: int
    disconnect_count: int

    @property
    def in_flight_count(self) -> int: ...

    def stop(self, doing: str, error: Exception) -> object: ...

    def ramp_now(self) -> Ramp | None:
        """The ramp that still lasts."""


class ChannelFigures:
    """The figures of one channel. Reading never fails: a value that can't be read now is the last one, or None.

    in_flight, latency, limits: the channel's own. time_ns: the wall clock.
    """

    __slots__ = (
        "_cached_stats",
        "_channel",
        "_in_flight",
        "_latency",
        "_limits",
        "backlog_stats",
        "failures",
    )

    def __init__(
        self,
        channel: Counted,
        in_flight: InFlightTable,
        latency: LatencyHistogram,
        limits: SendLimits,
        time_ns: Callable[[], int],
    ) -> None:
        self._channel = channel
        self._in_flight = in_flight
        self._latency = latency
        self._limits = limits
        self.failures = FailureWindow(time_ns)
        self.backlog_stats = BacklogStatsReader(channel.backlog, in_flight, channel.stop)
        self._cached_stats: tuple[object, ChannelStats] | None = None  # the last, and the sign that they were made of

    def ready_count(self) -> int:
        """How many messages its consumers hold or would take: the sum of their RDY."""
        ready_count = 0
        for consumer in self._channel.consumers.values():
            ready_count += consumer.ready_count
        return ready_count

    def latency_window(self, half_ns: int) -> LatencyWindow:
        """How long messages took from publish to FIN, lately; `LatencyHistogram.window` says when that began."""
        return self._latency.window(half_ns)

    def stats(
        self,
        clients: tuple[ClientStats, ...] | None = None,
        unreadable: str = "",
        window: LatencyWindow = NO_LATENCIES,
    ) -> ChannelStats:
        """unreadable: why the disk refuses the channel, as far as the caller knows. window: of this moment. Never
        fails: a value that can't be read now is the last one, or None. The same object as before while nothing
        changed."""
        channel = self._channel
        stored = self.backlog_stats.read(unreadable)
        ready_count = self.ready_count()
        latency = self._latency.lend()
        held_back = self._limits.reason_to_hold_back() if stored.depth and channel.fence is None else ""
        fenced = "" if channel.fence is None else channel.fence.reason
        failures = self.failures.look(
            channel.consumers.values(),
            channel.requeue_count,
            channel.timeout_count,
            attempts_max=stored.attempts_max,
            attempts_max_id=stored.attempts_max_id,
        )
        # All that the stats are made of. The counts of how long messages were held change with those of `latency`.
        own = _own_fields(channel)
        sign = (
            stored,
            latency,
            window,
            own,
            len(channel.consumers),
            ready_count,
            channel.ramp_now(),
            held_back,
            fenced,
            failures,
            clients,
        )
        cached = self._cached_stats
        if cached is not None and cached[0] == sign:
            return cached[1]
        made = ChannelStats(
            topic_name=channel.topic_name,
            depth=stored.depth,
            backend_depth=stored.backend_depth,
            deferred_count=stored.deferred_count,
            message_count=stored.message_count,
            client_count=len(channel.consumers),
            ready_count=ready_count,
            ramp=channel.ramp_now(),
            oldest_ns=stored.oldest_ns,
            next_due_ns=stored.next_due_ns,
            latest_due_ns=stored.latest_due_ns,
            disk_bytes=stored.disk_bytes,
            clients=clients,
            number=channel.number,
            latency=latency,
            window=window,
            held=self._latency.held.counts(),
            held_back=held_back,
            fenced=fenced,
            unreadable=stored.unreadable,
            attempts_max=stored.attempts_max,
            attempts_max_id=stored.attempts_max_id,
            quarantined_count=stored.quarantine.count,
            quarantine=stored.quarantine,
            failures=failures,
            **own,
        )
        self._cached_stats = sign, made
        return made

    def plain(
        self, clients: tuple[ClientStats, ...] | None, *, unreadable: str, window: LatencyWindow, now_ns: int
    ) -> Figures:
        """The channel's figures for `/stats`, at this moment. clients: None where they are not listed.
        now_ns: wall time, to which its age runs. Never fails, as `stats`."""
        channel = self._channel
        backlog = channel.backlog
        try:
            counts = None if unreadable else backlog.plain_counts()
        except Exception:
            counts = None  # `read` says why
        if counts is not None:
            depth, backend_depth, message_count, oldest_ns, disk_bytes_read, quarantine = counts
            disk_bytes: int | None = disk_bytes_read
            deferred_count, held_back = 0, ""
            # Nothing is deferred: messages in flight hold it back, where they take memory, or nothing.
            if channel.in_flight_count and not backlog.can_reread:
                held_ns = self._in_flight.oldest_ns(())
                if held_ns is not None and (oldest_ns is None or held_ns < oldest_ns):
                    oldest_ns = held_ns
                if depth and channel.fence is None:
                    held_back = self._limits.reason_to_hold_back()
        else:
            stored = self.backlog_stats.read(unreadable)
            depth, message_count, oldest_ns = stored.depth, stored.message_count, stored.oldest_ns
            disk_bytes, quarantine = stored.disk_bytes, stored.quarantine
            backend_depth, deferred_count = stored.backend_depth, stored.deferred_count
            held_back = self._limits.reason_to_hold_back() if depth and channel.fence is None else ""
            unreadable = stored.unreadable
        figures = _own_figures(channel)
        figures["depth"] = depth
        figures["backend_depth"] = backend_depth
        figures["deferred_count"] = deferred_count
        figures["message_count"] = message_count
        figures["client_count"] = len(channel.consumers)
        figures["clients"] = clients
        figures["e2e_processing_latency"] = window
        figures["ready_count"] = self.ready_count() if channel.consumers else 0
        figures["oldest_age_ms"] = age_ms(oldest_ns, now_ns)
        figures["disk_bytes"] = disk_bytes
        figures["fenced"] = "" if channel.fence is None else channel.fence.reason
        figures["unreadable"] = unreadable
        figures["held_back"] = held_back
        figures["ramp"] = None if channel.ramp is None else channel.ramp_now()
        figures["quarantined_count"] = quarantine.count
        figures["quarantined_bytes"] = quarantine.bytes
        figures["quarantined_since_ms"] = quarantine.oldest_ns and quarantine.oldest_ns // NS_PER_MS
        figures["quarantine_full"] = quarantine.full
        figures["max_attempts"] = quarantine.max_attempts
        return figures

    def in_flight_stats(self, now_ns: int, limit: int) -> list[InFlightStats]:
        """The first messages in flight, earliest deadline first."""
        listed: list[InFlightStats] = []
        sizes_of = self._channel.backlog.attempts_and_sizes
        for delivery in self._in_flight.deliveries():
            run = delivery.run
            ids = self._in_flight.remaining_ids(delivery)[: limit - len(listed)]
            index_of = run.index()
            for message_id, (attempts, body_bytes) in zip(ids, sizes_of(run, ids), strict=True):
                listed.append(
                    InFlightStats(
                        message_id=message_id.decode("ascii", "replace"),
                        client_key=delivery.consumer.key,
                        attempts=attempts,
                        body_bytes=body_bytes,
                        published_at_ns=run.time_at(index_of[message_id]),
                        held_ms=(now_ns - delivery.sent_ns) // 1_000_000,
                        deadline_in_ms=(delivery.deadline_ns - now_ns) // 1_000_000,
                    )
                )
            if len(listed) == limit:
                break
        return listed
