"""An archive's manifest: its counts add up, its gaps have reasons, and what is not one is not taken for one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from queue_engine.pipeline.archive.manifest import (
    ArchivedFile,
    ArchiveGap,
    ArchiveManifest,
    archive_folder,
    list_archives,
    read_archive,
    with_gaps_to,
    write_archive,
)
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.vocabulary.errors import LakeDamagedError
from queue_engine.wire.cursor import CursorGapStats, CursorStats


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(str(tmp_path))
    with lake.lock():
        yield lake


def manifest(*, number: int = 3, begin: int = 0, next_offset: int = 0, **changes: Any) -> ArchiveManifest:
    return ArchiveManifest("orders", number, 0xABC, begin, next_offset, **changes)


def file(first: int, after: int, rows: int) -> ArchivedFile:
    return ArchivedFile("date=2026-11-20/hour=10/a.parquet", "2026-11-20", "10", first, after, rows, 9, 1, 2, 0)


def cursor(offset: int, *gaps: tuple[int, int, str]) -> CursorStats:
    return CursorStats(
        cursor="archive",
        topic="orders",
        number=3,
        id_base=0xABC,
        offset=offset,
        end_offset=offset,
        synced_offset=offset,
        oldest_offset=0,
        depth=0,
        lag_bytes=0,
        retention_bytes=0,
        created_ms=1,
        is_warned=False,
        gaps=tuple(CursorGapStats(first, after, reason, 7) for first, after, reason in gaps),
    )


def gaps_of(one: ArchiveManifest) -> list[tuple[int, int, str, int]]:
    return [(gap.first_offset, gap.next_offset, gap.reason, gap.at_ms) for gap in one.gaps]


def test_it_comes_back_as_it_was_written(lake: Lake) -> None:
    whole = manifest(
        next_offset=10,
        files=(file(0, 8, 6),),
        gaps=(ArchiveGap(3, 4, "damaged", 5),),
        damaged_count=1,
        replayed_skipped=3,
        closed_ms=8,
    )
    write_archive(lake, whole)
    assert read_archive(lake, "orders", 3, 0xABC) == whole
    assert read_archive(lake, "orders", 4, 0xABC) is None
    assert list(list_archives(lake)) == list(list_archives(lake, "orders")) == [whole]
    assert list(list_archives(lake, "others")) == []


@pytest.mark.parametrize("next_offset", [9, 11])
def test_counts_that_do_not_add_up_are_never_written(lake: Lake, next_offset: int) -> None:
    wrong = manifest(next_offset=next_offset, files=(file(0, 10, 7),), replayed_skipped=3)
    with pytest.raises(LakeDamagedError, match="7 rows, 3 replayed and 0 in gaps: 10, which does not add up"):
        write_archive(lake, wrong)
    assert read_archive(lake, "orders", 3, 0xABC) is None


@pytest.mark.parametrize("change", [{"version": 2}, {"files": [{"path": "x"}]}, {"unknown": 1}])
def test_what_has_other_fields_is_not_taken_for_one(lake: Lake, change: dict[str, Any]) -> None:
    write_archive(lake, manifest())
    path = f"{archive_folder('orders', 3, 0xABC)}/manifest.json"
    lake.write_manifest(path, (lake.read_manifest(path) or {}) | change)
    with pytest.raises(LakeDamagedError, match="orders/3-0000000000000abc"):
        read_archive(lake, "orders", 3, 0xABC)


@pytest.mark.parametrize("name", ["..", "a/b", "", "a\n"])
def test_no_name_leads_out_of_the_archive(name: str) -> None:
    with pytest.raises(AssertionError):
        archive_folder(name, 1, 1)


def test_where_a_cursor_was_cut_off_its_own_reason_is_taken() -> None:
    passed = with_gaps_to(manifest(next_offset=100), cursor(500, (20, 300, "retention"), (300, 400, "lost")), 500, 9)
    assert gaps_of(passed) == [(100, 300, "retention", 7), (300, 400, "lost", 7), (400, 500, "off", 9)]
    assert passed.next_offset == 500


def test_before_a_cut_the_archive_was_off() -> None:
    passed = with_gaps_to(manifest(next_offset=100), cursor(300, (200, 300, "retention")), 300, 9)
    assert gaps_of(passed) == [(100, 200, "off", 9), (200, 300, "retention", 7)]


def test_what_the_log_has_let_go_of_ahead_of_the_cursor_is_gone() -> None:
    assert gaps_of(with_gaps_to(manifest(next_offset=100), cursor(100), 150, 9)) == [(100, 150, "gone", 9)]


def test_gaps_that_touch_are_one() -> None:
    passed = manifest(next_offset=5).with_gap(8, "absent", 1).with_gap(9, "absent", 2).with_gap(10, "off", 3)
    assert gaps_of(passed) == [(5, 9, "absent", 1), (9, 10, "off", 3)]
