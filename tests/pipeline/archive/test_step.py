"""A step stages its messages by hour and sorted; a step with a message twice or missing is refused."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from queue_engine.pipeline.archive.staging import MISSING, staged_topics
from queue_engine.pipeline.archive.step import write_rows
from queue_engine.pipeline.source.schemas import MESSAGES
from queue_engine.pipeline.source.wanted_range import WantedRange
from queue_engine.vocabulary.errors import ArchiveMismatchError

pytestmark = [pytest.mark.spark, pytest.mark.slow(reason="runs Spark"), pytest.mark.timeout(400)]

LATE = datetime(2026, 11, 20, 22, 59, 59, 999999, UTC)


def row(topic: str, offset: int, *, at: datetime = LATE, replayed: bool = False) -> dict[str, Any]:
    return {
        "topic": topic,
        "offset": offset,
        "message_id": f"{offset:016x}",
        "published_at": at,
        "key": b"k" if offset % 2 else None,
        "body": b"%d" % offset,
        "replayed": replayed,
    }


def wanted(topic: str, first: int, after: int) -> WantedRange:
    return WantedRange(topic, ord(topic), 7, first, after)


def report_missing(directory: Path, topic: str, first: int, after: int) -> None:
    (directory / MISSING).mkdir(parents=True, exist_ok=True)
    told = {"number": ord(topic), "missing": [{"first_offset": first, "next_offset": after, "reason": "damaged"}]}
    (directory / MISSING / f"{topic}-{first}.json").write_bytes(orjson.dumps(told))


@pytest.mark.parametrize("time_zone", ["UTC", "Asia/Kathmandu"])
def test_rows_lie_by_topic_and_hour_and_rise_by_offset(spark: SparkSession, tmp_path: Path, time_zone: str) -> None:
    times = [LATE, LATE + timedelta(microseconds=1), LATE + timedelta(hours=1, microseconds=1)]
    rows = [row("a", offset, at=times[offset // 10]) for offset in range(30)]
    rows += [row("b", offset, at=times[2]) for offset in range(100, 105)]
    rows.sort(key=lambda one: (one["offset"] * 7919) % 31)
    spark.conf.set("spark.sql.session.timeZone", time_zone)
    try:
        write_rows(spark.createDataFrame(rows, MESSAGES).coalesce(1), ["a", "b"], tmp_path)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    a, b = staged_topics(tmp_path, [wanted("a", 0, 30), wanted("b", 100, 105)])
    found = [(one.date, one.hour, one.first_offset, one.next_offset, one.rows) for one in a.files]
    assert found == [
        ("2026-11-20", "22", 0, 10, 10),
        ("2026-11-20", "23", 10, 20, 10),
        ("2026-11-21", "00", 20, 30, 10),
    ]
    assert [one.rows for one in b.files] == [5]
    assert a.files[0].first_time_ms == int(LATE.timestamp()) * 1000 + 999
    table = pq.ParquetFile(a.files[1].path).read()
    expected = [row("a", offset, at=times[1]) for offset in range(10, 20)]
    assert table.to_pylist() == [{name: one[name] for name in table.schema.names} for one in expected]


def test_replayed_messages_are_counted_and_not_kept_unless_asked(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row(topic, offset, replayed=offset % 3 == 0) for topic in "ab" for offset in range(10)]
    write_rows(spark.createDataFrame(rows, MESSAGES), ["a", "b"], tmp_path, include_replayed=frozenset("b"))
    a, b = staged_topics(tmp_path, [wanted("a", 0, 10), wanted("b", 0, 10)])
    assert (sum(one.rows for one in a.files), a.replayed_skipped) == (6, 4)
    assert (sum(one.rows for one in b.files), b.replayed_skipped) == (10, 0)
    assert sum(one.replayed_rows for one in b.files) == 4


def test_every_offset_comes_once_or_is_told_to_be_missing(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(spark.createDataFrame([row("a", offset) for offset in (0, 1, 4)], MESSAGES), ["a"], tmp_path)
    with pytest.raises(
        ArchiveMismatchError, match="a, offsets 0 to 5: 2 messages are missing and 0 are there more than once"
    ):
        staged_topics(tmp_path, [wanted("a", 0, 5)])
    report_missing(tmp_path, "a", 2, 4)
    (topic,) = staged_topics(tmp_path, [wanted("a", 0, 5)])
    assert topic.missing == [(2, 4, "damaged")]
    report_missing(tmp_path, "a", 3, 5)
    with pytest.raises(ArchiveMismatchError, match="0 messages are missing and 2 are there more than once"):
        staged_topics(tmp_path, [wanted("a", 0, 5)])


def test_offsets_that_were_never_used_are_not_missed_and_have_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    far = 1 << 40
    rows = [row("a", offset) for offset in (0, 1, far, far + 2)]
    write_rows(spark.createDataFrame(rows, MESSAGES), ["a"], tmp_path)
    report_missing(tmp_path, "a", far + 1, far + 2)
    whole = wanted("a", 0, far + 3)
    (topic,) = staged_topics(tmp_path, [replace(whole, unused=((2, far),))])
    assert (sum(one.rows for one in topic.files), topic.missing) == (4, [(far + 1, far + 2, "damaged")])
    with pytest.raises(ArchiveMismatchError, match="1 messages are missing and 0 are there more than once"):
        staged_topics(tmp_path, [replace(whole, unused=((3, far),))])
    with pytest.raises(ArchiveMismatchError, match="rows have offsets that belong to no message"):
        staged_topics(tmp_path, [replace(whole, unused=((1, far),))])


def test_what_comes_twice_or_from_elsewhere_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    twice = spark.createDataFrame([row("a", offset) for offset in (0, 1, 1)], MESSAGES)
    write_rows(twice.repartition(2, "offset"), ["a"], tmp_path / "same")
    with pytest.raises(ArchiveMismatchError):
        staged_topics(tmp_path / "same", [wanted("a", 0, 2)])
    write_rows(spark.createDataFrame([row("a", 1)], MESSAGES), ["a"], tmp_path / "elsewhere")
    with pytest.raises(ArchiveMismatchError, match="offsets do not rise from 0 to 1"):
        staged_topics(tmp_path / "elsewhere", [wanted("a", 0, 1)])
