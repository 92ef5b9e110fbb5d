"""A node's figures, from its `/stats`: the keys of the table of figures, each checked by itself.

A Go nsqd has fewer keys than a Penstock; a key that is missing, or has a value of another kind, is unknown (None) and
costs no other.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

from admin_console.cluster.reading.node_documents import NO_DOCUMENTS, Documents, documents_of
from queue_engine.vocabulary.figures import CHANNEL, CLIENT, TOPIC, Figure, in_stats
from queue_engine.vocabulary.names import is_valid_name

TOPICS_MAX = 20_000
CHANNELS_MAX = 50_000  # of a node
CLIENTS_MAX = 50_000  # of a node, its producers apart
PUB_COUNTS_MAX = 1_000  # topics of one producer
TEXT_LENGTH_MAX = 255
NUMBER_MAX = (1 << 63) - 1

Figures = Mapping[str, Any]
"""By name in /stats: int, bool or str; None for unknown. `pub_counts` of a producer: topic → messages."""


@dataclass(frozen=True, slots=True)
class NodeChannel:
    """A channel at one node. latency: its `e2e_processing_latency` as the node writes it. clients: None where no page
    shows them. backlog: of an nsqd, the messages of an earlier process that its `message_count` lacks, as far as they
    show: at the first reading more messages were there than had come; less those that were emptied. emptied: of an
    nsqd, messages that an act of this console removes, as far as no reading shows it yet."""

    name: str
    figures: Figures
    latency: Mapping[str, Any] = field(default_factory=dict)
    clients: tuple[Figures, ...] | None = None
    backlog: int = 0
    emptied: int = 0
    documents: Documents = NO_DOCUMENTS

    @property
    def flown(self) -> int | None:
        """Of an nsqd, which does not count finished messages: those that came, or were there when it started, and are
        not there any more, less those that were emptied. None where its answer lacks a count."""
        figures = self.figures
        came = figures["message_count"]
        there = [figures[name] for name in ("depth", "in_flight_count", "deferred_count")]
        return None if came is None or None in there else came - sum(there) + self.backlog

    def going_on(self, before: "NodeChannel | None") -> "NodeChannel":
        """With its backlog. before: at the reading before of the same process; None without one."""
        if self.figures["finish_count"] is not None or (before is not None and before.figures is self.figures):
            return self
        came = self.figures["message_count"]
        if before is None or (came is not None and came < (before.figures["message_count"] or 0)):
            flown = self.flown
            return replace(self, backlog=-flown) if flown is not None and flown < 0 else self
        if before.backlog or before.emptied:
            return replace(self, backlog=before.backlog, emptied=before.emptied)._without_emptied(before)
        return self._without_emptied(before)

    def _without_emptied(self, before: "NodeChannel") -> "NodeChannel":
        """Without the messages that were emptied since `before`: those that this console's acts removed; and where no
        consumer was connected, all, once none is left of those that were there. Only a consumer leaves a part."""
        is_alone = self.figures["client_count"] == before.figures["client_count"] == 0
        now, was, had = self.flown, before.flown, before.figures["message_count"]
        if not (is_alone or self.emptied) or now is None or was is None:
            return self
        is_all = now - self.backlog >= had
        emptied = max(0, now - was if is_alone and is_all else min(self.emptied, now - was))
        left = 0 if is_all and emptied else self.emptied - emptied
        if not emptied and left == self.emptied:
            return self
        return replace(self, backlog=self.backlog - emptied, emptied=left)


@dataclass(frozen=True, slots=True)
class NodeTopic:
    """A topic at one node. producers: the connections that publish to it; None where no page shows them."""

    name: str
    figures: Figures
    channels: Mapping[str, NodeChannel]
    latency: Mapping[str, Any] = field(default_factory=dict)
    producers: tuple[Figures, ...] | None = None
    documents: Documents = NO_DOCUMENTS

    def with_clients_of(self, before: "NodeTopic") -> "NodeTopic":
        """With the clients and producers of an earlier reading, where this one has none."""
        channels = {
            name: replace(one, clients=earlier.clients)
            if one.clients is None and (earlier := before.channels.get(name)) is not None
            else one
            for name, one in self.channels.items()
        }
        producers = before.producers if self.producers is None else self.producers
        return replace(self, channels=channels, producers=producers)


@dataclass(frozen=True, slots=True)
class NodeStats:
    """A node's answer to `/stats`, with newer ones for single topics in it. started_s: Unix; 0 for unknown. unreadable:
    how many topics and channels were left out, since their names or their form can't be right or they are too many.
    left_out: the topics among them, and those that lack a channel for it. producers: None where no
    page shows them. read_at_ms: of the answer for all topics, Unix; alone_at_ms: of newer ones for one topic.

    A topic that did not change is the same object as in the stats before."""

    version: str = ""
    health: str = ""
    started_s: int = 0
    topics: Mapping[str, NodeTopic] = field(default_factory=dict)
    unreadable: int = 0
    left_out: frozenset[str] = frozenset()
    producers: tuple[Figures, ...] | None = None
    read_at_ms: int = 0
    alone_at_ms: Mapping[str, int] = field(default_factory=dict)

    def topic_read_at_ms(self, topic: str) -> int:
        """When this topic was read, Unix."""
        return self.alone_at_ms.get(topic, self.read_at_ms)

    @property
    def has_clients(self) -> bool:
        """Whether it has those of all channels."""
        return self.producers is not None

    def after(self, before: "NodeStats | None", keeps_clients: Iterable[str] = ()) -> "NodeStats":
        """This answer for all topics, with the topics of `before` that did not change. keeps_clients: topics whose
        clients a page shows."""
        if before is None:
            return replace(self, topics={name: _going_on(one, None) for name, one in self.topics.items()})
        topics = dict(self.topics)
        for name in keeps_clients:
            if name in topics and name in before.topics:
                topics[name] = topics[name].with_clients_of(before.topics[name])
        is_same = before.started_s == self.started_s
        return replace(self, topics={name: _same(before, one, is_same=is_same) for name, one in topics.items()})

    def with_emptied(self, topic: str, channel: str, count: int) -> "NodeStats":
        """With so many messages of a channel that an act of this console removes; negative for those of an act that was
        not done. They are not finished, which an nsqd does not count."""
        found = self.topics.get(topic)
        one = found.channels.get(channel) if found is not None else None
        if found is None or one is None or one.figures["finish_count"] is not None:
            return self
        channels = {**found.channels, channel: replace(one, emptied=max(0, one.emptied + count))}
        return replace(self, topics={**self.topics, topic: replace(found, channels=channels)})

    def with_topic(
        self, answer: "NodeStats", topic: str, channel: str = "", *, keeps_clients: bool = False
    ) -> "NodeStats":
        """With a newer answer for one topic, or for one channel of it. keeps_clients: those that it lacks stay."""
        topics = dict(self.topics)
        found, before = answer.topics.get(topic), self.topics.get(topic)
        if channel and before is not None:
            read = {} if found is None else found.channels
            channels = {**{name: one for name, one in before.channels.items() if name != channel}, **read}
            found = replace(found or before, channels=channels)
        if found is None:
            topics.pop(topic, None)
        else:
            if keeps_clients and before is not None:
                found = found.with_clients_of(before)
            topics[topic] = _same(self, found, is_same=True)
        return replace(
            self,
            version=answer.version,
            health=answer.health,
            topics=topics,
            left_out=self.left_out - {topic} | answer.left_out,
            alone_at_ms={**self.alone_at_ms, topic: answer.read_at_ms},
        )


def _same(before: NodeStats, topic: NodeTopic, *, is_same: bool) -> NodeTopic:
    """is_same: whether it is of the same process."""
    earlier = before.topics.get(topic.name)
    topic = _going_on(topic, earlier if is_same else None)
    return earlier if earlier is not None and earlier == topic else topic


def _going_on(topic: NodeTopic, before: NodeTopic | None) -> NodeTopic:
    """Its channels with their backlogs."""
    earlier = before.channels if before is not None else {}
    changed = {
        name: made for name, one in topic.channels.items() if (made := one.going_on(earlier.get(name))) is not one
    }
    return replace(topic, channels={**topic.channels, **changed}) if changed else topic


def node_stats_in(
    document: Any, *, with_clients: bool = False, topic: str = "", read_at_ms: int = 0
) -> NodeStats | None:
    """The answer to `/stats?format=json`, also that of an nsqd before 1.0; None for another form. topic: the one that
    was requested, "" for all: its producers are the answer's."""
    fields = document.get("data", document) if isinstance(document, dict) else None
    if not isinstance(fields, dict):
        return None
    entries = fields.get("topics")
    if topic and entries is None:
        entries = []  # as nsqd answers for a topic that it lacks
    if not isinstance(entries, list):
        return None
    reading = _Reading(with_clients=with_clients)
    topics = reading.topics(entries)
    # Another value than a list counts as none: the node is not read again for it.
    producers = (reading.clients(fields.get("producers")) or ()) if with_clients else None
    if topic in topics:
        topics = {topic: replace(topics[topic], producers=producers)}
    return NodeStats(
        _text(fields.get("version")) or "",
        _text(fields.get("health")) or "",
        _number(fields.get("start_time")) or 0,
        topics,
        reading.unreadable,
        frozenset(reading.left_out),
        producers,
        read_at_ms,
    )


