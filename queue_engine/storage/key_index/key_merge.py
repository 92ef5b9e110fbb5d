"""Makes one file of several that follow each other, so that a look-up reads few files however many were written.

A merge at least doubles the size of the largest file that it takes, so a key is written a few times at most.
"""

import os
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from queue_engine.storage.disk.files import Files
from queue_engine.storage.key_index.key_file import (
    DELTA_MAX,
    HEADER_BYTES,
    KeyFileHead,
    encode_key_file,
    read_slots,
    rebased,
)
from queue_engine.storage.key_index.offset_ranges import within
from queue_engine.storage.key_index.topic_keys import KeyFile, TopicKeys

# Files of one merge.
MERGED_FILES = 16
# A merge makes no file of more entries.
MERGED_ENTRIES_MAX = 1 << 20
# Beyond so many files of a topic a merge does not wait for a quiet moment.
FILES_MAX = 128
# Entries that one step sorts, about: the engine's thread waits for a sort.
_STEP_ENTRIES = 1 << 15


def files_to_merge(topic: TopicKeys) -> list[KeyFile]:
    """The first files of a topic that are worth a merge; none when there are none."""
    files = topic.files
    for at in range(len(files) - MERGED_FILES + 1):
        some = files[at : at + MERGED_FILES]
        counts = [one.entry_count for one in some]
        first, end = some[0].first, some[-1].end
        between = [*topic.missing, *((part.first, part.end) for part in topic.sealed)]
        if (
            2 * max(counts) <= sum(counts) <= MERGED_ENTRIES_MAX
            and end - first <= DELTA_MAX
            and not within(between, first, end)
        ):
            return some
    return []


class Merge:
    """One merge, in steps that a worker does. result: the new file, once `step` returned True. failed: the file that
    can't be used, after KeyFileDamagedError or OSError of a read."""

    def __init__(self, topic: TopicKeys, files: Sequence[KeyFile], disk: Files) -> None:
        self.topic = topic
        self.files = files
        count = sum(one.entry_count for one in files)
        self.result = KeyFile(topic.directory, files[0].first, files[-1].end, count)
        self.failed: KeyFile | None = None
        self._disk = disk
        self._bits = max(0, count.bit_length() - _STEP_ENTRIES.bit_length())
        self._parts: list[array[int]] = []
        self._heads: list[KeyFileHead] = []

    def step(self) -> bytes | None:
        """Sort the next part; the content of the new file after the last one, None before. Raises KeyFileDamagedError
        or OSError."""
        from queue_engine.storage.key_index.key_columns import in_order  # here, since it needs numpy

        with ExitStack() as opened:
            reads = [self._open(one, opened) for one in self.files]
            if not self._heads:
                self._heads = [self._head(one, read) for one, read in zip(self.files, reads, strict=True)]
            base = min(head.base for head in self._heads)
            entries = array("Q")
            for one, head, read in zip(self.files, self._heads, reads, strict=True):
                self.failed = one
                entries += rebased(self._part_of(head, read), head.base - base)
                self.failed = None
            self._parts.append(in_order(entries))
        if len(self._parts) < 1 << self._bits:
            return None
        return encode_key_file(self.topic.number, self.result.first, self.result.end, base, self._parts)

    def _open(self, one: KeyFile, opened: ExitStack) -> Callable[[int, int], bytes]:
        self.failed = one
        fd = self._disk.open(one.path, os.O_RDONLY)
        opened.callback(self._disk.close_quietly, fd)
        self.failed = None
        return lambda at, size: self._disk.read_at(fd, size, at)

    def _head(self, one: KeyFile, read: Callable[[int, int], bytes]) -> KeyFileHead:
        self.failed = one
        head = one.head_of(self.topic.number, read(0, HEADER_BYTES))
        self.failed = None
        return head

    def _part_of(self, head: KeyFileHead, read: Callable[[int, int], bytes]) -> "array[int]":
        """The entries of a file that belong to this step: those of some of its slots."""
        number = len(self._parts)
        if head.slot_bits >= self._bits:
            each = 1 << (head.slot_bits - self._bits)
            return read_slots(head, number * each, each, read)
        entries = read_slots(head, 0, 1 << head.slot_bits, read)
        shift = 29 - self._bits + 32
        least = (1 << 61) + (number << shift)
        return entries[bisect_left(entries, least) : bisect_left(entries, least + (1 << shift))]
