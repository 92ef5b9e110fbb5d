"""Limits how fast messages are published. It never sleeps: it returns how long the caller has to wait."""

from queue_engine.vocabulary.clock import NS_PER_S, Clock


class RateLimit:
    """Lets rate_per_s messages a second pass. Idle time gives no credit.

    A batch may go when the time of the batches before it is over; the first one at once.
    """

    def __init__(self, clock: Clock, rate_per_s: int | None) -> None:
        """rate_per_s: None for no limit."""
        self._clock = clock
        self._rate_per_s = rate_per_s
        self._free_at_ns = 0

    def wait_ns(self) -> int:
        """How long until the next batch may go."""
        return 0 if self._rate_per_s is None else max(self._free_at_ns - self._clock.monotonic_ns(), 0)

    def spend(self, count: int) -> None:
        """Count messages that go now."""
        if self._rate_per_s is not None:
            now_ns = max(self._free_at_ns, self._clock.monotonic_ns())
            self._free_at_ns = now_ns + count * NS_PER_S // self._rate_per_s
