"""The key index of one topic: its files, the keys in memory that wait to be written, and the missing offsets.

Each range of offsets is in one of four: a file, a sealed part that is being written, the open part that messages are
added to as they are published, or `missing`. A missing range is read from the log again.
"""

import os
from array import array
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from crc32c import crc32c

from queue_engine.storage.key_index.key_file import (
    DELTA_MAX,
    HEADER_BYTES,
    KeyFileDamagedError,
    KeyFileHead,
    decode_head,
    encode_key_file,
    file_name,
    hash_of,
    offsets_in,
    read_slot,
)
from queue_engine.storage.key_index.key_files import KeyFiles
from queue_engine.storage.key_index.offset_ranges import Range, joined, within, without
from queue_engine.vocabulary.byte_budget import ByteBudget

# So many keys of one record wait without CRCs; for fewer it is quicker to make them at once.
WAITING_KEYS_MIN = 32


class KeyFile:
    """One file, by its name; its header is read when it is first needed."""

    __slots__ = ("end", "entry_count", "first", "head", "path")

    def __init__(self, directory: str, first: int, end: int, entry_count: int) -> None:
        self.path = os.path.join(directory, file_name(first, end, entry_count))
        self.first = first
        self.end = end
        self.entry_count = entry_count
        self.head: KeyFileHead | None = None

    def __lt__(self, other: "KeyFile") -> bool:
        return self.first < other.first

    def head_of(self, number: int, data: bytes) -> KeyFileHead:
        """The header that begins with `data`; it must agree with the name. Raises KeyFileDamagedError."""
        head = decode_head(data)
        if (head.number, head.first, head.end, head.entry_count) != (number, self.first, self.end, self.entry_count):
            raise KeyFileDamagedError("its header is that of another file")
        return head

    def offsets(self, number: int, hash_: int, files: KeyFiles) -> list[int]:
        """The offsets of a hash, ascending. Raises KeyFileDamagedError or OSError."""
        if self.head is None:
            self.head = self.head_of(number, files.read(self.path, 0, HEADER_BYTES))
        head = self.head
        entries = read_slot(head, head.slot_of(hash_), lambda at, size: files.read(self.path, at, size))
        return offsets_in(head, entries, hash_)


