"""When the clock may be believed: what it says decides which messages are too old, and these do not come back.

The clock is compared with what it said at the last look, plus the time that really passed, as far as this process has
seen it. Ahead of that by more than `leap_ms` it may be wrong, as after a start without network time; or the server was
off for long. Nothing tells these apart but time: a clock that still says so HOLD_MS later is believed. HOLD_MS is time
that really passed, too: a clock that leaps again has said nothing yet.
"""

from queue_engine.vocabulary.clock import NS_PER_MS, Clock

LEAP_MS = 36 * 3_600_000
HOLD_MS = 3_600_000


class TrustedTime:
    """Follows the wall clock. known_ms and leapt_ms are kept from one process to the next. For one thread.

    known_ms: what the clock said when it was believed last, in Unix ms; 0: nobody knows, and it is believed. leapt_ms:
    what it said when it was first seen so far ahead; 0 while it is believed.
    """

    def __init__(self, clock: Clock, known_ms: int, leapt_ms: int = 0, *, leap_ms: int = LEAP_MS) -> None:
        self.known_ms = known_ms
        self.leapt_ms = leapt_ms
        self._clock = clock
        self._leap_ms = leap_ms
        self._known_ns = clock.monotonic_ns()
        # Of the monotonic clock when the wall clock said leapt_ms; None: an earlier process saw that.
        self._leapt_ns: int | None = None

    def look(self) -> int:
        """Compare the clock. Returns how many ms it is ahead when this look is the first to find so, otherwise 0."""
        now_ms, now_ns = self._clock.time_ns() // NS_PER_MS, self._clock.monotonic_ns()
        ahead_ms = now_ms - self.known_ms - (now_ns - self._known_ns) // NS_PER_MS if self.known_ms else 0
        if ahead_ms > self._leap_ms:
            if not self.leapt_ms or not self._goes_on(now_ms, now_ns):
                self.leapt_ms, self._leapt_ns = now_ms, now_ns
                return ahead_ms
            if self._held_ms(now_ms, now_ns) < HOLD_MS:
                return 0
        self.known_ms, self._known_ns, self.leapt_ms, self._leapt_ns = now_ms, now_ns, 0, None
        return 0

    def _held_ms(self, now_ms: int, now_ns: int) -> int:
        """How long the clock has been so far ahead."""
        if self._leapt_ns is None:
            # No other clock has counted while no process ran.
            self._leapt_ns = now_ns - (now_ms - self.leapt_ms) * NS_PER_MS
        return (now_ns - self._leapt_ns) // NS_PER_MS

    def _goes_on(self, now_ms: int, now_ns: int) -> bool:
        """Whether the clock has gone on as time did since it said leapt_ms."""
        since_ms = now_ms - self.leapt_ms
        passed_ms = 0 if self._leapt_ns is None else self._held_ms(now_ms, now_ns)
        return since_ms >= 0 and since_ms - passed_ms <= self._leap_ms
