"""Queue index segments and the floors file: what every channel had done when the progress journal was merged.

    log/progress/CHANNEL/00000007.index      offsets 7 × 16,384 up to 8 × 16,384 of channel number CHANNEL

    | magic "PIDX" | version u8 = 1 | 3 zero | channel u32 | index u32 | pages u16 | many u16 | deferred u32 | CRC u32 |
      0              4                5        8             12          16          18         20            24
    pages:     | number of the page in the segment u16 | 1,024 bytes, one an offset |
               0 nothing, 1 to 253 deliveries made (253: see many), 255 settled
    many:      | offset u64 | deliveries made u16 |
    deferred:  | offset u64 | due i64, Unix ns, 0 at once |

    log/progress/floors

    | magic "PFLR" | version u8 = 1 | 3 zero | journal u64 | channels u32 | CRC u32 |
      0              4                5        8             16             20
    | channel u32 | floor u64 | cursor u64 | epoch u64 | …

Big-endian. The CRCs are CRC-32C over all other bytes of the file. `journal` is the number of the first journal that is
to be replayed over this. A segment that is absent says that nothing of it was delivered or settled; one that is settled
altogether is removed only after the floor that covers it is on the disk. (The segments are RabbitMQ's queue index.)
"""

import os
import struct
from collections.abc import Container, Iterable
from dataclasses import dataclass

from crc32c import crc32c

from queue_engine.errors import StorageError
from queue_engine.storage.channel_progress import PAGE_OFFSETS, ChannelProgress
from queue_engine.storage.files import Files

INDEX_OFFSETS = 16_384
_PAGES = INDEX_OFFSETS // PAGE_OFFSETS
VERSION = 1
_INDEX_MAGIC = b"PIDX"
_FLOORS_MAGIC = b"PFLR"
FLOORS_NAME = "floors"
_INDEX_SUFFIX = ".index"
_index_header = struct.Struct(">4sB3xIIHHI")
_page_header = struct.Struct(">H")
_many_entry = struct.Struct(">QH")
_deferred_entry = struct.Struct(">Qq")
_floors_header = struct.Struct(">4sB3xQI")
_floor_entry = struct.Struct(">IQQQ")
_SIZE_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class IndexContent:
    """What one index segment holds: pages by their number within the channel."""

    pages: dict[int, bytes]
    many: dict[int, int]
    deferred: dict[int, int]


