"""How far the key index is whole. A start reads it instead of the log.

    log/keys/state                                              big-endian

    | magic "PKXS" | version u8 = 1 | 3 zero | position u64 | present u32 | missing u32 | 36 zero | CRC u32 |
      0              4                5        8              16            20            24        60
    | topic number u32 | first offset u64 | end offset u64 |    ranges: the present ones, then the missing ones
    | CRC u32 |                                                 over all ranges, begun with the header's CRC

`present` are the ranges of offsets that have files of keys, `missing` those that are to be made anew. All other
messages whose records lie before `position` in the log have no key. The file is replaced as a whole. Without it, or
where it is damaged, every offset that has no file of keys is read from the log again.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crc32c import crc32c

from queue_engine.storage.key_index.offset_ranges import Range
from queue_engine.vocabulary.errors import NewerFormatError

STATE_NAME = "state"
VERSION = 1  # of this file and of the files of keys
HEADER_BYTES = 64
_MAGIC = b"PKXS"
_header = struct.Struct(">4sB3xQII36x")
_row = struct.Struct(">IQQ")

Ranges = Mapping[int, Sequence[Range]]  # by topic number


@dataclass(frozen=True, slots=True)
class KeyState:
    position: int
    present: Ranges = field(default_factory=dict)
    missing: Ranges = field(default_factory=dict)


def encode_state(state: KeyState) -> bytes:
    present, missing = _rows(state.present), _rows(state.missing)
    header = _header.pack(_MAGIC, VERSION, state.position, len(present), len(missing))
    crc = crc32c(header)
    rows = b"".join([*present, *missing])
    return b"".join([header, crc.to_bytes(4, "big"), rows, crc32c(rows, crc).to_bytes(4, "big")])


def _rows(ranges: Ranges) -> list[bytes]:
    return [_row.pack(number, *one) for number in sorted(ranges) for one in ranges[number]]


def decode_state(data: bytes, path: str = STATE_NAME) -> KeyState | None:
    """None when the file is damaged. Raises NewerFormatError."""
    header = data[: HEADER_BYTES - 4]
    crc = crc32c(header)
    if len(data) < HEADER_BYTES or crc.to_bytes(4, "big") != data[HEADER_BYTES - 4 : HEADER_BYTES]:
        return None
    magic, version, position, present_count, missing_count = _header.unpack(header)
    if magic == _MAGIC and version > VERSION:
        raise NewerFormatError(path, version, VERSION)
    rows = data[HEADER_BYTES:-4]
    if magic != _MAGIC or len(rows) != _row.size * (present_count + missing_count):
        return None
    if crc32c(rows, crc).to_bytes(4, "big") != data[-4:]:
        return None
    present: dict[int, list[Range]] = {}
    missing: dict[int, list[Range]] = {}
    for index, (number, first, end) in enumerate(_row.iter_unpack(rows)):
        (present if index < present_count else missing).setdefault(number, []).append((first, end))
    return KeyState(position, present, missing)
