"""The messages of a replay's steps, read from the archive's files without Spark.

A step names a range of rows; which of them match is decided by the same request that planned it. What comes out is
checked against the plan's count and bytes: where it differs, nothing of the step is published.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from queue_engine.disk.own_files import check_own
from queue_engine.pipeline.expression.rows import row_predicate
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.pipeline.replay.plan import ReplayPlan, ReplayStep
from queue_engine.pipeline.source.arrow_schemas import TIMESTAMP
from queue_engine.vocabulary.errors import PipelineError

_US_PER_MS = 1000


class ReplayRows:
    """Reads one step after the other. Holds one row group of one file, so steps are best asked for in order."""

    def __init__(self, lake: Lake, plan: ReplayPlan) -> None:
        self._lake = lake
        self._plan = plan
        expression = plan.request.check()
        self._matches = None if expression is None else row_predicate(expression)
        self._expression_columns = () if expression is None else sorted(expression.columns - {"topic"})
        self._columns = sorted({"body", "key", "published_at", *self._expression_columns})
        self._file: pq.ParquetFile | None = None
        self._file_number = -1
        self._starts: list[int] = []
        self._group_number = -1
        self._group: pa.Table | None = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._group = None
        self._file_number = self._group_number = -1

    def messages(self, step: ReplayStep) -> tuple[list[bytes], list[bytes]]:
        """Bodies, and keys (b"" for none). Raises PipelineError when they are not what was planned, OSError."""
        bodies: list[bytes] = []
        keys: list[bytes] = []
        for piece in self._pieces(step):
            chosen = self._chosen(piece)
            bodies += chosen.column("body").to_pylist()
            keys += [key or b"" for key in chosen.column("key").to_pylist()]
        found = (len(bodies), sum(map(len, bodies)))
        if found != (step.count, step.bytes):
            raise PipelineError(
                f"rows {step.first_row} to {step.next_row} of {self._plan.files[step.file][0]} are {found[0]} messages "
                f"of {found[1]} bytes, and were {step.count} of {step.bytes} when the replay "
                f"{self._plan.request.replay_id} was planned: plan another one"
            )
        return bodies, keys

    def _pieces(self, step: ReplayStep) -> list[pa.Table]:
        """The rows of a step, one table for each row group that they lie in."""
        self._open(step.file)
        pieces = []
        for number, start in enumerate(self._starts[:-1]):
            first, after = max(step.first_row, start), min(step.next_row, self._starts[number + 1])
            if first < after:
                pieces.append(self._row_group(number).slice(first - start, after - first))
        return pieces

    def _open(self, number: int) -> None:
        if number == self._file_number:
            return
        self.close()
        path = Path(self._lake.within(self._plan.files[number][0]))
        check_own(path)
        self._file = pq.ParquetFile(path)
        self._file_number = number
        self._starts = [0]
        for group in range(self._file.metadata.num_row_groups):
            self._starts.append(self._starts[-1] + self._file.metadata.row_group(group).num_rows)

    def _row_group(self, number: int) -> pa.Table:
        if number != self._group_number or self._group is None:
            assert self._file is not None
            self._group = None  # two of them at once are not needed
            self._group = self._file.read_row_group(number, columns=self._columns)
            self._group_number = number
        return self._group

    def _chosen(self, table: pa.Table) -> pa.Table:
        request = self._plan.request
        times = table.column("published_at").cast(TIMESTAMP)
        if request.start_time_ms is not None:
            start = pa.scalar(request.start_time_ms * _US_PER_MS, pa.int64()).cast(TIMESTAMP)
            table = table.filter(pc.greater_equal(times, start))
            times = table.column("published_at").cast(TIMESTAMP)
        if request.end_time_ms is not None:
            end = pa.scalar(request.end_time_ms * _US_PER_MS, pa.int64()).cast(TIMESTAMP)
            table = table.filter(pc.less(times, end))
        if request.key:
            table = table.filter(pc.equal(table.column("key"), pa.scalar(request.key.encode(), pa.binary())))
        if self._matches is not None and table.num_rows:
            rows: list[dict[str, Any]] = (
                table.select(self._expression_columns).to_pylist()
                if self._expression_columns
                else [{} for _ in range(table.num_rows)]
            )
            table = table.filter(pa.array([self._matches(row | {"topic": request.topic}) for row in rows]))
        return table
