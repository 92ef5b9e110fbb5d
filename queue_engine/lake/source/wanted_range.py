"""A range of one topic's messages that a job is going to read."""

from dataclasses import dataclass, replace

from queue_engine.client.log_api.message_ranges import MessageRanges, OffsetRange
from queue_engine.wire.topic_state import TopicState


@dataclass(frozen=True, slots=True)
class WantedRange:
    """The messages of the topic with this identity from first_offset up to but not including next_offset. unused: the
    ranges of these offsets that have no messages."""

    topic: str
    number: int
    id_base: int
    first_offset: int
    next_offset: int
    unused: tuple[OffsetRange, ...] = ()

    @property
    def count(self) -> int:
        """The number of messages."""
        return self.count_from(self.first_offset)

    def next_message(self, offset: int) -> int:
        """The first offset from `offset` on that has a message; next_offset when none has."""
        found = self.messages.within(offset, self.next_offset)
        return found[0][0] if found else self.next_offset

    def count_from(self, offset: int) -> int:
        """The number of messages from `offset` on."""
        return self.messages.count_between(offset, self.next_offset)

    @property
    def messages(self) -> MessageRanges:
        return MessageRanges(MessageRanges(self.unused).unused_between(self.first_offset, self.next_offset))

    def cut(self, first: int, after: int) -> "WantedRange":
        """The part of it between two offsets."""
        unused = tuple(MessageRanges(self.unused).within(first, after))
        return replace(self, first_offset=first, next_offset=after, unused=unused)


def synced_messages(state: TopicState) -> MessageRanges:
    """The synced messages of a topic."""
    return MessageRanges(((state.oldest_offset, state.synced_offset),) if state.ranges is None else state.ranges)


def wanted_range(state: TopicState, first: int, after: int) -> WantedRange:
    """A topic's messages between two offsets."""
    unused = synced_messages(state).unused_between(first, after)
    return WantedRange(state.topic, state.number, state.id_base, first, after, unused)
