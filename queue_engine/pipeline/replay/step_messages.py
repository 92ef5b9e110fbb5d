"""Reads the messages of a replay's steps from the archive's files, without Spark.

A step names a range of rows; rows.json says which of them match. Their count and bytes are compared with the plan's: a
step that differs is not published.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.disk.no_follow import refuse_link
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.pipeline.replay.plan import ReplayPlan, ReplayStep, unpacked_rows
from queue_engine.vocabulary.errors import PipelineError


class StepMessages:
    """Reads one step after the other. Keeps one row group of one file in memory, so steps should be read in order."""

    def __init__(self, lake: Lake, plan: ReplayPlan, rows: Sequence[str]) -> None:
        """rows: one text of `packed_rows` for each step of the plan."""
        self._lake = lake
        self._plan = plan
        self._rows = rows
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

    def messages(self, number: int) -> tuple[list[bytes], list[bytes]]:
        """Bodies, and keys (b"" for none), of a step by its number.

        Raises PipelineError when they differ from the plan, OSError."""
        step = self._plan.steps[number]
        bodies: list[bytes] = []
        keys: list[bytes] = []
        matches = unpacked_rows(step, self._rows[number])
        for piece in self._pieces(step):
            chosen = piece.filter(pa.array(matches[: piece.num_rows]))
            matches = matches[piece.num_rows :]
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
        refuse_link(path)
        self._file = pq.ParquetFile(path)
        self._file_number = number
        self._starts = [0]
        for group in range(self._file.metadata.num_row_groups):
            self._starts.append(self._starts[-1] + self._file.metadata.row_group(group).num_rows)

    def _row_group(self, number: int) -> pa.Table:
        if number != self._group_number or self._group is None:
            assert self._file is not None
            self._group = None  # frees the old group before the next one is read
            self._group = self._file.read_row_group(number, columns=["body", "key"])
            self._group_number = number
        return self._group
