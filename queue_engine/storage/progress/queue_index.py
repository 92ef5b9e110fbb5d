"""Queue index segments: the progress of every channel by the last merge of the progress journal.

    log/progress/CHANNEL/00000007.index      offsets 7 × 16,384 up to 8 × 16,384 of channel number CHANNEL

    | magic "PIDX" | version u8 = 2 | 1 zero | quarantined u16 | channel u32 | index u32 | pages u16 | many u16 |
      0              4                5        6                 8             12          16          18
    | deferred u32 | CRC u32 |
      20             24
    pages:     | number of the page in the segment u16 | 1,024 bytes, one an offset |
               0 nothing, 1 to 253 deliveries made (253: see many), 255 settled
    many:      | offset u64 | deliveries made u16 |
    deferred:  | offset u64 | due i64, Unix ns, 0 at once |
    quarantined: | offset u64 | since i64, Unix ns | bytes of the body u32 | reason u8 |

A start looks for newer versions in the floors file before it changes anything: a new version here raises that of the
floors, too. Big-endian. The CRC is CRC-32C over all other bytes of the file. An absent segment that the floors
(`floors.py`) don't list means that nothing of it was delivered or settled; a wholly settled one is removed only after
the floor that covers it is on the disk. (The segments are RabbitMQ's queue index.) Version 1
has zeros instead of the number of quarantined offsets, and none of them. To change the format: the next
version number, with magic, version and CRC where they are; read every older version for ever.
"""

import os
import struct
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from crc32c import crc32c

from queue_engine.storage.disk.files import Files
from queue_engine.storage.progress.channel_progress import PAGE_OFFSETS, SETTLED, ChannelProgress, Quarantined
from queue_engine.vocabulary.errors import NewerFormatError, StorageError

INDEX_OFFSETS = 16_384
_PAGES = INDEX_OFFSETS // PAGE_OFFSETS
VERSION = 2
FIRST_VERSION = 1
_INDEX_MAGIC = b"PIDX"
_INDEX_SUFFIX = ".index"
_index_header = struct.Struct(">4sBxHIIHHI")
_page_header = struct.Struct(">H")
_many_entry = struct.Struct(">QH")
_deferred_entry = struct.Struct(">Qq")
_quarantined_entry = struct.Struct(">QqIB")
_SIZE_MAX = 1 << 30


Noted = TypeVar("Noted")


@dataclass(frozen=True, slots=True)
class IndexContent:
    """The content of one index segment: pages by their number within the channel."""

    pages: dict[int, bytes]
    many: dict[int, int]
    deferred: dict[int, int]
    quarantined: dict[int, Quarantined] = field(default_factory=dict)

    @property
    def settled_count(self) -> int:
        """How many offsets are settled."""
        return sum(page.count(SETTLED) for page in self.pages.values())


