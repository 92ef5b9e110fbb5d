"""The checkpoint: the position from which a start reads the log, and the state of the consume queues below it.

    log/checkpoint

    | magic "PCKP" | version u8 = 2 | flags u8 | queues' version u8 = 1 | zero | position u64 | durable upto u64 |
      0              4                5          6                        7      8              16
    | last time i64 | topics u32 |
      24              32
    | first position u64 | CRC u32 |
      36                   44
    | topic u32 | gaps u32 | oldest offset u64 | end offset u64 | first offset of a gap u64 | count u64 | … | topic …

Big-endian. Flag 1: there is a file of batch keys (`batch_keys.py`), and its absence is a loss. The CRC is CRC-32C over
all other bytes. All below `position`, a record's place, is synced: in the log, the consume queues and the batch keys.
(RocketMQ's StoreCheckpoint is the model: the least of the synced positions.) The checkpoint is derived: without it, or
where it disagrees with the files, a start reads the whole log and rebuilds the consume queues.

The consume queues have no room for a version of their own: they are read only where a checkpoint vouches for them, and
`queues' version` is theirs (0, as in version 1, means 1).

`first position` is where the log begins. It is on the disk before segments below it are removed. So a start reports a
segment that is missing behind it as a loss. When it can't be written, the checkpoint is removed before the segments
are. Version 1 ends its header before it, with the CRC at 36.

To change the format: the next version number, go on reading the old ones, keep their files in
`tests/storage/fixtures/`; magic, version and CRC stay where they are. An unknown version stops the start, though all of
this is derived: the rest of the directory was written by that version, too.
"""

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace

from crc32c import crc32c

from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import NewerFormatError

CHECKPOINT_NAME = "checkpoint"
VERSION = 2
_MAGIC = b"PCKP"
QUEUES_VERSION = 1
_header = struct.Struct(">4sBBBxQQqIQ")
_header_v1 = struct.Struct(">4sBBBxQQqI")
_FILE_BYTES_MAX = 1 << 30
_topic = struct.Struct(">IIQQ")
_gap = struct.Struct(">QQ")
_CRC_BYTES = 4
_UNKNOWN = (1 << 64) - 1  # an unknown first position
_HAS_BATCH_KEYS = 1


@dataclass(frozen=True, slots=True)
class QueueState:
    """The content of a consume queue's files. gaps: (first, count), ascending, that begin below `end_offset`."""

    oldest_offset: int
    end_offset: int
    gaps: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """position, durable_upto: of the log. last_time_ns: of its records, Unix. queues: by topic number. first_position:
    where the log begins; None when the checkpoint does not say."""

    position: int
    durable_upto: int
    last_time_ns: int
    queues: Mapping[int, QueueState]
    has_batch_keys: bool = False
    first_position: int | None = None


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    header = _header.pack(
        _MAGIC,
        VERSION,
        _HAS_BATCH_KEYS if checkpoint.has_batch_keys else 0,
        QUEUES_VERSION,
        checkpoint.position,
        checkpoint.durable_upto,
        checkpoint.last_time_ns,
        len(checkpoint.queues),
        _UNKNOWN if checkpoint.first_position is None else checkpoint.first_position,
    )
    parts: list[bytes] = []
    for number, state in checkpoint.queues.items():
        parts.append(_topic.pack(number, len(state.gaps), state.oldest_offset, state.end_offset))
        parts += [_gap.pack(*gap) for gap in state.gaps]
    rest = b"".join(parts)
    return header + crc32c(rest, crc32c(header)).to_bytes(_CRC_BYTES, "big") + rest


def decode_checkpoint(data: bytes) -> Checkpoint | None:
    """Returns None when a checksum does not match. Raises NewerFormatError."""
    if data[:4] != _MAGIC:
        return None
    layout = _header_v1 if data[4:5] == b"\x01" else _header
    start = layout.size + _CRC_BYTES
    header, crc, rest = data[: layout.size], data[layout.size : start], data[start:]
    if len(data) < start or crc32c(rest, crc32c(header)).to_bytes(_CRC_BYTES, "big") != crc:
        return None
    _, version, flags, queues_version, position, durable_upto, last_time_ns, count, *first = layout.unpack(header)
    if version > VERSION:
        raise NewerFormatError("the checkpoint", version, VERSION)
    if queues_version > QUEUES_VERSION:
        raise NewerFormatError("the consume queues beside the checkpoint", queues_version, QUEUES_VERSION)
    if not version:
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
    first_position = first[0] if first and first[0] != _UNKNOWN else None
    return Checkpoint(position, durable_upto, last_time_ns, queues, bool(flags & _HAS_BATCH_KEYS), first_position)


def read_checkpoint(files: Files, directory: str) -> Checkpoint | None:
    """The checkpoint that the last process wrote; None when it is missing or damaged. Raises OSError and
    NewerFormatError."""
    path = os.path.join(directory, CHECKPOINT_NAME)
    try:
        return decode_checkpoint(files.read_whole(path, _FILE_BYTES_MAX) or b"")
    except NewerFormatError as exc:
        raise NewerFormatError(f"{exc.part} {path}", exc.version, exc.newest) from exc


def write_first_position(
    files: Files, directory: str, first_position: int, oldest_offsets: Mapping[int, int]
) -> bytes | None:
    """Write a checkpoint whose log begins at `first_position`, before the segments below are removed. Runs on the
    worker thread, as every write of the checkpoint. When the disk refuses, the old checkpoint is removed, and the
    content is returned, to be written when there is room. Raises OSError.

    oldest_offsets: of the topics' consume queues, by topic number, after the removal.
    """
    checkpoint = read_checkpoint(files, directory)
    if checkpoint is None:
        return None
    queues = {
        number: trimmed(state, oldest_offsets.get(number, state.oldest_offset))
        for number, state in checkpoint.queues.items()
    }
    path = os.path.join(directory, CHECKPOINT_NAME)
    content = encode_checkpoint(replace(checkpoint, first_position=first_position, queues=queues))
    try:
        files.replace(path, content)
    except OSError:
        # The disk may be full, and the segments are to make room: without a checkpoint the whole log is read.
        files.unlink(path)
        files.sync_directory(directory)
        return content
    return None


def trimmed(state: QueueState, oldest_offset: int) -> QueueState:
    """The state of a consume queue after it is trimmed to `oldest_offset`."""
    oldest_offset = min(max(oldest_offset, state.oldest_offset), state.end_offset)
    gaps = tuple(gap for gap in state.gaps if gap[0] + gap[1] > oldest_offset)
    return QueueState(oldest_offset, state.end_offset, gaps)
