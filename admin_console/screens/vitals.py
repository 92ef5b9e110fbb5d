"""A channel's vital signs: what it holds, where it is heading, and how urgent it is, from one reading."""

from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING

from admin_console.live.hub import Reading
from admin_console.live.rings import SPARK_BUCKETS, Rings
from admin_console.screens import units
from admin_console.screens.parts import SPARK_GAP, SPARK_LETTERS, Chip

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ChannelStats, TopicStats

# Urgency, as levels: losing or in danger, look soon, deliberately held, calm.
DANGER, WARNING, HELD, CALM = 3, 2, 1, 0
TONES = {DANGER: "danger", WARNING: "warning", HELD: "held", CALM: ""}

GROWTH_SPAN_S = 30
# Timeouts are an alarm when there are several and they are a real share of what was handled.
TIMEOUTS_MIN_ALARM = 5
TIMEOUT_SHARE_ALARM = 0.10
# An old message alone is worth a look; an old one in a queue that grows is a queue that loses.
OLD_S = 300
OLD_AND_GROWING_S = 60
SATURATED_SHARE = 0.95


@dataclass(frozen=True)
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
    oldest_s: float | None
    paused_since_s: int | None

    @property
    def timeout_share(self) -> float:
        """Timeouts as a share of what ended in the last minute, 0 to 1."""
        timeouts, finished = self.timeouts_min or 0, self.finished_min or 0
        return timeouts / (timeouts + finished) if timeouts else 0.0

    @property
    def is_timing_out(self) -> bool:
        return (self.timeouts_min or 0) >= TIMEOUTS_MIN_ALARM and self.timeout_share >= TIMEOUT_SHARE_ALARM

    @property
    def is_growing(self) -> bool:
        return (self.growth_s or 0) > 0.5 and self.stats.depth > 0

    @property
    def is_saturated(self) -> bool:
        """Whether the consumers hold about as many as they asked for while more wait."""
        stats = self.stats
        return (
            stats.depth > 0 and stats.ready_count > 0 and stats.in_flight_count >= SATURATED_SHARE * stats.ready_count
        )

    @cached_property
    def level(self) -> int:
        stats = self.stats
        if stats.fenced or stats.unreadable:
            return DANGER
        if stats.paused or self.topic_paused:
            return HELD
        if self.is_timing_out:
            return DANGER
        old_s = self.oldest_s or 0
        if old_s >= OLD_AND_GROWING_S and self.is_growing:
            return DANGER if stats.client_count else WARNING
        if stats.depth and (not stats.client_count or not stats.ready_count):
            return WARNING
        if old_s >= OLD_S:
            return WARNING
        return CALM

    @property
    def tone(self) -> str:
        return TONES[self.level]

    @property
    def urgency(self) -> tuple[float, ...]:
        """Sorts the most urgent first when descending: level, then age × growth, then depth."""
        age_growth = (self.oldest_s or 0) * max(self.growth_s or 0, 0.01)
        return (self.level, age_growth if self.stats.depth else 0.0, self.stats.depth, self.stats.in_flight_count)

    def chips(self) -> tuple[Chip, ...]:
        """The states in words, the gravest first; none for a calm channel."""
        stats = self.stats
        chips: list[Chip] = []
        if stats.fenced:
            chips.append(Chip("■ fenced", "danger", "It stopped because something failed in it, until it is retried"))
        if stats.unreadable:
            chips.append(Chip("▲ unreadable", "danger", stats.unreadable))
        if stats.paused:
            chips.append(Chip("❚❚ paused", "held", "Nothing is delivered until somebody resumes it"))
        elif self.topic_paused:
            chips.append(Chip("❚❚ topic paused", "held", "No new messages come from the topic until it is resumed"))
        if self.is_timing_out:
            share = units.share(self.timeouts_min or 0, (self.timeouts_min or 0) + (self.finished_min or 0))
            chips.append(Chip(f"▲ {share} time out", "danger", "Share of the messages handled in the last minute"))
        if not stats.client_count:
            tone = "warning" if stats.depth and not stats.paused else ""
            chips.append(Chip("no consumers", tone, "No client is connected to this channel"))
        elif stats.depth and not stats.ready_count and not stats.paused:
            chips.append(Chip("RDY 0", "warning", "Every consumer has asked for no more messages: they back off"))
        if not stats.paused and stats.client_count:
            if (self.oldest_s or 0) >= OLD_AND_GROWING_S and self.is_growing:
                chips.append(
                    Chip("▲ falling behind", "danger", "The oldest message is over a minute old and more come")
                )
            elif (self.oldest_s or 0) >= OLD_S:
                chips.append(Chip("old messages", "warning", "The oldest message has waited for over five minutes"))
        return tuple(chips)


def vitals_of(reading: Reading, topic: "TopicStats", channel: "ChannelStats") -> Vitals:
    """The vitals of one channel; worked out once a reading."""
    key = (topic.topic_name, channel.channel_name)
    known = reading.memory.get(key)
    if isinstance(known, Vitals):
        return known
    rings = reading.rings_of(*key)
    made = Vitals(
        topic_name=topic.topic_name,
        channel_name=channel.channel_name,
        stats=channel,
        topic_paused=topic.paused,
        growth_s=rings.rate("depth", GROWTH_SPAN_S) if rings else None,
        inflow_s=rings.rate("messages") if rings else None,
        outflow_s=rings.rate("finished") if rings else None,
        timeouts_min=rings.count("timeouts") if rings else None,
        requeued_min=rings.count("requeued") if rings else None,
        finished_min=rings.count("finished") if rings else None,
        oldest_s=age_s(reading, channel.oldest_ns),
        paused_since_s=reading.paused_since.get(key),
    )
    reading.memory[key] = made
    return made


def all_vitals(reading: Reading) -> list[Vitals]:
    """Every channel's vitals, the most urgent first."""
    known = reading.memory.get("all")
    if isinstance(known, list):
        return known
    made = [vitals_of(reading, topic, channel) for topic in reading.snapshot.topics for channel in topic.channels]
    made.sort(key=lambda vitals: (vitals.topic_name, vitals.channel_name))
    made.sort(key=lambda vitals: vitals.urgency, reverse=True)
    reading.memory["all"] = made
    return made


def age_s(reading: Reading, published_ns: int | None) -> float | None:
    """How long ago a message was published, as of the snapshot; None when there is none."""
    return None if published_ns is None else max(0.0, (reading.snapshot.taken_at_ns - published_ns) / 1e9)


def spark_letters(rings: Rings | None) -> str:
    """A sparkline as letters, drawn from 0 up so that a flat full queue does not look empty."""
    if rings is None:
        return SPARK_GAP * SPARK_BUCKETS
    values = rings.spark_values()
    top = max((value for value in values if not isnan(value)), default=0.0)
    scale = (len(SPARK_LETTERS) - 1) / top if top > 0 else 0.0
    return "".join(SPARK_GAP if isnan(value) else SPARK_LETTERS[round(value * scale)] for value in values)
