"""Holes: ranges inside complete segments whose records no reader needs, and whose blocks were given back to the disk.

    log/holes.json
    {"version": 1, "oldest": {"7": 1200, …}, "segments": {"67108864": [[67108928, 68000000], …], …}} LF
    CRC-32C of the line before, without its LF, as 8 hex digits LF

`segments`: by the position a segment begins at, positions (first, end) of whole records that are gone, ascending.
`oldest`: by topic number, the topic's first offset when the last holes were made. The file is replaced as a whole
before a block is given back. So every empty range is named here; a named range may still hold its records, when the
process ended between the two. A start skips these ranges. Without the file it reports them as damage.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

from queue_engine.storage.disk.checked_line import decode_versioned, encode_line
from queue_engine.storage.disk.files import Files

HOLES_NAME = "holes.json"
VERSION = 1
BLOCK_BYTES = 4_096
_FILE_BYTES_MAX = 1 << 26

Ranges = list[tuple[int, int]]


class Holes:
    """All holes of one log. Belongs to the engine's thread.

    oldest: topic number → the topic's first offset. block_bytes: the size of the file system's blocks.
    """

    def __init__(self, directory: str, files: Files, block_bytes: int = BLOCK_BYTES) -> None:
        self.path = os.path.join(directory, HOLES_NAME)
        self.oldest: dict[int, int] = {}
        self.block_bytes = block_bytes
        self._files = files
        self._segments: dict[int, Ranges] = {}
        self._count()

    def open(self) -> str:
        """Read the file. Returns its path when it was damaged and is set aside, else "". Raises OSError."""
        data = self._files.read_whole(self.path, _FILE_BYTES_MAX)
        if data is None:
            return ""
        decoded = decode_holes(data, self.path)
        if decoded is None:
            self._files.rename(self.path, f"{self.path}.bad")
            return self.path
        self.oldest, self._segments = decoded
        self._count()
        return ""

    def blocks(self, segment_position: int, start: int, end: int) -> tuple[int, int]:
        """The whole blocks between two positions of a segment: the first one's place in the file, and their size."""
        return whole_blocks(start - segment_position, end - segment_position, self.block_bytes)

    def of_segment(self, position: int) -> Ranges:
        return self._segments.get(position, [])

    def end_at(self, position: int) -> int | None:
        """Where the hole ends that `position` lies in; None when it lies in none."""
        index = bisect_right(self._starts, position) - 1
        return self._ends[index] if index >= 0 and position < self._ends[index] else None

    def bytes_from(self, position: int) -> int:
        """The bytes given back by holes that begin at `position` of the log or behind it."""
        return self._given_back[bisect_left(self._starts, position)]

    def with_segment(self, position: int, ranges: Ranges, oldest: Mapping[int, int]) -> bytes:
        """The file's content with these holes in the segment at `position`. Memory stays as it is."""
        return encode_holes(oldest, {**self._segments, position: ranges})

    def put(self, position: int, ranges: Ranges, oldest: Mapping[int, int]) -> None:
        """Note holes that the file names now."""
        self._segments[position] = ranges
        self.oldest = dict(oldest)
        self._count()

    def keep(self, positions: Iterable[int]) -> None:
        """Forget the holes of all segments but these."""
        self.forget(self._segments.keys() - set(positions))

    def forget(self, positions: Iterable[int]) -> None:
        """Forget the holes of these segments, which were removed. The file names them until it is next replaced."""
        for position in positions:
            self._segments.pop(position, None)
        self._count()

    def _count(self) -> None:
        all_holes = sorted((start, end, segment) for segment, ranges in self._segments.items() for start, end in ranges)
        self._starts = [start for start, _, _ in all_holes]
        self._ends = [end for _, end, _ in all_holes]
        self._given_back = [0]  # bytes, for each hole: of the hole and those behind it
        for start, end, segment in reversed(all_holes):
            self._given_back.append(self._given_back[-1] + self.blocks(segment, start, end)[1])
        self._given_back.reverse()


def whole_blocks(start: int, end: int, block_bytes: int = BLOCK_BYTES) -> tuple[int, int]:
    """The whole blocks of a file between two of its bytes: the first one's place, and their size; 0 for none."""
    first = -(-start // block_bytes) * block_bytes
    return first, max(0, end // block_bytes * block_bytes - first)


def encode_holes(oldest: Mapping[int, int], segments: Mapping[int, Ranges]) -> bytes:
    """The file's content."""
    return encode_line(
        {
            "version": VERSION,
            "oldest": {str(number): offset for number, offset in oldest.items()},
            "segments": {str(position): ranges for position, ranges in segments.items()},
        }
    )


def decode_holes(data: bytes, path: str = HOLES_NAME) -> tuple[dict[int, int], dict[int, Ranges]] | None:
    """Oldest offsets and ranges of the file's content; None when it is damaged. Raises NewerFormatError."""
    content = decode_versioned(data, path, VERSION)
    if content is None:
        return None
    oldest = {int(number): offset for number, offset in content["oldest"].items()}
    segments = {int(position): [(start, end) for start, end in one] for position, one in content["segments"].items()}
    return oldest, segments
