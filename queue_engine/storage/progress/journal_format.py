"""The progress journal's bytes: deliveries, FINs and acts of all channels, in their order.

    log/progress/00000012.journal

    | magic "PJRN" | version u8 = 2 | 3 zero | number u64 | salt u64 | 4 zero | CRC u32 |      32 bytes
      0              4                5        8            16         24       28
    | entry bytes u32 | CRC u32 | entries …      one block for each write

    entry, 32 bytes:  | op u8 | reason | made u16 | channel u32 | first offset u64 | count u64 | value i64 |
                        0       1        2          4             8                  16          24

    op            first, count                 value
    1 deliver     offsets that were sent       made: deliveries with this one
    2 ack         offsets that are settled
    3 requeue     offsets that wait again
    4 defer       offsets that are deferred    due, Unix ns, 0 at once; made: deliveries so far
    5 empty       all below first is settled
    6 seek        first is the new cursor      epoch
    7 durable     journal number `first` was on the disk up to its byte `count` when this was written
    8 snapshot    all entries before it, in this or any other file, are void: each channel's progress follows
    9 quarantine  offset; its body's bytes     since when, Unix ns; made: deliveries so far; reason: `ReturnReason`
    10 redrive    offset, 1                    made: deliveries that count from here on; it waits, at once

7 and 8 have channel 0; all but 9 have reason 0. Version 1 has neither 9 nor 10. Big-endian. The header's CRC-32C covers
all before it, a block's covers the journal's number and salt, the block's place in the file (u64 each) and its entries.
So each block is trusted or not by itself, and those behind a damaged one are found: a block begins at a multiple of 8.
An invalid block is damage where a `durable`, or the floors of a clean stop, states that its place was on the disk;
elsewhere it is a write that was not finished.

To change the format: the next version number, with magic, version and CRC at the same places of the header; read every
older version for ever. An unknown version stops the start.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from crc32c import crc32c

from queue_engine.storage.progress.channel_progress import ChannelProgress, Quarantined
from queue_engine.vocabulary.errors import NewerFormatError

VERSION = 2
FIRST_VERSION = 1
_MAGIC = b"PJRN"
HEADER_BYTES = 32
BLOCK_HEADER_BYTES = 8
ENTRY_BYTES = 32
PART_ENTRIES = 200

DELIVER = 1
ACK = 2
REQUEUE = 3
DEFER = 4
EMPTY = 5
SEEK = 6
DURABLE = 7
SNAPSHOT = 8
QUARANTINE = 9
REDRIVE = 10
_OPS = frozenset(range(DELIVER, REDRIVE + 1))

_header = struct.Struct(">4sB3xQQ4x")
_block_header = struct.Struct(">II")
_place = struct.Struct(">QQQ")
_entry = struct.Struct(">BBHIQQq")
pack_entry = struct.Struct(">BxHIQQq").pack  # op, made, channel, first, count, value


class Entry(NamedTuple):
    op: int
    reason: int
    made: int
    channel: int
    first: int
    amount: int
    value: int


def encode_header(number: int, salt: int) -> bytes:
    header = _header.pack(_MAGIC, VERSION, number, salt)
    return header + crc32c(header).to_bytes(4, "big")


def encode_block(entries: list[bytes], *, number: int, salt: int, at: int) -> bytes:
    """The block that is written at byte `at` of the file."""
    data = b"".join(entries)
    return _block_header.pack(len(data), crc32c(data, crc32c(_place.pack(number, salt, at)))) + data


@dataclass(slots=True)
class JournalContent:
    """A journal's content. entries: of all valid blocks, in order. first_hole: where the first damaged block begins;
    the journal's end when all are valid, 0 when the header is damaged. hole_bytes: of damaged blocks before a valid
    one. end: behind the last valid block. salt: of the header. is_header_whole: whether the header is valid."""

    entries: list[Entry] = field(default_factory=list)
    first_hole: int = 0
    hole_bytes: int = 0
    end: int = HEADER_BYTES
    salt: int = 0
    is_header_whole: bool = False

    @property
    def is_snapshot(self) -> bool:
        return bool(self.entries) and self.entries[0].op == SNAPSHOT


def read_journal(data: bytes, number: int, path: str = "") -> JournalContent:
    """The content of journal `number`, whose file at `path` has the bytes `data`. Raises StorageError for an unknown
    version."""
    content = JournalContent()
    header = data[: HEADER_BYTES - 4]
    if len(header) < HEADER_BYTES - 4:
        return content
    magic, version, its_number, content.salt = _header.unpack(header)
    holds = crc32c(header).to_bytes(4, "big") == data[HEADER_BYTES - 4 : HEADER_BYTES]
    if holds and magic == _MAGIC and not FIRST_VERSION <= version <= VERSION:
        raise NewerFormatError(path, version, VERSION)
    content.is_header_whole = holds and (magic, its_number) == (_MAGIC, number)
    if content.is_header_whole:
        content.first_hole = HEADER_BYTES
    # Where the header is damaged, valid blocks confirm its salt.
    at = HEADER_BYTES
    while at + BLOCK_HEADER_BYTES <= len(data):
        size = _block_at(data, at, number, content.salt)
        if not size:
            found = _next_block(data, at + 8, number, content.salt)
            if found is None:
                break
            content.hole_bytes += found - at
            at = found
            continue
        block = data[at + BLOCK_HEADER_BYTES : at + BLOCK_HEADER_BYTES + size]
        content.entries += map(Entry._make, _entry.iter_unpack(block))
        at += BLOCK_HEADER_BYTES + size
        if not content.hole_bytes and content.is_header_whole:
            content.first_hole = at
        content.end = at
    return content


def _block_at(data: bytes, at: int, number: int, salt: int) -> int:
    """The bytes of entries in the block at `at`, 0 when there is no valid one."""
    size: int
    size, crc = _block_header.unpack_from(data, at)
    start = at + BLOCK_HEADER_BYTES
    if not size or size % ENTRY_BYTES or size > len(data) - start or data[start] not in _OPS:
        return 0
    return size if crc32c(data[start : start + size], crc32c(_place.pack(number, salt, at))) == crc else 0


def _next_block(data: bytes, at: int, number: int, salt: int) -> int | None:
    """Where the next valid block begins."""
    for place in range(at, len(data) - BLOCK_HEADER_BYTES - ENTRY_BYTES + 1, BLOCK_HEADER_BYTES):
        if _block_at(data, place, number, salt):
            return place
    return None


def durable_upto(entries: Iterable[Entry]) -> dict[int, int]:
    """Journal number → the byte up to which it was on the disk, by these entries."""
    durable: dict[int, int] = {}
    for entry in entries:
        if entry.op == DURABLE:
            durable[entry.first] = max(durable.get(entry.first, 0), entry.amount)
    return durable


def pack_durable(number: int, upto: int) -> bytes:
    return pack_entry(DURABLE, 0, 0, number, upto, 0)


def pack_quarantine(channel: int, offset: int, made: int, quarantined: Quarantined) -> bytes:
    since_ns, reason, body_bytes = quarantined
    return _entry.pack(QUARANTINE, reason, made, channel, offset, body_bytes, since_ns)


def pack_snapshot(channels: Iterable[tuple[int, ChannelProgress]]) -> Iterator[bytes]:
    """The entries that set every channel's progress, replayed over any other."""
    yield pack_entry(SNAPSHOT, 0, 0, 0, 0, 0)
    for channel, progress in channels:
        yield from pack_progress(channel, progress)


