"""Looks at the free bytes of the data directory's disk: how fast they go, and whether they last for some minutes."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from queue_engine.delivery.stats import DiskSpace
from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.clock import NS_PER_S, Clock

logger = logging.getLogger(__name__)

LOOK_EVERY_NS = 5 * NS_PER_S
# A fall of less than ten minutes is no trend: a build or a copy writes for some. Only a fall that
# lasts for ten minutes makes each of the eight parts of a window less than the one before. A disk that fills slowly, in
# steps of a megabyte, is seen within an hour.
WINDOWS_S = (960, 2880)
_PARTS = 8
_LOOKS_MAX = WINDOWS_S[-1] * NS_PER_S // LOOK_EVERY_NS + 1
# A window counts when looks fill so much of it: the first one comes late, and a busy disk answers late.
_FILLED = 0.95
# A fall is steady when each part has some of it. The least bounds the others.
_UNEVEN_MAX = 4
# The disk has little room when it does not last for so many minutes in which topics grow as in the last.
_OWN_MINUTES = 10


class Look(NamedTuple):
    """at_ns: monotonic. own_bytes: the bytes of topics on the disk; None for unknown."""

    at_ns: int
    free_bytes: int
    own_bytes: int | None = None


class DiskWatch:
    """Looks at the disk every five seconds. Belongs to the engine's thread; a background reads the disk.

    reserve_bytes: the free bytes that the log needs. own_bytes: reads the bytes of topics on the disk, None where they
    are unknown. on_space: gets the figures after each look, None when the disk gave none; on the engine's thread.
    """

    def __init__(
        self,
        data_path: str,
        *,
        files: Files,
        clock: Clock,
        background: Background,
        reserve_bytes: int,
        own_bytes: Callable[[], int | None],
        on_space: Callable[[DiskSpace | None], None],
    ) -> None:
        self._data_path = data_path
        self._files = files
        self._clock = clock
        self._background = background
        self._reserve_bytes = reserve_bytes
        self._own_bytes = own_bytes
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
        own_bytes = self._own_bytes()
        self._is_looking = True
        BackgroundJob(lambda: self._look(own_bytes), then=self._looked).start(self._background)

    def _look(self, own_bytes: int | None) -> None:
        free = self._files.free_bytes(self._data_path)
        total = self._files.total_bytes(self._data_path)
        self._looks.append(Look(self._clock.monotonic_ns(), free, own_bytes))
        self._space = disk_space(self._looks, total, self._reserve_bytes)

    def _looked(self, error: Exception | None) -> None:
        self._is_looking = False
        self._look_at_ns = self._clock.monotonic_ns() + LOOK_EVERY_NS
        if error is not None:
            logger.debug("free bytes not read path=%s error=%s", self._data_path, error)
        self._on_space(self._space if error is None else None)


def disk_space(looks: Sequence[Look], total_bytes: int, reserve_bytes: int) -> DiskSpace:
    """The figures after some looks, ascending in time."""
    own_minute, fall_minute = _growth(_since(looks, 60))
    own_minute = own_minute or 0
    window = _since(looks, WINDOWS_S[0])
    own_window, _ = _growth(window)
    fill = fill_bytes_per_s(looks)
    return DiskSpace(
        looks[-1].free_bytes,
        total_bytes,
        fill,
        None if fill is None or own_window is None else own_window / _took_s(window),
        # Others, too, may go on for another minute; a copy of theirs ends by itself more often than topics do.
        low_bytes=reserve_bytes + _OWN_MINUTES * own_minute + max(fall_minute - own_minute, 0),
        own_minute_bytes=own_minute,
    )


def fill_bytes_per_s(looks: Sequence[Look]) -> float | None:
    """How fast the free bytes go where they go steadily: the fastest over the windows, 0 where they do not; None before
    a window is full.

    looks: ascending in time. A window is cut into parts, whose highest figures are compared: segments that go once they
    are consumed make a sawtooth. A loss in one part or two, such as a backup, is no trend: the median of the falls
    counts, and no more than four times the least.
    """
    paces: list[float] = []
    for window_s in WINDOWS_S:
        window = _since(looks, window_s)
        took_ns = window[-1].at_ns - window[0].at_ns
        if took_ns < window_s * NS_PER_S * _FILLED:
            break
        highest = [0] * _PARTS
        for one in window:
            part = min((one.at_ns - window[0].at_ns) * _PARTS // took_ns, _PARTS - 1)
            highest[part] = max(highest[part], one.free_bytes)
        falls = [before - after for before, after in pairwise(highest)]
        paces.append(max(min(median(falls), _UNEVEN_MAX * min(falls)), 0) * _PARTS * NS_PER_S / took_ns)
    return max(paces, default=None)


def _since(looks: Sequence[Look], seconds: int) -> list[Look]:
    return [one for one in looks if looks[-1].at_ns - one.at_ns <= seconds * NS_PER_S]


def _took_s(looks: Sequence[Look]) -> float:
    return (looks[-1].at_ns - looks[0].at_ns) / NS_PER_S


def _growth(looks: Sequence[Look]) -> tuple[int | None, int]:
    """The growth of topics between the first and the last look, None for unknown, and the loss of the disk; 0 for less
    than nothing."""
    first, last = looks[0], looks[-1]
    fall = max(first.free_bytes - last.free_bytes, 0)
    if first.own_bytes is None or last.own_bytes is None:
        return None, fall
    return max(last.own_bytes - first.own_bytes, 0), fall
