"""How screens show channels: their chips, their order, their sparklines."""

from math import isnan
from typing import TYPE_CHECKING

from admin_console.diagnosis import pause_words
from admin_console.diagnosis.diagnosis import Diagnosis
from admin_console.diagnosis.finding import CALM, TONES, WARNING
from admin_console.diagnosis.findings import RANK
from admin_console.diagnosis.no_consumers import NO_CONSUMERS
from admin_console.diagnosis.paused import PAUSED, TOPIC_PAUSED
from admin_console.diagnosis.states import State
from admin_console.diagnosis.vitals import take_vitals
from admin_console.hub.hub import LiveState
from admin_console.rings.rings import SPARK_BUCKETS, Rings
from admin_console.screens import partial
from admin_console.screens.cells import SPARK_TOP, Chip, StateCell
from admin_console.screens.pauses import paused_on
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ChannelStats, TopicStats


def diagnosis_of(live: LiveState, topic: "TopicStats", channel: "ChannelStats") -> Diagnosis:
    """One channel's diagnosis; without states for an idle channel."""
    key = (topic.topic_name, channel.channel_name)
    cached = live.diagnoses.get(key)
    if cached is None:
        vitals = take_vitals(topic, channel, live.rings_of(*key), live.snapshot)
        cached = live.diagnoses[key] = Diagnosis(vitals, ())
    return cached


def ill(live: LiveState) -> list[Diagnosis]:
    """The diagnoses of all channels that are in a state, the most urgent first."""
    cached = live.derived.get("ill")
    if isinstance(cached, list):
        return cached
    # A copy: other threads add diagnoses of calm channels meanwhile (diagnosis_of).
    made = [each for each in list(live.diagnoses.values()) if each.states and each.level > CALM]
    made.sort(key=urgency)
    live.derived["ill"] = made
    return made


def grave_count(live: LiveState) -> int:
    """How many channels have a state that needs an operator."""
    return sum([each.level >= WARNING for each in ill(live)])


def urgency(diagnosis: Diagnosis) -> tuple[object, ...]:
    """A sort key of channels that are not calm: by the gravest state, then by how long it lasts."""
    gravest, vitals = diagnosis.states[0], diagnosis.vitals
    finding = gravest.finding
    return -finding.level, RANK[finding.kind], gravest.begun_s, vitals.topic.topic_name, vitals.stats.channel_name


def chips_of(diagnosis: Diagnosis, live: LiveState) -> tuple[Chip, ...]:
    """The states in words, the gravest first; none for a calm channel that has consumers. Whether one is connected to
    a silent node is unknown."""
    chips = [
        Chip(_chip_text(state, diagnosis, live), TONES[state.finding.level], _title(state, diagnosis))
        for state in diagnosis.states
    ]
    stats = diagnosis.vitals.stats
    if not stats.client_count and not any(state.finding.kind is NO_CONSUMERS for state in diagnosis.states):
        silent = live.silent_of(diagnosis.vitals.topic.topic_name, stats.channel_name)
        title = f"Its consumers are {partial.until(silent)}" if silent else "No consumer is connected to this channel"
        chips.append(Chip("consumers unknown" if silent else "no consumers", "", title))
    return tuple(chips)


def _chip_text(state: State, diagnosis: Diagnosis, live: LiveState) -> str:
    vitals = diagnosis.vitals
    if state.finding.kind is PAUSED:
        return state.finding.chip + paused_on(live, vitals.topic.topic_name, vitals.stats.channel_name)
    if state.finding.kind is TOPIC_PAUSED:
        return state.finding.chip + paused_on(live, vitals.topic.topic_name)
    return state.finding.chip


def _title(state: State, diagnosis: Diagnosis) -> str:
    """The finding as a sentence; with the time of its figures, where the newest ones do not show it."""
    vitals, title = diagnosis.vitals, state.finding.title
    if state.finding.kind is PAUSED:
        return f"{title} {pause_words.details(vitals.stats.pause, vitals.taken_at_ms)}".strip()
    return title if state.seen_s >= diagnosis.looked_s else f"{units.moment(int(state.seen_s * 1000))} UTC: {title}"


def state_cell(diagnosis: Diagnosis, live: LiveState) -> StateCell:
    """The states as chips; the sentence of each is its title, and heads the channel's own page."""
    return StateCell(chips_of(diagnosis, live))


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
