"""How long the messages of a channel or a topic took lately: counts by bucket, and percentiles of them.

A snapshot returns the same object until a message is finished, so that each percentile is computed once.
"""

from collections.abc import Callable, Mapping

from queue_engine.vocabulary.latency.latency_percentiles import grown, merged, percentiles_ns

Counts = Mapping[int, int]  # bucket (latency_buckets.py) → messages finished


class LatencyWindow:
    """The latencies of one stretch of time. make: its counts, which never change. Any thread: two at once compute it
    twice."""

    __slots__ = ("_counts", "_make", "_percentiles_ns", "_quantiles")

    def __init__(self, make: Callable[[], Counts]) -> None:
        self._make = make
        self._counts: Counts | None = None
        self._quantiles: tuple[float, ...] = ()
        self._percentiles_ns: list[int] = []

    def counts(self) -> Counts:
        """The counts by bucket, without zeros."""
        counts = self._counts
        if counts is None:
            counts = self._counts = self._make()
        return counts

    @property
    def count(self) -> int:
        """The messages of that time."""
        return sum(self.counts().values())

    @property
    def worst_of(self) -> int:
        """Of so many servers each percentile is that of the worst, since their counts are unknown; 0: it is exact."""
        return 0

    def percentiles_ns(self, quantiles: tuple[float, ...]) -> list[int]:
        """The latency of each quantile in nanoseconds; 0 for each when no message was finished."""
        if self._quantiles != quantiles:
            self._percentiles_ns = percentiles_ns(self.counts(), quantiles)
            self._quantiles = quantiles
        return self._percentiles_ns


class ChannelWindow(LatencyWindow):
    """The latencies of a channel: the growth of its histogram from `before` to `now`. Both are fixed."""

    __slots__ = ("before", "now")

    def __init__(self, before: Counts, now: Counts) -> None:
        super().__init__(lambda: grown(now, before))
        self.before = before
        self.now = now


class TopicWindow(LatencyWindow):
    """The latencies of a topic: all messages of its channels together."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[LatencyWindow, ...]) -> None:
        super().__init__(lambda: merged(one.counts() for one in parts))
        self.parts = parts


NO_LATENCIES = ChannelWindow({}, {})
NO_CHANNELS = TopicWindow(())
