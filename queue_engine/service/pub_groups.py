"""The PUBs of one turn, from connections that wait for each OK: gathered by topic, published and answered as one.

Such a client has nothing else to say until its answer comes. So its PUB needs no place in a line of answers, only one
in its topic's group; and a turn costs a publish for each topic, however many connections it comes from.
"""

from collections.abc import Callable
from typing import Protocol

from queue_engine.engine import Engine
from queue_engine.errors import PenstockError
from queue_engine.ticket import Ticket, failed

# What goes to the engine at once; what is larger goes alone.
GROUP_BYTES_MAX = 1 << 20


class Publisher(Protocol):
    """Who sent a PUB of a group."""

    def pub_settled(self, group: "PubGroup", ticket: Ticket) -> None:
        """The PUB that waits in `group` is published, or not: the ticket, which is done, tells."""
        ...


class PubGroup:
    """The PUBs of one turn to one topic.

    ticket: None until they were handed to the engine.
    """

    __slots__ = ("bodies", "body_bytes", "publishers", "ticket", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.bodies: list[bytes] = []
        self.body_bytes = 0
        self.publishers: list[Publisher] = []
        self.ticket: Ticket | None = None

    def settle(self, ticket: Ticket) -> None:
        """Tell everybody who waits."""
        for publisher in self.publishers:
            publisher.pub_settled(self, ticket)


class PubGroups:
    """The groups of this turn. on_work: called with the first PUB of a turn; `publish` must follow."""

    def __init__(self, engine: Engine, on_work: Callable[[], None]) -> None:
        self._engine = engine
        self._on_work = on_work
        self._groups: dict[str, PubGroup] = {}

    def add(self, publisher: Publisher, topic: str, body: bytes) -> PubGroup:
        """Take a PUB; `publisher.pub_settled` is called with the group returned, in this turn or later."""
        group = self._groups.get(topic)
        if group is not None and group.body_bytes + len(body) > GROUP_BYTES_MAX:
            self.publish_group(group)
            group = None
        if group is None:
            if not self._groups:
                self._on_work()
            group = self._groups[topic] = PubGroup(topic)
        group.bodies.append(body)
        group.publishers.append(publisher)
        group.body_bytes += len(body)
        return group

    def publish(self) -> int:
        """Hand all groups to the engine; returns how many PUBs there were."""
        count = 0
        while self._groups:
            groups, self._groups = self._groups, {}
            for group in groups.values():
                count += len(group.bodies)
                self._hand_over(group)
        return count

    def publish_group(self, group: PubGroup) -> None:
        """Hand one over before the others: what comes next is to come behind it."""
        if self._groups.get(group.topic) is group:
            del self._groups[group.topic]
            self._hand_over(group)

    def _hand_over(self, group: PubGroup) -> None:
        try:
            ticket = self._engine.publish_turn(group.topic, group.bodies)
        except PenstockError as exc:
            ticket = failed(exc)
        group.ticket = ticket
        ticket.when_done(group.settle)
