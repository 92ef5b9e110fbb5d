"""A record: one batch of one topic in the commit log, encoded, decoded and checked.

Big-endian; drawn in the README beside this file. Header and trailer hold the same fields and the same CRC, which is
bound to the segment's salt and the record's position: neither bytes left from an earlier use of the place verify, nor
bytes that a publisher puts into a body. The messages are stored as the frames of their first delivery, so that a first
delivery is a slice. (The idea is RocketMQ's commit log; the header is our own.)

Version 2 repeats the table behind the messages. One damaged block that reaches both copies of the header, or both
copies of the table, covers every message between them. So a block costs the messages that it covers, and no others.
"""

import secrets
import struct
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from mmap import mmap
from typing import Literal, NamedTuple

from crc32c import crc32c

from queue_engine.vocabulary.errors import NewerFormatError
from queue_engine.vocabulary.message import FRAME_HEADER_BYTES, frame
from queue_engine.vocabulary.run import Batch, Run

VERSION = 2
HEADER_MAGIC = b"PREC"
TRAILER_MAGIC = b"PTRL"
HEADER_BYTES = 80
SEAL_BYTES = 2 * HEADER_BYTES

KIND_MESSAGES = 1
KIND_SEAL = 2
_KINDS = (KIND_MESSAGES, KIND_SEAL)

HAS_DUE = 1
HAS_KEYS = 2
REPLAYED = 4
HAS_BATCH_KEY = 16

NO_BATCH_KEY = bytes(16)
ID_BASE_MAX = 1 << 62

_pack_fields = struct.Struct(">BBHIIQqQ16sIIIII").pack  # the bytes under the CRC: 4 to 76
_unpack_fields = struct.Struct(">BBHIIQqQ16sIIIII").unpack
_pack_entry = struct.Struct(">II").pack
_pack_crc = struct.Struct(">I").pack
_pack_place = struct.Struct(">QQ").pack
# Ids are made in blocks: 13 hex digits before, 3 behind.
_ID_SUFFIXES = [b"%03x" % number for number in range(1 << 12)]


class RecordLostError(Exception):
    """Header and trailer of a record are both damaged: nothing of the record can be read."""


class RecordHeader(NamedTuple):
    """The fields of a record's header. `time_ns` is the publish time (Unix); `durable_upto` the position up to which
    the log was synced when the record was encoded; `batch_key` 16 bytes, zero for none. `version` is the format's."""

    kind: int
    flags: int
    topic_number: int
    count: int  # type: ignore[assignment]  # a field, not the method that a tuple has
    first_offset: int
    time_ns: int
    durable_upto: int
    batch_key: bytes
    table_bytes: int
    messages_bytes: int
    table_crc: int
    messages_crc: int
    version: int = VERSION

    @property
    def size(self) -> int:
        """Bytes of the whole record."""
        tables = 1 if self.version == 1 else 2
        return SEAL_BYTES + tables * self.table_bytes + self.messages_bytes

    @property
    def end_offset(self) -> int:
        return self.first_offset + self.count


def key_column(keys: Sequence[bytes]) -> bytes:
    """The keys of one batch as a record and the key index have them; a key of no bytes stands for none.

    | end u32 × count | key …, one behind the other |        big-endian; `end` counts from the first key's first byte
    """
    ends = array("I", accumulate(map(len, keys)))
    ends.byteswap()
    return b"".join((ends.tobytes(), *keys))


def encode_record(
    batch: Batch,
    *,
    position: int,
    salt: int,
    topic_number: int,
    first_offset: int,
    durable_upto: int,
    flags: int = 0,
    batch_key: bytes = b"",
    dues_ns: Sequence[int] | None = None,
    keys: bytes | None = None,
) -> list[bytes]:
    """The record of `batch` at `position`, in parts that are to be joined.

    dues_ns: Unix ns for each message, 0 for none. flags: REPLAYED or 0; the others follow from the arguments. keys: as
    `key_column` returns them.
    """
    run = batch.run()
    frames = run.frames
    count = len(batch.ids)
    if count == 1:
        columns = [_pack_entry(len(frames), crc32c(batch.bodies[0]))]
    else:
        columns = [
            _big_endian("I", run.ends()),
            _big_endian("I", map(crc32c, batch.bodies)),
        ]
    if dues_ns is not None:
        flags |= HAS_DUE
        columns.append(_big_endian("q", dues_ns))
    if keys is not None:
        flags |= HAS_KEYS
        columns.append(keys)
    if batch_key:
        flags |= HAS_BATCH_KEY
    table = columns[0] if len(columns) == 1 else b"".join(columns)
    fields = _pack_fields(
        VERSION,
        KIND_MESSAGES,
        flags,
        topic_number,
        count,
        first_offset,
        batch.timestamp_ns,
        durable_upto,
        batch_key or NO_BATCH_KEY,
        len(table),
        len(frames),
        crc32c(table),
        crc32c(frames),
        0,
    )
    own = fields + _crc_bytes(fields, position, salt)
    return [HEADER_MAGIC + own + table, frames, table + TRAILER_MAGIC + own]


