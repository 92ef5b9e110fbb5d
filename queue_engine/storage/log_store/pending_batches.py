"""Batches that were appended and are not visible yet."""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.next_turn import NextTurn
from queue_engine.vocabulary.run import Batch
from queue_engine.vocabulary.ticket import Ticket


class AppendingTopic(Protocol):
    """A topic whose batches wait. next_offset: of the next message."""

    next_offset: int
    is_deleted: bool

    def appeared(self, first: int, batch: Batch, position: int, size: int, dues_ns: Sequence[int] | None) -> None:
        """A record became visible."""

    def refused(self, error: StorageError) -> StorageError:
        """The same error for the topic's publisher to read."""


class PendingBatches:
    """Belongs to the engine's thread.

    line: (end position, topic, first offset, batch, position, size, due times, ticket) of each batch, in the log's
    order. next_turn: writes them at its end.
    """

    def __init__(self, next_turn: NextTurn) -> None:
        self.line: deque[tuple[int, AppendingTopic, int, Batch, int, int, Sequence[int] | None, Ticket]] = deque()
        self.next_turn = next_turn

    def became_visible(self, visible_end: int) -> None:
        """The log may be read up to `visible_end`: the consume queues note the batches, then tickets are resolved."""
        line = self.line
        while line and line[0][0] <= visible_end:
            _, topic, first, batch, position, size, dues_ns, ticket = line.popleft()
            if not topic.is_deleted:
                topic.appeared(first, batch, position, size, dues_ns)
            ticket.resolve()

    def log_failed(self, error: StorageError) -> None:
        """The log failed: every waiting batch is rejected, and its offsets are given again."""
        line, self.line = self.line, deque()
        for _, topic, first, *_ in reversed(line):
            topic.next_offset = min(topic.next_offset, first)
        for _, topic, *_, ticket in line:
            ticket.reject(topic.refused(error))