# All nodes have much the same names.
_is_valid = lru_cache(20_000)(is_valid_name)


class _Reading:
    """One answer being read, against its limits."""

    def __init__(self, *, with_clients: bool) -> None:
        self._with_clients = with_clients
        self._channels_left = CHANNELS_MAX
        self._clients_left = CLIENTS_MAX
        self.unreadable = 0
        self.left_out: set[str] = set()

    def topics(self, entries: list[Any]) -> dict[str, NodeTopic]:
        found: dict[str, NodeTopic] = {}
        for entry in entries[:TOPICS_MAX]:
            name = self._name(entry, "topic_name", found)
            if name is not None:
                unreadable_before = self.unreadable
                found[name] = NodeTopic(
                    name,
                    _topic_figures(entry.get),
                    self._channels(entry.get("channels"), name),
                    _latency(entry),
                    documents=documents_of(entry.get, name),
                )
                if self.unreadable != unreadable_before:
                    self.left_out.add(name)
        for entry in entries[TOPICS_MAX : 2 * TOPICS_MAX]:
            name = self._name(entry, "topic_name", found)
            if name is not None:
                self.unreadable += 1
                self.left_out.add(name)
        self.unreadable += max(0, len(entries) - 2 * TOPICS_MAX)
        return found

    def _channels(self, entries: Any, topic: str) -> dict[str, NodeChannel]:
        found: dict[str, NodeChannel] = {}
        if not isinstance(entries, list):
            return found
        read = entries[: self._channels_left]
        self._channels_left -= len(read)
        self.unreadable += len(entries) - len(read)
        for entry in read:
            name = self._name(entry, "channel_name", found)
            if name is not None:
                clients = self.clients(entry.get("clients")) if self._with_clients else None
                get = entry.get
                # Most have none: a call for each of a node's channels is a tenth of its reading.
                has_any = get("pause") or get("ramp") or get("redrive")
                documents = documents_of(get, topic) if has_any else NO_DOCUMENTS
                found[name] = NodeChannel(name, _channel_figures(get), _latency(entry), clients, documents=documents)
        return found

    def clients(self, entries: Any) -> tuple[Figures, ...] | None:
        if not isinstance(entries, list):
            return None
        read = [one for one in entries[: self._clients_left] if isinstance(one, dict)]
        self._clients_left -= len(read)
        return tuple(_client(one) for one in read)

    def _name(self, entry: Any, key: str, found: Mapping[str, object]) -> str | None:
        name = entry.get(key) if isinstance(entry, dict) else None
        # Another name is no page's and no act's: it would cost them more than its row.
        if type(name) is not str or not _is_valid(name) or name in found:
            self.unreadable += 1
            return None
        return name


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= NUMBER_MAX else None


