"""How much the counters of a topic have grown between two readings of a node, and the growth of all nodes, spread over
the seconds of their periods."""

from collections import defaultdict
from collections.abc import Mapping
from operator import add

from admin_console.cluster.merged import TOTAL, Counters, Growth, Key, sum_of
from queue_engine.delivery.stats import ChannelStats, TopicStats

_NONE: Counters = (0, 0, 0, 0)


def counters_of(channel: ChannelStats) -> Counters:
    return channel.message_count, channel.finish_count, channel.timeout_count, channel.requeue_count


def grown(before: TopicStats | None, now: TopicStats) -> dict[Key, Counters]:
    """Of the topic and its channels, between two readings of one process; without `before` all that was counted. A
    counter that fell has started again from 0: its topic or channel was deleted and made again."""
    name = now.topic_name
    found: dict[Key, Counters] = {}
    published = now.message_count - before.message_count if before is not None else now.message_count
    if published:
        found[name, ""] = (published if published > 0 else now.message_count, 0, 0, 0)
    if before is not None and before.channels is now.channels:
        return found
    earlier = {channel.channel_name: channel for channel in before.channels} if before is not None else {}
    for channel in now.channels:
        counted = counters_of(channel)
        was = earlier.get(channel.channel_name)
        old = _NONE if was is None else counters_of(was)
        if counted != old:
            found[name, channel.channel_name] = _differences(old, counted)
    return found


def _differences(old: Counters, now: Counters) -> Counters:
    messages, finished, timeouts, requeued = [
        new if new < was else new - was for was, new in zip(old, now, strict=True)
    ]
    return messages, finished, timeouts, requeued


class GrowthLedger:
    """The growth of each second. Belongs to the merger."""

    def __init__(self) -> None:
        self._tick = 0
        self._raw: dict[Key, Counters] = {}
        self._rates: dict[Key, list[float]] = {}  # a tick, of what is being spread
        self._ends: defaultdict[int, list[tuple[Key, list[float]]]] = defaultdict(list)
        self._rest: dict[Key, list[float]] = {}  # due, and less than a whole message

    def add(self, found: Mapping[Key, Counters], ticks: int, share: float = 1.0) -> None:
        """Note what a reading brought. ticks: over how many its growth is spread. share: of it that counts."""
        for key, counted in found.items():
            before = self._raw.get(key)
            self._raw[key] = counted if before is None else sum_of(before, counted)
            if ticks <= 1:
                rest = self._rest.setdefault(key, [0.0] * 4)
                rest[:] = map(add, rest, counted)
                continue
            rates = [max(count, 0) * share / ticks for count in counted]
            running = self._rates.setdefault(key, [0.0] * 4)
            running[:] = map(add, running, rates)
            self._ends[self._tick + ticks].append((key, rates))

    def take(self) -> dict[Key, Growth]:
        """The growth of this tick, by topic and channel; of a topic with that of its channels. The next one begins."""
        spread = self._spread()
        raw, self._raw = self._raw, {}
        self._tick += 1
        for key, rates in self._ends.pop(self._tick, ()):
            running = self._rates[key]
            running[:] = [
                rate - ended if rate - ended > 1e-9 else 0.0 for rate, ended in zip(running, rates, strict=True)
            ]
            if not any(running):
                del self._rates[key]
        raw, spread = _with_sums(raw), _with_sums(spread)
        return {key: Growth(raw.get(key, _NONE), spread.get(key, _NONE)) for key in raw.keys() | spread.keys()}

    def _spread(self) -> dict[Key, Counters]:
        for key, rates in self._rates.items():
            rest = self._rest.setdefault(key, [0.0] * 4)
            rest[:] = map(add, rest, rates)
        spread: dict[Key, Counters] = {}
        for key, rest in list(self._rest.items()):
            messages, finished, timeouts, requeued = whole = [int(part + 1e-6) for part in rest]
            if any(whole):
                spread[key] = messages, finished, timeouts, requeued
                rest[:] = [part - count for part, count in zip(rest, whole, strict=True)]
            if key not in self._rates and all(part < 1e-3 for part in rest):
                del self._rest[key]
        return spread


def _with_sums(found: Mapping[Key, Counters]) -> dict[Key, Counters]:
    """With a topic's sums of its channels, and those of all topics at TOTAL. What a topic got is counted at the topic:
    each of its channels gets the same messages."""
    sums = dict(found)
    total = _NONE
    for (topic, channel), counted in found.items():
        part = (0, *counted[1:]) if channel else counted
        total = sum_of(total, part)
        if channel:
            sums[topic, ""] = sum_of(sums.get((topic, ""), _NONE), part)
    if any(total):
        sums[TOTAL] = total
    return sums
