"""Writes the engine's stats for Prometheus: `GET /metrics`, in its text format (version 0.0.4).

Names end in their unit, and counters in `_total`; counters begin at 0 with the process.
"""

from collections.abc import Iterable

from queue_engine.delivery.stats import ChannelStats, EngineSnapshot, TopicStats
from queue_engine.vocabulary.clock import NS_PER_S

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_Sample = tuple[str, float]  # labels with their braces, or "", and the value

# field of TopicStats → (name, type, help)
_TOPIC = {
    "depth": ("penstock_topic_depth", "gauge", "Messages that wait at the topic itself"),
    "message_count": ("penstock_topic_messages_total", "counter", "Messages published"),
    "message_bytes": ("penstock_topic_body_bytes_total", "counter", "Bytes of bodies published"),
    "dropped_count": ("penstock_topic_dropped_total", "counter", "Messages an ephemeral topic had no room for"),
    "disk_bytes": ("penstock_topic_disk_bytes", "gauge", "Bytes on disk that are kept for the topic"),
    "paused": ("penstock_topic_paused", "gauge", "1 while the topic is paused"),
    "fenced": ("penstock_topic_fenced", "gauge", "1 while a fault has stopped the topic, until it is retried"),
    "unreadable": ("penstock_topic_unreadable", "gauge", "1 while the disk refuses something of the topic"),
}
_CHANNEL = {
    "depth": ("penstock_channel_depth", "gauge", "Messages that wait"),
    "in_flight_count": ("penstock_channel_in_flight", "gauge", "Messages in flight"),
    "deferred_count": ("penstock_channel_deferred", "gauge", "Messages deferred"),
    "message_count": ("penstock_channel_messages_total", "counter", "Messages that came to the channel"),
    "finish_count": ("penstock_channel_finished_total", "counter", "Messages finished"),
    "requeue_count": ("penstock_channel_requeued_total", "counter", "Messages requeued"),
    "timeout_count": ("penstock_channel_timeouts_total", "counter", "Messages timed out"),
    "client_count": ("penstock_channel_consumers", "gauge", "Consumers connected"),
    "ready_count": ("penstock_channel_ready", "gauge", "RDY of all consumers together"),
    "dropped_count": ("penstock_channel_dropped_total", "counter", "Messages an ephemeral channel had no room for"),
    "disk_bytes": ("penstock_channel_disk_bytes", "gauge", "Bytes on disk that are kept for the channel"),
    "paused": ("penstock_channel_paused", "gauge", "1 while the channel is paused"),
    "fenced": (
        "penstock_channel_fenced",
        "gauge",
        "1 while a fault has stopped the channel, until it is retried",
    ),
    "unreadable": ("penstock_channel_unreadable", "gauge", "1 while the disk refuses something of the channel"),
}
_CURSOR = {
    "depth": ("penstock_cursor_depth", "gauge", "Messages that a pipeline cursor has not passed"),
    "lag_bytes": ("penstock_cursor_lag_bytes", "gauge", "Bytes of the log that are kept for it"),
    "is_warned": ("penstock_cursor_warned", "gauge", "1 while that is near --pipeline-retention-bytes"),
    "gap_count": ("penstock_cursor_gaps", "gauge", "Ranges of messages that it gave up, the newest hundred"),
}
_LOG = {
    "bytes": ("penstock_log_bytes", "gauge", "Bytes in the log's segments"),
    "hole_bytes": ("penstock_log_hole_bytes", "gauge", "Bytes given back from inside segments"),
    "segment_count": ("penstock_log_segments", "gauge", "Segments of the log"),
    "is_full": ("penstock_log_full", "gauge", "1 while publishes are refused for want of room"),
    "damaged_count": ("penstock_log_damaged_messages_total", "counter", "Messages whose bodies are lost"),
    "progress_fault_count": (
        "penstock_progress_faults_total",
        "counter",
        "Errors of the disk that the journal of channels' progress met",
    ),
    "written_bytes": ("penstock_log_written_bytes_total", "counter", "Bytes written to the log"),
    "group_count": ("penstock_log_writes_total", "counter", "Writes to the log"),
    "sync_count": ("penstock_log_syncs_total", "counter", "Syncs of the log"),
}


def metrics_text(snapshot: EngineSnapshot) -> bytes:
    """The whole answer."""
    lines: list[str] = []
    _add(lines, "penstock_up", "gauge", "1 while the engine is healthy", [("", float(snapshot.health == "OK"))])
    _add(lines, "penstock_connections", "gauge", "TCP connections", [("", snapshot.connection_count)])
    refused = [
        (_labels(listener=listener, reason=reason), float(count))
        for (listener, reason), count in sorted(snapshot.refused_connections.items())
    ]
    _add(lines, "penstock_connections_refused_total", "counter", "Connections refused since the start", refused)
    uptime_s = (snapshot.taken_at_ns - snapshot.started_at_ns) / NS_PER_S
    _add(lines, "penstock_uptime_seconds", "gauge", "Seconds since the start", [("", uptime_s)])
    topics = [(_labels(topic=topic.topic_name), topic) for topic in snapshot.topics]
    for field, (name, kind, text) in _TOPIC.items():
        _add(lines, name, kind, text, _samples(topics, field))
    channels = [
        (_labels(topic=topic.topic_name, channel=channel.channel_name), channel)
        for topic in snapshot.topics
        for channel in topic.channels
    ]
    for field, (name, kind, text) in _CHANNEL.items():
        _add(lines, name, kind, text, _samples(channels, field))
    oldest = [
        (labels, max(snapshot.taken_at_ns - channel.oldest_ns, 0) / NS_PER_S)
        for labels, channel in channels
        if channel.oldest_ns is not None
    ]
    _add(lines, "penstock_channel_oldest_seconds", "gauge", "Age of the oldest unfinished message", oldest)
    cursors = [
        (_labels(topic=topic.topic_name, cursor=cursor.cursor), cursor)
        for topic in snapshot.topics
        for cursor in topic.cursors
    ]
    for field, (name, kind, text) in _CURSOR.items() if cursors else ():
        _add(lines, name, kind, text, [(labels, float(getattr(cursor, field))) for labels, cursor in cursors])
    log = snapshot.log
    if log is not None:
        for field, (name, kind, text) in _LOG.items():
            _add(lines, name, kind, text, [("", float(getattr(log, field)))])
        unsynced_s = log.oldest_unsynced_ms / 1000
        name, text = "penstock_log_oldest_unsynced_seconds", "Age of the oldest unsynced byte"
        _add(lines, name, "gauge", text, [("", unsynced_s)])
    return ("\n".join(lines) + "\n").encode()


def _samples(listed: Iterable[tuple[str, TopicStats | ChannelStats]], field: str) -> list[_Sample]:
    """One field of each topic or channel; unknown values (None) are left out. A sentence counts as 1."""
    found = [(labels, getattr(one, field)) for labels, one in listed]
    known = [(labels, bool(value) if isinstance(value, str) else value) for labels, value in found if value is not None]
    return [(labels, float(value)) for labels, value in known]


def _add(lines: list[str], name: str, kind: str, text: str, samples: Iterable[_Sample]) -> None:
    lines += (f"# HELP {name} {text}", f"# TYPE {name} {kind}")
    lines += [f"{name}{labels} {value:.17g}" for labels, value in samples]


def _labels(**labels: str) -> str:
    # Names of topics and channels have no character that would have to be escaped.
    return "{" + ",".join([f'{name}="{value}"' for name, value in labels.items()]) + "}"
