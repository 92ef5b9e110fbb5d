"""The channels of one topic that are in the trash: channels without a name, whose progress stays as it was.

The journal has them as it has the others, so snapshots, merges and recovery include them; the log keeps the messages
that they need.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from queue_engine.storage.consume_queue.consume_queue import ConsumeQueue
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.joining import spans
from queue_engine.storage.progress.journal import ProgressJournal
from queue_engine.storage.progress.journal_format import apply, of_channel, pack_in_parts, unpack_entry
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.ticket import Ticket


class TrashedCounts(NamedTuple):
    """Messages that a restore would bring back. deferred: those not due yet; waiting: all others."""

    waiting: int
    deferred: int
    quarantined: int = 0


@dataclass(slots=True)
class TrashedChannel:
    """name: the former one; "" for the messages that waited at the topic. upto: the offset from which on a channel of
    its name speaks for itself; None while there is none, so that all that is published since belongs to this one,
    too."""

    number: int
    name: str
    progress: ChannelProgress
    upto: int | None = None

    def needed_offset(self, end: int) -> int:
        """The first offset that a restore needs of the log; `end` when it needs none."""
        upto = end if self.upto is None else min(self.upto, end)
        first = self.progress.first_unsettled(self.progress.floor, upto)
        return first if first < upto else end


class LivingProgress(Protocol):
    """A channel that has a name."""

    @property
    def number(self) -> int: ...

    @property
    def progress(self) -> ChannelProgress: ...


class TrashedChannels:
    """Belongs to the engine's thread."""

    def __init__(self, journal: ProgressJournal) -> None:
        self.all: dict[int, TrashedChannel] = {}  # by number
        self._journal = journal

    def put(self, one: TrashedChannel, *, is_new: bool = False) -> None:
        """Keep a channel. is_new: the journal does not have its progress yet."""
        self.all[one.number] = one
        if is_new:
            self._journal.register(one.number, one.progress)

    def take(self, number: int) -> TrashedChannel | None:
        """Take a channel out that lives again, or lives on in another; the journal still has it."""
        return self.all.pop(number, None)

    def drop(self, number: int) -> None:
        """Delete a channel for good. topology.json does not have it any more."""
        if self.all.pop(number, None) is not None:
            self._journal.forget(number)

    def needed_offset(self, end: int) -> int:
        """The first offset that any of them needs; `end` when none needs any."""
        return min([end, *(one.needed_offset(end) for one in self.all.values())])

    def read_unread(self, one: TrashedChannel) -> None:
        """Read the files of its progress that a start could not read. Raises StorageError while it can't be read."""
        self._journal.read_unread(one.number, one.progress)

    def unread(self, number: int) -> StorageError | None:
        return self._journal.unread.reason(number)

    def named(self, name: str) -> list[TrashedChannel]:
        return [one for one in self.all.values() if one.name == name]

    def ceded_ranges(self, name: str, first: int) -> dict[int, tuple[int, int]]:
        """Number → the range (first, count) that it settles when the living channel of this name is rewound to `first`:
        messages from there on are that channel's own again."""
        found: dict[int, tuple[int, int]] = {}
        for one in self.named(name):
            end = first if one.upto is None else one.upto
            if first < end and one.progress.first_unsettled(first, end) < end:
                found[one.number] = first, end - first
        return found

    def cede(self, name: str, first: int) -> None:
        """The living channel of this name was rewound to `first`, and the journal has it with `ceded_ranges`."""
        for number, (start, count) in self.ceded_ranges(name, first).items():
            self.all[number].progress.settled(start, count)
            self._journal.entries.ack(number, start, count)

    # A channel is emptied, or gets its messages back: durable in the journal first, then in memory.

    def preparing_empty(
        self, copies: Sequence[tuple[TrashedChannel, LivingProgress]], upto: int
    ) -> Generator[None, None, Ticket]:
        """Copy the progress of living channels, in steps, between which these go on. The ticket is done when the
        journal, durably and at once, has the copies, and the channels emptied up to `upto`."""
        packed: list[list[bytes]] = []
        tapped: list[list[bytes]] = []
        try:
            for copy, living in copies:
                tapped.append(self.tap(living.number))
                copy.progress = living.progress.copy()
                entries: list[bytes] = []
                packed.append(entries)
                for part in pack_in_parts(copy.number, copy.progress):
                    entries.append(part)
                    yield
            for (copy, _), entries, done in zip(copies, packed, tapped, strict=True):
                while done:
                    _follow(copy, entries, done)
                    yield
            for (copy, _), entries, done in zip(copies, packed, tapped, strict=True):
                _follow(copy, entries, done)
                self.put(copy, is_new=True)
            prepared = self._journal.prepare_packed(
                {copy.number: (copy.progress, entries) for (copy, _), entries in zip(copies, packed, strict=True)},
                {living.number: upto for _, living in copies},
            )
        except BaseException:
            self._end_mirrors(copies)
            raise
        # Until they are emptied in memory, too, their changes are also the copies'.
        for copy, living in copies:
            self._journal.entries.mirror(living.number, copy.number, copy.progress)
        prepared.when_done(lambda done: self._end_mirrors(copies) if done.error is not None else None)
        return prepared

    def _end_mirrors(self, copies: Sequence[tuple[TrashedChannel, LivingProgress]]) -> None:
        for _, living in copies:
            self.untap(living.number)

    def prepare_range(
        self, copies: Sequence[tuple[TrashedChannel, LivingProgress | None]], first: int, end: int
    ) -> Ticket:
        """The same of a range of offsets that no channel has yet: those in the trash have nothing else, and the living
        ones settle it."""
        for copy, _ in copies:
            copy.progress = ChannelProgress(first)
            self.put(copy, is_new=True)
        settled = {living.number: (first, end - first) for _, living in copies if living is not None}
        return self._journal.prepare_progress({copy.number: copy.progress for copy, _ in copies}, {}, settled)

    def note_range(self, copy: TrashedChannel) -> None:
        """The journal has the copy of a range once more, behind the entries that were written since it was prepared."""
        self._journal.entries.progress(copy.number, copy.progress)

    def tap(self, number: int) -> list[bytes]:
        """The entries that a channel makes from here on, until `untap`."""
        tapped: list[bytes] = []
        self._journal.entries.taps[number] = tapped.append
        return tapped

    def untap(self, number: int) -> None:
        self._journal.entries.taps.pop(number, None)

    @property
    def journal_number(self) -> int | None:
        """Of the journal that entries are written to; None while there is none."""
        return self._journal.written_number

    def prepare_restore(
        self, joined: Mapping[int, tuple[ChannelProgress, Sequence[bytes]]], restored: Sequence[TrashedChannel]
    ) -> Ticket:
        """Done when the journal, durably and at once, has the joined progress of living channels, by number, with its
        packed entries, and nothing left of those in the trash."""
        return self._journal.prepare_packed(joined, {one.number: self._end_of(one) for one in restored})

    def note_restored(
        self,
        number: int,
        joined: tuple[ChannelProgress, Sequence[bytes]],
        restored: TrashedChannel,
        prepared_in: int | None,
    ) -> None:
        """Memory has the joined progress, here with its packed entries. prepared_in: the journal that has it. When
        entries are written to another one by now, a merge began meanwhile and took the earlier state of memory: this
        journal gets it once more."""
        end = self._end_of(restored)
        if self.journal_number != prepared_in:
            self._journal.entries.packed_progress(number, *joined)
            self._journal.entries.empty(restored.number, end)
        restored.progress.emptied(end)

    @staticmethod
    def _end_of(one: TrashedChannel) -> int:
        return max(one.progress.cursor, one.upto or 0)

    def restorable(self, number: int, queue: ConsumeQueue, released: int) -> int:
        """How many messages a restore would bring back now, at a cost that hardly depends on them. released: up to
        where the topic passed messages on."""
        one = self.all[number]
        end = released if one.upto is None else min(one.upto, released)
        first = max(one.progress.floor, queue.oldest_offset)
        return _unsettled_count(one.progress, queue, first, end) if first < end else 0


