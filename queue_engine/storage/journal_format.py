"""The progress journal's bytes: what channels did, in the order they did it.

    log/progress/00000012.journal

    | magic "PJRN" | version u8 = 1 | 3 zero | number u64 | salt u64 | 4 zero | CRC u32 |      32 bytes
      0              4                5        8            16         24       28
    | entry bytes u32 | CRC u32 | entries …      one block for each write

    entry, 32 bytes:  | op u8 | 1 zero | made u16 | channel u32 | first offset u64 | count u64 | value i64 |
                        0       1        2          4             8                  16          24

    op            first, count                 value
    1 deliver     what was sent                made: deliveries with this one
    2 ack         what is settled
    3 requeue     what waits again
    4 defer       what waits for a time        due, Unix ns, 0 at once; made: deliveries so far
    5 empty       all below first is settled
    6 seek        first is the new place       epoch

Big-endian. The header's CRC-32C covers all before it, a block's covers the journal's number and salt, the block's place
in the file (u64 each) and its entries. The first block that does not hold ends the journal.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from queue_engine.storage.channel_progress import ChannelProgress

VERSION = 1
_MAGIC = b"PJRN"
HEADER_BYTES = 32
BLOCK_HEADER_BYTES = 8
ENTRY_BYTES = 32

DELIVER = 1
ACK = 2
REQUEUE = 3
DEFER = 4
EMPTY = 5
SEEK = 6

_header = struct.Struct(">4sB3xQQ4x")
_block_header = struct.Struct(">II")
_place = struct.Struct(">QQQ")
_entry = struct.Struct(">BxHIQQq")
pack_entry = _entry.pack  # op, made, channel, first, count, value


class Entry(NamedTuple):
    op: int
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


def read_entries(data: bytes, number: int) -> Iterator[Entry]:
    """The entries of journal `number` whose file holds `data`, up to the first block that does not hold."""
    header = data[: HEADER_BYTES - 4]
    if len(header) < HEADER_BYTES - 4 or crc32c(header).to_bytes(4, "big") != data[HEADER_BYTES - 4 : HEADER_BYTES]:
        return
    magic, version, its_number, salt = _header.unpack(header)
    if (magic, version, its_number) != (_MAGIC, VERSION, number):
        return
    at = HEADER_BYTES
    while at + BLOCK_HEADER_BYTES <= len(data):
        size, crc = _block_header.unpack_from(data, at)
        block = data[at + BLOCK_HEADER_BYTES : at + BLOCK_HEADER_BYTES + size]
        if not size or size % ENTRY_BYTES or len(block) < size:
            return
        if crc32c(block, crc32c(_place.pack(number, salt, at))) != crc:
            return
        for fields in _entry.iter_unpack(block):
            yield Entry(*fields)
        at += BLOCK_HEADER_BYTES + size


def apply(entry: Entry, progress: ChannelProgress) -> None:
    """Let a channel's progress go through what an entry tells."""
    op, made, _, first, count, value = entry
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
