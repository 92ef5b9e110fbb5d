"""The topics that open pages show: they are read every second, and clients only where a page shows them.

A page notes its topic again with each update; a topic that is not noted for WATCH_S is read less often.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

WATCH_S = 5.0
# A topic's page shows its producers, whose request brings the clients of all its channels: not every second.
PRODUCERS_S = 5.0


@dataclass(frozen=True, slots=True)
class Watch:
    """One topic that pages show. channel: the only one of it, "" for all. clients: of that channel, or of all channels
    with the topic's producers."""

    topic: str
    channel: str = ""
    clients: bool = False


class Watches:
    """Belongs to one event loop."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._topics: dict[Watch, float] = {}
        self._nodes: dict[str, float] = {}

    def note(self, watch: Watch) -> bool:
        """Whether no page showed it before."""
        is_new = watch not in self._topics
        self._topics[watch] = self._now_s() + WATCH_S
        return is_new

    def note_clients(self, node: str) -> bool:
        """Of all nodes for "". Whether no page showed them before."""
        is_new = node not in self._nodes
        self._nodes[node] = self._now_s() + WATCH_S
        return is_new

    def shows_clients_of(self, node: str) -> bool:
        """Whether a page shows all clients of this node."""
        self._drop_old()
        return "" in self._nodes or node in self._nodes

    def topics(self) -> "list[Watch]":
        """Each topic once: where pages show several channels of it, the whole topic."""
        self._drop_old()
        found: dict[str, Watch] = {}
        for one in self._topics:
            found[one.topic] = _joined(found.get(one.topic, one), one)
        return list(found.values())

    def with_clients(self) -> Iterable[str]:
        """The topics whose clients pages show."""
        return [one.topic for one in self.topics() if one.clients]

    def _drop_old(self) -> None:
        now_s = self._now_s()
        self._topics = {one: until_s for one, until_s in self._topics.items() if until_s > now_s}
        self._nodes = {one: until_s for one, until_s in self._nodes.items() if until_s > now_s}


def _joined(one: Watch, other: Watch) -> Watch:
    channel = one.channel if one.channel == other.channel else ""
    return Watch(one.topic, channel, one.clients or other.clients)
