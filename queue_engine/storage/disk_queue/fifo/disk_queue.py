"""A FIFO of messages in numbered files: go-diskqueue's, byte for byte, so that nsqd's data can be taken over.

Everything is in bulk, because Python pays per call and not per byte: `put` is one write, `take` slices the bytes of one
read. It belongs to the engine's thread; syncs happen on the worker (see sync.py). The README beside this file has the
format and the promises.
"""

import errno
import logging
import os
from collections.abc import Sequence

from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.directory_syncs import DirectorySyncs
from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk_queue.fifo.counts import FileCounts
from queue_engine.storage.disk_queue.fifo.disk_queue_files import DiskQueueFiles
from queue_engine.storage.disk_queue.fifo.disk_queue_recovery import DiskQueueRecovery, RecoveredDiskQueue
from queue_engine.storage.disk_queue.fifo.format import LENGTH_BYTES, Meta, data_file_name, meta_file_name
from queue_engine.storage.disk_queue.fifo.options import DiskQueueOptions
from queue_engine.storage.disk_queue.fifo.reader import PEEK_CHUNK_BYTES, DiskQueueReader
from queue_engine.storage.disk_queue.fifo.sync import QueueGeneration, SyncJob, WrittenFile, remove_file
from queue_engine.storage.disk_queue.fifo.writer import DiskQueueWriter
from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import ClosedError, NoRoomError, StorageError
from queue_engine.vocabulary.ticket import DONE, Ticket, after, failed, follow

logger = logging.getLogger(__name__)

_REMEDY = "Nothing was stored. Finishing, emptying and deleting go on; publishing goes on by itself once there is room"

# A file whose messages were all taken goes when it has so many bytes, and not only once it is full: on a full disk
# nothing else would make room.
DRAINED_BYTES_MAX = 256 << 10
PEEKED_BYTES_MAX = 1 << 10  # a message up to this size stays in memory once it was peeked at
# The worker removes the files of a queue that has more than these: one of 100 MiB takes milliseconds.
REMOVED_FILES_MAX = 16


