"""Segments: the files the commit log consists of, and reading from them.

A position is a byte's place in the whole log. Each file is named by the position it begins at, and begins with a
header that holds its salt: a random number of its own that every record's CRC is bound to. Segments have a fixed size:
the next one begins where this one ends, also when its end is unused.

Without its header nothing of a segment can be read. So the header stands there twice, too far apart for one damaged
block of 4 KiB to reach both: drawn in the README beside this file.
"""

import os
import struct
import threading
from bisect import bisect_right
from itertools import pairwise

from crc32c import crc32c

from queue_engine.storage.commit_log.record import Record, RecordLostError, decode_record
from queue_engine.storage.disk.descriptor_cache import DescriptorCache
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import NewerFormatError, SegmentUnreadableError, StorageError

SEGMENT_HEADER_BYTES = 64
VERSION = 2
_MAGIC = b"PSEG"
_pack_header = struct.Struct(">4sB3xQQQqI16x").pack
_unpack_header = struct.Struct(">4sB3xQQQqI16x").unpack
# Where the second header begins: at the first place that no block of 4 KiB shares with the first header. Segments
# smaller than the options allow, which only tests make, have no room for that.
_COPY_AT = SEGMENT_HEADER_BYTES + 4_096
_COPY_AT_SMALL = SEGMENT_HEADER_BYTES
_SMALL_BYTES = 64 << 10
# At most so many bytes stand before the first record.
HEAD_BYTES_MAX = _COPY_AT + SEGMENT_HEADER_BYTES
_SUFFIX = ".log"
# Descriptors cached for reading; the rest of `ulimit -n 256` is for queues and sockets.
_READ_DESCRIPTORS_MAX = 8


class SegmentInfo:
    """One segment. `end` is the position behind its last record once it is sealed; times are Unix ns, 0 unknown.

    head_bytes: bytes before the first record. damaged_at: the places in the file of damaged copies of the header.
    """

    __slots__ = (
        "created_ns",
        "damaged_at",
        "end",
        "first_time_ns",
        "head_bytes",
        "is_sealed",
        "last_time_ns",
        "path",
        "position",
        "salt",
        "segment_bytes",
    )

    def __init__(
        self, position: int, segment_bytes: int, salt: int, created_ns: int, path: str, head_bytes: int
    ) -> None:
        self.position = position
        self.segment_bytes = segment_bytes
        self.salt = salt
        self.created_ns = created_ns
        self.path = path
        self.head_bytes = head_bytes
        self.damaged_at: tuple[int, ...] = ()
        self.is_sealed = False
        self.end = self.start
        self.first_time_ns = 0
        self.last_time_ns = 0

    @property
    def start(self) -> int:
        """Where the first record goes."""
        return self.position + self.head_bytes

    @property
    def next_position(self) -> int:
        """Where the segment behind this one begins."""
        return self.position + self.segment_bytes


def segment_name(position: int) -> str:
    return f"{position:020d}{_SUFFIX}"


def head_bytes_of(segment_bytes: int) -> int:
    """Bytes before the first record of a segment of that size."""
    return (_COPY_AT_SMALL if segment_bytes < _SMALL_BYTES else _COPY_AT) + SEGMENT_HEADER_BYTES


def encode_segment_head(position: int, segment_bytes: int, salt: int, created_ns: int) -> bytes:
    """The first bytes of a segment file: its header, twice; the first record comes behind it."""
    head_bytes = head_bytes_of(segment_bytes)
    header = _pack_header(_MAGIC, VERSION, position, salt, segment_bytes, created_ns, head_bytes)
    header += crc32c(header).to_bytes(4, "big")
    return header.ljust(head_bytes - SEGMENT_HEADER_BYTES, b"\0") + header


def parse_segment_head(data: bytes, path: str) -> SegmentInfo | None:
    """The segment of a file, by its first bytes; None when no copy of its header holds. data: HEAD_BYTES_MAX bytes, or
    the whole of a shorter file. Raises NewerFormatError."""
    for at in (0, _COPY_AT_SMALL, _COPY_AT):
        segment = _parse_header(data[at : at + SEGMENT_HEADER_BYTES], path)
        if segment is None or at not in (0, segment.head_bytes - SEGMENT_HEADER_BYTES):
            continue
        good = data[at : at + SEGMENT_HEADER_BYTES]
        places = {0, segment.head_bytes - SEGMENT_HEADER_BYTES}
        segment.damaged_at = tuple(
            sorted(place for place in places if data[place : place + SEGMENT_HEADER_BYTES] != good)
        )
        return segment
    return None


def _parse_header(data: bytes, path: str) -> SegmentInfo | None:
    if len(data) < SEGMENT_HEADER_BYTES:
        return None
    header, crc = data[: SEGMENT_HEADER_BYTES - 4], data[SEGMENT_HEADER_BYTES - 4 :]
    if crc32c(header).to_bytes(4, "big") != crc:
        return None
    magic, version, position, salt, segment_bytes, created_ns, head_bytes = _unpack_header(header)
    if magic != _MAGIC or not version:
        return None
    if version > VERSION:
        raise NewerFormatError(path, version, VERSION)
    if version == 1:
        head_bytes = SEGMENT_HEADER_BYTES
    return SegmentInfo(position, segment_bytes, salt, created_ns, path, head_bytes)


