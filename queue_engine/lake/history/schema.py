"""The columns of the history and of the samples, as Arrow schemas.

A history row is one node's window of a minute or an hour: of all topics (topic "" and channel ""), of a topic
(channel ""), or of a channel. A sample row is the same at one moment. A column's `comment` has its unit and source.
"""

import pyarrow as pa

from queue_engine.vocabulary.figures import CHANNEL, COUNTED, MEASURED, TOPIC, WAITING

_ROWS = (WAITING, *TOPIC, *CHANNEL)
# Column → its meaning, at the moment of a sample.
GAUGES = {row.sample: row.history for row in _ROWS if row.history and row.kind is MEASURED}
# Column → its count, within a sample's interval or a window.
COUNTERS = {row.sample: row.history for row in _ROWS if row.history and row.kind is COUNTED}
KEYS = ("node", "topic", "channel")
# Every file is sorted so: one channel's rows lie together. The node makes the order whole.
ORDER = ("topic", "channel", "t", "node")

LATENCY = pa.list_(pa.struct([pa.field("b", pa.int32()), pa.field("n", pa.int64())]))
TIMESTAMP = pa.timestamp("us", tz="UTC")


def _column(name: str, kind: pa.DataType, comment: str, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"comment": comment})


_KEY_COLUMNS = [
    _column("node", pa.string(), "the engine that took the samples"),
    _column("topic", pa.string(), '"" for the totals of all topics'),
    _column("channel", pa.string(), '"" for the topic itself'),
]
_COUNTER_COLUMNS = [_column(name, pa.int64(), comment) for name, comment in COUNTERS.items()]
_LATENCY_COLUMN = _column(
    "latency", LATENCY, "messages finished by bucket of publish to finish, ascending by b (latency_buckets.py)"
)

SAMPLE_ROWS = pa.schema(
    [
        _column("taken_at", TIMESTAMP, "when the sample was taken"),
        _column("sequence", pa.int64(), "number of the sample in its engine process"),
        *_KEY_COLUMNS,
        *(_column(name, pa.float64(), f"{comment}; null where not measured") for name, comment in GAUGES.items()),
        *_COUNTER_COLUMNS,
        _column("paused", pa.int32(), "1 for a channel that was paused"),
        _column("latency", LATENCY, "as in the history; of a topic and of all summed over channels"),
    ]
)
"""One row for all topics, one a topic, one a channel, of each sample."""

HISTORY_ROWS = pa.schema(
    [
        _column("t", pa.int64(), "start of the window, Unix seconds", nullable=False),
        *_KEY_COLUMNS,
        _column("samples", pa.int32(), "how many samples the window has"),
        *(
            _column(f"{name}_{kind}", pa.float64(), f"{kind} over the window of: {comment}; null where not measured")
            for name, comment in GAUGES.items()
            for kind in ("min", "max", "avg", "last")
        ),
        *_COUNTER_COLUMNS,
        _column("paused_samples", pa.int32(), "in how many of the samples the channel was paused"),
        _LATENCY_COLUMN,
    ]
)
"""One row a window, node, and topic or channel."""

TABLE_ROWS = HISTORY_ROWS.append(_column("date", pa.date32(), "the day of t (UTC), by which the table is partitioned"))
"""The columns of a table of the history."""
