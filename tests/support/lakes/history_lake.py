"""History as the pipeline leaves it: Parquet files in a lake, named by their manifest."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.disk.checked_line import encode_line

GAUGES = ("waiting", "depth", "in_flight", "deferred", "clients", "disk_bytes", "oldest_age_ms")
COUNTERS = ("messages", "message_bytes", "finished", "requeued", "timeouts", "disconnects")
SCHEMA = pa.schema(
    [
        pa.field("t", pa.int64(), nullable=False),
        ("node", pa.string()),
        ("topic", pa.string()),
        ("channel", pa.string()),
        ("samples", pa.int32()),
        *((f"{gauge}_{kind}", pa.float64()) for gauge in GAUGES for kind in ("min", "max", "avg", "last")),
        *((counter, pa.int64()) for counter in COUNTERS),
        ("paused_samples", pa.int32()),
        ("latency", pa.list_(pa.struct([("b", pa.int32()), ("n", pa.int64())]))),
    ]
)


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
    """A lake below a data directory, which the pipeline need not hold."""

    def __init__(self, data_path: Path) -> None:
        self.directory = data_path / "pipeline" / "history"
        self.files: list[dict[str, Any]] = []
        self.closed_until_s = 0

    def add(self, level: str, rows: Sequence[dict[str, Any]], *, kind: str = "day") -> Path:
        """Write a file of these rows, sorted as they are to be, and name it in the manifest."""
        (self.directory / level).mkdir(parents=True, exist_ok=True)
        path = self.directory / level / f"g000001-{len(self.files):06d}-{kind}.parquet"
        ordered = sorted(rows, key=lambda row: (row["topic"], row["channel"], row["t"]))
        pq.write_table(pa.Table.from_pylist(ordered, SCHEMA), path, compression="zstd", row_group_size=65_536)
        window_s = 60 if level == "minutes" else 3_600
        self.name(path, level, kind, min(row["t"] for row in rows), max(row["t"] for row in rows) + window_s, len(rows))
        return path

    def name(self, path: Path, level: str, kind: str, first_s: int, end_s: int, rows: int) -> None:
        """Name a file that lies below the lake's history in the manifest."""
        self.files.append(
            {
                "level": level,
                "kind": kind,
                "path": str(path.relative_to(self.directory)),
                "first_s": first_s,
                "end_s": end_s,
                "rows": rows,
                "bytes": path.stat().st_size,
                "day": None,
            }
        )
        self.write_manifest()

    def write_manifest(self) -> None:
        content = {
            "version": 1,
            "step": len(self.files),
            "samples_offset": 0,
            "closed_until_s": self.closed_until_s,
            "files": self.files,
        }
        (self.directory / "manifest.json").write_bytes(encode_line(content))
