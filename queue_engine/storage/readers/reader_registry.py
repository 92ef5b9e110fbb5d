"""The registry of readers: each has a name and an offset, and the log keeps its topic's messages from there on.

A reader may expire. Leases and pipeline cursors are readers; a registry has one of the two kinds, and a file that lists
them. The file is replaced as a whole (tmp, fsync, rename, directory fsync) before an act on a reader is answered.

Until the write completes, the log keeps messages needed by either version of the file. After a crash a reader is at its
old or its new offset. A damaged file is set aside as `….bad` and reported. An unreadable file stays as it is, and is
read again every READ_AGAIN_NS: until that succeeds no reader is listed, made or moved, and the log removes nothing. An
operator who moves the file away declares that there are no readers.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.files import Files, is_no_fault_of_disk
from queue_engine.storage.disk.replaced_file import Composed, ReplacedFile
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import NotOwnReaderError, StorageError
from queue_engine.vocabulary.steady_time import SteadyTime
from queue_engine.vocabulary.ticket import Ticket

FILE_BYTES_MAX = 1 << 28
# How often a file is read again that could not be read.
READ_AGAIN_NS = 10 * NS_PER_S
# The expiry of a reader that does not expire.
NEVER_MS = 1 << 63

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reader:
    """The log keeps messages of topic `topic_number` from `offset` on until `expires_ms` (Unix). maker: who made it, as
    `Maker.name`."""

    name: str
    topic_number: int
    offset: int
    expires_ms: int = NEVER_MS
    maker: str = ""


@dataclass(frozen=True, slots=True)
class Maker:
    """Who makes, changes or ends a reader. name: "token NAME", a user of the console, or "" without a token.
    is_limited: a token that may consume on the topic but not administer it: it changes and ends its own readers
    alone, and has limited numbers of them."""

    name: str = ""
    is_limited: bool = False

    def check_owns(self, reader: Reader, subject: str) -> None:
        """Raises NotOwnReaderError for a reader of another maker. subject: the reader's kind and name."""
        if self.is_limited and reader.maker != self.name:
            origin = f"was made by {reader.maker}" if reader.maker else "was not made with a token to consume"
            raise NotOwnReaderError(
                f"{subject} {origin}, and {self.name} may only consume: that changes its own readers alone. Nothing "
                "was changed. A token that may administer the topic can do this"
            )


ANY_MAKER = Maker()


R = TypeVar("R", bound=Reader)
Undo = Callable[[], None]
ByTopic = dict[int, dict[str, R]]  # by topic number and name


