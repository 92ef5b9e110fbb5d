"""Percentiles of latencies that were counted by bucket (latency_buckets.py).

The counts of channels, of topics and of servers are added first; then the percentiles are those of all their messages
together. A percentile is the latency of the message at that rank: at most 2 % away from it, or 0.1 ms where it is
shorter than that.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import ceil

from queue_engine.vocabulary.latency.latency_buckets import BUCKET_MAX, end_ns_of, value_ms_of

_NS_PER_MS = 1_000_000


def grown(now: Mapping[int, int], before: Mapping[int, int]) -> Mapping[int, int]:
    """The counts in between: bucket → count, without zeros. Neither mapping may be changed afterwards."""
    if not before:
        return now
    return {bucket: count - was for bucket, count in now.items() if count > (was := before.get(bucket, 0))}


def merged(counted: Iterable[Mapping[int, int]]) -> Mapping[int, int]:
    """The counts of several together, such as those of a topic's channels or of the servers that have a topic."""
    counts: dict[int, int] = {}
    for one in counted:
        for bucket, count in one.items():
            counts[bucket] = counts.get(bucket, 0) + count
    return counts


def percentiles_ns(counts: Mapping[int, int], quantiles: Sequence[float]) -> list[int]:
    """For each quantile, above 0 and up to 1, the latency in nanoseconds that this share of the messages did not
    exceed; 0 for each when there is no message."""
    buckets = sorted(counts)
    passed = list(accumulate(map(counts.__getitem__, buckets)))
    if not passed or not passed[-1]:
        return [0] * len(quantiles)
    total = passed[-1]
    # Less a little: 0.07 × 100 is 7.000000000000001.
    ranks = (max(ceil(quantile * total * (1 - 1e-12)), 1) for quantile in quantiles)
    return [round(value_ms_of(buckets[bisect_left(passed, rank)]) * _NS_PER_MS) for rank in ranks]


def bucket_table(counts: Mapping[int, int]) -> list[list[int | None]]:
    """The counts for readers who have no table of the buckets: [end in nanoseconds, count], the shortest first. Two
    servers' entries of the same end add up. The last bucket of all has no end: null."""
    return [[end_ns_of(bucket) if bucket < BUCKET_MAX else None, counts[bucket]] for bucket in sorted(counts)]
