"""The floors file: each channel's floor and cursor by the last merge, which index segments there are, and, after a
clean stop, how long the journals are and how many messages each channel has left.

    log/progress/floors

    | magic "PFLR" | version u8 = 3 | flags u8 | 2 zero | journal u64 | channels u32 | segments u32 | journals u32 |
      0              4                5          6        8             16             20             24
    | waiting u32 |
      28
    | channel u32 | floor u64 | cursor u64 | epoch u64 | …       channels
    | channel u32 | index u32 | settled u32 | …                 segments: how many offsets it has as settled
    | number u64 | bytes u64 | …                                journals, as the clean stop left them
    | channel u32 | end u64 | waiting u64 | …                   messages below offset `end` that were not finished then
    | CRC u32 |

Flag 1: written by a clean stop; without it there are no journals and nothing waits. Big-endian. `journal` is the number
of the first journal that a start replays over this. The CRC-32C covers all before it. A listed segment exists: it is
removed only after a floors file without it is on the disk. A segment that is not listed may exist, left by a merge that
did not end, and counts as well.

Version 2 has the same bytes: version 3 came with version 2 of the index segments. Version 1 has a header of 24 bytes,
| magic | version u8 | 3 zero | journal u64 | channels u32 | CRC u32 |, then the channels and nothing else; its CRC
covers all other bytes. To change the format: the next version number, with magic, version and flags where they are and
the CRC at the end; read every older version for ever. An unknown version stops the start.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from crc32c import crc32c

from queue_engine.vocabulary.errors import NewerFormatError

FLOORS_NAME = "floors"
VERSION = 3
_SAME_VERSION = 2
_MAGIC = b"PFLR"
_CLEAN = 1
_CRC_BYTES = 4
_header = struct.Struct(">4sBB2xQIIII")
_floor_entry = struct.Struct(">IQQQ")
_segment_entry = struct.Struct(">III")
_journal_entry = struct.Struct(">QQ")
_waiting_entry = struct.Struct(">IQQ")
_header_1 = struct.Struct(">4sB3xQI")
_COUNT_MAX = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class CleanStop:
    """journals: number → bytes, of all there were. waiting: channel → (offset, messages below it that were not
    finished)."""

    journals: Mapping[int, int]
    waiting: Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Floors:
    """journal: the first to be replayed. channels: number → (floor, cursor, epoch). segments: (channel, index) →
    how many offsets it has as settled. lists_segments: whether all that must exist are listed; version 1 lists none."""

    journal: int
    channels: Mapping[int, tuple[int, int, int]]
    segments: Mapping[tuple[int, int], int] = field(default_factory=dict)
    stop: CleanStop | None = None
    lists_segments: bool = True


def encode_floors(floors: Floors) -> bytes:
    stop = floors.stop
    journals = {} if stop is None else stop.journals
    waiting = {} if stop is None else stop.waiting
    parts = [
        _header.pack(
            _MAGIC,
            VERSION,
            0 if stop is None else _CLEAN,
            floors.journal,
            len(floors.channels),
            len(floors.segments),
            len(journals),
            len(waiting),
        )
    ]
    parts += [_floor_entry.pack(number, *entry) for number, entry in floors.channels.items()]
    parts += [_segment_entry.pack(*place, min(count, _COUNT_MAX)) for place, count in floors.segments.items()]
    parts += [_journal_entry.pack(*entry) for entry in journals.items()]
    parts += [_waiting_entry.pack(number, *entry) for number, entry in waiting.items()]
    content = b"".join(parts)
    return content + crc32c(content).to_bytes(_CRC_BYTES, "big")


def decode_floors(data: bytes, path: str = "") -> Floors | None:
    """Returns None when the checksum does not match. Raises StorageError for an unknown version."""
    content, crc = data[:-_CRC_BYTES], data[-_CRC_BYTES:]
    holds = len(data) > _header_1.size and crc32c(content).to_bytes(_CRC_BYTES, "big") == crc
    if not holds or content[:4] != _MAGIC:
        return _decode_1(data)
    if content[4] not in (_SAME_VERSION, VERSION):
        raise NewerFormatError(path, content[4], VERSION)
    _, _, flags, journal, *counts = _header.unpack_from(content)
    tables: list[Iterable[tuple[int, ...]]] = []
    at = _header.size
    for entry, count in zip((_floor_entry, _segment_entry, _journal_entry, _waiting_entry), counts, strict=True):
        end = at + entry.size * count
        tables.append(list(entry.iter_unpack(content[at:end])))
        at = end
    channels, segments, journals, waiting = tables
    stop = None
    if flags & _CLEAN:
        stop = CleanStop(
            {number: size for number, size in journals},  # noqa: C416
            {number: (end, count) for number, end, count in waiting},
        )
    return Floors(
        journal,
        {number: (floor, cursor, epoch) for number, floor, cursor, epoch in channels},
        {(channel, index): count for channel, index, count in segments},
        stop,
    )


def _decode_1(data: bytes) -> Floors | None:
    at = _header_1.size + _CRC_BYTES
    header, crc, rest = data[: at - _CRC_BYTES], data[at - _CRC_BYTES : at], data[at:]
    if len(data) < at or crc32c(rest, crc32c(header)).to_bytes(_CRC_BYTES, "big") != crc:
        return None
    magic, version, journal, count = _header_1.unpack(header)
    if (magic, version) != (_MAGIC, 1) or len(rest) != count * _floor_entry.size:
        return None
    entries = _floor_entry.iter_unpack(rest)
    return Floors(
        journal, {number: (floor, cursor, epoch) for number, floor, cursor, epoch in entries}, lists_segments=False
    )
