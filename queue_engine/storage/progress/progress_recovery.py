"""Progress after a start: read from floors, index segments and the journals that were not merged; and its damage.

The floors of a clean stop (every journal's length), the `durable` entries of journals, and the floors' list of segments
state which bytes were on the disk. Invalid bytes at such a place are damage; anywhere else they are a write that was
not finished when the process or the machine ended.
"""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from queue_engine.storage.disk.files import Files, is_no_fault_of_disk
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.floors import FLOORS_NAME, CleanStop, Floors, decode_floors
from queue_engine.storage.progress.journal_file import JOURNAL_SUFFIX, journal_path
from queue_engine.storage.progress.journal_format import (
    DURABLE,
    SEEK,
    SNAPSHOT,
    JournalContent,
    apply,
    durable_upto,
    read_journal,
)
from queue_engine.storage.progress.queue_index import (
    IndexContent,
    add_to,
    decode_index,
    index_path,
    indexes_on_disk,
    names_in,
    read_file,
)
from queue_engine.storage.progress.unread_index import Unread, add_missing, is_unread_name, read_unread, unread_on_disk
from queue_engine.vocabulary.errors import NewerFormatError, StorageError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProgressDamage:
    """A damaged file of progress. channel: whose it is, 0 for all channels'. settled_max: how many finished messages of
    that channel only this file had, at most; None when that is unknown."""

    path: str
    reason: str
    channel: int = 0
    settled_max: int | None = None


@dataclass(slots=True)
class RecoveredProgress:
    """channels: by number, all wanted ones. on_disk: their index segments. listed: (channel, index) → offsets
    settled, of those that the floors list and that are valid. old_journals: number → its first bytes that are valid
    without a hole. dropped: entries that went beyond a topic's end, or belong to no channel. damages: messages that
    only these files had as finished are delivered again. stop: the record of a clean stop, where the last stop was one.
    unread: by channel, index segments that can't be read, set aside already or not. reread: paths of those set aside
    that are needless now. error: why no progress could be read; then channels are where they began."""

    channels: dict[int, ChannelProgress] = field(default_factory=dict)
    on_disk: dict[int, set[int]] = field(default_factory=dict)
    listed: dict[tuple[int, int], int] = field(default_factory=dict)
    old_journals: dict[int, int] = field(default_factory=dict)
    floors: Floors | None = None
    next_journal: int = 1
    dropped: int = 0
    damages: list[ProgressDamage] = field(default_factory=list)
    stop: CleanStop | None = None
    unread: dict[int, Unread] = field(default_factory=dict)
    unread_reasons: dict[int, StorageError] = field(default_factory=dict)
    reread: list[str] = field(default_factory=list)
    error: StorageError | None = None

    def forget_unread(self, channel: int) -> None:
        """Drop a channel's unreadable segments: they are void."""
        unread_paths = [path for path in self.unread.pop(channel, {}) if is_unread_name(path)]
        self.unread_reasons.pop(channel, None)
        self.reread += unread_paths

    @property
    def floors_journal(self) -> int | None:
        """The first journal to be applied to the floors; None without floors."""
        return None if self.floors is None else self.floors.journal


def progress_or_error(directory: str, files: Files, wanted: Mapping[int, tuple[int, int]]) -> RecoveredProgress:
    """As `recover_progress`; `error` has why a file can't be read. Raises NewerFormatError, and StorageError for an
    error that is no fault of the disk."""
    try:
        return recover_progress(directory, files, wanted)
    except StorageError as exc:
        if isinstance(exc, NewerFormatError) or is_no_fault_of_disk(exc):
            raise
        logger.error("all channels of the log are fenced, since their progress can't be read: %s", exc)
        channels = {number: ChannelProgress(start) for number, (start, _) in wanted.items()}
        return RecoveredProgress(channels, error=exc)


def recover_progress(directory: str, files: Files, wanted: Mapping[int, tuple[int, int]]) -> RecoveredProgress:
    """The progress of the channels in `wanted`: number → (offset it began at, its topic's recovered end).

    Reads only: doing it again gives the same. Raises StorageError when a file can't be read, or has an unknown
    version.
    """
    found = RecoveredProgress()
    floors = found.floors = _read_floors(directory, files, wanted, found)
    listed: dict[int, dict[int, int]] = {}
    for (number, index), count in floors.segments.items() if floors is not None else ():
        listed.setdefault(number, {})[index] = count
    for number, (start, _) in wanted.items():
        floor, cursor, epoch = (start, start, 0) if floors is None else floors.channels.get(number, (start, start, 0))
        progress = found.channels[number] = ChannelProgress(floor, cursor, epoch)
        _read_segments(directory, files, number, progress, listed.get(number, {}), found)
    _read_journals(directory, files, floors, found)
    for number, (_, end) in wanted.items():
        progress = found.channels[number]
        progress.level()
        if progress.cut(end):
            found.dropped += 1
    return found


def _read_floors(
    directory: str, files: Files, wanted: Mapping[int, tuple[int, int]], found: RecoveredProgress
) -> Floors | None:
    path = os.path.join(directory, FLOORS_NAME)
    data = read_file(files, path)
    floors = decode_floors(data, path)
    if floors is not None:
        left = floors.stop.journals if floors.stop is not None else ()
        found.next_journal = max([floors.journal, *left]) + 1
    elif data:
        found.damages.append(ProgressDamage(path, "its checksum does not match"))
    elif _are_floors_missing(directory, files, wanted):
        found.damages.append(ProgressDamage(path, "it is missing or empty"))
    return floors


