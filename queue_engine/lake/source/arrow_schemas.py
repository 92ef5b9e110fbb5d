"""The columns that jobs read, as an Arrow schema. `schemas.py` makes the Spark schema of it.

A column's `comment` has its unit and its source.
"""

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")


def _column(name: str, kind: pa.DataType, comment: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"comment": comment})


MESSAGES = pa.schema(
    [
        _column("topic", pa.string(), "name of the topic, as in the option"),
        _column("offset", pa.int64(), "number of the message within its topic, from the record's first offset"),
        _column("message_id", pa.string(), "16 hex digits: the topic's id base plus the offset"),
        _column(
            "published_at", TIMESTAMP, "when the engine took the message, UTC, in microseconds cut from nanoseconds"
        ),
        _column("key", pa.binary(), "the message's key, from the record's table; null for none", nullable=True),
        _column("body", pa.binary(), "the message's bytes as they were published"),
        _column("replayed", pa.bool_(), "whether a replay wrote the message, from the record's flags"),
    ]
)
"""One row for each message of a topic of the log."""
