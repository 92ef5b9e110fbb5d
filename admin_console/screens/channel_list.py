"""The overview's list of channels: which pass a filter, how many pass each, and in which order.

Each answer is worked out once for a live state, for all pages and roles that want the same filter, name and order: of
5,000 channels that costs milliseconds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from admin_console.diagnosis.finding import WARNING
from admin_console.diagnosis.vitals import Vitals, take_vitals
from admin_console.hub.hub import Key, LiveState
from admin_console.rings.rings import SECONDS
from admin_console.screens import pauses
from admin_console.screens.channel_rows import ill
from admin_console.screens.list_links import URGENCY, parse_sort

BUSY, ATTENTION, PAUSED, NO_CONSUMER, QUIET, ALL = "busy", "attention", "paused", "no-consumer", "quiet", "all"
FILTERS: Mapping[str, str] = {
    BUSY: "Busy",
    ATTENTION: "Needs attention",
    PAUSED: "Paused",
    NO_CONSUMER: "No consumer",
    QUIET: "Quiet",
    ALL: "All",
}
# A channel that moved in this time comes before one that did not.
MOVES_S = 60


@dataclass(frozen=True, slots=True)
class Channels:
    """All channels in the usual order, in three parts: in a state, the gravest first; busy, the highest flow first;
    quiet, in the engine's order. grave: how many of the first need an operator."""

    ill: list[Key]
    busy: list[Key]
    quiet: list[Key]
    grave: int

    def matching(self, wanted: str) -> "Channels":
        """Those whose topic/channel contains `wanted`."""
        ill, busy, quiet = (
            [key for key in part if _is_named(key, wanted)] for part in (self.ill, self.busy, self.quiet)
        )
        return Channels(ill, busy, quiet, sum([_is_named(key, wanted) for key in self.ill[: self.grave]]))


def _is_named(key: Key, wanted: str) -> bool:
    return wanted in f"{key[0]}/{key[1]}".lower()


def channels_of(live: LiveState, wanted: str = "") -> Channels:
    """The channels by how urgent they are. wanted: a part of their names, in small letters.

    A channel is quiet while it has no state, no message is in it, and none came or went for fifteen minutes.
    """
    cached = live.derived.get(("channels", wanted))
    if isinstance(cached, Channels):
        return cached
    made = channels_of(live).matching(wanted) if wanted else _divided(live)
    live.derived["channels", wanted] = made
    return made


def _divided(live: LiveState) -> Channels:
    found = ill(live)
    in_a_state = {(each.vitals.topic.topic_name, each.vitals.stats.channel_name): None for each in found}
    busy: list[tuple[bool, float, Key]] = []
    quiet: list[Key] = []
    rings_of = live.rings.get
    now_s = live.second or 0
    for key, stats in live.channels.items():
        if key in in_a_state:
            continue
        rings = rings_of(key)
        moved_s = rings.moved_s if rings is not None else None
        if rings is not None and moved_s is not None and now_s - moved_s < SECONDS:
            busy.append((now_s - moved_s >= MOVES_S, -rings.flow(), key))
        elif stats.depth or stats.in_flight_count or stats.deferred_count:
            busy.append((True, 0.0, key))
        else:
            quiet.append(key)
    busy.sort()
    return Channels(
        list(in_a_state), [key for _, _, key in busy], quiet, sum([each.level >= WARNING for each in found])
    )


def passing(live: LiveState, show: str, wanted: str = "", sort: str = "") -> list[Key]:
    """The channels that pass a filter, in order. An unknown filter is the usual one, and so is an unknown order."""
    show = show if show in FILTERS else BUSY
    name, is_descending = parse_sort(sort, SORTS)
    cached = live.derived.get(("passing", show, wanted, name, is_descending))
    if isinstance(cached, list):
        return cached
    made = _FILTERED[show](live, channels_of(live, wanted))
    if name != URGENCY:
        made = _sorted(live, made, name, is_descending=is_descending)
    elif not is_descending:
        made = made[::-1]
    live.derived["passing", show, wanted, name, is_descending] = made
    return made


def counts(live: LiveState, wanted: str = "") -> dict[str, int]:
    """How many channels pass each filter."""
    channels = channels_of(live, wanted)
    all_of = len(channels.ill) + len(channels.busy) + len(channels.quiet)
    cached = live.derived.get(("counts", wanted))
    if not isinstance(cached, dict):
        cached = live.derived["counts", wanted] = {
            BUSY: len(channels.ill) + len(channels.busy),
            ATTENTION: channels.grave,
            PAUSED: len([key for key in channels.ill if _is_paused(live, key)]),
            NO_CONSUMER: len(_unconsumed(live, channels)),
            QUIET: len(channels.quiet),
            ALL: all_of,
        }
    return cached


