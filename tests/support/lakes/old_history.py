"""A history as versions before the tables left it: files, and the manifest that names them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.disk.checked_line import encode_line
from queue_engine.pipeline.history.schema import HISTORY_ROWS


class OldHistoryLake:
    """The history below the pipeline's directory `lake_path`, as version 1 of the manifest has it."""

    def __init__(self, lake_path: Path) -> None:
        self.directory = lake_path / "history"
        self.files: list[dict[str, Any]] = []
        self.closed_until_s = 0
        self.rollup: dict[str, Any] | None = None

    def add(self, level: str, rows: Sequence[dict[str, Any]], *, kind: str = "day") -> Path:
        """Write a file of these rows, sorted as they are to be, and name it in the manifest."""
        (self.directory / level).mkdir(parents=True, exist_ok=True)
        path = self.directory / level / f"g000001-{len(self.files):06d}-{kind}.parquet"
        ordered = sorted(rows, key=lambda row: (row["topic"], row["channel"], row["t"]))
        pq.write_table(pa.Table.from_pylist(ordered, HISTORY_ROWS), path, compression="zstd")
        times = [row["t"] for row in rows]
        self.files.append(
            {
                "level": level,
                "kind": kind,
                "path": str(path.relative_to(self.directory)),
                "first_s": min(times),
                "end_s": max(times) + (60 if level == "minutes" else 3_600),
                "rows": len(rows),
                "bytes": path.stat().st_size,
                "day": None,
                "source": "stream" if kind == "fresh" else "raw",
            }
        )
        self.write_manifest()
        return path

    def write_manifest(self, version: int = 1) -> None:
        content = {
            "version": version,
            "step": len(self.files),
            "samples_offset": 0,
            "closed_until_s": self.closed_until_s,
            "rollup": self.rollup,
            "files": self.files,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "manifest.json").write_bytes(encode_line(content))
