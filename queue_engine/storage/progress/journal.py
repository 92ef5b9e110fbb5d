"""The progress journal of all channels, and its merges into index segments.

Entries are written before a delivery leaves, and at each turn's end.

The design is RabbitMQ's: entries go to the journal first; messages that are delivered and settled before the next merge
never reach a segment. A merge begins a new journal at once, has the old one synced, and leaves the rest to the worker
(`ProgressMerge`).

A journal that met an error of the disk is never written or synced again: the system reports such an error once, and may
have dropped the bytes. A new journal begins instead with a snapshot of memory (`JournalFile.begin_with`); until it is
on the disk, messages go on and their progress is in memory alone.
"""

import errno
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from queue_engine.storage.disk.background import Background, InlineBackground
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk.reserve import Reserve
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.faults import ProgressFaults
from queue_engine.storage.progress.floors import CleanStop
from queue_engine.storage.progress.journal_entries import JournalEntries
from queue_engine.storage.progress.journal_file import JournalFile, journal_path
from queue_engine.storage.progress.merge import ProgressMerge
from queue_engine.storage.progress.progress_files import ProgressFiles
from queue_engine.storage.progress.progress_recovery import RecoveredProgress
from queue_engine.storage.progress.unread_index import UnreadIndexes
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.ticket import DONE, Ticket, failed, or_unknown

logger = logging.getLogger(__name__)

RESERVE_NAME = "reserve"
# Entries until a merge; a merge after so long; a merge when nothing came for so long.
ENTRIES_MAX = 32_768
MERGE_INTERVAL_NS = 30 * NS_PER_S
MERGE_IDLE_NS = 2 * NS_PER_S
# With the 100 ms between two ticks and the sync itself, each entry is on the disk within 200 ms.
SYNC_WITHIN_NS = 50 * NS_PER_MS
RETRY_NS = NS_PER_S
RENEW_WAIT_MAX_NS = 30 * NS_PER_S
# How often progress is read again that could not be read at the start.
READ_AGAIN_NS = 10 * NS_PER_S
# Given up when the disk is full, so that messages can still be finished, which makes room.
RESERVE_BYTES = 4 << 20
RESERVE_INTERVAL_NS = 5 * NS_PER_S

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

Waiting = Mapping[int, tuple[int, int]]
"""Channel → (offset, messages below it that are not finished)."""


