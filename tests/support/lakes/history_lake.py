"""History as the pipeline leaves it: two Delta tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from queue_engine.lake.history.day_files import write_batches
from queue_engine.lake.history.levels import DAY_S
from queue_engine.lake.history.schema import HISTORY_ROWS, TABLE_ROWS
from queue_engine.lake.tables.parquet_files import DataFile
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables

GAUGES = ("waiting", "depth", "in_flight", "deferred", "clients", "disk_bytes", "oldest_age_ms")
COUNTERS = ("messages", "message_bytes", "finished", "requeued", "timeouts", "disconnects")


def window(t: int, topic: str = "", channel: str = "", **given: Any) -> dict[str, Any]:
    """A row: a gauge given as a number is steady over the window, as a triple it is least, most and average."""
    row: dict[str, Any] = {"t": t, "node": "here", "topic": topic, "channel": channel, "samples": 6}
    for gauge in GAUGES:
        value = given.pop(gauge, 0.0)
        least, most, average = value if isinstance(value, tuple) else (value, value, value)
        row |= {f"{gauge}_min": least, f"{gauge}_max": most, f"{gauge}_avg": average, f"{gauge}_last": average}
    row |= dict.fromkeys(COUNTERS, 0) | {"paused_samples": 0, "latency": []}
    if unknown := given.keys() - row.keys():
        raise TypeError(f"a window has no {', '.join(unknown)}")
    return row | given


class HistoryLake:
    """The history's tables below a data directory, which the pipeline need not hold."""

    def __init__(self, data_path: Path) -> None:
        self.directory = data_path / "pipeline" / "history"
        self._storage = TableStorage(str(self.directory))
        tables = LakeTables(self._storage)
        self._tables = {level: tables.open(level, TABLE_ROWS) for level in ("minutes", "hours")}

    def add(self, level: str, rows: Sequence[dict[str, Any]]) -> Path:
        """Commit files of these rows, one a day, sorted as they are to be. Returns the last one's path."""
        ordered = sorted(rows, key=lambda row: (row["t"] // DAY_S, row["topic"], row["channel"], row["t"]))
        batches = pa.Table.from_pylist(ordered, HISTORY_ROWS).to_batches()
        files = list(write_batches(self._storage, level, batches))
        self.commit(level, files)
        return self.directory / level / files[-1].path

    def commit(self, level: str, files: Sequence[DataFile] = (), *, remove: Sequence[Path] = ()) -> None:
        """Commit files that lie below the table, and take others out of it."""
        table = self._tables[level]
        known = table.transaction("test")
        gone = [str(path.relative_to(self.directory / level)) for path in remove]
        table.commit(files, "test", (known or 0) + 1, after=known, remove=gone)
