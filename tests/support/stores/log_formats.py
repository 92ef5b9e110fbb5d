"""The log's older formats, written as the versions of Penstock that had them wrote them."""

import struct
from collections.abc import Sequence
from itertools import accumulate

from crc32c import crc32c

from queue_engine.vocabulary.run import Batch

_FIELDS = struct.Struct(">BBHIIQqQ16sIIIII")


def segment_header_v1(position: int, segment_bytes: int, salt: int, created_ns: int) -> bytes:
    """The beginning of a segment of version 1: one header, and the first record behind it."""
    header = struct.pack(">4sB3xQQQq20x", b"PSEG", 1, position, salt, segment_bytes, created_ns)
    return header + crc32c(header).to_bytes(4, "big")


def record_v1(
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
    keys: Sequence[bytes] | None = None,
) -> list[bytes]:
    """A record of version 1, with the arguments of `encode_record`: the table stands in it once."""
    count = len(batch.ids)
    frames = batch.run().frames
    table = struct.pack(f">{count}I", *accumulate(size + 34 for size in batch.body_sizes))
    table += struct.pack(f">{count}I", *map(crc32c, batch.bodies))
    if dues_ns is not None:
        flags |= 1
        table += struct.pack(f">{count}q", *dues_ns)
    if keys is not None:
        flags |= 2
        table += struct.pack(f">{count}I", *accumulate(map(len, keys))) + b"".join(keys)
    own = _FIELDS.pack(
        1,
        1,
        flags | (16 if batch_key else 0),
        topic_number,
        count,
        first_offset,
        batch.timestamp_ns,
        durable_upto,
        batch_key or bytes(16),
        len(table),
        len(frames),
        crc32c(table),
        crc32c(frames),
        0,
    )
    own += _crc(own, position, salt)
    return [b"PREC" + own + table, frames, b"PTRL" + own]


def seal_v1(*, position: int, salt: int, durable_upto: int, time_ns: int) -> bytes:
    own = _FIELDS.pack(1, 2, 0, 0, 0, 0, time_ns, durable_upto, bytes(16), 0, 0, 0, 0, 0)
    own += _crc(own, position, salt)
    return b"PREC" + own + b"PTRL" + own


def _crc(fields: bytes, position: int, salt: int) -> bytes:
    return crc32c(fields, crc32c(struct.pack(">QQ", salt, position))).to_bytes(4, "big")
