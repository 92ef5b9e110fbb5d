"""What channels had done, from floors, index segments and the journals that were not merged yet."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from queue_engine.errors import StorageError
from queue_engine.storage.channel_progress import ChannelProgress
from queue_engine.storage.files import Files
from queue_engine.storage.journal_format import apply, read_entries
from queue_engine.storage.progress_journal import JOURNAL_SUFFIX, journal_path
from queue_engine.storage.queue_index import (
    FLOORS_NAME,
    add_to,
    decode_floors,
    decode_index,
    index_path,
    indexes_on_disk,
    read_file,
)


@dataclass(slots=True)
class RecoveredProgress:
    """channels: by number, all that were asked for. dropped: entries that went beyond a topic's end, or belong to no
    channel. damaged: files that were not what was written; what only they knew is delivered again."""

    channels: dict[int, ChannelProgress] = field(default_factory=dict)
    on_disk: dict[int, set[int]] = field(default_factory=dict)
    old_journals: list[int] = field(default_factory=list)
    floors_journal: int | None = None  # the first journal to be applied to the floors; None without floors
    next_journal: int = 1
    dropped: int = 0
    damaged: list[str] = field(default_factory=list)


def recover_progress(directory: str, files: Files, wanted: Mapping[int, tuple[int, int]]) -> RecoveredProgress:
    """The progress of the channels in `wanted`: number → (offset it began at, its topic's recovered end).

    Reads only: doing it again gives the same. Raises StorageError when a file can't be read.
    """
    found = RecoveredProgress()
    path = os.path.join(directory, FLOORS_NAME)
    data = read_file(files, path)
    floors = decode_floors(data)
    if floors is None and data:
        found.damaged.append(path)
    if floors is not None:
        found.floors_journal = floors.journal
    for number, (start, _) in wanted.items():
        floor, cursor, epoch = (start, start, 0) if floors is None else floors.channels.get(number, (start, start, 0))
        progress = found.channels[number] = ChannelProgress(floor, cursor, epoch)
        indexes = indexes_on_disk(directory, number, files)
        found.on_disk[number] = set(indexes)
        for index in indexes:
            path = index_path(directory, number, index)
            content = decode_index(read_file(files, path), number, index)
            if content is None:
                found.damaged.append(path)
            else:
                add_to(progress, content)
    for journal in _journals(directory, files):
        found.old_journals.append(journal)
        found.next_journal = journal + 1
        if floors is None or journal >= floors.journal:
            for entry in read_entries(read_file(files, journal_path(directory, journal)), journal):
                channel = found.channels.get(entry.channel)
                if channel is None:
                    found.dropped += 1
                else:
                    apply(entry, channel)
    if floors is not None:
        found.next_journal = max(found.next_journal, floors.journal + 1)
    for number, (_, end) in wanted.items():
        progress = found.channels[number]
        progress.level()
        if progress.cut(end):
            found.dropped += 1
    return found


def _journals(directory: str, files: Files) -> list[int]:
    try:
        names = files.listdir(directory)
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise StorageError(f"{directory} can't be read: {exc}") from exc
    stems = [name.removesuffix(JOURNAL_SUFFIX) for name in names if name.endswith(JOURNAL_SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())
