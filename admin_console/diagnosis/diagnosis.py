"""The diagnosis of one channel, and of all channels from snapshot to snapshot."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from admin_console.diagnosis import clock_set, falling_behind, filling, poison
from admin_console.diagnosis.finding import CALM, TONES, Finding, FindingKind
from admin_console.diagnosis.findings import RANK, find_all
from admin_console.diagnosis.states import State, advance, in_force
from admin_console.diagnosis.vitals import FULL_SHARE, ConsumersApart, Vitals, moment_of
from admin_console.rings.rings import Rings

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ChannelStats, EngineSnapshot, TopicStats

Key = tuple[str, str]  # topic and channel; both "" for the whole engine
ENGINE: Key = ("", "")


# So many channels are looked at by all rules at each snapshot, which cost 10 to 17 us each. Beyond that the channels
# that have been looked at take turns, each every second to fourth snapshot: states begin and end by time, not by looks.
LOOKS_MAX = 1_500
TURNS_MAX = 4


@dataclass(slots=True)
class Diagnosis:
    """One channel at one second: its figures, and the states it is in, the gravest first.

    looked_s: the snapshot at which the rules ran last (Unix): its own, or of up to three seconds before.
    """

    vitals: Vitals
    states: tuple[State, ...]
    looked_s: float = 0.0

    @property
    def level(self) -> int:
        return self.states[0].finding.level if self.states else CALM

    @property
    def tone(self) -> str:
        return TONES[self.level]

    def tone_of(self, *kinds: FindingKind) -> str:
        """The tone of a stat that shows one of these kinds; "" while the channel has none of them."""
        return next((TONES[state.finding.level] for state in self.states if state.finding.kind in kinds), "")


def diagnose_all(
    snapshot: "EngineSnapshot",
    rings_of: Callable[[Key], Rings | None],
    before: Mapping[Key, tuple[State, ...]],
    earlier: Mapping[Key, Diagnosis] | None = None,
    *,
    takes_turns: bool = True,
    apart: Mapping[Key, ConsumersApart] | None = None,
) -> tuple[dict[Key, Diagnosis], dict[Key, tuple[State, ...]]]:
    """The diagnoses of all channels that are not idle, and the states to go on from with the next snapshot; those of
    the engine itself are at ENGINE.

    before: the states after the snapshot before. earlier: the diagnoses of that one; without them no channel waits for
    its turn. takes_turns: of very many channels only some are looked at; otherwise all of the snapshot. apart: channels
    whose consumers are connected to some of their nodes alone.
    """
    now_s = snapshot.taken_at_ns / 1e9
    moment = moment_of(snapshot)
    young_ns = snapshot.taken_at_ns - falling_behind.AGEING_S * 1_000_000_000
    states: dict[Key, tuple[State, ...]] = {}
    made: dict[Key, Diagnosis] = {}
    earlier = earlier or {}
    turns = min(-(-len(earlier) // LOOKS_MAX), TURNS_MAX) if takes_turns else 1
    turn = round(now_s)
    previous = before.get(ENGINE, ())
    filled = next((one.finding for one in previous if one.finding.kind is filling.FILLING), None)
    found = [one for one in (filling.find_broker(snapshot, filled), clock_set.find_broker(snapshot)) if one is not None]
    # That it fills is no news of a disk that is full.
    is_full = snapshot.log is not None and snapshot.log.is_full
    if engine := advance(previous, found, now_s, lambda gone: is_full and gone.kind is filling.FILLING):
        states[ENGINE] = engine
    for topic in snapshot.topics:
        for channel in topic.channels:
            key = (topic.topic_name, channel.channel_name)
            previous = before.get(key, ())
            divided = apart.get(key) if apart else None
            if not previous and divided is None and is_calm(topic, channel, young_ns):
                continue
            vitals = Vitals(topic, channel, rings_of(key), moment, divided)
            last = earlier.get(key)
            if turns > 1 and last is not None and (hash(key) + turn) % turns:
                is_fresh = 0 <= now_s - last.looked_s < turns - 0.5
                if is_fresh and not _have_facts_changed(last.vitals, vitals):
                    if previous:
                        states[key] = previous
                    made[key] = Diagnosis(vitals, last.states, last.looked_s)
                    continue
            now = advance(previous, find_all(vitals), now_s, partial(_is_over, vitals, last.vitals if last else None))
            if now:
                states[key] = now
            made[key] = diagnose(vitals, now, now_s)
    return made, states


def _have_facts_changed(before: Vitals, now: Vitals) -> bool:
    """Whether something was done to a channel or its topic, or befell it: that is no measurement, and waits for no
    turn."""
    one, other, topic, other_topic = before.stats, now.stats, before.topic, now.topic
    return (
        one.paused != other.paused
        or one.fenced != other.fenced
        or one.unreadable != other.unreadable
        or one.held_back != other.held_back
        or bool(one.client_count) != bool(other.client_count)
        or bool(one.depth) != bool(other.depth)
        or one.quarantined_count != other.quarantined_count
        or one.pause != other.pause
        or topic.paused != other_topic.paused
        or topic.fenced != other_topic.fenced
        or (other.depth < one.depth and _was_moved(one, other))  # in this order: the first costs nothing
    )


def _was_moved(before: "ChannelStats", now: "ChannelStats") -> bool:
    """Whether an act, such as Empty or Rewind, changed which messages are unfinished, or the counters began anew."""
    flown = now.message_count - before.message_count - (now.finish_count - before.finish_count)
    return _unfinished(now) - _unfinished(before) != flown - (now.dropped_count - before.dropped_count)


def _unfinished(stats: "ChannelStats") -> int:
    return stats.depth + stats.in_flight_count + stats.deferred_count + stats.quarantined_count


def _is_over(now: Vitals, before: Vitals | None, gone: Finding) -> bool:
    """Whether a finding that is gone is no measurement that swings: nothing is left that it could be about, its message
    is finished or quarantined, or an act took the messages away."""
    stats = now.stats
    if not (stats.depth or stats.in_flight_count or stats.deferred_count):
        return True
    if gone.message_id and gone.message_id != stats.attempts_max_id:
        return True
    return before is not None and _was_moved(before.stats, stats)


def diagnose(vitals: Vitals, states: tuple[State, ...], looked_s: float = 0.0) -> Diagnosis:
    """The states that are in force, the gravest level first, of one level the gravest cause."""
    if not states:
        return Diagnosis(vitals, (), looked_s)
    ordered = in_force(states)
    if len(ordered) > 1:
        ordered = tuple(sorted(ordered, key=lambda state: (-state.finding.level, RANK[state.finding.kind])))
    return Diagnosis(vitals, ordered, looked_s)


def is_calm(topic: "TopicStats", channel: "ChannelStats", young_ns: int) -> bool:
    """Whether a quick look at its figures rules out every finding: in a healthy installation that holds for nearly
    every channel.

    young_ns: messages published after it are too young for any rule, Unix. A rule with a finding for a channel that is
    calm here would never run: tests/console/diagnosis/test_calm.py tries them all.
    """
    if channel.paused or channel.fenced or channel.unreadable or topic.paused or topic.fenced or channel.held_back:
        return False
    if channel.failures is not None or channel.attempts_max >= poison.ATTEMPTS_MIN_ALONE or channel.ramp is not None:
        return False
    if channel.quarantined_count or channel.quarantine.full:
        return False
    if not channel.depth:
        return not channel.deferred_count or channel.in_flight_count > 0
    if channel.oldest_ns is None:
        if channel.depth >= falling_behind.AGELESS_DEPTH_MIN:
            return False
    elif channel.oldest_ns <= young_ns:
        return False
    ready = channel.ready_count
    if ready is None:
        return channel.client_count > 0
    return channel.client_count > 0 and ready > 0 and channel.in_flight_count < FULL_SHARE * ready
