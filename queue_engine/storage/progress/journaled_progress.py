"""One channel's progress where it changes: in memory, in the journal, and in the figures that its page shows."""

from collections.abc import Iterable, Mapping

from queue_engine.storage.most_attempts import ATTEMPTS_MIN, MostAttempts
from queue_engine.storage.progress.channel_progress import ChannelProgress, Quarantined
from queue_engine.storage.progress.journal import ProgressJournal
from queue_engine.storage.progress.oldest_offset import Offsets, OldestOffset
from queue_engine.storage.progress.return_history import ReturnHistory
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.message import ATTEMPTS_MAX
from queue_engine.vocabulary.ticket import DONE, Ticket


class JournaledProgress:
    """Makes each change in all these places. journal: None for an ephemeral channel, and for a deleted one. ages: which
    message is the oldest. attempts: which was delivered most often. history: why messages came back; None for a channel
    without a quarantine."""

    __slots__ = ("ages", "attempts", "history", "journal", "number", "progress")

    def __init__(self, topic: Offsets, number: int, progress: ChannelProgress, journal: ProgressJournal | None) -> None:
        self.number = number
        self.progress = progress
        self.journal = journal
        self.ages = OldestOffset(topic, progress)
        self.attempts: MostAttempts[int] = MostAttempts()
        self.history: ReturnHistory | None = None

    def alike(self, first: int, count: int) -> tuple[int, int]:
        """Deliveries made of `first`, and how many offsets from there on, at most `count`, have the same number."""
        progress = self.progress
        made = progress.made_at(first)
        alike = progress.alike(first, count)
        while alike < count and progress.made_at(first + alike) == made:
            alike += progress.alike(first + alike, count - alike)
        return made, alike

    # Changes.

    def delivered(self, ranges: Iterable[tuple[int, int]]) -> None:
        """These ranges (first offset, count) are about to leave. On return the journal is written, so kill -9 forgets
        no attempt that a consumer saw."""
        progress, journal = self.progress, self.journal
        for first, count in ranges:
            while count:
                made, alike = (0, count) if first >= progress.cursor else self.alike(first, count)
                made = min(made + 1, ATTEMPTS_MAX)
                if made >= ATTEMPTS_MIN:
                    self.attempts.note(first, made)
                if progress.deferred:
                    self.ages.delivered(first, alike)
                progress.delivered(first, alike, made)
                if journal is not None:
                    journal.entries.deliver(self.number, first, alike, made)
                first += alike
                count -= alike
        if journal is not None:
            journal.flush()

    def settled(self, first: int, count: int) -> None:
        self.progress.settled(first, count)
        if self.ages.since:
            self.ages.forget(first, count)
        if self.attempts.made:
            self.attempts.forget_range(first, first + count)
        if self.history is not None and self.history.by_offset:
            self.history.forget(first, count)
        if self.journal is not None:
            self.journal.entries.ack(self.number, first, count)

    def requeued(self, first: int, count: int) -> None:
        self.progress.requeued(first, count)
        if self.journal is not None:
            self.journal.entries.requeue(self.number, first, count)

    def deferred(self, first: int, count: int, due_ns: int) -> None:
        """due_ns: Unix."""
        if self.ages.since:
            self.ages.forget(first, count)
        while count:
            made, alike = self.alike(first, count)
            self._defer(first, alike, made, due_ns)
            first += alike
            count -= alike

    def released(self, first: int, count: int, now_ns: int) -> None:
        """An operator ended a deferral. now_ns: Unix."""
        self.ages.released_early(first, count, now_ns)
        # With the due time 0 a restart does not defer it again.
        self._defer(first, count, self.progress.made_at(first), 0)

    def _defer(self, first: int, count: int, made: int, due_ns: int) -> None:
        self.progress.deferred_until(first, count, made, due_ns)
        if self.journal is not None:
            self.journal.entries.defer(self.number, first, count, made, due_ns)

    def quarantine(self, offset: int, quarantined: Quarantined) -> None:
        """Quarantine a message."""
        made = self.progress.made_at(offset)
        self.progress.quarantine(offset, made, quarantined)
        self.attempts.forget([offset])
        if self.ages.since:
            self.ages.forget(offset, 1)
        if self.journal is not None:
            self.journal.entries.quarantine(self.number, offset, made, quarantined)

    def redriven(self, offset: int, now_ns: int, *, keeps_attempts: bool) -> None:
        """A quarantined message waits again, and its age runs from now on. now_ns: Unix."""
        made = self.progress.made_at(offset) if keeps_attempts else 0
        self.progress.redriven(offset, made)
        self.ages.released_early(offset, 1, now_ns)
        if made:
            self.attempts.note(offset, made)
        if self.journal is not None:
            self.journal.entries.redrive(self.number, offset, made)

    # Acts: durable in the journal first, then in memory.

    def prepare_empty(self, upto: int) -> Ticket:
        """Done when the journal, durably, settles all before `upto`."""
        return DONE if self.journal is None else self.journal.prepare_empty([self.number], upto)

    def prepare_seek(self, offset: int, others: Mapping[int, tuple[int, int]] | None = None) -> Ticket:
        """Done when the journal, durably, has the cursor at `offset`. others: channels that settle a range (first,
        count) with it."""
        if self.journal is None:
            return DONE
        return self.journal.prepare_seek(self.number, offset, self.progress.epoch + 1, others)

    def emptied(self, upto: int) -> None:
        """The journal has it once more, behind the entries that were written since it was prepared."""
        self.progress.emptied(upto)
        if self.journal is not None:
            self.journal.entries.empty(self.number, upto)

    def sought(self, offset: int) -> None:
        """The same of a cursor that was moved."""
        self.progress.sought(offset, self.progress.epoch + 1)
        if self.journal is not None:
            self.journal.unread.forget(self.number)
            self.journal.entries.seek(self.number, offset, self.progress.epoch)

    # Files that could not be read at the start.

    @property
    def unread(self) -> StorageError | None:
        """Why the channel's progress could not be read; None when it was."""
        return None if self.journal is None else self.journal.unread.reason(self.number)

    def read_unread(self) -> None:
        """Raises StorageError while it can't be read."""
        if self.journal is not None:
            self.journal.read_unread(self.number, self.progress)
