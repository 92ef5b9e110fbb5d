"""Turns records of the log into Arrow batches.

Python reads a record's header, which has the begins of its columns. Numpy gathers the columns for many records at a
time, and one call of Arrow takes the bodies out of the input. Every CRC is checked: `decode_record` decodes a record
with a wrong one message by message.

Two kinds of input: a page of `/log/records` (drawn in `wire/records.py`), and a mapped segment file (drawn in
`storage/commit_log/README.md`), in which records of other topics lie between.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from queue_engine.lake.source.arrow_schemas import MESSAGES, TIMESTAMP
from queue_engine.lake.source.wanted_range import WantedRange
from queue_engine.storage.commit_log.record import (
    HAS_DUE,
    HAS_KEYS,
    HEADER_BYTES,
    KIND_MESSAGES,
    KIND_SEAL,
    REPLAYED,
    RecordHeader,
    decode_record,
    message_ids,
    parse_header,
    parse_trailer,
)
from queue_engine.storage.commit_log.record_scan import next_record
from queue_engine.vocabulary.message import FRAME_HEADER_BYTES
from queue_engine.wire.records import RECORD_PLACE

DAMAGED = "damaged"
ABSENT = "absent"
GONE = "gone"
REPLACED = "replaced"

# Arrow's offsets into a binary column have 32 bits: the input of one batch must not be longer.
_SPAN_BYTES_MAX = 1 << 30
# The numbers of each record that its batch is made of.
_FIELDS = 9
# Byte → its two hex digits, as one 16-bit number in memory order.
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), dtype=np.uint16)


@dataclass(frozen=True, slots=True)
class MissingRange:
    """Requested messages that a read did not find. reason: `damaged`, their CRC is wrong; `absent`, the log has no such
    messages; `gone`, they were removed before the read; `replaced`, their topic was deleted."""

    topic: str
    number: int
    id_base: int
    first_offset: int
    next_offset: int
    reason: str


class _Topic:
    """How far a wanted range has been read. expected: the next offset."""

    __slots__ = ("code", "expected", "hole_count", "wanted")

    def __init__(self, wanted: WantedRange, code: int) -> None:
        self.wanted = wanted
        self.code = code
        self.expected = wanted.next_message(wanted.first_offset)
        self.hole_count = 0


class RecordColumns:
    """Reads wanted ranges, each of another topic, and notes the messages that are missing.

    missing: complete after `finish`; a gap between the offsets of two records counts, too.
    """

    def __init__(self, wanted: Sequence[WantedRange], *, rows_max: int, bytes_max: int) -> None:
        """rows_max, bytes_max: the most of a batch; a larger message has a batch of its own."""
        self.missing: list[MissingRange] = []
        self.rows = 0
        self._topics = {one.number: _Topic(one, code) for code, one in enumerate(wanted)}
        assert len(self._topics) == len(wanted), "two ranges of one topic"
        self._names = pa.array([one.topic for one in wanted], pa.string())
        self._bases = np.array([one.id_base for one in wanted], dtype=np.uint64)
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._data: Any = b""
        self._view = memoryview(b"")
        self._hole_count = 0
        # Of the batch in the making.
        self._fields = array("q")
        self._batch_rows = 0
        self._batch_bytes = 0
        self._batch_start = 0
        self._has_keys = False

    @property
    def is_complete(self) -> bool:
        """Whether all ranges are read to their end."""
        return all(one.expected >= one.wanted.next_offset for one in self._topics.values())

    def expected(self, number: int) -> int:
        """The next offset of the topic with that number."""
        return self._topics[number].expected

    def passed(self, number: int, offset: int) -> None:
        """Note the messages of a topic before `offset` that have not come as missing."""
        self._pass(self._topics[number], offset)

    def finish(self) -> None:
        """Note the rest of all ranges as missing: there is no more input."""
        for topic in self._topics.values():
            self._pass(topic, topic.wanted.next_offset)

    # Input.

    def page(self, data: bytes) -> Iterator[pa.RecordBatch]:
        """The rows of a page of /log/records."""
        self._begin(data)
        at = 0
        while at + RECORD_PLACE.size <= len(data):
            position, salt, size = RECORD_PLACE.unpack_from(data, at)
            at += RECORD_PLACE.size
            header = parse_header(data, at, position=position, salt=salt)
            if header is None:
                self._hole_count += 1
                header = parse_trailer(data, at + size - HEADER_BYTES, position=position, salt=salt)
            if header is not None and header.size == size:
                yield from self._record(header, at, position, salt)
            at += size
        yield from self._flush()

    def segment(
        self,
        data: "mmap | bytes",
        *,
        position: int,
        salt: int,
        records_at: int,
        first_bytes: Sequence[int],
        end_byte: int,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a segment file.

        position: of its first byte in the log. records_at: of its first record. first_bytes: where the wanted ranges
        should begin; if one of them has another record there, reading begins at records_at. end_byte: behind the last
        wanted record; reading goes on behind it while messages are missing.
        """
        self._begin(data)
        source = self._data
        at = self._start_of(first_bytes, position, salt, records_at)
        while at < len(data) and (at < end_byte or not self.is_complete):
            header = parse_header(source, at, position=position + at, salt=salt)
            if header is None:
                self._hole_count += 1
                found = next_record(source, at, position=position, salt=salt)
                if found is None:
                    break
                at, header = found
            if header.kind == KIND_SEAL:
                break
            yield from self._record(header, at, position + at, salt)
            at += header.size
        yield from self._flush()

    def _begin(self, data: "mmap | bytes") -> None:
        self._data = data
        self._view = memoryview(data)
        self._batch_start = 0

    def _start_of(self, first_bytes: Sequence[int], position: int, salt: int, records_at: int) -> int:
        found: set[int] = set()
        for at in first_bytes:
            header = parse_header(self._data, at, position=position + at, salt=salt)
            topic = None if header is None else self._topics.get(header.topic_number)
            if header is None or topic is None:
                continue
            if header.first_offset <= topic.expected < header.end_offset:
                found.add(header.topic_number)
        return min(first_bytes) if found == self._topics.keys() else records_at

    # One record.

    def _record(self, header: RecordHeader, at: int, position: int, salt: int) -> Iterable[pa.RecordBatch]:
        """Take one record. Returns the batches that become full; the caller iterates over all of them."""
        topic = self._topics.get(header.topic_number)
        if topic is None or header.kind != KIND_MESSAGES:
            return ()
        first = header.first_offset
        end = min(first + header.count, topic.wanted.next_offset)
        if end <= topic.expected or first >= topic.wanted.next_offset:
            return ()
        if first > topic.expected:
            self._pass(topic, first)
        start, stop = topic.expected - first, end - first
        topic.expected = end
        topic.hole_count = self._hole_count
        table_at = at + HEADER_BYTES
        messages_at = table_at + header.table_bytes
        messages_end = messages_at + header.messages_bytes
        view = self._view
        if (
            messages_end > len(view)
            or crc32c(view[table_at:messages_at]) != header.table_crc
            or crc32c(view[messages_at:messages_end]) != header.messages_crc
        ):
            return self._damaged(topic, header, at, position, salt, start, stop)
        if (
            self._batch_rows + stop - start <= self._rows_max
            and self._batch_bytes + header.messages_bytes <= self._bytes_max
            and messages_end - self._batch_start <= _SPAN_BYTES_MAX
        ):
            self._add(topic, header, at, start, stop, header.messages_bytes)
            return ()
        return self._in_pieces(topic, header, at, start, stop)

    def _add(self, topic: _Topic, header: RecordHeader, at: int, start: int, stop: int, size: int) -> None:
        if not self._batch_rows:
            self._batch_start = at
        table_at = at + HEADER_BYTES
        flags, count = header.flags, header.count
        keys_at = -1
        if flags & HAS_KEYS:
            keys_at = table_at + count * (16 if flags & HAS_DUE else 8)
            self._has_keys = True
        messages_at = table_at + header.table_bytes
        # As many as _FIELDS; `_batch` has the same order.
        self._fields.extend(
            (
                stop - start,
                start,
                table_at,
                messages_at,
                header.first_offset,
                header.time_ns // 1000,
                topic.code << 1 | (flags & REPLAYED == REPLAYED),
                keys_at,
                count,
            )
        )
        self._batch_rows += stop - start
        self._batch_bytes += size

    def _in_pieces(
        self, topic: _Topic, header: RecordHeader, at: int, start: int, stop: int
    ) -> Iterator[pa.RecordBatch]:
        """Take a record that does not fit into the batch, and perhaps into no single one."""
        yield from self._flush()
        ends = np.frombuffer(self._data, ">u4", header.count, at + HEADER_BYTES).astype(np.int64)
        while start < stop:
            begin = int(ends[start - 1]) if start else 0
            fits = int(np.searchsorted(ends, begin + self._bytes_max, side="right"))
            until = min(stop, start + self._rows_max, max(fits, start + 1))
            self._add(topic, header, at, start, until, int(ends[until - 1]) - begin)
            start = until
            if start < stop:
                yield from self._flush()

    def _damaged(
        self, topic: _Topic, header: RecordHeader, at: int, position: int, salt: int, start: int, stop: int
    ) -> Iterator[pa.RecordBatch]:
        """Take the intact messages of a record with a wrong CRC, whose header or trailer is intact."""
        yield from self._flush()
        data = bytes(self._view[at : at + header.size]).ljust(header.size, b"\0")
        record = decode_record(data, position=position, salt=salt)
        good = [index for index in range(start, stop) if index not in record.damaged]
        wanted = topic.wanted
        for first, after in _runs(sorted(index for index in record.damaged if start <= index < stop)):
            self._miss(topic, header.first_offset + first, header.first_offset + after, DAMAGED)
        ids = message_ids(wanted.id_base, header.first_offset, header.count)
        time_us = header.time_ns // 1000
        while good:
            some: list[int] = []
            size = 0
            for index in good[: self._rows_max]:
                size += len(record.body_at(index))
                if some and size > self._bytes_max:
                    break
                some.append(index)
            good = good[len(some) :]
            self.rows += len(some)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([wanted.topic] * len(some), pa.string()),
                    pa.array([header.first_offset + index for index in some], pa.int64()),
                    pa.array([ids[index].decode("ascii") for index in some], pa.string()),
                    pa.array([time_us] * len(some), pa.int64()).cast(TIMESTAMP),
                    pa.array([record.key_at(index) or None for index in some], pa.binary()),
                    pa.array([record.body_at(index) for index in some], pa.binary()),
                    pa.array([header.flags & REPLAYED == REPLAYED] * len(some), pa.bool_()),
                ],
                schema=MESSAGES,
            )

    # Missing messages.

    def _pass(self, topic: _Topic, offset: int) -> None:
        offset = min(offset, topic.wanted.next_offset)
        if offset > topic.expected:
            is_damage = self._hole_count != topic.hole_count
            for first, after in topic.wanted.messages.within(topic.expected, offset):
                self._miss(topic, first, after, DAMAGED if is_damage else ABSENT)
            topic.expected = offset

    def _miss(self, topic: _Topic, first: int, after: int, reason: str) -> None:
        one = topic.wanted
        self.missing.append(MissingRange(one.topic, one.number, one.id_base, first, after, reason))

    # A batch.

    def _flush(self) -> Iterator[pa.RecordBatch]:
        if self._batch_rows:
            yield self._batch()
            self.rows += self._batch_rows
        self._fields = array("q")
        self._batch_rows = self._batch_bytes = 0
        self._has_keys = False

    def _batch(self) -> pa.RecordBatch:
        rows = self._batch_rows
        fields = np.frombuffer(self._fields, np.int64).reshape(-1, _FIELDS)
        counts = fields[:, 0]
        # For each row, its record's fields, and its index within the record.
        of_row = np.repeat(fields[:, 1:], counts, axis=0)
        before = np.cumsum(counts) - counts
        index = np.arange(rows) - np.repeat(before, counts) + of_row[:, 0]
        table_at, messages_at, first_offset, time_us = of_row[:, 1], of_row[:, 2], of_row[:, 3], of_row[:, 4]
        code = of_row[:, 5] >> 1
        # The u32 at each byte: a view with a stride of one byte.
        numbers: Any = np.ndarray((len(self._view) - 3,), ">u4", buffer=self._data, strides=(1,))
        entry_at = table_at + 4 * index
        frame_end = numbers[entry_at].astype(np.int64)
        frame_start = np.where(index == 0, 0, numbers[entry_at - 4].astype(np.int64))
        offset = first_offset + index
        if self._has_keys:
            keys = self._keys(of_row[:, 6], of_row[:, 7], index, table_at, numbers)
        else:
            keys = pa.nulls(rows, pa.binary())
        bodies = self._slices(messages_at + frame_start + FRAME_HEADER_BYTES, messages_at + frame_end)
        return pa.RecordBatch.from_arrays(
            [
                self._names.take(pa.array(code)),
                pa.array(offset),
                hex_column(self._bases[code] + offset.astype(np.uint64)),
                pa.Array.from_buffers(TIMESTAMP, rows, [None, pa.py_buffer(np.ascontiguousarray(time_us))]),
                keys,
                bodies,
                pa.array((of_row[:, 5] & 1).astype(np.bool_)),
            ],
            schema=MESSAGES,
        )

    def _keys(self, column_at: Any, count: Any, index: Any, table_at: Any, numbers: Any) -> pa.Array:
        has_keys = column_at >= 0
        ends_at = np.where(has_keys, column_at, table_at)
        keys_at = ends_at + 4 * np.where(has_keys, count, 0)
        entry_at = ends_at + 4 * index
        end = np.where(has_keys, numbers[np.where(has_keys, entry_at, 0)].astype(np.int64), 0)
        follows = has_keys & (index > 0)
        start = np.where(follows, numbers[np.where(follows, entry_at - 4, 0)].astype(np.int64), 0)
        keys = self._slices(keys_at + start, keys_at + end)
        return pc.if_else(pa.array(end > start), keys, pa.scalar(None, pa.binary()))

    def _slices(self, start: Any, end: Any) -> pa.Array:
        """The bytes from each start to its end; both ascend. One array has these and the bytes between them as its
        slots in turn; every second slot is taken."""
        rows = len(start)
        base = int(start[0])
        offsets = np.empty(2 * rows, np.int32)
        offsets[0::2] = start - base
        offsets[1::2] = end - base
        data = pa.py_buffer(self._view[base : int(end[-1])])
        slots = pa.Array.from_buffers(pa.binary(), 2 * rows - 1, [None, pa.py_buffer(offsets), data])
        return slots.take(pa.array(np.arange(0, 2 * rows, 2, dtype=np.int32)))


def hex_column(numbers: Any) -> pa.Array:
    """16 hex digits for each unsigned 64-bit number."""
    digits = _HEX[numbers.astype(">u8").view(np.uint8)]
    offsets = np.arange(0, 16 * len(numbers) + 1, 16, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(digits)])


def _runs(indexes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending indexes as ranges, the end excluded."""
    first = after = -1
    for index in indexes:
        if index != after:
            if after > first:
                yield first, after
            first = index
        after = index + 1
    if after > first:
        yield first, after
