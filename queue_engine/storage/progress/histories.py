"""The histories of quarantined messages: how their last deliveries ended.

    log/progress/histories         a line of JSON and its checksum, as `disk/checked_line.py` draws it
    {"version": 1, "channels": {"7": {"1234": [[1750000000000000000, 2, "worker-3 10.0.0.7:51234"], …]}}}

By channel number and offset; each event is its time (Unix ns), its reason (`vocabulary/flow/return_reason.py`) and the
consumer. The worker replaces the file as a whole, a second after something changed and later when it is large, and a
clean stop does. The journal is the truth: it lists the quarantined messages. Where this file is missing, damaged or
older, those messages have no history, and everything else is as it was. To change it: the next version; read every
older one.
"""

import logging
import os
from collections.abc import Mapping
from typing import Any

from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.checked_line import decode_versioned, encode_line
from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk.replaced_file import Composed, ReplacedFile
from queue_engine.storage.progress.journaled_progress import JournaledProgress
from queue_engine.storage.progress.quarantine import ChannelQuarantine, QuarantineTotals
from queue_engine.storage.progress.return_history import BYTES_MAX, EVENT_COST_BYTES, ReturnEvent
from queue_engine.storage.quarantine_stats import QuarantineLimits
from queue_engine.vocabulary.clock import NS_PER_S

logger = logging.getLogger(__name__)

HISTORIES_NAME = "histories"
VERSION = 1
_SIZE_MAX = 64 << 20
# A second, and another one for each of so many bytes: a large file is written less often.
WRITE_INTERVAL_NS = NS_PER_S
_BYTES_PER_INTERVAL = 256 << 10

Histories = dict[int, dict[int, list[ReturnEvent]]]
"""Channel → offset → events."""


def encode_histories(histories: Mapping[int, Mapping[int, list[ReturnEvent]]]) -> bytes:
    channels = {
        str(number): {
            str(offset): [[event.time_ns, int(event.reason), event.consumer] for event in events]
            for offset, events in of_channel.items()
        }
        for number, of_channel in histories.items()
    }
    return encode_line({"version": VERSION, "channels": channels})


def decode_histories(data: bytes, path: str = "") -> Histories:
    """The file's content; empty when it is damaged. Raises NewerFormatError."""
    content = decode_versioned(data, path, VERSION)
    try:
        return {} if content is None else _histories_of(content["channels"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _histories_of(channels: Mapping[str, Any]) -> Histories:
    return {
        int(number): {
            int(offset): [ReturnEvent(int(at), int(reason), str(consumer)) for at, reason, consumer in events]
            for offset, events in of_channel.items()
        }
        for number, of_channel in channels.items()
    }


def _events_of(histories: Mapping[int, list[ReturnEvent]]) -> int:
    return sum(map(len, histories.values()))


def _keep(quarantine: ChannelQuarantine, histories: Mapping[int, list[ReturnEvent]]) -> None:
    """Take over the histories of quarantined messages."""
    for offset, events in histories.items():
        if quarantine.has(offset):
            quarantine.history.keep(offset, events)


class Quarantines:
    """The quarantines of all durable channels of one log, and the file of their histories. Belongs to the engine's
    thread."""

    def __init__(self, directory: str, limits: QuarantineLimits, *, files: Files, worker: Background) -> None:
        """directory: log/progress."""
        self.totals = QuarantineTotals(limits)
        self._channels: dict[int, ChannelQuarantine] = {}
        self._files = files
        self._found: Histories = {}
        self._put_away: Histories = {}  # of channels in the trash, those put there last at the end
        self._written_changes = 0
        self._write_at_ns = 0
        self._written_bytes = 0
        self._file = ReplacedFile(os.path.join(directory, HISTORIES_NAME), self._compose, files=files, worker=worker)

    def open(self) -> None:
        """Read the file; one that can't be read costs the histories alone."""
        try:
            data = self._files.read_whole(self._file.path, _SIZE_MAX) or b""
        except OSError as exc:
            logger.warning("histories of quarantined messages not read path=%s error=%s", self._file.path, exc)
            return
        self._found = decode_histories(data, self._file.path) if data else {}

    def add(self, number: int, journaled: JournaledProgress) -> ChannelQuarantine:
        """The quarantine of a channel, with its histories from the file, or from when it went to the trash."""
        quarantine = self._channels[number] = ChannelQuarantine(journaled, self.totals)
        _keep(quarantine, self._found.pop(number, {}) or self._put_away.pop(number, {}))
        return quarantine

    # The trash.

    def put_away(self, number: int) -> None:
        """The channel goes to the trash, and its histories with it; after a start they are those of the file."""
        quarantine = self._channels.pop(number, None)
        if quarantine is None:
            self._note_put_away(number, self._found.pop(number, {}))
            return
        self._note_put_away(number, quarantine.histories())
        quarantine.forget()

    def copy(self, number: int, to: int) -> None:
        """Copy a channel's histories for its copy in the trash, number `to`."""
        quarantine = self._channels.get(number)
        if quarantine is not None:
            self._note_put_away(to, quarantine.histories())

    def _note_put_away(self, number: int, histories: dict[int, list[ReturnEvent]]) -> None:
        if not histories:
            return
        self.totals.changes += 1
        self._put_away[number] = histories
        events = sum(_events_of(one) for one in self._put_away.values())
        while events * EVENT_COST_BYTES > BYTES_MAX:
            events -= _events_of(self._put_away.pop(next(iter(self._put_away))))

    def give_back(self, number: int, to: int) -> None:
        """Move the histories of a channel in the trash to the living channel `to`."""
        histories = self._put_away.pop(number, {})
        quarantine = self._channels.get(to)
        if quarantine is not None:
            _keep(
                quarantine, {at: events for at, events in histories.items() if at not in quarantine.history.by_offset}
            )

    def drop(self, number: int) -> None:
        """A channel in the trash is gone for good."""
        if self._put_away.pop(number, None) is not None:
            self.totals.changes += 1

    def remove(self, number: int) -> None:
        """The channel was deleted."""
        quarantine = self._channels.pop(number, None)
        if quarantine is not None:
            quarantine.forget()

    def _compose(self) -> Composed:
        held = {number: one.histories() for number, one in self._channels.items() if one.count}
        content = encode_histories({number: one for number, one in held.items() if one} | self._put_away)
        self._written_changes, self._written_bytes = self.totals.changes, len(content)
        return content, lambda: None

    def tick(self, now_ns: int) -> None:
        """Write the file when something changed. now_ns: monotonic."""
        if now_ns < self._write_at_ns:
            return
        self._write_at_ns = now_ns + WRITE_INTERVAL_NS * (1 + self._written_bytes // _BYTES_PER_INTERVAL)
        if self.totals.changes != self._written_changes:
            self._file.note_changed()
        self._file.retry()

    def close(self) -> None:
        """Write unwritten changes. Never fails: the file is not needed."""
        if self.totals.changes != self._written_changes:
            self._file.note_changed()
        try:
            self._file.close()
        except OSError as exc:
            logger.warning("histories of quarantined messages not written path=%s error=%s", self._file.path, exc)
