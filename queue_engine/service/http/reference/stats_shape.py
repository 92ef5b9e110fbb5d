"""The JSON schema of `/stats`: its keys are those of `vocabulary/figures.py`."""

from collections.abc import Iterable, Mapping
from dataclasses import fields

from queue_engine.service.http.reference.shapes import (
    COUNT,
    NUMBER,
    TEXT,
    YES_OR_NO,
    Schema,
    array,
    nullable,
    record,
    record_of,
    ref,
)
from queue_engine.storage.log_stats import LeaseStats, LogStats
from queue_engine.storage.recovery_report import LostMessages, ProgressLoss
from queue_engine.vocabulary import figures
from queue_engine.vocabulary.figures import FLAG, NONE, NUMBER_OR_NULL, Figure, in_stats
from queue_engine.vocabulary.log_figures import LOG as LOG_FIGURES

_LATENCY = record(
    {
        "count": COUNT,
        "percentiles": {
            "type": ["array", "null"],
            "items": record({"quantile": {"type": "number"}, "value": COUNT}),
        },
        "buckets": array(array(nullable(COUNT))),
        "histogram": array(COUNT),
    },
    optional=("buckets", "histogram"),
    text=(
        "From publish to FIN, nanoseconds. count: of the messages that the percentiles are of. buckets: [end, count]. "
        "histogram: of a channel since the start, [bucket, count, bucket, count, …]; bucket n ends at 0.1 ms × 1.04^n."
    ),
)
PAUSE = record(
    {
        "by": TEXT,
        "reason": TEXT,
        "since_ms": COUNT,
        "until_ms": COUNT,
        "depth": COUNT,
        "changed_by": TEXT,
        "changed_ms": COUNT,
    },
    optional=("changed_by", "changed_ms"),
    text="A pause: who, why, since when, until when (0: no end), the depth then; who gave it that reason and end.",
)

# The shapes of the documents in the table of figures.
_OBJECTS: Mapping[str, Schema] = {
    "e2e_processing_latency": _LATENCY,
    "pause": {"oneOf": [ref("Pause"), {"type": "null"}]},
    "channels": array(ref("Channel")),
    "cursors": array(ref("Cursor")),
    "clients": {"type": ["array", "null"], "items": ref("Client")},
    "pub_counts": array(record({"topic": TEXT, "count": COUNT})),
    "redrive": {
        "oneOf": [
            record(
                {
                    "rate": COUNT,
                    "total": COUNT,
                    "began_ms": COUNT,
                    "keeps_attempts": YES_OR_NO,
                    "by": TEXT,
                    "done": COUNT,
                    "left": COUNT,
                    "ended": TEXT,
                }
            ),
            {"type": "null"},
        ]
    },
    "ramp": {"oneOf": [record({"from_ms": COUNT, "until_ms": COUNT}), {"type": "null"}]},
}
_TYPES: Mapping[object, Schema] = {int: COUNT, NUMBER_OR_NULL: nullable(COUNT), str: TEXT, bool: YES_OR_NO}


def _properties(rows: Iterable[Figure]) -> dict[str, Schema]:
    return {row.name: {**_schema_of(row), "description": _description(row)} for row in in_stats(rows)}


def _schema_of(row: Figure) -> Schema:
    return _OBJECTS[row.name] if row.type is object else _TYPES[row.type]


def _description(row: Figure) -> str:
    return f"{row.meaning}." if row.unit in (NONE, FLAG) else f"{row.meaning}. Unit: {row.unit}."


CLIENT = record(
    _properties(figures.CLIENT),
    optional=("authed", "auth_identity", "auth_identity_url"),
    text="A connection. connect_ts: Unix seconds. msg_timeout: milliseconds.",
)
CHANNEL = record(
    _properties(figures.CHANNEL),
    text="A channel. clients: null where the request has include_clients=false.",
)
TOPIC = record(_properties(figures.TOPIC), text="A topic, its channels and its pipeline cursors.")
_DAMAGE = record(
    {
        "position": COUNT,
        "size": COUNT,
        "reason": TEXT,
        "lost_count": nullable(COUNT),
        "is_exact": YES_OR_NO,
        "losses": array(record_of(LostMessages)),
    }
)
_RECOVERY = record(
    {
        "was_clean": YES_OR_NO,
        "took_ms": COUNT,
        "scanned_bytes": COUNT,
        "cut_bytes": COUNT,
        "lost_count": COUNT,
        "damages": array(_DAMAGE),
        "redelivered_count": COUNT,
        "redelivered": array(record_of(ProgressLoss)),
        "report": array(TEXT),
    }
)
# The fields of LogStats that are answered as they are.
LOG_FIELDS = tuple(one.name for one in fields(LogStats) if one.name not in ("recovery", "leases", "sync_times"))
_AS_THEY_ARE = record_of(LogStats, only=LOG_FIELDS)
LOG = record(
    {
        **_AS_THEY_ARE["properties"],
        **{row.name: {**_AS_THEY_ARE["properties"][row.name], "description": _description(row)} for row in LOG_FIGURES},
        "holds": array(record_of(LeaseStats)),
        "recovery": _RECOVERY,
    },
    optional=("recovery",),
    text="The log that topics of kind log share. holds: leases. recovery: the findings of the last start.",
)
STATS = record(
    {
        "version": TEXT,
        "health": TEXT,
        "start_time": NUMBER,
        "topics": {"type": ["array", "null"], "items": ref("Topic")},
        "memory": {"type": "object", "additionalProperties": COUNT},
        "producers": {"type": ["array", "null"], "items": ref("Client")},
        "connection_count": COUNT,
        "log": {"oneOf": [ref("Log"), {"type": "null"}]},
    },
    optional=("memory",),
    text="health: OK, or NOK with the reason. start_time: Unix seconds. log: null where there is none.",
)
