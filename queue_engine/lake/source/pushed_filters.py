"""Narrows a read by those of Spark's filters that are about offsets, times and topics."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from queue_engine.lake.source.read_plan import Bounds

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US_PER_MS = 1000


def push_filters(bounds: Bounds, filters: Iterable[Filter]) -> tuple[Bounds, list[Filter]]:
    """`bounds` narrowed by filters that all have to hold, and the filters that Spark still has to apply.

    The bounds cover filters on offsets and topics completely; a time narrows them to the millisecond only.
    """
    left = []
    for one in filters:
        column = one.attribute if isinstance(one, EqualTo | In | _COMPARISONS) else ()
        value = None if not column else one.value
        if column == ("offset",) and isinstance(value, int) and not isinstance(one, In):
            bounds = _with_offset(bounds, one, value)
        elif column == ("topic",) and isinstance(one, EqualTo) and isinstance(value, str):
            bounds = _with_topics(bounds, {value})
        elif column == ("topic",) and isinstance(one, In) and all(isinstance(name, str) for name in one.value):
            bounds = _with_topics(bounds, set(one.value))
        else:
            if column == ("published_at",) and isinstance(value, datetime) and value.tzinfo is not None:
                bounds = _with_time(bounds, one, (value - _EPOCH) // timedelta(microseconds=1))
            left.append(one)
    return bounds, left


_COMPARISONS = GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual


def _with_offset(bounds: Bounds, one: Filter, value: int) -> Bounds:
    first, after = _range(one, value)
    if first is not None:
        bounds = replace(bounds, first_offset=max(bounds.first_offset, first))
    if after is not None:
        bounds = replace(
            bounds, next_offset=max(after if bounds.next_offset is None else min(bounds.next_offset, after), 0)
        )
    return bounds


def _with_time(bounds: Bounds, one: Filter, value_us: int) -> Bounds:
    first_us, after_us = _range(one, value_us)
    if first_us is not None:
        start_ms = first_us // _US_PER_MS
        if bounds.start_time_ms is None or start_ms > bounds.start_time_ms:
            bounds = replace(bounds, start_time_ms=start_ms)
    if after_us is not None:
        end_ms = -(-after_us // _US_PER_MS)
        if bounds.end_time_ms is None or end_ms < bounds.end_time_ms:
            bounds = replace(bounds, end_time_ms=end_ms)
    return bounds


def _range(one: Filter, value: int) -> tuple[int | None, int | None]:
    """The whole numbers for which the filter holds: from the first on, up to but not including the second."""
    if isinstance(one, EqualTo):
        return value, value + 1
    if isinstance(one, GreaterThan):
        return value + 1, None
    if isinstance(one, GreaterThanOrEqual):
        return value, None
    return None, value if isinstance(one, LessThan) else value + 1


def _with_topics(bounds: Bounds, topics: set[str]) -> Bounds:
    return replace(bounds, topics=frozenset(topics) if bounds.topics is None else bounds.topics & topics)
