"""A sample: one node's figures at one moment, and the growth of its counters since its sample before.

    | "PSMP" | version u8 = 1 | zlib of JSON |

    {"node": "…", "taken_ms": Unix ms, "started_ms": when the process started, "sequence": n,
     "engine":   {"connections", "producers", "topics", "channels", "healthy": 0|1, "rss_bytes", "cpu_ms"},
     "log":      {"bytes", "hole_bytes", "sync_count", "written_bytes", "damaged", "full": 0|1} or null,
     "disk":     {"free_bytes", "total_bytes"},
     "topics":   {"topic": […], "storage": […], "depth", "waiting", "in_flight", "deferred", "clients", "disk_bytes",
                  "messages", "message_bytes", "finished", "requeued", "timeouts", "disconnects",
                  "messages_total", … and so for each of these six},
     "channels": {"topic": […], "channel": […], "depth", "in_flight", "deferred", "clients", "disk_bytes", "messages",
                  "finished", "requeued", "timeouts", "disconnects", their five …_total, "paused": 0|1,
                  "oldest_age_ms": ms or null, "latency": [[bucket, count, bucket, count, …], …]}}

Tables are columns: the nth entry of each belongs to the nth topic or channel, which are sorted by name. `depth` of a
topic counts messages that wait at the topic itself, `waiting` also those in its channels; its `in_flight`, `deferred`
and `clients` are sums over its channels, and so are `finished`, `requeued`, `timeouts` and `disconnects`.

A counter is its growth since the last sample that this process wrote, or since the process started. Beside it stands
X_total, the engine's own count since the process started, over the topics and channels that exist now. A topic or
channel that was deleted and made again (with another number) grows from 0. Growth is never negative. `latency` is the
growth of a channel's histogram (latency_buckets.py): its counts add up to `finished`. `sequence` rises by one with each
sample, also with those that could not be written; the next sample has their growth. `cpu_ms` is the process's since its
start, all threads; `log` counts since then, too.

`node` is the broadcast address of the engine that writes the log. Of another node that its console reads it is
HOST:PORT, so the two differ. Such a sample has `"engine": null, "log": null, "disk": null`, `taken_ms` by the console's
clock, and `started_ms` of the node. Its counters are the growth since the console's last sample of that node, 0 in the
first. A figure that the node does not give is null where the table says so, else 0.

To change it: add keys, which old readers pass over; for another meaning the next version number, and go on reading the
old one. A version that writes none of other nodes reads them: its history has a row for each node, too.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

import orjson

from queue_engine.delivery.stats import HEALTHY, ChannelStats, EngineSnapshot, TopicStats
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import CorruptError
from queue_engine.vocabulary.figures import CHANNEL, COUNTED, MEASURED, TOPIC, Figure, FigureKind
from queue_engine.vocabulary.log_figures import LOG

MAGIC = b"PSMP"
VERSION = 1
ZLIB_LEVEL = 1

Sample = dict[str, Any]
Figures = TypeVar("Figures", TopicStats, ChannelStats)


def _columns(rows: Iterable[Figure], kind: FigureKind) -> dict[str, str]:
    """Column → attribute of the stats, of the numbers that stand there as they are."""
    return {
        row.sample: row.attribute
        for row in rows
        if row.sample and row.attribute and row.kind is kind and not row.is_flag
    }


_CHANNEL_GAUGES, _CHANNEL_COUNTERS = _columns(CHANNEL, MEASURED), _columns(CHANNEL, COUNTED)
_TOPIC_GAUGES, _TOPIC_COUNTERS = _columns(TOPIC, MEASURED), _columns(TOPIC, COUNTED)
_LOG = {row.sample: row.attribute for row in LOG if row.sample}
_CHANNEL_FLAGS = {row.sample: row.attribute for row in CHANNEL if row.sample and row.is_flag}
# Sums over a topic's channels, of figures that the topic does not have itself.
_SUMMED_GAUGES = [column for column in _CHANNEL_GAUGES if column not in _TOPIC_GAUGES]
_SUMMED_COUNTERS = [column for column in _CHANNEL_COUNTERS if column not in _TOPIC_COUNTERS]


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """Figures of the process and its disk. rss_bytes: memory in use. cpu_ms: of all threads, since the start."""

    rss_bytes: int
    cpu_ms: int
    disk_free_bytes: int
    disk_total_bytes: int


def compose_sample(
    snapshot: EngineSnapshot,
    previous: EngineSnapshot | None,
    process: ProcessFigures | None,
    *,
    node: str,
    sequence: int,
) -> Sample:
    """The sample of a snapshot. previous: of the last sample of its node; None for a node that began at 0 since.
    process: None for a node that is another process."""
    before = {} if previous is None else {topic.topic_name: topic for topic in previous.topics}
    topics = snapshot.topics
    channels = [channel for topic in topics for channel in topic.channels]
    earlier: list[ChannelStats | None] = []
    for topic in topics:
        of_topic = {channel.channel_name: channel for channel in _channels_of(before.get(topic.topic_name))}
        earlier += [_same(channel, of_topic.get(channel.channel_name)) for channel in topic.channels]
    channel_table = _channel_table(channels, earlier, snapshot.taken_at_ns)
    log = snapshot.log
    return {
        "node": node,
        "taken_ms": snapshot.taken_at_ns // NS_PER_MS,
        "started_ms": snapshot.started_at_ns // NS_PER_MS,
        "sequence": sequence,
        "engine": process
        and {
            "connections": snapshot.connection_count,
            "producers": snapshot.producer_count,
            "topics": len(topics),
            "channels": len(channels),
            "healthy": int(snapshot.health == HEALTHY),
            "rss_bytes": process.rss_bytes,
            "cpu_ms": process.cpu_ms,
        },
        "log": None if log is None else {column: int(getattr(log, attribute)) for column, attribute in _LOG.items()},
        "disk": process and {"free_bytes": process.disk_free_bytes, "total_bytes": process.disk_total_bytes},
        "topics": _topic_table(topics, [_same(one, before.get(one.topic_name)) for one in topics], channel_table),
        "channels": channel_table,
    }


def _channels_of(topic: TopicStats | None) -> tuple[ChannelStats, ...]:
    return () if topic is None else topic.channels


def _same(now: Figures, then: Figures | None) -> Figures | None:
    """The earlier figures of the same topic or channel; None when another one had its name."""
    return then if then is not None and then.number == now.number else None


def _growth(now: Sequence[Any], then: Sequence[Any | None], value: Callable[[Any], int]) -> tuple[list[int], list[int]]:
    """Growth and totals of a counter. A counter that fell began again at 0."""
    totals = [value(one) for one in now]
    before = [0 if one is None else value(one) for one in then]
    return [total - was if total >= was else total for total, was in zip(totals, before, strict=True)], totals


def _channel_table(
    channels: Sequence[ChannelStats], earlier: Sequence[ChannelStats | None], taken_at_ns: int
) -> dict[str, list[Any]]:
    table: dict[str, list[Any]] = {
        "topic": [one.topic_name for one in channels],
        "channel": [one.channel_name for one in channels],
    }
    for column, attribute in _CHANNEL_GAUGES.items():
        table[column] = list(map(attrgetter(attribute), channels))
    for column, attribute in _CHANNEL_COUNTERS.items():
        table[column], table[f"{column}_total"] = _growth(channels, earlier, attrgetter(attribute))
    for column, attribute in _CHANNEL_FLAGS.items():
        table[column] = [int(bool(value)) for value in map(attrgetter(attribute), channels)]
    table["oldest_age_ms"] = [
        None if one.oldest_ns is None else max(0, taken_at_ns - one.oldest_ns) // NS_PER_MS for one in channels
    ]
    table["latency"] = [
        _bucket_growth(one.latency, {} if was is None else was.latency)
        for one, was in zip(channels, earlier, strict=True)
    ]
    return table


def _bucket_growth(now: Mapping[int, int], then: Mapping[int, int]) -> list[int]:
    if now is then or not now:
        return []  # no message was finished, the usual case
    if sum(now.values()) < sum(then.values()):
        then = {}  # the counters began again at 0
    growth = [(bucket, count - then.get(bucket, 0)) for bucket, count in now.items()]
    return [number for pair in sorted(growth) if pair[1] for number in pair]


def _topic_table(
    topics: Sequence[TopicStats], earlier: Sequence[TopicStats | None], channels: Mapping[str, list[Any]]
) -> dict[str, list[Any]]:
    # Where each topic's channels lie in their table.
    ranges: list[slice] = []
    start = 0
    for topic in topics:
        ranges.append(slice(start, start + len(topic.channels)))
        start += len(topic.channels)
    depths = [topic.depth for topic in topics]
    own = {column: list(map(attrgetter(attribute), topics)) for column, attribute in _TOPIC_GAUGES.items()}
    table: dict[str, list[Any]] = {
        "topic": [topic.topic_name for topic in topics],
        "storage": [topic.storage for topic in topics],
        "depth": depths,
        "waiting": [depth + sum(channels["depth"][part]) for depth, part in zip(depths, ranges, strict=True)],
    }
    for column in _SUMMED_GAUGES:
        table[column] = [sum(channels[column][part]) for part in ranges]
    table |= own
    for column, attribute in _TOPIC_COUNTERS.items():
        table[column], table[f"{column}_total"] = _growth(topics, earlier, attrgetter(attribute))
    for column in _SUMMED_COUNTERS:
        for name in (column, f"{column}_total"):
            table[name] = [sum(channels[name][part]) for part in ranges]
    return table


def encode_sample(sample: Sample) -> bytes:
    """The sample as a message's body."""
    return MAGIC + bytes([VERSION]) + zlib.compress(orjson.dumps(sample), ZLIB_LEVEL)


def decode_sample(body: bytes) -> Sample:
    """The sample in a message's body. Raises CorruptError for other bytes and for an unknown version."""
    if body[:4] != MAGIC or len(body) < 5:
        raise CorruptError(f"a sample begins with {body[:4]!r} and not with {MAGIC!r}")
    if body[4] != VERSION:
        raise CorruptError(f"a sample has version {body[4]}, and this program knows {VERSION}")
    try:
        sample: Sample = orjson.loads(zlib.decompress(body[5:]))
    except (zlib.error, ValueError) as exc:
        raise CorruptError(f"a sample of {len(body)} bytes can't be read: {exc}") from exc
    return sample
