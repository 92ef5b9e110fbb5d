"""Holds: who besides the channels needs a topic's messages kept, from which offset on, and until when.

    log/holds.json
    {"version": 1, "holds": [{"name": "…", "topic": 7, "offset": 1200, "expires_ms": 1800000000000}, …]} LF
    CRC-32C of the line before, without its LF, as 8 hex digits LF

One per name; `topic` is the topic's number, `expires_ms` Unix milliseconds. Replaced as a whole (tmp, fsync, rename,
directory fsync) before anybody relies on it. A hold of a topic that is deleted ends with it. What this file says is
found nowhere else: a damaged one is set aside as `holds.json.bad` and told of, and whoever held something finds its
hold lost.
"""

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass

import orjson
from crc32c import crc32c

from queue_engine.clock import NS_PER_MS, Clock
from queue_engine.errors import LeaseNotFoundError, LimitError, StorageError
from queue_engine.storage.background import Background
from queue_engine.storage.files import Files
from queue_engine.storage.replaced_file import Composed, ReplacedFile
from queue_engine.ticket import Ticket

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


class Holds:
    """All holds of one log. Belongs to the engine's thread."""

    def __init__(self, directory: str, *, files: Files, clock: Clock, worker: Background) -> None:
        self._files = files
        self._clock = clock
        self._file = ReplacedFile(os.path.join(directory, HOLDS_NAME), self._composed, files=files, worker=worker)
        self._holds: dict[str, Hold] = {}
        self._least: dict[int, int] = {}  # topic number → the least offset held

    def open(self, topic_numbers: Iterable[int]) -> str:
        """Read the file. Returns its path when it was damaged and is set aside, else "". Raises OSError."""
        path = self._file.path
        data = self._files.read_whole(path, 1 << 24)
        if data is None:
            return ""
        holds = decode_holds(data)
        if holds is None:
            self._files.rename(path, f"{path}.bad")
            return path
        known = frozenset(topic_numbers)
        self._holds = {hold.name: hold for hold in holds if hold.topic_number in known}
        if len(self._holds) != len(holds):
            self._file.note_changed()
        self._count()
        return ""

    @property
    def error(self) -> StorageError | None:
        """Why the file does not say what holds there are; None when it does, or will with the write under way."""
        return self._file.error

    def __len__(self) -> int:
        return len(self._holds)

    def all(self) -> list[Hold]:
        return list(self._holds.values())

    def get(self, name: str) -> Hold:
        """Raises LeaseNotFoundError."""
        hold = self._holds.get(name)
        if hold is None or hold.expires_ms <= self._now_ms():
            raise LeaseNotFoundError(f"lease {name} has expired, was given back, never was, or its topic is gone")
        return hold

    def least_offset(self, topic_number: int) -> int | None:
        """The least offset held of a topic; None when none is."""
        return self._least.get(topic_number)

    def take(self, name: str, topic_number: int, offset: int, ttl_ms: int) -> tuple[Hold, Ticket]:
        """Hold a topic's messages from `offset` on, or move or renew the hold of that name.

        The ticket is done when that is durable. Raises LimitError when there are too many.
        """
        if name not in self._holds and len(self._holds) >= HOLDS_MAX:
            raise LimitError(f"hold {name} is not taken: {len(self._holds)} exist, which is the most")
        hold = self._holds[name] = Hold(name, topic_number, offset, self._now_ms() + ttl_ms)
        return hold, self._changed()

    def give_back(self, name: str) -> Ticket:
        """End a hold. Raises LeaseNotFoundError."""
        self.get(name)
        del self._holds[name]
        return self._changed()

    def forget_topic(self, topic_number: int) -> None:
        """The topic was deleted."""
        if topic_number in self._least:
            self._holds = {name: hold for name, hold in self._holds.items() if hold.topic_number != topic_number}
            self._changed()

    def tick(self) -> None:
        """End what has expired; write again what could not be written."""
        now_ms = self._now_ms()
        expired = [hold for hold in self._holds.values() if hold.expires_ms <= now_ms]
        for hold in expired:
            logger.info("hold expired name=%s topic_number=%d offset=%d", hold.name, hold.topic_number, hold.offset)
            del self._holds[hold.name]
        if expired:
            self._count()
            self._file.note_changed()
        self._file.retry()

    def close(self) -> None:
        """Write what is unwritten, in this thread. Raises OSError."""
        self._file.close()

    def _now_ms(self) -> int:
        return self._clock.time_ns() // NS_PER_MS

    def _count(self) -> None:
        least: dict[int, int] = {}
        for hold in self._holds.values():
            least[hold.topic_number] = min(least.get(hold.topic_number, hold.offset), hold.offset)
        self._least = least

    def _changed(self) -> Ticket:
        self._count()
        return self._file.save()

    def _composed(self) -> Composed:
        return encode_holds(self._holds.values()), lambda: None


def encode_holds(holds: Iterable[Hold]) -> bytes:
    """The file's content."""
    listed = [
        {"name": one.name, "topic": one.topic_number, "offset": one.offset, "expires_ms": one.expires_ms}
        for one in holds
    ]
    line = orjson.dumps({"version": VERSION, "holds": listed})
    return b"%s\n%08x\n" % (line, crc32c(line))


def decode_holds(data: bytes) -> list[Hold] | None:
    """The holds of the file's content; None when it is not what was written."""
    line, _, check = data.partition(b"\n")
    if check != b"%08x\n" % crc32c(line):
        return None
    content = orjson.loads(line)
    if content["version"] != VERSION:
        return None
    return [Hold(one["name"], one["topic"], one["offset"], one["expires_ms"]) for one in content["holds"]]
