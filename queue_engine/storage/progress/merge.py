"""One merge: puts the journals' entries into floors and index segments, then removes the journals.

After a crash at any step a start can read the files. The order: changed segments replaced, floors replaced, the old
journals removed, segments without content removed. Where the new floors lie above offsets of old segments, the floors
are replaced first, with the old journals still to be applied. Replaying a journal over a merge of it changes nothing,
so a merge may end anywhere and be done again.
"""

from collections.abc import Mapping, Sequence

from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.floors import Floors, encode_floors
from queue_engine.storage.progress.journal_file import journal_path
from queue_engine.storage.progress.progress_files import Indexes, ProgressFiles
from queue_engine.storage.progress.queue_index import (
    INDEX_OFFSETS,
    IndexContent,
    encode_index,
    index_contents,
    index_directory,
    index_path,
    remove_directory,
)


class ProgressMerge:
    """Composed on the engine's thread, `run` by the worker, settled on the engine's thread again.

    dirty: index segments that changed since the last merge. gone: deleted channels.
    """

    def __init__(
        self,
        progress_files: ProgressFiles,
        channels: Mapping[int, ChannelProgress],
        dirty: Indexes,
        *,
        old_journals: Sequence[int],
        new_journal: int,
        removable: frozenset[str] = frozenset(),
    ) -> None:
        """old_journals: their entries are in `channels`; they are on the disk before `run`. removable: paths of files
        that this merge makes needless."""
        self.removable = removable
        self.dirty = dirty
        self.old_journals = old_journals
        self.gone = [number for number in dirty if number not in channels]
        self._progress_files = progress_files
        self._files = progress_files.files
        self._new_journal = new_journal
        self._base_journal = old_journals[0] if progress_files.floors_journal is None else progress_files.floors_journal
        self._floors_journal = progress_files.floors_journal
        self._floors = {number: (one.floor, one.cursor, one.epoch) for number, one in channels.items()}
        self._written: list[tuple[int, int, IndexContent]] = []
        self._removed: list[tuple[int, int]] = []
        self._listed = {place: count for place, count in progress_files.listed.items() if place[0] in channels}
        # The changed segments, as of now: the worker looks at each message in them.
        self._changed = {
            number: (
                channels[number].copy() if number in channels else None,
                set(progress_files.on_disk.get(number, ())),
            )
            for number, indexes in dirty.items()
            if indexes or number not in channels
        }

    def _find_changes(self) -> None:
        """Find the segments to write, and those to remove."""
        written, removed = self._written, self._removed
        for channel, (progress, on_disk) in self._changed.items():
            indexes = self.dirty[channel]
            contents = {} if progress is None else index_contents(progress, indexes)
            for index in sorted(contents):
                written.append((channel, index, contents[index]))
                self._listed[channel, index] = contents[index].settled_count
            for index in sorted(on_disk - contents.keys()):
                if progress is not None and index not in indexes and (index + 1) * INDEX_OFFSETS > progress.floor:
                    continue  # unchanged
                removed.append((channel, index))
                if progress is not None and (index + 1) * INDEX_OFFSETS > progress.floor:
                    # An old segment above the floor would settle messages that are to be delivered again.
                    written.append((channel, index, IndexContent({}, {}, {})))
        for place in removed:
            self._listed.pop(place, None)

    def run(self) -> None:
        """Raises OSError; then the old journals stay, and the next merge does this one's work, too."""
        directory, files = self._progress_files.directory, self._files
        self._find_changes()
        if self._written:
            self._write_floors_first()
            self._floors_journal = self._base_journal
            self._write_segments(self._written)
        self._replace_floors(self._new_journal, self._listed)
        self._floors_journal = self._new_journal
        for number in self.old_journals:
            self._unlink(journal_path(directory, number))
        for channel, index in self._removed:
            self._unlink(index_path(directory, channel, index))
        for path in self.removable:
            self._unlink(path)
        for channel in self.gone:
            remove_directory(index_directory(directory, channel), files)
        files.sync_directory(directory)

    def settle(self, *, is_done: bool) -> None:
        """After `run`, successful or not: note which files exist now."""
        progress_files = self._progress_files
        progress_files.floors_journal = self._floors_journal
        for channel, index, _ in self._written:
            # Also after a failure: they may exist, and the next merge must replace or remove them.
            progress_files.on_disk.setdefault(channel, set()).add(index)
        if self._floors_journal == self._new_journal:
            progress_files.listed = self._listed
        if is_done:
            for channel, index in self._removed:
                progress_files.on_disk.get(channel, set()).discard(index)
            for channel in self.gone:
                progress_files.on_disk.pop(channel, None)

    def _write_floors_first(self) -> None:
        """The new segments have nothing below the new floors, so a crash must not leave them with the older floors.
        The journals of this merge still apply."""
        self._replace_floors(self._base_journal, self._progress_files.listed)

    def _replace_floors(self, journal: int, listed: dict[tuple[int, int], int]) -> None:
        self._files.replace(self._progress_files.floors_path, encode_floors(Floors(journal, self._floors, listed)))

    def _write_segments(self, written: list[tuple[int, int, IndexContent]]) -> None:
        directory, files = self._progress_files.directory, self._files
        channels: set[int] = set()
        for channel, index, content in written:
            if channel not in channels:
                channels.add(channel)
                files.make_directory(index_directory(directory, channel))
            files.replace(index_path(directory, channel, index), encode_index(channel, index, content))
        if channels:
            files.sync_directory(directory)

    def _unlink(self, path: str) -> None:
        try:
            self._files.unlink(path)
        except FileNotFoundError:
            pass
