"""How long the messages of a channel took from publish to FIN, and from their last delivery to FIN, counted by bucket.

The publish time is the message's own, so a redelivered message counts from its publish. All times are the
wall clock's; where that was set back the latency counts as bucket 0.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from queue_engine.delivery.latency_window import NO_LATENCIES, ChannelWindow
from queue_engine.vocabulary.latency.histogram import MESSAGE_BOUNDS_NS, Histogram
from queue_engine.vocabulary.latency.latency_buckets import BOUNDS_NS, bucket_of
from queue_engine.vocabulary.run import Run


class LatencyHistogram:
    """Counts of one channel since the process started. time_ns: the wall clock, Unix ns. held: from the last delivery
    to FIN."""

    __slots__ = ("_counts", "_is_lent", "_marked_ns", "_newer", "_older", "_window", "held", "now_ns")

    def __init__(self, time_ns: Callable[[], int]) -> None:
        self.now_ns = time_ns
        self._counts: dict[int, int] = {}
        self._is_lent = False
        # The counts when the older half of the window began, and when the newer one did, at _marked_ns.
        self._older: Mapping[int, int] = {}
        self._newer: Mapping[int, int] = {}
        self._marked_ns = time_ns()
        self._window = NO_LATENCIES
        self.held = Histogram(MESSAGE_BOUNDS_NS)

    def lend(self) -> Mapping[int, int]:
        """Bucket → count as of now. The returned mapping never changes: the next note copies it first, so that reading
        a channel without FINs copies nothing."""
        self._is_lent = True
        return self._counts

    def window(self, half_ns: int) -> ChannelWindow:
        """The counts of the time that percentiles cover, which began `half_ns` to 2 × `half_ns` ago. The
        same object as before while nothing was.

        A half begins with the first call after the one before it is over. So it costs nothing at a FIN, and has to be
        called more often than every `half_ns`: each snapshot does.
        """
        now_ns = self.now_ns()
        if not 0 <= now_ns - self._marked_ns < half_ns:  # below 0 after the clock was set back
            self._older, self._newer, self._marked_ns = self._newer, self.lend(), now_ns
        window = self._window
        if window.now is not self._counts or window.before is not self._older:
            window = self._window = ChannelWindow(self._older, self.lend())
        return window

    def note(self, latency_ns: int, count: int) -> None:
        """`count` messages were finished so long after they were published."""
        if self._is_lent:
            self._counts = self._counts.copy()
            self._is_lent = False
        counts = self._counts
        bucket = bisect_left(BOUNDS_NS, latency_ns)  # as bucket_of, without a call for each FIN
        counts[bucket] = counts.get(bucket, 0) + count

    def note_alike(self, run: Run, count: int, now_ns: int) -> bool:
        """Note `count` finished messages of a run if all of the run falls into one bucket; returns whether it did. It
        nearly always does, except for messages that are finished soon after they were published."""
        first_ns, last_ns = run.times().span()
        if bucket_of(now_ns - first_ns) != bucket_of(now_ns - last_ns):
            return False
        self.note(now_ns - first_ns, count)
        return True

    def note_part(self, run: Run, start: int, stop: int, now_ns: int) -> None:
        """The messages from `start` up to but not including `stop` of a run were finished. Costs by batch."""
        for count, published_ns in run.times().between(start, stop):
            self.note(now_ns - published_ns, count)

    def note_each(self, run: Run, ids: Sequence[bytes], now_ns: int) -> None:
        """These messages of a run were finished, in any order. Costs by message."""
        index_of = run.index()
        for message_id in ids:
            at = index_of[message_id]
            self.note_part(run, at, at + 1, now_ns)
