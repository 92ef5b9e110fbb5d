"""The samples of a snapshot of the engine: topics, channels, cursors, the log."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from operator import attrgetter

from queue_engine.delivery.stats import ChannelStats, EngineSnapshot, TopicStats
from queue_engine.service.admission.refused_publishes import Reason
from queue_engine.service.admission.refused_requests import REASONS
from queue_engine.service.monitoring.exposition import Exposition, Sample, labels
from queue_engine.service.monitoring.selection import Selection, SeriesCosts
from queue_engine.storage.log_stats import LogStats
from queue_engine.storage.quarantine_stats import NO_QUARANTINE
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.figures import CHANNEL, TOPIC, Figure
from queue_engine.vocabulary.latency.histogram import MESSAGE_BOUNDS_NS, HistogramCounts
from queue_engine.vocabulary.latency.latency_buckets import BUCKET_MAX, end_ns_of, value_ms_of
from queue_engine.vocabulary.log_figures import CURSOR, LOG


def _metrics(rows: Iterable[Figure]) -> dict[str, str]:
    """The family and the field of the stats that it shows."""
    return {row.metric: row.attribute for row in rows if row.metric}


_TOPIC = _metrics(TOPIC)
_CHANNEL = _metrics(row for row in CHANNEL if not row.is_of_part)
_PART = _metrics(row for row in CHANNEL if row.is_of_part)
_CURSOR, _LOG = _metrics(CURSOR), _metrics(LOG)
# Bucket of a latency → bucket of the histogram.
_PLACES = [*(bisect_left(MESSAGE_BOUNDS_NS, end_ns_of(bucket)) for bucket in range(BUCKET_MAX)), len(MESSAGE_BOUNDS_NS)]

# The most series of a topic, a channel and a cursor in an answer: their bytes on the disk, the times of
# their pauses and a channel's age included.
_HISTOGRAM_SERIES = len(MESSAGE_BOUNDS_NS) + 3
COSTS = SeriesCosts(
    topic=len(_TOPIC) + 3, channel=len(_CHANNEL) + 4, histograms=2 * _HISTOGRAM_SERIES, cursor=len(_CURSOR)
)


def add_engine(to: Exposition, snapshot: EngineSnapshot) -> None:
    """Add the samples that concern no single topic."""
    to.add_one("penstock_up", snapshot.health == "OK")
    to.add_one("penstock_uptime_seconds", (snapshot.taken_at_ns - snapshot.started_at_ns) / NS_PER_S)
    to.add_one("penstock_connections", snapshot.connection_count)
    to.add_one("penstock_pending_body_bytes", snapshot.bodies.bytes)
    to.add_one("penstock_pending_bodies_waiting", snapshot.bodies.waiting_count)
    to.add_one("penstock_pending_body_wait_seconds", snapshot.bodies.longest_wait_ms / 1_000)
    to.add_one("penstock_slow_bodies_ended_total", snapshot.bodies.ended_count)
    # Each reason from the start on, so that a first refusal is an increase.
    to.add(
        "penstock_publishes_refused_total",
        [(labels(reason=reason), snapshot.refused_publishes.get(reason, 0)) for reason in Reason],
    )
    to.add(
        "penstock_requests_refused_total",
        [(labels(reason=reason), snapshot.refused_requests.get(reason, 0)) for reason in REASONS],
    )
    to.add(
        "penstock_secrets_refused_total",
        [(labels(listener=name), snapshot.refused_secrets.get(name, 0)) for name in ("tcp", "http")],
    )
    to.add_one("penstock_trash_entries", snapshot.trash.count)
    to.add_one("penstock_trash_bytes", snapshot.trash.bytes)
    to.add_one("penstock_trash_given_up_total", snapshot.trash.given_up_count)
    to.add_one("penstock_set_aside_files", snapshot.aside.count)
    to.add_one("penstock_set_aside_bytes", snapshot.aside.bytes)
    to.add_one("penstock_set_aside_removed_total", snapshot.aside.removed_count)
    if snapshot.log is not None:
        _add_log(to, snapshot.log)


def add_topics(to: Exposition, selection: Selection, taken_at_ns: int, pause_limit_ms: int) -> None:
    """Add topics with their channels and cursors. pause_limit_ms: as of the snapshot."""
    listed = [(labels(topic=topic.topic_name), topic) for topic in selection.topics]
    for name, field in _TOPIC.items():
        to.add(name, _samples(listed, field))
    channels = [
        (labels(topic=topic.topic_name, channel=channel.channel_name), channel)
        for _, topic in listed
        for channel in topic.channels
    ]
    for name, field in _CHANNEL.items():
        to.add(name, _samples(channels, field))
    oldest = [
        (of, max(taken_at_ns - channel.oldest_ns, 0) / NS_PER_S)
        for of, channel in channels
        if channel.oldest_ns is not None
    ]
    to.add("penstock_channel_oldest_seconds", oldest)
    _add_pauses(to, "penstock_topic", listed, taken_at_ns // NS_PER_MS, pause_limit_ms)
    # Of those with a quarantine alone, as with pauses.
    used = [(of, channel) for of, channel in channels if channel.quarantine is not NO_QUARANTINE]
    for name, field in _PART.items():
        to.add(name, _samples(used, field))
    _add_pauses(to, "penstock_channel", channels, taken_at_ns // NS_PER_MS, pause_limit_ms)
    if selection.has_histograms:
        latencies = [(of, latency_counts(channel.latency)) for of, channel in channels]
        to.add_histogram("penstock_channel_publish_to_finish_seconds", latencies)
        held = [(of, channel.held) for of, channel in channels]
        to.add_histogram("penstock_channel_delivery_to_finish_seconds", held)
    cursors = [
        (labels(topic=topic.topic_name, cursor=cursor.cursor), cursor)
        for _, topic in listed
        for cursor in topic.cursors
    ]
    for name, field in _CURSOR.items():
        to.add(name, [(of, float(getattr(cursor, field))) for of, cursor in cursors])


def _add_pauses(
    to: Exposition,
    prefix: str,
    listed: Iterable[tuple[str, TopicStats]] | Iterable[tuple[str, ChannelStats]],
    now_ms: int,
    limit_ms: int,
) -> None:
    """Of those that are paused alone: most are not, and a series each would say nothing."""
    paused = [(of, one.pause) for of, one in listed if one.pause is not None]
    since = [(of, max(now_ms - pause.since_ms, 0) / 1000) for of, pause in paused if pause.since_ms]
    to.add(f"{prefix}_paused_seconds", since)
    to.add(f"{prefix}_pause_overdue_seconds", [(of, pause.overdue_ms(now_ms, limit_ms) / 1000) for of, pause in paused])


def latency_counts(latency: Mapping[int, int]) -> HistogramCounts:
    """The latencies that a channel counts by their own finer buckets, as a histogram.

    A latency counts below a bound when all of its bucket is below it. The sum is at most 2 % off.
    """
    counts = [0] * (len(MESSAGE_BOUNDS_NS) + 1)
    sum_ms = 0.0
    for bucket, count in latency.items():
        counts[_PLACES[bucket]] += count
        sum_ms += value_ms_of(bucket) * count
    return HistogramCounts(MESSAGE_BOUNDS_NS, tuple(counts), round(sum_ms * NS_PER_MS))


def _add_log(to: Exposition, log: LogStats) -> None:
    for name, field in _LOG.items():
        value = getattr(log, field)
        to.add_one(name, bool(value) if isinstance(value, str) else value)
    to.add_histogram("penstock_log_sync_seconds", [("", log.sync_times)])
    to.add_one("penstock_log_oldest_unsynced_seconds", log.oldest_unsynced_ms / 1000)
    recovery = log.recovery
    if recovery is not None:
        to.add_one("penstock_recovery_seconds", recovery.took_ms / 1000)
        to.add_one("penstock_recovery_lost_messages", recovery.lost_count)
        to.add_one("penstock_recovery_redelivered_messages", recovery.redelivered_count)


def _samples(listed: Iterable[tuple[str, TopicStats | ChannelStats]], field: str) -> list[Sample]:
    """One field of each topic or channel; unknown values (None) are left out. A sentence counts as 1."""
    read = attrgetter(field)
    found = [(of, read(one)) for of, one in listed]
    return [(of, bool(value) if isinstance(value, str) else value) for of, value in found if value is not None]