class LogSegments:
    """The segments of one log, by position.

    Belongs to the engine's thread but for `create`, which the worker may call, and `read`, which any thread may.
    """

    def __init__(self, directory: str, files: Files) -> None:
        self.directory = directory
        self.files = files
        self.list: list[SegmentInfo] = []
        self.damaged_paths: list[str] = []  # files whose header can't be trusted
        self._lock = threading.Lock()
        self._descriptors = DescriptorCache(files, _READ_DESCRIPTORS_MAX)

    def load(self) -> None:
        """Find the segments in the directory. Raises StorageError when the directory or a file can't be read, or a file
        has an unknown version."""
        try:
            self.files.make_directory(self.directory)
            names = sorted(name for name in self.files.listdir(self.directory) if name.endswith(_SUFFIX))
            found: list[SegmentInfo] = []
            self.damaged_paths = []
            for name in names:
                path = os.path.join(self.directory, name)
                try:
                    head = self.files.read_whole(path, HEAD_BYTES_MAX) or b""
                except OSError as exc:
                    raise SegmentUnreadableError(path, 0, exc) from exc
                segment = parse_segment_head(head, path)
                if segment is None or segment_name(segment.position) != name:
                    self.damaged_paths.append(path)
                else:
                    found.append(segment)
        except OSError as exc:
            raise StorageError(f"{self.directory} can't be read: {exc}") from exc
        for segment, following in pairwise(found):
            segment.is_sealed = following.position >= segment.next_position
        self.list = found

    def segment_of(self, position: int) -> SegmentInfo | None:
        """The segment that `position` lies in."""
        segments = self.list
        index = bisect_right(segments, position, key=lambda segment: segment.position) - 1
        if index < 0 or position >= segments[index].next_position:
            return None
        return segments[index]

    def first_behind(self, position: int) -> SegmentInfo | None:
        """The first segment that begins behind `position`."""
        segments = self.list
        index = bisect_right(segments, position, key=lambda segment: segment.position)
        return segments[index] if index < len(segments) else None

    def mend(self, segment: SegmentInfo) -> None:
        """Write the damaged copies of a segment's header again, from the one that holds. Raises OSError."""
        copies = {0, segment.head_bytes - SEGMENT_HEADER_BYTES}
        fd = self.files.open(segment.path, os.O_RDWR)
        try:
            good_at = min(copies - set(segment.damaged_at))
            header = self.files.read_at(fd, SEGMENT_HEADER_BYTES, good_at)
            for at in segment.damaged_at:
                self.files.write_all(fd, header, at)
            self.files.sync(fd)
        finally:
            self.files.close(fd)
        segment.damaged_at = ()

    def create(self, position: int, segment_bytes: int, created_ns: int) -> SegmentInfo:
        """A new, durable segment with a salt of its own. Raises OSError; then there is none."""
        path = os.path.join(self.directory, segment_name(position))
        salt = int.from_bytes(os.urandom(8), "big")
        head = encode_segment_head(position, segment_bytes, salt, created_ns)
        self.files.write_synced(path, head)
        try:
            self.files.sync_directory(self.directory)
        except OSError:
            self.files.unlink_quietly(path)
            raise
        segment = SegmentInfo(position, segment_bytes, salt, created_ns, path, len(head))
        self.list = sorted(
            [*(one for one in self.list if one.position != position), segment], key=lambda one: one.position
        )
        return segment

    def remove(self, segment: SegmentInfo) -> None:
        """Unlink a segment, durably. Raises OSError."""
        self.forget(segment)
        self.files.unlink(segment.path)
        self.files.sync_directory(self.directory)

    def forget(self, segment: SegmentInfo) -> None:
        """Take a segment out of the list, and close its descriptor, before its file is removed."""
        self.list = [one for one in self.list if one is not segment]
        with self._lock:
            self._descriptors.close(segment.path)

    # Reading.

    def read(self, position: int, size: int) -> bytes:
        """At most `size` bytes from `position` on, none beyond the file's end. Raises StorageError."""
        segment = self.segment_of(position)
        if segment is None:
            raise StorageError(f"no segment holds the log's position {position}")
        try:
            # Under the lock no other thread closes the descriptor while it is read from.
            with self._lock:
                return self.files.read_at(
                    self._descriptors.get(segment.path, os.O_RDONLY), size, position - segment.position
                )
        except OSError as exc:
            raise SegmentUnreadableError(segment.path, position, exc) from exc

    def read_record(self, position: int, size: int) -> Record:
        """The record at `position`, checked. Raises StorageError when the file can't be read, and RecordLostError when
        header and trailer are damaged."""
        segment = self.segment_of(position)
        if segment is None:
            raise RecordLostError(f"no segment holds the log's position {position}")
        data = self.read(position, size)
        if len(data) < size:
            data = data.ljust(size, b"\0")
        return decode_record(data, position=position, salt=segment.salt)

    def close_idle(self) -> None:
        """Close descriptors that were not used since the last call."""
        with self._lock:
            self._descriptors.close_idle()

    def close(self) -> None:
        with self._lock:
            self._descriptors.close_all()
