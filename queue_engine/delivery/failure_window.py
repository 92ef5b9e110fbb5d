"""Which consumers requeued messages or let them time out in the last minute, and which message came back most often.

A look at a channel's stats notes the growth of each consumer's counts since the last look, in buckets of five seconds:

    oldest | bucket | … | newest      13 of 5 s; each: connection → [requeued, timed out]
       └─ who did most of it ─┘

The minute begins inside the oldest bucket, which counts for the share of it that the minute still has. So the sums are
those of sixty seconds, as the rates beside them, and not of 55 to 60. A look notes the failures since the look before
it: a bucket has the failures up to its last look, not up to its end.

So REQ and timeouts cost nothing more than their counts, and a channel without failures stores nothing. Requeues by an
operator are no consumer's failure and do not count here.
"""

from collections import deque
from collections.abc import Callable, Iterable

from queue_engine.delivery.consumer import Consumer
from queue_engine.delivery.stats import ConsumerFailures, RecentFailures

BUCKET_NS = 5_000_000_000
MINUTE_NS = 60_000_000_000
BUCKETS = 13  # a minute, and the bucket in which it begins
# Failures of these newest buckets are recent: ten to fifteen seconds.
RECENT_BUCKETS = 3
# `Backlog.most_attempts` names no message with fewer deliveries.
UNNAMED_ATTEMPTS = 2

REQUEUED, TIMED_OUT = 0, 1
NO_CONSUMER = 0  # no connection has this key


