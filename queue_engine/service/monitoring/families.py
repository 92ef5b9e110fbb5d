"""Every metric family of `/metrics`, in one table: the answer, the reference in the README and the tests read it.

Names end in their unit, and counters in `_total`. Counters begin at 0 with the process. Times of histograms are wall
time; a clock that is set back counts as no time.
"""

from collections.abc import Iterable
from typing import NamedTuple

from queue_engine.vocabulary.figures import CHANNEL, COUNTED, MEASURED, TOPIC, WAITING, Figure
from queue_engine.vocabulary.log_figures import CURSOR, LOG

COUNTER = "counter"
GAUGE = "gauge"
HISTOGRAM = "histogram"
_KINDS = {COUNTED: COUNTER, MEASURED: GAUGE}

_TOPIC = ("topic",)
_CHANNEL = ("topic", "channel")
_CURSOR = ("topic", "cursor")


class Family(NamedTuple):
    """A metric's name, kind, labels and unit; help: a sentence for people."""

    name: str
    kind: str
    help: str
    unit: str
    labels: tuple[str, ...] = ()


def _of(rows: Iterable[Figure], labels: tuple[str, ...]) -> list[Family]:
    return [Family(row.metric, _KINDS[row.kind], _help(row), row.unit, labels) for row in rows if row.metric]


def _help(row: Figure) -> str:
    said = f"1 while {row.text[0].lower()}{row.text[1:]}" if row.is_flag else row.text
    return f"{said}; none without a quarantine" if row.is_of_part else said


def _totals() -> list[Family]:
    rows = (WAITING, *CHANNEL, *TOPIC)
    return [Family(row.total.metric, _KINDS[row.kind], row.total.text, row.unit) for row in rows if row.total]