def index_contents(progress: ChannelProgress, indexes: Collection[int] | None = None) -> dict[int, IndexContent]:
    """A copy of the content that a channel's index segments must have, by index number; those that have none are left
    out. indexes: of these alone, at a cost that depends on them and not on the channel."""
    floor = progress.floor
    contents: dict[int, IndexContent] = {}

    def content(index: int) -> IndexContent:
        found = contents.get(index)
        if found is None:
            found = contents[index] = IndexContent({}, {}, {})
        return found

    def of_these(entries: dict[int, Noted]) -> Iterable[tuple[int, Noted]]:
        if indexes is None or len(entries) <= len(indexes) * INDEX_OFFSETS:
            return (
                entries.items()
                if indexes is None
                else [one for one in entries.items() if one[0] // INDEX_OFFSETS in indexes]
            )
        offsets = chain.from_iterable(range(index * INDEX_OFFSETS, (index + 1) * INDEX_OFFSETS) for index in indexes)
        return [(offset, entries[offset]) for offset in offsets if offset in entries]

    pages = progress.pages
    numbers = (
        pages
        if indexes is None
        else [number for index in indexes for number in range(index * _PAGES, (index + 1) * _PAGES) if number in pages]
    )
    for number in numbers:
        below = max(0, floor - number * PAGE_OFFSETS)
        above = bytes(pages[number][below:])
        if any(above):
            content(number // _PAGES).pages[number] = bytes(below) + above
    for offset, made in of_these(progress.many):
        content(offset // INDEX_OFFSETS).many[offset] = made
    for offset, due_ns in of_these(progress.deferred):
        content(offset // INDEX_OFFSETS).deferred[offset] = due_ns
    for offset, quarantined in of_these(progress.quarantined):
        content(offset // INDEX_OFFSETS).quarantined[offset] = quarantined
    return contents


def possible_indexes(progress: ChannelProgress) -> range:
    """All index numbers that `index_contents` may have, without a look at each message."""
    entries = [one for one in (progress.many, progress.deferred, progress.quarantined) if one]
    if not (entries or progress.pages):
        return range(0)
    last = max([progress.cursor, *map(max, entries)])
    return range(progress.floor // INDEX_OFFSETS, last // INDEX_OFFSETS + 1)


def encode_index(channel: int, index: int, content: IndexContent) -> bytes:
    header = _index_header.pack(
        _INDEX_MAGIC,
        VERSION,
        len(content.quarantined),
        channel,
        index,
        len(content.pages),
        len(content.many),
        len(content.deferred),
    )
    parts = []
    for number, page in sorted(content.pages.items()):
        parts += [_page_header.pack(number - index * _PAGES), page]
    parts += [_many_entry.pack(*entry) for entry in sorted(content.many.items())]
    parts += [_deferred_entry.pack(*entry) for entry in sorted(content.deferred.items())]
    for offset, (since_ns, reason, body_bytes) in sorted(content.quarantined.items()):
        parts.append(_quarantined_entry.pack(offset, since_ns, body_bytes, reason))
    rest = b"".join(parts)
    return header + crc32c(rest, crc32c(header)).to_bytes(4, "big") + rest


def decode_index(data: bytes, channel: int, index: int) -> IndexContent | None:
    """An index segment's content; None when its checksum, channel or index does not match. Raises
    StorageError for an unknown version."""
    at = _index_header.size + 4
    if len(data) < at:
        return None
    header, crc, rest = data[: at - 4], data[at - 4 : at], data[at:]
    if crc32c(rest, crc32c(header)).to_bytes(4, "big") != crc:
        return None
    magic, version, quarantined_count, *place, page_count, many_count, deferred_count = _index_header.unpack(header)
    if magic == _INDEX_MAGIC and not FIRST_VERSION <= version <= VERSION:
        raise NewerFormatError(index_path("log/progress", channel, index), version, VERSION)
    if (magic, place) != (_INDEX_MAGIC, [channel, index]):
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
    for _ in range(quarantined_count):
        offset, since_ns, body_bytes, reason = _quarantined_entry.unpack_from(rest, at)
        content.quarantined[offset] = Quarantined(since_ns, reason, body_bytes)
        at += _quarantined_entry.size
    return content


def add_to(progress: ChannelProgress, content: IndexContent) -> None:
    """Add the content of one index segment to a channel's progress."""
    for number, page in content.pages.items():
        if (number + 1) * PAGE_OFFSETS > progress.floor:
            progress.pages[number] = bytearray(page)
            used = len(page.rstrip(b"\0"))
            progress.cursor = max(progress.cursor, number * PAGE_OFFSETS + used)
    progress.many.update({offset: made for offset, made in content.many.items() if offset >= progress.floor})
    progress.deferred.update({offset: due for offset, due in content.deferred.items() if offset >= progress.floor})
    for offset, quarantined in content.quarantined.items():
        if offset >= progress.floor:
            progress.quarantined[offset] = quarantined


def index_directory(directory: str, channel: int) -> str:
    return os.path.join(directory, str(channel))


def index_path(directory: str, channel: int, index: int) -> str:
    return os.path.join(directory, str(channel), f"{index:08d}{_INDEX_SUFFIX}")


def indexes_on_disk(directory: str, channel: int, files: Files) -> list[int]:
    """The numbers of a channel's index segments. Raises StorageError."""
    names = names_in(index_directory(directory, channel), files)
    stems = [name.removesuffix(_INDEX_SUFFIX) for name in names if name.endswith(_INDEX_SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def names_in(directory: str, files: Files) -> list[str]:
    """The names in a directory, none when it does not exist. Raises StorageError."""
    try:
        return files.listdir(directory)
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise StorageError(f"{directory} can't be read: {exc}") from exc


def remove_other_channels(directory: str, channels: Container[int], files: Files) -> int:
    """Remove the index segments of channels that are not in `channels`: a crash came before their deletion ended.
    Returns of how many channels. Raises OSError."""
    removed = 0
    for name in files.listdir(directory):
        if name.isascii() and name.isdigit() and int(name) not in channels:
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


def read_file(files: Files, path: str) -> bytes:
    """All bytes of a file, none when there is no file. Raises StorageError."""
    try:
        return files.read_whole(path, _SIZE_MAX) or b""
    except OSError as exc:
        raise StorageError(f"{path} can't be read: {exc}") from exc
