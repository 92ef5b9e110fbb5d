"""The messages of a topic or channel at one node, as counts."""

from dataclasses import dataclass

from admin_console.cluster.reading.node_stats import NodeChannel, NodeTopic

# An act may remove so many messages more than its question counted, or a tenth: as the engine of a Penstock compares.
COUNTS_TOLERANCE = 1_000


def has_grown(count: int, expected: int) -> bool:
    """Whether there are far more messages to remove than the question counted."""
    return count > expected + max(COUNTS_TOLERANCE, expected // 10)


def now_and_then(count: int, expected: int) -> str:
    return f"there are {count:,} messages now, and the question counted {expected:,}"


@dataclass(frozen=True, slots=True)
class Held:
    """The messages of a topic or channel at a node, by its figures; for a topic those of its channels are apart."""

    depth: int = 0
    in_flight: int = 0
    deferred: int = 0
    quarantined: int = 0
    clients: int = 0
    paused: bool = False
    max_attempts: int = 0
    channels: tuple["Held", ...] = ()
    channel_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, one: NodeTopic | NodeChannel) -> "Held":
        """A figure that the node lacks counts as 0."""
        figures = one.figures

        def number(name: str) -> int:
            return int(figures.get(name) or 0)

        channels = one.channels if isinstance(one, NodeTopic) else {}
        return cls(
            number("depth"),
            number("in_flight_count"),
            number("deferred_count"),
            number("quarantined_count"),
            number("client_count"),
            bool(figures.get("paused")),
            number("max_attempts"),
            tuple(map(cls.of, channels.values())),
            tuple(channels),
        )

    def in_channel(self, name: str) -> "Held":
        """Of a topic's channel; without messages where it has no such channel."""
        return dict(zip(self.channel_names, self.channels, strict=True)).get(name) or Held()

    @property
    def messages(self) -> int:
        """Without those of the channels."""
        return self.depth + self.in_flight + self.deferred + self.quarantined

    @property
    def in_all(self) -> "Held":
        """With those of the channels."""
        every = (self, *self.channels)
        return Held(
            sum(one.depth for one in every),
            sum(one.in_flight for one in every),
            sum(one.deferred for one in every),
            sum(one.quarantined for one in every),
            sum(one.clients for one in every),
            self.paused,
        )
