"""Recovers a disk queue when it opens: where to read, where to write, and how many messages wait.

The data files are the truth; the meta file is used as far as it agrees with them. After a kill it is older than the
data files, after a kill before the first sync it is missing, and it may be damaged like any file. If it can't be right,
reading starts earlier rather than later: better a message twice than a message lost. Nothing on disk is changed here.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk_queue.fifo.format import (
    META_BYTES_MAX,
    RECORD_SIZE_MAX,
    Meta,
    data_file_name,
    diagnose,
    meta_file_name,
    names_of_queue,
    walk,
)
from queue_engine.storage.disk_queue.fifo.options import DiskQueueOptions

logger = logging.getLogger(__name__)

# Up to so many waiting bytes are counted at every start, in spite of the meta file: some milliseconds make the depth
# exact whatever happened to the files. Above that, a meta file that fits the files' sizes is believed.
VERIFY_BYTES_MAX = 4 << 20
# Beyond the number of any data file that a queue comes to in practice, for when the last one is unknown.
UNKNOWN_FILE = 1_000_000


@dataclass(slots=True)
class RecoveredDiskQueue:
    """The state to go on with. counts: (data file, messages in it or in those before it), ascending.

    unsynced: data files that may not be on the disk yet. leftover: names of files that can be removed.
    is_dirty: whether the meta file has to be written again. lost_count: messages that the meta file
    counted and that are gone. found_count: messages that it did not count and that are there.
    """

    read_file: int
    read_position: int
    write_file: int
    write_position: int
    counts: list[tuple[int, int]] = field(default_factory=list)
    unsynced: list[int] = field(default_factory=list)
    leftover: list[str] = field(default_factory=list)
    is_dirty: bool = False
    has_files: bool = False
    lost_count: int = 0
    found_count: int = 0

    @property
    def depth(self) -> int:
        return sum(count for _, count in self.counts)


@dataclass(frozen=True, slots=True)
class _Counted:
    """A walk over the data files from one place to their end.

    is_start_plausible: a record begins (or the file ends) where it started. before_meta_end: messages before
    the place where the meta file says that writing went on; all of them if no record begins there.
    """

    counts: list[tuple[int, int]]
    total: int
    before_meta_end: int
    is_start_plausible: bool
    is_damaged: bool
    is_last_intact: bool


class DiskQueueRecovery:
    """Reads one queue's files. Raises OSError when the system refuses, which is not taken for damage."""

    def __init__(self, name: str, directory: str, files: Files, options: DiskQueueOptions) -> None:
        self._name = name
        self._directory = directory
        self._files = files
        self._size_min = options.message_bytes_min
        self._size_max = options.message_bytes_max
        self._pattern = options.pattern
        self._sizes: dict[int, int] = {}

    def run(self) -> RecoveredDiskQueue:
        meta, has_meta = self._read_meta()
        names = self._files.names_starting_with(self._directory, f"{self._name}.diskqueue.")
        numbers, temporary, bad = names_of_queue(self._name, names)
        for number in numbers:
            self._sizes[number] = self._files.size_of(self._path(number)) or 0
        if numbers:
            state = self._with_files(meta, numbers)
        else:
            state = _without_files(meta, bad)
        state.leftover += temporary
        state.has_files = bool(numbers) or has_meta or bool(temporary)
        state.is_dirty = state.is_dirty or bool(state.leftover)
        if state.lost_count or state.found_count:
            logger.warning(
                "disk queue recovered queue=%s depth=%d lost=%d found=%d read=%d,%d write=%d,%d",
                *(self._name, state.depth, state.lost_count, state.found_count),
                *(state.read_file, state.read_position, state.write_file, state.write_position),
            )
        return state

    def behind_all(self) -> RecoveredDiskQueue:
        """A new file behind all others, to write to. Reads only names and, if it can, the meta file."""
        names = self._files.names_starting_with(self._directory, f"{self._name}.diskqueue.")
        numbers, _, bad = names_of_queue(self._name, names)
        last = max([*numbers, *map(_number_of_bad, bad)], default=-1)
        try:
            meta, _ = self._read_meta()
        except Exception:
            # The meta file may name one file more than there is or, without any file, any number: files before the
            # number that it names would be removed.
            number = last + 2 if numbers else max(last + 2, UNKNOWN_FILE)
        else:
            number = max(last, meta.write_file if meta is not None else -1) + 1
        return RecoveredDiskQueue(number, 0, number, 0, has_files=True)

    def count_from(self, place: tuple[int, int]) -> list[tuple[int, int]]:
        """Count again the messages from a data file and position on: (data file, messages), ascending."""
        names = self._files.names_starting_with(self._directory, f"{self._name}.diskqueue.")
        numbers = [number for number in names_of_queue(self._name, names)[0] if number >= place[0]]
        self._sizes = {number: self._files.size_of(self._path(number)) or 0 for number in numbers}
        return self._count(numbers, place, None).counts

    def _path(self, number: int) -> str:
        return os.path.join(self._directory, data_file_name(self._name, number))

    def _read_meta(self) -> tuple[Meta | None, bool]:
        path = os.path.join(self._directory, meta_file_name(self._name))
        data = self._files.read_whole(path, META_BYTES_MAX)
        if data is None:
            return None, False
        meta = Meta.decode(data)
        if meta is None:
            logger.error("meta file damaged, rebuilding from data path=%s content=%r", path, data[:128])
        return meta, True

    def _with_files(self, meta: Meta | None, numbers: list[int]) -> RecoveredDiskQueue:
        if meta is None:
            counted = self._count(numbers, (numbers[0], 0), None)
            return self._state(numbers, (numbers[0], 0), counted, meta_depth=0, unsynced_from=numbers[0])

        left = [number for number in numbers if number >= meta.read_file]
        is_complete, left_bytes = self._fits(meta, left)
        if is_complete and self._agrees(meta) and _is_possible(meta.depth, left_bytes, self._size_min):
            if left_bytes > VERIFY_BYTES_MAX:
                return self._trusted(meta, numbers)
            counted = self._count(left, (meta.read_file, meta.read_position), meta)
            if counted.total == meta.depth and not counted.is_damaged:
                return self._trusted(meta, numbers)
        elif is_complete and left_bytes > VERIFY_BYTES_MAX:
            # A kill between two syncs: only messages written after the meta file are new.
            tail = self._count(
                [number for number in left if number >= meta.write_file], (meta.write_file, meta.write_position), None
            )
            if tail.is_start_plausible:
                in_write_file = tail.counts[0][1] if tail.counts else 0
                counts = [(meta.write_file, meta.depth + in_write_file), *tail.counts[1:]]
                return self._state(
                    numbers,
                    (meta.read_file, meta.read_position),
                    _Counted(counts, meta.depth + tail.total, meta.depth, True, tail.is_damaged, tail.is_last_intact),
                    meta_depth=meta.depth,
                    unsynced_from=meta.write_file,
                )

        if left:
            start = (meta.read_file, meta.read_position) if left[0] == meta.read_file else (left[0], 0)
            counted = self._count(left, start, meta)
            # Fewer messages than it says: either some are gone, and then the files show it, or it is the
            # meta file itself that is wrong, and its read position can't be believed either.
            is_explained = counted.is_damaged or not is_complete
            if counted.is_start_plausible and (counted.before_meta_end >= meta.depth or is_explained):
                return self._state(numbers, start, counted, meta_depth=meta.depth, unsynced_from=meta.write_file)
        start = (numbers[0], 0)
        logger.error("meta file does not fit the data, reading from the first file queue=%s meta=%s", self._name, meta)
        return self._state(
            numbers, start, self._count(numbers, start, None), meta_depth=meta.depth, unsynced_from=numbers[0]
        )

    def _fits(self, meta: Meta, left: list[int]) -> tuple[bool, int]:
        """Whether every byte that the meta file counts on is there, and how many wait up to its write position."""
        expected = range(meta.read_file, meta.write_file + (1 if meta.write_position else 0))
        if any(number not in self._sizes for number in expected):
            return False, 0
        if self._sizes.get(meta.write_file, 0) < meta.write_position:
            return False, 0
        complete_bytes = sum(self._sizes[number] for number in left if number < meta.write_file)
        left_bytes = complete_bytes + meta.write_position - meta.read_position
        is_read_within = meta.read_position <= self._sizes.get(meta.read_file, 0)
        return is_read_within, left_bytes

    def _agrees(self, meta: Meta) -> bool:
        """Whether nothing was written after the meta file."""
        return max(self._sizes) <= meta.write_file and self._sizes.get(meta.write_file, 0) == meta.write_position

    def _trusted(self, meta: Meta, numbers: list[int]) -> RecoveredDiskQueue:
        passed = [data_file_name(self._name, number) for number in numbers if number < meta.read_file]
        return RecoveredDiskQueue(
            read_file=meta.read_file,
            read_position=meta.read_position,
            write_file=meta.write_file,
            write_position=meta.write_position,
            counts=[(meta.write_file, meta.depth)] if meta.depth else [],
            leftover=passed,
        )

    def _state(
        self, numbers: list[int], start: tuple[int, int], counted: _Counted, *, meta_depth: int, unsynced_from: int
    ) -> RecoveredDiskQueue:
        last = numbers[-1]
        # Behind a torn tail nothing is appended: writing goes on in a new file.
        write_file, write_position = (last, self._sizes[last]) if counted.is_last_intact else (last + 1, 0)
        return RecoveredDiskQueue(
            read_file=start[0],
            read_position=start[1],
            write_file=write_file,
            write_position=write_position,
            counts=counted.counts,
            unsynced=[number for number in numbers if number >= unsynced_from],
            leftover=[data_file_name(self._name, number) for number in numbers if number < start[0]],
            is_dirty=True,
            lost_count=max(0, meta_depth - counted.total),
            found_count=max(0, counted.total - max(0, meta_depth)),
        )

    def _count(self, numbers: Sequence[int], start: tuple[int, int], meta: Meta | None) -> _Counted:
        """Count the messages from `start` on in the data files `numbers`."""
        counts: list[tuple[int, int]] = []
        total = 0
        before_meta_end: int | None = None
        is_start_plausible = True
        is_damaged = False
        is_last_intact = True
        for number in numbers:
            if number < start[0]:
                continue
            position = start[1] if number == start[0] else 0
            if meta is not None and (number, 0) == (meta.write_file, meta.write_position):
                before_meta_end = total
            meta_end = meta.write_position if meta is not None and meta.write_file == number else 0
            count, at_meta_end, is_last_intact, is_start = self._count_file(number, position, meta_end)
            if meta_end and at_meta_end is not None:
                before_meta_end = total + at_meta_end
            if number == start[0]:
                is_start_plausible = is_start
            is_damaged = is_damaged or not is_last_intact
            total += count
            counts.append((number, count))
        return _Counted(
            counts,
            total,
            total if before_meta_end is None else before_meta_end,
            is_start_plausible,
            is_damaged,
            is_last_intact,
        )

    def _count_file(self, number: int, start: int, meta_end: int) -> tuple[int, int | None, bool, bool]:
        """Messages in one data file from `start` on; those before `meta_end` if a record ends there; whether the
        chain is whole; whether a record begins at `start`, damaged or not."""
        end = self._sizes[number]
        if start >= end:
            return 0, 0 if start == meta_end else None, start == end, start == end
        fd = self._files.open(self._path(number), os.O_RDONLY)
        try:

            def read_at(size: int, position: int) -> bytes:
                try:
                    return self._files.read_at(fd, size, position)
                except OSError as exc:
                    exc.filename = exc.filename or self._path(number)  # the system's error names only the descriptor
                    raise

            before: int | None = None
            begin = start
            count = 0
            if start <= meta_end <= end:
                head = walk(read_at, start, meta_end, self._size_min, self._size_max)
                if head.stop == meta_end:
                    before = count = head.count
                    begin = meta_end
            found = walk(read_at, begin, end, self._size_min, self._size_max)
            if found.stop != end:
                # Messages from a time when larger ones were allowed are not damage: their lengths chain to the end.
                larger = walk(read_at, begin, end, self._size_min, RECORD_SIZE_MAX)
                found = larger if larger.stop == end else found
            count += found.count
            if found.stop == end:
                return count, before, True, True
            is_start = count > 0 or walk(read_at, 0, start, self._size_min, self._size_max).stop == start
            doubtful_at = found.last_start if found.count else begin
            data = read_fully(self._files, fd, doubtful_at, end)
        finally:
            self._files.close_quietly(fd)
        count -= 1 if found.count else 0
        return count + self._count_damaged(data), before, False, is_start

    def _count_damaged(self, data: bytes) -> int:
        """Readable messages in the rest of a file that begins with a record in doubt."""
        count = 0
        while True:
            judged = diagnose(data, self._size_min, self._size_max, self._pattern)
            count += int(judged.is_first_intact) + judged.count_after
            if judged.next_doubt is None:
                return count
            # Damaged once more, further on: the last record before that is in doubt in its turn.
            count -= 1
            data = data[judged.next_doubt :]


def read_fully(files: Files, fd: int, start: int, end: int) -> bytes:
    """The bytes from `start` to `end`, or to where the file ends."""
    parts: list[bytes] = []
    while start < end and (part := files.read_at(fd, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _is_possible(depth: int, left_bytes: int, size_min: int) -> bool:
    """Whether so many messages can be in so many bytes."""
    return depth >= 0 and (depth == 0) == (left_bytes == 0) and depth * (size_min + 4) <= left_bytes


def _number_of_bad(name: str) -> int:
    return int(name.removesuffix(".dat.bad").rpartition(".")[2])


def _without_files(meta: Meta | None, bad: list[str]) -> RecoveredDiskQueue:
    """No data file: an unused queue, or one that was emptied. The numbers of files set aside are not used again."""
    number = max((_number_of_bad(name) + 1 for name in bad), default=0)
    if meta is None:
        return RecoveredDiskQueue(number, 0, number, 0)
    number = max(number, meta.write_file + (1 if meta.write_position else 0))
    return RecoveredDiskQueue(number, 0, number, 0, is_dirty=meta.depth != 0, lost_count=max(0, meta.depth))
