"""The progress journal: what all channels did, written once a turn, and merged into index segments now and then.

It is RabbitMQ's: entries go to the journal first; what was delivered and settled before the next merge never reaches a
segment. A merge begins a new journal at once and leaves the rest to the worker, in this order: the old journal synced,
changed segments replaced, floors replaced, the old journal removed, segments without content removed. Replaying a
journal over what came of it changes nothing, so a merge may end anywhere and be done again.
"""

import errno
import logging
import os
from collections.abc import Sequence

from queue_engine.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.errors import StorageError
from queue_engine.storage.background import Background
from queue_engine.storage.channel_progress import ChannelProgress
from queue_engine.storage.files import Files
from queue_engine.storage.journal_format import (
    ACK,
    DEFER,
    DELIVER,
    EMPTY,
    HEADER_BYTES,
    REQUEUE,
    SEEK,
    encode_block,
    encode_header,
    pack_entry,
)
from queue_engine.storage.queue_index import (
    FLOORS_NAME,
    INDEX_OFFSETS,
    IndexContent,
    encode_floors,
    encode_index,
    index_contents,
    index_directory,
    index_path,
    remove_directory,
)
from queue_engine.ticket import DONE, Ticket, failed

logger = logging.getLogger(__name__)

JOURNAL_SUFFIX = ".journal"
RESERVE_NAME = "reserve"
# Entries until a merge; a merge after so long; a merge when nothing came for so long.
ENTRIES_MAX = 32_768
MERGE_INTERVAL_NS = 30 * NS_PER_S
MERGE_IDLE_NS = 2 * NS_PER_S
SYNC_WITHIN_NS = 100 * NS_PER_MS  # so that with the sync itself 200 ms are kept
RETRY_NS = NS_PER_S
# Given up when the disk is full, so that messages can still be finished, which is what makes room.
RESERVE_BYTES = 4 << 20

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def journal_path(directory: str, number: int) -> str:
    return os.path.join(directory, f"{number:08d}{JOURNAL_SUFFIX}")