def index_contents(progress: ChannelProgress) -> dict[int, IndexContent]:
    """A copy of all that a channel's index segments have to hold, by index number."""
    floor = progress.floor
    contents: dict[int, IndexContent] = {}

    def content(index: int) -> IndexContent:
        return contents.setdefault(index, IndexContent({}, {}, {}))

    for number, page in progress.pages.items():
        below = max(0, floor - number * PAGE_OFFSETS)
        above = bytes(page[below:])
        if any(above):
            content(number // _PAGES).pages[number] = bytes(below) + above
    for offset, made in progress.many.items():
        content(offset // INDEX_OFFSETS).many[offset] = made
    for offset, due_ns in progress.deferred.items():
        content(offset // INDEX_OFFSETS).deferred[offset] = due_ns
    return contents


def encode_index(channel: int, index: int, content: IndexContent) -> bytes:
    header = _index_header.pack(
        _INDEX_MAGIC, VERSION, channel, index, len(content.pages), len(content.many), len(content.deferred)
    )
    parts = []
    for number, page in sorted(content.pages.items()):
        parts += [_page_header.pack(number - index * _PAGES), page]
    parts += [_many_entry.pack(*entry) for entry in sorted(content.many.items())]
    parts += [_deferred_entry.pack(*entry) for entry in sorted(content.deferred.items())]
    rest = b"".join(parts)
    return header + crc32c(rest, crc32c(header)).to_bytes(4, "big") + rest


def decode_index(data: bytes, channel: int, index: int) -> IndexContent | None:
    """What an index segment holds; None when its bytes are not what was written for this channel and index."""
    at = _index_header.size + 4
    if len(data) < at:
        return None
    header, crc, rest = data[: at - 4], data[at - 4 : at], data[at:]
    if crc32c(rest, crc32c(header)).to_bytes(4, "big") != crc:
        return None
    magic, version, its_channel, its_index, page_count, many_count, deferred_count = _index_header.unpack(header)
    if (magic, version, its_channel, its_index) != (_INDEX_MAGIC, VERSION, channel, index):
        return None
    content = IndexContent({}, {}, {})
    at = 0
    for _ in range(page_count):
        number = _page_header.unpack_from(rest, at)[0] + index * _PAGES
        content.pages[number] = rest[at + 2 : at + 2 + PAGE_OFFSETS]
        at += 2 + PAGE_OFFSETS
    for _ in range(many_count):
        offset, made = _many_entry.unpack_from(rest, at)
        content.many[offset] = made
        at += _many_entry.size
    for _ in range(deferred_count):
        offset, due_ns = _deferred_entry.unpack_from(rest, at)
        content.deferred[offset] = due_ns
        at += _deferred_entry.size
    return content


def add_to(progress: ChannelProgress, content: IndexContent) -> None:
    """Give a channel what one of its index segments holds."""
    for number, page in content.pages.items():
        if (number + 1) * PAGE_OFFSETS > progress.floor:
            progress.pages[number] = bytearray(page)
            used = len(page.rstrip(b"\0"))
            progress.cursor = max(progress.cursor, number * PAGE_OFFSETS + used)
    progress.many.update({offset: made for offset, made in content.many.items() if offset >= progress.floor})
    progress.deferred.update({offset: due for offset, due in content.deferred.items() if offset >= progress.floor})


def index_directory(directory: str, channel: int) -> str:
    return os.path.join(directory, str(channel))


def index_path(directory: str, channel: int, index: int) -> str:
    return os.path.join(directory, str(channel), f"{index:08d}{_INDEX_SUFFIX}")


def indexes_on_disk(directory: str, channel: int, files: Files) -> list[int]:
    """The numbers of a channel's index segments. Raises StorageError."""
    try:
        names = files.listdir(index_directory(directory, channel))
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise StorageError(f"{index_directory(directory, channel)} can't be read: {exc}") from exc
    stems = [name.removesuffix(_INDEX_SUFFIX) for name in names if name.endswith(_INDEX_SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def remove_unknown(directory: str, known: Container[int], files: Files) -> int:
    """Remove the index segments of channels that are not in `known`, deleted before a crash could finish it; returns
    of how many channels. Raises OSError."""
    removed = 0
    for name in files.listdir(directory):
        if name.isascii() and name.isdigit() and int(name) not in known:
            remove_directory(index_directory(directory, int(name)), files)
            removed += 1
    return removed


def remove_directory(directory: str, files: Files) -> None:
    """Remove a channel's index segments, if there are any. Raises OSError."""
    try:
        for name in files.listdir(directory):
            files.unlink(os.path.join(directory, name))
        files.remove_directory(directory)
    except FileNotFoundError:
        pass


@dataclass(frozen=True, slots=True)
class Floors:
    """journal: the first to be replayed. channels: number → (floor, cursor, epoch)."""

    journal: int
    channels: dict[int, tuple[int, int, int]]


def encode_floors(journal: int, channels: Iterable[tuple[int, int, int, int]]) -> bytes:
    entries = [_floor_entry.pack(*entry) for entry in channels]
    header = _floors_header.pack(_FLOORS_MAGIC, VERSION, journal, len(entries))
    rest = b"".join(entries)
    return header + crc32c(rest, crc32c(header)).to_bytes(4, "big") + rest


def decode_floors(data: bytes) -> Floors | None:
    """None when the bytes are not what was written."""
    at = _floors_header.size + 4
    if len(data) < at:
        return None
    header, crc, rest = data[: at - 4], data[at - 4 : at], data[at:]
    if crc32c(rest, crc32c(header)).to_bytes(4, "big") != crc:
        return None
    magic, version, journal, count = _floors_header.unpack(header)
    if (magic, version) != (_FLOORS_MAGIC, VERSION) or len(rest) != count * _floor_entry.size:
        return None
    return Floors(
        journal, {number: (floor, cursor, epoch) for number, floor, cursor, epoch in _floor_entry.iter_unpack(rest)}
    )


def read_file(files: Files, path: str) -> bytes:
    """All bytes of a file, none when there is no file. Raises StorageError."""
    try:
        return files.read_whole(path, _SIZE_MAX) or b""
    except OSError as exc:
        raise StorageError(f"{path} can't be read: {exc}") from exc