def _text(value: Any) -> str | None:
    return value[:TEXT_LENGTH_MAX] if isinstance(value, str) else None


# How a value is checked, by its type: v is the value. Documents are read apart.
_CHECKS: Mapping[Any, tuple[str, str]] = {
    int: ("v", f"type(v := get({{!r}})) is int and 0 <= v <= {NUMBER_MAX}"),
    int | None: ("v", f"type(v := get({{!r}})) is int and 0 <= v <= {NUMBER_MAX}"),
    bool: ("v", "type(v := get({!r})) is bool"),
    str: (f"v[:{TEXT_LENGTH_MAX}]", "type(v := get({!r})) is str"),
}


def _reader(rows: Iterable[Figure]) -> Callable[[Callable[[str], Any]], dict[str, Any]]:
    """Reads the figures of an entry by its `get`. Compiled, as `figures.dict_reader` is: a call for each of a million
    values would take most of the time of a reading."""
    checks = ((row.name, *_CHECKS[row.type]) for row in in_stats(rows) if row.type in _CHECKS)
    items = ", ".join(f"{name!r}: {value} if {check.format(name)} else None" for name, value, check in checks)
    # Its text comes from the rows of the table, nothing from outside.
    return cast(Callable[[Callable[[str], Any]], dict[str, Any]], eval(f"lambda get: {{{items}}}"))  # noqa: S307


_topic_figures, _channel_figures, _client_figures = _reader(TOPIC), _reader(CHANNEL), _reader(CLIENT)


def _client(entry: Mapping[str, Any]) -> dict[str, Any]:
    figures = _client_figures(entry.get)
    counts = entry.get("pub_counts")
    if isinstance(counts, list):
        figures["pub_counts"] = {
            topic: _number(one.get("count")) or 0
            for one in counts[:PUB_COUNTS_MAX]
            if isinstance(one, dict) and isinstance(topic := one.get("topic"), str) and is_valid_name(topic)
        }
    return figures


def _latency(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    found = entry.get("e2e_processing_latency")
    return found if isinstance(found, dict) else {}
