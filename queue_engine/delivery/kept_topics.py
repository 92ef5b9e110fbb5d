"""Topics of which `/stats` keeps what it read (`kept_reading.py`), each in a handful of objects: their text, and the
values that go on.

    a message came since the answer before   a look at the topic, for how many
    none came                                a look at the topic's `Changes` alone

What nobody has touched for a while is far from the processor, and a look at it costs more than what is done with it:
so a topic that is kept is told without a look at its channels, and their values lie side by side.
"""

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from queue_engine.storage.changes import Changes
from queue_engine.storage.resting import RestingFigures, WentOn

NEVER_NS = -1  # as oldest_ns: nothing waits


class KeptValues(NamedTuple):
    """What went on of a topic that is kept. template: its text, with places for: of each channel depth, backend depth,
    messages, age where it has one, bytes on disk; of the topic messages, their bytes, bytes on disk.

    channels: depth, messages and oldest_ns of each, one behind the other, when it was read; oldest_ns as of
    `ChannelReading`, or NEVER_NS. came: messages since then, which all wait. backend_depths: of each channel now; None
    where all that waits is on disk. disk_bytes: of the topic, then of each channel.
    """

    template: bytes
    channels: Sequence[int]
    came: int
    backend_depths: Sequence[int] | None
    message_count: int
    message_bytes: int
    disk_bytes: Sequence[int]


class KeptTopic:
    """One topic, as it was read. template: None until it is written."""

    __slots__ = (
        "_came",
        "_changes",
        "_changes_count",
        "_channels",
        "_figures",
        "_has_clients",
        "_message_bytes",
        "_message_count",
        "_pub_counts",
        "_stored_count",
        "template",
    )

    def __init__(
        self,
        changes: Changes,
        figures: RestingFigures,
        channels: Sequence[int],
        pub_counts: Sequence[Mapping[str, int]],
        *,
        has_clients: bool,
    ) -> None:
        """changes: the topic's. figures: how it goes on from here. channels: as of KeptValues. pub_counts: of each
        consumer, the same objects as long as it is there. has_clients: whether the text lists them."""
        self.template: bytes | None = None
        self._changes = changes
        self._changes_count = changes.count
        self._stored_count = -1  # when it was looked at last
        self._figures = figures
        self._channels = array("q", channels)
        self._pub_counts = pub_counts
        self._has_clients = has_clients
        self._came = self._message_count = self._message_bytes = 0

    def unchanged(self, *, has_clients: bool) -> KeptValues | None:
        """Without a look at the topic; None where one is needed, and once the topic or a channel is deleted.
        has_clients: whether clients are listed."""
        changes = self._changes
        if (
            changes.stored_count != self._stored_count
            or changes.count != self._changes_count
            or has_clients != self._has_clients
            or (has_clients and any(self._pub_counts))
        ):
            return None
        found = self._figures(self._came)
        return None if found is None else self._values(found)

    def went_on(self, found: WentOn, *, came: int, message_count: int, message_bytes: int) -> KeptValues | None:
        """The topic was looked at, and is as it was but for so many messages that came. The counts are the topic's of
        now. None where the text is not written yet."""
        self._stored_count = self._changes.stored_count
        self._came, self._message_count, self._message_bytes = came, message_count, message_bytes
        return self._values(found)

    def _values(self, found: WentOn) -> KeptValues | None:
        if self.template is None:
            return None
        return KeptValues(
            self.template,
            self._channels,
            self._came,
            found.backend_depths,
            self._message_count,
            self._message_bytes,
            found.disk_bytes,
        )


class KeptTopics:
    """A place for each topic, for what the last answer with all topics found kept."""

    def __init__(self) -> None:
        self._names: Sequence[str] = ()
        self._places: list[KeptTopic | None] = []

    def places(self, names: Sequence[str]) -> list[KeptTopic | None]:
        """One for each name: who makes an answer fills them. names: the same object until a topic comes or goes; then
        all are empty, since another topic may have a name now."""
        if names is not self._names:
            self._names, self._places = names, [None] * len(names)
        return self._places