def _follow(copy: TrashedChannel, packed: list[bytes], done: list[bytes]) -> None:
    """Apply the later entries of a channel, given packed, to its copy; `done` is empty then."""
    for entry in done:
        apply(unpack_entry(entry), copy.progress)
        packed.append(of_channel(entry, copy.number))
    done.clear()


def counting_unsettled(
    progress: ChannelProgress, queue: ConsumeQueue, end: int, now_ns: int
) -> Generator[None, None, TrashedCounts]:
    """Count the messages below offset `end` that a channel has not settled, in steps during which the progress does not
    change. Raises StorageError."""
    first = max(progress.floor, queue.oldest_offset)
    if first >= end:
        return TrashedCounts(0, 0)
    total = _unsettled_count(progress, queue, first, end)
    yield
    quarantined = progress.quarantined
    deferred = 0
    moved = progress.deferred
    for start, stop in spans(first, end):
        dues = queue.deferred_between(start, stop)
        deferred += sum(
            due_ns > now_ns and offset not in moved and offset not in quarantined and progress.made_at(offset) == 0
            for offset, due_ns in dues
            if not progress.is_settled(offset)
        )
        yield
    offsets = list(moved)
    for start, stop in spans(0, len(offsets)):
        deferred += sum(
            first <= offset < end and moved[offset] > now_ns and offset not in quarantined
            for offset in offsets[start:stop]
            if not progress.is_settled(offset)
        )
        yield
    quarantined_count = len([offset for offset in quarantined if first <= offset < end])
    return TrashedCounts(total - deferred - quarantined_count, deferred, quarantined_count)


def _unsettled_count(progress: ChannelProgress, queue: ConsumeQueue, first: int, end: int) -> int:
    # An offset gap may be millions of offsets long: its pages are not looked at.
    present = queue.present_between(first, end)
    return sum([after - begin - progress.settled_count(begin, after) for begin, after in present])
