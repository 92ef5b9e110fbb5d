"""One file of a topic's key index: hash slots, and the entries of each slot.

    log/keys/NUMBER/FIRST-END-COUNT.keys     NUMBER is the topic's; the file has the COUNT keys of the offsets
                                             from FIRST up to but not including END
    | header 64 | slot × (slots + 1) | entry × count |                             all numbers are big-endian

    header
     0 magic "PKIX"         8 topic number u32         24 END u64
     4 version u8 = 1      12 entries u32              32 base u64: the least offset of an entry
     5 slot bits u8        16 FIRST u64                40 20 zero
     6 2 zero                                          60 CRC u32, over all before it

    slot      | number of its first entry u32 | CRC u32 |     2 ^ slot bits of them, and one more for the end
    entry     | hash u32 | offset - base u32 |                ascending

A key's hash is 1 in bit 29 and the low 29 bits of its CRC-32C; the highest of these bits are its slot's number. A
slot's CRC is that of its number, its first entry's number and the next slot's (u32 each), then its entries, begun with
the header's CRC: a look-up reads two slots and the entries between them, and believes nothing else. (The idea is
RocketMQ's IndexFile. Its entries are chained, so that they can be written one by one; these files are written as a
whole and never change. RocketMQ's entries have the time, too; here offsets are in the order of time.)

To change the format: the next version number, here and in `key_state.py`, whose version a start checks first.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

from crc32c import crc32c

VERSION = 1
HEADER_BYTES = 64
SLOT_BYTES = 8
ENTRY_BYTES = 8
SUFFIX = ".keys"
# Entries of a slot, about: so many are read for one look-up.
SLOT_ENTRIES = 256
DELTA_MAX = (1 << 32) - 1

_MAGIC = b"PKIX"
_HASH_BITS = 29
_HASH_MASK = (1 << _HASH_BITS) - 1
_HASH_ONE = 1 << _HASH_BITS
_header = struct.Struct(">4sBB2xIIQQQ20x")
_slot = struct.Struct(">II")
_bind = struct.Struct(">III").pack


class KeyFileDamagedError(Exception):
    """The bytes read from a file of keys can't be trusted."""


class KeyFileHead(NamedTuple):
    """The header's fields. first, end: offsets; `end` is excluded. crc: the header's own."""

    number: int
    first: int
    end: int
    base: int
    entry_count: int
    slot_bits: int
    crc: int

    @property
    def entries_at(self) -> int:
        return HEADER_BYTES + SLOT_BYTES * ((1 << self.slot_bits) + 1)

    def slot_of(self, hash_: int) -> int:
        return (hash_ & _HASH_MASK) >> (_HASH_BITS - self.slot_bits)


def hash_of(key: bytes) -> int:
    """The hash that entries have."""
    return (crc32c(key) & _HASH_MASK) | _HASH_ONE


def file_name(first: int, end: int, entry_count: int) -> str:
    return f"{first:020d}-{end:020d}-{entry_count}{SUFFIX}"


def range_of_name(name: str) -> tuple[int, int, int] | None:
    """(first, end, entries) of a file by its name; None for another name."""
    parts = name.removesuffix(SUFFIX).split("-")
    if not name.endswith(SUFFIX) or len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    first, end, entry_count = map(int, parts)
    return (first, end, entry_count) if file_name(first, end, entry_count) == name and first < end else None


def encode_key_file(number: int, first: int, end: int, base: int, parts: Iterable["array[int]"]) -> bytes:
    """The content of a file. parts: its entries, ascending over all of them."""
    entries = array("Q")
    for part in parts:
        entries += part
    count = len(entries)
    slot_bits = min(max(0, count.bit_length() - SLOT_ENTRIES.bit_length() + 1), _HASH_BITS)
    fields = _header.pack(_MAGIC, VERSION, slot_bits, number, count, first, end, base)
    header_crc = crc32c(fields)
    shift = _HASH_BITS - slot_bits + 32
    bound = _HASH_ONE << 32
    starts = [bisect_left(entries, bound + (slot << shift)) for slot in range(1 << slot_bits)]
    starts.append(count)
    entries.byteswap()
    data = memoryview(entries.tobytes())
    table = [
        _slot.pack(start, _slot_crc(header_crc, slot, start, stop, data[start * ENTRY_BYTES : stop * ENTRY_BYTES]))
        for slot, (start, stop) in enumerate(pairwise(starts))
    ]
    table.append(_slot.pack(count, 0))
    return b"".join([fields, header_crc.to_bytes(4, "big"), *table, data])


