"""The key indexes of all topics of one log: written, merged, checked and made anew, a little with each tick.

The log has every key. So the index never refuses a publish: keys that can't be written are missing, and are read from
the log again later.
"""

import errno
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.files import Files, is_no_fault_of_disk
from queue_engine.storage.key_index.key_file import range_of_name
from queue_engine.storage.key_index.key_files import KeyFiles
from queue_engine.storage.key_index.key_merge import FILES_MAX, Merge, files_to_merge
from queue_engine.storage.key_index.key_state import STATE_NAME, KeyState, decode_state, encode_state
from queue_engine.storage.key_index.missing_keys import KeyedTopic, MissingKeys
from queue_engine.storage.key_index.offset_ranges import Range, joined
from queue_engine.storage.key_index.topic_keys import KeyFile, Part, TopicKeys
from queue_engine.vocabulary.byte_budget import ByteBudget
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import StorageError

logger = logging.getLogger(__name__)

# A part of so many keys is written.
PART_ENTRIES = 1 << 15
# Keys of all topics in memory, 4 bytes each. Beyond it, the largest open parts are written; where they can't be, the
# oldest are left to the log.
ENTRIES_MAX = 1 << 20
# And the bytes of keys that have no CRC yet; beyond it, new keys get their CRC at once.
WAITING_BYTES_MAX = 8 << 20
# Open parts are written when they are so old, at most so many each time.
OPEN_NS = 30 * NS_PER_S
AGED_MAX = 16
LARGEST_MAX = 64
STATE_INTERVAL_NS = 30 * NS_PER_S
RETRY_NS = 5 * NS_PER_S
TRIM_INTERVAL_NS = 5 * NS_PER_S
# Files are merged when none was written for so long.
QUIET_NS = 2 * NS_PER_S
# Parts that one job writes.
WRITES_MAX = 8
# A tick begins to read no other record, and to look at no other topic, after so long.
SLICE_NS = 5 * NS_PER_MS
# Parts that a stop writes, the largest; the others are read from the log again.
CLOSE_PARTS_MAX = 256


