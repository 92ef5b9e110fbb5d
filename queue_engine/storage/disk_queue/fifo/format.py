"""The format of go-diskqueue's files: their names, the meta file, and the records of a data file.

data file NAME.diskqueue.NNNNNN.dat     | length i32 | message … | length i32 | message … |
meta file NAME.diskqueue.meta.dat       depth LF readFile,readPos LF writeFile,writePos LF   (decimal text)

Lengths are big-endian and count the message alone. There is neither header, trailer nor checksum. Damage shows only
where a length does not lead to another plausible length, or the last one not exactly to the end of the file. `walk`
follows such a chain, `diagnose` decides which records are valid where it breaks. README.md draws the format and says
how to change it.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

LENGTH_BYTES = 4
RECORD_SIZE_MAX = (1 << 31) - 1  # the most that the length field can hold
WALK_CHUNK_BYTES = 1 << 20
META_BYTES_MAX = 1 << 10  # five numbers take at most 104

length_at = struct.Struct(">i").unpack_from
_META = re.compile(rb"(-?\d{1,18})\n(\d{1,18}),(\d{1,18})\n(\d{1,18}),(\d{1,18})\n?")


def meta_file_name(name: str) -> str:
    return f"{name}.diskqueue.meta.dat"


def data_file_name(name: str, number: int) -> str:
    return f"{name}.diskqueue.{number:06d}.dat"


@dataclass(frozen=True, slots=True)
class Meta:
    """The meta file's content: the number of waiting messages, and where the next one is read and written."""

    depth: int
    read_file: int
    read_position: int
    write_file: int
    write_position: int

    def encode(self) -> bytes:
        return (
            f"{self.depth}\n{self.read_file},{self.read_position}\n{self.write_file},{self.write_position}\n"
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> "Meta | None":
        """None when it is not five numbers, or they can't be: the reader ahead of the writer."""
        found = _META.fullmatch(data)
        if found is None:
            return None
        meta = cls(*map(int, found.groups()))
        if (meta.read_file, meta.read_position) > (meta.write_file, meta.write_position):
            return None
        return meta


def names_of_queue(name: str, names: list[str]) -> tuple[list[int], list[str], list[str]]:
    """Sort `names` (all that start with NAME.diskqueue.) by kind of file.

    Returns the numbers of its data files, ascending; the names of temporary meta files that a crash left;
    and the names of data files that were set aside.
    """
    start = len(name) + len(".diskqueue.")
    numbers: list[int] = []
    temporary: list[str] = []
    bad: list[str] = []
    for one in names:
        rest = one[start:]
        if re.fullmatch(r"\d{6,18}\.dat", rest):
            numbers.append(int(rest[:-4]))
        elif re.fullmatch(r"meta\.dat\.\d+\.tmp", rest):
            temporary.append(one)
        elif re.fullmatch(r"\d{6,18}\.dat\.bad", rest):
            bad.append(one)
    return sorted(numbers), temporary, bad


@dataclass(frozen=True, slots=True)
class Walk:
    """How far a chain of records was followed: `count` of them, the last one starting at `last_start`
    (-1 if none), to `stop`, where the end is or no plausible record begins."""

    count: int
    last_start: int
    stop: int


def walk(read_at: Callable[[int, int], bytes], start: int, end: int, size_min: int, size_max: int) -> Walk:
    """Follow the lengths from `start` as far as they are plausible, at most to `end`.

    read_at(size, position) gives bytes of the file. Bodies are skipped, not read, where they are longer than one read.
    """
    count = 0
    last_start = -1
    position = start
    while position + LENGTH_BYTES <= end:
        chunk = read_at(min(WALK_CHUNK_BYTES, end - position), position)
        at = 0
        limit = len(chunk) - LENGTH_BYTES
        if limit < 0:
            break  # the file is shorter than it should be
        room = end - position - LENGTH_BYTES
        while at <= limit:
            size = length_at(chunk, at)[0]
            if size < size_min or size > size_max or size > room - at:
                return Walk(count, last_start, position + at)
            count += 1
            last_start = position + at
            at += LENGTH_BYTES + size
        position += at
    return Walk(count, last_start, position)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A judgement of the bytes behind the last record that is certain.

    is_first_intact: whether the first record is to be delivered. lost_from, resume: the damaged stretch, as positions
    in the bytes; resume is the end of the bytes when nothing is readable behind it. count_after: records from `resume`
    on. next_doubt: where the last of them starts when the bytes behind it are damaged, too; None when their chain
    reaches the end.
    """

    is_first_intact: bool
    lost_from: int
    resume: int
    count_after: int
    next_doubt: int | None


def diagnose(data: bytes, size_min: int, size_max: int, pattern: re.Pattern[bytes] | None = None) -> Diagnosis:
    """Judge `data`, the rest of a file from a record on that is in doubt: its length is not plausible, or
    leads to one that is not.

    Reading resumes at a position from which lengths chain exactly to the end: where the damaged length would
    lead with one of its bytes changed back, since damage mostly hits one, otherwise at the first there is. With
    `pattern`, which matches the start of every message, two records that match are believed too, and only
    matching ones, since bodies may contain records of their own.
    """
    return _Doubt(data, size_min, size_max, pattern).judge()


class _Doubt:
    """One diagnosis: the bytes, and the positions in them that lead nowhere."""

    def __init__(self, data: bytes, size_min: int, size_max: int, pattern: re.Pattern[bytes] | None) -> None:
        self._data = data
        self._end = len(data)
        self._size_min = size_min
        self._size_max = size_max
        self._pattern = pattern
        self._dead: set[int] = set()  # positions that lead nowhere, so that none is followed twice

    def judge(self) -> Diagnosis:
        first_size = self._size_at(0)
        if first_size is None or not self._is_possible(0, first_size):
            repaired = None if first_size is None else self._repair(0)
            return self._lost(0, False, repaired or self._search())

        # The first length is plausible and the one that it leads to is not: which of the two is damaged?
        second_at = LENGTH_BYTES + first_size
        second_size = self._size_at(second_at)
        is_second_certain = False
        if second_size is not None:
            matches = self._pattern is not None and self._pattern.match(self._data, second_at + LENGTH_BYTES)
            is_second_certain = bool(matches)
            repaired = self._repair(second_at) if matches or self._pattern is None else None
            if repaired is not None:
                return self._lost(second_at, True, repaired)
        is_torn = second_size is None or self._size_min <= second_size <= self._size_max
        repaired = None if is_second_certain else self._repair(0)
        if repaired is not None and (repaired[1] or not is_torn):
            return self._lost(0, False, repaired)
        resume = self._search(second_at + 1 if is_second_certain else 1)
        if resume[1] and resume[0] < second_at + LENGTH_BYTES + self._size_min and not is_second_certain:
            # It claims bytes of a record that is certain, or leaves no room for another one.
            return self._lost(0, False, resume)
        return self._lost(second_at, True, resume)

    def _lost(self, lost_from: int, is_first_intact: bool, resume: tuple[int, int, int | None]) -> Diagnosis:
        return Diagnosis(is_first_intact, lost_from, *resume)

    def _size_at(self, at: int) -> int | None:
        if at + LENGTH_BYTES > self._end:
            return None
        size: int = length_at(self._data, at)[0]
        return size

    def _is_possible(self, at: int, size: int) -> bool:
        return self._size_min <= size <= self._size_max and at + LENGTH_BYTES + size <= self._end

    def _repair(self, at: int) -> tuple[int, int, int | None] | None:
        """Where reading resumes if one byte of the length at `at` is wrong, one bit if possible; otherwise as early
        as possible. None if that explains nothing."""
        raw = length_at(self._data, at)[0] & 0xFFFFFFFF
        sizes: list[tuple[bool, int]] = []
        for place in (0, 8, 16, 24):
            others = raw & ~(0xFF << place)
            if others <= self._size_max:
                for byte in range(256):
                    size = others | byte << place
                    if size != raw and self._is_possible(at, size):
                        sizes.append(((size ^ raw).bit_count() > 1, size))
        for _, size in sorted(sizes):
            stop = at + LENGTH_BYTES + size
            found = (stop, 0, None) if stop == self._end else self._chain(stop)
            if found is not None:
                return found
        return None

    def _search(self, start: int = 1) -> tuple[int, int, int | None]:
        """The first position from `start` on where reading may resume, otherwise the end."""
        for candidate in _possible_lengths(self._size_max).finditer(self._data, start):
            found = self._chain(candidate.start())
            if found is not None:
                return found
        return self._end, 0, None

    def _chain(self, start: int) -> tuple[int, int, int | None] | None:
        """`start`, the records from there on, and where the last of them starts unless they reach the end; None
        when they are not to be believed."""
        path: list[int] = []
        at = start
        while at not in self._dead:
            size = self._size_at(at)
            if size is None or not self._is_possible(at, size):
                break
            if self._pattern is not None and not self._pattern.match(self._data, at + LENGTH_BYTES):
                break
            path.append(at)
            at += LENGTH_BYTES + size
        if path and at == self._end:
            return start, len(path), None
        if len(path) > 1 and self._pattern is not None:
            return start, len(path), path[-1]
        self._dead.update(path)
        return None


@lru_cache(maxsize=8)
def _possible_lengths(size_max: int) -> re.Pattern[bytes]:
    """Matches, without consuming anything, wherever four bytes could be a length up to about `size_max`."""
    classes = b""
    for byte in size_max.to_bytes(LENGTH_BYTES, "big"):
        classes += b"[\\x00-\\x%02x]" % byte
        if byte:
            break
    classes += b"." * (LENGTH_BYTES - classes.count(b"["))
    return re.compile(b"(?=%s)" % classes, re.DOTALL)
