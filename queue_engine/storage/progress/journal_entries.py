"""Progress since the last write of the journal, and the index segments that a merge has to write for it."""

from collections.abc import Callable, Iterable, Mapping

from queue_engine.storage.progress.channel_progress import ChannelProgress, Quarantined
from queue_engine.storage.progress.journal_format import (
    ACK,
    DEFER,
    DELIVER,
    EMPTY,
    REDRIVE,
    REQUEUE,
    SEEK,
    apply,
    of_channel,
    pack_entry,
    pack_progress,
    pack_quarantine,
    places_of,
    unpack_entry,
)
from queue_engine.storage.progress.progress_files import Indexes
from queue_engine.storage.progress.queue_index import INDEX_OFFSETS, possible_indexes


class JournalEntries:
    """waiting: packed entries, not written yet. taps: channel → another list that gets its packed entries, while an act
    on it is under way. dirty: channel → index segments that changed since the last merge. on_disk: those that may
    exist."""

    def __init__(self, on_disk: Indexes) -> None:
        self.waiting: list[bytes] = []
        self.taps: dict[int, Callable[[bytes], None]] = {}
        self.dirty: Indexes = {}
        self.on_disk = on_disk

    def deliver(self, channel: int, first: int, count: int, made: int) -> None:
        self._note(DELIVER, made, channel, first, count, 0)

    def ack(self, channel: int, first: int, count: int) -> None:
        self._note(ACK, 0, channel, first, count, 0)

    def requeue(self, channel: int, first: int, count: int) -> None:
        self._note(REQUEUE, 0, channel, first, count, 0)

    def defer(self, channel: int, first: int, count: int, made: int, due_ns: int) -> None:
        """due_ns: Unix, 0 for at once."""
        self._note(DEFER, made, channel, first, count, due_ns)

    def quarantine(self, channel: int, offset: int, made: int, quarantined: Quarantined) -> None:
        self.waiting.append(pack_quarantine(channel, offset, made, quarantined))
        if channel in self.taps:
            self.taps[channel](self.waiting[-1])
        self.dirty[channel].add(offset // INDEX_OFFSETS)

    def redrive(self, channel: int, offset: int, made: int) -> None:
        self._note(REDRIVE, made, channel, offset, 1, 0)

    def empty(self, channel: int, upto: int) -> None:
        self.note_dirty(channel, self.on_disk.get(channel, ()))
        self._note(EMPTY, 0, channel, upto, 0, 0)

    def seek(self, channel: int, target: int, epoch: int) -> None:
        self.note_dirty(channel, self.on_disk.get(channel, ()))
        self._note(SEEK, 0, channel, target, 0, epoch)

    def progress(self, channel: int, progress: ChannelProgress) -> None:
        """The channel has this progress from here on, whatever it was before."""
        self.packed_progress(channel, progress, pack_progress(channel, progress))

    def packed_progress(self, channel: int, progress: ChannelProgress, packed: Iterable[bytes]) -> None:
        """The same of one whose entries are packed already."""
        self.note_dirty(channel, self.on_disk.get(channel, ()))
        self.note_dirty(channel, possible_indexes(progress))
        self.waiting += packed

    def mirror(self, channel: int, copy: int, progress: ChannelProgress) -> None:
        """Write the channel's entries for its copy, too, which has this progress, until the tap goes."""

        def note(packed: bytes) -> None:
            apply(unpack_entry(packed), progress)
            self.waiting.append(of_channel(packed, copy))
            first, count = places_of(packed)
            self.note_dirty(copy, range(first // INDEX_OFFSETS, (first + max(count, 1) - 1) // INDEX_OFFSETS + 1))

        self.taps[channel] = note

    def _note(self, op: int, made: int, channel: int, first: int, count: int, value: int) -> None:
        self.waiting.append(pack_entry(op, made, channel, first, count, value))
        if self.taps and channel in self.taps:
            self.taps[channel](self.waiting[-1])
        index = first // INDEX_OFFSETS
        dirty = self.dirty[channel]
        if index not in dirty:
            dirty.add(index)
        if count > 1 and (first + count - 1) // INDEX_OFFSETS != index:
            dirty.update(range(index + 1, (first + count - 1) // INDEX_OFFSETS + 1))

    def note_dirty(self, channel: int, indexes: Iterable[int] = ()) -> None:
        self.dirty.setdefault(channel, set()).update(indexes)

    def mark_all(self, channels: Mapping[int, ChannelProgress]) -> None:
        """A merge has to write all index segments of these channels."""
        for number, progress in channels.items():
            self.note_dirty(number, self.on_disk.get(number, ()))
            self.note_dirty(number, possible_indexes(progress))

    def take_dirty(self, channels: Iterable[int]) -> Indexes:
        """The index segments for the merge that begins now; the next one writes later changes of these channels."""
        dirty, self.dirty = self.dirty, {number: set() for number in channels}
        return dirty

    def give_back(self, dirty: Indexes) -> None:
        """A merge failed: the next one writes these, too."""
        for channel, indexes in dirty.items():
            self.note_dirty(channel, indexes)