class KeyIndexes:
    """Belongs to the engine's thread. error: why the last write failed, "" after one that did not. is_on: whether keys
    are noted at all."""

    def __init__(self, directory: str, *, files: Files, clock: Clock, worker: Background, is_on: bool = True) -> None:
        """is_on: off for a log whose messages have no keys."""
        self.files = KeyFiles(directory, files)
        self.error = ""
        self._path = os.path.join(directory, STATE_NAME)
        self._clock = clock
        self._worker = worker
        self.is_on = is_on
        self._is_started = False
        self._state: KeyState | None = None  # as the start found it
        self._topics: dict[int, tuple[KeyedTopic, TopicKeys]] = {}
        self._unchecked: dict[int, None] = {}
        self._filling: dict[int, int] = {}  # topics with an open part → since when, monotonic
        self._sealed: deque[tuple[TopicKeys, Part]] = deque()  # to be written, the oldest first
        self._unmerged: dict[int, None] = {}  # topics to look for merges
        self._merge: Merge | None = None
        self._waiting = ByteBudget(WAITING_BYTES_MAX)
        self._missing = MissingKeys(self._topics, clock, self._waiting, on_made=self._made)
        self._useless: list[str] = []  # files to remove
        self._deleted_directories: list[str] = []  # directories to remove
        self._job: BackgroundJob | None = None
        self._written_state = b""
        self._now_ns = 0
        self._retry_at_ns = self._state_at_ns = self._trim_at_ns = 0
        self._count_at_ns = self._quiet_at_ns = 0
        self._synced_end: Callable[[], int] = lambda: 0

    # Start and stop.

    def open(self) -> None:
        """Read how far the index is whole. Raises NewerFormatError."""
        if not self.is_on:
            return
        try:
            data = self.files.files.read_whole(self._path, 1 << 30)
        except OSError as exc:
            logger.warning("key index made anew, since its state can't be read path=%s error=%s", self._path, exc)
            return
        if data is not None:
            self._state = decode_state(data, self._path)
            if self._state is None:
                logger.warning("key index made anew, since its state is damaged path=%s", self._path)

    def start(self, synced_end: Callable[[], int]) -> None:
        """The topics of the start are added. synced_end: the position up to which the log is durable."""
        self._is_started = True
        self._synced_end = synced_end
        if not self.is_on:
            return
        try:
            names = self.files.names(self.files.directory)
        except OSError as exc:
            logger.warning("key indexes of deleted topics not removed error=%s", exc)
            return
        for name in names:
            if name.isdigit() and int(name) not in self._topics:
                self._deleted_directories.append(os.path.join(self.files.directory, name))
            elif name.endswith(".tmp"):
                self._useless.append(os.path.join(self.files.directory, name))

    def add(self, topic: KeyedTopic) -> TopicKeys:
        """The keys of a topic, new or of the start."""
        number = topic.number
        is_checked = self._is_started or not self.is_on
        keys = TopicKeys(
            number,
            os.path.join(self.files.directory, str(number)),
            topic.end_offset,
            part_entries=PART_ENTRIES,
            is_checked=is_checked,
            waiting=self._waiting,
        )
        keys.on_first = self._note_filling
        keys.on_sealed = self._note_sealed
        self._topics[number] = (topic, keys)
        if not is_checked:
            self._unchecked[number] = None
        return keys

    def forget_topic(self, number: int) -> None:
        """The topic was deleted."""
        found = self._topics.pop(number, None)
        if found is None:
            return
        keys = found[1]
        keys.is_deleted = True
        keys.free()
        for table in (self._unchecked, self._filling, self._unmerged):
            table.pop(number, None)
        self._missing.forget(keys)
        self._sealed = deque(one for one in self._sealed if one[0] is not keys)
        for file in keys.files:
            self.files.descriptors.close(file.path)
        if self._merge is not None and self._merge.topic is keys:
            self._merge = None
        if self.is_on:
            self._deleted_directories.append(keys.directory)

    def close(self) -> None:
        """Write the largest parts and the state, in this thread. Without that the next start reads more of the log."""
        if not self.is_on or not self._is_started:
            return
        if self._job is not None:
            self._job.finish()
            self._job.ended(self._job.error)
        open_parts = sorted((self._topics[number] for number in self._filling), key=lambda one: -len(one[1].open))
        for topic, keys in open_parts[:CLOSE_PARTS_MAX]:
            keys.seal(topic.end_offset)
        try:
            while self._sealed:
                self._write_parts(0)
                if self.error:
                    break
            self._check_some(1 << 62)
            state = self._composed()
            if state is not None and state != self._written_state:
                self.files.write(self._path, state)
        except OSError as exc:
            logger.warning("state of the key index not written path=%s error=%s", self._path, exc)
        self.files.descriptors.close_all()

    # While it works.

    def tick(self, now_ns: int) -> None:
        """Begin a job for the worker if it has none, and read a few missing keys. now_ns: monotonic."""
        if not self.is_on:
            return
        self._now_ns = now_ns
        self._seal_some(now_ns)
        deadline_ns = self._clock.monotonic_ns() + SLICE_NS
        self._check_some(deadline_ns)
        if now_ns >= self._trim_at_ns:
            self._trim_at_ns = now_ns + TRIM_INTERVAL_NS
            self._trim()
        if self._job is None:
            self._begin_job(now_ns)
        if now_ns >= self._retry_at_ns and len(self._sealed) < WRITES_MAX:
            self._missing.read_some(now_ns, deadline_ns)

    def _note_filling(self, keys: TopicKeys) -> None:
        self._filling[keys.number] = self._clock.monotonic_ns()

    def _note_sealed(self, keys: TopicKeys, part: Part) -> None:
        self._filling.pop(keys.number, None)
        self._sealed.append((keys, part))
        self._bound()

    def _bound(self) -> None:
        """Leave the oldest parts to the log while too many wait to be written."""
        count = sum(len(part) for _, part in self._sealed)
        while count > ENTRIES_MAX:
            index = next((index for index, (_, part) in enumerate(self._sealed) if not part.is_taken), None)
            if index is None:
                return
            keys, part = self._sealed[index]
            del self._sealed[index]
            keys.give_up(part)
            self._missing.note(keys.number)
            count -= len(part)

    def _seal_some(self, now_ns: int) -> None:
        """End open parts that are old, and the largest while there are too many keys in memory."""
        old: list[int] = []
        for number, since_ns in self._filling.items():
            if len(old) == AGED_MAX or now_ns < since_ns + OPEN_NS:
                break
            old.append(number)
        if now_ns >= self._count_at_ns:
            self._count_at_ns = now_ns + NS_PER_S
            if sum(len(self._topics[number][1].open) for number in self._filling) > ENTRIES_MAX:
                old += sorted(self._filling, key=lambda number: -len(self._topics[number][1].open))[:LARGEST_MAX]
        for number in dict.fromkeys(old):
            topic, keys = self._topics[number]
            keys.seal(topic.end_offset)

    def _trim(self) -> None:
        for topic, keys in self._topics.values():
            if keys.files or keys.missing:
                for file in keys.trim(topic.oldest_offset):
                    self.files.descriptors.close(file.path)
                    self._useless.append(file.path)

    # The worker's jobs, one at a time.

    def _begin_job(self, now_ns: int) -> None:
        if self._deleted_directories or self._useless:
            directories, useless = self._deleted_directories, self._useless
            self._deleted_directories, self._useless = [], []
            self._start(partial(self._remove, directories, useless), lambda error: None)
        elif now_ns < self._retry_at_ns:
            return
        elif self._sealed:
            self._write_parts(now_ns)
        elif not self._write_state(now_ns) and (self._merge is not None or self._unmerged):
            self._merge_some(now_ns)

    def _write_state(self, now_ns: int) -> bool:
        """Have the worker write the state, if that is due and it has changed."""
        if now_ns < self._state_at_ns:
            return False
        self._state_at_ns = now_ns + STATE_INTERVAL_NS
        state = self._composed()
        if state is None or state == self._written_state:
            return False
        self._start(partial(self.files.write, self._path, state), partial(self._state_written, state))
        return True

    def _start(self, work: Callable[[], None], then: Callable[[Exception | None], None]) -> None:
        def ended(error: Exception | None) -> None:
            self._job = None
            then(error)

        self._job = BackgroundJob(work, then=ended)
        self._job.start(self._worker)

    def _remove(self, directories: Sequence[str], paths: Sequence[str]) -> None:
        try:
            self.files.remove(paths)
            for directory in directories:
                self.files.remove_directory(directory)
        except OSError as exc:
            logger.warning("files of the key index not removed error=%s", exc)  # the next start finds them

    def _state_written(self, state: bytes, error: Exception | None) -> None:
        if error is None:
            self._written_state = state
        else:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._retry_at_ns = self._now_ns + RETRY_NS
        if not self.error:
            logger.warning("key index not written, tried again every 5 s error=%s", error)
        self.error = str(error)

    def _write_parts(self, now_ns: int) -> None:
        """Have the worker write the oldest sealed parts; at a stop, now_ns 0, write them here."""
        some = list(self._sealed)[:WRITES_MAX]
        try:
            for keys, _ in some:
                self._checked(keys.number)
        except OSError as exc:
            self._failed(exc)
            return
        written: list[tuple[TopicKeys, Part]] = []
        for _, part in some:
            part.is_taken = True

        def write() -> None:
            for keys, part in some:
                file = KeyFile(keys.directory, part.first, part.end, len(part))
                self.files.write(file.path, part.content(keys.number))
                written.append((keys, part))

        def ended(error: Exception | None) -> None:
            for _, part in some:
                part.is_taken = False
            self._quiet_at_ns = self._now_ns + QUIET_NS
            for keys, part in written:
                if keys.is_deleted:
                    continue  # its directory goes with the next job
                self._sealed.remove((keys, part))
                keys.written(part)
                self._unmerged[keys.number] = None
            if error is None:
                self.error = ""
            else:
                self._failed(error)
            self._bound()

        if now_ns:
            self._start(write, ended)
            return
        try:
            write()
        except OSError as exc:
            ended(exc)
        else:
            ended(None)

    def _merge_some(self, now_ns: int) -> None:
        """Have the worker do the next step of a merge: while many keys are published, only of a topic with many
        files."""
        if self._merge is None:
            number = next(iter(self._unmerged))
            topic = self._topics[number][1]
            if now_ns < self._quiet_at_ns and len(topic.files) <= FILES_MAX:
                self._unmerged[number] = self._unmerged.pop(number)
                return
            files = files_to_merge(topic)
            if not files:
                del self._unmerged[number]
                return
            self._merge = Merge(topic, files, self.files.files)
        merge = self._merge
        ready: list[bool] = []

        def step() -> None:
            content = merge.step()
            if content is not None:
                self.files.write(merge.result.path, content)
                ready.append(True)

        def ended(error: Exception | None) -> None:
            topic = merge.topic
            if topic.is_deleted:
                return
            if error is not None:
                self._merge = None
                if merge.failed is not None and not is_no_fault_of_disk(error):
                    self._lost(topic, merge.failed, error)
                else:
                    self._failed(error)
            elif ready:
                self._merge = None
                self._merged(merge)

        self._start(step, ended)

    def _merged(self, merge: Merge) -> None:
        topic = merge.topic
        if all(one in topic.files for one in merge.files):
            topic.replaced(merge.files, merge.result)
            for one in merge.files:
                self.files.descriptors.close(one.path)
                self._useless.append(one.path)
        else:
            self._useless.append(merge.result.path)  # one of them was lost, or trimmed, meanwhile

    def _lost(self, keys: TopicKeys, file: KeyFile, error: Exception) -> None:
        """A file can't be used: the log has its keys."""
        if file not in keys.files:
            return
        logger.warning("file of keys made anew from the log path=%s error=%s", file.path, error)
        self.files.descriptors.close(file.path)
        keys.lose(file)
        self._useless.append(file.path)
        self._missing.note(keys.number)
        self._state_at_ns = 0

    def _composed(self) -> bytes | None:
        """The state as of now; None until every topic was checked."""
        if self._unchecked:
            return None
        position = self._synced_end()
        present: dict[int, list[Range]] = {}
        missing: dict[int, list[Range]] = {}
        for number, (topic, keys) in self._topics.items():
            for first in (keys.first_position, topic.first_unnoted_position):
                if first is not None and first < position:
                    position = first
            if keys.files:
                present[number] = keys.present()
            absent = [*keys.missing, *keys.made_again()]
            if absent:
                missing[number] = joined(absent)
        return encode_state(KeyState(position, present, missing))

    # Checking at a start, and missing ranges.

    def _check_some(self, deadline_ns: int) -> None:
        while self._unchecked:
            try:
                self._checked(next(iter(self._unchecked)))
            except OSError as exc:
                logger.warning("key index not checked now error=%s", exc)
                return
            if self._clock.monotonic_ns() >= deadline_ns:
                return

    def _checked(self, number: int) -> None:
        """Find out which files a topic has and which offsets lack. Raises OSError for want of descriptors or memory."""
        topic, keys = self._topics[number]
        if keys.is_checked:
            return
        found: list[KeyFile] = []
        try:
            names = self.files.names(keys.directory)
        except OSError as exc:
            if is_no_fault_of_disk(exc):
                raise
            logger.warning("key index made anew directory=%s error=%s", keys.directory, exc)
            names = []
        for name in names:
            named = range_of_name(name)
            if named is None:
                self._useless.append(os.path.join(keys.directory, name))
            else:
                found.append(KeyFile(keys.directory, *named))
        useless = keys.check(found, self._expected(topic, keys), topic.oldest_offset)
        self._useless += [one.path for one in useless]
        del self._unchecked[number]
        if keys.missing:
            self._missing.note(number)
        if len(keys.files) > 1:
            self._unmerged[number] = None

    def _expected(self, topic: KeyedTopic, keys: TopicKeys) -> list[Range]:
        """The offsets of before this start that must be in files, or be read from the log."""
        state, number = self._state, keys.number
        everything = (topic.oldest_offset, keys.live_first)
        if state is None:
            return [everything]
        try:
            first = topic.first_offset_at(state.position)
        except StorageError:
            return [everything]
        return [*state.present.get(number, ()), *state.missing.get(number, ()), (first, keys.live_first)]

    def _made(self, keys: TopicKeys, part: Part) -> None:
        """A part of a missing range was read: it is written as any other."""
        if part:
            part.is_made_again = True
            keys.sealed.append(part)
            self._sealed.append((keys, part))
        else:
            self._state_at_ns = 0

    # Looking up, and figures.

    def candidates(self, topic: KeyedTopic, key: bytes, before: int) -> Iterator[int]:
        """The offsets of a topic below `before` that may have the key, newest first. Raises StorageError."""
        keys = self._keys_of(topic)

        def unusable(file: KeyFile, error: Exception) -> None:
            if is_no_fault_of_disk(error) and not (isinstance(error, OSError) and error.errno == errno.ELOOP):
                raise StorageError(f"{file.path} can't be read now: {error}") from error
            self._lost(keys, file, error)

        for offset in keys.candidates(key, before, self.files, unusable):
            if offset >= topic.oldest_offset:
                yield offset

    def missing(self, topic: KeyedTopic) -> list[Range]:
        """The ranges of a topic's offsets that are not indexed yet. Raises StorageError."""
        return [
            (max(first, topic.oldest_offset), end)
            for first, end in self._keys_of(topic).missing
            if end > topic.oldest_offset
        ]

    def _keys_of(self, topic: KeyedTopic) -> TopicKeys:
        try:
            self._checked(topic.number)
        except OSError as exc:
            raise StorageError(f"the key index of topic {topic.name} can't be read now: {exc}") from exc
        return self._topics[topic.number][1]

    @property
    def is_writing(self) -> bool:
        """Whether a part is written, or waits for that."""
        return bool(self._sealed)

    @property
    def is_busy(self) -> bool:
        """Whether it writes, merges or reads, or will with the next ticks; open parts and the state wait longer."""
        return bool(
            self._job or self._sealed or self._unmerged or self._merge or self._missing.topics or self._unchecked
        )

    @property
    def missing_count(self) -> int:
        """Offsets that are not indexed yet, of all checked topics."""
        return sum(end - first for number in self._missing.topics for first, end in self._topics[number][1].missing)
