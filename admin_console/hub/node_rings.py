"""Rings of watched topics and channels at each node: the lines and rates by node of a page that is open.

A node's rings have a clock of their own, which takes its readings: a second without one is a gap of this node alone.
They begin when a page is opened, and go a minute after it was closed: 2 to 20 KB for each node of a watched thing.
"""

import time
from collections.abc import Callable, Collection, Sequence
from operator import add
from typing import TYPE_CHECKING

from admin_console.cluster.merging.growth import grown
from admin_console.cluster.merging.merged import NO_GROWTH, TOTAL
from admin_console.rings.depth_jumps import DepthCounts, jump_at_topic, jump_in_channel
from admin_console.rings.rings import SECONDS, Clock, Layout, Rings

if TYPE_CHECKING:
    from admin_console.cluster.merging.merged import ClusterSnapshot, TopicPlace
    from admin_console.gateway.gateway import ChannelStats, TopicStats

Key = tuple[str, str]  # as in hub.py

WATCHED_S = 60.0  # how long a call of `watch` lasts
RINGS_MAX = 1_000
SILENCE_GAP_S = 3  # a snapshot that came late does not end a silence


class NodeRings:
    """Watched things, at most RINGS_MAX rings in all. `watch` and `rings_of` from any thread, `write` from one."""

    def __init__(self, topic: Layout, channel: Layout, now_s: Callable[[], float] = time.monotonic) -> None:
        self._layouts = topic, channel
        self._now_s = now_s
        self._watched: dict[Key, float] = {}  # until when
        self._rings: dict[Key, dict[str, _AtNode]] = {}
        self._silences: dict[str, list[tuple[int, int]]] = {}  # by node

    def watch(self, topic: str, channel: str = "") -> None:
        """Have rings of it for the next minute."""
        self._watched[topic, channel] = self._now_s() + WATCHED_S

    def rings_of(self, topic: str, channel: str = "") -> dict[str, Rings]:
        """By node."""
        return {node: one.rings for node, one in self._rings.get((topic, channel), {}).items()}

    def silences(self, nodes: Collection[str]) -> list[tuple[int, int]]:
        """First and last Unix second, in the time of the rings, while any of these nodes did not answer."""
        found: list[tuple[int, int]] = []
        silences = self._silences
        for first, last in sorted(span for node in nodes for span in silences.get(node, ())):
            if found and first <= found[-1][1] + 1:
                found[-1] = found[-1][0], max(last, found[-1][1])
            else:
                found.append((first, last))
        return found

    def _note_silences(self, silent: Collection[str], second: int) -> None:
        silences = {
            node: [span for span in spans if span[1] > second - SECONDS] for node, spans in self._silences.items()
        }
        for node in silent:
            spans = silences.setdefault(node, [])
            goes_on = bool(spans) and second - spans[-1][1] <= SILENCE_GAP_S
            first = spans.pop()[0] if goes_on else second
            spans.append((first, second))
        self._silences = {node: spans for node, spans in silences.items() if spans}

    def write(self, cluster: "ClusterSnapshot", second: int) -> None:
        """Take in the readings that are new."""
        if self._silences or TOTAL in cluster.silent:
            self._note_silences(cluster.silent.get(TOTAL, ()), second)
        now_s = self._now_s()
        for key, until_s in tuple(self._watched.items()):
            if until_s < now_s:
                del self._watched[key]
                self._rings.pop(key, None)
                continue
            before = self._rings.get(key, {})
            topic, channel = key
            read_at_ms = {place.node: place.read_at_ms for place in cluster.places(topic, channel)}
            places = [one for one in cluster.by_topic.get(topic, ()) if read_at_ms.get(one.node)]
            if not places or sum(map(len, self._rings.values())) - len(before) + len(places) > RINGS_MAX:
                self._rings.pop(key, None)
                continue
            # A new dict: other threads read the one before.
            layout = self._layouts[bool(channel)]
            now = {place.node: before.get(place.node) or _AtNode(layout, channel) for place in places}
            for place in places:
                if place.is_answering:
                    now[place.node].write(place, read_at_ms[place.node])
            self._rings[key] = now


class _AtNode:
    """One thing at one node: its rings, and the topic at the reading before. channel: "" for the topic itself."""

    def __init__(self, layout: Layout, channel: str) -> None:
        self.rings = Rings(Clock(), layout)
        self._channel = channel
        self._before: TopicPlace | None = None
        self._read_at_ms = 0

    def write(self, place: "TopicPlace", read_at_ms: int) -> None:
        if read_at_ms == self._read_at_ms:
            return  # this reading is in already
        self._read_at_ms = read_at_ms
        accepted = self.rings.clock.accept(read_at_ms / 1_000)
        if accepted is None:
            return
        second, missed = accepted
        self.rings.forget(missed)
        topic = place.stats
        channels = [one for one in topic.channels if self._channel in ("", one.channel_name)]
        depth = sum([one.depth for one in channels])
        gauges = [depth] if self._channel else [topic.depth + depth, topic.depth]
        gauges += [sum([one.in_flight_count for one in channels]), sum([one.deferred_count for one in channels])]
        paused = any(one.paused for one in channels) if self._channel else topic.paused
        self.rings.write(second, (*gauges, paused), self._growth(place, channels))
        self.rings.clock.show()
        self._before = place

    def _growth(self, place: "TopicPlace", channels: "Sequence[ChannelStats]") -> list[int]:
        """Of the counters since the reading before, and the jumps of the depth. A topic gets its own messages,
        not those of its channels, which are the same."""
        before, name = self._before, place.name
        if before is None:
            return [0] * 5
        found = grown(before, place)
        earlier = {one.channel_name: _depths(one) for one in before.stats.channels}
        growth, passed_on = [0] * 5, 0
        for one in channels:
            raw, counted, _ = found.get((name, one.channel_name), NO_GROWTH)
            jump = jump_in_channel(earlier.get(one.channel_name), _depths(one), raw[0], raw[1])
            growth = list(map(add, growth, (*counted, jump)))
            passed_on = max(passed_on, raw[0])
        if not self._channel:
            growth[0] = found.get((name, ""), NO_GROWTH).raw[0]
            growth[4] += jump_at_topic(_own(before.stats), _own(place.stats), growth[0], passed_on)
        return growth


def _depths(one: "ChannelStats") -> DepthCounts:
    unfinished = one.depth + one.in_flight_count + one.deferred_count + one.quarantined_count
    return one.depth, unfinished, one.dropped_count


def _own(topic: "TopicStats") -> DepthCounts:
    return topic.depth, topic.depth, topic.dropped_count
