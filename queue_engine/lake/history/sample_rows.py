"""Decodes the samples of an engine, as the log has them, to rows: columns in, columns out, without Spark.

`sample_format.py` draws the body. A counter is the growth since the sample before, so restarts need no care here.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from queue_engine.engine.samples.sample_format import decode_sample
from queue_engine.lake.history.latency_sums import sum_by_bucket
from queue_engine.lake.history.schema import COUNTERS, GAUGES, SAMPLE_ROWS, TIMESTAMP
from queue_engine.vocabulary.errors import CorruptError, PipelineError, UnreadableSampleError

# Few enough for a small process, enough that a batch costs little.
BATCH_ROWS = 20_000

# The columns that topics have themselves, and those that channels have.
_TOPIC_GAUGES = [name for name in GAUGES if name != "oldest_age_ms"]
_CHANNEL_COUNTERS = [name for name in COUNTERS if name != "message_bytes"]


def sample_rows(batches: Iterable[pa.RecordBatch], on_unreadable: Callable[[str], None]) -> Iterator[pa.RecordBatch]:
    """Batches of messages with a column `body` → batches of `SAMPLE_ROWS`.

    on_unreadable: called with a sentence for every body that can't be decoded; the other bodies are decoded.
    """
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        for body in batch.column("body"):
            try:
                found = rows_of(body.as_py() or b"")
            except UnreadableSampleError as exc:
                on_unreadable(str(exc))
                continue
            waiting.append(found)
            rows += found.num_rows
            if rows >= BATCH_ROWS:
                yield _joined(waiting)
                waiting, rows = [], 0
    if waiting:
        yield _joined(waiting)


def rows_of(body: bytes) -> pa.RecordBatch:
    """The rows of one sample: all topics, each topic, each channel. Raises UnreadableSampleError."""
    try:
        return _rows(decode_sample(body))
    except (KeyError, TypeError, ValueError, OverflowError, pa.ArrowException, CorruptError, PipelineError) as exc:
        raise UnreadableSampleError(f"sample of {len(body)} bytes can't be read: {exc!r:.200}") from exc


def _rows(sample: dict[str, Any]) -> pa.RecordBatch:
    topics, channels = sample["topics"], sample["channels"]
    topic_names, channel_topics = topics["topic"], channels["topic"]
    topic_count, channel_count = len(topic_names), len(channel_topics)
    count = 1 + topic_count + channel_count

    # The index of each channel's topic; -1 when the sample does not list the topic.
    places = {name: place for place, name in enumerate(topic_names)}
    topic_of = np.array([places.get(name, -1) for name in channel_topics], dtype=np.int64)

    arrays: dict[str, pa.Array] = {
        "taken_at": pa.array([sample["taken_ms"] * 1000] * count, pa.int64()).cast(TIMESTAMP),
        "sequence": pa.array([sample["sequence"]] * count, pa.int64()),
        "node": pa.array([sample["node"]] * count, pa.string()),
        "topic": pa.array(["", *topic_names, *channel_topics], pa.string()),
        "channel": pa.array([*[""] * (1 + topic_count), *channels["channel"]], pa.string()),
    }
    for name in _TOPIC_GAUGES:
        own = topics[name]
        of_channels = channels["depth" if name == "waiting" else name]
        # When one topic has no value, the total has none.
        total = None if None in own else float(sum(own))
        arrays[name] = pa.array([total, *own, *of_channels], pa.float64())
    ages = channels["oldest_age_ms"]
    arrays["oldest_age_ms"] = pa.array([*_worst_ages(ages, topic_of, topic_count), *ages], pa.float64())
    for name in COUNTERS:
        own = topics[name]
        of_channels = channels[name] if name in _CHANNEL_COUNTERS else [0] * channel_count
        arrays[name] = pa.array([sum(own), *own, *of_channels], pa.int64())
    arrays["paused"] = pa.array([*[0] * (1 + topic_count), *channels["paused"]], pa.int32())
    arrays["latency"] = _latency(channels["latency"], topic_of, topic_count)
    return pa.record_batch([arrays[field.name] for field in SAMPLE_ROWS], schema=SAMPLE_ROWS)


def _worst_ages(ages: list[float | None], topic_of: Any, topic_count: int) -> list[float | None]:
    """The greatest age of all channels, then of each topic's; None where none was measured."""
    worst: list[float | None] = [None] * (1 + topic_count)
    for age, place in zip(ages, topic_of.tolist(), strict=True):
        if age is not None:
            for row in (0, 1 + place) if place >= 0 else (0,):
                found = worst[row]
                worst[row] = age if found is None else max(found, age)
    return worst


def _latency(lists: list[list[int]], topic_of: Any, topic_count: int) -> pa.Array:
    """Channels' lists b, n, b, n, … → a histogram a row: of all channels, of each topic's, of each channel."""
    flat = np.array(list(chain.from_iterable(lists)), dtype=np.int64)
    lengths = np.array([len(one) for one in lists], dtype=np.int64)
    if (lengths % 2).any() or len(lists) != len(topic_of):
        raise ValueError("latencies are not pairs for each channel")
    buckets, counts = flat[::2], flat[1::2]
    channel_rows = np.repeat(np.arange(len(lists), dtype=np.int64), lengths // 2)
    topic_rows = topic_of[channel_rows]
    is_listed = topic_rows >= 0
    return sum_by_bucket(
        np.concatenate([np.zeros_like(channel_rows), 1 + topic_rows[is_listed], 1 + topic_count + channel_rows]),
        np.concatenate([buckets, buckets[is_listed], buckets]),
        np.concatenate([counts, counts[is_listed], counts]),
        1 + topic_count + len(lists),
    )


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
