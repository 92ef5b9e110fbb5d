"""A channel's vitals: its counts, their trend, and how its deliveries of the last minute ended."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from admin_console.rings.rings import Rings

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ChannelStats, TopicStats

GROWTH_SPAN_S = 30
RECENT_S = 15


@dataclass(frozen=True, slots=True)
class Vitals:
    """One channel at one second. Rates are per second, `*_min` counts are over the last minute, None is unknown."""

    topic_name: str
    channel_name: str
    stats: "ChannelStats"
    topic_paused: bool
    growth_s: float | None
    inflow_s: float | None
    outflow_s: float | None
    timeouts_min: float | None
    requeued_min: float | None
    finished_min: float | None
    requeued_recently: float | None  # over the last RECENT_S
    known_s: float  # the time that the counts over the last minute cover, at most 60
    oldest_s: float | None  # age of the oldest unfinished message
    paused_s: float | None  # for how long it has been paused

    @property
    def handled_min(self) -> float:
        """Deliveries that ended in the last minute."""
        return (self.finished_min or 0) + (self.requeued_min or 0) + (self.timeouts_min or 0)

    @property
    def is_growing(self) -> bool:
        return (self.growth_s or 0) > 0.5 and self.stats.depth > 0

    @property
    def has_consumers_ready(self) -> bool:
        return self.stats.client_count > 0 and self.stats.ready_count > 0


def take_vitals(
    topic: "TopicStats",
    channel: "ChannelStats",
    rings: Rings | None,
    *,
    taken_at_ns: int,
    paused_since_s: int | None = None,
) -> Vitals:
    """The vitals of one channel at one snapshot. taken_at_ns, paused_since_s: Unix."""
    finished = rings.change("finished", 60) if rings else None
    return Vitals(
        topic_name=topic.topic_name,
        channel_name=channel.channel_name,
        stats=channel,
        topic_paused=topic.paused,
        growth_s=rings.trend("depth", GROWTH_SPAN_S) if rings else None,
        inflow_s=rings.rate("messages") if rings else None,
        outflow_s=rings.rate("finished") if rings else None,
        timeouts_min=rings.count("timeouts") if rings else None,
        requeued_min=rings.count("requeued") if rings else None,
        finished_min=finished[0] if finished else None,
        requeued_recently=rings.count("requeued", RECENT_S) if rings else None,
        known_s=finished[1] if finished else 0.0,
        oldest_s=None if channel.oldest_ns is None else max(0.0, (taken_at_ns - channel.oldest_ns) / 1e9),
        paused_s=None if paused_since_s is None else max(0.0, taken_at_ns / 1e9 - paused_since_s),
    )
