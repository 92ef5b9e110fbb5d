"""Segments: the files the commit log consists of, and reading from them.

A position is a byte's place in the whole log. Each file is named by the position it begins at, and begins with a
header that holds its salt: a number of its own that every record's CRC is bound to. Segments are of fixed size, so
that the next begins where this one ends, whatever is left unused between.
"""

import os
import struct
import threading
from bisect import bisect_right
from collections import OrderedDict
from itertools import pairwise

from crc32c import crc32c

from queue_engine.errors import StorageError
from queue_engine.storage.files import Files
from queue_engine.storage.record import Record, RecordLostError, decode_record

SEGMENT_HEADER_BYTES = 64
VERSION = 1
_MAGIC = b"PSEG"
_pack_header = struct.Struct(">4sB3xQQQq20x").pack
_unpack_header = struct.Struct(">4sB3xQQQq20x").unpack
_SUFFIX = ".log"
# Descriptors kept open for reading; the rest of `ulimit -n 256` is for queues and sockets.
_READ_DESCRIPTORS_MAX = 8


class SegmentInfo:
    """One segment. `end` is the position behind its last record once it is sealed; times are Unix ns, 0 unknown."""

    __slots__ = (
        "created_ns",
        "end",
        "first_time_ns",
        "is_sealed",
        "last_time_ns",
        "path",
        "position",
        "salt",
        "segment_bytes",
    )

    def __init__(self, position: int, segment_bytes: int, salt: int, created_ns: int, path: str) -> None:
        self.position = position
        self.segment_bytes = segment_bytes
        self.salt = salt
        self.created_ns = created_ns
        self.path = path
        self.is_sealed = False
        self.end = position + SEGMENT_HEADER_BYTES
        self.first_time_ns = 0
        self.last_time_ns = 0

    @property
    def next_position(self) -> int:
        """Where the segment behind this one begins."""
        return self.position + self.segment_bytes


def segment_name(position: int) -> str:
    return f"{position:020d}{_SUFFIX}"


def encode_segment_header(position: int, segment_bytes: int, salt: int, created_ns: int) -> bytes:
    header = _pack_header(_MAGIC, VERSION, position, salt, segment_bytes, created_ns)
    return header + crc32c(header).to_bytes(4, "big")


def parse_segment_header(data: bytes, path: str) -> SegmentInfo | None:
    """What a segment file begins with; None when it is damaged, or not of this version."""
    if len(data) < SEGMENT_HEADER_BYTES:
        return None
    header, crc = data[: SEGMENT_HEADER_BYTES - 4], data[SEGMENT_HEADER_BYTES - 4 : SEGMENT_HEADER_BYTES]
    if crc32c(header).to_bytes(4, "big") != crc:
        return None
    magic, version, position, salt, segment_bytes, created_ns = _unpack_header(header)
    if magic != _MAGIC or version != VERSION:
        return None
    return SegmentInfo(position, segment_bytes, salt, created_ns, path)


class LogSegments:
    """The segments of one log, by position.

    Belongs to the engine's thread but for `create`, which the worker may call, and `read`, which anybody may.
    """

    def __init__(self, directory: str, files: Files) -> None:
        self.directory = directory
        self.files = files
        self.list: list[SegmentInfo] = []
        self.damaged_paths: list[str] = []  # files whose header can't be trusted
        self._lock = threading.Lock()
        self._descriptors: OrderedDict[str, int] = OrderedDict()

    def load(self) -> None:
        """Learn which segments there are. Raises StorageError when the directory or a file can't be read."""
        try:
            self.files.make_directory(self.directory)
            names = sorted(name for name in self.files.listdir(self.directory) if name.endswith(_SUFFIX))
            found: list[SegmentInfo] = []
            self.damaged_paths = []
            for name in names:
                path = os.path.join(self.directory, name)
                segment = parse_segment_header(self.files.read_whole(path, SEGMENT_HEADER_BYTES) or b"", path)
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

    def create(self, position: int, segment_bytes: int, created_ns: int) -> SegmentInfo:
        """A new, durable segment with a salt of its own. Raises OSError; then there is none."""
        path = os.path.join(self.directory, segment_name(position))
        salt = int.from_bytes(os.urandom(8), "big")
        self.files.write_synced(path, encode_segment_header(position, segment_bytes, salt, created_ns))
        self.files.sync_directory(self.directory)
        segment = SegmentInfo(position, segment_bytes, salt, created_ns, path)
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
        """The segment is about to go: nobody reads it any more."""
        self.list = [one for one in self.list if one is not segment]
        with self._lock:
            fd = self._descriptors.pop(segment.path, None)
        if fd is not None:
            self.files.close_quietly(fd)

    # Reading.

    def read(self, position: int, size: int) -> bytes:
        """At most `size` bytes from `position` on, none beyond the file's end. Raises StorageError."""
        segment = self.segment_of(position)
        if segment is None:
            raise StorageError(f"no segment holds the log's position {position}")
        try:
            # The lock keeps a descriptor from being closed, and its number used anew, while it is read from.
            with self._lock:
                return self.files.read_at(self._descriptor(segment.path), size, position - segment.position)
        except OSError as exc:
            raise StorageError(f"{segment.path} can't be read at {position}: {exc}") from exc

    def read_record(self, position: int, size: int) -> Record:
        """The record at `position`, checked. Raises StorageError when it can't be read and RecordLostError when it
        can't be trusted at all."""
        segment = self.segment_of(position)
        if segment is None:
            raise RecordLostError(f"no segment holds the log's position {position}")
        data = self.read(position, size)
        if len(data) < size:
            data = data.ljust(size, b"\0")
        return decode_record(data, position=position, salt=segment.salt)

    def read_ahead(self, position: int, size: int) -> None:
        """Have the system fetch what will be read soon. Never fails: it is a wish."""
        segment = self.segment_of(position)
        if segment is None:
            return
        try:
            with self._lock:
                self.files.advise_read(self._descriptor(segment.path), position - segment.position, size)
        except OSError:
            pass

    def _descriptor(self, path: str) -> int:
        fd = self._descriptors.get(path)
        if fd is not None:
            self._descriptors.move_to_end(path)
            return fd
        while len(self._descriptors) >= _READ_DESCRIPTORS_MAX:
            self.files.close_quietly(self._descriptors.popitem(last=False)[1])
        fd = self._descriptors[path] = self.files.open(path, os.O_RDONLY)
        return fd

    def close(self) -> None:
        with self._lock:
            while self._descriptors:
                self.files.close_quietly(self._descriptors.popitem()[1])
