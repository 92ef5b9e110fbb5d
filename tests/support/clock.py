"""A clock that stands still until a test moves it."""

from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S

_START_TIME_NS = 1_500_000_000 * NS_PER_S  # an arbitrary moment in 2017: nobody mistakes it for now


class ManualClock:
    """Both clocks of `queue_engine.vocabulary.clock.Clock`, moved by `advance`."""

    def __init__(self, *, monotonic_ns: int = NS_PER_S, time_ns: int = _START_TIME_NS) -> None:
        self._monotonic_ns = monotonic_ns
        self._time_ns = time_ns

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def time_ns(self) -> int:
        return self._time_ns

    def advance(self, *, ms: float = 0, ns: int = 0) -> None:
        """Move both clocks forward."""
        step_ns = round(ms * NS_PER_MS) + ns
        if step_ns < 0:
            raise ValueError(f"a clock does not go back: {step_ns} ns")
        self._monotonic_ns += step_ns
        self._time_ns += step_ns

    def set_back(self, *, ms: float) -> None:
        """Somebody sets the wall clock back; time goes on as it did."""
        self._time_ns -= round(ms * NS_PER_MS)
