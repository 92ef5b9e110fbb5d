"""Makes long answers on the engine's loop in short slices, one answer after the other, at a share of the loop's time
while messages move.

    credit  BURST_NS at the most; it grows by a share of the time that passes, and shrinks by the time that slices take
    of the
              │     processor
    a turn just now    ──► a short pause, so that a message gets through all of its turns
    credit > 0         ──► the next slice behind the callbacks of the loop
    no turn for CALM_NS ─► the same
    else               ──► a pause, until the credit is enough for a slice

So one read of thousands of channels is made at once, and a client that reads without pause waits, instead of the queue.
A pause also leaves the interpreter to the threads that sync. While the engine has nothing to do, a pause would serve
no client: the first message waits for two slices, and from there on the slices pause.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Generator
from enum import Enum, auto
from typing import TypeVar

from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A message waits for one slice at most; one that comes while the loop is calm, for a longer one.
SLICE_NS = NS_PER_MS // 5
CALM_SLICE_NS = NS_PER_MS // 2
# Of the loop's time, once the burst is used up.
SHARE = 0.05
# The time of a first read of a thousand channels; later ones take a third of it.
BURST_NS = 25 * NS_PER_MS
# A message takes a few turns of the loop: a slice that is due while it takes them waits so long, so often at most.
WAY_NS = NS_PER_MS
WAYS_MAX = 2
# 20 messages a second are enough to keep the slices at their share.
CALM_NS = 50 * NS_PER_MS


class Next(Enum):
    """The next part after a step: another STEP of the same work; a step that is a SLICE of its own behind long work; or
    another WORK."""

    STEP = auto()
    SLICE = auto()
    WORK = auto()


class PacedSteps:
    """A line of works, each a generator that yields between steps of a tenth of a millisecond. Belongs to the loop's
    thread. share: of the loop's time. worked_at_ns: when the loop last worked for others, as now_ns; None: always.
    now_ns: monotonic. cpu_ns: processor time of this thread."""

    def __init__(
        self,
        share: float = SHARE,
        *,
        worked_at_ns: Callable[[], int] | None = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self._share = share
        self._worked_at_ns = worked_at_ns
        self._now_ns = now_ns
        self._cpu_ns = cpu_ns
        self._line: deque[Callable[[], Next]] = deque()  # each does a step
        self._credit_ns = float(BURST_NS)
        self._credited_ns = now_ns()
        self._is_long = False  # the first of the line was begun in an earlier slice
        self._ways = 0  # how often the next slice has let a message through

    def __len__(self) -> int:
        """Works that are not done."""
        return len(self._line)

    def add(self, steps: Generator[None, None, T], then: Callable[[T], None], failed: Callable[[], None]) -> None:
        """Do the steps behind the works that came before, and hand their result to `then`. failed: called instead
        when either raises, which is logged."""

        done: list[T] = []

        def step() -> Next:
            try:
                if done:
                    then(done[0])
                    return Next.WORK
                try:
                    next(steps)
                except StopIteration as stop:
                    # Sending a long answer takes as long as a slice.
                    done.append(stop.value)
                    return Next.SLICE
                return Next.STEP
            except Exception:
                logger.exception("answer not made")
                failed()
            return Next.WORK

        self._line.append(step)
        if len(self._line) == 1:
            self._do_slice()

    def _do_slice(self) -> None:
        began_ns, cpu_ns = self._now_ns(), self._cpu_ns()
        if self._makes_way(began_ns):
            return
        is_calm = self._is_calm(began_ns)
        slice_ns = CALM_SLICE_NS if is_calm else SLICE_NS
        self._credit_ns = min(self._credit_ns + (began_ns - self._credited_ns) * self._share, BURST_NS)
        self._credited_ns = began_ns
        try:
            while self._line:
                then = Next.WORK  # also when it fails unexpectedly: those behind it go on
                try:
                    then = self._line[0]()
                finally:
                    if then is Next.WORK:
                        self._line.popleft()
                if (then is Next.SLICE and self._is_long) or self._now_ns() - began_ns >= slice_ns:
                    self._is_long = then is not Next.WORK
                    break
                if then is Next.WORK:
                    self._is_long = False
        finally:
            took_ns = self._cpu_ns() - cpu_ns
            # Time taken while calm is no debt: with the first message the pauses are as long as ever.
            self._credit_ns = max(self._credit_ns, 0) - took_ns if is_calm else self._credit_ns - took_ns
            if self._line:
                self._go_on(is_calm)

    def _makes_way(self, now_ns: int) -> bool:
        """Whether the slice comes a little later, since the loop works for others at this moment."""
        if self._worked_at_ns is None or self._ways == WAYS_MAX or now_ns - self._worked_at_ns() >= WAY_NS // 2:
            self._ways = 0
            return False
        self._ways += 1
        asyncio.get_running_loop().call_later(WAY_NS / NS_PER_S, self._do_slice)
        return True

    def _is_calm(self, now_ns: int) -> bool:
        return self._worked_at_ns is not None and now_ns - self._worked_at_ns() >= CALM_NS

    def _go_on(self, is_calm: bool) -> None:
        loop = asyncio.get_running_loop()
        if self._credit_ns > 0 or is_calm:
            loop.call_soon(self._do_slice)
        else:
            loop.call_later((SLICE_NS - self._credit_ns) / self._share / NS_PER_S, self._do_slice)
