"""Prometheus' text format, version 0.0.4."""

from collections.abc import Iterable
from functools import cache

from queue_engine.service.monitoring.families import FAMILIES
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.latency.histogram import HistogramCounts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# The labels with their braces, or "" for none, and the value.
Sample = tuple[str, float]

_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def labels(**values: str) -> str:
    """The labels of a sample: `{topic="orders"}`."""
    return "{" + ",".join([f'{name}="{value.translate(_ESCAPED)}"' for name, value in values.items()]) + "}"


class Exposition:
    """One answer, family by family. series_count: so many lines with a value it has."""

    def __init__(self) -> None:
        self.series_count = 0
        self._lines: list[str] = []

    def add(self, name: str, samples: Iterable[Sample]) -> None:
        """Add a counter or a gauge of the table `FAMILIES`, once each. One without samples is left out."""
        added = [f"{name}{of} {shown(value)}" for of, value in samples]
        if not added:
            return
        self._begin(name)
        self._lines += added
        self.series_count += len(added)

    def add_one(self, name: str, value: float) -> None:
        """Add a family that has one sample without labels."""
        self.add(name, [("", value)])

    def add_histogram(self, name: str, samples: Iterable[tuple[str, HistogramCounts]]) -> None:
        """Add a histogram: of each the labels with their braces, or "" for none, and the counts."""
        added: list[str] = []
        for of, counts in samples:
            inner = of[1:-1] + "," if of else ""
            total = 0
            for bound, count in zip(_bounds_shown(counts.bounds_ns), counts.counts, strict=True):
                total += count
                added.append(f'{name}_bucket{{{inner}le="{bound}"}} {total}')
            added += (f"{name}_sum{of} {shown(counts.sum_ns / NS_PER_S)}", f"{name}_count{of} {total}")
        if added:
            self._begin(name)
            self._lines += added
            self.series_count += len(added)

    def _begin(self, name: str) -> None:
        family = FAMILIES[name]
        self._lines += (f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}")

    def text(self) -> bytes:
        return ("\n".join(self._lines) + "\n").encode("utf-8", "replace")


@cache
def _bounds_shown(bounds_ns: tuple[int, ...]) -> tuple[str, ...]:
    """Each bound in seconds, and that of the last bucket."""
    return (*(shown(bound / NS_PER_S) for bound in bounds_ns), "+Inf")


def shown(value: float) -> str:
    """A number, exact and short: 3, 0.25, 1e-05."""
    return str(int(value)) if value == int(value) else repr(float(value))
