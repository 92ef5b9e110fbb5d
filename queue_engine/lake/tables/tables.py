"""The tables of a lake, opened once and cached while they are used."""

import random
import threading
import time
from collections.abc import Callable, Collection, Sequence

import pyarrow as pa

from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.table import LakeTable
from queue_engine.vocabulary.clock import Clock

# The memory of the opened tables, estimated: measured with deltalake 1.6 by
# `python -m tests.benchmarks.table_commits`.
OPEN_BYTES_MAX = 256 << 20
TABLE_BYTES = 35_000
FILE_BYTES = 500
# So many calls of `open` come between two counts.
COUNTED_EACH = 100


class LakeTables:
    """The tables of one storage, open as far as memory allows; several threads may use it.

    When they have more than `open_bytes_max`, some of them are closed, by chance: a round goes through all tables in
    one order, so the one that was not used for longest would always be the next. A closed table opens itself again.

    is_holder: whether this process holds the lake (lake_lock.py), and so mends tables after a power cut. On a
    disk all others only read.
    """

    def __init__(
        self,
        storage: TableStorage,
        *,
        is_holder: bool = True,
        clock: Clock | None = None,
        wait: Callable[[float], None] = time.sleep,
        open_bytes_max: int = OPEN_BYTES_MAX,
    ) -> None:
        """wait: sleeps so many seconds. open_bytes_max: of all opened tables."""
        self.storage = storage
        self._is_holder = is_holder
        self._clock = clock
        self._wait = wait
        self._open_bytes_max = open_bytes_max
        self._lock = threading.Lock()
        self._tables: dict[str, LakeTable] = {}
        self._calls = 0

    def open(
        self,
        path: str,
        schema: pa.Schema,
        partition_by: Sequence[str] = ("date",),
        *,
        later: Collection[str] = (),
    ) -> LakeTable:
        """The table at `path` in the storage, there or not: its first commit creates it. schema, later: as of
        `LakeTable`.

        Sends no request to the store yet."""
        with self._lock:
            self._calls += 1
            if self._calls % COUNTED_EACH == 0:
                self._make_room()
            table = self._tables.get(path)
            if table is None or (table.schema, table.partition_by, table.later) != (
                schema,
                tuple(partition_by),
                frozenset(later),
            ):
                table = LakeTable(
                    self.storage,
                    path,
                    schema,
                    partition_by,
                    later=later,
                    is_holder=self._is_holder,
                    clock=self._clock,
                    wait=self._wait,
                )
                self._tables[path] = table
            return table

    def open_bytes(self) -> int:
        """The memory of the opened tables, estimated."""
        return sum(_bytes_of(one) for one in self._tables.values())

    def _make_room(self) -> None:
        too_much = self.open_bytes() - self._open_bytes_max
        opened = [one for one in self._tables.values() if one.file_count is not None] if too_much > 0 else []
        random.shuffle(opened)
        for table in opened:
            if too_much <= 0:
                break
            size = _bytes_of(table)
            if table.close():
                too_much -= size


def _bytes_of(table: LakeTable) -> int:
    count = table.file_count
    return 0 if count is None else TABLE_BYTES + FILE_BYTES * count