def encode_seal(*, position: int, salt: int, durable_upto: int, time_ns: int) -> bytes:
    """The record that ends a segment: bytes behind it are not read."""
    fields = _pack_fields(VERSION, KIND_SEAL, 0, 0, 0, 0, time_ns, durable_upto, NO_BATCH_KEY, 0, 0, 0, 0, 0)
    own = fields + _crc_bytes(fields, position, salt)
    return HEADER_MAGIC + own + TRAILER_MAGIC + own


def parse_header(buffer: bytes | mmap, at: int, *, position: int, salt: int) -> RecordHeader | None:
    """The header that stands at `at`, which is `position` in the log; None when it can't be trusted.

    Raises NewerFormatError when it can be trusted and is of a version that this one does not know.
    """
    return _parse(HEADER_MAGIC, buffer, at, position, salt)


def parse_trailer(buffer: bytes | mmap, at: int, *, position: int, salt: int) -> RecordHeader | None:
    """The header of the record that begins at `position`, from its trailer at `at`; None when it can't be trusted.

    Raises NewerFormatError as `parse_header` does.
    """
    return _parse(TRAILER_MAGIC, buffer, at, position, salt)


def start_by_trailer(buffer: bytes | mmap, at: int) -> int | None:
    """Where in `buffer` the record begins whose trailer stands at `at`, by the sizes in that trailer, which is not
    checked here; None when no trailer fits there."""
    fields = bytes(buffer[at + 4 : at + HEADER_BYTES - 4])
    if at < 0 or len(fields) < HEADER_BYTES - 8:
        return None
    version, *rest, _ = _unpack_fields(fields)
    return at + HEADER_BYTES - RecordHeader._make([*rest, version]).size


def _parse(magic: bytes, buffer: bytes | mmap, at: int, position: int, salt: int) -> RecordHeader | None:
    one = bytes(buffer[at : at + HEADER_BYTES])
    if len(one) < HEADER_BYTES or one[:4] != magic:
        return None
    fields = one[4:-4]
    if _crc_bytes(fields, position, salt) != one[-4:]:
        return None
    version, *rest, _ = _unpack_fields(fields)
    if version > VERSION:
        raise NewerFormatError(f"the log's record at position {position}", version, VERSION)
    header = RecordHeader._make([*rest, version])
    if not version or header.kind not in _KINDS or header.table_bytes < 8 * header.count:
        return None
    return header


def _crc_bytes(fields: bytes, position: int, salt: int) -> bytes:
    return _pack_crc(crc32c(fields, crc32c(_pack_place(salt, position))))


def _big_endian(code: Literal["I", "q"], values: Iterable[int]) -> bytes:
    column = array(code, values)
    column.byteswap()
    return column.tobytes()


def _column(code: Literal["I", "q"], data: bytes) -> "array[int]":
    column = array(code, data)
    column.byteswap()
    return column


class Record:
    """A record read back by `decode_record`. It never returns altered messages: they are in `damaged`.

    damaged: indexes within the batch of messages whose bodies are lost. Due times are None as well where all copies of
    the table were damaged; the consume queue has them, too.
    """

    __slots__ = ("_dues", "_ends", "_frames", "_has_ids", "_keys", "damaged", "header", "position")

    def __init__(
        self,
        header: RecordHeader,
        position: int,
        frames: bytes,
        ends: Sequence[int],
        *,
        dues: Sequence[int] | None,
        keys: list[bytes] | None,
        damaged: frozenset[int] = frozenset(),
        has_ids: bool = True,
    ) -> None:
        self.header = header
        self.position = position
        self.damaged = damaged
        self._frames = frames
        self._ends = ends
        self._dues = dues
        self._keys = keys
        self._has_ids = has_ids

    def ends(self) -> Sequence[int]:
        """Where each frame ends among the messages."""
        return self._ends

    def body_at(self, index: int) -> bytes:
        start = self._ends[index - 1] if index else 0
        return self._frames[start + FRAME_HEADER_BYTES : self._ends[index]]

    def dues(self) -> Sequence[int] | None:
        """Unix ns until which each message is deferred, 0 for none; None when no message has one, or all are lost."""
        return self._dues

    def key_at(self, index: int) -> bytes:
        return b"" if self._keys is None else self._keys[index]

    def keys(self) -> Sequence[bytes] | None:
        """The key of each message, of no bytes for none; None when no message has one, or all are lost."""
        return self._keys

    @property
    def is_content_whole(self) -> bool:
        """Whether all bodies and keys are as they were published."""
        return not self.damaged and (self._keys is not None or not self.header.flags & HAS_KEYS)

    def run(self, start: int, stop: int, id_base: int) -> Run:
        """The messages from `start` up to but not including `stop`, as frames of their first delivery."""
        ids = message_ids(id_base, self.header.first_offset + start, stop - start)
        time_ns = self.header.time_ns
        if not self._has_ids:
            bodies = [self.body_at(index) for index in range(start, stop)]
            frames = b"".join([frame(time_ns, 1, one, body) for one, body in zip(ids, bodies, strict=True)])
            return Run(frames, ids, time_ns)
        ends = self._ends
        begin = ends[start - 1] if start else 0
        run = Run(self._frames[begin : ends[stop - 1]], ids, time_ns)
        run.set_sizes([end - before for before, end in zip([begin, *ends[start:stop]], ends[start:stop], strict=False)])
        return run


