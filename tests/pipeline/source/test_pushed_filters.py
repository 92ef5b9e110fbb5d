"""What filters leave to be read, and what Spark still has to look at."""

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from queue_engine.lake.source.pushed_filters import push_filters
from queue_engine.lake.source.read_plan import Bounds

NOON = datetime(2026, 3, 1, 12, 0, 0, 1, tzinfo=UTC)
NOON_MS = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * 1000


def pushed(*filters: Filter) -> Bounds:
    """All are taken over."""
    bounds, left = push_filters(Bounds(), list(filters))
    assert left == []
    return bounds


def test_offsets_are_taken_over() -> None:
    assert pushed(GreaterThan(("offset",), 5)) == Bounds(first_offset=6)
    assert pushed(GreaterThanOrEqual(("offset",), 5)) == Bounds(first_offset=5)
    assert pushed(LessThan(("offset",), 5)) == Bounds(next_offset=5)
    assert pushed(LessThanOrEqual(("offset",), 5)) == Bounds(next_offset=6)
    assert pushed(EqualTo(("offset",), 5)) == Bounds(first_offset=5, next_offset=6)
    both = pushed(GreaterThan(("offset",), 5), LessThan(("offset",), 9), GreaterThan(("offset",), 3))
    assert both == Bounds(first_offset=6, next_offset=9)
    assert pushed(LessThan(("offset",), 9), LessThan(("offset",), 12)) == Bounds(next_offset=9)


def test_topics_are_taken_over() -> None:
    assert pushed(EqualTo(("topic",), "a")) == Bounds(topics=frozenset({"a"}))
    assert pushed(In(("topic",), ("a", "b")), EqualTo(("topic",), "b")) == Bounds(topics=frozenset({"b"}))


def test_times_narrow_to_the_millisecond_and_spark_does_the_rest() -> None:
    for one, narrowed in [
        (GreaterThan(("published_at",), NOON), Bounds(start_time_ms=NOON_MS)),
        (GreaterThanOrEqual(("published_at",), NOON), Bounds(start_time_ms=NOON_MS)),
        (LessThan(("published_at",), NOON), Bounds(end_time_ms=NOON_MS + 1)),
        (LessThanOrEqual(("published_at",), NOON), Bounds(end_time_ms=NOON_MS + 1)),
        (LessThan(("published_at",), NOON.replace(microsecond=0)), Bounds(end_time_ms=NOON_MS)),
        (LessThanOrEqual(("published_at",), NOON.replace(microsecond=0)), Bounds(end_time_ms=NOON_MS + 1)),
        (EqualTo(("published_at",), NOON), Bounds(start_time_ms=NOON_MS, end_time_ms=NOON_MS + 1)),
    ]:
        assert push_filters(Bounds(), [one]) == (narrowed, [one])


def test_what_is_not_understood_is_left_to_spark() -> None:
    filters: list[Filter] = [
        IsNotNull(("offset",)),
        Not(EqualTo(("offset",), 5)),
        In(("offset",), (1, 2)),
        EqualTo(("offset",), None),
        EqualTo(("body", "offset"), 3),
        GreaterThan(("topic",), "a"),
        GreaterThan(("published_at",), NOON.replace(tzinfo=None)),
    ]
    assert push_filters(Bounds(), filters) == (Bounds(), filters)
