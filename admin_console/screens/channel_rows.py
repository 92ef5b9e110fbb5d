"""How screens show channels: their chips, their order, their sparklines."""

from math import isnan
from typing import TYPE_CHECKING

from admin_console.diagnosis.diagnosis import Diagnosis
from admin_console.diagnosis.finding import CALM, TONES
from admin_console.diagnosis.findings import RANK
from admin_console.diagnosis.vitals import take_vitals
from admin_console.hub.hub import LiveState
from admin_console.rings.rings import SPARK_BUCKETS, Rings
from admin_console.screens.cells import SPARK_TOP, Chip, StateCell

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ChannelStats, TopicStats


def diagnosis_of(live: LiveState, topic: "TopicStats", channel: "ChannelStats") -> Diagnosis:
    """One channel's diagnosis; without states for an idle channel."""
    key = (topic.topic_name, channel.channel_name)
    known = live.diagnoses.get(key)
    if known is None:
        vitals = take_vitals(topic, channel, live.rings_of(*key), live.snapshot)
        known = live.diagnoses[key] = Diagnosis(vitals, ())
    return known


def all_diagnoses(live: LiveState) -> list[Diagnosis]:
    """Every channel's diagnosis, the most urgent first."""
    known = live.derived.get("all")
    if isinstance(known, list):
        return known
    made = [diagnosis_of(live, topic, channel) for topic in live.snapshot.topics for channel in topic.channels]
    made.sort(key=lambda each: urgency(live, each))
    live.derived["all"] = made
    return made


def urgency(live: LiveState, diagnosis: Diagnosis) -> tuple[object, ...]:
    """A sort key, the most urgent first. Channels with a state: by the gravest one, then by how long it lasts. Calm
    ones: by their highest depth of the last fifteen minutes, so that rows do not change places every second."""
    vitals = diagnosis.vitals
    name = (vitals.topic_name, vitals.channel_name)
    if diagnosis.level > CALM:
        gravest = diagnosis.states[0]
        return (-diagnosis.level, float(RANK[gravest.finding.kind]), gravest.begun_s, name)
    return (-CALM, -peak_depth(live.rings_of(*name), vitals.stats.depth), 0.0, name)


def peak_depth(rings: Rings | None, depth: int) -> float:
    """The highest depth of the last fifteen minutes. The bucket that still fills is left out once there is another,
    so that two channels that overtake each other every second do not swap places."""
    peak = rings.peak() if rings else None
    return float(depth) if peak is None else peak


def chips_of(diagnosis: Diagnosis) -> tuple[Chip, ...]:
    """The states in words, the gravest first; none for a calm channel that has consumers."""
    chips = [Chip(state.finding.chip, TONES[state.finding.level], state.finding.title) for state in diagnosis.states]
    stats = diagnosis.vitals.stats
    if not stats.client_count and not any(chip.text == "no consumers" for chip in chips):
        chips.append(Chip("no consumers", "", "No consumer is connected to this channel"))
    return tuple(chips)


def state_cell(diagnosis: Diagnosis) -> StateCell:
    """The chips, and the sentence that heads the channel's own page."""
    return StateCell(chips_of(diagnosis), diagnosis.states[0].finding.title if diagnosis.level > CALM else "")


def age_s(live: LiveState, published_ns: int | None) -> float | None:
    """How long ago a message was published, as of the snapshot; None when there is none."""
    return None if published_ns is None else max(0.0, (live.snapshot.taken_at_ns - published_ns) / 1e9)


def spark_levels(rings: Rings | None) -> tuple[int | None, ...]:
    """A sparkline that begins at 0, so that a flat full channel does not look empty."""
    if rings is None:
        return (None,) * SPARK_BUCKETS
    values = rings.spark_values()
    top = max((value for value in values if not isnan(value)), default=0.0)
    scale = SPARK_TOP / top if top > 0 else 0.0
    return tuple(None if isnan(value) else round(value * scale) for value in values)
