"""Has the acts over the HTTP API written to their file, where no console keeps the audit list.

Implements `ActGate`: an intent is on the disk before its act begins. While the disk refuses, lines wait in memory and
acts go on, so that a full disk can be emptied; with too many waiting, acts are refused.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from queue_engine.act_file.act_file import ActFile
from queue_engine.act_file.entry import Entry, entry_of
from queue_engine.delivery.stats import ActRecord
from queue_engine.disk.background import Background
from queue_engine.disk.background_job import BackgroundJob
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock

logger = logging.getLogger(__name__)

WAITING_MAX = 10_000
# Acts are refused before there is no room for their results.
WAITING_MAX_OF_ACTS = 9_000
CHECK_INTERVAL_S = 1.0
# Of what one address repeats, such as failures and looks, so many are lines at once, and the rest one line later.
REPEATS_AT_ONCE = 5
REPEATS_WINDOW_NS = 60 * NS_PER_S
SOURCES_MAX = 1_000
# Readers repeat these all the time.
_ROUTINE = frozenset({"read_messages", "move_cursor", "release_lease"})


@dataclass(slots=True)
class _Repeats:
    """What one source has repeated since `began_ns`. last: the newest that is not written; None for none."""

    began_ns: int
    seen: int = 0
    counted: int = 0
    last: Entry | None = None


class ActWriter:
    """Belongs to the engine's thread. error: why lines wait; "" while they don't."""

    def __init__(self, file: ActFile, worker: Background, clock: Clock) -> None:
        self._file = file
        self._worker = worker
        self._clock = clock
        self._waiting: list[Entry] = []
        self._added_count = self._written_count = 0
        self._thens: list[tuple[int, Callable[[bool], None]]] = []  # each with the number of its line
        self._job: BackgroundJob | None = None
        self._repeats: dict[tuple[str, ...], _Repeats] = {}
        self.error = ""
        self.lost_count = 0

    # `ActGate`.

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < WAITING_MAX_OF_ACTS

    def begin(self, record: ActRecord, then: Callable[[bool], None]) -> None:
        if not self.has_room:
            then(False)
            return
        self._thens.append((self._added_count + 1, then))
        self._add(entry_of(record, self._now_ms(), is_intent=True))

    # Reports, and time.

    def tell(self, record: ActRecord) -> None:
        """Write what came of an act, now or with those that are like it."""
        entry = entry_of(record, self._now_ms())
        if not self._is_repeat(entry):
            self._add(entry)

    async def check_once(self) -> None:
        """Wait for the interval, then write what was counted and what the disk has refused before."""
        await asyncio.sleep(CHECK_INTERVAL_S)
        self.look()

    def look(self) -> None:
        now_ns = self._clock.monotonic_ns()
        for key, repeats in list(self._repeats.items()):
            if now_ns - repeats.began_ns >= REPEATS_WINDOW_NS:
                self._end_repeats(key)
        self._write()

    def close(self) -> None:
        """Write all, in this thread."""
        for key in list(self._repeats):
            self._end_repeats(key)
        # The end of one begins the next while lines wait.
        while (job := self._job) is not None:
            job.ended(job.finish())
        if self._waiting:
            try:
                self._file.append(self._waiting)
            except OSError as exc:
                logger.error("%d lines about acts are lost: %s", len(self._waiting), exc)
        self._file.close()

    def _is_repeat(self, entry: Entry) -> bool:
        """Count what floods would fill the file with: failures, and what readers do all the time."""
        if entry.act or not (entry.error or entry.action in _ROUTINE):
            return False
        host = entry.address.rpartition(":")[0]
        key = (host, entry.action, "failed") if entry.error else (host, entry.action, entry.topic, entry.channel)
        repeats = self._repeats.get(key)
        if repeats is None:
            if len(self._repeats) >= SOURCES_MAX:
                self._end_repeats(next(iter(self._repeats)))
            repeats = self._repeats[key] = _Repeats(self._clock.monotonic_ns())
        repeats.seen += 1
        if repeats.seen <= (REPEATS_AT_ONCE if entry.error else 1):
            return False
        repeats.counted += 1
        repeats.last = entry
        return True

    def _end_repeats(self, key: tuple[str, ...]) -> None:
        repeats = self._repeats.pop(key)
        if repeats.last is not None:
            self._add(replace(repeats.last, times=repeats.counted))

    def _add(self, entry: Entry) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self.lost_count += 1
            return
        self._waiting.append(entry)
        self._added_count += 1
        if self.error:
            self._answer(self._added_count)  # it waits in memory, and `look` tries again
        else:
            self._write()

    def _write(self) -> None:
        if self._job is not None or not self._waiting:
            return
        entries = list(self._waiting)

        def done(error: Exception | None) -> None:
            self._job = None
            if error is None:
                del self._waiting[: len(entries)]
                self._written_count += len(entries)
                if self.error:
                    logger.info("acts are on the disk again")
                self.error = ""
            else:
                if not self.error:
                    logger.error("acts wait in memory, since the disk refuses their file: %s", error)
                self.error = str(error)
            self._answer(self._written_count if error is None else self._added_count)
            if error is None:
                self._write()

        self._job = BackgroundJob(lambda: self._file.append(entries), then=done)
        self._job.start(self._worker)

    def _answer(self, up_to: int) -> None:
        """Let the acts begin whose lines are on the disk, or in memory while that refuses: those up to this number."""
        ready = [then for number, then in self._thens if number <= up_to]
        self._thens = [one for one in self._thens if one[0] > up_to]
        for then in ready:
            then(True)

    def _now_ms(self) -> int:
        return self._clock.time_ns() // NS_PER_MS
