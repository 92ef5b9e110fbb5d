"""Percentiles of latencies, from histograms that were added up."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from queue_engine.vocabulary.latency.latency_buckets import value_ms_of


def add_up(histograms: Iterable[Iterable[tuple[int, int]]]) -> dict[int, int]:
    """One histogram, bucket → messages, of many lists of (bucket, messages)."""
    total: Counter[int] = Counter()
    for histogram in histograms:
        for bucket, count in histogram:
            total[bucket] += count
    return dict(total)


def percentiles_ms(histogram: Mapping[int, int], fractions: Sequence[float]) -> list[float] | None:
    """The latency, milliseconds, at each fraction (0.5 is the median) by nearest rank; None of no messages.

    The nearest rank of n messages at fraction p is the ceil(p × n)-th smallest. What is told is the value of its
    bucket: at most 2 % away from the latency that has that rank, buckets 0 and above all limits apart.
    """
    count = sum(histogram.values())
    if not count:
        return None
    ranks = [max(1, math.ceil(fraction * count)) for fraction in fractions]
    found: dict[int, float] = {}
    waiting = sorted(set(ranks))
    passed = 0
    for bucket in sorted(histogram):
        passed += histogram[bucket]
        while waiting and waiting[0] <= passed:
            found[waiting.pop(0)] = value_ms_of(bucket)
    return [found[rank] for rank in ranks]
