"""A node's figures as the stats that pages read: `TopicStats` and `ChannelStats`, as the embedded engine has them.

A figure that the node's answer lacks has the stats' default. Where that would be a wrong number:

    finish_count    of an nsqd: messages that came, less those that are unfinished; what is emptied counts as finished
    ready_count     of an nsqd: that of the clients, unknown (None) where these were not read
    oldest_ns       None, unknown: an nsqd reports no ages
    disk_bytes      None, unknown
"""

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

from admin_console.cluster.node_stats import Figures, NodeChannel, NodeTopic
from queue_engine.delivery.stats import ChannelStats, TopicStats
from queue_engine.storage.quarantine_stats import NO_QUARANTINE, QuarantineStats
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.figures import CHANNEL, TOPIC, Figure
from queue_engine.vocabulary.latency.latency_buckets import BUCKET_MAX

_ADDS_UP = ("messages", "bytes", "consumers")
_READY = "ready_count"


def _counts(rows: Iterable[Figure]) -> tuple[str, ...]:
    return tuple(
        row.name
        for row in rows
        if row.type is int and row.unit in _ADDS_UP and row.attribute == row.name and row.name != _READY
    )


TOPIC_COUNTS, CHANNEL_COUNTS = _counts(TOPIC), _counts(CHANNEL)
"""The figures of a topic and of a channel that add up over nodes, and that a node always has."""


def _of_nsqd(rows: Iterable[Figure], counts: Iterable[str]) -> tuple[str, ...]:
    """The counts that every nsqd reports: nsqd's keys come first in /stats, the latency last of them."""
    last = next(row.place for row in rows if row.name == "e2e_processing_latency")
    return tuple(row.name for row in rows if row.name in counts and row.place < last)


_topic_needs = itemgetter(*_of_nsqd(TOPIC, TOPIC_COUNTS))
_channel_needs = itemgetter(*_of_nsqd(CHANNEL, CHANNEL_COUNTS))
_TOPIC_TEXTS = ("storage", "fenced", "unreadable", "resume_refused")
_CHANNEL_TEXTS = ("held_back", "fenced", "unreadable", "resume_refused")


def lacking(topic: NodeTopic) -> tuple[str, ...]:
    """Those of its channels, "" for the topic itself, of which the node reports less than every nsqd does: a count is
    missing, or beyond 2^63."""
    found = [name for name, channel in topic.channels.items() if None in _channel_needs(channel.figures)]
    return ("", *found) if None in _topic_needs(topic.figures) else tuple(found)


def derives_finished(channel: NodeChannel) -> bool:
    """Whether the node is an nsqd, which does not count finished messages."""
    return channel.figures["finish_count"] is None


def flown(stats: ChannelStats) -> int:
    """Messages that came and are unfinished no more. Negative where the channel had messages of an earlier process."""
    return stats.message_count - stats.depth - stats.in_flight_count - stats.deferred_count - stats.quarantined_count


def topic_stats(topic: NodeTopic, read_at_ms: int, before: Mapping[str, ChannelStats] | None = None) -> TopicStats:
    """read_at_ms: Unix. before: the channels at the reading before of the same process, from which derived counts go
    on."""
    figures = topic.figures
    before = before or {}
    counts: dict[str, Any] = {name: figures[name] or 0 for name in TOPIC_COUNTS}
    texts: dict[str, Any] = {name: figures[name] or "" for name in _TOPIC_TEXTS}
    return TopicStats(
        topic_name=topic.name,
        paused=bool(figures["paused"]),
        oldest_ns=_oldest_ns(figures, read_at_ms),
        disk_bytes=figures["disk_bytes"],
        channels=tuple(
            channel_stats(topic.name, topic.channels[name], read_at_ms, before.get(name))
            for name in sorted(topic.channels)
        ),
        **counts,
        **texts,
    )


def channel_stats(
    topic: str, channel: NodeChannel, read_at_ms: int, before: ChannelStats | None = None
) -> ChannelStats:
    """As `topic_stats`."""
    figures = channel.figures
    counts: dict[str, Any] = {name: figures[name] or 0 for name in CHANNEL_COUNTS}
    if derives_finished(channel):
        unfinished = counts["depth"] + counts["in_flight_count"] + counts["deferred_count"]
        # nsqd reads its counts one after the other: what comes in between must not make it fall.
        # A channel that was made again counts from 0.
        is_same = before is not None and before.message_count <= counts["message_count"]
        least = before.finish_count if before is not None and is_same else 0
        counts["finish_count"] = max(counts["message_count"] - unfinished, least)
    texts: dict[str, Any] = {name: figures[name] or "" for name in _CHANNEL_TEXTS}
    return ChannelStats(
        topic_name=topic,
        channel_name=channel.name,
        paused=bool(figures["paused"]),
        oldest_ns=_oldest_ns(figures, read_at_ms),
        next_due_ns=None,
        disk_bytes=figures["disk_bytes"],
        ready_count=_ready(channel),
        quarantine=_quarantine(figures),
        latency=_histogram(channel.latency.get("histogram")),
        **counts,
        **texts,
    )


def _ready(channel: NodeChannel) -> int | None:
    figures = channel.figures
    if figures[_READY] is not None or channel.clients is None:
        return 0 if figures["client_count"] == 0 else figures[_READY]
    return sum(client[_READY] or 0 for client in channel.clients)


def _oldest_ns(figures: Figures, read_at_ms: int) -> int | None:
    age_ms = figures["oldest_age_ms"]
    return None if age_ms is None else (read_at_ms - age_ms) * NS_PER_MS


def _histogram(numbers: Any) -> dict[int, int]:
    """Of [bucket, messages, bucket, messages, …], as a Penstock writes it; empty for another form."""
    if not isinstance(numbers, list) or not all(type(one) is int and one >= 0 for one in numbers):
        return {}
    buckets, counts = numbers[::2], numbers[1::2]
    if len(buckets) != len(counts) or max(buckets, default=0) > BUCKET_MAX:
        return {}
    return dict(zip(buckets, counts, strict=True))


def _quarantine(figures: Figures) -> QuarantineStats:
    if not figures["quarantined_count"] and not figures["max_attempts"]:
        return NO_QUARANTINE
    since_ms = figures["quarantined_since_ms"]
    return QuarantineStats(
        max_attempts=figures["max_attempts"] or 0,
        count=figures["quarantined_count"] or 0,
        bytes=figures["quarantined_bytes"] or 0,
        oldest_ns=None if since_ms is None else since_ms * NS_PER_MS,
        full=figures["quarantine_full"] or "",
    )
