"""The JSON schema of `/stats`: nsqd's keys, and those beside them (`stats.py` says what they mean)."""

from dataclasses import fields

from queue_engine.service.http.reference.shapes import (
    COUNT,
    NUMBER,
    TEXT,
    YES_OR_NO,
    array,
    nullable,
    record,
    record_of,
    ref,
)
from queue_engine.storage.log_stats import LeaseStats, LogStats
from queue_engine.storage.recovery_report import LostMessages, ProgressLoss

_LATENCY = record(
    {
        "count": COUNT,
        "percentiles": {
            "type": ["array", "null"],
            "items": record({"quantile": {"type": "number"}, "value": COUNT}),
        },
        "buckets": array(array(nullable(COUNT))),
    },
    optional=("buckets",),
    text="From publish to FIN, nanoseconds. count: of the messages that the percentiles are of. buckets: [end, count].",
)
# Beside nsqd's keys, of topics and of channels.
_PLACE = {
    "oldest_age_ms": nullable(COUNT),
    "disk_bytes": nullable(COUNT),
    "fenced": TEXT,
    "unreadable": TEXT,
    "dropped_count": COUNT,
    "pause": {"oneOf": [ref("Pause"), {"type": "null"}]},
    "resume_refused": TEXT,
}
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
    text="A pause: who, why, since when, until when (0: no end), what waited then; who gave it that reason and end.",
)

CLIENT = record(
    {
        "client_id": TEXT,
        "hostname": TEXT,
        "version": TEXT,
        "remote_address": TEXT,
        "state": COUNT,
        "ready_count": COUNT,
        "in_flight_count": COUNT,
        "message_count": COUNT,
        "finish_count": COUNT,
        "requeue_count": COUNT,
        "connect_ts": COUNT,
        "sample_rate": COUNT,
        "deflate": YES_OR_NO,
        "snappy": YES_OR_NO,
        "user_agent": TEXT,
        "topology_zone": TEXT,
        "topology_region": TEXT,
        "pub_counts": array(record({"topic": TEXT, "count": COUNT})),
        "tls": YES_OR_NO,
        "tls_cipher_suite": TEXT,
        "tls_version": TEXT,
        "tls_negotiated_protocol": TEXT,
        "tls_negotiated_protocol_is_mutual": YES_OR_NO,
        "timeout_count": COUNT,
        "msg_timeout": COUNT,
    },
    text="A connection. connect_ts: Unix seconds. msg_timeout: milliseconds.",
)
CHANNEL = record(
    {
        "channel_name": TEXT,
        "depth": COUNT,
        "backend_depth": COUNT,
        "in_flight_count": COUNT,
        "deferred_count": COUNT,
        "message_count": COUNT,
        "requeue_count": COUNT,
        "timeout_count": COUNT,
        "client_count": COUNT,
        "clients": {"type": ["array", "null"], "items": ref("Client")},
        "paused": YES_OR_NO,
        "e2e_processing_latency": _LATENCY,
        "finish_count": COUNT,
        "disconnect_count": COUNT,
        "ready_count": COUNT,
        "held_back": TEXT,
        "quarantined_count": COUNT,
        "quarantined_bytes": COUNT,
        "quarantined_since_ms": nullable(COUNT),
        "quarantine_full": TEXT,
        "max_attempts": COUNT,
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
        **_PLACE,
    },
    text="A channel. clients: null where the request has include_clients=false.",
)
TOPIC = record(
    {
        "topic_name": TEXT,
        "channels": array(ref("Channel")),
        "depth": COUNT,
        "backend_depth": COUNT,
        "message_count": COUNT,
        "message_bytes": COUNT,
        "paused": YES_OR_NO,
        "e2e_processing_latency": _LATENCY,
        "storage": TEXT,
        "cursors": array(ref("Cursor")),
        **_PLACE,
    },
    text="A topic, its channels and its pipeline cursors.",
)
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
    {**_AS_THEY_ARE["properties"], "holds": array(record_of(LeaseStats)), "recovery": _RECOVERY},
    optional=("recovery",),
    text="The log that topics of kind log share. holds: leases. recovery: what the last start found.",
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
