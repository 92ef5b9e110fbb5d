"""Figures of an engine that is not there: real shapes with invented numbers, for screens, rings and graphs."""

from typing import Any

from queue_engine.delivery.stats import (
    CLIENT_STATE_SUBSCRIBED,
    ChannelStats,
    ClientStats,
    ConsumerFailures,
    EngineSnapshot,
    InFlightStats,
    RecentFailures,
    TopicStats,
)

START_S = 1_750_000_000  # a Sunday in June 2025


def channel(topic: str, name: str, **given: Any) -> ChannelStats:
    """A channel at rest; `given` are the fields that differ. `clients` may be a list."""
    figures: dict[str, Any] = dict.fromkeys(
        (
            "depth",
            "backend_depth",
            "in_flight_count",
            "deferred_count",
            "message_count",
            "finish_count",
            "requeue_count",
            "timeout_count",
            "disconnect_count",
            "client_count",
            "ready_count",
            "disk_bytes",
        ),
        0,
    )
    figures |= {"paused": False, "oldest_ns": None, "next_due_ns": None} | given
    return ChannelStats(topic_name=topic, channel_name=name, **figures)


def topic(name: str, *channels: ChannelStats, **given: Any) -> TopicStats:
    """A topic at rest with these channels."""
    figures: dict[str, Any] = {
        "storage": "diskqueue",
        "depth": 0,
        "backend_depth": 0,
        "message_count": 0,
        "message_bytes": 0,
        "paused": False,
        "oldest_ns": None,
        "disk_bytes": 0,
    } | given
    return TopicStats(topic_name=name, channels=channels, **figures)


def snapshot(*topics: TopicStats, second: float = START_S, health: str = "OK", **given: Any) -> EngineSnapshot:
    """The snapshot of an engine with these topics at a Unix second."""
    return EngineSnapshot(
        sequence=given.pop("sequence", int(second - START_S) + 1),
        taken_at_ns=int(second * 1e9),
        started_at_ns=int((START_S - 3_600) * 1e9),
        version="0.0.0-test",
        health=health,
        connection_count=given.pop("connection_count", 0),
        producer_count=given.pop("producer_count", 0),
        topics=topics,
        **given,
    )


def client(key: int, **given: Any) -> ClientStats:
    """A consumer that has done nothing yet."""
    figures: dict[str, Any] = {
        "client_id": f"worker-{key}",
        "hostname": "worker.example",
        "user_agent": "pynsq/0.9.1",
        "remote_address": f"10.0.0.{key}:50000",
        "version": "V2",
        "state": CLIENT_STATE_SUBSCRIBED,
        "ready_count": 1,
        "in_flight_count": 0,
        "message_count": 0,
        "finish_count": 0,
        "requeue_count": 0,
        "timeout_count": 0,
        "connect_ts": START_S,
        "msg_timeout_ms": 60_000,
    } | given
    return ClientStats(client_key=key, **figures)


def in_flight(message_id: str, client_key: int, **given: Any) -> InFlightStats:
    """A message that was handed out a second ago."""
    figures: dict[str, Any] = {
        "attempts": 1,
        "body_bytes": 200,
        "published_at_ns": START_S * 1_000_000_000,
        "held_ms": 1_000,
        "deadline_in_ms": 59_000,
    } | given
    return InFlightStats(message_id=message_id, client_key=client_key, **figures)


def failures(*, requeued: int = 0, timed_out: int = 0, by: int = 1, share: float = 1.0, **given: Any) -> RecentFailures:
    """The last minute of a channel where worker-`by` did `share` of all that failed; `given` are further fields."""

    def most(count: int) -> ConsumerFailures | None:
        others = 0 if share == 1.0 else 1
        return (
            ConsumerFailures(by, f"worker-{by}", f"10.0.0.{by}:50000", round(count * share), 1 + others)
            if count
            else None
        )

    figures: dict[str, Any] = {
        "requeued": requeued,
        "timed_out": timed_out,
        "requeued_recently": requeued,
        "most_requeued": most(requeued),
        "most_timed_out": most(timed_out),
    } | given
    return RecentFailures(**figures)