class Part:
    """Keys in memory, of offsets from `first` up to `end`; position: of the first record among them, None without.

    Four bytes a key: its CRC. A large batch waits as it is while there is room for it, since the worker makes many CRCs
    at once. A key's offset follows from the run of offsets that it belongs to."""

    __slots__ = (
        "_batches",
        "_count",
        "_next_offset",
        "_run_offsets",
        "_run_starts",
        "_waiting",
        "end",
        "first",
        "is_made_again",
        "is_taken",
        "position",
        "waiting_bytes",
    )

    def __init__(self, first: int, waiting: ByteBudget) -> None:
        """waiting: for batches that have no CRCs yet, of all parts."""
        self.first = self.end = first
        self.is_made_again = False  # read from the log; the others were published by this process
        self.is_taken = False  # the worker writes it now
        self.position: int | None = None
        self.waiting_bytes = 0
        self._waiting = waiting
        self._count = 0
        self._batches: list[array[int] | _Batch] = []  # CRCs, or keys without, in their order
        self._run_starts: list[int] = []  # of each run the index of its first key, ascending
        self._run_offsets: list[int] = []  # and its first offset
        self._next_offset = -1

    def __len__(self) -> int:
        return self._count

    @property
    def base(self) -> int:
        """The offset of the first key."""
        return self._run_offsets[0]

    @property
    def next_offset(self) -> int:
        """Behind the offset of the last key."""
        return self._next_offset

    def add(self, first_offset: int, keys: Sequence[bytes], position: int, column: bytes | None = None) -> None:
        """Note a record's keys; one of no bytes stands for none. column: the same, as `commit_log/record.py` makes
        them; None where they are not at hand."""
        if self.position is None:
            self.position = position
        if not all(keys):
            for index, key in enumerate(keys):
                if key:
                    self.add(first_offset + index, [key], position)
            return
        count = len(keys)
        if first_offset != self._next_offset:
            self._run_starts.append(self._count)
            self._run_offsets.append(first_offset)
        self._next_offset = first_offset + count
        self._count += count
        if column is not None and count >= WAITING_KEYS_MIN and not self._waiting.is_exceeded:
            self.waiting_bytes += len(column)
            self._waiting.add(len(column))
            self._batches.append(_Batch(count, column))
            return
        if not self._batches or not isinstance(crcs := self._batches[-1], array):
            self._batches.append(crcs := array("I"))
        crcs.extend(map(crc32c, keys))

    def found(self, key: bytes) -> list[int]:
        """The offsets that may have the key, ascending."""
        crc, before = crc32c(key), 0
        found: list[int] = []
        for one in self._batches:
            for index in one.places_of(key) if isinstance(one, _Batch) else _places_of(one, crc):
                run = bisect_right(self._run_starts, before + index) - 1
                found.append(self._run_offsets[run] + before + index - self._run_starts[run])
            before += len(one)
        return found

    def content(self, number: int) -> bytes:
        """The file of these keys: one at least. On any thread; nothing may be added meanwhile."""
        from queue_engine.storage.key_index.key_columns import (  # here: it needs numpy
            crcs_of,
            deltas_of,
            sorted_entries,
        )

        crcs = array("I")
        for is_waiting, some in groupby(self._batches, lambda one: isinstance(one, _Batch)):
            if is_waiting:
                batches = [one for one in some if isinstance(one, _Batch)]
                crcs += crcs_of([(one.count, one.column) for one in batches])
            else:
                for one in some:
                    assert isinstance(one, array)
                    crcs += one
        deltas = deltas_of(self._run_starts, self._run_offsets, self._count)
        return encode_key_file(number, self.first, self.end, self.base, [sorted_entries(crcs, deltas)])

    def free(self) -> None:
        """Free its memory in the budget."""
        self._waiting.free(self.waiting_bytes)
        self.waiting_bytes = 0


class _Batch:
    """Keys without CRCs: so many, as `commit_log/record.py` makes a column of them."""

    __slots__ = ("column", "count")

    def __init__(self, count: int, column: bytes) -> None:
        self.count = count
        self.column = column

    def __len__(self) -> int:
        return self.count

    def places_of(self, key: bytes) -> Iterator[int]:
        """Which of the keys it is."""
        first = 4 * self.count
        at = self.column.find(key, first)
        if at < 0:
            return
        ends = array("I", self.column[:first])
        ends.byteswap()
        while at >= 0:
            # The first key that ends behind `at`: none has no bytes.
            place = bisect_right(ends, at - first)
            if (ends[place - 1] if place else 0) == at - first and ends[place] == at - first + len(key):
                yield place
            at = self.column.find(key, at + 1)


def _places_of(crcs: "array[int]", crc: int) -> Iterator[int]:
    at = 0
    while True:
        try:
            at = crcs.index(crc, at) + 1
        except ValueError:
            return
        yield at - 1