class DiskQueue:
    """Messages in order, each put once and taken once.

    name: the files' prefix, a valid topic or `topic:channel`.
    """

    is_readable = True
    """Whether the messages in its files can be taken."""

    def __init__(
        self,
        name: str,
        directory: str,
        options: DiskQueueOptions,
        *,
        files: Files,
        background: Background,
        clock: Clock,
        directory_syncs: DirectorySyncs | None = None,
    ) -> None:
        """Opens the existing files and changes nothing on disk. directory_syncs: those that the queues of a directory
        share. Raises StorageError when it can't be read."""
        self.name = name
        self._directory = directory
        self._files = files
        self._background = background
        self._directory_syncs = directory_syncs or DirectorySyncs(directory, files, background)
        self._clock = clock
        self._size_min = options.message_bytes_min
        self._size_max = options.message_bytes_max
        self._sync_every = options.sync_every
        self._sync_timeout_ns = options.sync_timeout_ms * NS_PER_MS

        self._recovery = DiskQueueRecovery(name, directory, files, options)
        state = self._recovered()
        self._generation = QueueGeneration()
        self._own = DiskQueueFiles(name, directory, files, self)
        self._counts = FileCounts(name, state.counts, lost=state.lost_count, found=state.found_count)
        self._writer = DiskQueueWriter(
            self._own,
            self._generation,
            file=state.write_file,
            position=state.write_position,
            unsynced=state.unsynced,
            max_bytes_per_file=options.max_bytes_per_file,
            want_sync=self._want_sync,
        )
        self._reader = DiskQueueReader(
            self._own,
            self._writer,
            self._counts,
            options,
            file=state.read_file,
            position=state.read_position,
            want_sync=self._want_sync,
        )
        self._reader.passed += state.leftover
        self._has_files = state.has_files
        self._closed = False
        self._is_deleted = False
        self._peeked: tuple[int, int, bytes] | None = None  # file, position, and the message there
        self._tidied_at = (-1, -1)  # where the reader stood at the last `tidy`

        # When the next sync is due.
        self._change_count = 0  # messages put and taken since the last sync began
        self._changed_at_ns = 0
        self._is_sync_wanted = state.is_dirty
        self._retry_at_ns = 0
        self._job: SyncJob | None = None
        # Tickets that are done when the state is on the disk: that of `_job`, and that of the next job.
        self._tickets_of_job: list[Ticket] = []
        self._tickets_of_next: list[Ticket] = []
        self._removal = DONE  # done when the removal of names is durable
        self._sync_error: StorageError | None = None

    def _recovered(self) -> RecoveredDiskQueue:
        """Read the files, and change nothing. Raises StorageError."""
        try:
            return self._recovery.run()
        except OSError as exc:
            where = f" ({exc.filename})" if exc.filename is not None else ""
            raise StorageError(
                f"cannot open disk queue {self.name} in {self._directory}: {exc.strerror}{where}; nothing was changed. "
                f"When the disk can't be mended, move {self.name}.diskqueue.* out of the way: the queue is empty then"
            ) from exc

    # Stats.

    @property
    def depth(self) -> int:
        """Messages that wait; still answered after close."""
        return self._counts.depth

    @property
    def disk_bytes(self) -> int:
        """Bytes of its files that were not taken yet."""
        return max(0, self._writer.bytes_from(self._reader.file) - self._reader.position)

    @property
    def lost_count(self) -> int:
        """Messages that were counted and turned out unreadable, since this object was made."""
        return self._counts.lost

    @property
    def found_count(self) -> int:
        """Messages in the files that the meta file had not counted, as after a kill."""
        return self._counts.found

    @property
    def damaged_files(self) -> list[str]:
        """Names of the files of which a part could not be read, since this object was made."""
        return [*self._reader.set_aside, *self._reader.damaged_file()]

    @property
    def is_failed(self) -> bool:
        """Whether a sync of its data failed: it takes nothing more, and messages in its files may not be on the
        disk."""
        return self._generation.data_error is not None

    @property
    def sync_error(self) -> StorageError | None:
        """Why the disk does not have everything; None when it does, or will with the next sync."""
        if self._generation.data_error is not None:
            return StorageError(f"cannot sync disk queue {self.name}: {self._generation.data_error}")
        return self._sync_error

    def place(self) -> tuple[Meta, dict[int, int | None]]:
        """The meta file's content as of now, and the needed data files with the length of each; None: all of it."""
        reader, writer = self._reader, self._writer
        lengths = {number: writer.ends.get(number) for number in range(reader.file, writer.file)}
        lengths[writer.file] = writer.position
        return Meta(self.depth, reader.file, reader.position, writer.file, writer.position), lengths

    # Putting and taking.

    def put(self, records: bytes, sizes: Sequence[int]) -> None:
        """Add messages at the end, all or none.

        records: one record behind the other, each with its 4-byte length; sizes: the bytes of each, length
        included. They are in the file when this returns, and on the disk after the next sync.
        Raises StorageError for a size out of range or when the disk refuses; ClosedError after close.
        """
        if self._closed:
            raise ClosedError
        if not sizes:
            return
        self._check_sizes(sizes)
        if self._generation.data_error is not None:
            reason = self._generation.data_error.strerror
            raise StorageError(f"disk queue {self.name} takes nothing more, a sync of its data failed: {reason}")
        self._has_files = True
        try:
            parts = self._writer.append(records, sizes)
        except OSError as exc:
            path = self._own.path(self._writer.file)
            text = f"cannot write {len(records)} bytes to {path}: {exc.strerror}"
            if exc.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoRoomError(f"{text}. {_REMEDY}") from exc
            raise StorageError(text) from exc
        for number, count in parts:
            self._counts.add(number, count)
        self._changed(len(sizes))

    def _check_sizes(self, sizes: Sequence[int]) -> None:
        extremes = sizes if len(sizes) == 1 else (min(sizes), max(sizes))
        for extreme in extremes:
            size = extreme - LENGTH_BYTES
            if not self._size_min <= size <= self._size_max:
                raise StorageError(
                    f"invalid message write size ({size}) minMsgSize={self._size_min} maxMsgSize={self._size_max}"
                )

    def take(self, count_max: int, bytes_max: int) -> list[bytes]:
        """Remove messages from the front: at most `count_max`, at most `bytes_max` bytes of them but at least one.

        Empty when nothing is left, also when the counted messages turned out unreadable. Raises StorageError when
        the system refuses to read (nothing is lost, a later call goes on), ClosedError after close.
        """
        taken: list[bytes] = []
        self.take_into(taken, count_max, bytes_max)
        return taken

    def take_into(self, taken: list[bytes], count_max: int, bytes_max: int) -> None:
        """The same into an empty list of the caller, which has the removed messages even after an unexpected error."""
        if self._closed:
            raise ClosedError
        reader = self._reader
        bytes_left = bytes_max
        while len(taken) < count_max and (bytes_left > 0 or not taken):
            try:
                size = reader.front()
            except OSError as exc:
                if taken:
                    break  # return the taken messages; the next call raises
                raise self._read_error(exc) from exc
            if size is None or (taken and size > bytes_left):
                break
            bytes_left = reader.take_from_chunk(taken, count_max, bytes_left, size)
        if taken:
            self._changed(len(taken))
            if self.depth == 0:
                self._check_drained()

    def peek(self) -> bytes | None:
        """The message at the front, or the beginning of a large one, which stays there; None when nothing is left.
        Raises as `take` does."""
        if self._closed:
            raise ClosedError
        reader = self._reader
        if self._peeked is not None and self._peeked[:2] == (reader.file, reader.position):
            return self._peeked[2]
        self._peeked = None
        try:
            size = reader.front(PEEK_CHUNK_BYTES)
        except OSError as exc:
            raise self._read_error(exc) from exc
        if size is None:
            return None
        message = reader.message(size)[:PEEKED_BYTES_MAX]
        self._peeked = (reader.file, reader.position, message)
        if size > PEEKED_BYTES_MAX:
            reader.drop_chunk()  # every queue may be peeked at, and most are not read for long
        return message

    def tidy(self) -> None:
        """Free the bytes that were read ahead, if nothing was taken since the last call. Called every few seconds."""
        at = self._reader.file, self._reader.position
        if at == self._tidied_at:
            self._reader.drop_chunk()
        self._tidied_at = at

    def _check_drained(self) -> None:
        """All that was counted was taken. If there is more, the count was wrong (nsqd's may be): count again."""
        if self._reader.is_at_end:
            if self._writer.position >= DRAINED_BYTES_MAX:
                self._writer.roll()
                self._reader.leave_finished_file()
            return
        try:
            if self._reader.front() is not None:
                self._counts.recount(self._recovery.count_from((self._reader.file, self._reader.position)))
        except OSError:
            pass  # the next call meets it again and raises

    def _read_error(self, exc: OSError) -> StorageError:
        path = self._own.path(self._reader.file)
        return StorageError(f"cannot read {path} at {self._reader.position}: {exc.strerror}")

    # Syncing.

    @property
    def is_dirty(self) -> bool:
        """Whether something is not on the disk yet, or is being synced."""
        return self._change_count > 0 or self._is_sync_wanted or self._job is not None

    def sync_due(self, now_ns: int) -> bool:
        """Whether `start_sync` has something to do: so many changes, so long ago, or a file to roll or remove."""
        if self._closed or self._job is not None or now_ns < self._retry_at_ns:
            return False
        if self._is_sync_wanted or self._change_count >= self._sync_every:
            return True
        return self._change_count > 0 and now_ns - self._changed_at_ns >= self._sync_timeout_ns

    def durable(self) -> Ticket:
        """Done when the present state and all removals are durable: nothing that was taken, emptied or deleted so far
        comes again. The worker does it. Rejected with StorageError when the disk refuses; ClosedError after close."""
        if self._removal.error is not None and not self._is_deleted:
            self._sync_removal()
        return after(self._removal, self._state_durable)

    def _state_durable(self) -> Ticket:
        if self._is_deleted or not self.is_dirty:
            return DONE
        if self._closed:
            return failed(ClosedError())
        ticket = Ticket()
        self._tickets_of_next.append(ticket)
        self.start_sync()
        return ticket

    def start_sync(self) -> None:
        """Begin to make the present state durable, on the worker. Does nothing while a sync is under way, or when
        the disk has everything."""
        job = self.begin_sync()
        if job is not None:
            BackgroundJob(job.run, then=lambda error: self.sync_ended(job, error)).start(self._background)

    def begin_sync(self) -> SyncJob | None:
        """The job that makes the present state durable; the caller runs it on any thread and then calls `sync_ended`.
        None while another is under way, when the disk has everything, and when no descriptor is free."""
        if self._closed or self._job is not None or not self.is_dirty:
            return None
        self._reader.leave_finished_file()
        try:
            present = self._writer.take_dirty()
        except OSError as exc:
            self._sync_failed(exc)
            return None
        written, self._writer.written = self._writer.written, []
        job = self._job = self._sync_job([*written, present] if present else written)
        self._is_sync_wanted = False
        self._change_count = 0
        self._tickets_of_job, self._tickets_of_next = self._tickets_of_next, []
        return job

    def _sync_job(self, written: list[WrittenFile]) -> SyncJob:
        reader, writer = self._reader, self._writer
        return SyncJob(
            self.name,
            self._directory,
            self._files,
            self._generation,
            meta=Meta(self.depth, reader.file, reader.position, writer.file, writer.position),
            written=written,
            passed=list(reader.passed),
            set_aside=list(reader.set_aside),
        )

    def sync_ended(self, job: SyncJob, error: Exception | None) -> None:
        """`job` was run, and raised `error` if it failed."""
        if self._job is job:
            self._job = None
        tickets, self._tickets_of_job = self._tickets_of_job, []
        if job.is_outdated:
            # Emptied, deleted or closed meanwhile: the tickets wait for the new state.
            tickets += self._tickets_of_next
            self._tickets_of_next = []
            for ticket in tickets:
                follow(self.durable(), ticket)
            return
        reader = self._reader
        reader.passed = [name for name in reader.passed if name not in job.removed]
        reader.set_aside = [name for name in reader.set_aside if name not in job.removed]
        self._writer.written = job.unsynced + self._writer.written
        if error is not None:
            self._sync_failed(error)
        else:
            self._sync_error = None
        for ticket in tickets:
            if error is None or job.is_durable:
                ticket.resolve()
            else:
                ticket.reject(self._not_synced(error))
        waiting, self._tickets_of_next = self._tickets_of_next, []
        if waiting:
            # Where nothing changed since the job began, no other job follows: the state is durable now.
            durable = self._state_durable()
            for ticket in waiting:
                follow(durable, ticket)

    def _sync_failed(self, error: Exception) -> None:
        """Note and log the error, and try again after the timeout. A failed sync of data stays an error for good."""
        self._sync_error = self._not_synced(error)
        logger.error("disk queue not synced queue=%s error=%s", self.name, error)
        self._retry_at_ns = self._clock.monotonic_ns() + self._sync_timeout_ns
        self._is_sync_wanted = True
        tickets, self._tickets_of_next = self._tickets_of_next, []
        for ticket in tickets:
            ticket.reject(self._sync_error)

    def _not_synced(self, error: Exception) -> StorageError:
        return StorageError(f"cannot sync disk queue {self.name}: {error}")

    def _changed(self, count: int) -> None:
        if self._change_count == 0:
            self._changed_at_ns = self._clock.monotonic_ns()
        self._change_count += count

    def _want_sync(self) -> None:
        self._is_sync_wanted = True

    # Ending.

    def release_descriptors(self, *, is_forced: bool = False) -> bool:
        """Close descriptors that an idle queue does not need; returns whether none is left. The next use opens them
        again. An unsynced file stays open, unless forced: then it is synced first, in this thread."""
        self._reader.release()
        return self._writer.release(is_forced=is_forced)

    def empty(self) -> int:
        """Drop every message and remove all files, the meta file last; returns how many were dropped."""
        if self._closed:
            raise ClosedError
        dropped = self.depth
        self._generation.begin_next()
        if self._has_files:
            self._remove_files()
        return dropped

    def delete(self) -> None:
        """Drop every message, remove all files, and close. The worker removes them where they are many; `durable` is
        done then. Files that were set aside as .bad stay."""
        if self._closed:
            return
        self._generation.begin_next()
        self._files.budget.forget(self)
        self._closed = self._is_deleted = True
        if self._has_files:
            self._remove_files_for_good()

    @property
    def is_deleted(self) -> bool:
        return self._is_deleted

    def _remove_files(self) -> None:
        names = self._leave_files()
        # A sync of a queue that can't be read removes nothing.
        is_later = len(names) > REMOVED_FILES_MAX and self.is_readable
        left = names if is_later else [name for name in names if not self._remove(name)]
        has_meta = is_later or not self._remove(meta_file_name(self.name))
        # They are below the read position in the next meta file; the sync that writes it removes them.
        self._reader.passed = left
        self._is_sync_wanted = self._has_files = bool(left) or has_meta
        self._sync_removal()

    def _leave_files(self) -> list[str]:
        """Forget all that the files have; returns the names of the data files that are to go. Damaged files are renamed
        to `.bad`."""
        reader, writer = self._reader, self._writer
        if reader.is_damaged:
            reader.pass_file()
        # Those that could not be read have other numbers, too.
        numbers = range(reader.file, writer.file + 1) if self.is_readable else self._own.numbers()
        names = [*reader.passed, *(data_file_name(self.name, number) for number in numbers)]
        writer.restart()
        bad_names = set(reader.set_aside)
        left = [name for name in dict.fromkeys(names) if name not in bad_names]
        left += [name for name in reader.set_aside if not self._remove(name, is_bad=True)]
        reader.restart()
        reader.set_aside = []
        self._counts.clear()
        self._peeked = None
        self._change_count = 0
        self._generation.forget_data()
        self._sync_error = None
        return left

    def _remove_files_for_good(self) -> None:
        names = [*self._leave_files(), meta_file_name(self.name)]
        self._is_sync_wanted = False

        def remove() -> None:
            left = [name for name in names if not self._remove(name)]
            self._has_files = bool(left)

        if len(names) <= REMOVED_FILES_MAX:
            remove()
            self._sync_removal()
            return
        removal = self._removal = Ticket()
        BackgroundJob(remove, then=lambda error: follow(self._names_synced(), removal)).start(self._background)

    def _remove(self, name: str, *, is_bad: bool = False) -> bool:
        """Remove a file, or rename it to .bad; whether the name is free now."""
        path = os.path.join(self._directory, name)
        try:
            remove_file(self._files, path, is_bad=is_bad)
        except OSError as exc:
            logger.error("disk queue file not removed path=%s error=%s", path, exc)
            return False
        return True

    def _sync_removal(self) -> None:
        """Make the removal of names durable; `_removal` is done then."""
        self._removal = self._names_synced()

    def _names_synced(self) -> Ticket:
        """Done when the names are durable as they are now."""
        result = Ticket()

        def synced(done: Ticket) -> None:
            error = done.error
            if error is not None:
                logger.error("directory not synced after removal queue=%s error=%s", self.name, error)
                result.reject(StorageError(f"cannot sync {self._directory} after removing files: {error}"))
            elif self._is_deleted and self._has_files:
                result.reject(StorageError(f"not all files of disk queue {self.name} could be removed"))
            else:
                result.resolve()

        self._directory_syncs.sync().when_done(synced)
        return result

    def abandon(self) -> None:
        """Close, and change nothing on the disk: the files stay as after a kill, for another object to open."""
        self._generation.begin_next()
        self._closed = True
        self._change_count, self._is_sync_wanted = 0, False
        for file in self._writer.hand_over():
            if file.fd is not None:
                self._files.close_quietly(file.fd)
        self._reader.forget()
        self._files.budget.forget(self)

    def close(self) -> None:
        """Sync everything, in this thread, and close the files. Raises StorageError when that fails."""
        if self._closed:
            return
        self._reader.leave_finished_file()
        running, is_dirty = self._job, self.is_dirty
        self._generation.begin_next()
        self._closed = True
        written = self._writer.hand_over()
        if running is not None:
            # Files that the worker is syncing may not be on the disk yet.
            written += [WrittenFile(file.number, None) for file in running.written]
        try:
            if is_dirty:
                self._sync_job(written).run()
        except OSError as exc:
            raise StorageError(f"cannot sync disk queue {self.name} at close: {exc.strerror}") from exc
        finally:
            self._reader.forget()
            self._files.budget.forget(self)
        if self._generation.data_error is not None:
            reason = self._generation.data_error.strerror
            raise StorageError(f"disk queue {self.name} may lose messages, a sync of its data failed: {reason}")
