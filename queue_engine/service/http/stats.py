"""Writes `/stats` in JSON and in text, as nsqd does.

The keys of topics, channels and clients, their order, units and meaning: `vocabulary/figures.py`. They begin with
nsqd's, so that nsqadmin, nsq_stat and monitoring read them unchanged. Beside nsqd's keys the whole has
`connection_count`, and `log`: the stats of the log that all topics of that kind share (`LogStats`), null without one.

`e2e_processing_latency` has `buckets` beside nsqd's keys where the request has include_buckets=true: [end of the bucket
in nanoseconds, messages in it], the shortest first. A reader of several servers adds up the counts of the same end
and makes the percentiles of the sum (`vocabulary/latency/latency_percentiles.py`). A channel's `histogram` beside it is
of all messages that it finished since the start: [bucket, messages, bucket, messages, …], ascending
(`vocabulary/latency/latency_buckets.py`); a reader that samples it has the growth in between.

The fields of features that this server lacks (TLS, compression, sampling, zones) have the values that nsqd gives when
they are off.
"""

import platform
from collections.abc import Generator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from queue_engine.delivery.latency_window import NO_CHANNELS, LatencyWindow
from queue_engine.delivery.stats import ClientStats, EngineFigures, EngineSnapshot, Figures
from queue_engine.service.http.reference.stats_shape import LOG_FIELDS
from queue_engine.service.http.stats_rows import StatsRows, client_document
from queue_engine.service.monitoring.process_memory import memory_stats
from queue_engine.storage.log_stats import LogStats
from queue_engine.storage.recovery_report import Damage
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.figures import CHANNEL, CLIENT, TOPIC, dict_reader, text_layout
from queue_engine.vocabulary.flow.pause import Pause
from queue_engine.vocabulary.version import NSQ_VERSION

_LINES_PER_STEP = 50
_TOPIC_LINE, _CHANNEL_LINE, _CLIENT_LINE = (text_layout(rows) for rows in (TOPIC, CHANNEL, CLIENT))
_client_figures = dict_reader({row.name: row.attribute for row in CLIENT if row.line})
_DAMAGES_MAX = 100  # `report` and `lost_count` have all


