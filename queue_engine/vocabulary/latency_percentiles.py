"""Percentiles of latencies that were counted by bucket (latency_buckets.py).

The counts of channels, of topics and of servers are added first; then the percentiles are those of all their messages
together. A percentile is the latency of the message at that rank: at most 2 % away from it, or 0.1 ms where it is
shorter than that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from queue_engine.vocabulary.latency_buckets import BUCKET_MAX, end_ns_of, value_ms_of

_NS_PER_MS = 1_000_000


def grown(now: Mapping[int, int], before: Mapping[int, int]) -> Mapping[int, int]:
    """What was counted in between: bucket → count, without zeros. Neither mapping may be changed afterwards."""
    if not before:
        return now
    return {bucket: count - was for bucket, count in now.items() if count > (was := before.get(bucket, 0))}


def merged(counted: Iterable[Mapping[int, int]]) -> Mapping[int, int]:
    """The counts of several together, such as those of a topic's channels or of the servers that have a topic."""
    counts: Counter[int] = Counter()
    for one in counted:
        # Counter.update would look at each argument's type.
        for bucket, count in one.items():
            counts[bucket] += count
    return counts


def percentiles_ns(counts: Mapping[int, int], quantiles: Sequence[float]) -> list[int]:
    """For each quantile, above 0 and up to 1, the latency in nanoseconds that this share of the messages did not
    exceed; 0 for each when there is no message."""
    total = sum(counts.values())
    if not total:
        return [0] * len(quantiles)
    ranks = sorted({max(ceil(quantile * total - 1e-9 * total), 1) for quantile in quantiles})
    found: dict[int, int] = {}
    passed = 0
    at = 0
    for bucket in sorted(counts):
        passed += counts[bucket]
        while at < len(ranks) and ranks[at] <= passed:
            found[ranks[at]] = round(value_ms_of(bucket) * _NS_PER_MS)
            at += 1
    return [found[max(ceil(quantile * total - 1e-9 * total), 1)] for quantile in quantiles]


def bucket_table(counts: Mapping[int, int]) -> list[list[int | None]]:
    """The counts for readers who have no table of the buckets: [end in nanoseconds, count], the shortest first. Two
    servers' entries of the same end add up. The last bucket of all has no end: null."""
    return [[end_ns_of(bucket) if bucket < BUCKET_MAX else None, counts[bucket]] for bucket in sorted(counts)]
