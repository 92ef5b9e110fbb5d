"""The archive job without an engine and without Spark: a step writes the files of its ranges by itself."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from queue_engine.lake.archive import archive as archive_module
from queue_engine.lake.archive.archive import Archiver
from queue_engine.lake.archive.archive_table import FILE_COLUMNS, archive_path
from queue_engine.lake.archive.step_check import WrittenRange
from queue_engine.lake.archive.step_writer import StepTarget
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.context import JobContext
from queue_engine.lake.job.state import JobState
from queue_engine.lake.source.wanted_range import WantedRange
from queue_engine.lake.tables.parquet_files import DataFile, write_data_file
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.wire.cursor import CursorStats
from queue_engine.wire.topic_state import TopicState
from tests.support.clock import ManualClock

SERVER = "5f1c"
TIME = datetime(2026, 11, 20, 12, tzinfo=UTC)
REPLAYED_OFFSET = 7
REPLAYED_OFFSETS = {REPLAYED_OFFSET}


class FakeEngine:
    """Topics with messages from offset 0 to their end; the messages REPLAYED_OFFSETS of each were replayed."""

    def __init__(self, ends: dict[str, int]) -> None:
        self.ends = ends
        self.lakes = dict.fromkeys(ends, "")
        self.offsets = dict.fromkeys(ends, 0)
        self.oldest = dict.fromkeys(ends, 0)
        self.name = SERVER
        self.id_base = 0x100

    def server(self) -> str:
        return self.name

    def number(self, topic: str) -> int:
        return 1 + list(self.ends).index(topic)

    def cursor_list(self) -> list[CursorStats]:
        return [
            CursorStats(
                cursor="archive", topic=topic, number=self.number(topic), id_base=self.id_base,
                offset=self.offsets[topic], end_offset=end, synced_offset=end, oldest_offset=self.oldest[topic],
                depth=end - self.offsets[topic],
                lag_bytes=0, retention_bytes=0, created_ms=1, is_warned=False, lake=self.lakes[topic],
            )
            for topic, end in self.ends.items()
        ]  # fmt: skip

    def topic(self, topic: str) -> TopicState:
        end = self.ends[topic]
        oldest = self.oldest[topic]
        return TopicState(
            topic=topic, number=self.number(topic), id_base=self.id_base, oldest_offset=oldest, synced_offset=end,
            end_offset=end,
        )  # fmt: skip

    def records(self, topic: str, offset: int, *, max_bytes: int) -> Any:
        """Each message has 10 bytes in the log."""
        after = min(offset + max_bytes // 10, self.ends[topic])
        return SimpleNamespace(data=b"x" * 10 * (after - offset), next_offset=after)

    def cursor_move(self, topic: str, cursor: str, *, number: int, offset: int, lake: str) -> None:
        self.offsets[topic], self.lakes[topic] = offset, lake


def written(lake: Lake, wanted: WantedRange, target: StepTarget) -> WrittenRange:
    """As `write_step` writes a range."""
    is_left_out = wanted.topic not in target.include_replayed
    wanted_offsets = range(wanted.first_offset, wanted.next_offset)
    offsets = [one for one in wanted_offsets if not is_left_out or one not in REPLAYED_OFFSETS]
    left_out = [[one, one + 1] for one in wanted_offsets if is_left_out and one in REPLAYED_OFFSETS]
    files: tuple[DataFile, ...] = ()
    if offsets:
        count = len(offsets)
        columns = [
            offsets,
            [TIME] * count,
            [f"{wanted.id_base + offset:016x}" for offset in offsets],
            [None] * count,
            [b"%d" % offset for offset in offsets],
            [False] * count,
            [target.server] * count,
        ]
        rows = pa.table(dict(zip(FILE_COLUMNS.names, columns, strict=True)), schema=FILE_COLUMNS)
        path = archive_path(wanted.topic)
        files = (write_data_file(TableStorage(lake.path), path, FILE_COLUMNS, {"date": "2026-11-20"}, [rows]),)
    return WrittenRange(wanted, files, np.array(left_out, np.int64).reshape(-1, 2), ())


@contextmanager
def faked_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A held lake, whose steps are written without Spark."""
    lake = Lake(str(tmp_path / "pipeline"), clock=ManualClock())

    def write(_: Any, __: Any, ranges: Sequence[WantedRange], target: StepTarget, **___: Any) -> list[WrittenRange]:
        return [written(lake, one, target) for one in ranges]

    monkeypatch.setattr(archive_module, "write_step", write)
    with lake.lock():
        yield lake


def archiver(
    lake: Lake,
    engine: FakeEngine,
    clock: ManualClock | None = None,
    report: Callable[[JobState], None] = lambda _: None,
    **given: Any,
) -> Archiver:
    spark: Any = SimpleNamespace()
    client: Any = engine
    context = JobContext(spark, lake, client, clock or ManualClock(), threading.Event(), report)
    return Archiver(context, **given)
