"""A topic's consume queue: the place of each offset's record in the log (RocketMQ's 20-byte units).

    log/queues/NUMBER/00000000000000300000.queue      NUMBER is the topic's; the name is the first offset of the file

    | record's position u64 | record's size u32 | tag u64 |   unit of offset first + 0; big-endian
    | record's position u64 | record's size u32 | tag u64 |   unit of offset first + 1 …
      0                       8                   12

    log/queues/NUMBER/….queue.old   while new ones are made: the units of the last checkpoint, to name lost messages
    log/queues/NUMBER/deferred      for offsets whose tag is not 0, ascending: | offset u64 | due i64 |

All messages of one batch have the same position and size. The tag is the due time of a message, Unix ns, or 0. A unit
of zeros stands for no message: its offset was reserved and never used. All of this is derived from the log: it is
written late and without a sync of its own, and made again where it is missing or disagrees with the log.
"""

import logging
import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence

from queue_engine.storage.commit_log.checkpoint import QueueState
from queue_engine.storage.consume_queue.queue_files import OLD_SUFFIX, UNITS_SUFFIX, QueueFiles
from queue_engine.vocabulary.errors import StorageError

logger = logging.getLogger(__name__)

UNIT_BYTES = 20
FILE_UNITS = 300_000
# Units read at once: the next look-ups of a reader find theirs among them.
BLOCK_UNITS = 3_000
# A cut that bisection found is checked so many units further: one damaged unit may mislead it.
CUT_CHECK_UNITS = 100
# A tail this long is written out without waiting for a flush.
TAIL_BYTES_MAX = 64 << 10
# Memory of a record in the tail, about, besides its due times.
_REFERENCE_BYTES = 150

_pack_unit = struct.Struct(">QIQ").pack
_unpack_unit: Callable[[bytes, int], tuple[int, int, int]] = struct.Struct(">QIQ").unpack_from
_pack_deferred = struct.Struct(">Qq").pack
_iter_deferred = struct.Struct(">Qq").iter_unpack
_DEFERRED_NAME = "deferred"

# first offset, count, position, size, due times (Unix ns) or None
_Reference = tuple[int, int, int, int, Sequence[int] | None]


