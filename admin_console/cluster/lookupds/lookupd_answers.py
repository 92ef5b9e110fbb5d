"""The lists of nsqlookupds, and those of several as one: each topic once, with the nsqlookupds that list it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from admin_console.cluster.calls.addresses import HttpAddress


@dataclass(frozen=True, slots=True)
class LookupdProducer:
    """A node that registered a topic. node: its broadcast address and HTTP port. is_inactive: it sent no PING for
    longer than the nsqlookupd waits. pinged_at_ms: its last one, Unix; 0 where the nsqlookupd does not report it."""

    node: str
    is_tombstoned: bool = False
    is_inactive: bool = False
    pinged_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class LookupdTopic:
    """A topic. channels: those that a producer has. lonely: those that are registered and no producer has; a node that
    creates the topic makes them again."""

    topic: str
    channels: tuple[str, ...]
    producers: tuple[LookupdProducer, ...]
    lonely: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LookupdReport:
    """The list of an nsqlookupd. error: why it does not answer now, a sentence; then the rest is of its last answer.
    failing_since_ms: Unix; 0 while it answers. answered_at_ms: Unix; 0 for never."""

    address: HttpAddress
    topics: tuple[LookupdTopic, ...] = ()
    server_count: int = 0
    error: str = ""
    answered_at_ms: int = 0
    failing_since_ms: int = 0


@dataclass(frozen=True, slots=True)
class LookupdOutcome:
    """One nsqlookupd's part of an act. error: why it is not done, "" where it is; may_be_done: no answer came."""

    address: HttpAddress
    error: str = ""
    may_be_done: bool = False


@dataclass(frozen=True, slots=True)
class ListedProducer:
    """A node as the producer of a topic, by nsqlookupd."""

    node: str
    at: Mapping[HttpAddress, LookupdProducer]

    @property
    def visible_at(self) -> tuple[HttpAddress, ...]:
        """The nsqlookupds that name it to consumers."""
        return tuple(one for one, found in self.at.items() if not found.is_tombstoned and not found.is_inactive)

    @property
    def tombstoned_at(self) -> tuple[HttpAddress, ...]:
        return tuple(one for one, found in self.at.items() if found.is_tombstoned)

    @property
    def is_silent(self) -> bool:
        """Whether it sends no PING to any of them."""
        return all(found.is_inactive for found in self.at.values())

    @property
    def pinged_at_ms(self) -> int:
        return max(found.pinged_at_ms for found in self.at.values())


@dataclass(frozen=True, slots=True)
class ListedTopic:
    """at: the nsqlookupds that list the topic. channels: those that a producer has. lonely: each channel that none has,
    with the nsqlookupds that list it."""

    topic: str
    at: tuple[HttpAddress, ...]
    producers: tuple[ListedProducer, ...]
    channels: tuple[str, ...]
    lonely: Mapping[str, tuple[HttpAddress, ...]]

    @property
    def is_lonely(self) -> bool:
        """Whether it has no producer, or only such as send no PING any more."""
        return all(producer.is_silent for producer in self.producers)


def topics_listed(reports: Iterable[LookupdReport]) -> tuple[ListedTopic, ...]:
    """Each topic once, sorted. An nsqlookupd that does not answer counts with its last answer."""
    at: dict[str, list[HttpAddress]] = {}
    producers: dict[str, dict[str, dict[HttpAddress, LookupdProducer]]] = {}
    channels: dict[str, set[str]] = {}
    registered: dict[str, dict[str, list[HttpAddress]]] = {}
    for report in reports:
        for one in report.topics:
            at.setdefault(one.topic, []).append(report.address)
            channels.setdefault(one.topic, set()).update(one.channels)
            for producer in one.producers:
                producers.setdefault(one.topic, {}).setdefault(producer.node, {})[report.address] = producer
            for channel in one.lonely:
                registered.setdefault(one.topic, {}).setdefault(channel, []).append(report.address)
    found = []
    for topic in sorted(at):
        nodes = producers.get(topic, {})
        lonely = {
            channel: tuple(where)
            for channel, where in sorted(registered.get(topic, {}).items())
            if channel not in channels[topic]
        }
        found.append(
            ListedTopic(
                topic,
                tuple(at[topic]),
                tuple(ListedProducer(node, nodes[node]) for node in sorted(nodes)),
                tuple(sorted(channels[topic])),
                lonely,
            )
        )
    return tuple(found)