class ProgressJournal:
    """One for all channels of a log. Belongs to the engine's thread.

    error: why progress is not on disk as it should be; None when it is. After an I/O error of the journal itself it
    stays, nothing is written any more, and a restart delivers again what was settled since.
    """

    def __init__(
        self,
        directory: str,
        *,
        number: int,
        files: Files,
        clock: Clock,
        worker: Background,
        reserve_bytes: int = RESERVE_BYTES,
    ) -> None:
        """number: of the first journal to write; higher than that of any there is."""
        self._directory = directory
        self._floors_path = os.path.join(directory, FLOORS_NAME)
        self._files = files
        self._clock = clock
        self._worker = worker
        self._reserve_bytes = reserve_bytes
        self._number = number
        self._salt = 0
        self._fd = -1
        self._at = 0
        self._is_named = False  # the directory knows the file durably
        self._entries: list[bytes] = []
        self.entry_count = 0  # since the last merge began
        self._channels: dict[int, ChannelProgress] = {}
        self._dirty: dict[int, set[int]] = {}  # channel → index segments changed since the last merge
        self._on_disk: dict[int, set[int]] = {}  # channel → index segments there are
        self._old_journals: list[int] = []
        self._floors_journal: int | None = None  # the first journal to be applied to the floors on the disk
        self._unsynced_since_ns: int | None = None
        self._is_syncing = False
        self._is_merging = False
        self._merged_ns = clock.monotonic_ns()
        self._used_ns = self._merged_ns
        self._retry_ns = 0
        self._awaiting: list[Ticket] = []
        self._has_reserve = False
        self.may_reserve = True
        self.error: StorageError | None = None
        self._is_broken = False

    # Start and stop.

    def open(
        self,
        channels: dict[int, ChannelProgress],
        on_disk: dict[int, set[int]],
        old_journals: list[int],
        floors_journal: int | None = None,
    ) -> None:
        """Go on from what recovery found. Raises StorageError."""
        try:
            self._files.make_directory(self._directory)
            for old in old_journals:
                # What was accepted is made durable before anything is built on it.
                self._sync_file(journal_path(self._directory, old))
            self._begin_file()
        except OSError as exc:
            raise self._failure(exc) from exc
        self._channels = channels
        self._on_disk = on_disk
        self._old_journals = old_journals
        self._floors_journal = floors_journal
        self.entry_count = len(old_journals)  # those are to be merged, too
        for number, progress in channels.items():
            self._dirty[number] = set(on_disk.get(number, ())) | set(index_contents(progress))
        self._make_reserve()

    def _sync_file(self, path: str) -> None:
        fd = self._files.open(path, os.O_RDWR)
        try:
            self._files.sync_data(fd)
        finally:
            self._files.close(fd)

    def _begin_file(self) -> None:
        salt = int.from_bytes(os.urandom(8), "big")
        fd = self._files.open(journal_path(self._directory, self._number), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            self._files.write_all(fd, encode_header(self._number, salt), 0)
        except OSError:
            self._files.close_quietly(fd)
            raise
        self._fd = fd
        self._salt = salt
        self._at = HEADER_BYTES
        self._is_named = False

    def register(self, channel: int, progress: ChannelProgress) -> None:
        """A channel that recovery did not know."""
        self._channels[channel] = progress
        self._dirty.setdefault(channel, set())

    def forget(self, channel: int) -> None:
        """The channel was deleted, durably. Its files go with the next merge."""
        self._channels.pop(channel, None)
        self._dirty.setdefault(channel, set())

    def close(self) -> None:
        """Put everything on the disk, in this thread. Raises StorageError."""
        self.flush()
        if self._fd >= 0:
            try:
                if not self._is_broken:
                    self._files.sync_data(self._fd)
                    self._files.sync_directory(self._directory)
                    self._unsynced_since_ns = None
            except OSError as exc:
                self._break(exc)
            finally:
                self._files.close_quietly(self._fd)
                self._fd = -1
        self._settle_awaiting(self.error)
        if self.error is not None:
            raise self.error

    # Entries.

    def deliver(self, channel: int, first: int, count: int, made: int) -> None:
        self._note(DELIVER, made, channel, first, count, 0)

    def ack(self, channel: int, first: int, count: int) -> None:
        self._note(ACK, 0, channel, first, count, 0)

    def requeue(self, channel: int, first: int, count: int) -> None:
        self._note(REQUEUE, 0, channel, first, count, 0)

    def defer(self, channel: int, first: int, count: int, made: int, due_ns: int) -> None:
        """due_ns: Unix, 0 for at once."""
        self._note(DEFER, made, channel, first, count, due_ns)

    def empty(self, channel: int, upto: int) -> None:
        self._dirty.setdefault(channel, set()).update(self._on_disk.get(channel, ()))
        self._note(EMPTY, 0, channel, upto, 0, 0)

    def seek(self, channel: int, target: int, epoch: int) -> None:
        self._dirty.setdefault(channel, set()).update(self._on_disk.get(channel, ()))
        self._note(SEEK, 0, channel, target, 0, epoch)

    def _note(self, op: int, made: int, channel: int, first: int, count: int, value: int) -> None:
        self._entries.append(pack_entry(op, made, channel, first, count, value))
        index = first // INDEX_OFFSETS
        dirty = self._dirty[channel]
        if index not in dirty:
            dirty.add(index)
        if count > 1 and (first + count - 1) // INDEX_OFFSETS != index:
            dirty.update(range(index + 1, (first + count - 1) // INDEX_OFFSETS + 1))

    @property
    def has_unwritten(self) -> bool:
        """Whether something that was noted is in memory alone."""
        return bool(self._entries)

    def flush(self) -> None:
        """Write what was noted. Never fails: what the disk has no room for stays in memory and is tried again."""
        entries = self._entries
        if not entries or self._is_broken:
            return
        block = encode_block(entries, number=self._number, salt=self._salt, at=self._at)
        try:
            try:
                self._files.write_all(self._fd, block, self._at)
            except OSError as exc:
                if exc.errno not in _FULL or not self._give_up_reserve():
                    raise
                self._files.write_all(self._fd, block, self._at)
        except OSError as exc:
            if exc.errno in _FULL:
                self.error = self._failure(exc)
            else:
                self._break(exc)
            return
        self._at += len(block)
        self.entry_count += len(entries)
        entries.clear()
        self._used_ns = self._clock.monotonic_ns()
        if self._unsynced_since_ns is None:
            self._unsynced_since_ns = self._used_ns

    # Syncs.

    def tick(self, now_ns: int) -> None:
        """Sync and merge when it is time; try again what the disk had no room for."""
        if self._is_broken:
            return
        if self.error is not None and now_ns >= self._retry_ns:
            self._retry_ns = now_ns + RETRY_NS
            self.error = None
        if self.error is None:
            self.flush()
        if self._unsynced_since_ns is not None and now_ns - self._unsynced_since_ns >= SYNC_WITHIN_NS:
            self._start_sync()
        due = self.entry_count >= ENTRIES_MAX or (
            self.entry_count > 0
            and (now_ns - self._used_ns >= MERGE_IDLE_NS or now_ns - self._merged_ns >= MERGE_INTERVAL_NS)
        )
        if due and self.error is None:
            self.merge()
            self._make_reserve()

    def synced(self) -> Ticket:
        """Done when all that was noted so far is on the disk."""
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
        if self._is_syncing or self._is_broken:
            return
        self._is_syncing = True
        self._unsynced_since_ns = None
        awaiting, self._awaiting = self._awaiting, []
        fd, needs_name = self._fd, not self._is_named
        number = self._number
        is_data_synced = False

        def job() -> None:
            nonlocal is_data_synced
            self._files.sync_data(fd)
            is_data_synced = True
            if needs_name:
                self._files.sync_directory(self._directory)

        def done(error: Exception | None) -> None:
            self._is_syncing = False
            failure: StorageError | None = None
            if error is None:
                if number == self._number:
                    self._is_named = True
            elif is_data_synced and isinstance(error, OSError) and error.errno in _NO_DESCRIPTOR:
                # The directory was not even opened: nothing is lost, and it is tried again.
                self.error = failure = self._failure(error)
                self._unsynced_since_ns = self._unsynced_since_ns or self._clock.monotonic_ns()
            else:
                self._break(error)
            # A merge that came before may have failed to sync the journal that these tickets' entries are in.
            if self._is_broken:
                failure = self.error or self._failure(error)
            for ticket in awaiting:
                ticket.resolve() if failure is None else ticket.reject(failure)
            if self._awaiting:
                self._start_sync()

        self._worker.submit(job, done)

    # Merging.

    def merge(self) -> None:
        """Begin a new journal, and have the worker put what the old one told into index segments."""
        if self._is_merging or self._is_syncing or self._is_broken:
            return
        self.flush()
        if self.error is not None:
            return
        old_fd, old_number = self._fd, self._number
        self._number += 1
        try:
            self._begin_file()
        except OSError as exc:
            self._number -= 1
            self.error = self._failure(exc)
            return
        self._is_merging = True
        dirty, self._dirty = self._dirty, {number: set() for number in self._channels}
        old_journals = [*self._old_journals, old_number]
        self._old_journals = old_journals
        self.entry_count = 0
        self._merged_ns = self._clock.monotonic_ns()
        self._unsynced_since_ns = None
        awaiting, self._awaiting = self._awaiting, []
        written, removed = self._changes(dirty)
        floors = [(number, one.floor, one.cursor, one.epoch) for number, one in self._channels.items()]
        new_number, floors_number = self._number, self._floors_journal
        base_number = old_journals[0] if floors_number is None else floors_number
        gone = [number for number in dirty if number not in self._channels]
        old_is_synced = False

        def job() -> None:
            nonlocal old_is_synced, floors_number
            self._files.sync_data(old_fd)
            old_is_synced = True
            if written:
                self._write_floors_first(base_number, floors)
                floors_number = base_number
                self._write_segments(written)
            self._files.replace(self._floors_path, encode_floors(new_number, floors))
            floors_number = new_number
            for number in old_journals:
                self._unlink(journal_path(self._directory, number))
            for channel, index in removed:
                self._unlink(index_path(self._directory, channel, index))
            for channel in gone:
                remove_directory(index_directory(self._directory, channel), self._files)
            self._files.sync_directory(self._directory)

        def done(error: Exception | None) -> None:
            self._is_merging = False
            self._floors_journal = floors_number
            self._files.close_quietly(old_fd)
            for channel, index, _ in written:
                # Also when it failed: they may be there, and the next merge must replace or remove them.
                self._on_disk.setdefault(channel, set()).add(index)
            if error is None:
                self._old_journals = [number for number in self._old_journals if number not in old_journals]
                self._is_named = True
                for channel, index in removed:
                    self._on_disk.get(channel, set()).discard(index)
                for channel in gone:
                    self._on_disk.pop(channel, None)
            elif not old_is_synced:
                self._break(error)
            else:
                # Nothing is lost: the journals stay, and the next merge does this one's work, too.
                for channel, indexes in dirty.items():
                    self._dirty.setdefault(channel, set()).update(indexes)
                self.error = self._failure(error)
                self.entry_count += 1
            for ticket in awaiting:
                ticket.resolve() if old_is_synced else ticket.reject(self._failure(error))
            if self._awaiting:
                self._start_sync()

        self._worker.submit(job, done)

    def _changes(self, dirty: dict[int, set[int]]) -> tuple[list[tuple[int, int, IndexContent]], list[tuple[int, int]]]:
        """The segments to write, and those to remove, as of now."""
        written: list[tuple[int, int, IndexContent]] = []
        removed: list[tuple[int, int]] = []
        for channel, indexes in dirty.items():
            on_disk = self._on_disk.get(channel, set())
            progress = self._channels.get(channel)
            if not indexes and progress is not None:
                continue  # nothing was done to it
            contents = {} if progress is None else index_contents(progress)
            written += [(channel, index, contents[index]) for index in sorted(indexes & contents.keys())]
            for index in sorted(on_disk - contents.keys()):
                removed.append((channel, index))
                if progress is not None and (index + 1) * INDEX_OFFSETS > progress.floor:
                    # Above the floor an old segment would speak for messages that are to come again.
                    written.append((channel, index, IndexContent({}, {}, {})))
        return written, removed

    def _write_floors_first(self, base_number: int, floors: Sequence[tuple[int, int, int, int]]) -> None:
        """Segments tell nothing of what lies below the new floors, so a crash must not find them with older floors.
        The journals that are being merged still apply."""
        self._files.replace(self._floors_path, encode_floors(base_number, floors))

    def _write_segments(self, written: list[tuple[int, int, IndexContent]]) -> None:
        known: set[int] = set()
        for channel, index, content in written:
            if channel not in known:
                known.add(channel)
                self._files.make_directory(index_directory(self._directory, channel))
            self._files.replace(index_path(self._directory, channel, index), encode_index(channel, index, content))
        if known:
            self._files.sync_directory(self._directory)

    def _unlink(self, path: str) -> None:
        try:
            self._files.unlink(path)
        except FileNotFoundError:
            pass

    # Trouble.

    def _failure(self, error: Exception | None) -> StorageError:
        return StorageError(f"the progress of channels in {self._directory} can't be written: {error}")

    def _break(self, error: Exception) -> None:
        """What the disk holds is unknown from here on: nothing is written any more."""
        logger.error("progress journal failed directory=%s error=%s", self._directory, error)
        self._is_broken = True
        self.error = self._failure(error)
        self._entries.clear()
        self._settle_awaiting(self.error)

    def _settle_awaiting(self, error: StorageError | None) -> None:
        awaiting, self._awaiting = self._awaiting, []
        for ticket in awaiting:
            ticket.resolve() if error is None else ticket.reject(error)

    # The reserve.

    def release_reserve(self) -> None:
        """The disk is full: what was set apart is for whatever helps to make room."""
        self.may_reserve = False
        self._give_up_reserve()

    def _make_reserve(self) -> None:
        if self._has_reserve or not self._reserve_bytes or not self.may_reserve:
            return
        self._has_reserve = True
        path = os.path.join(self._directory, RESERVE_NAME)

        def done(error: Exception | None) -> None:
            if error is not None:
                self._has_reserve = False

        self._worker.submit(lambda: self._files.write_synced(path, bytes(self._reserve_bytes)), done)

    def _give_up_reserve(self) -> bool:
        if not self._has_reserve:
            return False
        self._has_reserve = False
        try:
            self._files.unlink(os.path.join(self._directory, RESERVE_NAME))
        except OSError:
            return False
        return True
