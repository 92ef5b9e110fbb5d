"""A task writes its messages by topic and day; a step with a message twice, missing or from elsewhere is refused."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from queue_engine.lake.archive import step_writer
from queue_engine.lake.archive.gaps import gaps_of
from queue_engine.lake.archive.step_check import checked_ranges
from queue_engine.lake.archive.step_writer import StepTarget, TopicRows, write_batches
from queue_engine.lake.source.arrow_schemas import MESSAGES
from queue_engine.lake.source.record_columns import MissingRange
from queue_engine.lake.source.wanted_range import WantedRange
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.vocabulary.errors import ArchiveMismatchError

LATE = datetime(2026, 11, 20, 23, 59, 59, 999999, UTC)


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


def target(path: Path, *include_replayed: str) -> StepTarget:
    return StepTarget(TableStorage(path), "5f1c", frozenset(include_replayed))


def written(path: Path, rows: Iterable[dict[str, Any]], *include_replayed: str) -> list[TopicRows]:
    """In batches of seven rows, topics mixed."""
    table = pa.Table.from_pylist(list(rows), MESSAGES)
    return list(write_batches(table.to_batches(7), target(path, *include_replayed)).values())


def missing(topic: str, first: int, after: int) -> TopicRows:
    return TopicRows(topic, missing=[MissingRange(topic, ord(topic), 7, first, after, "damaged")])


def test_rows_lie_by_topic_and_day_and_rise_by_offset(tmp_path: Path) -> None:
    times = [LATE, LATE + timedelta(microseconds=1), LATE + timedelta(hours=1)]
    rows = [row("a", offset, at=times[offset // 10]) for offset in range(30)]
    rows += [row("b", offset, at=times[2]) for offset in range(100, 105)]
    rows.sort(key=lambda one: (one["offset"] % 100, one["topic"]))
    a, b = checked_ranges([wanted("a", 0, 30), wanted("b", 100, 105)], written(tmp_path, rows))
    assert [(one.partition, one.rows) for one in a.files] == [
        ({"date": "2026-11-20"}, 10),
        ({"date": "2026-11-21"}, 20),
    ]
    assert [one.rows for one in b.files] == [5]
    place = tmp_path / "archive" / "a" / a.files[1].path
    assert place.stat().st_size == a.files[1].size
    table = pq.ParquetFile(place).read()
    expected = [{**row("a", offset, at=times[offset // 10]), "server": "5f1c"} for offset in range(10, 30)]
    assert table.to_pylist() == [{name: one[name] for name in table.schema.names} for one in expected]


def test_much_is_written_in_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_writer, "GATHERED_BYTES_MAX", 1_000)
    (a,) = checked_ranges([wanted("a", 0, 100)], written(tmp_path, (row("a", offset) for offset in range(100))))
    assert len(a.files) > 2
    assert a.rows == 100


def test_replayed_messages_are_counted_and_not_kept_unless_asked(tmp_path: Path) -> None:
    rows = [row(topic, offset, replayed=offset % 3 == 0) for offset in range(10) for topic in "ab"]
    a, b = checked_ranges([wanted("a", 0, 10), wanted("b", 0, 10)], written(tmp_path, rows, "b"))
    assert (a.rows, b.rows) == (6, 10)
    (gap,) = gaps_of(a, 9)
    assert (gap.first_offset, gap.next_offset, gap.count, gap.reason, gap.at_ms) == (0, 10, 4, "replayed", 9)
    assert gaps_of(b, 9) == []


def test_every_offset_comes_once_or_is_reported_missing(tmp_path: Path) -> None:
    found = written(tmp_path, [row("a", offset) for offset in (0, 1, 4)])
    with pytest.raises(ArchiveMismatchError, match="a, offsets 0 to 5: 2 messages are missing and 0 are there more"):
        checked_ranges([wanted("a", 0, 5)], found)
    (one,) = checked_ranges([wanted("a", 0, 5)], [*found, missing("a", 2, 4)])
    assert one.missing == ((2, 4, "damaged"),)
    with pytest.raises(ArchiveMismatchError, match="0 messages are missing and 2 are there more than once"):
        checked_ranges([wanted("a", 0, 5)], [*found, missing("a", 2, 4), missing("a", 3, 5)])


def test_offsets_that_were_never_used_are_not_missed_and_have_no_rows(tmp_path: Path) -> None:
    far = 1 << 40
    found = [*written(tmp_path, [row("a", offset) for offset in (0, 1, far, far + 2)]), missing("a", far + 1, far + 2)]
    whole = wanted("a", 0, far + 3)
    (one,) = checked_ranges([replace(whole, unused=((2, far),))], found)
    gaps = [(gap.first_offset, gap.next_offset, gap.reason) for gap in gaps_of(one, 0)]
    assert (one.rows, gaps) == (4, [(2, far, "absent"), (far + 1, far + 2, "damaged")])
    with pytest.raises(ArchiveMismatchError, match="1 messages are missing"):
        checked_ranges([replace(whole, unused=((3, far),))], found)
    with pytest.raises(ArchiveMismatchError, match="1 are there more than once, or have offsets of no message"):
        checked_ranges([replace(whole, unused=((1, far),))], found)


def test_what_comes_twice_or_from_elsewhere_is_refused(tmp_path: Path) -> None:
    twice = [*written(tmp_path, [row("a", 0), row("a", 1)]), *written(tmp_path, [row("a", 1)])]
    with pytest.raises(ArchiveMismatchError, match="1 are there more than once"):
        checked_ranges([wanted("a", 0, 2)], twice)
    with pytest.raises(ArchiveMismatchError, match="offsets 1 to 2 were written"):
        checked_ranges([wanted("a", 0, 1)], written(tmp_path, [row("a", 1)]))


def test_a_store_that_refuses_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(b"a file where the directory should be")
    with pytest.raises(Exception, match="archive/a"):
        written(tmp_path, [row("a", 0)])
