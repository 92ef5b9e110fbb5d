"""Holds: who besides the channels needs a topic's messages kept, from which offset on, and until when.

    log/holds.json
    {"version": 1, "holds": [{"name": "…", "topic": 7, "offset": 1200, "expires_ms": 1800000000000}, …]} LF
    CRC-32C of the line before, without its LF, as 8 hex digits LF

One per name; `topic` is the topic's number, `expires_ms` Unix milliseconds. `reader_file.py` says how the file is
replaced. A hold ends with its topic. Holds are written nowhere else: when the file is damaged, they are lost. To change
the format: raise `VERSION`, go on reading what was, and add a file of it to the fixtures.
"""

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from queue_engine.disk.background import Background
from queue_engine.disk.checked_line import decode_versioned, encode_line
from queue_engine.disk.files import Files
from queue_engine.readers.reader_file import ReaderFile
from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import LeaseNotFoundError, LimitError
from queue_engine.vocabulary.ticket import Ticket

logger = logging.getLogger(__name__)

HOLDS_NAME = "holds.json"
VERSION = 1
HOLDS_MAX = 10_000
NAME_BYTES_MAX = 100


@dataclass(frozen=True, slots=True)
class Hold:
    """Messages of topic `topic_number` from `offset` on are kept until `expires_ms` (Unix)."""

    name: str
    topic_number: int
    offset: int
    expires_ms: int


class Holds(ReaderFile[Hold]):
    """All holds of one log; no two have the same name. Belongs to the engine's thread."""

    def __init__(self, directory: str, *, files: Files, clock: Clock, worker: Background) -> None:
        super().__init__(os.path.join(directory, HOLDS_NAME), files=files, clock=clock, worker=worker)
        self._by_name: dict[str, Hold] = {}
        self._wall_ahead_ns = clock.time_ns() - clock.monotonic_ns()

    def _lease_now_ms(self) -> int:
        """Unix ms as the clock told them at the start: one that is set meanwhile ends no lease and prolongs none."""
        return (self._clock.monotonic_ns() + self._wall_ahead_ns) // NS_PER_MS

    def get(self, name: str) -> Hold:
        """Raises LeaseNotFoundError; StorageError while the file can't be read."""
        self._check_read()
        hold = self._by_name.get(name)
        if hold is None or hold.expires_ms <= self._lease_now_ms():
            raise LeaseNotFoundError(f"lease {name} has expired, was given back, never was, or its topic is gone")
        return hold

    def take(self, name: str, topic_number: int, offset: int, ttl_ms: int) -> tuple[Hold, Ticket]:
        """Hold a topic's messages from `offset` on, or move or renew the hold of that name.

        The ticket is done when that is durable. Raises LimitError when there are too many, StorageError while the
        file can't be read.
        """
        self._check_read()
        former = self._by_name.get(name)
        if former is None and len(self._by_name) >= HOLDS_MAX:
            raise LimitError(f"hold {name} is not taken: {len(self._by_name)} exist, which is the most")
        if former is not None and former.topic_number != topic_number:
            self._remove(former)
        hold = Hold(name, topic_number, offset, self._lease_now_ms() + ttl_ms)
        self._put(hold)

        def undo() -> None:
            self._put_back(former if former is not None and former.topic_number == topic_number else None, hold)
            if former is not None and former.topic_number != topic_number:
                self._bring_back(former)

        return hold, self._save_or(undo)

    def renew(self, names: Iterable[str], ttl_ms: int) -> Ticket:
        """Keep holds for `ttl_ms` from now on, all or none. Raises LeaseNotFoundError for the first lost one."""
        expires_ms = self._lease_now_ms() + ttl_ms
        renewed = [(hold, replace(hold, expires_ms=expires_ms)) for hold in [self.get(name) for name in names]]
        for _, hold in renewed:
            self._put(hold)

        def undo() -> None:
            for before, hold in renewed:
                self._put_back(before, hold)

        return self._save_or(undo)

    def give_back(self, name: str) -> Ticket:
        """End a hold. Raises LeaseNotFoundError."""
        hold = self.get(name)
        self._remove(hold)
        return self._save_or(lambda: self._bring_back(hold))

    def forget_topic(self, topic_number: int) -> None:
        """The topic was deleted."""
        if self._remove_topic(topic_number):
            self._file.save()

    def tick(self) -> None:
        """End what has expired; write again what could not be written."""
        now_ms = self._lease_now_ms()
        expired = [hold for hold in self._by_name.values() if hold.expires_ms <= now_ms]
        for hold in expired:
            logger.info("hold expired name=%s topic_number=%d offset=%d", hold.name, hold.topic_number, hold.offset)
            self._remove(hold)
        if expired:
            self._file.note_changed()
        # The file's word on these binds nobody. Were they kept until it can be replaced, a full disk would stay full.
        for hold in [one for told in self._told.values() for one in told.values() if one.expires_ms <= now_ms]:
            self._forget_told(hold)
        super().tick()

    def _encoded(self) -> bytes:
        return encode_holds(self.all())

    def _restore(self, data: bytes, known: frozenset[int]) -> bool:
        holds = decode_holds(data, self._file.path)
        if holds is None:
            return False
        for hold in holds:
            if hold.topic_number in known:
                self._put(hold)
            else:
                self._file.note_changed()
        return True

    def _joined(self, one: Hold, other: Hold) -> Hold:
        return replace(super()._joined(one, other), expires_ms=max(one.expires_ms, other.expires_ms))

    def _put(self, hold: Hold) -> None:
        super()._put(hold)
        self._by_name[hold.name] = hold

    def _remove(self, hold: Hold) -> None:
        super()._remove(hold)
        del self._by_name[hold.name]


def encode_holds(holds: Iterable[Hold]) -> bytes:
    """The file's content."""
    listed = [
        {"name": one.name, "topic": one.topic_number, "offset": one.offset, "expires_ms": one.expires_ms}
        for one in holds
    ]
    return encode_line({"version": VERSION, "holds": listed})


def decode_holds(data: bytes, path: str = HOLDS_NAME) -> list[Hold] | None:
    """The holds of the file's content; None when it is not what was written. Raises NewerFormatError."""
    content = decode_versioned(data, path, VERSION)
    if content is None:
        return None
    return [Hold(one["name"], one["topic"], one["offset"], one["expires_ms"]) for one in content["holds"]]
