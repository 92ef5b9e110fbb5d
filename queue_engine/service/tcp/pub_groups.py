"""The PUBs of one turn, from clients that wait for each OK: gathered by topic, published and answered together.

Such a client sends nothing until its answer comes. So its PUB needs no place in the order of answers, only one in its
topic's group, and a turn makes one publish per topic, from however many connections.
"""

import logging
from collections.abc import Callable
from typing import Protocol

from queue_engine.engine.engine import Engine
from queue_engine.service.admission.creations import Creations
from queue_engine.service.admission.publish_quotas import PublishQuotas
from queue_engine.vocabulary.errors import PenstockError, StorageError
from queue_engine.vocabulary.faults import describe
from queue_engine.vocabulary.options.options import MPUB_SIZE_BYTES
from queue_engine.vocabulary.ticket import Ticket, failed

logger = logging.getLogger(__name__)


class Publisher(Protocol):
    """The connection of a PUB in a group. remote_address: HOST:PORT."""

    @property
    def remote_address(self) -> str: ...

    def pub_settled(self, group: "PubGroup", ticket: Ticket) -> None:
        """The PUB that waits in `group` is published, or has failed with the error of the ticket, which is done."""
        ...

    def fail(self, error: Exception) -> None:
        """End the connection after an unexpected error."""
        ...


class PubGroup:
    """The PUBs of one turn to one topic.

    mpub_bytes: their size as the body of an MPUB. ticket: None until the engine has them.
    """

    __slots__ = ("bodies", "mpub_bytes", "publishers", "ticket", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.bodies: list[bytes] = []
        self.mpub_bytes = 0
        self.publishers: list[Publisher] = []
        self.ticket: Ticket | None = None

    def settle(self, ticket: Ticket) -> None:
        """Have all publishers answer their clients."""
        for publisher in self.publishers:
            try:
                publisher.pub_settled(self, ticket)
            except Exception as exc:
                publisher.fail(exc)


class PubGroups:
    """The groups of this turn. The engine gets each group as a whole; a message over the limit of a group goes alone.

    on_work: called with the first PUB of a turn; `publish` must follow. creations: notes topics that PUBs create.
    quotas: how fast each client may publish; the connection takes from it before `add`.
    """

    def __init__(self, engine: Engine, on_work: Callable[[], None]) -> None:
        self._engine = engine
        self._on_work = on_work
        self._bytes_max = engine.options.gathered_bytes_max
        self._groups: dict[str, PubGroup] = {}
        self.creations = Creations(engine)
        self.quotas = PublishQuotas(engine.options.publish_quota, engine.clock)

    def add(self, publisher: Publisher, topic: str, body: bytes) -> PubGroup:
        """Add a PUB to its topic's group, which is returned; `publisher.pub_settled` is called with it, in this turn or
        later."""
        group = self._groups.get(topic)
        size = len(body) + MPUB_SIZE_BYTES
        if group is not None and group.mpub_bytes + size > self._bytes_max:
            self.publish_group(group)
            group = None
        if group is None:
            if not self._groups:
                self._on_work()
            group = self._groups[topic] = PubGroup(topic)
        group.bodies.append(body)
        group.publishers.append(publisher)
        group.mpub_bytes += size
        return group

    def publish(self) -> int:
        """Hand all groups to the engine; returns the number of PUBs."""
        count = 0
        while self._groups:
            groups, self._groups = self._groups, {}
            for group in groups.values():
                count += len(group.bodies)
                self._hand_over(group)
        return count

    def publish_group(self, group: PubGroup) -> None:
        """Hand one group over before the turn, so that its publisher's next commands come behind it."""
        if self._groups.get(group.topic) is group:
            del self._groups[group.topic]
            self._hand_over(group)

    def _hand_over(self, group: PubGroup) -> None:
        missing = () if group.topic in self._engine.topics else self.creations.missing(group.topic)
        try:
            ticket = self._engine.publish_turn(group.topic, group.bodies)
        except PenstockError as exc:
            ticket = failed(exc)
        except Exception as exc:
            # The other groups are still to be published.
            logger.exception("publish failed topic=%s", group.topic)
            ticket = failed(StorageError(f"publishing to {group.topic} failed unexpectedly: {describe(exc)}"))
        group.ticket = ticket
        if missing:
            self.creations.note(missing, ticket, group.publishers[0].remote_address)
        ticket.when_done(group.settle)