class TopicKeys:
    """Belongs to the engine's thread. is_checked: the files and the missing ranges were looked up. live_first: the
    first offset of this process; those before it were there at its start."""

    def __init__(
        self,
        number: int,
        directory: str,
        live_first: int,
        *,
        part_entries: int,
        is_checked: bool,
        waiting: ByteBudget,
    ) -> None:
        """part_entries: a part with so many keys is sealed. waiting: for keys without CRCs, of all topics. on_first,
        on_sealed: called when the open part has its first keys, and when a part is sealed."""
        self.number = number
        self.directory = directory
        self.live_first = live_first
        self.on_first: Callable[[TopicKeys], None] = lambda keys: None
        self.on_sealed: Callable[[TopicKeys, Part], None] = lambda keys, part: None
        self.part_entries = part_entries
        self.is_checked = is_checked
        self.is_deleted = False
        self.files: list[KeyFile] = []
        self.sealed: list[Part] = []
        self.missing: list[Range] = []
        self._waiting = waiting
        self.open = Part(live_first, waiting)

    # Growing.

    def note(self, first_offset: int, keys: Sequence[bytes], position: int, column: bytes) -> None:
        """A record with keys became visible. column: the same, as `key_column` of `commit_log/record.py` makes them."""
        one = self.open
        if not one:
            self.on_first(self)
        elif first_offset + len(keys) - one.base > DELTA_MAX:
            self.seal(first_offset)
            self.on_first(self)
            one = self.open
        one.add(first_offset, keys, position, column)
        if len(one) >= self.part_entries:
            self.seal(first_offset + len(keys))

    def seal(self, end: int) -> None:
        """End the open part, which goes up to `end`; the next one begins there. One without keys goes on."""
        one = self.open
        if one:
            one.end = max(end, one.next_offset)
            self.sealed.append(one)
            self.open = Part(one.end, self._waiting)
            self.on_sealed(self, one)

    def written(self, part: Part) -> None:
        """A sealed part is in its file, durably."""
        self.sealed.remove(part)
        part.free()
        insort(self.files, KeyFile(self.directory, part.first, part.end, len(part)))

    def give_up(self, part: Part) -> None:
        """A sealed part can't be written and is too large for the memory: the log has its keys."""
        self.sealed.remove(part)
        part.free()
        self.missing = joined([*self.missing, (part.first, part.end)])

    def lose(self, file: KeyFile) -> None:
        """A file can't be used."""
        self.files.remove(file)
        self.missing = joined([*self.missing, (file.first, file.end)])

    def replaced(self, old: Sequence[KeyFile], new: KeyFile) -> None:
        """Files that follow each other have become one."""
        self.files = sorted([*(one for one in self.files if one not in old), new])

    def trim(self, oldest_offset: int) -> list[KeyFile]:
        """Forget the keys before the topic's first message; returns the files to remove."""
        self.missing = without(self.missing, [(0, oldest_offset)])
        count = next((index for index, one in enumerate(self.files) if one.end > oldest_offset), len(self.files))
        removed, self.files = self.files[:count], self.files[count:]
        return removed

    def free(self) -> None:
        """Free the memory of a deleted topic."""
        for part in (*self.sealed, self.open):
            part.free()

    # Where it stands.

    @property
    def first_position(self) -> int | None:
        """The position of the first record that was published by this process and whose keys are in no file; None
        without one."""
        positions = [
            one.position for one in (*self.sealed, self.open) if one.position is not None and not one.is_made_again
        ]
        return min(positions, default=None)

    def made_again(self) -> list[Range]:
        """The ranges that were read from the log and are in no file yet."""
        return [(one.first, one.end) for one in self.sealed if one.is_made_again]

    def present(self) -> list[Range]:
        """The ranges that have files."""
        return joined((one.first, one.end) for one in self.files)

    def check(self, found: Sequence[KeyFile], expected: Sequence[Range], oldest_offset: int) -> list[KeyFile]:
        """Take the files that a start found. expected: the offsets that have files, or are to be read from the log.
        Returns files that are of no use."""
        taken: list[KeyFile] = []
        useless: list[KeyFile] = []
        for one in sorted(found, key=lambda one: (one.first, -one.end)):
            overlaps = bool(taken) and one.first < taken[-1].end
            (useless if overlaps or one.end > self.live_first else taken).append(one)
        self.files = taken
        self.missing = within(without(expected, self.present()), oldest_offset, self.live_first)
        self.is_checked = True
        return useless

    def candidates(
        self, key: bytes, before: int, files: KeyFiles, unusable: Callable[[KeyFile, Exception], None]
    ) -> Iterator[int]:
        """The offsets below `before` that may have the key, newest first. unusable: called for a file that can't be
        used, which is passed over."""
        hash_ = hash_of(key)
        sources: list[KeyFile | Part] = [*self.files, *self.sealed, self.open]
        for one in sorted(sources, key=lambda one: -one.first):
            if one.first >= before:
                continue
            if isinstance(one, Part):
                found = one.found(key)
            else:
                try:
                    found = one.offsets(self.number, hash_, files)
                except (KeyFileDamagedError, OSError) as exc:
                    unusable(one, exc)
                    continue
            yield from (offset for offset in reversed(found) if offset < before)