_TABLE = (
    # The server.
    Family("penstock_up", GAUGE, "1 while the engine is healthy, as /ping reports", "0 or 1"),
    Family("penstock_build_info", GAUGE, "Always 1; the labels name the versions", "1", ("version", "python")),
    Family("penstock_uptime_seconds", GAUGE, "Time since the engine started", "seconds"),
    Family("penstock_engine_cpu_seconds_total", COUNTER, "Processor time of the engine's thread", "seconds"),
    Family("process_cpu_seconds_total", COUNTER, "Processor time of the process, without its children", "seconds"),
    Family("process_resident_memory_bytes", GAUGE, "Memory of the process that is in RAM", "bytes"),
    Family("process_virtual_memory_bytes", GAUGE, "Address space of the process", "bytes"),
    Family("process_open_fds", GAUGE, "Open file descriptors", "descriptors"),
    Family("process_max_fds", GAUGE, "Most file descriptors that the process may have open", "descriptors"),
    Family("process_start_time_seconds", GAUGE, "When the process started, Unix time", "seconds"),
    Family(
        "penstock_lookupd_connected",
        GAUGE,
        "1 while the server is registered with this nsqlookupd (--lookupd-tcp-address)",
        "0 or 1",
        ("address",),
    ),
    # The disk.
    Family("penstock_disk_free_bytes", GAUGE, "Bytes free for the server on the disk of the data directory", "bytes"),
    Family(
        "penstock_disk_bytes",
        GAUGE,
        "Bytes that the data directory takes on its disk, by kind of file, as du counts; ten seconds old at most",
        "bytes",
        ("kind",),
    ),
    Family("penstock_disk_size_bytes", GAUGE, "Size of the disk of the data directory", "bytes"),
    Family(
        "penstock_trash_entries",
        GAUGE,
        "Topics and channels that acts removed or emptied and that can be restored",
        "entries",
    ),
    Family("penstock_trash_bytes", GAUGE, "Bytes of the log that would be removed if the trash were empty", "bytes"),
    Family(
        "penstock_trash_given_up_total",
        COUNTER,
        "Entries deleted before their time: the disk was full, or the trash beyond --trash-max-bytes",
        "entries",
    ),
    Family("penstock_set_aside_files", GAUGE, "Damaged files that were set aside and not removed", "files"),
    Family("penstock_set_aside_bytes", GAUGE, "Bytes of those files", "bytes"),
    Family("penstock_set_aside_removed_total", COUNTER, "Such files removed after --set-aside-retention", "files"),
    # Clients.
    Family("penstock_connections", GAUGE, "Open TCP connections of NSQ clients", "connections"),
    Family(
        "penstock_connections_refused_total",
        COUNTER,
        "Connections refused, by listener (tcp, http, console) and reason",
        "connections",
        ("listener", "reason"),
    ),
    Family("penstock_pending_body_bytes", GAUGE, "Bytes of unfinished bodies that have room, TCP and HTTP", "bytes"),
    Family("penstock_pending_bodies_waiting", GAUGE, "Unfinished bodies that wait for room", "bodies"),
    Family("penstock_pending_body_wait_seconds", GAUGE, "Longest wait of an unfinished body for room now", "seconds"),
    Family(
        "penstock_slow_bodies_ended_total",
        COUNTER,
        "Bodies that were ended because they came too slowly while others waited for room",
        "bodies",
    ),
    Family(
        "penstock_publishes_refused_total",
        COUNTER,
        "Commands and requests to publish that were refused, by reason",
        "requests",
        ("reason",),
    ),
    Family(
        "penstock_requests_refused_total",
        COUNTER,
        "Requests to the HTTP API that were refused for their Host or Origin, by reason (host, origin)",
        "requests",
        ("reason",),
    ),
    Family(
        "penstock_secrets_refused_total",
        COUNTER,
        "Wrong, revoked and expired tokens and secrets, by listener (tcp, http)",
        "requests",
        ("listener",),
    ),
    # All topics together, whatever topics the answer lists.
    Family("penstock_topics", GAUGE, "Topics", "topics"),
    Family("penstock_channels", GAUGE, "Channels of all topics", "channels"),
    *_totals(),
    Family("penstock_oldest_seconds", GAUGE, "Age of the oldest unfinished message; 0 for none", "seconds"),
    Family(
        "penstock_publish_to_finish_seconds",
        HISTOGRAM,
        "Time from publish to FIN of all messages finished; one up to 4 % below a bound may count above it",
        "seconds",
    ),
    Family(
        "penstock_delivery_to_finish_seconds",
        HISTOGRAM,
        "Time from the last delivery to FIN of all messages finished",
        "seconds",
    ),
    Family(
        "penstock_metrics_topics_left_out",
        GAUGE,
        "Topics that this answer leaves out because of --metrics-series-max; the totals count them",
        "topics",
    ),
    Family(
        "penstock_metrics_channels_left_out",
        GAUGE,
        "Channels that this answer leaves out because of --metrics-series-max; the totals count them",
        "channels",
    ),
    Family(
        "penstock_metrics_series_left_out",
        GAUGE,
        "Series that this answer leaves out because of --metrics-series-max",
        "series",
    ),
    # Topics.
    *_of(TOPIC, _TOPIC),
    Family(
        "penstock_topic_disk_bytes",
        GAUGE,
        "Bytes on disk of files that are the topic's own, its channels' included; bodies in the log are not",
        "bytes",
        _TOPIC,
    ),
    Family(
        "penstock_topic_paused_seconds",
        GAUGE,
        "For how long the topic has been paused; none while it is not",
        "seconds",
        _TOPIC,
    ),
    Family(
        "penstock_topic_pause_overdue_seconds",
        GAUGE,
        "For how long a pause of the topic has outlived its end, or --pause-limit; none without a pause",
        "seconds",
        _TOPIC,
    ),
    # Channels.
    *_of(CHANNEL, _CHANNEL),
    Family(
        "penstock_channel_disk_bytes",
        GAUGE,
        "Bytes on disk of files that are the channel's own, a part of its topic's",
        "bytes",
        _CHANNEL,
    ),
    Family(
        "penstock_channel_paused_seconds",
        GAUGE,
        "For how long the channel has been paused; none while it is not",
        "seconds",
        _CHANNEL,
    ),
    Family(
        "penstock_channel_pause_overdue_seconds",
        GAUGE,
        "For how long a pause of the channel has outlived its end, or --pause-limit; none without a pause",
        "seconds",
        _CHANNEL,
    ),
    Family(
        "penstock_channel_oldest_seconds",
        GAUGE,
        "Age of the oldest unfinished message; absent when there is none",
        "seconds",
        _CHANNEL,
    ),
    Family(
        "penstock_channel_publish_to_finish_seconds",
        HISTOGRAM,
        "Time from publish to FIN of each message finished; one up to 4 % below a bound may count above it",
        "seconds",
        _CHANNEL,
    ),
    Family(
        "penstock_channel_delivery_to_finish_seconds",
        HISTOGRAM,
        "Time from the last delivery to FIN of each message finished",
        "seconds",
        _CHANNEL,
    ),
    # Pipeline cursors.
    *_of(CURSOR, _CURSOR),
    Family(
        "penstock_tls_certificate_expiry_seconds",
        GAUGE,
        "When the certificate of a listener expires, Unix time",
        "seconds",
        ("listener",),
    ),
    # The log.
    *_of(LOG, ()),
    Family("penstock_log_sync_seconds", HISTOGRAM, "Time that a sync of the log took", "seconds"),
    Family("penstock_log_oldest_unsynced_seconds", GAUGE, "Age of the oldest byte that is not synced", "seconds"),
    Family("penstock_recovery_seconds", GAUGE, "How long the last start took to recover the log", "seconds"),
    Family("penstock_recovery_lost_messages", GAUGE, "Messages that the last start found lost", "messages"),
    Family(
        "penstock_recovery_redelivered_messages",
        GAUGE,
        "Finished messages that come again, because the last start found their progress damaged",
        "messages",
    ),
    # The console, and the pipeline that it shows.
    Family(
        "penstock_failed_log_ins_total",
        COUNTER,
        "Attempts to log in to the console that failed, by reason",
        "attempts",
        ("reason",),
    ),
    Family("penstock_audit_list_bytes", GAUGE, "Bytes of the audit list, with the console's other tables", "bytes"),
    Family("penstock_audit_list_limit_bytes", GAUGE, "--audit-retention-bytes; 0 for no limit", "bytes"),
    Family("penstock_console_notices", GAUGE, "Notices about trouble that the console shows its users", "notices"),
    Family(
        "penstock_pipeline_worker",
        GAUGE,
        "1 for the state that the pipeline's worker is in, 0 for the others",
        "0 or 1",
        ("state",),
    ),
    Family(
        "penstock_pipeline_worker_restarts_total",
        COUNTER,
        "How often the pipeline's worker was started again after it had died",
        "starts",
    ),
    Family(
        "penstock_pipeline_job",
        GAUGE,
        "1 for the state that a job of the pipeline is in, 0 for the others",
        "0 or 1",
        ("name", "state"),
    ),
    Family(
        "penstock_pipeline_job_in_trouble",
        GAUGE,
        "1 while a job of the pipeline has failed, or is tried again without progress",
        "0 or 1",
        ("name",),
    ),
    Family(
        "penstock_pipeline_job_lag",
        GAUGE,
        "How far a job of the pipeline is behind its source; absent while unknown, as it is of a job in trouble",
        "messages, samples or windows",
        ("name",),
    ),
    Family("penstock_pipeline_replays", GAUGE, "Replays and plans of replays, by state", "jobs", ("state",)),
)

FAMILIES = {family.name: family for family in _TABLE}
