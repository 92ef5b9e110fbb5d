"""Latencies counted by bucket: each is 4 % wider than the one before, so that few cover both 100 µs and a week.

    bucket 0        up to 0.1 ms, and negative ones, after a clock was set back
    bucket b        more than 0.1 ms × 1.04^(b-1), up to and including 0.1 ms × 1.04^b

The value shown for a bucket is 0.1 ms × 1.04^b / 1.02: at most 2 % away from any latency in it (bucket 0 apart).
Buckets of many channels and minutes add up, and quantiles of the sum are as exact as those of a part; an average of
quantiles would mean nothing. The growth, 1.04, and the least, 0.1 ms, are part of stored counts: never change them.
"""

from bisect import bisect_left

GROWTH = 1.04
LEAST_MS = 0.1
# Over ten years: nothing that can be measured is longer.
BUCKET_MAX = 750
_NS_PER_MS = 1_000_000
# The end of each bucket below BUCKET_MAX. Whole numbers, as the latencies are: a fraction would be slower to compare.
BOUNDS_NS = [int(LEAST_MS * _NS_PER_MS * GROWTH**bucket) for bucket in range(BUCKET_MAX)]


def bucket_of(latency_ns: int) -> int:
    """The bucket of a latency in nanoseconds, 0 to BUCKET_MAX."""
    return bisect_left(BOUNDS_NS, latency_ns)


def end_ns_of(bucket: int) -> int:
    """The longest latency in a bucket below BUCKET_MAX, nanoseconds."""
    return BOUNDS_NS[bucket]


def value_ms_of(bucket: int) -> float:
    """The value shown for the latencies in a bucket, milliseconds."""
    return LEAST_MS * GROWTH**bucket / 1.02
