"""The steps of replays that an earlier version planned: ranges of rows in files, which the replays go on with.

    plan.json, version 1: "files": [{"path": relative to the pipeline's directory, "count"}, …],
                          "steps": [[file, first row, next row, count, bytes, first offset, next offset], …]
    rows.json: "rows": [of each step the rows that match: a bit for each, deflated, as base64; "" for all]

The files stay where they were when the archive is converted, until they are compacted and removed.
"""

import zlib
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.disk.no_follow import refuse_link
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.vocabulary.errors import PipelineError


@dataclass(frozen=True, slots=True)
class OldStep:
    """One batch; the fields are drawn above."""

    file: int
    first_row: int
    next_row: int
    count: int
    body_bytes: int
    first_offset: int
    next_offset: int

    def key(self, replay_id: str, path: str) -> bytes:
        """The batch key, as the earlier version made it."""
        parts = (replay_id, path, f"{self.first_row}-{self.next_row}")
        return blake2b("\0".join(parts).encode(), digest_size=16).digest()


class OldStepMessages:
    """Reads the messages of such steps. Keeps one file in memory: steps are read in their order."""

    def __init__(self, lake: Lake, files: Sequence[str], steps: Sequence[OldStep], rows: Sequence[str]) -> None:
        """rows: of rows.json."""
        self._lake = lake
        self._files = files
        self._steps = steps
        self._rows = rows
        self._path = ""
        self._table: pa.Table | None = None

    def close(self) -> None:
        self._table = None

    def messages(self, number: int) -> tuple[list[bytes], list[bytes]]:
        """Bodies, and keys (b"" for none), of a step by its number. Raises PipelineError when the file is gone."""
        step = self._steps[number]
        length = step.next_row - step.first_row
        mask = np.ones(length, np.bool_)
        if self._rows[number]:
            bits = np.frombuffer(zlib.decompress(b64decode(self._rows[number])), np.uint8)
            mask = np.unpackbits(bits, count=length).astype(np.bool_)
        rows = self._file(self._files[step.file]).slice(step.first_row, length)
        chosen = rows.filter(pa.array(mask[: rows.num_rows]))
        return chosen.column("body").to_pylist(), [key or b"" for key in chosen.column("key").to_pylist()]

    def _file(self, path: str) -> pa.Table:
        if self._table is None or self._path != path:
            self._table, self._path = None, path
            place = self._lake.within(path)
            try:
                refuse_link(place)
                self._table = pq.ParquetFile(place).read(columns=["body", "key"])
            except FileNotFoundError as exc:
                raise PipelineError(
                    f"{path} is gone, and this replay was planned by an earlier version, which names files: plan"
                    " another one"
                ) from exc
        return self._table
