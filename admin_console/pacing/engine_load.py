"""Whether messages flow: measured by the CPU time of the engine's thread."""

import time
from collections.abc import Callable

# Of a core. An idle engine takes about a hundredth.
BUSY_SHARE = 0.05
LOOK_EVERY_S = 0.05
# The engine counts as busy between two bursts, and while requests keep it from the interpreter.
BUSY_FOR_S = 1.0


class EngineLoad:
    """Whether the engine is busy, without waiting, by the last measurement. Called by one thread at a time."""

    def __init__(self, engine_cpu_s: Callable[[], float], monotonic_s: Callable[[], float] = time.monotonic) -> None:
        """engine_cpu_s: the CPU seconds of the engine's thread."""
        self._engine_cpu_s = engine_cpu_s
        self._monotonic_s = monotonic_s
        self._looked_at_s = monotonic_s()
        self._cpu_s = engine_cpu_s()
        self._busy_until_s = 0.0

    def is_busy(self) -> bool:
        now_s = self._monotonic_s()
        elapsed_s = now_s - self._looked_at_s
        if elapsed_s >= LOOK_EVERY_S:
            cpu_s = self._engine_cpu_s()
            if cpu_s - self._cpu_s > BUSY_SHARE * elapsed_s:
                self._busy_until_s = now_s + BUSY_FOR_S
            self._looked_at_s, self._cpu_s = now_s, cpu_s
        return now_s < self._busy_until_s
