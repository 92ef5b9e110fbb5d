"""The diagnosis of one channel, and of all channels from snapshot to snapshot."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from admin_console.diagnosis.finding import CALM, TONES, Kind
from admin_console.diagnosis.findings import RANK, find_all
from admin_console.diagnosis.states import State, advance, in_force
from admin_console.diagnosis.vitals import Vitals, take_vitals
from admin_console.rings.rings import Rings

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ChannelStats, EngineSnapshot, TopicStats

Key = tuple[str, str]  # topic and channel


@dataclass(frozen=True)
class Diagnosis:
    """One channel at one second: its figures, and the states it is in, the gravest first."""

    vitals: Vitals
    states: tuple[State, ...]

    @cached_property
    def level(self) -> int:
        return self.states[0].finding.level if self.states else CALM

    @property
    def tone(self) -> str:
        return TONES[self.level]

    def tone_of(self, *kinds: Kind) -> str:
        """The tone of a stat that shows one of these kinds; "" while the channel has none of them."""
        return next((TONES[state.finding.level] for state in self.states if state.finding.kind in kinds), "")


def diagnose_all(
    snapshot: "EngineSnapshot",
    rings_of: Callable[[Key], Rings | None],
    before: Mapping[Key, tuple[State, ...]],
) -> tuple[dict[Key, Diagnosis], dict[Key, tuple[State, ...]]]:
    """The diagnoses of all channels that are not idle, and the states to go on from with the next snapshot.

    before: the states after the snapshot before.
    """
    now_s = snapshot.taken_at_ns / 1e9
    states: dict[Key, tuple[State, ...]] = {}
    made: dict[Key, Diagnosis] = {}
    for topic in snapshot.topics:
        for channel in topic.channels:
            key = (topic.topic_name, channel.channel_name)
            known = before.get(key, ())
            if not known and is_idle(topic, channel):
                continue
            vitals = take_vitals(topic, channel, rings_of(key), snapshot)
            now = advance(known, find_all(vitals), now_s)
            if now:
                states[key] = now
            made[key] = diagnose(vitals, now)
    return made, states


def diagnose(vitals: Vitals, states: tuple[State, ...]) -> Diagnosis:
    """The states that are in force, the gravest level first, of one level the gravest cause."""
    ordered = sorted(in_force(states), key=lambda state: (-state.finding.level, RANK[state.finding.kind]))
    return Diagnosis(vitals, tuple(ordered))


def is_idle(topic: "TopicStats", channel: "ChannelStats") -> bool:
    """Whether the channel has no messages, and neither a pause nor a fault: then no finding applies."""
    return not (
        channel.depth
        or channel.in_flight_count
        or channel.deferred_count
        or channel.quarantined_count
        or channel.paused
        or channel.fenced
        or channel.unreadable
        or topic.paused
        or topic.fenced
    )
