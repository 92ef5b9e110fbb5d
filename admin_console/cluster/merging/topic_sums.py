"""One topic over the nodes that have it: sums that a newer reading of a node changes, and the stats made of them.

    messages, bytes, consumers   summed
    ages                         the greatest; None where a node's is unknown, or a node does not answer
    flags, sentences             any; a sentence that another node than this server reports begins with its name
    disk_bytes, ready_count      summed; None where a node's is unknown
    pause                        since the first, to the last one's end, by all authors; its depth over all, a node
                                 without a pause counts with its depth of now
    ramp, redrive                the first; the table by node has each node's

Figures that no other node reports (the message delivered most often, when deferred messages are due, the consumers that
fail) are this server's own, and so are pipeline cursors, and the kind of storage where it has the topic. `failures.py`
adds the failures at other nodes.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import add, attrgetter, sub
from typing import Any

from admin_console.cluster.merging.merged import TopicPlace
from admin_console.cluster.merging.node_figures import (
    CHANNEL_COUNTS,
    CHANNEL_MARKS_AT,
    MARKS,
    TOPIC_COUNTS,
    TOPIC_MARKS_AT,
    TOPIC_MARKS_COUNT,
    Row,
)
from admin_console.cluster.merging.node_windows import merged_window
from queue_engine.delivery.latency_window import NO_CHANNELS, NO_LATENCIES
from queue_engine.delivery.stats import ChannelStats, TopicStats
from queue_engine.storage.quarantine_stats import NO_QUARANTINE, QuarantineStats
from queue_engine.vocabulary.flow.pause import Pause

_CHANNEL_WIDTH = CHANNEL_MARKS_AT + len(MARKS)
_TOPIC_WIDTH = TOPIC_MARKS_AT + TOPIC_MARKS_COUNT
_OF_THIS_SERVER = ("number", "attempts_max", "attempts_max_id", "next_due_ns", "latest_due_ns", "failures")
_of_this_server = attrgetter(*_OF_THIS_SERVER)


@dataclass(slots=True)
class _ChannelSums:
    """holders: nodes that have the channel; answering: those of them that answer. made: its stats, until it changes."""

    row: list[int] = field(default_factory=lambda: [0] * _CHANNEL_WIDTH)
    holders: int = 0
    answering: int = 0
    made: ChannelStats | None = None
    lists_clients: bool = False  # as it was made


class TopicSums:
    """Belongs to one thread. parts: by any key of the node's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parts: dict[Hashable, TopicPlace] = {}
        self._own: TopicPlace | None = None  # of this server
        self._row: list[int] = [0] * _TOPIC_WIDTH
        self._channels: dict[str, _ChannelSums] = {}

    def put(self, key: Hashable, part: TopicPlace | None) -> None:
        """Take the newest reading of a node; None: it does not have the topic any more."""
        before = self.parts.pop(key, None)
        if part is not None:
            self.parts[key] = part
        if part is not None and part.is_embedded:
            self._own = part
        elif before is not None and before is self._own:
            self._own = None
        was = before if before is not None and before.is_answering else None
        now = part if part is not None and part.is_answering else None
        if was is not None:
            self._row[:] = map(sub, self._row, was.row)
        if now is not None:
            self._row[:] = map(add, self._row, now.row)
        had = before.rows if before is not None else {}
        has = part.rows if part is not None else {}
        if had.keys() != has.keys():
            for name in has.keys() - had.keys():
                self._channels.setdefault(name, _ChannelSums()).holders += 1
        self._put_rows(was.rows if was is not None else {}, now.rows if now is not None else {})
        for name in had.keys() - has.keys():
            channel = self._channels[name]
            channel.holders -= 1
            channel.made = None
            if not channel.holders:
                del self._channels[name]

    def _put_rows(self, before: "dict[str, Row] | Any", now: "dict[str, Row] | Any") -> None:
        for name, row in now.items():
            old = before.get(name)
            if old is row:
                continue
            channel = self._channels[name]
            channel.made = None
            if old is None:
                channel.answering += 1
                channel.row = list(map(add, channel.row, row))
            else:
                channel.row = [total - was + new for total, was, new in zip(channel.row, old, row)]  # noqa: B905 - quick
        for name in before.keys() - now.keys():
            channel = self._channels[name]
            channel.made = None
            channel.answering -= 1
            channel.row[:] = map(sub, channel.row, before[name])

    def stats(self, *, lists_clients: bool = True) -> TopicStats:
        """The topic over the nodes that answer. A channel that only silent nodes have stays, with zeros. lists_clients:
        whether its channels have their clients, as far as nodes were read with them."""
        # This server first: the order in which nodes were read says nothing.
        parts = sorted(self.parts.values(), key=lambda part: (not part.is_embedded, part.node))
        answering = [part for part in parts if part.is_answering]
        if len(answering) == len(parts) == 1:
            return _alone(answering[0])
        row = self._row
        disk_bytes, disk_unknown, paused, words, age_unknown, latencies = row[TOPIC_MARKS_AT:]
        own = self._own
        base = own.stats if own is not None else None
        is_age_known = not age_unknown and len(answering) == len(parts)
        sentences = _Words(answering, lambda part: part.stats) if words else None
        counts: dict[str, Any] = dict(zip(TOPIC_COUNTS, row, strict=False))
        return TopicStats(
            topic_name=self.name,
            storage=base.storage if base is not None else _same([part.storage for part in answering]),
            paused=paused > 0,
            oldest_ns=_oldest_ns(answering, "") if is_age_known else None,
            disk_bytes=None if disk_unknown else disk_bytes,
            channels=tuple([self._channel_stats(name, answering, lists_clients) for name in sorted(self._channels)]),
            window=merged_window([part.latency("") for part in answering]) if latencies else NO_CHANNELS,
            cursors=base.cursors if base is not None else (),
            number=base.number if base is not None else 0,
            fenced=sentences.text("fenced") if sentences else "",
            unreadable=sentences.text("unreadable") if sentences else "",
            pause=sentences.pause() if sentences else None,
            resume_refused=sentences.text("resume_refused") if sentences else "",
            **counts,
        )

    def _channel_stats(self, name: str, answering: Sequence[TopicPlace], lists_clients: bool) -> ChannelStats:
        """answering: the parts of all nodes that answer."""
        sums = self._channels[name]
        if sums.made is None or sums.lists_clients != lists_clients:
            sums.made = self._made(name, sums, answering, lists_clients)
            sums.lists_clients = lists_clients
        return sums.made

    def _made(
        self, name: str, sums: _ChannelSums, answering: Sequence[TopicPlace], lists_clients: bool
    ) -> ChannelStats:
        row = sums.row
        marks = row[CHANNEL_MARKS_AT:]
        disk_bytes, disk_unknown, paused, words, age_unknown, latencies = marks[:-4]
        ready, ready_unknown, quarantines, clients = marks[-4:]
        clients = clients if lists_clients else 0
        is_whole = sums.answering == sums.holders
        needs_parts = words or quarantines or clients or latencies or (is_whole and not age_unknown)
        parts = [part for part in answering if name in part.rows] if needs_parts or sums.answering == 1 else []
        if is_whole and len(parts) == 1:
            return parts[0].channels[name]
        own = self._own
        base = own.channels.get(name) if own is not None else None
        values: dict[str, Any] = dict(zip(CHANNEL_COUNTS, row, strict=False))
        if base is not None:
            values.update(zip(_OF_THIS_SERVER, _of_this_server(base), strict=True))
        else:
            values["next_due_ns"] = None
        if words:
            sentences = _Words(parts, lambda part: part.channels[name])
            for one in ("held_back", "fenced", "unreadable", "resume_refused"):
                values[one] = sentences.text(one)
            values["pause"] = sentences.pause()
            for one in ("redrive", "ramp"):
                values[one] = sentences.first(one)
        if quarantines:
            values["quarantine"] = _quarantine([part.channels[name].quarantine for part in parts])
        if clients:
            listed = [part.clients(name) for part in parts]
            values["clients"] = tuple([client for one in listed if one is not None for client in one])
        return ChannelStats(
            topic_name=self.name,
            channel_name=name,
            paused=paused > 0,
            oldest_ns=_oldest_ns(parts, name) if is_whole and not age_unknown else None,
            disk_bytes=None if disk_unknown else disk_bytes,
            window=merged_window([part.latency(name) for part in parts]) if latencies else NO_LATENCIES,
            ready_count=None if ready_unknown else ready,
            **values,
        )