class FailureWindow:
    """The last minute of one channel. time_ns: the wall clock."""

    __slots__ = ("_buckets", "_count", "_leaders", "_looked_ns", "_names", "_seen", "_time_ns", "_timeouts")

    def __init__(self, time_ns: Callable[[], int]) -> None:
        self._time_ns = time_ns
        self._count = 0  # the channel's requeues and timeouts at the last look
        self._timeouts = 0  # those that were noted
        self._buckets: deque[tuple[int, dict[int, list[int]]]] = deque()  # (number of the bucket, counts by connection)
        self._names: dict[int, tuple[str, str]] = {}
        self._leaders: deque[tuple[int, str, int]] = deque()  # (number of the bucket, message, its deliveries before)
        self._seen = 0  # its deliveries at the last look
        self._looked_ns = 0  # when that was

    def look(
        self,
        consumers: Iterable[Consumer],
        requeue_count: int,
        timeout_count: int,
        *,
        attempts_max: int,
        attempts_max_id: str,
    ) -> RecentFailures | None:
        """Note the failures since the last look; returns the last minute, None without failures.

        All arguments are as in ChannelStats.
        """
        count = requeue_count + timeout_count
        if count == self._count and not self._buckets:
            return None
        now_ns = self._time_ns()
        number = now_ns // BUCKET_NS
        share = _share_of_oldest(now_ns, now_ns - self._looked_ns)
        self._looked_ns = now_ns
        new_count = count - self._count
        if new_count:
            self._count = count
            for consumer in consumers:
                self._note(consumer, number)
            # Timeouts of consumers that have left count for no consumer.
            lost = timeout_count - self._timeouts
            if lost > 0:
                self._add(NO_CONSUMER, number, 0, lost)
        self._forget(number)
        if not self._buckets:
            return None
        return self._sums(number, share, self._deliveries_of(number, share, attempts_max, attempts_max_id, new_count))

    def note_gone(self, consumer: Consumer) -> None:
        """A consumer leaves: note its failures since the last look."""
        self._note(consumer, self._time_ns() // BUCKET_NS)

    def _note(self, consumer: Consumer, number: int) -> None:
        requeued = consumer.requeue_count - consumer.requeues_noted
        timed_out = consumer.timeout_count - consumer.timeouts_noted
        if not requeued and not timed_out:
            return
        consumer.requeues_noted += requeued
        consumer.timeouts_noted += timed_out
        self._names[consumer.key] = (consumer.name, consumer.address)
        self._add(consumer.key, number, requeued, timed_out)

    def _add(self, key: int, number: int, requeued: int, timed_out: int) -> None:
        if not self._buckets or self._buckets[-1][0] != number:
            self._buckets.append((number, {}))
        counts = self._buckets[-1][1].setdefault(key, [0, 0])
        counts[REQUEUED] += requeued
        counts[TIMED_OUT] += timed_out
        self._timeouts += timed_out

    def _forget(self, number: int) -> None:
        """Drop buckets older than a minute; all when the clock was set back."""
        buckets, leaders = self._buckets, self._leaders
        if buckets and buckets[-1][0] > number:
            buckets.clear()
            leaders.clear()
        forgot = len(buckets)
        while buckets and buckets[0][0] <= number - BUCKETS:
            buckets.popleft()
        while leaders and leaders[0][0] <= number - BUCKETS:
            leaders.popleft()
        if len(buckets) != forgot:
            left = {key for _, counts in buckets for key in counts}
            self._names = {key: name for key, name in self._names.items() if key in left}
        if not buckets:
            leaders.clear()

    def _deliveries_of(self, number: int, share: float, attempts: int, message_id: str, new_count: int) -> int:
        """How often the message that was delivered most often came back within the minute, as far as was seen.

        share: of the oldest bucket, that the minute has. new_count: failures since the last look; at most so
        many of its deliveries are new at first sight.
        """
        leaders = self._leaders
        if not message_id or (leaders and leaders[-1][1] != message_id):
            leaders.clear()
        if not message_id:
            return 0
        if not leaders:
            leaders.append((number, message_id, max(UNNAMED_ATTEMPTS, attempts - new_count)))
        elif leaders[-1][0] != number:
            leaders.append((number, message_id, self._seen))
        self._seen = attempts
        first, _, before = leaders[0]
        if first == number - BUCKETS + 1:
            after = leaders[1][2] if len(leaders) > 1 else attempts
            before += round((after - before) * (1 - share))
        return max(0, attempts - before)

    def _sums(self, number: int, share: float, repeated: int) -> RecentFailures | None:
        requeued: dict[int, int] = {}
        timed_out: dict[int, int] = {}
        recently = 0
        for bucket, counts in self._buckets:
            part = share if bucket == number - BUCKETS + 1 else 1
            for key, whole in counts.items():
                requeues, timeouts = whole if part == 1 else [round(part * count) for count in whole]
                if requeues:
                    requeued[key] = requeued.get(key, 0) + requeues
                if timeouts:
                    timed_out[key] = timed_out.get(key, 0) + timeouts
                if bucket > number - RECENT_BUCKETS:
                    recently += requeues
        if not requeued and not timed_out:
            return None
        return RecentFailures(
            requeued=sum(requeued.values()),
            timed_out=sum(timed_out.values()),
            requeued_recently=recently,
            most_requeued=self._most(requeued),
            most_timed_out=self._most(timed_out),
            repeated=repeated,
        )

    def _most(self, counts: dict[int, int]) -> ConsumerFailures | None:
        by_consumer = {key: count for key, count in counts.items() if key != NO_CONSUMER}
        if not by_consumer:
            return None
        key = max(by_consumer, key=lambda one: (by_consumer[one], -one))
        name, address = self._names[key]
        return ConsumerFailures(key, name, address, by_consumer[key], len(by_consumer))


def _share_of_oldest(now_ns: int, interval_ns: int) -> float:
    """The share of the oldest bucket that came within the minute. interval_ns: from the last look to this one, by which
    the time of the bucket's own last look follows; in an unsteady row the bucket's end stands for it."""
    behind_ns = MINUTE_NS - BUCKET_NS + now_ns % BUCKET_NS  # from the bucket's end to now
    if 0 < interval_ns <= BUCKET_NS:
        behind_ns = (behind_ns // interval_ns + 1) * interval_ns
    return max(0, MINUTE_NS - behind_ns) / BUCKET_NS
