"""A node's figures as the stats that pages read, `TopicStats` and `ChannelStats`, and as rows of counts that add up.

A figure that the node's answer lacks has the stats' default. Where that would be a wrong number:

    finish_count    of an nsqd: messages that came, or were there when it started, less those that are unfinished and
                    those that were emptied; these count as finished where another program than this console removed
                    them while a consumer was connected
    ready_count     of an nsqd: that of the clients, unknown (None) where these were not read
    oldest_ns       None, unknown: an nsqd reports no ages
    disk_bytes      None, unknown
"""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter, itemgetter
from typing import Any

from admin_console.cluster.merging.node_windows import window_of
from admin_console.cluster.reading.node_documents import NO_DOCUMENTS
from admin_console.cluster.reading.node_stats import Figures, NodeChannel, NodeTopic
from queue_engine.delivery.latency_window import NO_CHANNELS, NO_LATENCIES
from queue_engine.delivery.stats import ChannelStats, ClientStats, TopicStats
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

Row = tuple[int, ...]
"""The counts of a topic or channel at one node, then MARKS. The sum of a mark is at how many nodes it is so."""

ClientsOf = Callable[[str], tuple[ClientStats, ...] | None]

MARKS = (
    "disk_bytes",  # 0 where unknown
    "disk_is_unknown",
    "paused",
    "has_words",  # a sentence, a pause, a ramp or a redrive
    "age_is_unknown",  # of the oldest of its messages
    "has_latencies",
    "ready_count",  # 0 where unknown; of a channel, as all below
    "ready_is_unknown",
    "has_quarantine",
    "has_clients",  # they were read
)
TOPIC_MARKS_COUNT = MARKS.index("ready_count")
CHANNEL_MARKS_AT, TOPIC_MARKS_AT = len(CHANNEL_COUNTS), len(TOPIC_COUNTS)
_AT = {name: index for index, name in enumerate(CHANNEL_COUNTS)}
MESSAGES_AT, FINISHED_AT, TIMEOUTS_AT, REQUEUED_AT = (
    _AT[name] for name in ("message_count", "finish_count", "timeout_count", "requeue_count")
)
TOPIC_MESSAGES_AT = TOPIC_COUNTS.index("message_count")
_UNFINISHED_AT = tuple(_AT[name] for name in ("depth", "in_flight_count", "deferred_count", "quarantined_count"))
_unfinished = itemgetter(*_UNFINISHED_AT)
_topic_counts, _channel_counts = itemgetter(*TOPIC_COUNTS), itemgetter(*CHANNEL_COUNTS)
_counts_of_topic, _counts_of_channel = attrgetter(*TOPIC_COUNTS), attrgetter(*CHANNEL_COUNTS)
NO_TOPIC_ROW: Row = (0,) * (TOPIC_MARKS_AT + TOPIC_MARKS_COUNT)


def _of_nsqd(rows: Iterable[Figure], counts: Iterable[str]) -> tuple[str, ...]:
    """The counts that every nsqd reports: nsqd's keys come first in /stats, the latency last of them."""
    last = next(row.place for row in rows if row.name == "e2e_processing_latency")
    return tuple(row.name for row in rows if row.name in counts and row.place < last)


_topic_needs = itemgetter(*_of_nsqd(TOPIC, TOPIC_COUNTS))
_channel_needs = itemgetter(*_of_nsqd(CHANNEL, CHANNEL_COUNTS))
_TOPIC_TEXTS = ("storage", "fenced", "unreadable", "resume_refused")
_CHANNEL_TEXTS = ("held_back", "fenced", "unreadable", "resume_refused")
_NO_DOCUMENTS = (None, None, None)
_topic_words, _channel_words = itemgetter(*_TOPIC_TEXTS[1:]), itemgetter(*_CHANNEL_TEXTS)


def lacking(topic: NodeTopic) -> tuple[str, ...]:
    """Those of its channels, "" for the topic itself, of which the node reports less than every nsqd does: a count is
    missing, or beyond 2^63."""
    found = [name for name, channel in topic.channels.items() if None in _channel_needs(channel.figures)]
    return ("", *found) if None in _topic_needs(topic.figures) else tuple(found)


def topic_row(topic: NodeTopic) -> Row:
    figures = topic.figures
    counts: Row = _topic_counts(figures)
    if None in counts:
        counts = tuple([count or 0 for count in counts])
    disk_bytes = figures["disk_bytes"]
    return (
        *counts,
        disk_bytes or 0,
        disk_bytes is None,
        figures["paused"] is True,
        any(_topic_words(figures)) or topic.documents.pause is not None,
        counts[0] > 0 and figures["oldest_age_ms"] is None,
        bool(topic.latency.get("count")),
    )


