"""Latencies of a topic or channel over nodes: how long messages took from publish to FIN lately.

A Penstock reports counts by bucket, which add up: the percentiles are those of all messages together. An nsqd reports
percentiles alone, of which no sum can be made: then each is that of the worst node, and the page says so
(`LatencyWindow.worst_of`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from queue_engine.delivery.latency_window import NO_LATENCIES, Counts, LatencyWindow
from queue_engine.vocabulary.latency.latency_buckets import BOUNDS_NS, BUCKET_MAX
from queue_engine.vocabulary.latency.latency_percentiles import merged

_BUCKET_OF_END = {end_ns: bucket for bucket, end_ns in enumerate(BOUNDS_NS)} | {None: BUCKET_MAX}
_LATENCY_MAX_NS = (1 << 63) - 1

Latency = Mapping[str, Any]
"""`e2e_processing_latency` as a node writes it; nothing of it is checked."""


class NodeWindow(LatencyWindow):
    """Of one node."""

    __slots__ = ("_count", "_percentiles", "has_counts")

    def __init__(self, latency: Latency) -> None:
        buckets = latency.get("buckets")
        super().__init__(lambda: _counts(buckets))
        self.has_counts = isinstance(buckets, list)
        self._count: int = _number(latency.get("count"))
        self._percentiles = _percentiles(latency.get("percentiles"))

    @property
    def count(self) -> int:
        return super().count if self.has_counts else self._count

    def percentiles_ns(self, quantiles: tuple[float, ...]) -> list[int]:
        """Of percentiles alone: for one that the node does not report the next above it, else the greatest."""
        if self.has_counts or not self._percentiles:
            return super().percentiles_ns(quantiles)
        return [
            self._percentiles[min((one for one in self._percentiles if one >= wanted), default=max(self._percentiles))]
            for wanted in quantiles
        ]


class MergedWindow(LatencyWindow):
    """Of several nodes. parts: of each that finished messages lately."""

    __slots__ = ("_sources", "_windows")

    def __init__(self, sources: Sequence[LatencyWindow | Latency]) -> None:
        self._sources = sources
        self._windows: tuple[LatencyWindow, ...] | None = None
        super().__init__(lambda: merged(one.counts() for one in self._parts))

    @property
    def _parts(self) -> tuple[LatencyWindow, ...]:
        found = self._windows
        if found is None:
            made = [one if isinstance(one, LatencyWindow) else NodeWindow(one) for one in self._sources]
            found = self._windows = tuple([one for one in made if one.count])
        return found

    @property
    def count(self) -> int:
        return sum(one.count for one in self._parts)

    @property
    def worst_of(self) -> int:
        has_counts = all(one.has_counts for one in self._parts if isinstance(one, NodeWindow))
        return 0 if has_counts or len(self._parts) < 2 else len(self._parts)

    def percentiles_ns(self, quantiles: tuple[float, ...]) -> list[int]:
        parts = self._parts
        if len(parts) == 1:
            return parts[0].percentiles_ns(quantiles)
        if not self.worst_of:
            return super().percentiles_ns(quantiles)
        return [max(values) for values in zip(*[one.percentiles_ns(quantiles) for one in parts], strict=True)]


def window_of(latency: Latency) -> LatencyWindow:
    """Of one node."""
    return NodeWindow(latency) if latency.get("count") else NO_LATENCIES


def merged_window(sources: Sequence[LatencyWindow | Latency]) -> LatencyWindow:
    """Of several nodes; checked when a page reads it."""
    found = [one for one in sources if isinstance(one, LatencyWindow) or one.get("count")]
    return MergedWindow(found) if found else NO_LATENCIES


def _counts(buckets: Any) -> Counts:
    """Of [[end of the bucket in nanoseconds, messages], …]. An entry of another form counts as nothing."""
    found: dict[int, int] = {}
    for one in buckets if isinstance(buckets, list) else ():
        if isinstance(one, list) and len(one) == 2 and isinstance(one[0], int | None):
            bucket, count = _BUCKET_OF_END.get(one[0]), _number(one[1])
            if bucket is not None and count:
                found[bucket] = found.get(bucket, 0) + count
    return found


def _percentiles(entries: Any) -> dict[float, int]:
    """Of [{"quantile": 0.99, "value": nanoseconds}, …]."""
    found: dict[float, int] = {}
    for one in entries if isinstance(entries, list) else ():
        if isinstance(one, dict) and isinstance(quantile := one.get("quantile"), int | float) and 0 < quantile <= 1:
            value = one.get("value")
            if isinstance(value, int | float) and 0 <= value <= _LATENCY_MAX_NS:
                found[float(quantile)] = round(value)  # an nsqd's need not be whole
    return found


def _number(value: Any) -> int:
    return value if type(value) is int and 0 < value <= _LATENCY_MAX_NS else 0
