"""What `/stats` writes of channels and topics: their counts of one moment, and all that seldom changes, apart.

`state` is the same object as before while it is equal, so that what was written of it once can be kept. Counts and
times are read anew each time.
"""

from collections.abc import Sequence
from typing import NamedTuple

from queue_engine.delivery.kept_topics import KeptTopic, KeptValues
from queue_engine.delivery.latency_window import LatencyWindow
from queue_engine.delivery.stats import ClientStats, EngineSnapshot
from queue_engine.storage.quarantine_stats import NO_QUARANTINE, QuarantineStats
from queue_engine.vocabulary.flow.pause import Pause, Ramp
from queue_engine.vocabulary.flow.redrive import RedriveState
from queue_engine.wire.cursor import CursorStats


class ChannelState(NamedTuple):
    """As the fields of `ChannelStats` with these names."""

    paused: bool = False
    fenced: str = ""
    unreadable: str = ""
    held_back: str = ""
    dropped_count: int = 0
    pause: Pause | None = None
    resume_refused: str = ""
    ramp: Ramp | None = None
    quarantine: QuarantineStats = NO_QUARANTINE
    redrive: RedriveState | None = None


# Of nearly all channels: they share it.
CALM = ChannelState()


class ClientReading(NamedTuple):
    """One consumer's connection. The counts are those of `ClientStats`, in the order of the JSON document. who: the
    same object as before, as long as nothing but these changed; its counts are those of its making."""

    state: int
    ready_count: int
    in_flight_count: int
    message_count: int
    finish_count: int
    requeue_count: int
    pub_counts: tuple[tuple[str, int], ...]
    timeout_count: int
    who: ClientStats


class ChannelReading(NamedTuple):
    """One channel. The counts are those of `ChannelStats`, in the order of the JSON document. clients: None where they
    are not listed."""

    channel_name: str
    depth: int
    backend_depth: int
    in_flight_count: int
    deferred_count: int
    message_count: int
    requeue_count: int
    timeout_count: int
    client_count: int
    clients: tuple[ClientReading, ...] | None
    window: LatencyWindow
    finish_count: int
    disconnect_count: int
    ready_count: int
    oldest_ns: int | None
    state: ChannelState


def grown(one: ChannelReading, count: int, backend_depth: int | None) -> ChannelReading:
    """After so many messages came that wait. backend_depth: of now; None where it is the depth. As `_replace`, in half
    of the time."""
    depth, message_count = one[1] + count, one[5] + count
    if backend_depth is None:
        backend_depth = depth
    return tuple.__new__(ChannelReading, (one[0], depth, backend_depth, *one[3:5], message_count, *one[6:]))


class TopicState(NamedTuple):
    """As the fields of `TopicStats` with these names."""

    storage: str
    paused: bool
    fenced: str
    unreadable: str
    dropped_count: int
    pause: Pause | None
    resume_refused: str


class TopicReading(NamedTuple):
    """One topic with its channels, by name. The counts are those of `TopicStats`, in the order of the JSON document.
    channel_bytes: of each channel on the disk, None for unknown. kept: the same object while nothing differs but what
    `kept_reading.py` lets go on; None where nothing is kept."""

    topic_name: str
    channels: list[ChannelReading]
    channel_bytes: Sequence[int | None]
    depth: int
    backend_depth: int
    message_count: int
    message_bytes: int
    window: LatencyWindow
    oldest_ns: int | None
    disk_bytes: int | None
    cursors: tuple[CursorStats, ...]
    state: TopicState
    kept: KeptTopic | None = None


def gone_on(
    one: TopicReading,
    channels: list[ChannelReading],
    channel_bytes: Sequence[int],
    *,
    message_count: int,
    message_bytes: int,
    disk_bytes: int,
) -> TopicReading:
    """With others of these values. As `_replace`, in half of the time."""
    values = (
        one[0],
        channels,
        channel_bytes,
        *one[3:5],
        message_count,
        message_bytes,
        *one[7:9],
        disk_bytes,
        *one[10:],
    )
    return tuple.__new__(TopicReading, values)


# What is told of a topic: all of it, or what went on where the rest is kept.
Told = TopicReading | KeptValues


class EngineReading(NamedTuple):
    """All of the engine: `rest` without topics, and the topics, by name."""

    rest: EngineSnapshot
    topics: list[Told]
