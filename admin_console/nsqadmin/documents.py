"""The JSON of nsqadmin 1.3, made from the answers of nodes. Pure.

Other than nsqadmin's, a node in an answer over several keeps its own figures, and `min` and `max` of a percentile are
those of the nodes that finished messages. A figure that a node does not report is 0.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from admin_console.cluster.reading.node_stats import Figures, NodeChannel, NodeTopic
from admin_console.cluster.reading.registrations import Registration
from admin_console.gateway.nodes_now import NodeNow

Document = dict[str, Any]
ALL_NODES = "*"

_TOPIC_COUNTS = ("depth", "backend_depth", "message_count")
_CHANNEL_COUNTS = (
    "depth",
    "backend_depth",
    "in_flight_count",
    "deferred_count",
    "requeue_count",
    "timeout_count",
    "message_count",
    "client_count",
)
_CLIENT_FIGURES: Mapping[str, Any] = {
    "remote_address": "",
    "version": "",
    "client_id": "",
    "hostname": "",
    "user_agent": "",
    "connect_ts": 0,
    "in_flight_count": 0,
    "ready_count": 0,
    "finish_count": 0,
    "requeue_count": 0,
    "message_count": 0,
    "sample_rate": 0,
    "deflate": False,
    "snappy": False,
    "authed": False,
    "auth_identity": "",
    "auth_identity_url": "",
    "tls": False,
    "tls_cipher_suite": "",
    "tls_version": "",
    "tls_negotiated_protocol": "",
    "tls_negotiated_protocol_is_mutual": False,
}


def topic_document(name: str, answers: Sequence[NodeNow]) -> Document:
    """A topic over the nodes that have it; over none, all counts are 0."""
    parts = [(one, one.topics[name]) for one in answers if one.topics and name in one.topics]
    own = [_topic_of(answer, topic) for answer, topic in parts]
    channels: dict[str, list[tuple[NodeNow, NodeChannel]]] = {}
    for answer, topic in parts:
        for channel in topic.channels.values():
            channels.setdefault(channel.name, []).append((answer, channel))
    return {
        **_head("", name, own, _TOPIC_COUNTS),
        "nodes": own,
        "channels": [_channel_over(name, one, channels[one]) for one in sorted(channels)] or None,
        "paused": any(one["paused"] for one in own),
        "e2e_processing_latency": _latency_over([topic.latency for _, topic in parts], name),
    }


def channel_document(topic: str, channel: str, answers: Sequence[NodeNow]) -> Document | None:
    """A channel over the nodes that have it; None where none has it."""
    parts = [
        (one, one.topics[topic].channels[channel])
        for one in answers
        if one.topics and topic in one.topics and channel in one.topics[topic].channels
    ]
    return _channel_over(topic, channel, parts) if parts else None


def node_document(answer: NodeNow) -> Document:
    """One node with its topics, their channels and clients."""
    topics = [_topic_of(answer, topic) for _, topic in sorted((answer.topics or {}).items())]
    return {
        "node": answer.name,
        "topics": topics,
        "total_messages": sum(topic["message_count"] for topic in topics),
        "total_clients": sum(channel["client_count"] for topic in topics for channel in topic["channels"]),
    }


def counter_document(answers: Iterable[NodeNow]) -> Document:
    """The messages of each channel at each node, by `topic:channel:node`."""
    return {
        f"{topic.name}:{channel.name}:{answer.name}": {
            "node": answer.name,
            "topic_name": topic.name,
            "channel_name": channel.name,
            "message_count": _count(channel.figures, "message_count"),
        }
        for answer in answers
        for topic in (answer.topics or {}).values()
        for channel in topic.channels.values()
    }


@dataclass(frozen=True, slots=True)
class Producer:
    """A node as nsqlookupds name it. registrations: by the nsqlookupd's address; the first one stands for all. Without
    nsqlookupds there is one under ""."""

    registrations: Mapping[str, Registration]

    @property
    def registration(self) -> Registration:
        return next(iter(self.registrations.values()))


def producer_documents(producers: Iterable[Producer]) -> list[Document]:
    """Sorted by host name and address."""
    found = sorted(producers, key=lambda one: (one.registration.hostname, one.registration.address.bare))
    newest = max([_numbers(one.registration.version) for one in found], default=())
    return [_producer(one, newest) for one in found]


def _producer(producer: Producer, newest: tuple[int, ...]) -> Document:
    one = producer.registration
    tombstoned = {topic for each in producer.registrations.values() for topic in each.tombstoned}
    topics = sorted({topic for each in producer.registrations.values() for topic in each.topics})
    remote = [f"{at}/{each.remote_address}" for at, each in producer.registrations.items() if at]
    return {
        "remote_addresses": remote or None,
        "remote_address": one.remote_address,
        "hostname": one.hostname,
        "broadcast_address": one.address.host,
        "tcp_port": one.tcp_port,
        "http_port": one.address.port,
        "version": one.version,
        "topics": [{"topic": topic, "tombstoned": topic in tombstoned} for topic in topics] or None,
        "out_of_date": _numbers(one.version) < newest,
    }


def _numbers(version: str) -> tuple[int, ...]:
    """1.3.0-alpha → (1, 3, 0)."""
    numbers = []
    for part in version.split("-")[0].split("+")[0].split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part[:9]))
    return tuple(numbers)


def _count(figures: Figures, name: str) -> int:
    found = figures.get(name)
    return found if isinstance(found, int) else 0


def _head(channel: str, topic: str, parts: Sequence[Mapping[str, Any]], names: Iterable[str]) -> Document:
    """The names and sums over nodes."""
    head: Document = {"node": ALL_NODES, "hostname": "", "topic_name": topic}
    if channel:
        head["channel_name"] = channel
    head.update({name: sum(part[name] for part in parts) for name in names})
    head["memory_depth"] = sum(part["memory_depth"] for part in parts)
    return head


def _own_counts(figures: Figures, names: Iterable[str]) -> Document:
    counts = {name: _count(figures, name) for name in names}
    return {**counts, "memory_depth": counts["depth"] - counts["backend_depth"]}


def _topic_of(answer: NodeNow, topic: NodeTopic) -> Document:
    return {
        "node": answer.name,
        "hostname": answer.hostname,
        "topic_name": topic.name,
        **_own_counts(topic.figures, _TOPIC_COUNTS),
        "nodes": None,
        "channels": [_channel_of(answer, topic.name, topic.channels[name]) for name in sorted(topic.channels)],
        "paused": bool(topic.figures.get("paused")),
        "e2e_processing_latency": _latency_of(topic.latency),
    }


def _channel_of(answer: NodeNow, topic: str, channel: NodeChannel) -> Document:
    clients = channel.clients
    return {
        "node": answer.name,
        "hostname": answer.hostname,
        "topic_name": topic,
        "channel_name": channel.name,
        **_own_counts(channel.figures, _CHANNEL_COUNTS),
        "nodes": None,
        "clients": None if clients is None else [_client(answer.name, one) for one in clients],
        "paused": bool(channel.figures.get("paused")),
        "e2e_processing_latency": _latency_of(channel.latency),
    }


def _channel_over(topic: str, name: str, parts: Sequence[tuple[NodeNow, NodeChannel]]) -> Document:
    own = [_channel_of(answer, topic, channel) for answer, channel in parts]
    clients = [client for one in own for client in one["clients"] or ()]
    return {
        **_head(name, topic, own, _CHANNEL_COUNTS),
        "nodes": own,
        "clients": clients or None,
        "paused": any(one["paused"] for one in own),
        "e2e_processing_latency": _latency_over([channel.latency for _, channel in parts], topic, name),
    }


def _client(node: str, figures: Figures) -> Document:
    found = {
        name: missing if (value := figures.get(name)) is None else value for name, missing in _CLIENT_FIGURES.items()
    }
    connected_s = max(0, int(time.time()) - found["connect_ts"]) if found["connect_ts"] else 0
    return {"node": node, **found, "connected": connected_s * 1_000_000_000}


def _latency_of(latency: Mapping[str, Any]) -> Document:
    count, values = _percentiles(latency)
    return {
        "count": count,
        "percentiles": [
            {"average": value, "count": count, "max": value, "min": value, "quantile": quantile, "value": value}
            for quantile, value in values.items()
        ]
        or None,
        "topic": "",
        "channel": "",
        "host": "",
    }


def _latency_over(parts: Iterable[Mapping[str, Any]], topic: str, channel: str = "") -> Document:
    """average: weighted by the messages of each node, as nsqadmin has it; no percentile of all messages."""
    found = [_percentiles(one) for one in parts]
    counted = [(count, values) for count, values in found if count]
    total = sum(count for count, _ in counted)
    percentiles = []
    for quantile in dict.fromkeys(quantile for _, values in found for quantile in values):
        each = [(count, values[quantile]) for count, values in counted if quantile in values]
        weight = sum(count for count, _ in each)
        percentiles.append(
            {
                "average": sum(count * value for count, value in each) // weight if weight else 0,
                "count": weight,
                "max": max([value for _, value in each], default=0),
                "min": min([value for _, value in each], default=0),
                "quantile": quantile,
            }
        )
    return {"count": total, "percentiles": percentiles or None, "topic": topic, "channel": channel, "host": ALL_NODES}


def _percentiles(latency: Mapping[str, Any]) -> tuple[int, dict[float, int]]:
    """The number of messages, and nanoseconds by quantile; others than numbers are left out."""
    count, listed = latency.get("count"), latency.get("percentiles")
    values: dict[float, int] = {}
    for one in listed if isinstance(listed, list) else ():
        quantile, value = (one.get("quantile"), one.get("value")) if isinstance(one, dict) else (None, None)
        if isinstance(quantile, int | float) and isinstance(value, int | float) and 0 <= value < 1 << 63:
            values[float(quantile)] = int(value)
    return count if type(count) is int and count >= 0 else 0, values
