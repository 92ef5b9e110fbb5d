"""When the clock may be believed: by its time messages become too old, and these do not come back.

The clock is compared with its value at the last look, plus the monotonic time since, as far as this process ran. Ahead
of that by more than `leap_ms` it may be wrong, as after a start without network time; or the server was off for long.
Nothing tells these apart but time: a clock that still says so HOLD_MS later is believed. HOLD_MS is monotonic time,
too: a clock that leaps again starts it anew.
"""

from queue_engine.vocabulary.clock import NS_PER_MS, Clock

LEAP_MS = 36 * 3_600_000
HOLD_MS = 3_600_000


class TrustedTime:
    """Follows the wall clock. believed_ms and leapt_ms pass from one process to the next. For one thread.

    believed_ms: the clock's value when it was believed last, in Unix ms; 0: unknown, and it is believed. leapt_ms: its
    value when it was first seen so far ahead; 0 while it is believed.
    """

    def __init__(self, clock: Clock, believed_ms: int, leapt_ms: int = 0, *, leap_ms: int = LEAP_MS) -> None:
        self.believed_ms = believed_ms
        self.leapt_ms = leapt_ms
        self._clock = clock
        self._leap_ms = leap_ms
        self._believed_ns = clock.monotonic_ns()
        # The monotonic time at leapt_ms; None: an earlier process saw it.
        self._leapt_ns: int | None = None

    def look(self) -> int:
        """Compare the clock. Returns how many ms it is ahead when this look is the first to find so, otherwise 0."""
        now_ms, now_ns = self._clock.time_ns() // NS_PER_MS, self._clock.monotonic_ns()
        ahead_ms = now_ms - self.believed_ms - (now_ns - self._believed_ns) // NS_PER_MS if self.believed_ms else 0
        if ahead_ms > self._leap_ms:
            if not self.leapt_ms or not self._goes_on(now_ms, now_ns):
                self.leapt_ms, self._leapt_ns = now_ms, now_ns
                return ahead_ms
            if self._held_ms(now_ms, now_ns) < HOLD_MS:
                return 0
        self.believed_ms, self._believed_ns, self.leapt_ms, self._leapt_ns = now_ms, now_ns, 0, None
        return 0

    def _held_ms(self, now_ms: int, now_ns: int) -> int:
        """How long the clock has been so far ahead."""
        if self._leapt_ns is None:
            # No other clock has counted while no process ran.
            self._leapt_ns = now_ns - (now_ms - self.leapt_ms) * NS_PER_MS
        return (now_ns - self._leapt_ns) // NS_PER_MS

    def _goes_on(self, now_ms: int, now_ns: int) -> bool:
        """Whether the clock has gone on since leapt_ms as monotonic time did."""
        since_ms = now_ms - self.leapt_ms
        passed_ms = 0 if self._leapt_ns is None else self._held_ms(now_ms, now_ns)
        return since_ms >= 0 and since_ms - passed_ms <= self._leap_ms