def producers_of(snapshot: EngineSnapshot, topic: str) -> list[ClientStats]:
    """The connections that have published to `topic`, or to any topic when it is ""."""
    if not topic:
        return list(snapshot.producers)
    return [client for client in snapshot.producers if any(name == topic for name, _ in client.pub_counts)]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The query of a request for stats. topic, channel: "" for all; is_topic_there: there is such a topic.
    has_buckets: whether latencies have their buckets, too."""

    topic: str = ""
    channel: str = ""
    is_json: bool = True
    include_clients: bool = True
    include_mem: bool = True
    has_buckets: bool = False
    is_topic_there: bool = True


def stats_json(figures: EngineFigures, wanted: Wanted) -> Generator[None, None, bytes]:
    """The whole answer of `/stats?format=json`. Yields between short steps, returns the answer."""
    snapshot = figures.rest
    rows = StatsRows(snapshot.percentiles, has_buckets=wanted.has_buckets)
    head: dict[str, Any] = {
        "version": NSQ_VERSION,
        "health": snapshot.health,
        "start_time": snapshot.started_at_ns // NS_PER_S,
    }
    tail: dict[str, Any] = {"memory": memory_stats()} if wanted.include_mem else {}
    # nsqd answers null where there is none.
    tail["producers"] = [client_document(one, wanted.topic) for one in producers_of(snapshot, wanted.topic)] or None
    tail["connection_count"] = snapshot.connection_count
    tail["log"] = snapshot.log and _log(snapshot.log)
    topics = yield from rows.written(figures.topics)
    yield  # joining half a megabyte takes as long as a step
    # nsqd answers null for a topic that it does not have.
    if wanted.topic and not wanted.is_topic_there:
        topics = b"null"
    return b"".join((rows.encoded(head)[:-1], b',"topics":', topics, b",", rows.encoded(tail)[1:]))


def _log(log: LogStats) -> dict[str, Any]:
    answer = {name: getattr(log, name) for name in LOG_FIELDS}
    answer["holds"] = [asdict(one) for one in log.leases]
    recovery = log.recovery
    if recovery is not None:
        answer["recovery"] = {
            "was_clean": recovery.was_clean,
            "took_ms": recovery.took_ms,
            "scanned_bytes": recovery.scanned_bytes,
            "cut_bytes": recovery.cut_bytes,
            "lost_count": recovery.lost_count,
            "damages": [_damage(one) for one in recovery.damages[:_DAMAGES_MAX]],
            "redelivered_count": recovery.redelivered_count,
            "redelivered": [asdict(one) for one in recovery.progress_losses],
            "report": list(recovery.sentences()),
        }
    return answer


def _damage(damage: Damage) -> dict[str, Any]:
    return {
        "position": damage.position,
        "size": damage.size,
        "reason": damage.reason,
        "lost_count": damage.lost,
        "is_exact": damage.is_exact,
        "losses": [asdict(one) for one in damage.losses],
    }


def stats_text(figures: EngineFigures, wanted: Wanted) -> Generator[None, None, bytes]:
    """The whole answer of `/stats` without `format=json`, for people, laid out as nsqd does. Yields between short
    steps, returns the answer."""
    snapshot = figures.rest
    now_s = snapshot.taken_at_ns // NS_PER_S
    started_at = datetime.fromtimestamp(snapshot.started_at_ns // NS_PER_S).astimezone()
    lines = [
        f"nsqd v{NSQ_VERSION} (built w/python{platform.python_version()})",
        f"start_time {started_at.isoformat().replace('+00:00', 'Z')}",
        f"uptime {_duration((snapshot.taken_at_ns - snapshot.started_at_ns) / NS_PER_S)}",
        "",
        f"Health: {snapshot.health}",
    ]
    if wanted.include_mem:
        lines += ["", "Memory:"]
        lines += [f"   {name:<25}\t{value}" for name, value in memory_stats().items()]
    lines += ["", "Topics:" if figures.topics else "Topics: None"]
    listed = 0  # lines at the last step
    for index, one in enumerate(figures.topics):
        if index:
            lines.append("")
        window = one["e2e_processing_latency"]
        # nsqd has none of a topic without channels.
        quantiles = () if window is NO_CHANNELS else snapshot.percentiles
        lines.append(
            f"{'*P ' if one['paused'] else '   '}[{one['topic_name']:<15}] {_TOPIC_LINE % one} "
            f"e2e%: {_latency_text(window, quantiles)}"
        )
        lines += _trouble_text(one)
        for channel in one["channels"]:
            if len(lines) - listed >= _LINES_PER_STEP:
                listed = len(lines)
                yield
            mark = "   *P " if channel["paused"] else "      "
            lines.append(
                f"{mark}[{channel['channel_name']:<25}] {_CHANNEL_LINE % channel} "
                f"e2e%: {_latency_text(channel['e2e_processing_latency'], snapshot.percentiles)}"
            )
            lines += _trouble_text(channel)
            for client in channel["clients"] or ():
                if len(lines) - listed >= _LINES_PER_STEP:
                    listed = len(lines)
                    yield
                lines.append(f"        {_consumer_text(client, now_s)}")
        lines += [
            f"      cursor [{cursor.cursor:<18}] depth: {cursor.depth:<5} lag-bytes: {cursor.lag_bytes:<8} "
            f"gaps: {len(cursor.gaps)}{' near its limit' if cursor.is_warned else ''}"
            for cursor in one["cursors"]
        ]
    topic = wanted.topic
    producers = producers_of(snapshot, topic)
    lines += ["", "Producers:" if producers else "Producers: None"]
    lines += [f"   {_producer_text(client, topic, now_s)}" for client in producers]
    return "\n".join([*lines, ""]).encode("utf-8", "replace")


def _latency_text(window: LatencyWindow, quantiles: tuple[float, ...]) -> str:
    return ", ".join(map(_for_people, window.percentiles_ns(quantiles))) if quantiles else ""


def _for_people(latency_ns: int) -> str:
    """As nsqd writes a latency: 870.0ns, 12.5us, 3.2ms, 61.0s."""
    for unit, size in (("s", NS_PER_S), ("ms", NS_PER_MS), ("us", 1_000)):
        if latency_ns > size:
            return f"{latency_ns / size:.1f}{unit}"
    return f"{latency_ns:.1f}ns"


def _trouble_text(one: Figures) -> list[str]:
    reasons = (
        ("paused", _pause_text(one["pause"]) if one["pause"] is not None else ""),
        ("resume refused", one["resume_refused"]),
        ("fenced", one["fenced"]),
        ("unreadable", one["unreadable"]),
    )
    return [f"        {word}: {reason}" for word, reason in reasons if reason]


def _pause_text(pause: Pause) -> str:
    parts = (
        f"by {pause.by}" if pause.by else "",
        f"since {_moment(pause.since_ms)}" if pause.since_ms else "",
        f"until {_moment(pause.until_ms)}" if pause.until_ms else "",
    )
    # The author of a pause chose the reason: a newline in it must not begin a line.
    reason = "".join(char if char.isprintable() else "?" for char in pause.reason)
    return " ".join(part for part in parts if part) + (f": {reason}" if reason else "")


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).isoformat().replace("+00:00", "Z")


def _client_text(client: ClientStats) -> str:
    """A client's version, host and user agent, padded as nsqd does."""
    port = client.remote_address.rpartition(":")[2]
    # The client chooses hostname and user agent: a newline in them must not begin a line.
    name = "".join(char if char.isprintable() else "?" for char in f"{client.hostname}:{port} {client.user_agent}")
    return f"{client.version} {name:<21}"


def _consumer_text(client: ClientStats, now_s: int) -> str:
    return (
        f"[{_client_text(client)}] {_CLIENT_LINE % _client_figures(client)} "
        f"connected: {_duration(max(now_s - client.connect_ts, 0))}"
    )


def _producer_text(client: ClientStats, topic: str, now_s: int) -> str:
    counts = [(name, count) for name, count in client.pub_counts if not topic or name == topic]
    topics = ",".join(f"{name}={count}" for name, count in counts)
    return (
        f"[{_client_text(client)}] msgs: {sum(count for _, count in counts):<8} topics: {topics} "
        f"connected: {_duration(max(now_s - client.connect_ts, 0))}"
    )


def _duration(seconds: float) -> str:
    """A duration as Go writes it: 1h2m3s, 12.5s, 285.4ms, 0s."""
    if 0 < seconds < 1:
        return f"{seconds * 1_000:.6f}".rstrip("0").rstrip(".") + "ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:.9f}".rstrip("0").rstrip(".") if isinstance(rest, float) else str(rest)
    if hours:
        return f"{hours}h{minutes}m{text}s"
    return f"{minutes}m{text}s" if minutes else f"{text}s"