def _are_floors_missing(directory: str, files: Files, wanted: Mapping[int, tuple[int, int]]) -> bool:
    """Whether there must be floors: a merge writes them before it removes journal 1 and before it writes segments, and
    a channel whose topic has messages is not in a new directory."""
    if any(indexes_on_disk(directory, number, files) for number in wanted):
        return True
    journals = _journals(directory, files)
    if not journals:
        return any(end > start for start, end in wanted.values())
    return journals[0] > 1


def _read_segments(
    directory: str,
    files: Files,
    number: int,
    progress: ChannelProgress,
    listed: Mapping[int, int],
    found: RecoveredProgress,
) -> None:
    """One channel's index segments; damage to them costs that channel alone."""
    indexes = indexes_on_disk(directory, number, files)
    found.on_disk[number] = set(indexes)
    unread_paths = unread_on_disk(directory, number, files)
    for index in sorted({*indexes, *listed}):
        path = index_path(directory, number, index)
        content: IndexContent | Literal[False] | None = None
        if index in found.on_disk[number]:
            content = _read_or_note(path, number, index, found, lambda path: read_file(files, path))
        if content is False:
            continue
        if content is not None:
            add_to(progress, content)
            if index in listed:
                found.listed[number, index] = content.settled_count
            continue
        if index not in found.on_disk[number] and index in unread_paths.values():
            continue
        reason = "its checksum does not match" if index in found.on_disk[number] else "it is missing"
        found.damages.append(ProgressDamage(path, reason, number, listed.get(index)))
    for path, index in unread_paths.items():
        content = _read_or_note(path, number, index, found, lambda path: read_unread(path, files))
        if content is False:
            continue
        if content is None:
            found.damages.append(ProgressDamage(path, "its checksum does not match", number))
        else:
            add_missing(progress, content)
        found.reread.append(path)


def _read_or_note(
    path: str, number: int, index: int, found: RecoveredProgress, read: Callable[[str], bytes]
) -> IndexContent | Literal[False] | None:
    """An index segment's content; None when it is damaged. False when it can't be read, which is noted."""
    try:
        data = read(path)
    except StorageError as exc:
        if is_no_fault_of_disk(exc):
            raise
        found.unread.setdefault(number, {})[path] = index
        found.unread_reasons[number] = exc
        return False
    return decode_index(data, number, index)


def _read_journals(directory: str, files: Files, floors: Floors | None, found: RecoveredProgress) -> None:
    numbers = _journals(directory, files)
    contents: dict[int, JournalContent] = {}
    durable: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for number in numbers:
        path = journal_path(directory, number)
        data = read_file(files, path)
        journal = contents[number] = read_journal(data, number, path)
        sizes[number] = len(data)
        found.old_journals[number] = journal.first_hole
        found.next_journal = max(found.next_journal, number + 1)
        for one, upto in durable_upto(journal.entries).items():
            durable[one] = max(durable.get(one, 0), upto)
    if floors is not None:
        stop = floors.stop
        if stop is not None and (not numbers or numbers[-1] <= max([0, *stop.journals])):
            # Otherwise the stop is an earlier one, and a journal was begun since.
            found.stop = stop
            durable.update(stop.journals)
        if floors.lists_segments:
            durable.setdefault(floors.journal, 0)
    first = 0 if floors is None else floors.journal
    # A snapshot makes void all before it, damage included.
    snapshots = [number for number in numbers if contents[number].is_snapshot]
    last_snapshot = max([0, *snapshots])
    if last_snapshot >= max(first, 1):
        found.damages.clear()
        for void in list(found.unread):
            found.forget_unread(void)
        first = last_snapshot
    for number in sorted({*numbers, *durable}):
        if number < first:
            continue
        content = contents.get(number)
        reason = _damage_of(content, durable.get(number), sizes.get(number, 0))
        if reason:
            found.damages.append(ProgressDamage(journal_path(directory, number), reason))
        for entry in content.entries if content is not None else ():
            channel = found.channels.get(entry.channel)
            if channel is not None:
                apply(entry, channel)
                if entry.op == SEEK:
                    # The channel was rewound: its segments are void, and its progress since is in the journals.
                    found.forget_unread(entry.channel)
            elif entry.op not in (DURABLE, SNAPSHOT):
                found.dropped += 1


def _damage_of(content: JournalContent | None, durable: int | None, size: int) -> str:
    """The damage to a journal that was on the disk up to byte `durable`; "" for none."""
    if content is None:
        return "it is missing"
    if durable is None:
        durable = 0
    if not content.is_header_whole and (content.entries or durable):
        return "its header is damaged"
    if content.end < durable:
        state = "cut short" if size < durable else "damaged"
        return f"it was on the disk up to byte {durable}, and is {state} from byte {content.first_hole} on"
    if content.first_hole < durable and content.hole_bytes:
        return f"{content.hole_bytes} bytes from byte {content.first_hole} on are damaged, those behind them are valid"
    return ""


def _journals(directory: str, files: Files) -> list[int]:
    names = names_in(directory, files)
    stems = [name.removesuffix(JOURNAL_SUFFIX) for name in names if name.endswith(JOURNAL_SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())