class ConsumeQueue:
    """The consume queue of one topic. Belongs to the engine's thread; opening it touches no file.

    oldest_offset, end_offset: its range of offsets, the latter excluded. gaps: ranges (first, count) among them
    that hold no message, ascending.
    """

    def __init__(
        self,
        directory: str,
        files: QueueFiles,
        *,
        oldest_offset: int = 0,
        end_offset: int = 0,
        gaps: Iterable[tuple[int, int]] = (),
        is_old: bool = False,
    ) -> None:
        """is_old: open the files that `QueueFiles.rename_to_old` renamed, for look-ups alone."""
        self.directory = directory
        self.oldest_offset = oldest_offset
        self.end_offset = end_offset
        self.error: StorageError | None = None  # why the last write of the tail failed
        # Reads the records of ranges (first, end) of offsets from the log, where a file can't be read. Raises
        # StorageError.
        self.read_again: Callable[[Sequence[tuple[int, int]]], Iterable[_Reference]] | None = None
        self._suffix = UNITS_SUFFIX + OLD_SUFFIX if is_old else UNITS_SUFFIX
        self._files = files
        self._durable_oldest = oldest_offset  # of the last checkpoint
        self._written = end_offset  # units below are in files
        self._tail: list[_Reference] = []
        self._tail_firsts: list[int] = []
        self.tail_bytes = 0
        self._gap_firsts: list[int] = []
        self._gap_ends: list[int] = []
        for first, count in gaps:
            self._gap_firsts.append(first)
            self._gap_ends.append(first + count)
        self._deferred: list[tuple[int, int]] | None = None  # None: not read yet
        self._deferred_written = 0  # entries of it that are in the file

    # Growing.

    def append(
        self, first_offset: int, count: int, position: int, size: int, dues_ns: Sequence[int] | None = None
    ) -> None:
        """Note a record: its messages have the offsets from `first_offset` on.

        Skipped offsets are a gap. An offset below the end, as when the log is read again after a crash, truncates the
        queue first. Never fails: units that can't be written stay in memory (`error`).
        """
        end = self.end_offset
        if first_offset != end:
            if first_offset < end:
                self.truncate(first_offset)
            elif self._gap_ends and self._gap_ends[-1] == end:
                self._gap_ends[-1] = first_offset
            else:
                self._gap_firsts.append(end)
                self._gap_ends.append(first_offset)
        self._tail.append((first_offset, count, position, size, dues_ns))
        self._tail_firsts.append(first_offset)
        self.end_offset = first_offset + count
        self.tail_bytes += _REFERENCE_BYTES
        if dues_ns is not None:
            self.tail_bytes += 40 * count
            deferred = self._all_deferred()
            deferred += [(first_offset + index, due_ns) for index, due_ns in enumerate(dues_ns) if due_ns]
        if self.tail_bytes > TAIL_BYTES_MAX and self.error is None:
            self.flush()

    def flush(self) -> bool:
        """Write the tail; returns whether that succeeded."""
        try:
            self._write_tail()
        except OSError as exc:
            self.error = StorageError(f"the consume queue in {self.directory} can't be written: {exc}")
            return False
        self.error = None
        return True

    def _write_tail(self) -> None:
        if not self._tail:
            return
        for file_first, at, parts in self._pieces():
            self._files.write(self._path(file_first), b"".join(parts), (at - file_first) * UNIT_BYTES)
        if self._deferred is not None and len(self._deferred) > self._deferred_written:
            entries = self._deferred[self._deferred_written :]
            data = b"".join([_pack_deferred(offset, due_ns) for offset, due_ns in entries])
            self._files.write(self._deferred_path, data, self._deferred_written * 16)
            self._deferred_written = len(self._deferred)
        self._tail.clear()
        self._tail_firsts.clear()
        self.tail_bytes = 0
        self._written = self.end_offset

    def _pieces(self) -> Iterable[tuple[int, int, list[bytes]]]:
        """The tail as (file's first offset, first offset, units that follow each other)."""
        pieces: list[tuple[int, int, list[bytes]]] = []
        next_offset = -1
        for first, count, position, size, dues_ns in self._tail:
            done = 0
            while done < count:
                at = first + done
                file_first = at - at % FILE_UNITS
                step = min(count - done, file_first + FILE_UNITS - at)
                if dues_ns is None:
                    units = _pack_unit(position, size, 0) * step
                else:
                    units = b"".join([_pack_unit(position, size, due) for due in dues_ns[done : done + step]])
                if at != next_offset or at == file_first:
                    pieces.append((file_first, at, []))
                pieces[-1][2].append(units)
                done += step
                next_offset = at + step
        return pieces

    # Looking up.

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Position and size of the record that holds `offset`; None when there is no such message.

        Raises StorageError when the files can't be read.
        """
        if offset < self.oldest_offset:
            return None
        if offset >= self._written:
            index = bisect_right(self._tail_firsts, offset) - 1
            if index < 0:
                return None
            first, count, position, size, _ = self._tail[index]
            return (position, size) if offset < first + count else None
        position, size, _ = self._unit_of(offset)
        return (position, size) if size else None

    def locate_in_file(self, offset: int) -> tuple[int, int] | None:
        """As `locate` for an offset that a file has, without reading the log. Raises StorageError."""
        file_first = offset - offset % FILE_UNITS
        at = (offset - file_first) * UNIT_BYTES
        unit = self._files.read_block(self._path(file_first), at, UNIT_BYTES)
        position, size, _ = _unpack_unit(unit, 0) if len(unit) == UNIT_BYTES else (0, 0, 0)
        return (position, size) if size else None

    def _unit_of(self, offset: int) -> tuple[int, int, int]:
        """The unit of an offset in a file; zeros when there is none."""
        file_first = offset - offset % FILE_UNITS
        block = (offset - file_first) // BLOCK_UNITS
        block_at = block * BLOCK_UNITS * UNIT_BYTES
        try:
            units = self._files.read_block(self._path(file_first), block_at, self._block_bytes)
        except StorageError as exc:
            units = self._rebuilt(file_first, exc)[block_at : block_at + self._block_bytes]
        at = (offset - file_first - block * BLOCK_UNITS) * UNIT_BYTES
        return _unpack_unit(units, at) if at + UNIT_BYTES <= len(units) else (0, 0, 0)

    _block_bytes = BLOCK_UNITS * UNIT_BYTES

    def _rebuilt(self, file_first: int, error: StorageError) -> bytes:
        """The content of a file that can't be read at one place: rebuilds its units from the log, and replaces the
        file. Raises StorageError; `error` where the log can't be read yet."""
        if self.read_again is None:
            raise error
        path = self._path(file_first)
        end = min(file_first + FILE_UNITS, self._written)
        content = bytearray((end - file_first) * UNIT_BYTES)
        missing: list[tuple[int, int]] = []
        for first in range(file_first, end, BLOCK_UNITS):
            at, stop = (first - file_first) * UNIT_BYTES, min(first + BLOCK_UNITS, end)
            try:
                data = self._files.read_block(path, at, self._block_bytes)[: (stop - first) * UNIT_BYTES]
            except StorageError:
                missing.append((max(first, self.oldest_offset), stop))
            else:
                content[at : at + len(data)] = data
        for first, count, position, size, dues_ns in self.read_again(missing):
            for offset in range(max(first, file_first), min(first + count, end)):
                due_ns = dues_ns[offset - first] if dues_ns is not None else 0
                at = (offset - file_first) * UNIT_BYTES
                content[at : at + UNIT_BYTES] = _pack_unit(position, size, due_ns)
        try:
            self._files.replace_small(path, bytes(content))
        except OSError as exc:
            raise StorageError(f"{error}; it can't be made anew either: {exc}") from exc
        logger.warning("consume queue made anew from the log path=%s error=%s", path, error)
        return bytes(content)

    def next_present(self, offset: int) -> int | None:
        """The first offset from `offset` on that is not in a gap; None when there is none."""
        offset = max(offset, self.oldest_offset)
        if self._gap_firsts:
            index = bisect_right(self._gap_firsts, offset) - 1
            if index >= 0 and offset < self._gap_ends[index]:
                offset = self._gap_ends[index]
        return offset if offset < self.end_offset else None

    def count_between(self, first: int, end: int) -> int:
        """How many messages have offsets from `first` up to but not including `end`."""
        count = end - first
        if self._gap_firsts and count > 0:
            for index in range(bisect_right(self._gap_ends, first), len(self._gap_firsts)):
                gap_first = self._gap_firsts[index]
                if gap_first >= end:
                    break
                count -= min(end, self._gap_ends[index]) - max(first, gap_first)
        return count if count > 0 else 0

    def present_between(self, first: int, end: int) -> list[tuple[int, int]]:
        """Ranges (first, end) of these offsets between the gaps, ascending: each offset in them has a message."""
        found = []
        for index in range(bisect_right(self._gap_ends, first), len(self._gap_firsts)):
            gap_first = self._gap_firsts[index]
            if gap_first >= end:
                break
            if first < gap_first:
                found.append((first, gap_first))
            first = self._gap_ends[index]
        return [*found, (first, end)] if first < end else found

    @property
    def gaps(self) -> list[tuple[int, int]]:
        return [(first, end - first) for first, end in zip(self._gap_firsts, self._gap_ends, strict=True)]

    def deferred_between(self, first: int, end: int) -> list[tuple[int, int]]:
        """(offset, due Unix ns) of the messages that were published with a due time. Raises StorageError."""
        deferred = self._all_deferred()
        if not deferred:
            return deferred
        return deferred[bisect_left(deferred, (first, 0)) : bisect_left(deferred, (end, 0))]

    def deferred_count_between(self, first: int, end: int) -> int:
        """How many they are, at a cost that does not depend on them. Raises StorageError."""
        deferred = self._all_deferred()
        return bisect_left(deferred, (end, 0)) - bisect_left(deferred, (first, 0)) if deferred and first < end else 0

    def _all_deferred(self) -> list[tuple[int, int]]:
        if self._deferred is None:
            data = self._files.read_small(self._deferred_path)
            entries = list(_iter_deferred(data[: len(data) - len(data) % 16]))
            deferred = [entry for entry in entries if self._durable_oldest <= entry[0] < self._written]
            if len(deferred) != len(entries):
                try:
                    self._files.replace_small(self._deferred_path, _packed(deferred))
                except OSError as exc:
                    raise StorageError(f"{self._deferred_path} can't be written: {exc}") from exc
            self._deferred = deferred
            self._deferred_written = len(deferred)
        return self._deferred

    def has_dues_as_tagged(self) -> bool:
        """Whether each due time in the file agrees with the message's unit. Raises StorageError."""
        block, units = -1, b""
        for offset, due_ns in self._all_deferred():
            # Files hold whole blocks, so that a block's number is enough for all of them.
            if offset // BLOCK_UNITS != block:
                block = offset // BLOCK_UNITS
                first = block * BLOCK_UNITS
                file_first = first - first % FILE_UNITS
                at = (first - file_first) * UNIT_BYTES
                units = self._files.read_block(self._path(file_first), at, self._block_bytes)
            at = offset % BLOCK_UNITS * UNIT_BYTES
            if at + UNIT_BYTES > len(units) or _unpack_unit(units, at)[2] != due_ns:
                return False
        return True

    # Shrinking and mending.

    def trim(self, oldest_offset: int) -> None:
        """Forget all below `oldest_offset`; files that lie wholly below it are removed. Raises OSError."""
        if oldest_offset <= self.oldest_offset:
            return
        before = self.oldest_offset - self.oldest_offset % FILE_UNITS
        self.oldest_offset = oldest_offset
        for first in range(before, min(oldest_offset, self._written) - FILE_UNITS + 1, FILE_UNITS):
            self._files.remove(self._path(first))
        keep = bisect_right(self._gap_ends, oldest_offset)
        del self._gap_firsts[:keep], self._gap_ends[:keep]

    def checkpointed(self, oldest_offset: int) -> None:
        """A checkpoint with this `oldest_offset` is durable: no start goes back to offsets before it. Raises OSError.

        Due times are forgotten now and not by `trim`: without them a start that finds the messages delivers them early.
        """
        self._durable_oldest = oldest_offset
        deferred = self._deferred or []
        passed = bisect_left(deferred, (oldest_offset, 0))
        if passed > len(deferred) // 2:
            rest = deferred[passed:]
            if self._deferred_written:
                written = rest[: bisect_left(rest, (self._written, 0))]
                self._files.replace_small(self._deferred_path, _packed(written))
                self._deferred_written = len(written)
            self._deferred = rest

    def truncate(self, end_offset: int) -> None:
        """Forget all from `end_offset` on, in memory and in the files. Raises StorageError."""
        if end_offset >= self.end_offset:
            return
        try:
            while self._tail and self._tail[-1][0] >= end_offset:
                self._tail.pop()
                self._tail_firsts.pop()
            if self._tail:
                first, count, position, size, dues_ns = self._tail[-1]
                self._tail[-1] = (first, min(count, end_offset - first), position, size, dues_ns)
            if end_offset < self._written:
                last_first = (self._written - 1) - (self._written - 1) % FILE_UNITS
                first = end_offset - end_offset % FILE_UNITS
                for later in range(last_first, first, -FILE_UNITS):
                    self._files.remove(self._path(later))
                self._files.truncate(self._path(first), (end_offset - first) * UNIT_BYTES)
            deferred = self._all_deferred()
            del deferred[bisect_left(deferred, (end_offset, 0)) :]
            if self._deferred_written > len(deferred):
                self._files.truncate(self._deferred_path, len(deferred) * 16)
                self._deferred_written = len(deferred)
        except OSError as exc:
            raise StorageError(f"the consume queue in {self.directory} can't be cut: {exc}") from exc
        self._written = min(self._written, end_offset)
        self.end_offset = end_offset
        self.oldest_offset = min(self.oldest_offset, end_offset)
        while self._gap_ends and self._gap_ends[-1] > end_offset:
            if self._gap_firsts[-1] < end_offset:
                self._gap_ends[-1] = end_offset
                break
            self._gap_firsts.pop()
            self._gap_ends.pop()

    def first_missing(self) -> int | None:
        """The first offset whose unit should be in a file and is not; None when all are. Looks at sizes alone."""
        at = self.next_present(self.oldest_offset)
        while at is not None and at < self._written:
            file_first = at - at % FILE_UNITS
            end = min(file_first + FILE_UNITS, self._written)
            units = (self._files.size_of(self._path(file_first)) or 0) // UNIT_BYTES
            if units <= at - file_first:
                return at
            last = self._last_present_before(end)
            if last is not None and file_first + units <= last:
                return file_first + units
            at = self.next_present(end)
        return None

    def _last_present_before(self, end: int) -> int | None:
        index = bisect_left(self._gap_ends, end)
        if index < len(self._gap_firsts) and self._gap_firsts[index] < end:
            end = self._gap_firsts[index]
        return end - 1 if end > self.oldest_offset else None

    @property
    def first_unwritten_position(self) -> int | None:
        """Position of the first record that is in no file yet; None when all are in files."""
        return self._tail[0][2] if self._tail else None

    def state(self) -> QueueState:
        """The state of the files, for the checkpoint."""
        gaps = [gap for gap in self.gaps if gap[0] < self._written]
        return QueueState(self.oldest_offset, max(self._written, self.oldest_offset), tuple(gaps))

    def cut_at(self, position: int, confirms: Callable[[int, tuple[int, int]], bool]) -> bool:
        """Forget all records from `position` of the log on; returns False, and forgets nothing, when that place is
        uncertain: units contradict each other, or the log does not confirm the first record to forget.

        confirms: offset and place → whether the log has it there. Raises StorageError.
        """
        last = self.last_unit()
        if last is None or last[1] < position:
            return True
        first = self.first_offset_at(position)
        place = self.locate(first)
        if place is not None and not confirms(first, place):
            return False
        for offset in range(first, min(first + CUT_CHECK_UNITS, self.end_offset)):
            place = self.locate(offset)
            if place is not None and place[0] < position:
                return False
        self.truncate(first)
        return True

    def first_offset_at(self, position: int, first: int | None = None, end: int | None = None) -> int:
        """The first of the offsets from `first` up to `end` (by default all) whose record is not before `position` of
        the log; `end` when none is. Raises StorageError."""
        first = self.oldest_offset if first is None else first
        end = self.end_offset if end is None else end
        while first < end:
            middle = (first + end) // 2
            present = self.next_present(middle)
            place = None if present is None or present >= end else self.locate(present)
            if present is None or place is None or place[0] >= position:
                end = middle
            else:
                first = present + 1
        return first

    def last_unit(self) -> tuple[int, int, int] | None:
        """(offset, position, size) of the last message, to compare with the log; None when there is none.
        Raises StorageError."""
        last = self._last_present_before(self.end_offset)
        place = None if last is None else self.locate(last)
        return None if last is None or place is None else (last, *place)

    def delete(self) -> None:
        """Remove all files. Raises OSError."""
        self._tail.clear()
        self._tail_firsts.clear()
        self.tail_bytes = 0
        self._files.remove_all(self.directory)

    def _path(self, file_first: int) -> str:
        return f"{self.directory}{os.sep}{file_first:020d}{self._suffix}"

    @property
    def _deferred_path(self) -> str:
        return os.path.join(self.directory, _DEFERRED_NAME)


def _packed(entries: Iterable[tuple[int, int]]) -> bytes:
    return b"".join([_pack_deferred(offset, due_ns) for offset, due_ns in entries])