def merged_topic(name: str, parts: Iterable[TopicPlace]) -> TopicStats:
    """The topic over these parts alone."""
    sums = TopicSums(name)
    for part in parts:
        sums.put(part.node, part)
    return sums.stats()


class _Words:
    """The sentences and documents of the same topic or channel at several nodes."""

    def __init__(self, parts: Iterable[TopicPlace], of: Callable[[TopicPlace], TopicStats | ChannelStats]) -> None:
        self._listed: list[tuple[TopicPlace, Any]] = [(part, of(part)) for part in parts]

    def text(self, name: str) -> str:
        """The first one's sentence; with its node's name where that is another than this server."""
        for part, stats in self._listed:
            text: str = getattr(stats, name)
            if text:
                return text if part.is_embedded else f"{part.node}: {text}"
        return ""

    def first(self, name: str) -> Any:
        found = (getattr(stats, name) for _, stats in self._listed)
        return next((one for one in found if one is not None), None)

    def pause(self) -> Pause | None:
        """With a depth to compare with that of all nodes: only paused nodes add growth."""
        pauses: list[Pause] = [stats.pause for _, stats in self._listed if stats.pause is not None]
        if not pauses:
            return None
        depths = [stats.depth if stats.pause is None else stats.pause.depth for _, stats in self._listed]
        authors = list(dict.fromkeys(one.by for one in pauses if one.by))
        ends = [one.until_ms for one in pauses]
        return replace(
            min(pauses, key=lambda one: one.since_ms),
            by=", ".join(authors),
            until_ms=max(ends) if all(ends) else 0,
            depth=sum(depths),
        )


