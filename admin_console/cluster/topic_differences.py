"""The differences between the nodes that have a topic: channels, pauses, consumers; and a tombstone that does not stop
producers. Pure functions."""

from collections.abc import Iterable, Mapping, Sequence

from admin_console.cluster.differences import CHANNEL, CONSUMERS, PAUSED, TOMBSTONE, Difference, listed
from admin_console.cluster.merged import TopicPlace
from admin_console.vocabulary import units
from queue_engine.delivery.stats import ChannelStats
from queue_engine.vocabulary.names import is_ephemeral

_Places = Sequence[tuple[TopicPlace, ChannelStats]]


def differences_of_topic(
    topic: str, places: Iterable[TopicPlace], lookups: Mapping[str, str] | None = None
) -> list[Difference]:
    """lookups: by node, words about its registrations where some are missing: "registered at 1 of 2 nsqlookupds". A
    silent node is compared with none: how it is now is unknown."""
    there = sorted((one for one in places if one.is_answering), key=lambda place: place.node)
    if len(there) < 2:
        return []
    found = _paused(topic, topic, "", [(place.node, place.stats.paused) for place in there])
    channels: dict[str, list[tuple[TopicPlace, ChannelStats]]] = {}
    for place in there:
        for channel in place.stats.channels:
            channels.setdefault(channel.channel_name, []).append((place, channel))
    for name, parts in channels.items():
        full_name = f"{topic}/{name}"
        if len(parts) < len(there) and not is_ephemeral(name):
            found.append(_missing(topic, name, there, parts))
        found += _paused(full_name, topic, name, [(place.node, channel.paused) for place, channel in parts])
        found += _consumers(full_name, topic, name, parts, lookups or {})
    return found


def tombstoned(topic: str, node: str, published_s: float | None) -> list[Difference]:
    """A node that nsqlookupds hide as a producer of a topic. published_s: messages that it takes; None: unknown."""
    if not published_s:
        return []
    return [
        Difference(
            TOMBSTONE,
            f"{node} still takes {units.rate(published_s)} for {topic}, where it is tombstoned.",
            "Its producer does not look it up at nsqlookupds.",
            topic=topic,
            node=node,
            weight=published_s,
        )
    ]


def _missing(topic: str, channel: str, there: Sequence[TopicPlace], parts: _Places) -> Difference:
    having = {place.node for place, _ in parts}
    without = [place for place in there if place.node not in having]
    count = sum(place.stats.message_count for place in without)
    return Difference(
        CHANNEL,
        f"{topic}/{channel} exists on {len(parts)} of {units.plural(len(there), 'node')} that have {topic}.",
        f"Not on {listed([place.node for place in without])}: messages that are published there do not reach it.",
        topic,
        channel,
        without[0].node,
        weight=count,
    )


def _paused(name: str, topic: str, channel: str, states: Sequence[tuple[str, bool]]) -> list[Difference]:
    going = [node for node, is_paused in states if not is_paused]
    count = len(states) - len(going)
    if not count or not going:
        return []
    flow = "messages are delivered there" if channel else "messages go on to its channels there"
    title = f"{name} is paused on {count} of {units.plural(len(states), 'node')}."
    return [Difference(PAUSED, title, f"Not on {listed(going)}: {flow}.", topic, channel, weight=count)]


def _consumers(name: str, topic: str, channel: str, parts: _Places, lookups: Mapping[str, str]) -> list[Difference]:
    without = [(place, stats) for place, stats in parts if not stats.client_count]
    if not without or len(without) == len(parts):
        return []
    without.sort(key=lambda part: -part[1].depth)
    first = without[0][0].node
    where = listed([place.node for place, _ in without])
    why = f", which is {lookups[first]}" if len(without) == 1 and first in lookups else ""
    waiting = sum(stats.depth for _, stats in without)
    words = f" {units.plural(waiting, 'message')} {'waits' if waiting == 1 else 'wait'} there." if waiting else ""
    return [
        Difference(
            CONSUMERS,
            f"{name}: consumers are connected to {len(parts) - len(without)} of {units.plural(len(parts), 'node')}.",
            f"None on {where}{why}.{words}",
            topic,
            channel,
            first,
            weight=waiting,
        )
    ]