def _slot_crc(header_crc: int, slot: int, start: int, stop: int, entries: bytes | memoryview) -> int:
    return crc32c(entries, crc32c(_bind(slot, start, stop), header_crc))


def decode_head(data: bytes) -> KeyFileHead:
    """The header. Raises KeyFileDamagedError when it can't be trusted, or has an unknown version."""
    if len(data) < HEADER_BYTES or crc32c(data[: HEADER_BYTES - 4]).to_bytes(4, "big") != data[60:HEADER_BYTES]:
        raise KeyFileDamagedError("its header is damaged")
    magic, version, slot_bits, number, count, first, end, base = _header.unpack(data[: HEADER_BYTES - 4])
    if magic != _MAGIC or version != VERSION or slot_bits > _HASH_BITS:
        raise KeyFileDamagedError(f"it has format version {version}")
    return KeyFileHead(number, first, end, base, count, slot_bits, crc32c(data[: HEADER_BYTES - 4]))


def read_slot(head: KeyFileHead, slot: int, read: Callable[[int, int], bytes]) -> "array[int]":
    """The entries of a slot. read: (at, size) → bytes of the file. Raises KeyFileDamagedError, and the errors of
    `read`."""
    pair = read(HEADER_BYTES + SLOT_BYTES * slot, 2 * SLOT_BYTES)
    if len(pair) < 2 * SLOT_BYTES:
        raise KeyFileDamagedError("its slots are cut off")
    start, crc = _slot.unpack(pair[:SLOT_BYTES])
    stop, _ = _slot.unpack(pair[SLOT_BYTES:])
    if not start <= stop <= head.entry_count:
        raise KeyFileDamagedError(f"slot {slot} is damaged")
    data = read(head.entries_at + ENTRY_BYTES * start, ENTRY_BYTES * (stop - start)) if start < stop else b""
    return _checked(head, slot, start, stop, crc, data)


def _checked(head: KeyFileHead, slot: int, start: int, stop: int, crc: int, data: bytes | memoryview) -> "array[int]":
    if len(data) != ENTRY_BYTES * (stop - start) or _slot_crc(head.crc, slot, start, stop, data) != crc:
        raise KeyFileDamagedError(f"slot {slot} is damaged")
    entries = array("Q", bytes(data))
    entries.byteswap()
    return entries


def offsets_in(head: KeyFileHead, entries: "array[int]", hash_: int) -> list[int]:
    """The offsets of the entries with this hash, ascending."""
    at = bisect_left(entries, hash_ << 32)
    stop = bisect_left(entries, (hash_ + 1) << 32, at)
    return [head.base + (entry & DELTA_MAX) for entry in entries[at:stop]]


def read_slots(head: KeyFileHead, first_slot: int, slot_count: int, read: Callable[[int, int], bytes]) -> "array[int]":
    """The entries of several slots that follow each other, each checked. Raises as `read_slot`."""
    table = read(HEADER_BYTES + SLOT_BYTES * first_slot, SLOT_BYTES * (slot_count + 1))
    if len(table) < SLOT_BYTES * (slot_count + 1):
        raise KeyFileDamagedError("its slots are cut off")
    slots = list(_slot.iter_unpack(table))
    begin, finish = slots[0][0], slots[-1][0]
    if not begin <= finish <= head.entry_count:
        raise KeyFileDamagedError(f"slot {first_slot} is damaged")
    data = memoryview(read(head.entries_at + ENTRY_BYTES * begin, ENTRY_BYTES * (finish - begin)))
    for index in range(slot_count):
        (start, crc), (stop, _) = slots[index], slots[index + 1]
        if not begin <= start <= stop <= finish:
            raise KeyFileDamagedError(f"slot {first_slot + index} is damaged")
        piece = data[(start - begin) * ENTRY_BYTES : (stop - begin) * ENTRY_BYTES]
        if len(piece) != ENTRY_BYTES * (stop - start) or (
            _slot_crc(head.crc, first_slot + index, start, stop, piece) != crc
        ):
            raise KeyFileDamagedError(f"slot {first_slot + index} is damaged")
    entries = array("Q", bytes(data))
    entries.byteswap()
    return entries


def rebased(entries: "array[int]", shift: int) -> "array[int]":
    """The same entries of a base that is less by `shift`; no offset may lie 2^32 or more behind it."""
    if not shift or not entries:
        return entries
    # One addition of long numbers, of which each entry is a digit: no digit overflows.
    digits = int.from_bytes(shift.to_bytes(8, "little") * len(entries), "little")
    moved = int.from_bytes(entries.tobytes(), "little") + digits
    return array("Q", moved.to_bytes(8 * len(entries), "little"))
