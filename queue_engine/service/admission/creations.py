"""Topics and channels that come to be because a client publishes or subscribes: the audit list hears of them, too.

A client asks what is missing before it publishes, which is one look into a dictionary where nothing is; all else is for
what is new alone.
"""

from collections.abc import Callable, Sequence

from queue_engine.delivery.stats import VIA_TCP, ActRecord, Outcome
from queue_engine.engine import Engine
from queue_engine.vocabulary.ticket import Ticket

Names = tuple[str, str]  # a topic and "", or a topic and a channel


class Creations:
    """Tells of each creation once, when it is as durable as it will be. on_act: None tells nobody."""

    def __init__(self, engine: Engine, on_act: Callable[[ActRecord], None] | None = None) -> None:
        self._topics = engine.topics
        self.on_act = on_act
        self._under_way: set[Names] = set()

    def missing(self, topic: str, channel: str = "") -> Sequence[Names]:
        """What would be made by publishing to the topic, or by subscribing to its channel."""
        found = self._topics.get(topic)
        if found is None:
            return ((topic, ""), (topic, channel)) if channel else ((topic, ""),)
        return ((topic, channel),) if channel and channel not in found.channels else ()

    def note(self, missing: Sequence[Names], ticket: Ticket, remote_address: str, *, via: str = VIA_TCP) -> None:
        """A client has asked for what was missing. ticket: of what it asked; what was made stays when that fails."""
        # Of clients that ask at the same time, the first one is named.
        wanted = [names for names in missing if names not in self._under_way]
        self._under_way.update(wanted)

        def settled(_: Ticket) -> None:
            self._under_way.difference_update(wanted)
            for topic, channel in wanted:
                made = self._topics.get(topic)
                if self.on_act is None or made is None or (channel and channel not in made.channels):
                    continue
                action = "create_channel" if channel else "create_topic"
                self.on_act(ActRecord(action, topic, channel, remote_address, "", Outcome(created=True), via=via))

        ticket.when_done(settled)
