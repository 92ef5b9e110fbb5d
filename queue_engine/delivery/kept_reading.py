"""What `/stats` last read of a topic that rests, kept while nothing of it changes: reading it again costs a look at a
few numbers, instead of one at twenty objects for each of its channels.

A topic rests while it and its channels are in no special state, and nothing of it waits at the topic, is deferred,
quarantined or in the trash. Then what is read of it changes only with:

    what is published                  its channels get it at once: their counts grow by the same number
    bytes and messages on disk         counted anew for each reading
    retention, cursors, leases, and    `rest_sign` of the store, and its `RestingFigures`
    what is lost or dropped
    all else: tries to deliver, FIN,   the topic's `Changes`
    REQ, timeouts, RDY, consumers, acts
    what its consumers publish, and    nothing of the topic is kept while one has published: its rights are asked for
    their rights                       anew only then
    a fence, a disk that fails, no     while there is one in the engine, nothing kept is used
    room for what is in flight

A topic is kept at its first reading, so that the second one of a server is quick. What changed before it was used is
kept again only once its sign was the same in two readings: a topic that changes each time costs no more than before. It
is kept with its clients or without them, as it was read last; `kept_topics.py` has the values that go on.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import repeat
from typing import Protocol

from queue_engine.delivery.kept_topics import NEVER_NS, KeptTopic, KeptValues
from queue_engine.delivery.readings import CALM, TopicReading, gone_on, grown
from queue_engine.storage.changes import Changes
from queue_engine.storage.resting import RestingFigures, WentOn


class RestingStore(Protocol):
    """What keeping a reading needs of a `TopicStore`."""

    def resting(self, depths: Mapping[str, int]) -> RestingFigures | None: ...


class KeptReading:
    """Of one topic, if it rests. Signs are `Topic.rest_sign`, of the moment of the call; None: it does not rest."""

    __slots__ = (
        "_changes",
        "_figures",
        "_has_clients",
        "_has_empty",
        "_last_sign",
        "_oldest_ns",
        "_pub_counts",
        "_reading",
        "_sign",
        "_store",
        "_was_used",
    )

    def __init__(self, store: RestingStore, changes: Changes) -> None:
        self._store = store
        self._changes = changes
        self._last_sign: Hashable = None  # at the last reading
        self._was_used = True  # what was kept last
        self._sign: Hashable = None  # of what is kept
        self._has_clients = False
        self._has_empty = False  # a channel without a message
        self._oldest_ns = 0  # of the channel whose oldest message is the youngest
        self._reading: TopicReading | None = None
        self._pub_counts: Sequence[Mapping[str, int]] = ()  # of each consumer
        self._figures: RestingFigures = _no_figures

    def read(self, sign: Hashable, *, message_count: int, message_bytes: int, has_clients: bool) -> TopicReading | None:
        """What is kept, with what went on since; None where all has to be read. The counts are the topic's of now.
        has_clients: whether clients are listed."""
        kept = self._reading
        if kept is None or not self._is_of(sign, has_clients=has_clients):
            return None
        came = message_count - kept.message_count
        found = self._went_on(came)
        if found is None:
            return None
        topic_bytes, *channel_bytes = found.disk_bytes
        channels = kept.channels
        if came:
            channels = list(map(grown, channels, repeat(came), found.backend_depths or repeat(None)))
        return gone_on(
            kept,
            channels,
            channel_bytes,
            message_count=message_count,
            message_bytes=message_bytes,
            disk_bytes=topic_bytes,
        )

    def values(self, sign: Hashable, *, message_count: int, message_bytes: int, has_clients: bool) -> KeptValues | None:
        """The same for its text; None, too, where that is not written yet."""
        kept = self._reading
        if kept is None or kept.kept is None or not self._is_of(sign, has_clients=has_clients):
            return None
        came = message_count - kept.message_count
        found = self._went_on(came)
        if found is None:
            return None
        return kept.kept.went_on(found, came=came, message_count=message_count, message_bytes=message_bytes)

    @property
    def topic(self) -> KeptTopic | None:
        """What is kept."""
        return None if self._reading is None else self._reading.kept

    def _is_of(self, sign: Hashable, *, has_clients: bool) -> bool:
        """Whether nothing else happened to what is kept."""
        if sign is None or sign != self._sign or has_clients != self._has_clients:
            return False
        return not (has_clients and any(self._pub_counts))

    def _went_on(self, came: int) -> WentOn | None:
        if came and self._has_empty:
            return None  # the first that came is the oldest now
        found = self._figures(came)
        if found is None or (came and found.earliest_ns < self._oldest_ns):
            return None  # or the clock was set back
        self._was_used = True
        return found

    def read_anew(self, sign: Hashable) -> bool:
        """All of the topic was read, and it had this sign meanwhile: what was kept is forgotten. Returns whether `note`
        is worth its cost."""
        is_worth = sign is not None and (self._was_used or sign == self._last_sign)
        self._last_sign, self._was_used, self._reading = sign, False, None
        return is_worth

    def note(
        self, reading: TopicReading, pub_counts: Sequence[Mapping[str, int]], *, has_clients: bool
    ) -> TopicReading:
        """Keep what was read, if the topic rests; its sign was the same before and after. Returns the reading, with
        `kept` where it is. pub_counts: of all its consumers, each the same object as long as the consumer is there.
        Raises StorageError."""
        if not _rests(reading) or (has_clients and any(pub_counts)):
            return reading
        figures = self._store.resting({channel.channel_name: channel.depth for channel in reading.channels})
        if figures is None:
            return reading
        self._figures, self._sign, self._has_clients = figures, self._last_sign, has_clients
        self._pub_counts = pub_counts
        oldest = [channel.oldest_ns for channel in reading.channels]
        self._has_empty = None in oldest
        self._oldest_ns = max((one for one in oldest if one is not None), default=0)
        channels: list[int] = []
        for channel in reading.channels:
            oldest_ns = channel.oldest_ns
            channels += channel.depth, channel.message_count, NEVER_NS if oldest_ns is None else oldest_ns
        kept = KeptTopic(self._changes, figures, channels, pub_counts, has_clients=has_clients)
        self._reading = reading._replace(kept=kept)
        return self._reading


def _no_figures(came: int) -> None:
    return None


def _rests(topic: TopicReading) -> bool:
    state = topic.state
    if state.paused or state.fenced or state.unreadable or topic.cursors:
        return False
    return all(
        channel.state is CALM
        and not channel.deferred_count
        # A search for the oldest message that found none goes on with the next reading.
        and (channel.oldest_ns is None) == (not (channel.depth or channel.in_flight_count))
        for channel in topic.channels
    )
