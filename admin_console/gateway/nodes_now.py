"""Nodes and nsqlookupds as they are at this moment, read for one request.

Programs that call nsqadmin's interface act and then read: figures that are seconds old would contradict their acts.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.cluster import Cluster
from admin_console.cluster.reading.node_stats import Figures, NodeChannel, NodeTopic, node_stats_in
from admin_console.cluster.reading.nodes import Node, NotCallingError
from admin_console.cluster.reading.registrations import Registration
from admin_console.gateway.gateway import ClientStats, Gateway, LatencyWindow, TopicStats
from admin_console.pacing.pace import PACE
from queue_engine.client.http_json import HttpRefusedError, UnreachableError
from queue_engine.vocabulary.figures import CHANNEL, CLIENT, TOPIC, Figure, in_stats

if TYPE_CHECKING:
    from admin_console.cluster.calls.node_http import NodeHttp

T = TypeVar("T")

# Connecting, then the answer.
WAIT_S = 20.0
LOOP_S = 5.0  # beyond, the console's own loop is in trouble


@dataclass(frozen=True, slots=True)
class NodeNow:
    """One node's figures. name: its broadcast address and HTTP port. error: why there are none, a sentence without its
    full stop."""

    name: str
    hostname: str = ""
    topics: Mapping[str, NodeTopic] | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class LookupdNow:
    """One nsqlookupd. topics: every name, also without a producer."""

    address: HttpAddress
    nodes: tuple[Registration, ...] = ()
    topics: tuple[str, ...] = ()
    error: str = ""


def read_nodes(
    cluster: Cluster, nodes: Sequence[Node], *, topic: str = "", channel: str = "", clients: bool = False
) -> list[NodeNow]:
    """Each node's answer, in their order, all read at once; one that did not answer the poller's last call is not
    called. topic, channel: of these alone, "" for all."""
    query = {"format": "json", "include_clients": str(clients).lower(), "include_mem": "false"}
    query |= {name: value for name, value in (("topic", topic), ("channel", channel)) if value}

    async def read(http: "NodeHttp", node: Node) -> NodeNow:
        hostname = node.info.identity.hostname if node.info is not None else ""
        if node.answers.error:
            return NodeNow(node.name, hostname, error=node.answers.error)
        try:
            document = await http.get_of_node(node.member.target, "/stats", query, purpose="page")
        except (HttpRefusedError, UnreachableError) as exc:
            return NodeNow(node.name, hostname, error=str(exc))
        stats = node_stats_in(document, with_clients=clients, topic=topic)
        if stats is None:
            return NodeNow(node.name, hostname, error=f"{node.name} answered with another document than an nsqd's")
        return NodeNow(node.name, hostname, stats.topics)

    failed = [NodeNow(node.name, error=f"{node.name} gave no answer") for node in nodes]
    return _called(cluster, read, nodes, failed)


def read_lookupds(cluster: Cluster) -> list[LookupdNow]:
    """Each configured nsqlookupd's answer."""
    from admin_console.cluster.lookupds.lookupd_calls import read_registered

    async def read(http: "NodeHttp", address: HttpAddress) -> LookupdNow:
        try:
            nodes, topics = await read_registered(http, address)
        except (HttpRefusedError, UnreachableError) as exc:
            return LookupdNow(address, error=str(exc))
        return LookupdNow(address, nodes, tuple(topics))

    addresses = [one.address for one in cluster.state.lookupds]
    failed = [LookupdNow(address, error=f"{address} gave no answer") for address in addresses]
    return _called(cluster, read, addresses, failed)


A = TypeVar("A")


def _called(
    cluster: Cluster, read: "Callable[[NodeHttp, A], Coroutine[Any, Any, T]]", of: Sequence[A], failed: list[T]
) -> list[T]:
    """failed: the answers of those that give none in time, and of all where no call can be made."""
    if not of:
        return []

    async def read_all(http: "NodeHttp") -> list[T]:
        reads = [asyncio.create_task(read(http, one)) for one in of]
        try:
            done, _ = await asyncio.wait(reads, timeout=WAIT_S)
        finally:
            for each in reads:
                each.cancel()
        return [each.result() if each in done else none for each, none in zip(reads, failed, strict=True)]

    try:
        future = cluster.call(read_all)
        with PACE.away():
            return future.result(WAIT_S + LOOP_S)
    except (NotCallingError, TimeoutError, CancelledError):
        return failed


def read_engine(
    gateway: Gateway, name: str, hostname: str, *, topic: str = "", channel: str = "", clients: bool = False
) -> NodeNow:
    """The engine of this process as one of the nodes. Raises EngineUnavailableError."""
    snapshot = gateway.snapshot()
    if topic or snapshot is None:
        snapshot = gateway.exact(topic, channel)
    by_channel: dict[tuple[str, str], tuple[ClientStats, ...]] = {}
    if clients:
        by_channel = {(of_topic, of): listed for of_topic, of, listed in gateway.connections().consumers}
    quantiles = snapshot.percentiles
    found = {}
    for one in snapshot.topics:
        if topic in ("", one.topic_name):
            found[one.topic_name] = _node_topic(one, channel, quantiles, by_channel if clients else None)
    return NodeNow(name, hostname, found)


def _node_topic(
    topic: TopicStats,
    only: str,
    quantiles: tuple[float, ...],
    clients: Mapping[tuple[str, str], tuple[ClientStats, ...]] | None,
) -> NodeTopic:
    channels = {}
    for one in topic.channels:
        name = one.channel_name
        if only not in ("", name):
            continue
        listed = None
        if clients is not None:
            listed = tuple(_CLIENT(client) for client in clients.get((topic.topic_name, name), ()))
        channels[name] = NodeChannel(name, _CHANNEL(one), _latency(one.window, quantiles), listed)
    return NodeTopic(topic.topic_name, _TOPIC(topic), channels, _latency(topic.window, quantiles))


def _latency(window: LatencyWindow, quantiles: tuple[float, ...]) -> dict[str, Any]:
    values = window.percentiles_ns(quantiles)
    listed = [{"quantile": quantile, "value": value} for quantile, value in zip(quantiles, values, strict=True)]
    return {"count": window.count, "percentiles": listed}


def _reader(rows: Iterable[Figure]) -> Callable[[object], Figures]:
    """Makes the figures by their keys in /stats of one of the stats: numbers, flags and texts alone."""
    attributes = [(row.name, row.attribute) for row in in_stats(rows) if row.attribute and row.type in (int, bool, str)]
    named = [(name, attribute) for name, attribute in attributes if "." not in attribute]
    return lambda one: {name: getattr(one, attribute) for name, attribute in named}


_TOPIC, _CHANNEL, _CLIENT = _reader(TOPIC), _reader(CHANNEL), _reader(CLIENT)
