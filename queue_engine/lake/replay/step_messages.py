"""Reads the messages of a replay's steps from the archive, without Spark.

A step names offsets, which are looked up in the files that the table has now. A file that compaction has replaced and
vacuum has removed meanwhile is not missed: the table is read anew, and another file has its messages.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from queue_engine.lake.archive.archive_files import ArchiveFile, file_error, files_of, offset_bounds
from queue_engine.lake.archive.archive_table import ArchivedIdentity, archive_table
from queue_engine.lake.replay.plan import Offsets, ReplayStep, unpacked_offsets
from queue_engine.lake.tables.store_errors import table_error
from queue_engine.lake.tables.table_files import TableFile
from queue_engine.lake.tables.tables import LakeTables

# How often the table is read anew because a file is gone.
TRIES = 3
_COLUMNS = ("key", "body")


class StepMessages:
    """Reads one step after the other. Caches the row groups of the last step, so steps should be
    read in order."""

    def __init__(
        self, tables: LakeTables, source: ArchivedIdentity, steps: Sequence[ReplayStep], rows: Sequence[str]
    ) -> None:
        """source: the topic that was archived. rows: one text of `packed_offsets` for each step."""
        self._storage = tables.storage
        self._source = source
        self._table = archive_table(tables, source.topic)
        self._steps = steps
        self._rows = rows
        self._files: list[TableFile] | None = None
        self._opened: dict[str, ArchiveFile] = {}
        self._groups: dict[tuple[str, int], pa.Table] = {}

    def close(self) -> None:
        for file in self._opened.values():
            file.close()
        self._opened.clear()
        self._groups.clear()
        self._files = None

    def messages(self, number: int) -> tuple[list[bytes], list[bytes]]:
        """Bodies, and keys (b"" for none), of a step by its number, in the order of their offsets; fewer when the
        archive does not have them all any longer. Raises StoreError, TableError."""
        step = self._steps[number]
        offsets = unpacked_offsets(step, self._rows[number])
        for left in reversed(range(TRIES)):
            try:
                return self._read(step, offsets)
            except FileNotFoundError as exc:
                self.close()
                if not left:
                    raise file_error(exc, self._table.place, exc.filename or "") from exc
            except (OSError, pa.ArrowException) as exc:
                self.close()
                raise table_error(exc, self._table.place) from exc
        raise AssertionError("unreachable")

    def _read(self, step: ReplayStep, offsets: Offsets) -> tuple[list[bytes], list[bytes]]:
        pieces = []
        for key in self._places(step):
            rows = self._group(key)
            found = rows.column("offset").to_numpy()
            at = np.searchsorted(found, offsets)
            at = at[(at < len(found)) & (found[np.minimum(at, len(found) - 1)] == offsets)] if len(found) else at[:0]
            if len(at):
                pieces.append(rows.take(pa.array(at)))
        if not pieces:
            return [], []
        chosen = pa.concat_tables(pieces).sort_by("offset")
        return chosen.column("body").to_pylist(), [key or b"" for key in chosen.column("key").to_pylist()]

    def _places(self, step: ReplayStep) -> list[tuple[str, int]]:
        """The files and row groups that may have messages of a step; others leave the cache."""
        if self._files is None:
            self._table.refresh()
            self._files = files_of(self._table, self._source)
        first, after = step.first_offset, step.next_offset
        bounds = ((one.path, *offset_bounds(one)) for one in self._files)
        paths = [path for path, low, high in bounds if low < after and high >= first]
        for path in [path for path in self._opened if path not in paths]:
            self._opened.pop(path).close()
        for path in paths:
            if path not in self._opened:
                self._opened[path] = ArchiveFile(self._storage, self._source, path)
        places = [(path, group) for path in paths for group in self._opened[path].groups_between(first, after)]
        self._groups = {key: self._groups[key] for key in places if key in self._groups}
        return places

    def _group(self, key: tuple[str, int]) -> pa.Table:
        if key not in self._groups:
            self._groups[key] = self._opened[key[0]].rows(key[1], _COLUMNS)
        return self._groups[key]
