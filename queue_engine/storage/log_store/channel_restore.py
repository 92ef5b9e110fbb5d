"""Restores a channel from the trash: joins its messages with the living channel once, in short steps.

The living channel goes on meanwhile. `tap` has its journal entries from the first step on: they are applied to the
joined progress, too, and written to the journal behind it, in the same block.
"""

from collections.abc import Generator, Sequence

from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.joining import Joined, joining
from queue_engine.storage.progress.journal_format import apply, pack_in_parts, unpack_entry
from queue_engine.storage.progress.trashed_channels import TrashedChannel, TrashedCounts, counting_unsettled
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.ticket import Ticket


class ChannelRestore:
    """One channel of a restore. counted: the messages that come back, once `compute` is through."""

    def __init__(self, store: LogTopicStore, one: TrashedChannel, living: LogBacklog) -> None:
        self.living = living
        self.counted = TrashedCounts(0, 0)
        self.joined = Joined(ChannelProgress())
        self._store = store
        self._one = one
        self._packed: list[bytes] = []
        self._tap: list[bytes] = []
        self._applied = 0
        self._journal_number: int | None = None

    def check(self) -> None:
        """Raises StorageError while the progress of one of the two can't be read."""
        trash, number = self._store.trash, self.living.number
        trash.read_unread(self._one)
        for number, where in ((self._one.number, "in the trash"), (self.living.number, "of that name")):
            if (unread := trash.unread(number)) is not None:
                raise StorageError(f"the progress of the channel {where} can't be read: {unread}; nothing was changed")

    def compute(self) -> Generator[None, None, None]:
        """Do all that can fail or takes long. Changes nothing but the tap. Raises StorageError."""
        store, one = self._store, self._one
        self._tap = store.trash.tap(self.living.number)
        upto = store.released if one.upto is None else min(one.upto, store.released)
        first = one.progress.floor
        gaps = store.gaps_between(first, upto) if first < upto else []
        self.joined = yield from joining(
            one.progress, self.living.progress, upto, oldest=store.oldest_offset, gaps=gaps
        )
        self.counted = yield from counting_unsettled(one.progress, store.queue, upto, store.time_ns())
        for part in pack_in_parts(self.living.number, self.joined.progress):
            self._packed.append(part)
            yield
        while self._applied < len(self._tap):
            self._apply_one()
            yield

    def _apply_one(self) -> None:
        apply(unpack_entry(self._tap[self._applied]), self.joined.progress)
        self._applied += 1

    def end(self) -> None:
        """End the tap: the journal has the restore, or never will."""
        self._store.trash.untap(self.living.number)

    def take_over(self) -> None:
        """The living channel has the joined progress from here on; `ChannelPlaces.place_joined` hands it the messages.
        Where it settles messages of the living channel, the caller has taken back those in flight."""
        while self._applied < len(self._tap):
            self._apply_one()
        self.living.join(self.joined)
        self._store.quarantines.give_back(self._one.number, self.living.number)
        # Packed once: packing many ranges again would hold the loop.
        joined = self.living.progress, [*self._packed, *self._tap]
        self._store.trash.note_restored(self.living.number, joined, self._one, self._journal_number)

    @staticmethod
    def prepare(store: LogTopicStore, restores: Sequence["ChannelRestore"]) -> Ticket:
        """Done when the journal has the computed progress of all of them, durably and at once."""
        for one in restores:
            one._journal_number = store.trash.journal_number
        return store.trash.prepare_restore(
            {one.living.number: (one.joined.progress, [*one._packed, *one._tap]) for one in restores},
            [one._one for one in restores],
        )