def decode_record(data: bytes, *, position: int, salt: int) -> Record:
    """The record whose bytes are `data`. Raises RecordLostError when neither header nor trailer can be trusted.

    While the CRC over the messages holds, no body is lost; with all copies of the table damaged, due times and keys are
    lost. Where it does not hold, each message's own CRC, from a copy of the table that holds, decides whether that
    message is lost.
    """
    header = parse_header(data, 0, position=position, salt=salt)
    if header is None:
        header = parse_trailer(data, len(data) - HEADER_BYTES, position=position, salt=salt)
    if header is None or header.size > len(data):
        raise RecordLostError(f"the record at {position} can't be trusted")
    messages_at = HEADER_BYTES + header.table_bytes
    messages_end = messages_at + header.messages_bytes
    table = data[HEADER_BYTES:messages_at]
    frames = data[messages_at:messages_end]
    table_holds = crc32c(table) == header.table_crc
    if not table_holds and header.version > 1:
        table = data[messages_end : messages_end + header.table_bytes]
        table_holds = crc32c(table) == header.table_crc
    frames_hold = crc32c(frames) == header.messages_crc
    count = header.count
    ends: Sequence[int]
    if not table_holds:
        if frames_hold:
            return Record(header, position, frames, _frame_ends(frames, count), dues=None, keys=None)
        # Without a table nothing separates good messages from damaged ones.
        empty = b"".join([frame(header.time_ns, 1, bytes(16), b"")] * count)
        ends = range(FRAME_HEADER_BYTES, FRAME_HEADER_BYTES * (count + 1), FRAME_HEADER_BYTES)
        all_indexes = frozenset(range(count))
        return Record(header, position, empty, ends, dues=None, keys=None, damaged=all_indexes)
    ends = _column("I", table[: 4 * count])
    at = 8 * count
    dues: Sequence[int] | None = None
    keys: list[bytes] | None = None
    if header.flags & HAS_DUE:
        dues = _column("q", table[at : at + 8 * count])
        at += 8 * count
    if header.flags & HAS_KEYS:
        key_ends = _column("I", table[at : at + 4 * count])
        at += 4 * count
        keys = [table[at + start : at + end] for start, end in zip([0, *key_ends], key_ends, strict=False)]
    if frames_hold:
        return Record(header, position, frames, ends, dues=dues, keys=keys)
    crcs = _column("I", table[4 * count : 8 * count])
    starts = [0, *ends]
    damaged = frozenset(
        index
        for index, end in enumerate(ends)
        if crc32c(frames[starts[index] + FRAME_HEADER_BYTES : end]) != crcs[index]
    )
    # Only the CRC over all messages covers the frames' own headers: ids and times are made anew.
    return Record(header, position, frames, ends, dues=dues, keys=keys, damaged=damaged, has_ids=False)


def _frame_ends(frames: bytes, count: int) -> list[int]:
    ends: list[int] = []
    end = 0
    for _ in range(count):
        end += int.from_bytes(frames[end : end + 4], "big") + 4
        ends.append(end)
    return ends


def new_id_base() -> int:
    """A random base for the ids of a new topic, so that two topics' ids do not meet. Never 0, which stands for no
    base."""
    return secrets.randbelow(ID_BASE_MAX - 1) + 1


def message_ids(id_base: int, first_offset: int, count: int) -> list[bytes]:
    """The ids of `count` messages from `first_offset` on: 16 hex digits of base + offset."""
    number = id_base + first_offset
    if count == 1:
        return [b"%016x" % number]
    ids: list[bytes] = []
    while count:
        at = number & 0xFFF
        piece = min(count, 0x1000 - at)
        prefix = b"%013x" % (number >> 12)
        ids += [prefix + suffix for suffix in _ID_SUFFIXES[at : at + piece]]
        number += piece
        count -= piece
    return ids


def offsets_of(ids: Sequence[bytes], id_base: int) -> list[int]:
    """The offsets of messages, by their ids."""
    if len(ids) == 1:
        return [int(ids[0], 16) - id_base]
    numbers = array("Q", bytes.fromhex(b"".join(ids).decode("ascii")))
    numbers.byteswap()
    return [number - id_base for number in numbers]


def ranges_of(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Offsets, each given once, as ranges (first, count), ascending."""
    first, count = offsets[0], len(offsets)
    if offsets[-1] - first == count - 1 and (count < 3 or (min(offsets) == first and max(offsets) == offsets[-1])):
        return [(first, count)]
    ranges: list[tuple[int, int]] = []
    length = 0
    for offset in sorted(offsets):
        if length and offset == first + length:
            length += 1
            continue
        if length:
            ranges.append((first, length))
        first, length = offset, 1
    ranges.append((first, length))
    return ranges