def _alone(part: TopicPlace) -> TopicStats:
    """Pipeline cursors are this server's own: its archive is about them."""
    stats = part.stats
    return stats if part.is_embedded or not stats.cursors else replace(stats, cursors=())


def _oldest_ns(parts: Iterable[TopicPlace], channel: str) -> int | None:
    return min([part.oldest_ns[channel] for part in parts if channel in part.oldest_ns], default=None)


def _same(texts: Sequence[str]) -> str:
    """The text that all have; "" where they differ."""
    return texts[0] if texts and texts.count(texts[0]) == len(texts) else ""


def _quarantine(parts: Sequence[QuarantineStats]) -> QuarantineStats:
    listed = [one for one in parts if one is not NO_QUARANTINE]
    if len(listed) < 2:
        return listed[0] if listed else NO_QUARANTINE
    reasons: dict[str, int] = {}
    for one in listed:
        for reason, count in one.reasons:
            reasons[reason] = reasons.get(reason, 0) + count
    return QuarantineStats(
        max_attempts=max([one.max_attempts for one in listed]),
        count=sum([one.count for one in listed]),
        bytes=sum([one.bytes for one in listed]),
        oldest_ns=min([one.oldest_ns for one in listed if one.oldest_ns is not None], default=None),
        full=next((one.full for one in listed if one.full), ""),
        reasons=tuple(sorted(reasons.items(), key=lambda item: -item[1])),
    )
