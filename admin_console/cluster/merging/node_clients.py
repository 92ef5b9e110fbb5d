"""A node's connections as the stats that pages read."""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2s
from typing import Any

from admin_console.cluster.reading.node_stats import Figures
from admin_console.cluster.reading.nodes import Node
from queue_engine.delivery.stats import ClientStats
from queue_engine.vocabulary.figures import CLIENT, in_stats

# Of a connection in a page's path: an address as all others than hostile nodes write it.
KEY = r"[A-Za-z0-9\[][A-Za-z0-9._:%\[\]-]{0,99}"
_DEFAULTS: dict[type, object] = {int: 0, str: "", bool: False}
_ATTRIBUTES = {
    row.name: (row.attribute, _DEFAULTS[row.type])
    for row in in_stats(CLIENT)
    # tls_negotiated_protocol_is_mutual has the attribute of tls.
    if row.type in _DEFAULTS and row.attribute in (row.name, "msg_timeout_ms")
}


def client_stats(node: str, figures: Figures) -> ClientStats:
    """client_key: negative, which no connection of this process has; the same at each reading."""
    values: dict[str, Any] = {
        attribute: default if figures[name] is None else figures[name]
        for name, (attribute, default) in _ATTRIBUTES.items()
    }
    counts = figures.get("pub_counts") or {}
    return ClientStats(client_key=_key(node, figures), pub_counts=tuple(sorted(counts.items())), **values)


def _key(node: str, figures: Figures) -> int:
    name = f"{node} {figures['remote_address']} {figures['client_id']}".encode(errors="replace")
    # 63 bits: with 32, twenty thousand connections would often have two of one key, and lose one.
    return -1 - (int.from_bytes(blake2s(name, digest_size=8).digest()) >> 1)


def nodes_of_producers(nodes: Iterable[Node], topic: str) -> dict[int, str]:
    """By the key of a connection that publishes to the topic, the name of its node."""
    listed = ((node.name, node.stats.topics.get(topic)) for node in nodes if node.stats is not None)
    return {
        _key(name, figures): name for name, found in listed if found is not None for figures in found.producers or ()
    }


class Producers:
    """Makes the stats of connections once for each reading."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], tuple[tuple[Figures, ...], tuple[ClientStats, ...]]] = {}

    def of(self, listed: Iterable[tuple[str, str, tuple[Figures, ...]]]) -> tuple[ClientStats, ...]:
        """listed: node, topic, and the connections that publish to it there. A connection that publishes to several of
        them stands there once."""
        before, self._made = self._made, {}
        found: dict[int, ClientStats] = {}
        for node, topic, figures in listed:
            held = before.get((node, topic))
            if held is None or held[0] is not figures:
                held = figures, tuple([client_stats(node, one) for one in figures])
            self._made[node, topic] = held
            for one in held[1]:
                same = found.get(one.client_key)
                if same is not None and same.pub_counts != one.pub_counts:
                    counts = dict(same.pub_counts) | dict(one.pub_counts)
                    one = replace(one, pub_counts=tuple(sorted(counts.items())))
                found[one.client_key] = one
        return tuple(found.values())
