"""Totals over nodes, each marked where a node's part of it is unknown."""

from collections.abc import Collection, Iterable
from dataclasses import astuple, dataclass
from typing import Any

from admin_console.cluster.reading.node_stats import Figures, NodeChannel, NodeStats, NodeTopic
from queue_engine.delivery.stats import EngineSnapshot


@dataclass(frozen=True, slots=True)
class Total:
    """A sum of counts. is_partial: a part is unknown, so that the sum is the least that it can be."""

    count: int
    is_partial: bool = False

    @classmethod
    def of(cls, parts: Iterable[int | None]) -> "Total":
        """None: unknown."""
        listed = list(parts)
        return cls(sum(one for one in listed if one is not None), None in listed)

    @property
    def exact(self) -> int | None:
        """None where it is partial."""
        return None if self.is_partial else self.count


@dataclass(frozen=True, slots=True)
class NodeSums:
    """One node over its topics and channels. depth: messages that wait, at topics and in channels. messages, finished:
    since it started; an nsqd does not count the second, which is worked out. paused: topics and channels. None:
    unknown, since the node's answer lacks a part."""

    topics: int
    clients: int | None
    depth: int | None
    messages: int | None
    in_flight: int | None = None
    finished: int | None = None
    paused: int = 0

    @classmethod
    def of(cls, stats: NodeStats) -> "NodeSums":
        return cls._over(stats.topics.values(), is_whole=not stats.unreadable)

    @classmethod
    def of_engine(cls, snapshot: EngineSnapshot) -> "NodeSums":
        """Of the engine of this process."""
        topics = snapshot.topics
        channels = [channel for topic in topics for channel in topic.channels]
        return cls(
            len(topics),
            sum([channel.client_count for channel in channels]),
            sum([topic.depth for topic in topics]) + sum([channel.depth for channel in channels]),
            sum([topic.message_count for topic in topics]),
            sum([channel.in_flight_count for channel in channels]),
            sum([channel.finish_count for channel in channels]),
            sum([topic.paused for topic in topics]) + sum([channel.paused for channel in channels]),
        )

    def with_topic(self, before: NodeTopic | None, now: NodeTopic | None) -> "NodeSums":
        """With a newer reading of one topic; None where the node does not have it."""
        was, new = ([one] if one is not None else [] for one in (before, now))
        rows = zip(astuple(self), astuple(self._over(was)), astuple(self._over(new)), strict=True)
        counts: list[Any] = [None if None in row else row[0] - row[1] + row[2] for row in rows]
        return NodeSums(*counts)

    @classmethod
    def _over(cls, topics: Collection[NodeTopic], *, is_whole: bool = True) -> "NodeSums":
        read = [channel for topic in topics for channel in topic.channels.values()]
        channels = [channel.figures for channel in read]
        own = [topic.figures for topic in topics]

        def sum_of(name: str, rows: Iterable[Figures]) -> int | None:
            counts: list[Any] = [row[name] for row in rows] if is_whole else [None]
            return None if None in counts else sum(counts)

        return cls(
            len(own),
            sum_of("client_count", channels),
            sum_of("depth", [*own, *channels]),
            sum_of("message_count", own),
            sum_of("in_flight_count", channels),
            Total.of(map(_finished, read)).exact if is_whole else None,
            [row["paused"] for row in [*own, *channels]].count(True),
        )


def _finished(channel: NodeChannel) -> int | None:
    """An nsqd does not count finished messages."""
    counted, flown = channel.figures["finish_count"], channel.flown
    if counted is not None:
        return int(counted)
    return None if flown is None else max(0, flown)
