"""Batch keys: a batch written under a key is not written again, also after its segment was removed.

    log/batch_keys                                             big-endian

    | magic "PBKY" | version u8 = 1 | 3 zero | durable u64 | 44 zero | CRC u32 |     header, 64 bytes
      0              4                5        8             16        60
    | topic number u32 | batch key, 16 bytes | first offset u64 | count u32 | publish time i64, Unix ns | …
      0                  4                     20                 28          32
    … | digest, 16 bytes | durable u32 | CRC u32 |     entry, 64 bytes; entries to the end
        40                 56            60

`durable` is the number of entries that were synced when this was written. The CRCs are CRC-32C over the bytes before
them. The digest is the BLAKE2b of keys and bodies (`digest_of`); zeros where it is unknown, as of a record with a
damaged body: such a batch equals any content of as many messages that is written under its key.

An entry is written when its record is synced, and the file is synced before a checkpoint passes the record: entries
that the file lacks are in the log behind the checkpoint, and a start reads that anyway. So an invalid entry below the
greatest `durable` is damage: the file is copied to `batch_keys.bad`, its other entries stay, and the start reads the
whole log for those that it still has. An invalid entry above is the torn end of a write, and cut. The checkpoint says
whether there is a file at all. Until an entry is in the file, its record's segment is not removed.

The store remembers the newest KEYS_MAX keys, for KEYS_AGE_NS at most; the oldest go first, a tenth at a time, and those
of a deleted topic with it. The file is replaced when most of its entries are dead. To change the format: the next
version number, go on reading the old one, keep its file in `tests/storage/fixtures/`.
"""

import logging
import os
import struct
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

from crc32c import crc32c

from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import BatchKeyConflictError, NewerFormatError
from queue_engine.vocabulary.steady_time import SteadyTime
from queue_engine.vocabulary.ticket import DONE, Ticket

logger = logging.getLogger(__name__)

BATCH_KEYS_NAME = "batch_keys"
VERSION = 1
# About 240 bytes of memory each.
KEYS_MAX = 250_000
KEYS_AGE_NS = 30 * 24 * 3_600 * NS_PER_S
UNKNOWN_DIGEST = bytes(16)
# The file may have as many dead entries as live ones, and so many more.
_USELESS_MAX = 10_000

HEADER_BYTES = ENTRY_BYTES = 64
_MAGIC = b"PBKY"
_header = struct.Struct(">4sB3xQ44x")
_place = struct.Struct(">I16s")
_content = struct.Struct(">QIq16s")
_mark = struct.Struct(">I")
_pack_lengths = struct.Struct(">II").pack


@dataclass(frozen=True, slots=True)
class FoundBatch:
    """A batch that was written under a key, or is being written: its offsets, and its ticket."""

    first_offset: int
    count: int
    ticket: Ticket = DONE


@dataclass(frozen=True, slots=True)
class KeyedRecord:
    """A record with a batch key, and where the log has it. time_ns: its publish time, Unix."""

    topic_number: int
    key: bytes
    first_offset: int
    count: int
    time_ns: int
    position: int
    size: int

    @property
    def place(self) -> bytes:
        """Topic and key, packed."""
        return _place.pack(self.topic_number, self.key)


def digest_of(bodies: Sequence[bytes], keys: Sequence[bytes] | None) -> bytes:
    """The digest of a batch's content: 16 bytes of BLAKE2b over | key bytes u32 | body bytes u32 | key | body | of
    each message; a missing key has no bytes."""
    digest = blake2b(digest_size=16)
    for key, body in zip(keys or [b""] * len(bodies), bodies, strict=True):
        digest.update(_pack_lengths(len(key), len(body)))
        digest.update(key)
        digest.update(body)
    return digest.digest()


class KeysWrite(BackgroundJob):
    """A write of entries to the file; the work may raise OSError. count: of the entries that waited. entries: how many
    the file has then."""

    def __init__(self, count: int, entries: int, work: Callable[["KeysWrite"], None]) -> None:
        super().__init__(lambda: work(self))
        self.count = count
        self.entries = entries
        self.is_done = False
        self.is_spoilt = False  # the content of the file is unknown


