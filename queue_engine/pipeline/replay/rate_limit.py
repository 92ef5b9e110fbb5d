"""How fast messages may be published: time is asked for, not slept away."""

from queue_engine.vocabulary.clock import NS_PER_S, Clock


class RateLimit:
    """So many a second, without making up for time in which nothing was asked for.

    A batch is let through when those before it are paid for: the first at once.
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
        """So many go now."""
        if self._rate_per_s is not None:
            now_ns = max(self._free_at_ns, self._clock.monotonic_ns())
            self._free_at_ns = now_ns + count * NS_PER_S // self._rate_per_s
