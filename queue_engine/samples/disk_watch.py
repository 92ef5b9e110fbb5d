"""Looks at the free bytes of the data directory's disk, and at how fast they go."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from queue_engine.delivery.stats import DiskSpace
from queue_engine.disk.background import Background
from queue_engine.disk.background_job import BackgroundJob
from queue_engine.disk.files import Files
from queue_engine.vocabulary.clock import NS_PER_S, Clock

logger = logging.getLogger(__name__)

LOOK_EVERY_NS = 5 * NS_PER_S
# A disk that fills fast is seen after a minute; one that fills slowly, in steps of a segment, within half an hour.
WINDOWS_S = (60, 300, 1800)
_LOOKS_MAX = WINDOWS_S[-1] * NS_PER_S // LOOK_EVERY_NS + 1
# A window counts when looks fill so much of it: the first one comes late, and a busy disk answers late.
_FILLED = 0.8


class Look(NamedTuple):
    """at_ns: monotonic."""

    at_ns: int
    free_bytes: int


class DiskWatch:
    """Asks the disk every five seconds. Belongs to the engine's thread; a background asks.

    on_space: gets the figures after each look, None when the disk gave none; on the engine's thread.
    """

    def __init__(
        self,
        data_path: str,
        *,
        files: Files,
        clock: Clock,
        background: Background,
        on_space: Callable[[DiskSpace | None], None],
    ) -> None:
        self._data_path = data_path
        self._files = files
        self._clock = clock
        self._background = background
        self._on_space = on_space
        self._is_looking = False
        self._look_at_ns = 0
        # Of the background's job, which is alone with them while it runs.
        self._looks: deque[Look] = deque(maxlen=_LOOKS_MAX)
        self._space: DiskSpace | None = None

    def tick(self, now_ns: int) -> None:
        """Look when it is time. now_ns: monotonic."""
        if self._is_looking or now_ns < self._look_at_ns:
            return
        self._is_looking = True
        BackgroundJob(self._look, then=self._looked).start(self._background)

    def _look(self) -> None:
        free = self._files.free_bytes(self._data_path)
        total = self._files.total_bytes(self._data_path)
        self._looks.append(Look(self._clock.monotonic_ns(), free))
        self._space = DiskSpace(free, total, fill_bytes_per_s(self._looks))

    def _looked(self, error: Exception | None) -> None:
        self._is_looking = False
        self._look_at_ns = self._clock.monotonic_ns() + LOOK_EVERY_NS
        if error is not None:
            logger.debug("free bytes not read path=%s error=%s", self._data_path, error)
        self._on_space(self._space if error is None else None)


def fill_bytes_per_s(looks: Sequence[Look]) -> float | None:
    """How fast the free bytes go: the fastest over the windows, 0 where they do not; None before a window is full.

    looks: ascending in time. What goes in one piece, such as a backup, is not growth: a window counts no more than
    twice what went in the half of it in which less did.
    """
    rates: list[float] = []
    for window_s in WINDOWS_S:
        newest = looks[-1]
        since = [one for one in looks if newest.at_ns - one.at_ns <= window_s * NS_PER_S]
        took_s = (newest.at_ns - since[0].at_ns) / NS_PER_S
        if took_s < window_s * _FILLED:
            break
        middle = min(since, key=lambda one: abs(2 * one.at_ns - since[0].at_ns - newest.at_ns))
        halves = since[0].free_bytes - middle.free_bytes, middle.free_bytes - newest.free_bytes
        rates.append(max(min(sum(halves), 2 * min(halves)) / took_s, 0.0))
    return max(rates, default=None)
