"""go-diskqueue's files: what they are called, what the meta file says, how records follow each other.

data file NAME.diskqueue.NNNNNN.dat     | length i32 | message … | length i32 | message … |
meta file NAME.diskqueue.meta.dat       depth LF readFile,readPos LF writeFile,writePos LF   (decimal text)

Lengths are big-endian and count the message alone. There is neither header, trailer nor checksum: that a
length leads to another plausible length, and in the end exactly to the end of the file, is all there is to
tell damage from data. `walk` follows such a chain, `diagnose` decides what to believe where one breaks.
The README beside this file draws it all and says how to change it.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

LENGTH_BYTES = 4
RECORD_SIZE_MAX = (1 << 31) - 1  # what the length field can say
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
    """What the meta file says: messages that wait, where the next one is read, where the next one is written."""

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
    """Sort `names` (all that start with NAME.diskqueue.) into what belongs to the queue.

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

    read_at(size, position) gives bytes of the file. Bodies are skipped, not read, where they are longer than
    what is read at once.
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
    """What to believe of the bytes behind the last record that is certain.

    is_first_intact: whether the first record is to be delivered. lost_from, resume: the damaged stretch,
    as positions in the bytes; resume is their end when nothing is readable behind it. count_after: records
    from `resume` on. next_doubt: where the last of them starts when what follows is damaged again, None when
    their chain reaches the end.
    """

    is_first_intact: bool
    lost_from: int
    resume: int
    count_after: int
    next_doubt: int | None


def diagnose(data: bytes, size_min: int, size_max: int, pattern: re.Pattern[bytes] | None = None) -> Diagnosis:
    """Judge `data`, the rest of a file from a record on that is in doubt: its length is not plausible, or
    leads to one that is not.

    Reading resumes at the first position from which lengths chain exactly to the end. With `pattern`, which
    matches the start of every message, a record is also believed when the next one matches too; and only such,
    since bodies may contain records of their own.
    """
    end = len(data)
    resume, count_after, next_doubt = _resynchronise(data, size_min, size_max, pattern)
    first_size = _length_in(data, 0)
    if first_size is None or not size_min <= first_size <= size_max or LENGTH_BYTES + first_size > end:
        return Diagnosis(False, 0, resume, count_after, next_doubt)

    # The first length is plausible and the one that it leads to is not: which of the two is damaged?
    second_at = LENGTH_BYTES + first_size
    second_size = _length_in(data, second_at)
    if resume < second_at:
        is_first_intact = False  # it claims bytes of a record that is certain
    elif second_size is None or size_min <= second_size <= size_max:
        is_first_intact = True  # the second is cut off: a torn tail
    elif pattern is not None and pattern.match(data, second_at + LENGTH_BYTES):
        is_first_intact = True  # a message does begin there, only its length is wrong
    else:
        # Damage mostly hits one byte. If one byte makes the first length reach `resume`, it is the first that is
        # wrong, unless one byte does the same for the second. When in doubt nothing altered is delivered.
        is_first_intact = (
            _differing_bytes(first_size, resume - LENGTH_BYTES) > 1
            or _differing_bytes(second_size, resume - second_at - LENGTH_BYTES) <= 1
        )
    return Diagnosis(is_first_intact, second_at if is_first_intact else 0, resume, count_after, next_doubt)


def _length_in(data: bytes, at: int) -> int | None:
    if at + LENGTH_BYTES > len(data):
        return None
    size: int = length_at(data, at)[0]
    return size


def _differing_bytes(one: int, other: int) -> int:
    if other < 0:
        return LENGTH_BYTES
    differing = (one ^ other) & 0xFFFFFFFF
    return sum(1 for byte in differing.to_bytes(LENGTH_BYTES, "big") if byte)


def _resynchronise(
    data: bytes, size_min: int, size_max: int, pattern: re.Pattern[bytes] | None
) -> tuple[int, int, int | None]:
    """The first position behind 0 where reading may resume, the records from there on, and where the last of them
    starts unless their chain reaches the end."""
    end = len(data)
    dead: set[int] = set()  # positions known to lead nowhere, so that none is followed twice
    for candidate in _possible_lengths(size_max).finditer(data, 1):
        at = candidate.start()
        path: list[int] = []
        while at + LENGTH_BYTES <= end and at not in dead:
            size = length_at(data, at)[0]
            if size < size_min or size > size_max or at + LENGTH_BYTES + size > end:
                break
            if pattern is not None and not pattern.match(data, at + LENGTH_BYTES):
                break
            path.append(at)
            at += LENGTH_BYTES + size
        if path and (at == end or (pattern is not None and len(path) > 1)):
            return path[0], len(path), None if at == end else path[-1]
        dead.update(path)
    return end, 0, None


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
