"""Percentiles from histograms against the latencies that went into them."""

import math
from random import Random

from queue_engine.vocabulary.latency.latency_buckets import bucket_of, value_ms_of
from tests.pipeline.history.percentiles import add_up, percentiles_ms

FRACTIONS = [0.01, 0.5, 0.9, 0.99, 0.999, 1.0]


def test_percentiles_of_added_histograms_are_within_four_percent_of_the_nearest_rank() -> None:
    rng = Random(11)
    for count in (100, 101, 137, 1000, 5003):
        parts: list[list[float]] = [[] for _ in range(7)]
        for _ in range(count):
            rng.choice(parts).append(rng.lognormvariate(2, 1.5) + 0.1)
        histogram = add_up([(bucket_of(round(one * 1e6)), 1) for one in part] for part in parts)
        found = percentiles_ms(histogram, FRACTIONS)
        assert found is not None
        ordered = sorted(one for part in parts for one in part)
        for fraction, value in zip(FRACTIONS, found, strict=True):
            exact = ordered[max(1, math.ceil(fraction * count)) - 1]
            assert abs(value - exact) <= 0.04 * exact, (count, fraction)


def test_nearest_rank_of_few() -> None:
    histogram = {10: 1, 40: 1, 20: 2}
    assert percentiles_ms(histogram, [0, 0.25, 0.26, 0.75, 0.76, 1]) == [
        value_ms_of(bucket) for bucket in (10, 10, 20, 20, 40, 40)
    ]
    assert percentiles_ms({3: 0, 5: 1}, [0, 1]) == [value_ms_of(5)] * 2


def test_no_messages_have_no_percentiles() -> None:
    assert percentiles_ms({}, [0.5]) is None
    assert percentiles_ms(add_up([[], []]), [0.5]) is None
