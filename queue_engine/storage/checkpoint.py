"""The checkpoint: from where on the log has to be read after a start, and what the consume queues know below that.

    log/checkpoint

    | magic "PCKP" | version u8 = 1 | flags u8 | 2 zero | position u64 | durable upto u64 | last time i64 | topics u32 |
      0              4                5          6        8              16                 24              32
    | CRC u32 |
      36
    | topic u32 | gaps u32 | oldest offset u64 | end offset u64 | first offset of a gap u64 | count u64 | … | topic …

Big-endian. Flag 1: there is a file of batch keys (`batch_keys.py`), and its absence is a loss. The CRC is CRC-32C over
all other bytes. All below `position`, a record's place, is synced: in the log, the consume queues and the batch keys.
(RocketMQ's StoreCheckpoint is the model: the least of the synced positions.) It is derived: without it, or where it
disagrees with what is there, the whole log is read and the consume queues are made anew.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from crc32c import crc32c

CHECKPOINT_NAME = "checkpoint"
VERSION = 1
_MAGIC = b"PCKP"
_header = struct.Struct(">4sBB2xQQqI")
_topic = struct.Struct(">IIQQ")
_gap = struct.Struct(">QQ")
_CRC_BYTES = 4
_HAS_BATCH_KEYS = 1


@dataclass(frozen=True, slots=True)
class QueueState:
    """What a consume queue has in its files. gaps: (first, count), ascending, that begin below `end_offset`."""

    oldest_offset: int
    end_offset: int
    gaps: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """position, durable_upto: of the log. last_time_ns: of its records, Unix. queues: by topic number."""

    position: int
    durable_upto: int
    last_time_ns: int
    queues: Mapping[int, QueueState]
    has_batch_keys: bool = False


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    header = _header.pack(
        _MAGIC,
        VERSION,
        _HAS_BATCH_KEYS if checkpoint.has_batch_keys else 0,
        checkpoint.position,
        checkpoint.durable_upto,
        checkpoint.last_time_ns,
        len(checkpoint.queues),
    )
    parts: list[bytes] = []
    for number, state in checkpoint.queues.items():
        parts.append(_topic.pack(number, len(state.gaps), state.oldest_offset, state.end_offset))
        parts += [_gap.pack(*gap) for gap in state.gaps]
    rest = b"".join(parts)
    return header + crc32c(rest, crc32c(header)).to_bytes(_CRC_BYTES, "big") + rest


def decode_checkpoint(data: bytes) -> Checkpoint | None:
    """None when the bytes are not what was written."""
    start = _header.size + _CRC_BYTES
    header, crc, rest = data[: _header.size], data[_header.size : start], data[start:]
    if len(data) < start or crc32c(rest, crc32c(header)).to_bytes(_CRC_BYTES, "big") != crc:
        return None
    magic, version, flags, position, durable_upto, last_time_ns, count = _header.unpack(header)
    if (magic, version) != (_MAGIC, VERSION):
        return None
    queues: dict[int, QueueState] = {}
    at = 0
    try:
        for _ in range(count):
            number, gap_count, oldest_offset, end_offset = _topic.unpack_from(rest, at)
            at += _topic.size
            gaps = tuple(_gap.unpack_from(rest, at + index * _gap.size) for index in range(gap_count))
            at += gap_count * _gap.size
            queues[number] = QueueState(oldest_offset, end_offset, gaps)
    except struct.error:
        return None
    if at != len(rest):
        return None
    return Checkpoint(position, durable_upto, last_time_ns, queues, bool(flags & _HAS_BATCH_KEYS))
