"""The files of progress beside the journals: the floors, and which index segments may exist."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from queue_engine.storage.disk.files import Files
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.floors import FLOORS_NAME, CleanStop, Floors, encode_floors

Indexes = dict[int, set[int]]
"""Channel → index segments."""


@dataclass(slots=True)
class ProgressFiles:
    """on_disk: index segments that may exist. listed: (channel, index) → how many offsets are settled, by the floors on
    the disk. floors_journal: the first journal that is to be applied to those floors; None without floors."""

    directory: str
    files: Files
    on_disk: Indexes = field(default_factory=dict)
    listed: dict[tuple[int, int], int] = field(default_factory=dict)
    floors_journal: int | None = None

    @property
    def floors_path(self) -> str:
        return os.path.join(self.directory, FLOORS_NAME)

    def replace_floors(
        self,
        channels: Mapping[int, ChannelProgress],
        first_journal: int,
        *,
        before: Floors | None = None,
        stop: CleanStop | None = None,
    ) -> None:
        """Write the floors of all channels, to which the same journals apply as until now: where there were no floors,
        all from `first_journal` on. before: the floors until now, which have channels to be forgotten, too. stop: of a
        clean stop. Raises OSError."""
        journal = first_journal if self.floors_journal is None else self.floors_journal
        floors = {number: (one.floor, one.cursor, one.epoch) for number, one in channels.items()}
        listed = dict(self.listed)
        if before is not None:
            floors |= {number: one for number, one in before.channels.items() if number not in channels}
            listed |= {place: count for place, count in before.segments.items() if place[0] not in channels}
        self.files.replace(self.floors_path, encode_floors(Floors(journal, floors, listed, stop)))
        self.floors_journal = journal
