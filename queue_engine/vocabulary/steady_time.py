"""Steady time: the time of day at the start of the process plus the time since. Everything that ends by itself goes by
it.

One rule for everything that ends by itself (pauses, ramps, the trash, leases, the age in quarantine): while the process
runs, elapsed time counts, and no clock that is set. Across a stop the wall clock counts: no other one goes on. A clock
that was set is a jump: the log and the console name it, since times on pages are the wall clock's.
"""

from dataclasses import dataclass

from queue_engine.vocabulary.clock import NS_PER_MS, Clock

# Clocks are corrected by less without an operator.
JUMP_MS_MIN = 2_000


@dataclass(frozen=True, slots=True)
class ClockJump:
    """The newest. step_ms: by how much the wall clock was set forward, or back where it is negative. at_ns: when,
    monotonic."""

    step_ms: int
    at_ns: int


class SteadyTime:
    """Follows one clock from construction on. For one thread."""

    def __init__(self, clock: Clock) -> None:
        self.jump: ClockJump | None = None
        """The newest that `look` found; None for none since the start."""
        self._clock = clock
        self._ahead_ns = self._seen_ns = clock.time_ns() - clock.monotonic_ns()

    def now_ns(self) -> int:
        """Unix, without the jumps since the start."""
        return self._clock.monotonic_ns() + self._ahead_ns

    def never_early_ns(self) -> int:
        """Now, for a comparison with an earlier reading of the wall clock: no age comes out too long, whether the
        reading is from before a jump or after it."""
        return min(self._clock.time_ns(), self.now_ns())

    def look(self) -> ClockJump | None:
        """The jump since the last look; None for none."""
        now_ns = self._clock.monotonic_ns()
        ahead_ns = self._clock.time_ns() - now_ns
        step_ms = (ahead_ns - self._seen_ns) // NS_PER_MS
        self._seen_ns = ahead_ns
        if abs(step_ms) < JUMP_MS_MIN:
            return None
        self.jump = ClockJump(step_ms, now_ns)
        return self.jump
