"""Percentiles of counted latencies."""

from collections.abc import Mapping, Sequence

from queue_engine.vocabulary.latency_percentiles import percentiles_ns


def percentiles_s(counts: Mapping[int, int], quantiles: Sequence[float]) -> list[float]:
    """For each quantile the latency in seconds that this share of the messages did not exceed. counts: by bucket, of a
    channel's window, or of several added up; not empty."""
    return [value / 1e9 for value in percentiles_ns(counts, quantiles)]
