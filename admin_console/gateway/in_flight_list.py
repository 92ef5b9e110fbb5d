"""The messages in flight of a channel at all of its nodes, as its page shows them.

This server's engine is read at once. Other nodes are read in the background while a page shows the channel, a second
after their last answer, once for all viewers; a node without a message in flight is not read. So a slow node delays its
own part alone.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from admin_console.cluster.cluster import Cluster, get_cluster
from admin_console.gateway.gateway import (
    ChannelStats,
    EngineUnavailableError,
    Gateway,
    InFlightStats,
    MessageQuery,
    MessageRow,
    ReadRefusedError,
)
from admin_console.vocabulary.current_cluster import PerCluster
from queue_engine.engine.messages.rows import IN_FLIGHT

if TYPE_CHECKING:
    from admin_console.cluster.merging.merged import ClusterSnapshot, Place
    from admin_console.gateway.node_messages import NodeMessages, Pending

EVERY_S = 1.0
SHOWN_S = 15.0  # a channel that no page shows for so long is forgotten
FRESH_S = 3.0  # and of one that none shows for so long, newer answers are waited for
LIMIT = 50  # messages of each node


@dataclass(frozen=True, slots=True)
class InFlightElsewhere:
    """A message in flight at another node. owner: its consumer, "" for unknown."""

    node: str
    stats: InFlightStats
    owner: str


@dataclass(frozen=True, slots=True)
class InFlightList:
    """own: at this server, earliest deadline first; None where they were not read. elsewhere: at other nodes. lacking:
    why those of a node are not listed, by its name."""

    own: tuple[InFlightStats, ...] | None = None
    elsewhere: tuple[InFlightElsewhere, ...] = ()
    lacking: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _OfNode:
    """The newest answer of a node, and the read that goes on. started_s: of its process."""

    pending: "Pending[tuple[MessageRow, ...]] | None" = None
    begun_s: float = 0.0
    rows: tuple[MessageRow, ...] | None = None
    read_s: float = 0.0
    error: str = ""
    shown_s: float = 0.0
    started_s: int = 0


class InFlightReader:
    """Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[tuple[str, str, str], _OfNode] = {}

    def newest(
        self, cluster: Cluster, snapshot: "ClusterSnapshot", topic: str, channel: str, wait_s: float
    ) -> tuple[tuple[InFlightElsewhere, ...], dict[str, str]]:
        """Those at other nodes, and why those of some lack. wait_s: for nodes without any answer so far."""
        from admin_console.gateway.node_messages import NodeMessages
        from admin_console.gateway.node_requests import why_node_can_not, why_node_lists_keys

        now_s = time.monotonic()
        nodes = {node.name: node for node in snapshot.state.nodes}
        found: list[InFlightElsewhere] = []
        lacking: dict[str, str] = {}
        begun: list[tuple[str, _OfNode]] = []
        with self._lock:
            for key in [key for key, one in self._of.items() if now_s - one.shown_s > SHOWN_S]:
                del self._of[key]
            for place in snapshot.places(topic, channel):
                node = nodes.get(place.node)
                if place.is_embedded or node is None or not _count(place):
                    continue
                if reason := why_node_can_not(node, "list_messages") or why_node_lists_keys(node):
                    lacking[node.name] = reason
                    continue
                if not place.is_answering:
                    lacking[node.name] = "no answer"
                    continue
                one = self._of.setdefault((topic, channel, node.name), _OfNode())
                _take(one)
                started_s = node.stats.started_s if node.stats is not None else 0
                if now_s - one.shown_s > FRESH_S or one.started_s != started_s:
                    one.rows, one.error = None, ""
                one.shown_s, one.started_s = now_s, started_s
                if one.pending is None and now_s - one.begun_s >= EVERY_S:
                    one.begun_s = now_s
                    _begin(one, NodeMessages(node, cluster), topic, channel)
                begun.append((node.name, one))
        gives_up_s = now_s + wait_s
        for name, one in begun:
            pending = one.pending
            if pending is not None and one.rows is None and not one.error and wait_s:
                pending.wait(max(0.0, gives_up_s - time.monotonic()))
                with self._lock:
                    _take(one)
            if one.error:
                lacking[name] = one.error
            elif one.rows is None:
                lacking[name] = "no answer yet"
            else:
                found += [_held(name, row, one.read_s) for row in one.rows]
        return tuple(sorted(found, key=lambda each: each.stats.deadline_in_ms)), lacking


def _count(place: "Place") -> int:
    return place.stats.in_flight_count if isinstance(place.stats, ChannelStats) else 0


def _begin(one: _OfNode, messages: "NodeMessages", topic: str, channel: str) -> None:
    try:
        begun = messages.begin_message_rows(topic, channel, MessageQuery(state=IN_FLIGHT, limit=LIMIT))
    except ReadRefusedError as exc:
        one.error = exc.reason
        return
    one.pending = begun.then(lambda answer: answer.rows)


def _take(one: _OfNode) -> None:
    """The answer of the read that went on, where it is there."""
    pending = one.pending
    if pending is None or not pending.is_done:
        return
    one.pending = None
    try:
        one.rows, one.error, one.read_s = pending(), "", time.monotonic()
    except ReadRefusedError as exc:
        one.error = exc.reason


def _held(node: str, row: MessageRow, read_s: float) -> InFlightElsewhere:
    """Its times are those of this moment."""
    age_ms = round((time.monotonic() - read_s) * 1000)
    stats = InFlightStats(
        row.message_id,
        row.client_key or 0,
        row.attempts,
        row.body_bytes,
        row.published_at_ns or 0,
        (row.held_ms or 0) + age_ms,
        (row.deadline_ms or 0) - age_ms,
    )
    return InFlightElsewhere(node, stats, f"{row.client_id} {row.client_address}".strip())


_readers = PerCluster(InFlightReader)


def in_flight_list(
    gateway: Gateway, snapshot: "ClusterSnapshot | None", topic: str, channel: str, *, wait_s: float = 0.0
) -> InFlightList:
    """snapshot: None without other nodes. wait_s: for those that gave no answer so far."""
    try:
        own = gateway.in_flight(topic, channel, LIMIT)
    except EngineUnavailableError:
        own = None
    cluster = get_cluster()
    if snapshot is None or cluster is None:
        return InFlightList(own)
    return InFlightList(own, *_readers.made().newest(cluster, snapshot, topic, channel, wait_s))
