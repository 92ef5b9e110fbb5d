"""Names the messages of places that left no trace in the log: a segment that is missing, an end that is cut off,
records whose header and trailer are damaged.

The consume queues of the last checkpoint list them: a start renames these while it rebuilds new ones from the log.
Messages newer than the checkpoint leave a jump in their topic's offsets over such a place; where the topic has nothing
behind the place, they leave no trace.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from queue_engine.storage.commit_log.segment import LogSegments
from queue_engine.storage.consume_queue.consume_queue import ConsumeQueue
from queue_engine.storage.recovery_report import Damage, LostMessages
from queue_engine.vocabulary.errors import StorageError

logger = logging.getLogger(__name__)

# Messages are counted for so many places; further damaged places are reported without numbers.
PLACES_MAX = 100


@dataclass(frozen=True, slots=True)
class OffsetJump:
    """The topic's record at `position` begins at `next_offset`, and the one before it, at `position_before`, ended at
    `first_offset`."""

    topic_number: int
    first_offset: int
    next_offset: int
    position_before: int
    position: int


@dataclass(frozen=True, slots=True)
class LogLosses:
    """queues: consume queues by topic number, with all records below `queues_upto` of the log. jumps: those in the part
    of the log that was read."""

    queues: Mapping[int, ConsumeQueue]
    queues_upto: int
    jumps: Sequence[OffsetJump]
    segments: LogSegments
    _jumps_of: dict[int, list[OffsetJump]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for jump in self.jumps:
            self._jumps_of.setdefault(jump.topic_number, []).append(jump)

    def with_messages(self, damages: Sequence[Damage], names: Mapping[int, str]) -> list[Damage]:
        """The damages, with the messages that each of them cost. names: of topics by number; the others are deleted."""
        left = PLACES_MAX
        counted: list[Damage] = []
        for one in damages:
            if not one.is_exact and left:
                left -= 1
                counted.append(self._counted(one, names))
            else:
                counted.append(one)
        # Missing files without a needed message: they were reported before, or were not needed.
        reported = [one for one in counted if one.lost != 0 or one.action or not one.is_absent]
        return [self._named(one, names) for one in reported]

    def _counted(self, damage: Damage, names: Mapping[int, str]) -> Damage:
        start, end = damage.position, damage.position + damage.size
        losses: list[LostMessages] = []
        is_counted = end <= self.queues_upto
        for number in names:
            try:
                losses += self._losses_of(number, start, end)
            except StorageError as exc:
                # The consume queue is derived: its error does not end the start.
                logger.warning("lost messages can't be counted topic=%s: %s", names[number], exc)
                is_counted = False
        return replace(damage, losses=tuple(sorted(losses, key=lambda one: -one.count)), is_exact=is_counted)

    def _losses_of(self, number: int, start: int, end: int) -> list[LostMessages]:
        """The messages that a topic had in a range of the log."""
        losses: list[LostMessages] = []
        queue_end = 0
        queue = self.queues.get(number)
        if queue is not None:
            queue_end = queue.end_offset
            first = queue.first_offset_at(start)
            after = queue.first_offset_at(end)
            count = queue.count_between(first, after)
            if count > 0:
                losses.append(LostMessages(number, first, after, count))
        for jump in self._jumps_of.get(number, ()):
            if not jump.position_before < start < end <= jump.position:
                continue
            first = max(jump.first_offset, queue_end)
            if first < jump.next_offset and self._is_one_process(jump):
                losses.append(LostMessages(number, first, jump.next_offset, jump.next_offset - first))
        return losses

    def _is_one_process(self, jump: OffsetJump) -> bool:
        """Whether one process wrote both records: offsets that it had reserved are skipped by the next one."""
        return self.segments.segment_of(jump.position_before) is self.segments.segment_of(jump.position)

    @staticmethod
    def _named(damage: Damage, names: Mapping[int, str]) -> Damage:
        losses = tuple(replace(one, topic=names.get(one.topic_number, "")) for one in damage.losses)
        return replace(damage, losses=losses)