def quiet_without_consumer(live: LiveState, wanted: str = "") -> int:
    """How many of the quiet channels have no consumer."""
    return sum([is_unconsumed(live, key) for key in channels_of(live, wanted).quiet])


def is_unconsumed(live: LiveState, key: Key) -> bool:
    """Without a consumer at any node: at a silent one, it may have some."""
    return not live.channels[key].client_count and not live.silent_of(*key)


def _everything(channels: Channels) -> list[Key]:
    return [*channels.ill, *channels.busy, *sorted(channels.quiet)]


def _is_paused(live: LiveState, key: Key) -> bool:
    # A pause is a state: paused channels, and channels of paused topics, are among the ill.
    return live.channels[key].paused or live.topics[key[0]].paused


def _paused(live: LiveState, channels: Channels) -> list[Key]:
    def order(key: Key) -> tuple[bool, int, Key]:
        channel = live.channels[key]
        return *pauses.order(live, channel if channel.paused else live.topics[key[0]]), key

    return sorted([key for key in channels.ill if _is_paused(live, key)], key=order)


def _unconsumed(live: LiveState, channels: Channels) -> list[Key]:
    return [key for part in (channels.ill, channels.busy, channels.quiet) for key in part if is_unconsumed(live, key)]


_FILTERED: Mapping[str, Callable[[LiveState, Channels], list[Key]]] = {
    BUSY: lambda _, channels: [*channels.ill, *channels.busy],
    ATTENTION: lambda _, channels: channels.ill[: channels.grave],
    PAUSED: lambda live, channels: _paused(live, channels),
    NO_CONSUMER: lambda live, channels: [key for key in _everything(channels) if is_unconsumed(live, key)],
    QUIET: lambda _, channels: sorted(channels.quiet),
    ALL: lambda _, channels: _everything(channels),
}


def _vitals(live: LiveState, key: Key) -> Vitals:
    cached = live.diagnoses.get(key)
    if cached is not None:
        return cached.vitals
    return take_vitals(live.topics[key[0]], live.channels[key], live.rings.get(key), live.snapshot)


def _growth(live: LiveState, key: Key) -> float | None:
    return _vitals(live, key).growth_s if _moved_since(live, key) else 0


def _requeued(live: LiveState, key: Key) -> float | None:
    return _vitals(live, key).requeued_min if live.channels[key].requeue_count else 0


def _timeouts(live: LiveState, key: Key) -> float | None:
    return _vitals(live, key).timeouts_min if live.channels[key].timeout_count else 0


def _moved_since(live: LiveState, key: Key) -> bool:
    """Whether any message moved within the rings' time; if none did, most figures are 0."""
    rings = live.rings.get(key)
    return rings is None or rings.moved_s is not None


def _age(live: LiveState, key: Key) -> float | None:
    oldest_ns = live.channels[key].oldest_ns
    return None if oldest_ns is None else live.snapshot.taken_at_ns - oldest_ns


# Column → the figure that it sorts by; None is unknown and comes last either way.
SORTS: Mapping[str, Callable[[LiveState, Key], float | None] | None] = {
    "name": None,
    URGENCY: None,
    "depth": lambda live, key: live.channels[key].depth,
    "growth": _growth,
    "in_flight": lambda live, key: live.channels[key].in_flight_count,
    "deferred": lambda live, key: live.channels[key].deferred_count,
    "requeued": _requeued,
    "timeouts": _timeouts,
    "oldest": _age,
    "messages": lambda live, key: live.channels[key].message_count,
    "connections": lambda live, key: live.channels[key].client_count,
}


def _sorted(live: LiveState, keys: list[Key], name: str, *, is_descending: bool) -> list[Key]:
    """By one column, and by name where that is the same."""
    figure_of = SORTS[name]
    if figure_of is None:
        return sorted(keys, reverse=is_descending)
    ranked: list[tuple[float, Key]] = []
    unknown: list[Key] = []
    for key in keys:
        figure = figure_of(live, key)
        if figure is None:
            unknown.append(key)
        else:
            ranked.append((-figure if is_descending else figure, key))
    ranked.sort()
    return [key for _, key in ranked] + sorted(unknown)
