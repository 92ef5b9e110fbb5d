"""Topics and channels that clients create by publishing or subscribing: the audit list gets a row for each, too.

A connection calls `missing` before it publishes: one look into a dictionary when nothing is missing. All other work is
done only for new topics and channels.
"""

from collections.abc import Callable, Sequence

from queue_engine.delivery.stats import VIA_TCP, ActRecord, Outcome
from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.ticket import Ticket

Names = tuple[str, str]  # a topic and "", or a topic and a channel


class Creations:
    """Reports each creation once, when its ticket is done. on_act: takes the report; None for no reports."""

    def __init__(self, engine: Engine, on_act: Callable[[ActRecord], None] | None = None) -> None:
        self._topics = engine.topics
        self.on_act = on_act
        self._under_way: set[Names] = set()

    def missing(self, topic: str, channel: str = "") -> Sequence[Names]:
        """The topics and channels that publishing to `topic`, or subscribing to its channel, would create."""
        found = self._topics.get(topic)
        if found is None:
            return ((topic, ""), (topic, channel)) if channel else ((topic, ""),)
        return ((topic, channel),) if channel and channel not in found.channels else ()

    def note(self, missing: Sequence[Names], ticket: Ticket, remote_address: str, *, via: str = VIA_TCP) -> None:
        """Report the topic and channel that a client's command creates, once its ticket is done. They stay when the
        command fails, and is reported."""
        # When several clients create the same, the first one is named.
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