def channel_row(channel: NodeChannel, before: Row | None = None) -> Row:
    """before: at the reading before of the same process, from which derived counts go on."""
    figures = channel.figures
    counts: Row = _channel_counts(figures)
    if None in counts:
        listed = [count or 0 for count in counts]
        if derives_finished(channel):
            # nsqd reads its counts one after the other: a message that comes in between must not make it fall.
            goes_on = before is not None and before[MESSAGES_AT] <= listed[MESSAGES_AT]
            least = before[FINISHED_AT] if before is not None and goes_on else 0
            listed[FINISHED_AT] = max(listed[MESSAGES_AT] - sum(_unfinished(listed)) + channel.backlog, least)
        counts = tuple(listed)
    disk_bytes, ready = figures["disk_bytes"], _ready(channel)
    return (
        *counts,
        disk_bytes or 0,
        disk_bytes is None,
        figures["paused"] is True,
        any(_channel_words(figures)) or channel.documents is not NO_DOCUMENTS,
        figures["oldest_age_ms"] is None and any(_unfinished(counts)),
        bool(channel.latency.get("count")),
        ready or 0,
        ready is None,
        bool(figures["quarantined_count"] or figures["max_attempts"]),
        channel.clients is not None,
    )


def row_of_topic(topic: TopicStats) -> Row:
    """Of this server's own figures."""
    disk_bytes = topic.disk_bytes
    return (
        *_counts_of_topic(topic),
        disk_bytes or 0,
        disk_bytes is None,
        topic.paused,
        bool(topic.fenced or topic.unreadable or topic.pause is not None or topic.resume_refused),
        topic.depth > 0 and topic.oldest_ns is None,
        topic.window is not NO_CHANNELS,
    )


def row_of_channel(channel: ChannelStats) -> Row:
    """Of this server's own figures."""
    counts = _counts_of_channel(channel)
    disk_bytes, ready = channel.disk_bytes, channel.ready_count
    texts = channel.held_back or channel.fenced or channel.unreadable or channel.resume_refused
    documents = (channel.pause, channel.ramp, channel.redrive)
    return (
        *counts,
        disk_bytes or 0,
        disk_bytes is None,
        channel.paused,
        bool(texts) or documents != _NO_DOCUMENTS,
        channel.oldest_ns is None and any(_unfinished(counts)),
        channel.window is not NO_LATENCIES,
        ready or 0,
        ready is None,
        channel.quarantine is not NO_QUARANTINE,
        channel.clients is not None,
    )


def derives_finished(channel: NodeChannel) -> bool:
    """Whether the node is an nsqd, which does not count finished messages."""
    return channel.figures["finish_count"] is None


def topic_stats(topic: NodeTopic, read_at_ms: int, before: Mapping[str, ChannelStats] | None = None) -> TopicStats:
    """read_at_ms: Unix. before: the channels at the reading before of the same process, from which derived counts go
    on."""
    earlier = {name: row_of_channel(channel) for name, channel in (before or {}).items()}
    rows = {name: channel_row(channel, earlier.get(name)) for name, channel in topic.channels.items()}
    return topic_stats_of(topic, read_at_ms, rows)


def topic_stats_of(
    topic: NodeTopic, read_at_ms: int, rows: Mapping[str, Row], clients: ClientsOf | None = None
) -> TopicStats:
    """rows: of its channels. clients: of a channel by name; None where no page shows them."""
    figures = topic.figures
    counts: dict[str, Any] = {name: figures[name] or 0 for name in TOPIC_COUNTS}
    texts: dict[str, Any] = {name: figures[name] or "" for name in _TOPIC_TEXTS}
    return TopicStats(
        topic_name=topic.name,
        paused=figures["paused"] is True,
        oldest_ns=oldest_ns(figures, read_at_ms),
        disk_bytes=figures["disk_bytes"],
        channels=tuple(
            [
                _channel_stats(
                    topic.name, topic.channels[name], read_at_ms, rows[name], clients(name) if clients else None
                )
                for name in sorted(topic.channels)
            ]
        ),
        window=window_of(topic.latency),
        pause=topic.documents.pause,
        cursors=topic.documents.cursors,
        **counts,
        **texts,
    )


def _channel_stats(
    topic: str, channel: NodeChannel, read_at_ms: int, row: Row, clients: tuple[ClientStats, ...] | None
) -> ChannelStats:
    figures = channel.figures
    counts: dict[str, Any] = dict(zip(CHANNEL_COUNTS, row, strict=False))
    texts: dict[str, Any] = {name: figures[name] or "" for name in _CHANNEL_TEXTS}
    return ChannelStats(
        topic_name=topic,
        channel_name=channel.name,
        paused=figures["paused"] is True,
        oldest_ns=oldest_ns(figures, read_at_ms),
        next_due_ns=None,
        disk_bytes=figures["disk_bytes"],
        ready_count=_ready(channel),
        quarantine=_quarantine(figures),
        clients=clients,
        window=window_of(channel.latency),
        latency=_histogram(channel.latency.get("histogram")),
        pause=channel.documents.pause,
        ramp=channel.documents.ramp,
        redrive=channel.documents.redrive,
        **counts,
        **texts,
    )


def _ready(channel: NodeChannel) -> int | None:
    figures = channel.figures
    if figures[_READY] is not None or channel.clients is None:
        return 0 if figures["client_count"] == 0 else figures[_READY]
    return sum(client[_READY] or 0 for client in channel.clients)


def oldest_ns(figures: Figures, read_at_ms: int) -> int | None:
    """When the oldest message came, Unix, by this server's clock; None for unknown, or for none."""
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
