"""Deliveries at other nodes that their consumers did not finish in the last minute, by the counters of their readings.

This server's engine counts its own, and names the consumers that make most of them (`delivery/failure_window.py`);
other nodes report totals alone. An operator's requeue at another Penstock is in these, too: it shows in one reading, so
requeues count from the second reading on.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from admin_console.cluster.merging.merged import Growth, Key
from queue_engine.delivery.stats import RecentFailures, TopicStats

WINDOW_S = 60.0
RECENT_S = 15.0  # as the engine's own look at what still goes on
_NONE = RecentFailures(0, 0, 0, None, None)


class _Reading(NamedTuple):
    """at_s: by the clock of the ticks. took_s: since the reading before."""

    at_s: float
    took_s: float
    timed_out: float
    requeued: float


@dataclass(slots=True)
class _Window:
    """Of one channel: its readings with failures, the oldest first."""

    readings: deque[_Reading] = field(default_factory=deque)

    def add(self, newest: _Reading) -> None:
        last = self.readings[-1] if self.readings else None
        if last is not None and last.at_s == newest.at_s:  # of another node
            took_s = max(last.took_s, newest.took_s)
            self.readings[-1] = _Reading(
                last.at_s, took_s, last.timed_out + newest.timed_out, last.requeued + newest.requeued
            )
        else:
            self.readings.append(newest)

    def failures(self, now_s: float) -> RecentFailures | None:
        """None where none is left in the window."""
        readings = self.readings
        while readings and now_s - readings[0].at_s >= WINDOW_S:
            readings.popleft()
        if not readings:
            return None
        requeues = [one for one in readings if one.requeued]
        if len(requeues) < 2:
            requeues = []
        recent = [one.requeued for one in requeues if now_s - one.at_s < RECENT_S + one.took_s]
        return RecentFailures(
            requeued=round(sum([one.requeued for one in requeues])),
            timed_out=round(sum([one.timed_out for one in readings])),
            requeued_recently=round(sum(recent)),
            most_requeued=None,
            most_timed_out=None,
        )


class NodeFailures:
    """Belongs to the merger. Seconds are those of its ticks, by a clock that is never set back."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, _Window]] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """Those with failures, some of which may be older than the window."""
        return tuple(self._topics)

    def note(self, found: Mapping[Key, Growth], now_s: float, took_s: float, share: float) -> None:
        """Take the growth between two readings of another node. share: the part of it that counts."""
        for (topic, channel), growth in found.items():
            _, _, timed_out, requeued = growth.raw
            if channel and (timed_out or requeued):
                windows = self._topics.setdefault(topic, {})
                window = windows.setdefault(channel, _Window())
                window.add(_Reading(now_s, took_s, timed_out * share, requeued * share))

    def added_to(self, topic: TopicStats, now_s: float) -> TopicStats:
        """The topic with the failures of its channels at other nodes beside this server's own."""
        windows = self._topics.get(topic.topic_name)
        if windows is None:
            return topic
        found = {name: window.failures(now_s) for name, window in windows.items()}
        for name in [name for name, failures in found.items() if failures is None]:
            del windows[name]
        if not windows:
            self.forget(topic.topic_name)
            return topic
        channels = [
            replace(one, failures=_sum(one.failures, failures)) if failures is not None else one
            for one, failures in ((one, found.get(one.channel_name)) for one in topic.channels)
        ]
        return replace(topic, channels=tuple(channels))

    def forget(self, topic: str) -> None:
        self._topics.pop(topic, None)


def _sum(own: RecentFailures | None, other: RecentFailures) -> RecentFailures | None:
    if own is None:
        return other if other != _NONE else None
    return replace(
        own,
        requeued=own.requeued + other.requeued,
        timed_out=own.timed_out + other.timed_out,
        requeued_recently=own.requeued_recently + other.requeued_recently,
    )