class ReaderRegistry(ABC, Generic[R]):
    """All readers of one kind in one log. Belongs to the engine's thread."""

    def __init__(self, path: str, *, files: Files, clock: Clock, worker: Background) -> None:
        self._files = files
        self._clock = clock
        self._time = SteadyTime(clock)
        self._file = ReplacedFile(path, self._composed, files=files, worker=worker, on_refused=self._undo_all)
        # How to undo the acts that may not be on the disk: those in the write under way, and those since.
        self._undos_begun: list[Undo] = []
        self._undos: list[Undo] = []
        self.unread: StorageError | None = None
        """Why the file could not be read; None when it was."""
        self._start_topics: frozenset[int] = frozenset()  # at the start
        self._read_again_at_ns = 0
        self._deleted_topics: set[int] = set()  # topics that were deleted since the start
        self._current: ByTopic[R] = {}
        # The readers that the file on the disk may list: of the last complete write, joined with later ones.
        self._on_disk: ByTopic[R] = {}
        self._least: dict[int, int] = {}  # topic number → its `least_offset`, once looked up

    def open(self, topic_numbers: Iterable[int]) -> str:
        """Read the file. Returns its path when it was damaged and is set aside, else "". Raises OSError when that
        fails."""
        self._start_topics = frozenset(topic_numbers)
        return self._read()

    def _read(self) -> str:
        path = self._file.path
        self._read_again_at_ns = self._clock.monotonic_ns() + READ_AGAIN_NS
        try:
            data = self._files.read_whole(path, FILE_BYTES_MAX)
        except OSError as exc:
            if is_no_fault_of_disk(exc):
                raise
            if self.unread is None:
                logger.error("%s can't be read; the next attempt follows in 10 s: %s", path, exc)
            self.unread = StorageError(
                f"{path} can't be read ({exc.strerror}): the log keeps everything until it can. When the disk can't be "
                "mended, move the file away: the readers that it lists are lost then"
            )
            return ""
        if self.unread is not None:
            logger.warning("%s can be read again", path)
        self.unread = None
        if data is None:
            return ""
        if not self._restore(data, self._start_topics - self._deleted_topics):
            self._files.rename(path, f"{path}.bad")
            return path
        self._became_durable(self._copied())
        return ""

    @property
    def error(self) -> StorageError | None:
        """Why the file differs from memory; None when it agrees, or will with the write under way."""
        return self.unread or self._file.error

    def _check_read(self) -> None:
        """Raises StorageError while the file can't be read."""
        if self.unread is not None:
            raise self.unread

    def __len__(self) -> int:
        return sum(map(len, self._current.values()))

    def all(self) -> list[R]:
        return _all_of(self._current)

    def living(self) -> list[R]:
        """All but those that have expired."""
        return [reader for reader in self.all() if not self.has_expired(reader)]

    def has_expired(self, reader: R) -> bool:
        """Whether the next tick ends it."""
        return reader.expires_ms <= self._expiry_clock_ms()

    def count_of(self, maker: Maker) -> int:
        """How many readers of this kind a maker has."""
        return sum(reader.maker == maker.name for readers in self._current.values() for reader in readers.values())

    def of_topic(self, topic_number: int) -> list[R]:
        return list(self._current.get(topic_number, {}).values())

    def least_offset(self, topic_number: int) -> int | None:
        """The first offset of a topic that a reader needs, in memory or in the file on the disk; None when there is
        no reader."""
        least = self._least.get(topic_number)
        if least is None:
            both = self._current, self._on_disk
            if topic_number not in both[0] and topic_number not in both[1]:
                return None
            needed = [reader.offset for readers in both for reader in readers.get(topic_number, {}).values()]
            if needed:
                least = self._least[topic_number] = min(needed)
        return least

    def tick(self) -> None:
        """End expired readers; write again a file that could not be written, read again one that could not be read."""
        self._end_expired()
        if self.unread is None:
            self._file.retry()
        elif self._clock.monotonic_ns() >= self._read_again_at_ns:
            try:
                damaged = self._read()
            except (OSError, StorageError) as exc:
                self.unread = StorageError(f"{self._file.path}: {exc}")
            else:
                if damaged:
                    logger.error("%s is damaged and set aside", damaged)

    def close(self) -> None:
        """Write unwritten changes, in this thread. Raises OSError."""
        if self.unread is None:
            self._file.close()

    @abstractmethod
    def _encoded(self) -> bytes:
        """The file's content."""

    @abstractmethod
    def _restore(self, data: bytes, topic_numbers: frozenset[int]) -> bool:
        """Put the readers of the file's content whose topic exists; False when it is damaged."""

    def _expiry_clock_ms(self) -> int:
        """Unix ms by the clock of the start: setting the clock since then ends no reader and prolongs none."""
        return self._time.now_ns() // NS_PER_MS

    def _end_expired(self) -> None:
        now_ms = self._expiry_clock_ms()
        for reader in self.all():
            if reader.expires_ms <= now_ms:
                logger.info(
                    "reader expired name=%s number=%d offset=%d", reader.name, reader.topic_number, reader.offset
                )
                self._remove(reader)
                self._note_expired(reader)
                self._file.note_changed()
        # Readers that have expired by the file, too, need nothing. If their messages stayed until the file is replaced,
        # a full disk would stay full.
        for reader in _all_of(self._on_disk):
            if reader.expires_ms <= now_ms:
                _remove_from(self._on_disk, reader)
                self._least.pop(reader.topic_number, None)

    def _note_expired(self, reader: R) -> None:
        """Called for each reader that expires."""

    def _put(self, reader: R) -> None:
        self._current.setdefault(reader.topic_number, {})[reader.name] = reader
        self._least.pop(reader.topic_number, None)

    def _remove(self, reader: R) -> None:
        _remove_from(self._current, reader)
        self._least.pop(reader.topic_number, None)

    def _remove_topic(self, topic_number: int) -> list[R]:
        """Returns the readers that this ends."""
        self._deleted_topics.add(topic_number)
        removed = self.of_topic(topic_number)
        for reader in removed:
            self._remove(reader)
        return removed

    def _save_or(self, undo: Undo) -> Ticket:
        """Write the file after an act; `undo` takes the act back when the disk refuses."""
        assert self.unread is None, "an unreadable file is never replaced"
        self._undos.append(undo)
        return self._file.save()

    def _undo_all(self) -> None:
        undos, self._undos_begun, self._undos = [*self._undos_begun, *self._undos], [], []
        for undo in reversed(undos):
            undo()

    def _undo_put(self, before: R | None, after: R) -> None:
        """Take back that `after` was put in place of `before`, unless another has replaced it by now."""
        if self._current.get(after.topic_number, {}).get(after.name) is after:
            self._remove(after)
        if before is not None:
            self._undo_remove(before)

    def _undo_remove(self, removed: R) -> None:
        """Put it back, unless another has its name by now or its topic is gone."""
        topic_number = removed.topic_number
        if topic_number not in self._deleted_topics and removed.name not in self._current.get(topic_number, {}):
            self._put(removed)

    def _copied(self) -> ByTopic[R]:
        return {number: dict(readers) for number, readers in self._current.items()}

    def _composed(self) -> Composed:
        self._undos_begun += self._undos
        self._undos = []
        for reader in self.all():
            listed = self._on_disk.setdefault(reader.topic_number, {})
            other = listed.get(reader.name, reader)
            listed[reader.name] = reader if other is reader else _joined(other, reader)
        copied = self._copied()
        return self._encoded(), lambda: self._became_durable(copied)

    def _became_durable(self, written: ByTopic[R]) -> None:
        self._on_disk = written
        self._undos_begun = []
        self._least.clear()


def _joined(one: R, other: R) -> R:
    """The old and the new version of one reader as one that keeps the messages of both: the file may hold either."""
    return replace(one, offset=min(one.offset, other.offset), expires_ms=max(one.expires_ms, other.expires_ms))


def _all_of(readers: ByTopic[R]) -> list[R]:
    return [reader for named in readers.values() for reader in named.values()]


def _remove_from(readers: ByTopic[R], reader: R) -> None:
    named = readers[reader.topic_number]
    del named[reader.name]
    if not named:
        del readers[reader.topic_number]
