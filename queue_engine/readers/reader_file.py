"""What holds and cursors have in common: readers beside the channels, and a small file that lists them.

The file is replaced as a whole (tmp, fsync, rename, directory fsync) before an act on a reader is answered. Until the
write completes, the log keeps messages needed by either version of the file. After a crash a reader is at its old or
its new offset. A damaged file is set aside as `….bad` and reported. An unreadable file stays as it is, and is read
again every READ_AGAIN_NS: until that succeeds no reader is listed, made or moved, and the log removes nothing. An
operator who moves the file away declares that there are no readers.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from queue_engine.disk.background import Background
from queue_engine.disk.files import Files, is_no_fault_of_disk
from queue_engine.disk.replaced_file import Composed, ReplacedFile
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.ticket import Ticket

FILE_BYTES_MAX = 1 << 28
# How often a file is read again that could not be read.
READ_AGAIN_NS = 10 * NS_PER_S

logger = logging.getLogger(__name__)


class Reader(Protocol):
    """It needs the topic's messages from `offset` on."""

    @property
    def topic_number(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def offset(self) -> int: ...


R = TypeVar("R", bound=Reader)
Undo = Callable[[], None]
ByTopic = dict[int, dict[str, R]]  # by topic number and name


class ReaderFile(ABC, Generic[R]):
    """All readers of one kind in one log. Belongs to the engine's thread."""

    def __init__(self, path: str, *, files: Files, clock: Clock, worker: Background) -> None:
        self._files = files
        self._clock = clock
        self._file = ReplacedFile(path, self._composed, files=files, worker=worker, on_refused=self._undo_all)
        # How to take back what was done since the last write that is known to be done: in the one under way, and since.
        self._undos_begun: list[Undo] = []
        self._undos: list[Undo] = []
        self.unread: StorageError | None = None
        """Why the file could not be read; None when it was."""
        self._known_topics: frozenset[int] = frozenset()  # at the start
        self._read_again_at_ns = 0
        self._gone: set[int] = set()  # topics that were deleted since the start
        self._named: ByTopic[R] = {}
        # What the file on the disk may list: of the last write known to be complete, joined with those begun since.
        self._told: ByTopic[R] = {}
        self._least: dict[int, int] = {}  # topic number → the least offset that is needed, once looked up

    def open(self, topic_numbers: Iterable[int]) -> str:
        """Read the file. Returns its path when it was damaged and is set aside, else "". Raises OSError when that
        fails."""
        self._known_topics = frozenset(topic_numbers)
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
                logger.error("%s can't be read, and is read again now and then: %s", path, exc)
            self.unread = StorageError(
                f"{path} can't be read ({exc.strerror}): the log keeps everything until it can. When the disk can't be "
                "mended, move it out of the way: what it says is lost then"
            )
            return ""
        if self.unread is not None:
            logger.warning("%s can be read again", path)
        self.unread = None
        if data is None:
            return ""
        if not self._restore(data, self._known_topics - self._gone):
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
        return sum(map(len, self._named.values()))

    def all(self) -> list[R]:
        return [reader for named in self._named.values() for reader in named.values()]

    def of_topic(self, topic_number: int) -> list[R]:
        return list(self._named.get(topic_number, {}).values())

    def least_offset(self, topic_number: int) -> int | None:
        """The first offset of a topic that a reader needs, in memory or in the file on the disk; None when there is
        no reader."""
        least = self._least.get(topic_number)
        if least is None:
            needed = [one.offset for known in (self._named, self._told) for one in known.get(topic_number, {}).values()]
            if needed:
                least = self._least[topic_number] = min(needed)
        return least

    def least_offsets(self) -> dict[int, int]:
        """The same of each topic that has a reader, by its number."""
        found = {number: self.least_offset(number) for number in self._named.keys() | self._told.keys()}
        return {number: least for number, least in found.items() if least is not None}

    def tick(self) -> None:
        """Write again what could not be written, or read what could not be read."""
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
        """Write what is unwritten, in this thread. Raises OSError."""
        if self.unread is None:
            self._file.close()

    @abstractmethod
    def _encoded(self) -> bytes:
        """The file's content."""

    @abstractmethod
    def _restore(self, data: bytes, known: frozenset[int]) -> bool:
        """Put those of the file's content whose topic is known; False when it is not what was written."""

    def _joined(self, one: R, other: R) -> R:
        """What both of a name need: the file lists one of them."""
        return min(one, other, key=lambda reader: reader.offset)

    def _put(self, reader: R) -> None:
        self._named.setdefault(reader.topic_number, {})[reader.name] = reader
        self._least.pop(reader.topic_number, None)

    def _remove(self, reader: R) -> None:
        _remove_from(self._named, reader)
        self._least.pop(reader.topic_number, None)

    def _remove_topic(self, topic_number: int) -> list[R]:
        """Returns those that are no more."""
        self._gone.add(topic_number)
        removed = self.of_topic(topic_number)
        for reader in removed:
            self._remove(reader)
        return removed

    def _forget_told(self, reader: R) -> None:
        """The log no longer keeps what the file on the disk lists for it."""
        _remove_from(self._told, reader)
        self._least.pop(reader.topic_number, None)

    def _now_ms(self) -> int:
        return self._clock.time_ns() // NS_PER_MS

    def _copied(self) -> ByTopic[R]:
        return {number: dict(named) for number, named in self._named.items()}

    def _save_or(self, undo: Undo) -> Ticket:
        """Write what was just done; `undo` takes it back when the disk refuses."""
        assert self.unread is None, "nothing of it is replaced"
        self._undos.append(undo)
        return self._file.save()

    def _undo_all(self) -> None:
        undos, self._undos_begun, self._undos = [*self._undos_begun, *self._undos], [], []
        for undo in reversed(undos):
            undo()

    def _put_back(self, before: R | None, after: R) -> None:
        """Let `before` stand where `after` does; nothing when something else does by now."""
        if self._named.get(after.topic_number, {}).get(after.name) is after:
            if before is None:
                self._remove(after)
            else:
                self._put(before)

    def _bring_back(self, removed: R) -> None:
        """It is not removed; nothing when another has its name by now, or its topic is gone."""
        if removed.topic_number not in self._gone and removed.name not in self._named.get(removed.topic_number, {}):
            self._put(removed)

    def _composed(self) -> Composed:
        self._undos_begun += self._undos
        self._undos = []
        copied = self._copied()
        for number, named in copied.items():
            told = self._told.setdefault(number, {})
            for name, reader in named.items():
                told[name] = self._joined(told[name], reader) if name in told else reader
        return self._encoded(), lambda: self._became_durable(copied)

    def _became_durable(self, written: ByTopic[R]) -> None:
        self._told = written
        self._undos_begun = []
        self._least.clear()


def _remove_from(known: ByTopic[R], reader: R) -> None:
    named = known[reader.topic_number]
    del named[reader.name]
    if not named:
        del known[reader.topic_number]