class ProgressJournal:
    """One for all channels of a log. Belongs to the engine's thread.

    error: why progress is not on disk as it should be; None when it is. entries: new entries of channels; `flush`
    writes them. faults: errors of the disk so far. reserve: room on the disk for the journal, and for other writes that
    help when the disk is full.
    """

    def __init__(
        self,
        directory: str,
        *,
        number: int,
        files: Files,
        clock: Clock,
        worker: Background,
        sync_worker: Background | None = None,
        reserve_bytes: int = RESERVE_BYTES,
        recover: Callable[[], RecoveredProgress] | None = None,
    ) -> None:
        """recover: reads the progress on the disk again, where `open` got an error instead; raises StorageError.
        number: of the first journal to write; higher than that of any there is. worker: for merges. sync_worker: for
        syncs alone, so that none waits for a merge; None for the same."""
        self._directory = directory
        self._files = files
        self._clock = clock
        self._worker = worker
        self._sync_worker = sync_worker or worker
        self._next_number = number
        self._file: JournalFile | None = None  # None: no journal may be written to
        self.entry_count = 0  # since the last merge began
        self._channels: dict[int, ChannelProgress] = {}
        self._progress_files = ProgressFiles(directory, files)
        self.entries = JournalEntries(self._progress_files.on_disk)
        self.unread = UnreadIndexes(directory, files)
        self._recover = recover
        self._unread: StorageError | None = None  # why the progress could not be read
        self._read_again_ns = 0
        self._old_journals: dict[int, int] = {}  # number → the byte up to which it is synced
        self._unsynced_since_ns: int | None = None
        self._is_syncing = False
        self._is_merging = False
        self._unmerged = 0  # acts that are on their way
        self._is_renewing = False
        self._merged_ns = clock.monotonic_ns()
        self._used_ns = self._merged_ns
        self._retry_ns = 0
        self._renew_at_ns = 0
        self._renew_wait_ns = RETRY_NS
        self._reserve_at_ns = 0
        self._is_full = False  # whether `error` is for want of room
        self._awaiting: list[Ticket] = []
        self.reserve = Reserve(os.path.join(directory, RESERVE_NAME), reserve_bytes, files=files, worker=worker)
        self.error: StorageError | None = None
        self.faults = ProgressFaults()

    # Start and stop.

    def open(self, found: RecoveredProgress) -> None:
        """Go on from recovered progress. A full disk does not end the start, and neither does progress that can't be
        read: then nothing is written, and it is read again every READ_AGAIN_NS. Raises StorageError."""
        if found.error is not None:
            self._stay_unread(found.channels, found.error)
            return
        self._channels = dict(found.channels)
        self._old_journals = dict(found.old_journals)
        self._progress_files = ProgressFiles(
            self._directory, self._files, found.on_disk, dict(found.listed), found.floors_journal
        )
        self.entries.on_disk = self._progress_files.on_disk
        try:
            self._files.make_directory(self._directory)
            self.unread.set_aside(found.unread, found.unread_reasons, self._progress_files.on_disk)
            self.unread.removable.update(found.reread)
            for old in self._old_journals:
                # Accepted entries are made durable before anything is built on them.
                self._sync_file(journal_path(self._directory, old))
            if self._old_journals:
                # Their names, too: the next journal states that they exist.
                self._files.sync_directory(self._directory)
            self._open_file(found)
        except OSError as exc:
            raise self._failure(exc) from exc
        # They are merged, too, and so are floors that could not be written.
        self.entry_count = len(self._old_journals) + (self.error is not None)
        self.entries.mark_all(self._channels)
        self.reserve.keep()

    def read_unread(self, channel: int, progress: ChannelProgress) -> None:
        """Add the files that a start could not read to a channel's progress. Raises StorageError while it can't be
        read."""
        if self._unread is not None:
            self._read_all()
        if self.unread.reason(channel) is not None:
            self.entries.note_dirty(channel, self.unread.read_again(channel, progress))
            progress.level()
            self.entry_count += 1  # a merge writes it down

    def _stay_unread(self, channels: Mapping[int, ChannelProgress], error: StorageError) -> None:
        self._channels = dict(channels)
        self._read_again_ns = self._clock.monotonic_ns() + READ_AGAIN_NS
        self.error = self._unread = error
        self.unread.note(dict.fromkeys(channels, error))

    def _read_all(self) -> None:
        """Begin with the progress on the disk. Raises StorageError while it can't be read."""
        assert self._recover is not None
        self._read_again_ns = self._clock.monotonic_ns() + READ_AGAIN_NS
        found = self._recover()
        for number, progress in found.channels.items():
            self._channels[number].become(progress)
        # Channels may have been made since.
        found.channels = self._channels
        self._next_number = max(self._next_number, found.next_journal)
        self.entries.waiting.clear()
        self.unread.note({})
        try:
            self.open(found)
        except StorageError as exc:
            self._stay_unread(self._channels, exc)
            raise
        self._unread, self.error = None, None
        logger.warning("the progress of channels can be read again directory=%s", self._directory)

    def _sync_file(self, path: str) -> None:
        fd = self._files.open(path, os.O_RDWR)
        try:
            self._files.sync_data(fd)
        finally:
            self._files.close(fd)

    def _open_file(self, found: RecoveredProgress) -> None:
        """Begin the first journal; write floors where there are none, or those of a clean stop. Raises OSError."""
        try:
            self._with_reserve(lambda: self._begin_file(found.old_journals))
            floors = found.floors
            if floors is None or floors.stop is not None or not floors.lists_segments:
                self._with_reserve(
                    lambda: self._progress_files.replace_floors(self._channels, self._first_journal, before=floors)
                )
        except OSError as exc:
            if exc.errno not in _FULL:
                raise
            self.error = self._failure(exc)

    def _with_reserve(self, write: Callable[[], None]) -> None:
        """Write; when the disk is full, give up the reserve and write again. Raises OSError."""
        try:
            write()
        except OSError as exc:
            if not self._gave_up_reserve(exc):
                raise
            write()

    def _gave_up_reserve(self, error: Exception | None) -> bool:
        """Whether `error` is for want of room, and there is some now that was in reserve."""
        return isinstance(error, OSError) and error.errno in _FULL and self.reserve.give_up()

    def _begin_file(self, durable: Mapping[int, int]) -> None:
        """durable: journal → the byte up to which it is on the disk. Raises OSError."""
        holding = [(number, upto) for number, upto in durable.items() if upto]
        self._file = JournalFile.begin(self._directory, self._next_number, holding, self._files)
        self._next_number += 1

    @property
    def _first_journal(self) -> int:
        assert self._file is not None
        return min([*self._old_journals, self._file.number])

    def register(self, channel: int, progress: ChannelProgress) -> None:
        """Add a channel that recovery did not find."""
        self._channels[channel] = progress
        self.entries.note_dirty(channel)

    def forget(self, channel: int) -> None:
        """The channel was deleted, durably. Its files go with the next merge."""
        self._channels.pop(channel, None)
        self.unread.forget(channel)
        self.entries.note_dirty(channel)

    def close(self, waiting: Waiting | None = None) -> None:
        """Put everything on the disk, in this thread, and write the floors of a clean stop, with which the next start
        compares its findings. waiting: the unfinished messages of each channel. Raises StorageError."""
        if self._unread is not None:
            self._settle_awaiting(self._unread)
            return  # files that could not be read are never overwritten
        self.error = None
        if self._file is None:
            self._renew_now()
        self.flush()
        file = self._file
        if file is not None:
            try:
                self._files.sync_data(file.fd)
                self._files.sync_directory(self._directory)
                self._unsynced_since_ns = None
            except OSError as exc:
                self._break(exc)
            else:
                if self.error is None:
                    self._write_stop(file, waiting or {})
                self._leave_file()
        self._settle_awaiting(self.error)
        if self.error is not None:
            raise self.error

    def _write_stop(self, file: JournalFile, waiting: Waiting) -> None:
        """Without these floors the next start reports damage less exactly; nothing else depends on them."""
        journals = {number: upto for number, upto in self._old_journals.items() if upto} | {file.number: file.at}
        stop = CleanStop(journals, waiting)
        try:
            self._with_reserve(
                lambda: self._progress_files.replace_floors(self._channels, self._first_journal, stop=stop)
            )
        except OSError as exc:
            logger.warning("floors of the clean stop not written directory=%s error=%s", self._directory, exc)

    # Acts: their entries are on the disk before memory changes.

    def prepare_empty(self, channels: Iterable[int], upto: int) -> Ticket:
        """Write that channels are emptied up to an offset, all or none. The ticket is done when that is durable. When
        it is rejected, nothing of it is written later; with OutcomeUnknownError it may be on the disk already."""

        def note() -> None:
            # One block: a crash, or a disk that refuses, leaves all of them or none.
            for channel in channels:
                self.entries.empty(channel, upto)

        return self._prepare(note)

    def prepare_seek(
        self, channel: int, target: int, epoch: int, settled: Mapping[int, tuple[int, int]] | None = None
    ) -> Ticket:
        """The same for rewinding a channel to an offset, and other channels that settle a range (first, count)."""

        def note() -> None:
            self.entries.seek(channel, target, epoch)
            self._settle(settled)

        return self._prepare(note)

    def _settle(self, settled: Mapping[int, tuple[int, int]] | None) -> None:
        for number, (first, count) in (settled or {}).items():
            self.entries.ack(number, first, count)

    def prepare_progress(
        self,
        channels: Mapping[int, ChannelProgress],
        emptied: Mapping[int, int],
        settled: Mapping[int, tuple[int, int]] | None = None,
    ) -> Ticket:
        """The same for channels that get another progress, others that are emptied up to an offset, and those that
        settle a range (first, count), all or none."""

        def note() -> None:
            for number, progress in channels.items():
                self.entries.progress(number, progress)
            for number, upto in emptied.items():
                self.entries.empty(number, upto)
            self._settle(settled)

        return self._prepare(note)

    def prepare_packed(
        self, channels: Mapping[int, tuple[ChannelProgress, Sequence[bytes]]], emptied: Mapping[int, int]
    ) -> Ticket:
        """The same of channels whose other progress is packed already, and of others that are emptied."""

        def note() -> None:
            for number, (progress, packed) in channels.items():
                self.entries.packed_progress(number, progress, packed)
            for number, upto in emptied.items():
                self.entries.empty(number, upto)

        return self._prepare(note)

    @property
    def written_number(self) -> int | None:
        """Of the journal that entries are written to; None while there is none."""
        return None if self._file is None else self._file.number

    def _prepare(self, note: Callable[[], None]) -> Ticket:
        self.flush()  # entries before it are not withdrawn with it
        if self._file is None or self.error is not None or self.entries.waiting:
            return failed(self.error or self._failure(None))
        note()
        self._write()
        if self.entries.waiting or self._file is None:
            self.entries.waiting.clear()
            return failed(self.error or self._failure(None))
        return or_unknown(self.synced(), "the act was written, and syncing it failed")

    def unmerged(self, act: Callable[[], Ticket]) -> Ticket:
        """Begin an act that memory takes over later than the journal. Until its ticket is done no merge begins: one
        goes by memory, and would drop the act's entries."""
        self._unmerged += 1

        def ended(_: Ticket) -> None:
            self._unmerged -= 1

        try:
            ticket = act()
        except BaseException:
            self._unmerged -= 1
            raise
        ticket.when_done(ended)
        return ticket

    def flush(self) -> None:
        """Write the entries. Never fails: entries that find no room on the disk stay in memory and are tried again."""
        if self.entries.waiting:
            self._write()
            self._sync_when_due(self._used_ns)

    def _write(self) -> None:
        entries = self.entries.waiting
        if not entries:
            return
        file = self._file
        if file is None:
            if not self._is_renewing:
                entries.clear()  # the next journal begins with a snapshot of memory
            return
        try:
            self._with_reserve(lambda: file.write(entries))
        except OSError as exc:
            if exc.errno not in _FULL:
                self._break(exc)
                return
            self.error = self._failure(exc)
            if len(entries) > ENTRIES_MAX:
                self._leave_file()
            return
        self.entry_count += len(entries)
        entries.clear()
        self._used_ns = self._clock.monotonic_ns()
        if self._unsynced_since_ns is None:
            self._unsynced_since_ns = self._used_ns

    # Syncs.

    def tick(self, now_ns: int) -> None:
        """Sync and merge when it is time; retry writes that the disk refused."""
        if self._unread is not None:
            if now_ns >= self._read_again_ns:
                with suppress(StorageError):
                    self._read_all()
            return
        if self._file is None:
            self._renew_when_due(now_ns)
            return
        if self.error is not None and now_ns >= self._retry_ns:
            self._retry_ns = now_ns + RETRY_NS
            self.error = None
        if self.error is None:
            self.flush()
        if self.error is None:
            self._merge_when_due(now_ns)
            if now_ns >= self._reserve_at_ns:
                self._reserve_at_ns = now_ns + RESERVE_INTERVAL_NS
                self.reserve.keep()
        self._sync_when_due(now_ns)

    def _sync_when_due(self, now_ns: int) -> None:
        if self._unsynced_since_ns is not None and now_ns - self._unsynced_since_ns >= SYNC_WITHIN_NS:
            self._start_sync()

    def synced(self) -> Ticket:
        """Done when all entries so far are on the disk."""
        self.flush()
        if self.error is not None:
            return failed(self.error)
        if self._unsynced_since_ns is None and not self._is_syncing and not self._is_merging:
            return DONE
        ticket = Ticket()
        self._awaiting.append(ticket)
        self._start_sync()
        return ticket

    def _start_sync(self) -> None:
        file = self._file
        if self._is_syncing or file is None:
            return
        self._is_syncing = True
        self._unsynced_since_ns = None
        awaiting, self._awaiting = self._awaiting, []
        needs_name, upto = not file.is_named, file.at

        def done(error: Exception | None) -> None:
            self._is_syncing = False
            failure: StorageError | None = None
            if error is None:
                file.is_named = True
                file.synced_upto = max(file.synced_upto, upto)
            elif job.steps_done and isinstance(error, OSError) and error.errno in _NO_DESCRIPTOR:
                # The directory could not be opened, so no sync failed: nothing is lost, and it is tried again.
                self.error = failure = self._failure(error)
                self._unsynced_since_ns = self._unsynced_since_ns or self._clock.monotonic_ns()
            else:
                self._break(error)
            # An earlier merge may have failed to sync the journal that has these tickets' entries.
            if self._file is not file:
                failure = self.error or self._failure(error)
            for ticket in awaiting:
                ticket.resolve() if failure is None else ticket.reject(failure)
            if self._awaiting:
                self._start_sync()
            elif self.error is None:
                self._merge_when_due(self._clock.monotonic_ns())

        job = BackgroundJob(
            lambda: self._files.sync_data(file.fd),
            lambda: self._files.sync_directory(self._directory) if needs_name else None,
            then=done,
        )
        job.start(self._sync_worker)

    # Merging.

    def _merge_when_due(self, now_ns: int) -> None:
        is_due = self.entry_count >= ENTRIES_MAX or (
            self.entry_count > 0
            and (now_ns - self._used_ns >= MERGE_IDLE_NS or now_ns - self._merged_ns >= MERGE_INTERVAL_NS)
        )
        if is_due:
            self.merge()

    def merge(self) -> None:
        """Begin a new journal; the old one is synced, and the worker puts its entries into index segments."""
        if self._is_merging or self._is_syncing or self._unmerged or self._file is None:
            return
        self._write()
        old = self._file
        if self.error is not None or old is None:
            return
        try:
            self._with_reserve(lambda: self._begin_file({}))
        except OSError as exc:
            self.error = self._failure(exc)
            return
        assert self._file is not None
        self._is_merging = True
        dirty = self.entries.take_dirty(self._channels)
        self._old_journals[old.number] = 0
        self.entry_count = 0
        self._merged_ns = self._clock.monotonic_ns()
        self._unsynced_since_ns = None
        awaiting, self._awaiting = self._awaiting, []
        merge = ProgressMerge(
            self._progress_files,
            self._channels,
            dirty,
            old_journals=tuple(self._old_journals),
            new_journal=self._file.number,
            removable=frozenset(self.unread.removable),
        )

        def synced(error: Exception | None) -> None:
            self._files.close_quietly(old.fd)
            if error is None:
                self._old_journals[old.number] = old.at
                for ticket in awaiting:
                    ticket.resolve()
                BackgroundJob(merge.run, then=lambda error: self._merged(merge, error)).start(self._worker)
                return
            if job.steps_done and isinstance(error, OSError) and error.errno in _NO_DESCRIPTOR:
                self._merged(merge, error)
            else:
                self._is_merging = False
                self.entries.give_back(dirty)
                self._break(error)
            for ticket in awaiting:
                ticket.reject(self._failure(error))

        job = BackgroundJob(
            lambda: self._files.sync_data(old.fd),
            # Its name and that of the new one: the floors are about to state that it exists.
            lambda: self._files.sync_directory(self._directory),
            then=synced,
        )
        job.start(self._sync_worker)

    def _merged(self, merge: ProgressMerge, error: Exception | None) -> None:
        self._is_merging = False
        merge.settle(is_done=error is None)
        if error is None:
            self.unread.removable -= merge.removable
            for number in merge.old_journals:
                self._old_journals.pop(number, None)
        else:
            # Nothing is lost: the journals stay, and the next merge does this one's work, too, with the reserve's room.
            self.entries.give_back(merge.dirty)
            self.entry_count += 1
            if not self._gave_up_reserve(error):
                self.error = self._failure(error)
        if self._awaiting:
            self._start_sync()

    # Errors of the disk: a new journal from memory.

    @property
    def is_out_of_room(self) -> bool:
        """Whether the disk is too full for progress: it is in memory alone, and after a kill finished messages come
        again."""
        return self.error is not None and self._is_full and self._is_in_memory

    @property
    def _is_in_memory(self) -> bool:
        return self._file is None or bool(self.entries.waiting)

    def _failure(self, error: Exception | None) -> StorageError:
        self._is_full = isinstance(error, OSError) and error.errno in _FULL
        text = f"the progress of channels in {self._directory} can't be written: {error}"
        if self._is_full and self._is_in_memory:
            text += (
                ". Consumers are served, but messages that they finish now come again if the server is killed or "
                "stopped before there is room. Free space: progress is written by itself then"
            )
        return StorageError(text)

    def _break(self, error: Exception) -> None:
        """After an error of the disk the bytes of the journal there are unknown: nothing more is written to it."""
        logger.error("progress journal failed, a new one is begun directory=%s error=%s", self._directory, error)
        self.faults.note(error, self._clock.time_ns())
        self._leave_file()
        self.error = self._failure(error)
        self._settle_awaiting(self.error)

    def _leave_file(self) -> None:
        """Write to this journal no more; the next one begins from memory."""
        file, self._file = self._file, None
        if not self._is_renewing:
            self.entries.waiting.clear()
        self._unsynced_since_ns = None
        self._renew_at_ns, self._renew_wait_ns = 0, RETRY_NS
        if file is not None:
            self._old_journals[file.number] = file.synced_upto
            # Behind the sync that may be under way.
            BackgroundJob(lambda: self._files.close_quietly(file.fd)).start(self._sync_worker)

    def _renew_when_due(self, now_ns: int) -> None:
        is_busy = self._is_renewing or self._is_syncing or self._is_merging
        if is_busy or now_ns < self._renew_at_ns:
            return
        self._renew(self._worker)

    def _renew(self, worker: Background) -> None:
        """Have the worker begin a new journal with a snapshot of memory."""
        number, directory = self._next_number, self._directory
        self._next_number += 1
        channels = [(channel, progress.copy()) for channel, progress in self._channels.items()]
        self.entries.waiting.clear()
        self._is_renewing = True
        begun: list[JournalFile] = []

        def done(error: Exception | None) -> None:
            self._is_renewing = False
            if begun:
                self._renewed(begun[0])
                return
            # Its name may exist: the next merge removes it.
            self._old_journals[number] = 0
            self._renew_failed(error)

        BackgroundJob(
            lambda: begun.append(JournalFile.begin_with(directory, number, channels, self._files)), then=done
        ).start(worker)

    def _renew_now(self) -> None:
        """The same in this thread: the process is about to end."""
        if not (self._is_renewing or self._is_syncing or self._is_merging):
            self._renew(InlineBackground())

    def _renewed(self, file: JournalFile) -> None:
        logger.warning("progress journal begun anew number=%d bytes=%d", file.number, file.at)
        self._file = file
        self.error = None
        self.entry_count += 1
        self._used_ns = self._clock.monotonic_ns()
        self._write()
        if self._awaiting:
            self._start_sync()

    def _renew_failed(self, error: Exception | None) -> None:
        self.entries.waiting.clear()
        self.error = self._failure(error)
        self._renew_at_ns = self._clock.monotonic_ns() + self._renew_wait_ns
        if isinstance(error, OSError) and error.errno in _FULL:
            if self.reserve.give_up():
                self._renew_at_ns = 0
        else:
            self._renew_wait_ns = min(2 * self._renew_wait_ns, RENEW_WAIT_MAX_NS)
            if error is not None:
                self.faults.note(error, self._clock.time_ns())

    def _settle_awaiting(self, error: StorageError | None) -> None:
        awaiting, self._awaiting = self._awaiting, []
        for ticket in awaiting:
            ticket.resolve() if error is None else ticket.reject(error)
