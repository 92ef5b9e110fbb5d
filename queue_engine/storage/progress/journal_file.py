"""One file of the progress journal, while entries are written to it."""

import os
from collections.abc import Iterable

from queue_engine.storage.disk.files import Files
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.journal_format import (
    HEADER_BYTES,
    encode_block,
    encode_header,
    pack_durable,
    pack_snapshot,
)

JOURNAL_SUFFIX = ".journal"
_TEMPORARY_SUFFIX = ".tmp"
# A snapshot is many blocks, so that damage to one leaves the others.
_SNAPSHOT_BLOCK_ENTRIES = 1_024
_SNAPSHOT_WRITE_BYTES = 1 << 20


def journal_path(directory: str, number: int) -> str:
    return os.path.join(directory, f"{number:08d}{JOURNAL_SUFFIX}")


class JournalFile:
    """at: where the next block goes. synced_upto: all before it is synced. is_named: the file's name
    in the directory is synced."""

    def __init__(self, number: int, fd: int, salt: int, at: int, files: Files) -> None:
        self.number = number
        self.fd = fd
        self.at = at
        self.synced_upto = 0
        self.is_named = False
        self._marked_upto = 0  # the last `synced_upto` that the file itself states
        self._salt = salt
        self._files = files

    @classmethod
    def begin(cls, directory: str, number: int, durable: Iterable[tuple[int, int]], files: Files) -> "JournalFile":
        """A new journal. durable: (number, byte) up to which others are on the disk. Raises OSError; then there is
        none."""
        path = journal_path(directory, number)
        salt = int.from_bytes(os.urandom(8), "big")
        content = encode_header(number, salt)
        entries = [pack_durable(*one) for one in durable]
        if entries:
            content += encode_block(entries, number=number, salt=salt, at=HEADER_BYTES)
        fd = files.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            files.write_all(fd, content, 0)
        except OSError:
            files.close_quietly(fd)
            files.unlink_quietly(path)
            raise
        return cls(number, fd, salt, len(content), files)

    @classmethod
    def begin_with(
        cls, directory: str, number: int, channels: Iterable[tuple[int, ChannelProgress]], files: Files
    ) -> "JournalFile":
        """A new journal with a snapshot of these channels' progress, synced with its name: a crash leaves all of it or
        nothing. Raises OSError; then whether the file exists is unknown, and its number must not be used again."""
        path = journal_path(directory, number)
        salt = int.from_bytes(os.urandom(8), "big")
        fd = files.open(path + _TEMPORARY_SUFFIX, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            at = _write_snapshot(fd, number, salt, channels, files)
            files.sync(fd)
            files.rename(path + _TEMPORARY_SUFFIX, path)
            files.sync_directory(directory)
        except OSError:
            files.close_quietly(fd)
            files.unlink_quietly(path + _TEMPORARY_SUFFIX)
            raise
        made = cls(number, fd, salt, at, files)
        made.synced_upto = at
        made.is_named = True
        return made

    def write(self, entries: list[bytes]) -> None:
        """Append a block. Raises OSError; then nothing of it counts."""
        if self.synced_upto > self._marked_upto:
            entries = [pack_durable(self.number, self.synced_upto), *entries]
        block = encode_block(entries, number=self.number, salt=self._salt, at=self.at)
        self._files.write_all(self.fd, block, self.at)
        self.at += len(block)
        self._marked_upto = self.synced_upto


def _write_snapshot(
    fd: int, number: int, salt: int, channels: Iterable[tuple[int, ChannelProgress]], files: Files
) -> int:
    """Returns where the file ends. Raises OSError."""
    parts = bytearray(encode_header(number, salt))
    written = 0
    entries: list[bytes] = []

    def end_block() -> None:
        nonlocal written
        parts.extend(encode_block(entries, number=number, salt=salt, at=written + len(parts)))
        entries.clear()
        if len(parts) >= _SNAPSHOT_WRITE_BYTES:
            files.write_all(fd, bytes(parts), written)
            written += len(parts)
            parts.clear()

    for entry in pack_snapshot(channels):
        entries.append(entry)
        if len(entries) == _SNAPSHOT_BLOCK_ENTRIES:
            end_block()
    if entries:
        end_block()
    files.write_all(fd, bytes(parts), written)
    return written + len(parts)
