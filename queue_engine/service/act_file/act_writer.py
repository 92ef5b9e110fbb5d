"""Has the acts over the HTTP API written to their file, where no console keeps the audit list.

Implements `ActGate`: an intent is on the disk before its act begins. While the disk refuses, lines wait in memory and
acts go on, so that a full disk can be emptied; with too many waiting, acts are refused.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from queue_engine.delivery.stats import ActRecord
from queue_engine.service.act_file.act_file import ActFile
from queue_engine.service.act_file.line import shortened
from queue_engine.service.act_file.repeated_acts import SEVERAL, RepeatedActs, Source, Window, limits_of
from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock

logger = logging.getLogger(__name__)

WAITING_MAX = 10_000
# Acts are refused before there is no room for their results.
WAITING_MAX_OF_ACTS = 9_000
CHECK_INTERVAL_S = 1.0


@dataclass(slots=True)
class _Last:
    """The newest of the acts that one line stands for. is_one_actor: all are of its actor. claim: of all; "" where they
    differ."""

    act: ActRecord | None = None
    is_one_actor: bool = True
    claim: str = ""

    def add(self, act: ActRecord) -> None:
        self.is_one_actor = self.is_one_actor and (self.act is None or self.act.actor == act.actor)
        self.claim = act.on_behalf_of if self.act is None or self.claim == act.on_behalf_of else ""
        self.act = act


class ActWriter:
    """Belongs to the engine's thread. error: why lines wait; "" while they don't."""

    def __init__(self, file: ActFile, worker: Background, clock: Clock) -> None:
        self._file = file
        self._worker = worker
        self._clock = clock
        self._waiting: list[ActRecord] = []
        self._added_count = self._written_count = 0
        self._thens: list[tuple[int, Callable[[bool], None]]] = []  # each with the number of its line
        self._job: BackgroundJob | None = None
        self._repeated = RepeatedActs(_Last)
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
        self._add(shortened(record, self._now_ms()))

    # Reports, and time.

    def tell(self, record: ActRecord) -> None:
        """Write the result of an act, now or counted with similar ones."""
        act, kind = shortened(record, self._now_ms()), limits_of(record)
        if kind is not None:
            source = Source(act.via, act.remote_address, act.action, act.topic, act.channel)
            if (digest := self._repeated.count(kind, source, self._now_s())) is not None:
                digest.add(act)
                return
        self._add(act)

    async def check_once(self) -> None:
        """Wait for the interval, then write counted acts and lines that the disk refused before."""
        await asyncio.sleep(CHECK_INTERVAL_S)
        self.look()

    def look(self) -> None:
        for window in self._repeated.closed(self._now_s()):
            self._add(_act_of(window))
        self._write()

    def close(self) -> None:
        """Write all, in this thread."""
        for window in self._repeated.closed(self._now_s(), is_last=True):
            self._add(_act_of(window))
        # The end of one begins the next while lines wait.
        while (job := self._job) is not None:
            job.ended(job.finish())
        if self._waiting:
            try:
                self._file.append(self._waiting)
            except OSError as exc:
                logger.error("%d lines about acts are lost: %s", len(self._waiting), exc)
        self._file.close()

    def _add(self, act: ActRecord) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self.lost_count += 1
            return
        self._waiting.append(act)
        self._added_count += 1
        if self.error:
            self._answer(self._added_count)  # it waits in memory, and `look` tries again
        else:
            self._write()

    def _write(self) -> None:
        if self._job is not None or not self._waiting:
            return
        acts = list(self._waiting)

        def done(error: Exception | None) -> None:
            self._job = None
            if error is None:
                del self._waiting[: len(acts)]
                self._written_count += len(acts)
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

        self._job = BackgroundJob(lambda: self._file.append(acts), then=done)
        self._job.start(self._worker)

    def _answer(self, up_to: int) -> None:
        """Let the acts begin whose lines are on the disk, or in memory while that refuses: those up to this number."""
        ready = [then for number, then in self._thens if number <= up_to]
        self._thens = [one for one in self._thens if one[0] > up_to]
        for then in ready:
            then(True)

    def _now_ms(self) -> int:
        return self._clock.time_ns() // NS_PER_MS

    def _now_s(self) -> float:
        return self._clock.monotonic_ns() / NS_PER_S


def _act_of(window: Window[_Last]) -> ActRecord:
    """The record of counted acts: the last one, and their number; without an actor where they are of several."""
    last = window.digest.act
    assert last is not None
    address = last.remote_address if window.is_one_source else SEVERAL
    actor, claim = (last.actor, window.digest.claim) if window.digest.is_one_actor else ("", "")
    return replace(last, remote_address=address, actor=actor, on_behalf_of=claim, times=window.counted)
