"""A node's figures, from its `/stats`: the keys of the table of figures, each checked by itself.

A Go nsqd has fewer keys than a Penstock; a key that is missing, or has a value of another kind, is unknown (None) and
costs no other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from queue_engine.vocabulary.figures import CHANNEL, CLIENT, TOPIC, Figure, in_stats

TOPICS_MAX = 20_000
CHANNELS_MAX = 50_000  # of a node
NAME_LENGTH_MAX = 64 + len("#ephemeral")
TEXT_LENGTH_MAX = 255
NUMBER_MAX = (1 << 63) - 1

Figures = Mapping[str, Any]
"""By name in /stats: int, bool or str; None for unknown."""


@dataclass(frozen=True, slots=True)
class NodeChannel:
    """A channel at one node. latency: its `e2e_processing_latency` as the node writes it. clients: None where they were
    not requested."""

    name: str
    figures: Figures
    latency: Mapping[str, Any] = field(default_factory=dict)
    clients: tuple[Figures, ...] | None = None


@dataclass(frozen=True, slots=True)
class NodeTopic:
    """A topic at one node. read_at_ms: Unix; of one that was read by itself, else 0."""

    name: str
    figures: Figures
    channels: Mapping[str, NodeChannel]
    latency: Mapping[str, Any] = field(default_factory=dict)
    read_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class NodeStats:
    """An answer to `/stats`. started_s: Unix; 0 for unknown. unreadable: how many topics and channels were left out,
    since their names or their form can't be right."""

    version: str = ""
    health: str = ""
    started_s: int = 0
    topics: Mapping[str, NodeTopic] = field(default_factory=dict)
    unreadable: int = 0


def node_stats_in(document: Any, *, with_clients: bool = False) -> NodeStats | None:
    """The answer to `/stats?format=json`, also that of an nsqd before 1.0; None for another form."""
    fields = document.get("data", document) if isinstance(document, dict) else None
    if not isinstance(fields, dict) or not isinstance(fields.get("topics"), list):
        return None
    reading = _Reading(with_clients=with_clients)
    topics = reading.topics(fields["topics"])
    return NodeStats(
        _text(fields.get("version")) or "",
        _text(fields.get("health")) or "",
        _number(fields.get("start_time")) or 0,
        topics,
        reading.unreadable,
    )


class _Reading:
    """One answer being read, against its limits."""

    def __init__(self, *, with_clients: bool) -> None:
        self._with_clients = with_clients
        self._channels_left = CHANNELS_MAX
        self.unreadable = 0

    def topics(self, entries: list[Any]) -> dict[str, NodeTopic]:
        found: dict[str, NodeTopic] = {}
        for entry in entries[:TOPICS_MAX]:
            name = self._name(entry, "topic_name", found)
            if name is not None:
                found[name] = NodeTopic(
                    name, _figures(entry, _TOPIC_ROWS), self._channels(entry.get("channels")), _latency(entry)
                )
        self.unreadable += max(0, len(entries) - TOPICS_MAX)
        return found

    def _channels(self, entries: Any) -> dict[str, NodeChannel]:
        found: dict[str, NodeChannel] = {}
        if not isinstance(entries, list):
            return found
        read = entries[: self._channels_left]
        self._channels_left -= len(read)
        self.unreadable += len(entries) - len(read)
        for entry in read:
            name = self._name(entry, "channel_name", found)
            if name is not None:
                clients = entry.get("clients") if self._with_clients else None
                found[name] = NodeChannel(
                    name,
                    _figures(entry, _CHANNEL_ROWS),
                    _latency(entry),
                    tuple(_figures(one, _CLIENT_ROWS) for one in clients if isinstance(one, dict))
                    if isinstance(clients, list)
                    else None,
                )
        return found

    def _name(self, entry: Any, key: str, found: Mapping[str, object]) -> str | None:
        name = entry.get(key) if isinstance(entry, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX or name in found:
            self.unreadable += 1
            return None
        return name


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= NUMBER_MAX else None


def _text(value: Any) -> str | None:
    return value[:TEXT_LENGTH_MAX] if isinstance(value, str) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _rows(rows: Iterable[Figure]) -> tuple[tuple[str, Any], ...]:
    """By name, how its value is read; documents are read apart."""
    readers = {int: _number, bool: _flag, str: _text, int | None: _number}
    return tuple((row.name, readers[row.type]) for row in in_stats(rows) if row.type in readers)


_TOPIC_ROWS, _CHANNEL_ROWS, _CLIENT_ROWS = _rows(TOPIC), _rows(CHANNEL), _rows(CLIENT)


def _figures(entry: Mapping[str, Any], rows: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: read(entry.get(name)) for name, read in rows}


def _latency(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    found = entry.get("e2e_processing_latency")
    return found if isinstance(found, dict) else {}
