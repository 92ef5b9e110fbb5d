"""Archives of earlier versions become tables: their files stay, nothing is lost, also when it is killed at any step."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from queue_engine.disk.files import Files
from queue_engine.pipeline.archive.archive_table import FILE_COLUMNS, archive_table
from queue_engine.pipeline.archive.conversion import convert_archives
from queue_engine.pipeline.archive.old_manifest import check_converted, old_folders
from queue_engine.pipeline.archive.summary import read_summary
from queue_engine.pipeline.convert import convert
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.pipeline.tables.storage import TableStorage
from queue_engine.pipeline.tables.tables import LakeTables
from queue_engine.vocabulary.errors import LakeDamagedError, NotConvertedError
from tests.pipeline.archive_reading import Archived, archive_of, archives
from tests.pipeline.dying_files import DyingFiles, Kill
from tests.support.clock import ManualClock

SERVER = "5f1c"
AT = datetime(2026, 3, 1, 14, 30, tzinfo=UTC)
AT_MS = int(AT.timestamp() * 1000)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(str(tmp_path / "data" / "pipeline"), clock=ManualClock())
    with lake.lock():
        old_archive(lake, "orders", 3, 0xABC)
        old_archive(lake, "orders", 4, 0xDEF, closed_ms=5)
        old_archive(lake, "clicks", 5, 0x123)
        yield lake


def old_archive(lake: Lake, topic: str, number: int, id_base: int, **fields: Any) -> None:
    """As the versions before tables wrote one: 30 messages from offset 10 to 50 in two files, with gaps."""
    folder = f"archive/{topic}/{number}-{id_base:016x}"
    files = []
    for hour, first, after in ((14, 10, 20), (15, 25, 45)):
        path = f"date=2026-03-01/hour={hour}/g000001-000000-{first}-{after}-000.parquet"
        place = Path(lake.within(f"{folder}/{path}"))
        place.parent.mkdir(parents=True, exist_ok=True)
        offsets = list(range(first, after))
        columns = [
            offsets,
            [AT.replace(hour=hour)] * len(offsets),
            [f"{id_base + offset:016x}" for offset in offsets],
            [b"k" if offset % 2 else None for offset in offsets],
            [b"%d" % offset for offset in offsets],
            [False] * len(offsets),
        ]
        schema = pa.schema([field for field in FILE_COLUMNS if field.name != "server"])
        table = pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)
        pq.write_table(table, place, compression="zstd")
        at_ms = AT_MS + (hour - 14) * 3_600_000
        files.append(
            {
                "path": path,
                "date": "2026-03-01",
                "hour": f"{hour}",
                "first_offset": first,
                "next_offset": after,
                "rows": after - first,
                "bytes": place.stat().st_size,
                "first_time_ms": at_ms,
                "last_time_ms": at_ms,
                "replayed_rows": 0,
            }
        )
    content = {
        "version": 1,
        "topic": topic,
        "number": number,
        "id_base": id_base,
        "begin_offset": 10,
        "next_offset": 50,
        "step": 2,
        "files": files,
        "gaps": [{"first_offset": 20, "next_offset": 25, "reason": "retention", "at_ms": AT_MS}],
        "damaged_count": 0,
        "replayed_skipped": 5,
        "updated_ms": AT_MS,
        "closed_ms": None,
    }
    lake.write_manifest(f"{folder}/manifest.json", content | fields)


def tables_of(lake: Lake, files: Files | None = None) -> LakeTables:
    return LakeTables(TableStorage(lake.path, files=files), clock=ManualClock())


def check_all(lake: Lake) -> None:
    found = archives(lake)
    assert [(one.identity.topic, one.identity.number) for one in found] == [("clicks", 5), ("orders", 3), ("orders", 4)]
    for one in found:
        check_one(one)


def check_one(one: Archived) -> None:
    assert (one.begin_offset, one.next_offset) == (10, 50)
    assert one.bodies == [b"%d" % offset for offset in (*range(10, 20), *range(25, 45))]
    assert [(gap.reason, gap.count) for gap in one.gaps] == [("replayed", 5), ("retention", 5)]
    assert one.rows.column("server").null_count == 30


def test_files_stay_and_count_in_the_table(lake: Lake) -> None:
    before = {path: path.read_bytes() for path in Path(lake.path).rglob("*") if path.is_file()}
    with pytest.raises(NotConvertedError, match="clicks and 2 more was written by an earlier version: stop the server"):
        check_converted(lake, tables_of(lake), SERVER)
    said: list[str] = []
    assert convert_archives(lake, tables_of(lake), SERVER, ManualClock(), said.append) == (3, 90)
    assert said[0] == f"archive/clicks/5-{0x123:016x}: 30 messages in 2 files, up to offset 50"
    check_all(lake)
    check_converted(lake, tables_of(lake), SERVER)
    assert all(path.read_bytes() == data for path, data in before.items() if path.name != "lock")
    assert {name: one.rows for name, one in (read_summary(lake) or {}).items()} == {"orders": 60, "clicks": 30}
    # Once more does nothing, and other readers find the rows by the table's own list.
    assert convert_archives(lake, tables_of(lake), SERVER, ManualClock(), said.append) == (0, 0)
    table = archive_table(tables_of(lake), "orders")
    assert table.version == 2
    assert {file.partition["date"] for file in table.files()} == {"2026-03-01"}


def test_killed_at_every_step_it_is_done_by_the_next_run(tmp_path: Path) -> None:
    for number in range(1, 1_000):
        lake = Lake(str(tmp_path / f"{number}" / "pipeline"), clock=ManualClock())
        with lake.lock():
            old_archive(lake, "orders", 3, 0xABC)
            dying = DyingFiles(number)
            try:
                convert_archives(lake, tables_of(lake, dying), SERVER, ManualClock(), lambda _: None)
            except Kill:
                pass
            convert_archives(lake, tables_of(lake), SERVER, ManualClock(), lambda _: None)
            check_one(archive_of(lake, "orders"))
            if dying.left > 0:
                break
    assert number > 10


def test_a_lake_elsewhere_gets_copies(lake: Lake, tmp_path: Path) -> None:
    tables = LakeTables(TableStorage(tmp_path / "lake"), clock=ManualClock())
    assert convert_archives(lake, tables, SERVER, ManualClock(), lambda _: None) == (3, 90)
    check_all(Lake(str(tmp_path / "lake")))
    assert len(list(old_folders(lake))) == 3


@pytest.mark.parametrize("change", ["missing", "shorter", "manifest", "damaged"])
def test_an_archive_that_is_not_as_its_manifest_says_is_refused_and_others_are_converted(
    lake: Lake, change: str
) -> None:
    folder = f"archive/orders/4-{0xDEF:016x}"
    (path, *_) = sorted(Path(lake.within(folder)).rglob("*.parquet"))
    if change == "missing":
        path.unlink()
    elif change == "shorter":
        pq.write_table(pq.read_table(path).slice(1), path)
    elif change == "damaged":
        Path(lake.within(f"{folder}/manifest.json")).write_bytes(b"{")
    else:
        content = lake.read_manifest(f"{folder}/manifest.json") or {}
        lake.write_manifest(f"{folder}/manifest.json", {**content, "next_offset": 51})
    said: list[str] = []
    with pytest.raises(LakeDamagedError):
        convert_archives(lake, tables_of(lake), SERVER, ManualClock(), said.append)
    assert archive_of(lake, "clicks").next_offset == 50
    assert [one.identity.number for one in archives(lake, "orders")] == [3]
    assert said[-1].startswith(f"{folder} is not converted: ")
    with pytest.raises(NotConvertedError, match="the archive of orders was written"):
        check_converted(lake, tables_of(lake), SERVER)


def test_manifests_of_converted_archives_are_not_needed_any_more(lake: Lake) -> None:
    convert_archives(lake, tables_of(lake), SERVER, ManualClock(), lambda _: None)
    for path in Path(lake.path).rglob("manifest.json"):
        path.write_bytes(b"damaged")
    check_converted(lake, tables_of(lake), SERVER)
    assert convert_archives(lake, tables_of(lake), SERVER, ManualClock(), lambda _: None) == (0, 0)


def test_a_history_that_cannot_be_read_keeps_no_archive_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pipeline").mkdir()
    done: list[bool] = []

    def refuse(*_: object) -> bool:
        raise LakeDamagedError("the history is damaged")

    monkeypatch.setattr(convert, "CONVERTERS", (refuse, lambda *_: done.append(True) or True))
    assert convert.main([f"--data-path={tmp_path}"]) == 2
    assert done == [True]
    assert capsys.readouterr().err == "penstock: the history is damaged\n"


def test_the_command_needs_a_server_that_has_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = Lake(str(tmp_path / "pipeline"))
    with lake.lock():
        old_archive(lake, "orders", 3, 0xABC)
    assert convert.main([f"--data-path={tmp_path}"]) == 2
    assert "has no identity yet: start the server once" in capsys.readouterr().err