class BatchKeys:
    """All batch keys of one log. Belongs to the engine's thread, but for `KeysWrite.run`."""

    def __init__(self, directory: str, *, files: Files, clock: Clock, keys_max: int = KEYS_MAX) -> None:
        self.path = os.path.join(directory, BATCH_KEYS_NAME)
        self._files = files
        self._time = SteadyTime(clock)
        self._keys_max = keys_max
        # Topic number and key → first offset, count, time and digest; both packed, the oldest first.
        self._contents: dict[bytes, bytes] = {}
        self._topics: set[int] = set()  # that have keys, or had
        self._under_way: dict[bytes, tuple[bytes, FoundBatch]] = {}  # with the digest
        self._unwritten: deque[tuple[int, int, bytes]] = deque()  # position and end of the record, topic and key
        self._writing: KeysWrite | None = None
        self._entries = 0  # of the file
        self._is_to_replace = True  # there is no file, or its content is unknown
        self._torn_at: int | None = None
        self._damaged: bytes | None = None

    def __len__(self) -> int:
        return len(self._contents)

    @property
    def is_in_file(self) -> bool:
        """Whether there is a file, or will be with the write under way."""
        return not self._is_to_replace or self._writing is not None

    # Keys.

    def find(self, topic_number: int, key: bytes, digest: bytes, count: int) -> FoundBatch | None:
        """The batch of this key, written or being written; None when it is new. Raises BatchKeyConflictError when it
        had another content."""
        place = _place.pack(topic_number, key)
        if place in self._under_way:
            found_digest, found = self._under_way[place]
        elif place in self._contents:
            first, found_count, _, found_digest = _content.unpack(self._contents[place])
            found = FoundBatch(first, found_count)
        else:
            return None
        if found_digest not in (digest, UNKNOWN_DIGEST) or found.count != count:
            raise BatchKeyConflictError(
                f"batch key {key.hex()} was used for other content: {found.count} messages from offset "
                f"{found.first_offset} on"
            )
        return found

    def has(self, record: KeyedRecord) -> bool:
        """Whether the store has this record under its key."""
        content = self._contents.get(record.place)
        return content is not None and _content.unpack(content)[0] == record.first_offset

    def begin(self, topic_number: int, key: bytes, digest: bytes, batch: FoundBatch) -> None:
        """A batch is being written."""
        self._under_way[_place.pack(topic_number, key)] = digest, batch

    def forget(self, topic_number: int, key: bytes) -> None:
        """The batch was rejected: its key is free again."""
        self._under_way.pop(_place.pack(topic_number, key), None)

    def put(self, record: KeyedRecord, digest: bytes) -> None:
        """This record with a key is visible in the log."""
        place = record.place
        self._under_way.pop(place, None)
        found_digest = self._contents.get(place)
        if found_digest is not None:
            if _content.unpack(found_digest)[0] >= record.first_offset:
                return  # the same, from the file, or a later batch under the key, which had been forgotten
            del self._contents[place]
        self._contents[place] = _content.pack(record.first_offset, record.count, record.time_ns, digest)
        self._topics.add(record.topic_number)
        self._unwritten.append((record.position, record.position + record.size, place))
        if len(self._contents) > self._keys_max:
            self._contents = dict(islice(self._contents.items(), len(self._contents) - self._keys_max * 9 // 10, None))

    def forget_topic(self, topic_number: int) -> None:
        """The topic was deleted."""
        if topic_number not in self._topics:
            return
        self._topics.discard(topic_number)
        of_topic = topic_number.to_bytes(4, "big")
        self._contents = {place: one for place, one in self._contents.items() if place[:4] != of_topic}
        self._under_way = {place: one for place, one in self._under_way.items() if place[:4] != of_topic}

    def _forget_old(self) -> None:
        until_ns = self._time.never_early_ns() - KEYS_AGE_NS
        old: list[bytes] = []
        for place, content in self._contents.items():
            if _content.unpack(content)[2] >= until_ns:
                break
            old.append(place)
        for place in old:
            del self._contents[place]

    @property
    def first_unwritten_position(self) -> int | None:
        """The position of the first record whose key is in the log alone; None when the file has all."""
        return self._unwritten[0][0] if self._unwritten else None

    # Starting.

    def open(self, topic_numbers: Container[int], *, is_expected: bool) -> str:
        """Read the file. Returns why the whole log must be read for missing entries, "" when none is missing.
        is_expected: the checkpoint says that there is one. Raises OSError."""
        size = self._files.size_of(self.path)
        if size is None:
            return f"{self.path} is missing" if is_expected else ""
        data = self._files.read_whole(self.path, size) or b""
        entries, durable = decode_batch_keys(data, self.path)
        self._entries = next((index for index, one in enumerate(entries) if one is None), len(entries))
        is_damaged = durable is None or self._entries < durable
        for entry in entries if is_damaged else entries[: self._entries]:
            if entry is not None and int.from_bytes(entry[0][:4], "big") in topic_numbers:
                place, content = entry
                self._contents.pop(place, None)  # the last one counts, and is the newest
                self._contents[place] = content
                self._topics.add(int.from_bytes(place[:4], "big"))
        self._forget_old()
        if is_damaged:
            self._damaged = data
            return f"{self.path} is damaged"
        self._is_to_replace = False
        if self._entries < len(entries):
            self._torn_at = HEADER_BYTES + self._entries * ENTRY_BYTES  # the log has the entries behind it
        return ""

    def opened(self, why: str) -> None:
        """The log was read as `open` requires, and all of it is synced: complete the file. why: as `open` returned it.
        Never fails: entries that can't be written now are written with the next checkpoint."""
        if self._unwritten:
            # Entries that were read from the log may be older than those of the file.
            self._contents = dict(sorted(self._contents.items(), key=lambda one: _content.unpack(one[1])[2]))
            self._forget_old()
        try:
            if self._damaged is not None:
                self._files.replace(f"{self.path}.bad", self._damaged)
                self._damaged = None
            if why:
                self._files.replace(self.path, encode_batch_keys(self._contents.items()))
                self._entries, self._is_to_replace = len(self._contents), False
                self._unwritten.clear()
            elif not self._is_to_replace:
                self._sync_file()
        except OSError as exc:
            logger.warning("batch keys not written path=%s error=%s", self.path, exc)
            self._is_to_replace = True

    def _sync_file(self) -> None:
        """Sync the file: whether the process before this one synced its last entries is unknown."""
        fd = self._files.open(self.path, os.O_RDWR)
        try:
            if self._torn_at is not None:
                self._files.truncate(fd, self._torn_at)
                self._torn_at = None
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    # Writing.

    def start_write(self, synced_end: int) -> KeysWrite | None:
        """The write that must precede a checkpoint at `synced_end` of the log or before it; None when there is none.
        `settle` ends it, successful or not."""
        assert self._writing is None
        self._forget_old()
        taken: list[bytes] = []
        for _, end, place in self._unwritten:
            if end > synced_end:
                break
            taken.append(place)
        if not taken and (not self._is_to_replace or not self._contents):
            return None
        useless_max = len(self._contents) + _USELESS_MAX
        if self._is_to_replace or self._entries + len(taken) - len(self._contents) > useless_max:
            later = {place for _, _, place in islice(self._unwritten, len(taken), None)}
            items = [(place, content) for place, content in self._contents.items() if place not in later]
            self._writing = KeysWrite(len(taken), len(items), lambda write: self._replace(write, items))
        else:
            added = [(place, content) for place in taken if (content := self._contents.get(place)) is not None]
            entries = self._entries + len(added)
            self._writing = KeysWrite(len(taken), entries, lambda write: self._append(write, added))
        return self._writing

    def _replace(self, write: KeysWrite, items: list[tuple[bytes, bytes]]) -> None:
        self._files.replace(self.path, encode_batch_keys(items))
        write.is_done = True

    def _append(self, write: KeysWrite, added: list[tuple[bytes, bytes]]) -> None:
        durable = write.entries - len(added)
        data = b"".join([_entry(place, content, durable) for place, content in added])
        fd = self._files.open(self.path, os.O_RDWR)
        try:
            self._files.write_all(fd, data, HEADER_BYTES + durable * ENTRY_BYTES)
            write.is_spoilt = True
            self._files.sync(fd)
            write.is_spoilt = False
        finally:
            self._files.close(fd)
        write.is_done = True

    def settle(self, write: KeysWrite) -> None:
        """End a write that is done, or will not begin; a second call does nothing."""
        if write is not self._writing:
            return
        self._writing = None
        write.call_off()
        if write.is_done:
            for _ in range(write.count):
                self._unwritten.popleft()
            self._entries = write.entries
            self._is_to_replace = False
        elif write.is_spoilt:
            self._is_to_replace = True

    def finish_write(self) -> None:
        """End the write that is under way, in this thread if the worker has not begun it."""
        if self._writing is not None:
            self._writing.finish()
            self.settle(self._writing)


def encode_batch_keys(items: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The content of a file with these entries: topic and key, and the rest, both packed."""
    listed = list(items)
    header = _header.pack(_MAGIC, VERSION, len(listed))
    entries = [_entry(*item, len(listed)) for item in listed]
    return b"".join([header, crc32c(header).to_bytes(4, "big"), *entries])


def _entry(place: bytes, content: bytes, durable: int) -> bytes:
    entry = place + content + _mark.pack(durable)
    return entry + crc32c(entry).to_bytes(4, "big")


def decode_batch_keys(data: bytes, path: str = BATCH_KEYS_NAME) -> tuple[list[tuple[bytes, bytes] | None], int | None]:
    """The entries in their order, with None for an invalid one, and how many of them were synced: None where the
    header is invalid. Raises NewerFormatError."""
    header, crc = data[: HEADER_BYTES - 4], data[HEADER_BYTES - 4 : HEADER_BYTES]
    durable: int | None = None
    if len(data) >= HEADER_BYTES and crc32c(header).to_bytes(4, "big") == crc:
        magic, version, durable = _header.unpack(header)
        if magic == _MAGIC and version > VERSION:
            raise NewerFormatError(path, version, VERSION)
        if (magic, version) != (_MAGIC, VERSION):
            return [], None
    entries: list[tuple[bytes, bytes] | None] = []
    mark = 0
    for at in range(HEADER_BYTES, len(data), ENTRY_BYTES):
        entry, crc = data[at : at + ENTRY_BYTES - 4], data[at + ENTRY_BYTES - 4 : at + ENTRY_BYTES]
        if crc32c(entry).to_bytes(4, "big") == crc:
            mark = max(mark, int.from_bytes(entry[-4:], "big"))
            entries.append((entry[: _place.size], entry[_place.size : -4]))
        else:
            entries.append(None)
    return entries, None if durable is None else max(durable, mark)
