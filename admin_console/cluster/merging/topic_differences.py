"""The differences between the nodes that have a topic: channels, pauses, consumers; and a tombstone that does not stop
producers. Pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from admin_console.cluster.merging.differences import CHANNEL, CONSUMERS, PAUSED, TOMBSTONE, Difference, listed
from admin_console.cluster.merging.merged import TopicPlace
from admin_console.cluster.reading.node_stats import NodeTopic
from admin_console.vocabulary import units
from queue_engine.vocabulary.names import is_ephemeral


class _Channel(NamedTuple):
    """A channel at a node. clients: None for unknown."""

    node: str
    is_paused: bool
    clients: int | None
    depth: int


class _Topic(NamedTuple):
    """A topic at a node, by the few figures that are compared: the stats of a place cost twenty times as much."""

    node: str
    is_paused: bool
    messages: int
    channels: list[tuple[str, _Channel]]


def differences_of_topic(
    topic: str, places: Iterable[TopicPlace], lookups: Mapping[str, str] | None = None
) -> list[Difference]:
    """lookups: by node, words about its registrations where some are missing: "registered at 1 of 2 nsqlookupds". A
    silent node is compared with none: how it is now is unknown."""
    read = [_read(place) for place in places]
    there = sorted([one for one in read if one is not None], key=lambda one: one.node)
    if len(there) < 2:
        return []
    found = _paused(topic, topic, "", there)
    channels: dict[str, list[_Channel]] = {}
    for one in there:
        for name, channel in one.channels:
            channels.setdefault(name, []).append(channel)
    for name, parts in channels.items():
        full_name = f"{topic}/{name}"
        if len(parts) < len(there) and not is_ephemeral(name):
            found.append(_missing(topic, name, there, parts))
        found += _paused(full_name, topic, name, parts)
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


def _read(place: TopicPlace) -> _Topic | None:
    source, node = place.source, place.node
    if not place.is_answering or source is None:
        return None
    if isinstance(source, NodeTopic):
        channels = []
        for name, channel in source.channels.items():
            figures = channel.figures
            is_paused = figures["paused"] is True
            channels.append((name, _Channel(node, is_paused, figures["client_count"], figures["depth"] or 0)))
        return _Topic(node, source.figures["paused"] is True, source.figures["message_count"] or 0, channels)
    own = [(one.channel_name, _Channel(node, one.paused, one.client_count, one.depth)) for one in source.channels]
    return _Topic(node, source.paused, source.message_count, own)


def _missing(topic: str, channel: str, there: Sequence[_Topic], parts: Sequence[_Channel]) -> Difference:
    having = {one.node for one in parts}
    without = [one for one in there if one.node not in having]
    return Difference(
        CHANNEL,
        f"{topic}/{channel} exists on {len(parts)} of {units.plural(len(there), 'node')} that have {topic}.",
        f"Not on {listed([one.node for one in without])}: messages published there miss it.",
        topic,
        channel,
        without[0].node,
        weight=sum([one.messages for one in without]),
        is_place_alone=True,
    )


def _paused(name: str, topic: str, channel: str, parts: Sequence[_Topic | _Channel]) -> list[Difference]:
    count = sum([one.is_paused for one in parts])
    if not 0 < count < len(parts):
        return []
    going = [one.node for one in parts if not one.is_paused]
    flow = "messages are delivered there" if channel else "messages go on to its channels there"
    title = f"{name} is paused on {count} of {units.plural(len(parts), 'node')}."
    return [Difference(PAUSED, title, f"Not on {listed(going)}: {flow}.", topic, channel, weight=count)]


def _consumers(
    name: str, topic: str, channel: str, parts: Sequence[_Channel], lookups: Mapping[str, str]
) -> list[Difference]:
    without = [one for one in parts if one.clients == 0]
    if not 0 < len(without) < len(parts):
        return []
    without.sort(key=lambda one: -one.depth)
    first = without[0].node
    where = listed([one.node for one in without])
    why = f", which is {lookups[first]}" if len(without) == 1 and first in lookups else ""
    waiting = sum([one.depth for one in without])
    words = f" {units.plural(waiting, 'message')} {'waits' if waiting == 1 else 'wait'} there." if waiting else ""
    part = f"{len(parts) - len(without)} of {len(parts)}"
    return [
        Difference(
            CONSUMERS,
            f"{name}: consumers are connected to {part} nodes.",
            f"None on {where}{why}.{words}",
            topic,
            channel,
            first,
            weight=waiting,
            is_place_alone=True,
            part=part,
        )
    ]