def pack_progress(channel: int, progress: ChannelProgress) -> Iterator[bytes]:
    """The entries that set one channel's progress, whatever it was before."""
    floor, cursor = progress.floor, progress.cursor
    yield pack_entry(SEEK, 0, channel, floor, 0, progress.epoch)
    # In one pass: a caller that takes an entry with each step waits for no second look at all the pages.
    for first, count, made in progress.marks_between(floor, cursor):
        if made is None:
            yield pack_entry(ACK, 0, channel, first, count, 0)
        else:
            yield pack_entry(DELIVER, made, channel, first, count, 0)
    for offset, due_ns in progress.deferred.items():
        yield pack_entry(DEFER, 0, channel, offset, 1, due_ns)
    for offset, quarantined in progress.quarantined.items():
        yield pack_quarantine(channel, offset, 0, quarantined)


def pack_in_parts(channel: int, progress: ChannelProgress) -> Iterator[bytes]:
    """The same, some entries at a time: a step of an act packs a part, and joins it, since joining millions of entries
    takes as long as packing them."""
    entries = pack_progress(channel, progress)
    while part := list(islice(entries, PART_ENTRIES)):
        yield b"".join(part)


def unpack_entry(packed: bytes) -> Entry:
    return Entry(*_entry.unpack(packed))


def of_channel(packed: bytes, channel: int) -> bytes:
    """The same entry of another channel."""
    entry = unpack_entry(packed)
    return _entry.pack(*entry._replace(channel=channel))


def places_of(packed: bytes) -> tuple[int, int]:
    """(first offset, count) of an entry on messages."""
    entry = unpack_entry(packed)
    return entry.first, 1 if entry.op == QUARANTINE else entry.amount


def apply(entry: Entry, progress: ChannelProgress) -> None:
    """Apply an entry to a channel's progress."""
    op, reason, made, _, first, count, value = entry
    if op == DELIVER:
        progress.delivered(first, count, made)
    elif op == ACK:
        progress.settled(first, count)
    elif op == REQUEUE:
        progress.requeued(first, count)
    elif op == DEFER:
        progress.deferred_until(first, count, made, value)
    elif op == EMPTY:
        progress.emptied(first)
    elif op == SEEK:
        progress.sought(first, value)
    elif op == QUARANTINE:
        progress.quarantine(first, made, Quarantined(value, reason, count))
    elif op == REDRIVE:
        progress.redriven(first, made)
