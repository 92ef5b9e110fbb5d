"""What `/stats` last read of a topic that rests, kept while nothing of it changes: reading it again costs a look at a
few numbers, instead of one at twenty objects for each of its channels.

A topic rests while it and its channels are in no special state, nobody consumes from it, and nothing of it is in
flight, deferred, quarantined or in the trash. Then what is read of it changes only with:

    what is published and passed on     `message_count` of the topic, `rest_sign` of its store
    retention, cursors, leases          `rest_sign`
    a consumer that comes, an act       both count in the topic's `Changes`
    the bytes of the log                counted anew for each reading
    a fence, a disk that fails          while there is one in the engine, nothing kept is used

A topic is kept once it was the same in two readings, so one that changes each time costs no more than before.
"""

from collections.abc import Hashable, Sequence
from typing import Protocol

from queue_engine.delivery.readings import CALM, KeptText, TopicReading


class Changes:
    """How often a consumer came to a topic or one of its channels, or an act changed them: they all share it."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def note(self) -> None:
        self.count += 1


class RestingStore(Protocol):
    """What keeping a reading needs of a `TopicStore`."""

    def needed_places(self, channels: Sequence[str]) -> list[int] | None: ...

    def bytes_from_places(self, places: Sequence[int]) -> list[int]: ...


class KeptReading:
    """Of one topic, if it rests. Signs are `Topic.rest_sign`, of the moment of the call; None: it does not rest."""

    __slots__ = ("_has_clients", "_last_sign", "_places", "_reading", "_sign", "_store")

    def __init__(self, store: RestingStore) -> None:
        self._store = store
        self._last_sign: Hashable = None  # at the last reading
        self._sign: Hashable = None  # of what is kept
        self._has_clients = False
        self._reading: TopicReading | None = None
        self._places: list[int] = []  # of the topic and of each channel, in the log

    def read(self, sign: Hashable, *, has_clients: bool) -> TopicReading | None:
        """What is kept, with the bytes of now; None where all has to be read. has_clients: whether clients are
        listed."""
        kept = self._reading
        if kept is None or sign is None or sign != self._sign or has_clients != self._has_clients:
            return None
        topic_bytes, *channel_bytes = self._store.bytes_from_places(self._places)
        return kept._replace(disk_bytes=topic_bytes, channel_bytes=channel_bytes)

    def is_known(self, sign: Hashable) -> bool:
        """Whether the topic had this sign at the last reading, too. This is a reading: `note` comes next if so."""
        is_same, self._last_sign, self._reading = sign is not None and sign == self._last_sign, sign, None
        return is_same

    def note(self, reading: TopicReading, *, has_clients: bool) -> None:
        """Keep what was read, if the topic rests; its sign was the same before and after. Raises StorageError."""
        if not _rests(reading):
            return
        places = self._store.needed_places([channel.channel_name for channel in reading.channels])
        if places is not None:
            self._places, self._sign, self._has_clients = places, self._last_sign, has_clients
            self._reading = reading._replace(kept=KeptText())


def _rests(topic: TopicReading) -> bool:
    state = topic.state
    if state.paused or state.fenced or state.unreadable or topic.depth or topic.cursors:
        return False
    return all(
        channel.state is CALM
        and not (channel.client_count or channel.in_flight_count or channel.deferred_count)
        # A search for the oldest message that found none goes on with the next reading.
        and (channel.oldest_ns is None) == (not channel.depth)
        for channel in topic.channels
    )
