"""Index segments that can't be read: set aside unchanged, until they can be read or an operator removes them.

    log/progress/CHANNEL/00000007.index.unread0       as 00000007.index was, when a start could not read it

The channel's progress lacks the file's content, so the channel is fenced: it would deliver finished messages. Entries
of the channel go to the journal meanwhile, and to a segment of the old name. Once the file can be read, its content is
added to the progress, and the merge that writes it removes the file.
"""

import os
from collections.abc import Mapping

from queue_engine.storage.disk.files import Files
from queue_engine.storage.progress.channel_progress import PAGE_OFFSETS, SETTLED, ChannelProgress
from queue_engine.storage.progress.queue_index import IndexContent, decode_index, index_directory, index_path, names_in
from queue_engine.vocabulary.errors import StorageError

_UNREAD = ".index.unread"

Unread = dict[str, int]
"""Path → number of the index segment."""


def unread_on_disk(directory: str, channel: int, files: Files) -> Unread:
    """The files that an earlier start set aside of a channel. Raises StorageError."""
    found: Unread = {}
    for name in names_in(index_directory(directory, channel), files):
        stem, is_unread, _ = name.partition(_UNREAD)
        if is_unread and stem.isascii() and stem.isdigit():
            found[os.path.join(index_directory(directory, channel), name)] = int(stem)
    return found


def is_unread_name(path: str) -> bool:
    """Whether this is the name of an index segment that was set aside."""
    return _UNREAD in os.path.basename(path)


def _renamed(path: str, files: Files) -> str:
    """Give an index segment another name, durably; returns it. Raises OSError."""
    number = 0
    while files.size_of(unread_path := f"{path}.unread{number}") is not None:
        number += 1
    files.rename(path, unread_path)
    files.sync_directory(os.path.dirname(path))
    return unread_path


def read_unread(path: str, files: Files) -> bytes:
    """The file's bytes, none when it was removed. Raises StorageError."""
    try:
        return files.read_whole(path, 1 << 30) or b""
    except OSError as exc:
        raise StorageError(
            f"{path} can't be read ({exc.strerror}): the channel would deliver finished messages. When the disk "
            "can't be mended, remove that file: it does so then"
        ) from exc


def add_missing(progress: ChannelProgress, content: IndexContent) -> None:
    """Add the content of a file to a channel's progress, where that has nothing: the progress is newer."""
    for number, page in sorted(content.pages.items()):
        first = number * PAGE_OFFSETS
        at = 0
        while at < len(page):
            value, start = page[at], at
            while at < len(page) and page[at] == value:
                at += 1
            if value == SETTLED:
                progress.settled(first + start, at - start)
            elif value:
                for offset in range(max(first + start, progress.floor), first + at):
                    if not progress.is_settled(offset) and not progress.made_at(offset):
                        progress.delivered(offset, 1, content.many.get(offset, value))
    for offset, due_ns in content.deferred.items():
        is_newer = offset < progress.floor or progress.is_settled(offset) or offset in progress.deferred
        if not is_newer and progress.made_at(offset) <= _made(content, offset):
            progress.deferred_until(offset, 1, 0, due_ns)
    for offset, quarantined in content.quarantined.items():
        is_newer = offset < progress.floor or progress.is_settled(offset) or offset in progress.quarantined
        # Messages that were redriven since are deferred until 0.
        if not is_newer and offset not in progress.deferred and progress.made_at(offset) <= _made(content, offset):
            progress.quarantine(offset, 0, quarantined)


def _made(content: IndexContent, offset: int) -> int:
    page = content.pages.get(offset // PAGE_OFFSETS)
    return content.many.get(offset, page[offset % PAGE_OFFSETS] if page is not None else 0)


class UnreadIndexes:
    """All unread index segments of one log. Belongs to the engine's thread.

    removable: paths of files that the next merge makes needless.
    """

    def __init__(self, directory: str, files: Files) -> None:
        self._directory = directory
        self._files = files
        self._unread: dict[int, Unread] = {}
        self._reasons: dict[int, StorageError] = {}
        self.removable: set[str] = set()

    def set_aside(
        self, unread: Mapping[int, Unread], reasons: Mapping[int, StorageError], on_disk: dict[int, set[int]]
    ) -> None:
        """Rename files that a start could not read, by channel, so that nothing overwrites them. on_disk: the segments
        of each channel, from which they are taken. Raises OSError."""
        self._reasons |= reasons
        for channel, paths in unread.items():
            for path, index in paths.items():
                is_in_place = path == index_path(self._directory, channel, index)
                self._unread.setdefault(channel, {})[_renamed(path, self._files) if is_in_place else path] = index
                if is_in_place:
                    on_disk[channel].discard(index)

    def note(self, reasons: Mapping[int, StorageError]) -> None:
        """Note that the progress of exactly these channels is unknown."""
        self._reasons = dict(reasons)

    def reason(self, channel: int) -> StorageError | None:
        """Why a part of a channel's progress can't be read; None when all was read."""
        return self._reasons.get(channel)

    def read_again(self, channel: int, progress: ChannelProgress) -> set[int]:
        """Add the files that can be read by now; returns the segments to write. Raises StorageError while one can't be
        read."""
        added: set[int] = set()
        for path, index in list(self._unread.get(channel, {}).items()):
            content = decode_index(read_unread(path, self._files), channel, index)
            if content is not None:
                add_missing(progress, content)
                added.add(index)
            self.removable.add(path)
            del self._unread[channel][path]
        self.forget(channel)
        return added

    def forget(self, channel: int) -> None:
        """Forget a channel that was deleted or rewound: its old progress is void."""
        self.removable.update(self._unread.pop(channel, {}))
        self._reasons.pop(channel, None)
